"""The net of statements: a few cells by the seed of the day, the test that decides, and planted faults."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import f as f_law

import dpstats
from dpstats.conformal.estimators import ConformalPredictor
from dpstats.groups import GroupMeans
from dpstats.groups import cohorts as table_rows
from dpstats.groups.ratios import GroupMeansPlan
from dpstats.inference.error_distributions import Together
from dpstats.inference.estimates import Estimates
from dpstats.inference.results import ConfidenceInterval
from dpstats.ranks import distribution_tests
from dpstats.ranks.statistics import distance_pvalue
from dpstats.regression import PrivateCountRegression
from dpstats.regression.base import Regression
from dpstats.regression.coefficient_errors import Robust
from dpstats.regression.levels import LevelsEstimate, LevelsFit
from dpstats.regression.plan import RegressionPlan
from dpstats.statistic import PrivateStatistic
from dpstats.statistic.clipped_sums import BlockErrors, DifferenceErrors
from dpstats.statistic.plan import StatisticPlan
from dpstats.survival.curves import Curves
from dpstats.survival.hazard_ratios import HazardRatio
from tests.outside.seeds import daily_seed
from tests.outside.statements import cohorts, conformal, group_means, levels, nulls, regressions, statistics, survival
from tests.outside.statements.net import FAMILIES, Net, describe, draw_cell
from tests.outside.statements.populations import KINDS, draw_bounds, draw_rows, draw_values
from tests.outside.statements.verdict import CONDITIONAL, MOST, STANDING, Answer, Cell, evidence, judge, names_reason

SEED = daily_seed()


def test_cells_of_the_day() -> None:
    net = Net(SEED).run(4.0, each=3.0)
    assert not net.counts.total() or not [each for each in net.found if each[2].kind == "crash"], net.page()
    # One in a hundred is known (measured.md). More than two of some ten cells are news.
    assert len(net.faults) < 3, net.page()


def test_a_cell_can_be_drawn_again() -> None:
    for k in range(4):
        first, second = draw_cell(7, k), draw_cell(7, k)
        assert (first.family, first.question, first.facts) == (second.family, second.question, second.facts)
    draws = [first.answer(np.random.default_rng([7, 3, 0])) for _ in range(2)]
    assert draws[0] == draws[1]


def test_frames_have_the_drawn_values_in_every_column() -> None:
    draw = np.random.default_rng(0)
    columns = [draw_values(draw, kind, 2000) for kind in KINDS]
    rows = draw_rows(draw, columns)
    for kind, values, column in zip(KINDS, columns, rows.T, strict=True):
        np.testing.assert_array_equal(values, np.sort(column), kind)
        low, high = draw_bounds(draw, values, "tight", all_inside=True)
        assert low <= values.min() and values.max() <= high, kind


@pytest.mark.parametrize("name", statistics.STATISTICS)
def test_blocks_at_once_have_the_values_of_blocks_one_by_one(name: str) -> None:
    statistic = statistics.STATISTICS[name]
    draw = np.random.default_rng(3)
    X = draw.gamma(2.0, size=(1100, len(statistic.columns)))
    if statistics.GROUP in statistic.columns or name == "share":
        X[:, -1] = draw.random(1100) < 0.3
    if name in ("share", "risk difference", "relative risk"):
        X[:, 0] = draw.random(1100) < 0.4
    for link in set(statistic.links):
        options: dict[str, Any] = {"n_outputs": len(statistic.of), "link": link, "epsilon": 4.0, "random_state": 0}
        options |= {"bounds": (-3, 5), "blocks": 61 if len(statistic.of) == 1 else 70}
        fits = [
            kind(statistics.OneBlock(statistic), **options).fit(X) for kind in (PrivateStatistic, statistics.AllAtOnce)
        ]
        np.testing.assert_allclose(fits[0].estimate_, fits[1].estimate_, rtol=1e-5)
        np.testing.assert_array_equal(fits[0].failed_share_, fits[1].failed_share_)


def test_blocks_of_trimmed_means_are_biased_by_the_rounded_number_of_rows() -> None:
    m, draw = 30, np.random.default_rng(0)
    X, folds = draw.lognormal(size=(20_000, m, 1)), np.broadcast_to(np.arange(m) * 5 // m, (20_000, m))
    errors = {}
    for name in ("trimmed mean", "fractional trimmed mean"):
        statistic = statistics.STATISTICS[name]
        values = statistics.correct_rows(statistic, None, "jackknife", X, folds)
        off = values.mean() - statistic(X.reshape(1, -1, 1))[0, 0]
        errors[name] = off / values.std() * math.sqrt(166)
    assert errors["trimmed mean"] < -6 and abs(errors["fractional trimmed mean"]) < 0.6, errors


# The verdict


def coin(rate: float, notes: tuple[str, ...] = (), **more: Any) -> Cell:
    """Return a cell whose answers are wrong at a rate."""
    return Cell("coin", "toss", {}, ["x0"], 0.05, lambda draw: Answer(draw.random() < rate, notes, 1.0), **more)


def draws(seed: int) -> Callable[[int], np.random.Generator]:
    return lambda replication: np.random.default_rng([seed, replication])


def test_evidence_exceeds_a_thousand_less_often_than_one_time_in_a_thousand() -> None:
    draw = np.random.default_rng(1)
    missed = np.cumsum(draw.random((4000, MOST)) < 0.07, axis=1)[:, 19::20]
    fits = np.arange(20, MOST + 1, 20)
    rates = 0.07 + 0.93 * np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 0.95])[:, None, None]
    logs = missed * np.log(rates / 0.07) + (fits - missed) * np.log((1 - rates) / 0.93)
    assert np.mean(np.exp(logs).mean(axis=0).max(axis=1) >= 1000) <= 0.002
    assert math.isclose(evidence(missed[0, 9], 200, 0.07), np.exp(logs[:, 0, 9]).mean())


def test_good_cells_cost_few_replications_and_false_ones_are_found() -> None:
    good = [judge(coin(0.05), draws(seed), 60) for seed in range(40)]
    assert {verdict.kind for verdict in good} == {"good"}
    assert np.mean([verdict.fits for verdict in good]) < 90
    false = [judge(coin(0.25), draws(seed), 60) for seed in range(20)]
    assert {verdict.kind for verdict in false} == {"false"} and max(verdict.fits for verdict in false) < 400


def test_numbers_that_noise_hides_are_not_wrong_and_alone_no_answers() -> None:
    def select(shown: float) -> Cell:
        """Return a cell whose answers are wrong at a rate of 0.04, and hidden if they are not below ``shown``."""

        def answer(draw: Any) -> Answer:
            value = draw.random()
            return Answer(value < 0.04, [], shown=value < shown)

        return replace(coin(0.0), answer=answer)

    assert [judge(select(shown), draws(1), 60).kind for shown in (1.0, 0.4, 0.04)] == ["good", "good", "refused"]


def test_a_note_names_the_reason_only_for_what_it_is_about() -> None:
    hidden = "Not identified at this n and epsilon: x1 and x2. Noise hides"
    assert names_reason("Noise only: at this n and epsilon, coverage may be below. ", coin(0.5))
    assert not names_reason(hidden, coin(0.5))
    assert names_reason(hidden, replace(coin(0.5), about=["x2"]))
    assert not names_reason("Counts are rare. Slopes are not affected.", coin(0.5))
    assert judge(coin(0.5, (hidden,)), draws(0), 60).kind == "false"
    assert judge(coin(0.5, ("Warning: the steps did not settle",)), draws(0), 60).kind == "named"


def test_long_intervals_are_useless_and_errors_are_none() -> None:
    assert judge(coin(0.01, reference=0.1), draws(0), 60).kind == "useless"
    assert judge(coin(0.01, reference=0.5), draws(0), 60).kind == "good"

    def fail(draw: Any) -> Any:
        raise ZeroDivisionError

    assert judge(replace(coin(0.0), answer=fail), draws(0), 60).kind == "crash"


# Planted faults


def scaled(factor: float, shift: float = 0.0) -> Callable[..., None]:
    """Return a report of standard errors times a factor, and of estimates off by some of them."""
    real = Regression._set_params

    def report(self: Any, params: Any, cov: Any, privacy: Any = None) -> None:
        off = shift * np.sqrt(np.diagonal(cov))
        real(self, params + off, cov * factor**2, privacy)

    return report


def compare_shifted(found: Any, first: Any, second: Any, real: Any = LevelsEstimate.compare) -> Any:
    """Return the means of some levels, too large by a quarter of a half-width, and of others."""
    a, b = real(found, first, second)
    return a.shift(0.25, 0.0 * a.estimate), b


def is_confounded(cell: Cell) -> bool:
    """Return whether covariates differ between groups."""
    return is_easy(cell) and not cell.facts["randomized"] and "yes/no" not in cell.facts["x"]


def is_bounded(cell: Cell) -> bool:
    """Return whether bounds are close to the rows, and there is one factor."""
    facts = cell.facts
    return (
        facts["y bounds"] == "tight"
        and not {"20x", "shifted"} & set(facts["x bounds"].split(", "))
        and ("and" not in facts["factors"])
    )


def is_easy(cell: Cell) -> bool:
    """Return whether noise is small and rows are few but enough, also those with the rarer outcome."""
    facts = cell.facts
    enough = 500 < facts["n"] < 5000 and float(facts.get("rate", 1.0)) * facts["n"] > 150
    return facts["epsilon"] > 2 and enough and "constant" not in facts["x"]


def is_noisy(cell: Cell) -> bool:
    """Return whether noise is not small, though it hides nothing."""
    return 0.3 < cell.facts["epsilon"] < 1 and cell.facts["n"] > 3000


def is_uncensored(cell: Cell) -> bool:
    """Return whether noise is small and rows are enough in equal arms."""
    facts = cell.facts
    return facts["epsilon"] > 1 and facts["n"] > 2000 and 0.3 < float(facts["survivors"].split()[0]) < 0.8


def halved(number: Callable[..., Any], factor: float = 0.5) -> Callable[..., Any]:
    """Return a function whose result is half as large."""
    return lambda *given, **more: factor * number(*given, **more)


def halve(limits: Callable[..., Any]) -> Callable[..., Any]:
    """Return limits that are half as far from the estimate."""

    def half(errors: Any, *given: Any, **more: Any) -> Any:
        return tuple((end + errors.start) / 2 for end in limits(errors, *given, **more))

    return half


def level_row_of_half_noise(*given: Any, real: Any = table_rows._level_row) -> Any:
    """Return a row of a table that states half of its noise."""
    row = real(*given)
    return row._replace(numbers={name: (values, noise / 2) for name, (values, noise) in row.numbers.items()})


def shows_numbers(cell: Cell) -> bool:
    """Return whether noise hides no number of a table, and is more than rounding."""
    facts = cell.facts
    equal = len(set(facts["shares"].split())) == 1
    return equal and 0.1 < facts["epsilon"] < 100 and facts["n"] * min(facts["epsilon"], 10) > 20_000


def is_continuous(cell: Cell) -> bool:
    """Return whether rows are enough, and none are tied."""
    return cell.facts["n"] > 300 and cell.facts["epsilon"] > 1 and "missing" not in cell.facts


def has_rank(cell: Cell) -> bool:
    """Return whether enough rows have different scores."""
    facts = cell.facts
    return facts["n"] > 300 and facts["epsilon"] > 1 and 0.01 < facts["alpha"] < 0.5 and facts["about"] == "all rows"


def has_regular_blocks(cell: Cell) -> bool:
    """Return whether blocks' values are what the intervals of `PrivateStatistic` are made for."""
    return not (cell.facts[statistics.ALLOWANCES] or cell.facts["failed"] or cell.facts["n"] > 20_000)


LINEAR, SUFFICIENT, LOGISTIC, COUNT, _ = regressions.FAMILIES
GROUPS = "GroupMeans"
STATISTIC = statistics.FAMILY
TABLE, TESTS, CONFORMAL = "CohortTable", "tests of distributions", "conformal"
DRAWN: dict[str, Callable[..., Cell]] = {
    GROUPS: group_means.draw_cell, levels.FACTORS: levels.draw_factors, levels.ADJUSTED: levels.draw_adjusted,
    survival.FAMILY: survival.draw_cell, STATISTIC: statistics.draw_cell, TABLE: cohorts.draw_cell,
    TESTS: nulls.draw_distributions, CONFORMAL: conformal.draw_cell,
}  # fmt: skip
FAULTS: dict[str, tuple[Any, str, Any, str, str, Callable[[Cell], bool]]] = {
    "standard errors halved": (Regression, "_set_params", scaled(0.5), LINEAR, "interval", is_easy),
    "slopes off": (Regression, "_set_params", scaled(1.0, 2.0), SUFFICIENT, "joint", is_easy),
    "standard errors of log odds halved": (Regression, "_set_params", scaled(0.5), LOGISTIC, "fitted", is_easy),
    "p-values of joint tests too small": (
        Robust, "joint_tail", lambda *given: 0.1 * float(f_law.sf(*given[1:])), LINEAR, "joint", is_easy,
    ),
    "rate ratios of half the length": (
        PrivateCountRegression, "rate_ratio_interval",
        lambda model, level: np.exp(model.coef_ + np.outer([-1, 1], model.standard_errors_)), COUNT, "ratio", is_easy,
    ),
    "tests of another value": (
        Regression, "t_test", lambda model, text: Regression.wald_test(model, text + " + 1"), LOGISTIC, "combination",
        is_easy,
    ),
    "a plan without noise": (
        RegressionPlan, "noise_ratio", property(lambda plan: 0.0), LINEAR, "planned",
        lambda cell: is_noisy(cell) and not cell.facts["other residuals"],
    ),
    "noise of means halved in the plan": (
        GroupMeansPlan, "mean_noise", halved(GroupMeansPlan.mean_noise), GROUPS,
        "planned", is_noisy,
    ),
    "intervals one by one": (Together, "each", lambda sidak, level, count: level, GROUPS, "together", is_easy),
    "rows of curves counted four times": (
        Curves, "effective_size", property(lambda curves, real=Curves.effective_size.func: 4 * real(curves)),
        survival.FAMILY, "point", is_uncensored,
    ),
    "limits of hazard ratios too near": (
        HazardRatio, "limits", lambda ratio, tail, real=HazardRatio.limits: real(ratio, 6 * tail), survival.FAMILY,
        "ratio", is_uncensored,
    ),
    "tests of larger means": (
        GroupMeans, "test", lambda model, value, **given: super(GroupMeans, model).test(1.05 * value, **given), GROUPS,
        "test", is_easy,
    ),
    "differences of levels too large": (
        LevelsEstimate, "compare", compare_shifted, levels.FACTORS, "difference",
        lambda cell: is_easy(cell) and is_bounded(cell),
    ),
    "groups that are not adjusted": (
        LevelsFit, "_correct_slopes", lambda fit, path: setattr(fit, "slopes", 0 * fit.slopes), levels.ADJUSTED,
        "difference", is_confounded,
    ),
    "intervals of half the width": (
        BlockErrors, "_reach", halve(BlockErrors._reach), STATISTIC, "interval", has_regular_blocks,
    ),
    "differences of half the width": (
        DifferenceErrors, "_combine", halve(DifferenceErrors._combine), STATISTIC, "difference", has_regular_blocks,
    ),
    "half of the noise of means in a table": (
        GroupMeansPlan, "mean_noise", halved(GroupMeansPlan.mean_noise), TABLE, "mean", shows_numbers,
    ),
    "half of the noise of counts in a table": (
        table_rows, "_level_row", level_row_of_half_noise, TABLE, "%", shows_numbers,
    ),
    "a third of a p-value": (
        distribution_tests, "distance_pvalue", halved(distance_pvalue, 1 / 3), TESTS, "two samples", is_continuous
    ),
    "a third of a p-value, one sample": (
        distribution_tests, "distance_pvalue", halved(distance_pvalue, 1 / 3), TESTS, "one sample",
        lambda cell: is_continuous(cell) and "norm" in cell.facts["x"],
    ),
    "intervals of half the score": (
        ConformalPredictor, "_select_scores", halved(ConformalPredictor._select_scores), CONFORMAL, "interval",
        has_rank,
    ),
    "sets of half the score": (
        ConformalPredictor, "_select_scores", halved(ConformalPredictor._select_scores), CONFORMAL, "set", has_rank,
    ),
    "planned widths without noise": (
        StatisticPlan, "planned_width", property(lambda plan: 0.8), STATISTIC, "planned", has_regular_blocks,
    ),
}  # fmt: skip
HALVED = (
    "means", "variances", "units", "units, delta 0", "private bounds", "quantiles", "quantiles, auto",
    "group quantiles", "proportions", "tables", "counts", "covariances", "correlations", "Spearman",
    "components", "workloads", "SQL", "streams",
)  # fmt: skip
"""Families whose intervals of half the length must be found false."""
MOST_CELLS = 5
"""Cells in which a planted fault must show once."""


BUILT = ("Rows with an undeclared or missing label", "The column 'std", "Intervals assume that each unit",
         'tails="variance" assumes', "The rows of one person", "Groups are not compared",
         "Slopes assume residuals no more skewed", "Slopes assume residuals hardly skewed",
         "assume outcomes within", "assumes that the tails", "assume that the tails")  # fmt: skip
"""Standing and conditional notes that are put together from parts."""


def test_standing_notes_are_words_of_the_package() -> None:
    # A note with another wording would count as one that names a reason, and excuse every wrong answer.
    package = Path(dpstats.__file__).parent
    text = re.sub(r'"\s*\n\s*f?"', "", "\n".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py")))
    assert [words for words in (*STANDING, *CONDITIONAL) if words not in text and words not in BUILT] == []


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, attribute, fault, family, question, fitting = FAULTS[name]
    draw_cell = DRAWN.get(family, partial(regressions.draw_cell, family=family))
    monkeypatch.setattr(where, attribute, fault)
    tried: list[str] = []
    for k in range(1000):
        draw = np.random.default_rng([5, k])
        cell = draw_cell(draw, question)
        if fitting(cell):
            verdict = judge(cell, draws(k), 6.0)
            if verdict.kind == "false":
                return
            tried.append(f"{describe(cell)}: {verdict}")
        if len(tried) == MOST_CELLS:
            break
    raise AssertionError("not found in\n" + "\n".join(tried))


@pytest.mark.parametrize("family", HALVED)
def test_intervals_of_half_the_length_are_found(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Estimates.confidence_interval

    def half(found: Estimates, *given: Any, **more: Any) -> ConfidenceInterval:
        interval = real(found, *given, **more)
        reach = [np.where(np.isfinite(end), (end + found.estimate) / 2, end) for end in interval]
        return replace(interval, low=reach[0], high=reach[1])

    monkeypatch.setattr(Estimates, "confidence_interval", half)
    tried: list[str] = []
    for k in range(1000):
        cell = FAMILIES[family][1](np.random.default_rng([6, k]))
        if "interval" in cell.question and cell.facts["n"] > 200 and cell.facts["epsilon"] > 1:
            verdict = judge(cell, draws(k), 6.0)
            if verdict.kind == "false":
                return
            tried.append(f"{describe(cell)}: {verdict}")
        if len(tried) == 6 * MOST_CELLS:
            break
    raise AssertionError("not found in\n" + "\n".join(tried))


@pytest.mark.parametrize("family", ["ranks", "distribution tests", "identity", "Hotelling", "tables"])
def test_tests_are_drawn_under_their_null_hypothesis(family: str) -> None:
    cells = [FAMILIES[family][1](np.random.default_rng([8, k])) for k in range(30)]
    small = [cell for cell in cells if cell.facts["n"] < 1000 and "missing" not in cell.facts]
    tests = [cell for cell in small if cell.is_test][:2]
    assert tests and all(cell.allowed == 0.065 for cell in tests)
    assert all(cell.answer(np.random.default_rng(0)) is not None for cell in tests)
