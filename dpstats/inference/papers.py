"""Tables for papers: LaTeX, Markdown and HTML with a caption and table notes."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

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
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{DEGREE SIGN}": r"$^\circ$",
    "\N{FIGURE SPACE}": "~",
    "\N{HORIZONTAL ELLIPSIS}": r"\dots{}",
    "\N{SQUARE ROOT}": r"$\surd$",
    "\N{MICRO SIGN}": r"$\mu$",
    "\N{ALMOST EQUAL TO}": r"$\approx$",
    "\N{INCREMENT}": r"$\Delta$",
    "\N{PRIME}": "$'$",
    "\N{LEFT RIGHT ARROW}": r"$\leftrightarrow$",
}
_GREEK = "alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho varsigma sigma "
_GREEK += "tau upsilon phi chi psi omega"
_LATEX |= {chr(0x3B1 + i): rf"$\{name}$" for i, name in enumerate(_GREEK.split()) if name != "omicron"}
# Most capitals are letters of the Latin alphabet too, and have no command.
_LATEX |= dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧο", "ABEZHIKMNOPTXo", strict=True))
_CAPITALS = "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
_LATEX |= {sign: rf"$\{name}$" for sign, name in zip("ΓΔΘΛΞΠΣΥΦΨΩ", _CAPITALS.split(), strict=True)}
_LATEX |= {sign: f"$^{i}$" for i, sign in zip("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻", strict=True)}
_LATEX |= {sign: f"$_{i}$" for i, sign in enumerate("₀₁₂₃₄₅₆₇₈₉")}
_ESCAPES = str.maketrans(_LATEX)


# Widths in points of LaTeX's article and of its font at 10 points, which a table of a paper must not exceed.
_LINE, _TURNED = 345.0, 540.0
_LETTERS = {
    2.78: "ijl.,:;!'|` ",
    3.9: "rstf()[]-\N{FIGURE SPACE}",
    4.5: "cez",
    5.0: "ago0123456789/*\N{EN DASH}",
    5.56: "bdhknpquvxyIJ",
    8.4: "mw%&MW\N{EM DASH}",
}
_WIDTHS = {letter: width for width, letters in _LETTERS.items() for letter in letters}
_OTHER = 7.5
_SIZES = ((1.0, ""), (0.93, r"\small"), (0.86, r"\footnotesize"), (0.8, r"\scriptsize"))
"""Sizes of the text of a table, and the commands for them."""
_BETWEEN, _NARROW, _NAME = 12.0, 6.0, 70.0
"""Usual and narrow width between two columns, and the least width of the names of rows, in points."""


def measure(text: str) -> float:
    """Return about the width of text in points, in LaTeX's font at 10 points."""
    return sum(_WIDTHS.get(letter, _OTHER) for letter in text)


def wrap_cell(text: str, width: float, measured: Callable[[str], float]) -> list[str]:
    """Return a cell as lines of a width, or of its longest piece: it is cut at spaces outside of brackets.

    Examples
    --------
    >>> from dpstats.inference.papers import wrap_cell
    >>> wrap_cell("high dose (n = 1,204)", 10, len)
    ['high dose', '(n = 1,204)']
    """
    indent, name = text[: len(text) - len(text.lstrip(" "))], text.lstrip(" ")
    first, *pieces = re.split(r" (?![^(\[]*[)\]])", name)
    lines = [indent + first]
    for piece in pieces:
        if measured(f"{lines[-1]} {piece}") <= width:
            lines[-1] += f" {piece}"
        else:
            lines.append(indent + piece)
    return lines


def wrap_heads(table: Table, measured: Callable[[str], float]) -> list[list[str]]:
    """Return the header of each column as lines, as narrow as its numbers permit."""
    columns = list(zip(table.columns, *table.rows, strict=True))
    return [wrap_cell(head, max(map(measured, ("", *body))), measured) for head, *body in columns]


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


def _stack(lines: Sequence[str], side: str) -> str:
    """Return the lines of a cell, one above the other."""
    if len(lines) == 1:
        return _latex_name(lines[0])
    inside = r" \\ ".join(map(_latex_name, lines))
    return rf"\shortstack[{side}]{{{inside}}}"


class _Layout(NamedTuple):
    """A table in LaTeX: lines of its headers and of the names of its rows, and what makes it as narrow as a line."""

    heads: list[list[str]]
    names: list[list[str]]
    commands: list[str]
    place: str = "table"


def _fit_line(table: Table) -> _Layout:
    """Return the largest text at which a table fits a line, with cells of several lines where it needs them."""
    names = [row[0] for row in table.rows]
    plain = [[head] for head in table.columns], [[name] for name in names]
    if not table.columns:
        return _Layout(*plain, [])
    bodies = [max(map(measure, ("", *column))) for column in zip(*(row[1:] for row in table.rows), strict=True)]

    def width(heads: list[list[str]], lines: list[list[str]]) -> float:
        first = max(measure(line) for cell in (heads[0], *lines) for line in cell)
        others = zip(heads[1:], bodies or [0.0] * len(heads[1:]), strict=True)
        return first + sum(max(body, *map(measure, head)) for head, body in others)

    if width(*plain) + _BETWEEN * len(table.columns) <= _LINE:
        return _Layout(*plain, [])
    narrow = [rf"\setlength{{\tabcolsep}}{{{_NARROW / 2:g}pt}}"]
    heads = wrap_heads(table, measure)
    for line, place in ((_LINE, "table"), (_TURNED, "sidewaystable")):
        for factor, command in _SIZES:
            space = (line - _NARROW * len(heads)) / factor
            free = space - width([[""], *heads[1:]], [[""]])
            wrapped = [wrap_cell(name, max(free, _NAME), measure) for name in names]
            for layout in (plain, (heads, plain[1]), (heads, wrapped)):
                if width(*layout) <= space:
                    return _Layout(*layout, [*filter(None, [command]), *narrow], place)
    return _Layout(heads, wrapped, [_SIZES[-1][1], *narrow], "sidewaystable")


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
    layout = _fit_line(table)
    head = " & ".join(_stack(lines, "r" if j else "l") for j, lines in enumerate(layout.heads)) + r" \\"
    body = [
        " & ".join([_stack(name, "l"), *map(_latex_number, row[1:])]) + r" \\"
        for name, row in zip(layout.names, table.rows, strict=True)
    ]
    lines = [rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}", r"\toprule", head, r"\midrule"]
    lines += [*(body if table.columns else []), r"\bottomrule", r"\end{tabular}"]
    if caption is None:
        return "\n".join(lines)
    above = [rf"\begin{{{layout.place}}}[htbp]", r"\centering", *layout.commands, r"\begin{threeparttable}"]
    above.append(rf"\caption{{{in_latex(caption)}}}")
    if label is not None:
        above.append(rf"\label{{{label}}}")
    below = [r"\end{threeparttable}", rf"\end{{{layout.place}}}"]
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
