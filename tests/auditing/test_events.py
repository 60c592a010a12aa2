"""Events: chosen on one half of the runs, counted on the other, wherever they lie."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpstats.auditing import audit, epsilon_lower_bound
from tests.auditing.releases import laplace


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


def test_a_wrong_spread_is_found_in_the_tails() -> None:
    def spread(scale, rng, size):
        return rng.laplace(scale=scale, size=size)

    result = audit(spread, 1.0, 2.0, epsilon=0.5, n_trials=50_000, batched=True, random_state=0)
    assert result.violated


def test_an_event_in_the_middle_and_an_atom() -> None:
    def middle(value, rng, size):
        noise = rng.normal(size=size)
        inside = np.abs(noise) < 0.3
        return np.where(inside & (rng.random(size) < value), noise + 0.6 * np.sign(noise), noise)

    result = audit(middle, 0.0, 0.9, epsilon=1.5, n_trials=50_000, batched=True, random_state=0)
    # A tenth is left of the middle, and next to it the density is at most doubled.
    assert result.violated and result.epsilon_lower <= math.log(10) and "output in" in result.event

    def atom(value, rng, size):
        return np.where(rng.random(size) < 0.02 * value, 0.25, rng.normal(size=size))

    result = audit(atom, 0, 1, epsilon=2.0, n_trials=50_000, batched=True, random_state=0)
    assert result.violated and "output in {0.25}" in result.event
    # The atom has mass 0.02: at delta = 0.03 it is paid for.
    claim = {"epsilon": 2.0, "delta": 0.03}
    assert not audit(atom, 0, 1, n_trials=50_000, batched=True, random_state=0, **claim).violated
