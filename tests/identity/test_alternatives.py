"""Directions of alternatives: of any length and sign."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.identity.whitening import norm_rate, unit_vector


@pytest.mark.parametrize("vector", [[3.0, 4.0], [-3.0, -4.0], [-1e300, 2.0], [0, -5], [1e-320, 0.0]])
def test_directions_have_length_one_and_keep_their_sign(vector: list[float]) -> None:
    unit = unit_vector(vector, 2)
    assert np.linalg.norm(unit) == pytest.approx(1.0, rel=1e-12)
    assert np.array_equal(np.sign(unit), np.sign(vector)) or np.min(np.abs(vector)) < 1e-290 * np.max(np.abs(vector))
    assert np.array_equal(unit_vector((-np.array(vector)).tolist(), 2), -unit)


def test_named_directions() -> None:
    assert unit_vector("dense", 4).tolist() == [0.5] * 4
    assert unit_vector("sparse", 3).tolist() == [1.0, 0.0, 0.0]
    for wrong in ([0.0, 0.0], [1.0], [np.nan, 1.0], [np.inf, 1.0]):
        with pytest.raises(InvalidParameter, match="direction must"):
            unit_vector(wrong, 2)


def test_the_order_of_rows_is_that_of_sampling_of_both_or_of_noise() -> None:
    # Without noise sqrt(d)/a^2, with much of it sqrt(d)/(a epsilon), and between them (d/(a^2 epsilon))^(2/3).
    assert norm_rate(0.1, 400, 1e12) == pytest.approx(20 / 0.01, rel=1e-3)
    assert norm_rate(1e-3, 400, 1e-16) == pytest.approx(20 / 1e-19, rel=1e-2)
    assert norm_rate(30.0, 10**6, 1.0) == pytest.approx((1e6 / 900) ** (2 / 3) + 1000 / 30 + 1000 / 900)
