"""Check a build of the site: python docs/_site/check.py docs/_build/html

Every link and anchor leads somewhere, nothing is loaded from elsewhere, pictures are described, headings are in
order. Pages are read as files, which is how they are looked at.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Resources that a browser fetches without a click.
LOADED = {"script", "img", "link", "source", "iframe", "video", "audio", "object", "embed"}


@dataclass
class Page(HTMLParser):
    """What matters of a page: its anchors, and where it leads."""

    anchors: set[str] = field(default_factory=set)
    links: list[tuple[str, str]] = field(default_factory=list)  # tag, target
    headings: list[int] = field(default_factory=list)
    undescribed: list[str] = field(default_factory=list)
    language: str | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "html":
            self.language = given.get("lang")
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        # A thumbnail of the gallery is next to the title of its page.
        if tag == "img" and not given.get("alt") and not given.get("src", "").endswith("_thumb.png"):
            self.undescribed.append(given.get("src", ""))
        for name in ("href", "src", "data"):
            if name in given and not (name == "data" and tag != "object"):
                self.links.append((tag, given[name]))
        for candidate in given.get("srcset", "").split(","):
            if candidate.strip():
                self.links.append((tag, candidate.split()[0]))


def read(path: Path) -> Page:
    """Return the anchors, links and pictures of a page."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def problems(root: Path) -> Iterator[str]:
    """Yield the errors in the pages and styles below a folder."""
    # Pages below _static are templates of the theme.
    found = (path for path in sorted(root.rglob("*.html")) if "_static" not in path.parts)
    pages = {path.resolve(): read(path) for path in found}
    if not pages:
        yield f"{root} has no pages"
    for path, page in pages.items():
        name = path.relative_to(root.resolve())
        for tag, target in page.links:
            wrong = _wrong(path, tag, target, pages)
            if wrong:
                yield f"{name}: {wrong}"
        if not page.language:
            yield f"{name}: the page does not say its language"
        for source in page.undescribed:
            yield f"{name}: no description of the picture {source}"
        if path.parent.name == "gallery" and path.stem.startswith("plot_") and "img" not in dict(page.links):
            yield f"{name}: a page of the gallery without a picture"
        yield from (f"{name}: {wrong}" for wrong in _headings(page.headings))
    for path in sorted(root.rglob("*.css")):
        for target in re.findall(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)", path.read_text("utf-8")):
            yield f"{path.relative_to(root)}: loads {target}"


def _wrong(path: Path, tag: str, target: str, pages: dict[Path, Page]) -> str:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        outside = parts.netloc or parts.scheme in {"http", "https"}
        return f"loads {target}" if outside and tag in LOADED else ""
    there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not there.is_file():
        return f"leads to {target}, which is not there"
    if parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].anchors:
        return f"leads to {target}, which has no such place"
    return ""


def _headings(levels: list[int]) -> Iterator[str]:
    if levels.count(1) != 1:
        yield f"{levels.count(1)} headings of the first level"
    for before, after in pairwise(levels):
        if after > before + 1:
            yield f"a heading of level {after} below one of level {before}"


def main(folder: str) -> int:
    """Print the errors; return 1 if there are any."""
    found = list(problems(Path(folder)))
    print("\n".join(found) if found else f"{folder}: links, pictures and headings are right")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
