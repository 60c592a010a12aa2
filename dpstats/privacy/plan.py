"""Release plans: the released quantities, their noise and cost. Plans are public and fixed in advance."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import ndtr, ndtri

from dpstats.data.parameters import check_real
from dpstats.errors import DPStatsError, InvalidParameter, NotEnoughMemory, attempt, is_public, refuse, show
from dpstats.inference.reports import Records, Reported
from dpstats.inference.results import Summary
from dpstats.privacy.events import Event, Gaussian, as_event
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee, common_neighbors
from dpstats.privacy.stages import Added, AnyStage, Coins, Comparisons, JointStage, Selection, Shuffle, Stage
from dpstats.privacy.totals import certifies, compose, covers, gaussian_total


class _Planned(Protocol):
    @property
    def events(self) -> tuple[Event, ...]: ...

    @property
    def guarantee(self) -> PrivacyGuarantee: ...


# A test of a dataset against its neighbor has a type I error a and a type II error b. Privacy bounds b from below
# (Wasserman and Zhou 2010; Dong, Roth and Su 2022). The bound of a guarantee is the largest of 0,
# 1 - delta - e^epsilon a and e^-epsilon (1 - delta - a). A profile has the largest of these bounds over epsilon.
def tradeoff_curve(item: PrivacyGuarantee | _Planned | Event, type_one_error: Any) -> NDArray[np.float64]:
    """Return the smallest type II error that any test with this type I error can have.

    Parameters
    ----------
    item : PrivacyGuarantee, ReleasePlan or event
        A plan of Gaussian releases, and a Gaussian event, give their exact curve; any other plan
        its composed guarantee.
    type_one_error : float or array of float
        In [0, 1].

    Returns
    -------
    array of the same shape

    Examples
    --------
    >>> from dpstats.privacy import PrivacyGuarantee, tradeoff_curve
    >>> print(f"{1 - tradeoff_curve(PrivacyGuarantee(1.0), 0.05):.3f}")  # power of any test at level 5%
    0.136
    """
    errors = attempt(lambda: np.asarray(type_one_error, dtype=np.float64), Exception)
    if errors is None or not np.all((errors >= 0) & (errors <= 1)):
        raise refuse("type_one_error", given=type_one_error, allowed="numbers at least 0 and at most 1")
    if isinstance(item, PrivacyGuarantee):
        return _line(item.epsilon, item.delta, errors)
    events = (item,) if isinstance(item, Event) else item.events
    gaussians = [event for event in events if isinstance(event, Gaussian)]
    if len(gaussians) == len(events):
        total = gaussian_total(gaussians)
        # The sampled noise is within a total variation t of the noise of the curve, so both errors change by at most t.
        # Use the quantile of the error itself: 1 - error would round to 1 for a small error.
        moved = np.minimum(1.0, errors + total.total_variation)
        return _lowered(ndtr(-ndtri(moved) - total.mu) - total.total_variation)
    if isinstance(item, Event):
        return _envelope(item, errors)
    return _line(item.guarantee.epsilon, item.guarantee.delta, errors)


_ROUNDING = 1e-13


def _lowered(curve: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a curve lowered by more than its rounding error, so that it is a lower bound."""
    return np.maximum(0.0, curve - _ROUNDING * np.abs(curve) - 1e-15)


def _line(epsilon: float, delta: float, errors: NDArray[np.float64]) -> NDArray[np.float64]:
    log_errors = np.log(np.maximum(errors, 5e-324))
    # e^epsilon may exceed the range of floats. A product above e makes the line negative.
    grown = np.where(errors > 0, np.exp(np.minimum(epsilon + log_errors, 1.0)), 0.0)
    grown = grown * (1 + 1e-15 * (epsilon + np.abs(log_errors)))
    return _lowered(np.maximum(1 - delta - grown, (1 - delta - errors) * np.exp(-epsilon)))


def _envelope(event: Event, errors: NDArray[np.float64]) -> NDArray[np.float64]:
    # Every epsilon proves a curve, so a grid of them proves their maximum.
    top = min(event.largest_loss(), 50.0)
    best = np.zeros_like(errors)
    for epsilon in np.linspace(0.0, top, 400):
        best = np.maximum(best, _line(epsilon, event.profile(epsilon), errors))
    return best


_LARGEST = math.log(1e6)  # largest epsilon of a calibration: one million

MARGINS = (1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
"""Candidate reductions of a cost, or increases of a scale, relative. Searches take the first whose total is certified.

A computed total is an upper bound, and jumps by a relative 4e-6. Near the guarantee the last digits of a cost, which
depend on the processor, decide whether it is certified. Margins close together keep the noise the same to 1e-5."""


def largest_cost(events: Callable[[float], Sequence[Event]], guarantee: PrivacyGuarantee, start: float) -> float:
    """Return the largest number, to a relative 1e-9, at which the events stay within the guarantee.

    Parameters
    ----------
    events : callable
        Maps a positive number to events whose total grows with it.
    guarantee : PrivacyGuarantee
    start : float
        A number at which the events stay within the guarantee.

    Returns
    -------
    float
        At least ``start``. The total of the events certifies it, so privacy does not depend on the search.
    """

    start = check_real("start", start, above=0)
    if not covers(events(start), guarantee):
        raise refuse("start", given=start, allowed=f"within {guarantee}")
    if guarantee.epsilon == 0:
        return start  # no larger number can be certified

    def excess(log_cost: float) -> float:
        total = compose(events(math.exp(log_cost)), guarantee.delta).epsilon
        return math.log(max(total, 1e-300) / guarantee.epsilon)

    low = math.log(start)
    if excess(low) > 0:
        return start  # already at the limit, up to rounding
    step = 0.5
    while excess(low + step) <= 0 and low <= _LARGEST:
        low, step = low + step, min(2 * step, 1.0)
    # Above the largest cost there is no search. The result is certified in the same way.
    found = low if low > _LARGEST else optimize.brentq(excess, low, low + step, xtol=1e-10, rtol=1e-10)
    for margin in (2e-10, *MARGINS, 1e-2):
        cost = math.exp(found - margin)
        if cost > start and covers(events(cost), guarantee):
            return cost
    return start


_BYTES_OF_A_NUMBER = 200
"""Bytes of a released number: its integers, its noise as a Python integer and in OpenDP, and floats of the report."""


_BYTES_OF_A_COIN = 32
"""Bytes of a coin, or of a place in a secret order: random bits and the array that is made of them."""


def _count_bytes(stage: AnyStage) -> int:
    """Return the bytes of the numbers of a stage."""
    if isinstance(stage, Coins):
        return _BYTES_OF_A_COIN * math.prod(stage.shape)
    if isinstance(stage, Shuffle):
        return _BYTES_OF_A_COIN * stage.size
    # How many keys are discovered, and how many answers are randomized, follows from the data.
    return _BYTES_OF_A_NUMBER * getattr(stage, "size", 0)


def describe_bytes(size: int) -> str:
    """Return a number of bytes in the unit that a person reads, with two digits."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6)):
        if size >= factor:
            return f"about {size / factor:.2g} {unit}" if size < 100 * factor else f"about {size / factor:,.0f} {unit}"
    return "less than 1 MB"


_SMALL = 1 << 27  # bytes that are not compared: every machine has them
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files with the limit of a container, of both versions of control groups."""


def available_memory() -> int | None:
    """Return the bytes that this process can still use, or None if the system does not say."""
    found: list[int] = []
    with suppress(OSError, ValueError, KeyError):
        with open("/proc/meminfo", encoding="ascii") as file:
            facts = dict(line.split(":", 1) for line in file)
        found.append(1024 * sum(int(facts[name].split()[0]) for name in ("MemAvailable", "SwapFree")))
    for path in _LIMITS:
        with suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            found.append(int(file.read()))
    if not found:
        with suppress(OSError, ValueError, AttributeError):
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            # The address space that this process has already, where Linux states it.
            with open("/proc/self/statm", encoding="ascii") as file:
                used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
            found.append(max(limit - used, 0))
    return min(found) if found else None


def check_memory(plan: Plan) -> None:
    """Refuse a plan that needs more memory than is available."""
    needed = plan.memory
    if needed <= _SMALL:
        return
    available = available_memory()
    if available is not None and needed > available:
        raise NotEnoughMemory(
            f"the release must fit into the available memory, {describe_bytes(available)}, got a plan that needs "
            f"{describe_bytes(needed)}. Nothing was charged. Release fewer numbers, or use a larger machine."
        )


@dataclass(frozen=True, slots=True)
class ReleaseCost:
    """A cost that a budget can charge: events, and their certified guarantee.

    Examples
    --------
    >>> from dpstats.privacy import PrivacyBudget, PrivacyGuarantee, ReleaseCost
    >>> from dpstats.privacy.events import Pure
    >>> cost = ReleaseCost((Pure(0.25), Pure(0.25)), PrivacyGuarantee(0.5))
    >>> budget = PrivacyBudget(epsilon=1.0)
    >>> budget.charge(cost, label="two of 0.25")
    >>> print(budget.spent)
    (epsilon = 0.5, delta = 0), one row replaced
    """

    events: tuple[Event, ...]
    guarantee: PrivacyGuarantee

    def __post_init__(self) -> None:
        # Convert to a tuple, because a list could change after certification.
        object.__setattr__(self, "events", tuple(self.events))
        if not self.events or not all(isinstance(event, Event) for event in self.events):
            raise refuse("events", allowed="a non-empty tuple of events")
        if common_neighbors(self.events) is not self.guarantee.neighbors:
            raise refuse("events", allowed="have the neighbors of the guarantee")
        if not covers(self.events, self.guarantee):
            raise refuse("events", got="more", allowed=f"not cost more than the claimed {self.guarantee}")


@dataclass(frozen=True)
class Plan(Reported):
    """Stages of a release and their total cost. A plan is a function of public facts only.

    The events follow from the stages. Events and guarantee are computed once, and a budget is charged for them.

    Attributes
    ----------
    stages : tuple of Stage, JointStage, Selection, Responses, Comparisons, Coins or Shuffle
        Stages in the order of their release.
    target : PrivacyGuarantee
        The guarantee that the plan keeps.
    delta_asked : float, default=0.0
        The requested delta, if Laplace noise of the same epsilon is smaller than Gaussian noise. The target then has
        delta = 0, which is a stronger guarantee.

    Examples
    --------
    >>> from dpstats.mechanisms import LaplaceMechanism
    >>> plan = LaplaceMechanism(sensitivity=1.0, epsilon=0.5).plan
    >>> print(plan.guarantee)
    (epsilon = 0.5, delta = 0), one row replaced
    """

    stages: tuple[AnyStage, ...]
    target: PrivacyGuarantee
    delta_asked: float = field(default=0.0, kw_only=True, repr=False)

    _free: ClassVar[frozenset[str]] = frozenset()
    """Fields that do not affect the cost. `having` may change them."""

    def __post_init__(self) -> None:
        # Convert to a tuple, because a list could change after its cost was computed.
        object.__setattr__(self, "stages", tuple(self.stages))

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """Events of all stages, for the accountant.

        Stages of different parts read disjoint sets of rows. For these, the accountant uses one certified guarantee. It
        holds for every part together with the stages that read all rows.
        """
        parts = sorted({stage.part for stage in self.stages} - {""})
        if len(parts) < 2:
            return tuple(event for stage in self.stages for event in stage.events)
        for part in parts:
            own = tuple(event for stage in self.stages if stage.part in ("", part) for event in stage.events)
            if not covers(own, self.target):
                raise _defect(compose(own, self.target.delta), self.target)
        return (as_event(self.target),)

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """The requested guarantee. The events are certified to satisfy it."""
        if covers(self.events, self.target):
            return self.target
        raise _defect(compose(self.events, self.target.delta), self.target)

    @cached_property
    def noise_kinds(self) -> frozenset[str]:
        """Distributions of the noise that the stages draw."""
        kinds: set[str] = set()
        for stage in self._listed:
            kinds.add(stage.noise)
            if isinstance(stage, Comparisons) and stage.answer_scale_steps is not None:
                kinds.add(stage.answer_noise)
        return frozenset(kinds)

    @property
    def memory(self) -> int:
        """Approximate bytes that the release needs, without the data. It is a function of public facts.

        A release that needs more than the available memory raises `NotEnoughMemory` before its charge.
        """
        return sum(map(_count_bytes, self._listed)) + self._workspace

    @property
    def _workspace(self) -> int:
        """Bytes of arrays that are larger than the released numbers, such as a matrix of all pairs of levels."""
        return 0

    def stage(self, name: str) -> AnyStage:
        """Return the stage with this name."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise KeyError(name if is_public(name) else show(name))

    def noise(self, name: str) -> Added:
        """Return the noise of a named release: a stage with additive noise, or a block of a joint stage."""
        for stage in self.stages:
            if isinstance(stage, Stage) and stage.name == name:
                return stage.added_noise
            if isinstance(stage, JointStage):
                for block in stage.blocks:
                    if block.name == name:
                        return stage.find_noise(block)
        raise KeyError(name if is_public(name) else show(name))

    @property
    def _listed(self) -> tuple[AnyStage, ...]:
        """The stages as a table lists them."""
        return self.stages

    @property
    def additive(self) -> tuple[Stage, ...]:
        """The stages that add noise to a single vector, in order."""
        return tuple(stage for stage in self.stages if isinstance(stage, Stage))

    @property
    def selections(self) -> tuple[Selection, ...]:
        """The selections among the stages."""
        return tuple(stage for stage in self.stages if isinstance(stage, Selection))

    @property
    def disjoint(self) -> bool:
        """Whether stages read disjoint sets of rows, split by public positions."""
        return len({stage.part for stage in self.stages}) > 1

    def having(self, **changes: Any) -> Self:
        """Return the plan with changed fields that do not affect the cost. The computed cost is kept."""
        unknown = changes.keys() - self._free
        if unknown:
            raise TypeError(f"{type(self).__name__}.having cannot change {', '.join(sorted(unknown))}")
        return self._with_same_cost(changes)

    def for_data(self, unit: str, simulated: bool) -> Self:
        """Return the plan of a release from rows that are units of this name, with exact or simulated noise.

        The guarantee and every charge state the unit and the kind of noise. The cost is unchanged.
        """
        made = self._with_same_cost(self._state(unit, simulated))
        if "guarantee" in vars(made):
            vars(made)["guarantee"] = made._stated(made.guarantee)
        return made

    def _state(self, unit: str, simulated: bool) -> dict[str, Any]:
        """Return the fields that state the unit and the kind of noise."""
        return {"target": replace(self.target, unit=unit, simulated=simulated)}

    def _stated(self, guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
        """Return a guarantee for the unit of the target, marked as simulated if the target is."""
        return replace(guarantee, unit=self.target.unit, simulated=self.target.simulated)

    def _with_same_cost(self, changes: Mapping[str, Any]) -> Self:
        """Return the plan with changed fields that do not affect the cost, and with the computed cost."""
        made = replace(self, **changes)
        names = {item.name for item in fields(self)}
        vars(made).update({name: value for name, value in vars(self).items() if name not in names})
        return made

    def __getstate__(self) -> dict[str, Any]:
        # Cached values are not pickled. They are computed again after unpickling.
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {}

    def notes(self) -> list[str]:
        """Return the facts as text, one line each."""
        return []

    @property
    def cautions(self) -> list[tuple[str, str]]:
        """Facts of a summary on a guarantee that is weaker, or stronger, than it looks."""
        if not self.delta_asked:
            return []
        words = f"Laplace, smaller than Gaussian noise at delta = {self.delta_asked:g}"
        return [("Noise chosen", f"{words}; the guarantee has delta = 0")]

    def _size(self) -> dict[str, int]:
        """Return the public size of the data, by name."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, the guarantee and the stages by name, for JSON: ``dpstats plan`` writes the same."""
        return {
            **self.facts(),
            **self._size(),
            "privacy": self.guarantee.to_dict(),
            **({"delta_asked": self.delta_asked} if self.delta_asked else {}),
            "selections": [stage.facts() for stage in self.selections],
            "stages": [stage.facts() for stage in self._listed if stage not in self.selections],
            "notes": self.notes(),
        }

    def _records(self) -> Records:
        rows = [row for stage in self._listed for row in _rows(stage.facts())]
        keys = dict.fromkeys(["noise", "size", "noise_scale", *(key for row in rows for key in row)])
        names = [row["name"] for row in rows]
        columns = {key: [row.get(key) for row in rows] for key in keys if key != "name"}
        facts = {key: value for key, value in self.to_dict().items() if key not in ("selections", "stages")}
        return Records(names, columns, facts)

    def summary(self) -> Summary:
        """Return a table of the stages. It prints as text, and shows as HTML in a notebook."""
        names, columns, _ = self._records()
        rows = zip(names, *(map(_shown, column) for column in columns.values()), strict=True)
        facts = [
            ("Guarantee", str(self.guarantee)),
            *self.cautions,
            *((key, f"{n:,}") for key, n in self._size().items()),
            ("memory", describe_bytes(self.memory)),
        ]
        headers = ["stage", *(key.replace("_", " ") for key in columns)]
        return Summary("Release plan", facts, headers, list(rows), self.notes())

    def explain(self) -> str:
        """Return a plain explanation of the release and its guarantee for one person.

        The bound on the power of a test comes from the trade-off curve of the plan. It is lower than the bound from
        (epsilon, delta) alone.
        """
        power = 1 - float(tradeoff_curve(self, 0.05))
        return (
            f"{self}\n{self.guarantee.explain()}\nFor these releases the power is in fact at most {100 * power:.1f}%."
        )

    def _head(self) -> str:
        """Return the first lines of the printed plan: the public size, and what a fit would charge."""
        return f"Release plan: {self.guarantee}"

    def _describe_stages(self) -> list[str]:
        """Return a line for each stage, or fewer for plans with many equal ones."""
        return [stage.describe() for stage in self._listed]

    def __str__(self) -> str:
        cautions = [f"{name}: {words}" for name, words in self.cautions]
        return "\n  ".join([self._head(), *self._describe_stages(), *cautions, *self.notes()])


@dataclass(frozen=True)
class Counted:
    """A release that precedes another: a count of complete rows before a sample of them, or bounds before their use.

    Attributes
    ----------
    plan : ReleasePlan
        The first release. Its ``n_samples`` is the public number of rows.
    target : PrivacyGuarantee
        Guarantee of the release that follows.
    left_out : tuple of str
        Parameters that are "drop", so that the other rows are counted: "missing", "unknown".
    """

    plan: ReleasePlan
    target: PrivacyGuarantee
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReleasePlan(Plan):
    """The plan of a fit: everything that it releases, and the privacy cost.

    Attributes
    ----------
    n_planned : int or None
        Number of rows that errors are computed for: the public number of rows. If it is private, the size that was
        planned for, or None.
    n_features : int
        Public number of columns.
    counted : Counted, optional
        Count of the complete rows, if the stages read a random sample of them (``missing="drop"``).
    located : Counted, optional
        Release of the bounds of the columns, if nobody declared them (``bounds="private"``).

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> plan = ClippedMean(clip=1.0, epsilon=1.0, delta=1e-6).plan(1000, 2)
    >>> print(plan)
    Release plan for n = 1000, d = 2: (epsilon = 1, delta = 0), one row replaced
      clipped moments, together:
        clipped mean: 2 numbers, Laplace noise of scale 0.004
        second moment about the center: 2 numbers, Laplace noise of scale 0.008
      Noise chosen: Laplace, smaller than Gaussian noise at delta = 1e-06; the guarantee has delta = 0
    >>> print(plan.guarantee)
    (epsilon = 1, delta = 0), one row replaced
    """

    n_planned: int | None
    n_features: int
    counted: Counted | None = field(default=None, kw_only=True, repr=False)
    located: Counted | None = field(default=None, kw_only=True, repr=False)

    @property
    def has_private_size(self) -> bool:
        """Whether the number of rows is private: neighbors then differ by one row added or removed."""
        return self.target.neighbors is Neighbors.ADD_OR_REMOVE_ONE

    @property
    def n_samples(self) -> int:
        """The public number of rows that the stages read.

        Raises
        ------
        InvalidParameter
            If the number of rows is private.
        """
        if self.has_private_size or self.n_planned is None:
            raise InvalidParameter(
                "n_samples is not available with neighbors='add_or_remove', because the number of rows is private. Use "
                "n_ of the fit, which is noisy, or n_planned of the plan."
            )
        return self.n_planned

    @property
    def n_expected(self) -> int:
        """The number of rows that errors are computed for, or an error if there is none."""
        if self.n_planned is None:
            raise refuse(
                "n_samples",
                got="None",
                allowed="a number of rows for expected_error",
                remedy="Call plan(n_samples, n_features).",
            )
        return self.n_planned

    @property
    def divisor(self) -> int:
        """The number that released sums are divided by: the public number of rows, or 1 if it is private."""
        return 1 if self.has_private_size else self.n_samples

    def follow(self, counted: Counted) -> Self:
        """Return the plan of a count of the complete rows, followed by this plan for a sample of them."""
        before, own = counted.plan.target, self.target
        target = replace(own, epsilon=before.epsilon + own.epsilon)
        missing: dict[str, Any] = {"missing": "drop"} if hasattr(self, "missing") else {}
        return replace(self, counted=counted, target=target, **missing)

    @property
    def n_given(self) -> int:
        """The public number of rows of the data."""
        return self.n_samples if self.counted is None else self.counted.plan.n_samples

    @property
    def _first_release(self) -> Counted | None:
        """The release before the stages, if there is one."""
        return self.counted or self.located

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """Events of all stages, and of the release before them."""
        before = self._first_release
        if before is None:
            return super().events
        alone = replace(self, counted=None, located=None, target=before.target)
        events = (*before.plan.events, *alone.events)
        if certifies(events, self.target):
            return events
        # The curve of all events can exceed the sum of both guarantees, which is added instead.
        return (*before.plan.events, as_event(alone.guarantee))

    def _state(self, unit: str, simulated: bool) -> dict[str, Any]:
        stated = super()._state(unit, simulated)
        for name in ("counted", "located"):
            before = getattr(self, name)
            if before is not None:
                target = replace(before.target, unit=unit, simulated=simulated)
                stated[name] = replace(before, plan=before.plan.for_data(unit, simulated), target=target)
        return stated

    @property
    def _listed(self) -> tuple[AnyStage, ...]:
        return self.stages if self._first_release is None else (*self._first_release.plan.stages, *self.stages)

    @property
    def together(self) -> Plan:
        """The plan of one session for all stages: bounds, if there are some to choose, and what uses them."""
        if self.located is None:
            return self
        made = ReleasePlan(self._listed, self.target, self.n_planned, self.n_features)
        vars(made).update(events=self.events, guarantee=self.guarantee)
        return made

    def reader(self, estimator: Any) -> Any:
        """Return the object that reads and releases for an estimator whose plan follows this one."""
        return estimator

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """Composed guarantee of all stages at the requested delta.

        Calibration ends slightly below the request, by the part of delta that is reserved for discreteness. If the
        curves certify the request, and the total is within a thousandth of it, the request is reported. The reported
        number is never below the proved total.
        """
        composed = compose(self.events, self.target.delta)
        within = composed.epsilon <= self.target.epsilon and composed.neighbors is self.target.neighbors
        if within or certifies(self.events, self.target):
            close = composed.epsilon >= self.target.epsilon * (1 - 1e-3)
            return self.target if close else self._stated(composed)
        raise _defect(composed, self.target)

    @property
    def cautions(self) -> list[tuple[str, str]]:
        """Facts on delta: it is so large that publishing a random row has the same guarantee, or it is not used."""
        n, delta = self.n_planned if self.has_private_size else self.n_given, self.target.delta
        if n is None or n * delta < 1:
            return super().cautions
        unit, units = self.target.unit, self.target.units
        words = f"delta = {delta:g} is not below 1/n ({n:,} {units}), so it allows publishing a whole {unit}"
        return [("Caution", f"{words}; use a smaller delta")]

    def _size(self) -> dict[str, int]:
        if self.has_private_size:
            planned = {} if self.n_planned is None else {"n_planned": self.n_planned}
            return {**planned, "n_features": self.n_features}
        size = {"n_samples": self.n_given, "n_features": self.n_features}
        return size if self.counted is None else {**size, "n_used": self.n_samples}

    def expected_error(self, std: float | NDArray[np.float64] | None = None) -> float:
        """Return the expected squared l2 error of the estimate; see the estimator's plan.

        Raises
        ------
        DPStatsError
            If there is no closed form for this plan.
        """
        raise DPStatsError(f"{type(self).__name__} does not define an expected error in closed form")

    def _head(self) -> str:
        n = f"n = {self.n_given}" if not self.has_private_size else "private n"
        if self.has_private_size and self.n_planned is not None:
            n += f" (planned for {self.n_planned})"
        head = f"Release plan for {n}, d = {self.n_features}: {self.guarantee}"
        if self.counted is not None:
            count = ", ".join(stage.describe(self.n_features) for stage in self.counted.plan.stages)
            head += f"\n  {count}\n  then, from a random sample of {self.n_samples:,} complete rows:"
        if self.located is not None:
            first = "".join(f"\n  {stage.describe(self.n_features)}" for stage in self.located.plan.stages)
            head += f"{first}\n  then, with the bounds that follow (before they are known, of -1 and 1):"
        return head

    def _describe_stages(self) -> list[str]:
        return [stage.describe(self.n_features) for stage in self.stages]


def _rows(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the facts of a stage as rows of a table: one for each of its blocks, or one."""
    if "blocks" not in facts:
        return [facts]
    shared = {key: value for key, value in facts.items() if key not in ("blocks", "size")}
    return [{**shared, **block, "name": f"{facts['name']}: {block['name']}"} for block in facts["blocks"]]


def _shown(value: Any) -> str:
    """Return a fact of a stage as text. Many numbers are shown as their range."""
    if isinstance(value, list):
        numbers = value if len(value) < 3 else [min(value), max(value)]
        return (", " if len(value) < 3 else " to ").join(map(_shown, dict.fromkeys(numbers)))
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _defect(composed: PrivacyGuarantee, target: PrivacyGuarantee) -> DPStatsError:
    return DPStatsError(
        f"the plan's releases cost epsilon = {composed.epsilon!r} at delta = {composed.delta!r}, more than the "
        f"requested {target}. This is a defect of dpstats. Nothing was released."
    )
