"""Hotelling's test: level, power, intervals, parameters and printed statements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.covariance import HotellingTest
from dpstats.errors import InvalidData, InvalidParameter

MIXING = np.linalg.cholesky(np.array([[1.0, 0.7, 0.4], [0.7, 1.0, 0.7], [0.4, 0.7, 1.0]]))


def rejections(
    monkeypatch: pytest.MonkeyPatch, rows: Any, repetitions: int, options: dict[str, Any], n: int
) -> np.ndarray:
    """Return p-values of many datasets; the plan, which is public, is made once."""
    plan = HotellingTest(**options).plan(n, 3)
    monkeypatch.setattr(HotellingTest, "plan", lambda self, n_samples, n_features: plan)
    rng = np.random.default_rng(5)
    found = []
    for k in range(repetitions):
        X, y = rows(rng)
        found.append(HotellingTest(**options, random_state=k).fit(X, y).pvalue_)
    return np.array(found)


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(size=(n, 3)) @ MIXING.T


# With 300 datasets a test of level 0.05 rejects more than 32 of them with probability 1e-4.
CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "heavy tails, symmetric": (
        {"bounds": (-6, 6)},
        lambda rng: (normal(rng, 1500) / np.sqrt(rng.chisquare(3, 1500) / 3)[:, None], None),
    ),
    "skewed rows, by their means": (
        {"bounds": (0, 12), "bounds_are": "hard", "assume": "mean", "mean": 1.0, "epsilon": 8.0},
        lambda rng: (np.minimum(rng.exponential(size=(1500, 3)), 12.0), None),
    ),
    "two skewed samples of one distribution": (
        {"bounds": (0, 9), "groups": [False, True]},
        lambda rng: (np.exp(normal(rng, 1500) / 2), rng.random(1500) < 0.3),
    ),
    "two samples of unequal size and covariance, by their means": (
        {"bounds": (-6, 6), "groups": [False, True], "assume": "mean", "epsilon": 30.0},
        lambda rng: (lambda y: (normal(rng, 1500) * np.where(y, 0.3, 1.5)[:, None], y))(rng.random(1500) < 0.25),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_level_holds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options, rows = CASES[name]
    found = rejections(monkeypatch, rows, 300, options, 1500)
    assert (found <= 0.05).sum() <= 32


def test_the_power_is_near_that_without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    # Hotelling's own test has power 0.9 at this distance; of 100 datasets at least 65, at 0.8, but once in 3,000 runs.
    shift = MIXING @ np.full(3, np.sqrt(14.3 / 3 / 3000))
    found = rejections(monkeypatch, lambda rng: (normal(rng, 3000) + shift, None), 100, {"bounds": (-5, 5)}, 3000)
    assert (found <= 0.05).sum() >= 65


def test_a_test_of_means_on_shrunk_skewed_rows_would_be_noticed() -> None:
    # The assumption matters: the same skewed rows are rejected as not symmetric about their mean.
    X = np.random.default_rng(0).exponential(size=(20_000, 3))
    options = {"bounds": (0, 12), "mean": 1.0, "random_state": 0}
    assert HotellingTest(**options).fit(X).pvalue_ < 1e-6
    assert HotellingTest(**options, assume="mean").fit(X).pvalue_ > 1e-3


def test_estimates_are_differences_in_the_units_of_the_data() -> None:
    X = np.random.default_rng(0).normal([5.0, 100.0], [1.0, 30.0], size=(20_000, 2))
    made = HotellingTest(mean=[4.9, 100.0], bounds=[(0, 10), (-100, 300)], random_state=0).fit(X)
    interval = made.confidence_interval(0.9999)
    assert np.all((interval.low < [0.1, 0.0]) & (interval.high > [0.1, 0.0]))
    assert made.difference_ == pytest.approx(made.estimates().estimate)
    y = np.arange(20_000) % 4 == 0
    made = HotellingTest(groups=[True, False], bounds=[(0, 20), (-100, 300)], random_state=0, epsilon=5.0)
    interval = made.fit(X + np.where(y[:, None], [0.3, 0.0], 0.0), y).confidence_interval(0.9999)
    # Shrinking rows moves a difference a little towards 0.
    assert interval.high[0] > 0.2 and interval.low[0] < 0.3 and interval.low[1] < 0 < interval.high[1]


def test_what_is_printed() -> None:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(2000, 2)), columns=["a", "b"])
    made = HotellingTest(bounds={"b": (-4, 4), "a": (-5, 5)}, random_state=0).fit(X)
    text = str(made.summary())
    assert "symmetric about the mean" in text and "skewed rows" in text and "simulated" in text
    assert str(made.result_.summary()).count("all columns together") == 1
    assert made.result_.to_dict()["simulated"] is True
    assert made.result_.confidence_interval().simultaneous
    assert "symmetric" in made.methods_text()
    clipped = HotellingTest(bounds=(-4, 4), assume="mean", random_state=0).fit(X)
    assert "clipped to the bounds" in clipped.estimand_
    hard = HotellingTest(bounds=(-9, 9), bounds_are="hard", assume="mean", random_state=0).fit(X)
    assert "clipped" not in hard.estimand_
    assert "noise_ratio" in made.plan_.facts() and not clipped.plan_.facts()


def test_one_empty_sample_has_no_estimates_and_no_rejection() -> None:
    X = np.random.default_rng(0).normal(size=(500, 2))
    made = HotellingTest(groups=["a", "b"], bounds=(-4, 4), random_state=0).fit(X, ["a"] * 500)
    assert np.isinf(made.confidence_interval().high).all() and "may be empty" in str(made.summary())
    assert made.pvalue_ > 1e-4


def test_few_rows_and_much_noise() -> None:
    for n, epsilon in ((2, 0.05), (5, 1.0), (6, 1e5)):
        X = np.random.default_rng(0).normal(size=(n, 5))
        made = HotellingTest(bounds=(-4, 4), epsilon=epsilon, random_state=0).fit(X)
        assert 0 <= made.pvalue_ <= 1 and np.isfinite(made.standard_error_).all()
        assert "Warning" in str(made.summary())
    assert made.pvalue_ == 1.0 or made.degrees_ >= 5


def test_a_small_sample_is_noted() -> None:
    # Of 500 rows, 2 % are in one sample: without noise 0.15 of datasets with few values other than 0 were rejected at
    # 0.05.
    X = np.random.default_rng(0).normal(size=(500, 2))
    for few, noted in ((10, True), (45, True), (100, False)):
        made = HotellingTest(groups=[1, 0], bounds=(-4, 4), epsilon=50.0, random_state=0)
        text = str(made.fit(X, np.arange(500) < few).summary())
        assert ("below 50 rows per column in both samples, or 25 in one" in " ".join(text.split())) is noted


def test_constant_and_duplicate_columns() -> None:
    x = np.random.default_rng(0).normal(size=2000)
    made = HotellingTest(bounds=(-4, 4), random_state=0).fit(np.column_stack([x, x, np.zeros(2000)]))
    assert made.pvalue_ > 1e-3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mean": 9.0}, "mean must be inside the bounds, got 9"),
        ({"groups": ["a", "b"], "mean": 0.0}, "mean must be None with groups"),
        ({"groups": ["a"]}, "groups"),
        ({"groups": ["a", "b", "c"]}, "groups must be a pair"),
        ({"assume": "normal"}, "assume must be"),
        ({"delta": 0.0}, "delta must be greater than 0"),
        ({"bounds": (1, 0)}, "bounds"),
        ({"bounds": None}, "bounds must be given"),
    ],
)
def test_bad_parameters(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        HotellingTest(**{"bounds": (-1, 1), **options}).plan(100, 2)


def test_labels_that_nobody_declared_are_refused_without_showing_them() -> None:
    test = HotellingTest(groups=["a", "b"], bounds=(-4, 4), unknown="error", random_state=0)
    with pytest.raises(InvalidData, match="declared groups only") as caught:
        test.fit(np.zeros((4, 2)), ["a", "b", "secret", "a"])
    assert "secret" not in str(caught.value)
