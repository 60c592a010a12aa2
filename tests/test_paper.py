"""The paper: its parts are made from the results, its references are there, and its example prints what it says."""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path

import numpy as np
import pytest

PAPER = Path(__file__).resolve().parents[1] / "docs" / "paper"
sys.path.insert(0, str(PAPER))
try:
    import make
finally:
    sys.path.pop(0)

TEXT = (PAPER / "paper.tex").read_text(encoding="utf-8")


def test_every_part_that_the_text_asks_for_is_made(tmp_path: Path) -> None:
    made = make.write_parts(tmp_path)
    assert all((tmp_path / name).stat().st_size > 0 for name in made)
    asked = re.findall(r"\\(?:input|includegraphics)\{([^}]+)\}", TEXT)
    assert set(asked) == set(made) - set(make.SOURCES)


def test_references_are_cited_and_there() -> None:
    cited = {name for group in re.findall(r"\\cite\{([^}]+)\}", TEXT) for name in group.split(",")}
    entries = re.findall(r"^@\w+\{(\w+),", (PAPER / "references.bib").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(cited) == sorted(entries)


def test_the_example_prints_what_it_says() -> None:
    example = re.search(r"\\begin\{verbatim\}\n(.*?)\\end\{verbatim\}", TEXT, re.DOTALL).group(1)
    test = doctest.DocTestParser().get_doctest(example, {}, "paper", "paper.tex", 0)
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_tables_have_the_figures_of_the_results() -> None:
    cells = [row for row in make.records("interval_coverage.csv") if row["holds"] == "True"]
    chosen = [float(row["coverage"]) for row in cells if row["estimator"] == "SparseMean"]
    line = f"SparseMean & selected & {len(chosen)} & {np.mean(chosen):.3f} & {min(chosen):.3f} & "
    assert line in make.coverage()
    audits = (make.RESULTS / "audit.md").read_text(encoding="utf-8")
    passed, caught = (audits.count(f"| {word} |") for word in ("passes", "caught"))
    assert f"Right releases & {passed} & 0 " in make.audits()
    assert f"Planted bugs & {caught} & {caught} " in make.audits()
    assert "PrivateLinear" not in make.regressions() and make.regressions().count(r"\\") > 5


def test_special_characters_are_escaped() -> None:
    assert make.in_latex("a_b & 5%") == r"a\_b \& 5\%"


def test_without_latex_the_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    make.main(tmp_path)
    assert "LaTeX is not installed" in capsys.readouterr().out and (tmp_path / "paper.tex").exists()
