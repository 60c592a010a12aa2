"""The checklist of a release finds what is there, and names the file of what is not."""

from __future__ import annotations

import pytest
from checklist import items, main

import dpstats.means


@pytest.mark.parametrize("path", ["dpstats.means.ClippedMean", "dpstats.mechanisms.ReportNoisyMax"])
def test_a_release_that_is_complete_lacks_nothing(path: str) -> None:
    found = {item.name: item for item in items(path)}
    lacks = {name for name, item in found.items() if item.needed and not item.there}
    # The mechanisms are given utilities: their lattice is brute-forced in tests/mechanisms.
    assert lacks == ({"brute force", "README line", "changelog line"} if "ReportNoisyMax" in path else set())


def test_a_class_that_is_not_there_gets_the_file_of_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dpstats.means.PrivateRange"]) == 1
    shown = capsys.readouterr().out
    for file in ("dpstats/means/range.py", "docs/proofs/range.md", "registry/range.py", "CHANGELOG.md"):
        assert file in shown
    assert "[x]" not in shown


def test_an_entry_that_is_gone_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        dpstats.means,
        "Twin",
        type("Twin", (dpstats.means.ClippedMean,), {"__module__": "dpstats.means.clipped"}),
        raising=False,
    )
    found = {item.name: item.there for item in items("dpstats.means.Twin")}
    assert found["code"] and not found["registry entry"] and not found["planted bug"]
