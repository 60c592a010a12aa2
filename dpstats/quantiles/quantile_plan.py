"""The plan of private quantiles: target ranks, and the method that chooses points near them."""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dpstats.errors import ScaleOutOfRange
from dpstats.privacy.events import BoundedRange
from dpstats.privacy.guarantee import PrivacyGuarantee, quotient_up
from dpstats.privacy.plan import largest_cost
from dpstats.privacy.stages import Choice, Stage
from dpstats.quantiles.grid import Grid, GridPlan, Node, binomial, least_distance, levels_of, offset_ranks, rank_errors
from dpstats.release.groups import first_reach
from dpstats.release.noise import check_scale

TIED = (
    "Warning: if many rows share a value near the quantile, such as counts, rounded amounts or zeros, intervals may "
    "cover far less than their level. Declare step"
)
"""Note that follows "regular" intervals where no step is declared."""


def regular_note(declared: bool) -> str:
    """Return the assumptions of "regular" intervals, of columns with a declared step or without one."""
    shared = "" if declared else ", and no value that many rows share, such as 0 or a bound"
    gap = "Near the quantile there must be no gap, such as between two clusters"
    return f"Intervals assume independent rows. {gap}{shared}."


POINTS = "points"
COUNTS = "rows beside the points"
ROWS = "rows that are observed"

COUNTS_SHARE = 0.45
"""Fraction of epsilon that checks the limits of an interval for any distribution."""
OBSERVED_SHARE = 0.1
"""Fraction of epsilon that counts the observed rows, if missing rows are dropped."""
_SURE = 2.0
"""Number of standard deviations by which the true number of rows may differ from the counted number in a plan."""
_REFUSED = 0.05
"""Approximate probability that a limit for any distribution fails its check."""
CROWDED = 0.08
"""Largest rank error, as a fraction of the rows on the nearer side of a quantile, for accurate intervals."""

LEAST_SCALE = 2.0**-9
"""Least scale, in ranks. The weight of a place one rank off is e^-512, and exact weights have few digits."""
ESCAPED = 0.2
"""Fraction of the stated error (of 1/2 without one) allowed for points drawn to a bound, in total."""
WIDER = 1.01
"""How much wider intervals may be for points of their own."""

_CHECKED = 2000
CHEAP = 1.1
"""How much wider intervals may be for any distribution, if the coverage is chosen by public sizes."""

LOW, POINT, HIGH, SPARE = range(4)


class Target(NamedTuple):
    """The rank that a chosen point aims at, its kind, and the index of its quantile.

    A SPARE replaces a planned point that the observed rows are too few for.
    """

    rank: int
    kind: int
    of: int


@dataclass(frozen=True)
class QuantilePlan(GridPlan):
    """The release plan of a `PrivateQuantile`.

    Attributes
    ----------
    grid : Grid
        Public candidates.
    q : tuple of float
        Fractions in increasing order.
    targets : tuple of Target
        Targets of the jointly chosen points, by increasing rank. Empty for the halving method.
    levels : tuple of tuples of Node
        Levels of the halving method. Empty for the joint method.
    confidence_level : float or None
    coverage : {"regular", "any"}
    accepted : tuple of (int or None, int or None)
        For each quantile, limits for the checks of ``coverage="any"``. The first is the largest accepted count of rows
        below the lower limit. The second is the smallest accepted count of rows up to the upper limit.
    unseparated : tuple of float
        Quantiles with too few rows between them and a bound to separate them at this epsilon. They have no point, and
        the bound as that endpoint. If no quantile can be separated from a bound, all points are chosen, and none is
        reported.
    missing : {"error", "drop"}
        With "drop" the observed rows are counted first, and `observed_plan` has the ranks for them. The ranks of this
        plan assume that no row is missing.
    """

    grid: Grid
    q: tuple[float, ...]
    targets: tuple[Target, ...] = ()
    levels: tuple[tuple[Node, ...], ...] = ()
    confidence_level: float | None = None
    coverage: str = "regular"
    accepted: tuple[tuple[int | None, int | None], ...] = ()
    unseparated: tuple[float, ...] = ()
    missing: str = "error"

    @property
    def dropped(self) -> bool:
        """Whether missing rows are dropped, so that the number of the others is private."""
        return self.missing == "drop"

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The stages that choose points."""
        return tuple(stage for stage in self.stages if isinstance(stage, Choice))

    @property
    def rows_std(self) -> float:
        """Standard deviation of the noise in the number of observed rows. 0 if the number is public."""
        return float(np.max(self.noise(ROWS).std)) if self.dropped else 0.0

    def aim(self, rows: int, each: int) -> list[int]:
        """Return the ranks for a counted number of rows, where this plan is about ``each`` rows at a time."""
        near = observed_plan(self, int(self.anchor(rows / each)))
        of = [0.5 if target.kind == SPARE else self.q[target.of] for target in near.targets]
        return [
            each * (target.rank - rank_of(q, near.n_samples)) + rank_of(q, rows)
            for target, q in zip(near.targets, of, strict=True)
        ]

    def shift(self, observed: int, anchor: int) -> int:
        """Return the private change of all ranks, given the observed and the counted number of rows."""
        return rank_of(self._middle, observed) - rank_of(self._middle, anchor)

    @property
    def _middle(self) -> float:
        """The quantile whose rank follows the observed rows exactly."""
        return self.q[len(self.q) // 2]

    @property
    def halving(self) -> bool:
        """Whether quantiles are chosen level by level."""
        return bool(self.levels)

    @property
    def rank_error(self) -> float:
        """Largest standard deviation of the error of a chosen rank, if rows are evenly spaced.

        If missing rows are dropped, the error includes the noise in the number of observed rows. For halving it is the
        error of the last level only. Earlier levels add to it.
        """
        return max(map(self._rank_error, self.q))

    def _rank_error(self, q: float) -> float:
        """Return the standard deviation of the error of the rank of one quantile."""
        stage = self.choices[-1]
        # In a part, a rank error of k halves has weight e^(-|k| epsilon/2).
        errors = rank_errors(1, stage.scale_steps / 2) if self.halving else rank_errors(stage.size, stage.scale_steps)
        return math.hypot(errors.std, self.rows_std * (q - self._middle))

    @property
    def chosen(self) -> int:
        """Number of chosen points."""
        return sum(stage.size for stage in self.choices)

    @property
    def crowded(self) -> tuple[float, ...]:
        """Quantiles with too few rows near their limits for accurate intervals."""
        if self.confidence_level is None or self.coverage == "any":
            return ()
        return tuple(
            q
            for q in self.q
            if q not in self.unseparated and self._rank_error(q) > CROWDED * min(q, 1 - q) * self.n_samples
        )

    def _span(self, index: int) -> int:
        """Return the number of ranks between the limits of a quantile."""
        ranks = {target.kind: target.rank for target in self.targets if target.of == index}
        return ranks.get(HIGH, self.n_samples) - ranks.get(LOW, 0)

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {
            "q": list(self.q),
            "rank_error": self.rank_error,
            "step": self.grid.spacing,
            "unseparated": list(self.unseparated),
        }

    def notes(self) -> list[str]:
        """Return the facts as text, one line each."""
        units = f"{self.n_samples:,} {self.guarantee.units}"
        even = "" if self.halving else ", if these are evenly spaced"
        rows = f"standard deviation of a rank's error: about {self.rank_error:.3g} of {units}{even}"
        return [rows, *self.unseparated_note()]

    def unseparated_note(self) -> list[str]:
        """List the quantiles without a point, for the summary."""
        if not self.unseparated:
            return []
        where = ", ".join(f"{q:g}" for q in self.unseparated)
        end = "" if self.confidence_level is None else ", and one limit is the bound"
        return [
            f"At this epsilon there are too few rows between q = {where} and a bound: the estimate is NaN{end}. "
            "Use more rows, a larger epsilon, fewer quantiles or a coarser step."
        ]


@lru_cache(maxsize=64)
def points_plan(
    n: int,
    grid: Grid,
    q: tuple[float, ...],
    guarantee: PrivacyGuarantee,
    level: float | None,
    coverage: str,
    missing: str = "error",
) -> QuantilePlan:
    """Return the plan of jointly chosen points and, for ``coverage="any"``, of the counts that check them."""
    counts = COUNTS_SHARE * guarantee.epsilon if coverage == "any" else 0.0
    first, left = _observed_stage(guarantee.epsilon, missing)
    # A release without a bounded range in total does not profit from delta.
    each = _largest_range(1, left, 0.0 if counts or first else guarantee.delta)
    scale = _scale(2, (each - counts) * (1 - 2.0**-50) if counts else each)
    noise = check_scale(_scale(1, counts)) if counts else None
    first_reach(scale, len(q))  # a distribution too wide to sample is also too wide to tabulate
    targets = _Aim(n, grid, q, scale, level, noise).targets()
    unseparated = _without_point(q, targets)
    # A release is required. If no quantile can be separated from a bound, choose points at the quantiles' ranks.
    targets = targets or tuple(Target(rank_of(x, n), POINT, i) for i, x in enumerate(q))
    first_reach(scale, len(targets))
    stages: list[Choice | Stage] = [*first, Choice(POINTS, len(targets), 2, scale, grid.points)]
    accepted: list[tuple[int | None, int | None]] = []
    ends = [target for target in targets if target.kind != POINT]
    if noise is not None and ends:
        first_reach(noise, len(ends))
        stages.append(Stage(COUNTS, "joint", len(ends), 1.0, 1, noise))
        accepted = [_accepted(n, x, len(ends), noise, level or 0.5) for x in q]
    return QuantilePlan(
        tuple(stages), guarantee, n, 1, grid, q, targets, (), level, coverage, tuple(accepted), unseparated, missing
    )


def cheap_coverage(n: int, grid: Grid, q: tuple[float, ...], guarantee: PrivacyGuarantee, level: float | None) -> str:
    """Return "any" if its intervals are hardly wider on rows without ties, and otherwise "regular"."""
    # The least width of a check is the noise of its counts: below, its plan is not worth making.
    if n * min(guarantee.epsilon, 1.0) < _CHECKED:
        return "regular"
    try:
        one, other = (points_plan(n, grid, q, guarantee, level, kind) for kind in ("regular", "any"))
    except ScaleOutOfRange:
        return "regular"
    return "any" if all(other._span(i) <= CHEAP * one._span(i) for i in range(len(q))) else "regular"


def _observed_stage(epsilon: float, missing: str) -> tuple[tuple[Stage, ...], float]:
    """Return the stage that counts the observed rows, if missing rows are dropped, and the remaining epsilon."""
    if missing != "drop":
        return (), epsilon
    share = OBSERVED_SHARE * epsilon
    scale = check_scale(_scale(1, share))
    return (Stage(ROWS, "laplace", 1, 1.0, 1, scale),), (epsilon - share) * (1 - 2.0**-50)


@lru_cache(maxsize=4096)
def observed_plan(plan: QuantilePlan, anchor: int) -> QuantilePlan:
    """Return the plan for a counted number of observed rows: its ranks, and the quantiles that have no point.

    The distances of ranks from the bounds allow for fewer rows than counted, and those from the quantiles for more. The
    number of points does not change.
    """
    if not plan.dropped:
        return plan
    margin = math.ceil(_SURE * plan.rows_std)
    few, most = max(anchor - margin, 2), min(anchor + margin, plan.n_samples)
    stage, scale = plan.choices[0], plan.choices[0].scale_steps
    if plan.halving:
        lost = _lost(few, plan.grid, plan.q, plan.levels, scale)
        return replace(plan, n_planned=anchor, unseparated=tuple(x for x in plan.q if x in lost))
    unknown = float(np.max(plan.noise(ROWS).scale)), plan.q[len(plan.q) // 2]
    aim = _Aim(few, plan.grid, plan.q, scale, plan.confidence_level, None, most, unknown)
    kept = aim.limit_targets(stage.size)
    unseparated = _without_point(plan.q, tuple(kept))
    spare = [Target(few // 2, SPARE, 0)] * (stage.size - len(kept))
    moved = [t._replace(rank=t.rank + aim.rank_change(t, anchor)) for t in (*kept, *spare)]
    return replace(plan, n_planned=anchor, targets=tuple(sorted(moved)), unseparated=unseparated)


def _without_point(q: tuple[float, ...], targets: tuple[Target, ...]) -> tuple[float, ...]:
    """Return the quantiles without a point: neither chosen, nor between two chosen endpoints."""
    kinds: list[set[int]] = [set() for _ in q]
    for target in targets:
        kinds[target.of].add(target.kind)
    return tuple(x for x, own in zip(q, kinds, strict=True) if POINT not in own and own != {LOW, HIGH})


def halving_plan(
    n: int, grid: Grid, q: tuple[float, ...], guarantee: PrivacyGuarantee, missing: str = "error"
) -> QuantilePlan:
    """Return the plan of quantiles chosen by the halving method."""
    chosen = q
    first, left = _observed_stage(guarantee.epsilon, missing)
    while True:
        levels = levels_of(chosen)
        scale = _scale(4, _largest_range(len(levels), left, guarantee.delta))
        first_reach(scale, 1)
        lost = _lost(n, grid, chosen, levels, scale)
        if not lost:
            break
        chosen = tuple(x for x in chosen if x not in lost)
        if not chosen:
            levels = levels_of(q)
            scale = _scale(4, _largest_range(len(levels), left, guarantee.delta))
            break
    stages = tuple(
        Choice(f"{POINTS}, level {k}", len(level), 4, scale, grid.points) for k, level in enumerate(levels, 1)
    )
    unseparated = tuple(x for x in q if x not in chosen)
    return QuantilePlan(
        (*first, *stages), guarantee, n, 1, grid, q, (), levels, unseparated=unseparated, missing=missing
    )


def _lost(n: int, grid: Grid, q: tuple[float, ...], levels: tuple[tuple[Node, ...], ...], scale: float) -> set[float]:
    """Return the quantiles that a bound would draw to it, among the quantiles next to the bound."""
    found = set()
    for node in (node for level in levels for node in level):
        x, wide = q[node.index], scale * float(max(node.share, 1 - node.share))
        nearest = least_distance(1, wide, grid.points, ESCAPED * 0.5 / len(q))
        if (node.lower is None and x * n < nearest) or (node.upper is None and (1 - x) * n < nearest):
            found.add(x)
    return found


def _scale(steps: int, cost: float) -> float:
    return max(quotient_up(steps, cost), LEAST_SCALE)


@lru_cache(maxsize=256)
def _largest_range(count: int, epsilon: float, delta: float) -> float:
    """Return the largest range that each of ``count`` choices can have."""
    start = epsilon / count * (1 - 2.0**-50 if count > 1 else 1.0)
    if delta == 0:
        return start
    return largest_cost(lambda a: [BoundedRange(a)] * count, PrivacyGuarantee(epsilon, delta), start)


@dataclass(frozen=True)
class _Aim:
    """Public numbers that determine the ranks of a plan.

    If rows are counted with noise, there may be up to ``most`` of them. ``unknown`` is then the scale of that noise and
    the fraction whose rank follows the true number.
    """

    n: int
    grid: Grid
    q: tuple[float, ...]
    scale: float
    level: float | None
    noise: float | None
    most: int | None = None
    unknown: tuple[float, float] | None = None

    def targets(self) -> tuple[Target, ...]:
        """Return the targets in rising order of ranks; none if no point can be separated from a bound.

        Dropping a point reduces the errors of the others, which may then be kept. The search finds the smallest number
        of points that suffices.
        """
        least, enough = 0, len(self.q) * (3 if self._points and self.level else 2)
        while enough - least > 1:
            middle = (least + enough) // 2
            least, enough = (least, middle) if len(self._targets(middle)) <= middle else (middle, enough)
        return tuple(sorted(self._targets(enough)))

    def limit_targets(self, size: int) -> list[Target]:
        """Return the targets for as many points as are chosen in any case."""
        found = self._targets(size)
        # If there are too many targets, drop the targets nearest to a bound first.
        found.sort(key=lambda t: min(t.rank, self.n - t.rank), reverse=True)
        return sorted(found[:size])

    def rank_change(self, target: Target, anchor: int) -> int:
        """Return the change of a target's rank from ``n`` rows to the counted ones."""
        q = 0.5 if target.kind == SPARE else self.q[target.of]
        return rank_of(q, anchor) - rank_of(q, self.n)

    def _targets(self, size: int) -> list[Target]:
        """Return the targets that can be chosen if there are ``size`` points in total."""
        found = []
        for index, x in enumerate(self.q):
            low, high = self._ends(x, size)
            if low is not None:
                found.append(Target(low, LOW, index))
            if high is not None:
                found.append(Target(high, HIGH, index))
            rank = rank_of(x, self.n)
            point = min(max(rank, low or 0), self.n if high is None else high)
            found.append(Target(point, POINT, index))
        while True:
            kept = self._inside(self._inside(found, size, HIGH), size, LOW)
            if kept == found:
                break
            found = kept
        both = {t.of for t in found if t.kind == LOW} & {t.of for t in found if t.kind == HIGH}
        return [t for t in found if self._points or t.kind != POINT or t.of not in both]

    def _inside(self, targets: list[Target], size: int, side: int) -> list[Target]:
        """Return the targets that the bound on one side does not draw to it."""
        # A lower endpoint near the upper bound moves inward, where it is still valid. Other targets near a bound
        # are dropped.
        share = ESCAPED * (1 - (self.level or 0.5)) / size
        # Sort by the number of rows between the rank and the bound.
        waiting = sorted((self.n - t.rank if side == HIGH else t.rank, t) for t in targets)
        kept: list[Target] = []
        while waiting:
            distance, target = waiting.pop(0)
            nearest = least_distance(size, self.scale, self.grid.points, share, len(kept) + 1)
            if distance >= nearest:
                kept.append(target)
            elif target.kind == LOW + HIGH - side and nearest <= self.n:
                rank = self.n - nearest if side == HIGH else nearest
                insort(waiting, (nearest, target._replace(rank=rank)))
        return sorted(kept)

    @property
    def _points(self) -> bool:
        """Whether a quantile with both endpoints has a separate point, instead of their middle."""
        # The middle may lie between the values of data on a declared grid, or of endpoints that are far apart by
        # design. Otherwise points are chosen if intervals widen by at most 1%.
        if self.grid.declared or self.noise is not None or self.level is None:
            return True
        k = len(self.q)
        two, three = (rank_errors(size, self.scale).std ** 2 for size in (2 * k, 3 * k))
        sampling = min(x * (1 - x) for x in self.q) * self.n
        return sampling + three <= WIDER**2 * (sampling + two)

    def _ends(self, q: float, size: int) -> tuple[int | None, int | None]:
        """Return the ranks of the endpoints of a quantile's interval; None for an endpoint at a bound."""
        if self.level is None:
            return None, None
        tail = (1 - self.level) / 2
        if self.unknown is not None and self.most is not None:
            # Distances allow for more rows. Rounding two ranks adds at most one.
            scale, middle = self.unknown
            most = rank_of(q, self.most) - rank_of(q, self.n)
            low, high = offset_ranks(q, self.most, size, self.scale, tail, scale * abs(q - middle))
            low = None if low is None or low - most - 1 < 0 else low - most - 1
            high = None if high is None or high - most + 1 > self.n else high - most + 1
            return low, high
        if self.noise is None:
            return offset_ranks(q, self.n, size, self.scale, tail)
        together = 2 * len(self.q)
        below, above = _accepted(self.n, q, together, self.noise, self.level)
        missed = rank_errors(size, self.scale).plus(rank_errors(together, self.noise)).above(_REFUSED)
        low = None if below is None or below < missed else below - missed
        high = None if above is None or above > self.n - missed else above + missed
        return low, high


def rank_of(q: float, n: int) -> int:
    """Return the rank of a quantile among n rows."""
    return math.floor(q * n + 0.5)


@lru_cache(maxsize=256)
def _accepted(n: int, q: float, size: int, noise: float, level: float) -> tuple[int | None, int | None]:
    """Return the limits of the noisy count of rows for a point at the quantile, which chance alone rarely exceeds."""
    tail = (1 - level) / 2
    together = binomial(n, q).plus(rank_errors(size, noise))
    return together.below(tail), together.above(tail)


def place_of_targets(plan: QuantilePlan, chosen: Any) -> dict[tuple[int, int], int]:
    """Return the place of each limit and point among jointly chosen places, sorted like the ranks."""
    ordered = np.sort(np.asarray(chosen)).tolist()
    return {(target.kind, target.of): place for target, place in zip(plan.targets, ordered, strict=True)}
