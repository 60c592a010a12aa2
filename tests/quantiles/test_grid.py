"""Grids: rows at their places, each by itself; bounds and steps that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.means import ClippedMean
from dpstats.quantiles.grid import Grid, check_bounds, check_grid, finite_places, sorted_places


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


@pytest.mark.parametrize(
    ("low", "high", "steps", "digits"),
    [
        (35, 42, 70, 1),
        (1000, 1001, 100, 2),
        (-1, 1, 200, 2),
        (0.1, 0.8, 7, 1),
        (1e6, 1e6 + 1, 1000, 3),
        (0, 1e-5, 100, 7),
    ],
)
def test_a_number_as_it_is_written_is_on_its_edge(low: float, high: float, steps: int, digits: int) -> None:
    grid = Grid(low, high, steps, False)
    written = np.array([float(f"{low + k * (high - low) / steps:.{digits}f}") for k in range(steps + 1)])
    assert grid.edges.tolist() == written.tolist()
    assert grid.places(written, up=True).tolist() == list(range(steps + 1))
    assert grid.places(np.nextafter(written[:-1], np.inf), up=True).tolist() == list(range(1, steps + 1))


@pytest.mark.parametrize("bounds", [(np.pi, 10 / 3), (1e15, 1e15 + 64), (1e9, 1e9 + 1), (-1e-300, 1e-300)])
def test_rows_lie_by_the_edges_that_are_reported(bounds: tuple[float, float]) -> None:
    grid = Grid(*bounds, 1000, False)
    x = np.concatenate([grid.edges, np.random.default_rng(0).uniform(*bounds, size=1000)])
    places = grid.places(x, up=True)
    assert np.all(x <= grid.edges[places]) and np.all((places == 0) | (x > grid.edges[places - 1]))
    assert np.all(np.diff(grid.edges) >= 0) and (grid.edges[0], grid.edges[-1]) == bounds


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
        (None, None, "bounds must"),
        ((1, 0), None, "low < high"),
        ((0, 0), None, "low < high"),
        ((0, np.inf), None, "bounds"),
        ((-1e308, 1.7e308), None, r"bounds must"),
        ((-1e303, 1e303), None, r"half-width between 1e-140 and 1e\+140 for exact arithmetic, got 1e\+303"),
        ((1e141, 1.1e141), None, r"bounds must"),
        ((0, 1, 2), None, "bounds must"),
        ("01", None, "bounds must"),
        ((1e15, 1e15 + 1), None, "Declare a step"),
        ((0, 1e-305), None, "bounds must"),
        ((0, 1e-320), 5e-321, "bounds must"),
        ((0, 1), 0.3, "step must"),
        ((0, 1), 2, "step must"),
        ((0, 1), 0, "step must"),
        ((0, 1), 1e-13, "step must"),
    ],
)
def test_bad_bounds_and_steps_are_named(bounds: object, step: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        check_grid(bounds, step)


def test_bounds_are_as_far_apart_as_those_of_means() -> None:
    for bounds in ((-1e140, 1e140), (0.0, 2e140), (0.0, 2e-140), (1e139, 1.5e140)):
        assert check_bounds(bounds) == bounds
        ClippedMean(bounds=bounds).plan(100, 1)
        for step in (None, (bounds[1] - bounds[0]) / 2**30):
            grid = check_grid(bounds, step)
            points = grid.values(np.array([0, 1, grid.steps // 2, grid.steps - 1, grid.steps]))
            assert np.isfinite(points).all() and (np.diff(points) > 0).all() and points[-1] == bounds[1]
            assert grid.places(points).tolist() == [0, 1, grid.steps // 2, grid.steps - 1, grid.steps]
    for bounds in ((-1.01e140, 1.01e140), (0.0, 1.9e-140), (-1e308, 1e308)):
        for refuse in (check_bounds, lambda bounds: ClippedMean(bounds=bounds).plan(100, 1)):
            with pytest.raises(InvalidParameter, match="for exact arithmetic"):
                refuse(bounds)
    for bounds in ((1.0, 1.0), (np.nextafter(1.0, 2.0), 1.0)):
        with pytest.raises(InvalidParameter, match="with low < high"):
            check_bounds(bounds)
