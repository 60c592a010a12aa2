"""Several results side by side, in one figure or one table, and axes. matplotlib loads with the first figure."""

from __future__ import annotations

import contextlib
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import DPStatsError, refuse
from dpstats.inference.papers import UNKNOWN, wrap_cell
from dpstats.inference.results import ConfidenceInterval, Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = NDArray[np.float64]

ESTIMATE = "#1f5fa8"
REFERENCE = "#d9772b"
"""Colors of private values, and of the values they are compared with."""
COLORS = (ESTIMATE, REFERENCE, "#12233f", "#7fb0d6", "#7b2d4b", "#2e7d4f")
"""Colors of several curves. Printed in gray, their lightness differs: 40, 60, 14, 70, 31 and 47 of 100."""
LINES = ("-", "--", "-.", ":")
"""Styles of several curves, so that color is never the only difference."""
WIDTHS = {1: 3.5, 2: 7.2}
"""Widths of a figure in inches, over one and two columns of a journal."""
_TALLEST = 9.0
_TEXT = 8.0
_ACROSS = 3
_columns: ContextVar[int | None] = ContextVar("columns", default=None)


@contextlib.contextmanager
def paper_figures(columns: int = 1) -> Iterator[None]:
    """Make figures as wide as one or two columns of a paper, 3.5 or 7.2 inches, with text of 8 points.

    Inside the ``with`` block, every figure of the package has this width. Save it without scaling.

    Parameters
    ----------
    columns : {1, 2}, default=1

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.inference import paper_figures
    >>> from dpstats.means import ClippedMean
    >>> fit = ClippedMean(bounds=(0, 60), random_state=0).fit(np.full((900, 1), 30.0))
    >>> with paper_figures(columns=1):
    ...     axis = fit.plot()
    >>> float(axis.figure.get_figwidth())
    3.5
    """
    if columns not in WIDTHS or isinstance(columns, bool):
        raise refuse("columns", given=columns, allowed="1 or 2")
    try:
        from matplotlib import rc_context
    except ImportError:
        raise _no_pictures() from None
    before = _columns.set(columns)
    try:
        with rc_context({"font.size": _TEXT, "axes.titlesize": _TEXT, "axes.labelsize": _TEXT, "lines.linewidth": 1.2}):
            yield
    finally:
        _columns.reset(before)


def _no_pictures() -> DPStatsError:
    return DPStatsError("pictures need matplotlib: pip install 'dpstats[plot]'")


def new_figure(**options: Any) -> Figure:
    """Return an empty figure, of the width that `paper_figures` asks for."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise _no_pictures() from None
    # Not pyplot: a library must not touch the caller's backend or open windows.
    figure = Figure(layout="constrained", **options)
    columns = _columns.get()
    if columns is not None:
        width, height = figure.get_size_inches()
        # A low figure, such as a forest plot of few rows, keeps its height.
        scaled = max(height * WIDTHS[columns] / width, min(height, 2.0))
        figure.set_size_inches(WIDTHS[columns], min(scaled, _TALLEST))
    return figure


def axes_or_new(ax: Any, **options: Any) -> Any:
    """Return the given Axes, or the Axes of a new figure."""
    return new_figure(**options).subplots() if ax is None else ax


def set_title(where: Any, title: str, size: float = 10.0) -> None:
    """Set the title of Axes or of a figure, in lines that its width holds."""
    figure = where.get_figure() or where
    size = size if _columns.get() is None else min(size, _TEXT)
    across = 1 if where is figure else where.get_gridspec().ncols if where.get_subplotspec() else 1
    # The width of a letter is about 0.6 of its height. In a column of a paper, names of rows need a part of it.
    beside = 1.0 if where is figure or _columns.get() != 1 else 0.6
    letters = int(beside * figure.get_figwidth() * 72 / across / (0.6 * size))
    set_text = where.suptitle if where is figure else where.set_title
    set_text("\n".join(textwrap.wrap(title, max(letters, 12))), fontsize=size)


def plain(name: object) -> str:
    """Return a name for a figure: matplotlib treats text between two dollars as mathematics."""
    return str(name).replace("$", r"\$")


def row_names(labels: Sequence[object], width: float) -> list[str]:
    """Return names of rows, in lines that two fifths of a figure of this width in inches hold."""
    columns = _columns.get()
    size, width = (10.0, width) if columns is None else (_TEXT, WIDTHS[columns])
    letters = max(int(0.4 * width * 72 / (0.55 * size)), 12)
    return ["\n".join(wrap_cell(plain(label), letters, len)) for label in labels]


def row_heights(names: Sequence[str], width: float) -> float:
    """Return the height of rows with these names, in inches of a figure of this width before `paper_figures`."""
    columns = _columns.get()
    scale = 1.0 if columns is None else width / WIDTHS[columns]
    return scale * sum(0.28 + 0.15 * name.count("\n") for name in names)


def draw_intervals(ax: Any, labels: Sequence[str], values: Any, low: Any, high: Any, **style: Any) -> None:
    """Draw estimates with their intervals below each other; ``style`` is matplotlib's, of ``errorbar``.

    An arrow marks a side without a limit. An estimate that is not finite has no marker.
    """
    places = np.arange(len(labels))[::-1]
    middle, errors, marked = place_bars(values, low, high)
    shown = {"fmt": "o", "ms": 4, "capsize": 3, "color": ESTIMATE, **style}
    bars = ax.errorbar(middle, places, xerr=errors, markevery=marked, **shown)
    ends = middle - errors[0], middle + errors[1]
    for end, is_open, arrow in zip(ends, (low == -np.inf, high == np.inf), "<>", strict=True):
        if is_open.any():
            color = bars[2][0].get_color()[0]
            ax.plot(end[is_open], places[is_open], arrow, ms=5, color=color, label="_nolegend_")
    ax.set_yticks(places, row_names(labels, ax.get_figure().get_figwidth()))
    ax.set_ylim(-0.6, len(labels) - 0.4)
    ax.grid(axis="x", alpha=0.25)


def place_bars(values: Any, low: Any, high: Any) -> tuple[Numbers, Numbers, list[int]]:
    """Return a point inside each bar, its distances from both limits, and the places of the finite estimates."""
    values, low, high = (np.asarray(part, dtype=np.float64) for part in (values, low, high))
    known, numbers = np.isfinite(values), np.concatenate([values, low, high])
    # Infinite intervals end outside of all finite numbers, with room on both sides.
    finite = numbers[np.isfinite(numbers)] if np.isfinite(numbers).any() else np.zeros(1)
    room = 0.3 * float(np.ptp(finite)) or max(1.0, float(np.abs(finite[0])))
    ends = np.clip([low, high], float(finite.min()) - room, float(finite.max()) + room)
    middle = np.where(known, values, ends.mean(axis=0))
    return middle, np.maximum([middle - ends[0], ends[1] - middle], 0.0), np.flatnonzero(known).tolist()


def draw_boxes(
    labels: Sequence[str], quantiles: Any, limits: tuple[Any, Any] | None = None, *, ax: Any = None, **style: Any
) -> Any:
    """Draw three quantiles or more of each label as a box with whiskers, and their intervals as lines below it.

    Parameters
    ----------
    labels : sequence of str
        One for each row of the plot, from above.
    quantiles : array of shape (rows, m)
        Increasing. The inner ones are the box, and of five or more the outermost ones end its whiskers. A row with NaN
        has neither a box nor intervals: these would be as wide as the bounds.
    limits : pair of arrays of that shape, optional
        Limits of the intervals.
    ax : matplotlib Axes, optional
        Default: the Axes of a new figure.
    **style
        matplotlib's, of ``Axes.errorbar``.
    """
    values = np.asarray(quantiles, dtype=np.float64)
    size = values.shape[1]
    ax = axes_or_new(ax, figsize=(5.6, 1.0 + 0.62 * len(labels)))
    places = np.arange(len(labels))[::-1]
    known = np.asarray(~np.isnan(values).any(axis=1))
    for place, row in zip(places[known], values[known], strict=True):
        low, high = (row[1], row[-2]) if size >= 5 else (row[0], row[-1])
        ax.barh(place, high - low, 0.36, low, facecolor="#c9daee", edgecolor=ESTIMATE, linewidth=1.0)
        ax.vlines(row[size // 2], place - 0.18, place + 0.18, color=ESTIMATE, linewidth=2.2)
        if size >= 5:
            ax.hlines([place] * 2, [row[0], high], [low, row[-1]], color=ESTIMATE, linewidth=1.0)
    if limits is not None:
        shown = {"fmt": "o", "ms": 3, "capsize": 2, "lw": 1.0, "color": REFERENCE, **style}
        for j in range(size):
            middle, errors, marked = place_bars(*(part[known, j] for part in (values, *limits)))
            # Intervals of neighboring quantiles may overlap, so each has its own line.
            below = places[known] - 0.27 - 0.34 * j / size
            ax.errorbar(middle, below, xerr=errors, markevery=marked, **shown)
    notes = ("" if is_known else "\n(too few rows)" for is_known in known.tolist())
    shown_names = row_names(labels, ax.get_figure().get_figwidth())
    ax.set_yticks(places, [name + note for name, note in zip(shown_names, notes, strict=True)])
    ax.set_ylim(-0.75, len(labels) - 0.6)
    # Otherwise a bar at an edge of the plot has no margin.
    ax.use_sticky_edges = False
    ax.autoscale_view(scaley=False)
    ax.grid(axis="x", alpha=0.25)
    return ax


def forest(
    labels: Sequence[str],
    names: Sequence[str],
    estimates: Any,
    interval: ConfidenceInterval,
    *,
    title: str = "",
    ax: Any = None,
    **style: Any,
) -> Any:
    """Draw a forest plot: estimates with their intervals below each other, a panel for each column.

    Parameters
    ----------
    labels : sequence of str
        One for each row of the plot, from above.
    names : sequence of str
        The columns; one panel each.
    estimates : array of shape (rows, columns)
    interval : ConfidenceInterval
        Interval with endpoints of that shape.
    title : str, optional
        Title of a new figure.
    ax : matplotlib Axes, or a sequence of one for each column, optional
        Default: the Axes of a new figure.
    **style
        matplotlib's, of ``Axes.errorbar``.

    Returns
    -------
    matplotlib Axes, or an array of one for each column
    """
    values, low, high = (np.asarray(part, dtype=np.float64) for part in (estimates, interval.low, interval.high))
    if ax is None:
        across = min(_ACROSS, len(names))
        down = -(-len(names) // across)
        width = 2.0 + 3.2 * across
        figure = new_figure(figsize=(width, down * (0.9 + row_heights(row_names(labels, width), width)) + 0.4))
        panels = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
        for axis in panels[len(names) :]:
            axis.set_visible(False)
        if title:
            set_title(figure, title)
        axes = panels[: len(names)]
    else:
        axes = np.ravel(ax)
    for j, axis in enumerate(axes):
        draw_intervals(axis, labels, values[:, j], low[:, j], high[:, j], **style)
        axis.set_xlabel(plain(names[j]))
    return axes[0] if len(names) == 1 else axes


# One table of several results, side by side


def side_by_side(
    results: Mapping[str, Any], *, confidence_level: float | None = None, title: str = "Private estimates"
) -> Summary:
    """Put several results into one table: a column for each result, a row for each estimate.

    The table has no additional privacy cost.

    Parameters
    ----------
    results : mapping {heading: result}
        Fits, their estimates, or tests with intervals: what has ``to_dict`` with an estimate and an interval of each
        row. The headings are the columns of the table.
    confidence_level : float, optional
        Default: 0.95, or the only level of each result.
    title : str, optional
        Title of the table.

    Returns
    -------
    Summary
        It prints as text. ``to_latex(caption=..., label=...)`` is a table for a paper.

    Raises
    ------
    InvalidParameter
        If ``results`` has no results with intervals.

    Notes
    -----
    A cell is an estimate with its interval. It is empty if the result has no such row, and a dash if noise hides the
    number. Each interval has its level alone. Two columns
    can differ although their intervals overlap.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.inference import side_by_side
    >>> from dpstats.means import ClippedMean
    >>> x = np.random.default_rng(0).uniform(20, 60, size=(2000, 1))
    >>> fits = {name: ClippedMean(bounds=(0, high), random_state=0).fit(x) for name, high in [("A", 60), ("B", 99)]}
    >>> table = side_by_side(fits)
    >>> list(table.columns), table.rows[0][0]
    (['', 'A', 'B'], 'x0')
    """
    if not isinstance(results, Mapping) or not results:
        raise refuse("results", given=results, allowed="a mapping {heading: result} of at least one result")
    columns, facts, notes, levels = {}, [], [], []
    for heading, result in results.items():
        level, columns[heading] = _cells(heading, result, confidence_level)
        levels.append(f"{100 * level:g}%" if level == level else "")
        told = result.summary()
        facts += [(f"{name}, {heading}", fact) for name, fact in told.facts if name in _COLUMN_FACTS]
        notes += [(note, str(heading)) for note in told.notes]
    rows = dict.fromkeys(name for cells in columns.values() for name in cells)
    shown = [[str(name), *(cells.get(name, "") for cells in columns.values())] for name in rows]
    told_levels = sorted({level for level in levels if level})
    facts = [("Cells", f"estimate ({', '.join(told_levels)} interval)"), *facts]
    return Summary(title, facts, ["", *map(str, columns)], shown, _shared_notes(notes, list(map(str, columns))))


_COLUMN_FACTS = ("Estimator", "Rows", "Rows, columns", "Privacy", "Units of privacy", "Intervals cover")


def _cells(heading: Any, result: Any, confidence_level: float | None) -> tuple[float, dict[str, str]]:
    """Return the level of a result's intervals and the cell of each of its rows."""
    told = {}
    if hasattr(result, "to_dict") and hasattr(result, "summary"):
        told = result.to_dict() if confidence_level is None else result.to_dict(confidence_level)
    rows = told.get("rows", [])
    if not rows or not {"estimate", "low", "high"} <= set(rows[0]):
        allowed = "hold results with an estimate and an interval of each row, such as fits of means"
        raise refuse("results", got=f"{type(result).__name__} as {str(heading)!r}", allowed=allowed)
    level = told.get("confidence_level")
    return (math.nan if level is None else float(level)), {row["name"]: _cell(row) for row in rows}


def _cell(row: Mapping[str, Any]) -> str:
    """Return an estimate with its interval, with the digits that the interval's length allows."""
    numbers = [math.nan if row[name] is None else float(row[name]) for name in ("estimate", "low", "high")]
    estimate, low, high = numbers
    if math.isnan(estimate) and math.isnan(low):
        return UNKNOWN
    length = high - low
    known = math.isfinite(length) and length > 0
    digits = max(0, 1 - math.floor(math.log10(length / 4))) if known else 3

    def write(number: float) -> str:
        if math.isnan(number):
            return UNKNOWN
        if math.isinf(number):
            return "-\N{INFINITY}" if number < 0 else "\N{INFINITY}"
        return f"{number:,.{min(digits, 12)}f}"

    return f"{write(estimate)} ({write(low)}, {write(high)})"


def _shared_notes(notes: Sequence[tuple[str, str]], headings: list[str]) -> list[str]:
    """Return each note once, with the headings of its columns unless it is of all columns."""
    found: dict[str, list[str]] = {}
    for note, heading in notes:
        if heading not in found.setdefault(note, []):
            found[note].append(heading)
    return [note if len(own) == len(headings) else f"{', '.join(own)}: {note}" for note, own in found.items()]
