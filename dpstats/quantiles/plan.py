"""What a private quantile will release: which ranks it aims at, and how."""

from __future__ import annotations

import math
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
from dpstats.quantiles.rank_errors import binomial, offset_ranks, rank_errors
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
    """

    grid: Grid
    q: tuple[float, ...]
    targets: tuple[Target, ...] = ()
    levels: tuple[tuple[Node, ...], ...] = ()
    confidence_level: float | None = None
    coverage: str = "regular"
    accepted: tuple[tuple[int | None, int | None], ...] = ()

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
        return tuple(q for q in self.q if self.rank_error > CROWDED * min(q, 1 - q) * self.n_samples)

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the plan has to know beside its stages, by name."""
        return {"q": list(self.q), "rank_error": self.rank_error, "step": self.grid.spacing}

    def notes(self) -> list[str]:
        """Return the same in words, one line each."""
        rows = f"standard deviation of a rank's error: about {self.rank_error:.3g} of {self.n_samples:,} rows"
        return [rows]


def points_plan(
    n: int, grid: Grid, q: tuple[float, ...], guarantee: PrivacyGuarantee, level: float | None, coverage: str
) -> QuantilePlan:
    """Return the plan of points that are chosen together, and where any law is covered, of the counts beside them."""
    counts = COUNTS_SHARE * guarantee.epsilon if coverage == "any" else 0.0
    # What has no bounded range as a whole gains nothing by delta.
    each = _largest_range(1, guarantee.epsilon, 0.0 if counts else guarantee.delta)
    scale = quotient_up(2, (each - counts) * (1 - 2.0**-50) if counts else each)
    first_reach(scale, len(q))  # a law that is too wide to be drawn is too wide to be tabulated
    ranks = _ranks(n, q, scale, level, counts, grid.points)
    targets = _targets(n, grid, q, ranks, coverage)
    first_reach(scale, len(targets))
    stages: list[Choice | Stage] = [Choice(POINTS, len(targets), 2, scale, grid.points)]
    accepted: list[tuple[int | None, int | None]] = []
    ends = [target for target in targets if target.kind != POINT]
    if counts and ends:
        noise = check_scale(quotient_up(1, counts))
        first_reach(noise, len(ends))
        stages.append(Stage(COUNTS, "joint", len(ends), 1.0, 1, noise))
        accepted = [_accepted(n, x, len(ends), noise, level or 0.5) for x in q]
    return QuantilePlan(
        tuple(stages), guarantee, n, 1, grid, q, targets, (), level, coverage, tuple(accepted)
    )


def halving_plan(n: int, grid: Grid, q: tuple[float, ...], guarantee: PrivacyGuarantee) -> QuantilePlan:
    """Return the plan of quantiles that are chosen level by level."""
    levels = levels_of(q)
    each = _largest_range(len(levels), guarantee.epsilon, guarantee.delta)
    scale = quotient_up(4, each)
    first_reach(scale, 1)
    stages = tuple(
        Choice(f"{POINTS}, level {k}", len(level), 4, scale, grid.points) for k, level in enumerate(levels, 1)
    )
    return QuantilePlan(stages, guarantee, n, 1, grid, q, (), levels)


@lru_cache(maxsize=256)
def _largest_range(count: int, epsilon: float, delta: float) -> float:
    """Return the largest range that so many choices can have each."""
    start = epsilon / count * (1 - 2.0**-50 if count > 1 else 1.0)
    if delta == 0:
        return start
    return largest_cost(lambda a: [BoundedRange(a)] * count, PrivacyGuarantee(epsilon, delta), start)


_Ranks = list[tuple[int | None, int | None]]


def _ranks(
    n: int, q: tuple[float, ...], scale: float, level: float | None, counts: float, points: int
) -> _Ranks:
    """Return the ranks of the ends of every quantile's interval; None where there is none inside the bounds.

    Ends that are left out make the others' errors smaller, and so theirs are looked for again.
    """
    if level is None:
        return [(None, None)] * len(q)
    tail = (1 - level) / 2
    own = len(q) if counts else 0
    size = 2 * len(q) + own
    while True:
        found: _Ranks = []
        for x in q:
            if not counts:
                found.append(offset_ranks(x, n, size, scale, tail))
                continue
            below, above = _accepted(n, x, 2 * len(q), quotient_up(1, counts), level)
            missed = rank_errors(size, scale).plus(rank_errors(2 * len(q), 1 / counts)).above(_REFUSED)
            low = None if below is None or below < missed else below - missed
            high = None if above is None or above > n - missed else above + missed
            found.append((low, high))
        # Nearer to the edge than this, all that lies between the rows and the bound would draw an end out there, and
        # with it all other points.
        margin = scale * math.log(points)
        found = [
            (
                None if low is None or low < margin else low,
                None if high is None or high > n - margin else high,
            )
            for low, high in found
        ]
        kept = own + sum(end is not None for pair in found for end in pair)
        if kept >= size or kept == own:
            return found
        size = kept


def _targets(n: int, grid: Grid, q: tuple[float, ...], ranks: _Ranks, coverage: str) -> tuple[Target, ...]:
    """Return what is chosen, in rising order of ranks.

    A quantile has a point of its own where the middle between the ends of its interval is none: where data are on a
    grid of their own, where an end is a bound, and where the ends are far apart by design.
    """
    found = []
    for index, (x, (low, high)) in enumerate(zip(q, ranks, strict=True)):
        if low is not None:
            found.append(Target(low, LOW, index))
        if high is not None:
            found.append(Target(high, HIGH, index))
        if grid.declared or coverage == "any" or low is None or high is None:
            point = min(max(math.floor(x * n + 0.5), low or 0), n if high is None else high)
            found.append(Target(point, POINT, index))
    return tuple(sorted(found))


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
