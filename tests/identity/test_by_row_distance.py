"""The row-distance test's own parameters: the clip it chooses, and rho."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpstats.errors import InvalidParameter
from dpstats.identity import RowDistanceTest, by_row_distance
from dpstats.privacy import PrivacyBudget, zcdp_epsilon
from dpstats.privacy.events import ZCDP

ROWS = np.random.default_rng(0).standard_normal((60, 4))
FAST = {"n_calibration": 99}


@pytest.mark.parametrize(
    ("options", "clip"),
    [
        ({}, 3),
        ({"epsilon": 0.5}, 3),
        ({"epsilon": 0.499}, 1),
        ({"epsilon": 0.1, "clip": 2}, 2),
        ({"clip": 1}, 1),
        ({"rows": "sign"}, 1),
        ({"null": "product"}, 1),
        ({"null": "product", "mean": 0.5}, 1),
        ({"epsilon": None, "rho": 0.13}, 3),
        ({"epsilon": None, "rho": 0.12}, 1),
    ],
)
def test_the_clip_goes_by_public_facts(options: dict, clip: float) -> None:
    design = RowDistanceTest(**options).plan(100, 9).design
    assert design.rho == round(clip * 3 * design.steps_per_unit**2)


def test_a_wide_clip_keeps_the_power_on_skewed_rows() -> None:
    """Towards the long tail at three critical distances: a clip of sqrt(d) sees nothing, and the default all of it."""
    rng = np.random.default_rng(1)
    found = {
        clip: [
            RowDistanceTest(clip=clip, random_state=seed, **FAST)
            .fit(rng.exponential(size=(1000, 20)) - 1 + 0.43 / math.sqrt(20))
            .reject_
            for seed in range(10)
        ]
        for clip in (1, None)
    }
    # False alarms have level .05: at most 3 of 10 with probability .999.
    assert sum(found[1]) <= 3 and sum(found[None]) >= 8


def test_rho_is_what_a_concentrated_budget_is_charged() -> None:
    test = RowDistanceTest(epsilon=None, rho=0.005, **FAST)
    plan = test.plan(60, 4)
    (event,) = plan.events
    assert isinstance(event, ZCDP) and 0.005 * (1 - 2e-12) <= event.rho <= 0.005
    assert plan.stages[0].noise_scale == pytest.approx(10.0)
    assert plan.guarantee.delta == 1e-6
    assert plan.guarantee.epsilon == pytest.approx(zcdp_epsilon(0.005, 1e-6))
    # Five of them cost a zCDP budget what one of 0.025 does: less than five of (epsilon, delta).
    budget = PrivacyBudget(1.01 * zcdp_epsilon(0.025, 0.9e-6), 1e-6, method="zcdp")
    for _ in range(5):
        test.set_params(budget=budget).fit(ROWS)
    assert 5 * plan.guarantee.epsilon > budget.total.epsilon > zcdp_epsilon(0.025, 1e-6)
    with pytest.raises(Exception, match="Nothing was charged"):
        test.fit(ROWS)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"rho": 0.1}, "epsilon must be None where rho is given, got 1.0"),
        ({"epsilon": None}, "epsilon must be"),
        ({"epsilon": None, "rho": 0}, "rho must be"),
        ({"epsilon": None, "rho": -1.0}, "rho must be"),
        ({"epsilon": None, "rho": "1"}, "rho must be"),
        ({"epsilon": None, "rho": math.inf}, "rho must be"),
        ({"clip": 0}, "clip must be"),
        ({"clip": 101}, "clip must be"),
        ({"clip": "wide"}, "clip must be"),
    ],
)
def test_bad_parameters_are_named(options: dict, named: str) -> None:
    budget = PrivacyBudget(1.0)
    with pytest.raises(InvalidParameter, match=named):
        RowDistanceTest(**options, budget=budget, **FAST).fit(ROWS)
    assert not budget.history()


def test_the_summary_says_what_is_tested_and_what_is_not() -> None:
    result = RowDistanceTest(random_state=0, **FAST).fit(ROWS).result_
    text = " ".join(str(result.summary()).split())
    assert "whole distribution of the rows, not only its mean" in text
    assert "To test the mean alone, use ClippedMean(...).fit(X).test(value=...)" in text


@pytest.mark.parametrize("options", [{}, {"rows": "sign"}, {"null": "product"}])
def test_null_datasets_that_share_products_have_the_law_of_separate_ones(options: dict, monkeypatch) -> None:
    test = RowDistanceTest(**options)
    plan, generator = test.plan(200, 8), np.random.default_rng(0)
    separate = test._draw(plan, 1500, generator, 0.0)
    monkeypatch.setattr(by_row_distance, "SHARED_ROWS", 200)
    shared = np.concatenate([test._draw(plan, 50, generator, 0.0) for _ in range(60)])
    assert stats.ks_2samp(separate[:, 0], shared[:, 0]).pvalue > 0.001
    # Blocks differ by as much as samples of independent datasets: the products are nearly the same in all.
    over = (shared.reshape(60, 50) > np.quantile(separate, 0.9)).mean(axis=1)
    share = over.mean()
    assert over.var(ddof=1) * 50 / (share * (1 - share)) < stats.chi2(59).ppf(0.999) / 59


def test_only_symmetric_nulls_of_many_rows_share_products() -> None:
    def seconds(n: int, **options: object) -> float:
        test = RowDistanceTest(**options)
        plan = test.plan(n, 20)
        return test._null_seconds(n, 20, plan.design) / test._seconds(n, 20, plan.design)

    assert seconds(999) == seconds(2000, null="product", mean=0.5) == 1
    assert seconds(2000) < 0.2 and seconds(2000, null="product") < 0.2
