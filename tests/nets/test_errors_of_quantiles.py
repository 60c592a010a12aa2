"""Quantiles, medians and distributions: intervals miss as often as they state, of rows that lie evenly or have gaps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from dpstats.quantiles import PrivateDistribution, PrivateMedian, PrivateQuantile
from tests.nets.statements import FAR, fits, wrong_rates


def normal(n: int) -> Any:
    """Return what draws n rows of one normal column."""
    return lambda rng: (rng.normal(1.0, 2.0, n),)


@pytest.mark.parametrize(("n", "epsilon"), [(500, 10.0), (500, 1.0), (400, 0.2)])
def test_intervals_of_quantiles_miss_as_often_as_they_state(n: int, epsilon: float) -> None:
    q = [0.3, 0.6]
    truth = norm.ppf(q, 1.0, 2.0)
    made = PrivateQuantile(q, bounds=(-9, 11), epsilon=epsilon, confidence_level=0.8)
    misses = [
        [fitted.low_ > truth, fitted.high_ < truth] for fitted in fits(made, normal(n), 200)
    ]
    # Ranks are whole numbers, and what is chosen lies between two rows.
    assert wrong_rates(misses, 0.1, 0.6) == []
    assert wrong_rates(misses, 0.03) != []
