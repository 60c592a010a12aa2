"""Accounts of running calls: an error after a charge states the charge and keeps the released values.

Public calls that release are decorated with `state_charges`. A session reports its charge to the running calls. A
later error of any type becomes a `ChargedError`. Its message states the charge, and ``released`` has the values.
Proof: docs/proofs/session.md.

Importing this module needs the standard library only.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from dpstats.errors import ChargedError, DPStatsError

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


class Account:
    """The charges of one call, and of the calls within it.

    Attributes
    ----------
    charges : list of (str, str)
        Labels and guarantees of the charges.
    released : list of mappings
        The releases of each charge, by the names of their stages; filled while they are drawn.
    kept : list of str
        Earlier charges of a key whose answers this call was given again. ``released`` has their values too.
    unknown : bool
        Whether the last charge was interrupted, so that it may have been stored or not.
    where : str
        Where the releases are stored, if they are.
    """

    def __init__(self) -> None:
        self.charges: list[tuple[str, str]] = []
        self.released: list[Mapping[str, Any]] = []
        self.kept: list[str] = []
        self.unknown = False
        self.where = ""
        self._steps: Counter[str] = Counter()

    def steps(self, key: str) -> int:
        """Return the number of charges under a key."""
        return self._steps[key]

    def next_step(self, key: str) -> int:
        """Return the place of a key's next charge among its charges in this call."""
        self._steps[key] += 1
        return self._steps[key] - 1

    def explain(self) -> str:
        """Describe the charges and the place of the released values."""
        each = "; ".join(f"{guarantee} for {label!r}" for label, guarantee in self.charges)
        words = " ".join([*self.kept, *([f"The charge stands: {each}."] if self.charges else [])])
        if self.unknown:
            words = f"An interrupted charge may have been stored: {each}. See history() of the budget."
        if self.where:
            return f"{words} {self.where}"
        if names := list(map(repr, self.values())):
            return f"{words} Attribute released of this error has the released values: {', '.join(names)}."
        return f"{words} Nothing was released."

    def values(self) -> dict[str, Any]:
        """Return the released values, by the names of their stages."""
        # A stream has no released value.
        found = {name: value for each in self.released for name, value in each.items()}
        return {name: value for name, value in found.items() if value is not None}

    def failure(self, error: BaseException) -> BaseException:
        """Return the error that a failed call raises after its charge."""
        released = self.values()
        if hasattr(error, "released"):  # of a call within this one
            return error
        if not isinstance(error, Exception):
            # An interrupt keeps its type. The error that it interrupted may show data.
            error.__cause__ = error.__context__ = None
            vars(error).update(released=released)
            error.add_note(self.explain())
            return error
        # Only messages of this package are known to show no data.
        what = str(error).removesuffix(" Nothing was charged.") if isinstance(error, DPStatsError) else ""
        what = (what or f"the release failed ({type(error).__name__}{_place(error)})").rstrip(".")
        return ChargedError(f"{what}. {self.explain()}", released)


_ACCOUNTS: ContextVar[tuple[Account, ...]] = ContextVar("accounts", default=())
"""The accounts of the running calls, outermost first."""


def running_accounts() -> tuple[Account, ...]:
    """Return the accounts of the running calls, outermost first."""
    return _ACCOUNTS.get()


def state_charges(call: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
    """Decorate a call that releases: replace an error after its charge by `ChargedError`."""

    @functools.wraps(call)
    def make_call(*args: Parameters.args, **options: Parameters.kwargs) -> Answer:
        account = Account()
        before = _ACCOUNTS.get()
        try:
            _ACCOUNTS.set((*before, account))
            try:
                return call(*args, **options)
            finally:
                _ACCOUNTS.set(before)
        except BaseException as error:
            if not account.charges and not account.kept:
                raise
            failure = account.failure(error)
        # Outside of the handler, so that the error has no context, which may show data.
        raise failure

    return make_call


def _place(error: Exception) -> str:
    """Return the last place inside the package where an error occurred."""
    place, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__", "")
        if name.partition(".")[0] == "dpstats" and name != __name__:
            place = f" in {name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return place
