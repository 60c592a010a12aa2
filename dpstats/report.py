"""A self-contained HTML page: text, tables and pictures in one file that opens anywhere."""

from __future__ import annotations

import base64
import html
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1c2430; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
p.lead { color: #4a5666; margin-top: 0; }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid #dde3ea; }
th:first-child { text-align: left; } table.facts td, table.facts th { text-align: left; }
thead th { border-bottom: 2px solid #8a97a8; }
img { max-width: 100%; } pre { background: #f4f6f8; padding: .8rem; overflow-x: auto; font-size: .85rem; }
.dpstats-summary h4 { display: none; } ol, figcaption { color: #4a5666; font-size: .9rem; }
figure { margin: 1rem 0; }
"""


class Page:
    """An HTML page built section by section.

    Examples
    --------
    >>> from dpstats.report import Page
    >>> page = Page("A title", "What it is about.")
    >>> page.section("Part").text("One < two.")
    >>> "One &lt; two." in page.as_html()
    True
    """

    def __init__(self, title: str, lead: str = "") -> None:
        self._title = title
        self._parts = [f"<h1>{html.escape(title)}</h1>", f'<p class="lead">{html.escape(lead)}</p>']

    def section(self, heading: str) -> Page:
        """Start a section."""
        self._parts.append(f"<h2>{html.escape(heading)}</h2>")
        return self

    def text(self, paragraph: str) -> None:
        """Add a paragraph of plain text."""
        self._parts.append(f"<p>{html.escape(paragraph)}</p>")

    def code(self, text: str) -> None:
        """Add text as it would stand in a terminal."""
        self._parts.append(f"<pre>{html.escape(text)}</pre>")

    def table(self, columns: list[str], rows: list[list[str]]) -> None:
        """Add a table of words; the first column names the rows."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        body = "".join(
            "<tr>"
            + "".join(
                f"<{'td' if j else 'th'}>{html.escape(cell)}</{'td' if j else 'th'}>"
                for j, cell in enumerate(row)
            )
            + "</tr>"
            for row in rows
        )
        self._parts.append(
            f'<table class="facts"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        )

    def fragment(self, markup: str) -> None:
        """Add HTML that is already safe, such as a summary's."""
        self._parts.append(markup)

    def picture(self, figure: Figure, caption: str) -> None:
        """Add a matplotlib figure, embedded."""
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=144)
        data = base64.b64encode(buffer.getvalue()).decode("ascii")
        text = html.escape(caption)
        self._parts.append(
            f'<figure><img alt="{text}" src="data:image/png;base64,{data}"><figcaption>{text}</figcaption></figure>'
        )

    def as_html(self) -> str:
        """Return the whole page."""
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(self._title)}</title>'
            f"<style>{_STYLE}</style></head><body>" + "\n".join(self._parts) + "</body></html>\n"
        )
