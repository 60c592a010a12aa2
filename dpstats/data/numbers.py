"""Private numbers as arrays that lose no digit; no message shows one."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

from dpstats.errors import InvalidData

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def array_of(value: Any) -> NDArray[Any]:
    """Return an array of one declared type as it is, and of anything else its items, as objects.

    In a list numpy would give all items one type: beside a float an integer beyond 2^53 would move, and beside text
    a number would be text. What numpy cannot make an array of is an object, and so is what is masked, whose hidden
    values numpy would show.
    """
    import numpy as np

    if _is_masked(value):
        return np.array(None)

    dtype = getattr(value, "dtype", None)
    declared = isinstance(dtype, np.dtype) or hasattr(value, "__array__")
    array: NDArray[Any] | None
    try:
        array = np.asarray(value, dtype=None if declared else object)
    except Exception:
        array = None
    return np.array(None) if array is None else array


def _is_masked(value: Any) -> bool:
    import numpy as np

    kind = type(value)  # a class of its own may raise where it is asked for
    return issubclass(kind, np.ma.MaskedArray) or (
        issubclass(kind, list | tuple) and any(map(_is_masked, value))
    )


def exact_numbers(name: str, value: Any) -> NDArray[Any]:
    """Return private numbers as an array that lost no digit: floats, integers, or Python numbers.

    Numbers have at most 64 bits each if they have a type of numpy's; integers and fractions of Python may be of any
    size. Each is read alone, so that what it is does not depend on those beside it.
    """

    array = array_of(value)
    refused = array.dtype.kind not in "biufO" or array.itemsize > 8
    if not refused and array.dtype.kind == "O":
        items = [_python_number(item) for item in array.ravel()]
        refused = any(item is None for item in items)
        array = _as_they_are(items if not refused else []).reshape(array.shape if not refused else 0)
    if refused:
        raise InvalidData(
            f"{name} must be a real number or an array of real numbers, of at most 64 bits each"
        )
    return array


def _python_number(item: Any) -> Any:
    """Return a real number as Python's, exactly; None for anything else, missing values included."""
    import numpy as np

    kind = type(item)
    if kind is float or kind is int:
        return item
    if issubclass(kind, np.generic):
        # Not times, which numpy would also give as integers, and no longer floats.
        whole = isinstance(item, np.bool_ | np.integer) and not isinstance(item, np.timedelta64)
        is_number = whole or (isinstance(item, np.floating) and item.itemsize <= 8)
        return item.item() if is_number else None
    return item if issubclass(kind, Real) else None


def _as_they_are(items: list[Any]) -> NDArray[Any]:
    """Return Python numbers as an array of the first type that holds each of them exactly."""
    import numpy as np

    kinds = set(map(type, items))
    if kinds <= {float}:
        return np.array(items, dtype=np.float64)
    if kinds <= {int, bool} and all(-(2**63) <= item < 2**63 for item in items):
        return np.array(items, dtype=np.int64)
    if kinds <= {float, int, bool} and all(type(item) is float or abs(item) <= 2**53 for item in items):
        return np.array(items, dtype=np.float64)
    return np.array([*items, None], dtype=object)[:-1]


def floats_among(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return the entries that are floats, which alone can be infinite or NaN."""
    import numpy as np

    if array.dtype.kind == "O":
        return np.array([item for item in array.ravel() if isinstance(item, float)], dtype=np.float64)
    return array.ravel().astype(np.float64) if array.dtype.kind == "f" else np.empty(0)
