"""What the source prints and what it breaks, in exact numbers; the bugs that are not worth a Monte Carlo."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))
from registry.identity import A, B, C, P, counterexample, printed_extension, sign_neighbors

from dpstats.identity import LipschitzExtensionTest, RowDistanceTest, SpatialSignTest
from dpstats.identity.by_extension import exact_inner_product_extension
from dpstats.identity.by_filtering import quadratic_statistic, replace_rows, rows_beyond


def test_printed_extension_jumps_by_24_between_neighbors() -> None:
    first, middle, last = counterexample()
    assert [(first != middle).any(axis=1).sum(), (middle != last).any(axis=1).sum()] == [1, 1]
    assert [printed_extension(X, 4) for X in (first, middle, last)] == [12, -12, -28]
    # With K(4) = 22 no step of the path is larger than 22.
    proved = [exact_inner_product_extension(X, 4, 22) for X in (first, middle, last)]
    assert proved == [12, -6, -28]


def test_one_sided_set_breaks_between_neighbors() -> None:
    X = np.array([A] * 3 + [B] * 3 + [C] * 3)
    Y = np.array([P, *X[1:].tolist()])
    assert [printed_extension(Z, 3, one_sided=True) for Z in (X, Y)] == [0, -16]


def test_statistic_of_raw_rows_is_not_stable_where_that_of_filtered_rows_is() -> None:
    """Line 13 with T(X): given a noisy sum near S, all neighbors of 7 sign rows, fresh signs coupled."""
    noisy, threshold = np.array([7, 7]), 4
    fresh = np.tile([[1, -1], [-1, 1]], (4, 1))[:7]
    worst = {"raw": 0, "filtered": 0}
    for X, Y in sign_neighbors(7, 2):
        if max(np.abs(Z.sum(axis=0) - noisy).max() for Z in (X, Y)) > 2:
            continue
        filtered = [replace_rows(Z, rows_beyond(Z, noisy, threshold), fresh) for Z in (X, Y)]
        for name, (first, second) in {"raw": (X, Y), "filtered": filtered}.items():
            change = abs(quadratic_statistic(first) - quadratic_statistic(second))
            worst[name] = max(worst[name], change)
    # T itself moves by its whole sensitivity, 4d(n-1), where the filter takes the rows that do it.
    assert worst["raw"] == 4 * 2 * (7 - 1)
    assert worst["filtered"] <= 16


def test_integer_noise_on_the_distance_would_lose_level() -> None:
    """With ties the largest p-value of a tie counts: the chance to reject falls well below the level."""
    test = RowDistanceTest(epsilon=1.0, n_calibration=999)
    plan = test.plan(50, 2)
    rng = np.random.default_rng(0)
    steps = test._draw(plan, 3000, rng, 0.0)[:, 0] >> 20
    decay = np.exp(-1.0)
    noise = rng.geometric(1 - decay, 3000) - rng.geometric(1 - decay, 3000)
    values = np.sort(steps + noise)
    k = int(0.05 * 3000)
    # Reject above the k-th largest: strictly fewer than k of 3000 are.
    assert np.mean(values > values[-k]) < 0.043
    fine = np.sort(test._simulate(plan, 3000, rng))
    assert np.mean(fine > fine[-k]) > 0.049


@pytest.mark.parametrize("test", [RowDistanceTest(), SpatialSignTest(), LipschitzExtensionTest()])
def test_sample_covariance_moves_every_row(test: object) -> None:
    """Whitening by the rows' own spread: one outlier moves the statistic by more than its sensitivity."""
    X = np.array([[3 + 0.01 * i] for i in range(12)])
    Y = np.vstack([[[1e6]], X[1:]])
    plan = test.plan(12, 1)
    stage = plan.stages[0]

    def value(Z: np.ndarray) -> int:
        return int(test._exact(Z, plan)[stage.name][0])

    wrong = [value(Z / np.sqrt(np.mean(Z**2))) for Z in (X, Y)]
    assert abs(wrong[0] - wrong[1]) > stage.sensitivity_steps
    assert abs(value(X) - value(Y)) <= stage.sensitivity_steps


def test_sign_pairs_are_all_neighbors() -> None:
    pairs = list(itertools.islice(sign_neighbors(3, 2), 1000))
    assert len(pairs) == 10 * 6
    assert all((X != Y).any(axis=1).sum() == 1 for X, Y in pairs)
