"""Ranges: differences of running counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.queries import LinearQueries
from dpstats.queries.linear import vc_dimension
from tests.queries.families import check_family


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_all_ranges_are_their_matrix(size: int) -> None:
    family = LinearQueries.ranges(size)
    matrix = check_family(family)
    assert len(family) == size * (size + 1) // 2
    assert family.vc_dimension == vc_dimension(matrix)


def test_listed_ranges_of_a_large_universe() -> None:
    size = 1 << 20
    family = LinearQueries.ranges(size, [(0, size - 1), (5, 5), (10, 20)])
    assert family.answers(np.arange(size)).tolist() == [size * (size - 1) // 2, 5, 165]
    assert family.transpose(np.array([1.0, 2.0, 3.0]))[[4, 5, 10, 21]].tolist() == [1, 3, 4, 1]
    assert family.vc_dimension is None and family.label(2) == "10 to 20"


@pytest.mark.parametrize("ends", [[(0, 5)], [(3, 2)], [(-1, 2)], [(0.5, 1)], [], [(1, 2, 3)], "ab"])
def test_bad_ends_are_refused(ends: Any) -> None:
    with pytest.raises(InvalidParameter, match="ends must"):
        LinearQueries.ranges(5, ends)


def test_too_many_ranges_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="ranges, got all 549,756,338,176"):
        LinearQueries.ranges(1 << 20)
