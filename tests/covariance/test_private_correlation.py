"""Private correlations by either method: labels, words, and estimands that are refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpstats.covariance import PrivateCorrelation
from dpstats.errors import InvalidParameter
from tests.covariance.test_shrunk_correlations import normal


def test_labels_and_words() -> None:
    X = pd.DataFrame(normal(np.random.default_rng(8), 2000), columns=["a", "b", "c"])
    bounds = {"c": (-5, 5), "a": (-6, 6), "b": (-7, 7)}
    made = PrivateCorrelation(method="pearson", bounds=bounds, random_state=0).fit(X)
    assert made.plan_.frame.half.tolist() == [6, 7, 5]
    assert made.to_frame().index.tolist() == ["a, b", "a, c", "b, c"]
    text = str(made.summary())
    assert "elliptical distribution" in text and "rows were shrunk" in text
    assert "rows shrunk into the released ellipsoid" in str(made.summary(estimand="clipped"))


def test_a_column_twice_has_a_correlation_of_at_most_one() -> None:
    X = normal(np.random.default_rng(1), 2001)[:, [0, 1, 0]]
    for seed in range(10):
        made = PrivateCorrelation(method="pearson", bounds=(-5, 5), random_state=seed).fit(X)
        for estimand in ("clipped", "population"):
            found = made.estimates(estimand=estimand)
            low, high = found.confidence_interval()
            assert 0.98 < found.estimate[1] <= 1 and high[1] <= 1 and low[1] <= found.estimate[1]
        assert np.abs(made.correlation_).max() <= 1


def test_an_estimand_of_tau_is_refused() -> None:
    made = PrivateCorrelation(random_state=0).fit(normal(np.random.default_rng(9), 60))
    with pytest.raises(InvalidParameter, match="estimand must be None for method='kendall'"):
        made.confidence_interval(estimand="population")
    shrunk = PrivateCorrelation(method="pearson", bounds=(-4, 4), random_state=0)
    with pytest.raises(InvalidParameter, match="estimand must be"):
        shrunk.fit(normal(np.random.default_rng(9), 600)).estimates(estimand="all")


def test_a_pair_is_identified_where_both_of_its_columns_are() -> None:
    rows = np.random.default_rng(0).normal(size=(2000, 3)) * [1.0, 1.0, 0.05]
    fitted = PrivateCorrelation(
        method="pearson", bounds=[(-3, 3), (-3, 3), (-300, 300)], epsilon=3.0, random_state=0
    ).fit(rows)
    assert fitted.identified_.tolist() == [[True, True, False], [True, True, False], [False, False, False]]
