"""Which columns of a data frame are labels, units and numbers: by their names, which are public."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from dpstats.data.labels import column_names
from dpstats.errors import InvalidData, InvalidParameter


def label_and_columns(
    frame: Any, by: Any, columns: Any = None, bounds: Any = None, *, parameter: str = "by"
) -> tuple[Any, Any]:
    """Return the data frame of the columns of numbers, and the column ``by``, which ``parameter`` has named.

    The columns of numbers are those of ``columns``; without it those that labelled ``bounds`` name; else all others.
    """
    names = column_names(frame)
    if names is None:
        raise InvalidData(f"X must be a data frame with a column {by!r}, got {type(frame).__name__}")
    chosen = numbers_beside(names, by, columns, bounds, parameter=parameter)
    return select(frame, chosen), column(frame, by)


def numbers_beside(
    names: Sequence[Any] | None, by: Any, columns: Any = None, bounds: Any = None, *, parameter: str = "by"
) -> list[Any]:
    """Return the columns of numbers beside the column ``by``: see `label_and_columns`."""
    if names is None:
        raise InvalidData(f"X must have columns with names, one of them {by!r}, got an array")
    chosen = _chosen(names, by, columns, bounds)
    refuse_unknown(parameter, [by], names)
    refuse_unknown("columns", chosen, names)
    if by in chosen:
        raise InvalidParameter(f"columns must not have {by!r}, which is given as {parameter}")
    if not chosen:
        raise InvalidParameter("columns must name at least one column")
    return chosen


def _chosen(names: Sequence[Any], by: Any, columns: Any, bounds: Any) -> list[Any]:
    if columns is not None:
        chosen = [columns] if isinstance(columns, str) else list(columns)
        if len(set(chosen)) < len(chosen):
            raise InvalidParameter("columns must name each column once")
        return chosen
    labelled = list(bounds) if isinstance(bounds, Mapping) else []
    return labelled or [name for name in names if name != by]


def refuse_unknown(parameter: str, wanted: Sequence[Any], names: Sequence[Any]) -> None:
    """Refuse names that are not those of columns, or that several columns have."""
    for name in wanted:
        if list(names).count(name) != 1:
            raise InvalidParameter(
                f"{parameter} must name columns of the data frame ({reprlib.repr(list(names))}), got {name!r}"
            )


def select(frame: Any, names: list[Any]) -> Any:
    """Return the data frame of some columns, of the same library, and with its attributes where it has any."""
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
