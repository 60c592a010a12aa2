"""What remains of a budget can be charged, and nothing more, whatever was charged before and by whichever method."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from dpstats.errors import BudgetExceeded, InvalidParameter
from dpstats.privacy import PrivacyBudget, PrivacyGuarantee
from dpstats.privacy.events import ZCDP, DiscreteLaplace, Gaussian, Pure
from dpstats.privacy.gaussian import LATTICE_SHARE, gaussian_sigma

BEFORE: dict[str, tuple[Any, ...]] = {
    "pure": (Pure(0.1),),
    "Gaussian": (Gaussian(0.2),),
    "both, twice": (Pure(0.05), Gaussian(0.1), Pure(0.05), Gaussian(0.1)),
    "discrete": (DiscreteLaplace(3, 40.0),),
    "concentrated": (ZCDP(0.002),),
    "approximate": (PrivacyGuarantee(0.1, 1e-8),),
    "nearly all": (Gaussian(0.42), Gaussian(0.03)),
}


def gaussian(epsilon: float, delta: float) -> Gaussian:
    """Return a Gaussian release of all that a guarantee allows."""
    return Gaussian(1 / gaussian_sigma(epsilon, delta * (1 - LATTICE_SHARE)))


LARGEST: dict[str, Callable[[float, float], Any]] = {
    "basic": lambda epsilon, delta: PrivacyGuarantee(epsilon, delta),
    "gdp": gaussian,
    "zcdp": lambda epsilon, delta: Pure(epsilon),
}
"""The kind of charge that each method states what remains as."""
MORE = 3e-9
"""A relative change that is above the rounding of every method, and below what delta leaves aside."""


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("method", LARGEST)
@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-2])
def test_what_remains_can_be_charged_and_nothing_more(method: str, before: str, delta: float) -> None:
    def spent() -> PrivacyBudget:
        budget = PrivacyBudget(1.7, delta, method=method)
        for event in BEFORE[before]:
            budget.charge(event)
        return budget

    try:
        left = spent().remaining
    except (InvalidParameter, BudgetExceeded):
        return  # a method does not count it
    assert 0 < left.epsilon < 1.7
    with pytest.raises(BudgetExceeded):
        spent().charge(LARGEST[method](left.epsilon * (1 + MORE), left.delta))
    budget = spent()
    budget.charge(LARGEST[method](left.epsilon * (1 - MORE), left.delta))
    assert budget.remaining.epsilon <= 2 * math.sqrt(MORE)
    assert budget.spent.epsilon <= 1.7 and budget.spent.delta <= delta
