"""One table of several results, side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpstats.errors import refuse
from dpstats.inference.papers import UNKNOWN
from dpstats.inference.results import Summary


def side_by_side(
    results: Mapping[str, Any],
    *,
    confidence_level: float | None = None,
    title: str = "Private estimates",
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
    return Summary(
        title, facts, ["", *map(str, columns)], shown, _shared_notes(notes, list(map(str, columns)))
    )


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
