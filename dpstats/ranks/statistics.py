"""Rank statistics in half ranks, so that mid-ranks of ties are integers, and their sensitivities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from dpstats.data.arithmetic import as_int64


def signed_rank_sum(values: NDArray[np.float64]) -> int:
    """Return twice the sum of the signed ranks of |x|. Zeros are ranked but do not contribute (Pratt)."""
    doubled = as_int64(2 * rankdata(np.abs(values)))
    return int(np.sum(as_int64(np.sign(values)) * doubled))


def centered_rank_sums(
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


def rank_sum_sensitivity(sizes: Sequence[int]) -> int:
    """Return the sensitivity of a centered rank sum of groups with public sizes: a row stays in its group."""
    return 2 * max(sizes)


def all_rank_sums_sensitivity(n: int, sizes: Sequence[int] | None) -> int:
    """Return the sensitivity of the sum of the absolute values of all centered rank sums."""
    moved = max(4 * (n - 2), 2)
    return moved if sizes is None else min(moved, 4 * (n - min(sizes)))
