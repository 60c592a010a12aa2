"""The inner-product tests: solvers, constants, printed thresholds, early stages."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from dpstats.errors import InvalidParameter, NotPrivate
from dpstats.identity import FilteringTest, LipschitzExtensionTest
from dpstats.privacy import PrivacyBudget
from dpstats.textbook import StagedInnerProductTest
from tests.identity.every_test import NULL_ROWS


def test_early_stages_that_leave_no_level_are_refused_before_a_charge() -> None:
    """2 of 99 null data are rejected early: at level .02 the critical value would be infinite, and never exceeded."""
    budget = PrivacyBudget(10.0)
    options = {"solver": "surrogate", "n_calibration": 99}
    test = StagedInnerProductTest(**options, constants=(0.05, 0.1, 0.01), level=0.02, epsilon=5, budget=budget)
    rows = np.random.default_rng(0).normal(8, 1, (60, 2))
    refusal = r"constants must have a larger third number: .* reject a proportion of 0\.0202 .* level = 0\.02"
    with pytest.raises(InvalidParameter, match=refusal):
        test.fit(rows)
    with pytest.raises(InvalidParameter, match=refusal):
        test.power(1.0, 60, 2, n_simulations=10)
    with pytest.raises(InvalidParameter, match="larger third number"):
        clone(test).set_params(constants=(0.05, 0.1, 1e-9)).required_samples(1.0, 2, n_simulations=10)
    assert budget.spent.epsilon == 0
    # A larger level, or the constant that the message names, and early rejections are rejections.
    for better in ({"level": 0.05}, {"constants": (0.05, 0.1, 1.0)}):
        fitted = clone(test).set_params(random_state=0, budget=None, **better).fit(rows)
        assert fitted.statistic_ == np.inf > fitted.threshold_ and fitted.reject_
        assert fitted.pvalue_ <= fitted.plan_.level


def test_solver_is_refused_beyond_its_size() -> None:
    test = LipschitzExtensionTest(constraint="inner_product", solver="exact", budget=PrivacyBudget(1.0))
    with pytest.raises(InvalidParameter, match="solver must"):
        test.fit(np.hstack([NULL_ROWS] * 3))
    assert test.budget.spent.epsilon == 0
    assert test.plan(12, 3).design.exact
    assert not test.set_params(solver="auto").plan(60, 3).design.exact
    assert test.plan(12, 3).design.exact
    assert not test.set_params(solver="surrogate").plan(12, 3).design.exact
    assert issubclass(NotPrivate, InvalidParameter)


def test_the_surrogate_pays_no_more_than_a_row_can_do() -> None:
    test = LipschitzExtensionTest(constraint="inner_product", solver="surrogate", radius=100)
    assert test.plan(50, 3).stages[0].sensitivity == 4 * 3 * 49


def test_calibrations_do_not_depend_on_the_level() -> None:
    test = LipschitzExtensionTest(constraint="inner_product", n_calibration=99)
    assert test.plan(60, 3).law == test.set_params(level=0.01).plan(60, 3).law


def test_printed_constants() -> None:
    # Algorithm 9.3.1, line 4: 10 n sqrt(d) + K log(1/beta)/epsilon, beta = level; algorithm 9.3.2's last line.
    n, d = 60, 3
    test = LipschitzExtensionTest(constraint="inner_product", calibration="textbook", random_state=0)
    test.fit(NULL_ROWS)
    K = test.plan_.stages[0].sensitivity
    assert test.threshold_ == pytest.approx(10 * n * np.sqrt(d) + K * np.log(20), rel=0.01)
    assert np.isnan(test.pvalue_) and test.plan_.n_calibration == 0
    staged = StagedInnerProductTest(constants="textbook", calibration="textbook", distance=0.5)
    plan = staged.plan(n, d)
    assert plan.threshold == n * (n - 1) * 0.25 / 4
    # The printed constants leave one stage, which spends epsilon/M.
    assert len(plan.stages) == 1 and plan.guarantee.epsilon == pytest.approx(1 / 5)
    assert FilteringTest(calibration="textbook", distance=0.5).plan(n, d).threshold == plan.threshold
    assert "uses printed constants" in str(test.summary())
