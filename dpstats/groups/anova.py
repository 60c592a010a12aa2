"""One-way analysis of variance from released totals: a test of equal means by public simulation.

The statistic is Wald's. Each group's variance is at least the pooled one, and a count close to 0 has a weight close to
0. The null distribution depends on the sizes of the groups and of the noise. It is simulated: groups of the released
sizes, all with the released common mean, are released repeatedly with the same noise.
"""

from __future__ import annotations

import numpy as np

from dpstats.groups.results import Floats
from dpstats.means.ratio import Noise, Ratio

_PRIOR = 0.5
"""Prior standard deviation of a group's sum of squares, as a fraction of its value at the pooled variance."""
_BLOCK = 1 << 21


def wald_statistic(ratio: Ratio) -> tuple[Floats, Floats]:
    """Return Wald's statistic and the common mean, of groups in the last axis but one."""
    noise, m = ratio.noise, ratio.estimate
    count = np.maximum(ratio.N, 0.0)
    own, pooled = _squares(ratio, m, count)
    spread = np.maximum(own, count * pooled) + noise.total**2 + m**2 * noise.count**2
    # Use the mean of all rows together: weights from noisy counts would draw it towards 0.
    rows = np.maximum(ratio.N.sum(axis=-2, keepdims=True), noise.count * np.sqrt(ratio.N.shape[-2]))
    mean = np.clip(ratio.T.sum(axis=-2, keepdims=True) / rows, -1.0, 1.0)
    return ((ratio.T - mean * ratio.N) ** 2 / spread).sum(axis=-2), mean


def _squares(ratio: Ratio, about: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Return the groups' sums of squares about some values, and the pooled variance of a row."""
    own = np.maximum(ratio.Q - 2 * about * ratio.X + about**2 * ratio.R, 0.0)
    rows = np.maximum(count.sum(axis=-2, keepdims=True), 1.0)
    return own, np.minimum(own.sum(axis=-2, keepdims=True) / rows, 1.0)


def null_statistics(ratio: Ratio, n_simulations: int, rng: np.random.Generator) -> Floats:
    """Return statistics of simulated releases of groups of these sizes with one mean: simulations first."""
    noise = ratio.noise
    _, mean = wald_statistic(ratio)
    count = np.broadcast_to(np.maximum(ratio.N, 0.0), ratio.shape)
    own, pooled = _squares(ratio, mean, count)
    # Shrink a group's own sum of squares towards the pooled one: the more, the larger the noise.
    prior = (_PRIOR * count * pooled) ** 2
    off = (
        noise.square**2
        + 4 * mean**2 * noise.cross**2
        + mean**4 * noise.spread**2
        + 2 * mean**2 * noise.square_spread
    )
    within = count * pooled + (own - count * pooled) * prior / (prior + off)
    within = np.minimum(within, count * (1 - mean**2))
    step = max(1, _BLOCK // max(1, within.size))
    parts = [
        wald_statistic(_simulate_release(count, mean, within, noise, min(step, n_simulations - done), rng))[0]
        for done in range(0, n_simulations, step)
    ]
    return np.concatenate(parts)


def _simulate_release(
    count: Floats, mean: Floats, within: Floats, noise: Noise, size: int, rng: np.random.Generator
) -> Ratio:
    shape = (size, *within.shape)
    about = np.sqrt(within) * rng.standard_normal(shape)
    # Sums of squares about the mean vary as for normal rows.
    rows = np.maximum(count, 1.0)
    squares = within * rng.chisquare(rows, shape) / rows
    total = mean * count + about
    off_total, off_count, off_square = draw(noise, shape, rng)
    T, N = total + off_total, count[..., :1] + off_count
    Q = squares + 2 * mean * total - mean**2 * count + off_square
    return Ratio(T, N, Q, T, N, noise)


def draw(noise: Noise, shape: tuple[int, ...], rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Return simulated noise of T, of N (one for all columns, which are the last axis) and of Q."""
    if noise.laplace:
        first, middle, last = rng.laplace(scale=noise.laplace, size=(3, *shape))
        return last - first, (first + middle + last).mean(axis=-1, keepdims=True), first - middle + last
    count = noise.count * rng.standard_normal((*shape[:-1], 1))
    slope = noise.square_spread / noise.count**2
    rest = np.sqrt(max(noise.square**2 - slope**2 * noise.count**2, 0.0))
    return noise.total * rng.standard_normal(shape), count, slope * count + rest * rng.standard_normal(shape)
