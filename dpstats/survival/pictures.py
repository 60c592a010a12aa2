"""The picture of private survival: curves with bands, the end of the usable range, and numbers at risk below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpstats.figures import new_figure, plain
from dpstats.survival.table import SurvivalTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS = ("#1f5fa8", "#c2571a", "#2d7f5e", "#7a4fa3", "#8a6d1a", "#b03060")
_COLUMNS = 5  # of numbers at risk


def draw_curves(
    table: SurvivalTable,
    names: Sequence[str],
    places: Sequence[int],
    level: float,
    ax: Axes | None,
    style: Mapping[str, Any],
) -> Any:
    """Draw the curves of some groups: see `PrivateSurvival.plot`."""
    edges = table.edges
    rows = len(places)
    if ax is None:
        figure = new_figure(figsize=(6.4, 3.8 + 0.28 * rows))
        axis, below = figure.subplots(2, 1, height_ratios=[10, 0.6 + 0.9 * rows], sharex=True)
        axis.tick_params(labelbottom=True)
    else:
        axis, below = ax, None
    discrete = table.plan.discrete
    for k, (name, place) in enumerate(zip(names, places, strict=True)):
        color = _COLORS[k % len(_COLORS)]
        low, high = table.band(place, level)
        curve, end = table.estimate(place), table.usable_until(place)
        label = plain(name) if table.plan.groups is not None else "survival"
        look = {"color": color, "label": label, **style}
        if discrete:
            axis.step(edges, curve, where="post", **look)
        else:
            axis.plot(edges, curve, **{"marker": ".", "markersize": 3, **look})
        # Between edges the band joins the limits of both neighbors, so that it covers at every time.
        axis.stairs(
            high[:-1], edges, baseline=low[:-1] if discrete else low[1:], fill=True, color=color, alpha=0.18
        )
        if end < edges[-1]:
            axis.axvline(end, color=color, lw=1, ls=":")
            axis.annotate(
                "usable to here", (end, 1.0), fontsize=7, color=color, rotation=90, ha="right", va="top"
            )
    axis.set_ylim(-0.02, 1.02)
    axis.set_xlim(0, edges[-1])
    axis.set_xlabel("time")
    axis.set_ylabel("survival")
    axis.grid(alpha=0.25)
    words = " (simulated noise)" if table.plan.guarantee.simulated else ""
    axis.set_title(f"Private survival, {100 * level:g}% simultaneous bands{words}", fontsize=10)
    if table.plan.groups is not None:
        axis.legend(fontsize=8, frameon=False)
    if below is None:
        return axis
    bins = len(edges) - 1
    shown = range(0, bins, -(-bins // _COLUMNS))
    below.set_ylim(-rows + 0.5, 0.5)
    below.set_yticks(-np.arange(rows), [plain(name) for name in names], fontsize=8)
    for k, place in enumerate(places):
        curves = table.curves(place)
        for j in shown:
            text = f"{max(float(curves.at_risk[0, j]), 0.0):,.0f}±{2 * float(curves.at_risk_std[j]):.0f}"
            below.text(edges[j], -k, text, fontsize=7, ha="left" if j == 0 else "center", va="center")
    below.set_title("number at risk, ± two standard deviations of its noise", fontsize=8, loc="left")
    for side in ("top", "right", "left", "bottom"):
        below.spines[side].set_visible(False)
    below.tick_params(length=0, labelbottom=False)
    return axis
