"""The table of validation/README.md: every script is in it, and every result names the command that made it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from functools import cache
from pathlib import Path

import dpstats
from dpstats.release.estimator import PrivateEstimator

ROOT = Path(__file__).resolve().parents[2]
VALIDATION = ROOT / "validation"
SCRIPTS = sorted(
    str(path.relative_to(VALIDATION))
    for path in VALIDATION.rglob("*.py")
    if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
)
RESULTS = sorted(path.name for path in (VALIDATION / "results").iterdir())


@cache
def table() -> dict[str, list[str]]:
    """Return the other cells of every line, by script."""
    text = (VALIDATION / "README.md").read_text(encoding="utf-8")
    lines = [re.split(r" ?\| ?", line)[1:-1] for line in text.splitlines() if line.startswith("| `")]
    assert all(len(cells) == 5 for cells in lines)
    return {cells[0].strip("`"): cells[1:] for cells in lines}


def scripts_in(text: str) -> list[str]:
    """Return the scripts that commands in a text run."""
    return re.findall(r"python validation/([\w/]+\.py)", text)


def test_the_table_has_every_script_and_no_other() -> None:
    assert len(SCRIPTS) > 30 and sorted(table()) == SCRIPTS


def test_commands_of_the_table_run_the_script() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for script, (_, command, _, _) in table().items():
        targets = re.findall(r"make ([\w-]+)", command)
        assert targets or scripts_in(command), script
        for target in targets:
            recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
            assert recipe is not None, f"make {target} is no target"
            assert f"validation/{script}" in recipe.group(1), f"make {target} does not run {script}"
        for named in scripts_in(command):
            # By itself, or by another one, which names it in its text or in that of what it imports.
            stem = Path(script).stem
            assert named == script or re.search(rf"\b{stem}\b", (VALIDATION / named).read_text())


def fault(name: str, text: str) -> str:
    """Return why a result is not of one script of the table, which its text names; empty if it is."""
    results = {script: cells[2] for script, cells in table().items() if f"`{name}`" in cells[2]}
    parts = {script for script, cell in results.items() if f"in `{name}`" in cell}
    owners = results.keys() - parts
    if len(owners) != 1:
        return f"must have one script in the table, it has {sorted(owners)}"
    if name.endswith(".png"):
        return ""  # of the script that writes the page of the same name
    # A part may have been measured again by itself.
    if owners <= (named := set(scripts_in(text))) <= owners | parts:
        return ""
    return f"names {sorted(named)}, and is of {sorted(owners)}"


def test_every_result_names_the_command_that_made_it() -> None:
    files = [VALIDATION / "results" / name for name in RESULTS]
    found = {
        path.name: fault(path.name, "" if path.suffix == ".png" else path.read_text(encoding="utf-8")) for path in files
    }
    assert len(found) > 50 and {name: wrong for name, wrong in found.items() if wrong} == {}
    page = next(path for path in files if path.suffix == ".md")
    assert "names []" in fault(page.name, "") and "one script" in fault("nothing.md", "")


def test_files_without_a_command_of_their_own_are_imported_by_scripts() -> None:
    helpers = [path for path in VALIDATION.rglob("*.py") if str(path.relative_to(VALIDATION)) not in SCRIPTS]
    texts = [path.read_text(encoding="utf-8") for path in VALIDATION.rglob("*.py")]
    for helper in helpers:
        pattern = re.compile(rf"^(?:from|import) {helper.stem}\b", re.MULTILINE)
        assert any(pattern.search(text) for text in texts), f"{helper} is used by nobody"


def test_the_table_of_benchmarks_has_estimators_of_the_package() -> None:
    written = (ROOT / "validation" / "results" / "benchmark_estimators.md").read_text(encoding="utf-8")
    names = {
        name
        for package in pkgutil.iter_modules(dpstats.__path__, "dpstats.")
        if package.ispkg and package.name not in ("dpstats.queries", "dpstats.textbook")
        for name, item in vars(importlib.import_module(package.name)).items()
        if inspect.isclass(item) and issubclass(item, PrivateEstimator) and not inspect.isabstract(item)
    }
    # A new class is timed when the page is next made.
    assert len(names) > 30 and len({name for name in names if f"`{name}`" not in written}) <= 6
