"""Pairs that are no neighbors are refused, by rows and by numbers of rows."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.auditing.sensitivity import check_neighbors, check_relation
from dpstats.errors import InvalidParameter
from dpstats.privacy import Neighbors

REPLACED, ADDED = Neighbors.REPLACE_ONE, Neighbors.ADD_OR_REMOVE_ONE


def test_rows_are_compared_by_their_values() -> None:
    ones = np.ones((4, 1))
    check_neighbors(ones.astype(int), np.vstack([ones[1:], [[5.0]]]), 1)
    check_neighbors(np.full(3, np.nan), np.array([np.nan, 1.0, np.nan]), 1)
    # One column without its second axis, too.
    with pytest.raises(InvalidParameter, match="got 2"):
        check_neighbors(np.ones(4), np.array([1.0, 1.0, 0.0, 0.0]), 1)
    with pytest.raises(InvalidParameter, match="neighbor must"):
        check_neighbors(np.ones(4), np.ones(3), 1)
    # Of counts, a row moves two.
    check_neighbors(np.array([3, 0, 0]), np.array([2, 1, 0]), 1, counts=True)
    with pytest.raises(InvalidParameter, match="got 2"):
        check_neighbors(np.array([3, 0, 0]), np.array([1, 1, 1]), 1, counts=True)


def test_the_pair_must_be_of_the_relation_of_the_stages() -> None:
    x = np.ones(4)
    check_relation(x, x, [REPLACED])
    check_relation(x, x[1:], [ADDED])
    check_relation(1.0, 2.0, [ADDED])  # cannot be told
    check_relation({"a": 1}, {"b": 2}, [ADDED])
    with pytest.raises(InvalidParameter, match=r"ADD_OR_REMOVE_ONE.*with 4 and 4 rows .* REPLACE_ONE"):
        check_relation(x, x, [ADDED])
    with pytest.raises(InvalidParameter, match=r"REPLACE_ONE.*with 4 and 3 rows .* ADD_OR_REMOVE_ONE"):
        check_relation((x, x), (x[1:], x[1:]), [REPLACED])
    with pytest.raises(InvalidParameter, match="4 and 2 rows"):
        check_relation(x, x[2:], [ADDED])
