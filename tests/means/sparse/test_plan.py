"""What a sparse mean knows before any data."""

import numpy as np
import pytest

from dpstats.means import SparseMean
from dpstats.means.sparse.plan import selection_threshold
from dpstats.privacy import (
    BudgetExceeded,
    PrivacyBudget,
    PrivacyGuarantee,
    compose,
)
from tests.means.sparse.test_estimator import OPTIONS


def test_a_split_plan_costs_its_dearer_half_once():
    plan = SparseMean(**OPTIONS, split=True).plan(400, 30)
    assert plan.guarantee == PrivacyGuarantee(3.0, 1e-6)
    selected = [event for item in plan.selections for event in item.events]
    staged = [event for stage in plan.additive for event in stage.events]
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


def test_the_threshold_is_where_signals_are_found():
    # d = 200, s = 1: at the threshold found in nearly all of 60 datasets, at a third of it in less than half.
    n, d = 1000, 200
    estimator = SparseMean(n_nonzero=1, clip=6.0, std=1.0)
    plan = estimator.plan(n, d)
    scale = plan.selections[0].noise_scale
    assert plan.selection_threshold == pytest.approx(selection_threshold(n, d, 1, 1.0, scale), rel=1e-6)
    rng = np.random.default_rng(0)
    found = {}
    for factor in (1.0, 0.3):
        hits = 0
        for _ in range(60):
            X = rng.normal(size=(n, d))
            X[:, 5] += factor * plan.selection_threshold
            hits += SparseMean(n_nonzero=1, clip=6.0, std=1.0, random_state=rng).fit(X).support_[0] == 5
        found[factor] = hits
    assert found[1.0] >= 57
    assert found[0.3] <= 30
