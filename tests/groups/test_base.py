"""What the estimators of ratios share: levels, tails and rows that count."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import InvalidData
from dpstats.groups.base import normal_quantile, pvalue_of, rows_that_count, tail_of


def test_quantiles_and_tails() -> None:
    assert normal_quantile(0.025) == pytest.approx(1.959964) and normal_quantile(0.5) == 0.0
    assert tail_of(0.95, "two-sided") == pytest.approx(0.025) and tail_of(0.95, "less") == pytest.approx(0.05)
    assert tail_of(0.3, "greater") == 0.5
    z = np.array([-1.96, 0.0, 1.96])
    assert pvalue_of(z, "two-sided") == pytest.approx([0.05, 1.0, 0.05], abs=1e-4)
    assert pvalue_of(z, "less") == pytest.approx([0.025, 0.5, 0.975], abs=1e-4)
    assert pvalue_of(z, "greater") == pytest.approx([0.975, 0.5, 0.025], abs=1e-4)


def test_rows_that_count() -> None:
    X = np.ones((3, 2))
    assert rows_that_count(X, "error").all() and rows_that_count(X.astype(int), "error").all()
    for bad in (np.nan, np.inf):
        X[1, 1] = bad
        assert rows_that_count(X, "drop").tolist() == [True, False, True]
        with pytest.raises(InvalidData, match="Input X contains NaN or infinity"):
            rows_that_count(X, "error")
