"""Figures of private quantiles and of a private distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpstats.errors import attempt, refuse_data
from dpstats.figures import ESTIMATE, REFERENCE, new_figure, place_bars
from dpstats.quantiles.distribution import PrivateDistribution
from dpstats.quantiles.quantile import PrivateQuantile
from dpstats.report import picture_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_quantiles(quantiles: PrivateQuantile, *, title: str = "") -> Figure:
    """Draw private quantiles against their fractions, with their intervals.

    Parameters
    ----------
    quantiles : PrivateQuantile
        Fitted.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    q, points, low, high = (
        np.atleast_1d(x) for x in (quantiles.q, quantiles.quantile_, quantiles.low_, quantiles.high_)
    )
    figure = new_figure(figsize=(5.6, 3.6))
    axis = figure.subplots()
    if quantiles.plan_.confidence_level is None:
        axis.plot(q, points, "o", ms=4, color=ESTIMATE)
    else:
        # A separately chosen point may equal a limit of its interval, but is never outside.
        middle, errors, marked = place_bars(points, low, high)
        label = f"private, with {100 * quantiles.plan_.confidence_level:g}% intervals"
        axis.errorbar(
            q, middle, errors, fmt="o", ms=4, capsize=3, color=ESTIMATE, label=label, markevery=marked
        )
        axis.legend(fontsize=8, frameon=False, loc="upper left")
    axis.set_xlim(0, 1)
    axis.set_xlabel("q")
    axis.set_ylabel("quantile")
    axis.grid(alpha=0.25)
    axis.set_title(title, fontsize=10)
    return figure


def plot_distribution(
    distribution: PrivateDistribution,
    *,
    reference: Any = None,
    confidence_level: float = 0.95,
    title: str = "",
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
            np.append(grid.low, edges),
            np.append(0.0, distribution.cdf_),
            color=ESTIMATE,
            lw=1.4,
            label="private",
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
    axis.set_ylabel("share of rows at or below x")
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, frameon=False, loc="lower right")
    axis.set_title(title, fontsize=10)
    return figure


@picture_of.register
def _of_quantiles(quantiles: PrivateQuantile) -> tuple[str, Any] | None:
    if np.size(quantiles.q) < 2:
        return None
    return (
        "Private quantiles against their fractions, with their intervals where there are any.",
        plot_quantiles(quantiles),
    )


@picture_of.register
def _of_distribution(distribution: PrivateDistribution) -> tuple[str, Any]:
    return "The private cdf, with its 95% band, which holds everywhere at once.", plot_distribution(
        distribution
    )
