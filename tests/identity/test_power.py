"""Power and sample sizes: curves, what a search finds, and what it refuses to work for."""

from __future__ import annotations

import time
from functools import partial

import pytest

from dpstats.errors import InvalidParameter
from dpstats.identity import FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest

FAST = {"n_calibration": 199}
PURE = [RowDistanceTest, SpatialSignTest, LipschitzExtensionTest]


@pytest.mark.parametrize("kind", [*PURE, FilteringTest, partial(LipschitzExtensionTest, constraint="inner_product")])
def test_power_rises_with_distance_and_size(kind) -> None:
    test = kind(epsilon=5.0, **FAST)
    zero, near, far = (test.power(a, 100, 3, n_simulations=200) for a in (0.0, 0.3, 3.0))
    assert zero < 0.13  # level .05: 5 standard errors
    assert zero - 0.05 <= near <= far
    if kind in PURE:
        assert far == 1.0
        array = test.power(0.4, 100, 3, direction=[1.0, 1.0, 1.0], n_simulations=200)
        assert array == test.power(0.4, 100, 3, n_simulations=200)
    with pytest.raises(InvalidParameter, match="direction"):
        test.power(1.0, 100, 3, direction="up")
    for bad in (object(), ["1", "0", "0"], [[1.0], [1.0, 2.0]]):
        with pytest.raises(InvalidParameter, match="direction"):
            test.power(1.0, 100, 3, direction=bad)
    with pytest.raises(InvalidParameter, match="distance"):
        test.power(1e300, 100, 3)


def test_required_samples_reach_the_power() -> None:
    test = SpatialSignTest(epsilon=1.0, n_calibration=499)
    n = test.required_samples(0.5, 4, 0.8, n_simulations=400)
    assert 60 < n < 400
    assert test.power(0.5, n, 4, n_simulations=400) >= 0.8
    assert test.power(0.5, int(0.7 * n), 4, n_simulations=400) < 0.8


SEARCHES = [
    (RowDistanceTest(epsilon=1.0, n_calibration=99), 0.6, 3),
    (RowDistanceTest(rows="sign", epsilon=0.3, n_calibration=99), 0.8, 5),
    (SpatialSignTest(epsilon=0.3, n_calibration=99), 0.1, 10),
    (SpatialSignTest(epsilon=8.0, n_calibration=99), 2.0, 1),
    (LipschitzExtensionTest(null="product", mean=0.2, n_calibration=99), 0.1, 4),
    (LipschitzExtensionTest(constraint="inner_product", solver="surrogate", epsilon=4.0, n_calibration=99), 1.0, 4),
]


@pytest.mark.parametrize(("test", "distance", "d"), SEARCHES)
def test_a_search_ends_where_one_from_few_rows_does(test, distance, d, monkeypatch) -> None:
    """The rate saves the first doublings, and changes no number; rates that are far off do not either."""
    n = test.required_samples(distance, d, n_simulations=60)
    assert test._rate(distance, d) < n / 2
    for wrong in (0.0, 5.0 * n):
        monkeypatch.setattr(type(test), "_rate", lambda *_, rows=wrong: rows)
        assert test.required_samples(distance, d, n_simulations=60) == n


@pytest.mark.parametrize(
    ("test", "distance", "d", "instead"),
    [
        (RowDistanceTest(), 1e-3, 100, "SpatialSignTest"),
        (RowDistanceTest(null="product"), 1e-3, 100, "LipschitzExtensionTest"),
        (SpatialSignTest(null="product", radius=1.0), 1e-6, 3, "LipschitzExtensionTest"),
        (FilteringTest(), 1e-3, 50, "SpatialSignTest"),
        (LipschitzExtensionTest(constraint="inner_product"), 1.5e-3, 50, "SpatialSignTest"),
        (RowDistanceTest(), 1e-200, 2, "SpatialSignTest"),
    ],
)
def test_a_search_that_would_run_for_ever_is_refused_at_once(test, distance, d, instead) -> None:
    began = time.perf_counter()
    with pytest.raises(InvalidParameter, match=f"max_seconds = 3600 is too little.*use {instead}"):
        test.required_samples(distance, d)
    assert time.perf_counter() - began < 5


def test_the_bound_is_on_the_whole_search() -> None:
    test = RowDistanceTest(n_calibration=99)
    n = test.required_samples(0.4, 3, n_simulations=50)
    plan = test.plan(n, 3)
    once = 149 * test._seconds(n, 3, plan.design)
    with pytest.raises(InvalidParameter, match="max_seconds"):
        test.required_samples(0.4, 3, n_simulations=50, max_seconds=2 * once)
    assert test.required_samples(0.4, 3, n_simulations=50, max_seconds=40 * once) == n
    assert test.required_samples(0.4, 3, n_simulations=50, max_seconds=None) == n


def test_power_at_a_size_that_is_out_of_reach_is_refused_at_once() -> None:
    with pytest.raises(InvalidParameter, match=r"of 10000000 rows .* use SpatialSignTest"):
        RowDistanceTest().power(0.01, 10**7, 10)
    with pytest.raises(InvalidParameter, match="no test costs less: give a smaller n_calibration"):
        LipschitzExtensionTest().power(0.1, 100, 10**7)
    for bad in (0, -1.0, "1", True, float("nan")):
        with pytest.raises(InvalidParameter, match="max_seconds must"):
            SpatialSignTest(**FAST).power(0.1, 100, 2, max_seconds=bad)


def test_no_number_of_rows_is_enough_for_the_smallest_distances() -> None:
    with pytest.raises(InvalidParameter, match="distance must"):
        LipschitzExtensionTest(**FAST).required_samples(1e-200, 2, n_simulations=20)


def test_a_search_shows_its_progress(capsys) -> None:
    test = LipschitzExtensionTest(**FAST)
    test.required_samples(1.0, 2, n_simulations=20)
    assert capsys.readouterr().err == ""
    test.set_params(progress=True).required_samples(1.0, 2, n_simulations=20)
    assert "required samples: 0 datasets" in capsys.readouterr().err
