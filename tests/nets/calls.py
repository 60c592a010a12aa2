"""A call of every public class and function, with what their results are asked: the start of all ladders."""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression

import dpstats
from dpstats import (
    auditing,
    conformal,
    covariance,
    groups,
    identity,
    means,
    mechanisms,
    plots,
    privacy,
    quantiles,
    queries,
    ranks,
    regression,
    sensitivity,
    simulation,
    statistic,
    survival,
    tables,
    textbook,
)
from dpstats.inference import results
from dpstats.privacy import events
from dpstats.privacy import events as sampled
from dpstats.release import estimator
from dpstats.release.additive import release_count
from dpstats.release.estimator import PrivateEstimator
from tests.nets.ladders import COMMON, FEW, ladders, parameters
from tests.nets.told import Said, is_ours, outcome

RNG = np.random.default_rng(8)
N = 160
X = RNG.normal([0.3, -0.2], [1.0, 0.5], size=(N, 2))
Y = 0.5 + X @ [1.0, -1.0] + RNG.normal(size=N)
LABELS = RNG.choice(3, N, p=[0.2, 0.3, 0.5])
TIMES = RNG.exponential(3.0 + LABELS)
COUNTS = np.array([30, 20, 10, 40])
PAIRED = np.column_stack([LABELS % 2, Y > 0]).astype(int)
SEED = {"random_state": 0, "epsilon": 3.0}
HOLES = {id(rows): np.where(np.arange(rows.size).reshape(rows.shape) % 11 == 0, np.nan, rows) for rows in (X, Y)}


def same(thing: Any) -> Any:
    return thing


@dataclass(frozen=True)
class Call:
    """A call with its arguments.

    Attributes
    ----------
    made : callable
    given : mapping of str
    then : callable
        What is done with the result before it is told of, such as a fit.
    excused : mapping of str
        Nets that do not fit, each with its reason, as the registry has them.
    """

    made: Callable[..., Any]
    given: Mapping[str, Any]
    then: Callable[[Any], Any] = same
    excused: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, **given: Any) -> Any:
        return self.then(self.made(**given))


ROWS_OF: dict[Callable[[Any], Any], tuple[Any, ...]] = {}
"""What each fit is given."""


def fit(*rows: Any) -> Callable[[Any], Any]:
    """Return a fit to rows, some of which have no value where an estimator drops missing ones."""

    def fit_rows(estimator: Any) -> Any:
        holes = getattr(estimator, "missing", "error") in ("drop", "center")
        return estimator.fit(*(HOLES.get(id(one), one) if holes else one for one in rows))

    ROWS_OF[fit_rows] = rows
    return fit_rows


BOUNDED = {"bounds": (-4.0, 4.0), **SEED}
DESIGN = {"x_bounds": (-4.0, 4.0), **SEED}
QUERIES = RNG.integers(0, 2, size=(6, 4))
DOMAIN = {"a": [0, 1], "b": [0, 1]}
CURVES = {"horizon": 4.0, "bins": 4, "groups": [0, 1, 2], **SEED}
COUNTED = fit(X, np.floor(np.exp(Y / 2)))
TRIAL = pd.DataFrame({"arm": LABELS, "x": X[:, 0], "old": (X[:, 1] > 0).astype(int), "days": np.floor(np.exp(Y / 2))})
COHORT = {"x": {"mean": (-4.0, 4.0)}, "old": {"levels": [0, 1]}, "days": {"median": (0, 30), "step": 1}}

ESTIMATORS: dict[str, Call] = {
    call.made.__name__: call
    for call in (
        Call(means.ClippedMean, BOUNDED, fit(X)),
        Call(means.AdaptiveMean, {"bound": 40.0, "std": 1.0, **SEED}, fit(X)),
        Call(means.SparseMean, {"n_nonzero": 1, "clip": 4.0, "std": 1.0, "split": True, **SEED}, fit(X)),
        Call(means.PrivateVariance, BOUNDED, fit(X)),
        Call(means.PrivateBounds, {"epsilon": 4.0, **SEED}, fit(X), {"estimates": "bounds have no intervals"}),
        Call(means.CompleteCases, SEED, fit(HOLES[id(X)])),
        Call(
            groups.CohortTable,
            {"groups": [0, 1, 2], "by": "arm", "columns": COHORT, **SEED},
            fit(TRIAL),
            {"estimates": "a table of several estimands; its parts have estimates"},
        ),
        Call(groups.GroupMeans, {"groups": [0, 1, 2], **BOUNDED}, fit(X, LABELS)),
        Call(groups.GroupQuantiles, {"groups": [0, 1, 2], **BOUNDED}, fit(X[:, 0], LABELS)),
        Call(groups.MeanPerRow, {"max_rows": 2, **BOUNDED}, fit(X, np.arange(N) // 3)),
        Call(regression.PrivateLinearRegression, {"y_bounds": (-8.0, 8.0), **DESIGN}, fit(X, Y)),
        Call(regression.PrivateLogisticRegression, DESIGN, fit(X, Y > 0)),
        Call(regression.PrivateCountRegression, {"y_bounds": (0, 30), **DESIGN}, COUNTED),
        Call(regression.PrivateGammaRegression, {"y_bounds": (0, 30), **DESIGN}, fit(X, np.exp(Y / 2))),
        Call(regression.SufficientStatisticsRegression, {"y_bounds": (-8.0, 8.0), **DESIGN}, fit(X, Y)),
        Call(textbook.FunctionalMechanismRegression, {"y_bounds": (-8.0, 8.0), **DESIGN}, fit(X, Y)),
        Call(tables.PrivateProportion, SEED, fit(Y > 0)),
        Call(tables.ContingencyTable, {"levels": [[0, 1], [0, 1]], **SEED}, fit(PAIRED)),
        Call(queries.WorkloadAnswers, {"domain": DOMAIN, "workload": 1, **SEED}, fit(PAIRED)),
        Call(queries.MarginalMWEM, {"domain": DOMAIN, "workload": 1, **SEED}, fit(PAIRED)),
        Call(textbook.IterativeConstruction, {"queries": QUERIES, **SEED}, fit(COUNTS)),
        Call(textbook.NetMechanism, {"queries": QUERIES, "accuracy": 0.4, **SEED}, fit(COUNTS)),
        Call(textbook.SmallDB, {"queries": QUERIES, "n_rows": 3, **SEED}, fit(COUNTS)),
        Call(textbook.OnlineMultiplicativeWeights, {"n_queries": 5, **SEED}, fit(COUNTS)),
        Call(quantiles.PrivateDistribution, {"bins": 32, **BOUNDED}, fit(X[:, 0])),
        Call(quantiles.PrivateQuantile, {"q": [0.25, 0.5], **BOUNDED}, fit(X[:, 0])),
        Call(quantiles.PrivateMedian, {"confidence_level": 0.9, **BOUNDED}, fit(X[:, 0])),
        Call(
            conformal.PrivateConformalRegressor,
            {"estimator": LinearRegression().fit(X, Y), "score_bounds": 20.0, "training": "public", **SEED},
            fit(X, Y),
            {"estimates": "an interval is of one new row, and no parameter is estimated"},
        ),
        Call(
            conformal.PrivateConformalClassifier,
            {"estimator": LogisticRegression().fit(X, Y > 0), "training": "public", **SEED},
            fit(X, Y > 0),
            {"estimates": "a set is of one new row, and no parameter is estimated"},
        ),
        Call(survival.PrivateSurvival, CURVES, fit(TIMES, LABELS > 0, LABELS)),
        Call(survival.LogRankTest, CURVES, fit(TIMES, LABELS > 0, LABELS)),
        Call(covariance.HotellingTest, BOUNDED, fit(X)),
        Call(covariance.PrivatePCA, BOUNDED, fit(X)),
        Call(covariance.PrivateCorrelation, SEED, fit(X)),
        Call(covariance.PrivateCovariance, BOUNDED, fit(X)),
        Call(
            statistic.PrivateStatistic,
            {"function": np.std, "bounds": (0, 4), "epsilon": 20.0, "random_state": 0},
            fit(np.tile(X, (9, 1))),
        ),
        Call(ranks.SignedRankTest, {"n_simulations": 99, **SEED}, fit(X[:, 0])),
        Call(ranks.MannWhitneyTest, {"groups": [0, 1], "n_simulations": 99, **SEED}, fit(Y, LABELS % 2)),
        Call(ranks.KolmogorovSmirnovTest, {"groups": [0, 1], "n_simulations": 99, **SEED}, fit(Y, LABELS % 2)),
        Call(ranks.GoodnessOfFitTest, {"distribution": "norm", "n_simulations": 99, **SEED}, fit(X[:, 0])),
        Call(ranks.KruskalWallisTest, {"groups": [0, 1, 2], "n_simulations": 99, **SEED}, fit(Y, LABELS)),
        *(
            Call(kind, {"n_calibration": 39, **SEED}, fit(X[:40]))
            for kind in (
                identity.FilteringTest,
                identity.LipschitzExtensionTest,
                identity.RowDistanceTest,
                identity.SpatialSignTest,
                textbook.StagedInnerProductTest,
            )
        ),
    )
}


def unnamed_calls() -> dict[str, Call]:
    """Return calls of the public estimators that have none above: as the registry has them."""
    names = [f"dpstats.{one.name}" for one in pkgutil.iter_modules(dpstats.__path__) if one.ispkg]
    packages = [importlib.import_module(name) for name in names]
    public = {name: getattr(one, name) for one in packages for name in getattr(one, "__all__", ())}
    new = {
        kind: name
        for name, kind in public.items()
        if isinstance(kind, type) and issubclass(kind, PrivateEstimator) and name not in ESTIMATORS
    }
    if not new:
        return {}  # The registry takes seconds to build.
    if (folder := str(Path(__file__).parents[1] / "conformance")) not in sys.path:
        sys.path.append(folder)
    from registry import ENTRIES, reading
    from registry.entry import traits_of

    found = {}
    for entry in ENTRIES:
        if entry.covers in new and entry.estimator is not None and new[entry.covers] not in found:
            given = {**entry.estimator.get_params(), "budget": None, **SEED}
            rows = reading.fit_data(entry.estimator, X[:, : reading.width(entry)])
            found[new[entry.covers]] = Call(entry.covers, given, fit(*rows), traits_of(entry).excused)
    return found


ESTIMATORS |= unnamed_calls()


@cache
def fitted(name: str) -> Any:
    """Return an estimator as it is fitted at the start of its ladders."""
    call = ESTIMATORS[name]
    return call(**call.given)


VALUES = np.array([3.0, -1.0, 2.5, 0.4, 2.4])
TWICE = {"sensitivity": 1.5, **SEED}
ORDERED = np.sort(np.clip(X[:40, 0], -2, 2))
WITHIN = {"lower": -2.0, "upper": 2.0, "beta": 0.2}
GUARANTEE = privacy.PrivacyGuarantee(0.5, 1e-6)


def stream(mechanism: Any) -> Any:
    return [*mechanism.stream(np.linspace(-30, 40, 12))], mechanism


@cache
def study() -> Any:
    return simulation.Study(
        simulation.Rademacher(),
        means.ClippedMean(clip=1.0, delta=1e-5),
        {"n": [50, 100, 200], "d": [2], "epsilon": [0.1]},
        8,
        loss="released_squared_error",
    ).run()


def sign_test(n: int, rng: Any) -> bool:
    return bool(rng.normal(0.3, size=int(n)).mean() > 1 / np.sqrt(n))


def logistic(x: float, rng: Any) -> Any:
    return rng.random(10) < 1 / (1 + np.exp(3 - x))


def laplace(value: Any, rng: Any, size: int) -> Any:
    return value + rng.laplace(size=size)


def counted(rows: Any) -> Any:
    return float(np.sum(np.asarray(rows) > 0))


ADDED = privacy.Neighbors.ADD_OR_REMOVE_ONE


def profiles(event: Any) -> list[Any]:
    """Return the curves of an event, of a row removed and of one added."""
    epsilons = np.array([0.0, 0.01, 0.1, 0.5, 2.0])
    return [event.curve(epsilons), event.back_curve(epsilons), event.largest_loss()]


OTHERS: dict[str, Call] = {
    call.made.__name__: call
    for call in (
        Call(mechanisms.LaplaceMechanism, TWICE, lambda made: (made.release(VALUES), made)),
        Call(mechanisms.GaussianMechanism, {"delta": 1e-5, **TWICE}, lambda made: (made.release(VALUES), made)),
        Call(mechanisms.ExponentialMechanism, TWICE, lambda made: (made.select(VALUES), made)),
        Call(mechanisms.ReportNoisyMax, TWICE, lambda made: (made.select(VALUES), made)),
        Call(mechanisms.PermuteAndFlip, TWICE, lambda made: (made.select(VALUES), made)),
        Call(mechanisms.NoisyTopK, {"k": 2, **TWICE}, lambda made: (made.select(VALUES), made)),
        Call(mechanisms.Count, SEED, lambda made: (made.release(X[:, 0] > 0), made)),
        Call(mechanisms.Histogram, {"categories": [0, 1, 2], **SEED}, lambda made: made.release(LABELS.tolist())),
        Call(
            mechanisms.RandomizedResponse,
            {"n_categories": 3, **SEED},
            lambda made: (made.estimate(made.randomize(LABELS)), made),
        ),
        Call(
            mechanisms.ContinualCounts,
            {"horizon": 12, **SEED},
            lambda made: (made.update_many([5, 0, 9, 4]), made.path(), made),
        ),
        Call(
            means.ContinualMeans,
            {"bounds": (0, 9), "horizon": 12, **SEED},
            lambda made: (made.update_many([[5.0, 4.0], [], [9.0]]), made.path(), made),
        ),
        Call(mechanisms.AboveThreshold, {"threshold": 2.0, **SEED}, stream),
        Call(mechanisms.SparseVector, {"threshold": 2.0, "max_above": 2, **SEED}, stream),
        Call(mechanisms.NumericSparseVector, {"threshold": 2.0, "max_above": 2, **SEED}, stream),
        Call(
            auditing.audit,
            {
                "release": laplace,
                "dataset": 0.0,
                "neighbor": 1.0,
                "epsilon": 0.5,
                "n_trials": 2000,
                "batched": True,
                "random_state": 0,
            },
        ),
        Call(auditing.audit_outputs, {"outputs": X[:, 0], "neighbor_outputs": X[:, 0] + 1, "epsilon": 0.5}),
        Call(auditing.epsilon_lower_bound, {"counts": [700, 900], "other_counts": [300, 800], "trials": 2000}),
        Call(auditing.exact_delta, {"p": [0.5, 0.3, 0.2], "q": [0.3, 0.3, 0.4], "epsilon": 0.2}),
        Call(auditing.exact_epsilon, {"p": [0.5, 0.3, 0.2], "q": [0.3, 0.3, 0.4]}),
        Call(
            auditing.audit_probabilities,
            {"probabilities": mechanisms.RandomizedResponse(1.0).probabilities, "pairs": [(0, 1)], "epsilon": 0.9},
        ),
        Call(
            auditing.check_sensitivity,
            {
                "release": means.ClippedMean(bounds=(-4, 4), random_state=0),
                "dataset": X[:20],
                "neighbor": np.vstack([X[1:20], [[9.0, -9.0]]]),
            },
        ),
        Call(
            auditing.worst_neighbor,
            {
                "release": means.ClippedMean(bounds=(-4, 4), random_state=0),
                "dataset": X[:5],
                "candidates": [[9.0, -9.0], [0.0, 1.0]],
            },
        ),
        Call(privacy.PrivacyGuarantee, {"epsilon": 0.5, "delta": 1e-6}),
        Call(
            privacy.PrivacyBudget,
            {"epsilon": 3.0, "delta": 1e-3},
            lambda made: (made.charge(GUARANTEE, "one"), made.check(GUARANTEE), made),
        ),
        Call(privacy.advanced_composition, {"epsilon": 0.1, "k": 20, "delta_slack": 1e-6}),
        Call(privacy.advanced_composition_share, {"total_epsilon": 0.9, "k": 20, "delta_slack": 1e-6}),
        Call(privacy.basic_composition, {"guarantees": [GUARANTEE, GUARANTEE]}),
        Call(privacy.compose, {"items": [GUARANTEE, GUARANTEE], "delta": 1e-5}),
        Call(privacy.gaussian_delta, {"epsilon": 0.5, "sigma": 2.0}),
        Call(privacy.gaussian_epsilon, {"sigma": 2.0, "delta": 1e-5}),
        Call(privacy.gaussian_sigma, {"epsilon": 0.5, "delta": 1e-5}),
        Call(privacy.group_privacy, {"guarantee": GUARANTEE, "size": 3}),
        Call(privacy.heterogeneous_composition, {"guarantees": [GUARANTEE, GUARANTEE], "delta_slack": 1e-6}),
        Call(privacy.optimal_composition_delta, {"epsilon": 0.1, "k": 20, "total_epsilon": 1.0}),
        Call(privacy.optimal_composition_epsilon, {"epsilon": 0.1, "k": 20, "total_delta": 1e-6}),
        Call(
            privacy.poisson_subsampling,
            {"guarantee": privacy.PrivacyGuarantee(0.5, neighbors=privacy.Neighbors.ADD_OR_REMOVE_ONE), "rate": 0.1},
        ),
        Call(privacy.tradeoff_curve, {"item": GUARANTEE, "type_one_error": [0.0, 0.2, 1.0]}),
        Call(privacy.zcdp_delta, {"rho": 0.1, "epsilon": 1.0}),
        Call(privacy.zcdp_epsilon, {"rho": 0.1, "delta": 1e-6}),
        Call(privacy.zcdp_rho, {"epsilon": 1.0, "delta": 1e-6}),
        Call(
            privacy.Stage,
            {"name": "sum", "noise": "laplace", "size": 2, "spacing": 0.25, "sensitivity_steps": 3, "scale_steps": 8.0},
        ),
        Call(privacy.Choice, {"name": "point", "size": 1, "range_steps": 2, "scale_steps": 8.0, "candidates": 5}),
        Call(privacy.Coins, {"name": "coins", "shape": (2, 3)}),
        Call(privacy.Responses, {"name": "answers", "n_categories": 3, "keep_grains": 2**52}),
        Call(
            privacy.Selection,
            {
                "name": "best",
                "noise": "gumbel",
                "size": 1,
                "spacing": 0.5,
                "sensitivity_steps": 2,
                "scale_steps": 8.0,
                "candidates": 5,
            },
        ),
        Call(privacy.Shuffle, {"name": "order", "size": 4}),
        Call(
            privacy.Comparisons,
            {
                "name": "stream",
                "spacing": 0.5,
                "sensitivity_steps": 2,
                "threshold_steps": 4,
                "threshold_scale_steps": 8.0,
                "question_scale_steps": 16.0,
                "max_above": 1,
            },
        ),
        Call(
            sampled.Sampled,
            {"event": events.Gaussian(0.5, neighbors=ADDED), "rate": 0.1},
            lambda made: [made, made.pure_cost(), privacy.compose([made] * 3, delta=1e-5), *profiles(made)],
        ),
        Call(
            sampled.GaussianMixture,
            {"shifts": (0.0, 0.5, 1.0), "chances": (0.9, 0.08, 0.02)},
            lambda made: [made, *profiles(made)],
        ),
        Call(
            auditing.check_release,
            {
                "estimator": means.ClippedMean(clip=1.0, std=None),
                "pairs": [([[9.0], [0.0], [0.0]], [[-9.0], [0.0], [0.0]])],
                "outputs": lambda made: made.mean_,
                "broken": {"more": means.ClippedMean(clip=1.0, std=None, epsilon=4.0)},
                "n_trials": 100,
                "random_state": 3,
            },
        ),
        Call(sensitivity.global_sensitivity, {"function": counted, "domain": [-1, 1], "n_rows": 2}),
        Call(sensitivity.local_sensitivity, {"function": counted, "dataset": [-1, 1], "domain": [-1, 1]}),
        Call(sensitivity.smooth_noise, {"epsilon": 0.5, "delta": 0.0}),
        Call(sensitivity.smooth_sensitivity, {"local": lambda k: float(min(k, 5)), "beta": 0.2, "furthest": 9}),
        Call(sensitivity.median_smooth_sensitivity, {"x": ORDERED, **WITHIN}),
        Call(sensitivity.minimum_smooth_sensitivity, {"x": ORDERED, **WITHIN}),
        Call(sensitivity.maximum_smooth_sensitivity, {"x": ORDERED, **WITHIN}),
        Call(sensitivity.quantile_smooth_sensitivity, {"x": ORDERED, "q": 0.2, **WITHIN}),
        Call(sensitivity.trimmed_mean_smooth_sensitivity, {"x": ORDERED, "trim": 5, **WITHIN}),
        Call(means.clipping_radius, {"n_samples": 100, "sigma": 1.0, "bound": 10.0}),
        Call(
            means.required_samples,
            {"estimator": means.ClippedMean(bounds=(-4, 4)), "n_features": 2, "target_error": 0.5},
        ),
        Call(
            groups.one_row_per_unit,
            {"frame": pd.DataFrame({"u": LABELS, "x": X[:, 0]}), "unit": "u", "how": {"x": "mean"}},
        ),
        Call(identity.identity_test, {"X": X[:40], "n_calibration": 39, **SEED}),
        Call(identity.exact_inner_product_extension, {"X": np.sign(X[:6]), "Delta": 1.0, "constant": 2.0}),
        Call(identity.inner_product_constant, {"n": 40, "d": 2, "Delta": 0.8}),
        Call(identity.l1_extension, {"S": [3, 1], "n": 5, "A": 2.0}),
        Call(identity.row_distance, {"X": np.sign(X[:12]).astype(np.int8), "rho": 3, "a0": 2, "tau0": 1.0}),
        Call(identity.sign_reduction, {"X": X[:6]}),
        Call(ranks.wilcoxon_signed_rank, {"x": X[:, 0], "n_simulations": 99, **SEED}),
        Call(ranks.mann_whitney, {"x": X[:, 0], "labels": LABELS % 2, "groups": [0, 1], "n_simulations": 99, **SEED}),
        Call(ranks.ks_test, {"x": X[:, 0], "labels": LABELS % 2, "groups": [0, 1], "n_simulations": 99, **SEED}),
        Call(ranks.goodness_of_fit, {"x": X[:, 0], "distribution": "norm", "n_simulations": 99, **SEED}),
        Call(ranks.kruskal_wallis, {"x": X[:, 0], "labels": LABELS, "groups": [0, 1, 2], "n_simulations": 99, **SEED}),
        Call(statistic.check_locality, {"function": np.std, "X": X[:, 0], "n_blocks": 4}),
        Call(queries.Bins, {"edges": [0.0, 1.0, 3.0]}),
        Call(queries.Domain, {"attributes": {"a": 3, "b": [0, 1]}}),
        Call(queries.HalfspaceQueries, {"points": X[:5], "n": 3}),
        Call(queries.MarginalQueries, {"domain": queries.Domain({"a": 3, "b": 4}), "tables": [(0,), (0, 1)]}),
        Call(queries.ParityQueries, {"d": 4, "k": 2}),
        Call(queries.PrefixQueries, {"size": 6}),
        Call(queries.RangeQueries, {"size": 6}),
        Call(textbook.build_net, {"queries": queries.LinearQueries.prefixes(4), "accuracy": 0.4}),
        Call(
            simulation.crossing_point,
            {"power": logistic, "low": 0.5, "high": 20, "replications": 40, "random_state": 1},
        ),
        Call(simulation.compare, {"results": study(), "stated": 0.5}),
        Call(simulation.fit_rate, {"results": study(), "parameter": "n", "theory": -2.0}),
        Call(
            simulation.fit_formula,
            {"results": study(), "terms": {"privacy": lambda cell: (cell["d"] / cell["n"] / cell["epsilon"]) ** 2}},
        ),
        Call(simulation.fit_rates, {"results": study(), "theory": {"n": -2.0}}),
        Call(
            simulation.compare_formulas,
            {
                "results": study(),
                "formulas": {
                    "linear": {"all": lambda cell: 1 / cell["n"]},
                    "square": {"all": lambda cell: cell["n"] ** -2.0},
                },
            },
        ),
        Call(simulation.sample_complexity, {"test": sign_test, "high": 500, "replications": 40}),
        Call(
            simulation.Study,
            {
                "sampler": simulation.Gaussian(),
                "estimator": means.ClippedMean(clip=4.0),
                "grid": {"n": [20], "d": [1]},
                "replications": 3,
            },
            lambda study: study.run(),
        ),
        Call(
            simulation.SparseMeans,
            {"n_nonzero": 1},
            lambda made: (made(5, 2, np.random.default_rng(0)), made.true_mean(2), made),
        ),
        *(
            Call(kind, {}, lambda made: (made(5, 2, np.random.default_rng(0)), made.true_mean(2), made))
            for kind in (
                simulation.Gaussian,
                simulation.SubGaussian,
                simulation.StudentT,
                simulation.Contaminated,
                simulation.Rademacher,
                simulation.ProductBernoulli,
            )
        ),
        Call(plots.plot_audit, {"result": auditing.audit_outputs(X[:, 0], X[:, 0] + 1, epsilon=0.5)}),
        Call(
            plots.plot_counts, {"result": mechanisms.Histogram([0, 1, 2], 1.0, random_state=0).release(LABELS.tolist())}
        ),
        Call(
            plots.plot_density,
            {
                "result": mechanisms.Histogram(bins=[-4, -1, 0, 1, 4], epsilon=1.0, random_state=0).release(
                    X[:, 0].tolist()
                )
            },
        ),
        Call(plots.plot_tradeoff, {"items": {"a": GUARANTEE, "b": privacy.PrivacyGuarantee(1.0)}}),
        Call(
            plots.plot_intervals_by_epsilon,
            {
                "names": ["a"],
                "epsilons": [0.5, 1.0],
                "estimates": [np.array([1.0]), np.array([2.0])],
                "intervals": [results.ConfidenceInterval(np.array([0.0]), np.array([3.0]))] * 2,
            },
        ),
        *(
            Call(plot, {name: fitted(kind)})
            for plot, name, kind in (
                (plots.plot_answers, "answers", "WorkloadAnswers"),
                (plots.plot_distribution, "distribution", "PrivateDistribution"),
                (plots.plot_proportion, "estimator", "PrivateProportion"),
                (plots.plot_quantiles, "quantiles", "PrivateQuantile"),
                (plots.plot_table, "table", "ContingencyTable"),
            )
        ),
        Call(results.ConfidenceInterval, {"low": np.array([1.0, 2.0]), "high": np.array([3.0, 4.0])}),
        Call(results.JointTest, {"statistic": 2.0, "pvalue": 0.04, "df_num": 2, "df_denom": 30, "names": ("a", "b")}),
    )
}

SIGNS = np.where(X > 0, 1.0, -1.0)
HOLES[id(SIGNS)] = np.where(np.arange(SIGNS.size).reshape(SIGNS.shape) % 11 == 0, np.nan, SIGNS)
WIDE = RNG.normal([0.0, 2.0, 2.0, 0.0, 0.5], size=(300, 5))
OF_SIGNS = {"null": "product", "n_calibration": 39, **SEED}

VARIANTS: dict[str, Call] = {
    **{
        f"{kind.__name__} of signs, {missing}": Call(kind, {"missing": missing, **OF_SIGNS}, fit(SIGNS))
        for kind in (identity.SpatialSignTest, identity.LipschitzExtensionTest, textbook.StagedInnerProductTest)
        for missing in ("error", "drop", "center")
    },
    **{
        f"sparse mean of five columns, {selection}": Call(
            means.SparseMean,
            {
                "n_nonzero": 3,
                "clip": 4.0,
                "std": [1.0, 1.0, 1.2, 1.0, 1.0],
                "epsilon": 20.0,
                "random_state": 1,
                "selection": selection,
            },
            fit(WIDE),
        )
        for selection in ("gumbel", "peeling")
    },
    **{
        f"quantiles, {coverage}, {epsilon}": Call(
            quantiles.PrivateQuantile,
            {
                "q": [0.1, 0.3, 0.5, 0.7, 0.9],
                "bounds": (-4.0, 4.0),
                "coverage": coverage,
                "epsilon": epsilon,
                "random_state": 2,
            },
            fit(X[:, 0]),
        )
        for coverage in ("regular", "any")
        for epsilon in (1.0, 20.0)
    },
    **{
        f"quantiles that nearly coincide, {coverage}, {seed}": Call(
            quantiles.PrivateQuantile,
            {"q": [0.48, 0.5, 0.52], "bounds": (-4.0, 4.0), "coverage": coverage, "epsilon": 1.0, "random_state": seed},
            fit(np.resize(X[:, 0], 1000)),
        )
        for coverage in ("regular", "any")
        for seed in (0, 1)
    },
    **{
        f"adaptive mean, {words}": Call(means.AdaptiveMean, {"bound": 40.0, **spread, **SEED}, fit(X))
        for words, spread in {
            "a spread for each column": {"std": [1.0, 0.5]},
            "private spread": {"std": "private", "std_bound": 5.0},
            "private covariance": {"std": 1.0, "cov": "private"},
        }.items()
    },
    "steps to the median of a net": Call(
        textbook.IterativeConstruction,
        {"queries": QUERIES[:3, :3], "update": "median", "accuracy": 0.8, "epsilon": 5.0, "random_state": 0},
        fit(COUNTS[:3]),
    ),
    "a ball": Call(means.ClippedMean, {"clip": 2.0, "clip_norm": "l2", "delta": 1e-6, **SEED}, fit(X)),
    "private rows": Call(means.ClippedMean, {"neighbors": "add_or_remove", **BOUNDED}, fit(X)),
    "found groups": Call(groups.GroupMeans, {"groups": "discover", "delta": 1e-6, **BOUNDED}, fit(X, LABELS)),
    "one group": Call(groups.GroupMeans, {"groups": [0, 9], **BOUNDED}, fit(X, LABELS * 0)),
    "causes": Call(survival.PrivateSurvival, {"causes": [1, 2], **CURVES}, fit(TIMES, LABELS, LABELS)),
    "discrete time": Call(survival.PrivateSurvival, {"discrete": True, **CURVES}, fit(TIMES, LABELS > 0, LABELS)),
    "no intercept": Call(
        regression.PrivateLinearRegression, {"fit_intercept": False, "y_bounds": (-8.0, 8.0), **DESIGN}, fit(X, Y)
    ),
    "two components": Call(covariance.PrivatePCA, {"n_components": 2, "scale": "std", **BOUNDED}, fit(X)),
    "two groups": Call(covariance.HotellingTest, {"groups": [0, 1], **BOUNDED}, fit(X, LABELS % 2)),
    "three attributes": Call(
        tables.ContingencyTable,
        {"levels": [[0, 1], [0, 1], [0, 1, 2]], "unknown": "drop", **SEED},
        fit(np.column_stack([PAIRED, LABELS + 1])),
    ),
    "two attributes of the rows": Call(
        queries.WorkloadAnswers, {"domain": DOMAIN, "workload": 2, "error": "max", **SEED}, fit(PAIRED)
    ),
}
"""Calls with several options or other data, whose results are asked every question once."""


FEWEST: tuple[Any, ...] = (-1, 0.5)
"""Values that are tried for the parameters of one variant of each class."""


def play_variant(name: str) -> dict[str, list[Said]]:
    """Return what the result of a variant says."""
    call = VARIANTS[name]
    first = next(one for one, other in VARIANTS.items() if other.made is call.made)
    found = ladders(signature_of(call), call.given, FEWEST if name == first else ())
    return found | (ask(name, call(**call.given), once=True) if is_accepted(found[""]) else {})


def play_little() -> dict[str, list[Said]]:
    """Return what estimators say whose noise is larger than all else, and whose noisy numbers of rows are too large."""
    found = {}
    for name, call in {**ESTIMATORS, **VARIANTS}.items():
        if call.made is identity.RowDistanceTest:
            continue  # its null distribution has another seed on another processor
        found[f"{name}, little epsilon"] = outcome(partial(call, **{**call.given, "epsilon": 0.05}))
        cut = {"bounds": (-0.5, 0.25), "clip": 0.5, "clipped_share": True} if name in ESTIMATORS else {}
        given = {**call.given, **{key: value for key, value in cut.items() if key in parameters(call.made)}}
        if "bounds" in call.given:
            given.pop("clip", None)
        if given != call.given:
            found[f"{name}, rows beyond the bounds"] = outcome(partial(call, **given))
        if "missing" not in parameters(call.made):
            continue
        if given != call.given:
            found[f"{name}, beyond, left out"] = outcome(partial(call, **{**given, "missing": "drop"}))
        dropped = partial(call, **{**call.given, "epsilon": 0.3, "missing": "drop"})
        found[f"{name}, rows left out"] = outcome(dropped)
        with mock.patch.object(estimator, "release_count", lambda *given: 300 + release_count(*given)):
            # Public rows are filled in.
            found[f"{name}, more rows than there are"] = outcome(dropped)
    return found


ARGUMENTS: dict[str, Any] = {
    "a": 0,
    "b": 1,
    "t": 1.5,
    "purpose": "a sample",
    "count": 2,
    "counts": [1, 2],
    "q": 0.3,
    "n": 3,
    "cause": 1,
    "x": 0.5,
    "value": 1,
    "condition": X[:, 0] > 0,
    "X": X[:3],
    "y": Y[:3],
    "labels": [0, 1, 1],
    "data": LABELS.tolist(),
    "rows": X[:3],
    "n_samples": 100,
    "n_features": 2,
    "distance": 1.0,
    "hazard_ratio": 0.5,
    "beta": 0.1,
    "size": 3,
    "k": 1,
    "times": 3,
    "hypotheses": [[1.0, -1.0, 0.0]],
    "attributes": ("a",),
    "p": [0.2, 0.3, 0.3, 0.2],
    "strata": None,
    "query": [1, 0, 0, 1],
    "n_queries": 4,
    "utilities": VALUES,
    "released": 2.0,
    "values": VALUES,
    "n_candidates": 4,
    "responses": LABELS,
    "answers": [False, False, True],
    "item": GUARANTEE,
    "label": "a",
    "unit": "person",
    "name": "sum",
    "j": 1,
    "i": 0,
    "w": [1.0] * 6,
    "d": 2,
    "queries": QUERIES.tolist(),
    "Q": QUERIES,
    "points": X[:5],
    "domain": queries.Domain({"a": 3, "b": [0, 1]}),
    "codes": np.array([[0, 1], [2, 0]]),
    "attribute": "b",
    "cells": [0, 4],
    "most": 5,
    "what": "a test",
    "other": queries.Domain({"a": 3, "b": [0, 1]}),
    "means": np.array([1.0, 0.5]),
    "errors": np.array([0.1, 0.1]),
    "loss": None,
    "function": len,
    "parameter": "n",
}
"""Arguments without a default, by their names."""


def on_universe(one: Any) -> dict[str, Any]:
    return {"x": 1.0 + np.arange(one.size), "w": np.arange(one.n_queries) % 3 - 1.0, "values": np.arange(one.n_queries)}


def fitted_again(one: Any) -> dict[str, Any]:
    return {"other": clone(one).set_params(random_state=1).fit(*ROWS_OF[ESTIMATORS["PrivateStatistic"].then])}


OF_METHODS: dict[str, dict[str, Any] | Callable[[Any], dict[str, Any]]] = {
    **{
        f"{kind}Queries.{name}": on_universe
        for kind in ("Halfspace", "Marginal", "Parity", "Prefix", "Range")
        for name in ("answers", "transpose", "split")
    },
    "CompleteCases.transform": {"X": HOLES[id(X)]},
    "ComparesGroups.homogeneity": {"strata": 2},
    "ContinualMeans.update": {"values": [5.0, 4.0]},
    "ContinualMeans.update_many": {"values": [[5.0], [1.0]]},
    "ContingencyTable.goodness_of_fit": {"p": [[0.2, 0.3], [0.3, 0.2]]},
    "Domain.check_size": {"most": 6},
    "Domain.codes": {"data": [[0, 0], [2, 1]]},
    "Domain.histogram": {"data": [[0, 0], [2, 1]]},
    "Domain.label": {"attributes": (0, 1)},
    "PrivateLogisticRegression.score": {"y": [0, 1, 1]},
    "PrivateStatistic.difference": fitted_again,
    "PrivateStatistic.plan": {"n_samples": 2000},
    "PrivateStatistic.rehearse": {"X": np.tile(X, (9, 1)), "n_replications": 20},
    "ComparesCurves.hazard_ratio": {"a": 0, "b": 2},
    "RandomizedResponse.randomize": {"values": LABELS},
    "Regression.t_test": {"hypotheses": "x0 = x1"},
    "Regression.wald_test": {"hypotheses": "x0 = x1"},
    "StudyResults.parameter": {"name": "n"},
    "StudyResults.where": {"condition": lambda cell: cell["n"] > 50},
    "_Databases.probabilities": {"X": COUNTS},
}
"""Other arguments of single methods."""

NO_ANSWER = {
    **dict.fromkeys(("ThresholdStream.query", "ThresholdStream.stream"), "the scene has used up its stream"),
    **dict.fromkeys(
        (
            "PrivateEstimator.n_interval",
            "GroupMeans.count_interval",
            "GroupMeans.ratio",
            "GroupQuantiles.ratio",
            "ComparesGroups.homogeneity",
            "PrivatePCA.biplot",
        ),
        "a variant has an answer",
    ),
    **dict.fromkeys(
        ("HasEstimates.test", "HasEstimates.confidence_interval"), "some estimators have one level, or no intervals"
    ),
    **dict.fromkeys(
        (
            "HistogramRelease.predict",
            "OnlineMultiplicativeWeights.plan",
            "OnlineMultiplicativeWeights.confidence_interval",
            "MannWhitneyTest.superiority",
            "StudyResults.side_by_side",
            "PrefixQueries.split",
            "GroupMeans.adjusted_difference",
            "PrivateLinearRegression.difference",
        ),
        "it needs other options: its test file has them",
    ),
}
"""Questions that a result of the nets refuses, each with the reason."""


@cache
def questions(kind: Any) -> dict[str, Callable[..., Any]]:
    """Return the methods of a class that have an argument, and those that draw."""
    found = {}
    for name in dir(kind):
        method = getattr(kind, name)
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        if not method.__module__.startswith("dpstats."):
            continue
        if name in UNASKED:
            continue
        found[name] = method
    return found


UNASKED = {
    *("fit", "fit_predict", "fit_transform", "to_html", "receipt", "close", "power"),
    "required_samples",
    *("estimate_distance", "distance_interval", "attainable_power", "calibration_seconds"),
    *("charge", "check", "labelled", "count_rows_as"),
}
"""Methods that write, charge or simulate for long: they have tests of their own."""

REPEATED = {"confidence_interval", "test", "summary", "to_frame", "to_dict", "plot", "estimates", "plan"}
"""Methods that every class has, which share their checks: fewer values are tried, but for one class."""

FORMS = {"to_frame", "to_latex", "to_markdown"}
"""Further forms of a table: asked of one class."""

PICTURES = {"plot", "heat_map", "biplot", "scree_plot"}


@cache
def first_with(module: str, name: str) -> str:
    """Return the first estimator that has a method."""
    for known, call in ESTIMATORS.items():
        if any((one.__module__, one.__qualname__) == (module, name) for one in questions(call.made).values()):
            return known
    return ""


NOT_ASKED = {"find_answered", "find_repeat", "for_request", "keep", "keep_answered", "leave_out_levels", "once"}
"""Methods of a budget whose answers are of a job with a key: tests/privacy/test_kept_answers.py.

`leave_out_levels` is what a command calls before it fits a formula: tests/cli/test_regress.py."""


def ask(scene: str, thing: Any, *, once: bool = False) -> dict[str, list[Said]]:
    """Return what a result answers to its questions: as they are, or also with other values of their parameters."""
    found: dict[str, list[Said]] = {}
    for name, method in questions(type(thing)).items():
        if name in NOT_ASKED:
            continue
        bound = getattr(thing, name)
        needed = {
            one.name
            for one in inspect.signature(bound).parameters.values()
            if one.default is one.empty and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
        }
        if missing := needed - ARGUMENTS.keys():
            found[f".{name}, without an answer"] = [("", f"no argument {sorted(missing)}")]
            continue
        if (name in FORMS and scene != next(iter(ESTIMATORS))) or (once and name in PICTURES - {"biplot"}):
            continue
        owner = first_with(method.__module__, method.__qualname__)
        whole = owner in ("", scene) and (name not in REPEATED or scene == next(iter(ESTIMATORS)))
        values = () if once else COMMON if whole else FEW if name in REPEATED else ()
        if name == "plan" and values is FEW:
            values = (*FEW, 1)  # row, or column
        given = {word: ARGUMENTS[word] for word in needed}
        own = OF_METHODS.get(method.__qualname__, {})
        own = own(thing) if callable(own) else own
        given |= {word: own[word] for word in own.keys() & parameters(bound)}
        if "random_state" in parameters(bound):
            given["random_state"] = 0
        answers = ladders(bound, given, values)
        found |= {f".{name} {cell}".strip(): said for cell, said in answers.items()}
        if not once and not is_accepted(answers[""]) and method.__qualname__ not in NO_ANSWER:
            found[f".{name}, without an answer"] = [("", "give other arguments in OF_METHODS")]
    return found


def play(scene: str) -> dict[str, list[Said]]:
    """Return what a call says, with every value of its parameters, and what its result answers."""
    call = {**ESTIMATORS, **OTHERS}[scene]
    given = {**call.given}
    made = signature_of(call)
    found = ladders(made, given, FEW if scene.startswith("plot_") else COMMON)
    try:
        result = call(**given)
    except Exception:
        return found
    for one in result if isinstance(result, tuple) else (result,):
        if is_ours(type(one)):
            found |= ask(scene, one)
    if scene not in ESTIMATORS:
        return found
    ways = {}
    for cell in [*found]:
        # What is named by a word is another way to release: its results are asked too.
        name, word = (*cell.split("='"), "")[:2]
        if cell.endswith("=True"):
            name, word = cell.split("=")
        if word and not cell.startswith(".") and is_accepted(found[cell]) and found[cell] != found[""]:
            ways[cell] = (name, word == "True" or word.rstrip("'"))
            other = ask(scene, call(**{**given, name: ways[cell][1]}), once=True)
            found |= {f"{cell} {question}": said for question, said in other.items()}
    for one, two in itertools.combinations(ways, 2):
        if ways[one][0] != ways[two][0]:
            found[f"{one}, {two}"] = outcome(partial(call, **{**given, **dict([ways[one], ways[two]])}))
    return found


def play_powers() -> dict[str, list[Said]]:
    """Return powers, sizes and distances of tests, from few simulations."""
    few = {"n_simulations": 40}
    found = {}
    for kind, given in (
        (identity.SpatialSignTest, {}),
        (identity.SpatialSignTest, {"null": "product"}),
        (identity.LipschitzExtensionTest, {"constraint": "inner_product"}),
        (identity.RowDistanceTest, {}),
    ):
        made = kind(**{**SEED, "n_calibration": 39, **given})
        place = f"{kind.__name__} {given}"
        signs = np.sign(X[:40]) if given else X[:40]
        made.fit(signs)
        for name, arguments in {
            "power": {"distance": 1.0, "n_samples": 60, "n_features": 2, **few},
            "power of many": {"distance": 0.1, "n_samples": 20_000, "n_features": 3, **few},
            "attainable_power": {"n_samples": 60, "n_features": 2},
            "distance_interval": few,
            "estimate_distance": {"n_points": 5, **few},
        }.items():
            for direction in ("dense", "sparse"):
                method = getattr(made, name.partition(" ")[0], None)
                if method is not None and (" " not in name or kind is identity.SpatialSignTest):
                    asked = partial(method, **arguments, direction=direction)
                    found[f"{place} {name} {direction}"] = outcome(asked)
    rank = ESTIMATORS["LogRankTest"].made(**{**CURVES, "groups": [0, 1]})
    for ratio in (0.5, 1.0, 2.0):
        found[f"log-rank, {ratio}, power"] = outcome(partial(rank.power, 300, ratio))
        found[f"log-rank, {ratio}, samples"] = outcome(partial(rank.required_samples, ratio))
    hazards = {"hazard_ratio": 0.5}
    for asked, given in ((rank.power, {"n_samples": 300, **hazards}), (rank.required_samples, hazards)):
        said = ladders(asked, given)
        found |= {f"log-rank {asked.__name__} {cell}": words for cell, words in said.items()}
    return found


def broken(rows: Any) -> dict[str, Any]:
    """Return rows of a fit with something wrong, by what it is."""
    array = np.asarray(rows)
    real = array.astype(float)
    first = np.zeros(array.shape, bool)
    first.flat[1] = True
    return {
        "one is missing": np.where(first, np.nan, real),
        "one is infinite": np.where(first, np.inf, real),
        "one is text": np.where(first, "x", array.astype(object)),
        "one is None": np.where(first, None, array.astype(object)),
        "one is another": np.where(first, 77, array),
        "fewer": array[:-1],
        "one": array[:1],
        "none": array[:0],
        "nothing": None,
        "another column": np.column_stack([array, array]),
        "text": "x",
    }


def play_data(scene: str) -> dict[str, list[Said]]:
    """Return what a fit says if one of its arguments has something wrong."""
    call = ESTIMATORS[scene]
    rows = ROWS_OF[call.then]
    found = {}
    for place, right in enumerate(rows):
        for words, wrong in broken(right).items():
            given = [*rows[:place], wrong, *rows[place + 1 :]]
            for missing in ("error", "drop") if "missing" in words else ("error",):
                made = call.made(**call.given)
                if missing == "drop" and "missing" in made.get_params():
                    made.set_params(missing="drop")
                found[f"{place}: {words}, {missing}"] = outcome(partial(made.fit, *given))
    table = rows[0]
    if np.ndim(table) == 2 and np.asarray(table).dtype.kind == "f":
        names = pd.DataFrame(table, columns=["b", "a"][: table.shape[1]])
        named = call.made(**call.given)
        found["named"] = outcome(partial(named.fit, names, *rows[1:]))
        if is_accepted(found["named"]):
            found |= {f"named {cell}": said for cell, said in ask(scene, named, once=True).items()}
            if hasattr(named, "test"):
                found["named .test by name"] = outcome(partial(named.test, pd.Series({"a": 1.0, "b": 0.0})))
    return found


def is_accepted(said: list[Said]) -> bool:
    """Return whether a call had no error."""
    return not said or not str(said[0][1]).endswith(("Error", "InvalidParameter", "InvalidData", "InvalidType"))


def signature_of(call: Call) -> Callable[..., Any]:
    """Return a call with the parameters of what it makes."""

    def asked(**given: Any) -> Any:
        return call(**given)

    asked.__signature__ = inspect.signature(call.made)  # type: ignore[attr-defined]
    return asked
