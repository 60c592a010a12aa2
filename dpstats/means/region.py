"""Means of rows whose number is private: ratios of noisy sums, in a declared region, and their differences.

Fieller's method (1954): for a ratio m of the sums of s and c, the sum of s - m c has mean 0. The distance of T - m N
from 0 is tested without a division by N. A count that noise has made small, or negative, rejects few values. Intervals
are then wide, up to the bounds. Computations are elementwise, so that a study evaluates many releases at once.

Proofs: docs/intervals/groups.md, docs/proofs/private-size.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_choice, check_columns
from dpstats.errors import attempt, refuse

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

_SHOWN = 6


@dataclass(frozen=True, eq=False)
class Region:
    """The public box |x_j - center_j| <= clip_j: its bounds as declared, and their meaning."""

    center: Columns
    clip: Columns
    low: Columns
    high: Columns
    hard: bool  # whether rows cannot lie outside, such as a fraction or an age, so that clipping changes none

    @property
    def middle(self) -> str:
        """The center of the bounds, as text."""
        return f"the center of the bounds ({public_numbers(self.center)})"

    @classmethod
    def check(cls, bounds: Any, bounds_are: Any, clip: Any, center: Any, d: int) -> Region:
        """Return the region that either ``bounds``, or ``clip`` and ``center``, describe, or refuse them."""
        hard = check_choice("bounds_are", bounds_are, ["clip", "hard"]) == "hard"
        if bounds is None:
            if clip is None:
                raise refuse("bounds", allowed="given", remedy="Set bounds=(low, high), or clip and center.")
            size, middle = check_columns("clip", clip, d, above=0), check_columns("center", center, d)
            return cls(middle, size, middle - size, middle + size, hard)
        if clip is not None:
            raise refuse(
                "clip", given=clip, allowed="None with bounds, which say the same", remedy="Leave one out."
            )
        if isinstance(center, bool) or not isinstance(center, Real) or center != 0:
            allowed = "not be given with bounds, whose middle is the center"
            raise refuse("center", given=center, allowed=allowed)
        low, high = check_bounds("bounds", bounds, d)
        return cls(low / 2 + high / 2, high / 2 - low / 2, low, high, hard)

    def ends(self, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ends as arrays of shape (n_features,)."""
        return np.full(d, self.low, dtype=np.float64), np.full(d, self.high, dtype=np.float64)


def public_numbers(values: Columns) -> str:
    """Return public numbers as text: one if all are equal, and otherwise at most the first few."""
    distinct = np.atleast_1d(values)
    if np.all(distinct == distinct[0]):
        return f"{distinct[0]:g}"
    more = ", ..." if distinct.size > _SHOWN else ""
    return ", ".join(f"{value:g}" for value in distinct[:_SHOWN]) + more


def check_bounds(name: str, bounds: Any, d: int) -> tuple[Columns, Columns]:
    """Return public bounds, low below high: one pair, or one per column in an array of shape (n_features, 2).

    The pairs of a mapping {column: (low, high)} are used in their order: a fit has sorted them like the columns, and a
    plan has no column names.
    """
    allowed = f"a pair (low, high) of numbers, or one pair per column: an array of shape ({d}, 2)"
    converted = attempt(
        lambda: np.asarray([*bounds.values()] if isinstance(bounds, Mapping) else bounds), Exception
    )
    array = np.array(None) if converted is None else converted
    if np.ma.isMaskedArray(bounds) or array.dtype.kind not in "fiu" or array.shape not in ((2,), (d, 2)):
        raise refuse(name, given=bounds, allowed=allowed)
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise refuse(name, given=bounds, allowed=f"{allowed}, all finite")
    low, high = array[..., 0], array[..., 1]
    if not np.all(low < high):
        where = "" if array.ndim == 1 else f" for column {int(np.argmax(low >= high))}"
        raise refuse(name, given=bounds, allowed=f"have low < high{where}")
    return (float(low), float(high)) if array.ndim == 1 else (low.copy(), high.copy())
