"""Critical values under a bound on the bias."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpstats.means.boxed_errors import biased_normal_quantile
from dpstats.means.ratio import laplace_sum_quantile


def test_squares_are_quantiles_of_a_noncentral_chi_square_law() -> None:
    bias = np.array([0.0, 0.1, 0.5, 1.0, 2.0])
    for tail in (0.025, 0.05):
        expected = np.sqrt(stats.ncx2.isf(2 * tail, 1, np.maximum(bias, 1e-12) ** 2))
        np.testing.assert_allclose(biased_normal_quantile(tail, bias), expected, rtol=1e-9)


@pytest.mark.parametrize("tail", [0.4, 0.2, 0.025, 1e-6, 1e-100, 1e-300])
def test_the_probability_beyond_is_what_was_asked_for(tail: float) -> None:
    bias = np.array([0.0, 1e-3, 0.3, -0.3, 4.0, 1e6])
    x = biased_normal_quantile(tail, bias)
    beyond = stats.norm.logsf(x - np.abs(bias)), stats.norm.logsf(x + np.abs(bias))
    np.testing.assert_allclose(np.logaddexp(*beyond), np.log(2 * tail), rtol=1e-3, atol=1e-3)
    assert np.all(x <= np.abs(bias) + stats.norm.isf(tail) + 1e-9)  # never wider than bias + z
    assert biased_normal_quantile(tail, np.inf) == np.inf
    # One tail for each bias.
    each = biased_normal_quantile(np.full(6, tail), bias)
    np.testing.assert_array_equal(each, x)


def test_a_sum_of_laplace_variables_with_a_bias() -> None:
    rng = np.random.default_rng(3)
    draws = rng.normal(0, 0.5, 400_000) + rng.laplace(size=(400_000, 2)) @ np.array([1.0, 0.4])
    for bias in (-0.7, 0.2, 5.0):
        x = laplace_sum_quantile(0.025, 0.5, np.array([1.0, 0.4]), bias)
        # Six standard errors of a proportion; without the bias in both tails the share would be another.
        assert np.mean(np.abs(draws + bias) > x) == pytest.approx(0.05, abs=6 * np.sqrt(0.05 * 0.95 / 400_000))
        assert x < laplace_sum_quantile(0.025, 0.5, np.array([1.0, 0.4])) + abs(bias)
    # Nearly normal: the normal twin.
    for bias in (0.0, 1.0):
        almost = laplace_sum_quantile(0.025, 1.0, np.array([1e-4]), bias)
        assert almost == pytest.approx(float(biased_normal_quantile(0.025, bias)), rel=1e-5)
    # Far out the exponential bound, which is larger and not lost in rounding.
    assert laplace_sum_quantile(1e-300, 1.0, np.array([1.0])) > 300 * np.log(10)


def test_a_tail_of_one_half_is_at_zero() -> None:
    # A p-value of 1 asks for it; rounding can put the tail at 0 on either side of one half.
    for bias in np.linspace(0.0, 0.5, 200):
        assert laplace_sum_quantile(0.5, 0.0028, np.array([0.0046]), float(bias)) <= 1e-9
