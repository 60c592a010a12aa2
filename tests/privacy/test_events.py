"""Events against brute force: the hockey-stick divergence of the pairs of laws that they stand for."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

from dpstats.errors import InvalidParameter
from dpstats.privacy import Neighbors, PrivacyGuarantee
from dpstats.privacy.events import (
    ZCDP,
    Approximate,
    BoundedRange,
    DiscreteLaplace,
    Event,
    Gaussian,
    GaussianMixture,
    Pure,
    as_event,
    dearer,
    number_names,
)
from dpstats.privacy.gaussian import gaussian_curve, gaussian_profile

ADD_OR_REMOVE = Neighbors.ADD_OR_REMOVE_ONE
EPSILONS = np.array([0.0, 1e-6, 0.013, 0.1, 0.4, 0.5, 0.79, 0.81, 1.0, 1.37, 2.0, 2.9, 3.1, 5.0])


def divergence(pair, epsilon):
    """sum (p - e^epsilon q)_+, the smallest delta of one direction, for each pair of laws on the last axis."""
    p, q = (np.asarray(law, dtype=np.longdouble) for law in pair)
    return np.maximum(p - np.exp(np.longdouble(epsilon)) * q, 0).sum(axis=-1).astype(float)


def both_ways(pair, epsilon):
    return np.maximum(divergence(pair, epsilon), divergence(pair[::-1], epsilon))


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
    """The two laws outcome by outcome; what lies beyond either end is one outcome."""
    k = np.arange(0, shift + 1)
    decay = np.exp(-1 / np.longdouble(scale))
    p = (1 - decay) / (1 + decay) * decay**k
    p[0], p[-1] = 1 / (1 + decay), decay**shift / (1 + decay)
    return (p, p[::-1]) if shift else (np.ones(1), np.ones(1))


def discrete_gaussian(sigma, shift=1):
    """rho = shift^2/(2 sigma^2): Canonne, Kamath and Steinke (2020), theorem 14."""
    steps = np.arange(-int(12 * sigma), int(12 * sigma) + 1 + shift)
    p, q = np.exp(-0.5 * (steps / sigma) ** 2), np.exp(-0.5 * ((steps - shift) / sigma) ** 2)
    return p / p.sum(), q / q.sum()


def product(*pairs):
    p, q = np.ones(1), np.ones(1)
    for first, second in pairs:
        p, q = np.outer(p, first).ravel(), np.outer(q, second).ravel()
    return p, q


def exponential_mechanism(epsilon, before, after):
    """P(r) ~ exp(epsilon u(r)/2) for two utilities that differ by at most 1 everywhere."""
    laws = []
    for utility in (before, after):
        weights = np.exp(epsilon * (utility - utility.max(axis=-1, keepdims=True)) / 2)
        laws.append(weights / weights.sum(axis=-1, keepdims=True))
    return tuple(laws)


# Curves


@pytest.mark.parametrize("event", [Pure(0.8), Pure(3.0), Approximate(0.8, 0.01), Approximate(0.0, 0.2)])
def test_randomized_response_is_the_event(event):
    pair = randomized_response(event.epsilon, getattr(event, "delta", 0.0))
    for epsilon in EPSILONS:
        assert event.profile(epsilon) == pytest.approx(both_ways(pair, epsilon), rel=1e-13, abs=1e-16)


@pytest.mark.parametrize("epsilon", [1e-8, 0.3, 2.0, 40.0])
def test_pure_profile_closed_form(epsilon):
    # (e^c - e^t)/(1 + e^c) at t = 0 is tanh(c/2).
    assert Pure(epsilon).profile(0.0) == pytest.approx(math.tanh(epsilon / 2), rel=1e-13)
    assert Pure(epsilon).profile(epsilon) == 0.0
    assert 0.999 < Pure(1000.0).profile(0.0) <= 1.0


@pytest.mark.parametrize(
    ("steps", "scale"),
    [(0, 1.0), (1, 1.0), (1, 0.05), (1, 30.0), (2, 3.0), (3, 0.7), (7, 2.3), (100, 40.0), (5000, 2500.0)],
)
def test_discrete_laplace_is_exact(steps, scale):
    event, pair = DiscreteLaplace(steps, scale), discrete_laplace(steps, scale)
    # The quotient, rounded up.
    assert Fraction(math.nextafter(event.pure_cost(), 0)) < Fraction(steps) / Fraction(scale) or steps == 0
    assert Fraction(event.pure_cost()) >= Fraction(steps) / Fraction(scale)
    for epsilon in np.concatenate([EPSILONS, np.linspace(0, 1.1, 23) * event.pure_cost()]):
        if epsilon < 700:
            assert event.profile(epsilon) == pytest.approx(both_ways(pair, epsilon), rel=1e-9, abs=5e-15)


def test_many_steps_are_continuous_laplace_noise():
    # 1 - e^((x - a)/2) for continuous noise of sensitivity over scale a.
    event = DiscreteLaplace(2**31, 2**31 / 0.7)
    for epsilon in np.linspace(0, 0.7, 15):
        assert event.profile(epsilon) == pytest.approx(-math.expm1((epsilon - 0.7) / 2), abs=1e-9)


@pytest.mark.parametrize("steps", [(1, 1), (2, 1), (3, 2), (1, 1, 1), (2, 1, 1), (2, 2, 2), (5, 1, 3), (0, 4)])
@pytest.mark.parametrize("scale", [0.6, 1.0, 2.5, 9.0])
def test_one_coordinate_dominates_several(steps, scale):
    # Independent noise in each coordinate, the same l1 sensitivity in all: never above the scalar curve.
    event = DiscreteLaplace(sum(steps), scale)
    pair = product(*(discrete_laplace(part, scale) for part in steps))
    smaller = DiscreteLaplace(sum(steps) - 1, scale)
    for epsilon in np.concatenate([EPSILONS, np.linspace(0, 1, 31) * event.pure_cost()]):
        assert event.profile(epsilon) >= both_ways(pair, epsilon) - 1e-14
    # And a curve of one step less would be caught.
    assert any(
        smaller.profile(epsilon) < both_ways(pair, epsilon) - 1e-9
        for epsilon in np.linspace(0, 1, 31) * event.pure_cost()
    )


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 4.0])
def test_the_exponential_mechanism_is_below_bounded_range(epsilon):
    generator = np.random.default_rng(20261121)
    event, thetas = BoundedRange(epsilon), np.linspace(0, 1, 13) * epsilon
    bounds = np.array([event.profile(theta) for theta in thetas])
    for _ in range(400):
        size = generator.integers(2, 7)
        before = generator.normal(scale=generator.choice([0.1, 1.0, 10 / epsilon]), size=size)
        moves = generator.choice([-1.0, 1.0], size=size) if generator.random() < 0.7 else generator.uniform(-1, 1, size)
        pair = exponential_mechanism(epsilon, before, before + moves)
        found = np.array([both_ways(pair, theta) for theta in thetas])
        assert np.all(found <= bounds + 1e-14)


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 4.0])
def test_two_outcomes_attain_bounded_range(epsilon):
    event = BoundedRange(epsilon)
    gaps = np.linspace(-6, 6, 4001) / min(epsilon, 1)
    for theta in np.array([0.0, 0.1, 0.5, 0.9]) * epsilon:
        # Utilities (gap, 0) move to (gap - 1, 1): the log odds move by epsilon.
        before = np.stack([gaps, np.zeros(gaps.size)], axis=1)
        best = both_ways(exponential_mechanism(epsilon, before, before + np.array([-1.0, 1.0])), theta).max()
        assert best <= event.profile(theta) + 1e-14
        assert best == pytest.approx(event.profile(theta), rel=1e-4)


def test_bounded_range_is_below_pure_and_half_of_it_is_not_enough():
    for epsilon, theta in itertools.product((0.1, 1.0, 5.0), np.linspace(0, 5, 21)):
        assert BoundedRange(epsilon).profile(theta) <= Pure(epsilon).profile(theta) + 1e-16
    # tanh(epsilon/4) at 0, by the closed form: (e^(a/2) - 1)^2/(e^a - 1).
    assert BoundedRange(1.0).profile(0.0) == pytest.approx(math.tanh(0.25), rel=1e-13)
    assert BoundedRange(1.0).profile(0.6) > Pure(0.5).profile(0.6)


def test_gaussian_profiles_are_never_below_the_truth():
    event, pair = Gaussian(1.5), binned_gaussian(1.5, 2000)
    for epsilon in EPSILONS:
        assert event.profile(epsilon) >= both_ways(pair, epsilon) * (1 - 1e-10)
        assert event.profile(epsilon) == pytest.approx(both_ways(pair, epsilon), rel=1e-3)
        # The lattice's slack is (1 + e^epsilon) times the total variation.
        slack = Gaussian(1.5, 1e-3).profile(epsilon) - event.profile(epsilon)
        assert slack == pytest.approx(min((1 + math.exp(epsilon)) * 1e-3, 1 - event.profile(epsilon)), rel=1e-9)


@pytest.mark.parametrize("sigma", [0.4, 1.0, 2.0, 7.0])
def test_concentrated_profiles_are_never_below_discrete_gaussians(sigma):
    event, pair = ZCDP(1 / (2 * sigma**2)), discrete_gaussian(sigma)
    for epsilon in EPSILONS:
        assert event.profile(epsilon) >= both_ways(pair, epsilon) - 1e-15
    assert ZCDP(0.9 / (2 * sigma**2)).profile(0.0) < event.profile(0.0)


@pytest.mark.parametrize(
    ("event", "pair"),
    [
        (Pure(0.7), randomized_response(0.7)),
        (DiscreteLaplace(1, 1.4), discrete_laplace(1, 1.4)),
        (DiscreteLaplace(4, 3.0), discrete_laplace(4, 3.0)),
        *(
            (BoundedRange(1.3), exponential_mechanism(1.3, np.array([gap, 0.0]), np.array([gap - 1, 1.0])))
            for gap in (-2.0, 0.0, 0.5, 1.0, 3.0)
        ),
    ],
)
def test_rho_bounds_every_renyi_divergence(event, pair):
    p, q = (np.asarray(law, dtype=np.float64)[np.asarray(pair[0]) > 0] for law in pair)
    orders = np.array([1.001, 1.1, 1.5, 2.0, 3.0, 10.0, 100.0])
    for first, second in ((p, q), (q, p)):
        divergences = [math.log(np.sum(first**a * second ** (1 - a))) / (a - 1) for a in orders]
        assert np.all(divergences <= orders * event.zcdp_cost() * (1 + 1e-9))
        # Near order 1 randomized response comes within a tenth of it.
        if isinstance(event, Pure):
            assert divergences[0] > 0.9 * event.zcdp_cost()


@pytest.mark.parametrize(
    "event", [Pure(0.8), Approximate(0.3, 1e-3), DiscreteLaplace(7, 3.0), DiscreteLaplace(1, 5.0), BoundedRange(2.0)]
)
def test_curves_are_profiles(event):
    # Falling and convex in e^x, the delta of the event beyond the largest loss, and as one number at a time.
    x = np.linspace(0, 1.2 * event.largest_loss(), 400)
    curve = event.curve(x)
    assert np.all(np.diff(curve) <= 1e-15)
    slopes = np.diff(curve) / np.diff(np.exp(x))
    assert np.all(np.diff(slopes) >= -1e-11)
    assert np.all(curve[x > event.largest_loss()] == getattr(event, "delta", 0.0))
    assert [event.profile(value) for value in x[::50]] == pytest.approx(curve[::50], rel=1e-12, abs=1e-16)


def test_discrete_laplace_at_a_large_epsilon():
    assert DiscreteLaplace(1, 1.0).profile(800.0) == 0.0


def test_rho_of_a_tiny_scale_is_no_overflow():
    assert DiscreteLaplace(1, 1e-99).zcdp_cost() > 1e197


# From one row added or removed to one row replaced


def test_a_replacement_is_a_removal_and_an_addition():
    assert Gaussian(0.3, 1e-9, neighbors=ADD_OR_REMOVE).as_replace_one() == Gaussian(0.6, 1e-9)
    assert Pure(0.3, neighbors=ADD_OR_REMOVE).as_replace_one() == Pure(0.6)
    assert DiscreteLaplace(3, 2.0, neighbors=ADD_OR_REMOVE).as_replace_one() == DiscreteLaplace(6, 2.0)
    assert BoundedRange(0.3, neighbors=ADD_OR_REMOVE).as_replace_one() == BoundedRange(0.6)
    assert ZCDP(0.3, neighbors=ADD_OR_REMOVE).as_replace_one() == ZCDP(1.2)
    total = Approximate(0.3, 1e-3, neighbors=ADD_OR_REMOVE).as_replace_one()
    assert total.epsilon == 0.6
    assert total.delta == pytest.approx((1 + math.exp(0.3)) * 1e-3, rel=1e-14)
    for event in (Gaussian(0.3), Pure(0.3), Approximate(0.3, 0.1), ZCDP(0.3)):
        assert event.as_replace_one() is event
    with pytest.raises(InvalidParameter, match="not define a conversion to REPLACE_ONE"):
        Event(neighbors=ADD_OR_REMOVE).as_replace_one()


def test_replacements_of_random_mechanisms():
    # first - shorter - second: the laws of three datasets, the middle one with the row left out.
    generator = np.random.default_rng(7)
    for _ in range(300):
        shorter = generator.dirichlet(np.ones(4))
        first, second = (law / law.sum() for law in shorter * np.exp(generator.uniform(-0.7, 0.7, size=(2, 4))))
        links = [(first, shorter), (second, shorter)]
        # What is true of the two links...
        pure = max(np.abs(np.log(p / q)).max() for p, q in links)
        spread = max(np.ptp(np.log(p / q)) for p, q in links)
        epsilon = generator.uniform(0, pure)
        delta = max(both_ways(link, epsilon) for link in links)
        # ...gives events that hold of the two ends.
        events = [Pure(pure, neighbors=ADD_OR_REMOVE), BoundedRange(spread, neighbors=ADD_OR_REMOVE)]
        for event in events:
            for x in np.linspace(0, 3, 13):
                assert both_ways((first, second), x) <= event.as_replace_one().profile(x) + 1e-14
        total = Approximate(epsilon, min(1.0, delta), neighbors=ADD_OR_REMOVE).as_replace_one()
        assert both_ways((first, second), total.epsilon) <= total.delta + 1e-14


def test_noise_that_attains_the_conversions():
    # Values -s, 0 and s: twice the shift, and no less would do.
    twice = DiscreteLaplace(2, 3.0, neighbors=ADD_OR_REMOVE).as_replace_one()
    for x in np.linspace(0, 1.3, 14):
        assert twice.profile(x) == pytest.approx(both_ways(discrete_laplace(4, 3.0), x), abs=1e-14)
    rho = ZCDP(1 / 8, neighbors=ADD_OR_REMOVE).as_replace_one()
    for x in EPSILONS:
        assert rho.profile(x) >= both_ways(discrete_gaussian(2.0, shift=2), x) - 1e-15
    # Each law spreads delta where the last had nothing: (1 + e^epsilon) delta is attained.
    epsilon, delta = 0.5, 1e-2
    chance = [0.0, delta, math.exp(epsilon) * delta + delta]
    ends = np.array([chance[2], 1 - chance[2]]), np.array([chance[0], 1 - chance[0]])
    total = Approximate(epsilon, delta, neighbors=ADD_OR_REMOVE).as_replace_one()
    assert both_ways(ends, total.epsilon) == pytest.approx(total.delta, rel=1e-12)


# Odds and ends


def test_guarantees_become_events():
    assert as_event(PrivacyGuarantee(0.3)) == Pure(0.3)
    assert as_event(PrivacyGuarantee(0.3, 1e-6)) == Approximate(0.3, 1e-6)
    assert as_event(PrivacyGuarantee(0.3, neighbors=ADD_OR_REMOVE)).neighbors is ADD_OR_REMOVE
    assert as_event(ZCDP(0.1)) == ZCDP(0.1)


def test_costs_that_an_event_has_and_has_not():
    assert Approximate(0.3, 0.0).pure_cost() == 0.3
    assert Approximate(0.3, 1e-9).pure_cost() is None and Approximate(0.3, 1e-9).zcdp_cost() is None
    assert Gaussian(0.3).pure_cost() is None and ZCDP(0.3).pure_cost() is None
    assert Gaussian(0.4).zcdp_cost() == pytest.approx(0.08, rel=1e-15)
    assert BoundedRange(0.4).zcdp_cost() == pytest.approx(0.02, rel=1e-15)
    with pytest.raises(InvalidParameter, match="does not define a profile"):
        Event().profile(0.1)


def test_events_are_frozen_values():
    assert len({Pure(0.1), Pure(0.1), Pure(0.1, neighbors=ADD_OR_REMOVE), BoundedRange(0.1)}) == 3
    with pytest.raises(AttributeError):
        Pure(0.1).epsilon = 0.2


@pytest.mark.parametrize("item", [0.1, "pure", None])
def test_other_things_are_no_events(item):
    with pytest.raises(InvalidParameter, match="event must"):
        as_event(item)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: Gaussian(-1.0), "mu"),
        (lambda: Gaussian(1.0, -1.0), "total_variation"),
        (lambda: Pure(-1.0), "epsilon"),
        (lambda: Pure(math.inf), "epsilon"),
        (lambda: Approximate(1.0, 2.0), "delta"),
        (lambda: DiscreteLaplace(1.5, 1.0), "sensitivity"),
        (lambda: DiscreteLaplace(1, 0.0), "scale"),
        (lambda: BoundedRange(-0.1), "epsilon"),
        (lambda: ZCDP(float("nan")), "rho"),
        (lambda: Pure(1.0, neighbors="replace"), "neighbors"),
    ],
)
def test_bad_parameters_are_named(call, name):
    with pytest.raises(InvalidParameter, match=f"^{name} must be"):
        call()


@pytest.mark.parametrize(
    ("event", "numbers"),
    [
        (Pure(0.5), (0.7,)),
        (Gaussian(0.5, 1e-9), (0.4, 1e-8)),
        (ZCDP(0.1), (0.2,)),
        (BoundedRange(0.4), (0.3,)),
        (DiscreteLaplace(3, 2.0), (4, 2.5)),
        (DiscreteLaplace(3, 2.0), (2, 1.5)),
        (DiscreteLaplace(3, 2.0), (3, 1.5)),
        (Approximate(0.5, 1e-6), (0.4, 1e-5)),
    ],
    ids=str,
)
def test_the_dearer_of_two_events_costs_at_least_each(event, numbers):
    # Whatever the order of the two, and whichever field is larger.
    worst, given = dearer(event, [Fraction(number) for number in numbers])
    assert [getattr(given, name) for name in number_names(given)] == pytest.approx(numbers)
    for epsilon in EPSILONS:
        assert worst.profile(epsilon) >= max(event.profile(epsilon), given.profile(epsilon))


@pytest.mark.parametrize(
    "event",
    [
        *(Pure(0.0), Gaussian(0.0), ZCDP(0.0), BoundedRange(0.0), Approximate(0.0, 0.0), DiscreteLaplace(0, 1.0)),
        *(GaussianMixture([0.0], [1.0]), GaussianMixture([0.0, 0.0], [0.5, 0.5])),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_no_row_moves_costs_nothing(event):
    epsilons = np.array([0.0, 0.3, 40.0])
    assert [event.profile(float(epsilon)) for epsilon in epsilons] == [0.0] * 3
    for curve in (event.curve(epsilons), event.back_curve(epsilons)):
        assert curve is None or np.all(curve == 0)
    assert gaussian_profile(1.0, math.inf) == 1.0 and np.all(gaussian_curve(epsilons, 0.0) == 0)
