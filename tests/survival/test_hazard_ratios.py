"""Hazard ratios: Cox's estimates without noise, coverage with it, strata, and limits that are not reached."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import nchypergeom_fisher
from statsmodels.duration.hazard_regression import PHReg

from dpstats.errors import InvalidParameter
from dpstats.survival import PrivateSurvival
from dpstats.survival.hazard_ratios import HazardRatio, Reference, _common_hazards, _given_total


def rows(n: int, ratio: float, seed: int = 0, power: float = 1.0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    arm = rng.integers(2, size=n)
    times = (rng.exponential(size=n) / np.where(arm == 1, ratio, 1.0)) ** (1 / power)
    left = rng.uniform(0, np.where(arm == 1, 2.0, 3.0))
    return np.minimum(times, left), times <= left, arm


@pytest.mark.parametrize("power", [0.7, 1.5])
def test_without_noise_it_is_coxs_estimate(power: float) -> None:
    times, events, arm = rows(4000, 0.6, power=power)
    model = PrivateSurvival(horizon=3.0, bins=60, groups=[0, 1], epsilon=1e6, random_state=0)
    found = model.fit(times, events, arm).hazard_ratio(1, 0, log=True)
    known = PHReg(times, arm[:, None], status=events.astype(int), ties="efron").fit()
    assert found.estimate == pytest.approx(known.params[0], abs=0.1 * known.bse[0])
    assert (found.high - found.low) / 3.92 == pytest.approx(known.bse[0], rel=0.05)


def test_it_covers_and_is_on_both_scales() -> None:
    inside = 0
    for seed in range(60):
        times, events, arm = rows(2000, 0.6, seed)
        model = PrivateSurvival(horizon=2.0, bins=8, groups=[0, 1], random_state=seed).fit(times, events, arm)
        found = model.hazard_ratio(1, 0)
        inside += found.low <= 0.6 <= found.high
    # P(51 or fewer of 60) is below 2e-3 at 0.95.
    assert inside > 51
    log, turned = model.hazard_ratio(1, 0, log=True), model.hazard_ratio(0, 1)
    assert np.exp([log.low, log.estimate, log.high]) == pytest.approx([found.low, found.estimate, found.high], rel=1e-6)
    assert turned.estimate == pytest.approx(1 / found.estimate, rel=0.02)
    assert found.pvalue == pytest.approx(found.test(1.0).pvalue) and found.pvalue == pytest.approx(log.pvalue)
    edge = found.confidence_interval(1 - found.test(0.8).pvalue)
    assert min(abs(edge.low - 0.8), abs(edge.high - 0.8)) < 1e-3
    assert "Proportional hazards are assumed" in str(found.summary())


def test_the_noise_of_releases_is_as_stated() -> None:
    times, events, arm = rows(2000, 0.6)
    given: dict[str, Any] = {"horizon": 2.0, "bins": 8, "groups": [0, 1]}
    exact = PrivateSurvival(**given, epsilon=1e6, random_state=0).fit(times, events, arm)
    sampling = exact.hazard_ratio(1, 0, log=True).error
    found = [PrivateSurvival(**given, epsilon=0.3, random_state=seed).fit(times, events, arm) for seed in range(80)]
    ratios = [model.hazard_ratio(1, 0, log=True) for model in found]
    noise = np.sqrt(np.median([ratio.error for ratio in ratios]) ** 2 - sampling**2)
    spread = np.std([ratio.estimate for ratio in ratios])
    # 80 releases: a standard error of 8%. The stated noise includes that of the weights, to second order.
    assert 0.6 * noise < spread < 1.2 * noise and noise > sampling


def test_strata_have_one_ratio() -> None:
    rng = np.random.default_rng(1)
    n = 8000
    stratum = rng.integers(2, size=n)
    arm = (rng.random(n) < np.where(stratum == 1, 0.8, 0.2)).astype(int)
    times = rng.exponential(1 / (np.where(stratum == 1, 3.0, 1.0) * np.where(arm == 1, 0.7, 1.0)))
    labels = 2 * stratum + arm
    model = PrivateSurvival(horizon=2.0, bins=10, groups=range(4), epsilon=2.0, random_state=1)
    model.fit(times, np.ones(n), labels)
    pairs = [(1, 0), (3, 2)]
    found = model.hazard_ratio(strata=pairs)
    assert found.low < 0.7 < found.high and found.pvalue < 1e-6
    apart = [model.hazard_ratio(*pair) for pair in pairs]
    assert found.high - found.low < min(each.high - each.low for each in apart)
    # Without strata, arms differ in the other direction.
    crude = PrivateSurvival(horizon=2.0, bins=10, groups=[0, 1], random_state=0).fit(times, np.ones(n), arm)
    assert crude.hazard_ratio(1, 0).low > 1
    assert crude.log_rank().pvalue < 1e-6 and model.log_rank(strata=pairs).difference[0] < 0


def test_limits_that_are_not_reached_are_infinite() -> None:
    times = np.concatenate([np.full(300, 9.0), np.random.default_rng(0).exponential(1.0, 300)])
    groups = np.repeat([0, 1], 300)
    model = PrivateSurvival(horizon=3.0, bins=4, groups=[0, 1], random_state=0).fit(times, np.ones(600), groups)
    found = model.hazard_ratio(1, 0)
    assert found.high == np.inf and found.low > 1 and found.pvalue < 1e-4
    few = PrivateSurvival(horizon=3.0, bins=4, groups=[0, 1], random_state=0).fit([1.0, 2.0], [1, 1], [0, 1])
    nothing = few.hazard_ratio(0, 1)
    assert np.isnan(nothing.estimate) and (nothing.low, nothing.high) == (0.0, np.inf) and nothing.pvalue == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"a": 0}, "b must"),
        ({"a": 0, "b": 0}, "b must"),
        ({"a": 0, "b": 1, "strata": [(0, 1)]}, "strata must"),
        ({"strata": [(0, 1, 2)]}, "strata must"),
        ({"strata": [(0, 1), (1, 2)]}, "strata must"),
        ({"strata": 5}, "strata must"),
        ({"strata": [0, 1]}, "groups must"),
    ],
)
def test_bad_groups_are_refused(given: dict[str, Any], words: str) -> None:
    rng = np.random.default_rng(0)
    model = PrivateSurvival(horizon=1.0, bins=2, groups=[0, 1, 2], random_state=0)
    model.fit(rng.random(300), np.ones(300), rng.integers(3, size=300))
    with pytest.raises(InvalidParameter, match=words):
        model.hazard_ratio(**given)


def test_few_bins_of_large_hazards_with_censoring_inside_them() -> None:
    rng = np.random.default_rng(0)
    n, ratio = 300_000, 2.0
    arm = rng.integers(2, size=n)
    times = rng.exponential(size=n) / np.where(arm == 1, ratio, 1.0)
    left = rng.exponential(np.where(arm == 1, 0.3, 0.7))
    model = PrivateSurvival(horizon=1.5, bins=4, groups=[0, 1], epsilon=1e4, random_state=0)
    found = model.fit(np.minimum(times, left), times <= left, arm).hazard_ratio(1, 0, log=True)
    # At the hazard of both arms together it is off by 0.045. The standard error is 0.007.
    assert found.estimate == pytest.approx(np.log(ratio), abs=0.035)


def test_hazards_of_a_bin_may_be_large() -> None:
    # Of the second group 98% have the event in the first of two bins, and of the first one 80%.
    inside, widths = 0, []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        arm = rng.integers(2, size=2000)
        times = np.ceil(rng.exponential(size=2000) / np.where(arm == 1, 4.0, 1.6))
        left = rng.integers(1, 6, size=2000)
        model = PrivateSurvival(edges=[1, 2], discrete=True, groups=[0, 1], epsilon=3.0, random_state=seed)
        found = model.fit(np.minimum(times, left), times <= left, arm).hazard_ratio(1, 0)
        inside += found.low <= 2.5 <= found.high
        widths.append(np.log(found.high / found.low))
    # P(51 or fewer of 60) is below 2e-3 at 0.95.
    assert inside > 51 and np.median(widths) < 0.6


def test_a_bin_in_which_hazards_differ_much_is_named() -> None:
    rng = np.random.default_rng(0)
    arm = rng.integers(2, size=5000)
    times, ends = rng.exponential(1 / (3 * np.exp(arm))), rng.exponential(1.0, size=5000)
    noted = {}
    for bins in (3, 8):
        model = PrivateSurvival(groups=["a", "b"], horizon=1.0, bins=bins, epsilon=5.0, random_state=0)
        model = model.fit(np.minimum(times, ends), times <= ends, np.array(["a", "b"])[arm])
        noted[bins] = "depends on the shape of the hazard inside" in " ".join(model.hazard_ratio("b", "a").notes)
    # Cumulative hazards of a bin are 1 and 2.7, or 0.4 and 1.
    assert noted == {3: True, 8: False}


@pytest.mark.parametrize(("first", "second", "total"), [(40, 20, 8), (9, 3, 3), (5, 60, 20), (300, 100, 150)])
@pytest.mark.parametrize("odds", [0.2, 1.0, 6.0])
def test_expected_events_given_their_total(first: int, second: int, total: int, odds: float) -> None:
    # The events of the second group that have these odds in expectation, by bisection.
    low, high = max(0, total - first), min(second, total)
    for _ in range(60):
        at = (low + high) / 2
        more = at * (first - total + at) > odds * (total - at) * (second - at)
        low, high = (low, at) if more else (at, high)
    events = np.array([total - at, at]).reshape(1, 2, 1)
    found = _given_total(events, np.array([first, second]).reshape(1, 2, 1) - events)[0, :, 0]
    known = nchypergeom_fisher.mean(first + second, second, total, odds)
    assert found.sum() == pytest.approx(total)
    assert abs(found[1] - known) < 0.02 + 0.35 * abs(at - known)


def test_few_rows_and_many_ties_have_no_bias() -> None:
    # As in the leukemia trial: 42 patients, 30 events in 35 weeks, a log ratio of 1.5.
    rng = np.random.default_rng(0)
    weeks, datasets, ratio = 35, 1500, 1.5
    noise = PrivateSurvival(edges=range(1, weeks + 1), discrete=True, groups=[0, 1], epsilon=1e6).plan(42).least_squares
    scores = np.zeros(datasets)
    for k in range(datasets):
        times = np.ceil(17.5 * rng.exponential(np.repeat([1, np.exp(-ratio)], 21)))
        left = rng.geometric(0.02, size=42)
        seen, week = (times <= left) & (times <= weeks), np.minimum(np.minimum(times, left), weeks).astype(int)
        cells = np.zeros((1, 2, 2 * weeks + 1))
        np.add.at(cells, (0, np.repeat([0, 1], 21), week - 1 + np.where(seen, 0, weeks + 1)), 1.0)
        scores[k] = HazardRatio([Reference(cells, noise, 0.0, 0.0)]).standardize(np.array([ratio]))[0]
    # The standard error is 0.026. Without the second order the mean is 0.2.
    assert abs(scores.mean()) < 0.1
    assert 0.9 < scores.std() < 1.1


def test_hazards_of_a_bin_in_which_nearly_all_die_expect_the_events() -> None:
    for rows in (50.0, 1e7):
        number, events = np.full((1, 2, 1), rows / 2), np.array([rows - 1.0])
        for ratio in (0.02, 1.0, 20.0):
            hazards = _common_hazards(number, events, np.array([[ratio]]))
            assert hazards[0, 1] == pytest.approx(ratio * hazards[0, 0])
            assert (number * np.exp(-hazards)).sum() == pytest.approx(1.0, rel=1e-6)
