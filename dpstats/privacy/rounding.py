"""Arithmetic with results that are never below the exact results, by the standard library alone."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpstats.data.parameters import check_real

_SPLIT = 134217729.0  # 2^27 + 1
_ROOT_BITS = 128


# Sums, products and roots of floats are computed with exact rationals, or with a correctly rounded sum, and rounded
# up once.
def up(value: Fraction) -> float:
    """Return the smallest float at least the value; infinity if there is none."""
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)


def down(value: Fraction) -> float:
    """Return the largest float at most the value."""
    return -up(-value)


@lru_cache(maxsize=1024)
def multiply_up(a: float, b: float) -> float:
    """Return the smallest float at least the product of two floats; infinity if there is none."""
    return up(Fraction(a) * Fraction(b))


def quotient_up(numerator: float, denominator: float) -> float:
    """Return the smallest float at least the quotient; infinity if there is none."""
    (top, below), (divisor, above) = numerator.as_integer_ratio(), denominator.as_integer_ratio()
    top, divisor = top * above, below * divisor
    try:
        nearest = top / divisor
        p, q = nearest.as_integer_ratio()
    except (OverflowError, ZeroDivisionError):
        return math.inf
    return nearest if p * divisor >= top * q else math.nextafter(nearest, math.inf)


def sum_up(values: Iterable[float]) -> float:
    """Return the smallest float at least the exact sum of floats."""
    numbers = list(values)
    try:
        total = math.fsum(numbers)  # correctly rounded, so that the remainder has the correct sign
        left = math.fsum([*numbers, -total])
    except OverflowError:
        return math.inf
    return math.nextafter(total, math.inf) if left > 0 else total


def root_up(value: Fraction) -> float:
    """Return a float that is at least the square root, and the exact root if it is a float."""
    if value <= 0:
        return 0.0
    top, bottom = value.numerator, value.denominator
    shift = max(0, (_ROOT_BITS - top.bit_length() + bottom.bit_length() + 1) // 2)
    scaled = -((-top << (2 * shift)) // bottom)
    root = math.isqrt(scaled)
    return up(Fraction(root + (root * root < scaled), 1 << shift))


def check_cost(
    name: str, value: Any, *, at_least: float = 0.0, at_most: float | None = None, dearer: float = math.inf
) -> float:
    """Return a checked number as a Python float. A number that is not a float is rounded to the more expensive side.

    A number of any type stands for its exact value: float16(0.1) is 0.0999755859375. It is converted before any
    arithmetic, because sums of narrow types overflow and lose small terms.
    """
    if type(value) is float and at_least <= value <= (sys.float_info.max if at_most is None else at_most):
        return value + 0.0  # not -0.0
    number = check_real(name, value, at_least=at_least, at_most=at_most)
    if type(value) is not float:
        short = number < value if dearer > 0 else number > value
        if short:
            number = math.nextafter(number, dearer)
    return number


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a + b and its exact rounding error (Knuth). The arguments may be arrays."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a b and its exact rounding error (Dekker), for sizes between 1e-140 and 1e140. Arguments may be arrays."""
    product = a * b
    high_a, high_b = _SPLIT * a, _SPLIT * b
    high_a, high_b = high_a - (high_a - a), high_b - (high_b - b)
    low_a, low_b = a - high_a, b - high_b
    return product, ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
