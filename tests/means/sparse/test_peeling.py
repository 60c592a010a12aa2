"""Algorithm 9.2.2: the exact total of its rounds, and what others charge."""

import math

import numpy as np
import pytest
from scipy import stats

from dpstats.errors import NotPrivate
from dpstats.means import SparseMean
from dpstats.means.sparse_selection import peeling_cost, peeling_delta
from dpstats.mechanisms import ReportNoisyMax
from dpstats.privacy import PrivacyGuarantee, compose, optimal_composition_delta
from tests.means.sparse.test_estimator import OPTIONS


@pytest.mark.parametrize(("selections", "releases", "cost"), [(7, 0, 0.1), (0, 5, 0.4)])
def test_the_exact_total_is_the_optimal_one_of_copies(selections, releases, cost):
    each = 2 * cost if selections else cost
    for epsilon in (0.05, 0.3, 1.0):
        expected = optimal_composition_delta(each, selections + releases, epsilon)
        assert peeling_delta(selections, releases, cost, epsilon) == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_the_exact_total_by_enumeration():
    cost, epsilon, total = 0.3, 0.7, 0.0
    for signs in np.ndindex(2, 2, 2, 2):
        chances = [math.exp(c) / (1 + math.exp(c)) for c in (2 * cost, 2 * cost, cost, cost)]
        chance = math.prod(p if sign else 1 - p for sign, p in zip(signs, chances, strict=True))
        loss = sum((1 if sign else -1) * c for sign, c in zip(signs, (0.6, 0.6, 0.3, 0.3), strict=True))
        total += chance * max(0.0, 1 - math.exp(epsilon - loss))
    assert total <= peeling_delta(2, 2, cost, epsilon) <= total * (1 + 1e-11)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("n_nonzero", [1, 2, 3, 4, 10, 50])
def test_every_plan_of_peeling_has_its_guarantee(n_nonzero, split):
    for epsilon in (0.1, 1.0, 3.0):
        for delta in (0.0, 1e-12, 1e-6, 1e-5, 1e-2):
            made = SparseMean(
                n_nonzero=n_nonzero, clip=6.0, std=1.0, selection="peeling", epsilon=epsilon, delta=delta, split=split
            )
            found = made.plan(1000, 60).guarantee
            assert 0.9 * epsilon < found.epsilon <= epsilon and found.delta <= delta


def test_the_exact_noise_and_the_printed_one():
    # docs/errata.md: b/lambda = 24.0 against 37.2 at s = 10, delta = 1e-5, epsilon = 1.
    exact = SparseMean(n_nonzero=10, clip=1.0, std=1.0, delta=1e-5, selection="peeling").plan(100, 50)
    printed = SparseMean(n_nonzero=10, clip=1.0, std=1.0, delta=1e-5, selection="peeling", calibration="textbook").plan(
        100, 50
    )
    sensitivity = 2 / 100
    assert exact.noise_scale / sensitivity == pytest.approx(24.02, abs=0.01)
    assert printed.noise_scale / sensitivity == pytest.approx(2 * math.sqrt(30 * math.log(1e5)), rel=1e-9)
    assert exact.guarantee == PrivacyGuarantee(1.0, 1e-5)
    assert printed.guarantee.epsilon < 0.7  # over-noised
    # The accountant, which does not know the closed form, agrees to the margin that is set aside.
    assert compose(exact.events, 1e-5).epsilon == pytest.approx(1.0, rel=1e-3)


def test_the_printed_noise_is_refused_where_it_is_not_private():
    # docs/errata.md: .625 of the claim at s = 10, 1.22 at 20, 1.88 at 400, for (10, 1e-2).
    for s, ratio in ((20, "1.2"), (400, "1.8")):
        with pytest.raises(NotPrivate, match=rf"actual delta of .*, {ratio}\d* times the one claimed"):
            SparseMean(
                n_nonzero=s, epsilon=10.0, delta=1e-2, clip=1.0, std=1.0, selection="peeling", calibration="textbook"
            ).plan(1000, 500)
    cost = 10 / (2 * math.sqrt(30 * math.log(100)))
    assert peeling_delta(10, 10, cost, 10.0) / 1e-2 == pytest.approx(0.625, abs=0.005)


def test_epsilon_inside_the_root_is_not_private():
    # Everything is selected (d = s) and all means move by lambda: count the releases past the middle. An exact event.
    epsilon, delta, s = 0.01, 1e-6, 10
    for inside, private in ((True, False), (False, True)):
        factor = math.sqrt(epsilon) if inside else epsilon
        cost = factor / (2 * math.sqrt(3 * s * math.log(1 / delta)))
        tail = math.exp(-cost / 2) / 2
        t = np.arange(s + 1)
        excess = stats.binom.sf(t - 1, s, 1 - tail) - math.exp(epsilon) * stats.binom.sf(t - 1, s, tail)
        assert (excess.max() <= delta) == private
        if inside:
            assert excess.max() == pytest.approx(3.2e-4, rel=0.02)


def test_laplace_peeling_has_no_bounded_range():
    # Exact probabilities: charging epsilon^2/8 for a Laplace selection takes a range of epsilon for granted.
    utilities = np.array([0.38, -1.59, 0.33, 1.45, 0.51, -0.25])
    shift = np.array([1, 1, -1, -1, -1, 1]) * 0.5
    ranges = {}
    for noise in ("laplace", "gumbel"):
        # Noise of scale 1 in units where the sensitivity is epsilon/2.
        selection = ReportNoisyMax(0.25, 0.5, noise=noise)
        before, after = (selection.probabilities(utilities + sign * shift / 4) for sign in (0, 2))
        ranges[noise] = np.ptp(np.log(after / before))
    assert ranges["gumbel"] <= 0.5 * (1 + 1e-9)
    assert ranges["laplace"] > 0.5 * 1.1


def test_basic_composition_counts_selections_twice():
    # The published s lambda/epsilon costs 3 epsilon.
    assert peeling_cost(4, 4, 1.0, 0.0) == pytest.approx(1 / 12, rel=1e-12)
    assert SparseMean(**OPTIONS, delta=0.0, selection="peeling").plan(10, 5).guarantee == PrivacyGuarantee(3.0)
