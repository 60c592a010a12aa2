"""Curves and theorems where floats run out: tiny, huge, and nearly equal numbers, against many digits.

Every function is held to the relative error that its docstring states, and to being never below the
truth. References subtract what the code does not, in digits enough for it. The points that were once
wrong are kept by name; a random search with a fixed seed goes on around them.
"""

import math
import random
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.privacy import (
    Neighbors,
    PrivacyGuarantee,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_sigma,
    group_privacy,
    optimal_composition_delta,
    optimal_composition_epsilon,
    poisson_subsampling,
    tradeoff_curve,
    zcdp_epsilon,
    zcdp_rho,
)
from dpstats.privacy.composition import copies_delta
from dpstats.privacy.events import ZCDP, Approximate, BoundedRange, DiscreteLaplace, Gaussian, Pure
from dpstats.privacy.gaussian import gaussian_profile, zcdp_delta

ADD_OR_REMOVE = Neighbors.ADD_OR_REMOVE_ONE
SMALLEST = mp.mpf(2) ** -1074


def assert_one_sided(value, truth, relative, *, given=None):
    """Never below; above by less than a relative error, or three of the smallest floats."""
    value, truth = mp.mpf(value), min(mp.mpf(truth), mp.mpf(1))
    assert truth <= value <= truth * (1 + mp.mpf(relative)) + 3 * SMALLEST, (given, float(value - truth))


# References


def gaussian_reference(epsilon, mu):
    digits = 60 + 2 * abs(int(math.log10(mu))) + 2 * max(0, int(math.log10(max(epsilon, 1))))
    with mp.workdps(digits):
        e, m = mp.mpf(epsilon), mp.mpf(mu)
        a, b = m / 2 - e / m, -m / 2 - e / m
        if abs(a) > 45:
            return mp.mpf(1) if a > 0 else mp.mpf(0)
        # Far out erfc(x) e^(x^2) by its asymptotic series: to a relative 1e-50 beyond 1e6.
        far = mp.exp(e - b * b / 2) / (-b * mp.sqrt(2 * mp.pi)) * (1 - b**-2 + 3 * b**-4 - 15 * b**-6 + 105 * b**-8)
        near = mp.exp(e) * mp.erfc(-b / mp.sqrt(2)) / 2 if b > -(10**6) else far
        return mp.erfc(-a / mp.sqrt(2)) / 2 - near


def laplace_reference(sensitivity, scale, epsilon):
    """F(m) - e^x F(m - sensitivity), as it stands, in 900 digits."""
    with mp.workdps(900):
        b, x = mp.mpf(scale), mp.mpf(epsilon)
        last = int(mp.ceil((sensitivity - x * b) / 2)) - 1
        decay = mp.exp(-1 / b)

        def cumulative(k):
            return 1 - decay ** (k + 1) / (1 + decay) if k >= 0 else decay**-k / (1 + decay)

        return max(cumulative(last) - mp.exp(x) * cumulative(last - sensitivity), mp.mpf(0))


def optimal_reference(epsilon, k, total, delta=0.0):
    tiny = min(epsilon, delta or 1.0)
    with mp.workdps(100 + 2 * int(-math.log10(min(tiny, 1.0)))):
        e, t = mp.mpf(epsilon), mp.mpf(total)
        odds = mp.exp(e)
        term, pure = 1 / (1 + odds) ** k, mp.mpf(0)
        for successes in range(k + 1):
            loss = (2 * successes - k) * e
            if loss > t:
                pure -= term * mp.expm1(t - loss)
            term *= odds * (k - successes) / (successes + 1)
        kept = (1 - mp.mpf(delta)) ** k
        return (1 - kept) + kept * pure


def zcdp_reference(rho, epsilon):
    """The best order's bound, by bisection of its slope."""
    with mp.workdps(80):
        r, e = mp.mpf(rho), mp.mpf(epsilon)
        low, high = mp.mpf(-800), mp.mpf(800)
        for _ in range(250):
            middle = (low + high) / 2
            order = mp.exp(middle)
            low, high = (middle, high) if (1 + 2 * order) * r - e < mp.log1p(1 / order) else (low, middle)
        order = mp.exp(low)
        return mp.exp(order * ((1 + order) * r - e) - mp.log(order) - (1 + order) * mp.log1p(1 / order))


# Points that were wrong


def test_laplace_noise_of_an_epsilon_near_nothing():
    # 4.996e-16 was returned for 5.853e-16: two halves were subtracted.
    event = DiscreteLaplace(734, 6.27e17)
    assert_one_sided(event.profile(0.0), laplace_reference(734, 6.27e17, 0.0), 1e-12)


def test_laplace_noise_beyond_an_epsilon_of_700():
    # Epsilons were cut there, and the profile was twice the truth.
    assert_one_sided(DiscreteLaplace(701, 1.0).profile(700.5), laplace_reference(701, 1.0, 700.5), 1e-12)


@pytest.mark.parametrize("sensitivity", [2**53 + 1, 2**64 + 3, 2**100 - 1])
def test_sensitivities_that_no_float_holds(sensitivity):
    for scale in (sensitivity / 3.0, float(2**60)):
        for share in (0.0, 0.4, 1 - 2.0**-40):
            epsilon = share * (sensitivity / scale)
            value = DiscreteLaplace(sensitivity, scale).profile(epsilon)
            assert_one_sided(value, laplace_reference(sensitivity, scale, epsilon), 1e-12)


@pytest.mark.parametrize("mu", [9e5, 8.94e5, 1e6, 3e7])
@pytest.mark.parametrize("a", [-20.0, -6.0, 0.5, 5.5, 20.0])
def test_gaussian_noise_at_an_epsilon_of_4e11(mu, a):
    # mu/2 - epsilon/mu lost nine digits.
    epsilon = mu * (mu / 2 - a)
    assert_one_sided(gaussian_profile(epsilon, mu), gaussian_reference(epsilon, mu), 3e-12)


@pytest.mark.parametrize("x", [6.5, 12.0, 20.0, 26.0])
@pytest.mark.parametrize("width", [0.001, 0.012, 0.0199])
def test_gaussian_noise_far_out(x, width):
    mu = 2 * math.sqrt(2) * width * x
    epsilon = mu * math.sqrt(2) * x
    assert_one_sided(gaussian_profile(epsilon, mu), gaussian_reference(epsilon, mu), 3e-12)


@pytest.mark.parametrize("mu", [1e-10, 1e-200, 1e-300, 1e-320])
@pytest.mark.parametrize("share", [0.0, 1.0, 5.0, 38.0])
def test_gaussian_noise_of_almost_no_mu(mu, share):
    epsilon = share * mu
    value = gaussian_profile(epsilon, mu)
    assert value > 0  # nothing is free, though no float may hold its price
    assert_one_sided(value, gaussian_reference(epsilon, mu), 3e-12)


def test_gaussian_noise_whose_ratio_no_float_holds():
    # At a large mu its last digit is worth a relative 1e-9 of delta.
    sensitivity, sigma = 1.0, 1.1e-6
    mu = sensitivity / sigma
    epsilon = mu * (mu / 2 + 6)
    with mp.workdps(80):
        m = mp.mpf(sensitivity) / mp.mpf(sigma)
        a, b = m / 2 - mp.mpf(epsilon) / m, -m / 2 - mp.mpf(epsilon) / m
        truth = mp.ncdf(a) - mp.exp(mp.mpf(epsilon) + mp.log(mp.erfc(-b / mp.sqrt(2)) / 2)) if b > -(10**5) else None
        tail = mp.exp(-a * a / 2) / (-b * mp.sqrt(2 * mp.pi)) * (1 - b**-2 + 3 * b**-4)
        truth = mp.ncdf(a) - tail if truth is None else truth
    assert_one_sided(gaussian_delta(epsilon, sigma, sensitivity), truth, 3e-12)


def test_a_group_of_almost_no_epsilon():
    # delta (e^10x - 1) was 1e-10 * 1e-319, which is 0, and so was the quotient.
    group = group_privacy(PrivacyGuarantee(1e-320, 1e-10), 10)
    assert_one_sided(group.delta, mp.mpf(10) * mp.mpf(1e-10), 1e-10)
    assert Fraction(group.epsilon) == 10 * Fraction(1e-320)


def test_a_group_whose_ratio_no_float_holds():
    guarantee = PrivacyGuarantee(80.0, 1e-320)
    for size, exponent in ((9, 720), (10, 800), (11, 880)):
        with mp.workdps(50):
            truth = mp.mpf(1e-320) * mp.expm1(80 * size) / mp.expm1(80)
            assert abs(mp.log(truth) - (exponent - 80 + mp.log(mp.mpf(1e-320)))) < 1e-6
        assert_one_sided(group_privacy(guarantee, size).delta, truth, 1e-10)


def test_optimal_composition_just_below_its_largest_loss():
    # The last loss less the total was a difference of rounded products.
    for epsilon, k in ((1.8177612485551043e-06, 191), (0.1, 30), (0.3, 1000), (1e-9, 7), (math.pi, 3)):
        largest = k * epsilon
        for total in (
            largest * (1 - 2.0**-50),
            math.nextafter(largest, 0),
            math.nextafter(math.nextafter(largest, 0), 0),
        ):
            value = optimal_composition_delta(epsilon, k, total)
            assert_one_sided(value, optimal_reference(epsilon, k, total), 1e-11, given=(epsilon, k, total))


def test_optimal_composition_at_a_point_of_a_hostile_reading():
    point = (1.8177612485551043e-06, 191, 2.845848925525418e-4)
    assert_one_sided(optimal_composition_delta(*point), optimal_reference(*point), 1e-11)


def test_a_range_of_almost_nothing():
    # Its square was 0.
    assert_one_sided(BoundedRange(1e-200).profile(0.0), mp.mpf(1e-200) / 4, 1e-12)


def test_optimal_composition_of_more_copies_than_a_window_holds():
    with pytest.raises(InvalidParameter, match="k must"):
        optimal_composition_delta(1e-6, 10**11, 1.0)
    with pytest.raises(InvalidParameter, match="epsilon must"):
        optimal_composition_epsilon(1e101, 2, 0.1)


def test_copies_of_a_tiny_delta():
    for k, delta in ((2, 1e-300), (10**6, 1e-9), (7, 5e-324), (3, 0.9)):
        with mp.workdps(700):
            truth = 1 - (1 - mp.mpf(delta)) ** k
        assert_one_sided(copies_delta(k, delta), truth, 1e-13)


def test_no_test_is_claimed_powerless_at_a_small_level():
    # 1 - 1e-20 is 1: the type II error was said to be 1, at a mu where the test hardly errs.
    with mp.workdps(60):
        level = mp.mpf(1e-20)
        quantile = mp.findroot(lambda z: mp.log(mp.erfc(z / mp.sqrt(2)) / 2) - mp.log(level), 9.26)
        truth = mp.ncdf(quantile - 12)
    value = float(tradeoff_curve(Gaussian(12.0), 1e-20))
    assert truth * (1 - mp.mpf("1e-9")) <= value <= truth
    # Beyond an epsilon of 700 the factor was cut.
    assert float(tradeoff_curve(PrivacyGuarantee(720.0), 1e-305)) == 0.0
    assert float(tradeoff_curve(PrivacyGuarantee(720.0), 0.0)) == pytest.approx(1.0, rel=1e-12)


# The search


@pytest.mark.parametrize("seed", range(5))
def test_random_gaussian_profiles(seed):
    dice = random.Random(seed)
    for _ in range(80):
        mu = 10 ** dice.choice([dice.uniform(-3, 3), dice.uniform(-12, 7), dice.uniform(-320, 0)])
        a = dice.choice([dice.uniform(-39, 6), dice.uniform(-6, 3), dice.gauss(0, 1) * mu])
        epsilon = max(0.0, mu * (mu / 2 - a)) if dice.random() < 0.9 else 10 ** dice.uniform(-300, 12)
        assert_one_sided(gaussian_profile(epsilon, mu), gaussian_reference(epsilon, mu), 3e-12, given=(epsilon, mu))


@pytest.mark.parametrize("seed", range(5))
def test_random_laplace_profiles(seed):
    dice = random.Random(seed)
    for _ in range(40):
        top = dice.choice([3, 100, 2**53, 2**100])
        sensitivity = dice.randint(1, top)
        epsilon = 10 ** dice.choice([dice.uniform(-16, 1), dice.uniform(-3, 3), dice.uniform(-200, 3)])
        scale = sensitivity / epsilon
        for x in (
            0.0,
            epsilon * dice.random(),
            epsilon * (1 - 10 ** dice.uniform(-17, -1)),
            epsilon * 10 ** dice.uniform(-20, 0),
        ):
            value = DiscreteLaplace(sensitivity, scale).profile(x)
            assert_one_sided(value, laplace_reference(sensitivity, scale, x), 1e-12, given=(sensitivity, scale, x))


@pytest.mark.parametrize("seed", range(5))
def test_random_closed_curves(seed):
    dice = random.Random(seed)
    for _ in range(60):
        epsilon = 10 ** dice.choice([dice.uniform(-320, 2.9), dice.uniform(-3, 2)])
        x = epsilon * dice.choice([0.0, dice.random(), 1 - 10 ** dice.uniform(-17, -1), 10 ** dice.uniform(-20, 0)])
        if x >= epsilon:
            continue
        delta = 10 ** dice.uniform(-320, 0)
        with mp.workdps(700):
            e, t, d = mp.mpf(epsilon), mp.mpf(x), mp.mpf(delta)
            pure = (mp.exp(e) - mp.exp(t)) / (1 + mp.exp(e))
            spread = mp.expm1((e - t) / 2) ** 2 * mp.exp(t) / mp.expm1(e)
            both = d + (1 - d) * pure
        assert_one_sided(Pure(epsilon).profile(x), pure, 1e-12, given=(epsilon, x))
        assert_one_sided(Approximate(epsilon, delta).profile(x), both, 1e-12, given=(epsilon, delta, x))
        assert_one_sided(BoundedRange(epsilon).profile(x), spread, 1e-12, given=(epsilon, x))


@pytest.mark.parametrize("seed", range(6))
def test_random_optimal_compositions(seed):
    dice = random.Random(seed)
    for _ in range(25):
        k = dice.choice([1, 2, 3, 10, 191, dice.randint(1, 400)])
        epsilon = 10 ** dice.choice([dice.uniform(-8, 1), dice.uniform(-3, 0.5), dice.uniform(-300, 2)])
        share = dice.choice([dice.random(), dice.random() ** 8, 1 - 10 ** dice.uniform(-16, 0)])
        total = share * k * epsilon
        if dice.random() < 0.3:  # beside a knot
            total = abs(2 * dice.randint(0, k) - k) * epsilon * (1 + 10 ** dice.uniform(-16, -5))
        delta = dice.choice([0.0, 0.0, 10 ** dice.uniform(-100, -1)])
        value = optimal_composition_delta(epsilon, k, total, delta)
        truth = optimal_reference(epsilon, k, total, delta)
        assert_one_sided(value, truth, 1e-11, given=(epsilon, k, total, delta))
        if 0 < value < 1 and value > copies_delta(k, delta):
            back = optimal_composition_epsilon(epsilon, k, value, delta)
            assert optimal_reference(epsilon, k, back, delta) <= mp.mpf(value) or back >= k * epsilon


@pytest.mark.parametrize("seed", range(5))
def test_random_groups_and_samples(seed):
    dice = random.Random(seed)
    for _ in range(60):
        epsilon, delta = 10 ** dice.uniform(-320, 2.8), 10 ** dice.uniform(-320, 0)
        size, rate = dice.choice([2, 3, 10, dice.randint(2, 10**6)]), 10 ** dice.uniform(-320, 0)
        group = group_privacy(PrivacyGuarantee(epsilon, delta), size)
        sample = poisson_subsampling(PrivacyGuarantee(epsilon, neighbors=ADD_OR_REMOVE), rate)
        with mp.workdps(700):
            e = mp.mpf(epsilon)
            truth = mp.mpf(delta) * mp.expm1(size * e) / mp.expm1(e)
            smaller = mp.log1p(mp.mpf(rate) * mp.expm1(e))
        assert_one_sided(group.delta, truth, 1e-10, given=(epsilon, delta, size))
        assert Fraction(group.epsilon) >= size * Fraction(epsilon)
        assert smaller <= sample.epsilon <= smaller * (1 + mp.mpf("1e-11")) + 3 * SMALLEST


@pytest.mark.parametrize("seed", range(4))
def test_random_concentrated_conversions(seed):
    dice = random.Random(seed)
    for _ in range(25):
        rho = 10 ** dice.choice([dice.uniform(-12, 4), dice.uniform(-240, 90)])
        epsilon = rho + math.sqrt(rho) * dice.uniform(0, 50)
        assert ZCDP(rho).profile(epsilon) == zcdp_delta(rho, epsilon)
        assert min(mp.mpf(1), zcdp_reference(rho, epsilon)) <= zcdp_delta(rho, epsilon)
        delta = 10 ** dice.uniform(-300, -1e-4)
        back = zcdp_epsilon(rho, delta)
        assert zcdp_reference(rho, back) <= mp.mpf(delta) or (back == 0 and zcdp_delta(rho, 0.0) <= delta)
        if 1e-90 < epsilon < 1e90:
            assert zcdp_reference(zcdp_rho(epsilon, delta), epsilon) <= mp.mpf(delta)


@pytest.mark.parametrize("seed", range(4))
def test_random_gaussian_inverses(seed):
    dice = random.Random(seed)
    for _ in range(20):
        epsilon, delta = 10 ** dice.uniform(-8, 11), 10 ** dice.uniform(-300, -0.01)
        sigma = gaussian_sigma(epsilon, delta)
        assert gaussian_delta(epsilon, sigma) <= delta
        back = gaussian_epsilon(sigma, delta)
        assert gaussian_delta(back, sigma) <= delta
        assert back == 0 or back == pytest.approx(epsilon, rel=1e-6, abs=1e-9)


def test_the_search_can_fail():
    # One digit in a trillion less is noticed.
    for value, truth in (
        (gaussian_profile(1.0, 0.3), gaussian_reference(1.0, 0.3)),
        (DiscreteLaplace(5, 3.0).profile(0.4), laplace_reference(5, 3.0, 0.4)),
        (optimal_composition_delta(0.1, 30, 1.0), optimal_reference(0.1, 30, 1.0)),
    ):
        assert_one_sided(value, truth, 1e-11)
        with pytest.raises(AssertionError):
            assert_one_sided(value * (1 - 5e-12), truth, 1e-11)


def test_curves_of_many_points_are_those_of_one():
    for event in (DiscreteLaplace(7, 3.0), BoundedRange(2.0), Pure(0.8), Approximate(0.3, 1e-3)):
        x = np.linspace(0, 1.2 * event.largest_loss(), 37)
        assert event.curve(x).tolist() == pytest.approx([event.profile(value) for value in x], rel=1e-14, abs=0)
