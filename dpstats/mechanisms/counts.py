"""Results of a release of counts: counts with the distribution of their noise, densities, and figures."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_flag, check_level
from dpstats.errors import refuse
from dpstats.inference.discovered_counts import FoundCounts, KeyNoise
from dpstats.inference.error_distributions import ErrorDistribution, Limits, Tail, normal_quantile, usual_level
from dpstats.inference.estimates import Estimates, HasEstimates
from dpstats.inference.figures import ESTIMATE, REFERENCE, new_figure, row_names, set_title
from dpstats.inference.noisy_counts import CountNoise, limits
from dpstats.inference.reports import SIMULATED, Printed, picture_of
from dpstats.inference.results import ConfidenceInterval, Summary, print_rounded
from dpstats.privacy.guarantee import PrivacyGuarantee

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
