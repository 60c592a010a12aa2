"""Containers of other libraries: columns, data frames and lazy ones, by one interface."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from dpstats.errors import InvalidData


def in_memory(X: Any) -> Any:
    """Return a lazy frame of polars collected; anything else as it is."""
    polars = sys.modules.get("polars")
    if polars is None or not isinstance(X, polars.LazyFrame):
        return X
    try:
        collected = X.collect()
    except Exception:  # which may say what is in the rows
        collected = None
    if collected is None:
        raise InvalidData("X must be a lazy frame that can be collected; collect it to see why it cannot")
    return collected


def frame_of(X: Any) -> Any:
    """Return a data frame in memory as a narwhals one; None for anything else, and for a sparse frame of pandas."""
    import narwhals as nw

    if isinstance(X, np.ndarray) or not hasattr(X, "shape") or hasattr(X, "sparse"):
        return None
    found = nw.from_native(X, pass_through=True, eager_only=True)
    return found if isinstance(found, nw.DataFrame) else None


def series_of(data: Any) -> Any:
    """Return a column of pandas, polars or pyarrow as a narwhals one; None for anything else."""
    import narwhals as nw

    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(data, pyarrow.Array):
        data = pyarrow.chunked_array([data])
    found = nw.from_native(data, series_only=True, pass_through=True)
    return found if isinstance(found, nw.Series) else None
