"""Public limits so small that data reach them: what is beyond is refused, uncharged, and what is within is unchanged.

No ordinary test reaches a limit on sizes, because nobody makes so large a table in a test. Here each limit is made
small instead. Nothing is estimated, so that there are no false alarms.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpstats.errors import DPStatsError
from dpstats.identity import SpatialSignTest, l1_extension
from dpstats.means import ClippedMean
from dpstats.privacy import PrivacyBudget
from dpstats.quantiles import PrivateDistribution
from dpstats.queries import Domain, MarginalMWEM
from dpstats.ranks import MannWhitneyTest
from dpstats.sql import PrivateSQL
from dpstats.survival import LogRankTest, PrivateSurvival
from dpstats.tables import ContingencyTable
from dpstats.textbook import SmallDB
from tests.sql.databases import connected

X = np.random.default_rng(0).normal(size=(40, 3))
LABELS = np.repeat(["a", "b"], 20)
ROWS = np.random.default_rng(1).integers(0, 2, size=(40, 3))
TIMES = np.column_stack([np.linspace(0.1, 9.9, 40), np.arange(40) % 2])
DOMAIN = Domain({"a": 2, "b": 2, "c": 2})
SEED: dict[str, Any] = {"random_state": 0}
FAST: dict[str, Any] = {"n_calibration": 99, "cache_dir": None}


def sql(**more: Any) -> Any:
    """Return the answer to a query with two cells."""
    rows = tuple((label,) for label in LABELS.tolist())
    made = PrivateSQL(connected((("r", "g VARCHAR", rows),)), epsilon=1.0, categories={"r.g": ["a", "b"]}, **more)
    return made.query("SELECT COUNT(*) FROM r WHERE g IN ('a', 'b') GROUP BY g").values


def survived(**more: Any) -> Any:
    """Return an estimated curve."""
    return PrivateSurvival(horizon=10.0, epsilon=1.0, **more).fit(TIMES[:, 0], TIMES[:, 1]).survival_


def compared(**more: Any) -> Any:
    """Return a p-value of a log-rank test."""
    made = LogRankTest(horizon=10.0, groups=["a", "b"], epsilon=1.0, **more)
    return made.fit(TIMES[:, 0], TIMES[:, 1], LABELS).pvalue_


# The place of a limit, a release that reaches it, and values of which the first is too small and the second is not.
REFUSED: dict[str, tuple[Callable[..., Any], int, int]] = {
    "lattice.base._MAX_SUM": (lambda **more: ClippedMean(bounds=(-2, 2), **more).fit(X).mean_, 1 << 10, 1 << 60),
    "tables.contingency._MOST_CELLS": (
        lambda **more: ContingencyTable(levels=[[0, 1]] * 3, epsilon=1.0, **more).fit(ROWS).counts_,
        7,
        8,
    ),
    "quantiles.distribution._MOST_CELLS": (
        lambda **more: PrivateDistribution(bounds=(-2, 2), bins=8, **more).fit(X[:, 0]).cdf_,
        7,
        9,
    ),
    "ranks.rank_tests.MOST_ROWS": (
        lambda **more: MannWhitneyTest(groups=["a", "b"], sizes=[20, 20], **more).fit(X[:, 0], LABELS).pvalue_,
        39,
        40,
    ),
    "identity.calibration.LARGEST_N": (lambda **more: SpatialSignTest(**FAST, **more).fit(X).statistic_, 39, 40),
    "survival.table_plan.MOST_CELLS": (survived, 5, 10_000),
    "survival.cells.MOST_ROWS": (compared, 39, 40),
    "queries.mwem.FULL_TABLE": (
        lambda **more: MarginalMWEM(domain=DOMAIN, workload=1, epsilon=1.0, **more).fit(ROWS).synthetic_.probabilities,
        7,
        8,
    ),
    "textbook.error_bounds.MOST_DATABASES": (
        lambda **more: SmallDB(queries=np.eye(3), n_rows=3, epsilon=2.0, **more).fit(np.array([20, 15, 5])).synthetic_,
        9,
        10,
    ),
    "sql.parse._MOST_CELLS": (sql, 1, 2),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_beyond_a_limit_is_refused_and_not_charged(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, _, constant = name.rpartition(".")
    module = importlib.import_module(f"dpstats.{place}")
    release, too_small, enough = REFUSED[name]
    wanted = np.asarray(release(**SEED))
    monkeypatch.setattr(module, constant, enough)
    np.testing.assert_array_equal(np.asarray(release(**SEED)), wanted)
    monkeypatch.setattr(module, constant, too_small)
    budget = PrivacyBudget(100.0, 0.5)
    with pytest.raises(DPStatsError):
        release(budget=budget)
    assert not budget.history()


# Limits beyond which the same is computed in another way.
ANOTHER_WAY: dict[str, Callable[[], Any]] = {
    "identity.by_extension._MAX_INTEGER": lambda: l1_extension(np.array([9, -3, 14, 0, 7]), 40, 20)
}


@pytest.mark.parametrize("name", ANOTHER_WAY)
def test_another_way_beyond_a_limit_has_the_same_result(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, _, constant = name.rpartition(".")
    wanted = ANOTHER_WAY[name]()
    monkeypatch.setattr(importlib.import_module(f"dpstats.{place}"), constant, 1)
    np.testing.assert_array_equal(ANOTHER_WAY[name](), wanted)
