"""Numbers of every type mean their own value: none is computed with in the type it came in."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpstats.errors import BudgetExceeded, InvalidParameter
from dpstats.privacy import (
    PrivacyBudget,
    PrivacyGuarantee,
    advanced_composition,
    basic_composition,
    compose,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_sigma,
    group_privacy,
    heterogeneous_composition,
    optimal_composition_delta,
    optimal_composition_epsilon,
    zcdp_epsilon,
    zcdp_rho,
)
from dpstats.privacy.events import ZCDP, Approximate, BoundedRange, DiscreteLaplace, Gaussian, Pure
from dpstats.privacy.gaussian import gaussian_profile
from dpstats.privacy.plan import largest_cost

FLOATS = [np.float16, np.float32, np.float64, np.longdouble]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]

# One number as every type, and the events that it makes.
MAKE = {
    "Gaussian": lambda x: Gaussian(x),
    "Gaussian.total_variation": lambda x: Gaussian(1.0, x),
    "Pure": lambda x: Pure(x),
    "Approximate": lambda x: Approximate(x, 0.0),
    "Approximate.delta": lambda x: Approximate(1.0, x),
    "DiscreteLaplace.scale": lambda x: DiscreteLaplace(1, x),
    "BoundedRange": lambda x: BoundedRange(x),
    "ZCDP": lambda x: ZCDP(x),
    "PrivacyGuarantee": lambda x: PrivacyGuarantee(x),
    "PrivacyGuarantee.delta": lambda x: PrivacyGuarantee(1.0, x),
}
SMALL = ("Gaussian.total_variation", "Approximate.delta", "PrivacyGuarantee.delta")


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS])
def test_every_field_is_kept_as_a_python_number(name, kind):
    value = kind(1) if kind in INTEGERS else kind(0.1 if name in SMALL else 3.1)
    made, plain = MAKE[name](value), MAKE[name](float(value))
    for field in ("mu", "total_variation", "epsilon", "delta", "scale", "rho"):
        if hasattr(made, field):
            assert type(getattr(made, field)) is float
    assert made == plain and repr(made) == repr(plain)


@pytest.mark.parametrize("kind", INTEGERS)
def test_sensitivities_are_python_integers(kind):
    event = DiscreteLaplace(kind(100), kind(2))
    assert type(event.sensitivity) is int and type(event.scale) is float
    assert event == DiscreteLaplace(100, 2.0)
    assert event.pure_cost() == 50.0 and event._twice().sensitivity == 200  # uint8(100) doubled twice wraps


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("value", [np.bool_(True), True, np.complex128(1), np.datetime64("2020-01-01"), "1"])
def test_what_is_no_real_number_is_refused(name, value):
    with pytest.raises(InvalidParameter, match="must be"):
        MAKE[name](value)


def test_what_no_float_holds_is_rounded_to_the_dearer_side():
    tenth = Fraction(1, 10) + Fraction(1, 10**30)
    for make in (MAKE[name] for name in ("Pure", "Gaussian", "ZCDP", "BoundedRange", "PrivacyGuarantee")):
        made = make(tenth)
        number = next(getattr(made, field) for field in ("epsilon", "mu", "rho") if hasattr(made, field))
        assert Fraction(math.nextafter(number, 0)) < tenth <= Fraction(number)
    assert Fraction(DiscreteLaplace(1, Fraction(1, 3)).scale) <= Fraction(1, 3)
    assert Pure(2**53 + 1).epsilon == 2.0**53 + 2
    if np.finfo(np.longdouble).nmant > 52:
        wide = np.longdouble(1) + np.finfo(np.longdouble).eps
        assert Pure(wide).epsilon == math.nextafter(1.0, 2)


@pytest.mark.parametrize("kind", FLOATS)
def test_totals_are_those_of_the_python_numbers(kind):
    small = kind(1e-4)
    for event, delta in (
        (Pure, 1e-6),
        (Gaussian, 1e-6),
        (BoundedRange, 1e-6),
        (ZCDP, 1e-6),
        (Pure, 0.0),
        (PrivacyGuarantee, 0.0),
    ):
        assert compose([event(small)] * 300, delta) == compose([event(float(small))] * 300, delta)


def test_ten_thousand_halves_of_a_float_are_not_nothing():
    # In float16 the sum of squares is 0 and so was the total.
    total = compose([Pure(np.float16(1e-4))] * 10_000, 1e-6)
    assert total.epsilon == compose([Pure(float(np.float16(1e-4)))] * 10_000, 1e-6).epsilon > 0.03


@pytest.mark.parametrize("method", ["basic", "gdp", "zcdp"])
def test_a_budget_counts_a_byte(method):
    # 16^2 is 0 in a byte, and so was the rho of a thousand such charges.
    budget = PrivacyBudget(1.0, 1e-6, method=method)
    with pytest.raises(BudgetExceeded):
        budget.charge(Pure(np.uint8(16)))
    assert budget.history() == ()
    wide = PrivacyBudget(600.0, 1e-6, method=method)
    wide.charge(Pure(np.uint8(16)))
    plain = PrivacyBudget(600.0, 1e-6, method=method)
    plain.charge(Pure(16.0))
    assert wide.spent == plain.spent and wide.spent.epsilon > 1


def test_guarantees_of_bytes():
    total = basic_composition([PrivacyGuarantee(np.uint8(200))] * 2)
    assert total.epsilon == 400.0
    assert group_privacy(PrivacyGuarantee(np.uint8(200), np.float16(1e-4)), np.uint8(200)).epsilon == 40_000.0
    assert heterogeneous_composition([PrivacyGuarantee(np.float16(0.01))] * 5, np.float32(0.5)) == (
        heterogeneous_composition([PrivacyGuarantee(float(np.float16(0.01)))] * 5, 0.5)
    )


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble])
@pytest.mark.parametrize(
    "call",
    [
        lambda x, n: advanced_composition(x, n(100), x),
        lambda x, n: optimal_composition_delta(x, n(100), x, x),
        lambda x, n: optimal_composition_epsilon(x, n(100), x),
        lambda x, n: gaussian_delta(x, x, x),
        lambda x, n: gaussian_sigma(x, x, x),
        lambda x, n: gaussian_epsilon(x, x, x),
        lambda x, n: gaussian_profile(x, x),
        lambda x, n: zcdp_epsilon(x, x),
        lambda x, n: zcdp_rho(x, x),
        lambda x, n: Gaussian(x, x).profile(x),
        lambda x, n: Pure(0.3).profile(x),
        lambda x, n: DiscreteLaplace(n(7), x).profile(x),
        lambda x, n: largest_cost(lambda cost: [Pure(cost)], PrivacyGuarantee(x), x),
    ],
)
def test_functions_compute_in_python_numbers(call, kind):
    value = kind(0.1)
    answer, plain = call(value, np.uint8), call(float(value), int)
    assert answer == plain
    assert isinstance(answer, PrivacyGuarantee) or type(answer) is float
