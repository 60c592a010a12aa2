"""Families of statements: what holds together, on one side, and at its end.

A test and its interval are one statement; a family's level is split over all of its numbers; a p-value is never 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pytest
from scipy.stats import binomtest, norm

from dpstats.groups import GroupMeans, MeanPerRow
from dpstats.inference.error_distributions import simultaneous_level
from dpstats.means import AdaptiveMean, ClippedMean, PrivateVariance
from dpstats.queries import Domain, WorkloadAnswers
from dpstats.queries.linear import ROW
from dpstats.ranks import kruskal_wallis, mann_whitney, wilcoxon_signed_rank
from dpstats.regression import (
    PrivateCountRegression,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    SufficientStatisticsRegression,
)
from dpstats.sensitivity.smooth import noise_width
from dpstats.sql import PrivateSQL
from dpstats.tables import ContingencyTable, PrivateProportion
from dpstats.textbook import FunctionalMechanismRegression, OnlineMultiplicativeWeights
from tests.nets.statements import FAR, fits

# Three groups and three columns of different means and spreads.
CODES = np.random.default_rng(1).choice(3, 1500, p=[0.2, 0.5, 0.3])
ROWS = np.random.default_rng(2).normal(CODES[:, None] * [0.1, 0.2, 0.0] + 0.3, [0.5, 1.0, 0.8])
OUTCOME = 0.5 + ROWS @ [1.0, -1.0, 0.5] + np.random.default_rng(3).normal(size=1500)
PAIRS = np.column_stack([CODES, OUTCOME > 0]).astype(int)
GROUPS: dict[str, Any] = {"groups": [0, 1, 2], "bounds": (-4, 4), "random_state": 0}
LINEAR: dict[str, Any] = {"x_bounds": (-4, 4), "y_bounds": (-9, 9), "random_state": 0}
BOX: dict[str, Any] = {"bounds": (-4, 4), "random_state": 0}

FITTED: dict[str, Callable[[], Any]] = {
    "groups": lambda: GroupMeans(**GROUPS).fit(ROWS, CODES),
    "groups, Laplace": lambda: GroupMeans(**GROUPS, delta=0.0).fit(ROWS, CODES),
    "rows of units": lambda: MeanPerRow(**BOX, max_rows=3).fit(ROWS, np.arange(1500) // 3),
    "clipped mean": lambda: ClippedMean(**BOX, std=1.0).fit(ROWS),
    "clipped mean, private spread": lambda: ClippedMean(**BOX, std="private", delta=1e-6).fit(ROWS),
    "adaptive mean": lambda: AdaptiveMean(bound=10.0, std=1.0, random_state=0).fit(ROWS),
    "variance": lambda: PrivateVariance(**BOX).fit(ROWS[:, :1]),
    "proportion": lambda: PrivateProportion(random_state=0).fit(CODES == 1),
    "linear": lambda: PrivateLinearRegression(**LINEAR).fit(ROWS, OUTCOME),
    "sufficient": lambda: SufficientStatisticsRegression(**LINEAR).fit(ROWS, OUTCOME),
    "functional": lambda: FunctionalMechanismRegression(**LINEAR).fit(ROWS, OUTCOME),
    "counts": lambda: PrivateCountRegression(x_bounds=(-4, 4), y_bounds=(0, 50), random_state=0).fit(
        ROWS, np.floor(np.exp(OUTCOME / 2))
    ),
    "logistic": lambda: PrivateLogisticRegression(x_bounds=(-4, 4), random_state=0).fit(ROWS, OUTCOME > 0),
}
REGRESSIONS = ("linear", "sufficient", "functional", "logistic", "counts")
INSIDE = {"variance": 1.0, "proportion": 0.5}
"""Values that may be asked about, where 0 may not."""


def question(name: str, fitted: Any, value: float, side: str) -> Any:
    """Return the test of a value: of a regression's second slope."""
    return fitted.test(1, value, side) if name in REGRESSIONS else fitted.test(value, side)


@pytest.mark.parametrize("name", FITTED)
def test_at_the_end_of_an_interval_the_pvalue_is_its_error(name: str) -> None:
    fitted = FITTED[name]()
    for side in ("two-sided", "less", "greater"):
        for level in (0.8, 0.95):
            low, high = question(name, fitted, INSIDE.get(name, 0.0), side).confidence_interval(level)
            # The other end of a one-sided interval is a bound.
            ends = {"two-sided": [low, high], "less": [high], "greater": [low]}[side]
            for end in ends:
                for place, value in list(np.ndenumerate(np.asarray(end)))[:3]:
                    if np.isinf(value):  # of a slope that noise hides
                        continue
                    found = np.asarray(question(name, fitted, float(value), side).pvalue)[place]
                    # Some tails are found by halving.
                    assert found == pytest.approx(1 - level, rel=1e-3), (side, level)


def together() -> list[tuple[str, Any, Any]]:
    """Return intervals that cover together, and those of each number at its part of the level."""
    table = ContingencyTable(levels=[[0, 1, 2], [0, 1]], random_state=0).fit(PAIRS)
    domain = Domain({"group": 3, "positive": 2})
    answers = WorkloadAnswers(domain=domain, workload=[1, 2], random_state=0).fit(PAIRS)
    sidak = {"groups": 9, "groups, Laplace": 9, "rows of units": 3, "clipped mean": 3}
    bonferroni = {"adaptive mean": 3, "linear": 3, "functional": 3, "logistic": 3, "counts": 3}
    asked: list[tuple[str, Any, Any, dict[str, Any]]] = [
        *((name, FITTED[name](), simultaneous_level(0.9, count), {}) for name, count in sidak.items()),
        *((name, FITTED[name](), 1 - 0.1 / count, {}) for name, count in bonferroni.items()),
        ("variances", PrivateVariance(**BOX).fit(ROWS), 1 - 0.1 / 3, {}),
        ("table", table, 1 - 0.1 / 6, {}),
        ("table, within groups", table, 1 - 0.1 / 6, {"axis": 1}),
        ("answers", answers, simultaneous_level(0.9, 11), {}),
        ("answers, population", answers, 1 - 0.1 / 11, {"estimand": "population"}),
    ]
    return [
        (name, fitted.confidence_interval(0.9, simultaneous=True, **more), fitted.confidence_interval(each, **more))
        for name, fitted, each, more in asked
    ]


def test_a_level_is_split_over_all_numbers_of_a_family() -> None:
    for name, whole, each in together():
        assert np.allclose(whole.low, each.low, atol=1e-9), name
        assert np.allclose(whole.high, each.high, atol=1e-9), name
        assert whole.simultaneous and not each.simultaneous, name


def test_bonferronis_pairs_are_differences_at_their_part_of_the_level() -> None:
    # Five groups have ten pairs.
    codes = np.random.default_rng(0).integers(0, 5, 1500)
    groups = GroupMeans(groups=range(5), bounds=(-4, 4), random_state=0).fit(ROWS, codes)
    pairs = groups.pairwise("holm")
    found = pairs.confidence_interval(0.9)
    alone = [groups.difference(a, b) for a, b in pairs.pairs]
    each = [one.confidence_interval(1 - 0.1 / 10) for one in alone]
    assert np.allclose(found.low, [one.low for one in each])
    assert np.allclose(found.high, [one.high for one in each])
    # Holm's smallest p-value of a column is ten times that of its difference.
    least = np.min([one.pvalue for one in alone], axis=0)
    assert np.allclose(pairs.pvalue.min(axis=0), np.minimum(10 * least, 1.0))


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_a_difference_and_its_interval_are_one(delta: float) -> None:
    fitted, asked = GroupMeans(**GROUPS, delta=delta).fit(ROWS / 4, CODES), 0
    for side, (a, b) in itertools.product(("two-sided", "less", "greater"), ((0, 1), (1, 2), (2, 0))):
        found = fitted.difference(a, b, side)
        for place, p in enumerate(found.pvalue.tolist()):
            # A level of one side is at least one half.
            if 1e-6 < p < (1 if side == "two-sided" else 0.5) / 1.03:
                for level, excluded in ((1 - 1.02 * p, True), (1 - 0.98 * p, False)):
                    low, high = (np.asarray(end)[place] for end in found.confidence_interval(level))
                    assert (not low <= 0 <= high) == excluded, (side, a, b, place)
                asked += 1
    assert asked >= 9


# Familywise rates, by simulation: three groups and three columns whose means are all alike.
ALIKE, FITS = 0.1, 200


def _equal(rng: np.random.Generator) -> tuple[Any, ...]:
    return rng.normal(0, [0.5, 1.0, 0.8], size=(300, 3)), rng.choice(3, 300, p=[0.2, 0.5, 0.3])


@pytest.mark.parametrize("epsilon", [20.0, 1.0])
def test_a_family_errs_as_often_as_it_says(epsilon: float) -> None:
    missed, tukey, holm, anova = [], [], [], []
    for fitted in fits(GroupMeans(groups=[0, 1, 2], bounds=(-3, 3), epsilon=epsilon), _equal, FITS):
        interval = fitted.confidence_interval(1 - ALIKE, simultaneous=True)
        missed.append(bool((np.asarray(interval.low) > 0).any() or (np.asarray(interval.high) < 0).any()))
        tukey.append(fitted.pairwise("tukey").pvalue.min(axis=0) <= ALIKE)
        holm.append(fitted.pairwise("holm").pvalue.min(axis=0) <= ALIKE)
        anova.append(fitted.anova(99).pvalue <= ALIKE)
    # Levels of analyses of variance are measured and not exact (docs/groups.md): a fifth more is allowed.
    for name, seen, most in (
        ("intervals", missed, ALIKE),
        ("tukey", tukey, ALIKE),
        ("holm", holm, ALIKE),
        ("anova", anova, 1.2 * ALIKE),
    ):
        rates = np.asarray(seen, dtype=float).reshape(FITS, -1)
        chance = FAR * math.sqrt(ALIKE * (1 - ALIKE) / rates.size)
        assert ALIKE / 3 - chance < rates.mean() < most + chance, (name, rates.mean(axis=0))


def test_no_simulated_pvalue_is_zero() -> None:
    labels = np.repeat([0, 1], 1000)
    x = np.where(labels, 1.0, -1.0)
    least, options = 1 / 200, {"n_simulations": 199, "random_state": 0}
    groups = GroupMeans(groups=[0, 1], bounds=(-1, 1), random_state=0).fit(x[:, None], labels)
    assert groups.anova(199).pvalue[0] == least
    # The true sizes, which are private, are left out with probability 1e-5.
    assert mann_whitney(x, labels, groups=(0, 1), **options).pvalue == pytest.approx(least + 1e-5)
    assert kruskal_wallis(x, labels, groups=(0, 1), **options).pvalue == least
    assert wilcoxon_signed_rank(np.arange(1.0, 2001), **options).pvalue == least
    table = ContingencyTable(levels=[[0, 1]] * 2, random_state=0).fit(np.column_stack([labels, labels]))
    assert table.independence(n_simulations=199).pvalue == least
    assert table.goodness_of_fit([[0.1, 0.4], [0.4, 0.1]], n_simulations=199).pvalue == least


def test_ties_speak_for_the_null_hypothesis() -> None:
    # No table is nearer to what is expected: with next to no noise, many of the simulated ones are as near.
    table = ContingencyTable(levels=[[0, 1]], epsilon=40.0, random_state=0).fit([0, 1])
    assert table.goodness_of_fit([0.5, 0.5], n_simulations=199).pvalue == 1.0


def test_without_noise_cells_have_clopper_and_pearsons_intervals() -> None:
    codes = np.repeat([0, 1, 2], [3, 17, 30])
    found = ContingencyTable(levels=[[0, 1, 2]], epsilon=60.0, random_state=0).fit(codes)
    interval = found.confidence_interval(0.9)
    for k, low, high in zip((3, 17, 30), interval.low, interval.high, strict=True):
        exact = binomtest(k, 50).proportion_ci(0.9, "exact")
        assert (low, high) == pytest.approx((exact.low, exact.high), abs=1e-9)


@pytest.mark.parametrize("kind", ["difference", "risk_ratio", "odds_ratio", "cohens_h"])
def test_two_groups_in_the_other_order_have_the_opposite_effect(kind: str) -> None:
    # In some tables no row has an outcome, or all have it: 0/0 may be anything, both ways.
    for counts in ([40, 60, 20, 80], [0, 30, 0, 25], [30, 0, 25, 0], [3, 0, 0, 4]):
        rows = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], counts, axis=0)
        table = ContingencyTable(levels=[[0, 1]] * 2, epsilon=1.0, random_state=0).fit(rows)
        one, other = (
            np.array(tuple(getattr(table, kind)(groups, 0).confidence_interval(0.9))) for groups in ((0, 1), (1, 0))
        )
        with np.errstate(divide="ignore"):
            opposite = -other[::-1] if kind in ("difference", "cohens_h") else 1 / other[::-1]
        assert np.allclose(one, opposite, rtol=1e-2), (counts, one, opposite)


@pytest.mark.parametrize("kind", ["difference", "risk_ratio", "odds_ratio", "cohens_h"])
def test_an_effect_and_its_interval_are_one(kind: str) -> None:
    none, asked = (0.0 if kind in ("difference", "cohens_h") else 1.0), 0
    for seed, counts in enumerate(([40, 60, 30, 70], [200, 100, 180, 120], [10, 200, 16, 190], [5, 9, 3, 20])):
        rows = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], counts, axis=0)
        table = ContingencyTable(levels=[[0, 1]] * 2, epsilon=(20.0, 1.0)[seed % 2], random_state=seed)
        effect = getattr(table.fit(rows), kind)((0, 1), 1)
        # Both are of grids, whose points are a few hundredths of a standard error apart.
        if 1e-3 < effect.pvalue < 0.8:
            for level, inside in ((1 - 0.9 * effect.pvalue, True), (1 - 1.15 * effect.pvalue, False)):
                low, high = effect.confidence_interval(level)
                assert (low <= none <= high) == inside, (counts, level)
            asked += 1
    assert asked >= 2


@pytest.fixture(scope="module")
def database() -> Any:
    db = duckdb.connect()
    db.execute("CREATE TABLE v AS SELECT range // 3 AS person, range % 9 - 4 AS x, range % 4 AS z FROM range(900)")
    return db


def test_a_lower_bound_is_the_end_of_an_interval_with_one_tail(database: Any) -> None:
    sql = PrivateSQL(database, epsilon=0.5, random_state=0)
    answer: Any = sql.count("SELECT COUNT(*) FROM v WHERE z = 1")
    for level in (0.8, 0.9, 0.95):
        assert answer.lower_bound(level) == answer.confidence_interval(2 * level - 1).low


def test_an_end_splits_its_level_over_every_noise_that_it_counts(database: Any) -> None:
    # Values of both signs are cut at two thresholds, each sum with a noise of its own.
    sql = PrivateSQL(
        database, epsilon=0.5, bounds={"v.x": (-4, 4)}, unit={"v": "person"}, unit_limit=2**10, random_state=0
    )
    answer: Any = sql.query("SELECT SUM(x) FROM v")
    one, other = answer.off.scales
    for level in (0.8, 0.95):
        half = (answer.confidence_interval(level).high - answer.value) / answer.measure.spacing
        tail = (1 - level) / 2
        assert half == noise_width("laplace", one, tail) + noise_width("laplace", other, tail)


@pytest.mark.parametrize("more", [{}, {"unit": {"v": "person"}, "unit_limit": 2**10}], ids=["rows", "units"])
def test_cells_of_a_query_share_their_level(database: Any, more: dict[str, Any]) -> None:
    sql = PrivateSQL(database, epsilon=0.5, categories={"v.z": [0, 1, 2, 3]}, random_state=0, **more)
    answer: Any = sql.query("SELECT z, COUNT(*) FROM v GROUP BY z")
    together, each = (answer.confidence_interval(0.9, simultaneous=True), answer.confidence_interval(1 - 0.1 / 4))
    assert np.allclose(together.low, each.low) and np.allclose(together.high, each.high)
    assert np.all(together.high > answer.confidence_interval(0.9).high)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_an_online_stream_promises_no_more_than_its_noises_keep_together(delta: float) -> None:
    made = OnlineMultiplicativeWeights(n_queries=50, epsilon=1.0, delta=delta, random_state=0)
    for n, size in ((10_000, 4), (100_000, 64)):
        plan = made.plan(n, size)
        noise, stage = plan.noise_of, plan.noise_of.stage
        room, updates = n * noise.answer_error, stage.max_above
        scale = stage.answer_scale_steps / ROW
        tail = 2 * norm.sf(room / scale) if stage.answer_noise == "gaussian" else math.exp(-room / scale)
        # Questions and thresholds have a part each.
        assert updates * tail <= plan.beta / 3 * (1 + 1e-6)
