"""Tables for papers: LaTeX, Markdown and HTML with a caption and table notes."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Protocol

from dpstats.data.parameters import printable
from dpstats.errors import refuse

UNKNOWN = "–"
"""Shown for a number that noise hides."""


class Table(Protocol):
    """Protocol of the parts and forms of a summary; see `dpstats.inference.results.Summary`."""

    @property
    def title(self) -> str: ...
    @property
    def facts(self) -> Sequence[tuple[str, str]]: ...
    @property
    def columns(self) -> Sequence[str]: ...
    @property
    def notes(self) -> Sequence[str]: ...

    def aligned(self, blank: str) -> list[list[str]]:
        """Return the rows, decimal points of a column below each other."""

    def as_html(self) -> str:
        """Return the summary as an HTML fragment."""

    @property
    def rows(self) -> Sequence[Sequence[str]]: ...

    def to_latex(self, *, caption: str | None = None, label: str | None = None, notes: bool | None = None) -> str:
        """Return the table as LaTeX."""

    def to_markdown(self, *, caption: str | None = None, label: str | None = None, notes: bool | None = None) -> str:
        """Return the table in Markdown."""


# Escapes. The signs of comparison are other characters in the default encoding of LaTeX fonts.
_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # A bracket or a star that starts a row would be an argument of the line break before it.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "`": r"\textasciigrave{}",
    "\N{EN DASH}": "--",
    "\N{EM DASH}": "---",
    "\N{MINUS SIGN}": "$-$",
    "\N{NO-BREAK SPACE}": "~",
    "\N{PLUS-MINUS SIGN}": r"$\pm$",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "\N{INFINITY}": r"$\infty$",
    "\N{LESS-THAN OR EQUAL TO}": r"$\leq$",
    "\N{GREATER-THAN OR EQUAL TO}": r"$\geq$",
    "\N{NOT EQUAL TO}": r"$\neq$",
    "\N{SUPERSCRIPT TWO}": r"$^2$",
    "\N{SUPERSCRIPT THREE}": r"$^3$",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{DEGREE SIGN}": r"$^\circ$",
    "\N{FIGURE SPACE}": "~",
    "\N{HORIZONTAL ELLIPSIS}": r"\dots{}",
    "\N{SQUARE ROOT}": r"$\surd$",
    "\N{MICRO SIGN}": r"$\mu$",
}
_GREEK = "alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho varsigma sigma "
_GREEK += "tau upsilon phi chi psi omega"
_LATEX |= {chr(0x3B1 + i): rf"$\{name}$" for i, name in enumerate(_GREEK.split()) if name != "omicron"}
_ESCAPES = str.maketrans(_LATEX)


_LINE = 345.0
"""Width of a line of LaTeX's article in points, which a table of a paper must not exceed."""
_SIZES = ((1.0, ""), (0.92, r"\small"), (0.85, r"\footnotesize"), (0.78, r"\scriptsize"))
"""Sizes of the text of a table, and the commands for them."""
_LETTER, _BETWEEN, _NARROW = 4.7, 12.0, 6.0
"""Average width of a letter, and the usual and the narrow width between two columns, in points."""


def in_latex(text: str) -> str:
    r"""Return text as LaTeX prints it: every special character is escaped.

    Examples
    --------
    >>> from dpstats.inference.papers import in_latex
    >>> print(in_latex("a_b < 5% & c|d, #1"))
    a\_b \textless{} 5\% \& c\textbar{}d, \#1
    """
    escaped = printable(text).translate(_ESCAPES)
    # Two hyphens of a name would become a dash.
    return re.sub(r"-(?=-)", "-{}", escaped) if "--" in text else escaped


def split_indent(text: str, space: str) -> tuple[str, str]:
    """Return the spaces that a name starts with, as ``space`` for each two, and the rest of it."""
    name = text.lstrip(" ")
    return space * ((len(text) - len(name)) // 2), name


def _latex_name(cell: str) -> str:
    """Return the name of a row, with its indentation."""
    before, name = split_indent(cell, r"\quad ")
    return before + in_latex(name)


def _fit_line(table: Table) -> list[str]:
    """Return the commands that make a wide table as narrow as a line, if they can."""
    widths = [max(map(len, column)) for column in zip(table.columns, *table.rows, strict=True)]
    letters, between = _LETTER * sum(widths), _BETWEEN * len(widths)
    if letters + between <= _LINE:
        return []
    small = [command for factor, command in _SIZES if factor * letters + _NARROW * len(widths) <= _LINE]
    command = small[0] if small else _SIZES[-1][1]
    return [*([command] if command else []), rf"\setlength{{\tabcolsep}}{{{_NARROW / 2:g}pt}}"]


def _latex_number(cell: str) -> str:
    """Return a cell with the minus signs of its numbers."""
    return re.sub(r"(?<![\w.)}$-])-(?=[\d.])", "$-$", in_latex(cell))


def in_markdown(text: str) -> str:
    r"""Return text as a cell of Markdown.

    Examples
    --------
    >>> from dpstats.inference.papers import in_markdown
    >>> print(in_markdown("a|b < *c*, x_1, _hidden_"))
    a\|b &lt; \*c\*, x_1, \_hidden\_
    """
    before, name = split_indent(printable(text), "&emsp;")
    escaped = re.sub(r"([\\|*`]|(?<!\w)_|_(?!\w))", r"\\\1", name)
    return before + escaped.replace("<", "&lt;").replace(">", "&gt;")


def table_notes(table: Table) -> list[str]:
    """Return the notes of a table in a paper: the facts with the guarantee, and the notes of the summary."""
    facts = [f"{name}: {value.rstrip('.')}." for name, value in table.facts]
    return [*([" ".join(facts)] if facts else []), *table.notes]


def latex_table(
    table: Table, *, caption: str | None = None, label: str | None = None, notes: bool | None = None
) -> str:
    """Return a tabular, or with a caption, a label or notes a whole table with its notes; see `Reported.to_latex`."""
    caption, notes = _whole_table(table, caption, label, notes)
    head, *body = (
        [" & ".join(map(in_latex, table.columns)) + r" \\"]
        + [" & ".join([_latex_name(row[0]), *map(_latex_number, row[1:])]) + r" \\" for row in table.rows]
        if table.columns
        else [r"\\"]
    )
    lines = [rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}", r"\toprule", head, r"\midrule"]
    lines += [*body, r"\bottomrule", r"\end{tabular}"]
    if caption is None:
        return "\n".join(lines)
    above = [r"\begin{table}[htbp]", r"\centering", *_fit_line(table), r"\begin{threeparttable}"]
    above.append(rf"\caption{{{in_latex(caption)}}}")
    if label is not None:
        above.append(rf"\label{{{label}}}")
    below = [r"\end{threeparttable}", r"\end{table}"]
    if notes and table_notes(table):
        items = [rf"\item {in_latex(note)}" for note in table_notes(table)]
        below = [r"\begin{tablenotes}[flushleft]", r"\footnotesize", *items, r"\end{tablenotes}", *below]
    return "\n".join([*above, *lines, *below])


def markdown_table(
    table: Table, *, caption: str | None = None, label: str | None = None, notes: bool | None = None
) -> str:
    """Return the table, with a caption and notes on request; see `Reported.to_markdown`."""
    caption, notes = _whole_table(table, caption, label, notes)
    rules = ["---", *["---:"] * (len(table.columns) - 1)]
    cells = [list(map(in_markdown, row)) for row in (table.columns, *table.rows)]
    lines = ["| " + " | ".join(row) + " |" for row in [cells[0], rules, *cells[1:]]]
    if caption is not None:
        anchor = "" if label is None else f" {{#{label}}}"
        lines = [f"**{in_markdown(caption)}**{anchor}", "", *lines]
        if notes:
            lines += [line for note in table_notes(table) for line in ("", in_markdown(note))]
    return "\n".join(lines)


def html_table(table: Table, *, caption: str | None = None, label: str | None = None, notes: bool | None = None) -> str:
    """Return an HTML table with its caption and, as its foot, its notes; see `Reported.to_html`."""
    caption, notes = _whole_table(table, caption, label, notes)
    cell = html.escape
    anchor = "" if label is None else f' id="{label}"'
    head = "".join(f'<th scope="col">{cell(name)}</th>' for name in table.columns)
    rows = "".join(
        f'<tr><th scope="row">{"".join(split_indent(cell(row[0]), "&emsp;"))}</th>'
        + "".join(f"<td>{cell(each)}</td>" for each in row[1:])
        + "</tr>\n"
        for row in table.rows
    )
    foot = "".join(
        f'<tr><td colspan="{max(len(table.columns), 1)}">{cell(note)}</td></tr>\n'
        for note in (table_notes(table) if notes else [])
    )
    return (
        f"<table{anchor}>\n"
        + ("" if caption is None else f"<caption>{cell(caption)}</caption>\n")
        + f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n"
        + (f"<tfoot>\n{foot}</tfoot>\n" if foot else "")
        + "</table>"
    )


def _whole_table(table: Table, caption: str | None, label: str | None, notes: bool | None) -> tuple[str | None, bool]:
    """Return the caption, None for the rows alone, and whether notes follow."""
    if caption is not None and not isinstance(caption, str):
        raise refuse("caption", given=caption, allowed="text")
    if label is not None and not (isinstance(label, str) and re.fullmatch(r"[A-Za-z][\w:.-]*", label, re.ASCII)):
        remedy = "Example: 'tab:means'."
        raise refuse("label", given=label, allowed="letters, digits and : . _ -, after a letter", remedy=remedy)
    whole = caption is not None or label is not None or bool(notes)
    return (caption or table.title) if whole else None, whole if notes is None else bool(notes)
