"""Floats that are never below an exact number, and the nearest of these."""

import math
from fractions import Fraction

import numpy as np

from dpstats.privacy.rounding import float_up, quotient_up


def test_the_smallest_float_that_is_not_below():
    rng = np.random.default_rng(0)
    for _ in range(2000):
        a, b = (float(x) for x in rng.standard_exponential(2) * 10.0 ** rng.integers(-100, 100, 2))
        for value, found in (
            (Fraction(a) / Fraction(b), quotient_up(a, b)),
            (Fraction(a) * Fraction(b), float_up(Fraction(a) * Fraction(b))),
        ):
            assert Fraction(found) >= value
            assert Fraction(math.nextafter(found, 0.0)) < value


def test_integers_of_any_size_and_what_is_beyond_floats():
    assert quotient_up(2**80 + 1, 1.0) == math.nextafter(2.0**80, math.inf)
    assert quotient_up(1, 5e-324) == math.inf and quotient_up(3, 0.0) == math.inf
