"""The declared design: public facts about the columns and the outcome, known before any row is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import attempt, refuse
from dpstats.means.region import check_bounds
from dpstats.regression.bins import Floats

_LARGEST = 1e140
"""Limit for bounds, for the ratio of half-widths, and for the inverse of a half-width.

Within it, squares of coefficients and errors in the units of the data are finite floats that are not 0."""


@dataclass(frozen=True, eq=False)
class Design:
    """Public: rows are (x - center)/half, and outcomes (y - y_center)/y_half.

    Attributes
    ----------
    center, half : array of shape (n_features,)
        They map the declared bounds of a column to -1 and 1. Without an intercept the center is 0, because the model
        goes through the origin.
    y_center, y_half : float
        The same for the outcome.
    intercept : bool
    exposure : (float, float), optional
        Bounds of the exposure of a row, the factor of its mean outcome. None: every row has exposure 1.
    offset : (float, float), optional
        Bounds of the offset of a row, in units of the linear predictor. None: every row has offset 0.
    weight : (float, float), optional
        Bounds of the weight of a row. None: every row has weight 1.
    outcome : (float, float), optional
        Center and half-width of the outcome, if offsets are subtracted from it. ``y_center`` and ``y_half`` then
        describe the difference.
    two_valued : tuple of bool
        Columns that are known to have both bounds as their only values. Empty: none is known.
    """

    center: Floats
    half: Floats
    y_center: float
    y_half: float
    intercept: bool
    exposure: tuple[float, float] | None = None
    offset: tuple[float, float] | None = None
    weight: tuple[float, float] | None = None
    outcome: tuple[float, float] | None = None
    two_valued: tuple[bool, ...] = ()

    @classmethod
    def check(cls, x_bounds: Any, y_bounds: Any, d: int, intercept: bool) -> Design:
        """Return the design of d columns, or raise an error; ``y_bounds=None`` declares an outcome of 0 or 1."""
        if x_bounds is None:
            raise refuse("x_bounds", allowed="given: a pair (low, high), or one per column")
        ends = check_bounds("x_bounds", x_bounds, d)
        low, high = (np.full(d, end, dtype=np.float64) for end in ends)
        if y_bounds is None:
            y_low, y_high = -1.0, 1.0
        else:
            if isinstance(y_bounds, Mapping) or attempt(lambda: np.shape(y_bounds), ValueError) != (2,):
                raise refuse("y_bounds", allowed="a pair (low, high) of numbers")
            y_ends = check_bounds("y_bounds", y_bounds, 1)
            y_low, y_high = float(np.ravel(y_ends[0])[0]), float(np.ravel(y_ends[1])[0])
        for name, given in (("x_bounds", [low, high]), ("y_bounds", [y_low, y_high])):
            if np.max(np.abs(given), initial=0.0) > _LARGEST:
                raise refuse(name, allowed=f"at most {_LARGEST:g} in size")
        if intercept:
            design = cls(
                low / 2 + high / 2, high / 2 - low / 2, y_low / 2 + y_high / 2, y_high / 2 - y_low / 2, True
            )
        else:
            sizes = np.maximum(np.abs(low), np.abs(high))
            design = cls(np.zeros(d), sizes, 0.0, max(abs(y_low), abs(y_high)), False)
        # Without columns the outcome has the only half-width.
        halves = design.half if d else np.array([design.y_half])
        for name, half in (("x_bounds", float(np.min(halves))), ("y_bounds", design.y_half)):
            if half < 1 / _LARGEST:
                allowed = f"have half-widths of at least {1 / _LARGEST:g}"
                raise refuse(name, got=f"{half:g}", allowed=allowed, remedy="Give it in smaller units.")
        for half in (float(np.min(halves)), float(np.max(halves))):
            if not 1 / _LARGEST <= design.y_half / half <= _LARGEST:
                raise refuse(
                    "x_bounds",
                    got=f"{half:g} and {design.y_half:g}",
                    allowed=f"have half-widths that differ from that of y_bounds by a factor of at most {_LARGEST:g}",
                    remedy="Give the columns in other units.",
                )
        return design

    @property
    def size(self) -> int:
        """Number of coefficients, including the intercept."""
        return self.center.size + self.intercept

    @property
    def offsets(self) -> tuple[float, float] | None:
        """Center and half-width of the range of the offset, or of the logarithm of the exposure."""
        if self.exposure is not None:
            low, high = (math.log(end) for end in self.exposure)
        elif self.offset is not None:
            low, high = self.offset
        else:
            return None
        return low / 2 + high / 2, high / 2 - low / 2

    def read_outcome(self, y: Floats, offset: Floats | None) -> tuple[Floats, NDArray[np.bool_]]:
        """Return outcomes in half-widths, minus subtracted offsets, and whether they exceed their bounds."""
        center, half = self.outcome or (self.y_center, self.y_half)
        found = (y - center) / half
        outside, inside = np.abs(found) > 1.0, np.clip(found, -1.0, 1.0)
        if self.outcome is None or offset is None:
            return inside, outside
        return np.clip((inside * half + center - offset - self.y_center) / self.y_half, -1.0, 1.0), outside

    def subtracting(self, offset: tuple[float, float]) -> Design:
        """Return the design of the outcome minus an offset within these bounds."""
        low, high = offset
        center, half = low / 2 + high / 2, high / 2 - low / 2
        if not self.intercept:
            center, half = 0.0, max(abs(low), abs(high))
        own = self.y_center, self.y_half
        return replace(self, y_center=own[0] - center, y_half=own[1] + half, offset=offset, outcome=own)

    def to_units(self, shift: Floats) -> tuple[Floats, Floats]:
        """Return L and o: coefficients in the units of the data are L theta + o.

        theta are the coefficients for rows (1, (x - center)/half - shift), without the 1 if there is no intercept,
        and outcomes (y - y_center)/y_half.
        """
        d = self.center.size
        slopes = np.diag(self.y_half / self.half)
        if not self.intercept:
            return slopes, np.zeros(d)
        first = -self.y_half * (self.center / self.half + shift)
        matrix = np.block([[np.array([[self.y_half]]), first[None, :]], [np.zeros((d, 1)), slopes]])
        return matrix, np.append(self.y_center, np.zeros(d))
