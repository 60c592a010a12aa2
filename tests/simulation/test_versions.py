"""Versions: rows are told with those that computed them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpstats.means import ClippedMean
from dpstats.simulation import Rademacher, Study, study_report
from dpstats.simulation import study as replications
from dpstats.simulation.study_report import provenance

ESTIMATOR = ClippedMean(clip=1.0, delta=1e-6)
GRID = {"n": [20], "d": [2]}


def test_rows_of_other_versions_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.db"
    now = replications.versions()
    with monkeypatch.context() as patched:
        patched.setattr(replications, "versions", lambda: {**now, "numpy": "1.0.0"})
        Study(Rademacher(), ESTIMATOR, GRID, 3).run(path)
    old = Study(Rademacher(), ESTIMATOR, GRID, 3).load(path)
    assert [used["numpy"] for used in old.versions] == ["1.0.0"] and not old.version_notes()
    # The report names what the rows were computed with, not what prints it.
    assert provenance([old])["numpy"] == "1.0.0" and "[1]" not in str(old)
    both = Study(Rademacher(), ESTIMATOR, GRID, 5).run(path)
    note = f"Rows of this study were computed with different versions: numpy 1.0.0 and {now['numpy']}."
    assert (
        both.version_notes() == [note] and note in " ".join(str(both).split()) and note in study_report(both).as_html()
    )
    assert provenance([both])["numpy"] == f"1.0.0 and {now['numpy']}"
    assert both.where(lambda cell: True).versions == both.versions
