"""Null distributions of the released rank statistics. They are public, simulated once per size and stored."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.noisy_counts import CountNoise
from dpstats.parallel import cut

Numbers = NDArray[np.float64]

PUBLIC_SEED = 19_450_619
"""Public seed of all simulations of the null hypothesis."""

_EXACT_ROWS = 2000
"""Above this size, ranks are drawn from their normal limit. The error of a probability is at most 1e-4 (0.08/n)."""
_FEW = 100
"""Rows of the smaller of two groups, up to which the rank of each is drawn. Beyond, the rank sum has its normal limit:
the error of a probability is at most 2e-4."""
_BLOCK = 1 << 21


@lru_cache(maxsize=256)
def null_statistics(
    kind: str, sizes: tuple[int, ...], scale: float, size: int, subset: int | None = None
) -> Numbers:
    """Return draws of a released statistic under the null hypothesis, in half ranks.

    Parameters
    ----------
    kind : {"signed", "two groups", "groups"}
        Kind of the statistic.
    sizes : tuple of int
        Sizes of the groups, or the size of a single sample.
    scale : float
        Scale of the discrete Laplace noise.
    size : int
        Number of draws.
    subset : int, optional
        Number of rows of the larger of two groups, over whose subsets the statistic is the middle. None: all rows.
    """
    rng = np.random.default_rng(PUBLIC_SEED)
    n = sum(sizes)
    draw: dict[str, Callable[[int], Numbers]] = {
        "signed": lambda count: _signed(n, count, rng),
        "two groups": lambda count: _middles(n, min(sizes), subset or n, count, rng),
        "groups": lambda count: np.abs(_sums(sizes, count, rng)).sum(axis=1),
    }
    drawn = np.concatenate([draw[kind](count) for count in cut(size, max(1, _BLOCK // min(n, _EXACT_ROWS)))])
    found = drawn + CountNoise("laplace", scale).draw(rng, (size,))
    found.flags.writeable = False
    return np.asarray(found)


def _signed(n: int, count: int, rng: np.random.Generator) -> Numbers:
    if n > _EXACT_ROWS:
        return rng.normal(scale=np.sqrt(4 * n * (n + 1) * (2 * n + 1) / 6), size=count)
    signs = 2.0 * rng.integers(2, size=(count, n), dtype=np.int8) - 1
    return np.asarray(signs @ (2.0 * np.arange(1, n + 1)))


def _sums(sizes: tuple[int, ...], count: int, rng: np.random.Generator) -> Numbers:
    """Return centered rank sums (count, K) of groups with these sizes, in half ranks."""
    n, each = sum(sizes), np.asarray(sizes, dtype=np.float64)
    if n > _EXACT_ROWS:
        normal = rng.normal(size=(count, each.size)) * np.sqrt(each)
        return np.asarray(np.sqrt(n * (n + 1) / 3) * (normal - normal.sum(axis=1, keepdims=True) * each / n))
    ranks = rng.permuted(np.tile(2.0 * np.arange(1, n + 1) - (n + 1), (count, 1)), axis=1)
    ends = np.concatenate([np.zeros((count, 1)), np.cumsum(ranks, axis=1)], axis=1)
    return np.asarray(np.diff(ends[:, np.concatenate([[0], np.cumsum(sizes)])], axis=1))


def _middles(n: int, smaller: int, subset: int, count: int, rng: np.random.Generator) -> Numbers:
    """Return middle rank sums of the smaller of two groups, in half ranks."""
    larger = n - smaller
    kept = min(subset, larger)
    if smaller > _FEW:
        return rng.normal(scale=np.sqrt(middle_variance(n, smaller, subset)), size=count)
    # Each row of the smaller group has some rows of the larger group below it. All multisets of these numbers are
    # equally likely. Polya's urn draws one: a row takes a free place, or the place of an earlier row.
    below = np.empty((smaller, count), dtype=np.int64)
    for j in range(smaller):
        place = rng.integers(larger + 1 + j, size=count)
        (again,) = np.nonzero(place > larger)
        place[again] = below[place[again] - larger - 1, again]
        below[j] = place
    # A row of the smaller group against the largest rows of the larger one, and against the smallest.
    sums = np.maximum(below - (larger - kept), 0) + np.minimum(below, kept) - kept
    return np.asarray(sums.sum(axis=0), dtype=np.float64)


def middle_variance(n: int, smaller: Any, subset: int) -> Any:
    """Return the variance of the middle rank sum of the smaller of two groups, in half ranks, in the limit."""
    larger = n - smaller
    share = np.minimum(subset, larger) / larger
    return 4 * n * larger * smaller * (share**3 / 6 - 2 / 3 * (share - 0.5) ** 3)


def pvalue(null: Numbers, observed: float, alternative: str) -> float:
    """Return (1 + #{null at least as extreme}) / (B + 1)."""
    if alternative == "two-sided":
        extreme = np.abs(null) >= abs(observed)
    else:
        extreme = null >= observed if alternative == "greater" else null <= observed
    return float((1 + extreme.sum()) / (null.size + 1))
