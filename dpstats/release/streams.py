"""Streams of a session, whose answers are given one after another, after one charge for all; and their stored state."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import DPStatsError, Exhausted, LedgerError, refuse
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.ledger import Answered, sync_folder, transaction
from dpstats.privacy.stages import Comparisons, Stage
from dpstats.release.noise import Noise


def check_process(process: int) -> None:
    """Refuse to draw in a process that did not make the stream."""
    if os.getpid() != process:
        raise DPStatsError("a stream belongs to the process that made it: two copies would cost twice")


# Streams of comparisons with a noisy threshold: new noise for every question, and a limit.
# Proof: docs/proofs/sparse-vector.md.


_AHEAD = 4096  # noise drawn ahead of the questions, which costs a draw's setup once


class Above(NamedTuple):
    """An answer above the threshold; ``steps`` is the value with noise of its own, where values are released."""

    steps: int | None


class Stream:
    """The answers of a `Comparisons` stage, one question at a time.

    Its state consists of the remaining answers above and the noisy threshold, and one assignment changes
    both. So an interrupted question never reuses a threshold that was passed, if the stage draws a new one.
    """

    def __init__(self, stage: Comparisons, noise: Noise) -> None:
        self._stage = stage
        self._noise = noise
        self._state: tuple[int, int | None] = (stage.max_above, None)
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._ahead: Iterator[int] = iter(())
        self._next_block = 1

    @property
    def left(self) -> int:
        """How many answers above there can still be."""
        return self._state[0]

    def ask(self, steps: int, answer: int | None = None) -> Above | None:
        """Compare a value, in steps, with the noisy threshold: an `Above`, or None for below.

        ``answer`` is the value to release if it is above, if that is another number of the same sensitivity.
        """
        # Before the lock, which another thread of the parent may have held at the fork.
        check_process(self._process)
        with self._lock:
            left, threshold = self._state
            if left == 0:
                raise Exhausted(
                    "the stream has given its last answer above the threshold: a new fit costs a new guarantee"
                )
            if threshold is None:
                noise = self._noise.laplace(self._stage.threshold_scale_steps, 1)
                threshold = self._stage.threshold_steps + int(noise[0])
                self._state = (left, threshold)
            drawn = next(self._ahead, None)
            if drawn is None:
                drawn = self._draw_ahead()
            if steps + drawn < threshold:
                return None
            self._state = (left - 1, None if self._stage.redrawn else threshold)
            return Above(self._answer(steps if answer is None else answer))

    def _answer(self, steps: int) -> int | None:
        """Return the value with separate noise, because the noise of the comparison must not be used again."""
        scale = self._stage.answer_scale_steps
        if scale is None:
            return None
        # The method has the name of the distribution.
        return steps + int(getattr(self._noise, self._stage.answer_noise)(scale, 1)[0])

    def _draw_ahead(self) -> int:
        # Few at first, so that a short stream of exact noise is not slow.
        block = self._noise.laplace(self._stage.question_scale_steps, self._next_block)
        self._next_block = min(8 * self._next_block, _AHEAD)
        self._ahead = iter(block.tolist())
        return next(self._ahead)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Stream cannot be copied or pickled: two copies would cost twice")


# Streams of numbers with additive noise. Proof: docs/proofs/continual-counts.md.


class NumberStream:
    """The numbers of a `Stage` with Gaussian noise, released in order, a few at a time.

    Its caller stores every answer before it gives it away, and says by `set_released` how many were. A number that
    was drawn and not stored was not released, and is drawn again.
    """

    def __init__(self, stage: Stage, noise: Noise) -> None:
        self._stage, self._noise = stage, noise
        self._process = os.getpid()
        self._released = 0
        self._ahead: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._next_block = 8

    @property
    def left(self) -> int:
        """How many numbers there can still be."""
        return self._stage.size - self._released

    def set_released(self, released: int) -> None:
        """Set how many numbers were released, which the stored state of the stream says."""
        self._released = released

    def add(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the next numbers with noise, in steps."""
        check_process(self._process)
        if steps.size > self.left:
            raise Exhausted(f"the stream has {self.left} more numbers: a new one costs a new guarantee")
        self._released += steps.size
        return steps + self._draw(steps.size)

    def _draw(self, count: int) -> NDArray[np.int64]:
        # Noise is drawn ahead, because a draw has a setup; few numbers at first, so that a short stream is not slow.
        if self._ahead.size < count:
            more = max(count - self._ahead.size, self._next_block)
            self._next_block = min(8 * self._next_block, _AHEAD)
            drawn = self._noise.gaussian(self._stage.scale_steps, more)
            self._ahead = np.concatenate([self._ahead, drawn])
        found, self._ahead = self._ahead[:count], self._ahead[count:]
        return found

    def __reduce__(self) -> NoReturn:
        raise TypeError("a NumberStream cannot be copied or pickled: two copies would cost twice")


# The state of a stream of numbers: in memory, or in an SQLite file that survives the process. A step is stored with its
# answer in one transaction, synced to disk, before the answer is given away. A process that is killed before loses a
# step that nobody saw; after, the stored answer is given again. Proof: docs/proofs/continual-counts.md.


_APPLICATION = 0x64707373  # "dpss": marks the file as the state of a stream
_TABLES = (
    "CREATE TABLE stream (identity TEXT NOT NULL, request TEXT NOT NULL, charged INTEGER NOT NULL)",
    "CREATE TABLE steps (step INTEGER PRIMARY KEY, once TEXT UNIQUE, given TEXT NOT NULL, released TEXT NOT NULL)",
)


class Step(NamedTuple):
    """One step: its key, the private integers that it was given, and the integers that it released."""

    key: str | None
    given: tuple[int, ...]
    released: tuple[int, ...]


class StreamState:
    """The steps of a stream so far.

    Parameters
    ----------
    path : str, path or None
        File of the state, created readable by its owner only. None keeps the state in memory.
    request : mapping of str to str
        Fingerprints of the public facts of the stream. A file of another stream is refused.

    Attributes
    ----------
    identity : str
        Random, made with the file.
    charged : bool
        Whether the stream was charged.
    steps : list of Step
        All steps that are known to this process, oldest first.
    lock : RLock
        Held by the thread that adds steps or reads them.
    """

    def __init__(self, path: Any, request: Mapping[str, str]) -> None:
        self.path = None if path is None else _check_path(path)
        self.identity = os.urandom(16).hex()
        self.charged = False
        self.steps: list[Step] = []
        self._marks = [""]  # after each number of steps
        self.lock = threading.RLock()
        if self.path is not None:
            self._create(self.path)
            with self._open(self.path) as connection:
                self._settle(connection, request)
            self.read()

    def _create(self, path: str) -> None:
        try:
            # An existing file is never truncated. One that was created and not filled is filled below.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise LedgerError(
                f"{path}: the state cannot be opened or created ({error.strerror}). Nothing was charged."
            ) from error
        sync_folder(os.path.dirname(path))

    def _settle(self, connection: sqlite3.Connection, request: Mapping[str, str]) -> None:
        """Write the request into a new file, or compare it with the request of the file."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application == 0 and tables == 0:
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            for table in _TABLES:
                connection.execute(table)
            row = (self.identity, json.dumps(dict(request), sort_keys=True))
            connection.execute("INSERT INTO stream VALUES (?, ?, 0)", row)
            return
        if application != _APPLICATION:
            raise LedgerError(f"{self.path} must be the state of a stream, got another file")
        self.identity, text = connection.execute("SELECT identity, request FROM stream").fetchone()
        kept = json.loads(text)
        other = sorted(name for name in {*kept, *request} if kept.get(name) != request.get(name))
        if other:
            raise refuse(
                "state",
                got=f"the state of another stream, which differs in: {', '.join(other)}",
                allowed="a new file, or the state of a stream with the same parameters",
                remedy="Nothing was charged.",
            )

    def mark_charged(self) -> None:
        """Store that the stream was charged."""
        with self.lock:
            if self.path is not None:
                with self._open(self.path) as connection:
                    connection.execute("UPDATE stream SET charged = 1")
            self.charged = True

    def read(self) -> None:
        """Read the steps that other processes have stored."""
        with self.lock:
            if self.path is not None:
                with self._open(self.path, writes=False) as connection:
                    self._load(connection)

    @contextlib.contextmanager
    def adding(self) -> Iterator[list[Step]]:
        """Yield a list for new steps, which are stored, all or none, when the block ends without an error.

        No other thread or process adds steps meanwhile, and ``steps`` has all steps that there are.
        """
        with self.lock:
            new: list[Step] = []
            if self.path is None:
                yield new
            else:
                with self._open(self.path) as connection:
                    self._load(connection)
                    yield new
                    first = len(self.steps)
                    rows = [
                        (first + place, step.key, json.dumps(step.given), json.dumps(step.released))
                        for place, step in enumerate(new)
                    ]
                    connection.executemany("INSERT INTO steps VALUES (?, ?, ?, ?)", rows)
            # The transaction is on disk here, and not before.
            self._append(new)

    def agree(self, budget: PrivacyBudget) -> None:
        """Read the steps, and have the budget know that they are answered. Refuse a file that the budget has outrun.

        The first file of a stream that has a step answered is the stream. Copies and restored files have other steps,
        or fewer, and are refused.
        """
        agreed = False
        while not agreed:
            # In this order: a step is stored before the budget knows it, so that this file is never behind.
            known = budget.find_answered()
            self.read()
            if known.steps > len(self.steps) or known.mark != self._marks[known.steps]:
                raise LedgerError(
                    f"{self.path}: the budget knows {known.steps} answered step(s) of this stream, which are not in "
                    "the file. It is a copy or an older file. Use the file that has them, or a new file. No answer "
                    "was given."
                )
            now = Answered(len(self.steps), self._marks[-1])
            agreed = now == known or budget.keep_answered(known, now)

    def _append(self, new: list[Step]) -> None:
        for step in new:
            # The mark is made from released numbers only, because others may read the budget.
            text = json.dumps([self._marks[-1], step.key, step.released])
            self._marks.append(hashlib.sha256(text.encode()).hexdigest()[:32])
        self.steps += new

    def _load(self, connection: sqlite3.Connection) -> None:
        identity, charged = connection.execute("SELECT identity, charged FROM stream").fetchone()
        (count,) = connection.execute("SELECT count(*) FROM steps").fetchone()
        if identity != self.identity or count < len(self.steps) or (self.charged and not charged):
            raise LedgerError(
                f"{self.path}: the state has lost steps that this process has seen. Another file has taken its place, "
                "and a step must not be released twice."
            )
        self.charged = bool(charged)
        rows = connection.execute(
            "SELECT once, given, released FROM steps WHERE step >= ? ORDER BY step", (len(self.steps),)
        )
        self._append(
            [Step(key, tuple(json.loads(given)), tuple(json.loads(released))) for key, given, released in rows]
        )

    @contextlib.contextmanager
    def _open(self, path: str, *, writes: bool = True) -> Iterator[sqlite3.Connection]:
        try:
            with transaction(path, writes=writes) as connection:
                yield connection
        except sqlite3.Error as error:
            raise LedgerError(
                f"{path}: the state of the stream cannot be {'written' if writes else 'read'} ({error}). "
                "No answer was given."
            ) from error


def _check_path(path: Any) -> str:
    try:
        found = os.path.abspath(os.fsdecode(path))
        found.encode()
    except (TypeError, ValueError):
        raise refuse("state", given=path, allowed="None or a path, in UTF-8") from None
    return found
