"""Every estimator answers the same questions in the same words; an exception has a reason in words."""

from __future__ import annotations

import importlib
import inspect
import json
import pickle
import pkgutil
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone

import dpstats
from dpstats.covariance import HotellingTest, PrivateCorrelation, PrivateCovariance, PrivatePCA
from dpstats.errors import DPStatsError, InvalidParameter
from dpstats.groups import GroupMeans, GroupQuantiles, MeanPerRow
from dpstats.identity import FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest
from dpstats.inference import HasEstimates
from dpstats.means import AdaptiveMean, ClippedMean, CompleteCases, PrivateVariance, SparseMean
from dpstats.quantiles import PrivateDistribution, PrivateMedian, PrivateQuantile
from dpstats.queries import MarginalMWEM, WorkloadAnswers
from dpstats.ranks import GoodnessOfFitTest, KolmogorovSmirnovTest, KruskalWallisTest, MannWhitneyTest, SignedRankTest
from dpstats.regression import (
    PrivateCountRegression,
    PrivateGammaRegression,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    SufficientStatisticsRegression,
)
from dpstats.regression.base import Regression
from dpstats.release.estimator import PrivateEstimator
from dpstats.statistic import PrivateStatistic
from dpstats.survival import LogRankTest, PrivateSurvival
from dpstats.tables import ContingencyTable, PrivateProportion
from dpstats.textbook import (
    FunctionalMechanismRegression,
    IterativeConstruction,
    NetMechanism,
    OnlineMultiplicativeWeights,
    SmallDB,
    StagedInnerProductTest,
)
from tests.nets.calls import ESTIMATORS
from tests.nets.calls import fitted as fit_as_registered

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 2))
Y = X @ [0.5, -0.5] + RNG.normal(size=3000)
LABELS = RNG.integers(3, size=3000)
TIMES = np.random.default_rng(1).exponential(5.0, 3000)
DESIGN = {"x_bounds": (-4, 4), "random_state": 0}
QUERIES = RNG.integers(0, 2, size=(6, 4))
COUNTS = np.array([300, 200, 100, 400])
ANSWERING = {"queries": QUERIES, "random_state": 0}

FITTED: dict[str, Callable[[], Any]] = {
    "ClippedMean": lambda: ClippedMean(bounds=(-4, 4), random_state=0).fit(X),
    "AdaptiveMean": lambda: AdaptiveMean(bound=4.0, std=1.0, random_state=0).fit(X),
    "SparseMean": lambda: SparseMean(n_nonzero=1, split=True, clip=4.0, std=1.0, random_state=0).fit(X),
    "PrivateVariance": lambda: PrivateVariance(bounds=(-4, 4), random_state=0).fit(X),
    "GroupMeans": lambda: GroupMeans(groups=[0, 1, 2], bounds=(-4, 4), random_state=0).fit(X, LABELS),
    "GroupQuantiles": lambda: GroupQuantiles(
        groups=[0, 1, 2], bounds=(-4, 4), confidence_level=0.9, random_state=0
    ).fit(X[:, 0], LABELS),
    "MeanPerRow": lambda: MeanPerRow(bounds=(-4, 4), max_rows=3, random_state=0).fit(X, LABELS % 2 + np.arange(3000)),
    "PrivateLinearRegression": lambda: PrivateLinearRegression(y_bounds=(-6, 6), **DESIGN).fit(X, Y),
    "PrivateLogisticRegression": lambda: PrivateLogisticRegression(**DESIGN).fit(X, Y > 0),
    "PrivateCountRegression": lambda: PrivateCountRegression(y_bounds=(0, 50), **DESIGN).fit(
        X, np.floor(np.exp(Y / 2))
    ),
    "PrivateGammaRegression": lambda: PrivateGammaRegression(y_bounds=(0, 50), **DESIGN).fit(X, np.exp(Y / 2)),
    "SufficientStatisticsRegression": lambda: SufficientStatisticsRegression(y_bounds=(-6, 6), **DESIGN).fit(X, Y),
    "FunctionalMechanismRegression": lambda: FunctionalMechanismRegression(y_bounds=(-6, 6), **DESIGN).fit(X, Y),
    "PrivateProportion": lambda: PrivateProportion(random_state=0).fit(Y > 0),
    "ContingencyTable": lambda: ContingencyTable(levels=[[0, 1, 2], [False, True]], random_state=0).fit(
        np.column_stack([LABELS, Y > 0])
    ),
    "WorkloadAnswers": lambda: WorkloadAnswers(
        domain={"label": [0, 1, 2], "high": [False, True]}, workload=1, random_state=0
    ).fit(np.column_stack([LABELS, Y > 0])),
    "IterativeConstruction": lambda: IterativeConstruction(**ANSWERING).fit(COUNTS),
    "NetMechanism": lambda: NetMechanism(accuracy=0.4, **ANSWERING).fit(COUNTS),
    "SmallDB": lambda: SmallDB(n_rows=3, **ANSWERING).fit(COUNTS),
    "MarginalMWEM": lambda: MarginalMWEM(
        domain={"label": [0, 1, 2], "high": [False, True]}, workload=1, random_state=0
    ).fit(np.column_stack([LABELS, Y > 0])),
    "PrivateDistribution": lambda: PrivateDistribution(bounds=(-4, 4), random_state=0).fit(X[:, 0]),
    "PrivateQuantile": lambda: PrivateQuantile([0.25, 0.5], bounds=(-4, 4), confidence_level=0.9, random_state=0).fit(
        X[:, 0]
    ),
    "PrivateMedian": lambda: PrivateMedian(bounds=(-4, 4), confidence_level=0.9, random_state=0).fit(X[:, 0]),
    "PrivateSurvival": lambda: PrivateSurvival(horizon=4.0, bins=8, groups=[0, 1, 2], random_state=0).fit(
        TIMES, np.ones(3000), LABELS
    ),
    "HotellingTest": lambda: HotellingTest(bounds=(-4, 4), random_state=0).fit(X),
    "PrivatePCA": lambda: PrivatePCA(bounds=(-4, 4), random_state=0).fit(X),
    "PrivateCorrelation": lambda: PrivateCorrelation(random_state=0).fit(X[:500]),
    "PrivateCovariance": lambda: PrivateCovariance(bounds=(-4, 4), random_state=0).fit(X),
    "PrivateStatistic": lambda: PrivateStatistic(np.std, bounds=(0, 4), random_state=0).fit(X),
}

_TEST = "a test of a hypothesis: its result has a p-value, and no estimate with an interval"
_GROUPS = "a test of a hypothesis: its result has a row for each group, and one p-value"
_ANSWERS = "answers queries that a user asks afterwards: its bound is about these answers"

OTHERWISE = {
    **dict.fromkeys(
        [
            "FilteringTest",
            "GoodnessOfFitTest",
            "KolmogorovSmirnovTest",
            "KruskalWallisTest",
            "LipschitzExtensionTest",
            "MannWhitneyTest",
            "RowDistanceTest",
            "SignedRankTest",
            "SpatialSignTest",
            "StagedInnerProductTest",
        ],
        _TEST,
    ),
    "CompleteCases": "a first step, whose release is the number of rows of the next",
    "LogRankTest": _GROUPS,
    "OnlineMultiplicativeWeights": _ANSWERS,
}
"""Public estimators without the mixin, each with its reason."""

EXTRA = {
    "ClippedMean": {"estimand"},
    "AdaptiveMean": {"estimand"},
    "SparseMean": {"estimand"},
    "PrivateVariance": {"estimand"},
    "PrivatePCA": {"estimand"},
    "PrivateCorrelation": {"estimand"},
    "PrivateProportion": {"interval"},
    "WorkloadAnswers": {"estimand"},
    "PrivateDistribution": {"q"},
    "ContingencyTable": {"axis"},
    "PrivateSurvival": {"t", "group"},
    **{name: {"coefficient"} for name in FITTED if name.endswith("Regression")},
}
"""Parameters beyond the common ones: what intervals cover, and which coefficients or proportions are asked for."""


_CHOSEN, _BOUND = "for which the fit chose its limits", "at most 1 - beta"

ONE_LEVEL = {
    **dict.fromkeys(["PrivateQuantile", "PrivateMedian", "GroupQuantiles"], _CHOSEN),
    **dict.fromkeys(["IterativeConstruction", "NetMechanism", "SmallDB"], _BOUND),
}
"""The ends of their intervals hold for one level: nothing else is known of their errors. Other levels are refused."""

NO_INTERVALS = {"MarginalMWEM": "their errors are not known"}
"""Nothing is known of their errors."""

IN_STEPS = {"PrivateDistribution"}
"""Their limits are ends of cells, where p-values jump."""

BY_BIAS = {"AdaptiveMean"}
"""A large bias is on one side, so that one limit of a two-sided interval has nearly all of its error probability."""

TESTS: dict[str, Callable[[], Any]] = {
    "SignedRankTest": lambda: SignedRankTest(n_simulations=99, random_state=0).fit(X[:, 0]),
    "MannWhitneyTest": lambda: MannWhitneyTest(groups=[0, 1], n_simulations=99, random_state=0).fit(
        X[:, 0], LABELS % 2
    ),
    "KruskalWallisTest": lambda: KruskalWallisTest(groups=[0, 1, 2], n_simulations=99, random_state=0).fit(
        X[:, 0], LABELS
    ),
    "KolmogorovSmirnovTest": lambda: KolmogorovSmirnovTest(groups=[0, 1], n_simulations=99, random_state=0).fit(
        X[:, 0], LABELS % 2
    ),
    "GoodnessOfFitTest": lambda: GoodnessOfFitTest(distribution="norm", n_simulations=99, random_state=0).fit(X[:, 0]),
    **{
        kind.__name__: lambda kind=kind: kind(n_calibration=99, random_state=0).fit(X[:50])
        for kind in (FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest, StagedInnerProductTest)
    },
}


OTHERS: dict[str, Callable[[], Any]] = {
    "CompleteCases": lambda: CompleteCases(random_state=0).fit(X),
    "LogRankTest": lambda: LogRankTest(groups=[0, 1, 2], horizon=4.0, random_state=0).fit(TIMES, np.ones(3000), LABELS),
    "OnlineMultiplicativeWeights": lambda: OnlineMultiplicativeWeights(n_queries=5, random_state=0).fit(COUNTS),
}
"""The estimators that have neither estimates with intervals nor one test."""

for new in [name for name in ESTIMATORS if name not in {**FITTED, **TESTS, **OTHERS}]:
    # A release of the registry alone, which says there why it has no estimates.
    call = ESTIMATORS[new]
    one = OTHERS if "estimates" in call.excused else FITTED
    one[new] = partial(fit_as_registered, new)
    OTHERWISE |= {new: call.excused["estimates"]} if one is OTHERS else {}

EVERY = {**FITTED, **TESTS, **OTHERS}


@cache
def fitted(name: str) -> Any:
    return EVERY[name]()


def public_classes() -> set[type]:
    """Return every class in the ``__all__`` of a package or a module of the top level."""
    names = [one.name for one in pkgutil.iter_modules(dpstats.__path__) if one.name != "__main__"]
    modules = [importlib.import_module(f"dpstats.{name}") for name in names]
    things = [getattr(module, name) for module in modules for name in getattr(module, "__all__", ())]
    return {thing for thing in things if inspect.isclass(thing)}


def public() -> dict[str, type]:
    """Return every public estimator."""
    return {thing.__name__: thing for thing in public_classes() if issubclass(thing, PrivateEstimator)}


def test_every_public_estimator_is_in_the_table() -> None:
    estimators = public()
    assert {name for name, kind in estimators.items() if issubclass(kind, HasEstimates)} == set(FITTED)
    assert {name for name, kind in estimators.items() if not issubclass(kind, HasEstimates)} == set(OTHERWISE)


def test_every_test_of_a_hypothesis_is_in_its_table() -> None:
    assert {name for name, reason in OTHERWISE.items() if reason == _TEST} == set(TESTS)
    assert set(OTHERWISE) == {*TESTS, *OTHERS}


@pytest.mark.parametrize("name", EVERY)
def test_a_notebook_shows_the_box_and_the_estimates_of_every_estimator(name: str) -> None:
    model = fitted(name)
    shown = model._repr_mimebundle_()
    unfitted = clone(model)._repr_html_()
    assert shown["text/plain"] == repr(model) and "not a private release" in shown["text/html"]
    assert "sk-top-container" in shown["text/html"] and "sk-top-container" in unfitted
    assert model.summary().as_html() in shown["text/html"] and "dpstats-summary" not in unfitted
    with config_context(display="text"):
        assert model._repr_html_() is None and list(model._repr_mimebundle_()) == ["text/plain"]


@pytest.mark.parametrize("name", EVERY)
def test_every_plan_has_every_form(name: str) -> None:
    plan = fitted(name).plan_
    frame, said = plan.to_frame(), json.loads(json.dumps(plan.to_dict()))
    words = [index.split(": ") for index in frame.index]
    names = [": ".join(row[i:j]) for row in words for i in range(len(row)) for j in range(i + 1, len(row) + 1)]
    assert all(stage.name in names for stage in plan.stages)
    assert {stage["name"] for stage in said["stages"] + said["selections"]} <= set(names)
    assert said["privacy"]["epsilon"] == plan.guarantee.epsilon == frame.attrs["privacy"]["epsilon"]
    assert said["n_samples"] == plan.n_given and said.get("n_used", plan.n_given) == plan.n_samples
    assert said["notes"] == plan.notes()
    assert str(plan.guarantee) in plan._repr_html_() and len(plan.summary().rows) == len(frame)
    assert plan.to_latex().startswith(r"\begin{tabular}") and plan.to_markdown().startswith("| ")


def test_everything_public_with_a_summary_is_shown_in_notebooks() -> None:
    shown = [thing for thing in public_classes() if hasattr(thing, "summary") or thing.__name__.endswith("Plan")]
    assert len(shown) > 50
    assert [thing.__name__ for thing in shown if not hasattr(thing, "_repr_html_")] == []


def test_one_number_is_a_float_whatever_its_dimensions() -> None:
    column = X[:, :1]
    mean = ClippedMean(bounds=(-4, 4), random_state=0).fit(column)
    groups = GroupMeans(groups=[0, 1, 2], bounds=(-4, 4), random_state=0).fit(column, LABELS)
    difference, anova = groups.difference(0, 1), groups.anova(n_simulations=19)
    for test in (mean.test(), difference.test(), difference, anova):
        assert float(test.pvalue) == test.pvalue[0] and f"{test.pvalue:.3f}" == f"{test.pvalue[0]:.3f}"
    interval = mean.confidence_interval()
    assert interval.low.shape == (1,) and float(interval.low) < float(mean.estimate_) < float(interval.high)
    assert float(pickle.loads(pickle.dumps(interval)).low) == interval.low[0]
    with pytest.raises(TypeError):
        float(fitted("ClippedMean").test().pvalue)


@pytest.mark.parametrize("name", TESTS)
def test_tests_of_hypotheses_have_every_form(name: str) -> None:
    model = fitted(name)
    result = model.result_
    for thing in (model, result):
        frame, said = thing.to_frame(), json.loads(json.dumps(thing.to_dict()))
        assert frame["statistic"].item() == said["rows"][0]["statistic"] == model.statistic_
        assert frame["pvalue"].item() == said["rows"][0]["pvalue"] == model.pvalue_
        assert said["simulated"] and said["null"] == result.null
        assert thing.to_latex().startswith(r"\begin{tabular}") and thing.to_markdown().startswith("| ")
    assert "<table" in result._repr_html_()
    assert pickle.loads(pickle.dumps(result)) == result


def test_a_test_of_groups_has_every_form_of_its_rows() -> None:
    model = fitted("LogRankTest")
    result = model.result_
    for thing in (model, result):
        frame, said = thing.to_frame(), json.loads(json.dumps(thing.to_dict()))
        np.testing.assert_array_equal(frame["difference"], model.observed_minus_expected_)
        assert said["statistic"] == model.statistic_ and said["pvalue"] == model.pvalue_
        assert said["simulated"] and said["null"] == result.null
        assert thing.to_latex().startswith(r"\begin{tabular}") and thing.to_markdown().startswith("| ")
    assert str(pickle.loads(pickle.dumps(result))) == str(model.summary())


@pytest.mark.parametrize("name", FITTED)
def test_signatures_are_one(name: str) -> None:
    kind = type(fitted(name))
    interval = ["confidence_level", "simultaneous", "alternative"]
    asked = {
        "confidence_interval": interval,
        "test": ["value", "alternative", "simultaneous"],
        "plot": ["ax", "confidence_level", "style"],
        **{name: ["confidence_level"] for name in ("to_frame", "to_dict", "to_latex", "to_markdown", "summary")},
    }
    for method, expected in asked.items():
        given = inspect.signature(getattr(kind, method)).parameters
        extra = {"self", "paper", *EXTRA.get(name, ())}
        names = [parameter for parameter in given if parameter not in extra]
        assert names == expected, (name, method)
        assert given.get("simultaneous", inspect.Parameter("s", inspect.Parameter.KEYWORD_ONLY)).kind is (
            inspect.Parameter.KEYWORD_ONLY
        )


@pytest.mark.parametrize("name", FITTED)
def test_every_question_has_an_answer_in_every_form(name: str) -> None:
    model = fitted(name)
    found = model.estimates()
    assert model.names_ == found.names and model.estimand_ == found.estimand
    np.testing.assert_array_equal(model.estimate_, found.estimate)
    np.testing.assert_array_equal(model.standard_error_, found.error)
    if name in NO_INTERVALS:
        for question in (model.confidence_interval, model.test):
            with pytest.raises(DPStatsError, match=NO_INTERVALS[name]):
                question()
        assert model.to_frame()["low"].isna().all() and model.plot().get_xlabel()
        return
    low, high = model.confidence_interval(0.9)
    results: list[Any] = [found, model.confidence_interval(), model.summary()]
    if name in ONE_LEVEL:
        with pytest.raises(InvalidParameter, match=ONE_LEVEL[name]):
            model.confidence_interval(0.99)
        with pytest.raises(DPStatsError, match="these intervals have one form"):
            model.confidence_interval(0.9, alternative="less")
        with pytest.raises(DPStatsError, match="there are no p-values"):
            model.test(0.5)
    else:
        for side, open_end in (("less", 0), ("greater", 1)):
            ends = model.confidence_interval(0.9, alternative=side)
            moved = np.asarray(ends[1 - open_end]) != (low, high)[1 - open_end]
            if name in BY_BIAS:
                # Never wider; without the bias that dominates, closer.
                inside = ends[1 - open_end] - (low, high)[1 - open_end]
                assert np.all(inside >= -1e-12 if open_end else inside <= 1e-12)
                one, two = (
                    model.confidence_interval(0.9, alternative=each, estimand="tails")[1 - open_end]
                    for each in (side, "two-sided")
                )
                moved = one > two if open_end else one < two
            assert np.any(moved) if name in IN_STEPS else np.all(moved)
        wide = model.confidence_interval(0.9, simultaneous=True)
        assert np.all(wide.low <= low) and np.all(wide.high >= high) and wide.simultaneous
        results.append(found.test(found.distribution.start, simultaneous=True))
    frame, said = model.to_frame(0.9), json.loads(json.dumps(model.to_dict(0.9)))
    if isinstance(model, Regression):  # the intercept comes first, as in the summary
        frame, said["rows"] = frame.iloc[1:], said["rows"][1:]
    assert len(frame) == len(said["rows"]) == len(found.names)
    np.testing.assert_allclose(frame["low"], np.ravel(low))
    np.testing.assert_allclose([row["high"] for row in said["rows"]], np.ravel(high))
    assert said["simulated"] and said["estimand"] == model.confidence_interval().estimand
    assert model.to_latex(0.9).startswith(r"\begin{tabular}") and model.to_markdown(0.9).startswith("| ")
    assert "<table" in model.summary()._repr_html_() and str(found) == str(found.summary())
    axes = np.ravel(model.plot(color="black"))
    assert all(axis.get_xlabel() for axis in axes)
    for result in results:
        text = pickle.dumps(result)
        # The module of the estimator is loaded by none of them.
        assert not re.search(re.escape(type(model).__module__).encode() + rb"(?!\w)", text)
        assert pickle.loads(text).to_dict() == result.to_dict()


@pytest.mark.parametrize("name", FITTED)
def test_pictures_are_drawn_on_the_axes_that_are_given(name: str) -> None:
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    model, before = fitted(name), dict(rcParams)
    count = len(np.ravel(model.plot()))
    given = Figure().subplots(1, count, squeeze=False)[0]
    drawn = np.ravel(model.plot(given if count > 1 else given[0], color="black", alpha=0.5))
    assert list(drawn) == list(given) and dict(rcParams) == before


@pytest.mark.parametrize("name", [*FITTED, *TESTS])
def test_a_methods_section_states_the_facts_of_the_fit(name: str) -> None:
    model = fitted(name)
    text = model.methods_text()
    privacy = model.privacy_
    for fact in (
        f"We used {name} of dpstats {dpstats.__version__}.",
        f"(epsilon = {privacy.epsilon:.6g}, delta = {privacy.delta:.6g}), {privacy.relation}.",
        f"{model.plan_.n_samples:,}",
        "not a private release",
        *(stage.name for stage in model.plan_.stages),
        *([f"cover {model.estimand_}."] if name in FITTED and name not in NO_INTERVALS else []),
        *([f"The null hypothesis is: {model.result_.null}."] if name in TESTS else []),
    ):
        assert fact.lower() in text.lower(), fact
    assert text.endswith("The guarantee is of this release alone.") and "\n" not in text and "entropy" not in text


def test_the_page_on_results_says_how_intervals_cover_together() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "reading-results.md"
    rows = [line.split("|") for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    stated = {row[1].strip(): row[2] for row in rows}
    for name in FITTED:
        found = fitted(name).estimates()
        if name in {"PrivateProportion", "PrivateQuantile", "PrivateMedian", "GroupQuantiles", *NO_INTERVALS}:
            continue  # one number, or intervals for each separately
        assert found.jointly == found.together.words.startswith("the ")
        assert ("regressions" if name.endswith("Regression") else f"`{name}`") in stated[found.together.words]
    options = {option for name in FITTED if not name.endswith("Regression") for option in EXTRA.get(name, ())}
    assert all(any(f"`{option}`" in name for name in stated) for option in options)
