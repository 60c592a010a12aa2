"""Many quantiles by repeated halving: first the middle quantile, then the middle quantiles on either side.

Proof: docs/proofs/quantiles.md, theorem 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.release.groups import Cells
from dpstats.release.session import Part, Session

_LARGEST_DENOMINATOR = 10**6

Places = NDArray[np.integer[Any]]


# The parts of a level contain different rows, and a choice in a part is relative to the number of rows in that
# part. A replaced row leaves at most one part and enters at most one. Each of the two parts has one row added or
# removed.
@dataclass(frozen=True)
class Node:
    """A quantile that halves a part.

    Attributes
    ----------
    index : int
        Index of the quantile.
    share : Fraction
        Fraction of the rows of the part that are below the quantile.
    lower, upper : int or None
        Indices of the quantiles that bound the part. None: a bound of the grid.
    """

    index: int
    share: Fraction
    lower: int | None
    upper: int | None


def levels_of(q: tuple[float, ...]) -> tuple[tuple[Node, ...], ...]:
    """Return the quantiles of every level, for increasing fractions."""
    exact = [Fraction(x).limit_denominator(_LARGEST_DENOMINATOR) for x in q]
    parts: list[tuple[int, int]] = [(-1, len(q))]
    found: list[tuple[Node, ...]] = []
    while parts:
        level = []
        following: list[tuple[int, int]] = []
        for lower, upper in parts:
            middle = (lower + upper) // 2
            start = Fraction(0) if lower < 0 else exact[lower]
            end = Fraction(1) if upper == len(q) else exact[upper]
            level.append(
                Node(
                    middle,
                    (exact[middle] - start) / (end - start),
                    None if lower < 0 else lower,
                    None if upper == len(q) else upper,
                )
            )
            following += [part for part in ((lower, middle), (middle, upper)) if part[1] - part[0] > 1]
        found.append(tuple(level))
        parts = following
    assert len(found) == math.ceil(math.log2(len(q) + 1))
    return tuple(found)


def cells(places: Places, share: Fraction, low: int, high: int) -> Cells:
    """Return the points from ``low`` to ``high``, grouped by the distance of their rank from a fraction of the rows.

    All rows are between the two points. A step of the distances is one over the denominator of the fraction. Adding or
    removing a row changes the signed distances by at most ``unit`` steps.
    """
    n, steps = places.size, share.denominator
    target = share.numerator * n  # over ``steps``
    floor = target // steps
    ceiling = -(-target // steps)
    z = as_int64(np.concatenate([[low], places, [high]]))
    # Left of the target are points by the number of rows at or below them, right of it by the number of rows below.
    left_low, left_high = z[: floor + (floor < ceiling)], z[1 : floor + 1 + (floor < ceiling)] - 1
    if floor == ceiling:
        center = z[floor], z[floor + 1]
        left, right = steps, steps
    else:
        center = z[ceiling], z[ceiling]
        left, right = target - steps * floor, steps * ceiling - target
    first = ceiling + (floor == ceiling)
    right_low, right_high = z[first : n + 1] + 1, z[first + 1 : n + 2]
    return Cells(
        np.concatenate([left_low, [center[0]], right_low]),
        np.concatenate([left_high, [center[1]], right_high]),
        left_low.size,
        left,
        right,
        steps,
        unit=max(share.numerator, steps - share.numerator),
    )


def release(
    places: Places,
    levels: tuple[tuple[Node, ...], ...],
    names: tuple[str, ...],
    steps: int,
    session: Session,
) -> None:
    """Choose the quantiles of every level, within the parts between the quantiles of earlier levels."""
    count = 1 if session.size is None else session.size
    chosen: dict[int, NDArray[np.int64]] = {}
    for level, name in zip(levels, names, strict=True):
        parts = []
        for node in level:
            low = np.zeros(count, dtype=np.int64) if node.lower is None else chosen[node.lower]
            high = np.full(count, steps) if node.upper is None else chosen[node.upper]
            ends, case = np.unique(np.stack([low, high], axis=1), axis=0, return_inverse=True)
            parts.append(Part([part(places, node, *pair) for pair in ends.tolist()], case.reshape(-1)))
        drawn = session.choose(name, parts).reshape(count, len(level))
        for node, column in zip(level, drawn.T, strict=True):
            chosen[node.index] = column


def part(places: Places, node: Node, low: int, high: int) -> Cells:
    """Return the candidates for a quantile in the part between two points that were chosen before."""
    # A row at the lower point belongs to the part below, except at the lower bound of the grid.
    first = 0 if node.lower is None else int(np.searchsorted(places, low, side="right"))
    last = places.size if node.upper is None else int(np.searchsorted(places, high, side="right"))
    return cells(places[first:last], node.share, low, high)
