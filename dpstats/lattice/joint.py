"""What a lattice of rows is: public numbers, a bound on the distance of two rows, a row map, exact sums.

Replacing a row moves the sums of several powers together, so that squares next to sums cost nothing.

A column is scaled to z in [-1, 1], its largest step K to 1. Of z and z' let t = z - z' and s = z + z', so that
|t| + |s| <= 2. The powers change by t, ts, t(3s^2 + t^2)/4 and ts(s^2 + t^2)/2. All grow in |s|, so the worst pairs
have z = 1, and only one number, z', remains. Rounding is accounted for. Proof: docs/proofs/free-squares.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

FREE_SQUARES = ((1 + math.sqrt(5)) / 2) ** 2.5 / 2
"""Largest weight at which squares do not increase the l2 sensitivity of the sums of a box: phi^(5/2)/2."""

FREE_SQUARES_L1 = 0.5
"""The same in l1."""

FREE_SQUARES_BALL = math.sqrt(0.5)
"""The same in l2 for the squares of all columns of a ball, in two columns or more."""

# Rounding down has an error below 1 in k*k // K, and below 3 in the third and fourth power, which are
# computed from it (in the third, on either side). The differences of two have the same bounds.
_ROUNDING = (0.0, 1.0, 3.0, 3.0)

_GRID = 1 << 12
_SAFE = 1 + 1e-12  # more than the rounding of the sums below


def free_weight(free: float, bits: int) -> float:
    """Return a weight below the free one, with room for rounding on a lattice of this many bits."""
    return (0.9999 if bits >= 18 else 0.96) * free


def box_movement(weights: Sequence[float], largest: int, norm: str) -> float:
    """Return the sensitivity of one column's weighted powers in steps, squared for "l2".

    Parameters
    ----------
    weights : sequence of float
        Weights of the powers 1, 2, ..., up to 4. The noise of a power is the noise of a sum divided by its
        weight.
    largest : int
        The most steps of an entry.
    norm : {"l1", "l2"}
    """
    K, squares_alone = float(largest), all(weight == 0 for weight in weights[2:])
    w = weights[1] if len(weights) > 1 else 0.0
    rounding = [weight * e for weight, e in zip(weights, _ROUNDING, strict=False)]
    if norm == "l1":
        free = weights[0] == 1 and squares_alone and w <= FREE_SQUARES_L1
        return ((2.0 if free else _largest(weights, 1)) * K + math.fsum(rounding)) * _SAFE
    if weights[0] == 1 and squares_alone and w < FREE_SQUARES:
        # (ts + e)^2 <= (1 + theta) (ts)^2 + (1 + 1/theta) e^2, at the theta that brings the weight to the
        # free one.
        spread = (FREE_SQUARES / w) ** 2 if w else math.inf
        return (4 * K**2 + w**2 * spread / (spread - 1) if w else 4 * K**2) * _SAFE
    theta = 4 / K
    exact, off = _largest(weights, 2), math.fsum(part**2 for part in rounding)
    return ((1 + theta) * exact * K**2 + (1 + 1 / theta) * off) * _SAFE


def dropped_movement(weights: Sequence[float], largest: int, norm: str) -> float:
    """Return the distance of a row from no row in one column's weighted powers, in steps, squared for "l2".

    Even powers are measured from half of the largest, so that they lie within half of it on either side.
    """
    sizes = (float(largest), float(largest - largest // 2)) * 2
    parts = [weight * size for weight, size in zip(weights, sizes, strict=False)]
    return math.fsum(parts if norm == "l1" else [part**2 for part in parts]) * _SAFE


def ball_movement(weight: float, radius: int, n_features: int) -> float:
    """Return the squared l2 movement, in steps, of the sums and weighted squares of a ball in two columns or more."""
    if weight == 0:
        return 4.0 * radius**2
    left = 1 - 2 * weight**2
    if left <= 0:
        raise ValueError("squares in a ball must have a smaller weight: these would add noise to the sums")
    return (4.0 * radius**2 + n_features * (1 - left) / (2 * left)) * _SAFE


def _largest(weights: Sequence[float], power: int) -> float:
    """Return sup over z' of sum_b (w_b (1 - z'^b))^power, from above."""
    # At an inner maximum the derivative is 0. The error of the grid is at most half of the largest second
    # derivative times the square of half a step. The second derivative of (1 - x^b)^power is at most 6 b^2.
    x = np.linspace(-1, 1, _GRID + 1)
    values = sum((w * (1 - x**b)) ** power for b, w in enumerate(weights, 1))
    missed = sum(6 * b**2 * w**power for b, w in enumerate(weights, 1)) / (2 * _GRID**2)
    return float(np.max(values)) + missed
