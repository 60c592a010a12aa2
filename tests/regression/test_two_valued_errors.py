"""Intervals by levels: normal for precise levels, open without events, and inverted by tests."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from dpstats.regression import PrivateCountRegression, PrivateLogisticRegression
from dpstats.regression.coefficient_errors import (
    NORMAL,
    Level,
    LevelErrors,
    Levels,
    LogitLevel,
    LogLevel,
    ScaledErrors,
    find_one_sided,
)

PRECISE = LogLevel(before=0.0, after=0.0, moved=0.0, std=0.001, seen=1.0, noise=0.001, sampling=0.0)
EMPTY = LogLevel(before=-3.0, after=-5.0, moved=-2.0, std=0.3, seen=0.05, noise=0.1, sampling=0.01)


def errors(upper: Level, lower: Level, weights: np.ndarray, low: float = 0.0, high: float = 1.0) -> LevelErrors:
    levels = (Levels(0, low, high, high - low, upper, lower),)
    size = math.hypot(upper.std, lower.std) / (high - low)
    covariance = np.array([[lower.std**2, -(lower.std**2)], [-(lower.std**2), size**2]])
    params = np.array([0.5, -2.0])
    error = np.sqrt(np.einsum("ij,jk,ik->i", weights, covariance, weights))
    return LevelErrors(weights @ params, error, NORMAL, weights, covariance, levels, 1)


def test_precise_levels_have_normal_intervals() -> None:
    found = errors(PRECISE, PRECISE, np.eye(2))
    usual = ScaledErrors(found.estimate, found.error, NORMAL)
    for tail in (0.025, np.array([0.1, 0.3])):
        assert np.allclose(found.limits(tail), usual.limits(tail), atol=1e-5)
    at = found.estimate + np.array([0.001, -0.002])
    assert np.allclose(found.tails(at), usual.tails(at), atol=2e-3)


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-2.0, 4.0)])
def test_a_level_without_events_has_one_limit(ends: tuple[float, float]) -> None:
    found = errors(EMPTY, PRECISE, np.eye(2), *ends)
    low, high = found.limits(0.025)
    assert low[1] == -math.inf and found.estimate[1] < high[1] < math.inf
    # The constant is the level of the value 0.
    assert np.isfinite([low[0], high[0]]).tolist() == [ends[0] == 0, True]
    other = errors(PRECISE, EMPTY, np.eye(2), *ends)
    low, high = other.limits(0.025)
    assert high[1] == math.inf and np.isfinite(low[1]) and low[0] == -math.inf
    assert find_one_sided(found.levels, 1)[0].tolist() == [-1] and find_one_sided(other.levels, 1)[0].tolist() == [1]


def test_combinations_have_limits_where_their_levels_do() -> None:
    # The level of the value 1 is the constant plus the slope, that of the value 0 the constant alone.
    weights = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    low, high = errors(EMPTY, PRECISE, weights).limits(0.025)
    assert np.isfinite(low).tolist() == [True, False, False] and np.isfinite(high).all()
    low, high = errors(PRECISE, EMPTY, weights).limits(0.025)
    assert np.isfinite(low).tolist() == [False, True, True]
    assert np.isfinite(high).tolist() == [True, True, False]


@pytest.mark.parametrize("upper", [EMPTY, LogLevel(-2.0, -2.2, -0.2, 0.2, 0.9, 0.15, 0.05)])
def test_tests_invert_intervals(upper: LogLevel) -> None:
    found = errors(upper, PRECISE, np.eye(2))
    for tail in (0.025, 0.005, 0.2):
        low, high = found.limits(tail)
        assert found.tails(high)[0] == pytest.approx(tail, rel=1e-6)
        assert found.two_sided(high) == pytest.approx(2 * tail, rel=1e-6)
        if np.isfinite(low).all():
            assert found.tails(low)[1] == pytest.approx(tail, rel=1e-6)
    # Nothing refutes a value without a limit.
    if upper is EMPTY:
        assert found.two_sided(np.array([0.5, -50.0]))[1] > 0.05
    assert found.tails(found.estimate) == (pytest.approx(0.5), pytest.approx(0.5))
    assert np.array_equal(pickle.loads(pickle.dumps(found)).limits(0.025), found.limits(0.025))


def test_rates_near_both_ends_of_the_log_odds() -> None:
    level = LogitLevel(before=-4.0, after=-4.2, moved=-0.2, std=0.2, seen=0.014, noise=0.003, sampling=0.001)
    down, up = level.lower_distance(1.96), level.upper_distance(1.96)
    assert up < 1.96 * 0.2 < down < math.inf
    mirrored = LogitLevel(4.0, 4.2, 0.2, 0.2, 1 - 0.014, 0.003, 0.001)
    assert (mirrored.upper_distance(1.96), mirrored.lower_distance(1.96)) == pytest.approx((down, up))
    assert math.isinf(LogitLevel(-4.0, -6.0, -2.0, 0.2, 0.001, 0.003, 0.001).lower_distance(1.96))
    assert level.is_settled(3.0) and not LogitLevel(-4.0, -4.2, -0.2, 0.2, 0.2, 0.003, 0.001).is_settled(3.0)


def test_a_level_that_has_not_arrived_is_not_settled() -> None:
    # The last gradient says a tenth, the estimate moved by a half only.
    short = LogLevel(before=-2.0, after=-2.7, moved=-0.7, std=0.05, seen=0.1, noise=0.03, sampling=0.01)
    assert not short.is_settled(3.0)
    # Its lower limit is that of the last gradient, beyond the stated error.
    assert LogLevel(-2.0, -2.7, -0.7, 0.05, 0.4, 0.12, 0.01).lower_distance(1.96) > 0.3


def test_a_level_far_below_its_mean_has_the_limit_of_the_last_gradient() -> None:
    # The steps went to exp(-5.5) and know this with a small error. The last gradient, from exp(2.7), shows -7 (7) times
    # its mean there.
    gone = LogLevel(before=2.7, after=-5.5, moved=-4.0, std=333.0, seen=-6.8, noise=6.5, sampling=0.6)
    assert gone.after + gone.upper_distance(1.96) == pytest.approx(2.7 + math.log(1.96 * gone.error - 6.8))
    # No mean exceeds the largest outcome, so a limit there is none.
    assert math.isinf(replace(gone, most=4.0).upper_distance(1.96))
    assert math.isinf(replace(gone, noise=math.inf).upper_distance(1.96))
    # A level with two limits keeps that of all steps.
    assert PRECISE.upper_distance(1.96) == pytest.approx(math.log1p(1.96 * 0.001))


def test_a_limit_counts_outcomes_that_were_not_seen() -> None:
    # Without noise, 0 outcomes of 20 rows have no sampling error. Wilson's limit of a rare rate is z^2/n.
    none = LogitLevel(-9.0, -11.0, -2.0, 0.3, 1e-9, 1e-8, 1e-6, one=1 / 20)
    assert expit(none.after + none.upper_distance(1.96)) == pytest.approx(1.96**2 / 20, rel=1e-3)
    every = LogitLevel(9.0, 11.0, 2.0, 0.3, 1 - 1e-9, 1e-8, 1e-6, one=1 / 20)
    assert every.lower_distance(1.96) == pytest.approx(none.upper_distance(1.96))
    # Three rows say nothing.
    assert math.isinf(replace(none, one=1 / 3).upper_distance(1.96))
    empty = LogLevel(-9.0, -11.0, -2.0, 0.3, 1e-9, 1e-8, 1e-6, one=math.exp(9.0) / 20)
    assert math.exp(empty.after + empty.upper_distance(1.96)) == pytest.approx(1.96**2 / 20, rel=1e-3)


@pytest.mark.parametrize("model", [PrivateLogisticRegression, PrivateCountRegression])
def test_a_level_without_outcomes_may_have_a_rate_of_a_tenth(model: Any) -> None:
    X = np.zeros((1000, 1))
    X[:20] = 1.0
    y = np.where(X[:, 0] == 0, np.arange(1000) % 7 == 0, False).astype(float)
    bounds = {} if model is PrivateLogisticRegression else {"y_bounds": (0, 5)}
    fit = model(x_bounds=[(0.0, 1.0)], epsilon=1e6, delta=1e-6, random_state=0, **bounds).fit(X, y)
    interval = fit.confidence_interval()
    # Such a level has no outcome in an eighth of all cases.
    assert interval.low[0] == -math.inf and math.log(0.1 / (1 / 7)) < interval.high[0] < 2.0


def test_values_that_are_rounded_to_one_float_have_a_distance() -> None:
    fit = PrivateLogisticRegression(
        x_bounds=[(0.0, 1.0), (1e16, 1e16 + 2)], epsilon=1e6, delta=1e-2, random_state=0
    ).fit([[0.5, 1e16], [0.2, 1e16 + 2]], [0, 1])
    assert fit.confidence_interval().low.shape == (2,)
