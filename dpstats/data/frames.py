"""Private columns of any container, read item by item, so that a row depends on this row only.

``numpy.asarray`` gives all rows of a list one type, so a single row of text would turn every number into text. A
container with one declared type is read by that type, which is public; any other container is read item by item.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpstats.errors import attempt, refuse, refuse_data, show, show_names


def refuse_unknown(parameter: str, wanted: Sequence[Any], names: Sequence[Any]) -> None:
    """Raise an error for names that no column has, or that several columns have."""
    for place, name in enumerate(wanted):
        if list(names).count(name) != 1:
            got = show(name) if len(wanted) == 1 else f"another at position {place}"
            raise refuse(parameter, got=got, allowed=f"name columns of the data frame ({show_names(names)})")


def select(frame: Any, names: list[Any]) -> Any:
    """Return some columns as a data frame of the same library, with the attributes of the frame."""
    if hasattr(frame, "iloc"):
        return frame[names]
    import narwhals as nw

    return nw.from_native(frame, eager_only=True).select(names).to_native()


def column(frame: Any, name: Any) -> Any:
    """Return a column of a data frame."""
    if hasattr(frame, "iloc"):
        return frame[name]
    import narwhals as nw

    return nw.from_native(frame, eager_only=True)[name].to_native()


def take(frame: Any, name: Any, places: Any) -> Any:
    """Return some entries of a column, in its own type."""
    values = column(frame, name)
    return values.iloc[places].array if hasattr(values, "iloc") else values[places]


def frame_like(X: Any, rows: Any, names: Sequence[Any] | None) -> Any:
    """Return the array ``rows`` as a data frame of the library of ``X``, or unchanged if ``X`` is not a data frame."""
    if names is None or not hasattr(X, "columns"):
        return rows
    if hasattr(X, "iloc"):
        return type(X)(rows, columns=names)
    import narwhals as nw

    columns = {name: rows[:, place] for place, name in enumerate(names)}
    return nw.from_dict(columns, backend=nw.from_native(X).implementation).to_native()


def check_indexes(columns: Mapping[str, Any]) -> None:
    """Raise an error for pandas objects of one length with different indexes: rows are paired by position.

    The error reveals that the indexes differ, and no label of them.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return
    first: tuple[str, Any] | None = None
    for name, column in columns.items():
        if not isinstance(column, pandas.Series | pandas.DataFrame):
            continue
        if first is None:
            first = name, column.index
        elif len(column) == len(first[1]) and not column.index.equals(first[1]):
            raise refuse_data(
                name,
                allowed=f"have the index of {first[0]}, because rows are paired by position",
                remedy="Align the rows by label, or give both the same new index with reset_index(drop=True).",
            )


def in_memory(X: Any) -> Any:
    """Collect a lazy frame of polars, and return anything else unchanged."""
    polars = sys.modules.get("polars")
    if polars is None or not isinstance(X, polars.LazyFrame):
        return X
    collected = attempt(X.collect, Exception)
    if collected is None:
        raise refuse_data(
            "X", allowed="a lazy frame that can be collected", remedy="Collect it to see why it cannot."
        )
    return collected


def frame_of(X: Any) -> Any:
    """Return a data frame in memory as a narwhals frame, or None for anything else and for sparse pandas frames."""
    import narwhals as nw

    if isinstance(X, np.ndarray) or not hasattr(X, "shape") or hasattr(X, "sparse"):
        return None
    found = nw.from_native(X, pass_through=True, eager_only=True)
    return found if isinstance(found, nw.DataFrame) else None


def series_of(data: Any) -> Any:
    """Return a column of pandas, polars or pyarrow as a narwhals column, or None for anything else."""
    import narwhals as nw

    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(data, pyarrow.Array):
        data = pyarrow.chunked_array([data])
    found = nw.from_native(data, series_only=True, pass_through=True)
    return found if isinstance(found, nw.Series) else None
