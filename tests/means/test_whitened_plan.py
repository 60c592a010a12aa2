"""Plans of means that release the covariance first: when, in how many rounds, and how large the last ball is."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.means import AdaptiveMean
from dpstats.means.adaptive_estimate import AdaptiveMeanPlan
from dpstats.means.whitened import WhitenedMeanPlan, plan_whitening

PRIVATE = {"bound": 20.0, "std": 1.0, "cov": "private"}


@pytest.mark.parametrize(
    ("n", "d", "options", "why"),
    [
        (2000, 5, {}, ""),
        (5000, 10, {}, ""),
        (1000, 10, {}, "too few"),
        (2000, 5, {"epsilon": 0.2}, "too few"),
        (10**6, 1, {}, "one column"),
        (10**6, 3, {"delta": 0.0}, "Gaussian"),
        (10**6, 3, {"tails": "variance"}, "variance"),
        (2, 3, {"epsilon": 0.05}, "too few"),
    ],
)
def test_the_plan_says_which_route_it_takes(n: int, d: int, options: dict, why: str) -> None:
    plan = AdaptiveMean(**PRIVATE | options).plan(n, d)
    assert plan.facts()["route"] == ("columns" if why else "covariance")
    assert isinstance(plan, AdaptiveMeanPlan if why else WhitenedMeanPlan)
    (said,) = [note for note in plan.notes() if "covariance first" in note or "without a covariance" in note]
    assert why in said
    if why:
        # Nothing but the words differs from a plan that was never asked for a covariance.
        assert plan.stages == AdaptiveMean(**PRIVATE | options | {"cov": None}).plan(n, d).stages


def test_rounds_are_fewer_where_each_finds_more() -> None:
    counts = [plan_whitening(n, 5, 1.0, 1e-6, "symmetric").n_rounds for n in (1000, 3000, 30_000, 10**7)]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1] == 3
    for epsilon in (0.05, 1e5):
        assert 3 <= plan_whitening(50, 3, epsilon, 1e-6, "subgaussian").n_rounds <= 12


def test_a_count_is_released_where_tails_are_judged_by_it() -> None:
    plans = {tails: AdaptiveMean(tails=tails, **PRIVATE).plan(2000, 5) for tails in ("subgaussian", "symmetric")}
    blocks = {tails: [b.name for b in plan.stages[-1].blocks] for tails, plan in plans.items()}
    assert any("outside" in name for name in blocks["subgaussian"])
    assert not any("outside" in name for name in blocks["symmetric"])
    # A smaller ball has less noise, and clips more rows.
    assert plans["symmetric"].whitening.radius2 < plans["subgaussian"].whitening.radius2
    assert plans["symmetric"].noise_ratio < plans["subgaussian"].noise_ratio


def test_the_expected_error_is_that_of_normal_rows() -> None:
    rng = np.random.default_rng(0)
    estimator = AdaptiveMean(tails="symmetric", random_state=0, **PRIVATE)
    plan = estimator.plan(3000, 4)
    errors = [
        np.sum(AdaptiveMean(**{**estimator.get_params(), "random_state": k}).fit(rng.normal(size=(3000, 4))).mean_ ** 2)
        for k in range(60)
    ]
    # 240 squares: a relative error of 0.1.
    assert 0.7 < np.mean(errors) / plan.expected_error() < 1.3
    assert plan.expected_error(std=0.5) == pytest.approx(plan.expected_error() / 4)
