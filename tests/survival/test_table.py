"""A released table: estimates and limits between edges, differences, and state that can be copied."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest
from scipy.special import ndtr

from dpstats.survival import PrivateSurvival
from dpstats.survival.table import SurvivalTable


@cache
def fitted(discrete: bool = False, epsilon: float = 1.0) -> PrivateSurvival:
    rng = np.random.default_rng(0)
    n = 3000
    group = rng.integers(2, size=n)
    times, left = rng.exponential(3.0 + 2 * group), rng.exponential(6.0, n)
    model = PrivateSurvival(horizon=4.0, bins=8, groups=[0, 1], discrete=discrete, epsilon=epsilon, random_state=0)
    return model.fit(np.minimum(times, left), times <= left, group)


def table(discrete: bool = False) -> SurvivalTable:
    return fitted(discrete)._table


def test_between_edges_limits_are_those_of_both_neighbors() -> None:
    low, high = table().pointwise(0, 0.95)
    inside = table().limits_at(np.array([0.5, 0.7, 1.0]), low, high)
    assert inside[0].tolist() == [low[1], low[2], low[2]] and inside[1].tolist() == [high[1], high[1], high[2]]
    # An edge that is off by rounding is the edge.
    near = table().limits_at(np.array([1.0 - 1e-16, 0.5 * (1 + 1e-15)]), low, high)
    assert near[0].tolist() == [low[2], low[1]] and near[1].tolist() == [high[2], high[1]]
    steps = table(True).limits_at(np.array([0.5, 0.7]), low, high)
    assert steps[0].tolist() == [low[1]] * 2 and steps[1].tolist() == [high[1]] * 2


def test_between_edges_estimates_are_on_a_line_or_a_step() -> None:
    values = np.array([1.0, 0.9, 0.7, *[np.nan] * 6])
    assert table().at(np.array([0.0, 0.25, 0.75, 1.0]), values) == pytest.approx([1.0, 0.95, 0.8, 0.7])
    assert np.isnan(table().at(np.array([1.2]), values)).all()
    assert table(True).at(np.array([0.49, 0.5, 0.99]), values).tolist() == [1.0, 0.9, 0.9]


def test_the_pvalue_of_a_difference_is_the_level_at_which_zero_enters() -> None:
    for place in (1, 2, 5):
        found, other = (fitted().difference(*pair, 0.5 * place) for pair in ((0, 1), (1, 0)))
        assert found.pvalue == pytest.approx(other.pvalue, rel=1e-6)
        assert (other.low, other.high) == pytest.approx((-found.high, -found.low))
        interval = found.confidence_interval(1 - found.pvalue)
        # A level of nearly 1 has few digits.
        assert min(abs(interval.low), abs(interval.high)) < 1e-3
        assert found.test(0.1, "less").pvalue + found.test(0.1, "greater").pvalue == pytest.approx(1)


def test_tests_of_times_and_areas_agree_with_their_intervals() -> None:
    for found in (fitted().rmst_difference(0, 1), fitted().rmst(3.0, group=0), fitted().median(0)):
        interval = found.confidence_interval(0.9)
        assert found.test(interval.high * 1.0001 + 1e-4).pvalue < 0.1 + 2e-3
        inside = (interval.low + interval.high) / 2
        assert found.test(inside).pvalue > 0.1


def test_differences_of_areas_are_those_of_both() -> None:
    difference, error, _ = table().area_difference(0, 1, 4.0)
    one, other = table().area(0, 4.0), table().area(1, 4.0)
    assert difference == pytest.approx(float(one.estimate[0] - other.estimate[0]))
    apart = float(np.sqrt(one.variance[0] + other.variance[0]))
    # The total is pinned, so that the noise of the groups is correlated a little.
    assert error == pytest.approx(apart, rel=0.1) and error != apart
    assert 2 * ndtr(-abs(difference) / error) < 1e-6


def test_restricted_means_without_positions_have_a_grid_term() -> None:
    rng = np.random.default_rng(0)
    few = PrivateSurvival(horizon=8.0, bins=4, random_state=0).fit(20 * rng.weibull(0.4, 150), np.ones(150))
    many = PrivateSurvival(horizon=8.0, bins=4, random_state=0).fit(20 * rng.weibull(0.4, 900), np.ones(900))
    assert few._table.positions is None and many._table.positions is not None
    area, whole = few._table.area(0, 8.0), many._table.area(0, 8.0)
    low, high = few._table.area_limits(0, 8.0, 0.95)
    assert area.grid[0] != 0
    assert high - low == pytest.approx(2 * (1.959964 * np.sqrt(area.variance[0]) + abs(area.grid[0])))
    assert whole.grid[0] == 0 and many._table.area(0, 7.0).grid[0] != 0


def test_a_copy_computes_the_same() -> None:
    again = pickle.loads(pickle.dumps(table()))
    assert again.quantile_limits(0, 0.5, 0.9) == table().quantile_limits(0, 0.5, 0.9)
    assert np.array_equal(again.band(1, 0.95)[0], table().band(1, 0.95)[0])


def test_a_difference_of_areas_needs_both_curves() -> None:
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], [3000, 15])
    model = PrivateSurvival(horizon=4.0, bins=8, groups=[0, 1], random_state=0)
    made = model.fit(rng.exponential(2.0, 3015), np.ones(3015), group)._table
    assert [bool(made.area(place, 1.0).reached[0]) for place in (0, 1)] == [True, False]
    assert np.all(np.isnan(made.area_difference(0, 1, 1.0)))
    assert np.all(np.isnan(made.area_difference(1, 0, 1.0)))


def test_restricted_means_are_possible_values_inside_their_intervals() -> None:
    rng = np.random.default_rng(0)
    times, groups, above = np.full(2000, 3.0), rng.integers(2, size=2000), 0
    for seed in range(40):
        model = PrivateSurvival(horizon=1.0, groups=[0, 1], random_state=seed).fit(times, np.ones(2000), groups)
        found, raw = model.rmst(), [float(model._table.area(group, 1.0).estimate[0]) for group in (0, 1)]
        above += max(raw) > 1
        for level in (0.01, 0.95):
            low, high = found.confidence_interval(level)
            assert (low >= 0).all() and (low <= found.estimate).all() and (found.estimate <= high).all()
        assert (found.estimate <= 1).all() and (found.high <= 1).all()
        assert found.estimate == pytest.approx(np.minimum(raw, 1.0))
        apart = model.rmst_difference(0, 1)
        assert apart.low <= apart.estimate <= apart.high and apart.estimate == pytest.approx(raw[0] - raw[1])
    assert above > 5, "no area would be above the horizon"
