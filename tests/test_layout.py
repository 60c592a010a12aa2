"""The tests mirror the package: every module has a test file of its own, or is in a list with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

import dpstats
from tests.conftest import GONE
from tests.other_kernels import NUMERICAL

PACKAGE = Path(dpstats.__file__).parent
TESTS = Path(__file__).parent

# Modules that another file tests, and why none of their own is needed.
TESTED_ELSEWHERE = {
    "__main__.py": "tests/cli/test_files.py runs it in processes",
    "data/source.py": "tests/data/test_schema.py and test_opening.py give y in every way",
    "data/rows.py": "tests/data/test_tables.py reads every kind of table through it",
    "identity/workload.py": "tests/identity/test_power.py runs into its bounds",
    "identity/result.py": "tests/identity/test_base.py reads every result and summary",
    "means/clipped_plan.py": "tests/means/test_clipped.py asks plans",
    "means/whitening.py": "tests/means/test_adaptive.py fits every shape of covariance",
    "tables/result.py": "tests/tables/test_contingency.py reads results and summaries",
    "auditing/sensitivity_check.py": "tests/auditing/test_sensitivity.py reads every verdict",
    "auditing/pictures.py": "tests/test_plots.py draws them, tests/test_report.py puts them on pages",
    "mechanisms/pictures.py": "tests/test_plots.py draws them, tests/test_report.py puts them on pages",
    "queries/pictures.py": "tests/test_plots.py draws them, tests/test_report.py puts them on pages",
    "regression/levels_plan.py": "tests/regression/test_levels.py has plans, queries and fits",
    "regression/factors_plan.py": "tests/regression/test_factors.py has plans and fits",
    "regression/factor_coefficients.py": "tests/regression/test_factors.py has plans and fits",
    "regression/pictures.py": "tests/test_report.py puts it on a page",
    "privacy/stages/additive.py": "tests/privacy/test_stages.py has every kind of stage",
    "privacy/stages/costs.py": "tests/privacy/test_stages.py has every kind of stage",
    "privacy/stages/discovery.py": "tests/release/test_discovery.py has its cost by brute force",
    "privacy/stages/key_counts.py": "tests/privacy/test_key_counts.py has its cost by brute force",
    "privacy/stages/private_scale.py": "tests/privacy/test_stages.py has every kind of stage",
    "privacy/stages/responses.py": "tests/privacy/test_stages.py has every kind of stage",
    "privacy/stages/selection.py": "tests/privacy/test_stages.py has every kind of stage",
    "privacy/stages/streams.py": "tests/privacy/test_stages.py has every kind of stage",
    "sql/aggregates.py": "tests/sql/test_parse.py reads every clause",
    "sql/expressions.py": "tests/sql/test_parse.py reads every clause",
    "sql/values.py": "tests/sql/fuzz.py computes random values in cells of random databases",
    "sql/noise.py": "tests/sql/test_several.py has intervals and tails of every answer",
    "sql/spreads.py": "tests/sql/test_several.py has intervals of standard deviations and variances",
    "sql/predicates.py": "tests/sql/test_parse.py reads every clause",
    "sql/scope.py": "tests/sql/test_parse.py reads every clause",
    "sql/syntax.py": "tests/sql/test_parse.py reads every clause",
    "sql/units.py": "tests/sql/test_parse.py asks whose rows are",
    "ranks/result.py": "tests/ranks/test_rank_tests.py reads results and summaries",
}
# Of the folders below, every test file has a module, or is in this list with the reason.
MIRRORED = ("auditing", "cli", "lattice", "simulation")
MORE = {
    "auditing/test_false_alarms.py": "the rate of false alarms, for every kind of output",
    "cli/test_cli.py": "dpstats/cli/__init__.py",
    "lattice/test_changed_memory.py": "every lattice, fed with memory that changes after its check",
    "cli/test_what_is_shown.py": "what a ledger shows of the charges of all commands",
    "cli/test_same_file.py": "the files that arguments of all commands name, from the parser",
    "cli/test_options_arrive.py": "the options of all commands, from the parser to what they are for",
}


def without_tests(package: Path, tests: Path) -> set[str]:
    """Return the modules whose test file is not where the module's path says."""
    modules = [path.relative_to(package) for path in package.rglob("*.py") if path.name != "__init__.py"]
    return {
        module.as_posix()
        for module in modules
        if not (tests / module.parent / f"test_{module.name}").exists()
    }


def test_every_module_has_a_test_file_of_its_own() -> None:
    # Equal, so that a line of the list goes when its file has come.
    assert without_tests(PACKAGE, TESTS) == TESTED_ELSEWHERE.keys()


def test_every_test_file_has_a_module() -> None:
    files = [path.relative_to(TESTS) for folder in MIRRORED for path in (TESTS / folder).glob("test_*.py")]
    homeless = {
        file.as_posix()
        for file in files
        if not (PACKAGE / file.parent / file.name.removeprefix("test_")).exists()
    }
    assert homeless == MORE.keys()


def test_a_module_without_a_test_file_is_found(tmp_path: Path) -> None:
    package, tests = tmp_path / "package", tmp_path / "tests"
    for folder in (package / "inner", tests / "inner"):
        folder.mkdir(parents=True)
    (package / "inner" / "a.py").touch()
    (package / "inner" / "b.py").touch()
    (tests / "inner" / "test_a.py").touch()
    (tests / "test_b.py").touch()
    assert without_tests(package, tests) == {"inner/b.py"}


def test_numerical_tests_that_are_run_again_exist() -> None:
    assert not [path for path in NUMERICAL if not (TESTS.parent / path).exists()]


def test_slow_tests_exist(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.stash[GONE] == set()
