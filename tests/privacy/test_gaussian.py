"""The exact curve of Gaussian noise against 60-digit arithmetic and published numbers."""

import math
from decimal import Decimal

import mpmath as mp
import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.privacy import gaussian_delta, gaussian_epsilon, gaussian_sigma
from dpstats.privacy.gaussian import _falling_rate

EPSILONS = np.logspace(-4, 2, 13)
DELTAS = [1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.1, 0.5]


def exact_delta(epsilon, sigma):
    """Balle and Wang (2018), theorem 8, as printed, in arithmetic with 60 digits."""
    with mp.workdps(60):
        e, s = mp.mpf(float(epsilon)), mp.mpf(sigma)
        return mp.ncdf(1 / (2 * s) - e * s) - mp.exp(e) * mp.ncdf(-1 / (2 * s) - e * s)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    # Reference values of the analytic calibration (Balle and Wang 2018, algorithm 1), 6 decimals.
    [(1, 1e-6, 4.224679), (0.5, 1e-5, 7.031827), (0.1, 1e-10, 54.206296)],
)
def test_sigma_reference_values(epsilon, delta, sigma):
    assert gaussian_sigma(epsilon, delta) == pytest.approx(sigma, rel=1e-6)


@pytest.mark.parametrize("delta", DELTAS)
def test_sigma_is_within_1e_9_of_the_root_and_never_below_it(delta):
    # The curve falls in sigma, so a sign change between sigma(1 - 1e-9) and sigma(1 + 1e-9)
    # places the root in between.
    for epsilon in EPSILONS:
        sigma = gaussian_sigma(epsilon, delta)
        with mp.workdps(60):
            assert exact_delta(epsilon, mp.mpf(sigma) * (1 - mp.mpf("1e-9"))) > delta
            assert exact_delta(epsilon, mp.mpf(sigma) * (1 + mp.mpf("1e-9"))) < delta
            assert exact_delta(epsilon, sigma) <= mp.mpf(delta)


def test_the_one_sidedness_check_notices_a_relative_1e_9():
    # Power control of the test above: noise smaller by 1e-9 breaks its last assertion.
    sigma = gaussian_sigma(1.0, 1e-6) * (1 - 1e-9)
    assert exact_delta(1.0, sigma) > 1e-6


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 1e-3, 0.1, 1.0, 5.0, 20.0, 100.0])
def test_delta_matches_sixty_digits(epsilon):
    for sigma in np.logspace(-2, 5, 22):
        truth = exact_delta(epsilon, float(sigma))
        if truth > 1e-20:
            assert gaussian_delta(epsilon, float(sigma)) == pytest.approx(float(truth), rel=1e-9)


@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_is_never_below_the_root(delta):
    for sigma in np.logspace(-1, 3, 9):
        epsilon = gaussian_epsilon(float(sigma), delta)
        assert exact_delta(epsilon, float(sigma)) <= delta * (1 + 1e-10)
        if epsilon > 0:  # and close to it: 1e-9 less is not enough
            assert exact_delta(epsilon * (1 - 1e-9) - 1e-12, float(sigma)) > delta


@pytest.mark.parametrize("delta", DELTAS)
def test_inverses_round_trip(delta):
    for epsilon in EPSILONS:
        sigma = gaussian_sigma(epsilon, delta)
        assert gaussian_delta(epsilon, sigma) == pytest.approx(delta, rel=1e-8)
        # d epsilon / d log sigma is at most about max(epsilon, 1): an absolute 1e-9 is what a relative
        # 1e-9 of sigma allows.
        assert gaussian_epsilon(sigma, delta) == pytest.approx(epsilon, rel=1e-8, abs=1e-9)


def test_delta_at_the_returned_sigma_is_at_most_delta():
    # To the rounding of 1/(1/mu), a relative 1e-13 of delta.
    for epsilon in np.logspace(-4, 2, 61):
        for delta in DELTAS:
            assert gaussian_delta(epsilon, gaussian_sigma(epsilon, delta)) <= delta * (1 + 1e-13)


def test_delta_at_epsilon_zero_is_the_total_variation():
    # sup |P(S) - Q(S)| of N(0, s^2) and N(1, s^2) is 2 Phi(1/2s) - 1 = erf(1/(2 sqrt 2 s)).
    for sigma in (0.1, 1.0, 10.0, 1e6):
        assert gaussian_delta(0.0, sigma) == pytest.approx(math.erf(1 / (2 * math.sqrt(2) * sigma)), rel=1e-12)


def test_epsilon_is_zero_where_the_noise_is_enough_for_it():
    # total variation at sigma = 100 is erf(1/(200 sqrt 2)) = 0.00399 < 0.01
    assert gaussian_epsilon(100.0, 0.01) == 0.0
    assert gaussian_epsilon(100.0, 0.0039) > 0.0


@pytest.mark.parametrize("sigma", [1e-17, 3e-30, 1e-99])
def test_epsilon_of_next_to_no_noise_is_found_for_any_delta(sigma):
    for delta in (1e-320, 1e-9):
        epsilon = gaussian_epsilon(sigma, delta)
        assert epsilon == pytest.approx(0.5 / sigma**2, rel=1e-12) and gaussian_delta(epsilon, sigma) <= delta


@pytest.mark.parametrize("sensitivity", [1e-6, 0.25, 3.0, 1e8])
def test_sensitivity_only_scales(sensitivity):
    # Only sensitivity/sigma enters the curve.
    assert gaussian_sigma(0.7, 1e-7, sensitivity) == pytest.approx(sensitivity * gaussian_sigma(0.7, 1e-7), rel=1e-14)
    assert gaussian_delta(0.7, 2 * sensitivity, sensitivity) == pytest.approx(gaussian_delta(0.7, 2.0), rel=1e-12)
    assert gaussian_epsilon(2 * sensitivity, 1e-7, sensitivity) == pytest.approx(gaussian_epsilon(2.0, 1e-7), rel=1e-12)


ERRATA = {
    # docs/errata.md, algorithm 9.2.1: actual delta over the claimed one, by epsilon; delta as below.
    # The first entry is 0.053488 to 50 digits (a table of three digits that has .054 is one unit off).
    0.1: [".0535", ".117", ".276", ".683", "4.61", "33.8"],
    0.5: [".325", ".712", "1.68", "4.16", "28.1", "206"],
    1.0: [".826", "1.81", "4.28", "10.6", "71.9", "528"],
}


@pytest.mark.parametrize("epsilon", ERRATA)
def test_the_noise_printed_in_algorithm_9_2_1(epsilon):
    for delta, printed in zip([1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10], ERRATA[epsilon], strict=True):
        sigma = math.sqrt(math.log(1 / delta)) / epsilon
        value = Decimal(printed)
        half_unit = 0.5 * 10.0 ** value.as_tuple().exponent
        assert gaussian_delta(epsilon, sigma) / delta == pytest.approx(float(value), abs=half_unit)


@pytest.mark.parametrize(("delta", "first"), [(1e-5, 8.42), (1e-3, 7.46)])
def test_the_classical_constant_fails_at_large_epsilon(delta, first):
    # docs/errata.md: sqrt(2 ln(1.25/delta))/epsilon fails from this epsilon on (two decimals).
    def actual(epsilon):
        return gaussian_delta(epsilon, math.sqrt(2 * math.log(1.25 / delta)) / epsilon)

    assert actual(first - 0.01) <= delta
    assert actual(first + 0.01) > delta


def test_the_classical_constant_is_proved_below_one():
    # Dwork and Roth (2014), theorem A.1: private for epsilon < 1. It is also never the smaller noise.
    for delta in (1e-10, 1e-6, 1e-3):
        for epsilon in (0.01, 0.1, 0.5, 0.99):
            classical = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
            assert gaussian_delta(epsilon, classical) < delta
            assert gaussian_sigma(epsilon, delta) < classical


def test_zero_delta_is_refused_with_the_reason():
    with pytest.raises(InvalidParameter, match="delta must"):
        gaussian_sigma(1.0, 0.0)
    with pytest.raises(InvalidParameter, match="delta must"):
        gaussian_epsilon(1.0, 0.0)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: gaussian_sigma(0.0, 1e-6), "epsilon"),
        (lambda: gaussian_sigma(-1.0, 1e-6), "epsilon"),
        (lambda: gaussian_sigma(math.inf, 1e-6), "epsilon"),
        (lambda: gaussian_sigma(1.0, 1.0), "delta"),
        (lambda: gaussian_sigma(1.0, -1e-6), "delta"),
        (lambda: gaussian_sigma(1.0, 1e-6, 0.0), "sensitivity"),
        (lambda: gaussian_delta(-0.1, 1.0), "epsilon"),
        (lambda: gaussian_delta(1.0, 0.0), "sigma"),
        (lambda: gaussian_delta(1.0, math.nan), "sigma"),
        (lambda: gaussian_epsilon(0.0, 1e-6), "sigma"),
        (lambda: gaussian_epsilon(1.0, 1.0), "delta"),
    ],
)
def test_bad_parameters_are_named(call, name):
    with pytest.raises(InvalidParameter, match=f"^{name} must be"):
        call()


@pytest.mark.parametrize("x", [-3.9, 0.0, 2.0, 5.9, 6.0, 6.3, 7.9, 8.0, 11.9, 12.0, 40.0, 1e8])
def test_the_slope_of_erfcx_has_its_digits_on_both_sides_of_its_series(x: float) -> None:
    with mp.workdps(60):
        z = mp.mpf(x)
        scaled = mp.exp(z * z) * mp.erfc(z) if x < 1e4 else (1 - 1 / (2 * z * z) + 3 / (4 * z**4)) / z / mp.sqrt(mp.pi)
        exact = 2 / mp.sqrt(mp.pi) - 2 * z * scaled
        found = float(_falling_rate(np.array([x]))[0])
        # Below 6 two terms nearly cancel, to a 72nd part. From there on the series ends at its smallest terms.
        assert abs(found / exact - 1) < (5e-14 if x < 6 else 3e-14 if x < 8 else 2e-15)
