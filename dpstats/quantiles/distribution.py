"""The private distribution of a column: its cdf with a band, and every quantile.

Proof: docs/proofs/distribution.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_integer, check_level, check_privacy_parameters
from dpstats.data.rows import Rows
from dpstats.data.values import as_int64, exact_numbers
from dpstats.errors import attempt, refuse, refuse_data
from dpstats.inference.estimates import Estimates
from dpstats.inference.figures import ESTIMATE, REFERENCE, new_figure, set_title
from dpstats.inference.reports import picture_of
from dpstats.inference.results import ConfidenceInterval, few_observed
from dpstats.lattice import isqrt_up
from dpstats.mechanisms.unknown_bounds import plan_with_bounds, wants_bounds
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.quantiles.grid import (
    BAND,
    Band,
    BandWidth,
    Grid,
    GridPlan,
    OneColumn,
    QuantileErrors,
    check_bounds,
    check_grid,
    check_sizes,
    finite_places,
)
from dpstats.quantiles.quantile import check_fractions
from dpstats.release.additive import Integers, additive_stages
from dpstats.release.estimator import parameters
from dpstats.release.session import Released, Session

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = NDArray[np.float64]


# Counts in dyadic intervals, and the consistent counts that fit them best


# Cells are numbered from 0. Level k of the tree has 2^k nodes, and each node has two children in the next level.
def height_of(cells: int) -> int:
    """Return the number of levels below the root, such that there are at least as many leaves as cells."""
    return max(1, (cells - 1).bit_length())


def tree_counts(codes: Any, height: int, root: bool = False) -> NDArray[np.int64]:
    """Return the number of rows in every node, level by level, for rows in cells 0, ..., 2^height - 1.

    The first level has the two nodes below the root, if the count of the root is public, or the ``root`` itself.
    """
    level = as_int64(np.bincount(codes, minlength=1 << height))
    levels = [level]
    for _ in range(height - 1 + root):
        level = level.reshape(-1, 2).sum(axis=1)
        levels.append(level)
    return np.concatenate(levels[::-1])


def consistent_leaves(nodes: Numbers, height: int, total: float | None) -> Numbers:
    """Return the leaves that fit noisy nodes with equal noise variances best, and add up to the total.

    Parameters
    ----------
    nodes : array of shape (..., 2^(height + 1) - 2), or one more with the root
        Noisy counts in the order of `tree_counts`.
    height : int
        Number of levels below the root.
    total : float, optional
        Public total. None: the first node is the root, and the total is estimated with the leaves.

    Notes
    -----
    Least squares needs two passes (Hay, Rastogi, Miklau and Suciu 2010, theorem 3). The upward pass averages each node
    with the sum of its children, weighted by precision. The downward pass splits the difference between a parent and
    the sum of its children evenly. If a total is given, the root is known.
    """
    ends = np.cumsum([0, *(1 << k for k in range(total is not None, height + 1))])
    levels = [nodes[..., a:b] for a, b in pairwise(ends)]
    fitted = [levels[-1]]
    for up, level in enumerate(levels[-2::-1], 2):
        children = _pairs(fitted[-1]).sum(axis=-1)
        own = (1 << (up - 1)) / ((1 << up) - 1)
        fitted.append(own * level + (1 - own) * children)
    known = fitted.pop() if total is None else np.full((*nodes.shape[:-1], 1), float(total))
    for level in fitted[::-1]:
        pairs = _pairs(level)
        missing = known - pairs.sum(axis=-1)
        known = (pairs + missing[..., None] / 2).reshape(level.shape)
    return known


def _pairs(level: Numbers) -> Numbers:
    return level.reshape(*level.shape[:-1], -1, 2)


# The estimator

COUNTS = "rows in dyadic intervals"
_FRACTION_BITS = 30  # Gaussian noise needs a lattice finer than whole counts
_MOST_CELLS = 1 << 20
_SIMULATED = 2000
_MORE = 2.0
"""Number of noise standard deviations that are added to the released number of rows."""
_SHOWN = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)


@dataclass(frozen=True)
class DistributionPlan(GridPlan):
    """The release plan of a `PrivateDistribution`.

    Attributes
    ----------
    grid : Grid
        Edges of the cells, or the values if a step is declared.
    missing : {"error", "drop"}
        "drop" also releases the number of rows. Stated errors assume that no row is missing.
    """

    grid: Grid
    missing: str = "error"

    @property
    def cells(self) -> int:
        """Number of cells."""
        return self.grid.points if self.grid.declared else self.grid.steps

    @property
    def height(self) -> int:
        """Number of levels of the tree below the root."""
        return height_of(self.cells)

    @property
    def edges(self) -> Numbers:
        """Upper edge of every cell. The release has noisy values of the cdf there."""
        return self.grid.edges[0 if self.grid.declared else 1 :]

    @property
    def dropped(self) -> bool:
        """Whether missing rows are dropped, so that the number of the others is private."""
        return self.missing == "drop"

    @property
    def total(self) -> int | None:
        """Sum of the leaves, if it is public."""
        return None if self.dropped else self.n_samples

    @property
    def cdf_noise_std(self) -> float:
        """Largest standard deviation of the noise of the cdf, over all edges of cells."""
        return _simulated(self).std / self.n_samples

    @property
    def rows_std(self) -> float:
        """Standard deviation of the noise in the number of rows. 0 if the number is public."""
        return float(_simulated(self).rows.std()) if self.dropped else 0.0

    @property
    def width(self) -> BandWidth:
        """Distribution of the largest error of the estimated cdf: sampling error and noise."""
        return self.band_width(self.n_samples)

    def band_width(self, rows: float) -> BandWidth:
        """Return the same for a released number of rows.

        The count at x has noise e(x), and the number N of rows has noise e. Then N times the error of a cdf F has noise
        e(x) - F(x) e, which is at most max(|e(x)|, |e(x) - e|). The sampling error of a count rises with the number of
        rows, which may be higher than released.
        """
        noise = _simulated(self).largest / rows
        if not self.dropped:
            return BandWidth(noise, rows)
        most = max(min(rows + _MORE * self.rows_std, self.n_samples), 1.0)
        return BandWidth(noise, rows**2 / most)

    def band_half_width(self, level: float) -> float:
        """Return the half-width of a band that covers the whole cdf with probability ``level``."""
        return min(self.width.half_width(1 - check_level("level", level)), 1.0)

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {"cells": self.cells, "band_half_width": self.band_half_width(0.95)}

    def notes(self) -> list[str]:
        """Return the facts as text, one line each."""
        return [f"half-width of the 95% band of the cdf: {self.band_half_width(0.95):.3g}"]


@parameters
class PrivateDistribution(OneColumn[DistributionPlan]):
    """The whole distribution of one column from one release: the cdf with a band, and every quantile.

    Parameters
    ----------
    bounds : (low, high), "private" or UnknownBounds
        Public bounds, in the units of the data, known without the data. A row outside counts as the nearer bound.
        "private" chooses them from the rows for a fifth of epsilon, without a step (`UnknownBounds`).
    step : float, optional
        Spacing of the data, such as 1 for counts. Values are the lower bound plus multiples of it. Each cell is then a
        single value. There may be at most 2^20 values.
    bins : int, default=1024
        Number of cells of equal width if no step is declared. Many cells cost little: noise grows with the logarithm
        of their number.
    missing : {"error", "drop"}, default="error"
        Treatment of a missing or infinite entry. "error" raises `InvalidData`. "drop" leaves its row out. The cdf then
        describes the observed rows. Their number is released without additional privacy cost.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=0.0
        Privacy parameter, in [0, 1). 0 adds Laplace noise and gives pure differential privacy. A positive value adds
        Laplace or Gaussian noise, whichever is smaller: Gaussian for many cells. If it is Laplace noise, the guarantee
        has delta = 0. A budget with ``method="gdp"`` or "zcdp" keeps Gaussian noise.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    edges_ : ndarray of shape (n_cells,)
        Upper edges of the cells, or the values of the grid.
    cdf_ : ndarray of shape (n_cells,)
        Estimated proportion of rows at or below each edge. Nondecreasing, in [0, 1], with last value 1.
    rows_ : float
        Noisy number of observed rows. It may be negative. Only with ``missing="drop"``.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : DistributionPlan
        The release plan: every released quantity and its noise.
    n_features_in_ : int
        Number of columns: 1.
    feature_names_in_ : ndarray of shape (1,)
        Column name. Only if ``X`` has one.

    Notes
    -----
    **Method.** The release has noisy counts of the rows in all dyadic intervals of cells. Least squares makes them
    consistent, so that they add up to n.

    **Intervals.** The band covers the whole cdf of the population simultaneously, for independent rows of any
    distribution. Any number of quantiles, proportions and intervals may be read from it.

    **Limits.** Rows beyond the bounds count as the nearer bound. Without ``step``, differences within a cell are
    invisible. The band holds for all values at once, so it is wider than an interval for one.

    References
    ----------
    Hay, Rastogi, Miklau and Suciu (2010), Boosting the accuracy of differentially private histograms through
    consistency. Massart (1990), The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.quantiles import PrivateDistribution
    >>> x = np.random.default_rng(0).normal(size=20_000)
    >>> distribution = PrivateDistribution(bounds=(-8, 8), epsilon=1.0, random_state=0).fit(x)
    >>> distribution.cdf([-1, 0, 1]).round(2)
    array([0.15, 0.5 , 0.84])
    >>> low, high = distribution.confidence_interval(q=[0.5, 0.9])
    >>> bool(np.all((low < [0, 1.28]) & (high > [0, 1.29])))
    True
    """

    bounds: Any = None
    step: float | None = None
    bins: int = 1024
    missing: str = "error"
    missing_codes: Any = None
    epsilon: float = 1.0
    delta: float = 0.0
    random_state: Any = None
    budget: Any = None

    def plan(self, n_samples: int, n_features: int = 1) -> DistributionPlan:
        """Return the release plan of a fit on data of this size.

        Examples
        --------
        >>> from dpstats.quantiles import PrivateDistribution
        >>> plan = PrivateDistribution(bounds=(0, 100), bins=64, delta=1e-6).plan(5000)
        >>> print(plan)
        Release plan for n = 5000, d = 1: (epsilon = 1, delta = 1e-06), one row replaced
          rows in dyadic intervals: 126 numbers, Gaussian noise of scale 14.6347
          half-width of the 95% band of the cdf: 0.0261
        >>> round(plan.band_half_width(0.95), 2)
        0.03
        """
        n = check_sizes(n_samples, n_features)
        if wants_bounds(self.bounds):
            return cast(DistributionPlan, plan_with_bounds(self, n, 1))
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        bins = check_integer("bins", self.bins, at_least=2, at_most=_MOST_CELLS)
        missing = self._policy()
        if self.step is None:
            grid = Grid(*check_bounds(self.bounds), bins, False)
        else:
            grid = check_grid(self.bounds, self.step)
        if grid.points > _MOST_CELLS:
            raise refuse("step", got=f"{grid.points:,}", allowed="not leave more than 2^20 values between the bounds")
        height = height_of(grid.points if grid.declared else grid.steps)
        # A replaced row leaves one node of every level below the root and enters another. A row that becomes missing
        # also leaves the root, but enters no node: this is not a larger change.
        size = (2 << height) - 2 + (missing == "drop")

        def make_plan(delta: float) -> DistributionPlan:
            bits = 0 if delta == 0 else _FRACTION_BITS
            item = Integers(COUNTS, size, 2.0**-bits, 2 * height << bits, isqrt_up(2 * height << 2 * bits))
            return DistributionPlan(
                additive_stages([item], epsilon, delta), PrivacyGuarantee(epsilon, delta), n, 1, grid, missing
            )

        return self._smaller_noise(make_plan, delta, lambda plan: plan.noise(COUNTS).std)

    def _read(self, rows: Rows, plan: DistributionPlan) -> dict[str, NDArray[np.int64]]:
        places = finite_places(rows.whole().X, plan.grid, not plan.grid.declared, plan.missing)
        # The first cell includes its lower edge.
        codes = places if plan.grid.declared else np.maximum(places - 1, 0)
        one = round(1 / float(np.asarray(plan.additive[0].spacing)))
        return {COUNTS: tree_counts(codes, plan.height, plan.dropped) * one}

    def _report(self, released: Released, plan: DistributionPlan) -> None:
        counts = np.cumsum(consistent_leaves(released[COUNTS], plan.height, plan.total))[: plan.cells]
        if plan.dropped:
            self.rows_ = float(counts[-1])
        # Noise can make the number of rows smaller than 1.
        self._rows = max(counts[-1], plan.rows_std, 1.0) if plan.dropped else float(plan.n_samples)
        self._fit = counts / self._rows
        self.edges_ = plan.edges
        from sklearn.isotonic import isotonic_regression

        shape = isotonic_regression(self._fit[:-1], y_min=0.0, y_max=1.0)
        self.cdf_ = np.append(shape, 1.0)

    def cdf(self, x: Any) -> Any:
        """Return the estimated proportion of rows at or below numbers: a float, or an array of their shape.

        The cdf is linear within a cell, and constant between declared values. It describes the rows after clipping to
        the bounds: it is 0 below the lower bound, and 1 from the upper bound on.
        """
        self._fitted()
        at = _numbers(x)
        grid = self.plan_.grid
        if grid.declared:
            found = np.append(self.cdf_, 0.0)[np.searchsorted(self.edges_, at, side="right") - 1]
        else:
            found = np.interp(at, np.append(grid.low, self.edges_), np.append(0.0, self.cdf_), left=0.0)
        return float(found) if found.ndim == 0 else found

    def quantile(self, q: Any) -> Any:
        """Return estimated quantiles for fractions in (0, 1): a float, or an array."""
        self._fitted()
        fractions = np.array(check_fractions(q))
        grid = self.plan_.grid
        if grid.declared:
            found = self.edges_[np.searchsorted(self.cdf_, fractions, side="left")]
        else:
            # The cdf is linear within a cell.
            x, cdf = np.append(grid.low, self.edges_), np.append(0.0, self.cdf_)
            place = np.searchsorted(cdf, fractions, side="left")
            below, above = cdf[place - 1], cdf[place]
            found = x[place - 1] + (x[place] - x[place - 1]) * (fractions - below) / (above - below)
        return float(found[0]) if np.ndim(q) == 0 else found

    def band(self, x: Any = None, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return a band that covers the cdf of the population simultaneously at all points.

        Parameters
        ----------
        x : array-like, optional
            Points at which to return the band. Default: ``edges_``.
        confidence_level : float, default=0.95
            Level of the band.

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high`` at every x. It assumes only independent rows.
        """
        self._fitted()
        level = check_level("confidence_level", confidence_level)
        low, high = self._band.ends(self._band.width.half_width(1 - level))
        if x is not None:
            at, grid = _numbers(x), self.plan_.grid
            if grid.declared:
                place = np.searchsorted(self.edges_, at, side="right") - 1
                low, high = np.append(low, 0.0)[place], np.append(high, 0.0)[place]
            else:
                # Inside a cell, the cdf is between its values at the lower and the upper edge.
                low = np.append(0.0, low)[np.searchsorted(self.edges_, at, side="right")]
                high = np.append(high, 1.0)[np.searchsorted(self.edges_, at, side="left")]
                high = np.where(at < grid.low, 0.0, high)
        estimand = self._add_policy("the cdf of the population, rows beyond the bounds moved to them")
        return ConfidenceInterval(low, high, level, estimand, simultaneous=True)

    @property
    def _band(self) -> Band:
        self._fitted()
        starts = self.edges_ if self.plan_.grid.declared else np.append(self.plan_.grid.low, self.edges_)
        return Band(starts, self.edges_, self._fit, self.cdf_, self.plan_.band_width(self._rows))

    def estimates(self, *, q: Any = _SHOWN) -> Estimates:
        """Return quantiles with the distribution of their errors, as a result that can be pickled alone.

        Intervals and p-values use the band, so they are simultaneously valid for all quantiles.

        Parameters
        ----------
        q : float or sequence of float, optional
            Fractions in (0, 1). Default: 0.05, 0.1, 0.25, 0.5, 0.75, 0.9 and 0.95.
        """
        band, plan = self._band, self.plan_
        fractions, points = np.reshape(check_fractions(q), np.shape(q)), np.asarray(self.quantile(q))
        stage = plan.additive[0]
        scale = float(np.asarray(stage.noise_scale))
        return Estimates(
            points,
            None,
            tuple(f"{x:g}" for x in np.ravel(fractions)),
            self._add_policy("the quantiles of the population, within the bounds"),
            QuantileErrors(band, fractions, points),
            title="Private distribution",
            header="quantile",
            facts=[
                *self._first_facts(),
                ("Cells", f"{plan.cells:,}"),
                ("Noise", f"{stage.noise.capitalize()} of scale {scale:.4g} on each of {stage.size:,} counts"),
                ("Band", f"the cdf +- {min(band.width.half_width(0.05), 1.0):.3g} at 95%, everywhere at once"),
            ],
            notes=[
                "The band assumes independent rows only. All intervals come from it, and are simultaneous.",
                *(few_observed(self.rows_, plan.rows_std) if plan.dropped else []),
            ],
            rows="q",
            exact=plan.grid.declared,
            together=BAND,
            jointly=True,
            simulated=self.privacy_.simulated,
        )


class _Noise(NamedTuple):
    """Many simulations of the noise of the cdf times n, over all edges.

    Attributes
    ----------
    largest : array
        Largest of |e(x)| in every simulation. If missing rows are dropped, also of |e(x) - e|, for the last e.
    rows : array
        Noise at the last edge in every simulation, which is the noise of the number of rows.
    std : float
        Largest standard deviation of an edge.
    """

    largest: NDArray[Any]
    rows: NDArray[Any]
    std: float


@lru_cache(maxsize=8)
def _simulated(plan: DistributionPlan) -> _Noise:
    """Return statistics of many simulations of the noise. They are public."""
    rng = np.random.default_rng(0)
    stage = plan.additive[0]
    largest, rows, sums, squares = [], [], np.zeros(plan.cells), np.zeros(plan.cells)
    # All errors at a million edges are 8 GB. Each part of the simulations leaves the largest ones only.
    step = max(1, (1 << 22) // stage.size)
    for start in range(0, _SIMULATED, step):
        with Session.simulated(plan, rng, min(step, _SIMULATED - start)) as session:
            noise = session.add(COUNTS, np.zeros(stage.size, dtype=np.int64))
        leaves = consistent_leaves(noise, plan.height, None if plan.dropped else 0.0)
        found = np.cumsum(leaves, axis=1)[:, : plan.cells].astype(np.float32)
        sums += found.sum(axis=0, dtype=np.float64)
        squares += np.square(found, dtype=np.float64).sum(axis=0)
        last = found[:, -1]
        errors = np.abs(found).max(axis=1)
        if plan.dropped:
            errors = np.maximum(errors, np.abs(found - last[:, None]).max(axis=1))
        largest.append(errors)
        rows.append(last.copy())
    variance = squares / _SIMULATED - np.square(sums / _SIMULATED)
    noises = _Noise(np.concatenate(largest), np.concatenate(rows), math.sqrt(float(np.max(variance))))
    for each in noises[:2]:
        each.setflags(write=False)
    return noises


def _numbers(x: Any) -> Numbers:
    at = attempt(lambda: exact_numbers("x", x).astype(np.float64), Exception)
    if at is None:
        raise refuse("x", given=x, allowed="a number or an array of numbers")
    if np.isnan(at).any():
        raise refuse("x", got="at least one NaN", allowed="numbers")
    return at


def plot_distribution(
    distribution: PrivateDistribution, *, reference: Any = None, confidence_level: float = 0.95, title: str = ""
) -> Figure:
    """Draw a private cdf with its simultaneous band.

    Parameters
    ----------
    distribution : PrivateDistribution
        Fitted.
    reference : array of shape (n,), optional
        Rows whose empirical cdf is also drawn. Use it for public data only.
    confidence_level : float, default=0.95
        Level of the band.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    grid, edges = distribution.plan_.grid, distribution.edges_
    band = distribution.band(confidence_level=confidence_level)
    low, high = np.atleast_1d(band.low), np.atleast_1d(band.high)
    figure = new_figure(figsize=(5.6, 3.8))
    axis = figure.subplots()
    label = f"{100 * confidence_level:g}% band, everywhere at once"
    # A cdf is constant between declared values. Inside a cell it is between its values at the edges.
    if grid.declared:
        axis.step(edges, distribution.cdf_, where="post", color=ESTIMATE, lw=1.4, label="private")
        axis.fill_between(edges, low, high, step="post", color=ESTIMATE, alpha=0.2, lw=0, label=label)
    else:
        axis.plot(
            np.append(grid.low, edges), np.append(0.0, distribution.cdf_), color=ESTIMATE, lw=1.4, label="private"
        )
        at = np.repeat(np.append(grid.low, edges), 2)[1:-1]
        ends = np.repeat(np.append(0.0, low[:-1]), 2), np.repeat(high, 2)
        axis.fill_between(at, *ends, color=ESTIMATE, alpha=0.2, lw=0, label=label)
    if reference is not None:
        rows = attempt(lambda: np.sort(np.asarray(reference, dtype=np.float64).ravel()), Exception)
        if rows is None:
            raise refuse_data("reference", allowed="numbers")
        share = np.arange(1, rows.size + 1) / rows.size
        axis.step(rows, share, where="post", color=REFERENCE, lw=1, ls="--", label="not private")
    axis.set_xlim(grid.low, grid.high)
    axis.set_ylim(0, 1.01)
    axis.set_xlabel("x")
    axis.set_ylabel("fraction of rows at or below x")
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, frameon=False, loc="lower right")
    set_title(axis, title)
    return figure


@picture_of.register
def _of_distribution(distribution: PrivateDistribution) -> tuple[str, Any]:
    return "The private cdf, with its 95% band, which holds everywhere at once.", plot_distribution(distribution)
