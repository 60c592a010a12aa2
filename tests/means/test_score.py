"""Score limits: against closed forms where there are some, and by simulation where there are none."""

import math

import numpy as np
import pytest
from scipy import stats

from dpstats.means.moments import About, Known, OfSquares, Score
from dpstats.privacy.plan import Added

ONE = np.ones(1)


def score(estimate, noise, n, variance, clip=1.0):
    return Score(np.array([estimate]), noise, n, -clip * ONE, clip * ONE, variance)


def binary(total, n):
    """A count of n zeros and ones, as rows at -1 and 1: first and second moments without noise."""
    mean = 2 * total / n - 1
    return score(mean, Added("gaussian", 0.0, 0.0), n, About(mean * ONE, ONE, 0 * ONE, 0 * ONE, ONE))


@pytest.mark.parametrize("total", [0, 1, 3, 20, 50])
def test_zeros_and_ones_have_wilsons_upper_limit(total):
    # From the low end the variance is in proportion to the mean, as a count's is, and at most that of zeros and ones:
    # Wilson's limit where that binds (nothing seen), and between it and the root of (p - q)^2 = z^2 V/n elsewhere.
    n, z = 50, stats.norm.isf(0.025)
    low, high = (float((end[0] + 1) / 2) for end in binary(total, n).limits(0.025))
    p = total / n
    wilson = (p + z**2 / (2 * n) + z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))) / (1 + z**2 / n)
    if total == 0:
        assert (low, high) == (0.0, pytest.approx(wilson, rel=1e-9))
    wald = p + z * math.sqrt(p * (1 - p) / n)
    assert high >= wald - 1e-12 and high == pytest.approx(wilson, rel=0.12)


@pytest.mark.parametrize(("p", "n"), [(0.01, 100), (0.05, 50), (0.1, 50), (0.5, 30)])
def test_it_covers_zeros_and_ones_where_walds_interval_does_not(p, n):
    covered, walds = 0.0, 0.0
    for total in range(n + 1):
        low, high = ((end[0] + 1) / 2 for end in binary(total, n).limits(0.025))
        half = 1.96 * math.sqrt(total / n * (1 - total / n) / n)
        chance = stats.binom.pmf(total, n, p)
        covered += chance * (low <= p <= high)
        walds += chance * (abs(total / n - p) <= half)
    assert covered > 0.92  # what Wilson's interval has where one is expected
    assert p == 0.5 or walds < 0.92


def test_a_known_spread_and_gaussian_noise_give_the_normal_interval():
    made = score(0.1, Added("gaussian", 0.02, 0.02), 400, Known(0.3 * ONE, ONE))
    low, high = made.limits(0.025)
    half = stats.norm.isf(0.025) * math.hypot(0.3 / 20, 0.02)
    assert (low[0], high[0]) == (pytest.approx(0.1 - half, rel=1e-9), pytest.approx(0.1 + half, rel=1e-9))
    less, greater = made.tails(np.array([0.05]))
    assert greater[0] == pytest.approx(stats.norm.sf(0.05 / math.hypot(0.3 / 20, 0.02)), rel=1e-9)
    assert less[0] == pytest.approx(1 - greater[0], rel=1e-9)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_limits_and_tails_are_inverse(law):
    made = score(0.2, Added(law, 0.05, 0.05), 100, About(0.2 * ONE, 0.3 * ONE, 0.05 * ONE, 0.03 * ONE, ONE))
    for tail in (0.4, 0.025, 1e-6):
        low, high = made.limits(tail)
        assert made.tails(low)[1][0] == pytest.approx(tail, rel=1e-6)
        assert made.tails(high)[0][0] == pytest.approx(tail, rel=1e-6)
        # One tail for every column, or a number for each.
        np.testing.assert_array_equal(made.limits(np.array([tail])), (low, high))


def test_an_estimate_outside_is_brought_in_and_never_a_point():
    for estimate in (-40.0, -1.0, 1.0, 3.0):
        made = score(estimate, Added("laplace", 5.0, 7.0), 10, Known(ONE, ONE))
        low, high = made.limits(0.025)
        assert made.start[0] == np.clip(estimate, -1, 1)
        assert -1 <= low[0] < high[0] <= 1
    # Without noise and spread nothing is left open.
    low, high = score(0.3, Added("gaussian", 0.0, 0.0), 10, Known(0 * ONE, ONE)).limits(0.025)
    assert low[0] == pytest.approx(0.3) == high[0]


def test_no_variance_is_above_what_the_ends_allow():
    for variance in (Known(9 * ONE, ONE), About(0 * ONE, 4 * ONE, ONE, ONE, ONE), OfSquares(5 * ONE)):
        for value in np.linspace(-1, 1, 9):
            at = variance(value * ONE)[0]
            assert 0 <= at <= (5 * abs(value) if isinstance(variance, OfSquares) else 1 - value**2 + 1e-15)
    # Squares: y in [0, w] of mean v vary by at most v (w - v).
    assert OfSquares(4 * ONE)(ONE)[0] == 3.0


def test_spread_about_the_value_is_raised_by_its_noise_and_in_proportion():
    # At the estimate: Q - T^2 + one deviation of the noise of Q - 2mT.
    made = About(0.5 * ONE, 0.3 * ONE, 0.01 * ONE, 0.02 * ONE, ONE)
    expected = 0.3 - 0.25 + math.hypot(0.02, 2 * 0.5 * 0.01)
    assert made(0.5 * ONE)[0] == pytest.approx(expected, rel=1e-12)
    # Twice as far from the far end: twice the variance, and what Q says about that value.
    near = About(-0.9 * ONE, 0.82 * ONE, 0 * ONE, 0 * ONE, ONE)
    about_value = 0.82 - 2 * -0.8 * -0.9 + 0.64
    assert near(-0.8 * ONE)[0] == pytest.approx(2 * about_value, rel=1e-9)
