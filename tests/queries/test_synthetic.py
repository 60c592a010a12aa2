"""Synthetic distributions: answers, and rows that follow them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from dpstats.errors import InvalidParameter
from dpstats.queries import Domain, LinearQueries, SyntheticDistribution

SHARES = np.array([[0.1, 0.2], [0.0, 0.7]])
MADE = SyntheticDistribution(Domain({"a": ["x", "y"], "b": 2}), SHARES)


def test_rows_follow_the_distribution() -> None:
    frame = MADE.sample(20_000, random_state=0)
    counts = MADE.domain.histogram(frame).reshape(2, 2)
    assert counts[1, 0] == 0
    # Five deviations of a share of 20,000 rows.
    assert np.abs(counts / 20_000 - SHARES).max() < 5 * 0.5 / 20_000**0.5
    assert frame.equals(MADE.sample(20_000, random_state=0))
    assert isinstance(MADE.sample(2, backend="polars"), pl.DataFrame)


def test_answers_are_of_the_distribution() -> None:
    assert MADE.answers(LinearQueries.marginals(MADE.domain, 1)) == pytest.approx([0.3, 0.7, 0.1, 0.9])
    with pytest.raises(InvalidParameter, match="queries must"):
        MADE.answers(LinearQueries.prefixes(5))
