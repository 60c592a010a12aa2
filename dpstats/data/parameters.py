from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

from dpstats.errors import attempt, refuse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Columns: TypeAlias = float | NDArray[np.float64]
    """A public number for all columns, or an array with one number per column."""

# Checks


def _range_words(
    above: float | None, at_least: float | None, below: float | None, at_most: float | None
) -> str:
    limits = {"greater than": above, "at least": at_least, "less than": below, "at most": at_most}
    return " and ".join(f"{words} {limit:g}" for words, limit in limits.items() if limit is not None)


def check_real(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    of: Any = ...,
) -> float:
    """Return ``value`` as a finite float inside the stated range, or raise `InvalidParameter`.

    ``of`` is the container that the value is from. The error then describes the container and not the value, because
    it may be a private column that was given by mistake.
    """
    is_number = isinstance(value, float) or (isinstance(value, Real) and not isinstance(value, bool))
    number = math.nan
    with contextlib.suppress(OverflowError):
        number = float(value) + 0.0 if is_number else math.nan  # not -0.0
    inside = (
        math.isfinite(number)
        and (above is None or number > above)
        and (at_least is None or number >= at_least)
        and (below is None or number < below)
        and (at_most is None or number <= at_most)
    )
    if not inside:
        words = f"a finite number {_range_words(above, at_least, below, at_most)}".rstrip()
        raise refuse(name, given=value if of is ... else of, allowed=words)
    return number


_MOST_BITS = 1023
"""Bits of an integer that a float can hold."""


def check_integer(name: str, value: Any, *, at_least: int, at_most: int | None = None, of: Any = ...) -> int:
    """Return ``value`` as an int inside the stated range, or raise `InvalidParameter`. For ``of`` see `check_real`."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    number = int(value) if is_integer else 0
    above = at_most is not None and number > at_most
    if not is_integer or number.bit_length() > _MOST_BITS or number < at_least or above:
        words = f"an integer {_range_words(None, at_least, None, at_most)}"
        raise refuse(name, given=value if of is ... else of, allowed=words)
    return number


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return ``value`` if it is one of the named choices, or raise `InvalidParameter`."""
    if not isinstance(value, str) or value not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise refuse(name, given=value, allowed=f"one of {allowed}")
    return value


_MOST_SIMULATIONS = 10_000_000
_MISSING = {
    "error": "refuse the data",
    "drop": "the row counts nowhere",
    "center": "the entry counts as the center of the bounds",
}


def check_missing(value: Any, allowed: Sequence[str] = ("error",), instead: str = "") -> str:
    """Return the treatment of missing entries if the estimator supports it, or raise an error.

    ``instead`` is the advice for a known treatment that the estimator does not support.
    """
    if isinstance(value, str) and value in allowed:
        return value
    words = ", ".join(map(repr, allowed))
    advice = "; ".join(f"{word!r}: {_MISSING[word]}" for word in allowed)
    way = f" {instead}" if instead and isinstance(value, str) and value in _MISSING else ""
    raise refuse("missing", given=value, allowed=f"one of {words}", remedy=f"{advice}.{way}")


def check_simulations(value: Any, *, at_least: int) -> int:
    """Return a number of simulations, at most ten million, which take minutes and a gigabyte."""
    return check_integer("n_simulations", value, at_least=at_least, at_most=_MOST_SIMULATIONS)


def check_flag(name: str, value: Any) -> bool:
    """Return ``value`` as a bool if it is one, of Python's or numpy's, or raise `InvalidParameter`."""
    import numpy as np

    if not isinstance(value, bool | np.bool_):
        raise refuse(name, given=value, allowed="True or False")
    return bool(value)


def check_jobs(n_jobs: Any) -> int:
    """Return a number of workers: at least 1, or -1 for one per core; None is 1."""
    number = 1 if n_jobs is None else check_integer("n_jobs", n_jobs, at_least=-1)
    if number == 0:
        raise refuse("n_jobs", given=number, allowed="a positive integer, or -1 for one per core")
    return number


def check_level(name: str, value: Any) -> float:
    """Return a probability between 0 and 1. A numpy float shorter than 64 bits is read as its shortest decimal."""
    import numpy as np

    level = check_real(name, value, above=0, below=1)
    if isinstance(value, np.floating) and value.itemsize < 8:
        # The intended value is 0.05, and not the 0.05000000074505806 of 32 bits.
        level = float(str(value))
    return level


def check_columns(
    name: str,
    value: Any,
    n_features: int | None = None,
    *,
    above: float | None = None,
    at_least: float | None = None,
) -> Columns:
    """Return a public number, or one per column, as a float or a float array.

    ``n_features=None`` checks everything but the length.
    """
    import numpy as np

    if value is None:
        raise refuse(name, allowed="be given: a number or one number per column")
    if isinstance(value, Real | str):
        return check_real(name, value, above=above, at_least=at_least)
    limits = _range_words(above, at_least, None, None)
    words = f"one number per column, each finite{f' and {limits}' if limits else ''}"
    converted = attempt(lambda: np.array(value), Exception)
    array = np.array(None) if converted is None else converted
    if array.ndim == 0 and array.dtype.kind in "fiu":
        return check_real(name, array.item(), above=above, at_least=at_least)
    if np.ma.isMaskedArray(value):
        raise refuse(name, allowed="not be a masked array")
    if array.ndim != 1 or array.dtype.kind not in "fiu" or array.size == 0:
        raise refuse(name, given=value, allowed=f"a number or {words}")
    array = array.astype(np.float64)
    if n_features is not None and array.size != n_features:
        allowed = f"a number or one number per column (n_features={n_features})"
        raise refuse(name, got=f"{array.size} numbers", allowed=allowed)
    inside = np.isfinite(array)
    if above is not None:
        inside &= array > above
    if at_least is not None:
        inside &= array >= at_least
    if not inside.all():
        raise refuse(name, got=f"another at position {int(np.argmin(inside))}", allowed=words)
    return array


def check_privacy_parameters(epsilon: Any, delta: Any) -> tuple[float, float]:
    """Return a finite ``epsilon > 0`` and a ``delta`` in [0, 1) as floats."""
    return check_real("epsilon", epsilon, above=0), check_real("delta", delta, at_least=0, below=1)


def check_random_state(random_state: Any) -> np.random.Generator | None:
    """Return None (exact noise), or the Generator for a seed or a Generator (simulation)."""
    if random_state is None:
        return None
    import numpy as np

    if isinstance(random_state, np.random.Generator):
        return random_state
    is_integer = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    if is_integer and int(random_state) >= 0:
        return np.random.default_rng(int(random_state))
    allowed = "None (exact noise), or a non-negative int or numpy.random.Generator (simulated noise)"
    raise refuse("random_state", given=random_state, allowed=allowed)
