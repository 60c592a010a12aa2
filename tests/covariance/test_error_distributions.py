"""Limits of covariances and correlations: inside what is possible, and never narrower than a normal error's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpstats.covariance.moments import BoundedErrors, CorrelationErrors


def test_limits_stay_between_public_ends() -> None:
    errors = BoundedErrors(np.array([0.5, -3.0]), np.array([1.0, 0.1]), np.array([0.0, 0.0]), np.array([1.0, 9.0]))
    low, high = errors.limits(0.025)
    assert low.tolist() == [0, 0] and high.tolist() == [1, 0]
    assert errors.start.tolist() == [0.5, 0]


def test_laplace_noise_has_the_longer_of_both_quantiles() -> None:
    errors = BoundedErrors(np.zeros(2), np.ones(2), np.full(2, -9.0), np.full(2, 9.0), np.array([1.0, 0.0]))
    for tail in (0.1, 0.025, 0.005):
        low, high = errors.limits(tail)
        longest = max(math.log(1 / (2 * tail)) / math.sqrt(2), norm.isf(tail))
        assert high == pytest.approx([longest, norm.isf(tail)], rel=1e-9) and np.allclose(low, -high)


def test_limits_of_correlations_hold_both_kinds() -> None:
    r, error = np.array([-0.9, 0.0, 0.6, 1.0]), np.array([0.02, 0.1, 0.05, 0.1])
    low, high = CorrelationErrors(r, error).limits(0.025)
    assert (low <= np.maximum(r - 1.95 * error, -1)).all() and (high >= np.minimum(r + 1.95 * error, 1)).all()
    z = np.arctanh(0.6) + 1.9599 * 0.05 / (1 - 0.36) * np.array([-1, 1])
    assert low[2] <= np.tanh(z[0]) + 1e-6 and high[2] >= np.tanh(z[1]) - 1e-6
    assert (np.abs(low) <= 1).all() and (np.abs(high) <= 1).all()


def test_a_correlation_that_is_not_identified_can_be_anything() -> None:
    errors = CorrelationErrors(np.zeros(2), np.array([np.inf, 0.1]))
    low, high = errors.limits(0.4)
    assert low[0] == -1 and high[0] == 1 and low[1] > -0.1
    less, greater = errors.tails(np.array([0.9, 0.9]))
    assert less[0] >= 0.5 and greater[0] >= 0.5 and less[1] < 1e-6


def test_more_confidence_gives_wider_limits() -> None:
    errors = CorrelationErrors(np.array([0.97]), np.array([0.04]))
    ends = [errors.limits(tail) for tail in (0.3, 0.1, 0.01, 1e-6)]
    assert np.all(np.diff([low[0] for low, _ in ends]) <= 0)
    assert np.all(np.diff([high[0] for _, high in ends]) >= 0)
