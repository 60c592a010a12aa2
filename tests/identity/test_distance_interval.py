"""Intervals for the distance: where the curve crosses, what it costs to find out, and sets that are empty."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import ndtr

from dpstats.errors import InvalidParameter
from dpstats.identity import LipschitzExtensionTest, RowDistanceTest, SpatialSignTest
from dpstats.identity.base import SimulatedDistances, crossing
from dpstats.textbook import StagedInnerProductTest
from tests.identity.every_test import PURE

FAST = {"n_calibration": 99}


@pytest.mark.parametrize(
    ("kind", "mean"), [(SpatialSignTest, -0.8), (RowDistanceTest, [0.3, -0.7]), (LipschitzExtensionTest, 0.9)]
)
@pytest.mark.parametrize("direction", ["dense", "sparse"])
def test_the_farthest_rows_are_inside_the_cube(kind, mean, direction) -> None:
    test = kind(null="product", mean=mean, epsilon=20.0, random_state=0, **FAST).fit(np.ones((30, 2)))
    low, high = test.distance_interval(direction=direction, n_simulations=50)
    first = np.broadcast_to(mean, 2)[0 if direction == "sparse" else slice(None)]
    # All signs are 1 there: a distance of (1 - m)/sqrt(1 - m^2) in a column, sqrt 2 times the least in both.
    farthest = np.min((1 - first) / np.sqrt(1 - first**2)) * (1 if direction == "sparse" else math.sqrt(2))
    assert 0 <= low <= high <= farthest * (1 + 1e-12)
    assert 0 <= test.power(farthest, 30, 2, direction=direction, n_simulations=50) <= 1
    with pytest.raises(InvalidParameter, match="distance must"):
        test.power(1.001 * farthest, 30, 2, direction=direction, n_simulations=1)


def counted(curve: Callable[[float], float], size: int) -> tuple[Callable[[float, int], float], list[int]]:
    """Return a curve that remembers, as simulations do, and how many datasets each new point took."""
    known: dict[tuple[float, int], float] = {}
    taken: list[int] = []

    def remembering(distance: float, datasets: int) -> float:
        if (distance, datasets) not in known:
            taken.append(datasets)
            # Fewer datasets are off, as simulations of few are.
            known[distance, datasets] = curve(distance * (1 if datasets == size else 1.3))
        return known[distance, datasets]

    return remembering, taken


@pytest.mark.parametrize("place", [1e-7, 1e-3, 0.2, 0.9, 7.0, 4e3])
def test_crossings_are_bracketed_closely_with_few_datasets(place) -> None:
    size = 1000
    curve, taken = counted(lambda a: float(ndtr(4 * (a / place - 1) - 1.96)), size)
    low, high = crossing(curve, 0.025, 1e6, size)
    assert low <= place <= high and high - low <= 0.01 * place
    assert taken.count(size) <= 9 and sum(taken) <= 12 * size


def test_crossings_at_once_never_and_at_the_farthest() -> None:
    curve, taken = counted(lambda a: 0.5, 1000)
    assert crossing(curve, 0.1, 1e6, 1000) == (0.0, 0.0) and taken == [1000]
    curve, taken = counted(lambda a: 0.5, 1000)
    assert crossing(curve, 0.9, 1e6, 1000) == (math.inf, math.inf)
    assert sum(taken) < 7 * 1000
    # Few datasets find no crossing before the farthest distance, all of them do: and the other way round.
    step = counted(lambda a: 0.1 if a < 2.0 else 0.9, 1000)[0]
    low, high = crossing(step, 0.5, 2.1, 1000)
    assert low <= 2.0 <= high <= 2.1
    assert crossing(counted(lambda a: 0.1 if a < 2.2 else 0.9, 1000)[0], 0.5, 2.1, 1000)[0] == math.inf
    low, high = crossing(lambda a, datasets: min(a, 1.0 if datasets == 1000 else 0.8), 0.9, 2.1, 1000)
    assert low <= 0.9 <= high <= 0.95


@pytest.mark.parametrize("seed", [2, 92])
def test_simulated_ends_do_not_depend_on_threads(seed, capsys) -> None:
    X = np.random.default_rng(seed).normal(0.5, 1.0, (20, 2))
    ends = []
    for jobs in (None, 2, -1):
        test = RowDistanceTest(epsilon=0.5, n_jobs=jobs, random_state=0, **FAST).fit(X)
        ends.append(tuple(test.distance_interval(n_simulations=120)))
        assert "distance interval" not in capsys.readouterr().err
    assert len(set(ends)) == 1
    test.set_params(progress=True).distance_interval(n_simulations=120)
    assert capsys.readouterr().err.count("distance interval: 0 datasets") == 1


def test_the_ends_are_those_of_the_inverted_test() -> None:
    """At a kept end just inside, and at a dropped one just outside, of the curve of all datasets."""
    test = SpatialSignTest(epsilon=2.0, random_state=0, **FAST)
    test.fit(np.random.default_rng(3).normal(0.4, 1.0, (100, 2)))
    low, high = test.distance_interval(0.9, n_simulations=400)
    unit = np.full(2, math.sqrt(0.5))

    def tail(distance: float) -> float:
        return float(np.mean(test._alternative(test.plan_, distance * unit, 400) > test.statistic_))

    assert tail(0.99 * low) < 0.05 <= tail(1.01 * low)
    assert tail(0.99 * high) < 0.95 <= tail(1.01 * high)


@pytest.mark.parametrize(("statistic", "word"), [(500.0, "larger"), (-500.0, "smaller")])
@pytest.mark.parametrize("null", ["normal", "product"])
def test_an_empty_set_is_told_and_the_interval_is_the_whole_range(statistic, word, null) -> None:
    """20 rows are at a distance of at most 20 from the null, with noise of scale 20: 500 is noise alone."""
    test = RowDistanceTest(epsilon=0.05, null=null, random_state=0, **FAST).fit(np.ones((20, 2)))
    test.statistic_ = statistic
    interval = test.distance_interval(n_simulations=60)
    assert (interval.low, interval.high) == (0.0, pytest.approx(math.sqrt(2)) if null == "product" else math.inf)
    assert f"no distance is in the confidence set, as the released statistic is {word}" in interval.estimand
    test.statistic_ = 10.0
    assert "no distance" not in test.distance_interval(n_simulations=60).estimand


def test_an_early_rejection_has_a_lower_end_only() -> None:
    options = {"constants": (0.05, 0.1, 1.0), "epsilon": 5.0}
    test = StagedInnerProductTest(solver="surrogate", **options, random_state=0, **FAST)
    low, high = test.fit(np.random.default_rng(0).normal(8, 1, (60, 2))).distance_interval(n_simulations=40)
    assert test.statistic_ == high == math.inf and 0 < low < 8


@pytest.mark.parametrize("kind", [SpatialSignTest, LipschitzExtensionTest])
def test_a_statistic_that_no_distance_reaches_has_an_infinite_estimate(kind) -> None:
    """The median of five rows with much noise is never as large: the further distances were NaN."""
    test = kind(epsilon=0.05, random_state=0, **FAST).fit(np.zeros((5, 1)))
    test.statistic_ = 1.0 + max(test._alternative(test.plan_, np.full(1, 1e6), 60))
    found = test.estimate_distance(n_simulations=60, n_points=3)
    assert np.isfinite(found.distribution.distances).all() and found.estimate == math.inf
    assert 0 < found.test(0.2).pvalue <= 1 and found.confidence_interval().high == math.inf
    found.plot()


def test_an_estimated_distance_answers_what_every_estimate_does() -> None:
    test = SpatialSignTest(epsilon=2.0, random_state=0, **FAST)
    test.fit(np.random.default_rng(3).normal(0.4, 1.0, (100, 2)))
    found = test.estimate_distance(0.9, n_simulations=400)
    interval = test.distance_interval(0.9, n_simulations=400)
    low, high = found.confidence_interval(0.9)
    # More distances can only bring the limits closer to the curve.
    assert interval.low <= low <= 1.01 * interval.low and 0.99 * interval.high <= high <= interval.high
    assert interval.low < found.estimate < interval.high
    # A value is rejected where the interval excludes it, at the level of the fit and at others.
    errors = found.distribution
    for level in (0.5, 0.8, 0.9, 0.99):
        low, high = found.confidence_interval(level)
        assert low <= found.confidence_interval(0.9).low or level <= 0.9
        for value in np.linspace(0.0, 2 * interval.high, 41):
            pvalue = found.test(value).pvalue
            at_the_level = abs(pvalue - (1 - level)) < 1e-9
            assert at_the_level or (pvalue < 1 - level) == bool(value < low or value > high)
        assert found.test(high + 1e-9, "less").pvalue <= (1 - level) / 2 + 1e-12
        assert found.test(low - 1e-9, "greater").pvalue <= (1 - level) / 2 + 1e-12
    assert (np.diff(errors.larger) >= 0).all() and errors.distances[0] == 0
    assert found.test(1e3, "less").pvalue == 1 / 401
    again = pickle.loads(pickle.dumps(found))
    assert again.to_dict() == found.to_dict() and again.to_frame().index.tolist() == ["distance"]
    assert "simulated datasets" in str(found) and "random_state was given" in str(found)
    with pytest.raises(InvalidParameter, match="n_points must"):
        test.estimate_distance(n_points=-1)


@pytest.mark.parametrize("kind", PURE)
def test_distance_intervals_cover(kind) -> None:
    """6 datasets at distance .8; at most four misses of a 90% interval: false alarm 6e-5 by the binomial."""
    generator = np.random.default_rng(8)
    missed = 0
    for _ in range(6):
        X = generator.standard_normal((40, 2)) + 0.8 / np.sqrt(2)
        test = kind(epsilon=2.0, random_state=generator, n_calibration=199).fit(X)
        low, high = test.distance_interval(0.9, n_simulations=100)
        assert 0 <= low <= high
        missed += not low <= 0.8 <= high
    assert missed <= 4


def test_a_distance_with_just_the_tail_is_in_the_confidence_set() -> None:
    distances, larger = np.array([0.5, 1.0, 2.0]), np.array([0.25, 0.5, 0.75])
    found = SimulatedDistances(np.asarray(1.0), distances, larger, 3, 9.0)
    assert [float(end) for end in found.limits(0.25)] == [0.0, 9.0]
    assert [float(end) for end in found.limits(0.3)] == [0.5, 2.0]
