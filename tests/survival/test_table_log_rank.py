"""The log-rank test of a released table: exact without noise, with a level that holds."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.duration.survfunc import survdiff

from dpstats.survival import PrivateSurvival
from dpstats.survival.cells import Cells, LeastSquares, levels_for
from dpstats.survival.hazard_ratios import Reference
from dpstats.survival.table import Moments, pool_causes, table_log_rank
from dpstats.survival.table_plan import expected_cells

M = 10


def nothing(n_groups: int) -> LeastSquares:
    """Return least squares whose noise is next to nothing."""
    levels = levels_for(M, 1, True)
    return LeastSquares.build(levels, np.full(len(levels.weights), 1e-6), n_groups)


@pytest.mark.parametrize("n_groups", [2, 3])
def test_discrete_times_give_the_log_rank_test(n_groups: int) -> None:
    rng = np.random.default_rng(0)
    n = 600
    group = rng.integers(n_groups, size=n)
    times, left = rng.geometric(0.1 + 0.02 * group), rng.geometric(0.05, n)
    observed, events = np.minimum(times, left), (times <= left).astype(np.int64)
    cells = Cells(tuple(np.arange(M + 1.0)), 1, n_groups, 16)
    exact = cells.count(observed.astype(float), events, group)[None] / 2.0**16
    _, statistic, pvalue = table_log_rank(Reference(exact, nothing(n_groups), 0.0, 0.0))
    within, counted = np.minimum(observed, M), np.where(observed > M, 0, events)
    known = survdiff(within, counted, group)
    # Known variances have (E - d)/(E - 1) in place of 1 - h, which differs by 1/E.
    assert statistic[0] == pytest.approx(known[0], rel=0.03) and pvalue[0] == pytest.approx(known[1], rel=0.3)


def test_causes_are_added_up() -> None:
    rng = np.random.default_rng(1)
    levels = levels_for(M, 2, True)
    noise = LeastSquares.build(levels, 1.0 / levels.weights, 2)
    cells = rng.uniform(0, 9, size=(2, 3 * M + 1))
    found, pooled = pool_causes(cells, noise, M, 2)
    assert np.allclose(found[:, :M], cells[:, :M] + cells[:, M : 2 * M]) and np.allclose(
        found[:, M:], cells[:, 2 * M :]
    )
    total = np.ones(M)
    both = np.concatenate([np.ones(2 * M), np.zeros(M + 1)])
    assert total @ pooled.own[:M, :M] @ total == pytest.approx(both @ noise.own @ both)


@pytest.mark.parametrize(("n", "epsilon", "delta"), [(1000, 1.0, 0.0), (300, 0.5, 0.0), (500, 1.0, 1e-6)])
def test_the_level_holds_with_unequal_censoring(n: int, epsilon: float, delta: float) -> None:
    rng = np.random.default_rng(2)
    repeats = 400
    plan = PrivateSurvival(horizon=1.2, bins=10, groups=[0, 1], epsilon=epsilon, delta=delta).plan(n)
    released = []
    for _ in range(repeats):
        group = rng.integers(2, size=n)
        times, left = rng.exponential(size=n), rng.exponential(np.where(group, 0.5, 10.0))
        totals = plan.cells.totals(np.minimum(times, left), (times <= left).astype(np.int64), group)
        released.append(plan.levels.steps(totals) * np.asarray(plan.table_stage.spacing))
    scale = np.asarray(plan.table_stage.noise_scale)
    drawn = rng.normal(size=(repeats, scale.size)) if delta else rng.laplace(size=(repeats, scale.size))
    cells, positions = plan.estimate_cells(np.array(released) + drawn * scale)
    reference = Reference(cells, plan.least_squares, 0.0, 0.0, positions, plan.position_std)
    pvalues = table_log_rank(reference)[2]
    # 400 tests at a level of 0.06 reject more than 0.105 of the time in fewer than 3e-4 of runs.
    assert (pvalues <= 0.05).mean() < 0.105


@pytest.mark.parametrize("shares", [(0.9, 0.1), (0.4, 0.3, 0.2, 0.1)])
def test_noise_that_exceeds_the_events_of_bins_moves_no_difference(shares: tuple[float, ...]) -> None:
    n, m, K, draws = 1700, 36, len(shares), 2000
    plan = PrivateSurvival(horizon=1.0, bins=m, groups=range(K), epsilon=0.4, unknown="error").plan(n)
    edges = np.linspace(0, 1, m + 1)
    each = expected_cells(np.exp(-0.07 * edges), np.exp(-0.5 * edges))
    exact = n * np.array(shares)[:, None] * each
    drawn = np.random.default_rng(0).laplace(size=(draws, K * len(plan.levels.weights)))
    sums = (exact @ plan.levels.sums.T).ravel() + drawn * np.asarray(plan.table_stage.noise_scale)
    cells, _ = plan.estimate_cells(sums)
    reference = Reference(cells, plan.least_squares, 0.0, 0.0)
    moments = Moments.compute(reference)
    assert moments.differences.sum(axis=1) == pytest.approx(np.zeros(draws), abs=1e-6)
    stated = np.sqrt(np.diagonal(moments.whole_covariance, axis1=1, axis2=2))
    standardized = moments.differences / stated
    # There is no sampling error here, which the stated variances have too.
    assert (np.abs(standardized.mean(axis=0)) < 0.15).all() and (standardized.std(axis=0) < 1.05).all()
    assert (moments.chi_square()[1] <= 0.05).mean() < 0.065
