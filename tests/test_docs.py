"""The written word is true: links lead somewhere, the README's example runs and prints what it says."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dpstats import groups, means, mechanisms, quantiles, queries, regression, tables, textbook
from dpstats.cli import main
from tests.pages import has_examples, rewritten

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "validation").rglob("*.md")])
WITH_EXAMPLES = [page for page in PAGES if page.name != "README.md" and has_examples(page.read_text(encoding="utf-8"))]


def faults(page: Path) -> list[str]:
    """Return the links of a page that lead outside or nowhere, and the files that it names and that are absent."""
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)\)", text)
    named = re.findall(r"`((?:dpstats|tests|validation|docs)/[\w./-]+)`", text)
    return [
        *(f"links outside: {target}" for target in links if target.startswith("http")),
        *(f"links to {target}, which is not there" for target in links if not (page.parent / target).exists()),
        *(f"names {name}, which is not there" for name in named if not (ROOT / name).exists()),
        *(f"links to {link}, which is no heading" for link in links_without_heading(page, text)),
    ]


def links_without_heading(page: Path, text: str) -> list[str]:
    """Return the links of a page to headings that are not there."""
    found = []
    for target, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", text):
        other = (page.parent / target).resolve() if target else page
        if not other.exists() or anchor not in anchors(other):
            found.append(f"{target}#{anchor}")
    return found


@cache
def anchors(page: Path) -> set[str]:
    """Return what links call the headings of a page."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return set(map(_anchor, re.findall(r"^#+ (.*)$", text, re.MULTILINE)))


def test_links_lead_somewhere_and_named_files_exist() -> None:
    found = {str(page.relative_to(ROOT)): faults(page) for page in PAGES}
    assert len(found) > 100 and {page: wrong for page, wrong in found.items() if wrong} == {}


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Here it is\n\n[a](#here-it-is) [b](#there) [c](c.md) [d](c.md#e) [f](http://f) `docs/g.md`\n")
    assert faults(page) == [
        "links outside: http://f",
        "links to c.md, which is not there",
        "links to http://f, which is not there",
        "names docs/g.md, which is not there",
        "links to #there, which is no heading",
        "links to c.md#e, which is no heading",
    ]


def test_readme_example_prints_what_it_says() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    stated = re.search(r"```text\n(.*?)```", text, re.DOTALL).group(1)
    assert len(code.splitlines()) <= 10
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})

    def fixed(output: str) -> str:
        # Exact noise differs every time: compare all but the estimate and its limits.
        return re.sub(r"\d+\.\d\d (?=visits|to)|(?<=to )\d+\.\d\d", "... ", output)

    assert fixed(printed.getvalue()) == fixed(stated)


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_of_pages_print_what_they_say(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    assert rewritten(text, page.name) == text  # else: python tests/pages.py, and the page


def test_an_example_that_prints_something_else_is_noticed() -> None:
    page = "Text.\n\n    >>> for x in (1, 2):\n    ...     print(x)\n    1\n    3\n\nMore.\n"
    assert rewritten(page, "page") == page.replace("3", "2")


def test_a_script_is_followed_by_what_it_prints_and_shares_its_names() -> None:
    page = "```python\nx = 2\nprint(x)\n```\n\n```text\n3\n```\n\n```python\nx += 1\n```\n\n>>> x\n3\n"
    assert rewritten(page, "page") == page.replace("3\n```", "2\n```")


def test_a_console_runs_its_commands_and_shows_their_refusals() -> None:
    command = "$ dpstats plan mean --rows 10 --columns 1 --bounds 0 1 --epsilon -1"
    made = rewritten(f"```console\n{command}\n```\n", "page")
    assert made.startswith(f"```console\n{command}\n") and "epsilon must be" in made
    assert rewritten(made, "page") == made
    with pytest.raises(ValueError, match="only dpstats"):
        rewritten("```console\n$ ls\n```\n", "page")


@pytest.mark.parametrize(("printed", "kept"), [("mean  12.5", True), ("mean  1e-3", True), ("mode  12.5", False)])
def test_of_exact_noise_only_figures_may_differ(printed: str, kept: bool) -> None:
    page = f">>> print({printed!r})  # yours will differ\nmean 2.84\n"
    assert (rewritten(page, "page") == page) is kept
    assert rewritten(page.replace("  # yours will differ", ""), "page") != page


def _anchor(heading: str) -> str:
    """Return what a forge calls a heading in a link."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading.strip()).lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def rows_needed() -> Iterator[tuple[str, int]]:
    """Return the fewest rows of each estimator in docs/rows-needed.md, by bisection over its plans."""

    def fewest(estimator: Any, enough: Callable[[int], bool], low: int = 2, high: int = 2**27) -> tuple[str, int]:
        return type(estimator).__name__, bisect_left(range(high), True, low, key=enough)

    for kind in (means.ClippedMean, means.PrivateVariance):
        yield kind.__name__, means.required_samples(kind(bounds=(-5, 5)), 1, 0.05**2, std=1.0)
    yield "PrivateProportion", means.required_samples(tables.PrivateProportion(), 1, 0.01**2)
    a = means.AdaptiveMean(bound=100, std=1.0)
    yield fewest(a, lambda n: a.plan(n, 1).expected_error() <= 0.05**2, 400, 2_000)
    s = means.SparseMean(n_nonzero=10, clip=5.0, std=1.0)
    yield fewest(s, lambda n: (p := s.plan(n, 1_000)).finds_signals and p.expected_error() <= 10 * 0.05**2, 400, 10_000)
    q = quantiles.PrivateQuantile(bounds=(0, 1e6))
    yield fewest(q, lambda n: 0.25 / n + (q.plan(n).rank_error / n) ** 2 <= 0.01**2, 100)
    d = quantiles.PrivateDistribution(bounds=(0, 1), bins=64, delta=1e-6)
    yield fewest(d, lambda n: d.plan(n).band_half_width(0.95) <= 0.02, 4_612, 10_000)
    g = groups.GroupMeans(groups=range(5), bounds=(-5, 5), delta=0)
    yield fewest(g, lambda n: 1 / n + g.plan(10_000, 1).mean_noise(n)[0] ** 2 <= 0.1**2)
    t = tables.ContingencyTable(levels=[range(3), range(3)])
    yield fewest(t, lambda n: 0.25 / n + t.plan(n, 2).cell_noise.variance / n**2 <= 0.01**2)
    for name in ("PrivateLinear", "PrivateLogistic", "SufficientStatistics", "FunctionalMechanism"):
        linear = {} if name == "PrivateLogistic" else {"y_bounds": (-5, 5)}
        home = textbook if name == "FunctionalMechanism" else regression
        r = getattr(home, f"{name}Regression")(x_bounds=(-5, 5), **linear)
        yield fewest(r, lambda n, r=r: r.plan(n, 10).noise_ratio <= 0.5, 100)
    w = queries.WorkloadAnswers(domain={name: range(4) for name in "abcde"}, workload=2)
    yield fewest(w, lambda n: w.plan(n).expected_l1 <= 0.02)
    o = textbook.OnlineMultiplicativeWeights(n_queries=100)
    yield fewest(o, lambda n: o.plan(n, 64).error_bound <= 0.1, 1_000)
    # PrivateSQL has the noise of a count, and so the rows of the mechanism.
    m = mechanisms.LaplaceMechanism(1.0, 1.0)
    yield "PrivateSQL", fewest(m, lambda n: round(m.error_bound(0.05)) <= 0.01 * n)[1]


def test_the_table_of_methods_has_the_rows_that_plans_need() -> None:
    text = (ROOT / "docs" / "rows-needed.md").read_text(encoding="utf-8")
    table = [line.split("|") for line in text.splitlines() if line.startswith("| ")]
    found = dict(rows_needed())
    assert len(found) == 16
    for estimator, rows in found.items():
        (cells,) = (cells for cells in table if f"`{estimator}`" in cells[1])
        assert cells[2].split()[0] == f"{rows:,}"


FIGURE = re.compile(r"(?<![\w.])\d[\d,.]*(?:e[-+]?\d+)?")


def _figures(text: str) -> set[str]:
    # Some results omit the zero before a decimal point.
    text = re.sub(r"(?<![\w.])\.(?=\d)", "0.", text)
    return {figure.strip(".,") for figure in FIGURE.findall(text)}


def test_the_figures_of_the_comparison_are_those_of_the_results_that_it_links() -> None:
    page = ROOT / "docs" / "comparison.md"
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    measured = [row for row in rows if "](../validation/" in row]
    for row in measured:
        (result,) = re.findall(r"\]\((\.\./validation/results/\w+\.md)\)", row)
        known = _figures((page.parent / result).read_text(encoding="utf-8"))
        stale = _figures(re.sub(r"`[^`]*`|\([^)]*\.md\)", "", row)) - known
        assert not stale, f"{row}: {stale} are not in {result}: measured anew?"
    assert len(measured) == 18


def test_the_example_in_r_runs(tmp_path: Path) -> None:
    script = ROOT / "docs" / "reticulate.R"
    rscript = shutil.which("Rscript")
    if rscript is None:
        pytest.skip("Rscript is not installed")
    environment = {**os.environ, "RETICULATE_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    library = [rscript, "-e", "library(reticulate)"]
    if subprocess.run(library, capture_output=True, check=False, env=environment).returncode != 0:
        pytest.skip("R has no reticulate")
    done = subprocess.run(
        [rscript, str(script)], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "Private clipped mean" in done.stdout and "(epsilon = 0.5, delta = 0)" in done.stdout
    assert re.search(r"^speed +[\d.]+", done.stdout, re.MULTILINE)


def test_commands_of_the_page_on_regression_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from statsmodels.datasets import randhie

    monkeypatch.chdir(tmp_path)
    data = randhie.load_pandas().data
    data.assign(idp=data["idp"].astype(int)).to_csv("rand.csv", index=False)
    page = (ROOT / "docs" / "regression.md").read_text(encoding="utf-8")
    commands = re.search(r"```shell\n(.*?)```", page, re.DOTALL).group(1).splitlines()
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0
        assert "Intercept" in capsys.readouterr().out
    assert len(commands) == 3 and (tmp_path / "out.json").exists()


def test_commands_of_the_page_on_tables_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import numpy as np
    from statsmodels.datasets import randhie

    monkeypatch.chdir(tmp_path)
    data = randhie.load_pandas().data
    kinds = [data[name] == 1 for name in ("hlthg", "hlthf", "hlthp")]
    health = np.select(kinds, ["good", "fair", "poor"], "excellent")
    data.assign(visited=data["mdvis"] > 0, health=health).to_csv("rand.csv", index=False)
    page = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    commands = re.search(r"```shell\n(.*?)```", page, re.DOTALL).group(1).splitlines()
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0
        # Of two groups it is a sample of the rows with a declared label.
        rows = r"Rows: +\d\d,\d{3} \(public\)" if " ks " in command else r"20,190 \(public\)"
        assert re.search(rows, capsys.readouterr().out)
    assert len(commands) == 4 and (tmp_path / "out.json").exists() and (tmp_path / "table.png").exists()


def test_commands_of_the_page_on_sql_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{i % 20},{i},{i % 2}" for i in range(200)]
    (tmp_path / "visit.csv").write_text("\n".join(["person,cost,clinic", *rows]))
    (tmp_path / "person.csv").write_text("\n".join(["id,age", *(f"{i},{60 + i}" for i in range(20))]))
    page = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
    commands = re.search(r"```shell\n(.*?)```", page, re.DOTALL).group(1).splitlines()
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0
        assert "simulated noise" in capsys.readouterr().out
    assert len(commands) == 2 and (tmp_path / "out.json").exists()


def test_commands_of_the_page_on_the_command_line_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "age\n" + "".join(f"{(37 * i) % 90}\n" for i in range(500))
    (tmp_path / "people.csv").write_text(text)
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```shell\n(.*?)```", page, re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    for command in commands:
        before, _, piped = command.rpartition(" | ")
        if before:
            assert before == "cat people.csv"
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert main(shlex.split(piped)[1:]) == 0, command
        captured = capsys.readouterr()
        assert captured.out and captured.err == ""
        if "history" in command:
            assert "yearly report: people.csv (age): ClippedMean" in captured.out
    assert len(commands) == 11 and (tmp_path / "age.json").exists()


def test_readme_commands_are_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make ([a-z]+)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target} is not a target"


def test_the_project_names_no_machine() -> None:
    for page in PAGES:
        assert not re.search(r"/(root|home|work)/", page.read_text(encoding="utf-8"))
