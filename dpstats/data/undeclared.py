"""Rows whose label nobody declared: one rule for every release by groups, levels or categories.

Such a row is left out, and so is a row without a label unless None is declared. Its code is -1, and it adds nothing.
With ``unknown="error"`` a family refuses it, where that option is. A release that needs the number of the other rows
counts them with a part of its budget, as with ``missing="drop"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpstats.data.parameters import check_choice
from dpstats.errors import InvalidData, refuse_data

if TYPE_CHECKING:
    from dpstats.data.rows import Rows, Table

LEFT_OUT = "Rows with an undeclared label are left out."
"""The rule, as summaries state it."""
ABOUT_THE_OTHERS = f"{LEFT_OUT} The result is about the other rows, whose number is private."
"""The rule, where the number of the other rows is released."""
_SHOWN = 6


def drops_undeclared(unknown: Any) -> bool:
    """Return whether rows with an undeclared label are left out, or refuse a value that ``unknown`` cannot have.

    Examples
    --------
    >>> from dpstats.data.undeclared import drops_undeclared
    >>> drops_undeclared("drop"), drops_undeclared("error")
    (True, False)
    """
    return check_choice("unknown", unknown, ["drop", "error"]) == "drop"


def refuse_undeclared(parameter: str, kind: str = "labels", option: str = "unknown='drop'") -> InvalidData:
    """Return the error for a row with an undeclared label, which a release does not leave out.

    Parameters
    ----------
    parameter : str
        Name of the slot of the labels.
    kind : str
        Plural of the declared things.
    option : str
        The option that leaves such rows out.
    """
    return refuse_data(
        parameter,
        got="at least one entry outside them, or missing",
        allowed=f"hold declared {kind} only",
        remedy=f"Declare it (None is the label of missing entries), or give {option}.",
    )


def check_labels(rows: Rows, parameter: str = "y", kind: str = "groups") -> None:
    """Raise `InvalidData` if a row has an undeclared label."""

    def check(table: Table) -> dict[str, Any]:
        if table.groups is None or (np.asarray(table.groups) < 0).any():
            raise refuse_undeclared(parameter, kind)
        return {}

    rows.total(check)


def empty_groups_note(names: Sequence[Any]) -> list[str]:
    """Return a note on declared groups that noise hides: one that is misspelled has no rows.

    Examples
    --------
    >>> from dpstats.data.undeclared import empty_groups_note
    >>> empty_groups_note(["placbo"])
    ["Noise only: 'placbo'. The count cannot be distinguished from 0. Check the spelling of the label."]
    """
    if not len(names):
        return []
    which = "label" if len(names) == 1 else "labels"
    listed = ", ".join(map(repr, names[:_SHOWN])) + (f" and {len(names) - _SHOWN} more" * (len(names) > _SHOWN))
    return [f"Noise only: {listed}. The count cannot be distinguished from 0. Check the spelling of the {which}."]
