"""Pictures of private histograms: of numbers, and of categories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpstats.figures import ESTIMATE, REFERENCE, new_figure, plain
from dpstats.mechanisms.counts import CountEstimate, DensityEstimate
from dpstats.report import picture_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    axis.stairs(
        band.high, result.edges, baseline=band.low, fill=True, color=REFERENCE, alpha=0.2, label=words
    )
    axis.set_ylabel("density")
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, frameon=False)
    if title:
        axis.set_title(title, fontsize=10)
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
    axis.set_yticks(places, [plain(category) for category in result.categories])
    axis.set_xlabel(f"count, {100 * confidence_level:g}% intervals for these data")
    axis.grid(axis="x", alpha=0.25)
    if title:
        axis.set_title(title, fontsize=10)
    return figure


@picture_of.register
def _of_counts(result: CountEstimate) -> tuple[str, Any] | None:
    if isinstance(result, DensityEstimate) and result.n_rows:
        return "The density in each bin, with a 95% band that holds for all bins together.", plot_density(
            result
        )
    if result.counts.size > _MOST_BARS:
        return None
    return "The count of each category, with 95% intervals for the counts in these data.", plot_counts(result)
