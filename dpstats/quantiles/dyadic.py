"""Counts of rows in dyadic intervals, and the consistent counts that fit them best.

Proof: docs/proofs/distribution.md.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64

Numbers = NDArray[np.float64]


# Cells are numbered from 0. Level k of the tree has 2^k nodes, and each node has two children in the next level.
def height_of(cells: int) -> int:
    """Return the number of levels below the root, such that there are at least as many leaves as cells."""
    return max(1, (cells - 1).bit_length())


def tree_counts(codes: Any, height: int, root: bool = False) -> NDArray[np.int64]:
    """Return the number of rows in every node, level by level, for rows in cells 0, ..., 2^height - 1.

    The first level has the two nodes below the root, if the count of the root is public, or the ``root`` itself.
    """
    level = as_int64(np.bincount(codes, minlength=1 << height))
    levels = [level]
    for _ in range(height - 1 + root):
        level = level.reshape(-1, 2).sum(axis=1)
        levels.append(level)
    return np.concatenate(levels[::-1])


def consistent_leaves(nodes: Numbers, height: int, total: float | None) -> Numbers:
    """Return the leaves that fit noisy nodes with equal noise variances best, and add up to the total.

    Parameters
    ----------
    nodes : array of shape (..., 2^(height + 1) - 2), or one more with the root
        Noisy counts in the order of `tree_counts`.
    height : int
        Number of levels below the root.
    total : float, optional
        Public total. None: the first node is the root, and the total is estimated with the leaves.

    Notes
    -----
    Least squares needs two passes (Hay, Rastogi, Miklau and Suciu 2010, theorem 3). The upward pass averages each node
    with the sum of its children, weighted by precision. The downward pass splits the difference between a parent and
    the sum of its children evenly. If a total is given, the root is known.
    """
    ends = np.cumsum([0, *(1 << k for k in range(total is not None, height + 1))])
    levels = [nodes[..., a:b] for a, b in pairwise(ends)]
    fitted = [levels[-1]]
    for up, level in enumerate(levels[-2::-1], 2):
        children = _pairs(fitted[-1]).sum(axis=-1)
        own = (1 << (up - 1)) / ((1 << up) - 1)
        fitted.append(own * level + (1 - own) * children)
    known = fitted.pop() if total is None else np.full((*nodes.shape[:-1], 1), float(total))
    for level in fitted[::-1]:
        pairs = _pairs(level)
        missing = known - pairs.sum(axis=-1)
        known = (pairs + missing[..., None] / 2).reshape(level.shape)
    return known


def _pairs(level: Numbers) -> Numbers:
    return level.reshape(*level.shape[:-1], -1, 2)
