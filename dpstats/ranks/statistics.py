"""Statistics of ranks, in half ranks so that mid-ranks of ties are whole; and what one row moves them by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from dpstats.data.arithmetic import as_int64


def signed_rank_sum(values: NDArray[np.float64]) -> int:
    """Return twice the sum of the ranks of |x|, each with the sign of x; zeros are ranked and count nothing (Pratt)."""
    doubled = as_int64(2 * rankdata(np.abs(values)))
    return int(np.sum(as_int64(np.sign(values)) * doubled))


def centred_rank_sums(
    values: NDArray[np.float64], codes: NDArray[np.int64], n_groups: int
) -> NDArray[np.int64]:
    """Return for each group twice the sum of its ranks less the mean rank; they add up to 0.

    For two groups the first is twice U - n_a n_b / 2.
    """
    doubled = as_int64(2 * rankdata(values)) - (values.size + 1)
    return np.array([doubled[codes == group].sum() for group in range(n_groups)], dtype=np.int64)


# Largest changes, in half ranks, where one row is replaced: docs/proofs/rank-tests.md.


def signed_rank_sensitivity(n: int) -> int:
    """Return what a row moves `signed_rank_sum` by."""
    return 4 * n


def rank_sum_sensitivity(n: int, sizes: Sequence[int] | None) -> int:
    """Return what a row moves the first of two centred rank sums by; with public sizes its group stays."""
    return 2 * (n - 1) if sizes is None else 2 * max(sizes)


def all_rank_sums_sensitivity(n: int, sizes: Sequence[int] | None) -> int:
    """Return what a row moves the sum of the absolute values of all centred rank sums by."""
    moved = max(4 * (n - 2), 2)
    return moved if sizes is None else min(moved, 4 * (n - min(sizes)))
