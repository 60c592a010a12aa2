"""The methods of a budget: what each counts, what fits, what it refuses, and why its region is a box."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import trapezoid

from dpstats.errors import BudgetExceeded, InvalidParameter
from dpstats.means import ClippedMean
from dpstats.mechanisms import GaussianMechanism, LaplaceMechanism
from dpstats.privacy import (
    Neighbors,
    PrivacyBudget,
    PrivacyGuarantee,
    ReleaseCost,
    compose,
    filters,
    gaussian_epsilon,
    gaussian_sigma,
    zcdp_epsilon,
    zcdp_rho,
)
from dpstats.privacy.events import ZCDP, Approximate, BoundedRange, DiscreteLaplace, Gaussian, Pure, Sampled
from dpstats.privacy.filters import _mu_of_pure

X = np.zeros((100, 2))
TARGETS = [(1.0, 1e-6), (0.1, 1e-10), (5.0, 1e-5), (0.01, 1e-15), (1.0, 1e-15), (12.0, 1e-3)]


@pytest.mark.parametrize(("epsilon", "delta"), TARGETS)
def test_gdp_pays_for_exactly_one_fit_of_the_whole_budget(epsilon, delta):
    budget = PrivacyBudget(epsilon, delta, method="gdp")
    assert budget.remaining == PrivacyGuarantee(epsilon, delta)
    # At a delta of 1e-15 the noise of two blocks together is further from a continuous one than a budget sets aside.
    std = None if delta < 1e-14 else "private"
    estimator = ClippedMean(epsilon=epsilon, delta=delta, clip=1.0, std=std, budget=budget)
    estimator.fit(X)
    assert budget.spent == PrivacyGuarantee(epsilon, delta)
    with pytest.raises(BudgetExceeded):
        estimator.fit(X)
    # Nothing of any size fits any more.
    with pytest.raises(BudgetExceeded):
        budget.charge(Gaussian(1e-6))


def test_gdp_pays_for_a_fit_with_two_releases_and_for_mechanisms():
    for release in (
        lambda budget: ClippedMean(epsilon=1.0, delta=1e-6, clip=1.0, std="private", budget=budget).fit(X),
        lambda budget: GaussianMechanism(1.0, 1.0, 1e-6, budget=budget).release(0.0),
    ):
        budget = PrivacyBudget(1.0, 1e-6, method="gdp")
        release(budget)
        with pytest.raises(BudgetExceeded):
            release(budget)


def test_gdp_adds_squares():
    # k equal shares of mu^2 fit, and no k + 1: basic composition would allow sqrt(k) of them at these epsilons.
    mu = 1 / gaussian_sigma(1.0, 1e-6)
    budget = PrivacyBudget(1.0, 1e-6, method="gdp")
    for _ in range(16):
        budget.charge(Gaussian(mu / 4 * (1 - 1e-7)))
    with pytest.raises(BudgetExceeded):
        budget.charge(Gaussian(mu / 100))
    assert budget.spent.epsilon == pytest.approx(1.0, rel=1e-6)


def test_gdp_adds_what_all_releases_of_a_charge_lack_of_continuous_noise():
    budget = PrivacyBudget(1.0, 1e-6, method="gdp")
    slack = budget._filter.limits()[1]
    # Three parts of it, 0.4 each: any one of them would fit, and so would two.
    parts = (Gaussian(1e-3, float(slack) * 0.4),) * 3
    with pytest.raises(BudgetExceeded, match="allowance for discrete noise"):
        budget.charge(ReleaseCost(parts, PrivacyGuarantee(1.0, 1e-6)))
    budget.charge(ReleaseCost(parts[:2], PrivacyGuarantee(1.0, 1e-6)))


def test_gdp_counts_a_pure_release_as_the_gaussian_that_is_no_better():
    # 2 Phi^-1(e^eps/(1 + e^eps)): at type I error 1/(1 + e^eps) both curves have equal errors.
    budget = PrivacyBudget(2.0, 1e-6, method="gdp")
    LaplaceMechanism(1.0, 0.3, budget=budget).release(0.0)
    mu = 2 * stats.norm.ppf(math.exp(0.3) / (1 + math.exp(0.3)))
    assert budget.spent.epsilon == pytest.approx(gaussian_epsilon(1 / mu, 1e-6), rel=1e-6)


def test_what_remains_under_gdp_can_be_spent():
    budget = PrivacyBudget(1.0, 1e-6, method="gdp")
    budget.charge(Gaussian(0.1))
    left = budget.remaining
    ClippedMean(epsilon=left.epsilon, delta=left.delta, clip=1.0, budget=budget).fit(X)
    assert budget.remaining.epsilon < 1e-3 * left.epsilon


@pytest.mark.parametrize("item", [PrivacyGuarantee(0.1, 1e-8), Approximate(0.1, 1e-9)])
def test_gdp_refuses_what_it_cannot_count(item):
    with pytest.raises(InvalidParameter, match="counts Gaussian and pure releases only"):
        PrivacyBudget(1.0, 1e-6, method="gdp").charge(item)


def test_gdp_keeps_its_allowance_for_discreteness():
    # Coarse noise: its distance from the continuous one is not covered, whatever its mu.
    with pytest.raises(BudgetExceeded):
        PrivacyBudget(1.0, 1e-6, method="gdp").charge(Gaussian(1e-4, total_variation=1e-9))


def test_zcdp_adds_rhos_and_sets_delta_aside():
    budget = PrivacyBudget(1.0, 1e-6, method="zcdp")
    budget.charge(ZCDP(0.001))
    budget.charge(PrivacyGuarantee(0.05))
    budget.charge(BoundedRange(0.1))
    budget.charge(PrivacyGuarantee(0.02, 5e-8))
    rho = 0.001 + 0.05**2 / 2 + 0.1**2 / 8 + 0.02**2 / 2
    assert budget.spent == PrivacyGuarantee(zcdp_epsilon(rho, 0.9e-6), 1e-6) or budget.spent.epsilon == pytest.approx(
        zcdp_epsilon(rho, 0.9e-6), rel=1e-9
    )
    # A tenth of delta, 1e-7, is for such charges.
    with pytest.raises(BudgetExceeded):
        budget.charge(PrivacyGuarantee(0.001, 6e-8))


@pytest.mark.parametrize(
    ("filtering", "events"),
    [
        (filters.GDP, [Gaussian(0.1, total_variation=1e-15), Pure(0.3), Gaussian(0.2, total_variation=3e-15)]),
        (filters.ZCDP, [Approximate(0.2, 1e-9), Gaussian(0.1), Pure(0.3), Approximate(0.1, 3e-9)]),
    ],
)
def test_a_charge_counts_as_much_as_its_events_one_by_one(filtering, events):
    method, nothing = filtering(5.0, 1e-6), (Fraction(0), Fraction(0))

    def amounts(some):
        return method.amounts(ReleaseCost(tuple(some), PrivacyGuarantee(5.0, 1e-6)), nothing)

    for count in (2, len(events)):
        alone = [amounts([event]) for event in events[:count]]
        assert amounts(events[:count]) == tuple(map(sum, zip(*alone, strict=True)))


def test_zcdp_fits_exactly_its_rho():
    rho = zcdp_rho(1.0, 0.9e-6)
    budget = PrivacyBudget(1.0, 1e-6, method="zcdp")
    budget.charge(ZCDP(rho))
    assert budget.spent.epsilon <= 1.0
    with pytest.raises(BudgetExceeded):
        budget.charge(ZCDP(rho * 1e-6))
    other = PrivacyBudget(1.0, 1e-6, method="zcdp")
    other.charge(other.remaining)
    assert other.remaining.epsilon < 1e-5


def test_pld_pays_for_one_plan_and_nothing_after_it():
    plan = ClippedMean(epsilon=1.0, delta=1e-6, clip=1.0).plan(100, 2)
    budget = PrivacyBudget(1.0, 1e-6, method="pld")
    budget.charge(plan)
    assert budget.spent == PrivacyGuarantee(1.0, 1e-6) and budget.remaining == PrivacyGuarantee(0.0)
    with pytest.raises(InvalidParameter, match="fixed before the first answer"):
        budget.charge(Gaussian(1e-9))
    with pytest.raises(BudgetExceeded, match="the plan must cost at most"):
        PrivacyBudget(0.9, 1e-6, method="pld").charge(plan)


def test_pld_pays_for_planned_selections_that_no_other_method_could():
    # Ten selections at .3 cost 2.2024 at 1e-6, 2.29 by zCDP and 3 by basic composition.
    planned = [BoundedRange(0.3)] * 10
    budget = PrivacyBudget(2.21, 1e-6, method="pld", planned=planned)
    for event in planned:
        budget.charge(event)
    with pytest.raises(InvalidParameter, match="10 of 10 are made"):
        budget.charge(planned[0])
    with pytest.raises(BudgetExceeded):
        PrivacyBudget(2.2, 1e-6, method="pld", planned=planned)
    zcdp = PrivacyBudget(2.21, 1e-6, method="zcdp")
    for event in planned[1:]:
        zcdp.charge(event)
    with pytest.raises(BudgetExceeded, match="as a pure release"):
        zcdp.charge(planned[0])


def test_pld_follows_the_plan_in_order():
    budget = PrivacyBudget(1.0, 1e-6, method="pld", planned=[Pure(0.1), Pure(0.2)])
    with pytest.raises(InvalidParameter, match="in their order"):
        budget.charge(Pure(0.2))
    budget.charge(Pure(0.1))
    budget.charge(Pure(0.2))


def test_methods_that_need_a_delta_say_so():
    for method in ("gdp", "zcdp"):
        with pytest.raises(InvalidParameter, match="delta must"):
            PrivacyBudget(1.0, method=method)
    with pytest.raises(InvalidParameter, match="method must"):
        PrivacyBudget(1.0, method="rdp")
    with pytest.raises(InvalidParameter, match="planned must"):
        PrivacyBudget(1.0, planned=[Pure(0.1)])


def test_relations_never_mix():
    added = Pure(0.05, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    for method in ("basic", "gdp", "zcdp", "pld"):
        budget = PrivacyBudget(1.0, 1e-6, method=method)
        with pytest.raises(InvalidParameter, match="REPLACE_ONE"):
            budget.charge(added)
        budget.charge(added.as_replace_one())


@pytest.mark.parametrize("relation", Neighbors)
def test_whatever_is_charged_is_charged_to_a_budget_of_its_relation(relation):
    (other,) = set(Neighbors) - {relation}
    guarantee = PrivacyGuarantee(0.05, 1e-9, relation)
    event = Approximate(0.05, 1e-9, neighbors=relation)
    items = [guarantee, event, ReleaseCost((event,), guarantee)]
    items += [kind(0.01, neighbors=relation) for kind in (Pure, Gaussian, ZCDP, BoundedRange)]
    for item in items:
        budget = PrivacyBudget(1.0, 1e-6, neighbors=relation)
        budget.charge(item)
        assert budget.spent.neighbors is relation and 0.0 < budget.spent.epsilon < 1.0
        with pytest.raises(InvalidParameter, match=f"{other.name}, got {relation.name}"):
            PrivacyBudget(1.0, 1e-6, neighbors=other).charge(item)


# For releases fixed beforehand every method's spent must be at least the best total, and never above the budget.
EVENTS = st.lists(st.one_of(st.floats(1e-3, 0.2).map(Gaussian), st.floats(1e-3, 0.3).map(Pure)), min_size=1, max_size=8)


@settings(max_examples=40, deadline=None)
@given(EVENTS, st.sampled_from(["gdp", "zcdp"]))
def test_spent_is_never_below_the_best_total(events, method):
    budget = PrivacyBudget(20.0, 1e-5, method=method)
    before = 0.0
    for event in events:
        budget.charge(event)
        assert before < budget.spent.epsilon <= 20.0
        before = budget.spent.epsilon
    best = (
        compose([event for event in events if isinstance(event, Gaussian)], 1e-5)
        if any(isinstance(event, Gaussian) for event in events)
        else compose(events, 1e-5)
    )
    assert budget.spent.epsilon >= best.epsilon * (1 - 1e-9)


def test_converting_at_what_is_left_of_delta_would_not_be_private():
    # Why the region is a box. A filter that admits while zcdp_delta(rho) + used <= delta lets an adversary
    # first release at rho/2, then, where the loss came out low, spend delta on a release that shows the row,
    # and elsewhere the other rho/2. Exact total at epsilon, for Gaussian releases and all of delta:
    epsilon, delta = 1.0, 1e-6
    mu = 1 / gaussian_sigma(epsilon, delta)  # the exact region: the curve at mu^2 alone uses all of delta
    first, second = mu / math.sqrt(2), mu / math.sqrt(2)
    # Loss of the first release under P is N(first^2/2, first^2). Low: below its median.
    median = first**2 / 2
    used = delta - _curve(epsilon, first)  # what such a filter would let the low branch spend
    low = 0.5 * used + _partial(epsilon, first, second, -np.inf, median, spend_second=False)
    high = _partial(epsilon, first, second, median, np.inf, spend_second=True)
    assert low + high > 1.4 * delta


def _curve(epsilon, mu):
    return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)


def _partial(epsilon, first, second, low, high, *, spend_second):
    """Return the part of delta from first losses between low and high, with or without a second release."""
    grid = np.linspace(max(low, first**2 / 2 - 12 * first), min(high, first**2 / 2 + 12 * first), 200_001)
    density = stats.norm.pdf(grid, first**2 / 2, first)
    if spend_second:
        rest = stats.norm.cdf(second / 2 - (epsilon - grid) / second) - np.exp(epsilon - grid) * stats.norm.cdf(
            -second / 2 - (epsilon - grid) / second
        )
    else:
        rest = np.maximum(0.0, -np.expm1(epsilon - grid))
    return trapezoid(density * rest, grid)


def test_costs_that_lie_are_refused():
    replaced, added = Neighbors.REPLACE_ONE, Neighbors.ADD_OR_REMOVE_ONE
    for events, guarantee, message in (
        ((Pure(50.0),), PrivacyGuarantee(1e-9), "events must"),
        ((Gaussian(0.1, neighbors=added),), PrivacyGuarantee(1.0, 1e-6, replaced), "events must"),
        ((), PrivacyGuarantee(1.0), "events must"),
        (("x",), PrivacyGuarantee(1.0), "events must"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            ReleaseCost(events, guarantee)


@pytest.mark.parametrize("epsilon", [1e-300, 1e-17, 1e-12, 1e-5, 1e-4, 0.5, 0.999, 1.0, 1.5, 30.0])
def test_the_gaussian_of_a_pure_release_is_rounded_up(epsilon):
    with mpmath.workdps(60):
        # 2 Phi^-1(p) = 2 sqrt 2 erfinv(2p - 1), 2p - 1 = tanh(epsilon/2).
        exact = 2 * mpmath.sqrt(2) * mpmath.erfinv(mpmath.tanh(mpmath.mpf(epsilon) / 2))
        assert exact <= _mu_of_pure(epsilon) <= exact * (1 + mpmath.mpf("3e-12"))


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-10), (1.0, 4e-6), (0.3, 1e-6)])
def test_a_plan_for_what_remains_under_gdp_fits(epsilon, delta):
    rng = np.random.default_rng(0)
    for share in rng.uniform(0.05, 0.95, size=20):
        budget = PrivacyBudget(epsilon, delta, method="gdp")
        budget.charge(ClippedMean(epsilon=share * epsilon, delta=delta, clip=1.0, budget=budget).plan(100, 2))
        left = budget.remaining
        budget.charge(ClippedMean(epsilon=left.epsilon, delta=left.delta, clip=1.0, budget=budget).plan(100, 2))


def test_gdp_says_what_it_cannot_count():
    wide = ClippedMean(epsilon=1.0, delta=1e-10, clip=1.0, clip_norm="l2").plan(100, 10**6)
    with pytest.raises(BudgetExceeded, match="allowance for discrete noise"):
        PrivacyBudget(1.0, 1e-10, method="gdp").charge(wide)
    budget = PrivacyBudget(25.0, 1e-9, method="gdp")
    loose = ClippedMean(epsilon=25.0, delta=1e-9, clip=1.0, budget=budget).plan(100, 1)
    with pytest.raises(InvalidParameter, match="calibrated through zero-concentrated privacy"):
        budget.charge(loose)
    # One column, and an ordinary delta: the budget's epsilon is what is large.
    budget = PrivacyBudget(20.0, 1e-6, method="gdp")
    few = ClippedMean(epsilon=20.0, delta=1e-6, clip=1.0, budget=budget).plan(100, 1)
    with pytest.raises(BudgetExceeded, match=r"large \(here 20\) or its delta is small \(1e-06\)"):
        budget.charge(few)


@pytest.mark.parametrize("delta", [8e-9, 3e-7, 7e-6, 1e-5])
def test_a_tenth_of_delta_fits_under_zcdp(delta):
    budget = PrivacyBudget(1.0, delta, method="zcdp")
    budget.charge(PrivacyGuarantee(0.01, float(f"{delta / 10:.1e}")))
    with pytest.raises(BudgetExceeded, match="A tenth of the budget's delta"):
        budget.charge(PrivacyGuarantee(0.01, delta / 1e6))


def test_extreme_charges_are_clear_errors_or_work():
    budget = PrivacyBudget(1.0, 1e-6, method="gdp")
    budget.charge(Gaussian(1e-200))
    assert budget.spent.epsilon < 1e-100 and "spent" in repr(budget)
    for method in ("gdp", "zcdp", "pld"):
        with pytest.raises(InvalidParameter, match="epsilon must"):
            PrivacyBudget(1.0, 1e-6, method=method).charge(PrivacyGuarantee(1e200))
    with pytest.raises(InvalidParameter, match="epsilon must"):
        PrivacyBudget(1e-300, 1e-300, method="zcdp")
    tiny = PrivacyBudget(1.0, 1e-6, method="zcdp")
    tiny.charge(ZCDP(1e-320))
    assert tiny.spent == PrivacyGuarantee(0.0, 1e-6)  # nothing, at this delta
    basic = PrivacyBudget(1.0, 1e-6)
    basic.charge(Approximate(0.5, 1e-8))
    assert basic.spent == PrivacyGuarantee(0.5, 1e-8)


EVERY_EVENT = [
    Gaussian(0.3),
    Pure(0.3),
    Approximate(0.3, 1e-7),
    DiscreteLaplace(3, 10.0),
    BoundedRange(0.3),
    ZCDP(0.05),
    Sampled(Gaussian(0.5), 0.3),
    Sampled(Pure(0.5), 0.3),
    Sampled(Approximate(0.5, 1e-7), 0.3),
]
UNCOUNTED = {"gdp": [Approximate(0.3, 1e-7), ZCDP(0.05), *EVERY_EVENT[6::2]], "zcdp": EVERY_EVENT[6:]}
"""Events that a method refuses; the others are counted."""


@pytest.mark.parametrize("method", ["basic", "gdp", "zcdp", "pld"])
@pytest.mark.parametrize("event", EVERY_EVENT, ids=repr)
def test_no_event_is_free_it_is_paid_for_or_refused(event, method):
    budget = PrivacyBudget(5.0, 1e-4, method=method)
    if event in UNCOUNTED.get(method, []):
        with pytest.raises(InvalidParameter, match="method must"):
            budget.charge(event)
        assert budget.spent.epsilon == 0 and not budget.history()
    else:
        budget.charge(event)
        spent = budget.spent
        # Profiles of samples are raised by more than their rounding errors, also where they are 0.
        assert spent.epsilon > 0 and event.profile(spent.epsilon) <= spent.delta + 1e-14


def test_planned_releases_of_added_rows_are_certified_for_them():
    added = Gaussian(0.3, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    budget = PrivacyBudget(3.0, 1e-6, method="pld", planned=[added], neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    with pytest.raises(BudgetExceeded, match=r"the plan must cost at most .* added or removed"):
        PrivacyBudget(0.1, 1e-6, method="pld", planned=[added], neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    assert budget.remaining.neighbors is Neighbors.ADD_OR_REMOVE_ONE
