"""Proportions: level, power and coverage against published figures; what is read and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.optimize import brentq
from scipy.stats import binomtest

from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter
from dpstats.inference.noisy_counts import CountNoise, at_least, at_most, uniform
from dpstats.privacy import PrivacyBudget
from dpstats.release.session import Session
from dpstats.tables import PrivateProportion
from dpstats.tables.proportion import COUNT, UNIFORM

ANSWERS = [1] * 130 + [0] * 70


@pytest.mark.parametrize(
    ("n", "epsilon", "published"), [(30, 0.1, 0.0905), (30, 1, 0.635), (100, 0.1, 0.353), (100, 1, 0.991)]
)
def test_power_is_that_of_the_most_powerful_test(n: int, epsilon: float, published: float) -> None:
    # Level .05 of theta = .5, power at .7: the optimum of a linear program (Awan and Slavkovic 2018).
    noise = CountNoise("laplace", 1 / epsilon)
    cut = brentq(lambda z: at_least(z, n, 0.5, noise) - 0.05, -1000, 1000, xtol=1e-12)
    assert at_least(cut, n, 0.7, noise) == pytest.approx(published, abs=6e-4)
    # Without the uniform the largest level of at most .05 has less power, at (30, 1) .578.
    whole = next(k for k in range(-200, 400) if at_least(k - 0.5, n, 0.5, noise) <= 0.05)
    lost = at_least(whole - 0.5, n, 0.7, noise)
    assert lost < published
    if (n, epsilon) == (30, 1):
        assert lost == pytest.approx(0.578, abs=6e-4)


@pytest.mark.parametrize("options", [{"epsilon": 0.3}, {"epsilon": 2.0}, {"epsilon": 1.0, "delta": 1e-3}], ids=str)
def test_pvalues_are_uniform_under_the_null_hypothesis(options: dict[str, Any]) -> None:
    # 600 fits; five standard errors: a false alarm below 1e-6 each.
    rng, n, share = np.random.default_rng(0), 50, 0.3
    made = PrivateProportion(**options, random_state=rng)
    found = []
    for _ in range(600):
        made.fit(rng.random(n) < share)
        found.append([made.test(share, side, interval="exact").pvalue for side in ("less", "greater", "two-sided")])
    for level in (0.05, 0.5):
        assert np.all(
            np.abs(np.mean(np.array(found) <= level, axis=0) - level) < 5 * np.sqrt(level * (1 - level) / 600)
        )
    # Of another value they are not.
    assert made.plan_.n_samples == n
    assert (
        np.mean(
            [made.fit(rng.random(n) < 0.6).test(share, "greater", interval="exact").pvalue <= 0.05 for _ in range(200)]
        )
        > 0.15
    )


@pytest.mark.parametrize("kind", ["conservative", "exact"])
def test_intervals_are_what_tests_do_not_reject(kind: str) -> None:
    made = PrivateProportion(random_state=0).fit(ANSWERS)
    low, high = made.confidence_interval(0.9, interval=kind)
    at = [made.test(end, interval=kind).pvalue for end in (low, high)]
    assert at == pytest.approx([0.1, 0.1], rel=1e-6)
    one = made.test(0.5, "greater", interval=kind).confidence_interval(0.95)
    assert one.low == pytest.approx(low) and one.high == 1.0
    assert made.test(0.5, "less", interval=kind).confidence_interval(0.95).low == 0.0
    assert made.test(0.5, interval=kind).confidence_interval(0.9).low == low
    assert kind in made.test(0.5, interval=kind).estimand and kind in one.estimand
    assert "not a private release" in str(made.summary()) and "0.645" in str(made.summary())
    assert "p-value" in str(made.test(0.5).summary())


def test_conservative_intervals_do_not_vary_without_noise() -> None:
    # The exact interval of no events in 1,000 rows has upper ends from 0.0005 to 0.0036.
    made = [PrivateProportion(epsilon=500.0, random_state=seed).fit([0] * 1000) for seed in range(20)]
    upper = [float(one.confidence_interval().high) for one in made]
    assert len(set(upper)) == 1
    assert np.ptp([one.confidence_interval(interval="exact").high for one in made]) > 1e-3
    assert "conservative" in str(made[0].summary())


@pytest.mark.parametrize(("count", "n"), [(0, 1000), (3, 10), (10, 10), (47, 90)])
def test_conservative_intervals_without_noise_are_those_of_clopper_and_pearson(count: int, n: int) -> None:
    made = PrivateProportion(epsilon=500.0, random_state=0).fit([1] * count + [0] * (n - count))
    for level in (0.9, 0.99):
        known = binomtest(count, n).proportion_ci(level, "exact")
        assert tuple(made.confidence_interval(level)) == pytest.approx((known.low, known.high), abs=1e-9)
    for side in ("less", "greater"):
        known = binomtest(count, n, 0.4, alternative=side).pvalue
        assert made.test(0.4, side).pvalue == pytest.approx(known, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("share", [0.003, 0.3])
def test_conservative_intervals_cover_by_computation(epsilon: float, share: float) -> None:
    # Every count that matters, with its probability: no simulation.
    n, noise = 20, CountNoise("laplace", 1 / epsilon)
    reach = int(30 / epsilon) + 2
    counts = np.arange(-reach, n + reach + 1)
    tails = np.array([at_least(count - 0.5, n, share, noise) for count in [*counts, counts[-1] + 1]])
    ends = np.array(
        [[at_least(count - 0.5, n, share, noise), at_most(count + 0.5, n, share, noise)] for count in counts]
    )
    kept = (ends >= 0.025).all(axis=1)
    assert (-np.diff(tails))[kept].sum() >= 0.95 - 1e-9
    assert np.all(ends.sum(axis=1) >= 1 - 1e-12)


@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_exact_intervals_are_inside_conservative_ones(delta: float) -> None:
    for seed in range(20):
        made = PrivateProportion(delta=delta, random_state=seed).fit(ANSWERS)
        wide, exact = made.confidence_interval(), made.confidence_interval(interval="exact")
        assert wide.low <= exact.low and exact.high <= wide.high
        assert (tuple(wide) == tuple(exact)) == (delta > 0)


def test_the_uniform_is_drawn_once_and_is_uniform() -> None:
    plan = PrivateProportion().plan(10)
    with Session.simulated(plan, np.random.default_rng(0), 20_000) as session:
        PrivateProportion()._release({COUNT: np.array([3])}, plan, session)
    u = uniform(session.released[UNIFORM])
    counts = session.released[COUNT][:, 0]
    assert np.all(np.abs(u) < 0.5) and np.all(counts == np.rint(counts))
    # Kolmogorov's distance of 20,000 numbers, and a correlation: false alarms below 1e-6.
    assert np.max(np.abs(np.sort(u) + 0.5 - (np.arange(20_000) + 0.5) / 20_000)) < 2.7 / math.sqrt(20_000)
    assert abs(np.corrcoef(u, counts)[0, 1]) < 5 / math.sqrt(20_000)
    made = PrivateProportion(random_state=1).fit(ANSWERS)
    assert made.statistic_ != made.count_ == np.rint(made.count_)
    signs = np.ones(52, dtype=np.int64)
    assert -0.5 < uniform(-signs) < uniform(signs) < 0.5


def test_far_outside_an_end_is_printed() -> None:
    made = PrivateProportion(epsilon=0.01, random_state=0)
    for seed in range(40):
        made.set_params(random_state=seed).fit([0, 1])
        low, high = made.confidence_interval()
        assert 0 <= low <= high <= 1
        if low == high:
            assert low == (0.0 if made.statistic_ < 0 else 1.0) and "every proportion" in str(made.summary())
            break
    else:
        pytest.fail("noise of scale 100 never left [0, 2] by so much")


@pytest.mark.parametrize(
    "values",
    [
        [1, 0, 1, 1],
        (True, False, True, 1.0),
        np.array([1, 0, 1, 1], dtype=np.int8),
        np.array([[1], [0], [1], [1]]),
        pd.Series([True, False, True, True]),
        pd.DataFrame({"any": [1.0, 0.0, 1.0, 1.0]}),
        pl.Series([1, 0, 1, 1]),
        iter([1, 0, 1, 1]),
    ],
    ids=lambda values: type(values).__name__,
)
def test_every_kind_of_values(values: Any) -> None:
    made = PrivateProportion(epsilon=60.0).fit(values)
    assert made.count_ == 3 and made.proportion_ == 0.75 and made.plan_.n_samples == 4


@pytest.mark.parametrize(
    "values", [[], [0, 2], [0, None], ["yes", 0], [0.5], [[0, 1]], np.zeros((2, 2)), "01", {"a": 1}, 1], ids=str
)
def test_bad_values_charge_nothing(values: Any) -> None:
    budget = PrivacyBudget(1.0)
    with pytest.raises(InvalidData, match="X must"):
        PrivateProportion(budget=budget).fit(values)
    assert budget.history() == ()


def test_bad_parameters() -> None:
    made = PrivateProportion(random_state=0).fit(ANSWERS)
    for value in (-0.1, 2, "x", None, [0.1, 0.2]):
        with pytest.raises(InvalidParameter, match="value must"):
            made.test(value)
    with pytest.raises(InvalidParameter, match="interval must"):
        made.confidence_interval(interval="wide")
    with pytest.raises(InvalidParameter, match="alternative"):
        made.test(0.5, "more")
    for given in ({"epsilon": 0.0}, {"delta": 1.0}, {"epsilon": "x"}):
        with pytest.raises(InvalidParameter):
            PrivateProportion(**given).plan(10)
    with pytest.raises(InvalidParameter, match="n_features"):
        PrivateProportion().plan(10, 2)
    with pytest.raises(InvalidParameter, match="confidence_level"):
        made.confidence_interval(95)


def test_a_budget_that_cannot_pay_refuses_before_the_values_are_read() -> None:
    budget = PrivacyBudget(0.5)
    with pytest.raises(BudgetExceeded):
        PrivateProportion(budget=budget).fit([7, "secret"])
    assert budget.history() == ()


def test_the_plan_says_what_is_released() -> None:
    plan = PrivateProportion(epsilon=0.5).plan(1000)
    assert plan.count_noise == CountNoise("laplace", 2.0) and plan.guarantee.epsilon == 0.5
    assert plan.expected_error() == pytest.approx(0.25 / 1000 + CountNoise("laplace", 2.0).variance / 1e6)
    assert "52 coins" in str(plan) and UNIFORM not in str(PrivateProportion(epsilon=1.0, delta=0.1).plan(1000))


# 400 datasets a cell: a coverage of .95 is seen as less than .90 once in 50,000 times.


@pytest.mark.parametrize(
    ("p", "n", "epsilon", "share"), [(0.3, 1000, 1.0, 0.3), (0.02, 1000, 1.0, 0.3), (0.5, 50, 0.5, 0.5)]
)
def test_intervals_cover_the_proportion_of_observed_rows(p: float, n: int, epsilon: float, share: float) -> None:
    rng, covered = np.random.default_rng(1), 0
    for seed in range(400):
        x = np.where(rng.random(n) < share, np.nan, rng.random(n) < p)
        low, high = PrivateProportion(epsilon=epsilon, missing="drop", random_state=seed).fit(x).confidence_interval()
        covered += low <= p <= high
    assert covered >= 360


def test_the_proportion_of_observed_rows_is_theirs() -> None:
    x = [1.0] * 30 + [0.0] * 70 + [None] * 50
    made = PrivateProportion(epsilon=1e3, missing="drop", random_state=0).fit(x)
    assert made.proportion_ == pytest.approx(0.3) and made.rows_ == pytest.approx(100)
    assert "observed rows" in made.estimates().estimand and "Rows observed" in str(made.summary())
    assert np.isnan(PrivateProportion(missing="drop", epsilon=1e3, random_state=0).fit([None] * 9).proportion_)
    with pytest.raises(InvalidParameter, match="interval must"):
        made.confidence_interval(interval="exact")
    with pytest.raises(InvalidData, match="X must"):
        PrivateProportion(missing="drop").fit([0, 1, 2])
    with pytest.raises(InvalidData, match="missing='drop' leaves its row out"):
        PrivateProportion().fit([0, 1, None])


@pytest.mark.parametrize(("n", "p", "epsilon"), [(40, 0.5, 1.0), (300, 0.05, 0.5), (2000, 0.9, 0.1)])
def test_intervals_cover_where_the_number_of_rows_is_private(n: int, p: float, epsilon: float) -> None:
    rng = np.random.default_rng(8)
    covered = counted = 0
    for seed in range(400):
        made = PrivateProportion(epsilon=epsilon, neighbors="add_or_remove", random_state=seed)
        made.fit(rng.random(n) < p)
        low, high = made.confidence_interval()
        covered += low <= p <= high
        least, most = made.n_interval()
        counted += least <= n <= most
    assert covered >= 360 and counted >= 360


def test_a_private_number_of_rows_is_released_with_the_proportion() -> None:
    made = PrivateProportion(epsilon=1e3, neighbors="add_or_remove", random_state=0).fit(ANSWERS)
    assert made.proportion_ == pytest.approx(0.65) and made.n_ == pytest.approx(200)
    assert [stage.sensitivity_steps for stage in made.plan_.additive] == [1]
    facts = dict(made.summary().facts)
    assert "private" in facts["Rows"] and "one row replaced" in facts["Implied privacy"]
    assert made.plan_.count_noise.std == pytest.approx(
        PrivateProportion(epsilon=2e3, missing="drop").plan(5).count_noise.std
    )
    with pytest.raises(InvalidParameter, match="must be 'conservative' with neighbors='add_or_remove'"):
        made.confidence_interval(interval="exact")
    with pytest.raises(InvalidParameter, match="n_samples must"):
        made.plan_.expected_error()
    assert made.plan(200).expected_error() > 0
    empty = PrivateProportion(neighbors="add_or_remove", random_state=3).fit([])
    assert abs(empty.n_) < 30 and empty.confidence_interval() is not None
