"""Private rank correlations: their sums, how far a row moves them, intervals, and parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

from dpstats.covariance import PrivateCorrelation
from dpstats.covariance.private_correlation import CONCORDANCE, SQUARES, concordance_sums
from dpstats.errors import InvalidData, InvalidParameter


def slowly(X: np.ndarray) -> tuple[list[int], list[int]]:
    """Return the sums from their definition."""
    n, d = X.shape
    total, squares = [], []
    for i in range(d):
        for j in range(i + 1, d):
            own = [
                sum(int(np.sign(X[k, i] - X[m, i]) * np.sign(X[k, j] - X[m, j])) for m in range(n)) for k in range(n)
            ]
            total.append(sum(own) // 2)
            squares.append(sum(value**2 for value in own))
    return total, squares


@pytest.mark.parametrize("n", [2, 7, 40])
def test_sums_are_those_of_the_definition(n: int) -> None:
    X = np.random.default_rng(n).integers(0, 5, size=(n, 3)).astype(float)
    found = concordance_sums(X)
    assert (found[CONCORDANCE].tolist(), found[SQUARES].tolist()) == slowly(X)


def test_far_numbers_are_compared_exactly() -> None:
    X = np.array([[1e308, -1e308], [-1e308, 1e308], [0.0, 5e-324]])
    assert concordance_sums(X)[CONCORDANCE].tolist() == [-3]


def test_sums_of_many_rows_have_64_bits() -> None:
    # The squares are above 2^53, where floats skip integers, and above 2^32, where integers of 32 bits end.
    n = 250_000
    x = np.arange(n, dtype=float)
    found = concordance_sums(np.column_stack([x, -x]))
    assert found[CONCORDANCE].tolist() == [-n * (n - 1) // 2]
    assert found[SQUARES].tolist() == [n * (n - 1) ** 2] and n * (n - 1) ** 2 > 2**53


def test_the_largest_plan_stays_inside_64_bits() -> None:
    n = 1_000_000
    assert n * (n - 1) ** 2 < 2**62
    stage = PrivateCorrelation(epsilon=0.05).plan(n, 10).stages[0]
    # Noise is beyond 400 standard deviations with probability e^-80000.
    assert n * (n - 1) ** 2 + 400 * stage.scale * stage.blocks[1].unit_steps < 2**63
    with pytest.raises(InvalidParameter, match="n_samples must be"):
        PrivateCorrelation().plan(n + 1, 2)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_no_row_moves_the_sums_further_than_the_theorems_say(d: int) -> None:
    rng = np.random.default_rng(d)
    worst, worst_square = 0.0, 0.0
    for k in range(1500):
        n = int(rng.integers(2, 7))
        X = rng.integers(0, 3, size=(n, d)).astype(float)
        if k % 2:
            X[1:] = X[1]
        Y = X.copy()
        X[0], Y[0] = rng.integers(-1, 4, size=(2, d))
        a, b = concordance_sums(X), concordance_sums(Y)
        worst = max(worst, np.linalg.norm(a[CONCORDANCE] - b[CONCORDANCE]) / ((n - 1) * d))
        worst_square = max(worst_square, np.abs(a[SQUARES] - b[SQUARES]).max() / (5 * (n - 1) ** 2))
    assert 0.85 < worst <= 1 + 1e-12
    assert 0.15 < worst_square <= 1


def test_without_much_noise_it_is_the_correlation_of_scipy() -> None:
    X = np.random.default_rng(0).normal(size=(300, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]])
    made = PrivateCorrelation(epsilon=1e6, random_state=0).fit(X)
    assert made.correlation_[0, 1] == pytest.approx(kendalltau(*X.T).statistic, abs=1e-3)


LAWS = {
    "independent, heavy tails": (lambda rng, n: rng.standard_cauchy(size=(n, 2)), 0.0),
    "normal, 0.5": (
        lambda rng, n: rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], size=n),
        2 / math.pi * math.asin(0.5),
    ),
    "normal, 0.99": (
        lambda rng, n: rng.multivariate_normal([0, 0], [[1, 0.99], [0.99, 1]], size=n),
        2 / math.pi * math.asin(0.99),
    ),
    # Of two rows of a binary column and its copy, half of the pairs are ties.
    "binary": (lambda rng, n: np.repeat(rng.integers(0, 2, size=(n, 1)), 2, axis=1).astype(float), 0.5),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("epsilon", [0.2, 20.0])
def test_intervals_cover(law: str, epsilon: float) -> None:
    # Of 120 intervals at 0.95 fewer than 103 cover with probability 1e-4.
    draw, tau = LAWS[law]
    rng = np.random.default_rng(6)
    covered = 0
    for seed in range(120):
        made = PrivateCorrelation(epsilon=epsilon, random_state=seed).fit(draw(rng, 250))
        low, high = made.confidence_interval()
        covered += bool(low[0] <= tau <= high[0])
    assert covered >= 103


def test_what_is_printed() -> None:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["a", "b", "c"])
    made = PrivateCorrelation(epsilon=0.05, random_state=0).fit(X)
    text = str(made.summary())
    assert "a, b" in text and "Kendall's tau" in text and "below 50 rows" in text
    interval = made.confidence_interval()
    assert np.all(interval.low >= -1) and np.all(interval.high <= 1)
    assert "times its sampling error" in made.plan_.notes()[0] and "noise_std" in made.plan_.facts()
    assert made.test(0.0, simultaneous=True).pvalue.shape == (3,)


@pytest.mark.parametrize(
    ("options", "size", "words"),
    [
        ({"method": "pearson"}, (10, 2), "bounds must be"),
        ({"bounds": (0, 1)}, (10, 2), "bounds must be None for method='kendall'"),
        ({"method": "tau"}, (10, 2), "method must be"),
        ({"method": "pearson", "bounds": (0, 1), "delta": 0.0}, (10, 2), "delta must be greater than 0"),
        ({}, (10, 1), "n_features must"),
    ],
)
def test_bad_parameters(options: dict[str, Any], size: tuple[int, int], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        PrivateCorrelation(**options).plan(*size)


def test_missing_entries_are_refused() -> None:
    with pytest.raises(InvalidData, match="NaN"):
        PrivateCorrelation(random_state=0).fit([[1.0, 2.0], [np.nan, 1.0], [0.0, 1.0]])


@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_a_row_moves_the_sums_by_what_laplace_noise_covers(d: int) -> None:
    # In l1: the most is reached where half of the signs of every pair of rows change.
    rng, n, most = np.random.default_rng(d), 5, 2 * (d**2 // 4) * 4
    rest = rng.permuted(np.tile(np.arange(4.0)[:, None], (1, d)), axis=0)
    first, second = np.full(d, 9.0), np.where(np.arange(d) < d // 2, 9.0, -9.0)
    moved = []
    for _ in range(300):
        sums = [concordance_sums(np.vstack([row, rest]))[CONCORDANCE] for row in (first, second)]
        moved.append(int(np.abs(sums[0] - sums[1]).sum()))
        rest = rng.integers(0, 4, size=(4, d)).astype(float)
        first, second = rng.integers(-1, 5, size=(2, d)).astype(float)
    assert moved[0] == most == max(moved)
    stage = PrivateCorrelation(delta=0).plan(n, d).stages[0]
    assert stage.blocks[0].unit_steps == most and stage.noise == "laplace"


@pytest.mark.parametrize("method", ["kendall", "spearman"])
def test_the_smaller_noise_is_chosen_and_intervals_know_its_tails(method: str) -> None:
    given = {"method": method, "random_state": 0}
    few, many = (PrivateCorrelation(**given).plan(1000, d) for d in (2, 8))
    assert few.guarantee.delta == 0 and few.delta_asked == 1e-6 and "Noise chosen" in str(few)
    assert many.guarantee.delta == 1e-6 and many.laplace == 0
    assert few.noise_std == PrivateCorrelation(**given, delta=0).plan(1000, 2).noise_std == few.laplace
    # Noise is nearly all of this error: the half-width at level .999 is that of Laplace noise.
    made = PrivateCorrelation(**given, epsilon=0.05).fit(np.random.default_rng(0).normal(size=(2000, 2)))
    low, high = made.confidence_interval(0.999)
    assert (high[0] - low[0]) / 2 > 0.9 * math.log(1000) / math.sqrt(2) * made.noise_std_
