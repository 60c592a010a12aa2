"""The public grid of candidates for quantiles, the places of rows on it, and points chosen by repeated halving.

Proofs: docs/proofs/quantiles.md, docs/intervals/quantiles.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, signal, stats
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import check_integer, check_real
from dpstats.data.values import as_int64
from dpstats.errors import attempt, refuse, refuse_data, show
from dpstats.inference.error_distributions import AtOnce, ErrorDistribution, Limits, Tail
from dpstats.inference.estimates import HasEstimates
from dpstats.inference.results import about_missing, observed_rows, with_missing
from dpstats.lattice.base import check_region
from dpstats.privacy.plan import ReleasePlan
from dpstats.release.estimator import PrivateEstimator
from dpstats.release.groups import Cells, Nested, Windows
from dpstats.release.session import Part, Session

Numbers = NDArray[np.float64]

_STEPS = 1 << 20
_MOST_STEPS = 1 << 40
_BLOCK = 1 << 16
_SLACK = 1e-9
_DIGITS = 15
"""Significant digits of a float. The float nearest to 0.3 may differ from low + 3 (high - low)/10."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Equally spaced public points, from one bound to the other.

    Attributes
    ----------
    low, high : float
    steps : int
        Points are at places 0, ..., steps.
    declared : bool
        Whether the step was declared as the spacing of the data. Otherwise it is a fraction of the range.
    """

    low: float
    high: float
    steps: int
    declared: bool

    @property
    def spacing(self) -> float:
        """Distance between adjacent points."""
        return (self.high - self.low) / self.steps

    @property
    def points(self) -> int:
        """Number of points."""
        return self.steps + 1

    def places(self, X: Any, up: bool = False) -> NDArray[np.integer[Any]]:
        """Return the place of the nearest point to every row, or of the first edge not below it.

        The place of a row depends on this row only.
        """
        values = np.asarray(X)
        found = np.empty(values.shape, dtype=np.int32 if self.steps < 2**31 else np.int64)
        factor = self.steps / (self.high - self.low)
        for start in range(0, values.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            block = values[part].astype(np.float64)
            if up:
                # A row on an edge has the place of this edge, because bands and rows use the same edges.
                found[part] = np.minimum(np.searchsorted(_edges(self), block, side="left"), self.steps)
                continue
            with np.errstate(over="ignore"):
                block -= self.low
                block *= factor
            np.clip(block, 0.0, float(self.steps), out=block)
            found[part] = np.rint(block, out=block)
        return found

    def values(self, places: Any) -> NDArray[np.float64]:
        """Return the points at places."""
        at = np.asarray(places, dtype=np.float64)
        inner = self.low + at * (self.high - self.low) / self.steps
        return np.where(at == self.steps, self.high, inner)

    @property
    def edges(self) -> NDArray[np.float64]:
        """All points, rounded to 15 digits of the larger bound if points are further apart than that."""
        return _edges(self)

    def add_bounds(self, estimand: str) -> str:
        """Return an estimand, and that rows are within the bounds and rounded to a declared step."""
        rounded = f", rounded to steps of {self.spacing:g} within" if self.declared else ", within"
        return f"{estimand}{rounded} the bounds"


class GridPlan(ReleasePlan):
    """Base of the plans of releases from one column, whose rows are places of a grid."""

    grid: Grid
    missing: str

    @property
    def dropped(self) -> bool:
        """Whether missing rows are dropped, and the number of the others is released."""
        return False

    @property
    def rows_std(self) -> float:
        """Standard deviation of the noise in the released number of rows. 0 if none is released."""
        return 0.0

    def anchor(self, rows: Any) -> NDArray[np.int64]:
        """Return the numbers of rows that define ranks, for released numbers of rows."""
        return as_int64(np.clip(np.rint(rows), 2, self.n_samples))


@lru_cache(maxsize=8)
def _edges(grid: Grid) -> NDArray[np.float64]:
    found = grid.values(np.arange(grid.points))
    digits = _DIGITS - 1 - math.floor(math.log10(max(abs(grid.low), abs(grid.high))))
    # Powers of ten up to 10^22 are exact floats.
    if 0 <= digits <= 22 and grid.spacing > 100 * 10.0**-digits:
        found[1:-1] = np.round(found[1:-1], digits)
    found.setflags(write=False)
    return found


def check_bounds(bounds: Any, name: str = "bounds") -> tuple[float, float]:
    """Return public bounds as two floats, the lower one first."""
    allowed = "a pair (low, high) of finite numbers with low < high, known without the data"
    ends = list(bounds) if attempt(lambda: np.ndim(bounds), Exception) == 1 else []
    if len(ends) != 2:
        raise refuse(name, given=bounds, allowed=allowed)
    low, high = ends
    low, high = check_real(f"{name}[0]", low, of=bounds), check_real(f"{name}[1]", high, of=bounds)
    if not low < high:
        raise refuse(name, given=bounds, allowed=allowed)
    half, middle = high / 2 - low / 2, low / 2 + high / 2
    check_region(half, middle, "bounds must have a half-width", "bounds must have a middle")
    return low, high


def check_grid(bounds: Any, step: Any) -> Grid:
    """Return the grid that bounds and a step (None: a 2^20th of the range) declare."""
    low, high = check_bounds(bounds)
    if step is None:
        if not (high - low) / _STEPS > 8 * math.ulp(max(abs(low), abs(high))):
            raise refuse(
                "bounds",
                given=bounds,
                allowed="have 2^23 floating-point numbers between them",
                remedy="Declare a step.",
            )
        steps = _STEPS
    else:
        step = check_real("step", step, above=0)
        ratio = (high - low) / step
        steps = round(ratio) if math.isfinite(ratio) else 0
        if not 1 <= steps <= _MOST_STEPS or abs(ratio - steps) > _SLACK * steps:
            raise refuse(
                "step",
                got=f"{step:g} for {show(bounds)}",
                allowed="a divisor of the range of bounds into at most 2^40 parts",
            )
    return Grid(low, high, steps, step is not None)


def finite_places(X: Any, grid: Grid, up: bool = False, missing: str = "error") -> NDArray[np.integer[Any]]:
    """Return the places of the rows of a column. Rows that are not finite are dropped, or raise an error."""
    column = np.asarray(X)[:, 0]
    finite = np.concatenate([np.isfinite(column[start : start + _BLOCK]) for start in range(0, column.size, _BLOCK)])
    if not finite.all():
        if missing == "error":
            raise refuse_data(
                "X",
                got="at least one NaN or infinite entry",
                allowed="finite",
                remedy="missing='drop' leaves such rows out and estimates for the observed rows.",
            )
        column = column[finite]
    return grid.places(column, up)


def sorted_places(X: Any, grid: Grid, missing: str = "error") -> NDArray[np.integer[Any]]:
    """Return the places of `finite_places` in increasing order."""
    places = finite_places(X, grid, missing=missing)
    places.sort()
    return places


# The base class: it accepts a 1-d array or a table with one column

Plan = TypeVar("Plan", bound=GridPlan)


class OneColumn(HasEstimates, PrivateEstimator[Plan]):
    """Base class of the estimators of one column of numbers."""

    _one_column = True

    @property
    def _name(self) -> str:
        """Name of the column."""
        names = getattr(self, "feature_names_in_", None)
        return "x" if names is None else str(names[0])

    def _fitted(self) -> None:
        check_is_fitted(self, "plan_")

    def _add_policy(self, estimand: str) -> str:
        """Return an estimand with the policy for missing rows."""
        return with_missing(estimand, about_missing(self.plan_.missing))

    def _add_bounds(self, estimand: str) -> str:
        """Return an estimand within the bounds of the grid, with the policy for missing rows."""
        return self._add_policy(self.plan_.grid.add_bounds(estimand))

    def _first_facts(self) -> list[tuple[str, str]]:
        """Return the facts of a summary that hold for any fit."""
        plan = self.plan_
        return [
            ("Estimator", type(self).__name__),
            ("Column, rows", f"{self._name}, {plan.n_samples:,} (public)"),
            ("Privacy", str(self.privacy_)),
            *([("Rows observed", observed_rows(self.rows_, plan.rows_std))] if plan.dropped else []),
            ("Bounds", f"{plan.grid.low:g} to {plan.grid.high:g} ({_how_known(plan)})"),
        ]


def _how_known(plan: GridPlan) -> str:
    """Return the origin of the bounds: public, or chosen by a release."""
    if plan.located is None:
        return "public"
    return f"chosen for {plan.located.plan.target.epsilon:.3g} of epsilon"


def check_sizes(n_samples: Any, n_features: Any) -> int:
    """Return the number of rows of one column."""
    n = check_integer("n_samples", n_samples, at_least=2)
    if check_integer("n_features", n_features, at_least=1) != 1:
        raise refuse_data(
            "X",
            got=f"{n_features} columns",
            allowed="one column: a 1-d array, or a table with one column",
            remedy="Select it by name, such as X[['age']].",
        )
    return n


# The band of the cdf, and errors of quantiles

BAND = AtOnce("the band, which covers all quantiles at once")


# The band includes sampling error by Massart's inequality, for any distribution and any n, and the simulated noise
# of the release.
@dataclass(frozen=True, eq=False)
class BandWidth:
    """Distribution of the largest error of an estimated cdf: sampling error and simulated noise.

    Attributes
    ----------
    noise : array
        Largest noise of the cdf at any point, for each simulated release.
    n_samples : float
        Number of rows that determines the sampling error. It is lower if the released number may be too small.
    """

    noise: Numbers
    n_samples: float

    def tail_probability(self, width: float, sides: int = 2) -> float:
        """Return the probability that the error exceeds ``width`` anywhere, on both sides or on one side."""
        beyond = np.exp(-2 * self.n_samples * np.maximum(width - self.noise, 0.0) ** 2)
        # The one-sided form of Massart's inequality holds for probabilities of at most one half.
        least = np.where(beyond <= 0.5, beyond, 1.0) if sides == 1 else np.minimum(1.0, 2 * beyond)
        return float((1 + least.sum()) / (self.noise.size + 1))

    def half_width(self, missed: float, sides: int = 2) -> float:
        """Return the width that is exceeded with this probability; infinite if simulations are too few.

        It may exceed 1, because noise can take the fitted cdf outside [0, 1].
        """
        most = float(self.noise.max()) + math.sqrt(math.log(4 * self.noise.size) / self.n_samples)
        if self.tail_probability(most, sides) > missed:
            return math.inf
        return float(optimize.brentq(lambda w: self.tail_probability(w, sides) - missed, 0.0, most, xtol=1e-9))


@dataclass(frozen=True, eq=False)
class Band:
    """An estimated cdf at the upper edges of cells, with the distribution of its largest error.

    Attributes
    ----------
    starts, edges : arrays
        Lower and upper edges of the cells. If cells are single values, both contain the values.
    fit : array
        Fitted values before they are made a cdf.
    cdf : array
        Estimated cdf at ``edges``.
    width : BandWidth
        Distribution of the largest error.
    """

    starts: Numbers
    edges: Numbers
    fit: Numbers
    cdf: Numbers
    width: BandWidth

    def ends(self, width: float) -> Limits:
        """Return the limits of the band at the edges: around the unsorted fit, narrowed because a cdf never falls."""
        low = np.maximum.accumulate(np.clip(self.fit - width, 0.0, 1.0))
        high = np.minimum.accumulate(np.clip(self.fit + width, 0.0, 1.0)[::-1])[::-1]
        # Widen the limits to include the estimate, even if the noise is large.
        low, high = np.minimum(low, self.cdf), np.maximum(high, self.cdf)
        low[-1] = high[-1] = 1.0
        return low, high

    def quantiles(self, fractions: Numbers, width: float) -> Limits:
        """Return the smallest and the largest quantiles of all cdfs in the band."""
        low, high = self.ends(width)
        # The quantile is above each edge with upper limit below q, and at most the first edge with lower limit q.
        first = np.searchsorted(high, fractions, side="left")
        last = np.searchsorted(low, fractions, side="left")
        return self.starts[first], self.edges[np.minimum(last, self.edges.size - 1)]

    def widths(self, fractions: Numbers, values: Numbers) -> Limits:
        """Return the smallest widths for which values are not above, and not below, the limits of their quantiles."""
        last = self.edges.size - 1
        place = np.searchsorted(self.edges, values, side="left") - 1  # the last edge below a value
        above = np.maximum.accumulate(self.fit)[place] - fractions
        above = np.where((place >= 0) & ((self.cdf[place] >= fractions) | (place == last)), above, 0.0)
        place = np.searchsorted(self.starts[: last + 1], values, side="right") - 1  # the last start at or below it
        below = fractions - np.minimum.accumulate(self.fit[::-1])[::-1][place]
        below = np.where((place >= 0) & (place < last) & (self.cdf[place] < fractions), below, 0.0)
        return np.maximum(above, 0.0), np.maximum(below, 0.0)


@dataclass(frozen=True, eq=False)
class QuantileErrors(ErrorDistribution):
    """Errors of quantiles read from a band.

    Attributes
    ----------
    band : Band
    fractions, estimate : arrays of one shape
    """

    band: Band
    fractions: Numbers
    estimate: Numbers

    @property
    def start(self) -> Numbers:
        return self.estimate

    @property
    def box(self) -> Limits:
        ends = self.band.starts[0], self.band.edges[-1]
        return np.full(self.estimate.shape, ends[0]), np.full(self.estimate.shape, ends[1])

    def limits(self, tail: Tail) -> Limits:
        return self.band.quantiles(self.fractions, self.band.width.half_width(float(np.min(tail)), sides=1))

    def interval(self, tail: Tail) -> Limits:
        return self.band.quantiles(self.fractions, self.band.width.half_width(2 * float(np.min(tail))))

    def tails(self, value: Numbers) -> Limits:
        less, greater = self.band.widths(self.fractions, value)
        return self._compute_tails(less, 1), self._compute_tails(greater, 1)

    def two_sided(self, value: Numbers) -> Numbers:
        return self._compute_tails(np.maximum(*self.band.widths(self.fractions, value)), 2)

    def _compute_tails(self, widths: Numbers, sides: int) -> Numbers:
        found = [self.band.width.tail_probability(width, sides) if width > 0 else 1.0 for width in np.ravel(widths)]
        return np.reshape(found, np.shape(widths))


# Points whose ranks are near public target ranks: first the middle quantile, then the middle ones on either side

_LARGEST_DENOMINATOR = 10**6
Places = NDArray[np.integer[Any]]


# The parts of a level contain different rows, and a choice in a part is relative to the number of rows in that
# part. A replaced row leaves at most one part and enters at most one. Each of the two parts has one row added or
# removed.
@dataclass(frozen=True)
class Node:
    """A quantile that halves a part.

    Attributes
    ----------
    index : int
        Index of the quantile.
    share : Fraction
        Fraction of the rows of the part that are below the quantile.
    lower, upper : int or None
        Indices of the quantiles that bound the part. None: a bound of the grid.
    """

    index: int
    share: Fraction
    lower: int | None
    upper: int | None


def levels_of(q: tuple[float, ...]) -> tuple[tuple[Node, ...], ...]:
    """Return the quantiles of every level, for increasing fractions."""
    exact = [Fraction(x).limit_denominator(_LARGEST_DENOMINATOR) for x in q]
    parts: list[tuple[int, int]] = [(-1, len(q))]
    found: list[tuple[Node, ...]] = []
    while parts:
        level = []
        following: list[tuple[int, int]] = []
        for lower, upper in parts:
            middle = (lower + upper) // 2
            start = Fraction(0) if lower < 0 else exact[lower]
            end = Fraction(1) if upper == len(q) else exact[upper]
            level.append(
                Node(
                    middle,
                    (exact[middle] - start) / (end - start),
                    None if lower < 0 else lower,
                    None if upper == len(q) else upper,
                )
            )
            following += [part for part in ((lower, middle), (middle, upper)) if part[1] - part[0] > 1]
        found.append(tuple(level))
        parts = following
    assert len(found) == math.ceil(math.log2(len(q) + 1))
    return tuple(found)


def cells(places: Places, share: Fraction, low: int, high: int) -> Cells:
    """Return the points from ``low`` to ``high``, grouped by the distance of their rank from a fraction of the rows.

    All rows are between the two points. A step of the distances is one over the denominator of the fraction. Adding or
    removing a row changes the signed distances by at most ``unit`` steps.
    """
    n, steps = places.size, share.denominator
    target = share.numerator * n  # over ``steps``
    floor = target // steps
    ceiling = -(-target // steps)
    z = as_int64(np.concatenate([[low], places, [high]]))
    # Left of the target are points by the number of rows at or below them, right of it by the number of rows below.
    left_low, left_high = z[: floor + (floor < ceiling)], z[1 : floor + 1 + (floor < ceiling)] - 1
    if floor == ceiling:
        center = z[floor], z[floor + 1]
        left, right = steps, steps
    else:
        center = z[ceiling], z[ceiling]
        left, right = target - steps * floor, steps * ceiling - target
    first = ceiling + (floor == ceiling)
    right_low, right_high = z[first : n + 1] + 1, z[first + 1 : n + 2]
    return Cells(
        np.concatenate([left_low, [center[0]], right_low]),
        np.concatenate([left_high, [center[1]], right_high]),
        left_low.size,
        left,
        right,
        steps,
        unit=max(share.numerator, steps - share.numerator),
    )


def release(
    places: Places, levels: tuple[tuple[Node, ...], ...], names: tuple[str, ...], steps: int, session: Session
) -> None:
    """Choose the quantiles of every level, within the parts between the quantiles of earlier levels."""
    count = 1 if session.size is None else session.size
    chosen: dict[int, NDArray[np.int64]] = {}
    for level, name in zip(levels, names, strict=True):
        parts = []
        for node in level:
            low = np.zeros(count, dtype=np.int64) if node.lower is None else chosen[node.lower]
            high = np.full(count, steps) if node.upper is None else chosen[node.upper]
            ends, case = np.unique(np.stack([low, high], axis=1), axis=0, return_inverse=True)
            parts.append(Part([part(places, node, *pair) for pair in ends.tolist()], case.reshape(-1)))
        drawn = session.choose(name, parts).reshape(count, len(level))
        for node, column in zip(level, drawn.T, strict=True):
            chosen[node.index] = column


def part(places: Places, node: Node, low: int, high: int) -> Cells:
    """Return the candidates for a quantile in the part between two points that were chosen before."""
    # A row at the lower point belongs to the part below, except at the lower bound of the grid.
    first = 0 if node.lower is None else int(np.searchsorted(places, low, side="right"))
    last = places.size if node.upper is None else int(np.searchsorted(places, high, side="right"))
    return cells(places[first:last], node.share, low, high)


# The utility of a tuple is minus the range of the set that contains 0 and the rank error of each point.
def windows(places: Places, ranks: tuple[int, ...], steps: int, unit: int = 1) -> Windows:
    """Return the tuples of points by utility, for rows at sorted places among 0, ..., ``steps``.

    A point exceeds rank r by at most b if at most r + b rows are below it: up to the place of row r + b + 1. It falls
    short of rank r by at most a if at least r - a rows are at or below it: from the place of row r - a on. A step of
    the utility is ``unit`` rows.
    """
    wanted = np.array(ranks, dtype=np.int64)[:, None]

    def ends(a: NDArray[np.int64], b: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return _place(places, wanted - a, steps), _place(places, wanted + b + 1, steps)

    return Windows(ends, len(ranks), candidates=steps + 1, unit=unit)


def group_windows(places: Places, ranks: tuple[int, ...], anchor: int, steps: int, unit: int = 1) -> Nested:
    """Return the tuples of points by utility, for the sorted places of a group whose size is private.

    Ranks are for ``anchor`` rows and follow half of the difference from the group's own number. The utility is minus
    the largest distance from a rank, in halves of ``unit`` rows: docs/proofs/quantiles.md, theorem 4.
    """
    twice = places.size - anchor + 2 * np.array(ranks, dtype=np.int64)[:, None]

    def ends(a: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return _place(places, -((a - twice) // 2), steps), _place(places, (twice + a) // 2 + 1, steps)

    return Nested(ends, len(ranks), candidates=steps + 1, unit=unit)


def _place(places: Places, row: NDArray[np.int64], steps: int) -> NDArray[np.int64]:
    """Return the places of rows, numbered from 1."""
    n = places.size
    places = places if n else np.array([steps])  # without rows, only the bounds of the grid matter
    # The bounds of the grid precede the first row and follow the last.
    inside = as_int64(places[np.clip(row - 1, 0, n - 1)])
    return np.where(row < 1, 0, np.where(row > n, steps, inside))


def counts_beside(places: Places, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of rows below each point of ``low``, and at or below each point of ``high``.

    If a row moves up, no count increases, and each decreases by at most one. If a row moves down, the reverse holds.
    """
    below = np.searchsorted(places, low, side="left")
    up_to = np.searchsorted(places, high, side="right")
    return as_int64(np.concatenate([below, up_to], axis=-1))


# Distributions of rank errors, and target ranks of the limits of an interval

_LEFT_OUT = 1e-13
_FAR = 60.0
_ROUNDING = 1e-12
_COUNTED = 8
"""Number of points drawn to a bound whose windows are excluded; the windows of further points are included."""


@dataclass(frozen=True)
class Law:
    """The probabilities of integers ``first``, ``first`` + 1, ..."""

    first: int
    pmf: Numbers

    @property
    def std(self) -> float:
        """Standard deviation."""
        at = self.first + np.arange(self.pmf.size)
        mean = float(self.pmf @ at)
        return math.sqrt(float(self.pmf @ (at - mean) ** 2))

    def plus(self, other: Law) -> Law:
        """Return the distribution of the sum with an independent number."""
        return Law(self.first + other.first, np.maximum(signal.fftconvolve(self.pmf, other.pmf), 0.0))

    def below(self, tail: float, half: bool = False) -> int:
        """Return the largest t with P(. <= t) at most ``tail``; with ``half``, P(. < t) + P(. = t)/2.

        A probability counts as more than ``tail`` if rounding may have made it smaller.
        """
        up_to = np.cumsum(self.pmf) - (self.pmf / 2 if half else 0.0)
        return self.first + int(np.count_nonzero(np.maximum.accumulate(up_to) <= tail - _ROUNDING)) - 1

    def above(self, tail: float, half: bool = False) -> int:
        """Return the smallest t with P(. >= t) at most ``tail``; with ``half``, P(. > t) + P(. = t)/2."""
        mirrored = Law(-(self.first + self.pmf.size - 1), self.pmf[::-1])
        return -mirrored.below(tail, half)


@lru_cache(maxsize=256)
def rank_errors(size: int, scale: float) -> Law:
    """Return the distribution of the rank error of one of ``size`` jointly chosen points, if rows are evenly spaced.

    It is also the distribution of one of ``size`` numbers with joint noise of this scale. P(k) is proportional to the
    sum over R >= |k| of e^(-R/scale) (R + 1)^(size - 1) (R + 1 - |k|).
    """
    reach = _reach(size, scale)
    R = np.arange(reach + 1)
    logs = (size - 1) * np.log1p(R) - R / scale
    weights = np.exp(logs - logs.max())
    # The sum over R >= k of w_R (R + 1 - k) is the sum over j >= k of the sum over R >= j of w_R.
    tails = np.cumsum(np.cumsum(weights[::-1]))[::-1]
    both = np.concatenate([tails[:0:-1], tails])
    return Law(-reach, both / both.sum())


def least_distance(size: int, scale: float, points: int, share: float, count: int = 1) -> int:
    """Return the number of rows that must lie between the ``count``-th nearest rank and a bound.

    All places between the last row and the bound have equal utility, and points drawn there also move the others. At
    this distance, ``count`` points are drawn there with probability at most ``share``. The number of places between
    two rows is assumed to be constant. The maximum is over densities from all rows tied to one place for each row.
    """
    each = math.log(points)
    reach = _reach(size, scale) + math.ceil(scale * (size * each - math.log(share)))
    drawn = count * each + _drawn(size, scale, min(count, _COUNTED), reach)
    return int(np.count_nonzero(drawn > math.log(share)))


@lru_cache(maxsize=128)
def _drawn(size: int, scale: float, count: int, reach: int) -> Numbers:
    """Return the log probability that ``count`` points are drawn to a bound of one place, by its distance."""
    R = np.arange(reach + 1)
    found = np.full(reach + 1, -math.inf)
    for density in (0.0, *np.ldexp(1.0, -2 * np.arange(math.ceil(math.log2(reach) / 2) + 1))):
        lengths, fall = np.log1p(density * R), -R / scale
        inside = np.logaddexp.reduce(np.log1p(R) + size * lengths + fall)
        # Sum twice, over the windows (a, b) with a + b = R and b at least the distance.
        outside = np.logaddexp.accumulate(((size - count) * lengths + fall)[::-1])
        found = np.maximum(found, np.logaddexp.accumulate(outside)[::-1] - inside)
    return found


def _reach(size: int, scale: float) -> int:
    """Return the range beyond which tuples of ``size`` points have a negligible probability."""
    return math.ceil(scale * (size + 1 + 8 * math.sqrt(size + 1) + _FAR)) + 1


@lru_cache(maxsize=256)
def group_rank_errors(size: int, scale: float) -> Law:
    """Return the distribution of a rank error in a group: the utility is minus the largest distance from a rank.

    If all windows have odd numbers of rows, P(k) is proportional to the sum over R >= |k| of
    e^(-R/scale) (2 R + 1)^(size - 1).
    """
    R = np.arange(_reach(size, scale) + 1)
    logs = (size - 1) * np.log1p(2 * R) - R / scale
    tails = np.cumsum(np.exp(logs - logs.max())[::-1])[::-1]
    both = np.concatenate([tails[:0:-1], tails])
    return Law(-int(R[-1]), both / both.sum())


@lru_cache(maxsize=128)
def least_group_distances(size: int, scale: float, points: int, share: float) -> tuple[int, ...]:
    """Return the least distances of the nearest rank, the second nearest, and so on, in a group."""
    reach = _reach(size, scale) + math.ceil(scale * (size * math.log(points) - math.log(share)))
    R = np.arange(reach + 1)
    found = [0] * size
    for density in (0.0, *np.ldexp(1.0, -2 * np.arange(math.ceil(math.log2(reach) / 2) + 1))):
        lengths, fall = np.log1p(2 * density * R), -R / scale
        inside = np.logaddexp.reduce(size * lengths + fall)
        for j in range(size):
            outside = np.logaddexp.accumulate(((size - j - 1) * lengths + fall)[::-1])[::-1]
            drawn = (j + 1) * math.log(points) + outside - inside
            found[j] = max(found[j], int(np.count_nonzero(drawn > math.log(share))))
    return tuple(found)


@lru_cache(maxsize=256)
def binomial(n: int, q: float) -> Law:
    """Return the distribution of the number of rows below the quantile, truncated by a probability of 1e-13."""
    first, last = (int(stats.binom.ppf(p, n, q)) for p in (_LEFT_OUT, 1 - _LEFT_OUT))
    first, last = max(first - 1, 0), min(last + 1, n)
    return Law(first, stats.binom.pmf(np.arange(first, last + 1), n, q))


@lru_cache(maxsize=1024)
def offset_ranks(
    q: float,
    n: int,
    size: int,
    scale: float,
    tail: float,
    unknown: float = 0.0,
    distribution: Callable[[int, float], Law] = rank_errors,
) -> tuple[int | None, int | None]:
    """Return the ranks of points on the wrong side of the quantile with probability ``tail`` each; None without one.

    Let B be the number of rows below the quantile, and E the error of the rank, of a symmetric
    distribution. The lower rank is the largest r with
    P(r + E > B) + P(r + E = B)/2 at most ``tail``. If the rank itself has discrete Laplace noise, ``unknown`` is the
    scale of this noise.
    """
    errors = distribution(size, scale)
    if unknown:
        errors = errors.plus(rank_errors(1, unknown))
    together = binomial(n, q).plus(errors)
    low, high = together.below(tail, half=True), together.above(tail, half=True)
    return (low if low >= 0 else None), (high if high <= n else None)
