"""The filtering test: what it charges, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from dpstats.errors import DPStatsError, InvalidParameter
from dpstats.identity import FilteringTest, by_filtering
from dpstats.privacy import PrivacyBudget, PrivacyGuarantee, Stage
from tests.identity.every_test import FAST, NULL_ROWS


def test_filtering_charges_its_total() -> None:
    budget = PrivacyBudget(1.0, 1e-6)
    test = FilteringTest(epsilon=1.0, delta=1e-6, budget=budget, **FAST).fit(NULL_ROWS)
    assert (test.privacy_.epsilon, test.privacy_.delta) == (1.0, 1e-6)
    assert (budget.spent.epsilon, budget.spent.delta) == (1.0, 1e-6)
    assert len(test.plan_.additive) == 4


def test_filtering_names_delta_where_its_early_lines_reject_too_often() -> None:
    # Lines 3 and 7 reject with probability of about delta/14 together: 6% at delta = .9.
    with pytest.raises(InvalidParameter, match="delta must be smaller, or level larger"):
        FilteringTest(epsilon=4.0, delta=0.9, level=0.01, n_calibration=999).power(1.0, 60, 3, n_simulations=1)


@pytest.mark.parametrize("noise", ["exact", "textbook"])
def test_filtering_claims_its_total_for_the_stages_of_the_proof_only(noise: str) -> None:
    plan = FilteringTest(epsilon=4.0, noise=noise, **FAST).plan(4000, 3)
    assert plan.guarantee.epsilon == 4.0
    statistic = plan.stages[-1]
    assert isinstance(statistic, Stage)
    halved = replace(statistic, scale_steps=statistic.scale_steps / 2)
    coarse = replace(plan.design, steps_per_unit=1)
    for changed in (
        replace(plan, stages=(*plan.stages[:-1], halved)),
        replace(plan, stages=plan.stages[:-1]),
        replace(plan, design=coarse),
        replace(plan, target=PrivacyGuarantee(2.0, 1e-6)),
        replace(plan, target=PrivacyGuarantee(4.0, 1e-7)),
    ):
        with pytest.raises(DPStatsError, match="must be the proved split"):
            _ = changed.guarantee


def test_the_limit_of_filtering_is_at_most_the_printed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    # In steps, which are integers: a limit that is rounded up keeps rows that the proof replaces.
    limits = []
    beyond = by_filtering.rows_beyond

    def seen(X: Any, noisy: Any, limit: int) -> Any:
        limits.append(limit)
        return beyond(X, noisy, limit)

    monkeypatch.setattr(by_filtering, "rows_beyond", seen)
    test = FilteringTest(epsilon=1.0, delta=1e-6, random_state=0, **FAST).fit(NULL_ROWS)
    exact = test.plan_.design.constants.filter_threshold * test.plan_.design.steps_per_unit
    assert exact != round(exact) and set(limits) == {math.floor(exact)}
