"""One fit of every estimator and of every option that changes what it reports, on rows that a net may change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.covariance import HotellingTest, PrivateCorrelation, PrivateCovariance, PrivatePCA
from dpstats.groups import GroupMeans, GroupQuantiles, MeanPerRow
from dpstats.identity import FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest
from dpstats.means import AdaptiveMean, ClippedMean, PrivateVariance, SparseMean
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
from dpstats.textbook import FunctionalMechanismRegression, StagedInnerProductTest
from tests.nets.numbers import ALTERNATIVES, Numbers, report

N = 1200
RNG = np.random.default_rng(6)
# Columns and groups are all different, so that a wrong order shows.
ROWS = RNG.normal([0.3, -0.2, 0.5], [1.0, 0.5, 0.8], size=(N, 3))
AWKWARD = np.column_stack([ROWS[:, 0] > 1.5, np.full(N, 0.3), np.where(ROWS[:, 2] > 0.5, 1.0, -2.0)])
CODES = RNG.choice(4, N, p=[0.15, 0.2, 0.3, 0.35])
OUTCOME = 0.5 + ROWS @ [1.0, -1.0, 0.5] + RNG.normal(size=N)
TIMES, CAUSES = RNG.exponential(3.0 + CODES, N), RNG.choice(3, N)


@dataclass(frozen=True)
class Given:
    """Rows, what they are measured in, the order of columns and of groups, and the privacy of their release.

    With ``few``, as many rows of a rare indicator, a constant and a column of two values.
    """

    columns: NDArray[np.float64] = field(default_factory=lambda: np.ones(3))
    outcome: float = 1.0
    order: tuple[int, ...] = (0, 1, 2)
    groups: tuple[int, ...] = (0, 1, 2, 3)
    epsilon: float = 1.0
    times: int = 1
    draw: int = 0
    few: int = 0

    @property
    def table(self) -> NDArray[np.float64]:
        return self.rows(self.plain[:, self.order] * self.columns)

    @property
    def plain(self) -> NDArray[np.float64]:
        """Columns without units, in their own order."""
        return AWKWARD if self.few else ROWS

    @property
    def column(self) -> NDArray[np.float64]:
        """One column, in the units of the outcome."""
        return self.rows(self.plain[:, 0] * self.outcome)

    @property
    def even(self) -> NDArray[np.float64]:
        """All columns in the units of the outcome."""
        return self.rows(self.plain[:, self.order] * self.outcome)

    @property
    def line(self) -> NDArray[np.float64]:
        return self.rows(OUTCOME * self.outcome)

    def rows(self, values: Any) -> Any:
        """Return values of the rows."""
        return np.concatenate([values[: self.few or N]] * self.times)

    @property
    def labels(self) -> Any:
        return self.rows(CODES)

    @property
    def seed(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "random_state": self.draw}

    @property
    def grouped(self) -> dict[str, Any]:
        return {"groups": list(self.groups), **self.seed}

    @property
    def bounds(self) -> NDArray[np.float64]:
        high = np.array([4.0, 3.0, 3.5])[list(self.order)] * self.columns
        return np.sort(np.column_stack([-high, 1.5 * high]), axis=1)

    @property
    def box(self) -> dict[str, Any]:
        return {"bounds": self.bounds, **self.seed}

    @property
    def wide(self) -> dict[str, Any]:
        """Bounds of one column, or of all, in the units of the outcome."""
        return {"bounds": (-4 * self.scale, 4 * self.scale), **self.seed}

    @property
    def scale(self) -> float:
        """The unit of the outcome, without its sign."""
        return abs(self.outcome)

    @property
    def survival(self) -> dict[str, Any]:
        return {"horizon": 8.0 * self.scale, "bins": 8, **self.grouped}

    @property
    def survived(self) -> Any:
        return self.rows(TIMES * self.scale)


Asked = dict[str, Callable[[Any], Any]]
Make = Callable[[Given], Any]


def lines(kind: Any, **more: Any) -> Make:
    """Return a regression of the outcome."""
    return lambda g: kind(
        x_bounds=g.bounds, y_bounds=sorted((-8 * g.outcome, 10 * g.outcome)), **{**g.seed, **more}
    ).fit(g.table, g.line)


def rates(kind: Any, outcome: Any, **more: Any) -> Make:
    """Return a regression of an outcome without units."""
    return lambda g: kind(x_bounds=g.bounds, **g.seed, **more).fit(g.table, g.rows(outcome))


OF_GROUPS: Asked = {
    **{
        f"difference, {side}": lambda fitted, side=side: [
            (found := fitted.difference(2, 0, side)).pvalue,
            found.confidence_interval(0.9),
        ]
        for side in ALTERNATIVES
    },
    "anova": lambda fitted: fitted.anova(99),
}
PAIRS: Asked = {
    f"pairs, {method}": lambda fitted, method=method: [
        (found := fitted.pairwise(method)).pvalue,
        found.confidence_interval(0.9),
    ]
    for method in ("tukey", "holm")
}
OF_LINES: Asked = {
    "joint": lambda fitted: fitted.f_test(),
    "intercept": lambda fitted: fitted.intercept_confidence_interval(),
    **{
        f"test, {side}": lambda fitted, side=side: np.array([fitted.test(j, 0.0, side).pvalue for j in range(3)])
        for side in ALTERNATIVES
    },
}
CURVES: Asked = {
    "band": lambda fitted: [fitted.band(0.9, group=group) for group in range(4)],
    "median": lambda fitted: [fitted.median(group) for group in range(4)],
    "quantile": lambda fitted: fitted.quantile(0.3, 1),
    "hazard": lambda fitted: fitted.cumulative_hazard(fitted.edges_[:5], 2),
    "mean": lambda fitted: fitted.rmst(group=2),
    "means": lambda fitted: fitted.rmst_difference(0, 3),
    "difference": lambda fitted: fitted.difference(3, 1, fitted.edges_[4]),
    "log-rank": lambda fitted: fitted.log_rank(rho=0.5, gamma=1.0).pvalue,
    "table": lambda fitted: fitted.life_table(1).iloc[:, 1:],
}

CASES: dict[str, tuple[Make, Asked]] = {
    "mean": (lambda g: ClippedMean(**g.box).fit(g.table), {}),
    "mean, public spread": (lambda g: ClippedMean(**g.box, std=np.abs(g.columns)).fit(g.table), {}),
    "mean, isotropic": (lambda g: ClippedMean(**g.wide, noise="isotropic", delta=1e-6).fit(g.even), {}),
    "mean, clipped share": (lambda g: ClippedMean(**g.box, delta=1e-6, clipped_share=True).fit(g.table), {}),
    "mean, ball": (
        lambda g: ClippedMean(
            clip=2 * g.scale, clip_norm="l2", center=g.outcome / 4, std=g.scale, delta=1e-6, **g.seed
        ).fit(g.even),
        {},
    ),
    "mean, ball, private": (
        lambda g: ClippedMean(clip=2 * g.scale, clip_norm="l2", delta=1e-6, **g.seed).fit(g.even),
        {},
    ),
    "adaptive": (lambda g: AdaptiveMean(bound=50 * g.scale, std=g.scale, **g.seed).fit(g.even), {}),
    "adaptive, private spread": (
        lambda g: AdaptiveMean(bound=50 * g.scale, std="private", std_bound=8 * g.scale, **g.seed).fit(g.even),
        {},
    ),
    "adaptive, variance": (
        lambda g: AdaptiveMean(bound=50 * g.scale, std=g.scale, tails="variance", **g.seed).fit(g.even),
        {},
    ),
    "sparse": (lambda g: SparseMean(n_nonzero=2, clip=4 * g.scale, std=g.scale, split=True, **g.seed).fit(g.even), {}),
    "variance": (lambda g: PrivateVariance(**g.box).fit(g.table), {}),
    "variance, normal": (lambda g: PrivateVariance(**g.box, delta=1e-6, interval="normal").fit(g.table), {}),
    "variance about a point": (lambda g: PrivateVariance(**g.box, about="center").fit(g.table), {}),
    "groups": (lambda g: GroupMeans(**g.grouped, bounds=g.bounds).fit(g.table, g.labels), {**OF_GROUPS, **PAIRS}),
    "groups, pure": (lambda g: GroupMeans(**g.grouped, bounds=g.bounds, delta=0.0).fit(g.table, g.labels), {}),
    "units": (lambda g: MeanPerRow(max_rows=3, **g.box).fit(g.table, np.arange(len(g.table)) // 3), {}),
    "quantiles of groups": (
        lambda g: GroupQuantiles(q=0.4, **g.wide, groups=list(g.groups)).fit(g.column, g.labels),
        {"difference": lambda fitted: fitted.difference(2, 0)},
    ),
    "quantile": (lambda g: PrivateQuantile([0.2, 0.6], **g.wide).fit(g.column), {}),
    "quantile, any": (lambda g: PrivateQuantile([0.2, 0.6], coverage="any", **g.wide).fit(g.column), {}),
    "median": (lambda g: PrivateMedian(**g.wide, confidence_level=0.9).fit(g.column), {}),
    "distribution": (
        lambda g: PrivateDistribution(**g.wide, bins=64).fit(g.column),
        {"quantiles": lambda fitted: fitted.quantile([0.2, 0.7]), "band": lambda fitted: fitted.band()},
    ),
    "linear": (lines(PrivateLinearRegression), OF_LINES),
    "linear, one variance": (lines(PrivateLinearRegression, cov_type="nonrobust"), OF_LINES),
    "linear, no intercept": (lines(PrivateLinearRegression, fit_intercept=False), {}),
    "sufficient": (lines(SufficientStatisticsRegression), OF_LINES),
    "functional": (lines(FunctionalMechanismRegression), OF_LINES),
    "logistic": (rates(PrivateLogisticRegression, OUTCOME > 0), OF_LINES),
    "counts": (rates(PrivateCountRegression, np.floor(np.exp(OUTCOME / 2)), y_bounds=(0, 50)), OF_LINES),
    "gamma": (rates(PrivateGammaRegression, np.exp(OUTCOME / 2), y_bounds=(0, 50)), OF_LINES),
    "survival": (lambda g: PrivateSurvival(**g.survival).fit(g.survived, g.rows(CAUSES > 0), g.labels), CURVES),
    "causes": (
        lambda g: PrivateSurvival(**g.survival, causes=[1, 2]).fit(g.survived, g.rows(CAUSES), g.labels),
        {**CURVES, "incidence": lambda fitted: fitted.incidence_interval(1, group=2)},
    ),
    "log-rank": (lambda g: LogRankTest(**g.survival, rho=0.5).fit(g.survived, g.rows(CAUSES > 0), g.labels), {}),
    "Hotelling": (lambda g: HotellingTest(mean=0.2 * g.columns, **g.box).fit(g.table), {}),
    "Hotelling, two groups": (lambda g: HotellingTest(groups=[0, 1], **g.box).fit(g.table, g.labels % 2), {}),
    "components": (lambda g: PrivatePCA(n_components=2, **g.wide).fit(g.even), {}),
    "components, scaled": (lambda g: PrivatePCA(n_components=2, scale="std", **g.box).fit(g.table), {}),
    "correlation": (lambda g: PrivateCorrelation(**g.seed).fit(g.table[:300]), {}),
    "correlation, Pearson": (
        lambda g: PrivateCorrelation(method="pearson", **g.box).fit(g.table),
        {"population": lambda fitted: fitted.estimates(estimand="population").confidence_interval(0.9)},
    ),
    "covariance": (
        lambda g: PrivateCovariance(**g.box).fit(g.table),
        {"correlation": lambda fitted: fitted.correlation()},
    ),
    "statistic": (
        lambda g: PrivateStatistic(np.std, bounds=(0, 4 * g.scale), **{**g.seed, "epsilon": 4 * g.epsilon}).fit(g.even),
        {},
    ),
    "proportion": (lambda g: PrivateProportion(**g.seed).fit(g.labels == 1), {}),
    "table": (
        lambda g: ContingencyTable(levels=[list(g.groups), [0, 1]], **g.seed).fit(
            np.column_stack([g.labels, g.rows(CAUSES > 0)]).astype(int)
        ),
        {
            "shares": lambda fitted: fitted.proportions(axis=1),
            "independence": lambda fitted: fitted.independence(n_simulations=99).statistic,
            **{
                kind: lambda fitted, kind=kind: getattr(fitted, kind)((2, 0), 1).confidence_interval(0.9)
                for kind in ("difference", "risk_ratio", "odds_ratio", "cohens_h")
            },
        },
    ),
    "signed ranks": (lambda g: SignedRankTest(n_simulations=99, **g.seed).fit(g.column), {}),
    "Mann-Whitney": (
        lambda g: MannWhitneyTest(
            groups=[0, 1], sizes=np.bincount(g.labels % 2).tolist(), n_simulations=99, **g.seed
        ).fit(g.column, g.labels % 2),
        {"superiority": lambda fitted: fitted.superiority()},
    ),
    "Kruskal-Wallis": (lambda g: KruskalWallisTest(n_simulations=99, **g.grouped).fit(g.column, g.labels), {}),
    **{
        kind.__name__: (
            lambda g, kind=kind: kind(mean=0.1 * g.columns, cov=np.diag(g.columns**2), n_calibration=99, **g.seed).fit(
                g.table[:60]
            ),
            {},
        )
        for kind in (FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest, StagedInnerProductTest)
    },
}


@cache
def fit(name: str, epsilon: float = 1.0, times: int = 1) -> dict[str, Numbers]:
    """Return all numbers of a case, which several nets share."""
    make, asked = CASES[name]
    return report(make(Given(epsilon=epsilon, times=times)), asked)
