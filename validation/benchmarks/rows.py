"""The rows that every library averages: the same seed, the same numbers; needs numpy alone."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

N_ROWS = 1_000_000
N_COLUMNS = 50
CLIP = 4.0
"""Bound on an entry: standard normal columns, hardly ever clipped."""


def make_rows() -> NDArray[np.float64]:
    """Return the rows: independent standard normal entries, 400 MB of them."""
    return np.random.default_rng(0).standard_normal((N_ROWS, N_COLUMNS))


def checksum(X: NDArray[np.float64]) -> int:
    """Return a number that two processes compare to know that they hold the same rows."""
    return zlib.crc32(X)
