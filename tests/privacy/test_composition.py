"""The composition theorems against independent arithmetic: 60 digits, exact rationals, brute force."""

import itertools
import math
import random
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.privacy import (
    Neighbors,
    PrivacyGuarantee,
    advanced_composition,
    advanced_composition_share,
    basic_composition,
    compose,
    composition,
    group_privacy,
    heterogeneous_composition,
    optimal_composition_delta,
    optimal_composition_epsilon,
    poisson_subsampling,
)

ADD_OR_REMOVE = Neighbors.ADD_OR_REMOVE_ONE


def optimal_delta(epsilon, k, total, delta=0.0, digits=60):
    """The theorem term by term: sum_l C(k, l) e^(l epsilon)/(1 + e^epsilon)^k (1 - e^(total - (2l - k) epsilon))_+."""
    with mpmath.workdps(digits):
        epsilon, total = mpmath.mpf(epsilon), mpmath.mpf(total)
        odds = mpmath.exp(epsilon)
        term, pure = 1 / (1 + odds) ** k, mpmath.mpf(0)
        for successes in range(k + 1):
            loss = (2 * successes - k) * epsilon
            if loss > total:
                pure += term * (1 - mpmath.exp(total - loss))
            term *= odds * (k - successes) / (successes + 1)
        keep = (1 - mpmath.mpf(delta)) ** k
        return 1 - keep + keep * pure


# Basic composition and relations


def test_basic_composition_sums_and_caps():
    # Theorem 9.1.2.
    total = basic_composition([PrivacyGuarantee(0.5, 0.25), PrivacyGuarantee(0.125, 0.5)])
    assert total == PrivacyGuarantee(0.625, 0.75)
    assert basic_composition([PrivacyGuarantee(1.0, 0.75)] * 2).delta == 1.0
    assert basic_composition([]) == PrivacyGuarantee(0.0)


def test_basic_composition_does_not_depend_on_the_order():
    # Sums in floating point do, which is what fsum is for.
    numbers = [random.Random(1).random() * 10.0 ** random.Random(i).randint(-9, 0) for i in range(60)]
    guarantees = [PrivacyGuarantee(x, x * 1e-3) for x in numbers]
    assert basic_composition(guarantees) == basic_composition(guarantees[::-1])


def test_relations_never_mix():
    mixed = [PrivacyGuarantee(0.1), PrivacyGuarantee(0.1, neighbors=ADD_OR_REMOVE)]
    for call in (basic_composition, lambda items: heterogeneous_composition(items, 1e-6)):
        with pytest.raises(InvalidParameter, match="ADD_OR_REMOVE_ONE and REPLACE_ONE"):
            call(mixed)
        assert call(mixed[1:]).neighbors is ADD_OR_REMOVE
    assert advanced_composition(0.1, 5, 1e-6, neighbors=ADD_OR_REMOVE).neighbors is ADD_OR_REMOVE
    assert group_privacy(mixed[1], 3).neighbors is ADD_OR_REMOVE


def test_one_simulated_part_makes_the_total_simulated():
    parts = [PrivacyGuarantee(0.1), PrivacyGuarantee(0.1, simulated=True)]
    for call in (basic_composition, lambda items: heterogeneous_composition(items, 1e-6)):
        assert call(parts).simulated
        assert not call(parts[:1]).simulated
    assert group_privacy(parts[1], 2).simulated


# Advanced composition


def test_advanced_composition_as_printed():
    # Theorem 3.20: sqrt(2 k log(1/d')) e + k e (exp(e) - 1); 100 of .1 at 1e-6 by hand with mpmath.
    with mpmath.workdps(40):
        e = mpmath.mpf(0.1)
        by_hand = mpmath.sqrt(200 * mpmath.log(1 / mpmath.mpf(1e-6))) * e + 100 * e * mpmath.expm1(e)
    total = advanced_composition(0.1, 100, 1e-6)
    assert total.epsilon == pytest.approx(float(by_hand), rel=1e-14)
    assert total.epsilon == pytest.approx(6.308231, abs=5e-7)
    assert advanced_composition(0.1, 100, 1e-6, 1e-9).delta == pytest.approx(1e-6 + 1e-7, rel=1e-14)
    assert advanced_composition(0.1, 100, 0.5, 0.01).delta == 1.0


@pytest.mark.parametrize("slack", [1e-12, 1e-6, 1e-3, 0.1, 0.5])
@pytest.mark.parametrize("k", [1, 2, 7, 100, 5000])
def test_corollary_3_21(slack, k):
    # The share stays below the target by the theorem itself, and by the truth.
    for target in (0.01, 0.3, 0.999):
        share = advanced_composition_share(target, k, slack)
        assert share == pytest.approx(target / (2 * math.sqrt(2 * k * math.log(1 / slack))), rel=1e-14)
        if slack < 0.5:
            assert advanced_composition(share, k, slack).epsilon <= target
        assert optimal_composition_delta(share, k, target) <= slack


@pytest.mark.parametrize("slack", [0.7, 0.9, 0.999999])
def test_corollary_3_21_at_large_slacks(slack):
    # k e (exp(e) - 1) is below half of the target only where the slack is not near 1: refused there.
    refused = 0
    for k, target in itertools.product((1, 2, 30), (0.01, 0.5, 0.999)):
        try:
            share = advanced_composition_share(target, k, slack)
        except InvalidParameter:
            refused += 1
            continue
        assert optimal_composition_delta(share, k, target) <= slack
    assert (refused > 0) == (slack > 0.7)


# Heterogeneous composition


def heterogeneous_by_hand(pairs, slack):
    with mpmath.workdps(40):
        epsilons = [mpmath.mpf(epsilon) for epsilon, _ in pairs]
        drift = sum(e * mpmath.expm1(e) / (mpmath.exp(e) + 1) for e in epsilons)
        squares, slack = sum(e**2 for e in epsilons), mpmath.mpf(slack)
        best = min(
            sum(epsilons),
            drift + mpmath.sqrt(2 * squares * mpmath.log(1 / slack)),
            drift + mpmath.sqrt(2 * squares * mpmath.log(mpmath.e + mpmath.sqrt(squares) / slack)),
        )
        delta = 1 - (1 - slack) * mpmath.fprod(1 - mpmath.mpf(delta) for _, delta in pairs)
        return float(best), float(delta)


@pytest.mark.parametrize("seed", range(12))
def test_the_heterogeneous_theorem(seed):
    generator = random.Random(seed)
    pairs = [
        (10 ** generator.uniform(-3, 0.3), generator.choice([0.0, 10 ** generator.uniform(-12, -4)]))
        for _ in range(generator.choice([1, 3, 40, 300]))
    ]
    slack = 10 ** generator.uniform(-10, -0.1)
    total = heterogeneous_composition([PrivacyGuarantee(*pair) for pair in pairs], slack)
    epsilon, delta = heterogeneous_by_hand(pairs, slack)
    assert total.epsilon == pytest.approx(epsilon, rel=1e-13)
    assert total.delta == pytest.approx(delta, rel=1e-13)


def test_the_heterogeneous_theorem_is_not_below_the_optimum():
    for epsilon, k, slack in itertools.product((0.01, 0.1, 1.0), (1, 5, 100), (1e-9, 1e-3, 0.3)):
        total = heterogeneous_composition([PrivacyGuarantee(epsilon)] * k, slack)
        assert optimal_composition_delta(epsilon, k, total.epsilon) <= slack


# Optimal composition


@pytest.mark.parametrize(
    ("k", "epsilon", "total", "expected"),
    [
        (2, 0.5, 0.5, 0.152451907),
        (30, 0.1, 1.0, 0.0105616763),
        (100, 0.1, 2.0, 0.0201401784),
        (500, 0.01, 0.5, 0.00124675005),
    ],
)
def test_optimal_delta_at_known_points(k, epsilon, total, expected):
    assert optimal_composition_delta(epsilon, k, total) == pytest.approx(expected, rel=5e-9)
    assert float(optimal_delta(epsilon, k, total)) == pytest.approx(expected, rel=5e-9)


@pytest.mark.parametrize(("k", "epsilon", "expected"), [(100, 0.1, 4.774568), (1000, 0.01, 1.365447)])
def test_optimal_epsilon_at_known_points(k, epsilon, expected):
    assert optimal_composition_epsilon(epsilon, k, 1e-6) == pytest.approx(expected, abs=5e-7)


GRID = [
    (epsilon, k, share, delta)
    for epsilon, k in [(1.7, 1), (0.5, 2), (3.0, 7), (0.1, 30), (0.1, 301), (2.0, 300), (0.01, 3000), (0.3, 3000)]
    for share in (0.0, 0.013, 0.11, 0.4142, 0.83)  # between grid points but for the first
    for delta in (0.0, 1e-9, 1e-4)
]


@pytest.mark.parametrize(("epsilon", "k", "share", "delta"), GRID)
def test_optimal_delta_against_60_digits(epsilon, k, share, delta):
    total = share * k * epsilon
    truth = optimal_delta(epsilon, k, total, delta)
    value = mpmath.mpf(optimal_composition_delta(epsilon, k, total, delta))
    if truth < mpmath.mpf("1e-300"):
        assert value < mpmath.mpf("1e-299")
        return
    # Raised by 1e-12 so that it is one-sided; the sum itself is right to a few 1e-13.
    assert truth * (1 - mpmath.mpf(1e-15)) <= value <= truth * (1 + mpmath.mpf(5e-12))


@pytest.mark.parametrize(("epsilon", "k"), [(0.1, 3000), (0.5, 3000), (0.02, 100_000)])
def test_deep_tails(epsilon, k):
    # Where delta is 1e-290 or so: the root is found there, and the value holds to 60 digits.
    total = optimal_composition_epsilon(epsilon, k, 1e-290)
    value = optimal_composition_delta(epsilon, k, total)
    # A step of 1e-12 of an epsilon of 250 is 1e-8 of such a delta.
    assert 1e-290 * (1 - 1e-7) < value <= 1e-290
    if k <= 3000:
        truth = optimal_delta(epsilon, k, total, digits=80)
        assert truth <= mpmath.mpf(value) <= truth * (1 + mpmath.mpf(2e-11))


@pytest.mark.parametrize(("epsilon", "k"), [(0.5, 2), (0.1, 30), (0.3, 101), (0.01, 1000)])
def test_the_printed_grid_form_agrees(epsilon, k):
    """Kairouz, Oh and Viswanath, theorem 3.3, at epsilon_i = (k - 2i) epsilon."""
    for i in sorted({0, 1, k // 8, k // 4, k // 3, k // 2}):
        with mpmath.workdps(60 + k // 2):
            odds = mpmath.exp(mpmath.mpf(epsilon))
            printed = sum(
                mpmath.binomial(k, term) * (odds ** (k - term) - odds ** (k - 2 * i + term)) for term in range(i)
            )
            printed = printed / (1 + odds) ** k
        value = optimal_composition_delta(epsilon, k, (k - 2 * i) * epsilon)
        # (k - 2i) epsilon is rounded: what that does to delta is at most the rounding itself.
        assert value == pytest.approx(float(printed), rel=1e-11, abs=1e-15)


def test_optimal_delta_in_exact_rationals():
    # With e^epsilon = 2 and total = log 3 everything is rational; the logarithms are rounded to 1e-16.
    for k, delta in itertools.product((1, 2, 3, 5, 8), (Fraction(0), Fraction(1, 1000))):
        pure = sum(
            (Fraction(math.comb(k, s) * 2**s, 3**k) * max(0, 1 - Fraction(3 * 2 ** (k - s), 2**s)))
            for s in range(k + 1)
        )
        exact = 1 - (1 - delta) ** k * (1 - pure)
        value = optimal_composition_delta(math.log(2), k, math.log(3), float(delta))
        assert value == pytest.approx(float(exact), rel=1e-11, abs=1e-300)


@pytest.mark.parametrize("delta", [0.0, 1e-12, 1e-7])
@pytest.mark.parametrize(("epsilon", "k"), [(1.0, 1), (0.3, 17), (0.1, 100), (0.01, 3000), (2.0, 500)])
def test_optimal_composition_round_trips(epsilon, k, delta):
    for target in (1e-300, 1e-30, 1e-9, 1e-6, 1e-3, 0.05):
        if target < -math.expm1(k * math.log1p(-delta)):
            with pytest.raises(InvalidParameter, match="total_delta must"):
                optimal_composition_epsilon(epsilon, k, target, delta)
            continue
        total = optimal_composition_epsilon(epsilon, k, target, delta)
        largest = k * Fraction(epsilon)
        assert total >= 0 and Fraction(math.nextafter(total, 0)) <= largest
        if total == 0 or Fraction(total) >= largest:
            continue
        assert optimal_composition_delta(epsilon, k, total, delta) <= target
        # One part in 1e10 less epsilon is one delta too many: nothing is given away.
        assert optimal_composition_delta(epsilon, k, total * (1 - 1e-10) - 1e-13, delta) > target
        if k <= 500 and target >= 1e-30:
            assert optimal_delta(epsilon, k, total, delta, digits=80) <= mpmath.mpf(target) * (1 + mpmath.mpf(1e-13))


def test_a_million_copies():
    total = optimal_composition_epsilon(0.001, 10**6, 1e-6)
    # Central limit: mu = 1 in all, so 4.8865 for a Gaussian (Dong, Roth and Su 2022, theorem 3.6).
    assert total == pytest.approx(4.8865, abs=1e-3)
    with mpmath.workdps(40):  # independently: the incomplete beta function is the binomial's tail
        k, e = 10**6, mpmath.mpf(0.001)
        first = math.floor((total / 0.001 + k) / 2) + 1
        p = 1 / (1 + mpmath.exp(-e))
        tails = []
        for chance in (p, 1 - p):
            term = mpmath.exp(
                mpmath.loggamma(k + 1)
                - mpmath.loggamma(first + 1)
                - mpmath.loggamma(k - first + 1)
                + first * mpmath.log(chance)
                + (k - first) * mpmath.log(1 - chance)
            )
            tail = mpmath.mpf(0)
            for successes in range(first, first + 4000):
                tail += term
                term *= chance / (1 - chance) * (k - successes) / (successes + 1)
            tails.append(tail)
        truth = tails[0] - mpmath.exp(mpmath.mpf(total)) * tails[1]
    assert float(truth) == pytest.approx(1e-6, rel=1e-10)
    assert truth <= mpmath.mpf(1e-6)


def test_optimal_delta_is_monotone():
    totals = np.linspace(0, 3.2, 200)
    values = [optimal_composition_delta(0.1, 30, total, 1e-6) for total in totals]
    assert np.all(np.diff(values) <= 0)
    assert np.all(np.diff([optimal_composition_delta(0.1, k, 1.0) for k in range(1, 200)]) >= -1e-15)


def test_optimal_epsilon_just_below_the_largest_delta():
    largest = optimal_composition_delta(0.1, 30, 0.0)
    total = optimal_composition_epsilon(0.1, 30, largest / (1 + 5e-13))
    assert optimal_composition_delta(0.1, 30, total) <= largest


def test_optimal_epsilon_near_zero():
    largest = optimal_composition_delta(0.05, 1000, 0.0)
    total = optimal_composition_epsilon(0.05, 1000, largest * (1 - 1e-4))
    assert 0 < total < 1e-3
    assert optimal_composition_delta(0.05, 1000, total) <= largest * (1 - 1e-4)


def test_optimal_delta_of_a_tiny_epsilon():
    assert optimal_composition_delta(1e-300, 10, 1e10) == 0.0


# Group privacy and subsampling


def chain(epsilon, delta, size):
    """A chain of laws, neighbors in turn (epsilon, delta)-close, whose ends are as far apart as can be.

    On {yes, no}: from P(yes) = 0 every step goes to min(1, e^epsilon p + delta), if no's bound allows it.
    """
    laws = [Fraction(0)]
    odds = Fraction(math.exp(epsilon))
    for _ in range(size):
        p = laws[-1]
        # Both P'(yes) <= odds P(yes) + delta and P(no) <= odds P'(no) + delta.
        laws.append(min(odds * p + delta, 1 - (1 - p - delta) / odds, Fraction(1)))
    return laws


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-3), (0.5, 1e-6), (1.0, 0.01), (0.0, 0.01)])
def test_group_privacy_against_the_worst_chain(epsilon, delta):
    for size in (1, 2, 3, 5):
        group = group_privacy(PrivacyGuarantee(epsilon, delta), size)
        assert Fraction(math.nextafter(group.epsilon, -1)) < size * Fraction(epsilon) <= Fraction(group.epsilon)
        far = chain(epsilon, Fraction(delta), size)[-1]  # against P(yes) = 0: delta of the ends
        assert float(far) <= group.delta * (1 + 1e-12)
        if float(far) < 0.4:
            assert float(far) == pytest.approx(group.delta, rel=1e-10)  # and the bound is attained


def test_group_privacy_closed_forms():
    # delta (e^{k e} - 1)/(e^e - 1) is the geometric sum.
    total = group_privacy(PrivacyGuarantee(0.1, 1e-6), 5)
    assert total.delta == pytest.approx(1e-6 * math.fsum(math.exp(0.1 * i) for i in range(5)), rel=1e-13)
    assert group_privacy(PrivacyGuarantee(0.0, 0.125), 5) == PrivacyGuarantee(0.0, 0.625)
    assert group_privacy(PrivacyGuarantee(0.5), 4) == PrivacyGuarantee(2.0)
    assert group_privacy(PrivacyGuarantee(100.0, 1e-6), 50).delta == 1.0


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 1.0, 3.0, 50.0, 800.0])
@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.3, 1.0])
def test_poisson_subsampling_of_randomized_response(epsilon, rate):
    """One row, in or out: its randomized response against the response to an empty sample."""
    with mpmath.workdps(400):
        odds = mpmath.exp(mpmath.mpf(epsilon))
        with_row = [odds / (1 + odds), 1 / (1 + odds)]
        without = with_row[::-1]
        sampled = [rate * p + (1 - rate) * q for p, q in zip(with_row, without, strict=True)]
        both = zip(sampled, without, strict=True)
        largest = max(abs(mpmath.log(p / q)) for p, q in both)
    total = poisson_subsampling(PrivacyGuarantee(epsilon, neighbors=ADD_OR_REMOVE), rate)
    assert total.epsilon == pytest.approx(float(largest), rel=1e-12)  # attained: neither above nor below
    assert total.neighbors is ADD_OR_REMOVE and total.delta == 0


def test_poisson_subsampling_of_random_mechanisms():
    # Two rows, every subset has a law within epsilon of its neighbors': never above the bound.
    generator = np.random.default_rng(20261121)
    for _ in range(200):
        epsilon, rate = generator.uniform(0.1, 2), generator.uniform(0.05, 0.95)
        base = generator.normal(size=4)

        def law(moves, base=base, epsilon=epsilon):
            weights = np.exp(base + epsilon / 2 * moves)  # each row moves a score by at most 1
            return weights / weights.sum()

        a, b = generator.uniform(-1, 1, size=(2, 4))
        subsets = {(i, j): law(i * a + j * b) for i in (0, 1) for j in (0, 1)}
        chance = {0: 1 - rate, 1: rate}
        both = sum(chance[i] * chance[j] * subsets[i, j] for i in (0, 1) for j in (0, 1))
        one = sum(chance[i] * subsets[i, 0] for i in (0, 1))
        total = poisson_subsampling(PrivacyGuarantee(epsilon, neighbors=ADD_OR_REMOVE), rate)
        assert np.abs(np.log(both / one)).max() <= total.epsilon * (1 + 1e-12)


def test_poisson_subsampling_refuses_what_it_does_not_prove():
    with pytest.raises(InvalidParameter, match="must be pure"):
        poisson_subsampling(PrivacyGuarantee(1.0, 1e-6, ADD_OR_REMOVE), 0.1)
    with pytest.raises(InvalidParameter, match="must be for ADD_OR_REMOVE_ONE"):
        poisson_subsampling(PrivacyGuarantee(1.0), 0.1)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: advanced_composition(0.0, 1, 0.1), "epsilon"),
        (lambda: advanced_composition(0.1, 0, 0.1), "k"),
        (lambda: advanced_composition(0.1, 1, 0.0), "delta_slack"),
        (lambda: advanced_composition(0.1, 1, 0.1, 1.0), "delta"),
        (lambda: advanced_composition_share(1.0, 1, 0.1), "total_epsilon"),
        (lambda: heterogeneous_composition([], 1.0), "delta_slack"),
        (lambda: heterogeneous_composition(["text"], 0.1), "guarantees"),
        (lambda: basic_composition(PrivacyGuarantee(1.0)), "guarantees"),
        (lambda: basic_composition([1.0]), "guarantees"),
        (lambda: compose(PrivacyGuarantee(1.0), 0.1), "items"),
        (lambda: optimal_composition_delta(-1.0, 1, 0.1), "epsilon"),
        (lambda: optimal_composition_delta(1.0, 1.5, 0.1), "k"),
        (lambda: optimal_composition_delta(1.0, 1, -0.1), "total_epsilon"),
        (lambda: optimal_composition_epsilon(1.0, 1, 1.0), "total_delta"),
        (lambda: optimal_composition_epsilon(1.0, 1, 0.1, float("nan")), "delta"),
        (lambda: group_privacy(PrivacyGuarantee(0.1), 0), "size"),
        (lambda: poisson_subsampling(PrivacyGuarantee(0.1, neighbors=ADD_OR_REMOVE), 0.0), "rate"),
        (lambda: poisson_subsampling(PrivacyGuarantee(0.1, neighbors=ADD_OR_REMOVE), 1.5), "rate"),
    ],
)
def test_bad_parameters_are_named(call, name):
    with pytest.raises(InvalidParameter, match=f"^{name} must be"):
        call()


def test_deviances_of_a_million_are_right_to_the_rounding_of_the_mean() -> None:
    k, epsilon = 10**6, 0.3
    mean, low = composition._chances(k, epsilon)[0]
    x = np.round(mean + np.array([-20_000.0, -7000.0, 900.0, 20_000.0]))
    with mpmath.workdps(40):
        exact = k / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        expected = [float(v * mpmath.log(v / exact) + exact - v) for v in map(mpmath.mpf, x)]
    found = composition._deviance(x, mean, low)
    np.testing.assert_allclose(found, expected, rtol=3e-15)


def test_a_sample_of_a_release_beyond_floats_costs_no_less_than_nothing() -> None:
    # e^710 is no float, and the rate makes the cost small again.
    total = poisson_subsampling(PrivacyGuarantee(710.0, neighbors=ADD_OR_REMOVE), 1e-308)
    wanted = math.log1p(math.exp(710.0 + math.log(1e-308)))
    assert total.epsilon == pytest.approx(wanted, rel=1e-9) and total.epsilon >= wanted
