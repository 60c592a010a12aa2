"""Failpoints: places after a charge where the outside world can fail, and a hook that lets one of them fail."""

from __future__ import annotations

import ast
import builtins
import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

from dpstats.privacy import PrivacyBudget

CANARY = "patient 4711"
"""Text of every planted failure. It stands for an entry of the data in a message of another package."""


def memory() -> BaseException:
    return MemoryError(f"Unable to allocate 4 GiB for {CANARY}")


def disk() -> BaseException:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), CANARY)


def package() -> BaseException:
    return ImportError(f"cannot load {CANARY}")


def changed() -> BaseException:
    return AttributeError(f"no attribute {CANARY}")


def value() -> BaseException:
    return ValueError(f"could not convert {CANARY}")


def interrupt() -> BaseException:
    return KeyboardInterrupt(CANARY)


FAILURES: tuple[Callable[[], BaseException], ...] = (memory, disk, package, changed, value, interrupt)
KINDS = ("calls", "lines", "imports")
"""Failpoints: calls from dpstats to other code, lines of dpstats (what its operators do, and signals), and imports."""


_NEVER_FAIL = ("__exit__", "release", "close", "setprofile", "settrace")
"""What only gives back a lock or a file, in C. Skipping it would leave the lock taken, which no failure does."""


@cache
def _with_lines(path: str) -> frozenset[int]:
    """Return the lines of the heads of with statements.

    The interpreter calls ``__exit__`` at these, where no signal is handled, and a tracer could fail.
    """
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except OSError:  # code that was made at run time
        return frozenset()
    heads = (node for node in ast.walk(tree) if isinstance(node, ast.With))
    return frozenset(line for node in heads for line in range(node.lineno, node.body[0].lineno))


def ours(frame: FrameType | None) -> bool:
    """Return whether a frame runs code of the package."""
    return frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "dpstats"


class Failpoint:
    """Counts the failpoints of a call after its charge, and lets the one at ``place`` fail; none by default.

    Parameters
    ----------
    kind : str
        Of `KINDS`.
    place : int, optional
        From 1.
    failure : callable, optional
    within : bool
        Whether failpoints inside the charge count, too.
    """

    def __init__(
        self, kind: str, place: int = 0, failure: Callable[[], BaseException] = memory, *, within: bool = False
    ) -> None:
        self.kind, self.place, self.failure, self.within = kind, place, failure, within
        self.armed, self.passed, self.hit = False, 0, ""
        self._user_call: FrameType | None = None

    def pass_by(self, where: str) -> None:
        """Count a failpoint, and fail if it is the one."""
        if not self.armed:
            return
        self.passed += 1
        if self.passed == self.place:
            self.armed, self.hit = False, where
            raise self.failure()

    def _profile(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "return" and frame is self._user_call:
            self.armed = False  # a later call of the user charges nothing
        elif (
            (event == "c_call" and getattr(arg, "__name__", "") in _NEVER_FAIL)
            or self.kind != "calls"
            or (event == "call" and frame.f_code.co_name == "__del__")
        ):
            return
        elif event == "c_call" and ours(frame):
            self.pass_by(f"{_at(frame)} calls {getattr(arg, '__name__', arg)}")
        elif event == "call" and ours(frame.f_back) and not ours(frame):
            self.pass_by(f"{_at(frame.f_back)} calls {frame.f_code.co_qualname}")

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not ours(frame):
            return None
        if event == "line" and frame.f_lineno not in _with_lines(frame.f_code.co_filename):
            self.pass_by(_at(frame))
        return self._trace

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch everything that runs within."""
        charge, load = PrivacyBudget.charge, builtins.__import__

        def charging(budget: Any, *args: Any, **options: Any) -> Any:
            self.armed = self.armed or (self.within and not self.hit)
            self._user_call = _outermost(sys._getframe())
            kept = charge(budget, *args, **options)
            self.armed = not self.hit
            return kept

        def importing(name: str, scope: Any = None, *args: Any, **options: Any) -> Any:
            if self.kind == "imports" and str((scope or {}).get("__name__", "")).startswith("dpstats"):
                self.pass_by(f"{scope['__name__']} imports {name}")
            return load(name, scope, *args, **options)

        profile, trace = sys.getprofile(), sys.gettrace()
        with patch.object(PrivacyBudget, "charge", charging), patch.object(builtins, "__import__", importing):
            try:
                if self.kind == "lines":
                    sys.settrace(self._trace)
                sys.setprofile(self._profile)
                yield
            finally:
                self.armed, self._user_call = False, None
                sys.setprofile(profile)
                sys.settrace(trace)


def _outermost(frame: FrameType) -> FrameType | None:
    """Return the frame of the call that a user made: the last of the package, from the inside."""
    found, outer = None, frame.f_back
    while outer is not None:
        found = outer if ours(outer) else found
        outer = outer.f_back
    return found


def _at(frame: FrameType | None) -> str:
    assert frame is not None
    return f"{frame.f_globals.get('__name__')}:{frame.f_lineno}"


@contextmanager
def without_opendp() -> Iterator[None]:
    """Make the library of exact noise unloadable, in a process that has drawn nothing yet."""
    from dpstats.release import noise

    kept = set(noise._REHEARSED)
    noise._REHEARSED.clear()
    noise._opendp_measurement.cache_clear()
    noise._opendp_selection.cache_clear()
    try:
        with patch.dict(sys.modules, {"opendp.measurements": None}):
            yield
    finally:
        noise._REHEARSED.update(kept)
