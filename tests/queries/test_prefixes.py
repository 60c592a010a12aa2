"""Prefixes: the running counts of an ordered universe."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.queries import LinearQueries
from dpstats.queries.linear import vc_dimension
from tests.queries.families import check_family


@pytest.mark.parametrize("size", [1, 2, 7])
def test_prefixes_are_their_matrix(size: int) -> None:
    family = LinearQueries.prefixes(size)
    matrix = check_family(family)
    assert np.array_equal(matrix, np.tri(size))
    assert family.vc_dimension == vc_dimension(matrix)


def test_a_universe_without_points_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="size must"):
        LinearQueries.prefixes(0)
