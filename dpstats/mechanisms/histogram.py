"""Private counts: of rows with a property, and of rows in each of declared or discovered categories; their results.

Proofs: docs/proofs/histogram.md, docs/proofs/discovery.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.columns import DISCOVER, check_labels, cut_units, in_order, truths
from dpstats.data.opening import Tally, open_source
from dpstats.data.parameters import check_flag, check_integer, check_level, check_privacy_parameters
from dpstats.data.rows import drops_undeclared, refuse_undeclared
from dpstats.data.schema import Bins, Categories, Column, Schema, Undeclared
from dpstats.data.values import as_int64
from dpstats.errors import refuse, refuse_data, state_charges
from dpstats.inference.error_distributions import ErrorDistribution, Limits, Tail, normal_quantile, usual_level
from dpstats.inference.estimates import Estimates, HasEstimates
from dpstats.inference.figures import ESTIMATE, REFERENCE, new_figure, row_names, set_title
from dpstats.inference.noisy_counts import CountNoise, FoundCounts, KeyNoise, limits
from dpstats.inference.reports import SIMULATED, Printed, picture_of
from dpstats.inference.results import ConfidenceInterval, Summary, print_rounded
from dpstats.lattice import isqrt_up
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.events import Event
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee, parse_neighbors
from dpstats.privacy.plan import Plan
from dpstats.privacy.stages import KeyCounts, Stage
from dpstats.release.additive import Integers, additive_stages, count_discovery, smaller_noise
from dpstats.release.mechanism import Mechanism

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Results of a release of counts: counts with the distribution of their noise, densities, and figures.


@dataclass(frozen=True, eq=False)
class CountErrors(ErrorDistribution):
    """Errors of released counts: their noise, which is independent."""

    counts: NDArray[np.float64]
    noise: CountNoise

    @property
    def start(self) -> NDArray[np.float64]:
        return self.counts

    def limits(self, tail: Tail) -> Limits:
        if self.noise.law == "laplace":
            # The smallest k with P(|Z| > k) = 2 a^(k+1)/(1 + a) at most twice the tail, a = e^(-1/scale).
            scale = self.noise.scale
            log_tail = np.log(tail) + math.log1p(math.exp(-1 / scale))
            half = np.maximum(0.0, np.ceil(-log_tail * scale - 1 - 1e-9))
        else:
            half = normal_quantile(tail) * self.noise.std
        return self.counts - half, self.counts + half

    def tails(self, value: NDArray[np.float64]) -> Limits:
        away = self.counts - value
        if self.noise.law == "laplace":
            # The tail of a whole number includes it.
            return self.noise.beyond(np.ceil(-away) - 0.5), self.noise.beyond(np.ceil(away) - 0.5)
        return self.noise.beyond(-away), self.noise.beyond(away)


@dataclass(frozen=True, slots=True, eq=False)
class CountEstimate(HasEstimates, Printed):
    """Released counts, with the distribution of their noise.

    Attributes
    ----------
    categories : tuple
    counts : ndarray of shape (n_categories,)
        Whole numbers under Laplace noise; may be negative.
    guarantee : PrivacyGuarantee
    noise : {"laplace", "gaussian"}
    scale : float
        Scale (Laplace) or standard deviation (Gaussian) of the noise.
    max_rows : int or None
        Largest number of rows of a unit that count, where a unit has several.

    Examples
    --------
    >>> from dpstats.mechanisms import Histogram
    >>> result = Histogram(["yes", "no"], epsilon=1.0, random_state=0).release(["yes"] * 70 + ["no"] * 30)
    >>> result.categories, result.counts
    (('yes', 'no'), array([71., 32.]))
    >>> result.confidence_interval(0.95).low
    array([65., 26.])
    """

    categories: tuple[Any, ...]
    counts: NDArray[np.float64]
    guarantee: PrivacyGuarantee
    noise: str
    scale: float
    max_rows: int | None = field(default=None, kw_only=True)

    def estimates(self) -> Estimates:
        """Return the counts in these data with the distribution of their errors, the noise alone."""
        noise, unit = CountNoise(self.noise, self.scale), self.guarantee.unit
        most = None if self.max_rows is None else f"at most {self.max_rows} rows"
        return Estimates(
            self.counts,
            np.full(self.counts.shape, noise.std),
            tuple(map(str, self.categories)),
            "the counts in these data" + (f", of each {unit} {most}" if most else ""),
            CountErrors(self.counts, noise),
            title="Private counts",
            header="count",
            facts=[
                *([(f"Of each {unit}", most)] if most else []),
                *self.guarantee.facts(),
                ("Noise", f"{self.noise.capitalize()} of scale {self.scale:.4g}"),
            ],
            exact=self.noise == "laplace",
            simulated=self.guarantee.simulated,
        )


@dataclass(frozen=True, slots=True, eq=False)
class FoundEstimate(CountEstimate):
    """Released counts of categories that nobody declared: intervals hold given that a category was found.

    Attributes
    ----------
    noisy : ndarray of shape (n_categories,)
        The noisy counts. Each reaches the threshold: ``counts`` are corrected for that, and for unequal tails of the
        noise.
    threshold : float
        The least noisy count that is released, in rows.
    key_noise : KeyNoise
        The noise of a count before it is conditioned.

    Examples
    --------
    >>> from dpstats.mechanisms import Histogram
    >>> words = ["rent"] * 500 + ["food"] * 35
    >>> result = Histogram("discover", epsilon=1.0, delta=1e-6, random_state=0).release(words)
    >>> result.categories, result.noisy.round(), result.counts.round()
    (('food', 'rent'), array([ 37., 497.]), array([ 38., 498.]))
    >>> result.confidence_interval().low.round()
    array([ 34., 493.])
    """

    noisy: NDArray[np.float64]
    threshold: float
    key_noise: KeyNoise

    def estimates(self) -> Estimates:
        """Return the counts in these data with the distribution of their errors, the noise of a found category."""
        found, declared = (FoundCounts(self.noisy, self.key_noise, self.threshold), CountEstimate.estimates(self))
        return replace(
            declared,
            error=found.standard_error,
            estimand=f"{declared.estimand}, given that the category was found",
            distribution=found,
            title="Private counts of discovered categories",
            facts=[*declared.facts[:-1], ("Noise", self.key_noise.words), ("Threshold", f"{self.threshold:.1f} rows")],
            exact=False,
            notes=[
                f"{len(self.categories)} categories found. Other categories have noisy counts below the threshold, or "
                "no rows. Intervals are not simultaneous."
            ],
        )


@dataclass(frozen=True, slots=True, eq=False)
class DensityEstimate(CountEstimate):
    """Released counts of the bins of numbers, and the density that they estimate.

    Attributes
    ----------
    edges : ndarray of shape (n_bins + 1,)
        Public.
    n_rows : int or None
        Public number of rows, if neighbors have the same; densities need it.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.mechanisms import Histogram
    >>> ages = np.random.default_rng(0).integers(20, 80, size=500)
    >>> result = Histogram(bins=[20, 40, 60, 80], epsilon=1.0, random_state=0).release(ages)
    >>> result.edges, result.counts
    (array([20., 40., 60., 80.]), array([156., 158., 185.]))
    >>> result.densities.round(3)
    array([0.016, 0.016, 0.018])
    """

    edges: NDArray[np.float64]
    n_rows: int | None

    @property
    def densities(self) -> NDArray[np.float64]:
        """Fraction of the rows in each bin, divided by its width; at least 0."""
        return np.asarray(np.maximum(self.counts, 0.0) / (self._rows() * np.diff(self.edges)))

    def density_interval(self, confidence_level: float = 0.95, simultaneous: bool = True) -> ConfidenceInterval:
        """Return a band for the mean density in each bin in the population, counting sampling error and noise.

        Parameters
        ----------
        confidence_level : float, default=0.95
        simultaneous : bool, default=True
            Whether all bins are covered together (Bonferroni's).

        Returns
        -------
        ConfidenceInterval
            With at least the level, for any number of independent rows.
        """
        level, n = check_level("confidence_level", confidence_level), self._rows()
        together = check_flag("simultaneous", simultaneous)
        noise = CountNoise(self.noise, self.scale)
        tail = (1 - level) / 2 / (self.counts.size if together else 1)
        ends = np.array([limits(k - noise.half, k + noise.half, n, noise, tail) for k in self.counts.tolist()])
        low, high = (ends / np.diff(self.edges)[:, None]).T
        return ConfidenceInterval(low, high, level, "the mean density of the population in each bin", together)

    def _rows(self) -> int:
        if not self.n_rows:
            raise refuse("neighbors", allowed="Neighbors.REPLACE_ONE for densities, which need a public number of rows")
        return self.n_rows

    def summary(self, confidence_level: float | None = None) -> Summary:
        """Return a table of counts and densities with bands; prints as text, shows as HTML in a notebook."""
        counts = self.estimates().summary(confidence_level)
        if not self.n_rows:
            return counts
        band = self.density_interval(usual_level(confidence_level))
        percent = f"{100 * band.confidence_level:g}%"
        ends = np.atleast_1d(band.low), np.atleast_1d(band.high)
        error = np.maximum(ends[1] - ends[0], self.scale / (self.n_rows * np.diff(self.edges))) / 4
        columns = [print_rounded(values, error) for values in (self.densities, *ends)]
        rows = [(row[0], row[1], *more) for row, more in zip(counts.rows, zip(*columns, strict=True), strict=True)]
        facts = [*counts.facts[:-1], ("Rows", f"{self.n_rows:,} (public)"), ("Bands cover", band.estimand)]
        header = ("", "count", "density", f"[{percent} low", f"{percent} high]")
        notes = ["Bands include sampling error and noise, and hold for all bins together."]
        notes += [SIMULATED] * self.guarantee.simulated
        return Summary("Private histogram", facts, header, rows, notes)


_MOST_BARS = 60


def plot_density(result: DensityEstimate, *, confidence_level: float = 0.95, title: str = "") -> Figure:
    """Draw the densities of a private histogram of numbers, and their band, which holds for all bins together.

    Parameters
    ----------
    result : DensityEstimate
        Result of a `Histogram` with bins.
    confidence_level : float, default=0.95
        Level of the whole band.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    band = result.density_interval(confidence_level)
    figure = new_figure(figsize=(5.6, 3.6))
    axis = figure.subplots()
    axis.stairs(result.densities, result.edges, fill=True, color=ESTIMATE, alpha=0.25)
    axis.stairs(result.densities, result.edges, color=ESTIMATE, label="private")
    words = f"{100 * confidence_level:g}% band, all bins together"
    axis.stairs(band.high, result.edges, baseline=band.low, fill=True, color=REFERENCE, alpha=0.2, label=words)
    axis.set_ylabel("density")
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, frameon=False)
    if title:
        set_title(axis, title)
    return figure


def plot_counts(result: CountEstimate, *, confidence_level: float = 0.95, title: str = "") -> Figure:
    """Draw the counts of a private histogram of categories, with intervals for the counts in these data.

    Parameters
    ----------
    result : CountEstimate
    confidence_level : float, default=0.95
        Level of each interval.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    interval = result.confidence_interval(confidence_level)
    figure = new_figure(figsize=(5.6, 1.2 + 0.26 * result.counts.size))
    axis = figure.subplots()
    places = -np.arange(result.counts.size)
    errors = np.stack([result.counts - interval.low, interval.high - result.counts])
    axis.barh(places, result.counts, xerr=errors, color=ESTIMATE, alpha=0.6, capsize=3)
    axis.set_yticks(places, row_names(result.categories, 5.6))
    axis.set_xlabel(f"count, {100 * confidence_level:g}% intervals for these data")
    axis.grid(axis="x", alpha=0.25)
    if title:
        set_title(axis, title)
    return figure


@picture_of.register
def _of_counts(result: CountEstimate) -> tuple[str, Any] | None:
    if isinstance(result, DensityEstimate) and result.n_rows:
        return "The density in each bin, with a 95% band that holds for all bins together.", plot_density(result)
    if result.counts.size > _MOST_BARS:
        return None
    return "The count of each category, with 95% intervals for the counts in these data.", plot_counts(result)


_COUNTS = "counts"
_ROWS = "rows"
_MOST_ROWS = 2**31
_MOST_UNIT_ROWS = 2**16
_WHOSE = "the unit of each row"
_FRACTION_BITS = 30  # Gaussian noise needs a lattice finer than whole counts


class Histogram(Mechanism):
    """Release how many rows fall in each of declared categories, or of declared bins of numbers.

    Parameters
    ----------
    categories : sequence or "discover", optional
        Public and distinct; declared, never read from the data. A row is in a category that it equals.
        Numbers are equal by exact value, for any type (1, 1.0 and True). Text never equals bytes. Times are
        equal by instant, for any unit. None or NaN is the category of the missing rows (None, NaN, NaT,
        pandas.NA, masked). The word "discover" releases categories that nobody declared (see Notes).
    epsilon : float
        Greater than 0.
    delta : float, default=0.0
        0 adds Laplace noise (whole numbers). A value in (0, 1) adds Laplace or Gaussian noise, whichever is smaller.
        If it is Laplace noise, the guarantee has delta = 0. A budget with ``method="gdp"`` or "zcdp" keeps Gaussian
        noise.
    bins : sequence of numbers, optional
        In place of ``categories``: public and increasing edges of bins of numbers, declared and never read off the
        data. A bin has its lower edge and not its upper one, but for the last, which has both. With them a release also
        has densities (`DensityEstimate`).
    neighbors : {"replace_one", "add_or_remove"} or Neighbors, default="replace_one"
        Neighboring datasets. Replacing a row moves two counts by one each (l1 2, l2 sqrt 2). Adding or removing a row
        moves a single count by one; the number of rows is then private, and may be 0.
    unknown : {"drop", "error"}, default="drop"
        Treatment of a row in no category or bin, or that cannot be a category (a list): leave it out, or raise an
        error, which reveals that there was one. With bins, a non-numeric row always raises an error.
    max_rows : int, optional
        Public largest number of rows of a unit that count, such as a person with several rows. The guarantee is then
        for a unit with all its rows. ``release`` needs the units. Noise is proportional to ``max_rows``. Of a unit
        with more rows, those with the smallest hashes count, regardless of their order and of other units.
    called : str, default="unit"
        Name of a unit in the guarantee, with ``max_rows``.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Charged at every release, before noise is drawn.

    Attributes
    ----------
    categories : tuple
        Empty for "discover".
    guarantee : PrivacyGuarantee
    event : Event
    scale : float
        Scale (Laplace) or standard deviation (Gaussian) of the noise. With "discover", before the threshold
        conditions it.

    Notes
    -----
    **Discovered categories.** With "discover" every category is released whose noisy count reaches ``threshold``. At
    epsilon = 1 and delta = 1e-6 a category of 20 rows is found with probability 0.5, and one of 27 with 0.95.
    Categories are shown verbatim, so never discover secrets, such as names. Rows without a value count nowhere. It
    needs ``delta > 0``.

    **Limits.** Counts are of these rows, without sampling error. Rows in no declared category or bin do not count,
    or are refused. Results can be negative.

    Examples
    --------
    >>> from dpstats.mechanisms import Histogram
    >>> histogram = Histogram(["yes", "no", "unsure"], epsilon=1.0, random_state=0)
    >>> result = histogram.release(["yes"] * 60 + ["no"] * 30 + ["unsure"] * 10)
    >>> result.counts
    array([61., 31.,  7.])
    >>> result.confidence_interval(0.95).low
    array([55., 25.,  1.])
    >>> ages = Histogram(bins=[0, 20, 40, 100], epsilon=1.0, random_state=0).release([31, 8, 15, 62, 20] * 20)
    >>> ages.densities.round(4)
    array([0.0205, 0.0205, 0.0028])
    >>> words = ["rent"] * 500 + ["food"] * 300 + ["a rare word"]
    >>> found = Histogram("discover", epsilon=1.0, delta=1e-6, random_state=0).release(words)
    >>> found.categories, found.counts.round()
    (('food', 'rent'), array([303., 496.]))
    """

    def __init__(
        self,
        categories: Sequence[Any] | None = None,
        epsilon: Any = None,
        delta: float = 0.0,
        *,
        bins: Any = None,
        neighbors: Any = "replace_one",
        unknown: str = "drop",
        max_rows: int | None = None,
        called: str = "unit",
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        if (categories is None) == (bins is None):
            raise refuse(
                "categories", got="neither" if bins is None else "both", allowed="given, or bins, and not both"
            )
        self._discovers = isinstance(categories, str) and categories == DISCOVER
        self._categories: Categories | Bins | None = None
        if not self._discovers:
            self._categories = Categories(categories) if bins is None else Bins(bins)
        self._drops = drops_undeclared(unknown)
        epsilon, delta = check_privacy_parameters(epsilon, delta)
        relation = parse_neighbors(neighbors)
        self._most = max_rows
        if max_rows is not None:
            check_integer("max_rows", max_rows, at_least=1, at_most=_MOST_UNIT_ROWS)
            if self._discovers:
                raise refuse("max_rows", allowed="None for categories='discover'", remedy="Declare the categories.")
        word = "row" if max_rows is None else called
        asked = PrivacyGuarantee(epsilon, delta, relation, unit=word)
        if self._categories is None:
            plan = Plan((found_stage(asked),), asked)
        else:
            plan = _plan_counts(len(self._categories), asked, max_rows or 1, budget)
        super().__init__(plan.target, random_state, budget)
        self._plan = replace(plan, target=self._guarantee)

    @property
    def categories(self) -> tuple[Any, ...]:
        """The declared categories, in order; none for "discover"."""
        return () if self._categories is None else self._categories.values

    @property
    def plan(self) -> Plan:
        """What one release consists of, at which noise, at which cost."""
        return self._plan

    @property
    def event(self) -> Event:
        """The accountant's event of one release."""
        return self._discovery.event if self._discovers else self._stage.event

    @property
    def _stage(self) -> Stage:
        return self._plan.additive[0]

    @property
    def _discovery(self) -> KeyCounts:
        (stage,) = self._plan.stages
        if not isinstance(stage, KeyCounts):
            raise refuse("categories", got="declared categories", allowed="'discover' for a threshold")
        return stage

    @property
    def scale(self) -> float:
        """Scale (Laplace) or standard deviation (Gaussian, "discover") of the noise."""
        return self._discovery.count_std if self._discovers else float(np.asarray(self._stage.noise_scale))

    @property
    def threshold(self) -> float:
        """The least noisy count of a released category, in rows, for "discover"."""
        return self._discovery.threshold

    @state_charges
    def release(self, data: Any, units: Any = None) -> CountEstimate:
        """Release the counts of the rows of ``data``, a 1-d sequence of category values, or of numbers for bins.

        A list, another iterable, an array, or a column of a data frame; a DuckDB relation, a Dask frame or a
        file of one column. The category of a row depends on that row alone, for any types of the others.
        """
        if (units is None) != (self._most is None):
            needed = "given, one for each row, with" if units is None else "None without"
            raise refuse("units", allowed=f"{needed} max_rows")
        if self._most is None:
            plan = self._plan_about(data)
        else:
            plan = self.plan.for_data(self._guarantee.unit, self._guarantee.simulated)
        self._check(plan)
        if self._categories is None:
            labels, rows = self._count_labels(data)
            n_public = None
        else:
            steps, n_rows = self._steps(data, units)
            public = self._guarantee.neighbors is Neighbors.REPLACE_ONE and self._most is None
            n_public = n_rows if public else None
        # A density divides by the public number of rows, so a request includes the number.
        with self._session(plan, rows=n_public) as session:
            if self._categories is None:
                found = session.discover(_COUNTS, labels, {_ROWS: rows})
            else:
                counts = session.add(_COUNTS, steps)
        if self._categories is None:
            return self._report_found(found, session.plan.guarantee)
        numbers = self.categories, counts, session.plan.guarantee, self._stage.noise, self.scale
        if not isinstance(self._categories, Bins):
            return CountEstimate(*numbers, max_rows=self._most)
        return DensityEstimate(*numbers, self._categories.edges, n_public, max_rows=self._most)

    def _count(self, data: Any, units: Any, levels: Any) -> tuple[NDArray[np.int64], int]:
        """Return the counts of all levels and of rows in none, where units are cut, and the number of rows."""
        beside = () if units is None else (Column("labels", None, None, "units", None, _WHOSE),)
        source = open_source(data)
        schema, given = source.resolve(
            Schema(levels=(levels,), beside=beside, plain=True, private_size=self._most is not None), units
        )
        rows = source.read(schema, given)
        counts = Tally((len(levels),)).of(rows)
        if self._most is not None:
            table = rows.whole()
            assert table.labels is not None
            labels, codes = check_labels(table.labels), table.X[:, 0]
            kept = cut_units(labels[codes >= 0], codes[codes >= 0], self._most)
            counts[:-1] = np.bincount(kept, minlength=len(levels))
        return counts, rows.shape[0]

    def _count_labels(self, data: Any) -> tuple[list[Any], NDArray[np.int64]]:
        """Return the labels of the data in their order, and the exact count of each in steps."""
        source = open_source(data)
        rows = source.read(Schema(levels=(Undeclared(),), plain=True).resolve(source.names)).whole()
        if rows.shape[0] > _MOST_ROWS:
            raise refuse_data("data", allowed="have at most 2^31 rows")
        counted = Counter(rows.X[:, 0].tolist())
        del counted[None]
        labels = in_order(counted)
        counts = np.array([counted[label] for label in labels], dtype=np.int64).reshape(-1, 1)
        return labels, counts * self._discovery.row_steps

    def _report_found(self, released: Any, guarantee: PrivacyGuarantee) -> FoundEstimate:
        """Return the estimates of the categories that were found."""
        noisy = np.ravel(released[_ROWS])
        noise, threshold = self._discovery.count_noise, self.threshold
        sizes = FoundCounts(noisy, noise, threshold).sizes
        return FoundEstimate(released["labels"], sizes, guarantee, "laplace", self.scale, noisy, threshold, noise)

    def _steps(self, data: Any, units: Any = None) -> tuple[NDArray[np.int64], int]:
        """Return the exact counts, in steps of the stage's lattice, and how many rows there are."""
        levels = self._categories
        assert levels is not None
        counts, n_rows = self._count(data, units, levels)
        if counts[-1] and not self._drops:
            raise refuse_undeclared("data", levels.kind)
        return count_steps(self._stage, counts[:-1], n_rows), n_rows


class Count(Histogram):
    """Release how many rows have a property: sensitivity one under both relations.

    Parameters
    ----------
    epsilon, delta, neighbors, max_rows, called, random_state, budget
        As for `Histogram`.

    Notes
    -----
    **Limits.** The count is of these rows, without sampling error. The result can be negative.

    Examples
    --------
    >>> from dpstats.mechanisms import Count
    >>> result = Count(epsilon=0.5, random_state=1).release([True] * 40 + [False] * 60)
    >>> result.counts
    array([42.])
    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        neighbors: Any = "replace_one",
        max_rows: int | None = None,
        called: str = "unit",
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        super().__init__(
            [True],
            epsilon,
            delta,
            neighbors=neighbors,
            max_rows=max_rows,
            called=called,
            random_state=random_state,
            budget=budget,
        )

    def release(self, condition: Any, units: Any = None) -> CountEstimate:
        """Release the number of true entries of a 1-d sequence of booleans; a missing one is not true.

        A non-Boolean entry raises an error, which reveals that there was one.
        """
        return super().release(condition, units)

    def _steps(self, data: Any, units: Any = None) -> tuple[NDArray[np.int64], int]:
        counts, n_rows = self._count(data, units, _Truths())
        return count_steps(self._stage, counts[:1], n_rows), n_rows


class _Truths:
    """The level of true entries; a non-Boolean entry raises an error."""

    def codes(self, data: Any, name: str = "data") -> NDArray[np.int64]:
        return np.where(truths("condition", data), 0, -1)

    def __len__(self) -> int:
        return 1


def _plan_counts(size: int, asked: PrivacyGuarantee, max_rows: int, budget: Any) -> Plan:
    """Return the plan of counts with the smaller noise that a guarantee allows."""

    def make_plan(delta: float) -> Plan:
        guarantee = replace(asked, delta=delta)
        return Plan((count_stage(size, guarantee, max_rows=max_rows),), guarantee)

    return smaller_noise(make_plan, asked.delta, lambda plan: plan.noise(_COUNTS).std, budget)


def count_stage(size: int, guarantee: PrivacyGuarantee, name: str = _COUNTS, *, max_rows: int = 1) -> Stage:
    """Return the stage that releases counts of rows in ``size`` categories, each row in at most one.

    A protected unit has at most ``max_rows`` rows.
    """
    # A replaced row leaves one count and enters another; with a single category it can only do one.
    moved = 2 if guarantee.neighbors is Neighbors.REPLACE_ONE and size > 1 else 1
    bits = 0 if guarantee.delta == 0 else _FRACTION_BITS
    far = moved * max_rows << bits, isqrt_up(moved * max_rows**2 << 2 * bits)
    item = Integers(name, size, 2.0**-bits, *far)
    return additive_stages([item], guarantee.epsilon, guarantee.delta, neighbors=guarantee.neighbors)[0]


def found_stage(guarantee: PrivacyGuarantee) -> KeyCounts:
    """Return the stage that releases counts of categories that nobody declared, each row in at most one."""
    if guarantee.delta == 0:
        raise refuse(
            "delta",
            got="0",
            allowed="positive for categories='discover'",
            remedy="Declare the categories, or give delta=1e-6 for example.",
        )
    return count_discovery(_COUNTS, _ROWS, guarantee)


def count_steps(stage: Stage, counts: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
    """Return exact counts in the steps of the stage that releases them."""
    if n_rows > _MOST_ROWS:
        raise refuse_data("data", allowed="have at most 2^31 rows")
    return as_int64(counts) * int(1 / float(np.asarray(stage.spacing)))
