"""One way out: limits from tails and tails from limits, intervals that agree with tests, and every form of a table."""

from __future__ import annotations

import inspect
import json
import pickle
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpstats.covariance.moments import BoundedErrors
from dpstats.errors import InvalidParameter
from dpstats.inference import Estimates, HasEstimates
from dpstats.inference.error_distributions import BONFERRONI, HOLM
from dpstats.inference.results import ConfidenceInterval, Summary
from tests.inference.test_error_distributions import ByLimits, ByTails

ESTIMATE, ERROR = np.array([[0.5, -1.0], [2.0, 0.0]]), np.array([[0.2, 0.5], [1.0, 0.1]])
NAMES = ("a: x", "a: y", "b: x", "b: y")


def made(kind: type = ByTails, **options: Any) -> Estimates:
    return Estimates(ESTIMATE, ERROR, NAMES, "the mean", kind(ESTIMATE, ERROR), **options)


@pytest.mark.parametrize("kind", [ByTails, ByLimits])
@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_each_follows_from_the_other(kind: type, alternative: str) -> None:
    low, high = made(kind).confidence_interval(0.9, alternative=alternative)
    tail = 0.05 if alternative == "two-sided" else 0.1
    half = stats.norm.isf(tail) * ERROR
    if alternative != "less":
        np.testing.assert_allclose(low, ESTIMATE - half, rtol=1e-9)
    if alternative != "greater":
        np.testing.assert_allclose(high, ESTIMATE + half, rtol=1e-9)
    z = (ESTIMATE - 0.3) / ERROR
    expected = {"less": stats.norm.cdf(z), "greater": stats.norm.sf(z), "two-sided": 2 * stats.norm.sf(abs(z))}
    np.testing.assert_allclose(made(kind).test(0.3, alternative).pvalue, expected[alternative], rtol=1e-9)


@pytest.mark.parametrize("kind", [ByTails, ByLimits])
@pytest.mark.parametrize("simultaneous", [False, True])
def test_the_pvalue_at_an_end_of_an_interval_is_its_level(kind: type, simultaneous: bool) -> None:
    found = made(kind, together=BONFERRONI)
    for end in found.confidence_interval(0.95, simultaneous=simultaneous):
        pvalue = found.test(end, simultaneous=simultaneous).pvalue
        np.testing.assert_allclose(pvalue, 0.05, rtol=1e-6)


def test_simultaneity_is_a_default_that_can_be_changed() -> None:
    assert made(jointly=True).confidence_interval().simultaneous
    assert not made(jointly=True).confidence_interval(simultaneous=False).simultaneous


def test_all_columns_hold_together_only_if_that_is_asked() -> None:
    options: dict[str, Any] = {"together": BONFERRONI, "jointly": True, "axis": 0}
    of_columns, of_all = made(**options), made(**{**options, "axis": None})
    # Two columns of two estimates: by default each column has the level, and if asked all four do.
    half = stats.norm.isf(0.1 / 2 / 2) * ERROR
    np.testing.assert_allclose(of_columns.confidence_interval(0.9).high, ESTIMATE + half, rtol=1e-9)
    together = of_columns.confidence_interval(0.9, simultaneous=True)
    np.testing.assert_allclose(together.high, ESTIMATE + stats.norm.isf(0.1 / 2 / 4) * ERROR, rtol=1e-9)
    np.testing.assert_allclose(together.high, of_all.confidence_interval(0.9).high, rtol=1e-9)
    pvalues = 2 * stats.norm.sf(abs((ESTIMATE - 0.3) / ERROR))
    np.testing.assert_allclose(of_columns.test(0.3).pvalue, np.minimum(2 * pvalues, 1), rtol=1e-9)
    found = of_columns.test(0.3, simultaneous=True).pvalue
    np.testing.assert_allclose(found, np.minimum(4 * pvalues, 1), rtol=1e-9)


def test_holms_pvalues_are_those_of_statsmodels_along_an_axis() -> None:
    from statsmodels.stats.multitest import multipletests

    pvalues = np.random.default_rng(0).uniform(size=(9, 3)) ** 3
    z = stats.norm.isf(pvalues / 2)
    names = [str(i) for i in range(27)]
    of_columns = Estimates(
        z, np.ones(z.shape), tuple(names), "z", ByLimits(z, 1.0), together=HOLM, jointly=True, axis=0, null=0.0
    )
    for j in range(3):
        assert of_columns.pvalue[:, j] == pytest.approx(multipletests(pvalues[:, j], method="holm")[1])
    # Bonferroni's intervals for the nine of a column.
    low, high = of_columns.confidence_interval(0.9)
    assert (high - low) / 2 == pytest.approx(np.full(z.shape, stats.norm.isf(0.05 / 9)))
    assert of_columns.test(0.0, simultaneous=False).pvalue == pytest.approx(pvalues)


def test_limits_that_noise_leaves_free_have_their_own_digits() -> None:
    errors = BoundedErrors(np.array([0.5]), np.array([600.0]), np.array([0.0]), np.array([0.2525]))
    found = Estimates(errors.start, 600.0, ("x",), "a variance", errors)
    (row,) = found.summary().rows
    assert row == ("x", "–", "600", "0.000", "0.253")


def test_an_estimate_whose_interval_holds_everything_is_shown_nowhere() -> None:
    errors = BoundedErrors(np.array([0.1, 0.2]), np.array([600.0, 0.01]), np.zeros(2), np.ones(2))
    found = Estimates(errors.start, None, ("hidden", "seen"), "a share", errors, null=0.5)
    assert np.isnan(found.estimate[0]) and found.estimate[1] == 0.2
    assert np.isnan(found.to_frame()["estimate"].iloc[0]) and found.to_dict()["rows"][0]["estimate"] is None
    first, second = (line for line in found.to_latex().splitlines() if "seen" in line or "hidden" in line)
    assert first.split(" & ")[1] == "--" and second.split(" & ")[1] == "0.200"
    (line,) = found.plot().lines[:1]
    assert line.get_markevery() == [1]
    assert any(note.startswith("Not estimated: hidden.") for note in found.summary().notes)
    # A row of a group without a number keeps its interval and its p-value.
    assert found.confidence_interval().low[0] == 0 and found.pvalue[0] > 0.9
    known = Estimates(errors.start, None, ("a", "b"), "a share", errors, unknown=["Own words."])
    assert "Own words." in known.summary().notes and "Not estimated" not in str(known.summary())


def test_a_usual_null_hypothesis_is_in_every_table() -> None:
    with_null = made(null=0.0, alternative="less", labels={"group": ["a", "a", b"b", 2], "column": list("xyxy")})
    expected = made().test(0.0, "less")
    np.testing.assert_allclose(with_null.pvalue, expected.pvalue)
    np.testing.assert_allclose(with_null.statistic, expected.statistic)
    assert np.isneginf(made(ByLimits, alternative="less").confidence_interval().low).all()
    rows = json.loads(json.dumps(with_null.to_dict()))["rows"]
    assert [row["group"] for row in rows] == ["a", "a", "b'b'", 2]
    assert rows[1]["pvalue"] == pytest.approx(float(expected.pvalue[0, 1]))
    assert list(with_null.summary().columns)[-2:] == ["z", "p-value"]
    with pytest.raises(AttributeError, match="no usual null hypothesis"):
        made().pvalue  # noqa: B018


def test_a_value_outside_the_box_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="between the bounds of the estimand, -10 and 10, got a list of 2"):
        made().test([[0, 0], [0, 11]])


@pytest.mark.parametrize(
    "question",
    [
        lambda found: found.confidence_interval(1.0),
        lambda found: found.confidence_interval(simultaneous="yes"),
        lambda found: found.confidence_interval(alternative="both"),
        lambda found: found.test(alternative="both"),
    ],
)
def test_bad_questions_are_refused(question: Any) -> None:
    with pytest.raises(InvalidParameter):
        question(made())


def test_one_number_gives_numbers() -> None:
    one = Estimates(np.array(0.5), np.array(0.1), ("share",), "a share", ByTails(np.array(0.5), np.array(0.1)))
    interval, found = one.confidence_interval(), one.test(0.4)
    assert type(interval.low) is float and type(found.pvalue) is float and type(found.statistic) is float
    assert one.to_frame().shape == (1, 4)


def test_every_form_has_the_same_numbers() -> None:
    found = made(title="Means", simulated=True)
    frame = found.to_frame(0.9)
    low, high = found.confidence_interval(0.9)
    assert list(frame.index) == list(NAMES)
    np.testing.assert_array_equal(frame["low"], np.ravel(low))
    assert frame.attrs == {"estimand": "the mean", "confidence_level": 0.9, "simulated": True}
    read = json.loads(json.dumps(found.to_dict(0.9)))
    assert read["rows"][2]["name"] == "b: x" and read["rows"][2]["high"] == high[1, 0]
    assert "b: x" in found.to_latex() and found.to_latex().startswith(r"\begin{tabular}{lrrrr}")
    assert found.to_markdown().splitlines()[1] == "| --- | ---: | ---: | ---: | ---: |"
    assert "Simulated noise" in found._repr_html_() and "Means" in repr(found)
    test = found.test(0.3)
    assert list(test.to_frame().columns) == ["value", "statistic", "pvalue"]
    assert "b: x" in test.to_latex() and "p-value" in test._repr_html_()
    interval = test.confidence_interval()
    assert list(interval.to_frame().index) == list(NAMES)
    assert "95%" in str(interval.summary())


def test_latex_and_markdown_escape_what_they_must() -> None:
    summary = Summary("S", [], ["", "a_b"], [["x|y & 50%", "1"]])
    assert summary.to_latex().splitlines()[2:5] == [r" & a\_b \\", r"\midrule", r"x\textbar{}y \& 50\% & 1 \\"]
    assert summary.to_markdown().splitlines()[2] == r"| x\|y & 50% | 1 |"
    pd.testing.assert_frame_equal(summary.to_frame(), pd.DataFrame({"a_b": ["1"]}, index=["x|y & 50%"]))


def test_results_are_pickled_without_an_estimator() -> None:
    for thing in (made(), made().test(0.3), made().confidence_interval()):
        again = pickle.loads(pickle.dumps(thing))
        assert again.to_dict() == thing.to_dict()
        assert str(again.summary()) == str(thing.summary())


def test_a_plot_is_drawn_into_given_axes() -> None:
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert made().plot(ax=ax, color="black") is ax
    assert made().plot().get_xlabel() == "estimate"


def test_an_interval_without_names_counts_them() -> None:
    frame = ConfidenceInterval(np.zeros(2), np.ones(2)).to_frame()
    assert list(frame.index) == ["0", "1"]


def test_standard_errors_are_computed_when_they_are_read() -> None:
    asked = []

    @dataclass(frozen=True, eq=False)
    class Slow(ByTails):
        @property
        def standard_error(self) -> Any:
            asked.append(True)
            return 2 * self.error

    made = Estimates(np.zeros(2), None, ("a", "b"), "numbers", Slow(np.zeros(2), np.ones(2)))
    assert made.confidence_interval().low.tolist() == pytest.approx([-1.959964] * 2) and not asked
    assert made.error.tolist() == made.error.tolist() == [2.0, 2.0] and asked == [True]
    # What computes none knows none, and what was given is kept.
    none = Estimates(np.zeros(2), None, ("a", "b"), "numbers", ByTails(np.zeros(2), np.ones(2)))
    assert np.isnan(pickle.loads(pickle.dumps(none)).error).all()
    assert replace(made, error=np.ones(2)).error.tolist() == [1.0, 1.0]


class Several(HasEstimates):
    """Estimates with a choice."""

    def estimates(self, *, unit: str = "m") -> Estimates:
        return replace(made(), estimand=f"a length in {unit}")


def test_an_option_of_estimates_is_one_of_intervals_tests_and_summaries() -> None:
    for question in (Several.confidence_interval, Several.test, Several.summary):
        option = inspect.signature(question).parameters["unit"]
        assert option.kind is inspect.Parameter.KEYWORD_ONLY and option.default == "m"
        assert not {"options", "given"} & set(inspect.signature(question).parameters)
    several = Several()
    assert several.confidence_interval(unit="km").estimand == "a length in km"
    assert several.test(0.0, unit="km").estimand == several.test(0.0, unit="km").estimates.estimand
    assert several.summary(unit="km").facts[-1] == ("Intervals cover", "a length in km")
    for question in (several.confidence_interval, several.test, several.summary):
        with pytest.raises(TypeError, match="unexpected keyword argument 'units'"):
            question(units="km")


def test_a_class_keeps_a_question_that_it_defines() -> None:
    class Own(Several):
        def summary(self, confidence_level: float | None = None) -> Summary:
            return Summary("own", [], [], [])

        def estimates(self, *, length: str = "m") -> Estimates:
            return super().estimates(unit=length)

    assert Own().summary().title == "own" and "length" in inspect.signature(Own.test).parameters
    assert "unit" not in inspect.signature(Own.test).parameters


def test_labels_keep_their_names_beside_columns_of_numbers() -> None:
    found = made(labels={"estimate": ("r", "s", "t", "u"), "city": ("v", "w", "v", "w")}).to_dict()["rows"]
    assert [row["estimate"] for row in found] == ESTIMATE.ravel().tolist()
    assert [row["estimate_"] for row in found] == ["r", "s", "t", "u"]


def test_a_test_without_a_value_is_of_the_usual_null_hypothesis() -> None:
    from dpstats.means import ClippedMean
    from dpstats.ranks import MannWhitneyTest
    from dpstats.tables import ContingencyTable, PrivateProportion

    rng = np.random.default_rng(2)
    rows = rng.integers(0, 2, size=(4000, 2))
    table = ContingencyTable(levels=[[0, 1], [0, 1]], random_state=0).fit(rows)
    for found in (table.odds_ratio(), table.risk_ratio(), table.difference()):
        assert found.test().pvalue == found.pvalue and found.test().value == found.null
    assert table.odds_ratio().test().pvalue > 0.01 and table.odds_ratio().test(0.5).pvalue < 0.01
    scores = rng.normal(size=2000)
    halves = np.repeat([0, 1], 1000)
    ranks = MannWhitneyTest(groups=[0, 1], sizes=[1000, 1000], random_state=0).fit(scores, halves)
    superiority = ranks.superiority()
    assert superiority.test().value == 0.5 and superiority.test().pvalue == superiority.pvalue
    X = rng.normal(size=(2000, 1))
    assert ClippedMean(bounds=(-4, 4), random_state=0).fit(X).test().value == 0
    for none in (
        PrivateProportion(random_state=0).fit(rows[:, 0]),
        ClippedMean(bounds=(0, 4), random_state=0).fit(abs(X)),
    ):
        with pytest.raises(InvalidParameter, match="value must be given"):
            none.test()
