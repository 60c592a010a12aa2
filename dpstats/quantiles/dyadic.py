"""Counts of rows in halves of halves, and what they say together once they add up.

Cells are numbered from 0; level k of the tree has 2^k nodes, each two of the next level. Proof:
docs/proofs/distribution.md.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64

Numbers = NDArray[np.float64]


def height_of(cells: int) -> int:
    """Return the number of levels below the root, of at least as many leaves as cells."""
    return max(1, (cells - 1).bit_length())


def tree_counts(codes: Any, height: int) -> NDArray[np.int64]:
    """Return the rows of every node, level by level from below the root, for rows in cells 0, ..., 2^height - 1."""
    level = as_int64(np.bincount(codes, minlength=1 << height))
    levels = [level]
    for _ in range(height - 1):
        level = level.reshape(-1, 2).sum(axis=1)
        levels.append(level)
    return np.concatenate(levels[::-1])


def consistent_leaves(nodes: Numbers, height: int, total: float) -> Numbers:
    """Return the leaves that fit noisy nodes best, all noise being alike, and add up to the public total.

    Parameters
    ----------
    nodes : array of shape (..., 2^(height + 1) - 2)
        In the order of `tree_counts`.
    height : int
    total : float

    Notes
    -----
    Least squares in two passes: up, each node is averaged with its children's sum by their precisions; down, what the
    parent has more than both is shared evenly (Hay, Rastogi, Miklau and Suciu 2010, theorem 3; here the root is known).
    """
    ends = np.cumsum([0, *(1 << k for k in range(1, height + 1))])
    levels = [nodes[..., a:b] for a, b in pairwise(ends)]
    fitted = [levels[-1]]
    for up, level in enumerate(levels[-2::-1], 2):
        children = _pairs(fitted[-1]).sum(axis=-1)
        own = (1 << (up - 1)) / ((1 << up) - 1)
        fitted.append(own * level + (1 - own) * children)
    known = np.full((*nodes.shape[:-1], 1), float(total))
    for level in fitted[::-1]:
        pairs = _pairs(level)
        missing = known - pairs.sum(axis=-1)
        known = (pairs + missing[..., None] / 2).reshape(level.shape)
    return known


def _pairs(level: Numbers) -> Numbers:
    return level.reshape(*level.shape[:-1], -1, 2)
