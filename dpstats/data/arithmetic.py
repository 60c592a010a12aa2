"""Arithmetic on private numbers: defined for every float, and without a warning, which would tell of a row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST = 2**62
"""Larger floats become this: the sum or difference of two such integers is still one of 64 bits."""


def quiet() -> np.errstate:
    """Return the context for arithmetic on private numbers: numpy warns of no overflow and no NaN."""
    return np.errstate(all="ignore")


def as_int64(values: Any) -> NDArray[np.int64]:
    """Return numbers as int64, truncated toward 0.

    Of floats, those beyond `LARGEST` and infinite ones become its sign times it, and NaN becomes 0. numpy alone gives
    -2**63 for them on some processors and other numbers elsewhere, with a warning that tells that there was one.
    """
    array = np.asarray(values)
    if array.dtype.kind != "f" or array.size == 0:
        return array.astype(np.int64)
    with quiet():
        # Before anything is compared: as a float16 the limit would be infinite.
        array = array.astype(np.float64, copy=False)
        if not (array.min() >= -LARGEST and array.max() <= LARGEST):  # also where one is NaN
            array = np.where(np.isnan(array), 0.0, np.clip(array, -LARGEST, LARGEST))
        return array.astype(np.int64)
