"""Rank statistics in half ranks, so that mid-ranks of ties are integers, and their sensitivities."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from dpstats.data.arithmetic import as_int64


def signed_rank_sum(values: NDArray[np.float64]) -> int:
    """Return twice the sum of the signed ranks of |x|. Zeros are ranked but do not contribute (Pratt)."""
    doubled = as_int64(2 * rankdata(np.abs(values)))
    return int(np.sum(as_int64(np.sign(values)) * doubled))


def centred_rank_sums(
    values: NDArray[np.float64], codes: NDArray[np.int64], n_groups: int
) -> NDArray[np.int64]:
    """Return for each group twice its centered rank sum: ranks minus the mean rank. The sums add up to 0.

    For two groups the first is twice U - n_a n_b / 2.
    """
    doubled = as_int64(2 * rankdata(values)) - (values.size + 1)
    return np.array([doubled[codes == group].sum() for group in range(n_groups)], dtype=np.int64)


# Sensitivities in half ranks, if one row is replaced: docs/proofs/rank-tests.md.


def signed_rank_sensitivity(n: int) -> int:
    """Return the sensitivity of `signed_rank_sum`."""
    return 4 * n


def rank_sum_sensitivity(n: int, sizes: Sequence[int] | None) -> int:
    """Return the sensitivity of the first of two centered rank sums. With public sizes, a row stays in its group."""
    return 2 * (n - 1) if sizes is None else 2 * max(sizes)


def all_rank_sums_sensitivity(n: int, sizes: Sequence[int] | None) -> int:
    """Return the sensitivity of the sum of the absolute values of all centered rank sums."""
    moved = max(4 * (n - 2), 2)
    return moved if sizes is None else min(moved, 4 * (n - min(sizes)))


# Weights of the rank sum of two groups with private sizes: docs/proofs/rank-tests.md.

_UNIT = 1 << 30
"""Weights are multiples of 1 / _UNIT, so that the sensitivity is computed with integers."""
_WEIGHTED_ROWS = 10**6
"""Above this number of rows the noise is negligible, and every weight is 1."""
_TURN = 2 / 3
"""Proportion of the larger group from which lean weights are c / M. There, a row that stays in its group is worst."""
_FLAT = (0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
"""Allowed sensitivities, divided by n, of flat weights. They give the statistic similar variances at all sizes."""
_SMALLEST_GROUP = 10
"""Flat weights stay constant if the smaller group has fewer rows, because its rank sum is not close to normal."""
_NOISE_SHARE = 0.05
"""Largest ratio of the noise variance to the null variance, for flat weights."""


@lru_cache(maxsize=64)
def rank_sum_weights(n: int, epsilon: float) -> tuple[NDArray[np.int64] | None, int]:
    """Return public weights of the rank sum of two groups with private sizes, and the sensitivity of the weighted sum.

    The weights are integers over 2^30, indexed by the size of the larger group, from half of the rows on. None means
    that all weights are 1.
    """
    plain = None, rank_sum_sensitivity(n, None)
    if n > _WEIGHTED_ROWS:
        return plain
    larger = np.arange((n + 1) // 2, n, dtype=np.int64)
    share = larger / n
    half = n // 2
    variance = half * (n - half) * (n + 1) / 3
    even = np.sqrt(half * (n - half) / (larger * np.maximum(n - larger, min(_SMALLEST_GROUP, half))))
    for bound in _FLAT[::-1]:
        found = _as_integers(np.minimum(even, bound / share), n)
        if 2 * (found[1] / epsilon) ** 2 <= _NOISE_SHARE * variance:
            return found
    lean = np.where(share < _TURN, (8 - share / (1 - share)) / 7, 4 / (7 * share))
    found = _as_integers(np.minimum(lean, 1.0), n)
    return found if found[1] < plain[1] else plain


def _as_integers(weights: NDArray[np.float64], n: int) -> tuple[NDArray[np.int64], int]:
    """Return weights as integers over 2^30, the first of them 1, and the sensitivity of the weighted sum."""
    whole = as_int64(np.floor(weights * _UNIT))
    whole[0] = _UNIT
    whole.flags.writeable = False
    return whole, weighted_sensitivity(whole, n)


def weighted_sensitivity(weights: NDArray[np.int64], n: int) -> int:
    """Return the sensitivity of `weigh_rank_sum`: the maximum over all cases, computed with integers."""
    larger = np.arange((n + 1) // 2, n, dtype=np.int64)
    # Case 1: a row stays in its group. If it changes which of two nearly equal groups is larger (odd n), the sum
    # changes by less.
    most = int(np.max(2 * weights * larger))
    before, after, size = weights[1:], weights[:-1], larger[1:]
    smaller = n - size
    if size.size:
        # Case 2: a row leaves the larger group, of this size.
        moved = np.abs(before - after) * (size - 1) * smaller + after * (size - 1) + before * smaller
        most = max(most, int(moved.max()))
    return -(-most // _UNIT)


def weigh_rank_sum(doubled: int, first: int, weights: NDArray[np.int64] | None, n: int) -> int:
    """Return twice a centered rank sum times the weight for the size of the first group, rounded to an integer."""
    larger = max(first, n - first)
    if weights is None or larger == n:
        return doubled
    weight = int(weights[larger - (n + 1) // 2])
    return (2 * doubled * weight + _UNIT) // (2 * _UNIT)
