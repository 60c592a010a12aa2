"""A test is calibrated on the law of what it releases: of as many rows, of the same law, read as a fit reads them.

What the calibration draws is compared with the exact integers of rows drawn here. Seeds are fixed; of others, each test
would raise a false alarm with probability 1e-6.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from registry import ENTRIES, Entry
from registry.entry import traits_of
from registry.reading import settings
from scipy import stats

from dpstats.identity import SpatialSignTest, by_spatial_sign
from dpstats.identity.base import PrivateTest

TESTS = [
    entry
    for entry in settings(ENTRIES)
    if isinstance(entry.estimator, PrivateTest) and "null" not in traits_of(entry).excused
]
every_test = pytest.mark.parametrize("entry", TESTS, ids=lambda entry: entry.name)
SIZE, N, D = 600, 6, 2


def rows_of(test: Any, rng: np.random.Generator, shift: float, shape: tuple[int, int]) -> np.ndarray:
    """Return rows of the null hypothesis, signs of the public means or normal ones; these moved by a shift."""
    if test.null == "product":
        return np.where(rng.random(shape) < (1 + np.asarray(test.mean)) / 2, 1.0, -1.0)
    return rng.normal(size=shape) + test.mean + shift


def pvalue(test: Any, drawn_for: int, shift: float = 0.0, shape: tuple[int, int] = (N, D)) -> float:
    """Return a p-value that what is drawn for a number of rows is what a fit on rows of a shape reads."""
    plan = test.plan(*shape)
    rng = np.random.default_rng(41)
    read = [test._exact(rows_of(test, rng, shift, shape), plan) for _ in range(SIZE)]
    drawn = test._draw(replace(plan, n_planned=drawn_for), SIZE, np.random.default_rng(43), shift)
    found = 1.0
    for t, stage in enumerate(plan.stages):
        exact = np.array([int(one[stage.name][0]) for one in read])
        values = np.asarray(drawn)[:, t].astype(np.int64)
        # Few values are tabulated, many are ranked.
        kinds = np.unique(np.concatenate([exact, values]))
        if kinds.size > 20:
            p = float(stats.ks_2samp(exact, values).pvalue)
        elif kinds.size > 1:
            table = np.array([[np.sum(x == kind) for kind in kinds] for x in (exact, values)])
            rare = table.sum(axis=0) < 10
            if rare.any():
                table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
            table = table[:, table.sum(axis=0) > 0]
            p = float(stats.chi2_contingency(table).pvalue) if table.shape[1] > 1 else 1.0
        else:
            p = 1.0
        found = min(found, p * len(plan.stages))
    return found


@every_test
def test_the_calibration_draws_what_a_fit_reads(entry: Entry) -> None:
    assert pvalue(entry.estimator, N) > 1e-6


# Far from the null a statistic grows with every row, by enough to be seen here. Signs of a product null stay at it:
# those of mean 0.5 are far.
FAR = [
    entry
    for entry in TESTS
    if (entry.estimator.null == "normal" and "far from the null" not in traits_of(entry).excused)
    or np.any(entry.estimator.mean)
]
far = pytest.mark.parametrize("entry", FAR, ids=lambda entry: entry.name)


def shift_of(test: Any) -> float:
    return 2.0 if test.null == "normal" else 0.0


@far
def test_alternatives_are_of_as_many_rows(entry: Entry) -> None:
    assert pvalue(entry.estimator, N, shift_of(entry.estimator)) > 1e-6


@far
def test_a_row_less_would_be_noticed(entry: Entry) -> None:
    assert pvalue(entry.estimator, N - 1, shift_of(entry.estimator)) < 1e-6


def test_from_its_limit_a_test_draws_what_a_fit_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    # The limit begins at a number of rows that can be read here. Of 50 columns a length varies by a tenth: lengths
    # that are a tenth too small, as of a fifth of the rows less, would be noticed.
    monkeypatch.setattr(by_spatial_sign, "NORMAL_LIMIT", 100)
    for shift in (0.0, 0.1):
        assert pvalue(SpatialSignTest(), 200, shift, (200, 50)) > 1e-6
        assert pvalue(SpatialSignTest(), 160, shift, (200, 50)) < 1e-6
