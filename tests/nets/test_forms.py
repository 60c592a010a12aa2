"""Every result has every form: a table, a data frame, a dictionary, LaTeX, Markdown, HTML, a page and a pickle."""

from __future__ import annotations

import importlib
import inspect
import json
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpstats
from dpstats import auditing, simulation
from dpstats.auditing import CheckItem, ReleaseCheck
from dpstats.inference.reports import Reported
from dpstats.inference.results import Summary
from dpstats.means import ClippedMean, ContinualMeans
from dpstats.mechanisms import ContinualCounts, Histogram, RandomizedResponse
from dpstats.privacy import PrivacyBudget, PrivacyGuarantee
from dpstats.privacy.plan import Plan
from dpstats.release.estimator import PrivateEstimator
from dpstats.sql import PrivateSQL
from dpstats.statistic import PrivateStatistic, check_locality
from tests.nets.test_one_way_out import EVERY, fitted

FORMS = ("to_frame", "to_dict", "to_latex", "to_markdown", "_repr_html_")
WRITTEN = {
    "Reported": FORMS,
    "HasEstimates": FORMS[:4],  # at a confidence level
    "Summary": ("to_latex", "to_markdown"),  # the table itself
    "Estimates": FORMS[:4],  # at a confidence level, with the index of the rows of a prediction
    "Plan": ("to_dict",),  # stages with their parts, as the JSON of commands has them
    "PrivacyGuarantee": ("to_dict",),  # its parts by name
    "PrivateEstimator": ("_repr_html_",),  # scikit-learn's box above it
}
"""The classes that write a form; all others inherit it."""


@cache
def study() -> Any:
    """Return the results of a small study."""
    grid = {"n": [50, 100, 200, 400, 800, 1600], "d": [4]}
    mean = ClippedMean(clip=1.0, epsilon=0.1, delta=1e-6)
    return simulation.Study(simulation.Rademacher(), mean, grid, 100, seed=1).run()


def ask_sql(text: str) -> Any:
    """Return the answer to a query."""
    import duckdb

    base = duckdb.connect()
    base.execute("CREATE TABLE r AS SELECT range % 3 AS g, range % 10 AS x FROM range(900)")
    sql = PrivateSQL(base, epsilon=1.0, categories={"r.g": [0, 1, 2]}, bounds={"r.x": (0, 10)}, random_state=0)
    return sql.query(text)


def charge_budget() -> PrivacyBudget:
    budget = PrivacyBudget(1.0, 1e-6)
    budget.charge(PrivacyGuarantee(0.25), label="mean age")
    return budget


def audit_laplace() -> Any:
    rng = np.random.default_rng(0)
    return auditing.audit_outputs(rng.laplace(size=2000), 1 + rng.laplace(size=2000), epsilon=0.5)


def fit_curve(*, theory: bool = True) -> Any:
    constants = {"sampling": 1.0} if theory else None
    terms = {"sampling": lambda cell: cell["d"] / cell["n"], "privacy": lambda cell: (cell["d"] / cell["n"]) ** 2}
    return simulation.fit_formula(study(), terms, constants=constants)


def find_crossing() -> Any:
    return simulation.crossing_point(
        lambda x, rng: rng.random(10) < 1 / (1 + np.exp(3 - x)), 0.5, 20, replications=100, random_state=1
    )


def count_days() -> Any:
    made = ContinualCounts(horizon=12, random_state=0)
    made.update_many([5, 0, 9])
    return made.path()


def average_days() -> Any:
    made = ContinualMeans(bounds=(0, 9), horizon=12, random_state=0)
    made.update_many([[5.0] * 50, [4.0] * 60])
    return made.path()


RESULTS: dict[str, Callable[[], Any]] = {
    "Estimates": lambda: fitted("ClippedMean").estimates(),
    "Test": lambda: fitted("ClippedMean").test(0.1),
    "ConfidenceInterval": lambda: fitted("ClippedMean").confidence_interval(),
    "Summary": lambda: fitted("ClippedMean").summary(),
    "Differences": lambda: fitted("GroupMeans").difference(0, 1),
    "Rehearsal": lambda: PrivateStatistic(lambda block: block.mean()).rehearse(
        np.arange(1000.0)[:, None], n_replications=20
    ),
    "AnalysisOfVariance": lambda: fitted("GroupMeans").anova(n_simulations=19),
    "SurvivalEstimate": lambda: fitted("PrivateSurvival").median(),
    "LogRankResult": lambda: fitted("PrivateSurvival").log_rank(),
    "JointTest": lambda: fitted("PrivateLinearRegression").f_test(),
    "TermTests": lambda: fitted("PrivateLinearRegression").wald_test_terms(),
    "TableTest": lambda: fitted("ContingencyTable").independence(n_simulations=99),
    "TestResult": lambda: fitted("RowDistanceTest").result_,
    "DistributionTestResult": lambda: fitted("KolmogorovSmirnovTest").result_,
    "RankTestResult": lambda: fitted("SignedRankTest").result_,
    "CountEstimate": lambda: Histogram([0, 1], epsilon=1.0, random_state=0).release([0, 1, 1]),
    "DensityEstimate": lambda: Histogram(bins=[0, 1, 2], epsilon=1.0, random_state=0).release([0.5, 1.5]),
    "FoundEstimate": lambda: Histogram("discover", epsilon=1.0, delta=1e-6, random_state=0).release(["a"] * 500),
    "ProportionEstimate": lambda: RandomizedResponse(1.0, random_state=0).estimate(np.arange(100) % 2),
    "PrivateAnswer": lambda: ask_sql("SELECT COUNT(*) FROM r"),
    "PrivateTable": lambda: ask_sql("SELECT g, COUNT(*) FROM r GROUP BY g"),
    "PrivateAnswers": lambda: ask_sql("SELECT g, COUNT(*), AVG(x) FROM r GROUP BY g"),
    "QuantileAnswers": lambda: ask_sql("SELECT g, MEDIAN(x) FROM r GROUP BY g"),
    "AuditResult": audit_laplace,
    "ExactAuditResult": lambda: auditing.audit_probabilities(
        RandomizedResponse(1.0).probabilities, [(0, 1)], epsilon=0.5
    ),
    "SensitivityCheck": lambda: auditing.check_sensitivity(np.sum, [1, 0, 1], [1, 1, 1], sensitivity=1.0),
    "ReleaseCheck": lambda: ReleaseCheck("Mine", (CheckItem("audit", "open", "The attack is weak."),)),
    "LocalityCheck": lambda: check_locality(np.median, np.arange(100.0)),
    "StudyResults": study,
    "Check": lambda: simulation.compare(study(), lambda cell: cell["d"] / cell["n"], relation="at_least"),
    "FormulaFit": fit_curve,
    "RateFit": lambda: simulation.fit_rate(study(), "n", theory=-1),
    "CountPath": count_days,
    "MeanPath": average_days,
    "PowerCurve": lambda: simulation.power_curve(
        ClippedMean(bounds=(0, 1), bounds_are="hard"), [100, 200], effect=0.1, std=0.3
    ),
    "RateTable": lambda: simulation.fit_rates(study(), {"n": -1}),
    "FormulaComparison": lambda: simulation.compare_formulas(
        study(), {name: {"all": lambda cell, k=k: cell["n"] ** -k} for name, k in (("1/n", 1.0), ("n^-2", 2.0))}
    ),
    "CrossingPoint": find_crossing,
    "PrivacyBudget": charge_budget,
    "PrivacyGuarantee": lambda: PrivacyGuarantee(1.0, 1e-6),
}
"""Every result that is neither an estimator nor a plan."""

BASES = {"Printed", "HasEstimates", "HasResult", "HypothesisTest", "CellAnswers", "StreamPath"}


def descendants(kind: type) -> Iterator[type]:
    """Yield the subclasses of a class in this package, and theirs."""
    for each in kind.__subclasses__():
        if each.__module__.startswith("dpstats"):
            yield each
        yield from descendants(each)


@cache
def exported() -> dict[str, type]:
    """Return every public class with the forms of a result, by its name."""
    for module in pkgutil.walk_packages(dpstats.__path__, "dpstats."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return {kind.__name__: kind for kind in descendants(Reported) if not kind.__name__.startswith("_")}


def test_every_result_is_in_the_table() -> None:
    found = {name for name, kind in exported().items() if not issubclass(kind, PrivateEstimator | Plan)}
    assert found - BASES == set(RESULTS)


def test_a_form_is_written_once() -> None:
    for kind in [Reported, *exported().values()]:
        own = tuple(name for name in FORMS if name in vars(kind))
        assert own == WRITTEN.get(kind.__name__, ()), kind


def test_everything_with_a_summary_has_the_forms() -> None:
    for name in exported():
        for form in FORMS:
            parameters = list(inspect.signature(getattr(exported()[name], form)).parameters)
            is_printed = form in ("to_latex", "to_markdown")
            paper = [["caption", "label", "notes"], ["confidence_level", "paper"]] if is_printed else []
            assert parameters[1:] in ([], ["confidence_level"], *paper), (name, form)


def check_forms(thing: Any) -> Summary:
    """Check that the forms of a result are there, and agree; return its table."""
    frame, said, summary = thing.to_frame(), json.loads(json.dumps(thing.to_dict())), thing.summary()
    assert len(frame) and len(frame.columns) and list(map(str, frame.columns)) == list(frame.columns)
    assert thing.to_latex() == summary.to_latex() and thing.to_latex().startswith(r"\begin{tabular}")
    assert thing.to_markdown() == summary.to_markdown() and thing.to_markdown().startswith("| ")
    assert summary.as_html() in thing._repr_html_() and str(summary) == summary.as_text()
    if "rows" in said:
        assert len(said["rows"]) == len(frame)
        for row, (_, cells) in zip(said["rows"], frame.iterrows(), strict=True):
            assert list(row) == ["name", *frame.columns]
            for key, cell in cells.items():
                same = row[key] == cell or str(row[key]) == str(cell)
                assert same or (row[key] is None and cell != cell), (key, row[key], cell)
    return summary


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_has_every_form(name: str, tmp_path: Path) -> None:
    thing = RESULTS[name]()
    assert type(thing).__name__ == name
    summary = check_forms(thing)
    assert summary.title in thing.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    if name != "PrivacyBudget":  # which is shared, not copied
        assert pickle.loads(pickle.dumps(thing)).to_dict() == thing.to_dict()


@pytest.mark.parametrize("name", EVERY)
def test_every_estimator_has_every_form(name: str) -> None:
    model = fitted(name)
    check_forms(model)
    # What a receipt states are the released numbers.
    result = model.receipt().content["result"]
    assert result is not None and len(result["rows"]) == len(model.to_frame())


def test_a_rate_that_does_not_fit_has_the_exponents_of_two_regimes() -> None:
    grid = {"n": [10, 30, 100, 300, 1000, 3000, 10_000, 30_000], "d": [1]}
    results = simulation.Study(simulation.Rademacher(), ClippedMean(clip=1.0, epsilon=0.02), grid, 300, seed=1).run()
    rate = simulation.fit_rate(results, "n", theory=-1)
    frame = rate.to_frame()
    assert not rate.fits and len(frame) == 5 == len(rate.summary().rows)
    assert frame["estimate"].tolist()[1:3] == list(rate.two.slopes)
