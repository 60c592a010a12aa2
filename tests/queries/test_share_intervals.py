"""Intervals of shares: coverage of the rows and of their population."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.queries.answers import check_estimand, share_estimates


def covered(answers: np.ndarray, std: float, n: int, truth: float, **options: object) -> float:
    found = share_estimates(answers, np.full(answers.size, std), n, **options)  # type: ignore[arg-type]
    interval = found.confidence_interval()
    low, high = np.asarray(interval.low), np.asarray(interval.high)
    assert ((low >= 0) & (high <= 1)).all()
    return float(((low <= truth) & (truth <= high)).mean())


@pytest.mark.parametrize("truth", [0.0, 0.3, 1.0])
def test_shares_of_the_rows_are_covered(truth: float) -> None:
    noise = np.random.default_rng(0).normal(scale=0.05, size=20_000)
    # Of 20,000 intervals the share has a deviation of .0015.
    # At an end, what is beyond it is moved to it, and covers.
    level, less = (0.95, 0.88) if 0 < truth < 1 else (0.975, 0.94)
    assert covered(truth + noise, 0.05, 100, truth) == pytest.approx(level, abs=0.008)
    assert covered(truth + noise, 0.04, 100, truth) == pytest.approx(less, abs=0.012)


def test_shares_of_a_population_are_covered_where_those_of_the_rows_are_not() -> None:
    rng = np.random.default_rng(1)
    n, share, std = 40, 0.03, 0.01
    answers = rng.binomial(n, share, size=400) / n + rng.normal(scale=std, size=400)
    # Never less than the level: 400 intervals, four deviations.
    assert covered(answers, std, n, share, estimand="population") >= 0.95 - 4 * 0.011
    assert covered(answers, std, n, share) < 0.7


def test_together_all_are_covered() -> None:
    noise = np.random.default_rng(2).normal(scale=0.05, size=(2000, 10))
    made = [share_estimates(0.5 + row, np.full(10, 0.05), 100) for row in noise]
    both = [found.confidence_interval(0.9, simultaneous=True) for found in made]
    all_in = np.mean([((i.low <= 0.5) & (i.high >= 0.5)).all() for i in both])  # type: ignore[operator,union-attr]
    assert all_in == pytest.approx(0.9, abs=0.03)


def test_another_estimand_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="estimand must"):
        check_estimand("rows")
