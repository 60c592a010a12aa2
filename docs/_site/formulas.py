"""Powers and indices in pages: 2^b, e^{-x} and s_j become superscripts and subscripts.

Files keep the plain text, which a forge shows.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from scripts import SCRIPT, split_scripts
from sphinx.transforms import SphinxTransform


def _parts(text: str) -> list[nodes.Node]:
    found: list[nodes.Node] = []
    for kind, part in split_scripts(text):
        if kind:
            found.append(getattr(nodes, kind)("", "", *_parts(part)))
        else:
            found.append(nodes.Text(part))
    return found


class Scripts(SphinxTransform):
    """After a page is parsed: its text and its displayed formulas, but no code."""

    default_priority = 510

    def apply(self, **options: Any) -> None:
        page = self.env.docname
        if not page.startswith("docs/") or page.startswith("docs/generated/"):
            return
        for text in list(self.document.findall(nodes.Text)):
            parent = text.parent
            code = isinstance(parent, nodes.literal | nodes.raw | nodes.title)
            # Indented blocks are formulas; blocks with a language are code.
            code |= isinstance(parent, nodes.literal_block) and parent.get("language", "none") != "none"
            if not code and SCRIPT.search(text):
                parent.replace(text, _parts(text))


def setup(app: Any) -> dict[str, bool]:
    app.add_transform(Scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
