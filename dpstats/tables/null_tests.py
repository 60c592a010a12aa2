"""Tests of noisy tables: chi-square statistics, and their null distributions by public simulation.

Proof: docs/intervals/tables.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpstats.noisy_counts import CountNoise
from dpstats.parallel import cut
from dpstats.tables.cells import Cells, Numbers, projection

PUBLIC_SEED = 20_170_420
"""Public seed of all simulated null tables. It is fixed, so that a release has one p-value."""

_LEAST = 0.5
"""Smallest number of rows in a margin. It ensures that no level is treated as impossible."""
_SWEEPS = 2
"""Passes over the attributes in the least squares of `independence_statistic`. One is exact for equal weights."""
_CONCENTRATED = 2.0
"""Number of noise standard deviations by which margins are lowered for the second bootstrap."""
_LEAST_VARIANCE = 1e-6
"""Least variance of a cell's noise in the statistic, in rows squared. Cells that the null hypothesis leaves empty are
divided by it, so it stays far above rounding errors."""
_TIES = 1 - 1e-9
"""Simulated statistics above this multiple of the observed one count as ties, because rounding may separate ties."""
_BLOCK = 1 << 20  # cells that are simulated at once


# Against stated proportions it is the closed form of the projected statistic of Kifer and Rogers (2017), against
# independence a score statistic. The simulation draws the whole release, including noise and estimated margins.
def projected_statistic(counts: Numbers, totals: Numbers, shares: Numbers, variance: float) -> Numbers:
    """Return Q for each table: the squared distance of noisy from expected counts, in directions that keep the total.

    It is a sum of squares, so it is never negative. Without noise it is Pearson's chi-square statistic.

    Parameters
    ----------
    counts : array of shape (size, K)
        Noisy counts.
    totals : array of shape (size,)
        Positive totals.
    shares : array of shape (size, K) or (K,)
        Proportions under the null hypothesis. They add up to 1.
    variance : float
        Variance of the noise of a cell.
    """
    floor = max(variance, _LEAST_VARIANCE)
    expected = totals[:, None] * shares
    away = counts - expected
    # The null hypothesis keeps the total, so only differences from the mean count.
    away = away - away.mean(axis=1, keepdims=True)
    spread = expected + floor
    weighed = away / spread
    along = weighed.sum(axis=1) ** 2 / (expected / spread).sum(axis=1)
    return np.asarray((away * weighed).sum(axis=1) + floor * along)


def independence_statistic(
    counts: Numbers, totals: Numbers, shape: Sequence[int], noise: CountNoise
) -> Numbers:
    """Return the score statistic of noisy tables (size, *shape) against independence.

    Differences from the expected counts that other margins would explain are removed by weighted least squares, so
    that errors of the estimated margins hardly count. Without noise it is Pearson's chi-square statistic.
    """
    whole, axes = np.maximum(totals, 1.0), range(1, len(shape) + 1)
    margins = [_margin_shares(counts, totals, axis) for axis in range(len(shape))]
    shares = margins_product(margins)
    expected = np.expand_dims(whole, tuple(axes)) * shares
    weights = 1 / (expected + max(noise.variance, _LEAST_VARIANCE))
    away = counts - expected
    away = away - away.mean(axis=tuple(axes), keepdims=True)
    for axis, margin in list(zip(axes, margins, strict=True)) * _SWEEPS:
        others = tuple(other for other in axes if other != axis)
        direction = shares / np.expand_dims(margin, others)
        weighed = weights * direction
        along = (weighed * away).sum(axis=others, keepdims=True)
        away = away - direction * (along / (weighed * direction).sum(axis=others, keepdims=True))
    return np.asarray((weights * away**2).sum(axis=tuple(axes)))


def margins_product(margins: Sequence[Numbers]) -> Numbers:
    """Return the proportions (size, r_1, ..., r_k) of independent attributes with margins (size, r_j)."""
    table = margins[0]
    for margin in margins[1:]:
        table = table[..., None] * margin.reshape(len(margin), *[1] * (table.ndim - 1), -1)
    return table


def _margin_shares(counts: Numbers, totals: Numbers, axis: int) -> Numbers:
    margin = counts.sum(axis=tuple(j + 1 for j in range(counts.ndim - 1) if j != axis))
    whole = np.maximum(totals, 1.0)
    return projection(margin, whole, _LEAST) / whole[:, None]


def concentrated(margin: Numbers, total: float, std: float) -> Numbers:
    """Return a concentrated margin: lower all levels except the largest by their noise, and add the rest to it."""
    lowered = np.maximum(margin * total - _CONCENTRATED * std, min(_LEAST, total / margin.size))
    largest = int(np.argmax(margin))
    lowered[largest] = 0.0
    lowered[largest] = max(total - lowered.sum(), 0.0)
    return np.asarray(lowered / lowered.sum())


def independence_pvalue(cells: Cells, n_simulations: int) -> tuple[float, float]:
    """Return the statistic and the larger p-value of two bootstraps: at the margins released, and concentrated."""
    shape = cells.counts.shape
    total = max(cells.total, 1.0)
    observed = independence_statistic(cells.counts[None], np.array([total]), shape, cells.noise)[0]
    margins = [_margin_shares(cells.counts[None], np.array([total]), axis)[0] for axis in range(len(shape))]
    # The count of a level is a sum over the other attributes.
    spreads = [cells.noise.of(cells.counts.size // size).std for size in shape]
    lowered = [concentrated(m, total, std) for m, std in zip(margins, spreads, strict=True)]
    pvalues = []
    for place, given in enumerate((margins, lowered)):
        shares = margins_product([m[None] for m in given])[0]
        rng = np.random.default_rng((PUBLIC_SEED, place))
        above = 0
        for size in cut(n_simulations, max(1, _BLOCK // shares.size)):
            tables, totals = _simulated(cells, shares, size, rng)
            above += int(
                np.sum(independence_statistic(tables, totals, shape, cells.noise) >= _TIES * observed)
            )
        pvalues.append((1 + above) / (n_simulations + 1))
    return float(observed), max(pvalues)


def fit_pvalue(cells: Cells, shares: Numbers, n_simulations: int) -> tuple[float, float]:
    """Return the statistic and the p-value of a table against stated proportions. The null distribution is known."""
    flat = shares.ravel()

    def statistic(counts: Numbers, totals: Numbers) -> Numbers:
        return projected_statistic(
            counts.reshape(len(counts), -1), np.maximum(totals, 1.0), flat, cells.noise.variance
        )

    observed = statistic(cells.counts[None], np.array([cells.total]))[0]
    rng = np.random.default_rng((PUBLIC_SEED, 2))
    above = 0
    for size in cut(n_simulations, max(1, _BLOCK // flat.size)):
        above += int(np.sum(statistic(*_simulated(cells, shares, size, rng)) >= _TIES * observed))
    return float(observed), (1 + above) / (n_simulations + 1)


def _simulated(cells: Cells, shares: Numbers, size: int, rng: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Return simulated releases of tables under the null hypothesis, and their totals."""
    n = max(1, math.floor(cells.total + 0.5))
    drawn = rng.multinomial(n, shares.ravel(), size) + cells.noise.draw(rng, (size, shares.size))
    totals = np.full(size, float(n))
    if cells.summed:
        totals = np.maximum(drawn.sum(axis=1, dtype=np.float64), 0.0)
    elif cells.total_noise is not None:
        totals = totals + cells.total_noise.draw(rng, (size,))
    return drawn.reshape(size, *shares.shape).astype(np.float64), totals
