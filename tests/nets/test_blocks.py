"""Blocks that are far smaller than the data change nothing: every row, query and weight is in exactly one."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from dpstats.groups import GroupMeans
from dpstats.identity import RowDistanceTest, SpatialSignTest
from dpstats.means import PrivateVariance, SparseMean
from dpstats.mechanisms import SparseVector
from dpstats.quantiles import PrivateDistribution, PrivateQuantile
from dpstats.queries import LinearQueries
from dpstats.ranks import SignedRankTest
from dpstats.survival import LogRankTest
from dpstats.textbook import IterativeConstruction, NetMechanism

X = np.random.default_rng(0).normal(size=(70, 3)) * [1.0, 0.5, 2.0] + [0.2, -0.4, 0.6]
LABELS = np.arange(70) % 3
COUNTS = np.array([6, 2, 1, 0, 3])
QUERIES = np.random.default_rng(1).integers(0, 2, size=(11, 5))
SEED: dict[str, Any] = {"random_state": 0}
FAST: dict[str, Any] = {"n_calibration": 99, "cache_dir": None, **SEED}


def learned() -> Any:
    """Return answers that a distribution learned in several rounds."""
    made = IterativeConstruction(queries=QUERIES, max_updates=4, epsilon=5.0, **SEED)
    return made.fit(100 * COUNTS).synthetic_


CASES: dict[str, Callable[[], Any]] = {
    "lattice.sums.BLOCK": lambda: PrivateVariance(bounds=(-2, 2), **SEED).fit(X).variance_,
    "lattice.sums._STORED_BLOCK": lambda: (
        SparseMean(n_nonzero=2, clip=3.0, std=1.0, **SEED).fit(scipy.sparse.csr_array(np.maximum(X, 0))).mean_
    ),
    "data.rows._BLOCK": lambda: GroupMeans(groups=[0, 1, 2], bounds=(-2, 2), **SEED).fit(X, LABELS).means_,
    "quantiles.grid._BLOCK": lambda: PrivateDistribution(bounds=(-2, 2), bins=8, **SEED).fit(X[:, 0]).cdf_,
    "release.groups._CHUNK": lambda: (
        PrivateQuantile([0.2, 0.5, 0.9], bounds=(-2, 2), method="joint", **SEED).fit(X[:, 0]).quantile_
    ),
    "identity.whitening._BLOCK": lambda: SpatialSignTest(cov=[1.0, 0.25, 4.0], **FAST).fit(X).statistic_,
    "identity.row_distance_statistic._ROWS_AT_ONCE": lambda: (
        RowDistanceTest(null="product", mean=[0.1, -0.3, 0.5], **FAST).fit(np.sign(X)).statistic_
    ),
    "textbook.histogram_release._BLOCK": learned,
    "textbook.net_mechanism._BLOCK": lambda: (
        NetMechanism(queries=QUERIES, accuracy=0.4, epsilon=2.0, **SEED).fit(COUNTS).synthetic_
    ),
    "queries.workload._BLOCK": lambda: importlib.import_module("dpstats.queries.workload").squared_column_distance(
        LinearQueries.from_matrix(QUERIES.astype(float))
    ),
    "queries.linear._BLOCK": lambda: LinearQueries.halfspaces(X[:, :2], 30, random_state=0).answers(np.arange(70)),
    "ranks.statistics._BLOCK": lambda: SignedRankTest(**SEED).fit(X[:, 0]).pvalue_,
    "survival.log_rank._ROWS": lambda: (
        LogRankTest(horizon=10.0, groups=[0, 1, 2], epsilon=1.0, **SEED)
        .fit(np.arange(70) / 7, X[:, 0] > 0, LABELS)
        .statistic_
    ),
    "mechanisms.sparse_vector._BLOCK": lambda: list(
        SparseVector(5.0, 2.0, max_above=9, **SEED).stream(np.arange(30.0) % 10)
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_blocks_below_the_data_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, _, constant = name.rpartition(".")
    module = importlib.import_module(f"dpstats.{place}")
    assert getattr(module, constant) > 500
    wanted = np.asarray(CASES[name]())
    for size in (1, 2, 7, 64):
        monkeypatch.setattr(module, constant, size)
        np.testing.assert_array_equal(np.asarray(CASES[name]()), wanted, err_msg=f"blocks of {size}")
