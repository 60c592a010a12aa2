"""Bounds on probabilities against the binomial law."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpstats.auditing import epsilon_lower_bound
from dpstats.auditing.result import probability_bounds
from dpstats.errors import InvalidParameter


def test_clopper_pearson_against_the_binomial() -> None:
    lower, upper = probability_bounds([0, 3, 50, 100], 100, 0.975)
    assert lower[0] == 0.0 and upper[3] == 1.0
    # The bounds are where the binomial tail is 0.025.
    np.testing.assert_allclose(stats.binom.sf([2, 49], 100, lower[[1, 2]]), 0.025, rtol=1e-9)
    np.testing.assert_allclose(stats.binom.cdf([0, 3, 50], 100, upper[[0, 1, 2]]), 0.025, rtol=1e-9)


def test_lower_bound_subtracts_delta() -> None:
    lower, _ = probability_bounds(300, 1000, 0.975)
    _, upper = probability_bounds(20, 1000, 0.975)
    assert epsilon_lower_bound(300, 20, 1000, 0.05) == pytest.approx(np.log((lower - 0.05) / upper))
    assert epsilon_lower_bound(20, 300, 1000) == 0.0


@pytest.mark.parametrize(
    ("counts", "trials", "name"),
    [(11, 10, "counts"), (-1, 10, "counts"), (5.5, 10, "counts"), ("a", 10, "counts"), (0, 0, "trials")],
)
def test_counts_that_no_runs_have_are_refused(counts: object, trials: int, name: str) -> None:
    with pytest.raises(InvalidParameter, match=f"^{name} must be"):
        epsilon_lower_bound(counts, 0, trials)
    if name == "counts":
        with pytest.raises(InvalidParameter, match="other_counts must"):
            epsilon_lower_bound(0, counts, trials)
    assert epsilon_lower_bound(np.array([0, 10], dtype=np.uint8), 10, 10).tolist() == [0, 0]
