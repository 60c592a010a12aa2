"""Sample complexity: the crossing of a known power curve, and how often its interval holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from dpstats.errors import DPStatsError, InvalidParameter
from dpstats.identity import SpatialSignTest
from dpstats.simulation import Gaussian, crossing_point, sample_complexity
from dpstats.simulation import comparison as sample_size
from dpstats.simulation.comparison import _root


def normal_test(n: float, rng: np.random.Generator) -> np.ndarray:
    """Twenty one-sided z tests of level 5% at distance .2."""
    return rng.normal(0.2 * np.sqrt(n), 1.0, 20) > ndtri(0.95)


TRUE = ((ndtri(0.95) + ndtri(2 / 3)) / 0.2) ** 2  # 107.7 rows


def test_the_smallest_sample_and_its_interval() -> None:
    found = [sample_complexity(normal_test, high=100_000, replications=200, random_state=seed) for seed in range(60)]
    values = np.array([item.value for item in found])
    assert np.median(values) == pytest.approx(TRUE, rel=0.04)
    covered = np.mean([item.interval.low <= TRUE <= item.interval.high for item in found])
    # 95% less what the choice of the points costs; 60 intervals: false alarms of the bound below 1e-3.
    assert covered >= 0.8
    assert np.std(np.log(values)) == pytest.approx(np.mean([item.standard_error for item in found]), rel=0.4)
    assert all(value == int(value) for value in values)


def test_more_replications_narrow_the_interval() -> None:
    few, many = (crossing_point(normal_test, 4, 10_000, replications=r, random_state=1) for r in (100, 1600))
    assert 2 < few.standard_error / many.standard_error < 8  # 4, and the spread of the points


def test_results_do_not_depend_on_the_number_of_processes() -> None:
    alone, two = (crossing_point(normal_test, 4, 10_000, replications=40, n_jobs=jobs) for jobs in (1, 2))
    assert alone.value == two.value and alone.rejections.tolist() == two.rejections.tolist()


def test_a_test_with_a_scikit_learn_shape() -> None:
    test = SpatialSignTest(epsilon=5.0, n_calibration=199)
    found = sample_complexity(
        test, sampler=Gaussian(), n_features=1, mean=0.5, low=10, high=400, replications=60, random_state=0
    )
    # Without privacy: ((z_.975 + z_2/3)/.5)^2 = 23 rows.
    assert 20 < found.value < 90
    assert "Power" in str(found) and found.trials.sum() > 300


def test_bad_input_is_one_clear_error() -> None:
    def never(n: float, rng: np.random.Generator) -> bool:
        return False

    for call, message in (
        (lambda: sample_complexity(never, high=1000), "high must be on the other side"),
        (lambda: sample_complexity(lambda n, rng: True), "low must be on the other side"),
        (lambda: sample_complexity(lambda n, rng: 0.5), "power must"),
        (lambda: sample_complexity(SpatialSignTest()), "sampler must"),
        (lambda: sample_complexity("test"), "test must"),
        (lambda: crossing_point(never, 2, 1), "high must"),
        (lambda: crossing_point(never, 1, 2, target=1.0), "target must"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            call()


def test_a_flat_curve_is_told() -> None:
    with pytest.raises((DPStatsError, InvalidParameter), match=r"does not grow|other side"):
        crossing_point(lambda x, rng: rng.random(50) < 0.5, 1, 100, target=0.5, replications=1000, random_state=3)


def test_steep_and_shallow_curves() -> None:
    for slope in (1.0, 30.0):
        found = crossing_point(
            lambda x, rng, slope=slope: rng.random(50) < ndtr(slope * np.log(x / 7)),
            0.01,
            1000,
            target=0.5,
            random_state=0,
        )
        assert abs(np.log(found.value / 7)) < 4 * found.standard_error


def test_a_sample_size_is_rounded_up_and_fitted_to_new_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    fits = []
    probit = sample_size._probit

    def seen(counts: Any, *rest: Any, **more: Any) -> Any:
        fits.append({x: tuple(pair) for x, pair in counts.items()})
        return probit(counts, *rest, **more)

    monkeypatch.setattr(sample_size, "_probit", seen)
    found = sample_complexity(normal_test, high=100_000, replications=200, random_state=3)
    estimate = np.sqrt(found.interval.low * found.interval.high)
    assert found.value == np.ceil(estimate)
    # The last fit has the replications of its design only: outcomes that chose the design do not count.
    assert {trials for _, trials in fits[-1].values()} == {200}


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_intervals_have_the_normal_quantile_of_both_sides(level: float) -> None:
    found = crossing_point(normal_test, 4, 10_000, replications=100, confidence_level=level, random_state=1)
    half = ndtri((1 + level) / 2) * found.standard_error
    assert np.log(found.interval.high / found.value) == pytest.approx(half)
    assert np.log(found.value / found.interval.low) == pytest.approx(half)


def test_the_nearest_crossing_counts() -> None:
    # x^3 - x rises through 0 at -1 and at 1, and falls at 0: shifted, the nearer one is at 0.5 or at -1.5.
    assert _root(np.poly([-1.5, -0.5, 0.5])[::-1], 0.0, 9.0) == pytest.approx(0.5)
    assert _root(np.poly([-0.25, 1.0, 2.0])[::-1], 0.0, 9.0) == pytest.approx(-0.25)
