"""Quantiles of a normal variable plus Laplace variables."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpstats.inference.error_distributions import normal_laplace_quantile
from dpstats.means.ratio import laplace_sum_quantile
from tests.means.test_adaptive import RNG


def test_laplace_sums() -> None:
    # One Laplace variable: the closed form. Two equal ones, no normal part to speak of: the tail of
    # L1 + L2 is (2 + x) e^-x / 4.
    for tail in (0.2, 0.025, 1e-6):
        for std, scale in ((1.0, 1.0), (3.0, 0.1), (0.05, 2.0)):
            value = laplace_sum_quantile(tail, std, np.array([scale]))
            assert value == pytest.approx(normal_laplace_quantile(tail, std, scale), rel=1e-7)
        x = laplace_sum_quantile(tail, 1e-3, np.ones(2))
        assert (2 + x) * math.exp(-x) / 4 == pytest.approx(tail, rel=1e-4)
    # A tiny normal part is raised: never narrower.
    assert laplace_sum_quantile(0.01, 1e-9, np.ones(1)) >= math.log(50)
    draws = RNG.normal(0, 0.5, 400_000) + RNG.laplace(size=(400_000, 3)) @ np.array([1.0, 0.6, 0.2])
    x = laplace_sum_quantile(0.01, 0.5, np.array([1.0, 0.6, 0.2]))
    # Six standard errors of a proportion.
    assert np.mean(draws > x) == pytest.approx(0.01, abs=6 * math.sqrt(0.01 * 0.99 / 400_000))
