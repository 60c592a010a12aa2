"""The table of measured results: every page of validation/results, its date, and the command that makes it again.

The date is the page's own; everything else is in the table of validation/README.md.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

KINDS = {
    "studies": "What the theory says, by simulation",
    "real": "On real, public rows",
    "benchmarks": "Time and memory",
    "peers": "Other libraries",
    "searches": "Constants, and attacks on proofs",
    "mutants": "Whether the tests would notice",
}


class Measured(NamedTuple):
    """A page of results."""

    kind: str
    page: str
    title: str
    date: str
    shows: str
    command: str


def measured(validation: Path) -> list[Measured]:
    """Return all pages of results, in the order of the table."""
    found = []
    for line in (validation / "README.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        pages = re.findall(r"^`([\w-]+\.md)`", cells[3]) if len(cells) == 5 else []
        if not pages:
            continue
        script, shows, command = cells[:3]
        text = (validation / "results" / pages[0]).read_text(encoding="utf-8")
        dates = re.findall(r"\b20\d\d-\d\d-\d\d\b", "\n".join(text.splitlines()[:15]))
        title = text.splitlines()[0].removeprefix("# ")
        kind = script.strip("`").split("/")[0]
        found.append(Measured(kind, pages[0], title, max(dates, default=""), shows, command))
    return found


class Table(SphinxDirective):
    """``{measured}``: a table for every kind of script."""

    def run(self) -> list[nodes.Node]:
        root = Path(self.env.srcdir)
        self.env.note_dependency(str(root / "validation" / "README.md"))
        pages = measured(root / "validation")
        lines: list[str] = []
        for kind, words in KINDS.items():
            lines += [f"**{words}**", "", "| what it shows | measured | made by |", "|---|---|---|"]
            lines += [
                f"| [{page.title}](/validation/results/{page.page}): {page.shows} | {page.date} | {page.command} |"
                for page in pages
                if page.kind == kind
            ]
            lines.append("")
        return [nodes.container("", *self.parse_text_to_nodes("\n".join(lines)), classes=["measured"])]


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("measured", Table)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
