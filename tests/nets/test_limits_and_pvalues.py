"""Intervals and tests agree: p-values at limits of intervals of level 0.95 are 0.05, for every family and option."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from dpstats.covariance import PrivateCorrelation
from dpstats.inference import Estimates
from dpstats.means import ClippedMean
from dpstats.mechanisms import Histogram, RandomizedResponse
from dpstats.ranks import MannWhitneyTest
from dpstats.statistic import PrivateStatistic
from dpstats.tables import ContingencyTable
from tests.nets.test_forms import ask_sql
from tests.nets.test_one_way_out import EXTRA, FITTED, IN_STEPS, LABELS, NO_INTERVALS, ONE_LEVEL, RNG, X, fitted

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "ClippedMean": [{"estimand": "clipped"}],
    "AdaptiveMean": [{"estimand": "population"}, {"estimand": "tails"}],
    "SparseMean": [{"estimand": "population"}, {"estimand": "clipped"}],
    "PrivateVariance": [{"estimand": "clipped"}],
    "PrivatePCA": [{"estimand": "component"}, {"estimand": "eigenvalue"}],
    "PrivateCorrelation": [{"estimand": None}],
    "PrivateProportion": [{"interval": "conservative"}, {"interval": "exact"}],
    "WorkloadAnswers": [{"estimand": "data"}, {"estimand": "population"}],
    "PrivateDistribution": [{"q": 0.5}, {"q": [0.3, 0.6]}],
    "ContingencyTable": [{"axis": 0}, {"axis": 1}, {"axis": (0, 1)}],
    "PrivateSurvival": [{"t": 2.0}, {"group": 1}, {"t": [1.0, 3.0], "group": 0}],
    **{name: [{"coefficient": 0}, {"coefficient": ["x1", "x0"]}] for name in FITTED if name.endswith("Regression")},
}
"""The values of the options of every estimator that has some."""


ROOM = 5e-4  # limits are found by search


def known_standard_deviation(**options: Any) -> Estimates:
    return ClippedMean(bounds=(-4, 4), std=1.0, random_state=0, **options).fit(X).estimates(estimand="population")


@cache
def strata() -> ContingencyTable:
    rows = np.column_stack([LABELS % 2, RNG.integers(2, size=len(LABELS)), np.arange(len(LABELS)) % 3])
    return ContingencyTable(levels=[[0, 1], [0, 1], [0, 1, 2]], random_state=0).fit(rows)


@cache
def pearson() -> PrivateCorrelation:
    return PrivateCorrelation(method="pearson", bounds=(-4, 4), delta=1e-6, random_state=0).fit(X)


def compare_statistics() -> Estimates:
    first, second = (PrivateStatistic(np.std, bounds=(0, 4), random_state=k).fit(X) for k in (0, 1))
    return first.difference(second)


MORE: dict[str, Callable[[], Estimates]] = {
    "population mean": known_standard_deviation,
    "population mean, l2": lambda: (
        ClippedMean(clip=4.0, clip_norm="l2", delta=1e-6, std=1.0, random_state=0)
        .fit(X)
        .estimates(estimand="population")
    ),
    "difference of groups": lambda: fitted("GroupMeans").difference(0, 1),
    "pairs, Tukey": lambda: fitted("GroupMeans").pairwise("tukey"),
    "pairs, Holm": lambda: fitted("GroupMeans").pairwise("holm"),
    "difference of proportions": lambda: fitted("ContingencyTable").difference((0, 1), True),
    "risk ratio": lambda: fitted("ContingencyTable").risk_ratio((0, 1), True),
    "odds ratio": lambda: fitted("ContingencyTable").odds_ratio((0, 1), True),
    "pairs of proportions": lambda: fitted("ContingencyTable").pairwise(),
    "Cohen's h": lambda: fitted("ContingencyTable").cohens_h((0, 1), True),
    "common odds ratio": lambda: strata().odds_ratio((0, 1), 1, (0, 1), strata=2),
    "paired difference": lambda: strata().paired_difference(1, (0, 1)),
    "trend": lambda: strata().trend([0, 1, 3], 1, (2, 1)),
    "median survival": lambda: fitted("PrivateSurvival").quantile(0.2),
    "restricted mean": lambda: fitted("PrivateSurvival").rmst(),
    "difference of restricted means": lambda: fitted("PrivateSurvival").rmst_difference(0, 1),
    "difference of survivals": lambda: fitted("PrivateSurvival").difference(0, 1, 2.0),
    "Pearson's correlations": lambda: pearson().estimates(estimand="clipped"),
    "Pearson's correlations of a population": lambda: pearson().estimates(estimand="population"),
    "correlations": lambda: fitted("PrivateCovariance").correlation(),
    "combinations of coefficients": lambda: fitted("PrivateLinearRegression").t_test("x0 = x1, x0 = 0"),
    "predictions": lambda: fitted("PrivateLinearRegression").get_prediction(X[:3]),
    "probabilities": lambda: fitted("PrivateLogisticRegression").get_prediction(X[:3]),
    "rates": lambda: fitted("PrivateCountRegression").get_prediction(X[:3]),
    "difference of statistics": compare_statistics,
    "superiority": lambda: (
        MannWhitneyTest(groups=[0, 1], sizes=(1500, 1500), n_simulations=99, random_state=0)
        .fit(X[:, 0], np.arange(3000) % 2)
        .superiority()
    ),
    "counts, Gaussian": lambda: (
        Histogram([0, 1], epsilon=1.0, delta=0.1, random_state=0).release([0, 1, 1] * 50).estimates()
    ),
    "responses": lambda: (
        RandomizedResponse(1.0, random_state=0).estimate(np.random.default_rng(0).integers(2, size=500)).estimates()
    ),
    "counts, Laplace": lambda: Histogram([0, 1], epsilon=1.0, random_state=0).release([0, 1, 1] * 50).estimates(),
    "SQL counts": lambda: ask_sql("SELECT g, COUNT(*) FROM r GROUP BY g").estimates(),
    "SQL means": lambda: ask_sql("SELECT g, COUNT(*), AVG(x) FROM r GROUP BY g").estimates(),
    "distance from a null mean": lambda: fitted("RowDistanceTest").estimate_distance(n_simulations=99),
}
"""Estimates beside those of `estimates`: comparisons, predictions, answers."""

JUMPS = {*IN_STEPS, "counts, Laplace", "SQL counts", "SQL means", "median survival", "distance from a null mean"}
"""Their p-values jump at the limits: none at a limit is below the error probability."""

OUTWARD = {"pairs of proportions", "difference of proportions", "risk ratio", "odds ratio", "Cohen's h"}
"""Their limits are rounded outward to a grid of pairs of proportions: p-values at a limit are a little smaller."""


def check_agreement(name: str, found: Estimates) -> int:
    """Check the p-values at all finite limits inside the bounds of the estimands; return their number."""
    box, start = found.distribution.box, found.distribution.start
    checked = 0
    for side, together in itertools.product(("two-sided", "less", "greater"), (False, True)):
        ends = found.confidence_interval(0.95, simultaneous=together, alternative=side)
        for end, bound in zip(ends, box, strict=True):
            inside = np.isfinite(end) & ~np.isclose(end, bound, rtol=0.0, atol=1e-9)
            at = np.where(inside, end, start)
            pvalues = np.asarray(found.test(at, side, simultaneous=together).pvalue)[inside]
            checked += pvalues.size
            if name in JUMPS:
                assert np.all(pvalues >= 0.05 - ROOM), (side, together, pvalues)
            elif name in OUTWARD:
                assert np.all((pvalues > 0.04) & (pvalues <= 0.05 + ROOM)), (side, together, pvalues)
            elif np.all(inside) or not together:
                # Adjusted p-values need all limits: what is moved inside has another p-value.
                assert pvalues == pytest.approx(np.full(pvalues.shape, 0.05), abs=ROOM), (side, together)
    return checked


def test_every_option_has_its_values_here() -> None:
    for name, model in FITTED.items():
        if name in ONE_LEVEL or name in NO_INTERVALS:
            continue
        parameters = set(inspect.signature(type(fitted(name)).estimates).parameters) - {"self"}
        given = {key for options in OPTIONS.get(name, []) for key in options}
        assert given == parameters == EXTRA.get(name, set()), (name, model)


@pytest.mark.parametrize("name", [name for name in FITTED if name not in {*ONE_LEVEL, *NO_INTERVALS}])
def test_pvalues_at_limits_of_every_estimator_and_option(name: str) -> None:
    for options in [{}, *OPTIONS.get(name, [])]:
        assert check_agreement(name, fitted(name).estimates(**options)) > 0


@pytest.mark.parametrize("name", MORE)
def test_pvalues_at_limits_of_comparisons_predictions_and_answers(name: str) -> None:
    assert check_agreement(name, MORE[name]()) > 0


@pytest.mark.parametrize("name", [name for name in FITTED if name not in {*ONE_LEVEL, *NO_INTERVALS}])
def test_limits_of_several_tails_are_no_narrower_than_those_of_each(name: str) -> None:
    for options in ({}, *OPTIONS.get(name, [])):
        made = fitted(name).estimates(**options).distribution
        tails = np.resize([0.2, 0.01, 0.07], made.start.shape)
        low, high = made.limits(tails)
        for tail in np.unique(tails):
            own = tails == tail
            alone = made.limits(np.full(made.start.shape, tail))
            room = ROOM * (1 + np.abs(alone[1] - alone[0]))
            assert not np.any(own & ((low > alone[0] + room) | (high < alone[1] - room))), (options, tail)
