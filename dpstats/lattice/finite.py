"""Entries that are no numbers: found in one quick pass, and refused or made the centre."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.engine import Engine, Part
from dpstats.errors import InvalidData

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns


def check_finite(X: Any) -> None:
    """Raise `InvalidData` if an entry is NaN or infinite."""
    if isinstance(X, Engine):
        X.total(_check_part)
        return
    with np.errstate(all="ignore"):
        finite = all_finite(X)
    if not finite:
        raise not_finite()


def _check_part(part: Part) -> dict[str, NDArray[np.int64]]:
    check_finite(part.X)
    return {}


def finite_or_center(rows: NDArray[Any], center: Columns, missing: str) -> NDArray[Any]:
    """Return rows whose entries are finite, or raise `InvalidData` where ``missing="error"``.

    Row by row and public: a bad entry becomes the centre, whatever the other rows hold.
    """
    if all_finite(rows):
        return rows
    if missing == "error":
        raise not_finite()
    return np.where(np.isfinite(rows), rows.astype(np.float64), center)


def all_finite(rows: NDArray[Any]) -> bool:
    """Say whether every entry is finite."""
    if rows.dtype.kind != "f":
        return True
    # A finite sum proves finite entries in one quick pass; large finite entries may still overflow. einsum adds
    # in registers, without the care for digits that makes numpy's sum slower.
    total = np.einsum(rows, list(range(rows.ndim)), [])
    return bool(np.isfinite(total)) or bool(np.isfinite(rows).all())


def not_finite() -> InvalidData:
    """Return what is said where an entry is no number."""
    return InvalidData(
        "Input X contains NaN or infinity. Remove or impute such rows first, or declare "
        "missing='center' to let such an entry count as the clip centre."
    )
