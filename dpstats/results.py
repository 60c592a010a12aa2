"""What a fit reports: frozen results that read well in a terminal and in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = float | NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ConfidenceInterval:
    """A confidence interval, or one per column.

    Unpacks and indexes as the pair ``(low, high)``, as scipy's does.

    Attributes
    ----------
    low, high : float or array
        The ends, in the units of the estimate.
    confidence_level : float
    estimand : str
        In words, what the interval covers.
    simultaneous : bool
        Whether all intervals cover together at ``confidence_level``.
    """

    low: Numbers
    high: Numbers
    confidence_level: float = 0.95
    estimand: str = ""
    simultaneous: bool = False

    @classmethod
    def around(
        cls, center: Any, half_width: Any, confidence_level: float, estimand: str, simultaneous: bool = False
    ) -> ConfidenceInterval:
        """Return the interval ``center`` plus or minus ``half_width``."""
        middle = np.asarray(center, dtype=np.float64)
        low, high = middle - half_width, middle + half_width
        if low.ndim == 0:
            return cls(float(low), float(high), confidence_level, estimand, simultaneous)
        return cls(low, high, confidence_level, estimand, simultaneous)

    def __iter__(self) -> Iterator[Numbers]:
        return iter((self.low, self.high))

    def __getitem__(self, index: int) -> Numbers:
        return (self.low, self.high)[index]

    def __len__(self) -> int:
        return 2


@dataclass(frozen=True, slots=True)
class Summary:
    """A titled table with facts above and notes below: text in a terminal, HTML in a notebook.

    Attributes
    ----------
    title : str
    facts : sequence of (name, value)
        What holds for the whole fit.
    columns : sequence of str
        Headers of the table; the first is the name of the row.
    rows : sequence of sequences of str
    notes : sequence of str
    """

    title: str
    facts: Sequence[tuple[str, str]]
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def as_text(self) -> str:
        """Return the summary as plain text."""
        table = [list(self.columns), *[list(row) for row in self.rows]]
        widths = [max(len(row[j]) for row in table) for j in range(len(self.columns))]

        def line(row: Sequence[str]) -> str:
            cells = [
                row[0].ljust(widths[0]),
                *[cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)],
            ]
            return "  ".join(cells).rstrip()

        names = max((len(name) for name, _ in self.facts), default=0)
        facts = [f"{name + ':':<{names + 1}} {value}" for name, value in self.facts]
        notes = [f"[{i}] {note}" for i, note in enumerate(self.notes, 1)]
        width = max(sum(widths) + 2 * (len(widths) - 1), len(self.title), *(len(fact) for fact in facts), 0)
        width = min(width, 110)
        body = [line(row) for row in table]
        parts = [self.title.center(width).rstrip(), "=" * width, *facts, "-" * width]
        parts += [body[0], "-" * width, *body[1:], "=" * width]
        for note in notes:
            parts += _wrapped(note, width)
        return "\n".join(parts)

    def as_html(self) -> str:
        """Return the summary as an HTML fragment without scripts or outside references."""
        cell = html.escape
        facts = "".join(f"<tr><th>{cell(name)}</th><td>{cell(value)}</td></tr>" for name, value in self.facts)
        head = "".join(f"<th>{cell(name)}</th>" for name in self.columns)
        rows = "".join(
            f"<tr><th>{cell(row[0])}</th>" + "".join(f"<td>{cell(value)}</td>" for value in row[1:]) + "</tr>"
            for row in self.rows
        )
        notes = "".join(f"<li>{cell(note)}</li>" for note in self.notes)
        return (
            f'<div class="dpstats-summary"><h4>{cell(self.title)}</h4><table class="facts">{facts}</table>'
            f'<table class="estimates"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
            + (f"<ol>{notes}</ol>" if notes else "")
            + "</div>"
        )

    def __str__(self) -> str:
        return self.as_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.as_html()


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, max(width, 60), subsequent_indent="    ")


def significant(value: float, reference: float | None = None) -> str:
    """Format a number to about two significant digits of ``reference``, its error (default: itself)."""
    scale = abs(value if reference is None else reference)
    if not np.isfinite(value) or scale == 0 or not np.isfinite(scale):
        return f"{value:.6g}"
    digits = 1 - int(np.floor(np.log10(scale)))
    if digits > 12 or abs(value) >= 1e15:
        return f"{value:.6g}"
    return f"{value:,.{max(digits, 0)}f}"
