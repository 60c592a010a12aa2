"""Totals are never below the real ones: exact rationals beside every sum, product and root."""

import math
import random
from collections import Counter
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstats.errors import InvalidParameter
from dpstats.privacy import (
    Neighbors,
    PrivacyBudget,
    PrivacyGuarantee,
    advanced_composition,
    basic_composition,
    compose,
    group_privacy,
    heterogeneous_composition,
)
from dpstats.privacy.events import ZCDP, Approximate, BoundedRange, DiscreteLaplace, Gaussian, Pure, lattice_slack
from dpstats.privacy.guarantee import (
    check_cost,
    down,
    multiply_up,
    quotient_up,
    root_up,
    sum_up,
    two_product,
    two_sum,
    up,
)
from dpstats.privacy.totals import certifies, convolved_epsilon, covers, gaussian_total

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=200)
NUMBERS = st.floats(0, 1e300, allow_nan=False, allow_infinity=False)
ADD_OR_REMOVE = Neighbors.ADD_OR_REMOVE_ONE


def is_rounded_up(number, exact):
    """The smallest float that is not below."""
    return Fraction(number) >= exact and (number == 0 or Fraction(math.nextafter(number, 0)) < exact)


# The arithmetic


@FIXED
@given(st.lists(NUMBERS, max_size=20))
def test_sums_are_rounded_up(numbers):
    exact = sum((Fraction(number) for number in numbers), Fraction(0))
    assert is_rounded_up(sum_up(numbers), exact) or exact == 0


@FIXED
@given(st.fractions(min_value=0))
def test_quotients_are_rounded_up_and_down(value):
    assert is_rounded_up(up(value), value) or value == 0
    assert Fraction(down(value)) <= value < Fraction(math.nextafter(down(value), math.inf))


@FIXED
@given(st.floats(1e-150, 1e150), st.floats(1e-150, 1e150))
def test_quotients_of_floats_are_rounded_up(first, second):
    assert is_rounded_up(quotient_up(first, second), Fraction(first) / Fraction(second))


@FIXED
@given(st.floats(1e-150, 1e150), st.floats(1e-150, 1e150))
def test_products_of_floats_are_rounded_up(first, second):
    assert is_rounded_up(multiply_up(first, second), Fraction(first) * Fraction(second))
    assert multiply_up(1e200, 1e200) == math.inf


@pytest.mark.parametrize(("value", "limits"), [(math.nan, {}), (math.inf, {}), (-1.0, {}), (2.0, {"at_most": 1})])
def test_a_cost_that_is_no_number_in_its_range_is_refused(value, limits):
    with pytest.raises(InvalidParameter, match="cost must"):
        check_cost("cost", value, **limits)
    assert math.copysign(1, check_cost("cost", -0.0)) == 1


def test_quotients_of_any_integers_and_what_is_beyond_floats():
    assert quotient_up(2**80 + 1, 1.0) == math.nextafter(2.0**80, math.inf)
    assert quotient_up(1, 5e-324) == math.inf and quotient_up(3, 0.0) == math.inf


@FIXED
@given(NUMBERS, NUMBERS)
def test_roots_are_rounded_up(first, second):
    square = Fraction(first) ** 2 + Fraction(second) ** 2
    root = root_up(square)
    assert Fraction(root) ** 2 >= square
    assert Fraction(math.nextafter(root, 0)) ** 2 < square or square == 0
    assert root_up(Fraction(first) ** 2) == first


@FIXED
@given(st.floats(1e-60, 1e60), st.floats(-1e60, 1e60))
def test_pairs_of_floats_are_exact(first, second):
    total, error = two_sum(first, second)
    assert Fraction(total) + Fraction(error) == Fraction(first) + Fraction(second)
    if abs(second) > 1e-60:
        product, error = two_product(first, second)
        assert Fraction(product) + Fraction(error) == Fraction(first) * Fraction(second)


def test_sums_beyond_any_float_are_infinite():
    assert sum_up([1e308] * 3) == math.inf
    assert up(Fraction(10) ** 400) == math.inf
    with pytest.raises(InvalidParameter, match="epsilon must"):
        basic_composition([PrivacyGuarantee(1e308)] * 3)


# Totals


def random_floats(seed, count, low=-6, high=0):
    dice = random.Random(seed)
    return [10 ** dice.uniform(low, high) for _ in range(count)]


@pytest.mark.parametrize("seed", range(20))
def test_basic_composition_is_rounded_up(seed):
    epsilons, deltas = random_floats(seed, 9), random_floats(seed + 100, 9, -12, -2)
    total = basic_composition(map(PrivacyGuarantee, epsilons, deltas))
    assert is_rounded_up(total.epsilon, sum(map(Fraction, epsilons)))
    assert is_rounded_up(total.delta, sum(map(Fraction, deltas)))


@pytest.mark.parametrize("seed", range(20))
def test_pure_totals_are_rounded_up(seed):
    costs = random_floats(seed, 7)
    laplace = [DiscreteLaplace(3 + seed, scale) for scale in random_floats(seed + 50, 4, -1, 3)]
    events = [*map(Pure, costs), *laplace, *laplace[:1] * 10]
    exact = sum(map(Fraction, costs)) + sum(event.exact_pure_cost() for event in [*laplace, *laplace[:1] * 10])
    total = compose(events, 0.0)
    assert is_rounded_up(total.epsilon, exact)
    for check in (certifies, covers):
        assert check(events, total)
        assert not check(events, PrivacyGuarantee(math.nextafter(total.epsilon, 0)))


def test_ten_tenths_on_a_lattice_are_one():
    # Each is a quotient, exactly a tenth, which no float is.
    assert compose([DiscreteLaplace(1, 10.0)] * 10, 0.0) == PrivacyGuarantee(1.0)
    # The float 0.1 is more than a tenth.
    assert compose([Pure(0.1)] * 10, 0.0).epsilon == math.nextafter(1.0, 2)


def test_many_different_quotients_are_added_quickly_and_not_below():
    events = [DiscreteLaplace(7, 3.1 + 0.37 * i) for i in range(300)]
    total = compose(events, 0.0).epsilon
    assert Fraction(total) >= sum(event.exact_pure_cost() for event in events)
    assert total == pytest.approx(math.fsum(7 / event.scale for event in events), rel=1e-14)


@pytest.mark.parametrize("seed", range(20))
def test_gaussian_totals_are_rounded_up(seed):
    mus, parts = random_floats(seed, 8, -3, 1), random_floats(seed + 9, 8, -14, -9)
    total = gaussian_total(list(map(Gaussian, mus, parts)))
    square = sum(Fraction(mu) ** 2 for mu in mus)
    assert Fraction(math.nextafter(total.mu, 0)) ** 2 < square <= Fraction(total.mu) ** 2
    assert is_rounded_up(total.total_variation, sum(map(Fraction, parts)))


@pytest.mark.parametrize("seed", range(10))
def test_rhos_are_rounded_up(seed):
    for number in random_floats(seed, 30, -3, 2):
        square = Fraction(number) ** 2
        assert is_rounded_up(Pure(number).zcdp_cost(), square / 2)
        assert is_rounded_up(Gaussian(number).zcdp_cost(), square / 2)
        assert is_rounded_up(Approximate(number, 0.0).zcdp_cost(), square / 2)
        assert is_rounded_up(BoundedRange(number).zcdp_cost(), square / 8)
        laplace = DiscreteLaplace(3, number)
        assert is_rounded_up(laplace.pure_cost(), 3 / Fraction(number))
        assert Fraction(laplace.zcdp_cost()) >= (3 / Fraction(number)) ** 2 / 2


def test_the_rho_of_a_tiny_release_is_not_nothing():
    assert Pure(1e-200).zcdp_cost() > 0 and Gaussian(1e-200).zcdp_cost() > 0


@pytest.mark.parametrize("seed", range(10))
def test_lists_of_all_kinds_are_not_below_their_sums(seed):
    # At a delta which leaves nothing to convert with: epsilons and deltas add up.
    epsilons, deltas = random_floats(seed, 6, -4, -1), random_floats(seed + 1, 6, -9, -7)
    events = [*map(Approximate, epsilons, deltas), BoundedRange(0.3), Pure(1e-9)]
    spent = sum(map(Fraction, deltas))
    with pytest.raises(InvalidParameter, match="delta must"):
        compose([*events, ZCDP(0.1)], down(spent))
    total = compose(events, up(spent))
    assert Fraction(total.epsilon) >= sum(map(Fraction, epsilons)) * Fraction(9, 10)
    assert Fraction(total.delta) >= 1 - math.prod(1 - Fraction(delta) for delta in deltas)


@pytest.mark.parametrize("seed", range(10))
def test_theorems_are_not_below_fifty_digits(seed):
    dice = random.Random(seed)
    epsilon, k, slack, delta = (dice.uniform(0.01, 2), dice.randint(1, 10**6), 10 ** dice.uniform(-300, -1), 1e-9)
    with mpmath.workdps(50):
        e, s, d = mpmath.mpf(epsilon), mpmath.mpf(slack), mpmath.mpf(delta)
        printed = mpmath.sqrt(2 * k * mpmath.log(1 / s)) * e + k * e * mpmath.expm1(e)
        total = advanced_composition(epsilon, k, slack, delta)
        assert printed <= total.epsilon <= printed * (1 + mpmath.mpf("3e-14"))
        assert min(mpmath.mpf(1), k * d + s) <= total.delta
        numbers = [(dice.uniform(0.001, 0.5), 10 ** dice.uniform(-12, -5)) for _ in range(30)]
        drift = mpmath.fsum(mpmath.mpf(x) * mpmath.tanh(mpmath.mpf(x) / 2) for x, _ in numbers)
        spread = mpmath.fsum(mpmath.mpf(x) ** 2 for x, _ in numbers)
        printed = min(
            mpmath.fsum(mpmath.mpf(x) for x, _ in numbers),
            drift + mpmath.sqrt(2 * spread * mpmath.log(1 / s)),
            drift + mpmath.sqrt(2 * spread * mpmath.log(mpmath.e + mpmath.sqrt(spread) / s)),
        )
        total = heterogeneous_composition([PrivacyGuarantee(*pair) for pair in numbers], slack)
        assert printed <= total.epsilon <= printed * (1 + mpmath.mpf("3e-14"))
        kept = (1 - s) * mpmath.fprod(1 - mpmath.mpf(x) for _, x in numbers)
        assert 1 - kept <= total.delta <= (1 - kept) * (1 + mpmath.mpf("3e-14"))


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 5.0, 600.0, 705.0, 720.0, 744.0, 800.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-300, 5e-324])
def test_two_steps_are_not_below_their_delta(epsilon, delta):
    # e^700 stood for any larger one: (800, 1e-320) twice had a delta of 1e-16, and the truth is 1.
    with mpmath.workdps(400):
        truth = min(mpmath.mpf(1), (1 + mpmath.exp(mpmath.mpf(epsilon))) * mpmath.mpf(delta))
        assert truth <= PrivacyGuarantee(epsilon, delta, ADD_OR_REMOVE).as_replace_one().delta
        assert truth <= Approximate(epsilon, delta, neighbors=ADD_OR_REMOVE).as_replace_one().delta
        if epsilon < 700:
            exact = (1 + mpmath.exp(mpmath.mpf(epsilon))) * mpmath.mpf(delta)
            assert exact <= lattice_slack(epsilon, delta) <= exact * (1 + mpmath.mpf("1e-14")) + mpmath.mpf(1e-323)


def test_groups_are_not_below_their_epsilon():
    for epsilon, size in ((0.1, 3), (0.1, 10), (1 / 3, 7), (0.7, 10**12 - 1)):
        assert is_rounded_up(group_privacy(PrivacyGuarantee(epsilon), size).epsilon, size * Fraction(epsilon))


@pytest.mark.parametrize("method", ["basic", "gdp", "zcdp"])
def test_what_a_budget_says_is_spent_is_not_below(method):
    budget, charges = PrivacyBudget(5.0, 1e-6, method=method), random_floats(3, 40, -3, -1.5)
    for epsilon in charges:
        budget.charge(PrivacyGuarantee(epsilon))
    if method == "basic":  # of the decimals that were written
        assert is_rounded_up_decimal(budget.spent.epsilon, sum(Fraction(repr(x)) for x in charges))
        return
    spent = budget._store.spent().amounts[0]
    if method == "zcdp":
        assert spent >= sum(Fraction(x) ** 2 / 2 for x in charges)
    assert budget.spent.epsilon >= compose([Pure(x) for x in charges], 1e-6).epsilon * 0.9


def is_rounded_up_decimal(number, exact):
    return Fraction(repr(number)) >= exact > Fraction(repr(math.nextafter(number, 0)))


def test_what_gdp_says_is_spent_of_a_tiny_release_is_not_that_of_nothing():
    # mu^2 is 1e-400, no float: its root is 1e-200 all the same.
    assert root_up(Fraction(1e-200) ** 2) == 1e-200
    with pytest.raises(InvalidParameter, match="mu must"):
        Gaussian(1e200)


def test_the_parts_of_a_gdp_budget_are_not_more_than_its_delta():
    for delta in (1e-6, 3e-7, 1.7e-9, 0.1, 1e-300):
        for epsilon in (0.1, 1.0, 3.7):
            kept = PrivacyBudget(epsilon, delta, method="gdp")._filter
            with mpmath.workdps(60):
                odds = Fraction(mpmath.nstr(mpmath.exp(mpmath.mpf(epsilon)), 50))
            assert Fraction(kept._curve_delta) + (1 + odds) * kept._slack <= Fraction(delta) * (1 + Fraction(1, 10**38))


# Plain convolution: divergences that are small against the mass above them


def test_convolution_of_tiny_losses_is_not_below_the_theorem():
    # upper - e^x lower lost seven digits where losses are 1e-9.
    from dpstats.privacy import optimal_composition_epsilon

    for epsilon, k, delta in ((1e-9, 10, 1e-12), (1e-9, 12, 1e-13), (3e-10, 30, 1e-12)):
        exact = optimal_composition_epsilon(epsilon, k, delta)
        answer = convolved_epsilon(Counter({Pure(epsilon): k}), 0.0, epsilon, delta)
        assert exact <= answer <= k * epsilon * (1 + 1e-9)
