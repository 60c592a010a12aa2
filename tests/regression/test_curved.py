"""Results of fits with strong levels: every question gives the same limits, and notes name levels, not noise."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.regression import PrivateCountRegression, PrivateGammaRegression, PrivateLogisticRegression

N = 20_000
RNG = np.random.default_rng(3)
TREATED = (RNG.random(N) < 0.3).astype(float)
FRAME = pd.DataFrame({"age": RNG.uniform(0, 1, N), "treated": TREATED})
MEANS = np.exp(0.2 + 0.5 * FRAME["age"]) * (1 - TREATED)
DECLARED: dict[str, Any] = {"x_bounds": (0, 1), "random_state": 0}


def fitted(kind: str) -> Any:
    if kind == "counts":
        return PrivateCountRegression(**DECLARED, y_bounds=(0, 30)).fit(FRAME, RNG.poisson(MEANS))
    if kind == "amounts":
        y = RNG.gamma(2.0, MEANS / 2 + 1e-300)
        return PrivateGammaRegression(**DECLARED, y_bounds=(0, 30)).fit(FRAME, y)
    none = (RNG.random(N) < 0.4) & (TREATED == 0)
    return PrivateLogisticRegression(**DECLARED).fit(FRAME, none if kind == "none" else ~none)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("counts", "In [treated = 1] events cannot be distinguished from none: only an upper limit"),
        ("amounts", "In [treated = 1] the mean cannot be distinguished from 0: only an upper limit"),
        ("none", "In [treated = 1] outcomes cannot be distinguished from all or none: only an upper limit"),
        ("all", "In [treated = 1] outcomes cannot be distinguished from all or none: only a lower limit"),
    ],
)
def test_a_level_without_events_has_one_limit_everywhere(kind: str, words: str) -> None:
    made, upper = fitted(kind), kind == "all"
    side = 1 if upper else -1
    assert made.one_sided_.tolist() == [0, side]
    assert made.settled_.all() and made.identified_.all() and np.isfinite(made.coef_).all()
    low, high = made.confidence_interval()
    end, limit = (high[1], low[1]) if upper else (low[1], high[1])
    assert end == side * np.inf and np.isfinite([low[0], high[0], limit]).all()
    ratios = made.odds_ratio_interval() if kind in ("none", "all") else made.rate_ratio_interval()
    assert ratios.high[1] == np.inf if upper else ratios.low[1] == 0
    # Tests at the limit have the level of the interval, and nothing beyond the missing limit is refuted.
    assert made.test("treated", float(limit)).pvalue[0] == pytest.approx(0.05, rel=1e-6)
    assert made.t_test(f"treated = {limit}").pvalue == pytest.approx([0.05], rel=1e-6)
    assert made.test("treated", side * 1e3).pvalue[0] > 0.05
    assert made.pvalues["treated"] == pytest.approx(made.test("treated").pvalue[0])
    summary = str(made.summary())
    assert words in summary and ("inf" if upper else "-inf") in summary
    for wrong in ("Noise hides", "did not settle", "still grew"):
        assert wrong not in summary
    frame = made.estimates().to_frame()
    assert frame["high" if upper else "low"]["treated"] == side * np.inf
    assert json.dumps(made.estimates().to_dict())
    again = pickle.loads(pickle.dumps(made))
    assert str(again.summary()) == summary
    found = again.get_prediction(FRAME[:20]).confidence_interval()
    at = TREATED[:20] == 1
    assert (found.high[at] == 1).all() if upper else (found.low[at] == 0).all()
    assert (found.low[~at] > 0).all()
    made.estimates().plot()


def test_an_open_reference_level_opens_the_constant_too() -> None:
    rng = np.random.default_rng(4)
    y = rng.poisson(TREATED * 2.0)
    made = PrivateCountRegression(**DECLARED, y_bounds=(0, 30)).fit(FRAME, y)
    assert made.one_sided_.tolist() == [0, 1]
    assert made.confidence_interval().high[1] == np.inf
    assert made.intercept_confidence_interval().low == -np.inf
    low, high = made.t_test("Intercept + treated = 0").confidence_interval()
    assert np.isfinite([low, high]).all()
    assert "In [treated = 0] events cannot be distinguished from none: only a lower limit" in str(made.summary())


def test_separation_by_another_column_is_not_blamed_on_noise() -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(5000, 2)).clip(-4, 4)
    made = PrivateLogisticRegression(x_bounds=(-4, 4), random_state=0, epsilon=3).fit(X, X[:, 0] > 0.3)
    summary = str(made.summary())
    assert made.separated_ and not made.identified_.any()
    assert "still grew" in summary and "Noise hides" not in summary


def test_strong_levels_are_covered() -> None:
    hits = np.zeros(2)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        y = rng.poisson(np.exp(0.2 + FRAME.to_numpy() @ [0.5, -2.6]))
        made = PrivateCountRegression(**DECLARED | {"random_state": seed}, y_bounds=(0, 30)).fit(FRAME, y)
        low, high = made.confidence_interval()
        hits += (low <= [0.5, -2.6]) & (high >= [0.5, -2.6])
    assert (hits >= 10).all()


@pytest.mark.parametrize("kind", ["counts", "amounts", "classes"])
def test_a_level_with_fewer_rows_than_noise_has_no_coefficient(kind: str) -> None:
    # 30 of 3,000 rows have the level z, and the noise of this number is 47.
    for seed in range(4):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({"g": np.array(["a", "b", "c", "z"])[rng.choice(4, 3000, p=[0.74, 0.15, 0.1, 0.01])]})
        options: dict[str, Any] = {"levels": {"g": ["a", "b", "c", "z"]}, "random_state": seed}
        if kind == "classes":
            frame["y"] = rng.random(3000) < 0.6
            made: Any = PrivateLogisticRegression.from_formula("y ~ C(g)", frame, bounds={}, **options)
        else:
            made = PrivateCountRegression if kind == "counts" else PrivateGammaRegression
            frame["y"] = rng.poisson(3.0, 3000) if kind == "counts" else rng.gamma(2.0, 2.0, 3000)
            made = made.from_formula("y ~ C(g)", frame, bounds={"y": (0, 30)}, **options)
        interval = made.confidence_interval()
        if not made.identified_[2]:
            assert made.coef_[2] == 0 and (interval.low[2], interval.high[2]) == (-np.inf, np.inf)
            assert "[C(g)[T.z] = 1]" not in str(made.summary())
        assert interval.low[2] <= 0 <= interval.high[2] and not made.pvalues["C(g)[T.z]"] < 0.001
