"""Power of private tests: agreement with simulated fits, one signature for all families, and bad calls."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.groups import GroupMeans
from dpstats.means import ClippedMean
from dpstats.quantiles import PrivateQuantile
from dpstats.regression import PrivateLinearRegression, PrivateLogisticRegression
from dpstats.simulation import power, power_curve, required_samples
from dpstats.survival import LogRankTest
from dpstats.tables import PrivateProportion
from tests.simulation.power_cells import CELLS

GROUPS: dict[str, Any] = {"groups": ["a", "b"], "random_state": 0}


def assert_power(name: str, place: int, fits: int) -> None:
    cell = CELLS[name](np.random.default_rng([zlib.crc32(name.encode()), place]))
    found = cell.simulate(fits, place)
    expected = power(cell.estimator, cell.n_samples, cell.effect, **cell.assumed)
    assert abs(found - expected) <= 0.03 + 2 * np.sqrt(max(expected * (1 - expected), 0.01) / fits)


def test_power_agrees_with_a_few_simulated_fits() -> None:
    assert_power("one proportion", 0, 150)


# Cells that nobody chose: their sizes, privacy, shares and effects are drawn from the name of the family.
@pytest.mark.parametrize("name", CELLS)
def test_powers_in_random_cells_agree_with_simulated_fits(name: str) -> None:
    assert_power(name, 1, 1000)


PLANNED: dict[str, tuple[Any, float, dict[str, Any]]] = {
    "means": (GroupMeans(bounds=(80, 200), **GROUPS), 8.0, {"std": 18.0, "baseline": 130.0}),
    "three groups": (GroupMeans(groups=["a", "b", "c"], bounds=(80, 200)), 8.0, {"std": 18.0}),
    "proportions": (GroupMeans(bounds=(0, 1), **GROUPS), 0.12, {"baseline": 0.3}),
    "paired differences": (ClippedMean(bounds=(-40, 40)), 2.5, {"std": 10.0}),
    "known spread": (ClippedMean(bounds=(-40, 40), std=10.0), 2.5, {"std": 10.0}),
    "one proportion": (PrivateProportion(), 0.08, {"baseline": 0.3}),
    "two counts": (PrivateProportion(missing="drop"), 0.08, {"baseline": 0.3}),
    "linear": (
        PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-5, 5)),
        0.12,
        {"std": 1.1, "r_squared": 0.14, "n_features": 2},
    ),
}


@pytest.mark.parametrize("name", PLANNED)
def test_required_rows_have_the_power(name: str) -> None:
    estimator, effect, assumed = PLANNED[name]
    n = required_samples(estimator, effect, 0.9, **assumed)
    assert power(estimator, n, effect, **assumed) >= 0.9 > power(estimator, int(0.9 * n), effect, **assumed)


def test_more_rows_than_a_fit_simulates_have_the_power_of_few() -> None:
    # Noise is small here, so that a normal test of the coefficient is close.
    line = PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-5, 5))
    effect = 3.0 / np.sqrt(100_000 / 3)
    found = power(line, 100_000, effect, std=1.0)
    assert 0.72 < found < 0.86  # 0.85 without noise


def test_overlap_costs_power() -> None:
    line = PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-5, 5))
    options: dict[str, Any] = {"std": 1.0, "n_features": 2}
    assert power(line, 1500, 0.17, overlap=0.5, **options) < power(line, 1500, 0.17, **options) - 0.1


def test_balls_are_simulated_by_fits() -> None:
    ball = ClippedMean(clip=40.0, clip_norm="l2", delta=1e-6)
    column = ClippedMean(clip=40.0, delta=1e-6)
    # Gaussian noise on a ball is larger than the Laplace noise that the column chooses.
    assert 0.45 < power(ball, 200, 2.5, std=10.0) < power(column, 200, 2.5, std=10.0)
    with pytest.raises(InvalidParameter, match="n_samples must be at most"):
        power(ball, 2**30, 2.5, std=10.0)


def test_survival_has_the_same_signature() -> None:
    test = LogRankTest(groups=["old", "new"], horizon=5.0)
    assert power(test, 2000, 0.8, baseline=0.5) == test.power(2000, 0.8)
    assert required_samples(test, 0.8) == test.required_samples(0.8)


def test_more_rows_effect_or_epsilon_have_more_power() -> None:
    means = GroupMeans(bounds=(80, 200), **GROUPS)
    curve = power_curve(means, [100, 200, 400, 800], 8.0, std=18.0)
    assert (np.diff(curve.power) > 0).all() and "0." in str(curve) and len(curve.to_frame()) == 4
    axis = curve.plot()
    assert axis.lines[0].get_ydata().tolist() == curve.power.tolist() and axis.get_xlabel() == "rows"
    base = power(means, 400, 8.0, std=18.0)
    assert power(means, 400, 9.0, std=18.0) > base
    assert base == pytest.approx(power(means, 400, -8.0, std=18.0), abs=0.05)
    assert power(means, 400, 8.0, std=18.0, alternative="greater") > base
    assert power(means, 400, 8.0, std=18.0, alternative="less") < 0.01
    assert power(GroupMeans(bounds=(80, 200), epsilon=0.1, **GROUPS), 400, 8.0, std=18.0) < base


def test_no_effect_is_found_at_the_level() -> None:
    mean = ClippedMean(bounds=(-40, 40), std=10.0)
    assert power(mean, 10_000, 0.0, std=10.0, level=0.1) == pytest.approx(0.1, abs=0.02)


def test_noise_that_hides_a_coefficient_leaves_no_power() -> None:
    line = PrivateLinearRegression(x_bounds=(0, 1), y_bounds=(0, 1), epsilon=0.01)
    assert power(line, 200, 0.1, share=0.001, std=1.0) < 0.06


@pytest.mark.parametrize(
    ("estimator", "effect", "options", "words"),
    [
        (PrivateQuantile(bounds=(0, 1)), 1.0, {}, "estimator must be one of GroupMeans"),
        (3, 1.0, {}, "estimator must"),
        (ClippedMean(bounds=(0, 1)), 0.1, {}, "std must"),
        (GroupMeans(bounds=(0, 90), **GROUPS), 0.1, {}, "std must"),
        (GroupMeans(groups=["a"], bounds=(0, 1)), 0.1, {"std": 1.0}, "estimator must be GroupMeans of at least two"),
        (PrivateProportion(), 0.1, {}, "baseline must"),
        (PrivateProportion(), 0.9, {"baseline": 0.3}, "baseline \\+ effect must"),
        (PrivateLinearRegression(x_bounds=(0, 1), y_bounds=(0, 1)), 0.1, {}, "std must"),
        (PrivateLinearRegression(x_bounds=(0, 1), y_bounds=(0, 1)), 0.1, {"r_squared": 1.0}, "r_squared must"),
        (
            PrivateLinearRegression(x_bounds=(0, 1), y_bounds=(0, 1)),
            0.1,
            {"overlap": 0.5, "std": 1.0},
            "overlap must be 0 with one column",
        ),
        (
            PrivateLogisticRegression(x_bounds=(0, 1), weight_bounds=(0, 1)),
            0.1,
            {"baseline": 0.3},
            "weight_bounds must",
        ),
        (ClippedMean(bounds="private"), 0.1, {"std": 1.0}, "bounds must"),
        (ClippedMean(bounds=(0, 1), std=None), 0.1, {"std": 1.0}, "std must"),
        (GroupMeans(groups="discover", bounds=(0, 1)), 0.1, {"std": 1.0}, "groups must"),
        (GroupMeans(bounds=(0, 1), adjust=[1], **GROUPS), 0.1, {"std": 1.0}, "adjust must"),
        (
            GroupMeans(groups=["a", "b", "c"], bounds=(0, 1)),
            0.1,
            {"std": 1.0, "share": 0.6},
            "share must be at most 0.5",
        ),
        (LogRankTest(groups=[0, 1], horizon=1.0), 0.8, {"alternative": "less"}, "alternative must"),
        (ClippedMean(bounds=(0, 1)), 0.1, {"level": 2.0}, "level must"),
        (ClippedMean(bounds=(0, 1)), 0.1, {"alternative": "more"}, "alternative must"),
        (ClippedMean(bounds=(0, 1)), 0.1, {"column": 1}, "column must"),
    ],
)
def test_bad_calls(estimator: Any, effect: float, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        power(estimator, 200, effect, **options)


def test_sizes_and_rows_out_of_reach() -> None:
    with pytest.raises(InvalidParameter, match="n_samples must be a sequence"):
        power_curve(ClippedMean(bounds=(0, 1)), 100, 0.1, std=0.3)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="effect must be larger"):
        required_samples(ClippedMean(bounds=(0, 1)), 1e-9, std=0.3)
