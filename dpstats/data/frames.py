"""Columns of a data frame, of any library, by their names."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any

from dpstats.errors import InvalidParameter


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
