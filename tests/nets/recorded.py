"""Numbers of seeded releases, plans and accountants, and a record of them: `recorded.json`.

The other nets compare numbers with formulas and simulations. This one compares them with those of an earlier version.
So it notices each change of a number, and cannot tell whether the number is right. Explain an intended change in
CHANGELOG.md, and record it:

    python -m tests.nets.recorded         # the scenes whose numbers changed, and those with other words
    python -m tests.nets.recorded --write
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from dpstats import auditing, mechanisms, privacy, queries, sensitivity, simulation
from dpstats.inference import HasEstimates
from dpstats.means import AdaptiveMean, ClippedMean, SparseMean
from dpstats.privacy.events import ZCDP, BoundedRange, DiscreteLaplace, Gaussian, Pure
from dpstats.survival import PrivateSurvival
from dpstats.tables import ContingencyTable
from tests.nets.cases import CASES, fit
from tests.nets.numbers import flatten
from tests.nets.test_one_way_out import COUNTS, EVERY, LABELS, X, Y, fitted

RECORD = Path(__file__).with_name("recorded.json")
Digest = dict[str, list[float]]

ROOM = 1e-5
"""Relative difference of sums that libraries and processors may make: searches for a noise scale end within 2e-6."""


def digest(thing: Any) -> Digest:
    """Return the size of every array of numbers, two sums of its entries, and how many are not finite."""
    found: Digest = {}
    for name, numbers in flatten(thing, ""):
        flat = np.ravel(numbers)
        finite = np.isfinite(flat)
        kept = np.where(finite, flat, 0.0)
        weights = 2 + np.cos(np.arange(flat.size))
        sums = [float(f"{total:.8g}") for total in (kept @ weights, np.abs(kept).sum())]
        found[name] = [flat.size, *sums, int(flat.size - finite.sum())]
    return found


def differences(now: Digest, then: Digest) -> list[str]:
    """Return the places whose numbers are not as recorded."""
    found = [f"{name}: gone" for name in then.keys() - now.keys()]
    found += [f"{name}: new" for name in now.keys() - then.keys()]
    for name in now.keys() & then.keys():
        a, b = np.array(now[name]), np.array(then[name])
        if not np.all(np.abs(a - b) <= ROOM * max(3 * a[2], 3 * b[2], 1e-9)):
            found.append(f"{name}: {now[name]}, recorded {then[name]}")
    return sorted(found)


def describe_fit(model: Any) -> dict[str, Any]:
    """Return the numbers of a fit, its plan and its answers, and the number of notes."""
    summary = model.summary()
    found: dict[str, Any] = {
        "plan": model.plan_.to_dict(),
        "plan notes": len(model.plan_.notes()),
        "notes": len(summary.notes),
        "facts": len(summary.facts),
        "cells": [len(summary.columns), len(summary.rows)],
        "fit": {
            name: value
            for name, value in vars(model).items()
            if name.endswith("_") and name not in ("plan_", "privacy_")
        },
    }
    if isinstance(model, HasEstimates):
        found["answers"] = model.to_dict()
    if hasattr(model, "expected_error"):
        found["error"] = model.plan_.expected_error()
    return found


HOLES = np.where(np.arange(X.size).reshape(X.shape) % 11 == 0, np.nan, X)
MISSING_LABELS = np.where(np.arange(len(LABELS)) % 17 == 0, 9, LABELS)
CHANGES: dict[str, list[dict[str, Any]]] = {
    "ClippedMean": [
        {"missing": "center"},
        {"missing": "drop"},
        {"neighbors": "add_or_remove"},
        {"std": None},
        {"noise": "isotropic", "delta": 1e-6},
        {"bounds_are": "hard"},
    ],
    "AdaptiveMean": [{"missing": "drop"}, {"std": "private", "std_bound": 3.0}, {"cov": "private"}],
    "SparseMean": [
        {"missing": "drop"},
        {"selection": "peeling"},
        {"delta": 0.0},
        {"std": "private", "std_bound": 5.0, "delta": 1e-6},
    ],
    "PrivateVariance": [{"missing": "drop"}, {"about": "center"}, {"interval": "normal"}],
    "GroupMeans": [{"missing": "drop"}, {"neighbors": "add_or_remove"}, {"delta": 0.0}, {"groups": "discover"}],
    "GroupQuantiles": [{"q": 0.8}],
    "MeanPerRow": [{"missing": "drop"}, {"max_rows": 1}],
    "PrivateProportion": [{"missing": "drop"}, {"delta": 1e-5}, {"neighbors": "add_or_remove"}],
    "ContingencyTable": [{"unknown": "drop"}, {"neighbors": "add_or_remove"}, {"delta": 1e-6}],
    "PrivateQuantile": [{"coverage": "any"}, {"q": [0.02, 0.98]}, {"step": 0.5}],
    "PrivateDistribution": [{"bins": 7}, {"delta": 1e-6}],
    "PrivateCovariance": [{"missing": "drop"}],
    "PrivatePCA": [{"n_components": 1, "scale": "std"}],
    "PrivateCorrelation": [{"method": "kendall"}],
    "HotellingTest": [{"mean": 0.1}],
    "PrivateLinearRegression": [
        {"cov_type": "nonrobust"},
        {"fit_intercept": False},
        {"missing": "drop"},
        {"y_bounds": (-60, 60)},
    ],
    "PrivateLogisticRegression": [{"missing": "drop"}, {"fit_intercept": False}],
    "PrivateCountRegression": [{"y_bounds": (0, 5)}],
    "PrivateGammaRegression": [{"y_bounds": (0, 5)}],
    "SufficientStatisticsRegression": [{"fit_intercept": False}],
    "WorkloadAnswers": [{"workload": 2}, {"error": "max"}],
    "MarginalMWEM": [{"workload": 2, "epsilon": 4.0}],
    "IterativeConstruction": [{"update": "perceptron"}, {"delta": 0.0}, {"accuracy": 0.4, "epsilon": 6.0}],
    "OnlineMultiplicativeWeights": [{"epsilon": 5.0}],
    "SmallDB": [{"n_rows": 5, "epsilon": 4.0}, {"epsilon": 0.05}],
    "NetMechanism": [{"epsilon": 5.0}],
    "PrivateSurvival": [{"discrete": True}, {"delta": 0.0}],
    "LogRankTest": [{"rho": 1.0}],
    "MannWhitneyTest": [{"missing": "drop"}],
    "SignedRankTest": [{"missing": "drop"}],
    "SpatialSignTest": [{"missing": "center"}, {"mean": 0.5}],
    "RowDistanceTest": [{"mean": 0.5}, {"epsilon": 0.3}],
}


def fit_changed(name: str, change: dict[str, Any]) -> Any:
    """Fit an estimator with other parameters on rows that it is given elsewhere, with missing entries or without."""
    made = clone(fitted(name)).set_params(**change)
    holes = change.get("missing", "error") != "error"
    rows = HOLES if holes else X
    groups = (LABELS, LABELS % 2, np.arange(3000) // 3)
    line = np.where(np.arange(3000) % 19 == 0, np.nan, Y) if holes else Y
    given: dict[str, tuple[Any, ...]] = {
        "GroupMeans": (rows, groups[0]),
        "GroupQuantiles": (rows[:, 0], groups[0]),
        "MeanPerRow": (rows, groups[2]),
        "MannWhitneyTest": (rows[:, 0], groups[1]),
        "SignedRankTest": (rows[:, 0],),
        "PrivateProportion": (Y > 0,),
        "PrivateQuantile": (X[:, 0],),
        "PrivateDistribution": (X[:, 0],),
        "PrivateCorrelation": (X[:500],),
        "PrivateLogisticRegression": (rows, Y > 0),
        "PrivateCountRegression": (rows, np.floor(np.exp(Y / 2))),
        "PrivateGammaRegression": (rows, np.exp(Y / 2)),
        "ContingencyTable": (np.column_stack([MISSING_LABELS if change.get("unknown") == "drop" else LABELS, Y > 0]),),
        **dict.fromkeys(("WorkloadAnswers", "MarginalMWEM"), (np.column_stack([LABELS, Y > 0]),)),
        **dict.fromkeys(("IterativeConstruction", "OnlineMultiplicativeWeights", "SmallDB", "NetMechanism"), (COUNTS,)),
        **dict.fromkeys(("PrivateSurvival", "LogRankTest"), (np.exp(Y) + 0.01, LABELS > 0, LABELS)),
        **dict.fromkeys(("SpatialSignTest", "RowDistanceTest"), (rows[:50],)),
        **dict.fromkeys(("PrivateLinearRegression", "SufficientStatisticsRegression"), (rows, line)),
    }
    return describe_fit(made.fit(*given.get(name, (rows,))))


EVENTS = [
    Pure(0.3),
    Gaussian(0.4),
    ZCDP(0.05),
    BoundedRange(0.3),
    DiscreteLaplace(3, 20.0),
    Gaussian(0.1, total_variation=1e-9),
]


def accounting() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for a, b in itertools.combinations_with_replacement(EVENTS, 2):
        for delta in (1e-9, 1e-5, 0.01):
            with contextlib.suppress(Exception):
                found[f"{a!r} + {b!r} at {delta:g}"] = privacy.compose([a, b, b], delta=delta).epsilon
    for event in EVENTS:
        found[f"{event!r} profile"] = [event.profile(epsilon) for epsilon in (0.0, 0.2, 0.7, 2.0)]
        found[f"{event!r} curve"] = privacy.tradeoff_curve(event, np.linspace(0, 1, 7))
    for epsilon in (0.1, 1.0, 4.0):
        found[f"sigma {epsilon}"] = [privacy.gaussian_sigma(epsilon, delta) for delta in (1e-9, 1e-3)]
        found[f"delta {epsilon}"] = [privacy.gaussian_delta(sigma, epsilon) for sigma in (0.5, 3.0)]
        found[f"rho {epsilon}"] = [privacy.zcdp_rho(epsilon, 1e-6), privacy.zcdp_delta(0.1, epsilon)]
        found[f"advanced {epsilon}"] = privacy.advanced_composition(epsilon, 20, 1e-6, 1e-9)
        found[f"optimal {epsilon}"] = privacy.optimal_composition_epsilon(epsilon, 12, 1e-6)
        one = privacy.PrivacyGuarantee(epsilon, 1e-8)
        found[f"others {epsilon}"] = [
            privacy.heterogeneous_composition([one, privacy.PrivacyGuarantee(0.1), one], 1e-6),
            privacy.poisson_subsampling(
                privacy.PrivacyGuarantee(epsilon, neighbors=privacy.Neighbors.ADD_OR_REMOVE_ONE), 0.1
            ),
            privacy.group_privacy(one, 3),
        ]
    found["epsilon"] = [privacy.gaussian_epsilon(sigma, 1e-6) for sigma in (0.7, 5.0)]
    return found


def release_mechanisms() -> dict[str, Any]:
    """Return the released numbers of mechanisms."""
    m, found = mechanisms, {}
    values = np.array([3.0, -1.0, 2.5, 0.4, 2.4])
    for epsilon in (0.2, 1.0, 5.0):
        made = {
            "Laplace": m.LaplaceMechanism(1.5, epsilon, random_state=1),
            "Gaussian": m.GaussianMechanism(1.5, epsilon, 1e-5, random_state=1),
        }
        for name, mechanism in made.items():
            found[f"{name} {epsilon}"] = [
                mechanism.release(values),
                mechanism.scale,
                *mechanism.confidence_interval(2.0, 0.9),
            ]
        for kind in (m.ExponentialMechanism, m.ReportNoisyMax, m.PermuteAndFlip):
            chosen = kind(1.0, epsilon, random_state=2)
            found[f"{kind.__name__} {epsilon}"] = [chosen.select(values) for _ in range(20)]
        top = m.NoisyTopK(2, 1.0, epsilon, random_state=2)
        found[f"top {epsilon}"] = [np.asarray(top.select(values)) for _ in range(10)]
        counts = m.Histogram([0, 1, 2], epsilon, random_state=3).release(LABELS.tolist())
        found[f"histogram {epsilon}"] = counts.to_dict(0.9)
        words = m.Histogram("discover", epsilon, 1e-6, random_state=3).release(100 * LABELS.tolist())
        found[f"histogram, discovered {epsilon}"] = words.to_dict(0.9)
        answers = m.RandomizedResponse(epsilon, 3, random_state=3)
        shares = answers.estimate(answers.randomize(LABELS))
        found[f"responses {epsilon}"] = shares.to_dict(0.9)
        for name, kind, more in (
            ("above", m.AboveThreshold, {}),
            ("sparse", m.SparseVector, {"max_above": 2}),
            ("numeric", m.NumericSparseVector, {"max_above": 2}),
        ):
            stream = kind(2.0, epsilon, random_state=5, **more)
            found[f"{name} {epsilon}"] = [float(answer or 0) for answer in stream.stream(np.linspace(-30, 40, 15))]
    return found


def sensitivities() -> dict[str, Any]:
    s, found = sensitivity, {}
    rows = np.sort(np.clip(X[:60, 0], -2, 2))
    for beta in (0.05, 0.5):
        within = {"lower": -2.0, "upper": 2.0, "beta": beta}
        found[f"{beta}"] = [
            s.median_smooth_sensitivity(rows, **within),
            s.minimum_smooth_sensitivity(rows, **within),
            s.maximum_smooth_sensitivity(rows, **within),
            s.quantile_smooth_sensitivity(rows, 0.2, **within),
            s.trimmed_mean_smooth_sensitivity(rows, 5, **within),
        ]
    return found


def run_studies() -> dict[str, Any]:
    crossing = simulation.crossing_point(
        lambda x, rng: rng.random(10) < 1 / (1 + np.exp(3 - x)), 0.5, 20, replications=100, random_state=1
    )
    s = simulation.samplers
    drawn = {
        repr(sampler): [sampler(40, 3, np.random.default_rng(0)), sampler.true_mean(3)]
        for sampler in (
            s.Gaussian(mean=(1.0, -2.0, 0.5), std=2.0),
            s.SubGaussian(mean=1.0, std=2.0),
            s.StudentT(mean=1.0, std=2.0, degrees_of_freedom=8.0),
            s.Contaminated(mean=1.0, std=2.0, share=0.3, shift=5.0),
            s.Rademacher(mean=0.6),
            s.ProductBernoulli(probability=0.2),
            s.SparseMeans(n_nonzero=2, signal=2.0, std=0.5),
        )
    }
    return {"crossing": dataclasses.asdict(crossing), "drawn": drawn}


def run_audits() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    one, two = rng.laplace(size=4000), 1 + rng.laplace(size=4000)
    return {
        "found": dataclasses.asdict(auditing.audit_outputs(one, two, epsilon=0.5)),
        "bound": auditing.epsilon_lower_bound([700, 900], [300, 800], 2000, delta=1e-3),
        "exact": [
            auditing.exact_epsilon([0.5, 0.3, 0.2], [0.3, 0.3, 0.4]),
            auditing.exact_delta([0.5, 0.3, 0.2], [0.3, 0.3, 0.4], 0.2),
        ],
    }


FORMULA = ["--formula", "c ~ a + np.log(b)", "--bounds", "a=-4,4", "b=0.1,9", "c=-9,9"]
LINES = ["--column", "a", "--column", "b", "--outcome", "c", "--bounds", "a=-4,4", "b=0.1,9"]
IDENTITY = ["identity-test", "--column", "a", "--column", "c"]
COMMANDS = [
    ["mean", "--column", "a", "--column", "c", "--bounds", "-4", "4", "--test", "0.1"],
    ["mean", "--column", "a", "--bounds", "-4", "4", "--clipped-share"],
    ["mean", "--column", "a", "--method", "adaptive", "--bound", "9", "--std", "1"],
    ["mean", "--column", "a", "--bounds", "-4", "4", "--neighbors", "add_or_remove"],
    ["mean", "--column", "a", "--bounds", "-4", "4", "--unit", "u"],
    ["sparse-mean", "--column", "a", "--column", "c", "--nonzero", "1", "--clip", "4", "--std", "1", "--split"],
    ["regress", *FORMULA],
    ["regress", *LINES, "c=-9,9"],
    ["regress", *LINES, "c=-9,9", "--method", "sufficient"],
    ["regress", *LINES, "c=-9,9", "--method", "functional"],
    ["regress", "--column", "a", "--column", "b", "--outcome", "e", "--bounds", "a=-4,4", "b=0.1,9", "--logistic"],
    ["regress", "--column", "a", "--outcome", "d", "--bounds", "a=-4,4", "d=0,9", "--counts"],
    ["regress", "--column", "a", "--outcome", "b", "--bounds", "a=-4,4", "b=0,9", "--gamma"],
    ["group-means", "--column", "a", "--by", "g", "--groups", "x,y,z", "--bounds", "-4", "4", "--anova"],
    ["group-means", "--column", "a", "--by", "g", "--groups", "x,y,z", "--bounds", "-4", "4", "--pairwise", "holm"],
    ["group-means", "--column", "a", "--by", "g", "--groups", "discover", "--bounds", "-4", "4"],
    [*IDENTITY, "--mean", "0", "--test", "spatial-sign"],
    ["proportion", "--column", "e"],
    ["table", "--levels", "g=x,y,z", "--levels", "e=0,1"],
    ["table", "--levels", "g=x,y", "--unknown", "drop"],
    ["histogram", "--column", "a", "--bins", "-4", "-1", "0", "1", "4"],
    ["histogram", "--column", "g", "--categories", "x,y", "--unknown", "drop"],
    ["quantile", "--column", "a", "--quantile", "0.3", "--quantile", "0.9", "--bounds", "-4", "4"],
    ["quantile", "--column", "a", "--bounds", "-4", "4", "--coverage", "any"],
    ["survival", "--time", "b", "--event", "e", "--horizon", "8", "--by", "g", "--groups", "x,y,z"],
    ["plan", "statistic", "--rows", "4000", "--function", "numpy:std", "--bounds", "0", "4"],
    ["plan", "mean", "--rows", "400", "--columns", "2", "--bounds", "-4", "4"],
    ["plan", "group-means", "--rows", "400", "--columns", "2", "--by", "g", "--groups", "x,y", "--bounds", "0", "1"],
    ["sql", "SELECT g, COUNT(*) FROM t GROUP BY g", "--levels", "t.g=x,y,z"],
    ["sql", "SELECT AVG(a) FROM t", "--bounds", "t.a=-4,4", "--type", "t.a=DOUBLE"],
]


@cache
def table() -> str:
    """Return the path of a table that all commands read."""
    frame = pd.DataFrame(
        {
            "a": X[:400, 0],
            "b": 0.1 + np.exp(X[:400, 1]).round(2),
            "c": X[:400].sum(axis=1),
            "d": 1 + LABELS[:400],
            "e": LABELS[:400] % 2,
            "g": np.array([*"xyz"])[LABELS[:400]],
            "u": np.arange(400) // 2,
        }
    )
    path = Path(tempfile.mkdtemp()) / "t.csv"
    frame.to_csv(path, index=False)
    return str(path)


def make_plans() -> dict[str, Any]:
    """Return plans of means and of survival at many public sizes."""
    found: dict[str, Any] = {}
    for n, discrete, censoring in itertools.product((300, 9000), (False, True), (None, np.linspace(1, 0.4, 7))):
        plan = PrivateSurvival(horizon=6.0, bins=6, discrete=discrete).plan(n)
        widths = plan.expected_width(np.exp(-np.arange(7) / 5), censoring)
        found[f"survival {n} {discrete} {censoring is None}"] = [plan.to_dict(), widths]
    for n, d, epsilon in itertools.product((30, 1000), (1, 8), (0.1, 1.0)):
        for made in (
            ClippedMean(bounds=(-4, 4), epsilon=epsilon),
            ClippedMean(clip=4.0, clip_norm="l2", delta=1e-6, epsilon=epsilon),
            AdaptiveMean(bound=100.0, std=1.0, epsilon=epsilon),
            AdaptiveMean(bound=100.0, std="private", std_bound=10.0, epsilon=epsilon),
            SparseMean(n_nonzero=1, clip=4.0, std=1.0, epsilon=epsilon),
        ):
            with contextlib.suppress(Exception):
                plan = made.plan(n, d)
                found[f"{made!r} {n} {d}"] = [plan.to_dict(), plan.expected_error(1.0), len(plan.notes())]
    return found


def answer_workloads() -> dict[str, Any]:
    """Return answers to linear queries of every kind."""
    q = queries.LinearQueries
    made = {
        "prefixes": q.prefixes(16),
        "ranges": q.ranges(12),
        "parities": q.parities(4, 2),
        "marginals": q.marginals(queries.Domain({"a": 3, "b": 4}), 1),
    }
    found: dict[str, Any] = {}
    for name, workload in made.items():
        counts = 10 + np.arange(workload.size) % 7
        for kind in (queries.WorkloadAnswers, queries.MarginalMWEM):
            with contextlib.suppress(Exception):
                model = kind(workload=workload, epsilon=1.0, random_state=0).fit(counts)
                found[f"{name}, {kind.__name__}"] = describe_fit(model)
    return found


def fit_whole_group(name: str) -> list[Any]:
    """Fit groups of which one has all rows and one has none: noise takes their numbers of rows out of the table."""
    upper = {"q": 0.9} if "q" in vars(fitted(name)) else {}
    made = clone(fitted(name)).set_params(groups=[0, 9], epsilon=1.0, **upper)
    return [describe_fit(made.set_params(random_state=k).fit(X[:200, 0], np.zeros(200, int))) for k in (0, 1)]


def compare_tables() -> dict[str, Any]:
    """Return all comparisons of small tables, some with a column of zeros, of which noise takes counts below 0."""
    found: dict[str, Any] = {}
    for counts, epsilon in itertools.product(
        ((9, 4, 0, 7, 30, 2, 5, 11), (6, 0, 0, 9, 8, 0, 0, 5), (0,) * 7 + (3,)), (0.5, 3.0, 50.0)
    ):
        rows = np.repeat(list(itertools.product((0, 1), repeat=3)), counts, axis=0)
        table = ContingencyTable(levels=[[0, 1]] * 3, epsilon=epsilon, random_state=0).fit(rows)
        two = (0, 1)
        for name in ("difference", "risk_ratio", "odds_ratio", "cohens_h", "number_needed_to_treat"):
            for more in ({}, {"strata": 2}) if name != "cohens_h" else ({},):
                asked = getattr(table, name)(two, 1, two, **more)
                found[f"{counts} at {epsilon}: {name}, {more}"] = asked.to_dict()
        for name, given in (("paired_difference", (1, two)), ("trend", ([0, 2], 1, two))):
            found[f"{counts} at {epsilon}: {name}"] = getattr(table, name)(*given).to_dict()
        for measure in ("odds ratio", "risk ratio", "difference"):
            tested = table.homogeneity(measure, two, 1, two, strata=2, n_simulations=99)
            found[f"{counts} at {epsilon}: homogeneity, {measure}"] = [tested, tested.expected]
    return found


SCENES: dict[str, Callable[[], Any]] = {
    **{f"{name} at {epsilon}": partial(fit, name, epsilon=epsilon) for name in CASES for epsilon in (0.3, 1.0)},
    **{f"told of {name}": lambda name=name: describe_fit(fitted(name)) for name in EVERY},
    **{
        f"{name}, {change}": partial(fit_changed, name, change)
        for name, changes in CHANGES.items()
        for change in changes
    },
    "accounting": accounting,
    "mechanisms": release_mechanisms,
    "sensitivities": sensitivities,
    "studies": run_studies,
    "audits": run_audits,
    "plans": make_plans,
    "linear queries": answer_workloads,
    "comparisons": compare_tables,
    **{f"{name}, one of all rows": partial(fit_whole_group, name) for name in ("GroupMeans", "GroupQuantiles")},
}


@cache
def play(name: str) -> Digest:
    """Return the numbers of a scene."""
    return digest(SCENES[name]())


def record() -> Mapping[str, Digest]:
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def changes(name: str) -> list[str]:
    """Return the differences from the record of a scene."""
    return differences(play(name), record().get(name, {}))


def main() -> None:
    from tests.nets import recorded_words

    if "--write" not in sys.argv[1:]:
        for name in SCENES:
            for line in changes(name):
                print(f"{name}: {line}")
        for name in recorded_words.SCENES:
            for line in recorded_words.changes(name):
                print(f"{name}: {line}")
        return
    lines = [f"{json.dumps(name)}: {json.dumps(play(name))}" for name in SCENES]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    recorded_words.write()


if __name__ == "__main__":
    main()
