from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.tables import Rows, Table
from dpstats.errors import InvalidData

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

# NaN and infinite entries: found in one fast pass, and rejected or replaced by the center.


def check_finite(X: Any) -> None:
    """Raise `InvalidData` if an entry of an array is NaN or infinite."""
    with np.errstate(all="ignore"):
        finite = all_finite(X)
    if not finite:
        raise not_finite()


def check_finite_rows(rows: Rows) -> None:
    """Raise `InvalidData` if an entry of private rows, wherever they are, is NaN or infinite."""
    rows.total(_check_table)


def _check_table(table: Table) -> dict[str, NDArray[np.int64]]:
    check_finite(table.X)
    return {}


def finite_or_center(rows: NDArray[Any], center: Columns, missing: str) -> NDArray[Any]:
    """Return rows of finite float64 numbers, or raise `InvalidData` if an entry is not finite and ``missing="error"``.

    The rule is public and applies to each entry: a missing entry becomes the center, regardless of the other
    rows. Every block becomes float64, with or without a missing entry, so that no row decides the precision
    in which another one is compared.
    """
    rows = np.asarray(rows, dtype=np.float64)
    if all_finite(rows):
        return rows
    if missing == "error":
        raise not_finite()
    return np.where(np.isfinite(rows), rows, center)


def finite_rows(X: Any) -> NDArray[np.bool_]:
    """Return whether each row of a dense or sparse table is without a NaN or infinite entry."""
    with np.errstate(all="ignore"):
        if isinstance(X, np.ndarray):
            return np.asarray(np.isfinite(X).all(axis=1))
        stored = X.tocsr()
        complete = np.ones(stored.shape[0], dtype=bool)
        complete[np.repeat(np.arange(len(complete)), np.diff(stored.indptr))[~np.isfinite(stored.data)]] = (
            False
        )
        return complete


def rows_that_count(X: NDArray[Any], missing: str) -> NDArray[np.bool_]:
    """Return a mask of the rows without NaN or infinite entries, or raise `InvalidData` for "error"."""
    with np.errstate(all="ignore"):
        if all_finite(X):
            return np.ones(len(X), dtype=bool)
        if missing == "error":
            raise not_finite(center=None)
        finite: NDArray[np.bool_] = np.isfinite(X).all(axis=1)
    return finite


def observed_pairs(X: NDArray[Any], y: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the rows whose entries and outcome are all finite, and their outcomes."""
    with np.errstate(all="ignore"):
        if all_finite(X) and all_finite(y):
            return X, y
        kept = np.isfinite(X).all(axis=1) & np.isfinite(y)
    return X[kept], y[kept]


def all_finite(rows: NDArray[Any]) -> bool:
    """Say whether every entry is finite."""
    if rows.dtype.kind != "f":
        return True
    # A finite sum proves finite entries in one quick pass; large finite entries may still overflow. einsum
    # adds in registers, without the care for digits that makes numpy's sum slower.
    total = np.einsum(rows, list(range(rows.ndim)), [])
    return bool(np.isfinite(total)) or bool(np.isfinite(rows).all())


def not_finite(center: str | None = "such an entry as the center of the bounds") -> InvalidData:
    """Return the error for a NaN or infinite entry. ``center`` is the effect of ``missing="center"``."""
    # Removed rows change the public number of rows, and a fill from other rows has no known sensitivity.
    offers = "" if center is None else f", or missing='center' to count {center}"
    return InvalidData(
        "Input X contains NaN or infinity. Where the estimator offers it, set missing='drop' to leave out such rows"
        f"{offers}. Removing such rows yourself breaks the guarantee."
    )
