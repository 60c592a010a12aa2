"""What pictures are drawn on, and the one that several releases share; matplotlib loads with the first one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpstats.errors import DPStatsError
from dpstats.results import ConfidenceInterval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ESTIMATE = "#1f5fa8"
REFERENCE = "#b03a2e"
"""Colours of what is private, and of what it is compared with."""
_ACROSS = 3


def new_figure(**options: Any) -> Figure:
    """Return an empty figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise DPStatsError("pictures need matplotlib: pip install 'dpstats[plot]'") from None
    # Not pyplot: a library must not touch the caller's backend or open windows.
    return Figure(layout="constrained", **options)


def plain(name: object) -> str:
    """Return a name for a picture: matplotlib takes what is between two dollars for mathematics."""
    return str(name).replace("$", r"\$")


def draw_intervals(ax: Any, labels: Sequence[str], values: Any, low: Any, high: Any, **style: Any) -> None:
    """Draw estimates with their intervals below each other; ``style`` is matplotlib's, of ``errorbar``."""
    places = np.arange(len(labels))[::-1]
    errors = np.maximum(np.stack([values - low, high - values]), 0.0)
    ax.errorbar(
        values, places, xerr=errors, **{"fmt": "o", "ms": 4, "capsize": 3, "color": ESTIMATE, **style}
    )
    ax.set_yticks(places, [plain(label) for label in labels])
    ax.set_ylim(-0.6, len(labels) - 0.4)
    ax.grid(axis="x", alpha=0.25)


def forest(
    labels: Sequence[str],
    names: Sequence[str],
    estimates: Any,
    interval: ConfidenceInterval,
    *,
    title: str = "",
) -> Figure:
    """Draw a forest plot: estimates with their intervals below each other, a panel for each column.

    Parameters
    ----------
    labels : sequence of str
        One for each row of the plot, from above.
    names : sequence of str
        The columns; one panel each.
    estimates : array of shape (rows, columns)
    interval : ConfidenceInterval
        Of ends of that shape.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    values, low, high = (
        np.asarray(part, dtype=np.float64) for part in (estimates, interval.low, interval.high)
    )
    across = min(_ACROSS, len(names))
    down = -(-len(names) // across)
    height = 0.9 + 0.28 * len(labels)
    figure = new_figure(figsize=(2.0 + 3.2 * across, down * height + 0.4))
    axes = figure.subplots(down, across, squeeze=False, sharey=True)
    for j, axis in enumerate(axes.flat):
        if j >= len(names):
            axis.set_visible(False)
            continue
        draw_intervals(axis, labels, values[:, j], low[:, j], high[:, j])
        axis.set_xlabel(plain(names[j]))
    if title:
        figure.suptitle(title, fontsize=10)
    return figure
