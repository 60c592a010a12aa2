"""Pictures of releases; matplotlib is loaded when the first one is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpstats.errors import InvalidParameter
from dpstats.figures import new_figure as _new_figure
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.tradeoff import tradeoff_curve
from dpstats.results import ConfidenceInterval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpstats.auditing import AuditResult
    from dpstats.quantiles import PrivateDistribution, PrivateQuantile

_ESTIMATE = "#1f5fa8"
_REFERENCE = "#b03a2e"


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
    figure = _new_figure(figsize=(4.6, 4.4))
    axis = figure.subplots()
    errors = np.concatenate([[0.0], np.geomspace(1e-9, 1e-2, 400), np.linspace(0.01, 1.0, 400)])
    axis.plot([0, 1], [1, 0], color="0.6", lw=1, ls="--", label="perfect privacy")
    for name, item in items.items():
        axis.plot(errors, tradeoff_curve(item, errors), label=name)
    axis.set_xlabel("type I error of a test for one row")
    axis.set_ylabel("smallest possible type II error")
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)
    axis.set_aspect("equal")
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, frameon=False)
    if title:
        axis.set_title(title, fontsize=10)
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
    figure = _new_figure(figsize=(3.5 * across, 2.6 * down + 0.5))
    axes = figure.subplots(down, across, squeeze=False, sharex=True)
    values = np.array([np.atleast_1d(estimate) for estimate in estimates])
    lows = np.array([np.atleast_1d(interval.low) for interval in intervals])
    highs = np.array([np.atleast_1d(interval.high) for interval in intervals])
    for j, axis in enumerate(axes.flat):
        if j >= len(names):
            axis.set_visible(False)
            continue
        errors = [values[:, j] - lows[:, j], highs[:, j] - values[:, j]]
        axis.errorbar(
            epsilons, values[:, j], errors, fmt="o", ms=4, capsize=3, color=_ESTIMATE, label="private"
        )
        if reference is not None:
            axis.axhline(reference[j], color=_REFERENCE, lw=1, ls="--", label="not private")
        if reference_interval is not None:
            low, high = (np.atleast_1d(end)[j] for end in reference_interval)
            axis.axhspan(low, high, color=_REFERENCE, alpha=0.15, lw=0, label="its interval")
        axis.set_xscale("log")
        axis.set_xticks(list(epsilons), [f"{epsilon:g}" for epsilon in epsilons])
        axis.minorticks_off()
        axis.set_title(labels[j] if labels else names[j], fontsize=10)
        if j + across >= len(names):
            axis.set_xlabel("epsilon")
            axis.tick_params(labelbottom=True)
        axis.grid(alpha=0.25)
    axes.flat[0].legend(fontsize=8, frameon=False)
    if title:
        figure.suptitle(title)
    return figure


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
    figure = _new_figure(figsize=(5.6, 3.6))
    axis = figure.subplots()
    if quantiles.plan_.confidence_level is None:
        axis.plot(q, points, "o", ms=4, color=_ESTIMATE)
    else:
        # An own point of the choice may lie at an end, and no further.
        errors = np.maximum([points - low, high - points], 0.0)
        label = f"private, with {100 * quantiles.plan_.confidence_level:g}% intervals"
        axis.errorbar(q, points, errors, fmt="o", ms=4, capsize=3, color=_ESTIMATE, label=label)
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
        Rows whose own cdf is drawn beside it; for public data only.
    confidence_level : float, default=0.95
        Of the band.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    grid, edges = distribution.plan_.grid, distribution.edges_
    band = distribution.band(confidence_level=confidence_level)
    low, high = np.atleast_1d(band.low), np.atleast_1d(band.high)
    figure = _new_figure(figsize=(5.6, 3.8))
    axis = figure.subplots()
    label = f"{100 * confidence_level:g}% band, everywhere at once"
    # Between declared values a cdf stands still; inside a cell it is between those of the ends.
    if grid.declared:
        axis.step(edges, distribution.cdf_, where="post", color=_ESTIMATE, lw=1.4, label="private")
        axis.fill_between(edges, low, high, step="post", color=_ESTIMATE, alpha=0.2, lw=0, label=label)
    else:
        axis.plot(
            np.append(grid.low, edges),
            np.append(0.0, distribution.cdf_),
            color=_ESTIMATE,
            lw=1.4,
            label="private",
        )
        at = np.repeat(np.append(grid.low, edges), 2)[1:-1]
        ends = np.repeat(np.append(0.0, low[:-1]), 2), np.repeat(high, 2)
        axis.fill_between(at, *ends, color=_ESTIMATE, alpha=0.2, lw=0, label=label)
    if reference is not None:
        rows = np.sort(np.asarray(reference, dtype=np.float64).ravel())
        share = np.arange(1, rows.size + 1) / rows.size
        axis.step(rows, share, where="post", color=_REFERENCE, lw=1, ls="--", label="not private")
    axis.set_xlim(grid.low, grid.high)
    axis.set_ylim(0, 1.01)
    axis.set_xlabel("x")
    axis.set_ylabel("share of rows at or below x")
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, frameon=False, loc="lower right")
    axis.set_title(title, fontsize=10)
    return figure


def plot_audit(result: AuditResult, *, title: str = "") -> Figure:
    """Draw what an audit counted against the trade-off curve of the claim.

    Parameters
    ----------
    result : AuditResult
        Of `dpstats.auditing.audit` or `audit_outputs`.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
        Left, the errors of the attack as a test of one dataset against the other, its score cut at
        many thresholds, with Clopper-Pearson bounds that hold for all points together at the
        audit's confidence. Points in red are below the claimed curve, bounds included. Right, the
        epsilon that each threshold proves by itself, and the bound that the audit reports.
    """
    from dpstats.auditing.bounds import epsilon_lower_bound, probability_bounds

    half = result.n_trials // 2
    if not result.curve:
        raise InvalidParameter("result must hold a curve of counts, got an empty one")
    likely, other = (np.array(counts) for counts in zip(*result.curve, strict=True))
    # Two bounds a point, one-sided, together at the audit's confidence.
    each = 1 - (1 - result.confidence) / (4 * likely.size)
    first = probability_bounds(other, half, each)
    second = probability_bounds(half - likely, half, each)
    claim = PrivacyGuarantee(result.epsilon_claimed, result.delta)
    below = second[1] < tradeoff_curve(claim, first[1])
    figure = _new_figure(figsize=(9.2, 4.6))
    left, right = figure.subplots(1, 2)
    _draw_errors(left, claim, other / half, 1 - likely / half, first, second, below)
    left.plot(
        result.counts[1] / half, 1 - result.counts[0] / half, "*", ms=12, color="black", label="event counted"
    )
    left.legend(fontsize=8, frameon=False, loc="upper right")

    drawn = np.maximum(other, 0.5) / half  # an event never seen has a place on the axis, too
    # An event and its complement, the other way round: two bounds a threshold.
    together = 1 - (1 - result.confidence) / (2 * likely.size)
    proved = np.maximum(
        epsilon_lower_bound(likely, other, half, result.delta, together),
        epsilon_lower_bound(half - other, half - likely, half, result.delta, together),
    )
    right.plot(drawn[~below], proved[~below], "o", ms=3, color=_ESTIMATE)
    right.plot(drawn[below], proved[below], "o", ms=3, color=_REFERENCE)
    right.axhline(result.epsilon_claimed, color="black", lw=1.2, label="claimed")
    right.plot(
        max(result.counts[1], 0.5) / half,
        result.epsilon_lower,
        "*",
        ms=12,
        color="black",
        label=f"audit: epsilon at least {result.epsilon_lower:.3g}",
    )
    right.set_xscale("log")
    right.set_ylim(0, 1.35 * max(result.epsilon_claimed, result.epsilon_lower, float(proved.max())) + 0.01)
    right.set_xlabel("type I error of the attack")
    right.set_ylabel("epsilon proved")
    right.grid(alpha=0.25)
    right.legend(fontsize=8, frameon=False, loc="upper left")
    verdict = "claim violated" if result.violated else "claim not violated"
    runs = f"{half:,} runs counted on each dataset, confidence {result.confidence:g}"
    figure.suptitle(f"{title or 'Audit'}: {verdict} ({runs})", fontsize=11)
    return figure


def _draw_errors(
    axis: Axes,
    claim: PrivacyGuarantee,
    type_one: Any,
    type_two: Any,
    first: tuple[Any, Any],
    second: tuple[Any, Any],
    below: Any,
) -> None:
    """Draw both errors of an attack with their bounds, and the curve that they may not go below."""
    errors = np.linspace(0.0, 1.0, 801)
    curve = tradeoff_curve(claim, errors)
    axis.fill_between(errors, curve, color="0.92", label="excluded by the claim")
    name = f"claimed: epsilon = {claim.epsilon:.4g}"
    axis.plot(errors, curve, color="black", lw=1.2, label=f"{name}, delta = {claim.delta:.3g}")
    axis.plot([0, 1], [1, 0], color="0.6", lw=1, ls="--", label="perfect privacy")
    for chosen, color, label in (
        (~below, _ESTIMATE, "attack"),
        (below, _REFERENCE, "attack, below the claim"),
    ):
        if not np.any(chosen):
            continue
        spread = [
            np.array([value - low, high - value])[:, chosen]
            for value, (low, high) in ((type_one, first), (type_two, second))
        ]
        axis.errorbar(
            type_one[chosen],
            type_two[chosen],
            yerr=np.maximum(spread[1], 0),
            xerr=np.maximum(spread[0], 0),
            fmt="o",
            ms=3,
            lw=0.8,
            color=color,
            label=label,
        )
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)
    axis.set_aspect("equal")
    axis.set_xlabel("type I error of the attack")
    axis.set_ylabel("type II error of the attack")
    axis.grid(alpha=0.25)
