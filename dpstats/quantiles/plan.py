"""What a private quantile will release: which ranks it aims at, and how."""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dpstats.privacy.calibration import largest_cost
from dpstats.privacy.events import BoundedRange
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.rounding import quotient_up
from dpstats.privacy.stages import Choice, Stage
from dpstats.quantiles.grid import Grid
from dpstats.quantiles.halving import Node, levels_of
from dpstats.quantiles.rank_errors import binomial, least_distance, offset_ranks, rank_errors
from dpstats.release.groups import first_reach
from dpstats.release.noise import check_scale

POINTS = "points"
COUNTS = "rows beside the points"

COUNTS_SHARE = 0.45
"""Part of epsilon that checks the ends of an interval that holds for any law."""
_REFUSED = 0.05
"""About how often an end that is to hold for any law fails its check."""
CROWDED = 0.08
"""Of the rows on the nearer side of a quantile: a rank error above it leaves too few for intervals to be exact."""

LEAST_SCALE = 2.0**-9
"""Least scale, in ranks. The weight of a place one rank off is e^-512, and exact weights have few digits."""
ESCAPED = 0.2
"""Part of the stated error (of 1/2, where there is none) that points drawn to a bound may take, together."""
WIDER = 1.01
"""How much wider intervals may be for points of their own."""

LOW, POINT, HIGH = range(3)


class Target(NamedTuple):
    """The rank that a chosen point aims at, its kind (LOW, POINT, HIGH), and of which quantile it is."""

    rank: int
    kind: int
    of: int


@dataclass(frozen=True)
class QuantilePlan(ReleasePlan):
    """What a fit of a `PrivateQuantile` will release.

    Attributes
    ----------
    grid : Grid
        The public points that are chosen among.
    q : tuple of float
        Rising.
    targets : tuple of Target
        What the points are that are chosen together, by rising rank; none, where quantiles are chosen by halving.
    levels : tuple of tuples of Node
        Of halving; none, where all points are chosen together.
    confidence_level : float or None
    coverage : {"regular", "any"}
    accepted : tuple of (int or None, int or None)
        For every quantile: how many rows may be counted below the lower end of its interval at most, and up to the
        upper one at least, for ends that hold for any law.
    unseparated : tuple of float
        Quantiles with too few rows between them and a bound to separate them at this epsilon. They have no point, and
        the bound as that endpoint. If no quantile can be separated from a bound, all points are chosen, and none is
        reported.
    """

    grid: Grid
    q: tuple[float, ...]
    targets: tuple[Target, ...] = ()
    levels: tuple[tuple[Node, ...], ...] = ()
    confidence_level: float | None = None
    coverage: str = "regular"
    accepted: tuple[tuple[int | None, int | None], ...] = ()
    unseparated: tuple[float, ...] = ()

    @property
    def halving(self) -> bool:
        """Whether quantiles are chosen level by level."""
        return bool(self.levels)

    @property
    def rank_error(self) -> float:
        """Standard deviation of the error of a chosen rank, where rows lie evenly.

        Of halving: of the last level alone, to which those before add.
        """
        stage = self.stages[-1] if self.halving else self.stages[0]
        assert isinstance(stage, Choice)
        if not self.halving:
            return rank_errors(stage.size, stage.scale_steps).std
        # In a part, e^(-|k| epsilon/2) for halves.
        return rank_errors(1, stage.scale_steps / 2).std

    @property
    def chosen(self) -> int:
        """How many points are chosen."""
        return sum(stage.size for stage in self.stages if isinstance(stage, Choice))

    @property
    def crowded(self) -> tuple[float, ...]:
        """Quantiles whose ends have too few rows about them for intervals to be exact."""
        if self.confidence_level is None or self.coverage == "any":
            return ()
        return tuple(
            q
            for q in self.q
            if q not in self.unseparated and self.rank_error > CROWDED * min(q, 1 - q) * self.n_samples
        )

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the plan has to know beside its stages, by name."""
        return {
            "q": list(self.q),
            "rank_error": self.rank_error,
            "step": self.grid.spacing,
            "unseparated": list(self.unseparated),
        }

    def notes(self) -> list[str]:
        """Return the same in words, one line each."""
        rows = f"standard deviation of a rank's error: about {self.rank_error:.3g} of {self.n_samples:,} rows"
        return [rows, *self.unseparated_note()]

    def unseparated_note(self) -> list[str]:
        """List the quantiles without a point, for the summary."""
        if not self.unseparated:
            return []
        where = ", ".join(f"{q:g}" for q in self.unseparated)
        end = "" if self.confidence_level is None else ", and an end is the bound"
        return [
            f"Too few rows lie between q = {where} and a bound for this epsilon to tell them apart: there is no "
            f"estimate (NaN){end}. More rows, a larger epsilon, fewer quantiles or a coarser step help."
        ]


@lru_cache(maxsize=64)
def points_plan(
    n: int, grid: Grid, q: tuple[float, ...], guarantee: PrivacyGuarantee, level: float | None, coverage: str
) -> QuantilePlan:
    """Return the plan of points that are chosen together, and where any law is covered, of the counts beside them."""
    counts = COUNTS_SHARE * guarantee.epsilon if coverage == "any" else 0.0
    # What has no bounded range as a whole gains nothing by delta.
    each = _largest_range(1, guarantee.epsilon, 0.0 if counts else guarantee.delta)
    scale = _scale(2, (each - counts) * (1 - 2.0**-50) if counts else each)
    noise = check_scale(_scale(1, counts)) if counts else None
    first_reach(scale, len(q))  # a law that is too wide to be drawn is too wide to be tabulated
    targets = _Aim(n, grid, q, scale, level, noise).targets()
    unseparated = _without_point(q, targets)
    # A release there must be: the quantiles' own ranks, where nothing can be told.
    targets = targets or tuple(Target(_rank(x, n), POINT, i) for i, x in enumerate(q))
    first_reach(scale, len(targets))
    stages: list[Choice | Stage] = [Choice(POINTS, len(targets), 2, scale, grid.points)]
    accepted: list[tuple[int | None, int | None]] = []
    ends = [target for target in targets if target.kind != POINT]
    if noise is not None and ends:
        first_reach(noise, len(ends))
        stages.append(Stage(COUNTS, "joint", len(ends), 1.0, 1, noise))
        accepted = [_accepted(n, x, len(ends), noise, level or 0.5) for x in q]
    return QuantilePlan(
        tuple(stages), guarantee, n, 1, grid, q, targets, (), level, coverage, tuple(accepted), unseparated
    )


def _without_point(q: tuple[float, ...], targets: tuple[Target, ...]) -> tuple[float, ...]:
    """Return the quantiles without a point: neither chosen, nor between two chosen endpoints."""
    kinds: list[set[int]] = [set() for _ in q]
    for target in targets:
        kinds[target.of].add(target.kind)
    return tuple(x for x, own in zip(q, kinds, strict=True) if POINT not in own and own != {LOW, HIGH})


def halving_plan(n: int, grid: Grid, q: tuple[float, ...], guarantee: PrivacyGuarantee) -> QuantilePlan:
    """Return the plan of quantiles that are chosen level by level."""
    chosen = q
    while True:
        levels = levels_of(chosen)
        scale = _scale(4, _largest_range(len(levels), guarantee.epsilon, guarantee.delta))
        first_reach(scale, 1)
        lost = _lost(n, grid, chosen, levels, scale)
        if not lost:
            break
        chosen = tuple(x for x in chosen if x not in lost)
        if not chosen:
            levels = levels_of(q)
            scale = _scale(4, _largest_range(len(levels), guarantee.epsilon, guarantee.delta))
            break
    stages = tuple(
        Choice(f"{POINTS}, level {k}", len(level), 4, scale, grid.points) for k, level in enumerate(levels, 1)
    )
    unseparated = tuple(x for x in q if x not in chosen)
    return QuantilePlan(stages, guarantee, n, 1, grid, q, (), levels, unseparated=unseparated)


def _lost(
    n: int, grid: Grid, q: tuple[float, ...], levels: tuple[tuple[Node, ...], ...], scale: float
) -> set[float]:
    """Return the quantiles that a bound would draw to it, among those whose part ends there."""
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
    """Return the largest range that so many choices can have each."""
    start = epsilon / count * (1 - 2.0**-50 if count > 1 else 1.0)
    if delta == 0:
        return start
    return largest_cost(lambda a: [BoundedRange(a)] * count, PrivacyGuarantee(epsilon, delta), start)


@dataclass(frozen=True)
class _Aim:
    """Public numbers that determine the ranks of a plan."""

    n: int
    grid: Grid
    q: tuple[float, ...]
    scale: float
    level: float | None
    noise: float | None

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

    def _targets(self, size: int) -> list[Target]:
        """Return the targets that can be chosen if there are ``size`` points in total."""
        found = []
        for index, x in enumerate(self.q):
            low, high = self._ends(x, size)
            if low is not None:
                found.append(Target(low, LOW, index))
            if high is not None:
                found.append(Target(high, HIGH, index))
            rank = _rank(x, self.n)
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
        """Return the targets that the bound on one side does not draw to it.

        A lower endpoint near the upper bound moves inward, where it is still valid. Other targets near a bound are
        dropped.
        """
        share = ESCAPED * (1 - (self.level or 0.5)) / size
        # By rows between the rank and the bound, in rising order.
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
        """Whether a quantile with both endpoints has a separate point, instead of their middle.

        The middle may lie between the values of data on a declared grid, or of endpoints that are far apart by design.
        Otherwise points are chosen if intervals widen by at most 1%.
        """
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
        if self.noise is None:
            return offset_ranks(q, self.n, size, self.scale, tail)
        together = 2 * len(self.q)
        below, above = _accepted(self.n, q, together, self.noise, self.level)
        missed = rank_errors(size, self.scale).plus(rank_errors(together, self.noise)).above(_REFUSED)
        low = None if below is None or below < missed else below - missed
        high = None if above is None or above > self.n - missed else above + missed
        return low, high


def _rank(q: float, n: int) -> int:
    return math.floor(q * n + 0.5)


@lru_cache(maxsize=256)
def _accepted(n: int, q: float, size: int, noise: float, level: float) -> tuple[int | None, int | None]:
    """Return how many noisy rows are too few by chance alone, for a point at the quantile, and how many too many."""
    tail = (1 - level) / 2
    together = binomial(n, q).plus(rank_errors(size, noise))
    return together.below(tail), together.above(tail)


def place_of_targets(plan: QuantilePlan, chosen: Any) -> dict[tuple[int, int], int]:
    """Return the place of each end and point, of places that were chosen together: sorted, as the ranks are."""
    ordered = np.sort(np.asarray(chosen)).tolist()
    return {(target.kind, target.of): place for target, place in zip(plan.targets, ordered, strict=True)}
