"""The site, without building it: every page has a place, every public thing an example, and the check sees faults."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import unicodedata
from collections.abc import Callable
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any

import pytest

import dpstats
from dpstats.errors import DPStatsError
from tests import prose

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_site"))
try:
    import check
    from scripts import split_scripts
    from stated import list_contents, list_limits, read_cells
finally:
    sys.path.pop(0)

MARKDOWN = sorted(
    path.relative_to(ROOT).with_suffix("").as_posix()
    for pattern in ("*.md", "docs/**/*.md", "validation/README.md", "validation/results/*.md")
    for path in ROOT.glob(pattern)
    if "_build" not in path.parts and "generated" not in path.parts
)
GALLERY = sorted((DOCS / "gallery").glob("*.py"))


def children(page: str) -> list[str]:
    """Return the pages below one, as its tables of contents have them."""
    text = (ROOT / f"{page}.md").read_text(encoding="utf-8")
    below = [normpath(join(dirname(page), entry)) for entry in list_contents(text)]
    for block in re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if not line or line.startswith(":"):
                continue
            entry = re.sub(r".*<(.*)>", r"\1", line)
            entry = entry.lstrip("/") if entry.startswith("/") else normpath(join(dirname(page), entry))
            below += [other for other in MARKDOWN if fnmatch(other, entry) and other != page]
    return below


def test_every_page_is_once_in_the_contents() -> None:
    placed, waiting = ["docs/index"], ["docs/index"]
    while waiting:
        below = children(waiting.pop())
        placed += below
        waiting += below
    assert sorted(placed) == MARKDOWN


def test_guides_can_be_read_to_their_end() -> None:
    # Words without code and outputs. The references from the texts to the code are no guides.
    guides = [page for page in DOCS.glob("*.md") if page.stem not in ("sources", "errata")]
    words = sum(prose.check(page.name, page.read_text("utf-8"), "")[1][""] for page in guides)
    assert len(guides) > 40 and words <= 28_500


def test_every_proof_is_in_the_index_of_proofs() -> None:
    text = (DOCS / "proofs" / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"\]\(([\w-]+)\.md\)", text)
    pages = {path.stem for path in (DOCS / "proofs").glob("*.md")}
    # The groups have each page once at most, and the list below them has all.
    assert len(listed) == len(set(listed)) > 40 and set(listed) <= pages
    assert ":hidden:" not in text and re.search(r":glob:\n\n\*\n", text)


def is_dated(text: str) -> bool:
    """Return whether the head of a page says when it was measured."""
    return re.search(r"\b20\d\d-\d\d-\d\d\b", "\n".join(text.splitlines()[:15])) is not None


def test_every_page_of_results_is_dated() -> None:
    pages = sorted((ROOT / "validation" / "results").glob("*.md"))
    undated = [page.name for page in pages if not is_dated(page.read_text(encoding="utf-8"))]
    assert len(pages) > 30 and undated == []
    assert is_dated("Measured on 2026-07-28.") and not is_dated("\n" * 15 + "2026-07-28")


def packages() -> list[str]:
    """Return what the reference lists."""
    text = (DOCS / "reference.md").read_text(encoding="utf-8")
    return re.findall(r"^   (dpstats\.[\w.]+)$", text, re.MULTILINE)


def test_the_reference_has_every_package_with_public_names() -> None:
    package = Path(dpstats.__file__).parent
    with_names = {
        "dpstats." + path.relative_to(package).with_suffix("").as_posix().removesuffix("/__init__").replace("/", ".")
        for path in [*package.glob("*.py"), *package.glob("*/__init__.py")]
        if path.name != "__init__.py" or path.parent != package
        if re.search(r"^__all__\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    internal = {"dpstats.lattice"}  # what estimators are made of
    assert with_names - internal <= set(packages())


def test_every_class_that_makes_releases_states_its_limits() -> None:
    found = list_limits(packages())
    assert len(found) > 55 and [each.name for each in found if not each.words] == []
    assert [each.name for each in found if "``" in each.words or "|" in each.words or len(each.words) > 600] == []


def test_random_cells_are_read_by_class() -> None:
    page = (
        "          cells      good as others     false\nA            30        29         0         1\n"
        "B(x)          3         3         0         0\n\n          cells      good     false\n"
        "A             1         1         0\nTable 1       3         2         1\nsurvival, 4 of 7   4   4  0\n"
    )
    assert read_cells(page) == {
        "A": "29 good, 1 false",
        "B(x)": "3 good",
        "CohortTable": "2 good, 1 false",
        "PrivateSurvival": "4 good",
    }
    tried = read_cells((ROOT / "tests" / "outside" / "statements" / "measured.md").read_text(encoding="utf-8"))
    assert len([each for each in list_limits(packages()) if each.name in tried]) > 10


def undocumented(thing: Any) -> str:
    """Return what a public thing lacks: a docstring, or a class an example; empty if nothing."""
    if not thing.__doc__:
        return "has no docstring"
    needs_example = inspect.isclass(thing) and thing is not DPStatsError  # a base that is never raised
    return "has no example" if needs_example and ">>> " not in thing.__doc__ else ""


def test_public_things_have_docstrings_and_classes_examples() -> None:
    modules = [importlib.import_module(package) for package in packages()]
    things = {f"{module.__name__}.{name}": getattr(module, name) for module in modules for name in module.__all__}
    found = {name: undocumented(thing) for name, thing in things.items()}
    assert len(found) > 150 and {name: lack for name, lack in found.items() if lack} == {}


def test_what_lacks_an_example_is_found() -> None:
    assert undocumented(type("A", (), {})) == "has no docstring"
    assert undocumented(type("A", (), {"__doc__": "A."})) == "has no example"


def unindented(text: str) -> list[str]:
    """Return the lines of a docstring that go on with an item of a list, and stand no further in than its bullet."""
    found, bullet = [], None
    for line in text.splitlines():
        inset = len(line) - len(line.lstrip())
        if line.lstrip().startswith("* "):
            bullet = inset
        elif not line.strip():
            bullet = None
        elif bullet is not None and inset <= bullet:
            # A parameter after its list stands further out.
            found += [line.strip()] if inset == bullet else []
            bullet = None
    return found


def broken_returns(text: str) -> list[str]:
    """Return the lines of a section Returns that are shown as a type, and go on with the line above."""
    section = re.search(r"^Returns\n-+\n(.*?)(?=\n\n\S|\Z)", text, re.DOTALL | re.MULTILINE)
    lines = section[1].splitlines() if section else []
    return [
        line for above, line in pairwise(lines) if above[:1].strip() and line[:1].strip() and " : " not in above + line
    ]


def bare_names(text: str) -> list[str]:
    """Return the types of parameters that name an attribute without backquotes: the site takes it for a link."""
    types = re.findall(r"^ *[\w, *]+ : (.*)$", re.sub(r"``.*?``", "", text), re.MULTILINE)
    return [each for each in types if re.search(r"\b[a-z]\w*_(?!\w)", each)]


def broken_lines(pattern: str, find: Callable[[str], list[str]]) -> set[str]:
    """Return the lines that `find` returns for the docstrings of modules with a pattern: most have none."""
    package = Path(dpstats.__file__).parent
    texts = {path: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    return {
        f"{path.relative_to(package)}: {line}"
        for path, text in texts.items()
        if re.search(pattern, text, re.MULTILINE)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        for line in find(ast.get_docstring(node) or "")
    }


def test_items_of_lists_in_docstrings_are_indented() -> None:
    assert unindented("Two:\n\n* one\nline\n* two\n  lines\n\nText.") == ["line"]
    assert broken_lines(r"^\s*\* ", unindented) == set()


def test_types_that_are_returned_stand_on_one_line() -> None:
    assert broken_returns("A.\n\nReturns\n-------\nint, or\nfloat\n    A number.\n") == ["float"]
    assert broken_returns("A.\n\nReturns\n-------\nx : int\ny : int\n") == []
    # Two lines with nothing indented below the first.
    assert broken_lines(r"^ +Returns\n +-+\n( +)\S.*\n\1\S(?!\"\")", broken_returns) == set()


def test_types_name_attributes_in_backquotes() -> None:
    assert bare_names("low_ : the shape of mean_\nhigh_ : the shape of ``mean_``") == ["the shape of mean_"]
    assert broken_lines(r"^ *[\w, *]+ : .*_\b", bare_names) == set()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("e^{−tλ_i} ≤ 1", [("", "e"), ("superscript", "−tλ_i"), ("", " ≤ 1")]),
        ("2^-30 R", [("", "2"), ("superscript", "-30"), ("", " R")]),
        (
            "H_{1/α} = s_j²t_k",
            [("", "H"), ("subscript", "1/α"), ("", " = s"), ("subscript", "j"), ("", "²t"), ("subscript", "k")],
        ),
        ("ℓ_iℓ_j′", [("", "ℓ"), ("subscript", "i"), ("", "ℓ"), ("subscript", "j"), ("", "′")]),
        ("H_α(P)", [("", "H"), ("subscript", "α"), ("", "(P)")]),
        ("x_(n)", [("", "x"), ("subscript", "(n)")]),
        ("replace_one, n_min and mean_", [("", "replace_one, n_min and mean_")]),
    ],
)
def test_powers_and_indices_are_split_and_names_are_not(text: str, parts: list[tuple[str, str]]) -> None:
    assert list(split_scripts(text)) == parts


def italic_indices(paragraph: str) -> list[str]:
    """Return the indices of formulas that Markdown reads as the beginning of italics: `\\_` prevents it."""
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|\\_", lambda match: "x" * len(match[0]), paragraph)
    places = [match.start() for match in re.finditer(r"(?<=\S)_(?=\S)", text)]
    closes = [i for i in places if is_mark(text[i + 1])]
    return [
        paragraph[i - 1 : i + 2]
        for i in places
        if is_mark(text[i - 1]) and text[i - 1] not in '([{"*' and closes and closes[-1] > i + 1
    ]


def is_mark(letter: str) -> bool:
    return unicodedata.category(letter)[0] in "PS"


def test_indices_of_formulas_are_not_italics() -> None:
    assert italic_indices("A = ⊗_{i∈A} P, and x = Σ_{A}") == ["⊗_{"]
    assert italic_indices("A = ⊗\\_{i∈A} P, `′_i` and x = Σ_{A}") == []
    pages = [path for folder in ("proofs", "intervals") for path in (DOCS / folder).glob("*.md")]
    found = {
        f"{path.name}: {index}"
        for path in pages
        for paragraph in re.split(r"\n\s*\n", path.read_text(encoding="utf-8"))
        if not paragraph.startswith("    ")
        for index in italic_indices(paragraph)
    }
    assert found == set()


def test_scripts_of_the_site_share_no_names() -> None:
    # The pages load both: a name that is declared twice ends the second.
    declared = re.findall(
        r"^(?:const|let|var|function) (\w+)",
        "".join(path.read_text(encoding="utf-8") + "\n" for path in DOCS.glob("_s*/*.js")),
        re.MULTILINE,
    )
    assert "PLACES" in declared and len(declared) == len(set(declared))


def is_an_example(path: Path) -> bool:
    """Return whether a file of the gallery compiles, has a question as its title and fetches nothing.

    A figure needs a title, which is its description on the site. Figures of `plot` have one.
    """
    text = path.read_text(encoding="utf-8")
    compile(text, path.name, "exec")
    _, title, line, *_ = text.splitlines()
    asks = path.name.startswith("plot_") and set(line) == {"="} and title.endswith("?")
    titled = "subplots(" not in text or ".set_title(" in text or ".suptitle(" in text
    return asks and titled and "http" not in text  # public data come with the packages


def test_examples_of_the_gallery_are_simulations_with_a_title() -> None:
    assert len(GALLERY) > 3 and [path.name for path in GALLERY if not is_an_example(path)] == []


def site(folder: Path, **pages: str) -> list[str]:
    """Return the faults of a site of these pages."""
    for name, body in pages.items():
        (folder / f"{name}.html").write_text(f'<html lang="en"><body>{body}</body></html>', encoding="utf-8")
    return list(check.problems(folder))


def test_a_right_site_has_no_faults(tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    first = '<h1 id="top">A</h1><h2>B</h2><a href="b.html#place">b</a><img src="a.png" alt="dots"><a href="#top">up</a>'
    assert site(tmp_path, a=first, b='<h1>B</h1><p id="place">C</p><a href="https://x.org/">x</a>') == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<h1>A</h1><a href="c.html">c</a>', "not there"),
        ('<h1>A</h1><a href="#nowhere">c</a>', "no such place"),
        ('<h1>A</h1><script src="https://cdn.org/a.js"></script>', "loads https://cdn.org/a.js"),
        ('<h1>A</h1><link rel="stylesheet" href="//cdn.org/a.css">', "loads //cdn.org/a.css"),
        ('<h1>A</h1><img src="https://x.org/a.png" alt="dots">', "loads https://x.org/a.png"),
        ('<h1>A</h1><img src="a.html">', "no description"),
        ("<h1>A</h1><h3>B</h3>", "level 3 below one of level 1"),
        ("<h2>A</h2>", "0 headings of the first level"),
    ],
)
def test_a_fault_is_found(tmp_path: Path, body: str, fault: str) -> None:
    found = site(tmp_path, a=body)
    assert len(found) == 1 and fault in found[0]


def test_styles_that_load_from_elsewhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("@font-face { src: url(https://fonts.org/a.woff2) }")
    assert site(tmp_path, a="<h1>A</h1>") == ["a.css: loads https://fonts.org/a.woff2"]


def test_a_page_of_the_gallery_without_a_picture_is_found(tmp_path: Path) -> None:
    (tmp_path / "gallery").mkdir()
    found = site(tmp_path / "gallery", plot_nothing="<h1>A</h1>", index="<h1>B</h1>")
    assert found == ["plot_nothing.html: a page of the gallery without a picture"]
