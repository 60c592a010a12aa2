"""Simulated power: counts as rows have them, and results that follow from the parameters alone."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.survival import LogRankTest
from dpstats.survival.log_rank import _row_probabilities, simulate_pvalues


def test_the_probabilities_of_a_row_are_those_of_exponential_times() -> None:
    elapsed = np.array([0.0, 0.25, 1.0])
    found, rates = _row_probabilities(elapsed, 0.7, 0.5, 0.3, 0.4)
    assert found.shape == (2, 5) and found.sum() == pytest.approx(1)
    rng = np.random.default_rng(0)
    n = 400_000
    second = rng.random(n) >= 0.4
    times = rng.exponential(1 / np.where(second, 0.7, 1.0)) / -np.log(0.5)
    left = rng.exponential(size=n) / -np.log(0.7)
    bins = np.searchsorted(elapsed[1:], np.minimum(times, left))
    kinds = np.where(bins == 2, 4, bins + 2 * (left < times))
    counts = np.bincount(5 * second + kinds, minlength=10) / n
    assert counts.reshape(2, 5) == pytest.approx(found, abs=0.004)
    assert rates[1, 0] - rates[0, 0] == pytest.approx(0.3 * np.log(0.5))


@pytest.mark.parametrize("options", [{}, {"delta": 1e-6}, {"discrete": True}, {"unknown": "error"}])
def test_equal_groups_keep_the_level(options: dict[str, object]) -> None:
    plan = LogRankTest(groups=[0, 1], horizon=5.0, **options).plan(3000)
    found = simulate_pvalues(plan, 1.0, 0.5, 0.3, 0.5)
    # A standard error of 0.007.
    assert 0.015 < (found <= 0.05).mean() < 0.08
    assert np.array_equal(found, simulate_pvalues(plan, 1.0, 0.5, 0.3, 0.5))


def test_noise_of_the_table_takes_power() -> None:
    # With critical values of expected cells the power is 0.8. Real rows reject in 0.61 of 250 tests.
    test = LogRankTest(groups=["a", "b"], horizon=10.0, epsilon=0.1)
    assert test.power(1891, 0.5) < 0.76


def test_the_first_stage_has_positions_where_rows_would_have_them() -> None:
    plan = LogRankTest(groups=[0, 1], horizon=5.0).plan(20_000)
    assert plan.cells.position_share
    small = LogRankTest(groups=[0, 1], horizon=5.0).plan(500)
    assert not small.cells.position_share
    for each in (plan, small):
        assert simulate_pvalues(each, 0.6, 0.3, 0.2, 0.5, draws=50).shape == (50,)


def test_the_search_ends_between_neighbors() -> None:
    # The middle of 179 and 181 rounds down to 179.
    test = LogRankTest(groups=[0, 1], bins=4, horizon=4.0, epsilon=3.0)
    assert 100 < test.required_samples(2.0) < 400
