"""Totals of mixed releases, against exact answers: never below them, and close where they can be."""

import itertools
import math
import random
from collections import Counter
from decimal import Decimal, localcontext

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstats.errors import InvalidParameter
from dpstats.privacy import (
    Neighbors,
    PrivacyGuarantee,
    compose,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_sigma,
    heterogeneous_composition,
    optimal_composition_delta,
    optimal_composition_epsilon,
    zcdp_epsilon,
)
from dpstats.privacy.events import (
    ZCDP,
    Approximate,
    BoundedRange,
    DiscreteLaplace,
    Gaussian,
    Pure,
    as_event,
    lattice_slack,
)
from dpstats.privacy.gaussian import gaussian_profile
from dpstats.privacy.totals import certifies, pure_delta
from tests.privacy.test_events import binned_gaussian, randomized_response

Long = np.longdouble


# Exact answers: the loss distribution of every event is finite; equal events are convolved in integers
# of their unit, different ones by taking all sums. All terms are positive, in 64-bit mantissas.


def atoms(event):
    """Return losses in units, the unit, and the mass of each under the first law; delta apart."""
    if isinstance(event, DiscreteLaplace):
        k = np.arange(event.sensitivity + 1)
        decay = np.exp(-1 / Long(event.scale))
        mass = (1 - decay) / (1 + decay) * decay**k
        mass[0], mass[-1] = 1 / (1 + decay), decay**event.sensitivity / (1 + decay)
        return event.sensitivity - 2 * k, 1 / Long(event.scale), mass
    yes = 1 / (1 + np.exp(-Long(event.epsilon)))
    return np.array([1, -1]), Long(event.epsilon), np.array([yes, yes * np.exp(-Long(event.epsilon))])


def loss_distribution(events):
    """Return finite losses, largest first, their masses, and the mass of an infinite loss."""
    losses, masses, log_finite = np.zeros(1, dtype=Long), np.ones(1, dtype=Long), Long(0)
    for event, count in Counter(events).items():
        units, unit, mass = atoms(event)
        one = np.zeros(np.ptp(units) + 1, dtype=Long)
        one[units - units.min()] = mass
        total = np.ones(1, dtype=Long)
        for _ in range(count):
            total = np.convolve(total, one)
        here = (np.arange(total.size) + count * int(units.min()))[total > 0] * unit
        losses = np.add.outer(losses, here).ravel()
        masses = np.multiply.outer(masses, total[total > 0]).ravel()
        log_finite += count * np.log1p(-Long(getattr(event, "delta", 0.0)))
    order = np.argsort(losses)[::-1]
    return losses[order], masses[order], -np.expm1(log_finite)


def true_delta(events, epsilon):
    losses, masses, infinite = loss_distribution(events)
    above = losses > epsilon
    finite = np.sum(-np.expm1(Long(epsilon) - losses[above]) * masses[above])
    return infinite + (1 - infinite) * finite


def true_epsilon(events, delta):
    losses, masses, infinite = loss_distribution(events)
    if infinite > delta:
        return math.inf
    left = (Long(delta) - infinite) / (1 - infinite)
    first, second = np.cumsum(masses), np.cumsum(masses * np.exp(-losses))
    # The divergence at e^losses[i], which grows with i: the root lies above the first that is too large.
    i = int(np.searchsorted(first - np.exp(losses) * second, left, side="right"))
    if i == 0:
        return float(losses[0])
    return max(0.0, float(np.log((first[i - 1] - left) / second[i - 1])) if first[i - 1] > left else 0.0)


def assert_not_below_the_truth(events, total):
    if total.delta == 0:
        assert total.epsilon >= math.fsum(event.pure_cost() for event in events) * (1 - 1e-15)
        return
    truth = true_delta(events, total.epsilon)
    if truth > total.delta * (1 + 1e-12):
        # At a knot of the curve the last digit of epsilon is worth more than that: allow it two digits.
        nudged = Long(total.epsilon) * (1 + Long(2e-14)) + Long(1e-15)
        assert true_delta(events, nudged) <= Long(total.delta) * (1 + Long(1e-12)), (events, total, truth)


def mix(generator, largest=60_000, counts=(1, 1, 2, 3, 5, 10, 30, 100), log_epsilon=(-3, 0.7)):
    """Draw different releases with finite loss distributions, some of them many times."""
    events, size = [], 1
    while not events:
        for _ in range(generator.choice([1, 2, 2, 3, 3, 4])):
            kind, count = (generator.choice(["pure", "pure", "laplace", "approximate"]), generator.choice(counts))
            epsilon = 10 ** generator.uniform(*log_epsilon)
            if generator.random() < 0.3:
                epsilon = max(0.01, round(epsilon, 2))
            steps = generator.choice([1, 1, 2, 3, 5]) if kind == "laplace" else 1
            if size * (count * steps + 1) > largest:
                continue
            size *= count * steps + 1
            if kind == "laplace":
                event = DiscreteLaplace(steps, steps / epsilon)
            else:
                event = Pure(epsilon) if kind == "pure" else Approximate(epsilon, 10 ** generator.uniform(-13, -3))
            events += [event] * count
    return events


@pytest.mark.parametrize("seed", range(8))
def test_random_mixes_are_never_below_the_exact_answer(seed):
    generator = random.Random(seed)
    for _ in range(30):
        events = mix(generator)
        used = math.fsum(getattr(event, "delta", 0.0) for event in events)
        delta = 10 ** generator.uniform(-12, -1)
        if delta <= used:
            delta = min(0.5, used * (1 + 10 ** generator.uniform(-6, 2)))
        total = compose(events, delta)
        assert total.delta <= delta
        assert_not_below_the_truth(events, total)


@pytest.mark.parametrize("seed", range(4))
def test_random_mixes_are_close_to_the_exact_answer(seed):
    # Two kinds or more, up to 30 releases, delta from 1e-6: what the loss distributions are good for.
    generator = random.Random(100 + seed)
    for _ in range(40):
        events = mix(generator, counts=(1, 2, 3, 5, 10), log_epsilon=(-2, 0.5))
        if len(set(events)) == 1 or len(events) > 30:
            continue
        delta = 10 ** generator.uniform(-6, -1.5)
        used = math.fsum(getattr(event, "delta", 0.0) for event in events)
        if used > delta / 2:
            continue
        truth = true_epsilon(events, delta)
        assert compose(events, delta).epsilon <= truth * 1.01 + 1e-3 * math.fsum(e.largest_loss() for e in events)


def test_the_exact_answer_has_power():
    # Had compose forgotten one event, or been 1% short, the comparison would fail.
    events = [Pure(0.3)] * 5 + [DiscreteLaplace(2, 3.0)] * 4 + [Approximate(0.2, 1e-7)] * 3
    total = compose(events, 1e-6)
    assert_not_below_the_truth(events, total)
    for short in (compose(events[1:], 1e-6), PrivacyGuarantee(0.99 * total.epsilon, 1e-6)):
        with pytest.raises(AssertionError):
            assert_not_below_the_truth(events, short)


@pytest.mark.parametrize(
    "events",
    [
        [DiscreteLaplace(1, 1.0)] * 100,
        [DiscreteLaplace(2, 1 / 0.7)] * 100,
        [Pure(0.1)] * 200 + [Pure(0.3)] * 20,
        [Pure(0.1 + 0.2)] * 10 + [Pure(0.3)] * 10,  # one unit in the last place apart
        [Pure(1.0)] * 100 + [Pure(1e-3)],
        [Pure(1.0), Pure(1e-5)],
        [Pure(math.pi / 10)] * 30 + [DiscreteLaplace(3, 7.7)] * 12 + [Pure(1 / 3)] * 7,
        [Pure(3.0)] * 100 + [Pure(0.003)] * 3,
        [Approximate(0.5, 1e-13)] * 3 + [Pure(0.01)] * 50,
    ],
)
@pytest.mark.parametrize("delta", [1e-12, 3e-11, 1e-9, 1e-6, 1e-3, 0.1, 0.5, 0.9])
def test_adverse_mixes_are_never_below_the_exact_answer(events, delta):
    # Aligned and misaligned grids, large counts, tiny beside large epsilons, deltas near the rounding.
    assert_not_below_the_truth(events, compose(events, delta))


@pytest.mark.parametrize("delta", [1e-11, 1e-9, 1e-6, 1e-3, 0.1])
@pytest.mark.parametrize(
    ("mu", "finite"),
    [
        (0.5, [Pure(0.3)]),
        (0.03, [Pure(1.0)] * 10),
        (3.0, [Pure(0.1)] * 20 + [Approximate(0.2, 1e-13)]),
        (1.0, [DiscreteLaplace(1, 1.5)] * 30),
        (0.2, [Pure(2.0), DiscreteLaplace(3, 5.0), Pure(0.01)]),
    ],
)
def test_gaussians_beside_atoms_are_never_below_the_exact_answer(mu, finite, delta):
    # Given the finite losses the rest is one Gaussian: delta is the average of its curve, shifted.
    total = compose([Gaussian(0.6 * mu), Gaussian(0.8 * mu), *finite], delta)
    losses, masses, infinite = loss_distribution(finite)
    truth = 0.0
    for loss, mass in zip(losses, masses, strict=True):
        x = float(total.epsilon - loss)
        at = gaussian_profile(x, mu) if x >= 0 else -math.expm1(x) + math.exp(x) * gaussian_profile(-x, mu)
        truth += float(mass) * at
    truth = float(infinite + (1 - infinite) * truth)
    assert truth <= delta * (1 + 2e-12)
    if delta >= 1e-6:  # and close
        assert truth > 0.9 * delta


# Releases on a finite set that have each event: pairs of laws on neighboring datasets.


def discrete_gaussian(sigma):
    """rho = 1/(2 sigma^2): Canonne, Kamath and Steinke (2020), theorem 14, shift 1."""
    steps = np.arange(-int(12 * sigma), int(12 * sigma) + 2)
    p, q = np.exp(-0.5 * (steps / sigma) ** 2), np.exp(-0.5 * ((steps - 1) / sigma) ** 2)
    cut = np.unique(np.linspace(0, steps.size - 1, 25).astype(int))  # merging outcomes is post-processing
    return np.add.reduceat(p / p.sum(), cut), np.add.reduceat(q / q.sum(), cut)


def selection(epsilon, gap):
    """An exponential mechanism on two outcomes whose log odds move by epsilon."""
    odds = np.exp([gap, gap - epsilon])
    return tuple(np.array([x / (1 + x), 1 / (1 + x)]) for x in odds)


def product_delta(pairs, epsilon):
    p, q = np.ones(1), np.ones(1)
    for first, second in pairs:
        p, q = np.outer(p, first).ravel(), np.outer(q, second).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


MIXTURES = {
    "pure": ([Pure(0.3), Pure(0.7), Pure(0.1)], [randomized_response(e) for e in (0.3, 0.7, 0.1)]),
    "gaussian": ([Gaussian(0.5), Gaussian(1.0)], [binned_gaussian(0.5, 400), binned_gaussian(1.0, 400)]),
    "approximate": (
        [Approximate(0.2, 1e-4), PrivacyGuarantee(0.5, 1e-5)],
        [randomized_response(0.2, 1e-4), randomized_response(0.5, 1e-5)],
    ),
    "zcdp": ([ZCDP(0.5), ZCDP(0.125)], [discrete_gaussian(1.0), discrete_gaussian(2.0)]),
    "selections": ([BoundedRange(0.9)] * 12, [selection(0.9, 0.45)] * 12),
    "selections at other odds": ([BoundedRange(0.9)] * 12, [selection(0.9, 0.9)] * 12),
    "pure, gaussian": (
        [Pure(0.4), Gaussian(0.3), Gaussian(0.6), PrivacyGuarantee(0.2)],
        [randomized_response(0.4), binned_gaussian(0.3), binned_gaussian(0.6), randomized_response(0.2)],
    ),
    "one of each": (
        [Pure(0.3), Approximate(0.2, 1e-4), Gaussian(0.5), ZCDP(0.125), BoundedRange(0.5)],
        [
            randomized_response(0.3),
            randomized_response(0.2, 1e-4),
            binned_gaussian(0.5, 40),
            discrete_gaussian(2.0),
            selection(0.5, 0.4),
        ],
    ),
}


@pytest.mark.parametrize("name", MIXTURES)
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1.2e-4, 1e-2, 0.3])
def test_a_total_is_never_below_a_release_that_has_its_events(name, delta):
    events, pairs = MIXTURES[name]
    if delta < sum(getattr(event, "delta", 0.0) for event in events):
        with pytest.raises(InvalidParameter, match="delta must"):
            compose(events, delta)
        return
    total = compose(events, delta)
    assert total.delta <= delta
    assert product_delta(pairs, total.epsilon) <= total.delta * (1 + 1e-9) + 1e-15


# Known totals


def test_a_hundred_counts():
    # The lattice's own noise: continuous Laplace noise would say 71.5, which is too little.
    events = [DiscreteLaplace(1, 1.0)] * 100
    total = compose(events, 1e-6)
    assert total.epsilon == pytest.approx(83.53, abs=0.005)
    # One step of scale 1 is randomized response of epsilon 1.
    assert total.epsilon == pytest.approx(optimal_composition_epsilon(1.0, 100, 1e-6), rel=1e-12)
    assert_not_below_the_truth(events, total)
    assert true_delta(events, 71.5) > 0.5e-3


def test_ten_selections():
    # Bounded-range profile 2.20, concentrated 2.28, generic 3.00.
    total = compose([BoundedRange(0.3)] * 10, 1e-6)
    assert 2.19 < total.epsilon <= 2.21
    assert zcdp_epsilon(10 * 0.3**2 / 8, 1e-6) == pytest.approx(2.28, abs=0.01)
    assert compose([Pure(0.3)] * 10, 1e-6).epsilon == pytest.approx(3.0, abs=0.01)


def test_small_epsilons_are_not_rounded_up():
    # On a grid of 5e-5 a thousand guarantees of 1e-5 would cost .05.
    for events in ([Pure(1e-5)] * 1000, [Pure(1e-5)] * 998 + [Pure(1.5e-5)] * 2):
        total = compose(events, 1e-6)
        assert total.epsilon <= 0.0015
        assert_not_below_the_truth(events, total)


def test_copies_of_one_guarantee_are_composed_optimally():
    assert compose([Pure(0.1)] * 100, 1e-6).epsilon == pytest.approx(4.774568, abs=5e-7)
    assert compose([PrivacyGuarantee(0.1, 1e-9)] * 100, 1e-6) == PrivacyGuarantee(
        optimal_composition_epsilon(0.1, 100, 1e-6, 1e-9), 1e-6
    )
    assert compose([Pure(0.1)] * 100, 0.0).epsilon == pytest.approx(10.0, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.0])
@pytest.mark.parametrize(
    "costs", [{0.1: 5, 0.3: 4}, {0.7: 3, 0.2: 6}, {1.0: 7}, {3.0: 1, 0.01: 1}, {0.5: 2, 0.25: 3, 0.0: 9}], ids=str
)
def test_pure_releases_of_two_costs_by_enumeration(costs, epsilon):
    each = [cost for cost, count in costs.items() for _ in range(count) if cost]
    truth = 0.0
    for signs in itertools.product((1, -1), repeat=len(each)):
        chance = math.prod(1 / (1 + math.exp(-s * cost)) for s, cost in zip(signs, each, strict=True))
        loss = math.fsum(s * cost for s, cost in zip(signs, each, strict=True))
        truth += chance * -math.expm1(min(epsilon - loss, 0.0))
    assert truth * (1 - 1e-14) <= pure_delta(Counter(costs))(epsilon) <= truth * (1 + 1e-11) + 1e-14


def test_pure_releases_of_two_costs_are_composed_optimally():
    for events, delta in (
        ([Pure(0.1)] * 20 + [Pure(0.25)] * 7, 1e-6),
        ([Pure(0.01)] * 300 + [Pure(1.0)] * 2, 1e-13),  # below what loss distributions are used for
        ([Pure(0.2)] * 4 + [Pure(0.1)] * 4, 1e-3),
    ):
        total = compose(events, delta)
        assert total.epsilon == pytest.approx(true_epsilon(events, delta), rel=1e-9)
        assert_not_below_the_truth(events, total)
        assert certifies(events, total)
        assert not certifies(events, PrivacyGuarantee(total.epsilon * (1 - 1e-6), delta))
    assert pure_delta(Counter([0.1, 0.2, 0.3])) is None


def test_pure_releases_of_two_costs_agree_with_the_theorem_for_copies():
    for epsilon, k in ((0.1, 30), (1e-3, 10**5), (2.0, 3)):
        total = 0.3 * k * epsilon
        exact = optimal_composition_delta(epsilon, k, total)
        assert pure_delta(Counter({epsilon: k}))(total) == pytest.approx(exact, rel=1e-8, abs=1e-290)
    # A release that costs nothing, in effect.
    assert pure_delta(Counter({0.1: 30, 1e-9: 1}))(1.0) == pytest.approx(
        optimal_composition_delta(0.1, 30, 1.0), rel=1e-6
    )


def test_gaussians_compose_exactly():
    # mu^2 adds up (Dong, Roth and Su 2022, corollary 3.3): .6^2 + .8^2 = 1.
    total = compose([Gaussian(0.6), Gaussian(0.8)], 1e-6)
    # .6 and .8 as floats are a little more than 1 together: never below its epsilon.
    exact = gaussian_epsilon(1.0, 1e-6)
    assert exact <= total.epsilon <= exact * (1 + 1e-12) and total.delta == 1e-6
    assert gaussian_delta(total.epsilon, 1.0) <= 1e-6
    total = compose([Gaussian(0.01)] * 10_000, 1e-9)
    assert total.epsilon == pytest.approx(gaussian_epsilon(1.0, 1e-9), rel=1e-9)


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("k", [1, 3, 1000])
def test_from_epsilon_to_noise_and_back(epsilon, delta, k):
    sigma = gaussian_sigma(epsilon, delta) * math.sqrt(k)
    back = compose([Gaussian(1 / sigma)] * k, delta).epsilon
    assert back == pytest.approx(epsilon, rel=1e-8)


def test_concentrated_costs_are_added_before_converting():
    events = [ZCDP(0.01)] * 20 + [Gaussian(0.2)] * 10 + [BoundedRange(0.4)] * 5 + [Pure(0.1)] * 10
    rho = 20 * 0.01 + 10 * 0.02 + 5 * 0.02 + 10 * 0.005
    assert compose(events, 1e-6).epsilon == pytest.approx(zcdp_epsilon(rho, 1e-6), rel=1e-12)
    # Converted first, the twenty alone would cost more than that.
    assert 20 * zcdp_epsilon(0.01, 1e-6 / 20) > 2 * compose(events, 1e-6).epsilon


def test_the_heterogeneous_theorem_is_among_the_candidates():
    # Below 1e-12 loss distributions are not tried: only closed forms are left.
    items = [PrivacyGuarantee(0.01 + 0.0001 * i) for i in range(400)]
    total = compose(items, 1e-20)
    assert total.epsilon <= heterogeneous_composition(items, 1e-20).epsilon * (1 + 1e-9)
    assert total.epsilon < math.fsum(item.epsilon for item in items)


def test_the_slack_of_the_lattice_is_paid():
    # (epsilon, delta + (1 + e^epsilon) v): the answer solves delta(epsilon) + (1 + e^epsilon) v = 1e-6.
    variation = 1e-9
    total = compose([Gaussian(0.5, variation)], 1e-6)
    assert total.epsilon > gaussian_epsilon(2.0, 1e-6)
    sum_of_both = gaussian_delta(total.epsilon, 2.0) + lattice_slack(total.epsilon, variation)
    assert 1e-6 - lattice_slack(total.epsilon, variation) < sum_of_both <= 1e-6
    # Beside other events too.
    mixed = [compose([Gaussian(0.5, v), Pure(0.1)], 1e-6).epsilon for v in (0.0, 1e-9)]
    assert mixed[0] < mixed[1] < 1.1 * mixed[0]


def test_where_the_slack_exceeds_delta_concentration_takes_over():
    # Discrete Gaussian noise is concentrated with no slack at all (theorem 14 of the same paper).
    total = compose([Gaussian(0.5, 1e-3)], 1e-6)
    assert total.epsilon == pytest.approx(zcdp_epsilon(0.125, 1e-6), rel=1e-12)


def test_pure_releases_add_up():
    total = compose([Pure(0.1), PrivacyGuarantee(0.2), DiscreteLaplace(3, 6.0), BoundedRange(0.25)], 0.0)
    assert total == PrivacyGuarantee(math.fsum([0.1, 0.2, 0.5, 0.25]))


@pytest.mark.parametrize(("deltas", "delta"), [([1e-20], 0.5), ([1e-4, 1e-5], 1e-3), ([1e-4, 1e-4], 2e-4)])
def test_the_total_delta_is_never_below_that_of_the_parts(deltas, delta):
    # 0.5 - 1e-20 rounds to 0.5: the total must not claim to be pure.
    events = [Approximate(1.0, part) for part in deltas]
    total = compose(events, delta)
    assert total.delta >= -math.expm1(math.fsum(math.log1p(-part) for part in deltas))
    assert_not_below_the_truth(events, total)


def test_nothing_costs_nothing():
    for items in ([], [Pure(0.0)], [DiscreteLaplace(0, 1.0)], [BoundedRange(0.0), Pure(0.0)]):
        assert compose(items, 0.0) == PrivacyGuarantee(0.0)
        assert compose(items, 0.5) == PrivacyGuarantee(0.0)
    assert compose([Gaussian(0.0)], 1e-6) == PrivacyGuarantee(0.0)
    assert compose([ZCDP(0.0)], 1e-6).epsilon == 0.0


@pytest.mark.parametrize("events", [[Gaussian(0.1)], [ZCDP(0.1)], [Approximate(0.1, 1e-6)], [Pure(1), Gaussian(1)]])
def test_no_total_at_delta_zero_unless_all_are_pure(events):
    with pytest.raises(InvalidParameter, match="delta must"):
        compose(events, 0.0)


def test_delta_one_is_possible_in_a_part_and_never_in_a_total():
    with pytest.raises(InvalidParameter, match="delta must"):
        compose([Approximate(0.1, 1.0), Pure(0.1)], 0.999)


# Order, monotony, relations


def test_the_order_does_not_matter():
    events = [*MIXTURES["one of each"][0], Gaussian(0.07), Pure(0.013), PrivacyGuarantee(0.3, 3e-5)]
    orders = itertools.islice(itertools.permutations(events), 0, 40_320, 997)
    assert len({compose(order, 1e-3) for order in orders}) == 1


SMALL = st.floats(0.01, 2.0)
EVENTS = st.one_of(
    st.builds(Pure, SMALL),
    st.builds(Gaussian, SMALL),
    st.builds(ZCDP, SMALL),
    st.builds(DiscreteLaplace, st.integers(1, 3), SMALL.map(lambda x: 2 / x)),
    st.builds(Approximate, SMALL, st.just(1e-10)),
)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(events=st.lists(EVENTS, max_size=6), one=EVENTS, delta=st.sampled_from([1e-7, 1e-4, 1e-2]))
def test_one_more_event_never_lowers_the_total(events, one, delta):
    # Up to the discretization, which another event changes; what a lone event lacks is below.
    if len(events) == 1:
        events = events * 2
    less, more = compose(events, delta), compose([*events, one], delta)
    assert more.epsilon >= less.epsilon * (1 - 1e-3) - 1e-6


@settings(max_examples=60, deadline=None, derandomize=True)
@given(events=st.lists(EVENTS, min_size=1, max_size=5), deltas=st.tuples(st.floats(1e-8, 0.5), st.floats(1e-8, 0.5)))
def test_a_larger_delta_never_raises_the_total(events, deltas):
    small, large = sorted(deltas)
    assert compose(events, large).epsilon <= compose(events, small).epsilon * (1 + 1e-3) + 1e-6


@settings(max_examples=12, deadline=None, derandomize=True)
@given(first=SMALL, second=SMALL, k=st.integers(1, 20))
def test_a_larger_event_never_lowers_the_total(first, second, k):
    small, large = sorted((first, second))
    for kind in (Pure, Gaussian, BoundedRange, ZCDP):
        rest = [Pure(0.1), Gaussian(0.3)]
        less, more = (compose([kind(x)] * k + rest, 1e-6).epsilon for x in (small, large))
        assert more >= less * (1 - 1e-3)


def test_relations_never_mix():
    for kind in (Pure, Gaussian, BoundedRange, ZCDP, PrivacyGuarantee):
        other = kind(0.1, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
        with pytest.raises(InvalidParameter, match="ADD_OR_REMOVE_ONE and REPLACE_ONE"):
            compose([Pure(0.1), other], 1e-6)
        assert compose([other] * 3, 1e-6).neighbors is Neighbors.ADD_OR_REMOVE_ONE
        event = as_event(other)
        assert compose([Pure(0.1), event.as_replace_one()], 1e-6).neighbors is Neighbors.REPLACE_ONE
    with pytest.raises(InvalidParameter, match="ADD_OR_REMOVE_ONE and REPLACE_ONE"):
        certifies([Pure(0.1), Pure(0.1, neighbors=Neighbors.ADD_OR_REMOVE_ONE)], PrivacyGuarantee(1.0))
    assert not certifies([Pure(0.1)], PrivacyGuarantee(1.0, neighbors=Neighbors.ADD_OR_REMOVE_ONE))


def test_one_simulated_part_makes_the_total_simulated():
    parts = [PrivacyGuarantee(0.1), PrivacyGuarantee(0.2, simulated=True), Gaussian(0.1)]
    assert compose(parts, 1e-6).simulated
    assert not compose([parts[0], parts[2]], 1e-6).simulated


def test_pure_delta_is_of_two_costs_of_at_most_500_and_of_a_million_releases():
    for costs in ({0.1: 2, 0.2: 1, 0.3: 1}, {500.0000001: 1}, {0.1: 3, 501.0: 1}, {1e-3: 10**6 + 1}):
        assert pure_delta(Counter(costs)) is None
    # A cost of 0 and a count of 0 are no costs.
    for costs in ({0.1: 2, 0.2: 1, 0.0: 1}, {0.1: 2, 0.2: 1, 0.3: 0}, {0.1: 2, 0.2: 1}):
        delta = pure_delta(Counter(costs))
        assert delta is not None and delta(0.3) == pure_delta(Counter({0.1: 2, 0.2: 1}))(0.3) > 0
    for costs in ({500.0: 1}, {0.1: 3, 500.0: 1}):
        assert pure_delta(Counter(costs))(499.0) == pytest.approx(-math.expm1(-1.0), rel=0.2)


def test_certifies_says_yes_to_closed_totals_and_no_below_the_truth():
    for events in ([Gaussian(0.5), Gaussian(1.0)], [ZCDP(0.5), ZCDP(0.125)], [ZCDP(0.1), Approximate(0.2, 1e-4)]):
        epsilon = compose(events, 1e-3).epsilon
        assert certifies(events, PrivacyGuarantee(epsilon, 1e-3))
        assert not certifies(events, PrivacyGuarantee(epsilon * (1 - 1e-6), 1e-3))
    generator = random.Random(3)
    for _ in range(30):
        events = mix(generator, largest=3000)
        delta = 10 ** generator.uniform(-9, -2)
        truth = true_epsilon(events, delta)
        if 0 < truth < math.inf:
            assert not certifies(events, PrivacyGuarantee(truth * (1 - 1e-9), delta))


@pytest.mark.parametrize("item", [0.1, "pure", None])
def test_other_things_do_not_compose(item):
    with pytest.raises(InvalidParameter, match="event must"):
        compose([item], 0.0)


@pytest.mark.parametrize("delta", [-0.1, 1.0, float("nan")])
def test_bad_deltas_are_named(delta):
    with pytest.raises(InvalidParameter, match="delta must"):
        compose([], delta)


# Lists that are slow, or fail, where they are done term by term


@pytest.mark.parametrize(
    ("events", "delta"),
    [
        ([Pure(0.01 + 0.0005 * i) for i in range(500)], 1e-6),
        ([Pure(10 ** (-2 + 0.005 * i)) for i in range(400)] + [Gaussian(0.5)] * 100, 1e-4),
        ([DiscreteLaplace(1, 10.0)] * 10_000, 1e-3),
        ([Gaussian(60.0)] + [Pure(0.2)] * 3, 1e-3),
    ],
)
def test_long_lists_have_totals(events, delta):
    total = compose(events, delta)
    assert 0 < total.epsilon < math.inf and total.delta <= delta


# Defects


@pytest.mark.parametrize(
    ("events", "delta"),
    [
        ([Approximate(0.0, 1e-3)] + [Pure(0.1)] * 100, 1.1e-3),
        ([Approximate(0.0, 1e-3), Approximate(0.5, 1e-6), Approximate(0.3, 1e-6)], 2e-3),
    ],
)
def test_the_delta_of_a_release_without_epsilon_is_not_forgotten(events, delta):
    assert_not_below_the_truth(events, compose(events, delta))


@pytest.mark.parametrize("events", [[Pure(800.0), Pure(1.0)], [BoundedRange(800.0), Gaussian(1.0)]])
def test_losses_above_709(events):
    assert compose(events, 1e-6).epsilon > 700


def test_a_tiny_scale():
    with pytest.raises(InvalidParameter, match="sensitivity/scale must be"):
        DiscreteLaplace(1, 1e-200)


@pytest.mark.parametrize("event", [DiscreteLaplace(1, 60.0), BoundedRange(1.665)])
def test_a_lone_event_costs_what_its_profile_says(event):
    total = compose([event], 5e-3)
    assert event.profile(0.99 * total.epsilon) > 5e-3


def test_a_large_pure_release_beside_gaussian_noise():
    basic = 1000.0 + gaussian_epsilon(10.0, 1e-6)
    assert compose([DiscreteLaplace(1000, 1.0), Gaussian(0.1)], 1e-6).epsilon <= basic * (1 + 1e-9)


@pytest.mark.parametrize("tiny", [Pure(1e-7), Gaussian(1e-9)])
def test_a_tiny_event_costs_little(tiny):
    events = [Pure(1.0)] * 50
    assert compose([*events, tiny], 1e-6).epsilon <= compose(events, 1e-6).epsilon + 1e-3


@pytest.mark.parametrize(
    ("events", "delta"),
    [
        ([DiscreteLaplace(1, 10.0)] * 1000, 1e-9),
        ([DiscreteLaplace(1, 10.0)] * 10_000, 1e-6),
        ([Pure(0.01)] * 100 + [Pure(0.05)], 1e-10),
    ],
)
def test_many_releases_at_a_small_delta_are_close_to_the_exact_answer(events, delta):
    # A step of scale 10 is randomized response of .1.
    if isinstance(events[0], DiscreteLaplace):
        truth = optimal_composition_epsilon(0.1, len(events), delta)
        assert optimal_composition_delta(0.1, len(events), truth) <= delta
    else:
        truth = true_epsilon(events, delta)
    assert compose(events, delta).epsilon <= 1.01 * truth


def test_many_approximate_releases_beside_a_concentrated_one():
    # Each is (epsilon, 0)-private but for an event of probability delta_i: rho = epsilon^2/2 applies.
    events = [Approximate(0.1, 1e-9)] * 100 + [ZCDP(1e-6)]
    assert compose(events, 1e-6).epsilon <= zcdp_epsilon(100 * 0.1**2 / 2 + 1e-6, 1e-6 - 1e-7) * (1 + 1e-9)


@pytest.mark.parametrize("costs", [{0.1: 3, 0.7: 2}, {1.3: 4}, {0.25: 1, 2.0: 1}])
def test_pure_delta_is_not_below_sixty_digits_next_to_its_losses(costs: dict[float, int]) -> None:
    # Just below its largest loss delta falls to 0 within the last digits of epsilon.
    delta = pure_delta(Counter(costs))
    assert delta is not None
    with mp.workdps(60):
        law = {mp.mpf(0): mp.mpf(1)}
        for cost, count in costs.items():
            yes = 1 / (1 + mp.exp(-mp.mpf(cost)))
            for _ in range(count):
                found: dict[mp.mpf, mp.mpf] = {}
                for loss, mass in law.items():
                    for sign, share in ((1, yes), (-1, 1 - yes)):
                        found[loss + sign * cost] = found.get(loss + sign * cost, 0) + mass * share
                law = found
        for loss in sorted({float(loss) for loss in law if loss > 0}):
            for power in range(1, 15):
                epsilon = loss * (1 - 10.0**-power)
                exact = sum(max(mass * (1 - mp.exp(epsilon - each)), 0) for each, mass in law.items())
                assert exact <= delta(epsilon) <= exact * (1 + mp.mpf("1e-9")) + 1e-14, (loss, power)


@pytest.mark.parametrize(("k", "cost"), [(40, 0.7), (300, 0.7), (300, 0.01), (7, 0.1)])
def test_the_total_of_pure_releases_is_never_below_the_truth(k: int, cost: float) -> None:
    with localcontext() as context:
        context.prec = 40
        c = Decimal(cost)
        for part in (0.0, 0.1, 0.5, 0.99):
            epsilon = part * k * cost
            losses = [(2 * i - k) * c for i in range(k + 1)]
            truth = sum(
                math.comb(k, i) * (i * c).exp() / (1 + c.exp()) ** k * (1 - (Decimal(epsilon) - loss).exp())
                for i, loss in enumerate(losses)
                if loss > Decimal(epsilon)
            )
            assert truth <= Decimal(pure_delta(Counter({cost: k}))(epsilon)) <= truth * Decimal("1.0001")
