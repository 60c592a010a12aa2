"""The net: a random call, a random failpoint of it, a random failure, and the verdict."""

from __future__ import annotations

import itertools
import random
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.outside.charges.calls import Call, Outcome
from tests.outside.charges.failpoints import CANARY, FAILURES, KINDS, Failpoint, without_opendp


@dataclass
class Tally:
    """What a net has found.

    Attributes
    ----------
    counts : Counter
        Tries by outcome.
    faults : list of str
        Broken promises, with what shows them again.
    """

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def judge(outcome: Outcome) -> str:
    """Return what is wrong with an outcome, or an empty string.

    A call answers and charges, or refuses and does not charge, or states its charge.
    """
    if CANARY in outcome.said:
        return "the message shows data"
    if outcome.answered:
        return "" if outcome.charged else "an answer without a charge"
    if outcome.charged and not (outcome.states_charge or outcome.may_be_charged):
        return "charged, and the error does not say so"
    if outcome.states_charge and not outcome.charged and not outcome.may_be_charged:
        return "the error states a charge that was not made"
    if outcome.leaks and outcome.charged:
        return "the error leads to one that may show data"
    return ""


class Net:
    """Tries calls with failures.

    Parameters
    ----------
    calls : sequence of Call
    seed : int
    """

    def __init__(self, calls: Sequence[Call], seed: int) -> None:
        self.calls, self.random = list(calls), random.Random(seed)
        self.tally = Tally()
        self._sizes: dict[tuple[str, str, bool], int] = {}

    def _size(self, call: Call, kind: str, within: bool) -> int:
        """Return the number of failpoints of a call."""
        key = call.name, kind, within
        if key not in self._sizes:
            point = Failpoint(kind, within=within)
            outcome = call.make(point.watching())
            if wrong := judge(outcome) or ("" if outcome.answered else f"no answer: {outcome.said}"):
                self.tally.faults.append(f"{call.name} without a failure: {wrong}")
            self._sizes[key] = point.passed
        return self._sizes[key]

    def try_call(self, call: Call) -> None:
        """Let a random failpoint of a call fail."""
        kind = self.random.choices(KINDS, (6, 6, 1))[0]
        within = self.random.random() < 0.15
        size = self._size(call, kind, within)
        if not size:
            self.tally.counts["no failpoint"] += 1
            return
        point = Failpoint(kind, self.random.randint(1, size), self.random.choice(FAILURES), within=within)
        outcome = call.make(point.watching())
        self._note(call, point, outcome)

    def try_library(self, call: Call) -> None:
        """Try a call where the library of noise cannot be loaded: what needs it charges nothing."""
        outcome = call.make(without_opendp())
        wrong = judge(outcome)
        if not outcome.answered and outcome.charged:
            wrong = wrong or "charged without a library of noise"
        if not outcome.answered and "opendp" not in outcome.said:
            wrong = wrong or "the error does not name the library"
        self.tally.counts["without opendp: " + ("answered" if outcome.answered else "refused")] += 1
        if wrong:
            self.tally.faults.append(f"{call.name} without opendp: {wrong} ({outcome.said})")

    def _note(self, call: Call, point: Failpoint, outcome: Outcome) -> None:
        if not point.hit:
            seen = "failpoint not reached"
        elif outcome.answered:
            seen = "answered in spite of the failure"
        elif not outcome.charged:
            seen = "not charged"
        else:
            seen = "charged, and said so" if outcome.states_charge else "charged, and said that it may be"
        self.tally.counts[seen] += 1
        if wrong := judge(outcome):
            self.tally.faults.append(
                f"{call.name}: {wrong}; {point.failure.__name__} at {point.kind} {point.place} "
                f"(within the charge: {point.within}), {point.hit}: {outcome.said}"
            )

    def run(self, seconds: float, rounds: int | None = None) -> Tally:
        """Try random calls for as long as asked, or for some rounds, each first without the library of noise."""
        end = time.monotonic() + seconds
        order = self.random.sample(self.calls, len(self.calls))
        tried: set[str] = set()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of objects that a failure leaves behind
            for _ in itertools.count() if rounds is None else range(rounds):
                if time.monotonic() > end:
                    break
                for call in order:
                    if time.monotonic() > end:
                        break
                    if call.name not in tried:
                        tried.add(call.name)
                        self.try_library(call)
                    for _ in range(3):
                        self.try_call(call)
        self.tally.counts["calls"] = len(tried)
        return self.tally
