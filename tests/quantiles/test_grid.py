"""Grids: rows at their places, each by itself; bounds and steps that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.quantiles.grid import check_grid, finite_places, sorted_places


def test_rows_go_to_the_nearest_point_and_to_the_bounds() -> None:
    grid = check_grid((0, 1), 0.1)
    assert (grid.steps, grid.points) == (10, 11)
    x = np.array([-1e308, -0.01, 0.0, 0.3, 0.1 + 0.2, 0.34, 0.36, 1.0, 7.0, 1e308])
    assert grid.places(x).tolist() == [0, 0, 0, 3, 3, 3, 4, 10, 10, 10]
    assert grid.values([0, 3, 10]).tolist() == [0.0, 0.3, 1.0]


def test_upwards_a_row_on_a_point_stays_there() -> None:
    grid = check_grid((0, 1), 0.1)
    points = np.arange(11) / 10
    assert grid.places(points, up=True).tolist() == list(range(11))
    assert grid.places(points[:-1] + 0.001, up=True).tolist() == list(range(1, 11))


def test_a_place_is_of_its_row_alone() -> None:
    grid = check_grid((-3, 5), None)
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=200_000), [-9.0, 9.0, 1e300]])
    places = grid.places(x)
    some = rng.integers(x.size, size=200)
    assert all(grid.places(x[i : i + 1])[0] == places[i] for i in some)
    assert np.array_equal(sorted_places(x[:, None], grid), np.sort(places))
    assert np.array_equal(sorted_places(x[::-1, None], grid), np.sort(places))
    for kind in (np.float32, np.int64):
        rows = (10 * x[:1000]).astype(kind)
        assert np.array_equal(grid.places(rows), grid.places(rows.astype(float)))


def test_rows_that_are_not_finite_are_refused() -> None:
    grid = check_grid((0, 1), None)
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(InvalidData, match="finite"):
            finite_places(np.array([[0.5], [bad]]), grid)


@pytest.mark.parametrize(
    ("bounds", "step", "message"),
    [
        (None, None, "bounds must be a pair"),
        ((1, 0), None, "low < high"),
        ((0, 0), None, "low < high"),
        ((0, np.inf), None, "bounds"),
        ((-1e308, 1.7e308), None, "bounds must be a pair"),
        ((0, 1, 2), None, "bounds must be a pair"),
        ("01", None, "bounds must be a pair"),
        ((1e15, 1e15 + 1), None, "further apart"),
        ((0, 1), 0.3, "step must divide the range"),
        ((0, 1), 2, "step must divide the range"),
        ((0, 1), 0, "step must be a finite number greater than 0"),
        ((0, 1), 1e-13, "step must divide the range"),
    ],
)
def test_bad_bounds_and_steps_are_named(bounds: object, step: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        check_grid(bounds, step)
