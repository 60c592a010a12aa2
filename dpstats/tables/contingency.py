"""Private contingency tables: counts of every combination of declared levels, and estimates and tests from them.

Proof: docs/proofs/contingency-table.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.opening import Tally
from dpstats.data.parameters import check_integer, check_privacy_parameters, check_simulations
from dpstats.data.rows import LEFT_OUT, Rows, drops_undeclared, empty_groups_note, refuse_undeclared
from dpstats.data.schema import Categories, Schema
from dpstats.errors import attempt, refuse
from dpstats.inference.estimates import Estimates, HasEstimates
from dpstats.inference.figures import ESTIMATE, new_figure, place_bars, plain, row_heights, row_names, set_title
from dpstats.inference.noisy_counts import CountNoise
from dpstats.inference.reports import picture_of
from dpstats.inference.results import Summary
from dpstats.mechanisms.histogram import count_stage, count_steps
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.guarantee import PrivacyGuarantee, parse_neighbors
from dpstats.privacy.plan import ReleasePlan
from dpstats.release.additive import check_size, has_private_size, record_size
from dpstats.release.estimator import PrivateEstimator, parameters
from dpstats.release.session import Released
from dpstats.tables.comparisons import ComparesGroups
from dpstats.tables.null_tests import Cells, TableTest, fit_pvalue, independence_pvalue, margins_product

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Numbers = NDArray[np.float64]

CELLS = "cells"
_MOST_CELLS = 1_000_000
_MOST_BARS = 40
_SHOWN = 60  # rows of a summary


@dataclass(frozen=True)
class TablePlan(ReleasePlan):
    """The plan of a `ContingencyTable`: one count for every cell."""

    shape: tuple[int, ...] = field(repr=False)
    drops: bool = field(repr=False)

    @property
    def counts_dropped(self) -> bool:
        """Whether the rows in no cell are counted too."""
        return self.drops and not self.has_private_size

    @property
    def cell_noise(self) -> CountNoise:
        """Noise of a count."""
        noise = self.noise(CELLS)
        return CountNoise(noise.law, float(np.asarray(noise.scale)))

    def expected_error(self, std: float | NDArray[np.float64] | None = None) -> float:
        """Return the expected squared l2 error of ``counts_``, relative to the counts in these data."""
        return math.prod(self.shape) * self.cell_noise.variance


@parameters
class ContingencyTable(ComparesGroups, HasEstimates, PrivateEstimator[TablePlan]):
    """Private table of counts by one or more attributes, with tests, proportions and effects from one release.

    For a single binary column use `PrivateProportion`, whose intervals are exact.

    Parameters
    ----------
    levels : mapping of names to sequences, or sequence of sequences
        Public levels of every attribute, at least two each, by name or in the order of the columns. Declare them; never
        read them off the data. An entry belongs to the level that it equals, as for `Histogram`. None or NaN is the
        level of the missing entries.
    unknown : {"drop", "error"}, default="drop"
        Treatment of rows with an undeclared entry. "drop" leaves them out. Their number is released together with the
        cells, without additional privacy cost, and proportions and tests describe the other rows. "error" raises
        `InvalidData`, which reveals that such a row exists. The number of rows in the cells is then public.
    neighbors : {"replace_one", "add_or_remove"}, default="replace_one"
        Neighboring datasets. "add_or_remove": one row is added or removed. The number of rows is then private, and the
        Laplace noise has half the scale. Rows in no cell are not counted.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=0.0
        Privacy parameter, in [0, 1). 0 adds discrete Laplace noise of scale 2/epsilon to every cell, regardless of
        their number: the choice for a single table. A positive value allows Gaussian noise, which is added
        if it is smaller, or for a budget that composes many releases with ``method="gdp"`` or "zcdp". Otherwise the
        guarantee has delta = 0.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    counts_ : ndarray of shape (r_1, ..., r_k)
        Noisy counts as released. They are unbiased, and may be negative. At delta = 0 they are whole numbers.
    dropped_ : float
        Noisy number of rows in no cell. 0 with ``unknown="error"``.
    noise_std_ : float
        Standard deviation of the noise of a cell.
    n_, n_noise_std_ : float
        Noisy number of rows in all cells, and the standard deviation of its noise. Only with
        ``neighbors="add_or_remove"``; ``n_interval()`` is its interval.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : TablePlan
        The release plan: every released quantity and its noise.
    n_features_in_ : int
        Number of attributes.
    feature_names_in_ : ndarray of shape (k,)
        Names of the attributes. Only if ``X`` has column names.

    Notes
    -----
    **Privacy.** A row is in at most one cell, so the whole table has the privacy cost of a single count.

    **Inference.** Rows are assumed to be independent draws from a population. All methods include sampling error and
    noise, and have no additional privacy cost after the fit:

    * ``independence`` and ``goodness_of_fit`` simulate the whole release under the null hypothesis. A plain chi-square
      test of noisy counts rejects true null hypotheses far too often.
    * ``confidence_interval`` over all cells has at least its nominal coverage for any n, with ``unknown="error"``.
    * Within groups, and for ``difference``, ``risk_ratio`` and ``odds_ratio``, intervals invert a score test. It
      includes the tails of the noise and the skewness of the binomial distribution. If noise hides a group, the
      interval contains all possible values.

    **Limits.** ``independence`` and intervals within groups are approximate: at the level 0.05 the test rejects a
    true null hypothesis with probability 0.01 to 0.06. Rows with an undeclared level do not count, or are refused.
    Every cell has the same noise, which hides rare cells.

    References
    ----------
    Kifer and Rogers (2017), A new class of private chi-square hypothesis tests. Gaboardi, Lim, Rogers and Vadhan
    (2016), Differentially private chi-squared hypothesis testing.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.tables import ContingencyTable
    >>> rng = np.random.default_rng(0)
    >>> treated = rng.random(1000) < 0.5
    >>> well = rng.random(1000) < np.where(treated, 0.7, 0.5)
    >>> table = ContingencyTable(levels={"treated": [True, False], "well": [True, False]}, random_state=0)
    >>> table.fit(np.column_stack([treated, well])).counts_
    array([[338., 134.],
           [282., 239.]])
    >>> table.independence().pvalue
    0.0001
    >>> found = table.difference()
    >>> round(float(found.estimate), 3), [round(end, 2) for end in found.confidence_interval()]
    (0.175, [0.11, 0.24])
    """

    levels: Any = None
    unknown: str = "drop"
    neighbors: Any = "replace_one"
    epsilon: float = 1.0
    delta: float = 0.0
    random_state: Any = None
    budget: PrivacyBudget | None = None

    _min_samples = 1

    def plan(self, n_samples: int | None, n_features: int | None = None) -> TablePlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples : int
            Public number of rows. With ``neighbors="add_or_remove"`` it has no effect, and may be None.
        n_features : int, optional
            Number of attributes. Must equal the number of declared attributes.
        """
        kinds = self._kinds()
        n = check_size(self, n_samples, at_most=2**31, at_least=1)
        d = len(kinds) if n_features is None else check_integer("n_features", n_features, at_least=1)
        if d != len(kinds):
            raise refuse("n_features", given=d, allowed=f"{len(kinds)}, one per attribute of levels")
        drops = drops_undeclared(self.unknown)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        shape = tuple(map(len, kinds))
        size = math.prod(shape) + (drops and not has_private_size(self))

        def make_plan(delta: float) -> TablePlan:
            guarantee = PrivacyGuarantee(epsilon, delta, parse_neighbors(self.neighbors))
            return TablePlan((count_stage(size, guarantee, CELLS),), guarantee, n, d, shape, drops)

        return self._smaller_noise(make_plan, delta, lambda plan: plan.cell_noise.std)

    def _kinds(self) -> list[Categories]:
        """Return the declared levels of every attribute."""
        given = self.levels
        if (
            isinstance(given, str | bytes)
            or not isinstance(given, Mapping | Sequence | np.ndarray)
            or getattr(given, "shape", None) == ()
            or not len(given)
        ):
            raise refuse(
                "levels",
                given=given,
                allowed="the levels of every attribute: {name: [level, ...], ...} or [[level, ...], ...]",
            )
        named = isinstance(given, Mapping)
        kinds = []
        for place, name in enumerate(given):
            # A key may be an entry that was given by mistake.
            what = f"the entry of levels at position {place}" if named else f"levels[{place}]"
            kind = Categories(given[name] if named else name, what)
            if len(kind) < 2:
                named_too = f"levels[{name!r}]" if named and isinstance(name, str) else what
                raise refuse(named_too, given=len(kind), allowed="have two levels or more")
            kinds.append(kind)
        cells = math.prod(map(len, kinds))
        if cells > _MOST_CELLS:
            raise refuse("levels", got=f"{cells:,}", allowed=f"not make more than {_MOST_CELLS:,} cells")
        return kinds

    def _schema(self) -> Schema:
        names = tuple(self.levels) if isinstance(self.levels, Mapping) else None
        return Schema(names, levels=tuple(self._kinds()), parameter=None if names is None else "levels")

    def _read(self, rows: Rows, plan: TablePlan) -> Mapping[str, Any]:
        counts = Tally(plan.shape).of(rows)
        if counts[-1] and not plan.drops:
            raise refuse_undeclared("X", "levels")
        return {CELLS: count_steps(plan.additive[0], counts[: plan.additive[0].size], rows.shape[0])}

    def _report(self, released: Released, plan: TablePlan) -> None:
        counts = np.asarray(released[CELLS])
        size = math.prod(plan.shape)
        self.counts_ = counts[:size].reshape(plan.shape)
        self.dropped_ = float(counts[size]) if plan.counts_dropped else 0.0
        self.noise_std_ = plan.cell_noise.std
        if plan.has_private_size:
            record_size(self, float(self.counts_.sum()), plan.cell_noise.of(size))
        self._cells = self._make_cells(plan)

    # Results from the released counts

    def _make_cells(self, plan: TablePlan) -> Cells:
        kinds = self._kinds()
        named = getattr(self, "feature_names_in_", None)
        if isinstance(self.levels, Mapping):
            names = tuple(self.levels)
        else:
            names = tuple(f"x{j}" for j in range(len(kinds))) if named is None else tuple(named)
        noise, levels = plan.cell_noise, tuple(kind.values for kind in kinds)
        if plan.has_private_size:
            sums = noise.of(self.counts_.size)
            return Cells(self.counts_, max(self.n_, 0.0), noise, sums, names, levels, summed=True)
        total = min(max(plan.n_samples - self.dropped_, 0.0), plan.n_samples)
        return Cells(self.counts_, total, noise, noise if plan.counts_dropped else None, names, levels)

    def proportions(self, axis: Any = None) -> Numbers:
        """Return the estimated proportions: of all cells, from the nearest possible counts, or within groups.

        Parameters
        ----------
        axis : attribute, or several, by name or position, optional
            Attributes over which the proportions add up to 1. For example, ``axis=1`` gives the proportions of the
            levels of attribute 1, for each level of the other attributes. None gives the proportions of all cells.

        Returns
        -------
        ndarray of the table's shape
            Proportions. NaN in groups without a positive count.
        """
        cells = self.cells()
        return cells.shares(None if axis is None else cells.positions("axis", axis))

    def estimates(self, *, axis: Any = None) -> Estimates:
        """Return the proportions with the distribution of their errors, as a result that can be pickled alone.

        Over all cells, if every row is counted, intervals have at least nominal coverage for any n. Within groups, the
        sizes are private and intervals invert a score test. Simultaneous intervals use Bonferroni's inequality.

        Parameters
        ----------
        axis : attribute, or several, optional
            The same as in `proportions`.
        """
        return self._estimates(self.cells(), axis)

    def _estimates(self, cells: Cells, axis: Any = None, first: int | None = None) -> Estimates:
        """Return the proportions of the first cells."""
        plan, noise = self.plan_, cells.noise
        dropped = plan.counts_dropped
        found = cells.estimates(None if axis is None else cells.positions("axis", axis), first)
        sizes = ", ".join(f"{name} ({r})" for name, r in zip(cells.names, plan.shape, strict=True))
        notes = [
            "Counts are as released: unbiased, and possibly negative. Proportions use the nearest possible counts.",
            "Intervals account for sampling error and noise, and assume independent rows."
            + ("" if cells.total_noise is not None or axis is not None else " They are conservative."),
        ]
        for k in range(cells.counts.ndim):
            others = tuple(j for j in range(cells.counts.ndim) if j != k)
            rows, std = cells.counts.sum(axis=others), noise.of(cells.counts.size // plan.shape[k]).std
            levels = zip(cells.levels[k], rows.tolist(), strict=True)
            notes += empty_groups_note([level for level, count in levels if count < max(2 * std, 0.5)])
        if len(found.names) < cells.counts.size:
            notes.append(f"The table shows the first {first} of {cells.counts.size:,} cells. All are in counts_.")
        if dropped:
            notes.append(f"{LEFT_OUT} Their noisy number is {self.dropped_:g}.")
        digits = 0 if noise.law == "laplace" else 1
        counts = cells.counts.ravel()[:first]
        return replace(
            found,
            title="Private contingency table",
            facts=(
                *self._public_facts(("Attributes", sizes)),
                ("Noise", f"{noise.law.capitalize()} of scale {noise.scale:.4g} on every count (sd {noise.std:.3g})"),
            ),
            notes=notes,
            beside={"count": [f"{count:,.{digits}f}" for count in counts.tolist()]},
            simulated=self.privacy_.simulated,
        )

    def summary(self, confidence_level: float | None = None) -> Summary:
        """Return a table of the first cells. It prints as text, and shows as HTML in a notebook."""
        return self._estimates(self.cells(), first=_SHOWN).summary(confidence_level)

    def independence(self, attributes: Any = None, *, n_simulations: int = 9999) -> TableTest:
        """Test whether attributes are mutually independent, without additional privacy cost.

        Parameters
        ----------
        attributes : sequence of two attributes or more, by name or position, optional
            Attributes to test, in the table summed over the others. None tests all.
        n_simulations : int, default=9999
            Number of simulations in each of two bootstraps. The larger p-value counts. Their seed is public and fixed.

        Returns
        -------
        TableTest
            Statistic, p-value and expected counts.
        """
        cells = self.cells(attributes)
        if cells.counts.ndim < 2:
            raise refuse(
                "attributes", given=cells.counts.ndim, allowed="two or more", remedy="For one, use goodness_of_fit."
            )
        size = check_simulations(n_simulations, at_least=99)
        statistic, pvalue = independence_pvalue(cells, size)
        counts, axes = cells.projected, range(cells.counts.ndim)
        whole = max(float(counts.sum()), 1e-300)
        margins = [counts.sum(axis=tuple(i for i in axes if i != j))[None] / whole for j in axes]
        expected = margins_product(margins)[0] * max(cells.total, 0.0)
        names = ", ".join(str(name) for name in cells.names)
        note = (
            "The larger p-value of two bootstraps. Their level is measured, not proved: it is close to the nominal "
            "level, and below it if n epsilon is small (validation/results/tables.md)."
        )
        null, name = f"{names}: independent", "score chi-square"
        return TableTest(statistic, pvalue, expected, null, note, size, self.privacy_, name)

    def goodness_of_fit(self, p: Any, attributes: Any = None, *, n_simulations: int = 9999) -> TableTest:
        """Test whether the proportions equal stated values, without additional privacy cost.

        Parameters
        ----------
        p : array of the table's shape
            Public proportions under the null hypothesis. They are not negative and add up to 1.
        attributes : attribute, or several, optional
            Attributes to test, in the table summed over the others. None tests all.
        n_simulations : int, default=9999
            Number of simulations. Their seed is public and fixed.

        Returns
        -------
        TableTest
            Statistic, p-value and expected counts. The null distribution is known, so the p-value is exact.
        """
        cells = self.cells(attributes)
        shares = _check_shares(p, cells.counts.shape)
        size = check_simulations(n_simulations, at_least=99)
        statistic, pvalue = fit_pvalue(cells, shares, size)
        note = (
            "The level is exact, if the rows are independent."
            if cells.total_noise is None
            else "The level is nearly exact."
        )
        expected = shares * cells.total
        return TableTest(statistic, pvalue, expected, "the stated proportions", note, size, self.privacy_)

    def cells(self, attributes: Any = None) -> Cells:
        """Return the released counts of some attributes, summed over the others, and their noise distribution."""
        check_is_fitted(self)
        cells = self._cells
        return cells if attributes is None else cells.over(cells.positions("attributes", attributes))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Entries are labels with declared levels, not numbers.
        tags.input_tags.two_d_array, tags.input_tags.categorical = False, True
        return tags


def _check_shares(p: Any, shape: tuple[int, ...]) -> Numbers:
    allowed = f"proportions of shape {shape}, not negative and adding up to 1"
    shares = attempt(lambda: np.asarray(p, dtype=np.float64), Exception)
    if shares is None:
        raise refuse("p", given=p, allowed=allowed)
    if shares.shape != shape:
        raise refuse("p", got=f"shape {shares.shape}", allowed=allowed)
    if not np.isfinite(shares).all() or (shares < 0).any() or abs(shares.sum() - 1) > 1e-8:
        raise refuse("p", given=p, allowed=allowed)
    return np.asarray(shares / shares.sum())


def plot_table(table: ContingencyTable, *, attributes: Any = None, confidence_level: float = 0.95) -> Figure:
    """Draw a mosaic of two attributes of a private table, and the proportions within groups with their intervals.

    Parameters
    ----------
    table : ContingencyTable
        Fitted table.
    attributes : pair of attributes, by name or position, optional
        The attribute of the groups, and the attribute to compare. Default: both, if the table has two. A table with
        one attribute, or with more than two and None, is drawn as bars of all its cells.
    confidence_level : float, default=0.95
        Level of each interval.

    Returns
    -------
    matplotlib.figure.Figure
        Left: tiles with areas equal to the estimated proportions. The color shows how much a count differs from
        independence, in standard deviations that include noise. Right: the proportions of the second attribute within
        each level of the first.
    """
    cells = table.cells(attributes)
    shape = cells.counts.shape
    if len(shape) != 2:
        return _bars(cells, confidence_level)
    figure = new_figure(figsize=(9.2, 0.8 + max(3.2, 0.26 * (shape[0] + 1) * shape[1])))
    left, right = figure.subplots(1, 2)
    counts = cells.projected
    total = max(float(counts.sum()), 1e-300)
    rows, columns = counts.sum(axis=1) / total, counts.sum(axis=0) / total
    expected = np.outer(rows, columns) * total
    away = (cells.counts - expected) / np.sqrt(np.maximum(expected + cells.noise.variance, 1e-300))
    _mosaic(left, cells, rows, counts, away)
    low, high = (np.asarray(end) for end in cells.estimates((1,)).confidence_interval(confidence_level))
    within = cells.shares((1,))
    from matplotlib import colormaps

    colors = [colormaps["viridis"](0.1 + 0.75 * j / max(shape[1] - 1, 1)) for j in range(shape[1])]
    height = 1 / (shape[1] + 1)
    for j in range(shape[1]):
        places = -np.arange(shape[0]) - height * (j - (shape[1] - 1) / 2)
        shares = np.clip(within[:, j], low[:, j], high[:, j])
        middle, errors, marked = place_bars(shares, low[:, j], high[:, j])
        style = {"fmt": "o", "ms": 4, "capsize": 3, "color": colors[j], "label": plain(cells.levels[1][j])}
        right.errorbar(middle, places, xerr=errors, markevery=marked, **style)
    right.set_yticks(-np.arange(shape[0]), row_names(cells.levels[0], figure.get_figwidth() / 2))
    right.set_xlim(-0.02, 1.02)
    right.set_xlabel(f"proportion within {plain(cells.names[0])}, {100 * confidence_level:g}% intervals")
    right.grid(axis="x", alpha=0.25)
    right.legend(title=plain(cells.names[1]), fontsize=8, frameon=False)
    return figure


def _mosaic(axis: Axes, cells: Cells, rows: Any, counts: Any, away: Any) -> None:
    """Draw tiles, a column for each level of the first attribute."""
    from matplotlib import colormaps

    shades, left = colormaps["RdBu_r"], 0.0
    ticks = []
    for i, width in enumerate(rows):
        bottom, whole = 0.0, max(float(counts[i].sum()), 1e-300)
        for j in range(counts.shape[1]):
            height = float(counts[i, j]) / whole
            color = shades(0.5 + float(np.clip(away[i, j], -4, 4)) / 10)
            axis.bar(left, height, width, bottom, align="edge", color=color, edgecolor="white", lw=1.5)
            if width > 0.1 and height > 0.05:
                text = f"{cells.levels[1][j]}\n{counts[i, j] / max(float(counts.sum()), 1e-300):.3f}"
                place = left + width / 2, bottom + height / 2
                ink = "white" if abs(away[i, j]) > 2.5 else "black"
                axis.text(*place, text, ha="center", va="center", fontsize=8, color=ink)
            bottom += height
        ticks.append(left + width / 2)
        left += float(width)
    turned: dict[str, Any] = {"rotation": 40, "ha": "right"} if min(rows) < 0.08 else {}
    axis.set_xticks(ticks, [plain(level) for level in cells.levels[0]], **turned)
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)
    axis.set_xlabel(plain(cells.names[0]))
    axis.set_ylabel(f"{plain(cells.names[1])}, within {plain(cells.names[0])}")
    set_title(axis, "red: more than if independent, blue: fewer", 9)


def _bars(cells: Cells, confidence_level: float) -> Figure:
    """Draw the proportions of all cells with their intervals."""
    places = list(np.ndindex(cells.counts.shape))
    interval = cells.estimates().confidence_interval(confidence_level)
    low, high = np.ravel(interval.low), np.ravel(interval.high)
    estimates = np.ravel(cells.projected) / max(float(cells.projected.sum()), 1e-300)
    labels = [", ".join(str(cells.levels[j][code]) for j, code in enumerate(place)) for place in places]
    names = row_names(labels, 5.6)
    figure = new_figure(figsize=(5.6, 1.2 + row_heights(names, 5.6)))
    axis = figure.subplots()
    middle = np.clip(estimates, low, high)
    errors = np.stack([middle - low, high - middle])
    axis.errorbar(middle, -np.arange(len(places)), xerr=errors, fmt="o", ms=4, capsize=3, color=ESTIMATE)
    axis.set_yticks(-np.arange(len(places)), names)
    axis.set_xlabel(f"proportion, {100 * confidence_level:g}% intervals")
    axis.set_ylabel(", ".join(map(plain, cells.names)))
    axis.grid(axis="x", alpha=0.25)
    return figure


@picture_of.register
def _of_table(table: ContingencyTable) -> tuple[str, Any] | None:
    shape = table.counts_.shape
    if len(shape) == 2:
        words = "Left, tiles of the estimated proportions; right, proportions within groups, with 95% intervals."
        return words, plot_table(table)
    if table.counts_.size > _MOST_BARS:
        return None
    return "The estimated proportions of all cells, with 95% intervals.", plot_table(table)
