"""Calls that the questions of estimators do not reach: bounds, studies, audits of other outputs, ledgers, receipts."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from dpstats import auditing, simulation
from dpstats.covariance import PrivateCorrelation, PrivateCovariance
from dpstats.groups import GroupMeans, GroupQuantiles
from dpstats.identity import RowDistanceTest, SpatialSignTest
from dpstats.means import AdaptiveMean, ClippedMean, PrivateVariance
from dpstats.mechanisms import Histogram, RandomizedResponse
from dpstats.privacy import Neighbors, PrivacyBudget, PrivacyGuarantee
from dpstats.privacy.events import ZCDP, Approximate, BoundedRange, DiscreteLaplace, Gaussian, Pure
from dpstats.quantiles import PrivateMedian, PrivateQuantile
from dpstats.ranks import MannWhitneyTest
from dpstats.regression import PrivateLinearRegression
from dpstats.release.receipts import verify_receipt
from dpstats.simulation.cell_fits import fit_broken_line, fit_power_sum
from dpstats.simulation.store import describe
from dpstats.simulation.study_report import CATALOGUE, crossover, named_study, plot_risk
from dpstats.sql import PrivateSQL
from dpstats.tables import ContingencyTable
from dpstats.textbook import IterativeConstruction, SmallDB
from dpstats.textbook import error_bounds as bounds
from tests.nets.calls import COUNTS, LABELS, PAIRED, QUERIES, TIMES, X, Y
from tests.nets.ladders import ladders
from tests.nets.told import Said, outcome

Scene = dict[str, list[Said]]
SEED = {"random_state": 0}
ADDED = Neighbors.ADD_OR_REMOVE_ONE


def play_calls(calls: Mapping[str, Callable[[], Any]]) -> Scene:
    """Return the outcome of each call, by name."""
    return {name: outcome(call) for name, call in calls.items()}


OF_BOUNDS: dict[str, Any] = {
    "n_samples": 9000,
    "size": 16,
    "n_queries": 40,
    "epsilon": 1.5,
    "delta": 1e-6,
    "beta": 0.1,
    "n_databases": 300,
    "net_error": 0.05,
    "vc_dimension": 3,
    "gap": 0.2,
    "norm": 0.5,
    "accuracy": None,
    "updates": lambda gap: 5 / gap**2,
    "printed": False,
}


def play_bounds() -> Scene:
    """Return the bounds of the errors of queries, for every value of their arguments."""
    said: Scene = {}
    for name, bound in vars(bounds).items():
        if (
            not inspect.isfunction(bound)
            or bound.__module__ != bounds.__name__
            or not name.endswith(("_bound", "_updates", "log_trivial_net"))
            or name.endswith(("_lower_bound", "_upper_bound"))
            or name.startswith("_")
        ):
            continue
        taken = inspect.signature(bound).parameters
        given = {word: OF_BOUNDS.get(word, taken[word].default) for word in taken}
        given = {word: 7.5 if value is inspect.Parameter.empty else value for word, value in given.items()}
        for printed in (False, True) if "printed" in given else (False,):
            asked = {**given, "printed": printed} if "printed" in given else given
            said |= {f"{name} {printed} {cell}": one for cell, one in ladders(bound, asked).items()}
    return said


def draw_results(law: Callable[[Any], Any], cells: list[dict[str, Any]]) -> simulation.StudyResults:
    """Return results of a study whose risks are known functions of the cell."""
    rng = np.random.default_rng(5)
    made = simulation.Study(
        simulation.Rademacher(), ClippedMean(clip=1.0, delta=1e-5), cells, 20, loss=lambda fitted, X, truth: 1.0
    ).run()
    drawn = {id(cell): law(cell.parameters) * rng.chisquare(4, 200) / 4 for cell in made.cells}
    changed = [type(cell)(cell.parameters, {made.losses[0]: drawn[id(cell)]}, {}) for cell in made.cells]
    return type(made)("by a law", tuple(changed), made.losses, {})


def play_fits() -> Scene:
    """Return fits of rates to risks of every form, and their pictures."""
    cells = [{"n": n, "d": d} for n in (50, 100, 200, 400, 800, 1600, 3200) for d in (1, 3)]
    laws: dict[str, Callable[[Any], Any]] = {
        "one power": lambda cell: 3 * cell["d"] / cell["n"],
        "two powers": lambda cell: 1 / cell["n"] + 300 / cell["n"] ** 2,
        "a corner": lambda cell: max(1 / cell["n"], 20 / cell["n"] ** 1.5),
        "logarithms": lambda cell: np.log(cell["n"]) ** 2 / cell["n"],
    }
    terms = {"one": lambda cell: 1 / cell["n"], "two": lambda cell: 1 / cell["n"] ** 2}
    asked: dict[str, Callable[[], Any]] = {}
    for name, law in laws.items():
        found = draw_results(law, cells)
        for theory in (-1.0, -2.0):
            asked[f"{name}, {theory}"] = partial(simulation.fit_rate, found, "n", theory=theory)
        asked[f"{name}, terms"] = partial(simulation.fit_rate, found, "n", theory=-1.0, terms=terms)
        asked[f"{name}, formula"] = partial(simulation.fit_formula, found, terms=terms)
        asked[f"{name}, picture"] = partial(plot_risk, found, "n", terms=terms)
        asked[f"{name}, compared"] = partial(simulation.compare, found, lambda cell: 1 / cell["n"])
        asked[f"{name}, derived"] = partial(
            lambda found: found.derive("m", lambda cell: cell["n"] // 2, instead_of="n").summary(), found
        )
    x, ones = np.log(np.array([50.0, 100, 200, 400, 800, 1600, 3200])), np.ones((7, 1))
    for name, means in {
        "corner": np.maximum(-x, 4 - 2 * x),
        "curve": np.logaddexp(-x, 5 - 2 * x),
        "line": 1 - 1.5 * x,
    }.items():
        for fit in (fit_broken_line, fit_power_sum):
            asked[f"{fit.__name__}, {name}"] = partial(fit, "n", x, ones, means, np.full(7, 0.02), 0.9, 1e6)
    asked["crossover"] = lambda: [crossover(np.exp(x), np.exp(-x), np.exp(y - 2 * x)) for y in (1.0, 5.0, 90.0)]
    return play_calls(asked)


def play_studies() -> Scene:
    """Return the studies that have a name, in small; a study of two estimators, and descriptions of samplers."""
    said: Scene = {}
    for name in CATALOGUE:
        entry = named_study(name)
        small = entry.study(name, {"n": entry.grid["n"][:3] if name != "power" else [40]}, replications=5, seed=1).run()
        said |= play_calls({f"{name}, findings": partial(entry.conclusions, small), name: small.summary})
        said |= play_calls({f"{name}, picture": partial(entry.picture, small)})
    two = simulation.Study(
        simulation.Gaussian(),
        {"clipped": ClippedMean(clip=2.0, delta=1e-6), "adaptive": AdaptiveMean(bound=20.0, std=1.0)},
        {"n": [100, 200], "d": [2], "epsilon": [0.5, 2.0]},
        6,
        loss=["squared_error", "coverage", "simultaneous_coverage"],
    ).run()
    said |= play_calls(
        {
            "two": two.summary,
            "side by side": two.side_by_side,
            "coverage, side by side": partial(two.side_by_side, "coverage"),
            "each": two.by_estimator,
            "where": lambda: two.where(lambda cell: cell["n"] > 100).summary(),
            "without": lambda: two.without("epsilon").summary(),
            "table": two.as_records,
        }
    )
    described: dict[str, Any] = {
        "estimator": ClippedMean(clip=2.0),
        "function": len,
        "method": [].append,
        "partial": partial(np.clip, a_min=0.0, a_max=1.0),
        "containers": {"a": [1, 2.5, None], "b": (True, "x"), "c": {3, 1}},
        "array": np.arange(6.0).reshape(2, 3),
        "frame": pd.DataFrame({"a": [1, 2]}),
        "class": ClippedMean,
        "lambda": lambda n, d, rng: rng.normal(size=(n, d)),
    }
    said |= play_calls({f"described: {name}": partial(describe, "sampler", value) for name, value in described.items()})
    return said


def play_outputs() -> Scene:
    """Return audits of outputs of every kind."""
    rng = np.random.default_rng(3)
    one, two = rng.laplace(size=600), 2 + rng.laplace(size=600)
    kinds: dict[str, Callable[[np.ndarray], Any]] = {
        "numbers": lambda drawn: drawn,
        "whole numbers": lambda drawn: np.rint(drawn).astype(int),
        "words": lambda drawn: ["low" if x < 0 else "high" if x < 3 else "far" for x in drawn],
        "vectors": lambda drawn: np.column_stack([drawn, np.sin(9 * drawn), drawn**2]),
        "tuples": lambda drawn: [(x, "a" if x > 1 else "b") for x in drawn],
        "mappings": lambda drawn: [{"x": x, "found": bool(x > 1)} for x in drawn],
        "lists of some": lambda drawn: [[x] * (1 + int(x > 1)) for x in drawn],
        "truth values": lambda drawn: drawn > 1,
        "few": lambda drawn: drawn[:40],
        "some missing": lambda drawn: np.where(drawn > 2, np.nan, drawn),
        "infinite": lambda drawn: np.where(drawn > 2, np.inf, drawn),
    }
    return play_calls(
        {
            f"{name} at {epsilon}": partial(auditing.audit_outputs, made(one), made(two), epsilon=epsilon)
            for name, made in kinds.items()
            for epsilon in (0.2, 3.0)
        }
    )


def play_movements() -> Scene:
    """Return how far a row moves releases of every kind."""
    rows = np.linspace(-3.5, 3.5, 12)
    moved = np.append(rows[1:], 3.9)
    labels, other = np.arange(12) % 3, np.append(np.arange(1, 12) % 3, 0)
    bounded, one_row = {"bounds": (-4.0, 4.0), **SEED}, np.array([1, -1, 0, 0])

    def count(epsilon: float, categories: Any, delta: float) -> Any:
        return lambda data, source: Histogram(categories, epsilon, delta, random_state=source).release(data)

    pairs: dict[str, tuple[Any, Any, Any]] = {
        "quantiles": (PrivateQuantile(q=[0.3, 0.6], **bounded), rows, moved),
        "quantiles for any rows": (PrivateQuantile(q=0.5, coverage="any", **bounded), rows, moved),
        "halving": (PrivateQuantile(q=[0.3, 0.6], method="halving", confidence_level=None, **bounded), rows, moved),
        "median": (PrivateMedian(confidence_level=0.9, **bounded), rows, moved),
        "median with heavy tails": (PrivateMedian(delta=0.0, **bounded), rows, moved),
        "covariance": (PrivateCovariance(**bounded), X[:12], np.vstack([X[1:12], [[3.0, -3.0]]])),
        "correlation": (PrivateCorrelation(method="kendall", **SEED), X[:12], np.vstack([X[1:12], [[3.0, -3.0]]])),
        "labels": (count(1.0, [0, 1, 2], 0.0), labels.tolist(), other.tolist()),
        "labels that are found": (count(2.0, "discover", 1e-2), labels.tolist(), other.tolist()),
        "databases": (SmallDB(queries=QUERIES, n_rows=2, **SEED), COUNTS, COUNTS + one_row),
        "queries": (IterativeConstruction(queries=QUERIES, **SEED), COUNTS, COUNTS + one_row),
        "groups": (GroupMeans(groups=[0, 1, 2], **bounded), (rows, labels), (moved, other)),
        "groups that are found": (GroupMeans(groups="discover", delta=1e-3, **bounded), (rows, labels), (moved, other)),
        "quantiles of groups": (GroupQuantiles(groups=[0, 1, 2], **bounded), (rows, labels), (moved, other)),
        "ranks": (MannWhitneyTest(groups=[0, 1], **SEED), (rows, labels % 2), (moved, other % 2)),
    }
    return play_calls(
        {
            name: partial(auditing.check_sensitivity, release, one, two, rows_apart=12)
            for name, (release, one, two) in pairs.items()
        }
    )


COSTS = [PrivacyGuarantee(0.7), Gaussian(0.2), Pure(0.3), ZCDP(0.01), Pure(2.5), Gaussian(9.0)]


def play_ledgers() -> Scene:
    """Return what ledgers say of charges, in every composition, and receipts of what was charged."""
    said: Scene = {}
    folder = Path(tempfile.mkdtemp())
    for method in ("basic", "zcdp", "gdp", "pld"):
        path = folder / f"{method}.ledger"
        delta = 0.0 if method == "basic" else 1e-3
        made = {"planned": COSTS[:4]} if method == "pld" else {}
        budget = PrivacyBudget(3.0, delta, method=method, ledger=path, **made)
        for k, cost in enumerate(COSTS):
            charged = budget.labelled(f"charge {k}")
            said[f"{method}, charge {k}"] = outcome(lambda budget=charged, cost=cost: budget.charge(cost))
            again = PrivacyBudget(3.0, delta, method=method, ledger=path, **made)
            said |= play_calls(
                {
                    f"{method}, after {k}": lambda budget=again: [budget.spent, budget.remaining, str(budget)],
                    f"{method}, charges {k}": lambda budget=again: [
                        (one.label, one.guarantee) for one in budget.history()
                    ],
                }
            )
    right = {"epsilon": 3.0, "delta": 1e-3, "method": "zcdp", "ledger": folder / "zcdp.ledger"}
    for k, change in enumerate(({"epsilon": 9.0}, {"delta": 0.5}, {"method": "gdp"}, {"unit": "person"})):
        said[f"another ledger {k}"] = outcome(lambda change=change: PrivacyBudget(**{**right, **change}))
    said |= play_calls(
        {f"opened {name}": partial(PrivacyBudget.open, folder / f"{name}.ledger") for name in ("zcdp", "pld")}
    )
    fitted = ClippedMean(bounds=(-4, 4), epsilon=0.5, random_state=1).fit(X)
    for key in (None, "a key of sixteen bytes"):
        text = fitted.receipt(key=key).to_json() if key else fitted.receipt().to_json()
        for given in (None, "a key of sixteen bytes", "another key of many"):
            said[f"receipt {key}, {given}"] = outcome(
                lambda text=text, given=given: [(check.name, check.passed) for check in verify_receipt(text, given)]
            )
    return said


def play_costs() -> Scene:
    """Return what events of added rows cost where rows are replaced, and randomized responses by their coins."""
    events = (
        Pure(0.3, neighbors=ADDED),
        Gaussian(0.4, neighbors=ADDED),
        Gaussian(0.1, total_variation=1e-9, neighbors=ADDED),
        ZCDP(0.05, neighbors=ADDED),
        BoundedRange(0.3, neighbors=ADDED),
        Approximate(0.2, 1e-7, neighbors=ADDED),
        DiscreteLaplace(3, 20.0, neighbors=ADDED),
    )
    asked: dict[str, Callable[[], Any]] = {
        repr(event): lambda event=event: [event.as_replace_one(), event.as_replace_one().profile(0.2)]
        for event in events
    }
    asked["guarantee"] = PrivacyGuarantee(0.3, 1e-7, neighbors=ADDED).as_replace_one
    said = play_calls(asked)
    for make in (RandomizedResponse.from_keep_probability, RandomizedResponse.from_coins):
        given = {"keep_probability": 0.6} if "keep_probability" in inspect.signature(make).parameters else {}
        said |= {f"{make.__name__} {cell}": one for cell, one in ladders(make, given).items()}
    return said


def play_plans() -> Scene:
    """Return expected errors of plans that no other scene asks for, and the rows that tests need."""
    asked: dict[str, Callable[[], Any]] = {}
    for n, d, epsilon in ((200, 1, 0.3), (4000, 3, 1.0), (100_000, 8, 5.0)):
        for made in (
            PrivateVariance(bounds=(-4, 4), epsilon=epsilon),
            PrivateCovariance(bounds=(-4, 4), epsilon=epsilon),
            PrivateCorrelation(epsilon=epsilon),
            AdaptiveMean(bound=40.0, std=1.0, cov="private", epsilon=epsilon),
            AdaptiveMean(bound=40.0, std="private", std_bound=9.0, cov="private", tails="variance", epsilon=epsilon),
        ):
            asked[f"{made} {n} {d}"] = lambda made=made, n=n, d=d: made.plan(n, d)
            for name in ("expected_error", "noise_ratio", "least_std"):
                asked[f"{made} {n} {d} {name}"] = lambda made=made, n=n, d=d, name=name: ask_plan(made.plan(n, d), name)
    test = SpatialSignTest(epsilon=2.0, n_calibration=39, **SEED)
    for distance, d in ((0.5, 2), (1.5, 5)):
        asked[f"rows for {distance}"] = partial(test.required_samples, distance, d, n_simulations=60)
    for kind in (SpatialSignTest, RowDistanceTest):
        asked[f"order of {kind.__name__}"] = lambda kind=kind: [
            kind(epsilon=epsilon)._rate(0.4, d) for epsilon in (0.1, 1.0, 9.0) for d in (1, 30)
        ]
    return play_calls(asked)


def ask_plan(plan: Any, name: str) -> Any:
    """Return a number of a plan, which may need the standard deviation of the rows."""
    found = getattr(plan, name, None)
    if not callable(found):
        return found
    needed = [one for one in inspect.signature(found).parameters.values() if one.default is one.empty]
    return found(*[1.3] * len(needed))


def play_tables() -> Scene:
    """Return standardized differences, discovered groups, tests of fit, and answers to queries in SQL."""
    means = GroupMeans(groups=[0, 1, 2], bounds=(-4, 4), epsilon=3.0, **SEED).fit(X, LABELS)
    asked: dict[str, Callable[[], Any]] = {}
    for level in (0.5, 0.95):
        for simultaneous in (False, True):
            asked[f"standardized {level} {simultaneous}"] = lambda level=level, both=simultaneous: (
                means.pairwise().standardize().confidence_interval(level, simultaneous=both)
            )
    asked["standardized"] = lambda: [means.pairwise().standardize(), means.difference(0, 2).standardize()]
    table = ContingencyTable(levels=[[0, 1], [0, 1]], epsilon=1.0, **SEED).fit(PAIRED)
    for p in ([[0.25, 0.25], [0.25, 0.25]], [[0.4, 0.1], [0.1, 0.4]]):
        asked[f"fit to {p}"] = partial(table.goodness_of_fit, p)
    for epsilon in (0.3, 5.0):
        found = GroupMeans(groups="discover", bounds=(-4, 4), epsilon=epsilon, delta=1e-4, **SEED)
        asked[f"found at {epsilon}"] = partial(found.fit, X, LABELS)
        asked[f"plan of found at {epsilon}"] = lambda found=found: [
            found.plan(n, 1).expected_groups([0.5, 0.3, 0.01]) for n in (100, 5000)
        ]
    connection = duckdb.connect()
    connection.execute("CREATE TABLE r AS SELECT i % 3 AS g, (i % 13) - 3.0 AS x, i % 40 AS u FROM range(400) t(i)")
    connection.execute("CREATE TABLE s AS SELECT i AS g, i * 2 AS k FROM range(3) t(i)")
    for unit in (None, "u"):
        sql = PrivateSQL(
            connection,
            epsilon=2.0,
            bounds={"r.x": (-2, 8)},
            categories={"r.g": [0, 1, 2]},
            public_tables=["s"],
            unit=unit,
            **SEED,
        )
        for text in (
            "SELECT COUNT(*) FROM r",
            "SELECT SUM(x) FROM r WHERE g = 1",
            "WITH one AS (SELECT * FROM r WHERE x > 0) SELECT COUNT(*) FROM one JOIN s ON one.g = s.g",
            "SELECT g, COUNT(*), AVG(x) FROM r GROUP BY g",
        ):
            asked[f"{text}, {unit}"] = partial(sql.query, text)
            for level in (0.5, 0.99) if "GROUP" not in text else ():
                asked[f"{text}, {unit}, at least {level}"] = lambda sql=sql, text=text, level=level: sql.query(
                    text
                ).lower_bound(level)
        asked[f"count, {unit}"] = lambda sql=sql: sql.count("SELECT COUNT(*) FROM r")
    return play_calls(asked)


def play_splines() -> Scene:
    """Return regressions on splines and on other terms of formulas."""
    frame = pd.DataFrame({"x": X[:, 0], "w": X[:, 1], "y": Y, "t": TIMES, "g": LABELS})
    terms = (
        "bs(x, knots=[0, 1])",
        "bs(x, knots=[-1], degree=1) + w",
        "bs(x, knots=[0]):w - 1",
        "w + C(g, levels=[0, 1, 2])",
        "I(x * w) + np.log(t + 1)",
        "C(g, levels=[0, 1, 2]):x",
    )
    limits = {"x": (-4, 4), "w": (-4, 4), "y": (-8, 8), "t": (0, 20)}
    said: Scene = {}
    for term in terms:
        fit = partial(
            PrivateLinearRegression.from_formula, f"y ~ {term}", frame, bounds=limits, epsilon=5.0, random_state=0
        )
        said[term] = outcome(fit)
    return said


SCENES: dict[str, Callable[[], Scene]] = {
    f"further: {play.__name__.removeprefix('play_')}": play
    for play in (
        play_bounds,
        play_fits,
        play_studies,
        play_outputs,
        play_movements,
        play_ledgers,
        play_costs,
        play_plans,
        play_tables,
        play_splines,
    )
}
