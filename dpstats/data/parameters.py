"""Public parameters: labels, which match the names of columns, and checks. Their values appear in messages.

numpy is imported only to check arrays, so that a process that only charges a budget starts without it.
"""

from __future__ import annotations

import contextlib
import math
import re
import sys
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

from dpstats.errors import attempt, refuse, refuse_data, show_names


def column_names(X: Any) -> list[Any] | None:
    """Return the labels of a data frame's columns, or the name of a single one, which are public; None without any."""
    polars, pyarrow = sys.modules.get("polars"), sys.modules.get("pyarrow")
    if polars is not None and isinstance(X, polars.LazyFrame):
        # The schema of a lazy frame has the names. This reads no rows.
        return list(X.collect_schema().names())
    if pyarrow is not None and isinstance(X, pyarrow.Table):
        return list(X.column_names)
    name = getattr(X, "name", None)
    if hasattr(X, "to_frame") and isinstance(name, str) and name:  # a column
        return [name]
    # An object without a shape is not a table.
    return _labels(getattr(X, "columns", None)) if hasattr(X, "shape") else None


UNIT = "dpstats.unit"
"""Attribute of a pandas data frame with the unit of its rows, and the number of rows."""


def unit_of(X: Any) -> str:
    """Return the declared unit of the rows of a data frame (see `dpstats.groups.one_row_per_unit`), or "row".

    pandas passes attributes on to frames with other rows: repeated, stacked, resampled, or grouped. So the unit is used
    only if the number of rows is unchanged, and all rows have distinct index labels.

    Raises
    ------
    InvalidData
        If rows of such a frame were dropped. Their number then depends on the data, and no fit may treat it as public.
    """
    attributes = getattr(X, "attrs", None)
    found = attributes.get(UNIT) if isinstance(attributes, dict) else None
    if not (isinstance(found, tuple) and len(found) == 2):
        return "row"
    word, rows = found
    if len(X) < rows:
        raise refuse_data(
            "X",
            got="fewer",
            allowed=f"have all rows that one_row_per_unit returned, one of each {word}",
            remedy="You dropped rows: keep them, and use missing='drop' or groups. If the choice does not depend on "
            "the data, make it before one_row_per_unit.",
        )
    same = len(X) == rows and bool(X.index.is_unique)
    return word if same and isinstance(word, str) and word.strip() else "row"


def declare_unit(X: Any, unit: str) -> Any:
    """Return ``X`` with the name of its unit, which only a data frame of pandas can carry."""
    if unit != "row" and isinstance(getattr(X, "attrs", None), dict):
        X.attrs[UNIT] = (unit, len(X))
    return X


def by_name(name: str, value: Any, names: list[Any] | None) -> Any:
    """Return a public parameter with one entry per column, or a matrix, in the order of the columns ``names``.

    A parameter without labels is returned unchanged. The same holds for the default labels 0, 1, ... of pandas, unless
    the columns have these names. All other labels must match the columns.
    """
    import numpy as np

    if names is None:
        return value
    axes = [_labels(getattr(value, axis, None)) for axis in ("index", "columns")]
    orders = [order for labels in axes if (order := _order(name, labels, names)) is not None]
    if not orders:
        return value
    array = np.asarray(value)
    if array.shape == (len(names),):
        return array[orders[0]]
    if array.shape == (len(names), len(names)):
        # If only one side has labels, the other has the same order.
        return array[np.ix_(orders[0], orders[-1])]
    return value


def pairs_by_name(name: str, value: Any, names: list[Any] | None) -> Any:
    """Return public pairs, one per column, in the order of the columns ``names``. Unlabeled pairs are unchanged.

    Labeled pairs are a mapping {column: (low, high)}, or a data frame with columns as its index and the two bounds as
    its columns, or transposed.
    """
    import numpy as np

    if isinstance(value, Mapping):
        if names is None:
            raise refuse(
                name,
                allowed="have no labels where X has no column names",
                remedy=f"Give {name} as an array, in the order of the columns.",
            )
        order = _order(name, list(value), names)
        pairs = list(value.values())
        return pairs if order is None else [pairs[i] for i in order]
    if names is None:
        return value
    rows, columns = (_labels(getattr(value, axis, None)) for axis in ("index", "columns"))
    if rows is None and columns is None:
        return value
    array = np.asarray(value)
    if array.shape == (2, len(names)) and columns is not None and set(columns) == set(names):
        order = _order(name, columns, names)
        return array.T if order is None else array.T[order]
    if array.shape == (len(names), 2):
        order = _order(name, rows, names)
        return array if order is None else array[order]
    return value


def _labels(axis: Any) -> list[Any] | None:
    """Return the labels of a pandas index or of the columns of polars, or None, because anything else may hold data."""
    if hasattr(axis, "nlevels"):
        labels: list[Any] = axis.tolist()
        return labels
    return axis if isinstance(axis, list) and all(isinstance(label, str) for label in axis) else None


def _order(name: str, labels: list[Any] | None, names: list[Any]) -> list[int] | None:
    """Return the position of every column in ``labels``, or None if they are not labels."""
    if labels is None:
        return None
    default = list(range(len(labels)))
    if labels == names:
        return default
    place = {label: i for i, label in enumerate(labels)}
    if len(place) == len(labels) == len(names) and place.keys() == set(names):
        return [place[column] for column in names]
    if labels == default or names == list(range(len(names))):
        return None
    if without := [column for column in names if column not in place]:
        remedy = "Every column needs its own."
        raise refuse(
            name, got=f"none for {show_names(without)}", allowed="have the columns of X as labels", remedy=remedy
        )
    raise refuse(
        name,
        got=f"{len(labels)} other labels for the columns {show_names(names)}",
        allowed="have the columns of X as its labels, in any order, or no labels",
    )


def printable(text: str, *, lines: bool = False) -> str:
    """Escape the control characters of a text, because names of columns may come from untrusted files.

    With ``lines``, line breaks stay.
    """

    def escaped(found: re.Match[str]) -> str:
        return found[0] if lines and found[0] == "\n" else found[0].encode("unicode_escape").decode()

    return _CONTROLS.sub(escaped, text)


# Control characters of terminals, invisible characters, and characters that change the direction of text.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Columns: TypeAlias = float | NDArray[np.float64]
    """A public number for all columns, or an array with one number per column."""

# Checks


def _range_words(above: float | None, at_least: float | None, below: float | None, at_most: float | None) -> str:
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


def check_missing(value: Any, allowed: Sequence[str]) -> str:
    """Return the treatment of missing entries if the estimator supports it, or raise an error."""
    if isinstance(value, str) and value in allowed:
        return value
    words = ", ".join(map(repr, allowed))
    advice = "; ".join(f"{word!r}: {_MISSING[word]}" for word in allowed)
    raise refuse("missing", given=value, allowed=f"one of {words}", remedy=f"{advice}.")


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
    name: str, value: Any, n_features: int | None = None, *, above: float | None = None, at_least: float | None = None
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
