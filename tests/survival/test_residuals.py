"""Residuals in integers: what a row adds, and how far apart two rows are at most."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpstats.survival import LogRankTest
from dpstats.survival.cells import LeastSquares, levels_for, times_at_edges
from dpstats.survival.hazard_ratios import Reference
from dpstats.survival.log_rank import Residuals, residual_integers
from dpstats.survival.table_plan import expected_cells

M = 4
EDGES = np.linspace(0, 1, M + 1)


def residuals(n_groups: int, pure: bool, rate: float, gamma: float = 0.0, bits: int = 12) -> Residuals:
    levels = levels_for(M, 1, pure)
    noise = LeastSquares.build(levels, np.full(len(levels.weights), 1e-6), n_groups)
    each = 1000 * expected_cells(np.exp(-rate * EDGES), np.exp(-0.3 * EDGES))
    cells = np.array([each * (k + 1) ** 2 for k in range(n_groups)])
    return Residuals(Reference(cells[None], noise, 0.0, gamma), EDGES, bits, pure)


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("rate", [0.0, 0.1, 1.0, 3.0, 9.0])
@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_no_two_rows_are_further_apart_than_stated(rate: float, n_groups: int, pure: bool, gamma: float) -> None:
    found = residuals(n_groups, pure, rate, gamma)
    times = np.concatenate([np.linspace(0, 1, 33), EDGES + 1e-9, [1.5, 1e9]])
    rows = [
        found.sums(np.array([time]), np.array([code]), np.array([group]))[0]
        for time, code, group in itertools.product(times, (0, 1), range(n_groups))
    ]
    vectors = np.array(rows)
    apart = np.abs(vectors[:, None] - vectors[None])
    worst = apart.sum(axis=2).max() if pure or n_groups == 2 else np.sqrt((apart**2).sum(axis=2)).max()
    stated = residual_integers(n_groups, 12, 0.7).l1
    assert worst <= stated
    if gamma == 0 and rate > 0:
        assert worst > (0.98 if n_groups == 2 else 0.7) * stated


def test_sums_are_those_of_residuals_with_ties() -> None:
    rng = np.random.default_rng(0)
    found = residuals(2, True, 1.0, bits=30)
    times, codes, groups = rng.uniform(0, 1.3, 500), rng.integers(2, size=500), rng.integers(2, size=500)
    events = (codes == 1) & (times <= 1)
    at = np.where(events, np.ceil(times * M) / M, times)  # events at the end of their bin
    values = events - np.interp(at, EDGES, found.reference.heights[0])
    share = found.reference.mean_shares[0, 0]
    expected = (np.where(groups == 0, 1 - share, -share) * values).sum()
    assert found.sums(times, codes, groups)[0, 0] * 2.0**-30 * found.divisor[0] == pytest.approx(expected, abs=1e-5)
    # In blocks as at once.
    parts = sum(found.sums(times[i : i + 9], codes[i : i + 9], groups[i : i + 9]) for i in range(0, 500, 9))
    assert np.array_equal(parts, found.sums(times, codes, groups))


@pytest.mark.parametrize("n_groups", [2, 3])
def test_discrete_rows_have_the_residuals_of_their_edges(n_groups: int) -> None:
    rng = np.random.default_rng(0)
    found = residuals(n_groups, True, 1.0)
    times, codes, groups = rng.uniform(0, 1.3, 99), rng.integers(2, size=99), rng.integers(n_groups, size=99)
    moved = Residuals(found.reference, EDGES, found.bits, True, discrete=True)
    at = times_at_edges(times, codes, EDGES)
    assert np.array_equal(moved.sums(times, codes, groups), found.sums(at, codes, groups))
    assert not np.array_equal(moved.sums(times, codes, groups), found.sums(times, codes, groups))


def test_a_reference_without_information_gives_zeros() -> None:
    found = residuals(2, True, 1.0)
    empty = Reference(0 * found.reference.cells, found.reference.noise, 0.0, 0.0)
    nothing = Residuals(empty, EDGES, 12, True)
    assert not nothing.sums(np.array([0.5]), np.array([1]), np.array([0])).any() and nothing.divisor[0] == 0.05


@pytest.mark.parametrize("place", [0.01, 0.5, 1.0])
def test_residuals_of_exact_tables_add_up_to_zero_wherever_events_are(place: float) -> None:
    # 900 of 1000 rows have the event at one place of the first bin, and the others in the last one.
    times, codes = np.repeat([place / M, 1.0], [900, 100]), np.ones(1000, dtype=np.int64)
    found = residuals(2, True, 1.0, bits=30)
    cells = np.zeros((1, 2, 2 * M + 1))
    cells[0, :, [0, M - 1]] = np.array([[450.0, 450.0], [50.0, 50.0]])
    reference = Reference(cells, found.reference.noise, 0.0, 0.0)
    assert reference.pooled_hazards[0, 0] == pytest.approx(0.9)
    exact = Residuals(reference, EDGES, 30, True)
    followed = times <= 0.25  # follow-up ends where all have the event
    one = exact.sums(times[followed], codes[followed], np.zeros(900, dtype=np.int64))
    left = exact.sums(np.full(100, 0.9), 0 * codes[:100], np.zeros(100, dtype=np.int64))
    assert (one + left)[0, 0] * 2.0**-30 == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("power", [0.6, 1.5])
def test_residuals_add_up_to_0_over_the_rows_of_their_table(power: float) -> None:
    # Exposures of censored rows inside a bin are those that the pooled hazards take, wherever events are in it.
    rng = np.random.default_rng(0)
    n = 20_000
    times, left = rng.exponential(size=n) ** (1 / power), rng.exponential(0.7, n)
    rows = np.minimum(times, left), (times <= left).astype(np.int64), rng.integers(2, size=n)
    plan = LogRankTest(groups=[0, 1], horizon=1.0, bins=3, epsilon=1e4).plan(n)
    released = plan.levels.steps(plan.cells.totals(*rows)) * np.asarray(plan.table_stage.spacing)
    found = plan.residuals(plan.reference(released))
    share = found.reference.mean_shares[0, 0]
    scale = found.divisor[0] * 2.0**-found.bits
    sums = [
        scale * found.sums(*(part[rows[2] == group] for part in rows))[0, 0] / factor
        for group, factor in ((0, 1 - share), (1, -share))
    ]
    # With evenly spread events they miss 0 by about 1% of the 10,000 events.
    assert sum(sums) == pytest.approx(0, abs=12)
    assert found.reference.shapes is not None and abs(found.reference.shapes.slopes[0, 0]) > 0.4
