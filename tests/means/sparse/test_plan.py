"""What a sparse mean knows before any data."""

import numpy as np
import pytest

from dpstats.means import SparseMean
from dpstats.privacy import BudgetExceeded, PrivacyBudget, PrivacyGuarantee, compose
from tests.means.sparse.test_estimator import OPTIONS


def test_a_split_plan_costs_its_dearer_half_once():
    plan = SparseMean(**OPTIONS, split=True).plan(400, 30)
    assert plan.guarantee == PrivacyGuarantee(3.0, 1e-6)
    selected = [event for item in plan.selections for event in item.events]
    staged = [event for stage in plan.stages[1:] for event in stage.events]
    for part in (selected, staged):
        assert 3.0 * 0.97 < compose(part, 1e-6).epsilon <= 3.0
    assert compose(selected + staged, 1e-6).epsilon > 4
    many = SparseMean(**{**OPTIONS, "n_nonzero": 20}, split=True).plan(400, 30)
    assert compose(many.selections[0].events, 1e-6).epsilon == pytest.approx(3.0, rel=0.1)
    budget = PrivacyBudget(3.0, 1e-6)
    budget.charge(plan)
    with pytest.raises(BudgetExceeded):
        budget.charge(PrivacyGuarantee(1e-3))


def test_a_hopeless_plan_says_so():
    plan = SparseMean(n_nonzero=20, epsilon=0.5, clip=6.0, std=1.0).plan(300, 500)
    assert plan.selection_threshold > 1
    assert "warning: no signal of up to max_signal = 1 std" in str(plan)
    assert "warning" not in str(SparseMean(n_nonzero=10, clip=6.0, std=1.0).plan(2000, 2000))


def share_of_fits(plan, make, factor, law):
    """Return how often a signal of a factor of the threshold is found, in 60 datasets."""
    rng, hits = np.random.default_rng(0), 0
    for _ in range(60):
        X = law(rng, (plan.n_samples, plan.n_features))
        X[:, 5] += factor
        hits += make(rng).fit(X).support_[0] == 5
    return hits / 60


def test_the_threshold_is_where_signals_are_found():
    # d = 200, s = 1: 60 datasets, of which .95 are 57; four standard errors are .11.
    def make(rng):
        return SparseMean(n_nonzero=1, clip=6.0, std=1.0, selection_clip=1.0, random_state=rng)

    plan = make(None).plan(1000, 200)

    def normal(rng, shape):
        return rng.normal(size=shape)

    assert share_of_fits(plan, make, plan.selection_threshold, normal) >= 0.84
    assert share_of_fits(plan, make, 0.3 * plan.selection_threshold, normal) <= 0.5


def skewed(rng, shape):
    return rng.exponential(size=shape) - 1


def test_skewed_columns_are_found_above_the_threshold_of_any():
    def planned(rng):
        return SparseMean(n_nonzero=1, clip=6.0, std=1.0, random_state=rng)

    def narrow(rng):
        return SparseMean(n_nonzero=1, clip=6.0, std=1.0, selection_clip=1.0, random_state=rng)

    plan = planned(None).plan(5000, 200)
    signal = plan.selection_threshold_any
    assert signal < 0.4 and share_of_fits(plan, planned, signal, skewed) >= 0.84
    # Clipped where it suits normal columns, such a column is lost, and the plan says so.
    blind = narrow(None).plan(5000, 200)
    assert blind.selection_threshold < 0.25 * blind.selection_threshold_any
    assert blind.selection_threshold < 0.2
    assert share_of_fits(blind, narrow, 0.2, skewed) <= 0.1


def test_a_plan_says_which_columns_it_is_about():
    plan = SparseMean(n_nonzero=5, clip=6.0, std=1.0).plan(20_000, 200)
    assert "are found in normal columns, above 0.29 in any" in str(plan)
    assert "in skewed ones none surely" in str(SparseMean(n_nonzero=20, epsilon=0.5, clip=6.0, std=1.0).plan(900, 500))
    assert "every column is kept" in str(SparseMean(n_nonzero=3, clip=6.0, std=1.0).plan(100, 3))
