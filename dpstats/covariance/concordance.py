"""Private correlations: Kendall's tau, without bounds, and Pearson's of shrunk rows.

The concordance of the rows of two columns is counted by order, in time n log n for n rows.

The sum over rows l of sign(x_k - x_l) sign(y_k - y_l) needs no pairs of rows. Sort rows by (x, y), and by (y, x). Row k
has places p and q in the two orders, and c rows are before it in both. The sum is then

    n + 4 c - 2 (p + q) - (ties in x) - (ties in y) + (ties in both),

where a row is also a tie of itself. Proof: docs/proofs/kendall.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64

Integers = NDArray[np.int64]


def ranks(column: NDArray[np.float64]) -> Integers:
    """Return integers in the order of the entries, from 0; equal entries get the same one."""
    _, found = np.unique(column, return_inverse=True)
    return as_int64(found)


def concordance(first: Integers, second: Integers) -> Integers:
    """Return the sum over the other rows of products of signs, for each row. Rows come sorted.

    ``first`` and ``second`` are the `ranks` of two columns.
    """
    n = first.size
    places = np.arange(n)
    rows = np.sort(first * n + second)
    a, b = np.divmod(rows, n)
    other_places = np.empty(n, dtype=np.int64)
    other_places[np.sort(b * n + places) % n] = places
    _, sizes = np.unique(rows, return_counts=True)
    ties = np.bincount(a)[a] + np.bincount(b)[b] - np.repeat(sizes, sizes)
    found: Integers = n + 4 * smaller_predecessors(other_places) - 2 * (places + other_places) - ties
    return found


def smaller_predecessors(order: Integers) -> Integers:
    """Count the smaller entries before each entry of a permutation of 0, ..., n - 1.

    Entries are sorted by one bit after another, the highest first. Entries of equal higher bits keep their order and
    are next to each other. Each entry with the bit counts those before it without the bit.
    """
    n = order.size
    places = np.arange(n, dtype=np.int32)
    values, counts = np.array(order, dtype=np.int32), np.zeros(n, dtype=np.int32)
    for bit in reversed(range((n - 1).bit_length())):
        start = values >> (bit + 1) << (bit + 1)
        low = (values >> bit & 1) == 0
        before = np.cumsum(low, dtype=np.int32) - low
        before -= before[start]
        counts += np.where(low, 0, before)
        to = np.where(low, start + before, places + (1 << bit) - before)
        values[to], counts[to] = values.copy(), counts.copy()
    return as_int64(counts[order])
