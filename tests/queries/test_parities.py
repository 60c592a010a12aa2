"""Parities: Walsh and Hadamard's transform of the counts."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.queries import LinearQueries
from dpstats.queries.linear import vc_dimension, walsh
from tests.queries.families import check_family


@pytest.mark.parametrize(("d", "k"), [(1, 1), (3, 1), (4, 1), (4, 2), (3, 3)])
def test_parities_are_their_matrix(d: int, k: int) -> None:
    family = LinearQueries.parities(d, k)
    matrix = check_family(family)
    bits = np.indices((2,) * d).reshape(d, -1)
    for row, chosen in zip(matrix, family.sets, strict=True):
        assert np.array_equal(row, bits[list(chosen)].sum(axis=0) % 2)
    if family.vc_dimension is not None:
        assert family.vc_dimension == vc_dimension(matrix)


def test_the_transform_is_its_own_inverse() -> None:
    x = np.random.default_rng(0).integers(99, size=64)
    assert np.array_equal(walsh(walsh(x)), 64 * x)


def test_too_many_parities_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="at most 16,777,216 parities"):
        LinearQueries.parities(26, 13)
