"""Composition: closed forms, and never below an exact lower bound computed by brute force."""

import itertools
import math
import random

import numpy as np
import pytest
from scipy.special import ndtr

from dpstats.errors import InvalidParameter
from dpstats.privacy import (
    Neighbors,
    PrivacyGuarantee,
    basic_composition,
    compose,
    gaussian_delta,
    gaussian_epsilon,
    zcdp_epsilon,
)
from dpstats.privacy.events import (
    ZCDP,
    Approximate,
    DiscreteLaplace,
    Gaussian,
    Pure,
    as_event,
    lattice_slack,
    pure_profile,
)
from dpstats.privacy.totals import certifies

# Releases on a finite set that have each event: pairs of laws on neighbouring datasets. A total that is
# too small for their product, computed exactly, is wrong.


def randomized_response(epsilon, delta=0.0):
    """Kairouz, Oh and Viswanath (2015): the most revealing (epsilon, delta) release."""
    yes = 1 / (1 + math.exp(-epsilon))
    p = np.array([delta, (1 - delta) * yes, (1 - delta) * (1 - yes), 0.0])
    return p, p[::-1]


def binned_gaussian(mu, bins=60):
    """N(0, 1) against N(mu, 1), cut into bins: post-processing, so a lower bound on its cost."""
    edges = np.concatenate([[-np.inf], np.linspace(-6, 6 + mu, bins - 1), [np.inf]])
    return np.diff(ndtr(edges)), np.diff(ndtr(edges - mu))


def discrete_laplace(shift, scale):
    steps = np.arange(-int(40 * scale), int(40 * scale) + 1)
    p, q = np.exp(-np.abs(steps) / scale), np.exp(-np.abs(steps - shift) / scale)
    return p / p.sum(), q / q.sum()


def discrete_gaussian(sigma):
    """rho = 1/(2 sigma^2): Canonne, Kamath and Steinke (2020), theorem 14, shift 1."""
    steps = np.arange(-int(12 * sigma), int(12 * sigma) + 2)
    p, q = np.exp(-0.5 * (steps / sigma) ** 2), np.exp(-0.5 * ((steps - 1) / sigma) ** 2)
    return p / p.sum(), q / q.sum()


def true_delta(pairs, epsilon):
    p, q = np.ones(1), np.ones(1)
    for first, second in pairs:
        p, q = np.outer(p, first).ravel(), np.outer(q, second).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


MIXTURES = {
    "pure": ([Pure(0.3), Pure(0.7), Pure(0.1)], [randomized_response(e) for e in (0.3, 0.7, 0.1)]),
    "many pure": ([Pure(0.1)] * 10, [randomized_response(0.1)] * 10),
    "gaussian": ([Gaussian(0.5), Gaussian(1.0)], [binned_gaussian(0.5, 400), binned_gaussian(1.0, 400)]),
    "approximate": (
        [Approximate(0.2, 1e-4), PrivacyGuarantee(0.5, 1e-5)],
        [randomized_response(0.2, 1e-4), randomized_response(0.5, 1e-5)],
    ),
    "laplace": (
        [DiscreteLaplace(1, 2.0), DiscreteLaplace(2, 3.0)],
        [discrete_laplace(1, 2.0), discrete_laplace(2, 3.0)],
    ),
    "zcdp": ([ZCDP(0.5), ZCDP(0.125)], [discrete_gaussian(1.0), discrete_gaussian(2.0)]),
    "pure, gaussian": (
        [Pure(0.4), Gaussian(0.3), Gaussian(0.6), PrivacyGuarantee(0.2)],
        [randomized_response(0.4), binned_gaussian(0.3), binned_gaussian(0.6), randomized_response(0.2)],
    ),
    "one of each": (
        [Pure(0.3), Approximate(0.2, 1e-4), Gaussian(0.5), ZCDP(0.125), DiscreteLaplace(1, 4.0)],
        [
            randomized_response(0.3),
            randomized_response(0.2, 1e-4),
            binned_gaussian(0.5, 40),
            discrete_gaussian(2.0),
            discrete_laplace(1, 1 / 0.25),
        ],
    ),
}


def _truncated(pairs):
    # Keep the product of "one of each" small: merging outcomes is post-processing too.
    return [(np.add.reduceat(p, cut), np.add.reduceat(q, cut)) for p, q, cut in pairs]


@pytest.mark.parametrize("name", MIXTURES)
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1.2e-4, 1e-2, 0.3])
def test_a_total_is_never_below_the_truth(name, delta):
    events, pairs = MIXTURES[name]
    if name == "one of each":
        pairs = _truncated(
            [(p, q, np.unique(np.linspace(0, p.size - 1, min(p.size, 25)).astype(int))) for p, q in pairs]
        )
    claimed = sum(getattr(event, "delta", 0.0) for event in events)
    if delta < claimed:
        with pytest.raises(InvalidParameter, match="delta must be larger"):
            compose(events, delta)
        return
    total = compose(events, delta)
    assert total.delta <= delta
    assert true_delta(pairs, total.epsilon) <= total.delta * (1 + 1e-9) + 1e-15


def test_the_lower_bound_has_power():
    # Had compose forgotten an event, or been 2% short, the same comparison would fail.
    events, pairs = MIXTURES["gaussian"]
    assert true_delta(pairs, 0.98 * compose(events, 1e-6).epsilon) > 1e-6
    assert true_delta(pairs, compose(events[1:], 1e-6).epsilon) > 1e-6
    events, pairs = MIXTURES["pure"]
    assert true_delta(pairs, 0.999 * compose(events, 0.0).epsilon) > 0
    events, pairs = MIXTURES["approximate"]
    assert true_delta(pairs, compose(events, 1.1e-4).epsilon) > 1e-4  # nearly all of the delta is needed


def test_gaussians_compose_exactly():
    # mu^2 adds up (Dong, Roth and Su 2022, corollary 3.3): .6^2 + .8^2 = 1.
    total = compose([Gaussian(0.6), Gaussian(0.8)], 1e-6)
    assert total.epsilon == pytest.approx(gaussian_epsilon(1.0, 1e-6), rel=1e-12)
    assert total.delta == 1e-6
    assert gaussian_delta(total.epsilon, 1.0) <= 1e-6


def test_many_gaussians_compose_as_one():
    total = compose([Gaussian(0.01)] * 10_000, 1e-9)
    assert total.epsilon == pytest.approx(gaussian_epsilon(1.0, 1e-9), rel=1e-9)


def test_the_slack_of_the_lattice_is_paid():
    # (epsilon, delta + (1 + e^epsilon) v): the answer solves delta(epsilon) + (1 + e^epsilon) v = 1e-6.
    variation = 1e-9
    total = compose([Gaussian(0.5, variation)], 1e-6)
    assert total.epsilon > gaussian_epsilon(2.0, 1e-6)
    sum_of_both = gaussian_delta(total.epsilon, 2.0) + (1 + math.exp(total.epsilon)) * variation
    assert sum_of_both <= 1e-6
    # One slack was subtracted at the first epsilon, not solved for: within the slack itself.
    assert sum_of_both > 1e-6 - lattice_slack(total.epsilon, variation)


def test_where_the_slack_exceeds_delta_concentration_takes_over():
    # Discrete Gaussian noise is concentrated with no slack at all (theorem 14 of the same paper).
    total = compose([Gaussian(0.5, 1e-3)], 1e-6)
    assert total.epsilon == pytest.approx(zcdp_epsilon(0.125, 1e-6), rel=1e-12)


def test_pure_releases_add_up():
    total = compose([Pure(0.1), PrivacyGuarantee(0.2), DiscreteLaplace(3, 6.0)], 0.0)
    assert total == PrivacyGuarantee(math.fsum([0.1, 0.2, 0.5]))


def test_many_pure_releases_cost_less_with_a_delta():
    # 100 of 0.1: rho = 100 * .005 = .5 (Bun and Steinke 2016, proposition 1.4).
    events = [Pure(0.1)] * 100
    assert compose(events, 0.0).epsilon == pytest.approx(10.0, rel=1e-12)
    assert compose(events, 1e-6).epsilon == pytest.approx(zcdp_epsilon(0.5, 1e-6), rel=1e-9)
    assert compose([Pure(0.1)] * 2, 1e-6) == PrivacyGuarantee(0.2)  # few: the sum is smaller, delta unspent


def test_deltas_of_approximate_releases_add_up():
    total = compose([PrivacyGuarantee(0.3, 1e-6), PrivacyGuarantee(0.4, 2e-6)], 1e-5)
    assert total.epsilon == pytest.approx(0.7, rel=1e-15)
    assert total.delta == pytest.approx(3e-6, rel=1e-9)


@pytest.mark.parametrize(("deltas", "delta"), [([1e-20], 0.5), ([1e-4, 1e-5], 1e-3)])
def test_the_total_delta_is_never_below_the_sum(deltas, delta):
    # 0.5 - 1e-20 rounds to 0.5: the total claims to be pure. The second case loses 5e-20 of 1.1e-4.
    assert compose([Approximate(1.0, part) for part in deltas], delta).delta >= math.fsum(deltas)


def test_nothing_costs_nothing():
    assert compose([], 0.0) == PrivacyGuarantee(0.0)
    assert compose([Gaussian(0.0)], 1e-6) == PrivacyGuarantee(0.0)
    assert basic_composition([]) == PrivacyGuarantee(0.0)


@pytest.mark.parametrize(
    "events", [[Gaussian(0.1)], [ZCDP(0.1)], [Approximate(0.1, 1e-6)], [Pure(1), Gaussian(1)]]
)
def test_no_total_at_delta_zero_unless_all_are_pure(events):
    with pytest.raises(InvalidParameter, match="delta must be larger"):
        compose(events, 0.0)


def test_the_order_does_not_matter():
    events = [*MIXTURES["one of each"][0], Gaussian(0.07), Pure(0.013), PrivacyGuarantee(0.3, 3e-5)]
    totals = {
        compose(order, 1e-3) for order in itertools.islice(itertools.permutations(events), 0, 40_320, 997)
    }
    assert len(totals) == 1
    # Sums in floating point do depend on the order, which is what fsum is for.
    numbers = [random.Random(1).random() * 10.0 ** random.Random(i).randint(-9, 0) for i in range(60)]
    guarantees = [PrivacyGuarantee(x, x * 1e-3) for x in numbers]
    assert basic_composition(guarantees) == basic_composition(guarantees[::-1])


def test_basic_composition_sums_and_caps():
    # Theorem 9.1.2.
    total = basic_composition([PrivacyGuarantee(0.5, 0.25), PrivacyGuarantee(0.125, 0.5)])
    assert total == PrivacyGuarantee(0.625, 0.75)
    assert basic_composition([PrivacyGuarantee(1.0, 0.75)] * 2).delta == 1.0


def test_relations_never_mix():
    mixed = [PrivacyGuarantee(0.1), PrivacyGuarantee(0.1, neighbors=Neighbors.ADD_OR_REMOVE_ONE)]
    for call in (lambda: compose(mixed, 0.0), lambda: basic_composition(mixed)):
        with pytest.raises(InvalidParameter, match="ADD_OR_REMOVE_ONE and REPLACE_ONE"):
            call()
    assert compose(mixed[1:], 0.0).neighbors is Neighbors.ADD_OR_REMOVE_ONE
    assert compose([Gaussian(1, neighbors=Neighbors.ADD_OR_REMOVE_ONE)], 0.1).neighbors.name.startswith("ADD")


def test_one_simulated_part_makes_the_total_simulated():
    parts = [PrivacyGuarantee(0.1), PrivacyGuarantee(0.1, simulated=True)]
    assert compose(parts, 0.0).simulated and basic_composition(parts).simulated
    assert not compose(parts[:1], 0.0).simulated


@pytest.mark.parametrize(
    ("event", "pair"),
    [
        (Pure(0.8), randomized_response(0.8)),
        (Approximate(0.8, 0.01), randomized_response(0.8, 0.01)),
        (Gaussian(1.5), binned_gaussian(1.5, 2000)),
        (DiscreteLaplace(2, 3.0), discrete_laplace(2, 3.0)),
        (ZCDP(0.125), discrete_gaussian(2.0)),
    ],
)
def test_profiles_are_never_below_the_truth(event, pair):
    for epsilon in (0.0, 0.1, 0.5, 0.79, 0.81, 2.0):
        assert event.profile(epsilon) >= true_delta([pair], epsilon) * (1 - 1e-12)
    if isinstance(event, Pure | Approximate):  # and equal to it where randomized response is the event
        assert event.profile(0.5) == pytest.approx(true_delta([pair], 0.5), rel=1e-12)


def test_pure_profile_closed_form():
    # (e^c - e^t)/(1 + e^c) at c = 1, t = 0: (e - 1)/(e + 1) = tanh(1/2).
    assert pure_profile(1.0, 0.0) == pytest.approx(math.tanh(0.5), rel=1e-14)
    assert pure_profile(1.0, 1.0) == 0.0
    assert 0.999 < pure_profile(1000.0, 0.0) <= 1.0


def test_certifies_says_yes_to_totals_and_no_below_them():
    for items, _ in MIXTURES.values():
        events = [as_event(item) for item in items]
        epsilon = compose(events, 1e-3).epsilon
        assert certifies(events, PrivacyGuarantee(epsilon, 1e-3))
        assert not certifies(events, PrivacyGuarantee(epsilon * (1 - 1e-6), 1e-3))


@pytest.mark.parametrize("item", [0.1, "pure", None])
def test_other_things_do_not_compose(item):
    with pytest.raises(InvalidParameter, match="expected a PrivacyGuarantee or an event"):
        compose([item], 0.0)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: compose([], -0.1), "delta"),
        (lambda: compose([], 1.0), "delta"),
        (lambda: Gaussian(-1.0), "mu"),
        (lambda: Gaussian(1.0, -1.0), "total_variation"),
        (lambda: Pure(-1.0), "epsilon"),
        (lambda: Approximate(1.0, 2.0), "delta"),
        (lambda: DiscreteLaplace(1.5, 1.0), "sensitivity"),
        (lambda: DiscreteLaplace(1, 0.0), "scale"),
        (lambda: ZCDP(float("nan")), "rho"),
        (lambda: Pure(1.0, neighbors="replace"), "neighbors"),
    ],
)
def test_bad_parameters_are_named(call, name):
    with pytest.raises(InvalidParameter, match=f"^{name} must be"):
        call()
