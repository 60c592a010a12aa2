"""Power of a log-rank test of two groups, by simulating both of its stages from public parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.survival.cells import Floats
from dpstats.survival.levels import TABLE
from dpstats.survival.residuals import RESIDUALS

DRAWS = 1000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


# A dataset is drawn as the counts of its rows by arm, bin and fate, so that the time does not depend on the number
# of rows. Each simulated table has its critical value, which is larger than for expected cells, because noise moves
# it.
def simulate_pvalues(
    plan: Any,
    hazard_ratio: float,
    survival: float,
    censored: float,
    share: float,
    draws: int = DRAWS,
    seed: int = 0,
) -> Floats:
    """Return the p-values of tests of simulated datasets with exponential times: shape (draws,).

    Parameters
    ----------
    plan : LogRankPlan
        A plan for two groups.
    hazard_ratio, survival, censored, share : float
        See `LogRankTest.power`.
    """
    rng, cells = np.random.default_rng(seed), plan.cells
    m, edges = cells.n_bins, np.asarray(cells.edges)
    elapsed = edges / edges[-1]
    probabilities, loss = _row_probabilities(elapsed, hazard_ratio, survival, censored, share)
    drawn = rng.multinomial(plan.n_samples, probabilities.ravel(), size=draws)
    counts = drawn.reshape(draws, 2, 2 * m + 1).astype(np.float64)
    events, left, beyond = counts[..., :m], counts[..., m : 2 * m], counts[..., 2 * m]
    # Released table: censored rows are in the middle of their bins on average, or at the earlier edge.
    earlier = 1.0 if cells.discrete else 0.5
    exact = np.zeros((draws, cells.n_groups, cells.size))
    exact[:, :2, :m] = events
    exact[:, :2, m : 2 * m] = earlier * left
    exact[:, :2, m + 1 :] += (1 - earlier) * left
    exact[:, :2, 2 * m] += beyond
    released = (exact @ plan.levels.sums.T).reshape(draws, -1)
    if cells.position_share:
        found = events.sum(axis=1)
        # The mean event is a little before the middle of its bin, because the number at risk decreases.
        spread = np.sqrt(found / 12) * rng.normal(size=found.shape)
        early = (events * loss * np.diff(elapsed)).sum(axis=1) / 12
        released = np.hstack([released, spread - early, left.sum(axis=1) / 6])
    reference = plan.reference(released + _noise(plan, TABLE, rng, released.shape))
    # Sums of residuals of the same rows, given the noisy table.
    residuals = plan.residuals(reference)
    heights, weights = reference.heights, reference.weights
    passed = np.zeros((draws, m))
    if not cells.discrete:
        for node, weight in zip((_NODES + 1) / 2, _WEIGHTS / 2, strict=True):
            passed += weight * residuals.elapsed_hazard(np.arange(m), np.full(m, node))
    of_event = weights - heights[:, 1:]
    of_left = -(heights[:, :-1] + passed * np.diff(heights, axis=1))
    sums = (events * of_event[:, None]).sum(axis=2) + (left * of_left[:, None]).sum(axis=2)
    sums -= beyond * heights[:, -1:]
    first = reference.mean_shares[:, 0]
    total = ((1 - first) * sums[:, 0] - first * sums[:, 1]) / residuals.divisor
    noisy = total[:, None] + _noise(plan, RESIDUALS, rng, (draws, 1))
    return np.asarray(plan.pvalues(reference, noisy))


def _noise(plan: Any, name: str, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    stage = plan.table_stage if name == TABLE else plan.residual_stage
    drawn = rng.laplace(size=shape) if stage.noise == "laplace" else rng.normal(size=shape)
    return np.asarray(drawn * np.asarray(stage.noise_scale))


def _row_probabilities(
    elapsed: Floats, hazard_ratio: float, survival: float, censored: float, share: float
) -> tuple[Floats, Floats]:
    """Return the probabilities (2, 2 bins + 1) of a row, and the rates (2, 1) at which rows leave."""
    # A row has an event in a bin, is censored in a bin, or passes the horizon.
    speeds = np.array([[1.0], [hazard_ratio]])
    event_rate, left_rate = -speeds * np.log(survival), -np.log1p(-censored)
    rate = event_rate + left_rate
    staying = np.exp(-rate * elapsed)
    leaving = staying[:, :-1] - staying[:, 1:]
    events = leaving * event_rate / rate
    found = np.hstack([events, leaving - events, staying[:, -1:]])
    found = np.maximum(found, 0.0) * np.array([[share], [1 - share]])
    return found / found.sum(), rate
