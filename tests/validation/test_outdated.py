"""Which pages of results are older than the code that they measure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation"))
import outdated


def test_every_page_of_results_has_a_script_and_what_it_measures() -> None:
    folder = outdated.ROOT / "validation"
    found = outdated.find_scripts((folder / "README.md").read_text(encoding="utf-8"))
    assert found["logistic.md"] == ["studies/logistic.py"]
    assert found["log_linear_tests.md"] == found["regression_tests.md"] == ["studies/regression_tests.py"]
    assert found["audit_peers.md"] == ["peers/audit_peers.py"]
    for page, scripts in found.items():
        assert (folder / "results" / page).exists()
        for script in scripts:
            outdated.find_packages(folder / script, folder)


def test_a_script_measures_what_it_imports_also_through_others() -> None:
    folder = outdated.ROOT / "validation"
    assert "dpstats.regression" in outdated.find_packages(folder / "studies" / "logistic.py", folder)
    assert outdated.find_packages(folder / "studies" / "survival.py", folder) == {"dpstats.survival"}
    assert outdated.find_package("dpstats", "ClippedMean") == "dpstats.means"
    assert outdated.find_package("dpstats", "__version__") == ""
    assert outdated.find_package("dpstats.means.clipped", "ClippedMean") == "dpstats.means"


@pytest.mark.parametrize(
    ("after", "same"),
    [
        ('"""Other words."""\n\ndef f(x):\n    # why\n    return (x + 1)\n', True),
        ('"""Words."""\n\ndef f(x):\n    return x + 2\n', False),
    ],
)
def test_words_are_no_code(after: str, same: bool) -> None:
    assert outdated.same_code('"""Words."""\n\ndef f(x):\n    return x + 1\n', after) is same


def test_a_page_is_outdated_when_code_changes_after_it(tmp_path: Path) -> None:
    def commit(file: str, text: str) -> None:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text, encoding="utf-8")
        who = ["-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
        for arguments in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "m"]):
            subprocess.run(["git", *arguments], cwd=tmp_path, check=True)

    def names() -> list[str]:
        return outdated.find_changes("page.md", {"dpstats.means"}, tmp_path)[1]

    commit("dpstats/means/clipped.py", "x = 1\n")
    commit("page.md", "1\n")
    assert names() == []
    commit("dpstats/means/clipped.py", "x = 1  # one\n")
    commit("dpstats/groups/ratios.py", "y = 1\n")
    assert names() == []
    commit("dpstats/means/clipped.py", "x = 2\n")
    commit("dpstats/means/sparse/new.py", "z = 1\n")
    assert names() == ["dpstats/means/clipped.py", "dpstats/means/sparse/new.py"]
    assert outdated.format_modules(names()) == "means (clipped), means/sparse (new)"
    commit("page.md", "2\n")
    assert names() == []
