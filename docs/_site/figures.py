"""Pictures of the gallery: the figures that an example holds, or the axes of them, each with a title."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

_SAVED: WeakSet[Figure] = WeakSet()


def title_of(figure: Figure) -> str:
    """Return the title of a figure."""
    titles = [figure.get_suptitle(), *(axis.get_title() for axis in figure.axes)]
    title = next((title for title in titles if title), "")
    if not title:
        raise ValueError("a figure of the gallery has no title: who cannot see it has nothing else")
    return title


def scraper(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Return the markup of the figures that a block of an example made, and save them."""
    shown = []
    for value in list(block_vars["example_globals"].values()):
        figure = value.figure if isinstance(value, Axes) else value
        if not isinstance(figure, Figure) or figure in _SAVED:
            continue
        _SAVED.add(figure)
        path = next(block_vars["image_path_iterator"])
        figure.savefig(path, dpi=120)
        shown.append(figure_rst([path], gallery_conf["src_dir"], title_of(figure)))
    return "".join(shown)


def setup(app: Any) -> dict[str, bool]:
    return {"parallel_read_safe": True, "parallel_write_safe": True}
