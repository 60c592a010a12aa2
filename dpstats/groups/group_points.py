"""Plans of quantiles of groups: the ranks that points aim at, and their release.

Proof: docs/proofs/quantiles.md, "Groups".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.values import as_int64
from dpstats.inference.noisy_counts import FoundCounts, NormalNoise
from dpstats.privacy.guarantee import PrivacyGuarantee, quotient_up
from dpstats.privacy.stages import Choice, Stage
from dpstats.quantiles.grid import Grid, GridPlan, group_rank_errors, group_windows, least_group_distances, offset_ranks
from dpstats.quantiles.quantile_plan import (
    CROWDED,
    ESCAPED,
    HIGH,
    LEAST_SCALE,
    LOW,
    POINT,
    POINTS,
    SPARE,
    WIDER,
    Target,
    rank_of,
)
from dpstats.release.groups import nested_reach
from dpstats.release.noise import check_scale
from dpstats.release.session import Part, Released, Session

# Plans, and ranks that follow from the released sizes of groups

ROWS = "rows of each group"
_LEAST_SHARE = 0.1
"""Least part of epsilon that counts the rows of the groups."""
_SURE = 2.0
"""How many standard deviations fewer and more rows than counted the ranks allow for."""
_COUNT_TAIL = 0.1
"""Part of the error probability for the number of rows of a group that was found."""
_MIDDLE = 0.5
_MOST_ROWS = 1 << 40
Numbers = NDArray[np.float64]


class Aims(NamedTuple):
    """The targets of a group of a counted size, by rising rank, and the number of rows that was counted."""

    anchor: int
    targets: tuple[Target, ...]

    @property
    def kinds(self) -> set[int]:
        """The kinds of points that are reported."""
        return {target.kind for target in self.targets}

    @property
    def reported(self) -> set[tuple[int, int]]:
        """The quantile and the kind of each point that is reported."""
        return {(target.of, target.kind) for target in self.targets}

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that the points aim at."""
        return tuple(target.rank for target in self.targets)

    def places(self, chosen: Any) -> dict[tuple[int, int], int]:
        """Return the places of the limits and the points, by quantile and kind."""
        ordered = np.sort(np.asarray(chosen)).tolist()
        return {(target.of, target.kind): place for target, place in zip(self.targets, ordered, strict=True)}


@dataclass(frozen=True)
class GroupQuantilesPlan(GridPlan):
    """The plan of a `GroupQuantiles`.

    Attributes
    ----------
    groups : tuple
        The declared groups.
    q : tuple of float
        Fractions in increasing order.
    grid : Grid
        The public points that are chosen among.
    each : int
        Number of points that are chosen in each group: of every quantile the limits of an interval, a point, or both.
    confidence_level : float or None
    missing : {"error", "drop"}
    threshold : float, optional
        The least released number of rows of a group, if groups are not declared. Its noise is then conditioned
        (`FoundCounts`).
    """

    groups: tuple[Any, ...]
    q: tuple[float, ...]
    grid: Grid
    each: int
    confidence_level: float | None
    missing: str
    threshold: float | None = None

    @property
    def choice(self) -> Choice:
        """The stage that chooses points."""
        stage = self.stages[-1]
        assert isinstance(stage, Choice)
        return stage

    @property
    def has_points(self) -> bool:
        """Whether a point of each quantile is chosen, beside limits or without them."""
        return self.each != 2 * len(self.q) or self.confidence_level is None

    @property
    def rank_scale(self) -> float:
        """The scale of the choice, in rows."""
        return self.choice.scale_steps / 2

    @property
    def rank_error(self) -> float:
        """Standard deviation of the error of a chosen rank, if rows are evenly spaced."""
        count = self.noise(ROWS).std * _largest_distance(self.q)
        return float(np.max(np.hypot(count, group_rank_errors(self.each, self.rank_scale).std)))

    @property
    def count_std(self) -> float:
        """Standard deviation of the noise in the number of rows of a group."""
        return float(np.max(self.noise(ROWS).std))

    @property
    def least_rows(self) -> int:
        """The least number of counted rows at which a group has an estimate and both limits of its interval."""
        return _least_rows(self)

    @property
    def crowded_rows(self) -> int:
        """The number of rows of a group below which coverage may be below the level."""
        outermost = min(min(q, 1 - q) for q in self.q)
        return math.ceil(min(self.rank_error / (CROWDED * outermost), _MOST_ROWS))

    def aims(self, anchor: int) -> Aims:
        """Return the ranks for a group with this counted number of rows."""
        return _aims(self, anchor)

    def aim(self, rows: int, each: int) -> tuple[int, ...]:
        """Return the ranks for a counted number of rows, where this plan is about ``each`` rows at a time."""
        near = self.aims(int(self.anchor(rows / each)))
        of = [_MIDDLE if target.kind == SPARE else self.q[target.of] for target in near.targets]
        return tuple(
            each * (target.rank - rank_of(q, near.anchor)) + rank_of(q, rows)
            for target, q in zip(near.targets, of, strict=True)
        )

    def facts(self) -> dict[str, Any]:
        """Return the facts of the plan other than its stages."""
        return {
            "groups": [str(group) for group in self.groups],
            "q": list(self.q),
            "rank_error": self.rank_error,
            "least_rows": self.least_rows,
            "step": self.grid.spacing,
        }

    def notes(self) -> list[str]:
        """Return the facts as sentences."""
        least, each = self.least_rows, self.n_samples / len(self.groups)
        units = self.guarantee.units
        error = f"{self.rank_error:.3g} evenly spaced {units} of each group"
        found = [f"standard deviation of a rank's error: about {error}"]
        what = "an estimate" if self.confidence_level is None else "an estimate and both limits of an interval"
        if least > each:
            found.append(
                f"warning: a group needs about {least:,} {units} for {what}, and n/{len(self.groups)} = {each:.6g} is "
                "fewer. More rows, a larger epsilon, fewer groups or a coarser step help."
            )
        else:
            found.append(f"a group of about {least:,} {units} or more has {what}")
        return found


def group_scales(ratio: float, epsilon: float) -> tuple[float, float]:
    """Return the scales of the counts of groups and of the choice in each. ``ratio`` is of their parts of epsilon."""
    share = max(_LEAST_SHARE, ratio / (1 + ratio))
    rows = check_scale(max(quotient_up(2, share * epsilon), LEAST_SCALE))
    scale = max(quotient_up(4, (1 - share) * epsilon * (1 - 2.0**-50)), LEAST_SCALE)
    return rows, scale


def group_stages(
    name: str, n_groups: int, rows: float, scale: float, each: int, candidates: int
) -> tuple[Stage, Choice]:
    """Return the stages of the sizes of groups, and of ``each`` points that are chosen in every group."""
    nested_reach(scale, each, candidates)  # refuses a scale that is too wide
    words = "{size} of {candidates:,} points, exponential mechanism of scale {scale:.6g} in half rows of a group"
    return (
        Stage(ROWS, "laplace", n_groups, 1.0, 2, rows),
        Choice(name, each * n_groups, 4, scale, candidates, words=words),
    )


def group_quantiles_plan(
    groups: tuple[Any, ...], n: int, q: tuple[float, ...], grid: Grid, epsilon: float, level: float | None, missing: str
) -> GroupQuantilesPlan:
    """Return the plan of the sizes of declared groups and of the points that are chosen in each.

    A replaced row may leave one group and enter another. It moves two counts by one. It moves the utility of each of
    the two groups by half a row, or the utility of its group by one row if it stays.
    """
    # This part of epsilon for the counts minimizes the error of a rank, for two chosen points. The variance is
    # 8 (q - 1/2)^2/share^2 + 16/(1 - share)^2, over epsilon^2.
    away = _largest_distance(q)
    ratio = math.exp(math.log(away**2 / 2) / 3) if away else 0.0
    rows, scale = group_scales(ratio, epsilon)
    each = _points_of_each(n / len(groups), q, scale / 2, level, grid.declared)
    stages = group_stages(POINTS, len(groups), rows, scale, each, grid.points)
    return GroupQuantilesPlan(stages, PrivacyGuarantee(epsilon), n, 1, groups, q, grid, each, level, missing)


def found_quantiles_plan(
    count: Stage, threshold: float, n: int, q: tuple[float, ...], grid: Grid, epsilon: float, level: float | None
) -> GroupQuantilesPlan:
    """Return the plan of the points of groups that were found by their noisy counts of rows.

    ``count`` has the noise of a count before it is conditioned. The choice of the points costs epsilon.
    """
    scale = max(quotient_up(4, epsilon), LEAST_SCALE)
    each = _points_of_each(n, q, scale / 2, level, grid.declared)
    nested_reach(scale, each, grid.points)
    words = "{size} of {candidates:,} points, exponential mechanism of scale {scale:.6g} in half rows"
    choice = Choice(POINTS, each, 4, scale, grid.points, words=words, per_key=True)
    return GroupQuantilesPlan(
        (count, choice), PrivacyGuarantee(epsilon), n, 1, ("found",), q, grid, each, level, "drop", threshold
    )


def _largest_distance(q: tuple[float, ...]) -> float:
    """Return the distance of the outermost quantile from the median, whose rank does not move with the counts."""
    return max(abs(one - _MIDDLE) for one in q)


def _points_of_each(n: float, q: tuple[float, ...], scale: float, level: float | None, declared: bool) -> int:
    """Return the number of points of a group: separate points if they widen the intervals by 1% at most."""
    if level is None:
        return len(q)
    two, three = (group_rank_errors(size * len(q), scale).std ** 2 for size in (2, 3))
    sampling = min(one * (1 - one) for one in q) * n
    return len(q) * (3 if declared or sampling + three <= WIDER**2 * (sampling + two) else 2)


@lru_cache(maxsize=1 << 14)
def _aims(plan: GroupQuantilesPlan, anchor: int) -> Aims:
    """Return the ranks for a group of a counted size."""
    # Distances from the bounds allow for fewer rows than counted, and those from the quantile for more.
    if plan.threshold is not None:
        return _found_aims(plan, anchor, plan.threshold)
    size, level, targets = plan.each, plan.confidence_level, list[Target]()
    margin = math.ceil(_SURE * plan.count_std)
    few, most = max(anchor - margin, 2), min(anchor + margin, plan.n_samples)
    for of, q in enumerate(plan.q):
        if plan.has_points:
            targets.append(Target(rank_of(q, few), POINT, of))
        if level is None:
            continue
        unknown = float(np.max(plan.noise(ROWS).scale)) * abs(q - _MIDDLE)
        low, high = offset_ranks(q, most, size, plan.rank_scale, (1 - level) / 2, unknown, group_rank_errors)
        # Ranks of more rows, moved to fewer. Rounding two ranks adds at most one.
        change = rank_of(q, most) - rank_of(q, few)
        targets.append(Target(-1 if low is None else low - change - 1, LOW, of))
        targets.append(Target(few + 1 if high is None else high - change + 1, HIGH, of))
    return _settle(plan, targets, few, anchor, [rank_of(q, anchor) - rank_of(q, few) for q in plan.q])


def _found_aims(plan: GroupQuantilesPlan, anchor: int, threshold: float) -> Aims:
    """Return the ranks for a group that was found with this noisy count."""
    # The rank of a group of N rows is r + (N - anchor)/2, and should be qN. The limits allow for all sizes N of an
    # interval that holds given that the group was found.
    size, level, targets = plan.each, plan.confidence_level, list[Target]()
    # Rounding must not put the count below the threshold.
    counts = FoundCounts(np.array([max(float(anchor), threshold + 0.5)]), NormalNoise(plan.count_std), threshold)
    low, high = counts.limits(_COUNT_TAIL * (1 - (level or 0.5)) / 2)
    few, most = max(math.floor(low[0]), 2), max(min(math.ceil(high[0]), plan.n_samples), 2)
    for of, q in enumerate(plan.q):
        shifts = [(q - _MIDDLE) * n for n in (few, float(counts.sizes[0]), most)]
        least, middle, largest = min(shifts), shifts[1], max(shifts)
        if plan.has_points:
            targets.append(Target(round(few / 2 + middle), POINT, of))
        if level is None:
            continue
        tail = (1 - _COUNT_TAIL) * (1 - level) / 2
        ends = offset_ranks(q, most, size, plan.rank_scale, tail, 0.0, group_rank_errors)
        below, above = (None if end is None else end - rank_of(q, most) for end in ends)
        targets += [
            Target(-1 if below is None else math.floor(few / 2 + least) + below - 1, LOW, of),
            Target(few + 1 if above is None else math.ceil(few / 2 + largest) + above + 1, HIGH, of),
        ]
    return _settle(plan, targets, few, anchor, [anchor // 2 - few // 2] * len(plan.q))


def _settle(plan: GroupQuantilesPlan, targets: list[Target], few: int, anchor: int, changes: list[int]) -> Aims:
    """Return the targets for ``few`` rows that the bounds do not draw to them, with their ranks for the anchor.

    ``changes`` of the ranks of each quantile lead from few rows to the anchor.
    """
    share = ESCAPED * (1 - (plan.confidence_level or 0.5)) / plan.each
    least = least_group_distances(plan.each, plan.rank_scale, plan.grid.points, share)
    kept = _drop_close_targets(targets, few, least)
    moved = [t._replace(rank=anchor // 2 if t.kind == SPARE else t.rank + changes[t.of]) for t in kept]
    return Aims(anchor, tuple(sorted(moved)))


def _drop_close_targets(targets: list[Target], n: int, least: tuple[int, ...]) -> list[Target]:
    """Return targets that the bounds do not draw to them: the others become spare points in the middle."""
    # A lower limit near the upper bound moves inward, where it is still valid. So does an upper limit near the
    # lower bound.
    spare = Target(n // 2, SPARE, 0)
    while True:
        found = _nearest_failure(targets, n, least)
        if found is None:
            return targets
        target, side, distance = found
        if target.kind == SPARE:
            return [spare] * len(targets)
        inward = target.kind == LOW + HIGH - side and distance <= n
        moved = target._replace(rank=n - distance if side == HIGH else distance)
        targets = [t for t in targets if t != target] + [moved if inward else spare]


def _nearest_failure(targets: list[Target], n: int, least: tuple[int, ...]) -> tuple[Target, int, int] | None:
    """Return a target that is too near to a bound, the side of that bound, and the distance that it needs."""
    for side in (HIGH, LOW):
        ordered = sorted((n - t.rank if side == HIGH else t.rank, t) for t in targets)
        for (distance, target), needed in zip(ordered, least, strict=True):
            if distance < needed:
                return target, side, needed
    return None


@lru_cache(maxsize=64)
def _least_rows(plan: GroupQuantilesPlan) -> int:
    kinds = (POINT,) if plan.confidence_level is None else (LOW, HIGH)
    wanted = {(of, kind) for of in range(len(plan.q)) for kind in kinds}
    unlimited = replace(plan, n_planned=_MOST_ROWS)

    def enough(rows: int) -> bool:
        return wanted <= unlimited.aims(rows).reported

    low, high = 1, 4
    while high < _MOST_ROWS and not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


# Release


def release_group_points(places: Any, plan: GroupQuantilesPlan, session: Session) -> None:
    """Release the points of a plan for the rows of each group, at sorted places of its grid."""
    choose_group_points(places, session.add(ROWS, np.array([own.size for own in places])), plan, session)


def choose_group_points(places: Any, counts: Any, plan: GroupQuantilesPlan, session: Session, each: int = 1) -> None:
    """Choose the points of a plan after the sizes of the groups. The plan is about ``each`` rows at a time."""
    counted = as_int64(np.clip(np.rint(counts), 2 * each, plan.n_samples))
    parts = []
    for own, count in zip(places, np.moveaxis(counted, -1, 0), strict=True):
        anchors, case = np.unique(count, return_inverse=True)
        cases = [
            group_windows(own, plan.aim(anchor, each), anchor, plan.grid.steps, each) for anchor in anchors.tolist()
        ]
        parts.append(Part(cases, case.reshape(-1)))
    session.choose(POINTS, parts)


def read_group_points(released: Released, plan: GroupQuantilesPlan) -> tuple[Numbers, Numbers, Numbers]:
    """Return the points of each group, and the limits of their intervals: each of shape (groups, quantiles)."""
    grid, count = plan.grid, len(plan.groups)
    points, low, high = np.full((3, count, len(plan.q)), np.nan)
    if plan.confidence_level is not None:
        low[:], high[:] = grid.low, grid.high
    # Rows are within half a step of where they were, unless the step is theirs.
    half = 0.0 if grid.declared else grid.spacing / 2
    chosen = np.reshape(released[POINTS], (count, plan.each))
    for k, anchor in enumerate(plan.anchor(released[ROWS]).tolist()):
        places = plan.aims(anchor).places(chosen[k])
        found = {where: float(grid.values(place)) for where, place in places.items()}
        for j in range(len(plan.q)):
            point, least, most = (found.get((j, kind)) for kind in (POINT, LOW, HIGH))
            if point is not None:
                points[k, j] = point
            elif least is not None and most is not None:
                points[k, j] = (least + most) / 2
            if least is not None:
                low[k, j] = max(least - half, grid.low)
            if most is not None:
                high[k, j] = min(most + half, grid.high)
    return points, low, high
