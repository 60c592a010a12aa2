"""The documentation site: `make docs` builds it into docs/_build/html, without a network.

The source folder is the repository's root, not docs/. Pages link to results and to each other by the paths that a
forge follows, so the site needs the same paths.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent), str(DOCS / "_site")]

import dpstats  # noqa: E402

project = "dpstats"
author = "the dpstats developers"
copyright = "the dpstats developers, BSD-3-Clause"
version = release = dpstats.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
    "limits",
    "names",
    "figures",
    "forge",
    "formulas",
    "measured",
]

root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "validation/README.md", "validation/results/*.md"]
# Folders without pages are named so that they are not walked through.
exclude_patterns = [
    ".*",
    "build",
    "dist",
    "demo-output",
    "dpstats",
    "tests",
    "**/__pycache__",
    "docs/_*",
    "docs/gallery",
]
templates_path = [str(DOCS / "_templates")]

smartquotes = False  # text in quotes is usually code

# Markdown: anchors of headings as a forge makes them.
myst_heading_anchors = 4

# Names in single backquotes of docstrings: links where they are public, code where they are not.
default_role = "public"
add_function_parentheses = False
toc_object_entries_show_parents = "hide"
maximum_signature_line_length = 90

autosummary_generate = True
autosummary_ignore_module_all = False
autosummary_imported_members = True
autodoc_typehints = "none"  # docstrings describe the types
numpydoc_show_class_members = False

nitpicky = True
nitpick_ignore_regex = [
    ("py:public", r".*"),
    ("py:.*", r"(numpy|scipy|sklearn|pandas|matplotlib|statsmodels|joblib)\..*"),
]

sphinx_gallery_conf = {
    "examples_dirs": str(DOCS / "gallery"),
    "gallery_dirs": "docs/generated/gallery",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("figures.scraper",),
    "capture_repr": (),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 3600,  # seconds: how long an example took is nobody's question
    "notebook_extensions": set(),
    "write_computation_times": False,
    "reset_modules": (),
}

html_theme = "pydata_sphinx_theme"
html_title = f"dpstats {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["breaks.js", "copy.js"]
html_context = {"default_mode": "auto"}
html_additional_pages = {"index": "redirect.html"}
html_show_sourcelink = False
html_copy_source = False
html_search_scorer = str(DOCS / "_site" / "scorer.js")
html_sidebars = {root_doc: []}


def _is_wide(page: Path) -> bool:
    """Return whether a page has a table of seven columns or more."""
    return any(line.startswith("|") and line.count("|") > 7 for line in page.read_text("utf-8").splitlines())


WIDE = ["docs/comparison", "docs/limits"] + [
    f"validation/results/{page.stem}"
    for page in sorted((DOCS.parent / "validation" / "results").glob("*.md"))
    if _is_wide(page)
]
html_theme_options = {
    "logo": {"text": "dpstats"},
    "header_links_before_dropdown": 8,
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    # The landing page, and a page of wide tables, have the room of the contents.
    "secondary_sidebar_items": {"**": ["page-toc"], **{page: [] for page in (root_doc, *WIDE)}},
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
}


def _not_ours(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what a class inherits from elsewhere: it is documented there."""
    module = getattr(getattr(thing, "fget", thing), "__module__", None) or "dpstats"
    return None if module.startswith("dpstats") else True


def setup(app: Any) -> None:
    app.connect("autodoc-skip-member", _not_ours)
