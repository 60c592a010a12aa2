"""What the estimators of ratios share: rows that count."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import InvalidData
from dpstats.groups.base import rows_that_count


def test_rows_that_count() -> None:
    X = np.ones((3, 2))
    assert rows_that_count(X, "error").all() and rows_that_count(X.astype(int), "error").all()
    for bad in (np.nan, np.inf):
        X[1, 1] = bad
        assert rows_that_count(X, "drop").tolist() == [True, False, True]
        with pytest.raises(InvalidData, match="Input X contains NaN or infinity"):
            rows_that_count(X, "error")
