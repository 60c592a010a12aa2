"""The log-rank test: exact noise, two stages, reports, power, and refusals."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.survival import LogRankTest, PrivateSurvival

RNG = np.random.default_rng(0)
N = 3000
ARM = RNG.integers(3, size=N)
TIMES, LEFT = RNG.exponential(3.0 + ARM), RNG.uniform(1.0, 8.0, N)
ROWS = np.minimum(TIMES, LEFT), TIMES <= LEFT


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("groups", [[0, 1], [0, 1, 2]])
def test_exact_noise_is_charged_once_and_finds_a_difference(groups: list[int], delta: float) -> None:
    budget = PrivacyBudget(1.0, delta)
    test = LogRankTest(groups=groups, horizon=5.0, delta=delta, budget=budget)
    kept = np.isin(ARM, groups)
    test.fit(ROWS[0][kept], ROWS[1][kept], y=ARM[kept])
    assert len(budget.history()) == 1 and len(test.plan_.stages) == 2 and not test.privacy_.simulated
    # The rows are fixed. Exact noise makes a larger p-value in fewer than 1e-4 of runs: in 300 simulated ones the
    # largest is 0.014.
    assert test.pvalue_ < 0.05 and test.observed_minus_expected_[0] > 0
    text = str(test.summary())
    assert len(test.summary().columns) == 5 and "simulated" not in text.lower()
    test.set_params(budget=None)
    assert str(pickle.loads(pickle.dumps(test)).summary()) == text


def test_every_container_gives_the_same_release() -> None:
    frame = pd.DataFrame({"t": ROWS[0], "e": ROWS[1].astype(int), "g": ARM})
    test = LogRankTest(groups=[0, 1, 2], horizon=5.0, time="t", event="e", by="g", random_state=0)
    expected = test.fit(frame).statistic_
    assert test.fit(pl.DataFrame(frame).lazy()).statistic_ == expected
    beside = LogRankTest(groups=[0, 1, 2], horizon=5.0, random_state=0)
    assert beside.fit(*ROWS, ARM).statistic_ == expected


def test_discrete_tests_keep_their_level_where_rows_drop_out_between_edges() -> None:
    given = {"horizon": 5.0, "bins": 5, "groups": [0, 1], "epsilon": 5.0}
    pvalues = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        arm, times = rng.integers(2, size=2000), np.ceil(rng.exponential(2.0, 2000))
        left = rng.uniform(0, np.where(arm == 0, 3.0, 10.0))
        rows = np.minimum(times, left), times <= left, arm
        pvalues.append(LogRankTest(**given, discrete=True, random_state=seed).fit(*rows).pvalue_)
    # At a level of 0.05, P(8 or more of 40) is below 0.001.
    assert sum(pvalue < 0.05 for pvalue in pvalues) < 8
    smooth = LogRankTest(**given, random_state=0).fit(*rows)
    assert "spread smoothly" in str(smooth.summary())


def test_too_few_rows_give_a_pvalue_of_one_and_say_so() -> None:
    test = LogRankTest(groups=[0, 1], horizon=5.0, epsilon=0.1, random_state=0).fit([1.0, 2.0], [1, 1], y=[0, 1])
    assert test.pvalue_ == 1 and "too few rows or too much noise" in str(test.summary())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"groups": None}, "groups must"),
        ({"groups": ["a"]}, "groups must"),
        ({"rho": -1}, "rho must"),
        ({"gamma": "late"}, "gamma must"),
        ({"horizon": None}, "horizon must"),
        ({"bins": 0}, "bins must"),
        ({"discrete": 1}, "discrete must"),
    ],
)
def test_bad_parameters_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        LogRankTest(**{"groups": ["a", "b"], "horizon": 5.0, **options}).plan(100)


def test_bad_rows_are_refused_before_the_charge() -> None:
    budget = PrivacyBudget(10.0)
    for times, events, labels in (([-1.0, 2], [1, 0], [0, 1]), ([1.0, 2], [2, 0], [0, 1]), ([1.0, 2], [1, 0], [0, 7])):
        with pytest.raises(InvalidData):
            LogRankTest(groups=[0, 1], horizon=5.0, unknown="error", budget=budget).fit(times, events, y=labels)
    assert budget.history() == ()


def test_rows_of_other_labels_are_left_out_or_refused() -> None:
    rng = np.random.default_rng(0)
    n = 4000
    labels = rng.choice(["a", "b", "c", "d"], n)
    times, left = rng.exponential(2.0, n), rng.exponential(np.where(labels == "a", 1.0, 9.0))
    rows = np.minimum(times, left), times <= left
    given: dict[str, Any] = {"groups": ["a", "b"], "horizon": 5.0, "epsilon": 1e5, "random_state": 0}
    test = LogRankTest(**given).fit(*rows, labels)
    kept = np.isin(labels, ["a", "b"])
    alone = LogRankTest(**given).fit(*(part[kept] for part in rows), labels[kept])
    assert test.statistic_ == pytest.approx(alone.statistic_, abs=0.01)
    assert test.result_.n == pytest.approx(alone.result_.n, abs=0.1)
    assert test.plan_.cells.n_groups == 3 and test.plan_.n_samples == n
    three = LogRankTest(**{**given, "groups": ["a", "b", "c"]}).fit(*rows, labels)
    assert three.result_.n.sum() == pytest.approx((labels != "d").sum(), abs=0.1)
    with pytest.raises(InvalidData, match="labels must"):
        LogRankTest(**given, unknown="error").fit(*rows, labels)
    with pytest.raises(InvalidParameter, match="unknown must"):
        LogRankTest(**given, unknown="ignore").plan(100)


@pytest.mark.parametrize("n_groups", [2, 3])
def test_a_row_of_another_label_moves_the_sums_no_further_than_declared(n_groups: int) -> None:
    groups = list(range(n_groups))
    test = LogRankTest(groups=groups, horizon=3.0, bins=3, epsilon=5.0, random_state=0)
    plan = test.plan(600)
    rng = np.random.default_rng(0)
    some = rng.uniform(0, 4, 600), rng.random(600) < 0.5, rng.integers(n_groups + 1, size=600)
    residuals = plan.residuals(test.fit(*some).plan_.reference(_released(plan, some)))
    kinds = [(t, e, g) for t in (0.0, 0.3, 1.5, 2.9, 7.0) for e in (0, 1) for g in range(n_groups + 1)]
    tables, sums = [], []
    for time, event, group in kinds:
        row = np.array([time]), np.array([event]), np.array([group])
        tables.append(plan.levels.steps(plan.cells.totals(*row)))
        sums.append(residuals.sums(*row)[0])
    for found, stage in ((np.array(tables), plan.table_stage), (np.array(sums), plan.residual_stage)):
        apart = np.abs(found[:, None] - found[None]).sum(axis=2)
        assert apart.max() <= stage.sensitivity_steps
    assert not np.array(sums)[[group == n_groups for *_, group in kinds]].any()


def _released(plan: Any, rows: tuple[np.ndarray, ...]) -> np.ndarray:
    totals = plan.cells.totals(rows[0], rows[1].astype(np.int64), rows[2])
    return plan.levels.steps(totals) * np.asarray(plan.table_stage.spacing)


def test_required_samples_have_the_power() -> None:
    test = LogRankTest(groups=["a", "b"], horizon=5.0)
    n = test.required_samples(0.8, 0.9, censored=0.2, share=0.3)
    fewer, enough = (test.power(size, 0.8, censored=0.2, share=0.3) for size in (9 * n // 10, n))
    assert fewer < 0.9 <= enough
    assert test.power(2000, 1.0) == pytest.approx(0.05, abs=0.03) and test.power(3, 0.5) == 0
    assert test.power(2000, 0.8, level=0.01) < test.power(2000, 0.8)
    # Without noise the usual formula gives 4 (1.96 + 1.2816)^2 / log(0.8)^2 events.
    events = 4 * (1.959964 + 1.281552) ** 2 / np.log(0.8) ** 2
    exact = LogRankTest(groups=["a", "b"], horizon=5.0, epsilon=1e5).required_samples(0.8, 0.9)
    assert exact == pytest.approx(events / (1 - (0.5 + 0.5**0.8) / 2), rel=0.1)
    with pytest.raises(InvalidParameter, match="groups must"):
        LogRankTest(groups=["a", "b", "c"], horizon=5.0).power(100, 0.8)
    with pytest.raises(InvalidParameter, match="power must"):
        test.required_samples(1.0, 0.9)


def test_the_plan_says_how_privacy_is_divided() -> None:
    plan = LogRankTest(groups=["a", "b"], horizon=5.0, rho=1).plan(100)
    assert "the table gets 30% of the privacy" in str(plan) and plan.facts()["weights"] == "S^1 (1 - S)^0"


def test_powers_are_those_of_the_weights() -> None:
    # Weights of late times see less if few subjects are left, and early weights less if the groups part late.
    options = {"groups": [0, 1], "horizon": 4.0, "epsilon": 5.0}
    found = {
        (rho, gamma): LogRankTest(rho=rho, gamma=gamma, **options).power(400, 0.7, survival=0.2, censored=0.8)
        for rho, gamma in ((0, 0), (1, 0), (0, 1))
    }
    assert found[0, 1] < found[1, 0] and found[0, 1] < found[0, 0]


def test_events_at_one_end_of_a_bin_are_named_by_tests_and_ratios() -> None:
    rng = np.random.default_rng(0)
    n = 8000
    arm = rng.integers(2, size=n)
    times = np.where(rng.random(n) < 0.4, rng.exponential(0.03, n), rng.exponential(3.0, n))
    rows = times, np.ones(n)
    given: dict[str, Any] = {"horizon": 1.0, "bins": 4, "groups": [0, 1], "random_state": 0}
    words = "most events in the bin that ends at 0.25 are near one end"
    assert words in str(LogRankTest(**given).fit(*rows, y=arm).result_.notes)
    model = PrivateSurvival(**given).fit(*rows, arm)
    assert words in str(model.log_rank().notes) and words in str(model.hazard_ratio(0, 1).notes)
