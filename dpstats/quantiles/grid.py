"""The public grid of candidates for quantiles, the places of rows on it, and estimators of one column."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
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

    def missed(self, width: float, sides: int = 2) -> float:
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
        if self.missed(most, sides) > missed:
            return math.inf
        return float(optimize.brentq(lambda w: self.missed(w, sides) - missed, 0.0, most, xtol=1e-9))


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
        return self._missed(less, 1), self._missed(greater, 1)

    def two_sided(self, value: Numbers) -> Numbers:
        return self._missed(np.maximum(*self.band.widths(self.fractions, value)), 2)

    def _missed(self, widths: Numbers, sides: int) -> Numbers:
        found = [self.band.width.missed(width, sides) if width > 0 else 1.0 for width in np.ravel(widths)]
        return np.reshape(found, np.shape(widths))
