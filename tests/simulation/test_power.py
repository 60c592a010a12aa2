"""Power of private tests: formulas agree with simulated fits, one signature for all families, and bad calls."""

from __future__ import annotations

from collections.abc import Callable
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

Case = tuple[Any, int, float, dict[str, Any], Callable[[Any, np.random.Generator], float]]
FITS = 500


def two_groups(
    low: float, high: float, draw: Callable[[np.random.Generator, np.ndarray], np.ndarray], n: int
) -> Any:
    def pvalue(model: Any, rng: np.random.Generator) -> float:
        second = rng.random(n) < 0.5
        values = np.clip(draw(rng, second), low, high)
        model.fit(values[:, None], np.where(second, "b", "a"))
        return float(np.ravel(model.difference("b", "a").test(0.0).pvalue)[0])

    return pvalue


def paired(model: Any, rng: np.random.Generator) -> float:
    return float(model.fit(rng.normal(2.5, 10, size=(200, 1))).test(0.0).pvalue[0])


def proportion(model: Any, rng: np.random.Generator) -> float:
    return float(np.ravel(model.fit(rng.random(300) < 0.38).test(0.3).pvalue)[0])


def linear(model: Any, rng: np.random.Generator) -> float:
    X = rng.uniform(-1, 1, size=(3000, 2))
    y = 0.12 * X[:, 0] + 0.7 * X[:, 1] + rng.normal(size=3000)
    return float(np.asarray(model.fit(X, y).pvalues)[1])


def logistic(model: Any, rng: np.random.Generator) -> float:
    X = (rng.random((4000, 1)) < 0.3).astype(float)
    return float(np.asarray(model.fit(X, rng.random(4000) < 1 / (1 + np.exp(1 - 0.3 * X[:, 0]))).pvalues)[1])


GROUPS: dict[str, Any] = {"groups": ["a", "b"], "random_state": 0}
EXPLAINED = 0.49 / 3
CASES: dict[str, Case] = {
    "means": (
        GroupMeans(bounds=(80, 200), **GROUPS),
        400,
        8.0,
        {"std": 18.0, "baseline": 130.0},
        two_groups(80, 200, lambda rng, second: rng.normal(130 + 8 * second, 18), 400),
    ),
    "proportions": (
        GroupMeans(bounds=(0, 1), **GROUPS),
        600,
        0.12,
        {"baseline": 0.3},
        two_groups(0, 1, lambda rng, second: (rng.random(600) < 0.3 + 0.12 * second).astype(float), 600),
    ),
    "paired differences": (ClippedMean(bounds=(-40, 40)), 200, 2.5, {"std": 10.0}, paired),
    "one proportion": (PrivateProportion(), 300, 0.08, {"baseline": 0.3}, proportion),
    "linear": (
        PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-5, 5)),
        3000,
        0.12,
        {"std": float(np.sqrt(1 + EXPLAINED)), "r_squared": EXPLAINED / (1 + EXPLAINED), "n_features": 2},
        linear,
    ),
    "logistic": (
        PrivateLogisticRegression(x_bounds=(0, 1)),
        4000,
        0.3,
        {"baseline": 0.287, "share": 0.3},
        logistic,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_powers_agree_with_simulated_fits(name: str) -> None:
    estimator, n, effect, assumed, pvalue = CASES[name]
    found = np.mean(
        [
            pvalue(
                type(estimator)(**{**estimator.get_params(), "random_state": seed}),
                np.random.default_rng(seed),
            )
            < 0.05
            for seed in range(FITS)
        ]
    )
    expected = power(estimator, n, effect, **assumed)
    assert abs(found - expected) <= 0.08 + 2 * np.sqrt(expected * (1 - expected) / FITS)


@pytest.mark.parametrize("name", CASES)
def test_required_rows_have_the_power(name: str) -> None:
    estimator, _, effect, assumed, _ = CASES[name]
    n = required_samples(estimator, effect, 0.9, **assumed)
    assert power(estimator, n, effect, **assumed) >= 0.9 > power(estimator, int(0.95 * n), effect, **assumed)


def test_survival_has_the_same_signature() -> None:
    test = LogRankTest(groups=["old", "new"], horizon=5.0)
    assert power(test, 2000, 0.8, baseline=0.5) == test.power(2000, 0.8)
    assert abs(required_samples(test, 0.8) / test.required_samples(0.8) - 1) < 0.05


def test_more_rows_effect_or_epsilon_have_more_power() -> None:
    means = GroupMeans(bounds=(80, 200), **GROUPS)
    curve = power_curve(means, [100, 200, 400, 800], 8.0, std=18.0)
    assert (np.diff(curve.power) > 0).all() and "0." in str(curve) and len(curve.to_frame()) == 4
    axis = curve.plot()
    assert axis.lines[0].get_ydata().tolist() == curve.power.tolist() and axis.get_xlabel() == "rows"
    base = power(means, 400, 8.0, std=18.0)
    assert power(means, 400, 9.0, std=18.0) > base == power(means, 400, -8.0, std=18.0)
    assert power(means, 400, 8.0, std=18.0, alternative="greater") > base
    assert power(means, 400, 8.0, std=18.0, alternative="less") < 0.01
    assert power(GroupMeans(bounds=(80, 200), epsilon=0.1, **GROUPS), 400, 8.0, std=18.0) < base
    line = PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-5, 5))
    assert power(line, 3000, 0.12, std=1.0, overlap=0.5) < power(line, 3000, 0.12, std=1.0)


def test_no_effect_is_found_at_the_level() -> None:
    assert power(ClippedMean(bounds=(-40, 40), std=10.0), 10_000, 0.0, std=10.0, level=0.1) == pytest.approx(
        0.1
    )


@pytest.mark.parametrize(
    ("estimator", "effect", "options", "words"),
    [
        (PrivateQuantile(bounds=(0, 1)), 1.0, {}, "estimator must be one of GroupMeans"),
        (3, 1.0, {}, "estimator must"),
        (ClippedMean(bounds=(0, 1)), 0.1, {}, "std must"),
        (ClippedMean(bounds="private"), 0.1, {"std": 1.0}, "bounds must"),
        (GroupMeans(bounds=(0, 90), **GROUPS), 0.1, {}, "std must"),
        (
            GroupMeans(groups=["a"], bounds=(0, 1)),
            0.1,
            {"std": 1.0},
            "estimator must be GroupMeans of at least two",
        ),
        (PrivateProportion(), 0.1, {}, "baseline must"),
        (PrivateProportion(), 0.9, {"baseline": 0.3}, "baseline \\+ effect must"),
        (PrivateLinearRegression(x_bounds=(0, 1), y_bounds=(0, 1)), 0.1, {}, "std must"),
        (
            PrivateLinearRegression(x_bounds=(0, 1), y_bounds=(0, 1)),
            0.1,
            {"r_squared": 1.0},
            "r_squared must",
        ),
        (
            PrivateLinearRegression(x_bounds=(0, 1), y_bounds=(0, 1)),
            0.1,
            {"share": 0.001, "std": 1.0},
            "n_samples must",
        ),
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
