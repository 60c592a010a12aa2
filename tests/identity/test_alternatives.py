"""Directions of alternatives: of any length and sign."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.identity.alternatives import unit_vector


@pytest.mark.parametrize("vector", [[3.0, 4.0], [-3.0, -4.0], [-1e300, 2.0], [0, -5], [1e-320, 0.0]])
def test_directions_have_length_one_and_keep_their_sign(vector: list[float]) -> None:
    unit = unit_vector(vector, 2)
    assert np.linalg.norm(unit) == pytest.approx(1.0, rel=1e-12)
    assert np.array_equal(np.sign(unit), np.sign(vector)) or np.min(np.abs(vector)) < 1e-290 * np.max(
        np.abs(vector)
    )
    assert np.array_equal(unit_vector((-np.array(vector)).tolist(), 2), -unit)


def test_named_directions() -> None:
    assert unit_vector("dense", 4).tolist() == [0.5] * 4
    assert unit_vector("sparse", 3).tolist() == [1.0, 0.0, 0.0]
    for wrong in ([0.0, 0.0], [1.0], [np.nan, 1.0], [np.inf, 1.0]):
        with pytest.raises(InvalidParameter, match="direction must be"):
            unit_vector(wrong, 2)
