"""The rows of a study that ran alone."""

from __future__ import annotations

import pytest

from dpstats.simulation import Rademacher, Study
from tests.simulation.rows import ESTIMATOR, GRID, rows_of


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[tuple]:
    path = tmp_path_factory.mktemp("alone") / "one.db"
    Study(Rademacher(), ESTIMATOR, GRID, 30, seed=1).run(path, n_jobs=1)
    return rows_of(path)
