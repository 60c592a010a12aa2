"""Every estimator in one table: its CPU time over that of the arithmetic it cannot avoid, and over its quickest peer.

The limit of means and counts is one sum over the rows, that of regressions and covariances one product X'X, and that of
quantiles and ranks one sort. Peers run in the same process: OpenDP is private, the others protect nobody. Estimators
that answer queries are in benchmark_queries.md, and diffprivlib is in benchmark_peers.md.

    python validation/benchmarks/estimators.py            print the table
    python validation/benchmarks/estimators.py --write    and write validation/results/benchmark_estimators.md

It takes two minutes and 300 MB.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import Any, NamedTuple

import numpy as np
import opendp.prelude as dp
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy import stats
from sklearn.decomposition import PCA
from sklearn.linear_model import GammaRegressor, LinearRegression, LogisticRegression, PoissonRegressor
from threadpoolctl import threadpool_limits
from timing import Case, interleaved, milliseconds, publish, ratios, table, versions, write_wanted

from dpstats.covariance import HotellingTest, PrivateCorrelation, PrivateCovariance, PrivatePCA
from dpstats.groups import GroupMeans, GroupQuantiles, MeanPerRow
from dpstats.identity import FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest
from dpstats.means import AdaptiveMean, ClippedMean, CompleteCases, PrivateVariance, SparseMean
from dpstats.quantiles import PrivateDistribution, PrivateMedian, PrivateQuantile
from dpstats.ranks import KruskalWallisTest, MannWhitneyTest, SignedRankTest
from dpstats.regression import (
    PrivateCountRegression,
    PrivateGammaRegression,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    SufficientStatisticsRegression,
)
from dpstats.statistic import PrivateStatistic
from dpstats.survival import LogRankTest, PrivateSurvival
from dpstats.tables import ContingencyTable, PrivateProportion
from dpstats.textbook import FunctionalMechanismRegression

ROWS, COLUMNS, FEW, ROUNDS = 200_000, 20, 1000, 5
BOUNDS, SMALL = (-4.0, 4.0), 1e-6
Floats = NDArray[np.float64]


class Row(NamedTuple):
    """An estimator, what it cannot do without, and the quickest other library."""

    estimator: type
    fit: Case
    limit: str
    peer: str = ""
    option: str = ""

    @property
    def name(self) -> str:
        return f"`{self.estimator.__name__}`{self.option and ', ' + self.option}"


def fitted(kind: Any, *data: Any, **parameters: Any) -> Case:
    """Return what fits an estimator."""
    return lambda: kind(**parameters).fit(*data)


class Data:
    """The rows of all cases."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.X = rng.normal(size=(ROWS, COLUMNS))
        self.x = np.ascontiguousarray(self.X[:, 0])
        index = self.X @ np.full(COLUMNS, 0.1)
        self.line = index + rng.normal(size=ROWS)
        self.binary = (self.line > 0).astype(float)
        self.counts = rng.poisson(np.exp(index)).astype(float)
        self.amounts = rng.gamma(2.0, np.exp(index) / 2)
        self.groups = rng.integers(0, 4, ROWS)
        self.times = rng.exponential(3.0, ROWS)
        self.units = np.arange(ROWS) // 2
        self.cells = np.column_stack([self.groups, self.binary.astype(int)])


def limits(data: Data) -> dict[str, Case]:
    """Return the arithmetic that estimators cannot do without, by name."""
    few = data.X[:FEW]
    return {
        "sum": lambda: data.X.sum(axis=0),
        "sum of a column": lambda: data.x.sum(),
        "count": lambda: np.bincount(data.groups),
        "sum by groups": lambda: [np.bincount(data.groups, weights=x) for x in data.X.T],
        "product": lambda: data.X.T @ data.X,
        "product of pairs": lambda: few @ few.T,
        "sort": lambda: np.sort(data.x),
    }


def peers(data: Data) -> dict[str, Case]:
    """Return other libraries, by name."""
    first, second = data.x[data.groups % 2 == 0], data.x[data.groups % 2 == 1]
    groups = data.groups.tolist()
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=ROWS), dp.symmetric_distance()
    mean = domain >> dp.t.then_clamp(BOUNDS) >> dp.t.then_mean()
    private_mean = mean >> dp.m.then_laplace(scale=mean.map(2))
    labels = dp.vector_domain(dp.atom_domain(T="i64")), dp.symmetric_distance()
    counted = labels >> dp.t.then_count_by_categories(list(range(4)), null_category=False)
    private_counts = counted >> dp.m.then_laplace(scale=2.0)
    return {
        "OpenDP, column by column": lambda: [private_mean(np.ascontiguousarray(x)) for x in data.X.T],
        "OpenDP": lambda: private_counts(groups),
        "scikit-learn": lambda: LinearRegression().fit(data.X, data.line),
        "scikit-learn, logistic": lambda: LogisticRegression(C=np.inf).fit(data.X, data.binary),
        "scikit-learn, PCA": lambda: PCA(2).fit(data.X),
        "scikit-learn, Poisson": lambda: PoissonRegressor(alpha=0).fit(data.X, data.counts),
        "scikit-learn, gamma": lambda: GammaRegressor(alpha=0).fit(data.X, data.amounts),
        "statsmodels, survival": lambda: sm.SurvfuncRight(data.times, data.binary),
        "numpy, covariance": lambda: np.cov(data.X.T),
        "numpy, median": lambda: np.median(data.x),
        "scipy, Mann-Whitney": lambda: stats.mannwhitneyu(first, second),
        "scipy, Kruskal-Wallis": lambda: stats.kruskal(*(data.x[data.groups == g] for g in range(4))),
        "scipy, Wilcoxon": lambda: stats.wilcoxon(data.x),
        "scipy, Kendall": lambda: [stats.kendalltau(data.x[:FEW], x[:FEW]) for x in data.X.T[1:4]],
    }


def cases(data: Data) -> list[Row]:
    """Return every estimator with its limit and its peer."""
    X, x, by = data.X, data.x, data.groups
    box, lines = {"bounds": BOUNDS}, {"x_bounds": BOUNDS, "y_bounds": (-8.0, 8.0)}
    rates = {"x_bounds": BOUNDS, "y_bounds": (0.0, 50.0)}
    four = {"groups": [0, 1, 2, 3]}
    tests = {"mean": np.full(COLUMNS, 0.1), "cov": np.eye(COLUMNS), "n_calibration": 99}
    opendp, survival = "OpenDP, column by column", {**four, "horizon": 8.0, "bins": 8}
    few = {kind: fitted(kind, X[:FEW], **tests) for kind in (LipschitzExtensionTest, RowDistanceTest, FilteringTest)}
    return [
        Row(ClippedMean, fitted(ClippedMean, X, std=None, **box), "sum", opendp),
        Row(ClippedMean, fitted(ClippedMean, X, std="private", **box), "sum", opendp, "private spread"),
        Row(ClippedMean, fitted(ClippedMean, X, std=None, clipped_share=True, **box), "sum", opendp, "clipped share"),
        Row(
            ClippedMean, fitted(ClippedMean, X, std=None, delta=SMALL, clip=6.0, clip_norm="l2"), "sum", opendp, "ball"
        ),
        Row(AdaptiveMean, fitted(AdaptiveMean, X, bound=100.0, std=1.0, delta=SMALL), "sum", opendp),
        Row(CompleteCases, fitted(CompleteCases, X), "sum"),
        Row(SparseMean, fitted(SparseMean, X, n_nonzero=3, clip=6.0, std=1.0), "sum", opendp),
        Row(PrivateVariance, fitted(PrivateVariance, X, **box), "sum"),
        Row(GroupMeans, fitted(GroupMeans, X, by, **four, **box), "sum by groups"),
        Row(MeanPerRow, fitted(MeanPerRow, X, data.units, max_rows=2, **box), "sum by groups"),
        Row(PrivateProportion, fitted(PrivateProportion, data.binary.astype(bool)), "sum of a column"),
        Row(ContingencyTable, fitted(ContingencyTable, data.cells, levels=[[0, 1, 2, 3], [0, 1]]), "count", "OpenDP"),
        Row(PrivateStatistic, fitted(PrivateStatistic, X, function=np.std, bounds=(0, 4)), "sum"),
        Row(PrivateLinearRegression, fitted(PrivateLinearRegression, X, data.line, **lines), "product", "scikit-learn"),
        Row(
            SufficientStatisticsRegression,
            fitted(SufficientStatisticsRegression, X, data.line, **lines),
            "product",
            "scikit-learn",
        ),
        Row(
            FunctionalMechanismRegression,
            fitted(FunctionalMechanismRegression, X, data.line, **lines),
            "product",
            "scikit-learn",
        ),
        Row(
            PrivateLogisticRegression,
            fitted(PrivateLogisticRegression, X, data.binary, x_bounds=BOUNDS),
            "product",
            "scikit-learn, logistic",
        ),
        Row(
            PrivateCountRegression,
            fitted(PrivateCountRegression, X, data.counts, **rates),
            "product",
            "scikit-learn, Poisson",
        ),
        Row(
            PrivateGammaRegression,
            fitted(PrivateGammaRegression, X, data.amounts, **rates),
            "product",
            "scikit-learn, gamma",
        ),
        Row(PrivateCovariance, fitted(PrivateCovariance, X, **box), "product", "numpy, covariance"),
        Row(PrivatePCA, fitted(PrivatePCA, X, n_components=2, **box), "product", "scikit-learn, PCA"),
        Row(HotellingTest, fitted(HotellingTest, X, mean=np.zeros(COLUMNS), **box), "product"),
        Row(PrivateCorrelation, fitted(PrivateCorrelation, X[:FEW, :4]), "product of pairs", "scipy, Kendall"),
        Row(SpatialSignTest, fitted(SpatialSignTest, X, **tests), "sum"),
        *(Row(kind, case, "product of pairs") for kind, case in few.items()),
        Row(PrivateQuantile, fitted(PrivateQuantile, x, **box), "sort", "numpy, median"),
        Row(PrivateMedian, fitted(PrivateMedian, x, **box), "sort", "numpy, median"),
        Row(PrivateDistribution, fitted(PrivateDistribution, x, **box), "sort"),
        Row(GroupQuantiles, fitted(GroupQuantiles, x, by, **four, **box), "sort"),
        Row(
            MannWhitneyTest,
            fitted(MannWhitneyTest, x, by % 2, groups=[0, 1], sizes=np.bincount(by % 2).tolist(), n_simulations=99),
            "sort",
            "scipy, Mann-Whitney",
        ),
        Row(
            KruskalWallisTest,
            fitted(KruskalWallisTest, x, by, n_simulations=99, **four),
            "sort",
            "scipy, Kruskal-Wallis",
        ),
        Row(SignedRankTest, fitted(SignedRankTest, x, n_simulations=99), "sort", "scipy, Wilcoxon"),
        Row(
            PrivateSurvival,
            fitted(PrivateSurvival, data.times, data.binary > 0, by, **survival),
            "sort",
            "statsmodels, survival",
        ),
        Row(LogRankTest, fitted(LogRankTest, data.times, data.binary > 0, by, **survival), "sort"),
    ]


def main() -> None:
    write, data = write_wanted(__doc__), Data()
    busy = os.getloadavg()[0]
    rows, limit, peer = cases(data), limits(data), peers(data)
    with threadpool_limits(1, user_api="blas"):
        fits = {row.name: row.fit for row in rows}
        times = interleaved({**limit, **peer, **fits}, ROUNDS, time.process_time)
    found = []
    for row in rows:
        least, own = times[row.limit], times[row.name]
        over = ratios(own, times[row.peer]) if row.peer else ""
        found.append([row.name, milliseconds(own), row.limit, ratios(own, least), row.peer, over])
    header = ["estimator", "CPU ms", "limit", "over the limit", "peer", "over the peer"]
    known = [[name, milliseconds(times[name])] for name in (*limit, *peer)]
    slowest = max(statistics.median(times[row.name]) for row in rows)
    body = f"""\
Median CPU times of all threads, of {ROUNDS} rounds in which all cases ran in turn, and the median ratio in the same
round (smallest to largest). BLAS has one thread. Other work on the machine changes CPU time less than elapsed time; the
load was {busy:.1f} before the first round. A fit has exact noise, from validation to intervals. Data have {ROWS:,} rows
and {COLUMNS} columns; cases with "product of pairs" have {FEW:,} rows. The slowest fit takes {slowest:.2g} s.

{table(header, found)}

| limit or peer | CPU ms |
| :-- | --: |
{chr(10).join(f"| {name} | {ms} |" for name, ms in known)}
"""
    packages = versions("dpstats", "numpy", "scipy", "scikit-learn", "statsmodels", "opendp")
    publish("benchmark_estimators", "Benchmark: every estimator", body, packages, write=write)


if __name__ == "__main__":
    main()
