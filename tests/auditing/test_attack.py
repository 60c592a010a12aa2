"""The auditor: right releases pass at the stated rate, wrong ones are caught, both ways round."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpstats.auditing import audit, epsilon_lower_bound
from dpstats.auditing.bounds import probability_bounds
from dpstats.errors import InvalidParameter
from dpstats.privacy import gaussian_sigma


def laplace(value, rng, size):
    return value + rng.laplace(scale=1.0, size=size)


def test_clopper_pearson_against_the_binomial() -> None:
    lower, upper = probability_bounds([0, 3, 50, 100], 100, 0.975)
    assert lower[0] == 0.0 and upper[3] == 1.0
    # The bounds are where the binomial tail is 0.025.
    np.testing.assert_allclose(stats.binom.sf([2, 49], 100, lower[[1, 2]]), 0.025, rtol=1e-9)
    np.testing.assert_allclose(stats.binom.cdf([0, 3, 50], 100, upper[[0, 1, 2]]), 0.025, rtol=1e-9)


def test_lower_bound_subtracts_delta() -> None:
    lower, _ = probability_bounds(300, 1000, 0.975)
    _, upper = probability_bounds(20, 1000, 0.975)
    assert epsilon_lower_bound(300, 20, 1000, 0.05) == pytest.approx(np.log((lower - 0.05) / upper))
    assert epsilon_lower_bound(20, 300, 1000) == 0.0


def test_false_alarms_are_at_most_the_stated_rate() -> None:
    # 400 audits of a tight claim at confidence 0.9: alarms are Binomial(400, p <= 0.1); more than 64 has
    # probability below 1e-4 (the two one-sided bounds make the true rate much smaller).
    alarms = sum(
        audit(
            laplace, 0.0, 1.0, epsilon=1.0, n_trials=2000, confidence=0.9, batched=True, random_state=seed
        ).violated
        for seed in range(400)
    )
    assert alarms <= 64


def test_choosing_on_the_same_runs_would_accuse() -> None:
    # Why the runs are split: the best of many thresholds on one sample exceeds the truth far more often.
    alarms = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        x, y = np.sort(laplace(1.0, rng, 1000)), np.sort(laplace(0.0, rng, 1000))
        thresholds = np.concatenate([x, y])
        above = [1000 - np.searchsorted(values, thresholds) for values in (x, y)]
        below = [np.searchsorted(values, thresholds, side="right") for values in (y, x)]
        best = max(epsilon_lower_bound(*counts, 1000, 0.0, 0.9).max() for counts in (above, below))
        alarms += best > 1.0
    # The stated rate is 0.1: 20 of 200.
    assert alarms > 30


@pytest.mark.parametrize("swap", [False, True])
def test_power_in_both_directions(swap: bool) -> None:
    pair = (1.0, 0.0) if swap else (0.0, 1.0)
    result = audit(laplace, *pair, epsilon=0.8, n_trials=50_000, batched=True, random_state=1)
    assert result.violated and 0.85 < result.epsilon_lower <= 1.0
    assert "proved at least" in str(result)


def test_delta_is_taken_into_account() -> None:
    sigma = gaussian_sigma(3.0, 1e-2)

    def gaussian(value, rng, size):
        return value + rng.normal(scale=sigma, size=size)

    options = {"n_trials": 200_000, "batched": True, "random_state": 0}
    honest = audit(gaussian, 0.0, 1.0, epsilon=3.0, delta=1e-2, **options)
    assert not honest.violated and honest.epsilon_lower > 2.0
    # The same release claimed at a hundredth of its delta is caught.
    assert audit(gaussian, 0.0, 1.0, epsilon=3.0, delta=1e-4, **options).violated


def test_vectors_are_projected_and_units_do_not_matter() -> None:
    units = np.array([1.0, 1000.0, 0.001])

    def vector(value, rng, size):
        return units * (value + rng.laplace(scale=1.0, size=(size, 3)))

    options = {"epsilon": 1.5, "n_trials": 50_000, "batched": True, "random_state": 0}
    result = audit(vector, np.zeros(3), np.ones(3), **options)
    # Three coordinates together cost 3; one alone would show 1.
    assert result.violated and result.epsilon_lower > 1.5


def test_one_output_at_a_time() -> None:
    def release(value, rng):
        return float(value + rng.laplace())

    result = audit(release, 0.0, 4.0, epsilon=1.0, n_trials=4000, random_state=0)
    assert result.violated and result.n_trials == 4000


def test_a_release_that_ignores_the_data_proves_nothing() -> None:
    def constant(value, rng, size):
        return np.zeros(size)

    assert audit(constant, 0.0, 1.0, epsilon=0.0, n_trials=1000, batched=True).epsilon_lower == 0.0


def test_bad_input() -> None:
    with pytest.raises(InvalidParameter, match="n_trials must be"):
        audit(laplace, 0, 1, epsilon=1.0, n_trials=2, batched=True)
    with pytest.raises(InvalidParameter, match="epsilon must be"):
        audit(laplace, 0, 1, epsilon=-1.0, batched=True)
    with pytest.raises(InvalidParameter, match="confidence must be"):
        audit(laplace, 0, 1, epsilon=1.0, confidence=1.0, batched=True)
    with pytest.raises(InvalidParameter, match="release must return 50 outputs"):
        audit(lambda v, rng, size: np.zeros(3), 0, 1, epsilon=1.0, n_trials=100, batched=True)
    with pytest.raises(InvalidParameter, match="release must return numbers, text, None"):
        audit(lambda v, rng: slice(2), 0, 1, epsilon=1.0, n_trials=100)
    with pytest.raises(InvalidParameter, match="release must be a callable"):
        audit([], 0, 1, epsilon=1.0, n_trials=100)
