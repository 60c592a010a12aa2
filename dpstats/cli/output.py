"""Exit statuses of commands, what they write, and charged results that are stored until they are delivered."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO
from urllib.parse import urlsplit

from dpstats import __version__
from dpstats.data.parameters import printable
from dpstats.errors import (
    BudgetExceeded,
    ChargedError,
    Exhausted,
    InvalidData,
    InvalidParameter,
    LedgerError,
    NotDelivered,
    refuse,
    running_accounts,
)

if TYPE_CHECKING:
    import sqlite3

# Exit statuses


class Exit(NamedTuple):
    """An exit status.

    Attributes
    ----------
    status : int
    word, meaning : str
    errors : tuple of types
        What ends a command with it; of two that fit, the first.
    """

    status: int
    word: str
    meaning: str
    errors: tuple[type[BaseException], ...] = ()


EXITS = (
    Exit(0, "done", "everything requested was delivered"),
    Exit(1, "defect", "an error that dpstats did not expect"),
    Exit(2, "usage", "an option or an argument is not allowed; nothing was charged", (InvalidParameter,)),
    Exit(3, "data", "the table cannot be read, or its rows cannot be used; nothing was charged", (InvalidData,)),
    Exit(4, "budget", "the budget cannot pay; nothing was charged", (BudgetExceeded, Exhausted)),
    Exit(5, "violation", "'audit' proves that the claim is false, or 'verify' that a receipt is"),
    Exit(
        6,
        "environment",
        "a ledger, an output, a package that is missing, or memory; nothing was charged",
        (OSError, MemoryError, ImportError),
    ),
    Exit(7, "charged", "a failure after the charge; read the message before you repeat the command", (ChargedError,)),
    Exit(130, "interrupted", "by the keyboard (SIGINT)", (KeyboardInterrupt,)),
)
VIOLATION = 5


def status_of(error: BaseException) -> int:
    """Return the exit status of an error: 1 for an undeclared type."""
    return next((found.status for found in EXITS if isinstance(error, found.errors)), 1)


def epilog() -> str:
    """Return a description of the statuses, for the end of a help text."""
    return "exit status: " + ", ".join(f"{found.status} {found.word}" for found in EXITS)


# Output

# A file is opened before the work, and written whole or not at all.

Show = Callable[[Any, dict[str, Any]], None]
"""Shows a result: takes the printed text, and the facts of the JSON output."""


class TableFile(NamedTuple):
    """A file, and the name of its table in a query."""

    name: str
    path: Path | str

    def __str__(self) -> str:
        if isinstance(self.path, Path):
            return f"{self.name}={self.path}"
        # Ledgers keep this: names of users, passwords and signatures are left out.
        address = urlsplit(self.path)
        return f"{self.name}={address.scheme}://{address.netloc.rpartition('@')[2]}{address.path}"


def path_or_dash(word: str) -> Path | str:
    """Return the path in a word, or "-", which stands for standard input or output.

    An empty word stays empty.
    """
    return Path(word) if word not in ("", "-") else word


def path_or_address(word: str) -> Path | str:
    """Return the path in a word, or unchanged an address such as s3://bucket/rows.parquet, or "-"."""
    return word if "://" in word else path_or_dash(word)


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
        return os.path.samefile(path, other) and os.path.isfile(path)  # a device such as /dev/null may be given twice
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
            every = {"dpstats": __version__, "schema": VERSION, "command": command_of(options)}
            text = as_json(every | facts)
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
    """Return whether to draw progress bars: on a terminal, and not in logs."""
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
        print(printable(str(text), lines=True).encode(encoding, "backslashreplace").decode(encoding), flush=True)
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


# Results that were not delivered

# Only released values are stored, which every reader of the answer may see. Only the user can read the file.

_WAIT_SECONDS = 60.0


class KeptResult(NamedTuple):
    """A result that was not delivered.

    Attributes
    ----------
    number : int
    time : float
        Time of the release, in seconds since the epoch.
    releases : list of dict
        Released values by the names of the stages, with their label, plan and guarantee.
    text : str or None
        The printed table, if it was finished.
    facts : dict or None
        The facts of the JSON output, if they were finished.
    """

    number: int
    time: float
    releases: list[dict[str, Any]]
    text: str | None
    facts: dict[str, Any] | None


class KeptResults:
    """The undelivered results of a ledger, in an SQLite file next to it.

    Parameters
    ----------
    ledger : path
    """

    def __init__(self, ledger: Path) -> None:
        self.ledger = ledger
        self.path = results_path(ledger)
        self.shown = f"'dpstats budget results {ledger}' shows"

    def check(self) -> int:
        """Create the file if necessary and return its number of results.

        Raise an error if it cannot be written.
        """
        with self._connection(make=True) as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS results (id INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, "
                "releases TEXT NOT NULL, text TEXT, facts TEXT)"
            )
            (count,) = connection.execute("SELECT count(*) FROM results").fetchone()
            return int(count)

    def add(self, releases: list[dict[str, Any]]) -> int:
        """Store a release durably, and return its number."""
        with self._connection() as connection:
            row = (time.time(), as_json(releases))
            number = connection.execute("INSERT INTO results (time, releases) VALUES (?, ?)", row).lastrowid
            return int(number or 0)

    def change(self, number: int, column: str, value: str) -> bool:
        """Keep the releases, the text or the facts of a result, and return whether it is still there."""
        with self._connection() as connection:
            done = connection.execute(f"UPDATE results SET {column} = ? WHERE id = ?", (value, number))
            return bool(done.rowcount)

    def discard(self, numbers: list[int]) -> None:
        """Forget results, which were delivered."""
        with self._connection() as connection:
            connection.executemany("DELETE FROM results WHERE id = ?", [(number,) for number in numbers])

    def all(self) -> list[KeptResult]:
        """Return the results, oldest first."""
        if not self.path.exists():
            return []
        with self._connection(writes=False) as connection:
            if not connection.execute("SELECT name FROM sqlite_master WHERE name = 'results'").fetchall():
                return []
            rows = connection.execute("SELECT id, time, releases, text, facts FROM results ORDER BY id").fetchall()
        return [
            KeptResult(number, when, json.loads(releases), text, None if facts is None else json.loads(facts))
            for number, when, releases, text, facts in rows
        ]

    @contextlib.contextmanager
    def _connection(self, *, make: bool = False, writes: bool = True) -> Iterator[sqlite3.Connection]:
        """Open a transaction, durable when it ends, or a reading."""
        import sqlite3

        try:
            if make:
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
                self.path.chmod(0o600)
            name = f"{self.path.absolute().as_uri()}?mode={'rw' if writes else 'ro'}"
            # As long as a ledger waits: another command may be writing.
            made = sqlite3.connect(name, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
            with contextlib.closing(made) as connection:
                connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
                try:
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise LedgerError(f"{self.path}: results cannot be stored next to the ledger ({why})") from None


class Delivery:
    """The way of one command's result: kept as soon as it is released, forgotten when it was delivered."""

    def __init__(self, results: KeptResults, what: str, warn: Callable[[str], None]) -> None:
        self._results, self._what, self._warn = results, what, warn
        self._releases: list[dict[str, Any]] = []
        self._number: int | None = None

    def keep(self, label: str, plan: Any, released: Any) -> None:
        """Keep what a session has released: see `dpstats.release.session.keeping`."""
        with self._trying():
            named = {"label": f"{self._what}: {label}", "guarantee": str(plan.guarantee), "plan": str(plan)}
            self._releases.append({**named, "released": dict(released)})
            self._change("releases", as_json(self._releases))

    def report(self, text: str, facts: dict[str, Any]) -> None:
        """Store the finished text and facts of the release."""
        if self._number is not None:
            with self._trying():
                self._change("text", text)
                self._change("facts", as_json(facts))

    def _change(self, column: str, value: str) -> None:
        # Another command may have discarded it meanwhile.
        if self._number is None or not self._results.change(self._number, column, value):
            self._number = self._results.add(self._releases)
            for account in running_accounts():
                account.where = f"The released values are kept: {self._results.shown} them."
            if column != "releases":
                self._results.change(self._number, column, value)

    def done(self) -> None:
        """Forget it, since it was delivered."""
        if self._number is not None:
            with self._trying():
                self._results.discard([self._number])

    @contextlib.contextmanager
    def _trying(self) -> Iterator[None]:
        # If storing fails for any reason, the answer can still be delivered.
        try:
            yield
        except Exception as error:
            why = str(error) if isinstance(error, LedgerError) else type(error).__name__
            self._warn(f"the result is not kept until it is delivered: {why}")


@contextlib.contextmanager
def until_delivered(ledger: Path | None, what: str, warn: Callable[[str], None]) -> Iterator[Delivery | None]:
    """Store releases within the context until it ends without an error.

    If the releases cannot be stored, it raises an error before anything is charged.

    Parameters
    ----------
    ledger : path, optional
        Ledger of the charges. None stores nothing, because nothing is charged.
    what : str
        Label of the charge.
    warn : callable
        Prints remarks for the user.
    """
    if ledger is None:
        yield None
        return
    from dpstats.release.session import keeping

    results = KeptResults(ledger)
    if earlier := results.check():
        warn(f"{results.shown} earlier results that were not delivered ({earlier})")
    delivery = Delivery(results, what, warn)
    with keeping(delivery.keep):
        yield delivery
    delivery.done()


# The JSON output of commands: its version, and its schema, which ``dpstats --json-schema`` prints
#
# The version rises if a field goes, or changes its type or its meaning. A new field does not raise it, so a reader
# ignores fields that it does not know.


VERSION = 1

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_WHOLE: Schema = {"type": "integer"}
_NUMBER: Schema = {"anyOf": [{"type": "number"}, {"enum": ["Infinity", "-Infinity", "NaN"]}]}
_FLAG: Schema = {"type": "boolean"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}
_ANY_TEXT: Schema = {"type": ["string", "null"]}


def _object(**fields: Schema) -> Schema:
    return {"type": "object", "required": list(fields), "properties": fields}


_PRIVACY = _object(epsilon=_NUMBER, delta=_NUMBER, neighbors=_TEXT, simulated=_FLAG, guarantee=_TEXT)
_PLAN = _object(selections=_OBJECTS, stages=_OBJECTS)
_AMOUNT = _object(epsilon=_NUMBER, delta=_NUMBER)
_RELEASE = {"estimator": _TEXT, "n_features": _WHOLE, "privacy": _PRIVACY, "notes": _TEXTS, "plan": _PLAN}
_LEDGER = {
    "ledger": _TEXT,
    "method": _TEXT,
    "neighbors": _TEXT,
    "unit": _ANY_TEXT,
    "charges": _WHOLE,
    **dict.fromkeys(("total", "spent", "remaining"), _AMOUNT),
}
_LEVEL = {"confidence_level": _NUMBER}
_COVERED = {**_LEVEL, "estimand": _TEXT}

COMMANDS: dict[str, dict[str, Schema]] = {
    "mean": {**_RELEASE, **_COVERED, "columns": _OBJECTS},
    "sparse-mean": {**_RELEASE, "columns": _OBJECTS},
    "group-means": {**_RELEASE, **_COVERED, "group_means": _OBJECTS},
    "proportion": {**_RELEASE, **_COVERED, "proportion": _NUMBER, "low": _NUMBER, "high": _NUMBER},
    "table": {**_RELEASE, **_COVERED, "cells": _OBJECTS},
    "survival": {**_RELEASE, **_COVERED, "life_table": _OBJECTS},
    "histogram": {**_RELEASE, **_COVERED, "bins": _OBJECTS},
    "quantile": {**_RELEASE, **_LEVEL, "quantiles": _OBJECTS},
    "bounds": {**_RELEASE, "bounds": _OBJECTS},
    "regress": {**_RELEASE, **_LEVEL, "params": _OBJECTS},
    "statistic": {**_RELEASE, **_COVERED, "estimates": _OBJECTS},
    "ks": {**_RELEASE, "statistic": _NUMBER, "cutoff": _NUMBER, "pvalue": _NUMBER},
    "conformal": {**_RELEASE, "scores": _OBJECTS, "alpha": _NUMBER, "coverage_bound": _NUMBER, "training": _TEXT},
    "identity-test": {**_RELEASE, "statistic": _NUMBER, "pvalue": _NUMBER, "reject": _FLAG, "level": _NUMBER},
    "sql": {"query": _TEXT, "privacy": _PRIVACY},
    "budget new": _LEDGER,
    "budget show": {**_LEDGER, "undelivered": _WHOLE},
    "budget history": {"ledger": _TEXT, "charges": _OBJECTS},
    "budget results": {"results": _OBJECTS},
    "budget keys": {"ledger": _TEXT, "keys": _OBJECTS},
}
"""Fields of each command, in addition to the fields of all commands."""


def json_schema() -> Schema:
    """Return the schema of the JSON output, as JSON Schema (draft 2020-12) has it.

    Examples
    --------
    >>> from dpstats.cli.output import json_schema
    >>> json_schema()["required"]
    ['dpstats', 'schema', 'command']
    """
    every = _object(dpstats=_TEXT, schema={"const": VERSION}, command=_TEXT)
    cases = [
        {"if": {"properties": {"command": {"const": name}}}, "then": _object(**fields)}
        for name, fields in COMMANDS.items()
    ]
    plans = {
        "if": {"properties": {"command": {"pattern": "^plan "}}},
        "then": _object(privacy=_PRIVACY, stages=_OBJECTS),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Output of dpstats commands with --json, version {VERSION}",
        **every,
        "allOf": [*cases, plans],
    }
