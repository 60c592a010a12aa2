"""Functions for the costs of stages: checked counts, and results that are never below the exact values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

from dpstats.data.parameters import check_integer
from dpstats.errors import DPStatsError
from dpstats.privacy.events import ZCDP, Gaussian
from dpstats.privacy.gaussian import SMALLEST_STEPS, TOTAL_VARIATION
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.rounding import up


def check_counts(**counts: int | Sequence[int]) -> None:
    """Raise an error for counts below 1. Otherwise numbers would be drawn without a privacy cost."""
    for name, given in counts.items():
        for count in given if isinstance(given, Sequence) else (given,):
            if type(count) is not int or count < 1:
                check_integer(name, count, at_least=1, of=given)


def gaussian_event(
    mu: float, sizes: list[tuple[int, float]], concentrated: bool, neighbors: Neighbors
) -> Gaussian | ZCDP:
    """Return the event of Gaussian noise on vectors of the sizes given, each with its scale in steps."""
    if concentrated:
        return ZCDP(up(Fraction(mu) ** 2 / 2), neighbors=neighbors)
    if min(scale for _, scale in sizes) < SMALLEST_STEPS:
        raise DPStatsError(
            f"Gaussian noise of less than {SMALLEST_STEPS:g} steps has no exact curve: the stage must be concentrated. "
            "This is a defect"
        )
    # Raised by more than these few operations can be rounded.
    variation = math.fsum(TOTAL_VARIATION * size / scale**2 for size, scale in sizes) * (1 + 2.0**-48)
    return Gaussian(mu, variation, neighbors=neighbors)


def log_up(odds: Fraction) -> float:
    """Return a float that is at least the logarithm of rational odds above 1, to within an ulp."""
    with localcontext() as context:
        context.prec = 60
        # ln is accurate to 60 digits. The added amount is much larger than its error and much smaller than an ulp.
        exact = (Decimal(odds.numerator) / Decimal(odds.denominator)).ln() * (1 + Decimal(10) ** -35)
    return up(Fraction(exact))


def twice_exp_up(exponent: Fraction) -> float:
    """Return a float that is at least 2 e^exponent, to within an ulp, for an exponent of at most 0."""
    with localcontext() as context:
        context.prec = 60
        # Both operations are right to the last of 60 digits, and an exponent below a thousand loses three of them.
        exact = (Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp() * (2 + Decimal(10) ** -35)
    return up(Fraction(exact))


def norm_tail_up(beyond: Fraction, size: int) -> float:
    """Return a float that is at least (y/m)^m e^(m - y), to within an ulp: Chernoff's bound for m Laplace numbers."""
    if beyond <= size:
        return 1.0
    with localcontext() as context:
        context.prec = 80
        y = Decimal(beyond.numerator) / Decimal(beyond.denominator)
        # All operations are right to the last of 80 digits, and the exponent loses at most ten of them.
        exact = (size * (y / size).ln() + size - y).exp() * (1 + Decimal(10) ** -40)
    return up(Fraction(exact))
