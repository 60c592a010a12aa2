"""The public grid of candidates for quantiles, the places of rows on it, and estimators of one column."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import check_integer, check_real
from dpstats.data.values import as_int64
from dpstats.errors import attempt, refuse, refuse_data, show
from dpstats.inference.estimates import HasEstimates
from dpstats.inference.results import about_missing, observed_rows, with_missing
from dpstats.lattice.base import check_region
from dpstats.privacy.plan import ReleasePlan
from dpstats.release.estimator import PrivateEstimator

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


def check_bounds(bounds: Any) -> tuple[float, float]:
    """Return public bounds as two floats, the lower one first."""
    allowed = "a pair (low, high) of finite numbers with low < high, known without the data"
    ends = list(bounds) if attempt(lambda: np.ndim(bounds), Exception) == 1 else []
    if len(ends) != 2:
        raise refuse("bounds", given=bounds, allowed=allowed)
    low, high = ends
    low, high = check_real("bounds[0]", low, of=bounds), check_real("bounds[1]", high, of=bounds)
    if not low < high:
        raise refuse("bounds", given=bounds, allowed=allowed)
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
    finite = np.concatenate(
        [np.isfinite(column[start : start + _BLOCK]) for start in range(0, column.size, _BLOCK)]
    )
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
            ("Bounds", f"{plan.grid.low:g} to {plan.grid.high:g} (public)"),
        ]


def check_sizes(n_samples: Any, n_features: Any) -> int:
    """Return the number of rows of one column."""
    n = check_integer("n_samples", n_samples, at_least=2)
    if check_integer("n_features", n_features, at_least=1) != 1:
        raise refuse_data(
            "X", got=f"{n_features} columns", allowed="one column: a 1-d array, or a table with one column"
        )
    return n
