"""The validation studies, reduced: the same code, fewer datasets, stated false-alarm rates."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "studies"))
import mean_risk_and_coverage as study

from dpstats.means import ClippedMean

REPLICATIONS = 150


@pytest.fixture(scope="module")
def cells() -> tuple[list, list]:
    return study.study(REPLICATIONS, jobs=1, sizes=((200, 1), (200, 20)))


def test_risk_is_what_the_plan_expects(cells: tuple[list, list]) -> None:
    # Five standard errors: a false alarm below 1e-5 over all cells.
    for cell in cells[0]:
        assert abs(cell.ratio - 1) < 5 * cell.standard_error
        assert cell.standard_error < 0.1


def test_a_wrong_expectation_would_be_noticed(cells: tuple[list, list]) -> None:
    wide = [cell for cell in cells[0] if cell.d == 20]
    assert all(abs(cell.ratio * 1.25 - 1) > 5 * cell.standard_error for cell in wide)


def test_intervals_cover(cells: tuple[list, list]) -> None:
    for cell in cells[1]:
        exact = cell.spread == "true"
        # Per-column coverage over REPLICATIONS * d intervals, independent for a given spread.
        error = np.sqrt(0.95 * 0.05 / (REPLICATIONS * cell.d))
        assert cell.per_column > 0.95 - 5 * error
        assert not exact or cell.per_column < 0.95 + 5 * error
        assert cell.simultaneous > 0.95 - 5 * np.sqrt(0.95 * 0.05 / REPLICATIONS)


def test_intervals_without_the_noise_would_not_cover() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        fitted = ClippedMean(epsilon=0.25, clip=6.0, std=1.0, random_state=rng).fit(rng.normal(size=(200, 1)))
        covered += abs(fitted.mean_[0]) < 1.96 * 1.0 / np.sqrt(200)
    # Laplace noise of nearly five times the sampling error: coverage near 0.4.
    assert covered < 120
