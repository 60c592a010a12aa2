"""The names of columns, which are public: parameters that are labelled go by them."""

from __future__ import annotations

import reprlib
import sys
from typing import Any

from dpstats.errors import InvalidParameter


def column_names(X: Any) -> list[Any] | None:
    """Return the labels of a data frame's columns, which are public; None if ``X`` is no data frame."""
    polars, pyarrow = sys.modules.get("polars"), sys.modules.get("pyarrow")
    if polars is not None and isinstance(X, polars.LazyFrame):
        # From what it will be made of: the rows are not.
        return list(X.collect_schema().names())
    if pyarrow is not None and isinstance(X, pyarrow.Table):
        return list(X.column_names)
    # Without a shape it is no table yet.
    return _labels(getattr(X, "columns", None)) if hasattr(X, "shape") else None


def by_name(name: str, value: Any, names: list[Any] | None) -> Any:
    """Return a public parameter with one entry per column, or a matrix, in the order of the columns ``names``.

    A parameter without labels is returned as it is; so is one with the labels 0, 1, ... that pandas gives where
    none are given, unless these are the columns. Other labels have to be those of the columns.
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
        # Labelled on one side, the other has the same order.
        return array[np.ix_(orders[0], orders[-1])]
    return value


def _labels(axis: Any) -> list[Any] | None:
    """Return the labels of a pandas index or of polars' columns; anything else might hold data."""
    if hasattr(axis, "nlevels"):
        labels: list[Any] = axis.tolist()
        return labels
    return axis if isinstance(axis, list) and all(isinstance(label, str) for label in axis) else None


def _order(name: str, labels: list[Any] | None, names: list[Any]) -> list[int] | None:
    """Return at which place of ``labels`` every column is; None if they label nothing."""
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
    raise InvalidParameter(
        f"{name} must have the columns of X as its labels, in any order, or no labels, got labels "
        f"{reprlib.repr(labels)} for the columns {reprlib.repr(names)}"
    )
