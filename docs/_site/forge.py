"""Pages are read on a forge, too: what a link or a file's name means there, it means on the site.

A link to a folder shows that folder on a forge, and here its index. A link to a script of the gallery leads to its
page. A page that is mentioned by its file's name becomes a link. A page with the comment `<!-- contents -->` has the
pages that it links in its table of contents.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.transforms import SphinxTransform
from stated import CONTENTS, list_contents

_LINK = re.compile(r"(?<=\]\()[^)#:\s]+(?=\))")
_PAGE = re.compile(r"(?<![\w./-])(?:[\w.-]+/)*[\w-]+\.md\b")


def page_of(target: str, root: Path) -> str:
    """Return the source of the page that a path from the root stands for."""
    if normpath(target) == "docs/gallery":
        return "docs/generated/gallery/index.rst"
    if target.startswith("docs/gallery/"):
        return target.replace("docs/gallery/", "docs/generated/gallery/").removesuffix(".py") + ".rst"
    for index in ("index.md", "README.md"):
        if (root / target / index).is_file():
            return join(target, index)
    return target


def _relink(app: Any, docname: str, source: list[str]) -> None:
    """Before a page is parsed: links to folders and scripts."""
    root, folder = Path(app.srcdir), dirname(docname)

    def replaced(match: re.Match[str]) -> str:
        target = normpath(join(folder, match[0]))
        page = page_of(target, root)
        return match[0] if page == target else f"/{page}"

    if app.env.doc2path(docname).suffix == ".md":
        tree = "\n".join(["```{toctree}", ":hidden:", "", *list_contents(source[0]), "```"])
        # Doctest needs an empty line below an output, and a block would show it.
        text = re.sub(r"\n+(?=\n```$)", "", source[0], flags=re.MULTILINE)
        source[0] = _LINK.sub(replaced, text).replace(CONTENTS, tree)


class Mentions(SphinxTransform):
    """After a page or a docstring is parsed: files that it names, from its folder, the root, or among results."""

    default_priority = 500

    def apply(self, **options: Any) -> None:
        page = self.env.docname
        if not page.startswith("docs/generated/api/") and not str(self.env.doc2path(page)).endswith(".md"):
            return
        for node in list(self.document.findall(nodes.Text)):
            if not _inside(node, nodes.reference, pending_xref, nodes.literal_block, nodes.title, nodes.raw):
                self._link(node)

    def _link(self, node: nodes.Text) -> None:
        whole = node.parent if isinstance(node.parent, nodes.literal) else node
        parts: list[nodes.Node] = []
        end = 0
        for match in _PAGE.finditer(node):
            found = self._found(match[0])
            if not found or (whole is not node and match[0] != node):
                continue
            parts += [nodes.Text(node[end : match.start()])] if match.start() > end else []
            inner = nodes.literal("", match[0]) if whole is not node else nodes.Text(match[0])
            link = pending_xref("", inner, refdomain="std", reftype="doc", reftarget=f"/{found}")
            link["refdoc"], link["refexplicit"], link["refwarn"] = self.env.docname, True, True
            parts.append(link)
            end = match.end()
        if parts:
            whole.parent.replace(whole, parts + ([nodes.Text(node[end:])] if end < len(node) else []))

    def _found(self, name: str) -> str:
        here = self.env.docname
        folder = dirname(here)
        for path in (join(folder, name), name, join(folder, "results", name)):
            docname = normpath(path).removesuffix(".md")
            if docname in self.env.found_docs and docname != here:
                return docname
        return ""


def _inside(node: nodes.Node, *kinds: type[nodes.Node]) -> bool:
    parent = node.parent
    while parent is not None:
        if isinstance(parent, kinds):
            return True
        parent = parent.parent
    return False


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _relink)
    app.add_transform(Mentions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
