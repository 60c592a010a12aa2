"""Keys of releases that are charged once: the request of a key, and its answer.

A charge under a key stores the key and a *request*, a fingerprint of all public facts of the release. Both are in the
transaction of the charge. The answer follows when it is complete. Later, the same request gets the answer again, and
another request is refused. Proof: docs/proofs/budget.md.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import socket
import sqlite3
import time
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache, partial
from typing import Any

from dpstats.errors import DPStatsError, InvalidParameter, attempt
from dpstats.inference.reports import name_distribution

Request = Mapping[str, str]
"""Fingerprints of the public facts of a release, by their names."""

CHARGED, ANSWERED, FAILED = "charged", "answered", "failed"
"""States of a key: charged without an answer yet, with its whole answer, and with the releases before a failure."""

DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Kept:
    """The entry of a key in a ledger.

    Attributes
    ----------
    key : str
    step : int
        The number of earlier charges in the same call, which may charge a count first.
    label : str
    request : mapping
    owner : str
        The process that charged.
    time : float
        Time of the charge, in seconds since the epoch.
    state : {"charged", "answered", "failed"}
    answer : bytes or None
        The released values, encoded.
    """

    key: str
    step: int
    label: str
    request: Request
    owner: str
    time: float
    state: str = CHARGED
    answer: bytes | None = None

    def check(self, request: Request) -> None:
        """Refuse another request under this key. Only names that both have are compared, because plans come later."""
        other = sorted(name for name in request if name in self.request and request[name] != self.request[name])
        if other:
            raise InvalidParameter(
                f"the key {self.key!r} must be for the release that was charged under it at {moment(self.time)} "
                f"({self.label!r}), got another one, which differs in: {', '.join(other)}. Nothing was charged. Use "
                "another key for another release."
            )


class AlreadyCharged(DPStatsError):
    """A key was charged before. Nothing was charged now."""

    def __init__(self, kept: Kept) -> None:
        super().__init__(f"the key {kept.key!r} was charged before. Nothing was charged.")
        self.kept = kept


def moment(seconds: float) -> str:
    """Return a time as text, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


# Storage. A ledger gets the table with its first charge that has a request.

_TABLE = (
    "CREATE TABLE IF NOT EXISTS requests (charge INTEGER PRIMARY KEY, once TEXT, step INTEGER NOT NULL, "
    "request TEXT NOT NULL, owner TEXT NOT NULL, state TEXT NOT NULL, answer BLOB, UNIQUE (once, step))"
)
_COLUMNS = "once, step, label, request, owner, time, state, answer"
_JOINED = f"SELECT {_COLUMNS} FROM requests JOIN charges ON charges.id = requests.charge"


def has_requests(connection: sqlite3.Connection) -> bool:
    """Return whether a ledger has the table."""
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'requests'").fetchone()
    return found is not None


def find_kept(connection: sqlite3.Connection, key: str, step: int) -> Kept | None:
    """Return the entry of a key, or None."""
    if not has_requests(connection):
        return None
    row = connection.execute(f"{_JOINED} WHERE once = ? AND step = ?", (key, step)).fetchone()
    return None if row is None else _from_row(row)


def all_kept(connection: sqlite3.Connection) -> list[Kept]:
    """Return the entries of all keys, oldest first."""
    if not has_requests(connection):
        return []
    rows = connection.execute(f"{_JOINED} WHERE once IS NOT NULL ORDER BY charge").fetchall()
    return [_from_row(row) for row in rows]


def _from_row(row: Sequence[Any]) -> Kept:
    key, step, label, request, owner, when, state, answer = row
    return Kept(str(key), int(step), str(label), json.loads(request), str(owner), float(when), state, answer)


def store_request(connection: sqlite3.Connection, charge: int, kept: Kept) -> None:
    """Store the request of a charge, in its transaction. An empty key is none."""
    connection.execute(_TABLE)
    row = (charge, kept.key or None, kept.step, _as_json(kept.request), kept.owner, kept.state)
    connection.execute(
        "INSERT INTO requests (charge, once, step, request, owner, state) VALUES (?, ?, ?, ?, ?, ?)", row
    )


def store_answer(connection: sqlite3.Connection, kept: Kept, state: str, answer: bytes) -> bool:
    """Store the answer of a key, and return whether it was still missing."""
    done = connection.execute(
        "UPDATE requests SET state = ?, answer = ? WHERE once = ? AND step = ? AND owner = ? AND state = ?",
        (state, answer, kept.key, kept.step, kept.owner, CHARGED),
    )
    return bool(done.rowcount)


def find_repeat(connection: sqlite3.Connection, label: str, since: float) -> float | None:
    """Return when a charge without a key was made before, within a day: of the label, the request and the amount.

    ``label`` begins the label of the charge, which was made after ``since``.
    """
    if not has_requests(connection):
        return None
    (found,) = connection.execute(
        "SELECT max(old.time) FROM charges AS new JOIN requests AS asked ON asked.charge = new.id "
        "JOIN charges AS old ON old.id < new.id AND old.label = new.label AND old.epsilon = new.epsilon "
        "AND old.delta = new.delta JOIN requests AS before ON before.charge = old.id "
        "AND before.request = asked.request "
        "WHERE asked.once IS NULL AND new.time >= ? AND old.time > new.time - ? "
        "AND substr(new.label, 1, length(?)) = ?",
        (since, DAY, label, label),
    ).fetchone()
    return None if found is None else float(found)


def _as_json(request: Request) -> str:
    return json.dumps(dict(request), sort_keys=True)


# Fingerprints


def fingerprint(value: Any, digits: int = 17) -> str:
    """Return a hash of all that a public value is, equal in every process. Floats count with this many digits.

    Examples
    --------
    >>> from dpstats.privacy.kept_answers import fingerprint
    >>> fingerprint((0, 100)) == fingerprint([0.0, 100.0]), fingerprint((0, 100)) == fingerprint((0, 101))
    (True, False)
    """
    digest = hashlib.sha256()
    for part in _parts(value, digits, ()):
        digest.update(f"{len(part)}:".encode() + part)
    return digest.hexdigest()[:20]


def _parts(value: Any, digits: int, within: tuple[int, ...]) -> Any:
    """Yield the parts of a value as bytes. Numbers count by value, sequences by their entries."""
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    if isinstance(value, int | float) and not isinstance(value, bool):
        # 0 and 0.0 are one parameter. Large integers stay exact.
        exact = isinstance(value, int) and abs(value) >= 2**53
        yield str(value).encode() if exact else format(float(value) + 0.0, f".{digits}g").encode()
    elif value is None or isinstance(value, bool | str | complex | date | timedelta | Decimal | Fraction):
        yield f"{type(value).__name__} {value}".encode("utf-8", "backslashreplace")
    elif isinstance(value, bytes | bytearray):
        yield bytes(value)
    elif isinstance(value, Enum):
        yield f"{type(value).__name__}.{value.name}".encode()
    elif id(value) in within:
        yield b"itself"
    else:
        within = (*within, id(value))
        yield from _compound_parts(value, digits, within)


def _compound_parts(value: Any, digits: int, within: tuple[int, ...]) -> Any:
    if isinstance(value, Mapping):
        yield b"mapping"
        pairs = [(fingerprint(key, digits), key, entry) for key, entry in value.items()]
        for name, _, entry in sorted(pairs, key=lambda pair: pair[0]):
            yield name.encode()
            yield from _parts(entry, digits, within)
        yield b"end"
    elif isinstance(value, set | frozenset):
        yield b"set"
        yield from (name.encode() for name in sorted(fingerprint(entry, digits) for entry in value))
        yield b"end"
    elif isinstance(value, list | tuple | range):
        yield b"sequence"
        for entry in value:
            yield from _parts(entry, digits, within)
        yield b"end"
    elif hasattr(value, "__array__") and hasattr(value, "dtype"):
        import numpy as np

        yield from _parts(np.asarray(value).tolist(), digits, within)
    elif isinstance(value, types.FunctionType):
        yield f"{value.__module__}.{value.__qualname__}".encode()
        yield from _code_parts(value.__code__)
        yield from _parts([value.__defaults__, value.__kwdefaults__], digits, within)
        yield from _parts([cell.cell_contents for cell in value.__closure__ or ()], digits, within)
    elif isinstance(value, partial):
        yield from _parts(["partial", value.func, value.args, value.keywords], digits, within)
    elif name_distribution(value) is not None:
        # A frozen distribution also has a random state, which is not what it is.
        yield from _parts([value.dist.name, value.args, value.kwds], digits, within)
    elif isinstance(value, types.MethodType):
        yield from _parts(["method", value.__func__, value.__self__], digits, within)
    elif hasattr(value, "__qualname__") or isinstance(value, types.ModuleType):
        yield f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}".encode()
    else:
        yield type(value).__qualname__.encode()
        fields = (
            {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
            if dataclasses.is_dataclass(value)
            else vars(value)
            if hasattr(value, "__dict__")
            else _compiled_state(value)
        )
        yield from _parts(fields, digits, within)


def _compiled_state(value: Any) -> Any:
    """Return the pickled state of an object without attributes, such as a tree of scikit-learn, or its text."""
    state = None
    # The state of a generator of random numbers changes with its use, and is not what a parameter is.
    if not type(value).__module__.startswith("numpy.random"):
        state = attempt(lambda: value.__reduce_ex__(4), Exception)
    return state if isinstance(state, tuple) else {"as text": re.sub(r" at 0x[0-9a-f]+", "", str(value))}


def _code_parts(code: types.CodeType) -> Any:
    yield code.co_code
    yield " ".join(code.co_names).encode()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_parts(constant)
        else:
            yield repr(sorted(constant, key=repr) if isinstance(constant, frozenset) else constant).encode()


_PLAN_DIGITS = 10
"""Digits of noise scales that count. Another processor may compute the last ones differently."""


def plan_fingerprint(plan: Any) -> str:
    """Return the fingerprint of a plan: its stages, its target and its public size."""
    stages = getattr(plan, "stages", None)
    if stages is None:
        return fingerprint([plan.events, plan.guarantee], _PLAN_DIGITS)
    size = None if getattr(plan, "has_private_size", False) else getattr(plan, "n_samples", None)
    facts = [stages, plan.target, size, getattr(plan, "n_features", None)]
    return fingerprint(facts, _PLAN_DIGITS)


# Processes


def new_owner() -> str:
    """Return a name of this process, and of one charge in it."""
    return json.dumps([*_machine(), os.getpid(), _start_of(os.getpid()), os.urandom(8).hex()])


def may_run(owner: str) -> bool:
    """Return whether the process that charged may still run. On another machine, or on Windows, it always may."""
    try:
        host, boot, pid, start, _ = json.loads(owner)
    except (TypeError, ValueError):
        return False
    # On Windows, ``os.kill`` would end the process.
    if (host, boot) != _machine() or os.name == "nt":
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return bool(_start_of(int(pid)) == start)


def place_of_owner(owner: str) -> str:
    """Return the process that charged, as text."""
    try:
        host, _, pid, _, _ = json.loads(owner)
    except (TypeError, ValueError):
        return "an unknown process"
    return f"process {pid} on {host}"


@cache
def _machine() -> tuple[str, str]:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return socket.gethostname(), file.read().strip()
    except OSError:
        return socket.gethostname(), ""


def _start_of(pid: int) -> str:
    """Return when a process started, in the units of the system, so that a reused number is not taken for it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    # A process that ended and was not waited for is a zombie.
    return "ended" if fields[0] == "Z" else fields[19]


def is_key(key: Any) -> bool:
    """Return whether a value can be a key: text of at most 200 printable characters, not only spaces."""
    return isinstance(key, str) and 0 < len(key) <= 200 and key.strip() != "" and key.isprintable()
