"""``--unit``: combines the rows of one unit, such as a person, into one row before the release."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from typing import Any

from dpstats.cli.input import InputTable
from dpstats.cli.options import add_options
from dpstats.errors import refuse


def add_unit(parser: argparse.ArgumentParser, kept: str) -> None:
    """Add the option for combining the rows of a unit."""
    text = f"""
    --unit NAME
        the column that says whose row it is: rows of one unit become one, with {kept}, and the guarantee is for
        the unit
    """
    add_options(parser, text)


def read_rows(
    table: InputTable,
    options: argparse.Namespace,
    how: dict[str, str],
    option: str = "--column",
    text: Collection[str] = (),
    changed: Callable[[Any], Any] | None = None,
) -> Any:
    """Return the columns of a table, with one row per unit if requested.

    Parameters
    ----------
    table : InputTable
    options : argparse.Namespace
    how : mapping {column: what is kept of it}
        Rule for combining rows, as in `dpstats.groups.one_row_per_unit`.
    option : str
        Source of the columns.
    text : collection of str
        Columns that are read entry by entry as text.
    changed : callable, optional
        Function that changes the rows of the table one by one, before they are combined.
    """
    columns, unit = list(how), options.unit
    change = changed or (lambda frame: frame)
    if unit is None:
        return change(table.frame(columns, option, text=text))
    if unit in columns:
        raise refuse("--unit", given=unit, allowed=f"a column that is not in {option}")
    from dpstats.groups import one_row_per_unit

    frame = change(table.frame([*columns, unit], f"{option} and --unit", text=[*text, unit]))
    # In a file, a missing entry is empty.
    frame = frame.assign(**{unit: frame[unit].where(frame[unit] != "", None)})
    return one_row_per_unit(frame, unit, how)[columns]
