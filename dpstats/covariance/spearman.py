"""Spearman's rank correlations in whole numbers: sums of products of grades, and the part of each row in them.

The grade of a row is the number of rows below it less the number above it. Proof: docs/proofs/kendall.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpstats.privacy.stages import Block

Integers = NDArray[np.int64]


def grades(ranks: Integers) -> Integers:
    """Return for each row the number of rows below less the number above, from ranks 0, 1, ..., with ties."""
    counts = np.bincount(ranks)
    below = np.cumsum(counts) - counts
    found: Integers = (2 * below + counts - ranks.size)[ranks]
    return found


def signed_sums(values: Integers, ranks: Integers) -> Integers:
    """Return for each row the sum of the values in rows above it, less the sum of the values in rows below it."""
    totals = np.zeros(int(ranks.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(totals, ranks, values)
    reached = np.cumsum(totals)
    found: Integers = (values.sum() - 2 * reached + totals)[ranks]
    return found


def grade_products(first: Integers, second: Integers, concordance: Integers) -> tuple[int, Integers]:
    """Return the sum S of the products of grades, and for each row its part over n, rounded down.

    The part of a row is S less the sum without the row: of all triples of rows, those with this row.

    Parameters
    ----------
    first, second : int64 arrays
        Ranks of two columns.
    concordance : int64 array
        Sum of the products of signs of each row with all rows, in the same order.
    """
    a, b = grades(first), grades(second)
    part = signed_sums(a, second) + signed_sums(b, first) - concordance + a * b
    return int((a * b).sum()), part // len(a)


def spearman_blocks(names: tuple[str, str], pairs: int, n: int, weight: float) -> tuple[Block, Block]:
    """Return the blocks of the sums of products, and of the squared parts, for all pairs of columns.

    Replacing a row moves a sum by at most 2 n (n - 1), and a sum of squared parts by at most 9 (n - 1)^2.
    """
    sums, squares = names
    root = math.sqrt(pairs)
    return (
        Block(sums, pairs, 3 / (n * (n**2 - 1)), 2.0 * n * (n - 1) * root),
        Block(squares, pairs, 1 / (n * (n - 1) ** 2), 9.0 * (n - 1) ** 2 * root / weight),
    )
