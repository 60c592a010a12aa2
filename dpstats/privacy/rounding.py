"""Floats that are never below an exact number: what a claim may be rounded to."""

from __future__ import annotations

import math
from fractions import Fraction


def float_up(value: Fraction) -> float:
    """Return the smallest float that is at least an exact number.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from dpstats.privacy.rounding import float_up
    >>> Fraction(float_up(Fraction(1, 3))) >= Fraction(1, 3)
    True
    """
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def quotient_up(numerator: float, denominator: float) -> float:
    """Return the smallest float that is at least the real quotient; infinity where none is."""
    (top, below), (divisor, above) = numerator.as_integer_ratio(), denominator.as_integer_ratio()
    top, divisor = top * above, below * divisor
    try:
        nearest = top / divisor
        p, q = nearest.as_integer_ratio()
    except (OverflowError, ZeroDivisionError):
        return math.inf
    return nearest if p * divisor >= top * q else math.nextafter(nearest, math.inf)
