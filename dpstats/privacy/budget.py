"""A privacy budget: what may be spent, what was spent, and on what."""

from __future__ import annotations

import math
import os
import threading
import time
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

from dpstats.errors import BudgetExceeded, DPStatsError, InvalidParameter
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.validation import check_choice, check_privacy_parameters


@dataclass(frozen=True, slots=True)
class BudgetEntry:
    """One charge: its label, what it guaranteed, and when it was made (seconds since the epoch)."""

    label: str
    guarantee: PrivacyGuarantee
    time: float


def _exact(value: float) -> Fraction:
    # The decimal number that was written: 0.1 + 0.2 fits into 0.3.
    return Fraction(repr(value))


def _rounded(value: Fraction, *, up: bool) -> float:
    """Return the nearest float whose decimal is not below (``up``) or not above the exact value."""
    number = max(float(value), 0.0)
    while _exact(number) < value if up else _exact(number) > value:
        number = math.nextafter(number, math.inf if up else 0.0)
    return number


class PrivacyBudget:
    """A total guarantee that several releases share.

    Parameters
    ----------
    epsilon : float
        Total epsilon, greater than 0.
    delta : float, default=0.0
        Total delta, in [0, 1).
    neighbors : Neighbors, default=Neighbors.REPLACE_ONE
        The relation of every charge.
    method : {"basic"}, default="basic"
        How charges add up. "basic": epsilons and deltas are summed, as exact decimals. Valid also
        when later releases are chosen after seeing earlier answers.

    Notes
    -----
    A budget is shared, never copied: clones and copies of an estimator hold the same one. It lives
    in this process and refuses to be pickled into another, where it could be spent twice.

    Examples
    --------
    >>> from dpstats.privacy import PrivacyBudget, PrivacyGuarantee
    >>> budget = PrivacyBudget(0.3)
    >>> budget.charge(PrivacyGuarantee(0.1), label="mean age")
    >>> budget.charge(PrivacyGuarantee(0.2), label="mean income")
    >>> print(budget.remaining)
    (epsilon = 0, delta = 0), one row replaced
    >>> budget.charge(PrivacyGuarantee(0.01))
    Traceback (most recent call last):
        ...
    dpstats.errors.BudgetExceeded: asked for (epsilon = 0.01, delta = 0), one row replaced; left is
    (epsilon = 0, delta = 0), one row replaced. Nothing was charged.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        method: str = "basic",
    ) -> None:
        epsilon, delta = check_privacy_parameters(epsilon, delta)
        self.method = check_choice("method", method, ["basic"])
        self.total = PrivacyGuarantee(epsilon, delta, neighbors)
        self._entries: list[BudgetEntry] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    @property
    def spent(self) -> PrivacyGuarantee:
        """What all charges so far add up to."""
        epsilon, delta = self._sums()
        return PrivacyGuarantee(_rounded(epsilon, up=True), _rounded(delta, up=True), self.total.neighbors)

    @property
    def remaining(self) -> PrivacyGuarantee:
        """The largest single charge that still fits."""
        epsilon, delta = self._sums()
        left = _exact(self.total.epsilon) - epsilon, _exact(self.total.delta) - delta
        return PrivacyGuarantee(
            _rounded(left[0], up=False), _rounded(left[1], up=False), self.total.neighbors
        )

    def history(self) -> tuple[BudgetEntry, ...]:
        """Return all charges, oldest first."""
        with self._lock:
            return tuple(self._entries)

    def check(self, item: PrivacyGuarantee | ReleasePlan) -> None:
        """Raise what `charge` would raise, and charge nothing."""
        self._refuse_unless_fits(self._guarantee(item), self._sums())

    def charge(self, item: PrivacyGuarantee | ReleasePlan, label: str = "") -> None:
        """Spend a guarantee, or what a plan costs, or raise and spend nothing.

        Raises
        ------
        BudgetExceeded
            If it does not fit; the message says what was asked and what is left.
        """
        guarantee = self._guarantee(item)
        with self._lock:
            self._refuse_unless_fits(guarantee, self._unlocked_sums())
            self._entries.append(BudgetEntry(str(label), guarantee, time.time()))

    def _guarantee(self, item: Any) -> PrivacyGuarantee:
        if os.getpid() != self._process:
            raise DPStatsError(
                "a PrivacyBudget lives in the process that made it: this is a copy, made when the process forked, "
                "that could be spent twice"
            )
        guarantee = item.guarantee if isinstance(item, ReleasePlan) else item
        if not isinstance(guarantee, PrivacyGuarantee):
            raise InvalidParameter(
                f"a charge must be a PrivacyGuarantee or a plan, got {type(item).__name__}"
            )
        if guarantee.simulated:
            raise InvalidParameter("a simulated release is not private and charges no budget")
        if guarantee.neighbors is not self.total.neighbors:
            raise InvalidParameter(
                f"the budget is for {self.total.neighbors.name}, the charge is for {guarantee.neighbors.name}"
            )
        return guarantee

    def _sums(self) -> tuple[Fraction, Fraction]:
        with self._lock:
            return self._unlocked_sums()

    def _unlocked_sums(self) -> tuple[Fraction, Fraction]:
        zero = Fraction(0)
        epsilon = sum((_exact(entry.guarantee.epsilon) for entry in self._entries), zero)
        return epsilon, sum((_exact(entry.guarantee.delta) for entry in self._entries), zero)

    def _refuse_unless_fits(self, asked: PrivacyGuarantee, sums: tuple[Fraction, Fraction]) -> None:
        left = _exact(self.total.epsilon) - sums[0], _exact(self.total.delta) - sums[1]
        if _exact(asked.epsilon) > left[0] or _exact(asked.delta) > left[1]:
            remaining = PrivacyGuarantee(
                _rounded(left[0], up=False), _rounded(left[1], up=False), self.total.neighbors
            )
            raise BudgetExceeded(f"asked for {asked}; left is {remaining}. Nothing was charged.")

    def __repr__(self) -> str:
        return (
            f"PrivacyBudget(epsilon={self.total.epsilon:g}, delta={self.total.delta:g}, "
            f"spent epsilon={self.spent.epsilon:g}, delta={self.spent.delta:g})"
        )

    def __sklearn_clone__(self) -> PrivacyBudget:
        return self

    def __copy__(self) -> PrivacyBudget:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivacyBudget:
        return self

    def __reduce__(self) -> NoReturn:
        raise DPStatsError(
            "a PrivacyBudget lives in one process and cannot be pickled: a copy elsewhere could be spent twice"
        )


def check_budget(budget: Any, *, simulated: bool) -> PrivacyBudget | None:
    """Return a budget that a release may charge, or None; a simulated release may charge none."""
    if budget is None:
        return None
    if not isinstance(budget, PrivacyBudget):
        raise InvalidParameter(f"budget must be None or a PrivacyBudget, got {type(budget).__name__}")
    if simulated:
        raise InvalidParameter(
            "random_state and budget cannot be given together: simulated noise is not a private release "
            "and charges no budget"
        )
    return budget
