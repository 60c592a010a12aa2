"""Exact rounding: of entries to steps of a lattice, with care for missing ones, and of roots to integers.

Compiled loops do the same in one pass over memory where numba is installed.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64

SHIFT = 1.5 * 2.0**52
"""Adding this to a number below 2^51 in absolute value rounds it to the nearest integer, ties to even.

The low bits of the float then hold that integer: see `pattern`.
"""


def pattern(value: float) -> int:
    """Return the 64 bits of a float as an integer.

    The pattern of ``SHIFT + k`` minus the pattern of ``SHIFT`` is the integer k. Multiplying both by a power
    of two changes the exponent only, and not this difference.
    """
    return int(np.float64(value).view(np.int64))


def isqrt_up(value: int) -> int:
    """Return the square root of a non-negative integer, rounded up."""
    return 0 if value == 0 else math.isqrt(value - 1) + 1


def exact_steps(values: NDArray[Any], spacing: float) -> NDArray[Any]:
    """Round numbers to the nearest points of a lattice whose spacing is a power of two, exactly.

    Returns int64 steps, or Python integers where these do not fit 62 bits.
    """
    values = np.array(values)  # looked at several times, and another process may write to the caller's
    if values.dtype.kind in "biu" and max(abs(int(values.min())), abs(int(values.max()))) <= 2**53:
        values = values.astype(np.float64)
    if values.dtype.kind == "f":
        with np.errstate(all="ignore"):
            scaled = np.rint(values.astype(np.float64) / spacing)
        if np.abs(scaled).max() <= 2.0**62:
            return as_int64(scaled)
    # Larger integers would lose digits as floats, and large quotients do not fit 64 bits: Python integers.
    step = Fraction(spacing)
    return np.array([round(Fraction(item) / step) for item in values.tolist()], dtype=object)


def squared_norms(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the squared l2 norm of each row, by sums whose order depends on the row's length only."""
    if rows.shape[0] == 1:
        # A single long row would be summed in another order than one among others.
        rows = np.concatenate([rows, rows])
        return np.asarray(np.einsum("ij,ij->i", rows, rows)[:1])
    return np.asarray(np.einsum("ij,ij->i", rows, rows))
