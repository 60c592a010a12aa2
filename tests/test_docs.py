"""The written word is true: links lead somewhere, the README's example runs and prints what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "validation").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_named_files_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert not target.startswith("http"), f"{page.name} links outside: {target}"
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"
    for name in re.findall(r"`((?:dpstats|tests|validation|docs)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), f"{page.name} names {name}, which is not there"


def test_readme_example_prints_what_it_says() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    stated = re.search(r"```text\n(.*?)```", text, re.DOTALL).group(1)
    assert len(code.splitlines()) <= 10
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})

    def fixed(output: str) -> list[str]:
        # Exact noise differs every time: compare all but the row of estimates, the figures in the
        # notes, and how text is wrapped.
        lines = output[: output.index("mdvis")] + output[output.index("[1]") :]
        return [re.sub(r"\d\.\d+ of", "... of", word) for word in " ".join(lines.split()).split(". ")]

    assert fixed(printed.getvalue()) == fixed(stated)


def test_readme_commands_are_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make ([a-z]+)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target} is not a target"


def test_the_project_names_no_machine() -> None:
    for page in PAGES:
        assert not re.search(r"/(root|home|work)/", page.read_text(encoding="utf-8"))
