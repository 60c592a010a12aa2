"""Public names are links: in docstrings the role of single backquotes, in Markdown the first mention on a page."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.roles import XRefRole
from sphinx.transforms import SphinxTransform

REFERENCE = Path(__file__).parents[1] / "reference.md"


def packages() -> list[str]:
    """Return the packages that the reference lists."""
    return re.findall(r"^   (dpstats\.[\w.]+)$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)


@cache
def public_names() -> dict[str, str]:
    """Return the whole name of every public thing, by its own."""
    found: dict[str, str] = {}
    for package in packages():
        for name in importlib.import_module(package).__all__:
            found.setdefault(name, f"{package}.{name}")
    return found


class Public(XRefRole):
    """Of a method, the class in which it is mentioned is tried first."""

    def process_link(
        self, env: Any, refnode: Any, has_explicit_title: bool, title: str, target: str
    ) -> tuple[str, str]:
        refnode["refdomain"], refnode["reftype"] = "py", "public"
        refnode["py:module"] = env.ref_context.get("py:module")
        refnode["py:class"] = env.ref_context.get("py:class")
        first, dot, rest = target.partition(".")
        return title, public_names().get(first, first) + dot + rest


class FirstMentions(SphinxTransform):
    """Classes, and names that no ordinary word is: `compose` may be anything, `required_samples` may not."""

    default_priority = 500

    def apply(self, **options: Any) -> None:
        if not str(self.env.doc2path(self.env.docname)).endswith(".md"):
            return
        linked: set[str] = set()
        for node in list(self.document.findall(nodes.literal)):
            name = node.astext()
            whole = name if name in public_names().values() else public_names().get(name, "")
            telling = re.search(r"[A-Z_.]", name)
            if not whole or not telling or whole in linked or not isinstance(node.parent, _PROSE):
                continue
            linked.add(whole)
            link = pending_xref("", node.deepcopy(), refdomain="py", reftype="public", reftarget=whole)
            link["refdoc"] = self.env.docname
            node.replace_self(link)


_PROSE = (nodes.paragraph, nodes.strong, nodes.emphasis, nodes.entry, nodes.term)


def setup(app: Any) -> dict[str, bool]:
    app.add_role("public", Public(innernodeclass=nodes.literal))
    app.add_transform(FirstMentions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
