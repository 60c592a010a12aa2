"""A single private value: its arithmetic, the meaning of a word of text, its equality, and its number.

Functions of one value never raise an error and never warn: an exception of a foreign class may quote data, and a
warning would reveal a row. Arrays of numbers lose no digit, and no message shows a number.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST = 2**62
"""Larger floats are replaced by this. The sum or difference of two such integers still has 64 bits."""


quiet = partial(np.errstate, all="ignore")
"""Return the context for arithmetic on private numbers, in which numpy never warns of overflow or NaN."""


def as_int64(values: Any) -> NDArray[np.int64]:
    """Return numbers as int64, truncated toward 0.

    Infinite floats and floats beyond `LARGEST` become `LARGEST` with their sign, and NaN becomes 0. numpy alone returns
    -2**63 for them on some processors and other numbers elsewhere. Its warning would reveal that such an entry exists.
    """
    array = np.asarray(values)
    if array.dtype.kind != "f" or array.size == 0:
        return array.astype(np.int64)
    with quiet():
        # Convert before any comparison: the limit would be infinite as a float16.
        array = array.astype(np.float64, copy=False)
        entries = array.ravel()
        # The sum of squares bounds each entry. A comparison with NaN is false.
        if not float(entries @ entries) <= LARGEST**2:
            array = np.where(np.isnan(array), 0.0, np.clip(array, -LARGEST, LARGEST))
        return array.astype(np.int64)
