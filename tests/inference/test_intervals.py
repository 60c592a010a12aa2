"""The law of normal plus Laplace errors: tails, quantiles, half-widths, joint levels."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtri

from dpstats.inference.error_distributions import (
    furthest,
    half_widths,
    normal_laplace_quantile,
    normal_laplace_tail,
    simultaneous_level,
)

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=200)

# A count of n draws falls outside this range with probability below 1e-7 when each counts with probability p.
FALSE_ALARM = 1e-7


def plausible_count(n, p):
    law = stats.binom(n, p)
    return law.ppf(FALSE_ALARM / 2) - 1, law.isf(FALSE_ALARM / 2) + 1


def exact_tail(x, s, b):
    """The formula of the docstring, in 120 digits: no absorption of exponentials, no cancellation."""
    with mp.workdps(120):
        x, s, b = mp.mpf(float(x)), mp.mpf(float(s)), mp.mpf(float(b))

        def q(z):
            return mp.erfc(z / mp.sqrt(2)) / 2

        lift = mp.exp(s * s / (2 * b * b))
        return q(x / s) + lift * (mp.exp(-x / b) * q(s / b - x / s) - mp.exp(x / b) * q(s / b + x / s)) / 2


@pytest.mark.parametrize(("x", "s", "b"), [(0.7, 1.0, 1.0), (3.0, 0.5, 1.0), (5.0, 2.0, 0.3), (1.0, 0.1, 2.0)])
def test_tail_is_the_convolution(x, s, b):
    # P(N + L > x) = integral of P(L > x - u) over the normal density, split at the kink u = x.
    with mp.workdps(25):

        def integrand(u):
            gap = x - u
            laplace = mp.exp(-gap / b) / 2 if gap > 0 else 1 - mp.exp(gap / b) / 2
            return laplace * mp.npdf(u, 0, s)

        truth = mp.quad(integrand, [-12 * s, -4 * s, 0, min(x, 11 * s), 12 * s + x])
    assert normal_laplace_tail(x, s, b) == pytest.approx(float(truth), rel=1e-12)
    assert float(exact_tail(x, s, b)) == pytest.approx(float(truth), rel=1e-15)


@pytest.mark.parametrize("ratio", [1e-6, 1e-3, 0.05, 0.3, 1.0, 3.0, 20.0, 1e3, 1e6])
def test_tail_matches_high_precision(ratio):
    # In units of the larger deviation, out to tails of about e^-40.
    s, b = ratio / max(1.0, ratio), 1 / max(1.0, ratio)
    for x in (0.0, 1e-9, 0.01, 0.3, 1.0, 2.0, 5.0, 8.0):
        for scale in (1.0, 1e-200, 1e150):
            found = normal_laplace_tail(x * scale, s * scale, b * scale)
            assert found == pytest.approx(float(exact_tail(x, s, b)), rel=1e-10)


def test_tail_limits():
    assert normal_laplace_tail(1.0, 1.0, 0.0) == pytest.approx(stats.norm.sf(1.0), rel=1e-14)
    assert normal_laplace_tail(1.0, 0.0, 1.0) == pytest.approx(math.exp(-1) / 2, rel=1e-15)
    assert normal_laplace_tail(1.0, 0.0, 0.0) == 0.0
    assert normal_laplace_tail(0.0, 2.0, 3.0) == pytest.approx(0.5, rel=1e-14)  # symmetry


@given(st.floats(1e-12, 0.499), st.floats(-6, 6), st.floats(-100, 100))
@FIXED
def test_quantile_inverts_the_tail(tail, log_ratio, log_scale):
    s, b = 10.0 ** (log_scale + log_ratio / 2), 10.0 ** (log_scale - log_ratio / 2)
    x = normal_laplace_quantile(tail, s, b)
    assert normal_laplace_tail(x, s, b) == pytest.approx(tail, rel=1e-8)


@pytest.mark.parametrize(
    ("tail", "s", "b", "expected"),
    [
        (0.025, 1.0, 0.0, 1.959963984540054),  # normal table
        (0.025, 0.0, 1.0, math.log(20)),  # P(L > x) = e^-x/2
        (0.5, 0.0, 1.0, 0.0),
        (0.5, 0.0, 0.0, 0.0),
        (0.025, 0.0, 0.0, 0.0),
    ],
)
def test_quantile_limits(tail, s, b, expected):
    assert normal_laplace_quantile(tail, s, b) == pytest.approx(expected, rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("s", [0.1, 1.0, 3.0, 10.0])
def test_quantile_at_one_half_is_zero(s):
    assert abs(normal_laplace_quantile(0.5, s, 1.0)) <= 1e-12 * s


def test_a_normal_interval_of_the_right_variance_undercovers_far_out():
    # Why this file exists: at 99.9% a normal interval of variance s^2 + 2 b^2 leaves out more than it says.
    variance = 0.3**2 + 2.0
    naive = -ndtri(0.0005) * math.sqrt(variance)
    assert normal_laplace_tail(naive, 0.3, 1.0) > 2 * 0.0005


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_half_widths_cover_simulated_errors(noise, confidence):
    n, rng = 200_000, np.random.default_rng(20)
    sampling, scale = np.array([0.0, 1.0, 1.0, 0.2]), np.array([1.0, 0.0, 0.5, 2.0])
    widths = half_widths((1 - confidence) / 2, sampling, noise, scale)
    draw = rng.laplace if noise == "laplace" else rng.normal
    errors = np.abs(rng.normal(size=(n, 4)) * sampling + draw(size=(n, 4)) * scale)
    low, high = plausible_count(n, confidence)
    covered = (errors <= widths).sum(axis=0)
    assert (low <= covered).all() and (covered <= high).all()
    # Power control: widths a tenth off are noticed, in both directions.
    assert ((errors <= 0.9 * widths).sum(axis=0) < low).all()
    assert ((errors <= 1.1 * widths).sum(axis=0) > high).all()


def test_half_widths_of_equal_columns_are_equal_and_ordered():
    widths = half_widths(0.025, np.array([1.0, 2.0, 1.0]), "laplace", np.array([1.0, 1.0, 1.0]))
    assert widths.shape == (3,)
    assert widths[0] == widths[2] == pytest.approx(normal_laplace_quantile(0.025, 1.0, 1.0), rel=1e-12)
    assert widths[1] == pytest.approx(normal_laplace_quantile(0.025, 2.0, 1.0), rel=1e-12)


def test_simultaneous_level_is_sidaks():
    # 1 - (1 - a)^(1/m) = .0102062 for a = .05, m = 5 (Sidak 1967, as tabled).
    assert 1 - simultaneous_level(0.95, 5) == pytest.approx(0.0102062, abs=5e-8)
    assert simultaneous_level(0.95, 1) == pytest.approx(0.95, rel=1e-15)
    assert simultaneous_level(0.9, 1000) ** 1000 == pytest.approx(0.9, rel=1e-12)


@pytest.mark.parametrize("correlation", [0.0, 0.8, -0.2])
def test_simultaneous_intervals_cover_together(correlation):
    # Sidak (1967): at least the level for normal errors of any correlation, plus independent Laplace noise.
    n, d, rng = 100_000, 5, np.random.default_rng(3)
    covariance = np.full((d, d), correlation) + (1 - correlation) * np.eye(d)
    errors = rng.multivariate_normal(np.zeros(d), covariance, size=n, method="cholesky")
    errors += rng.laplace(scale=0.5, size=(n, d))

    def together(level):
        return (
            (np.abs(errors) <= half_widths((1 - level) / 2, np.ones(d), "laplace", np.full(d, 0.5))).all(axis=1).sum()
        )

    low, high = plausible_count(n, 0.9)
    assert together(simultaneous_level(0.9, d)) >= low
    if correlation == 0.0:  # independent: exact
        assert together(simultaneous_level(0.9, d)) <= high
    # Power control: one column's level is not enough for all.
    assert together(0.9) < low


@pytest.mark.parametrize("columns", [1, 20, 5000])
def test_furthest_value_is_found_to_the_last_bits(columns):
    rng = np.random.default_rng(columns)
    start, end = rng.normal(size=columns), 5 * rng.normal(size=columns)
    wanted = start + rng.random(columns) * (end - start)
    far = np.abs(wanted - start)

    def kept(values):
        assert values.shape[1] == columns
        return np.abs(values - start) <= far

    found = furthest(start, end, kept)
    np.testing.assert_allclose(found, wanted, atol=1e-15 * np.abs(end - start).max(), rtol=1e-15)
    assert kept(found[None]).all()  # what is returned was kept, not next to it
    np.testing.assert_array_equal(furthest(start, end, lambda values: values == values), end)
    np.testing.assert_array_equal(furthest(start, end, lambda values: values != values), start)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_half_widths_of_tails_that_no_level_can_state(noise):
    widths = [half_widths(tail, np.ones(1), noise, np.ones(1))[0] for tail in (1e-10, 1e-17, 1e-100, 1e-300)]
    assert np.all(np.diff(widths) > 0) and np.isfinite(widths).all()
