"""The filtering test: what it charges, and what it refuses."""

from __future__ import annotations

import pytest

from dpstats.errors import InvalidParameter
from dpstats.identity import FilteringTest
from dpstats.privacy import PrivacyBudget
from tests.identity.every_test import FAST, NULL_ROWS


def test_filtering_charges_its_total() -> None:
    budget = PrivacyBudget(1.0, 1e-6)
    test = FilteringTest(epsilon=1.0, delta=1e-6, budget=budget, **FAST).fit(NULL_ROWS)
    assert (test.privacy_.epsilon, test.privacy_.delta) == (1.0, 1e-6)
    assert (budget.spent.epsilon, budget.spent.delta) == (1.0, 1e-6)
    assert len(test.plan_.additive) == 4


def test_filtering_names_delta_where_its_early_lines_reject_too_often() -> None:
    # Lines 3 and 7 reject with probability of about delta/14 together: 6% at delta = .9.
    with pytest.raises(
        InvalidParameter, match="delta must be smaller, or level larger: the early stages reject"
    ):
        FilteringTest(epsilon=4.0, delta=0.9, level=0.01, n_calibration=999).power(
            1.0, 60, 3, n_simulations=1
        )
