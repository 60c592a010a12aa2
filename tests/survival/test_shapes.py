"""Shapes inside bins: exact for hazards of any shape with even censoring, and unknown where noise hides them."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.survival.curves import LARGEST_SLOPE, MISFIT, PRIOR_STD, Shapes, limit_positions, lost_exposure


@pytest.mark.parametrize("when", [0.08, 0.16])
@pytest.mark.parametrize("power", [0.3, 0.5, 1.0, 2.0])
def test_rows_that_leave_early_in_the_first_bin_are_placed(power: float, when: float) -> None:
    rng = np.random.default_rng(0)
    times, leaves = (2 * rng.exponential(size=400_000)) ** (1 / power), rng.random(400_000) < 0.5
    gone = leaves & (times > when)
    event = ~gone & (times <= 1)
    first_edge, Q = gone.sum() * (1 - when), gone.sum() * when * (1 - when)
    counted = np.array([float(event.sum())]), np.array([len(times) - first_edge])
    positions, truth = np.array([[(times[event] - 0.5).sum()], [Q]]), 1 - np.exp(-0.5)
    hidden, shapes = (Shapes.fit(*counted, positions, 0.0, cell) for cell in (None, np.array(first_edge)))
    assert shapes.apart[0] == pytest.approx(when - 1 / 3, rel=1e-6) and hidden.apart[0] == 0
    # Three standard deviations of the shape, and of 400,000 rows.
    missed, known = (abs(float(counted[0][0] / each.effective[0]) - truth) for each in (hidden, shapes))
    assert known < 3 * (truth * shapes.unknown_std[0] * Q / shapes.effective[0] + 0.001)
    loud = Shapes.fit(*counted, positions, 1e9, np.array(first_edge))
    assert abs(loud.apart[0]) < 1e-4
    assert power >= 1 or (known < missed and hidden.unknown_std[0] < shapes.unknown_std[0])


def bin_of_rows(power: float, rate: float, n: int = 400_000) -> tuple[float, float, np.ndarray, float]:
    """Return events, number at risk, and positions of one bin, and the true event probability.

    Event times have the cumulative hazard ``t^power / 2``, censoring is uniform on (0, 1/rate).
    """
    rng = np.random.default_rng(0)
    times, left = (2 * rng.exponential(size=n)) ** (1 / power), rng.uniform(0, 1 / rate, n)
    event = (times <= left) & (times <= 1)
    censored = (left < times) & (left <= 1)
    u, v = times[event], left[censored]
    positions = np.array([[(u - 0.5).sum()], [(v * (1 - v)).sum()]])
    return float(event.sum()), n - len(v) + v.sum(), positions, 1 - np.exp(-0.5)


@pytest.mark.parametrize("power", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("rate", [0.3, 0.7])
def test_the_event_probability_is_right_for_any_shape(power: float, rate: float) -> None:
    events, at_risk, positions, truth = bin_of_rows(power, rate)
    shapes = Shapes.fit(np.array([events]), np.array([at_risk]), positions, 0.0)
    # 400,000 rows: a standard error of 0.0015 at most. Evenly spread events miss by more.
    assert events / shapes.effective[0] == pytest.approx(truth, abs=0.007)
    assert shapes.known[0] > 0.99
    if power != 1 and rate == 0.7:
        assert abs(events / at_risk - truth) > 0.02


@pytest.mark.parametrize("when", [0.2, 0.35, 0.5, 0.8])
def test_a_peak_inside_a_bin_of_many_events_is_within_the_error_of_shapes(when: float) -> None:
    # Six in ten rows have their event in a peak, and others leave at an even rate.
    u = (np.arange(2000) + 0.5) / 2000
    density = 0.6 * np.exp(-(((u - when) / 0.08) ** 2) / 2)
    density *= 0.6 / density.sum()
    staying, alive = 1 - 0.7 * u, 1 - np.cumsum(density)
    events, left = density * staying, 0.7 / 2000 * alive
    positions = np.array([[events @ (u - 0.5)], [left @ (u * (1 - u))]])
    at_risk, rows = 1 - left @ (1 - u), 1e6
    shapes = Shapes.fit(rows * np.array([events.sum()]), rows * np.array([at_risk]), rows * positions, 0.0)
    off = abs(shapes.effective[0] / rows - events.sum() / 0.6)
    assert off < 3 * positions[1, 0] * shapes.unknown_std[0]
    assert shapes.mixed[0] == pytest.approx(0.6 * (1 + 6 * positions[1, 0] / at_risk), rel=0.1)


def test_noise_hides_the_shape() -> None:
    positions = np.array([[30.0], [10.0]])
    silent, loud = (Shapes.fit(np.array([100.0]), np.array([1000.0]), positions, std) for std in (0.0, 1e6))
    assert silent.slopes[0] > 1 and loud.slopes[0] == pytest.approx(np.log1p(-0.1) / 2, abs=3e-3)
    assert silent.unknown_std[0] < 0.4 < loud.hidden_std[0] <= PRIOR_STD


def test_impossible_noise_gives_possible_numbers() -> None:
    rng = np.random.default_rng(0)
    events, at_risk = rng.normal(0, 50, 1000), rng.normal(50, 50, 1000)
    positions = rng.normal(0, 200, (2, 1000))
    shapes = Shapes.fit(events, at_risk, positions, 10.0)
    assert np.isfinite([shapes.slopes, shapes.effective, shapes.lost, shapes.unknown_std]).all()
    assert (np.abs(shapes.slopes) <= LARGEST_SLOPE).all() and (shapes.effective > 0).all()
    assert (events / shapes.effective < 1).all()
    assert (limit_positions(positions[1], at_risk) <= np.maximum(at_risk, 0) / 3).all()


def test_exposures_are_those_of_the_fixed_point_and_no_shape_is_certain() -> None:
    at_risk, positions = np.array([1000.0]), np.array([[-30.0], [30.0]])
    shapes = Shapes.fit(np.array([200.0]), at_risk, positions, 0.0)
    hazard = 200.0 / shapes.effective
    assert shapes.lost == pytest.approx(lost_exposure(shapes.slopes, hazard, shapes.apart), abs=1e-6)
    assert shapes.unknown_std >= MISFIT * np.abs(shapes.slopes)
    # Where a hazard is larger, more of the events that a censored row missed were late ones.
    assert lost_exposure(shapes.slopes, 2 * hazard, shapes.apart) > shapes.lost


def test_noise_names_few_bins_as_crowded() -> None:
    # 400 tables of 30 bins, 150 events in each, of which the positions have noise.
    rng, events = np.random.default_rng(0), np.full((400, 30), 150.0)
    at_risk = np.full_like(events, 5000.0)

    def named(slope: float, std: float) -> np.ndarray:
        positions = np.zeros((400, 2, 30))
        positions[:, 0] = slope * 150 / 6 + np.hypot(std, np.sqrt(150 / 12)) * rng.normal(size=events.shape)
        return Shapes.fit(events, at_risk, positions, std).crowded

    assert named(0.0, 20.0).any(axis=1).mean() < 0.08
    assert named(2.5, 2.0).mean() > 0.95
