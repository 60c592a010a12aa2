"""Named studies run and conclude."""

from __future__ import annotations

import pytest

from dpstats.means import ClippedMean
from dpstats.simulation import Rademacher, Study
from dpstats.simulation.catalogue import CATALOGUE, named_study


@pytest.fixture(scope="module")
def results():
    grid = {"n": [50, 100, 200], "d": [4], "epsilon": [0.1]}
    return Study(Rademacher(), ClippedMean(clip=1.0, delta=1e-6), grid, 30, seed=77, name="rate of n").run()


@pytest.mark.parametrize("name", CATALOGUE)
def test_named_studies_run_and_conclude(name: str) -> None:
    entry = named_study(name)
    small = {"n": entry.grid["n"][:3] if name != "power" else [60]}
    results = entry.study(name, small, replications=20, seed=1).run()
    assert not results.failed_cells
    findings, note = entry.conclusions(results)
    assert findings and not note and all(finding.verdict for finding in findings)
    if name == "power":
        # A level below 0.05 is no failure.
        assert {finding.relation for finding in findings} == {"at_most"}
    assert entry.picture(results).axes
    one = entry.study(name, {"n": [60], "d": [5]}, replications=3).run()
    assert entry.conclusions(one) is not None
