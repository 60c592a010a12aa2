"""The table of limits: what the docstring of every class states, and what random cells show of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from names import packages
from sphinx.util.docutils import SphinxDirective
from stated import list_limits, read_cells

CELLS = Path("tests") / "outside" / "statements" / "measured.md"


class Table(SphinxDirective):
    """``{limits}``: a table for every package."""

    def run(self) -> list[nodes.Node]:
        page = Path(self.env.srcdir) / CELLS
        self.env.note_dependency(str(page))
        cells = read_cells(page.read_text(encoding="utf-8"))
        found = list_limits(packages())
        lines: list[str] = []
        for package in dict.fromkeys(each.package for each in found):
            lines += [f"**`{package}`**", "", "| class | limits | random cells |", "|---|---|---|"]
            for each in found:
                if each.package == package:
                    lines.append(f"| `{each.name}` | {each.words} | {cells.get(each.name, '–')} |")
            lines.append("")
        return [nodes.container("", *self.parse_text_to_nodes("\n".join(lines)), classes=["limits"])]


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("limits", Table)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
