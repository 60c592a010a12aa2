"""The null distribution of the log-rank statistic: levels of whole tests, at few rows and at many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpstats.survival import LogRankTest
from dpstats.survival.cells import TABLE
from dpstats.survival.hazard_ratios import Reference
from dpstats.survival.log_rank import RESIDUALS, NullDistribution, _variance_error_factor, outcome


def pvalues(
    n: int, shares: list[float], hazards: list[float], censoring: list[float], repeats: int, **options: Any
) -> Any:
    """Return the p-values of whole tests on exponential data."""
    rng = np.random.default_rng(0)
    plan = LogRankTest(groups=range(len(shares)), horizon=1.2, **options).plan(n)
    found = []
    for _ in range(repeats):
        group = rng.choice(len(shares), p=shares, size=n)
        times = rng.exponential(1 / np.array(hazards)[group])
        left = rng.exponential(1 / np.array(censoring)[group])
        rows = np.minimum(times, left), (times <= left).astype(np.int64), group
        reference = plan.reference(noisy(plan, TABLE, plan.levels.steps(plan.cells.totals(*rows)), rng))
        sums = plan.residuals(reference).sums(*rows)[0]
        found.append(outcome(plan, reference, noisy(plan, RESIDUALS, sums, rng)).pvalue[0])
    return np.array(found)


def noisy(plan: Any, name: str, steps: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    stage = plan.stage(name)
    drawn = rng.laplace(size=steps.size) if stage.noise == "laplace" else rng.normal(size=steps.size)
    return steps * np.asarray(stage.spacing) + drawn * np.asarray(stage.noise_scale)


@pytest.mark.parametrize(
    ("n", "shares", "censoring", "options"),
    [
        (1000, [0.5, 0.5], [0.3, 0.3], {}),
        (1000, [0.5, 0.5], [0.05, 2.0], {"gamma": 1.0}),
        (200, [0.5, 0.5], [0.05, 2.0], {"epsilon": 0.2}),
        (500, [0.9, 0.1], [0.05, 2.0], {"epsilon": 0.5}),
        (600, [0.3, 0.3, 0.4], [0.1, 0.5, 1.5], {}),
        (600, [0.3, 0.3, 0.4], [0.1, 0.5, 1.5], {"delta": 1e-6}),
    ],
)
def test_the_level_holds(n: int, shares: list[float], censoring: list[float], options: dict[str, Any]) -> None:
    found = pvalues(n, shares, [1.0] * len(shares), censoring, 400, **options)
    # 400 tests at a level of 0.06 reject more than 0.105 of the time in fewer than 3e-4 of runs.
    assert (found <= 0.05).mean() < 0.105


def test_events_soon_after_the_start_do_not_raise_the_level() -> None:
    rng = np.random.default_rng(0)
    found = []
    for seed in range(100):
        group = rng.choice(2, p=[0.05, 0.95], size=1000)
        test = LogRankTest(groups=[0, 1], horizon=1.2, random_state=seed)
        found.append(test.fit(np.full(1000, 0.01), np.ones(1000), y=group).pvalue_)
    # 100 tests at a level of 0.06 reject more than 0.2 of the time in fewer than 1e-5 of runs. Residuals with times
    # inside the bin would reject 0.4 of the time.
    assert (np.array(found) <= 0.05).mean() < 0.2


def test_simulated_power_is_that_of_rows() -> None:
    found = pvalues(2000, [0.5, 0.5], [1.0, 0.8], [1e-9, 1e-9], 300)
    test = LogRankTest(groups=[0, 1], horizon=1.2)
    stated = test.power(2000, 0.8, survival=float(np.exp(-1.2)))
    # A standard error of 0.02.
    assert (found <= 0.05).mean() == pytest.approx(stated, abs=0.09)


def test_without_the_second_order_few_rows_would_reject_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    compute = NullDistribution.compute

    def first_order(reference: Reference, released_std: np.ndarray) -> NullDistribution:
        noise = reference.noise
        quiet = replace(noise, own=1e-12 * noise.own, shared=0 * noise.shared)
        return compute(replace(reference, noise=quiet), released_std)

    arguments: Any = (200, [0.5, 0.5], [1.0, 1.0], [0.05, 2.0], 300)
    honest = (pvalues(*arguments, epsilon=0.5) <= 0.05).mean()
    monkeypatch.setattr(NullDistribution, "compute", first_order)
    assert (pvalues(*arguments, epsilon=0.5) <= 0.05).mean() > max(0.08, 1.3 * honest)


def test_pvalues_count_the_noise_of_the_second_stage() -> None:
    null = NullDistribution(np.array([[[1.0, -1.0], [-1.0, 1.0]]]))
    at = np.array([3.0])
    silent, noisy_ = (null.pvalues_of_two(at, "laplace", np.array([scale]))[0] for scale in (1e-9, 2.0))
    assert silent == pytest.approx(0.0027, rel=0.01) and noisy_ > 0.1
    assert null.pvalues_of_two(at, "gaussian", np.array([np.sqrt(8.0)]))[0] == pytest.approx(0.3173, rel=0.01)


@pytest.mark.parametrize("deviation", [0.1, 0.25, 0.4])
def test_an_uncertain_variance_keeps_the_level(deviation: float) -> None:
    rng = np.random.default_rng(0)
    error, z = rng.normal(size=400_000), rng.normal(size=400_000)
    # A share of 0.1 with this relative error, and 100 events.
    share = 0.1
    noise = deviation * share * (1 - share) / (1 - 2 * share)
    stated = 100 * (share * (1 - share) + (1 - 2 * share) * noise * error)
    stated = np.maximum(stated, 1e-6)
    factor = _variance_error_factor(stated[:, None], np.full((1, 1), 100 * (1 - 2 * share)), np.full((1, 1), noise**2))[
        :, 0
    ]
    rejected = [np.abs(z) * 3 > 1.96 * width * np.sqrt(stated) for width in (1.0, factor)]
    # A standard error of 0.0004.
    assert rejected[1].mean() < 0.0515 and rejected[0].mean() > rejected[1].mean() + 0.1 * deviation**2


def test_equal_groups_have_no_error_of_the_variance() -> None:
    factor = _variance_error_factor(np.array([[9.0, 9.0]]), np.zeros((1, 2)), np.full((1, 2), 0.01))
    assert factor.tolist() == [[1.0, 1.0]]


def test_the_residuals_of_two_groups_are_opposite() -> None:
    plan = LogRankTest(groups=[0, 1], horizon=1.2).plan(300)
    rng = np.random.default_rng(0)
    rows = rng.exponential(1.0, 300), rng.random(300) < 0.7, rng.integers(0, 2, 300)
    table = noisy(plan, TABLE, plan.levels.steps(plan.cells.totals(*rows)), rng)
    reference = plan.reference(table)
    found = NullDistribution.compute(reference, np.zeros(1)).covariance
    assert found.shape[1:] == (2, 2) and np.all(found[:, 0, 0] > 0)
    np.testing.assert_allclose(found.sum(axis=2), 0, atol=1e-9 * found.max())
