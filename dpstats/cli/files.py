"""What the commands read and write: tables, results, and one clear line where that fails."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from dpstats.errors import DPStatsError, InvalidParameter

_NAMES_SHOWN = 20


@contextlib.contextmanager
def reading(path: Path, refusal: str) -> Iterator[None]:
    """Refuse a file that cannot be read; whatever a parser says may quote it, and is not repeated."""
    reason = None
    try:
        os.stat(path)  # first: a missing file is reported as such, and not as a missing parser
        yield
    except (ImportError, InvalidParameter, MemoryError):
        raise
    except OSError as error:
        reason = error.strerror  # the system's words; None for a parser's
    except Exception:
        pass
    else:
        return
    raise InvalidParameter(refusal if reason is None else f"{refusal} ({reason})")


def read_table(
    path: Path, columns: list[str] | None, option: str = "--column", text: Collection[str] = ()
) -> Any:
    """Return the named columns of a file, or all numeric ones; those in ``text`` entry by entry as text.

    What a CSV file has in an entry of such a column is its text, whatever the other rows are; a missing entry of a
    Parquet file is the empty text.
    """
    import pandas as pd

    if columns is not None and len(set(columns)) < len(columns):
        raise InvalidParameter(f"{option} must name each column once")
    parquet = path.suffix.lower() in (".parquet", ".pq")
    try:
        with reading(path, f"{path} is not a readable CSV or Parquet file with a header"):
            # A pipe is read once; its header may be asked for again.
            source = path if path.is_file() else io.BytesIO(path.read_bytes())
            frame = pd.read_parquet(source) if parquet else _read_csv(source, path.name)
            frame.columns = frame.columns.map(str)
            names = list(frame.columns)
            twice = _repeated(names if parquet else _header(source, names))
            if columns is not None and frame.index.names != [None]:
                frame = frame.reset_index()  # a column of a Parquet file that was the index of its table
            words = frame if parquet else _read_text(source, [name for name in names if name in text])
    except ImportError as error:
        needed = "a Parquet reader: pip install pyarrow" if parquet else f"another package ({error})"
        raise InvalidParameter(f"reading {path.name} needs {needed}") from None
    if columns is None:
        numeric = frame.select_dtypes("number")
        if numeric.shape[1] == 0:
            raise InvalidParameter(f"{path.name} has no numeric columns")
        return numeric
    known = set(frame.columns)
    missing = [name for name in columns if name not in known]
    if missing:
        raise InvalidParameter(
            f"{option} must name columns of {path.name} ({_some(list(frame.columns))}), got {_some(missing)}"
        )
    if twice & set(columns):
        raise InvalidParameter(f"{path.name} has more than one column of a name given as {option}")
    frame = frame[columns]
    return frame.assign(**{name: _as_text(words[name]) for name in columns if name in text})


def _read_text(source: Any, names: list[str]) -> Any:
    """Return columns of a CSV as they stand there: no type of all rows, and no word that means missing, comes in."""
    import pandas as pd

    if not names:
        return None
    if isinstance(source, io.BytesIO):
        source.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is worth one was refused when numbers were read
        return pd.read_csv(source, index_col=False, usecols=names, dtype=str, keep_default_na=False)


def _as_text(column: Any) -> Any:
    import pandas as pd

    words = ["" if pd.api.types.is_scalar(entry) and pd.isna(entry) else str(entry) for entry in column]
    return pd.Series(words, index=column.index, dtype=object)


def _read_csv(source: Any, name: str) -> Any:
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # columns of mixed types are refused later, if they are used
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            # Without index_col=False pandas would take the first value of a line that has one too many for the
            # row's name, and shift all others by a column.
            return pd.read_csv(source, index_col=False)
        except pd.errors.ParserWarning:
            pass
    raise InvalidParameter(f"{name} must have a name in its header for every value of a line")


def _header(source: Any, names: list[str]) -> list[str]:
    """Return the names in a CSV's header as they stand there: pandas calls the second "age" an "age.1"."""
    import pandas as pd

    known = set(names)
    if not any(end.isdigit() and base in known for base, _, end in (name.rpartition(".") for name in names)):
        return names
    if isinstance(source, io.BytesIO):
        source.seek(0)
    header = pd.read_csv(source, index_col=False, header=None, nrows=1, dtype=str, keep_default_na=False)
    return list(header.iloc[0])


def _repeated(names: list[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def _some(names: list[str]) -> str:
    """Return names as they have to be given, spaces and all; of many, the first."""
    more = [f"... {len(names) - _NAMES_SHOWN} more"] if len(names) > _NAMES_SHOWN else []
    return ", ".join([*map(repr, names[:_NAMES_SHOWN]), *more])


def keep_apart(options: argparse.Namespace, *names: str) -> None:
    """Refuse one file under two names: a result would replace the data, or a ledger and its charges."""
    seen: dict[str, Any] = {}
    for name in names:
        path = getattr(options, name, None)
        if path is None or (name == "json" and path == "-"):
            continue
        label = name if name == "file" else f"--{name}"
        for other, known in seen.items():
            if _same(path, known):
                raise InvalidParameter(
                    f"{other} and {label} must be different files, got {str(path)!r} for both"
                )
        seen[label] = path


def _same(path: Any, other: Any) -> bool:
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
        raise InvalidParameter(
            f"{option} must name a file that can be written, got {str(path)!r} ({error.strerror})"
        ) from None

    def write(text: str) -> None:
        try:
            if os.path.isfile(path):  # neither a pipe nor a device
                file.truncate(0)
            file.write(text)
            file.flush()
        except OSError as error:
            raise DPStatsError(f"{option} {str(path)!r} cannot be written ({error.strerror})") from None

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
def output(target: str | None) -> Iterator[Callable[[Any, dict[str, Any]], None]]:
    """Open what ``--json`` names; yield what shows a result there and on the screen."""
    with opened("--json", None if target == "-" else target) as write:

        def show(table: Any, facts: dict[str, Any]) -> None:
            text = as_json(facts)
            try:
                tell(text if target == "-" else table)
            finally:
                if write is not None:
                    write(text + "\n")

        yield show


def as_json(facts: Any) -> str:
    """Return JSON that every reader takes: it has no infinite numbers, which are the words "Infinity" and "NaN"."""
    return json.dumps(_spelled(facts), indent=2, allow_nan=False)


def _spelled(facts: Any) -> Any:
    if isinstance(facts, dict):
        return {key: _spelled(value) for key, value in facts.items()}
    if isinstance(facts, list | tuple):
        return [_spelled(value) for value in facts]
    if isinstance(facts, float) and not math.isfinite(facts):
        return json.dumps(facts)
    return facts


def tell(text: Any) -> None:
    """Print a result and flush it; characters that the terminal cannot show are escaped."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        print(str(text).encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except OSError as error:
        give_up_stdout()
        raise DPStatsError(f"the result cannot be printed ({error.strerror})") from None


def give_up_stdout() -> None:
    """Drop what cannot be printed: the interpreter would try again at exit, and fail with a traceback."""
    with contextlib.suppress(OSError):
        stdout = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stdout)
        os.close(nowhere)
