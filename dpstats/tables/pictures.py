"""Figures of a private proportion and of a private table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpstats.figures import ESTIMATE, REFERENCE, new_figure, place_bars, plain
from dpstats.report import picture_of
from dpstats.results import ConfidenceInterval
from dpstats.tables.cells import Cells
from dpstats.tables.contingency import ContingencyTable
from dpstats.tables.proportion import PrivateProportion

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_BARS = 40


def plot_proportion(estimator: PrivateProportion, *, confidence_level: float = 0.95) -> Figure:
    """Draw the confidence curve of a private proportion: the two-sided p-value of every possible value.

    Parameters
    ----------
    estimator : PrivateProportion
        Fitted estimator.
    confidence_level : float, default=0.95
        Level of the marked interval.

    Returns
    -------
    matplotlib.figure.Figure
    """
    found = estimator.estimates()
    interval = found.confidence_interval(confidence_level)
    low, high = float(interval.low), float(interval.high)
    # Choose the range so that the curve is near 0 at both limits.
    wide = found.confidence_interval(1 - 1e-3)
    values = np.linspace(max(float(wide.low), 1e-9), min(float(wide.high), 1 - 1e-9), 301)
    pvalues = [found.test(value).pvalue for value in values]
    figure = new_figure(figsize=(4.8, 3.2))
    axis = figure.subplots()
    axis.plot(values, pvalues, color=ESTIMATE)
    axis.axvline(estimator.proportion_, color=ESTIMATE, lw=1, ls="--", label=f"{estimator.proportion_:.3g}")
    axis.hlines(1 - confidence_level, low, high, color=REFERENCE, lw=2, label=_interval_words(interval))
    axis.set_xlabel("proportion")
    axis.set_ylabel("two-sided p-value")
    axis.set_ylim(0, 1.05)
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, frameon=False)
    return figure


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
    colors = _shades(shape[1])
    height = 1 / (shape[1] + 1)
    for j in range(shape[1]):
        places = -np.arange(shape[0]) - height * (j - (shape[1] - 1) / 2)
        shares = np.clip(within[:, j], low[:, j], high[:, j])
        middle, errors, marked = place_bars(shares, low[:, j], high[:, j])
        style = {"fmt": "o", "ms": 4, "capsize": 3, "color": colors[j], "label": plain(cells.levels[1][j])}
        right.errorbar(middle, places, xerr=errors, markevery=marked, **style)
    right.set_yticks(-np.arange(shape[0]), [plain(level) for level in cells.levels[0]])
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
    axis.set_title("red: more than if independent, blue: fewer", fontsize=9)


def _bars(cells: Cells, confidence_level: float) -> Figure:
    """Draw the proportions of all cells with their intervals."""
    places = list(np.ndindex(cells.counts.shape))
    interval = cells.estimates().confidence_interval(confidence_level)
    low, high = np.ravel(interval.low), np.ravel(interval.high)
    estimates = np.ravel(cells.projected) / max(float(cells.projected.sum()), 1e-300)
    figure = new_figure(figsize=(5.6, 1.2 + 0.26 * len(places)))
    axis = figure.subplots()
    middle = np.clip(estimates, low, high)
    errors = np.stack([middle - low, high - middle])
    axis.errorbar(middle, -np.arange(len(places)), xerr=errors, fmt="o", ms=4, capsize=3, color=ESTIMATE)
    names = [", ".join(plain(cells.levels[j][code]) for j, code in enumerate(place)) for place in places]
    axis.set_yticks(-np.arange(len(places)), names)
    axis.set_xlabel(f"proportion, {100 * confidence_level:g}% intervals")
    axis.set_ylabel(", ".join(map(plain, cells.names)))
    axis.grid(axis="x", alpha=0.25)
    return figure


def _interval_words(interval: ConfidenceInterval) -> str:
    return f"{100 * interval.confidence_level:g}%: [{float(interval.low):.3g}, {float(interval.high):.3g}]"


def _shades(count: int) -> list[Any]:
    """Return a color for each level."""
    from matplotlib import colormaps

    return [colormaps["viridis"](0.1 + 0.75 * j / max(count - 1, 1)) for j in range(count)]


@picture_of.register
def _of_proportion(estimator: PrivateProportion) -> tuple[str, Any]:
    words = "The two-sided p-value of every value that the proportion may have; the line is the 95% interval."
    return words, plot_proportion(estimator)


@picture_of.register
def _of_table(table: ContingencyTable) -> tuple[str, Any] | None:
    shape = table.counts_.shape
    if len(shape) == 2:
        words = (
            "Left, tiles of the estimated proportions; right, proportions within groups, with 95% intervals."
        )
        return words, plot_table(table)
    if table.counts_.size > _MOST_BARS:
        return None
    return "The estimated proportions of all cells, with 95% intervals.", plot_table(table)
