"""Forms of results: data frames and dictionaries for machines, and a self-contained HTML page in one file.

A subclass of `Reported` defines ``summary``, a table as text, and ``_records``, the numbers. The rest follows.
"""

from __future__ import annotations

import base64
import contextlib
import html
import importlib.util
import inspect
import io
import os
import re
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpstats import __version__
from dpstats.errors import DPStatsError, refuse, show
from dpstats.inference.papers import Table, html_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Records(NamedTuple):
    """A table of numbers, for machines."""

    names: Sequence[str]  # names of the rows
    columns: Mapping[str, Sequence[Any]]
    facts: Mapping[str, Any]  # facts about all rows

    def as_frame(self) -> Any:
        """Return a data frame of pandas, a row for each name; its ``attrs`` have the facts."""
        try:
            import pandas as pd
        except ImportError:
            raise DPStatsError("a data frame needs pandas: install it, or use to_dict()") from None
        index = pd.Index(list(self.names), dtype=text_kind(self.names))
        columns = {name: pd.Series(cells, index, text_kind(cells)) for name, cells in self.columns.items()}
        frame = pd.DataFrame(columns, index=index)
        frame.attrs.update(self.facts)
        return frame

    def as_dict(self) -> dict[str, Any]:
        """Return the facts and a list of rows, as JSON has them: NaN is None."""
        rows = zip(self.names, *self.columns.values(), strict=True)
        keys = free_names(self.columns, ["name"])
        return {
            **self.facts,
            "rows": [
                {"name": name, **{key: None if cell != cell else cell for key, cell in zip(keys, cells, strict=True)}}
                for name, *cells in rows
            ],
        }


def text_kind(values: Iterable[Any]) -> type | None:
    """Return the type of a column for pandas, whose own text has no lone surrogate; None is its choice."""
    text = (value for value in values if isinstance(value, str))
    return object if any("\ud800" <= letter <= "\udfff" for value in text for letter in value) else None


def free_names(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Return distinct names of columns. Underscores follow a name that is taken or repeated.

    >>> free_names(["low", "city"], taken=["estimate", "low", "high"])
    ['low_', 'city']
    """
    known = set(taken)
    free = []
    for name in names:
        while name in known:
            name += "_"
        known.add(name)
        free.append(name)
    return free


SIMULATED = "Simulated noise, not a private release: random_state was given."

_MOST_ENTRIES = 24
_MOST_CHARACTERS = 300
_WIDE = 700  # pixels

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #4a5666; --line: #d3dae2; --strong: #8a97a8;
  --paper: #ffffff; --panel: #f4f6f8; --warn: #7a2b00; --warn-panel: #fff3e6; --focus: #1f5fa8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #b2bcc9; --line: #38424f; --strong: #7d8a9b;
  --paper: #14181e; --panel: #1d232b; --warn: #ffcf9e; --warn-panel: #3a2410; --focus: #8ab8f0; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 56rem;
  margin: 0 auto; padding: 1.2rem 1rem 3rem; overflow-wrap: break-word; }
h1 { font-size: 1.65rem; line-height: 1.25; margin: .4rem 0 .2rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .4rem; padding-bottom: .2rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.02rem; margin: 1.4rem 0 .3rem; }
p { max-width: 46rem; margin: .5rem 0; } p.lead { color: var(--soft); margin-top: 0; }
p.notice { color: var(--warn); background: var(--warn-panel); border-left: 4px solid var(--warn); padding: .6rem .9rem;
  font-weight: 600; }
.scroll { overflow-x: auto; margin: .6rem 0 1rem; width: fit-content; max-width: 100%;
  background: linear-gradient(to right, var(--paper) 30%, transparent) left / 2rem 100% no-repeat local,
    linear-gradient(to left, var(--paper) 30%, transparent) right / 2rem 100% no-repeat local,
    linear-gradient(to right, var(--line), transparent) left / .6rem 100% no-repeat scroll,
    linear-gradient(to left, var(--line), transparent) right / .6rem 100% no-repeat scroll; }
 .scroll:focus-visible { outline: 2px solid var(--focus); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption.heard { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
caption { text-align: left; color: var(--soft); font-size: .9rem; padding-bottom: .3rem; }
th, td { padding: .28rem .8rem .28rem 0; text-align: right; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; } tbody th { font-weight: 400; }
th:first-child, table.facts th, table.facts td { text-align: left; }
table.facts th { color: var(--soft); font-weight: 400; white-space: nowrap; }
table.numbers td, table.numbers thead th + th { white-space: nowrap; padding-left: .8rem; }
thead th { border-bottom: 2px solid var(--strong); }
figure { margin: 1rem 0; } figure img { max-width: 100%; height: auto; background: #ffffff; border-radius: 4px; }
figure img.wide { min-width: 38rem; }
figcaption, ol.notes { color: var(--soft); font-size: .92rem; } ol.notes { max-width: 46rem; padding-left: 1.4rem; }
ol.notes li { margin: .3rem 0; }
pre { background: var(--panel); padding: .8rem; border-radius: 4px; font-size: .85rem; line-height: 1.45;
  white-space: pre-wrap; overflow-wrap: anywhere; }
footer { margin-top: 2.6rem; padding-top: .6rem; border-top: 1px solid var(--line); color: var(--soft);
  font-size: .88rem; }
@media (max-width: 34rem) { body { font-size: 15px; } h1 { font-size: 1.35rem; }
  table.facts th { white-space: normal; min-width: 6.5rem; }
  table.numbers td, table.numbers thead th + th { padding-left: .3rem; padding-right: .5rem; } }
@media print { :root { color-scheme: light; --ink: #000; --soft: #333; --line: #bbb; --strong: #666; --paper: #fff;
  --panel: #f4f4f4; --warn: #000; --warn-panel: #eee; }
  body { max-width: none; font-size: 10.5pt; padding: 0; } .scroll { overflow: visible; }
  h2, h3 { break-after: avoid; } figure img.wide { min-width: 0; }
  figure, tr, p.notice { break-inside: avoid; } a { color: inherit; } }
"""


@dataclass(frozen=True, slots=True)
class Background:
    """Public facts of a release that a page shows in addition to its summary."""

    guarantee: str = ""  # in plain words, one line each
    simulated: bool = False  # whether the noise was simulated
    asked: Sequence[tuple[str, str]] = field(default=())  # parameters that were given
    defaults: str = ""  # the others, in a line
    plan: str = ""  # released quantities, their noise and their cost


class Reported:
    """Base of the results: a table to read, a data frame, a dictionary, LaTeX, Markdown, and HTML.

    Examples
    --------
    >>> from dpstats.inference.reports import Records, Reported
    >>> from dpstats.inference.results import Summary
    >>> class Count(Reported):
    ...     def summary(self):
    ...         return Summary("Count", [], ["", "count"], [["yes", "71"]])
    ...
    ...     def _records(self):
    ...         return Records(["yes"], {"count": [71]}, {"simulated": True})
    >>> Count().to_dict()
    {'simulated': True, 'rows': [{'name': 'yes', 'count': 71}]}
    >>> print(Count().to_markdown())
    |  | count |
    | --- | ---: |
    | yes | 71 |
    """

    __slots__ = ()

    def summary(self) -> Table:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        raise TypeError(f"{type(self).__name__} does not define summary")

    def _records(self) -> Records:
        """Return the numbers."""
        raise TypeError(f"{type(self).__name__} does not define _records")

    def to_frame(self) -> Any:
        """Return the numbers as a data frame of pandas, a row for each name.

        Its ``attrs`` have the facts about all rows.
        """
        return self._records().as_frame()

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON has them: facts, and a list of rows."""
        return self._records().as_dict()

    def to_latex(self, *, caption: str | None = None, label: str | None = None, notes: bool | None = None) -> str:
        """Return the table of the summary as LaTeX, with every special character escaped.

        It needs the package booktabs, and threeparttable for a caption, a label or notes. Long headers and names of
        rows have several lines. A table that is still too wide for a line is turned, which needs the package rotating.

        Parameters
        ----------
        caption : str, optional
            Caption. Default: the title of the summary, if there is a label or notes.
        label : str, optional
            Label for references, such as "tab:means".
        notes : bool, optional
            Whether notes below the table state the facts of the summary, with the guarantee, and its notes. Default:
            whether there is a caption or a label. Without any of the three, only the tabular is returned.
        """
        return self.summary().to_latex(caption=caption, label=label, notes=notes)

    def to_markdown(self, *, caption: str | None = None, label: str | None = None, notes: bool | None = None) -> str:
        """Return the table of the summary in Markdown.

        Parameters
        ----------
        caption, label, notes
            The same as in `to_latex`.
        """
        return self.summary().to_markdown(caption=caption, label=label, notes=notes)

    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        title: str | None = None,
        caption: str | None = None,
        label: str | None = None,
        notes: bool | None = None,
    ) -> Path | str:
        """Write a self-contained HTML page, or return the table alone as HTML.

        The page has the summary, the guarantee in plain language, parameters and releases. Only released numbers
        and public facts are in it. A picture is, where there is one and matplotlib is installed.

        Parameters
        ----------
        path : path, optional
            The file; one that exists is replaced, whole. Default: no file, and the table is returned.
        title : str, optional
            Title of the page. Default: the title of the summary.
        caption, label, notes
            The same as in `to_latex`, for the table without a page.

        Returns
        -------
        Path or str

        Raises
        ------
        InvalidParameter
            If the file cannot be written.
        """
        if path is None:
            return html_table(self.summary(), caption=caption, label=label, notes=notes)
        return page_of(self, title).write(path)

    def _background(self) -> Background:
        """Return facts for a page in addition to the summary: by default the guarantee, if there is one."""
        for name in ("guarantee", "privacy"):
            guarantee = getattr(self, name, None)
            if guarantee is not None:
                return Background(guarantee.explain(), guarantee.simulated)
        return Background(simulated=getattr(self, "simulated", False))

    def _repr_html_(self) -> str | None:
        return self.summary().as_html()


class Printed(Reported):
    """Base of the results that print as their summary."""

    __slots__ = ()

    def __str__(self) -> str:
        return str(self.summary())

    __repr__ = __str__


@singledispatch
def picture_of(thing: Any) -> tuple[str, Figure] | None:
    """Return a caption and the figure of a release, or None if there is none. Packages register theirs."""
    return None


@singledispatch
def draw(thing: Any, ax: Any = None, **options: Any) -> Any:
    """Draw a result on matplotlib Axes, by default in a new figure, and return them. Packages register theirs."""
    raise TypeError(f"thing must be a result that has a picture, got {type(thing).__name__}. Use its summary()")


@singledispatch
def page_of(thing: Any, title: str | None = None) -> Page:
    """Return the page of an object with a summary."""
    summary, background = thing.summary(), thing._background()
    page = Page(title or summary.title)
    if background.simulated:
        page.notice(SIMULATED)
    page.section("Result").summary(summary, titled=bool(title) and title != summary.title)
    if importlib.util.find_spec("matplotlib") is not None:
        # A picture is an extra: a release whose names cannot be drawn has its page without one.
        try:
            drawn = picture_of(thing)
            if drawn is not None:
                page.picture(drawn[1], drawn[0])
        except Exception as error:
            page.text(f"The picture is left out: it could not be drawn ({type(error).__name__}).")
    if background.guarantee:
        page.section("What this means for privacy")
        # A line that goes on in the next one is joined to it.
        for line in re.sub(r"(?<![.:])\n", " ", background.guarantee).splitlines():
            page.text(line)
    if background.asked or background.defaults:
        page.section("What was asked")
        if background.asked:
            page.table(["parameter", "value"], [list(pair) for pair in background.asked], "Parameters that were given")
        if background.defaults:
            page.text(background.defaults)
    if background.plan:
        page.section("What was released")
        page.code(background.plan)
    return page


def told_parameters(estimator: Any) -> tuple[list[tuple[str, str]], str]:
    """Return the parameters that an estimator was given, and in a line those that have their defaults.

    Neither what draws nor what pays is among them.
    """
    defaults = _describe_defaults(estimator.__class__)
    given, left = [], []
    for name, value in estimator.get_params(deep=False).items():
        if name in ("random_state", "budget"):
            continue
        told = told_value(value)
        if told == defaults.get(name):
            left.append(f"{name} = {told}")
        else:
            given.append((name, told))
    return given, f"At their defaults: {', '.join(left)}." if left else ""


@cache
def _describe_defaults(kind: type) -> dict[str, str]:
    """Return descriptions of the defaults of an estimator's parameters; those without a default are required."""
    stated = inspect.signature(kind.__init__).parameters  # type: ignore[misc]
    return {name: told_value(one.default) for name, one in stated.items() if one.default is not one.empty}


def name_distribution(value: Any) -> str | None:
    """Return the name and the parameters of a frozen distribution of scipy.stats, or None.

    Examples
    --------
    >>> from scipy.stats import norm
    >>> from dpstats.inference.reports import name_distribution
    >>> name_distribution(norm(100, scale=15)), name_distribution("norm")
    ('norm(100, scale=15)', None)
    """
    if not type(value).__module__.startswith("scipy.stats.") or not hasattr(value, "kwds"):
        return None
    from scipy import stats

    # A distribution made from a sample, or by a user, is not described by its name.
    known: Any = getattr(stats, value.dist.name, None)
    if type(known) is not type(value.dist):
        return None
    given = [*map(told_value, value.args), *(f"{key}={told_value(part)}" for key, part in value.kwds.items())]
    return f"{value.dist.name}({', '.join(given)})"


def told_value(value: Any) -> str:
    """Return a description of a parameter: short values in full, long ones by size, objects by type."""
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, str):
        return value
    if hasattr(value, "tolist") and hasattr(value, "shape"):
        if value.size > _MOST_ENTRIES:
            return f"an array, {' x '.join(map(str, value.shape))}"
        plain = value.tolist()
        # A long double stays one.
        return f"{value:.10g}" if type(plain) is type(value) else told_value(plain)
    if (distribution := name_distribution(value)) is not None:
        return distribution
    if isinstance(value, list | tuple | Mapping):
        if len(value) > _MOST_ENTRIES:
            return f"{len(value):,} entries"
        inside = (
            [f"{told_value(key)}: {told_value(item)}" for key, item in value.items()]
            if isinstance(value, Mapping)
            else [told_value(item) for item in value]
        )
        return f"({', '.join(inside)})"
    name = getattr(value, "__qualname__", None)
    text = name if isinstance(name, str) else " ".join(repr(value).split())
    plain = type(value).__name__ if " at 0x" in text else text
    return plain if len(plain) <= _MOST_CHARACTERS else f"{plain[:_MOST_CHARACTERS]}..."


class Page:
    """An HTML page built section by section.

    Examples
    --------
    >>> from dpstats.inference.reports import Page
    >>> page = Page("A title", "What it is about.")
    >>> page.section("Part").text("One < two.")
    >>> "One &lt; two." in page.as_html()
    True
    """

    def __init__(self, title: str, lead: str = "") -> None:
        self._title = title
        self._parts = [f"<h1>{html.escape(title)}</h1>"]
        self._heading = title
        if lead:
            self._parts.append(f'<p class="lead">{html.escape(lead)}</p>')

    def section(self, heading: str) -> Page:
        """Start a section."""
        self._heading = heading
        self._parts.append(f"<h2>{html.escape(heading)}</h2>")
        return self

    def subsection(self, heading: str) -> Page:
        """Start a part of a section."""
        self._heading = heading
        self._parts.append(f"<h3>{html.escape(heading)}</h3>")
        return self

    def text(self, paragraph: str) -> None:
        """Add a paragraph of plain text."""
        self._parts.append(f"<p>{html.escape(paragraph)}</p>")

    def notice(self, paragraph: str) -> None:
        """Add a paragraph that must not be overlooked."""
        self._parts.append(f'<p class="notice" role="note">{html.escape(paragraph)}</p>')

    def code(self, text: str) -> None:
        """Add text as it would stand in a terminal."""
        self._parts.append(f"<pre>{html.escape(text)}</pre>")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> None:
        """Add a table of words; the first column names the rows."""
        self._table("facts", columns, rows, caption)

    def summary(self, summary: Table, *, titled: bool = False) -> None:
        """Add a summary: its facts, its table and its notes; its title, where the page does not say it."""
        if titled:
            self.subsection(summary.title)
        if summary.facts:
            self._table("facts", (), summary.facts, f"{summary.title}: facts", heard=True)
        if summary.columns:
            # Figure spaces are as wide as digits.
            self._table("numbers", summary.columns, summary.aligned("\u2007"), summary.title, heard=True)
        if summary.notes:
            notes = "".join(f"<li>{html.escape(note)}</li>" for note in summary.notes)
            self._parts.append(f'<ol class="notes">{notes}</ol>')

    def _table(
        self, kind: str, columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str, heard: bool = False
    ) -> None:
        """Add a table; a caption that repeats a heading is for those who hear it, and not seen."""
        words, heard = caption or self._heading, heard or not caption
        hidden = ' class="heard"' if heard else ""
        head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in columns)
        body = "".join(
            f'<tr><th scope="row">{html.escape(row[0])}</th>'
            + "".join(f"<td>{html.escape(cell)}</td>" for cell in row[1:])
            + "</tr>"
            for row in rows
        )
        # Content wider than a phone scrolls separately, by the keyboard too.
        self._parts.append(
            f'<div class="scroll" role="region" aria-label="{html.escape(words)}" tabindex="0">'
            f'<table class="{kind}"><caption{hidden}>{html.escape(words)}</caption>'
            + (f"<thead><tr>{head}</tr></thead>" if any(columns) else "")
            + f"<tbody>{body}</tbody></table></div>"
        )

    def picture(self, figure: Figure, caption: str) -> None:
        """Add a matplotlib figure, embedded."""
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=144)
        data = base64.b64encode(buffer.getvalue()).decode("ascii")
        text = html.escape(caption)
        width, height = (round(96 * length) for length in figure.get_size_inches())
        # Two panels side by side could not be read on a phone: they scroll.
        wide = ' class="wide"' if width > _WIDE else ""
        image = f'<img{wide} alt="{text}" width="{width}" height="{height}" src="data:image/png;base64,{data}">'
        if wide:
            image = f'<div class="scroll" role="region" aria-label="picture" tabindex="0">{image}</div>'
        self._parts.append(f"<figure>{image}<figcaption>{text}</figcaption></figure>")

    def _repr_html_(self) -> str:
        # In a frame, so that the styles of the page do not change the notebook.
        return (
            f'<iframe title="{html.escape(self._title)}" srcdoc="{html.escape(self.as_html())}" '
            'style="width: 100%; height: 40em; border: 0"></iframe>'
        )

    def as_html(self) -> str:
        """Return the whole page."""
        written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        return (
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{html.escape(self._title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
            + "\n".join(self._parts)
            + f"\n</main>\n<footer>Written by dpstats {html.escape(__version__)} on {written}.</footer>"
            "\n</body>\n</html>\n"
        ).replace("\0", "\N{REPLACEMENT CHARACTER}")

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file atomically: until then, an earlier file stays complete.

        Raises
        ------
        InvalidParameter
            If the file cannot be written.
        """
        reason = "it has a null character" if "\0" in os.fsdecode(path) else None
        if reason is None:
            try:
                # A lone surrogate, which is not a character, becomes a question mark.
                _replace_file(Path(os.path.realpath(path)), self.as_html().encode("utf-8", "replace"))
            except OSError as error:
                reason = error.strerror or type(error).__name__
            except UnicodeError:
                reason = "the file system has no such name"
        if reason is not None:
            got = f"{show(os.fspath(path))} ({reason})"
            raise refuse("path", got=got, allowed="name a file that can be written")
        return Path(path)


def _replace_file(target: Path, content: bytes) -> None:
    """Write a file atomically: until then, an earlier file stays complete."""
    if target.exists() and not target.is_file():
        # A folder, which is an error; or a device or a pipe, which cannot be replaced.
        target.write_bytes(content)
        return
    beside = target.with_name(f".{target.name}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        with open(beside, "xb") as file:
            if target.exists():
                # Who could not read the page before cannot read the new one.
                os.chmod(beside, stat.S_IMODE(target.stat().st_mode))
            file.write(content)
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
