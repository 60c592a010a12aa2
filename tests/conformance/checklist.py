"""What a release needs, and what of it is there: `python -m tests.conformance.checklist dpstats.means.ClippedMean`.

A class without an entry, or one that is not written yet, gets the same list with the file where each thing belongs.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "conformance"))


class Item(NamedTuple):
    """One thing that a release needs: where it belongs, and what is there of it."""

    name: str
    there: bool
    where: str
    needed: bool = True

    def __str__(self) -> str:
        mark = "x" if self.there else " " if self.needed else "-"
        return f"[{mark}] {self.name:<14} {self.where}"


def find_class(path: str) -> Any:
    """Return a class by its full name; None if it is not there."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError:
        return None


def mentions(name: str, *files: Path) -> str:
    """Return the first file that has a name as a word, and its line; empty if none has."""
    for file in files:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(rf"\b{name}\b", line):
                return f"{file.relative_to(ROOT)}:{number}"
    return ""


PROOF_WORDS = ("neighbors", "sensitivity", "theorem", "floating point")


def list_unsaid(text: str) -> list[str]:
    """Return which words of a proof page a text does not have."""
    return [word for word in PROOF_WORDS if word not in text.lower()]


def snake(name: str) -> str:
    """Return a class's name as that of a file."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removeprefix("Private")).lower()


def items(path: str) -> Iterator[Item]:
    """Yield what a class needs, in the order in which it is written."""
    from registry import ENTRIES
    from registry.entry import traits_of
    from registry.search import stages_of

    package, _, name = path.rpartition(".")
    folder, kind, file = ROOT / package.replace(".", "/"), find_class(path), snake(name)
    own = [entry for entry in ENTRIES if entry.covers is kind and kind is not None]
    code = Path(sys.modules[kind.__module__].__file__ or "") if kind else folder / f"{file}.py"
    yield Item("code", kind is not None, str(code.relative_to(ROOT)))
    exported = name in getattr(sys.modules.get(package), "__all__", ())
    yield Item("public name", exported, f"{folder.relative_to(ROOT)}/__init__.py, __all__")
    proofs = ROOT / "docs" / "proofs"
    pages = sorted({entry.proof for entry in own}) or [f"{file}.md"]
    texts = [(proofs / page).read_text(encoding="utf-8") for page in pages if (proofs / page).exists()]
    where, named = ", ".join(f"docs/proofs/{page}" for page in pages), str(code.relative_to(ROOT))
    told = named in "".join(texts) and not any(map(list_unsaid, texts))
    yield Item("proof page", told, f"{where}, which names {named} and says {', '.join(PROOF_WORDS)}")
    files = sorted({entry.file for entry in own}) or [file]
    where = ", ".join(f"tests/conformance/registry/{place}.py" for place in files)
    yield Item("registry entry", bool(own), where)
    measured = [entry for entry in own if stages_of(entry)]
    yield Item("brute force", bool(measured), f"its integers and pairs: {listed(measured)}")
    bugs = [f"{entry.name}: {bug.name}" for entry in own for bug in (*entry.bugs, *entry.understated)]
    yield Item("planted bug", any(entry.bugs for entry in own), f"its bugs: {listed(bugs)}")
    public = [entry for entry in own if entry.public is not None]
    excused = traits_of(kind).excused.get("exact audit", "") if kind else ""
    yield Item("audit", bool(public), excused or f"its dataset, neighbor, draw and public: {listed(public)}")
    guides = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent != proofs]
    found = mentions(name, *guides)
    yield Item("docs line", bool(found), found or "docs/which-method.md, or a guide", needed=False)
    for word, page in (("README line", "README.md"), ("changelog line", "CHANGELOG.md")):
        yield Item(word, bool(found := mentions(name, ROOT / page)), found or page)
    found = mentions(name, ROOT / "docs" / "stable-names.txt")
    added = "docs/stable-names.txt, by `python tests/stable.py --add` when a version is released"
    yield Item("stable name", bool(found), found or added, needed=False)


def listed(things: list[Any]) -> str:
    """Return the first of some names, and how many there are."""
    names = [getattr(thing, "name", thing) for thing in things]
    return f"{names[0]!r}" + (f" and {len(names) - 1} more" if len(names) > 1 else "") if names else "none yet"


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or "." not in arguments[0]:
        print("Name one class with its package, such as dpstats.means.ClippedMean.")
        return 2
    found = list(items(arguments[0]))
    print("\n".join(map(str, found)))
    left = [item.name for item in found if item.needed and not item.there]
    print(f"\nMissing: {', '.join(left)}." if left else "\nNothing that a release needs is missing.")
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
