"""Halfspaces: the side of every point is its own, and exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.queries import LinearQueries
from dpstats.queries import linear as halfspaces
from tests.queries.families import check_family


def test_halfspaces_are_their_matrix() -> None:
    points = np.random.default_rng(0).normal(size=(40, 3))
    family = LinearQueries.halfspaces(points, 25)
    matrix = check_family(family)
    assert 0 < matrix.mean() < 1 and family.vc_dimension == 4
    assert np.array_equal(matrix, check_family(LinearQueries.halfspaces(points, 25)))
    assert not np.array_equal(matrix, check_family(LinearQueries.halfspaces(points, 25, random_state=1)))


def test_blocks_do_not_change_a_side(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.random.default_rng(1).integers(-3, 4, size=(60, 2))
    x = np.random.default_rng(2).normal(size=60)
    whole = LinearQueries.halfspaces(points, 50).answers(x)
    monkeypatch.setattr(halfspaces, "_BLOCK", 61)
    assert LinearQueries.halfspaces(points, 50).answers(x) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("points", [[1.0, 2.0], [[np.nan]], "ab", []])
def test_bad_points_are_refused(points: Any) -> None:
    with pytest.raises(InvalidParameter, match="points must"):
        LinearQueries.halfspaces(points, 3)
