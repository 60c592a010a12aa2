"""The file of a study: its description, the versions that computed it, and one row per replication."""

from __future__ import annotations

import copyreg
import dis
import hashlib
import json
import platform
import sqlite3
import sys
import time
import types
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from enum import Enum
from functools import cache, cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from dpstats import __version__
from dpstats.errors import DPStatsError, InvalidParameter

if TYPE_CHECKING:
    from collections.abc import Iterator

Versions = Mapping[str, str]
"""By package, and "Python"."""

_PACKAGES = ("numpy", "scipy", "scikit-learn", "statsmodels", "joblib")


@cache
def versions() -> Versions:
    """Return the versions with which this process computes."""
    found = {"Python": platform.python_version(), "dpstats": __version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def describe(role: str, value: Any) -> Any:
    """Return all that a value is, as JSON can hold it: equal in every process, different for different values.

    Objects are described by their class and the content of a pickle, estimators by their class and
    parameters. Functions are described by their name and a hash of code, defaults, closure and used globals,
    and arrays by a hash of all entries. Classes and functions of installed packages (and of this one) are
    described by their names, because the versions determine their code.

    Parameters
    ----------
    role : str
        What the value is to the study, for the message.
    value : object

    Raises
    ------
    InvalidParameter
        If there is something in it that can only be named by its class.
    """
    return _Description(role).of(value)


class _Description:
    """One walk over a value and everything in it."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._path: list[int] = []
        # Objects are stored with their descriptions, because an id is reused after its object is deleted.
        self._known: dict[int, tuple[Any, Any]] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, np.generic) and not value.dtype.hasobject:
            plain = value.item()
            value = np.asarray(value) if isinstance(plain, np.generic) else plain
        if value is None or type(value) in (bool, int, float, str):
            return value
        if type(value) in (bytes, bytearray):
            return {"bytes": _digest(bytes(value))}
        if type(value) is complex:
            return {"complex": repr(value)}
        if id(value) in self._known:
            return self._known[id(value)][1]
        if id(value) in self._path:
            return {"itself": len(self._path) - self._path.index(id(value))}
        self._path.append(id(value))
        try:
            described = self._compound(value)
        finally:
            self._path.pop()
        if isinstance(value, types.FunctionType | type):
            # Kept, or functions that call the same helpers would have these walked once for each caller.
            self._known[id(value)] = (value, described)
        return described

    def _compound(self, value: Any) -> Any:
        if type(value) in (list, tuple):
            return [self.of(item) for item in value]
        if type(value) in (dict, types.MappingProxyType):
            return {"mapping": _ordered([self.of(key), self.of(item)] for key, item in value.items())}
        if type(value) in (set, frozenset):
            # The order of a set differs between processes.
            return {"set": _ordered(self.of(item) for item in value)}
        if type(value) in (np.ndarray, np.memmap):
            shape = [value.dtype.str, *value.shape]
            if value.dtype.hasobject:
                return {"array": shape, "items": self.of(value.tolist())}
            return {"array": shape, "bytes": _digest(str(value.dtype.descr).encode() + value.tobytes())}
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, types.ModuleType):
            return {"module": value.__name__}
        if isinstance(value, Enum):
            return {"member": value.name, "class": self.of(type(value))}
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.MethodType):
            return {"method": self.of(value.__func__), "self": self.of(value.__self__)}
        if value is Ellipsis or value is NotImplemented:
            return {"name": repr(value)}
        if value is check_random_state(None):
            # numpy's global generator, which scipy's distributions refer to: its state differs between
            # processes, and no study draws from it.
            return {"name": "numpy.random"}
        if isinstance(value, partial):
            inside = [value.func, value.args, value.keywords]
            return {"partial": [self.of(item) for item in inside], **self._attributes(value)}
        if _is_global(value):
            return {"name": _qualified(value)}
        if all(callable(getattr(value, name, None)) for name in ("fit", "get_params", "set_params")):
            # A clone has only the parameters, unless the class has its own clone method.
            said = getattr(type(value), "__sklearn_clone__", BaseEstimator.__sklearn_clone__)
            if said is BaseEstimator.__sklearn_clone__:
                parameters = value.get_params(deep=False)
                return {"estimator": self.of(type(value)), "parameters": self.of(parameters)}
        return self._object(value)

    def _object(self, value: Any) -> Any:
        if hasattr(value, "__wrapped__"):  # by lru_cache, say
            return {"object": self.of(type(value)), "wrapped": self.of(value.__wrapped__)}
        reduce = copyreg.dispatch_table.get(type(value))
        try:
            reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except Exception:
            return self._by_repr(value)
        if isinstance(reduced, str):  # only a name, and not of an installed object
            return self._by_repr(value)
        make, arguments, state, items, pairs = (*reduced[:5], None, None, None)[:5]
        try:
            return {
                "object": self.of(type(value)),
                "made": None if make in _PLAIN_MAKERS else self.of(make),
                "state": [self.of(arguments), self.of(state)],
                "items": [None if part is None else self.of(list(part)) for part in (items, pairs)],
            }
        except InvalidParameter as error:
            return self._by_repr(value, error)

    def _by_repr(self, value: Any, error: InvalidParameter | None = None) -> Any:
        kind = type(value)
        plain: Any = object.__repr__
        text = "" if kind.__repr__ is plain else repr(value)
        # The repr of an installed class is made to be read, and seldom states everything.
        installed = _installed(kind.__module__) and not kind.__module__.startswith("dpstats.")
        if not text or installed or " at 0x" in text or "..." in text:
            raise error or InvalidParameter(
                f"path cannot be given: {self._role} holds a {kind.__qualname__}, whose values a file cannot identify. "
                "Give its owner a __repr__ that states all values, make it a dataclass of plain fields, or run "
                "without path"
            )
        return {"object": self.of(kind), "repr": text}

    def _function(self, function: types.FunctionType) -> Any:
        name = _qualified(function)
        # A function made inside another one is not known by its name alone, even in an installed package:
        # what it closes over counts.
        written_here = not _installed(function.__module__)
        if not written_here and "<" not in function.__qualname__:
            return {"function": name}
        captured = []
        for cell in function.__closure__ or ():
            try:
                inside = cell.cell_contents
            except ValueError:  # not assigned yet
                captured.append("empty")
            else:
                captured.append(self.of(inside))
        known, read = function.__globals__, sorted(_used(function.__code__))
        parts = [
            self._code(function.__code__, function.__doc__) if written_here else None,
            self.of(function.__defaults__),
            self.of(function.__kwdefaults__),
            captured,
            {name: self.of(known[name]) for name in read if name in known} if written_here else None,
            self._attributes(function),
        ]
        return {"function": name, "hash": _digest(_text(parts).encode())}

    def _code(self, code: types.CodeType, docstring: str | None = None) -> Any:
        constants = [
            self._code(constant) if isinstance(constant, types.CodeType) else self.of(constant)
            for constant in code.co_consts
        ]
        if constants and docstring is not None and constants[0] == docstring:
            constants[0] = None
        counts = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
        names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
        return [counts, list(map(list, names)), constants, code.co_code.hex(), code.co_exceptiontable.hex()]

    def _attributes(self, value: Any) -> dict[str, Any]:
        attributes = {key: item for key, item in vars(value).items() if key != "__wrapped__"}
        return {"attributes": self.of(attributes)} if attributes else {}

    def _class(self, kind: type) -> Any:
        name = _qualified(kind)
        if _installed(kind.__module__):
            return {"class": name}
        # The methods that dataclass generates follow from the fields: only written methods count.
        skipped = _OF_EVERY_CLASS | (_OF_DATACLASSES if "__dataclass_fields__" in vars(kind) else frozenset())
        own = {key: self._member(item) for key, item in sorted(vars(kind).items()) if key not in skipped}
        bases = [self.of(base) for base in kind.__bases__]
        return {"class": name, "hash": _digest(_text([own, bases]).encode())}

    def _member(self, value: Any) -> Any:
        """Describe an attribute of a class. Descriptors, such as properties, contain its functions."""
        if isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType):  # slots
            return None
        if isinstance(value, staticmethod | classmethod | property | cached_property):
            inside = [getattr(value, name, None) for name in ("__func__", "fget", "fset", "func")]
            return [type(value).__name__, *map(self.of, inside)]
        return self.of(value)


_PLAIN_MAKERS = (copyreg.__newobj__, copyreg.__newobj_ex__)  # type: ignore[attr-defined]

_OF_EVERY_CLASS = frozenset(
    [
        *("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__", "__annotate__"),
        *("__annotate_func__", "__annotations_cache__", "__abstractmethods__", "_abc_impl", "__parameters__"),
        *("__orig_bases__", "__static_attributes__", "__firstlineno__"),
        *("__dataclass_fields__", "__dataclass_params__", "__match_args__"),
    ]
)
_OF_DATACLASSES = frozenset(
    [
        *("__init__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__"),
        *("__setattr__", "__delattr__", "__replace__", "__getstate__", "__setstate__"),
    ]
)


def _used(code: types.CodeType) -> set[str]:
    """Return the globals that code reads, with the functions inside it."""
    loads = ("LOAD_GLOBAL", "LOAD_NAME")
    names = {item.argval for item in dis.get_instructions(code) if item.opname in loads}
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return names.union(*map(_used, inner))


def _installed(module: str | None) -> bool:
    """Say whether a module is of an installed package, of Python or of this package: it has a version."""
    top = (module or "").partition(".")[0]
    if top == "dpstats" or top in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(top), "__file__", None)
    return file is not None and not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _qualified(value: Any) -> str:
    """Return the name of a class or function. The module of a script is the one under which others import it."""
    module = value.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        file, spec = getattr(main, "__file__", None), getattr(main, "__spec__", None)
        module = spec.name if spec is not None else module if file is None else Path(file).stem
    return f"{module}.{value.__qualname__}"


def _is_global(value: Any) -> bool:
    """Say whether a value is what an installed module has under the value's own name: ufuncs, built-ins."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    name = name or getattr(value, "__name__", None)
    if not (isinstance(module, str) and isinstance(name, str) and _installed(module)):
        return False
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


def _ordered(items: Iterable[Any]) -> list[Any]:
    return sorted(items, key=_text)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _digest(value: bytes) -> str:
    return hashlib.blake2b(value, digest_size=16).hexdigest()


Row = tuple[int, int, tuple[float, ...] | None, str | None]
"""Cell, replication, the losses; or no losses and the reason why there are none."""


class Took(NamedTuple):
    """The seconds of a block: by the clock, and of the processor, which other work on the machine does not lengthen."""

    clock: float
    processor: float


def read_clocks(start: Took | None = None) -> Took:
    """Return the seconds of both clocks since a start."""
    now = Took(time.perf_counter(), time.process_time())
    return now if start is None else Took(now.clock - start.clock, now.processor - start.processor)


Finished = tuple[list[Row], Took, Versions]
"""A block of rows of one cell, the seconds that they took, and what its process computed with."""

_FORMAT = 2
"""Version of the file format.

Before 2, different studies could have the same description, and rows had no versions.
"""


class StudyFileError(DPStatsError, OSError):
    """A study's file cannot be read or written. It contains the replications finished before.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Gaussian, Study
    >>> study = Study(Gaussian(), ClippedMean(clip=6.0), {"n": [10], "d": [1]}, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "notes.txt")
    ...     _ = path.write_text("something else")
    ...     study.run(path)
    Traceback (most recent call last):
        ...
    dpstats.simulation.store.StudyFileError: ...
    """


class Store:
    """The file of a study, or memory for ``path=None``.

    Blocks of rows are written in transactions, so a kill or a full disk loses only whole blocks that were not
    written yet. The key is (cell, replication) and rows are stored in its order. An interrupted and resumed
    study has the same rows as an uninterrupted one.

    Parameters
    ----------
    path : path or None
    description : mapping or None
        Identity of the study: a file of another one raises an error. None for memory.
    cells : sequence of mapping
        The public parameters of each cell.
    losses : sequence of str
    """

    def __init__(
        self,
        path: str | Path | None,
        description: Mapping[str, Any] | None,
        cells: Sequence[Mapping[str, Any]],
        losses: Sequence[str],
    ) -> None:
        self.path = None if path is None else Path(path)
        self._losses = list(losses)
        with self._explained("opened"):
            self._connection = sqlite3.connect(":memory:" if path is None else path, timeout=60)
        try:
            with self._explained("opened"):
                self._create(description, cells)
        except BaseException:
            self._connection.close()
            raise

    def _create(self, description: Mapping[str, Any] | None, cells: Sequence[Mapping[str, Any]]) -> None:
        columns = "".join(f", {_quoted(name)} REAL" for name in self._losses)
        stated = None if description is None else json.dumps({**description, "format": _FORMAT}, sort_keys=True)
        with self._connection:
            # The tables are looked for and made in one transaction: two processes may start on the same new
            # file.
            self._connection.execute("BEGIN IMMEDIATE")
            tables = {row[0] for row in self._connection.execute("SELECT name FROM sqlite_master")}
            if tables:
                self._check(tables, stated)
                return
            for statement in (
                "CREATE TABLE study (description TEXT)",
                "CREATE TABLE cells (cell INTEGER PRIMARY KEY, parameters TEXT)",
                "CREATE TABLE versions (id INTEGER PRIMARY KEY, stated TEXT UNIQUE)",
                f"CREATE TABLE results (cell INTEGER, replication INTEGER{columns}, error TEXT, "
                "versions INTEGER, PRIMARY KEY (cell, replication)) WITHOUT ROWID",
                "CREATE TABLE work (finished REAL, cell INTEGER, replications INTEGER, seconds REAL)",
            ):
                self._connection.execute(statement)
            self._connection.execute("INSERT INTO study VALUES (?)", (stated,))
            self._connection.executemany(
                "INSERT INTO cells VALUES (?, ?)",
                [(i, json.dumps(cell, sort_keys=True)) for i, cell in enumerate(cells)],
            )

    def _check(self, tables: set[str], stated: str | None) -> None:
        """Refuse the file of another study, or of none."""
        if "study" not in tables:
            raise StudyFileError(f"{self.path} must be the file of a study, got another file")
        found = self._connection.execute("SELECT description FROM study").fetchone()
        before = json.loads(found[0])
        if before.get("format") != _FORMAT:
            raise StudyFileError(
                f"{self.path} is a file of another version of dpstats (format {before.get('format', 1)}, this one "
                f"writes {_FORMAT}), and cannot be compared with this study; give another file, or remove this one"
            )
        if found[0] == stated:
            return
        now = json.loads(stated or "{}")
        changed = [name for name in now if before.get(name) != now[name]]
        pythons = {used["Python"].rpartition(".")[0] for used in self._versions()}
        here = versions()["Python"].rpartition(".")[0]
        note = (
            ""
            if pythons <= {here}
            else f" (begun with Python {', '.join(sorted(pythons))}, this is {here}: code can be compared within "
            "one of them only)"
        )
        raise StudyFileError(
            f"{self.path} holds another study: it differs in {', '.join(changed)}{note}; "
            "give another file, or remove this one"
        )

    def append(self, blocks: Iterable[Finished], *, replace_failed: bool = False) -> None:
        """Write blocks of rows, all of them or none.

        Existing rows stay, except rows of failed replications with ``replace_failed``.
        """
        blanks = (None,) * len(self._losses)
        names = [_quoted(name) for name in (*self._losses, "error", "versions")]
        marks = ", ".join("?" * (len(names) + 2))
        insert = f"INSERT OR IGNORE INTO results VALUES ({marks})"
        if replace_failed:
            changes = ", ".join(f"{name} = excluded.{name}" for name in names)
            insert = (
                f"INSERT INTO results VALUES ({marks}) ON CONFLICT DO UPDATE SET {changes} "
                "WHERE results.error IS NOT NULL"
            )
        with self._explained("written"), self._connection:
            for rows, took, used in blocks:
                identity = self._identity(used)
                records = [
                    (cell, replication, *(blanks if values is None else values), error, identity)
                    for cell, replication, values, error in rows
                ]
                self._connection.executemany(insert, records)
                self._connection.execute(
                    "INSERT INTO work VALUES (?, ?, ?, ?)", (time.time(), records[0][0], len(records), took.processor)
                )

    def _identity(self, used: Versions) -> int:
        stated = (json.dumps(used, sort_keys=True),)
        self._connection.execute("INSERT OR IGNORE INTO versions (stated) VALUES (?)", stated)
        found = self._connection.execute("SELECT id FROM versions WHERE stated = ?", stated)
        return int(found.fetchone()[0])

    def finished(self, *, but_failed: bool = False) -> dict[int, set[int]]:
        """Return the replications of each cell that are there, or those that are there and did not fail."""
        done: dict[int, set[int]] = {}
        which = " WHERE error IS NULL" if but_failed else ""
        for cell, replication in self._query(f"SELECT cell, replication FROM results{which}"):
            done.setdefault(cell, set()).add(replication)
        return done

    def rows(self, replications: int | None = None) -> list[Row]:
        """Return the rows in the order of the key, of the first ``replications`` of each cell."""
        query = "SELECT * FROM results" + ("" if replications is None else " WHERE replication < ?")
        records = self._query(f"{query} ORDER BY cell, replication", () if replications is None else (replications,))
        return [
            (record[0], record[1], None if record[-2] is not None else tuple(record[2:-2]), record[-2])
            for record in records
        ]

    def versions(self, replications: int) -> tuple[Versions, ...]:
        """Return the sets of versions with which the first ``replications`` of each cell were computed."""
        with self._explained("read"):
            return tuple(self._versions(replications))

    def _versions(self, replications: int = sys.maxsize) -> list[dict[str, str]]:
        found = self._connection.execute(
            "SELECT stated FROM versions WHERE id IN (SELECT versions FROM results WHERE replication < ?) ORDER BY id",
            (replications,),
        )
        return [json.loads(row[0]) for row in found]

    def seconds(self) -> float:
        """Return the processor time that all rows took, over all processes."""
        return float(self._query("SELECT coalesce(sum(seconds), 0) FROM work")[0][0])

    def _query(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._explained("read"), closing(self._connection.execute(statement, values)) as cursor:
            return cursor.fetchall()

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        problem = None
        try:
            yield
        except sqlite3.Error as error:
            problem = error
        if problem is not None:
            kept = ""
            if what == "written" and self.path is not None:
                kept = "; finished replications are in the file: run again to resume"
            raise StudyFileError(f"{self.path or 'the results'} cannot be {what} ({problem}){kept}") from problem

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
