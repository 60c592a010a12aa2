"""required_samples: the smallest n that the plan promises, for every mean."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.means import AdaptiveMean, ClippedMean, PrivateVariance, SparseMean, required_samples
from dpstats.privacy import PrivacyBudget, gaussian_sigma

ESTIMATORS = [
    ClippedMean(clip=2.0, std=1.0),
    ClippedMean(clip=2.0, delta=1e-6, clip_norm="l2", std=1.0),
    AdaptiveMean(bound=50.0, std=1.0),
    AdaptiveMean(bound=50.0, std=1.0, tails="variance"),
    AdaptiveMean(bound=5.0, std=1.0, delta=0.0, tails="symmetric"),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_the_answer_is_enough_and_one_less_is_not(estimator: Any) -> None:
    target = 0.1
    n = required_samples(estimator, 3, target)
    assert estimator.plan(n, 3).expected_error() <= target < estimator.plan(n - 1, 3).expected_error()


def test_closed_form_of_the_clipped_mean() -> None:
    # d s^2/n + 4 R^2 d^2 sigma^2/n^2 = target, solved for n.
    d, clip, target = 4, 3.0, 0.02
    estimator = ClippedMean(delta=1e-6, budget=PrivacyBudget(1.0, 1e-6, method="gdp"), clip=clip, std=1.0)
    noise = 4 * clip**2 * d**2 * gaussian_sigma(1.0, 1e-6) ** 2
    exact = (d + math.sqrt(d**2 + 4 * target * noise)) / (2 * target)
    assert exact == pytest.approx(823.892, abs=1e-3)  # no last digit decides which integer comes next
    assert required_samples(estimator, d, target) == math.ceil(exact)


def test_an_adaptive_mean_needs_fewer() -> None:
    adaptive = required_samples(AdaptiveMean(bound=50.0, std=1.0), 10, 0.1)
    assert adaptive < 0.5 * required_samples(ClippedMean(delta=1e-6, clip=55.0, std=1.0), 10, 0.1)


@pytest.mark.parametrize("target", [0.0, -1.0, math.nan, "small"])
def test_bad_targets(target: Any) -> None:
    with pytest.raises(InvalidParameter, match="target_error must be a finite number greater than 0"):
        required_samples(ESTIMATORS[0], 3, target)
    with pytest.raises(InvalidParameter, match="n_features must be"):
        required_samples(ESTIMATORS[0], 0, 1.0)


def test_out_of_reach() -> None:
    with pytest.raises(InvalidParameter, match=r"target_error must be at least .* at 2\^32 rows, got 1e-30"):
        required_samples(ESTIMATORS[0], 3, 1e-30)


def test_numpy_numbers() -> None:
    estimator = ESTIMATORS[0]
    assert required_samples(estimator, np.int64(3), np.float64(0.1)) == required_samples(estimator, 3, 0.1)


@pytest.mark.parametrize("split", [False, True])
def test_a_sparse_mean_has_to_find_its_signals(split: bool) -> None:
    estimator = SparseMean(n_nonzero=2, clip=6.0, std=1.0, split=split)
    n = required_samples(estimator, 50, 1e6)
    plan, less = estimator.plan(n, 50), estimator.plan(n - 1, 50)
    assert plan.finds_signals and not less.finds_signals and less.expected_error() < 1e6
    fewest = SparseMean(n_nonzero=2, clip=6.0, std=1.0, split=split, max_signal=1e6)
    assert required_samples(fewest, 2, 1e300) == (4 if split else 2)
    with pytest.raises(InvalidParameter, match="estimator must have a max_signal"):
        required_samples(SparseMean(n_nonzero=2, clip=6.0, std=1.0, max_signal=0.0), 50, 1.0)


def test_std_is_passed_on() -> None:
    estimator = PrivateVariance(clip=6.0)
    n = required_samples(estimator, 3, 0.1, std=1.0)
    assert n > required_samples(estimator, 3, 0.1)
    errors = [estimator.plan(size, 3).expected_error(1.0) for size in (n - 1, n)]
    assert errors[1] <= 0.1 < errors[0]


@pytest.mark.parametrize("estimator", [None, ClippedMean, "mean"])
def test_other_objects_are_refused(estimator: Any) -> None:
    with pytest.raises(InvalidParameter, match="estimator must"):
        required_samples(estimator, 3, 0.1)
