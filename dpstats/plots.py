"""Pictures of releases, by one name each; matplotlib is loaded when the first one is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpstats.auditing.result import plot_audit
from dpstats.inference.figures import ESTIMATE, REFERENCE, new_figure, plain, set_title
from dpstats.inference.results import ConfidenceInterval
from dpstats.mechanisms.histogram import plot_counts, plot_density
from dpstats.privacy.plan import tradeoff_curve
from dpstats.quantiles.distribution import plot_distribution
from dpstats.quantiles.quantile import plot_quantiles
from dpstats.queries.answers import plot_answers
from dpstats.tables.contingency import plot_table
from dpstats.tables.proportion import plot_proportion

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_answers", "plot_audit", "plot_counts", "plot_density", "plot_distribution"]
__all__ += ["plot_intervals_by_epsilon", "plot_proportion", "plot_quantiles", "plot_table", "plot_tradeoff"]


def plot_tradeoff(items: Mapping[str, Any], *, title: str = "") -> Figure:
    """Draw the trade-off curves of guarantees, plans or events: how well any test can tell a row.

    Parameters
    ----------
    items : mapping of str to PrivacyGuarantee, ReleasePlan or event
        What to draw, by the name in the legend.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
        Type II error against type I error; the diagonal is perfect privacy.
    """
    figure = new_figure(figsize=(4.6, 4.4))
    axis = figure.subplots()
    errors = np.concatenate([[0.0], np.geomspace(1e-9, 1e-2, 400), np.linspace(0.01, 1.0, 400)])
    axis.plot([0, 1], [1, 0], color="0.6", lw=1, ls="--", label="perfect privacy")
    for name, item in items.items():
        axis.plot(errors, tradeoff_curve(item, errors), label=plain(name))
    axis.set_xlabel("type I error of a test for one row")
    axis.set_ylabel("smallest possible type II error")
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)
    axis.set_aspect("equal")
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, frameon=False)
    if title:
        set_title(axis, title)
    return figure


def plot_intervals_by_epsilon(
    names: Sequence[str],
    epsilons: Sequence[float],
    estimates: Sequence[Any],
    intervals: Sequence[ConfidenceInterval],
    *,
    reference: Any = None,
    reference_interval: ConfidenceInterval | None = None,
    labels: Sequence[str] = (),
    title: str = "",
) -> Figure:
    """Draw the estimate of every column, with its interval, against epsilon.

    Parameters
    ----------
    names : sequence of str
        The columns; one panel each.
    epsilons : sequence of float
        One release each.
    estimates : sequence of arrays of shape (n_features,)
    intervals : sequence of ConfidenceInterval
    reference : array of shape (n_features,), optional
        A non-private value to draw as a line; for public data only.
    reference_interval : ConfidenceInterval, optional
        Its interval, drawn as a band.
    labels : sequence of str, optional
        Titles of the panels (default: the names).
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    across = min(3, len(names))
    down = -(-len(names) // across)
    figure = new_figure(figsize=(3.5 * across, 2.6 * down + 0.5))
    axes = figure.subplots(down, across, squeeze=False, sharex=True)
    values = np.array([np.atleast_1d(estimate) for estimate in estimates])
    lows = np.array([np.atleast_1d(interval.low) for interval in intervals])
    highs = np.array([np.atleast_1d(interval.high) for interval in intervals])
    for j, axis in enumerate(axes.flat):
        if j >= len(names):
            axis.set_visible(False)
            continue
        errors = [values[:, j] - lows[:, j], highs[:, j] - values[:, j]]
        axis.errorbar(epsilons, values[:, j], errors, fmt="o", ms=4, capsize=3, color=ESTIMATE, label="private")
        if reference is not None:
            axis.axhline(reference[j], color=REFERENCE, lw=1, ls="--", label="not private")
        if reference_interval is not None:
            low, high = (np.atleast_1d(end)[j] for end in reference_interval)
            axis.axhspan(low, high, color=REFERENCE, alpha=0.15, lw=0, label="its interval")
        axis.set_xscale("log")
        axis.set_xticks(list(epsilons), [f"{epsilon:g}" for epsilon in epsilons])
        axis.minorticks_off()
        set_title(axis, plain(labels[j] if labels else names[j]))
        if j + across >= len(names):
            axis.set_xlabel("epsilon")
            axis.tick_params(labelbottom=True)
        axis.grid(alpha=0.25)
    axes.flat[0].legend(fontsize=8, frameon=False)
    if title:
        figure.suptitle(title)
    return figure
