"""The public reference of a log-rank test: hazards, weights, shares, and the end of follow-up."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.survival.cells import LeastSquares, levels_for
from dpstats.survival.hazard_ratios import Reference, expectation_gradient, nonnegative_events
from dpstats.survival.table_plan import expected_cells

M = 10
EDGES = np.linspace(0, 1, M + 1)


def made(rate: float = 1.0, rho: float = 0.0, gamma: float = 0.0, std: float = 1e-6, n: float = 1000) -> Reference:
    levels = levels_for(M, 1, True)
    noise = LeastSquares.build(levels, np.full(len(levels.weights), std), 2)
    each = n * expected_cells(np.exp(-rate * EDGES), np.exp(-0.3 * EDGES))
    return Reference(np.array([[each, 3 * each]]), noise, rho, gamma)


def test_the_height_is_the_sum_of_hazards() -> None:
    alive = np.exp(-np.diff(EDGES)[0])
    assert made().heights[0] == pytest.approx(np.arange(M + 1) * (1 - alive), abs=0.002)
    assert made().mean_shares[0] == pytest.approx([0.25, 0.75])
    events = 4000 * made().cells[0, 0, :M].sum() / 1000
    assert made().information.sum() == pytest.approx(alive * events, rel=1e-3)


@pytest.mark.parametrize(("rho", "gamma"), [(1.0, 0.0), (0.0, 1.0), (0.5, 2.0)])
def test_weights_are_those_of_fleming_and_harrington(rho: float, gamma: float) -> None:
    before = np.exp(-EDGES[:-1])
    raw = before**rho * (1 - before) ** gamma
    found = made(rho=rho, gamma=gamma).weights[0]
    assert found == pytest.approx(raw / raw.max(), abs=0.005) and found.max() == 1


def test_follow_up_ends_at_the_largest_total_or_with_the_usable_range() -> None:
    steep = made(rate=8.0)
    assert steep.heights[0].max() <= 3 and (steep.weights[0] == 0).any()
    noisy = made(std=120.0, n=100)
    assert (noisy.weights[0] == 0).any() and (noisy.pooled_hazards[0][noisy.weights[0] == 0] == 0).all()
    nobody = made(std=1e4, n=10)
    assert not nobody.weights.any() and not nobody.heights.any() and nobody.mean_shares[0] == pytest.approx([0.5, 0.5])


def test_the_gradient_of_an_expectation_is_its_derivative() -> None:
    rng = np.random.default_rng(0)
    weights, hazards, cells = rng.uniform(size=M), rng.uniform(size=M), rng.uniform(5, 9, size=2 * M + 1)

    def excess(values: np.ndarray) -> float:
        from dpstats.survival.curves import risk_sums

        return float(weights @ (values[:M] - hazards * (risk_sums(M, 1) @ values)))

    gradient = expectation_gradient(weights, hazards)
    for cell in range(2 * M + 1):
        more = cells.copy()
        more[cell] += 1
        assert excess(more) - excess(cells) == pytest.approx(gradient[cell])


def test_noisy_events_are_not_negative_and_keep_their_total() -> None:
    rng = np.random.default_rng(0)
    noisy = 2.0 + 10 * rng.normal(size=(500, 40))
    found = nonnegative_events(noisy)
    assert (found >= 0).all()
    assert found.sum(axis=1) == pytest.approx(np.maximum(noisy.sum(axis=1), 0.0))
    # Cutting each bin at 0 adds up positive noise.
    assert np.maximum(noisy, 0.0).sum(axis=1).mean() > 2.4 * noisy.sum(axis=1).mean()
    known = rng.uniform(0, 9, size=(3, 40))
    assert nonnegative_events(known) == pytest.approx(known)
    assert not nonnegative_events(np.array([[1.0, -3.0]])).any()
