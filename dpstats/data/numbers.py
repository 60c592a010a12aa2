"""Private numbers as arrays that lose no digit; no message shows one."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from dpstats.errors import InvalidData

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def exact_numbers(name: str, value: Any) -> NDArray[Any]:
    """Return private numbers as an array that lost no digit: floats, integers, or Python numbers.

    numpy would make floats of integers beyond 64 bits, or beside a float in a list, and a float
    moves an integer beyond 2^53.
    """
    import numpy as np

    refusal = f"{name} must be a real number or an array of real numbers, of at most 64 bits each"
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        array = np.array(None)
    if array.dtype.kind == "f" and isinstance(value, list | tuple):
        exact = np.array(value, dtype=object)
        large = any(isinstance(item, Integral) and abs(int(item)) > 2**53 for item in exact.ravel())
        array = exact if large else array
    if np.ma.isMaskedArray(value) or array.dtype.kind not in "biufO" or array.dtype.itemsize > 8:
        raise InvalidData(refusal)
    if array.dtype.kind == "O":
        items = [item.item() if isinstance(item, np.generic) else item for item in array.ravel()]
        if not all(isinstance(item, Real) and not isinstance(item, np.generic) for item in items):
            raise InvalidData(refusal)
        array = np.array([*items, None], dtype=object)[:-1].reshape(array.shape)
    return array


def floats_among(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return the entries that are floats, which alone can be infinite or NaN."""
    import numpy as np

    if array.dtype.kind == "O":
        return np.array([item for item in array.ravel() if isinstance(item, float)], dtype=np.float64)
    return array.ravel().astype(np.float64) if array.dtype.kind == "f" else np.empty(0)
