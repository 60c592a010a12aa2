"""The declared design: bounds that make sense, and the way back to the units of the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.regression.blocks import Design


def test_coefficients_come_back_in_the_units_of_the_data() -> None:
    design = Design.check([(0, 10), (-1, 3)], (2, 8), 2, True)
    rng = np.random.default_rng(0)
    shift, theta = rng.normal(size=2), rng.normal(size=3)
    matrix, offset = design.to_units(shift)
    params = matrix @ theta + offset
    x = rng.normal(size=(5, 2))
    z = (x - design.center) / design.half - shift
    said = design.y_center + design.y_half * (theta[0] + z @ theta[1:])
    assert np.allclose(said, params[0] + x @ params[1:])


def test_without_an_intercept_the_origin_stays() -> None:
    design = Design.check((2, 6), (-3, 1), 2, False)
    assert not design.center.any()
    assert design.half.tolist() == [6, 6]
    assert (design.y_center, design.y_half) == (0, 3)
    matrix, offset = design.to_units(np.zeros(2))
    assert np.allclose(matrix, np.eye(2) / 2)
    assert not offset.any()


@pytest.mark.parametrize(
    ("x_bounds", "y_bounds", "words"),
    [
        (None, (0, 1), "x_bounds must"),
        ((1, 0), (0, 1), "x_bounds must"),
        ((0, 1), (1, 1), "y_bounds must"),
        ((0, 1), [(0, 1), (0, 1)], "y_bounds must"),
        ((0, 1), {"y": (0, 1)}, "y_bounds must"),
        ((0, 1), [[0, 1], [2]], "y_bounds must"),
        ([(0, 1)], (0, 1), "x_bounds must"),
        ((0, np.inf), (0, 1), "x_bounds must"),
        ((0, 1e200), (0, 1), "x_bounds must"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(x_bounds: Any, y_bounds: Any, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        Design.check(x_bounds, y_bounds, 2, True)
