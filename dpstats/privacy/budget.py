"""A privacy budget: its total, its charges and the remaining budget.

Importing this module and charging a guarantee needs the standard library only.
"""

from __future__ import annotations

import inspect
import logging
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpstats.data.parameters import check_choice, check_integer, check_privacy_parameters
from dpstats.errors import BudgetExceeded, DPStatsError, InvalidParameter, LedgerError, refuse
from dpstats.inference.reports import Records, Reported
from dpstats.privacy.filters import METHODS, PLD, Amounts, Cost, Filter
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
from dpstats.privacy.kept_answers import AlreadyCharged, Kept, Request, fingerprint, is_key, new_owner, plan_fingerprint
from dpstats.privacy.ledger import Answered, LedgerStore, LeftBehind, MemoryStore, Record, Spent, planned_numbers

if TYPE_CHECKING:
    from dpstats.inference.results import Summary
    from dpstats.privacy.events import Event
    from dpstats.privacy.plan import Plan

    Charge = PrivacyGuarantee | Event | Cost | Plan


_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BudgetEntry:
    """One charge of a budget: its label, its guarantee, and its time (seconds since the epoch).

    Examples
    --------
    >>> from dpstats.privacy import PrivacyBudget, PrivacyGuarantee
    >>> budget = PrivacyBudget(epsilon=1.0)
    >>> budget.charge(PrivacyGuarantee(0.25), label="a first look")
    >>> entry = budget.history()[0]
    >>> entry.label, entry.guarantee.epsilon
    ('a first look', 0.25)
    """

    label: str
    guarantee: PrivacyGuarantee
    time: float


@dataclass(frozen=True)
class _KnownCost:
    """The cost of a guarantee without a plan. Its event is created if a method needs it."""

    guarantee: PrivacyGuarantee

    @property
    def events(self) -> tuple[Event, ...]:
        from dpstats.privacy.events import as_event

        return (as_event(self.guarantee),)


class PrivacyBudget(Reported):
    """A total privacy guarantee that several releases share.

    Pass it as ``budget`` to estimators. Every fit charges it before any noise is drawn, and fails if the charge
    exceeds the remaining budget.

    Parameters
    ----------
    epsilon : float
        Total epsilon. Must be positive.
    delta : float, default=0.0
        Total delta, in [0, 1).
    neighbors : Neighbors, default=Neighbors.REPLACE_ONE
        Neighboring relation of every charge. The budget never converts charges for rows added or removed. Convert them
        with ``as_replace_one``.
    method : {"basic", "gdp", "zcdp", "pld"}, default="basic"
        Composition of charges:

        * "basic": adds epsilons and deltas, as exact decimals.
        * "gdp": adds squares of mu, for Gaussian and pure releases.
        * "zcdp": adds rho. A tenth of delta is reserved for charges that have only (epsilon, delta).
        * "pld": the tightest total, for a plan fixed before the first answer.

        The first three are valid if later releases depend on earlier answers.
    ledger : str or path, optional
        An SQLite file that stores the charges, created on first use. Any number of processes and threads can share it.
        A charge is durable before the call returns. Without a ledger, the budget exists in this process only.
    planned : sequence of plans, costs or events, optional
        For ``method="pld"``: all releases, in order.
    unit : str, optional
        Unit of privacy, such as "person". Default: the unit of the first charge. A charge for another unit raises an
        error, because charges for people and for rows do not add up. `group_privacy` converts it.

    Attributes
    ----------
    total : PrivacyGuarantee
        Guarantee of all charges together.
    unit : str or None
        Unit of privacy, or None before the first charge.

    Notes
    -----
    A budget is shared, never copied: clones and copies of an estimator refer to the same budget. A budget with a ledger
    can be pickled, as the path of the ledger. A budget without one raises an error outside its process. A fitted
    estimator is pickled without its budget. Proofs: docs/proofs/budget.md.

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
    dpstats.errors.BudgetExceeded: Requested (epsilon = 0.01, delta = 0), one row replaced; already spent
    (epsilon = 0.3, delta = 0) of (epsilon = 0.3, delta = 0) by method 'basic', and the largest single
    charge that fits is (epsilon = 0, delta = 0). Nothing was charged.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        method: str = "basic",
        ledger: Any = None,
        planned: Iterable[Charge] = (),
        unit: str | None = None,
    ) -> None:
        epsilon, delta = check_privacy_parameters(epsilon, delta)
        self.method = check_choice("method", method, list(METHODS))
        self._declared_unit = unit
        self._total = PrivacyGuarantee(epsilon, delta, neighbors, unit="row" if unit is None else unit)
        self._planned = tuple(self._cost(item) for item in planned)
        if self._planned and method != "pld":
            raise refuse("planned", got=f"method={method!r}", allowed="None unless method='pld'")
        self._filter: Filter = (
            PLD(epsilon, delta, self._planned) if method == "pld" else METHODS[method](epsilon, delta)
        )
        self._process = os.getpid()
        self._label, self._row_unit = "", "row"
        self._key, self._request = "", None
        self._store: MemoryStore | LedgerStore = (
            MemoryStore() if ledger is None else LedgerStore(ledger, self._parameters(), create=True)
        )
        self._settle_planned()

    @classmethod
    def open(cls, ledger: Any) -> PrivacyBudget:
        """Return the budget of a ledger file."""
        store = LedgerStore(ledger)
        kept = store.parameters
        try:
            total, relation = (float(kept["epsilon"]), float(kept["delta"])), Neighbors[kept["neighbors"]]
            method, planned, unit = str(kept["method"]), list(kept["planned"]), kept.get("unit")
        except (KeyError, TypeError, ValueError):
            raise LedgerError(f"{store.path}: the file is not a ledger, or it is corrupt") from None
        if planned:
            raise refuse(
                "planned", got="None", allowed="the planned releases of the ledger", remedy="Give the same list again."
            )
        budget = cls(*total, neighbors=relation, method=method, unit=unit)
        budget._store = store
        return budget

    def _parameters(self) -> dict[str, Any]:
        # A budget without a declared unit has the parameters of versions that had no units.
        declared = {} if self._declared_unit is None else {"unit": self._declared_unit}
        return declared | {
            "epsilon": repr(self._total.epsilon),
            "delta": repr(self._total.delta),
            "neighbors": self._total.neighbors.name,
            "method": self.method,
            "planned": [repr(cost.events) for cost in self._planned],
        }

    def _settle_planned(self) -> None:
        """Raise an error if planned charges, written by another version, may exceed the budget with these numbers.

        The two sets of numbers agree to a relative 1e-12. Earlier charges used the numbers of the ledger, and later
        charges use these. The more expensive of both, number by number, must equal the numbers of the ledger or be
        certified now.
        """
        if not isinstance(self._store, LedgerStore) or not isinstance(self._filter, PLD):
            return
        kept = self._store.parameters["planned"]
        if kept == self._parameters()["planned"]:
            return
        from dpstats.privacy.events import dearer, number_names
        from dpstats.privacy.totals import covers

        dearest, changed = [], False
        for cost, text in zip(self._planned, kept, strict=True):
            numbers = planned_numbers(text)[1]
            for event in cost.events:
                size = len(number_names(event))
                (worst, theirs), numbers = dearer(event, numbers[:size]), numbers[size:]
                changed = changed or worst != theirs
                dearest.append(worst)
        if changed and not covers(dearest, self._total):
            raise LedgerError(
                f"{self._store.path}: its planned charges and the ones given differ in their last digits, and together "
                "they may cost more than the budget"
            )

    @property
    def ledger(self) -> str | None:
        """The absolute path of the ledger, or None."""
        return self._store.path if isinstance(self._store, LedgerStore) else None

    @property
    def unit(self) -> str | None:
        """Unit of privacy: the declared one, or the unit of the first charge. None before that."""
        return self._unit_of(self._kept().spent())

    def _unit_of(self, spent: Spent) -> str | None:
        return spent.unit if self._declared_unit is None else self._declared_unit

    @property
    def total(self) -> PrivacyGuarantee:
        """Guarantee of all charges together."""
        return replace(self._total, unit=self.unit or "row")

    def _amount(self, numbers: tuple[float, float], spent: Spent) -> PrivacyGuarantee:
        return PrivacyGuarantee(*numbers, self._total.neighbors, unit=self._unit_of(spent) or "row")

    @property
    def spent(self) -> PrivacyGuarantee:
        """Guarantee of all charges so far together."""
        spent = self._kept().spent()
        return self._amount(self._filter.spent(spent.amounts), spent)

    @property
    def remaining(self) -> PrivacyGuarantee:
        """The largest single charge that still fits.

        For "gdp" it is a Gaussian release with its delta. For "zcdp" it is a pure release.
        """
        spent = self._kept().spent()
        return self._amount(self._filter.remaining(spent.amounts), spent)

    def share(self, times: int) -> PrivacyGuarantee:
        """Return the largest charge that still fits ``times`` times.

        Pass its epsilon and delta to each of ``times`` estimators. A float such as 1/49 can be above its decimal
        fraction, so that the last of 49 charges does not fit.

        Parameters
        ----------
        times : int
            Number of equal charges.

        Examples
        --------
        >>> from dpstats.privacy import PrivacyBudget
        >>> budget = PrivacyBudget(1.0)
        >>> share = budget.share(49)
        >>> for _ in range(49):
        ...     budget.charge(share)
        """
        times, spent = check_integer("times", times, at_least=1), self._kept().spent()
        return self._amount(self._filter.remaining(spent.amounts, times), spent)

    def history(self) -> tuple[BudgetEntry, ...]:
        """Return all charges, oldest first."""
        neighbors = self._total.neighbors
        return tuple(
            BudgetEntry(
                record.label, PrivacyGuarantee(record.epsilon, record.delta, neighbors, unit=record.unit), record.time
            )
            for record in self._kept().records()
        )

    def remaining_after(self, item: Charge) -> PrivacyGuarantee:
        """Return the remaining budget after a charge without charging it, or raise the error that `charge` raises."""
        cost, spent = self._cost(item), self._kept().spent()
        after = self._admit(cost, spent)
        return replace(self._amount(self._filter.remaining(after), spent), unit=self._unit_charged(cost))

    def labelled(self, label: str) -> PrivacyBudget:
        """Return this budget with a label that precedes the labels of its charges, such as the name of a dataset.

        Both objects share one budget: a charge to either is a charge to both.

        Examples
        --------
        >>> from dpstats.privacy import PrivacyBudget, PrivacyGuarantee
        >>> budget = PrivacyBudget(1.0)
        >>> budget.labelled("survey.csv").charge(PrivacyGuarantee(0.25), label="mean age")
        >>> budget.history()[0].label, budget.remaining.epsilon
        ('survey.csv: mean age', 0.75)
        """
        return self._view(_label=self._full_label(str(label)))

    def count_rows_as(self, unit: str) -> PrivacyBudget:
        """Return this budget for data in which every row is one unit of this name, for example one row per person.

        Charges for rows become charges for this unit. Use it if the data cannot carry a unit: arrays, files,
        polars frames and mechanisms. Nothing checks it: if a unit has several rows, the guarantee
        is false. Both objects share one budget: a charge to either is a charge to both.

        Examples
        --------
        >>> from dpstats.privacy import PrivacyBudget, PrivacyGuarantee
        >>> budget = PrivacyBudget(1.0, unit="person")
        >>> budget.count_rows_as("person").charge(PrivacyGuarantee(0.25), label="mean age")
        >>> print(budget.remaining)
        (epsilon = 0.75, delta = 0), one person replaced
        """
        return self._view(_row_unit=PrivacyGuarantee(0.0, unit=unit).unit)

    def once(self, key: str) -> PrivacyBudget:
        """Return this budget for one release, which is charged once, however often it is repeated.

        The first release under a key charges the budget, and keeps its released numbers. The same release under the
        same key returns these numbers again: it charges nothing and draws no noise. Another release under the key is
        refused before any charge. Use it for a job that may run twice.

        Parameters
        ----------
        key : str
            Public name of the release, at most 200 characters, such as its date and subject. It stands for the data:
            a release under a known key does not see later data.

        Returns
        -------
        PrivacyBudget
            Both objects share one budget. Charges have the key as their label.

        Notes
        -----
        A release is the same if its estimator, parameters, columns, number of rows, label and plan are. Whether the
        entries are the same is not compared, because the result would say something about them. In a ledger, the
        answer survives the process. If a process ends between the charge and the answer, a later release under the key
        raises `ChargedError`: epsilon is spent. Proof: docs/proofs/budget.md.

        Examples
        --------
        >>> import numpy as np
        >>> from dpstats.means import ClippedMean
        >>> from dpstats.privacy import PrivacyBudget
        >>> budget, ages = PrivacyBudget(1.0), np.arange(100.0)
        >>> model = ClippedMean(bounds=(0, 100), epsilon=0.5, budget=budget.once("2026-11-28 mean age"))
        >>> first, second = model.fit(ages).mean_, model.fit(ages).mean_
        >>> bool(first == second), budget.spent.epsilon
        (True, 0.5)
        """
        if not is_key(key):
            allowed = "text of 1 to 200 printable characters"
            raise refuse("key", given=key, allowed=allowed, remedy="Name the release, for example by its date.")
        return self._view(_key=key, _label=self._full_label(key))

    @property
    def key(self) -> str | None:
        """The key of `once`, or None."""
        return self._key or None

    def for_request(self, request: Request) -> PrivacyBudget:
        """Return this budget for a release with these public facts; refuse other ones than the key was charged for."""
        same = self._view(_request=dict(request) | {"label": self._label})
        if self._key and (known := self.find_kept()) is not None:
            known.check(same._request or {})
        return same

    def find_kept(self, step: int = 0) -> Kept | None:
        """Return the entry of the key, or None for a key that was not charged."""
        return self._kept().find(self._key, step) if self._key else None

    def keep(self, asked: Kept, state: str, answer: bytes) -> bool:
        """Store the answer of a key, and return whether it was still missing."""
        return self._kept().keep(asked, state, answer)

    def find_answered(self) -> Answered:
        """Return the answered steps of the stream whose name is the key."""
        return self._kept().find_answered(self._key)

    def keep_answered(self, known: Answered, now: Answered) -> bool:
        """Store the answered steps of a stream, and return whether the known ones were still right."""
        return self._kept().keep_answered(self._key, known, now)

    def answers(self) -> list[Kept]:
        """Return the entries of all keys, oldest first."""
        return self._kept().answers()

    def find_repeat(self, since: float) -> float | None:
        """Return when a charge of this label that was made after ``since`` was made before, without a key.

        Both are for the same public facts, and at most a day apart. A budget without a ledger returns None.
        """
        return self._store.repeat(self._label, since) if isinstance(self._store, LedgerStore) else None

    def _view(self, **changes: Any) -> PrivacyBudget:
        same = object.__new__(type(self))
        vars(same).update(vars(self) | changes)
        return same

    def _unit_charged(self, cost: Cost) -> str:
        unit = cost.guarantee.unit
        return self._row_unit if unit == "row" else unit

    def _full_label(self, label: str) -> str:
        return ": ".join(part for part in (self._label, label) if part)

    def _records(self) -> Records:
        entries = self.history()
        columns = {
            "epsilon": [entry.guarantee.epsilon for entry in entries],
            "delta": [entry.guarantee.delta for entry in entries],
            "time": [entry.time for entry in entries],
        }
        keys = ("total", "spent", "remaining")
        facts = {"method": self.method, **{key: getattr(self, key).to_dict() for key in keys}}
        return Records([entry.label for entry in entries], columns, facts)

    def summary(self) -> Summary:
        """Return a table of the charges and the remaining budget; text, or HTML in a notebook."""
        from dpstats.inference.results import Summary  # on demand: a charge needs the standard library only

        facts = [
            ("Total", str(self.total)),
            ("Spent", str(self.spent)),
            ("Remaining", f"{self.remaining}, the largest single charge that fits"),
            ("Charges add up by", self.method),
            *([] if self.ledger is None else [("Ledger", os.path.basename(self.ledger))]),
        ]
        rows = [
            (
                entry.label or "(no label)",
                f"{entry.guarantee.epsilon:.6g}",
                f"{entry.guarantee.delta:.6g}",
                time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.time)),
            )
            for entry in self.history()
        ]
        return Summary("Privacy budget", facts, ("", "epsilon", "delta", "time"), rows)

    def check(self, item: Charge) -> None:
        """Raise the error that `charge` would raise, without charging."""
        cost = self._cost(item)
        if self.find_kept() is None:
            self._admit(cost, self._kept().spent())

    def check_left(self) -> None:
        """Raise `BudgetExceeded` if the remaining budget is 0, and a charge would be needed."""
        if self.find_kept() is not None:
            return
        epsilon, delta = self._filter.remaining(self._kept().spent().amounts)
        if epsilon <= 0:
            raise BudgetExceeded(
                f"nothing remains of (epsilon = {self._total.epsilon:.6g}, delta = {self._total.delta:.6g}) by method "
                f"{self.method!r}: the largest charge that fits is (epsilon = {epsilon:.6g}, delta = {delta:.6g}). "
                "Nothing was charged."
            )

    def check_adaptive(self, purpose: str) -> None:
        """Refuse a budget whose charges are all fixed before the first answer.

        ``purpose`` is a release whose later charges depend on the answer to the first.
        """
        if not self._filter.adaptive:
            raise refuse(
                "budget",
                got=f"method={self.method!r}",
                allowed=f"one whose charges may depend on earlier answers, for {purpose}",
                remedy="Nothing was charged. Use method='gdp' or 'zcdp'.",
            )

    def charge(self, item: Charge, label: str = "", *, step: int = 0) -> Kept | None:
        """Charge a guarantee, an event, or the cost of a plan. On an error, nothing is charged.

        The call returns after the charge is stored. With a ledger, the charge is then on disk.

        Parameters
        ----------
        item : PrivacyGuarantee, event, cost or plan
        label : str
            Purpose of the charge.
        step : int
            With a key: the number of earlier charges in the same call.

        Returns
        -------
        Kept or None
            With a key: its entry.

        Raises
        ------
        BudgetExceeded
            If the charge exceeds the remaining budget. The message has the charge, the spent budget, and the largest
            charge that fits.
        InvalidParameter
            If the method cannot compose the charge, or if it is simulated or for another relation or unit.
        LedgerError
            If the ledger cannot be written.
        AlreadyCharged
            If the key was charged before, for the same request.
        """
        cost = self._cost(item)
        epsilon, delta, unit = cost.guarantee.epsilon, cost.guarantee.delta, self._unit_charged(cost)
        record = Record(self._full_label(str(label)), epsilon, delta, time.time(), unit)
        asked = self._asked(cost, record, step)
        try:
            self._kept().charge(record, lambda spent: self._admit(cost, spent), asked)
        except AlreadyCharged as error:
            assert asked is not None
            error.kept.check(asked.request)
            raise
        _LOGGER.info("charged (epsilon = %.6g, delta = %.6g) for %r", epsilon, delta, record.label)
        return asked if self._key else None

    def _asked(self, cost: Cost, record: Record, step: int) -> Kept | None:
        """Return the entry of a charge, or None if there is neither a key nor a known request."""
        if not self._key and (self._request is None or not isinstance(self._store, LedgerStore)):
            return None
        request = {**(self._request or {}), "label": self._label, "release": record.label}
        request["plan"] = plan_fingerprint(cost)
        return Kept(self._key, step, record.label, request, new_owner(), record.time)

    def _admit(self, cost: Cost, kept: Spent) -> Amounts:
        spent = kept.amounts
        if self._unit_of(kept) not in (None, self._unit_charged(cost)):
            raise InvalidParameter(
                f"the unit of the budget is {self._unit_of(kept)!r}, the unit of the charge is "
                f"{self._unit_charged(cost)!r}: they do not add up. Nothing was charged. Convert the "
                "guarantee with group_privacy, or use one_row_per_unit. If every row is one unit, and none was "
                "dropped, call budget.count_rows_as(unit)."
            )
        more = self._filter.amounts(cost, spent)
        after = spent[0] + more[0], spent[1] + more[1]
        if not self._filter.admits(after):
            used, fits = self._filter.spent(spent), self._filter.remaining(spent)
            asked = cost.guarantee.epsilon, cost.guarantee.delta
            words = _distinguish(asked, fits), _distinguish(fits, asked)
            lacks_delta = cost.guarantee.epsilon <= fits[0] and cost.guarantee.delta > fits[1]
            advice = (
                " Too little delta remains: set delta=0, or a smaller delta, in the release." if lacks_delta else ""
            )
            raise BudgetExceeded(
                f"Requested {words[0]}, {cost.guarantee.relation}; already spent (epsilon = {used[0]:.6g}, delta = "
                f"{used[1]:.6g}) of (epsilon = {self._total.epsilon:.6g}, delta = {self._total.delta:.6g}) by method "
                f"{self.method!r}, and {self._filter.largest} is {words[1]}."
                f"{self._filter.second_exceeded(after)}{advice} Nothing was charged."
            )
        return after

    def _cost(self, item: Any) -> Cost:
        cost = self._known_cost(item)
        if cost.guarantee.simulated:
            raise InvalidParameter("a simulated release is not private and cannot charge a budget. Remove random_state")
        if cost.guarantee.neighbors is not self._total.neighbors:
            raise refuse(
                "charge",
                got=cost.guarantee.neighbors.name,
                allowed=f"have the neighbors of the budget, {self._total.neighbors.name}",
            )
        return cost

    def _known_cost(self, item: Any) -> Cost:
        if isinstance(item, PrivacyGuarantee):
            return _KnownCost(item)
        if isinstance(item, _KnownCost):
            return item
        from dpstats.privacy.events import Approximate, Event
        from dpstats.privacy.plan import Plan, ReleaseCost
        from dpstats.privacy.totals import compose

        if isinstance(item, Plan | ReleaseCost):
            return item
        if isinstance(item, Event):
            if isinstance(item, Approximate):
                return ReleaseCost((item,), PrivacyGuarantee(item.epsilon, item.delta, item.neighbors))
            delta = 0.0 if item.pure_cost() is not None else self._total.delta
            return ReleaseCost((item,), compose([item], delta))
        raise refuse("charge", got=f"a {type(item).__name__}", allowed="a guarantee, an event or a plan")

    def _kept(self) -> MemoryStore | LedgerStore:
        """Return the store, unless this is a copy of a budget that lives in another process."""
        if os.getpid() != self._process and isinstance(self._store, MemoryStore):
            raise DPStatsError(
                "a PrivacyBudget without a ledger lives in the process that made it: this is a copy, made when the "
                "process forked, that could be spent twice; give ledger='path' to share a budget between processes"
            )
        return self._store

    def __repr__(self) -> str:
        # Logs and tracebacks show this text. An error here would hide the original error, so show only known values.
        known = vars(self)
        if "_store" not in known:
            return "PrivacyBudget(not made)"
        try:
            amounts = self.spent
            spent = f"({amounts.epsilon:.6g}, {amounts.delta:.6g})"
        except Exception as error:
            spent = f"unknown: {error}" if isinstance(error, DPStatsError) else "unknown"
        where = "" if self.ledger is None else f", ledger={self.ledger!r}"
        return (
            f"PrivacyBudget(epsilon={self._total.epsilon:g}, delta={self._total.delta:g}, method={self.method!r}, "
            f"spent={spent}{where})"
        )

    def __sklearn_clone__(self) -> PrivacyBudget:
        return self

    def __copy__(self) -> PrivacyBudget:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivacyBudget:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if not isinstance(self._store, LedgerStore):
            raise DPStatsError(
                "a PrivacyBudget without a ledger lives in one process and cannot be pickled: a copy elsewhere could "
                "be spent twice; give ledger='path' to share a budget between processes"
            )
        total = self._total
        where = (self._store.path, self._store.identity, self._label, self._declared_unit, self._row_unit)
        return _rebuild, (
            *(total.epsilon, total.delta, total.neighbors, self.method, self._planned),
            *where,
            *(self._key, self._request),
        )


def _rebuild(
    epsilon: float,
    delta: float,
    neighbors: Neighbors,
    method: str,
    planned: tuple[Any, ...],
    ledger: str,
    identity: str,
    label: str = "",
    unit: str | None = None,
    row_unit: str = "row",
    key: str = "",
    request: Request | None = None,
) -> PrivacyBudget:
    """Return the budget of this exact ledger. Raise an error if the file is missing or was replaced."""
    budget = PrivacyBudget(epsilon, delta, neighbors=neighbors, method=method, planned=planned, unit=unit)
    budget._store = LedgerStore(ledger, budget._parameters(), identity=identity)
    budget._settle_planned()
    return budget._view(_label=label, _row_unit=row_unit, _key=key, _request=request)


def _distinguish(amount: tuple[float, float], other: tuple[float, float]) -> str:
    """Return an amount with enough digits to distinguish it from another one."""
    shown = []
    for number, different in zip(amount, other, strict=True):
        digits = (n for n in range(6, 17) if number == different or f"{number:.{n}g}" != f"{different:.{n}g}")
        shown.append(f"{number:.{next(digits, 17)}g}")
    return f"(epsilon = {shown[0]}, delta = {shown[1]})"


def check_budget(budget: Any, *, simulated: bool) -> PrivacyBudget | None:
    """Return a budget that a release may charge, or None. A simulated release may not charge a budget."""
    if budget is None:
        return None
    if isinstance(budget, LeftBehind):
        budget.refuse()
    if not isinstance(budget, PrivacyBudget):
        raise refuse("budget", given=budget, allowed="None or a PrivacyBudget")
    if simulated:
        raise InvalidParameter(
            "random_state and budget cannot be given together: simulated noise is not a private release "
            "and charges no budget"
        )
    return budget


_NO_REQUEST = ("budget", "random_state", "n_jobs", "verbose", "self")


def describe_request(asking: Any, **facts: Any) -> dict[str, str]:
    """Return the request of an estimator or a mechanism: its class, its parameters and further public facts."""
    found = {"estimator": fingerprint(type(asking).__qualname__)}
    for name in inspect.signature(type(asking).__init__).parameters:
        if name not in _NO_REQUEST:
            value = getattr(asking, name, getattr(asking, f"_{name}", None))
            found[name] = fingerprint(value)
    return found | {name: fingerprint(value) for name, value in facts.items()}


def add_request(budget: PrivacyBudget | None, asking: Any, **facts: Any) -> PrivacyBudget | None:
    """Return a budget for the request of an estimator, and refuse another one than its key was charged for."""
    # A budget in memory without a key compares nothing.
    if budget is None or (budget.key is None and budget.ledger is None):
        return budget
    return budget.for_request(describe_request(asking, **facts))


def refuse_key(budget: PrivacyBudget | None) -> None:
    """Refuse a budget with a key for answers to questions that come later: they have no last one to keep."""
    if budget is not None and budget.key is not None:
        raise refuse(
            "budget",
            got="one with a key",
            allowed="a budget without a key for a stream",
            remedy="A stream answers one question after another, and cannot be asked again. Leave out once().",
        )
