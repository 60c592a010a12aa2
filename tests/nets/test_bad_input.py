"""Bad input to statistics and covariances: one clear error before any charge, or an interval that is true.

Each row of a table is one input with its outcome, for each class.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.covariance import HotellingTest, PrivateCorrelation, PrivateCovariance, PrivatePCA
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.statistic import PrivateStatistic

SECRET = "31.4159 Baker Street"
N = 1300
X = np.random.default_rng(0).normal(size=(N, 2))


def mean_of_first(block: Any) -> float:
    return float(np.asarray(block)[:, 0].mean())


CLASSES: dict[str, Callable[..., Any]] = {
    "covariance": lambda **given: PrivateCovariance(**{"bounds": (-4, 4), **given}),
    "correlation": PrivateCorrelation,
    "components": lambda **given: PrivatePCA(**{"bounds": (-4, 4), **given}),
    "test": lambda **given: HotellingTest(**{"bounds": (-4, 4), **given}),
    "statistic": lambda **given: PrivateStatistic(mean_of_first, **{"epsilon": 20.0, **given}),
}


def refused(made: Callable[..., Any], data: Any, kind: type[Exception], words: str, **options: Any) -> None:
    """Assert that a fit raises one error with these words, without a charge and without an entry."""
    budget = PrivacyBudget(1e6, 0.5)
    with pytest.raises(kind, match=words) as caught:
        made(budget=budget, **options).fit(data)
    assert not budget.history()
    assert SECRET not in str(caught.value) and "77.125" not in str(caught.value)


def fitted(made: Callable[..., Any], data: Any, capsys: pytest.CaptureFixture[str], **options: Any) -> Any:
    """Return a fit that prints nothing and warns of nothing, and whose statements can be printed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = made(random_state=0, **options).fit(data)
        interval = found.confidence_interval()
        assert str(found.summary()) and found.to_frame() is not None
        assert np.all((found.test(0.0).pvalue >= 0) & (found.test(0.0).pvalue <= 1))
    assert not np.isnan(interval.low).any() and np.all(np.asarray(interval.low) <= interval.high)
    assert capsys.readouterr() == ("", "")
    return found


TABLE = "X must be a 2-d table"
BAD_DATA: dict[str, tuple[Any, str]] = {
    "one row": (X[:1], "at least 2 rows, got n_samples = 1"),
    "no rows": (X[:0], "0 sample"),
    "no columns": (np.zeros((N, 0)), "0 feature"),
    "nothing": (None, TABLE),
    "three dimensions": (np.zeros((N, 2, 2)), "dim 3"),
    "NaN": (np.where(np.arange(2 * N).reshape(N, 2) == 8, np.nan, 77.125), "NaN or infini"),
    "infinite": (np.where(np.arange(2 * N).reshape(N, 2) == 8, -np.inf, 77.125), "NaN or infini"),
    "complex": (X * 1j, "[Cc]omplex"),
    "text": (np.array([["1", SECRET]] * N, dtype=object), "holds text"),
    "dates": (pd.DataFrame({"a": pd.date_range("2020", periods=N), "b": X[:, 0]}), "holds dates"),
    "one name twice": (pd.DataFrame(X, columns=["a", "a"]), "a different name for every column"),
}


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data_are_refused_before_a_charge(case: str, name: str) -> None:
    data, words = BAD_DATA[case]
    refused(CLASSES[name], data, InvalidData, words)


UNUSUAL: dict[str, Any] = {
    "a constant column": np.column_stack([X[:, 0], np.full(N, 0.3)]),
    "constant rows": np.zeros((N, 3)),
    "rows at a bound": np.full((N, 2), 4.0),
    "the same column three times": np.column_stack([X[:, 0]] * 3),
    "truth values": X > 0,
    "numbers beyond all bounds": np.where(X > 0, 1e308, -1e308),
    "largest integers": np.full((N, 2), 2**62),
}


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("case", UNUSUAL)
def test_unusual_columns_have_intervals(case: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    fitted(CLASSES[name], UNUSUAL[case], capsys)


@pytest.mark.parametrize("name", [name for name in CLASSES if name != "statistic"])
@pytest.mark.parametrize(("n", "d"), [(6, 12), (2, 2), (3, 20)])
def test_more_columns_than_rows_give_no_false_precision(
    n: int, d: int, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Variances are 1, and all other parameters are 0.
    data = np.random.default_rng(n).normal(size=(n, d))
    made = fitted(CLASSES[name], data, capsys)
    low, high = made.confidence_interval(0.9999)
    truth = {"covariance": np.eye(d)[np.triu_indices(d)], "components": 1.0}.get(name, 0.0)
    assert np.all((low <= truth) & (truth <= high)) and "below 50 rows" in str(made.summary())


BAD_PARAMETERS: list[tuple[str, dict[str, Any], str]] = [
    *((name, {"bounds": (1, -1)}, "bounds must") for name in CLASSES if name != "correlation"),
    *((name, {"bounds": (0, 0)}, "bounds must") for name in CLASSES if name != "correlation"),
    *((name, {"bounds": ("a", "b")}, "bounds must") for name in CLASSES if name != "correlation"),
    *((name, {"bounds": (-np.inf, np.inf)}, "bounds must") for name in CLASSES if name != "correlation"),
    *((name, {"bounds": None}, "bounds must") for name in CLASSES if name != "correlation"),
    *((name, {"epsilon": value}, "epsilon must") for name in CLASSES for value in (0, -1, "1", np.nan, None)),
    *((name, {"delta": value}, "delta must") for name in CLASSES for value in (-1, 1, "x", None)),
    *((name, {"random_state": "a"}, "random_state must") for name in CLASSES),
    ("covariance", {"bounds": [(-1, 1), (1, -1)]}, "low < high for column 1"),
    ("components", {"n_components": 3}, "n_components must be an integer at least 1 and at most 2"),
    ("components", {"scale": True}, "scale must be"),
    ("correlation", {"method": ["kendall"]}, "method must be"),
    ("test", {"mean": [0, 9]}, "mean must be inside the bounds"),
    ("test", {"groups": ["a", "a"]}, "groups must be distinct"),
    ("test", {"assume": []}, "assume must be"),
    ("statistic", {"bias": ["jackknife"]}, "bias must be 'jackknife'"),
    ("statistic", {"link": ["log"]}, "link must be 'fisher'"),
    ("statistic", {"unit": ["who"]}, "unit must be the name of one column"),
    ("statistic", {"blocks": True}, "blocks must be"),
    ("statistic", {"n_outputs": 1.5}, "n_outputs must be"),
    ("statistic", {"skewness": np.inf}, "skewness must be"),
    ("statistic", {"resolution": 1e300}, "resolution must be"),
    # A timer cannot hold these: it would be off, or fail after the charge.
    ("statistic", {"time_limit": 1e-9}, "time_limit must be"),
    ("statistic", {"time_limit": 1e300}, "time_limit must be"),
    ("statistic", {"epsilon": 0.05}, "n_samples must be at least 19,200 at epsilon = 0.05, got 1,300"),
]


@pytest.mark.parametrize(("name", "options", "words"), BAD_PARAMETERS, ids=str)
def test_bad_parameters_are_refused_before_a_charge(name: str, options: dict[str, Any], words: str) -> None:
    refused(CLASSES[name], X, InvalidParameter, words, **options)


def shouts(block: Any) -> float:
    print(SECRET)
    warnings.warn(SECRET, stacklevel=1)
    return mean_of_first(block)


def clears(block: Any) -> float:
    found = mean_of_first(block)
    np.asarray(block)[:] = 0.0
    return found


def fails(block: Any) -> float:
    raise ValueError(SECRET)


def sleeps(block: Any) -> float:
    while True:
        time.perf_counter()


GOOD_FUNCTIONS = {"prints": shouts, "changes its input": clears, "is a lambda": lambda block: mean_of_first(block)}
FAILING_FUNCTIONS: dict[str, Any] = {
    "raises": fails,
    "never ends": sleeps,
    "returns text": lambda block: "31",
    "returns nothing": lambda block: None,
    "returns NaN": lambda block: np.nan,
    "returns too many numbers": lambda block: [1.0, 2.0],
    "returns a complex number": lambda block: 1j,
}


@pytest.mark.parametrize("what", GOOD_FUNCTIONS)
def test_a_function_that_misbehaves_leaks_nothing(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    function, expected = GOOD_FUNCTIONS[what], fitted(CLASSES["statistic"], X, capsys)
    found = fitted(lambda **given: PrivateStatistic(function, epsilon=20.0, **given), X, capsys)
    assert found.estimate_ == expected.estimate_


@pytest.mark.parametrize("what", FAILING_FUNCTIONS)
def test_a_function_that_fails_has_its_bounds_as_the_interval(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"epsilon": 20.0, "bias": None, "bounds": (-2, 5)}
    limit = 0.001 if what == "never ends" else None
    function = FAILING_FUNCTIONS[what]
    made = fitted(lambda **given: PrivateStatistic(function, time_limit=limit, **options, **given), X, capsys)
    assert tuple(made.confidence_interval()) == (-2.0, 5.0) and not made.located_
    assert SECRET not in str(made.summary()) and "were not located" in str(made.summary())
