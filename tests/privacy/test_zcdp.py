"""Zero-concentrated privacy: the conversion against its own minimum in high precision."""

import math

import mpmath as mp
import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.privacy import gaussian_delta, zcdp_epsilon, zcdp_rho
from dpstats.privacy.gaussian import _log_factor, _size_of_factor, zcdp_delta

RHOS = np.logspace(-6, 2, 9)
DELTAS = [1e-15, 1e-10, 1e-6, 1e-3, 0.1]


def best_delta(rho, epsilon):
    """Canonne, Kamath and Steinke (2020), proposition 12, minimised over alpha with 40 digits.

    The derivative of the log of the bound is (2 alpha - 1) rho - epsilon + log(1 - 1/alpha), which
    increases in alpha: its one root is the minimum. Bisection on log(alpha - 1).
    """
    with mp.workdps(40):
        r, e = mp.mpf(float(rho)), mp.mpf(float(epsilon))
        low, high = mp.mpf(-200), mp.mpf(200)
        for _ in range(160):
            middle = (low + high) / 2
            order = mp.exp(middle)
            slope = (1 + 2 * order) * r - e - mp.log1p(1 / order)
            low, high = (middle, high) if slope < 0 else (low, middle)
        order = mp.exp(low)
        log_bound = order * ((1 + order) * r - e) - mp.log(order) - (1 + order) * mp.log1p(1 / order)
        return mp.exp(log_bound)


@pytest.mark.parametrize(
    ("rho", "delta", "epsilon"),
    # Reference values of the optimal conversion, 6 decimals.
    [(0.1, 1e-6, 2.141939), (1.0, 1e-6, 7.766217)],
)
def test_epsilon_reference_values(rho, delta, epsilon):
    assert zcdp_epsilon(rho, delta) == pytest.approx(epsilon, abs=6e-7)
    assert float(best_delta(rho, epsilon)) == pytest.approx(delta, rel=1e-5)


@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_is_the_minimum_over_all_orders(delta):
    for rho in RHOS:
        epsilon = zcdp_epsilon(rho, delta)
        if epsilon > 0:
            assert float(best_delta(rho, epsilon)) == pytest.approx(delta, rel=1e-8)


@pytest.mark.parametrize("rho", RHOS)
def test_delta_is_the_minimum_over_all_orders(rho):
    for epsilon in np.array([1.01, 1.5, 3.0, 10.0]) * rho + math.sqrt(rho):
        assert zcdp_delta(rho, epsilon) == pytest.approx(float(best_delta(rho, epsilon)), rel=1e-7)


def test_delta_is_the_minimum_where_epsilon_is_below_rho():
    # 0.6246 is returned for 0.0290: proved, but over twenty times what the best order proves.
    assert zcdp_delta(1e-3, 0.0) == pytest.approx(float(best_delta(1e-3, 0.0)), rel=1e-6)


def test_the_bound_holds_for_gaussian_noise():
    # Gaussian noise of mu is mu^2/2-zCDP, and its exact curve is known.
    for mu in (0.01, 0.1, 1.0, 5.0):
        for epsilon in (0.0, mu, mu * mu, 3 * mu + mu * mu):
            assert zcdp_delta(mu**2 / 2, epsilon) >= gaussian_delta(epsilon, 1 / mu)


def test_the_bound_is_below_the_simple_conversion():
    # Bun and Steinke (2016), proposition 1.3: rho + 2 sqrt(rho log(1/delta)).
    for delta in DELTAS:
        for rho in RHOS:
            assert zcdp_epsilon(rho, delta) < rho + 2 * math.sqrt(rho * math.log(1 / delta))


@pytest.mark.parametrize("delta", DELTAS)
def test_rho_is_the_inverse_and_never_too_large(delta):
    for epsilon in np.logspace(-4, 2, 7):
        rho = zcdp_rho(epsilon, delta)
        assert zcdp_epsilon(rho, delta) <= epsilon
        assert zcdp_epsilon(rho * (1 + 1e-8), delta) > epsilon
        assert float(best_delta(rho, epsilon)) <= delta * (1 + 1e-8)


def test_zero_rho_costs_nothing():
    assert zcdp_epsilon(0.0, 1e-6) == 0.0
    assert zcdp_delta(0.0, 0.0) == 0.0


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: zcdp_epsilon(-1.0, 1e-6), "rho"),
        (lambda: zcdp_epsilon(1.0, 0.0), "delta"),
        (lambda: zcdp_epsilon(1.0, 1.0), "delta"),
        (lambda: zcdp_delta(1.0, -1.0), "epsilon"),
        (lambda: zcdp_rho(0.0, 1e-6), "epsilon"),
        (lambda: zcdp_rho(1.0, 0.0), "delta"),
    ],
)
def test_bad_parameters_are_named(call, name):
    with pytest.raises(InvalidParameter, match=f"^{name} must be"):
        call()


@pytest.mark.parametrize("order", [1e-9, 1e-3, 0.5, 1.0, 7.0, 1e6])
def test_the_size_of_a_factor_is_that_of_its_terms(order: float) -> None:
    # Rounding errors of the factor are a few units in the last place of its terms, and of 1.
    with mp.workdps(40):
        alpha = 1 + mp.mpf(order)
        terms = [alpha * mp.log(1 - 1 / alpha), -mp.log(mp.mpf(order))]
        assert _log_factor(order) == pytest.approx(float(sum(terms)), rel=1e-12)
        assert _size_of_factor(order) == pytest.approx(float(sum(map(abs, terms)) + 1), rel=1e-12)
