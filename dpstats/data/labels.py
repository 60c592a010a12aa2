"""Public parameters: labels, which match the names of columns, and checks. Their values appear in messages.

numpy is imported only to check arrays, so that a process that only charges a budget starts without it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from dpstats.errors import refuse, show_names


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
    """
    attributes = getattr(X, "attrs", None)
    found = attributes.get(UNIT) if isinstance(attributes, dict) else None
    if not (isinstance(found, tuple) and len(found) == 2):
        return "row"
    word, rows = found
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
