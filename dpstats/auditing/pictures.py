"""A figure of an audit: its counts, compared with the trade-off curve of the claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpstats.auditing.bounds import epsilon_lower_bound, probability_bounds
from dpstats.auditing.result import AuditResult
from dpstats.errors import refuse
from dpstats.figures import ESTIMATE, REFERENCE, axes_or_new, new_figure
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.tradeoff import tradeoff_curve
from dpstats.report import draw, picture_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_audit(result: AuditResult, *, title: str = "") -> Figure:
    """Draw what an audit counted against the trade-off curve of the claim.

    Parameters
    ----------
    result : AuditResult
        Result of `dpstats.auditing.audit` or `audit_outputs`.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
        Left, the errors of the attack as a test of one dataset against the other, at many thresholds of its
        score. Clopper-Pearson bounds hold for all points together at the audit's confidence. Points in red
        are below the claimed curve, bounds included. Right, the epsilon that each threshold proves
        separately, and the bound that the audit reports.
    """
    half = result.n_trials // 2
    figure = new_figure(figsize=(9.2, 4.6))
    left, right = figure.subplots(1, 2)
    below = _draw_attack(result, left)
    likely, other = (np.array(counts) for counts in zip(*result.curve, strict=True))
    drawn = np.maximum(other, 0.5) / half  # an event never seen has a place on the axis, too
    # An event and its complement, the other way round: two bounds a threshold.
    together = 1 - (1 - result.confidence) / (2 * likely.size)
    proved = np.maximum(
        epsilon_lower_bound(likely, other, half, result.delta, together),
        epsilon_lower_bound(half - other, half - likely, half, result.delta, together),
    )
    right.plot(drawn[~below], proved[~below], "o", ms=3, color=ESTIMATE)
    right.plot(drawn[below], proved[below], "o", ms=3, color=REFERENCE)
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


@draw.register
def draw_audit(result: AuditResult, ax: Any = None, **style: Any) -> Any:
    """Draw the errors of the attack against the trade-off curve of the claim: the left panel of `plot_audit`.

    Parameters
    ----------
    result : AuditResult
    ax : matplotlib Axes, optional
        Default: the Axes of a new figure.
    **style
        matplotlib's, of ``Axes.errorbar``.

    Returns
    -------
    matplotlib Axes
    """
    axis = axes_or_new(ax, figsize=(4.8, 4.6))
    _draw_attack(result, axis, **style)
    return axis


def _draw_attack(result: AuditResult, axis: Axes, **style: Any) -> Any:
    """Draw the errors of an attack, and return which of them are below the claimed curve."""
    half = result.n_trials // 2
    if not result.curve:
        raise refuse("result", got="an empty one", allowed="hold a curve of counts")
    likely, other = (np.array(counts) for counts in zip(*result.curve, strict=True))
    # Two bounds a point, one-sided, together at the audit's confidence.
    each = 1 - (1 - result.confidence) / (4 * likely.size)
    first = probability_bounds(other, half, each)
    second = probability_bounds(half - likely, half, each)
    claim = PrivacyGuarantee(result.epsilon_claimed, result.delta)
    below = second[1] < tradeoff_curve(claim, first[1])
    type_one, type_two = other / half, 1 - likely / half
    errors = np.linspace(0.0, 1.0, 801)
    curve = tradeoff_curve(claim, errors)
    axis.fill_between(errors, curve, color="0.92", label="excluded by the claim")
    name = f"claimed: epsilon = {claim.epsilon:.4g}"
    axis.plot(errors, curve, color="black", lw=1.2, label=f"{name}, delta = {claim.delta:.3g}")
    axis.plot([0, 1], [1, 0], color="0.6", lw=1, ls="--", label="perfect privacy")
    for chosen, color, label in (
        (~below, ESTIMATE, "attack"),
        (below, REFERENCE, "attack, below the claim"),
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
            **{"fmt": "o", "ms": 3, "lw": 0.8, "color": color, "label": label, **style},
        )
    axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axis.set(xlabel="type I error of the attack", ylabel="type II error of the attack")
    axis.grid(alpha=0.25)
    counted = result.counts[1] / half, 1 - result.counts[0] / half
    axis.plot(*counted, "*", ms=12, color="black", label="event counted")
    axis.legend(fontsize=8, frameon=False, loc="upper right")
    return below


@picture_of.register
def _extract_curve(result: AuditResult) -> tuple[str, Any] | None:
    if not result.curve:
        return None
    words = (
        "Left, the errors of the attack against the curve of the claim; right, the epsilon that each "
        "threshold proves."
    )
    return words, plot_audit(result)
