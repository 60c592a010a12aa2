"""Studies that ran, of which tests look at the rows and at the results."""

from __future__ import annotations

import pytest

from dpstats.means import ClippedMean
from dpstats.simulation import Rademacher, Study, StudyResults
from tests.simulation.rows import ESTIMATOR, GRID, rows_of


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[tuple]:
    path = tmp_path_factory.mktemp("alone") / "one.db"
    Study(Rademacher(), ESTIMATOR, GRID, 30, seed=1).run(path, n_jobs=1)
    return rows_of(path)


@pytest.fixture(scope="session")
def results() -> StudyResults:
    grid = {"n": [50, 100, 200], "d": [4], "epsilon": [0.1]}
    return Study(Rademacher(), ClippedMean(clip=1.0, delta=1e-6), grid, 30, seed=77, name="rate of n").run()
