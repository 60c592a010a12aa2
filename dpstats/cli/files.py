"""What the commands write: opened before the work, whole or not at all, one clear line where that fails."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from dpstats import __version__
from dpstats.data.labels import printable
from dpstats.errors import NotDelivered, refuse

Show = Callable[[Any, dict[str, Any]], None]
"""Shows a result: takes the printed text, and the facts of the JSON output."""


class TableFile(NamedTuple):
    """A file, and the name of its table in a query."""

    name: str
    path: Path

    def __str__(self) -> str:
        return f"{self.name}={self.path}"


def path_or_dash(word: str) -> Path | str:
    """Return the path in a word, or "-", which stands for standard input or output.

    An empty word stays empty.
    """
    return Path(word) if word not in ("", "-") else word


def results_path(ledger: Path) -> Path:
    """Return the file of a ledger's results."""
    return ledger.with_name(f"{ledger.name}.results")


def keep_apart(options: argparse.Namespace) -> None:
    """Refuse one file under two names: a result would replace the data, or a ledger and its charges."""
    seen: list[tuple[str, Path]] = []
    for label, path in _named_files(options):
        for other, known in seen:
            if _same(path, known):
                got = f"{str(path)!r} for both"
                raise refuse(f"{other} and {label}", got=got, allowed="different files")
        seen.append((label, path))


def _named_files(options: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    """Yield every file that the arguments of a command name, and the files next to a ledger."""
    for name, value in vars(options).items():
        for path in _paths(value):
            label = name if name in _POSITIONAL else f"--{name}"
            yield label, path
            if name in _LEDGERS:
                if not path.name:
                    raise refuse(label, got=repr(str(path)), allowed="name a file")
                results = results_path(path)
                yield "the results next to the ledger", results
                for store in (path, results):
                    # SQLite writes this file and removes it, with anything that another option wrote to it.
                    yield f"the journal of {store.name!r}", store.with_name(f"{store.name}-journal")


_POSITIONAL = ("file", "ledger")
_LEDGERS = ("budget", "ledger")


def _paths(value: Any) -> Iterator[Path]:
    if isinstance(value, Path):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _paths(item)


def _same(path: Path, other: Path) -> bool:
    try:
        return os.path.samefile(path, other) and os.path.isfile(
            path
        )  # a device such as /dev/null may be given twice
    except OSError:
        return bool(os.path.realpath(path) == os.path.realpath(other))


@contextlib.contextmanager
def opened(option: str, path: Any) -> Iterator[Callable[[str], None] | None]:
    """Open a file to write to; yield what replaces its text, or None for no path.

    Until then the file stays as it was, and a new one is taken away again.
    """
    if path is None:
        yield None
        return
    new = not os.path.exists(path)
    try:
        file = open(path, "a", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        got = f"{str(path)!r} ({error.strerror})"
        raise refuse(option, got=got, allowed="name a file that can be written") from None

    def write(text: str) -> None:
        try:
            if os.path.isfile(path):  # neither a pipe nor a device
                file.truncate(0)
            file.write(text)
            file.flush()
            with contextlib.suppress(OSError):  # of a pipe or a device
                os.fsync(file.fileno())
        except OSError as error:
            raise NotDelivered(f"{option} {str(path)!r} cannot be written ({error.strerror})") from None

    try:
        yield write
    except BaseException:
        with contextlib.suppress(OSError):
            if new and os.path.getsize(path) == 0:
                os.unlink(path)
        raise
    finally:
        with contextlib.suppress(OSError):
            file.close()  # write() has flushed, or has raised


@contextlib.contextmanager
def output(options: argparse.Namespace) -> Iterator[Show]:
    """Open what ``--json`` names; yield what shows a result there and on the screen.

    The facts of the JSON come after the version and the command, the same for all commands.
    """
    target = options.json
    if sys.stdout is None and target in (None, "-"):
        raise refuse("--json", allowed="name a file for the result, as standard output is closed")
    with opened("--json", None if target == "-" else target) as write:

        def show(table: Any, facts: dict[str, Any]) -> None:
            text = as_json({"dpstats": __version__, "command": command_of(options)} | facts)
            try:
                tell(text if target == "-" else table)
            finally:
                if write is not None:
                    write(text + "\n")

        yield show


def command_of(options: argparse.Namespace) -> str:
    """Return the words of a command, without its options."""
    words = [getattr(options, name, None) for name in ("command", "planned", "sampled", "action")]
    return " ".join(word for word in words if word)


def notice(options: argparse.Namespace, text: str) -> None:
    """Print a remark to standard error, in addition to the result. ``--quiet`` suppresses it."""
    if not options.quiet:
        tell_error(printable(f"dpstats {command_of(options)}: {text}", lines=True))


def shows_progress(options: argparse.Namespace) -> bool:
    """Return whether bars are drawn: where somebody looks at them, and not in logs."""
    return not options.quiet and sys.stderr is not None and sys.stderr.isatty()


def as_json(facts: Any) -> str:
    """Return JSON that every reader takes: it has no infinite numbers, which are the words "Infinity" and "NaN".

    Dates are ISO text.
    """
    return json.dumps(_spelled(facts), indent=2, allow_nan=False)


def _spelled(facts: Any) -> Any:
    if hasattr(facts, "tolist"):  # of numpy
        facts = facts.tolist()
    if isinstance(facts, Mapping):
        return {str(key): _spelled(value) for key, value in facts.items()}
    if isinstance(facts, list | tuple):
        return [_spelled(value) for value in facts]
    if isinstance(facts, float) and not math.isfinite(facts):
        return json.dumps(facts)
    if isinstance(facts, date):
        return facts.isoformat()
    return facts


def tell(text: Any) -> None:
    """Print a result and flush it; characters that the terminal cannot show, or would obey, are escaped."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        print(
            printable(str(text), lines=True).encode(encoding, "backslashreplace").decode(encoding), flush=True
        )
    except OSError as error:
        drop_stream(sys.stdout)
        raise NotDelivered(f"the result cannot be printed ({error.strerror})") from None


def tell_error(text: str) -> None:
    """Print a line on standard error. A closed standard error does not change the exit status."""
    if sys.stderr is None:
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        drop_stream(sys.stderr)


def drop_stream(stream: TextIO) -> None:
    """Drop what cannot be printed: the interpreter would try again at exit, and fail with a traceback."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
