"""Plans of quantiles of groups: ranks, distances from the bounds, and what they say beforehand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpstats.errors import ScaleOutOfRange
from dpstats.groups import GroupQuantiles
from dpstats.groups.group_points import ROWS, Aims, GroupQuantilesPlan, found_quantiles_plan
from dpstats.privacy import Stage
from dpstats.quantiles.grid import binomial, check_grid, group_rank_errors
from dpstats.quantiles.quantile_plan import HIGH, LOW, POINT, SPARE, Target

FRACTIONS = (0.05, 0.5, 0.8)


def plan(q: float = 0.5, n: int = 8000, **options: object) -> GroupQuantilesPlan:
    given = {"groups": ["a", "b"], "bounds": (0, 1000), **options}
    return GroupQuantiles(q=q, **given).plan(n)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 30.0, 1e5])
def test_both_stages_cost_epsilon_together(epsilon: float) -> None:
    for q in FRACTIONS:
        rows, choice = plan(q, epsilon=epsilon).stages
        # A row that changes its group moves two counts by one, and two utilities by one half row each way.
        assert rows.sensitivity_steps == 2 and choice.range_steps == 4
        assert 2 / rows.scale_steps + 4 / choice.scale_steps <= epsilon


@pytest.mark.parametrize("q", [1e-15, 1e-320])
def test_an_extreme_quantile_needs_more_rows_than_there_can_be(q: float) -> None:
    made = plan(q=q)
    assert made.least_rows == made.crowded_rows == 1 << 40
    assert "1,099,511,627,776 rows" in str(made)


def test_an_epsilon_that_is_too_small_to_draw_is_refused() -> None:
    with pytest.raises(ScaleOutOfRange, match="epsilon is too small"):
        plan(epsilon=1e-3)


def test_the_counts_get_the_part_that_makes_the_rank_error_least() -> None:
    for q in FRACTIONS:
        made = plan(q)
        share = 2 / made.stages[0].scale_steps

        def variance(share: float, q: float = q) -> float:
            return 8 * (q - 0.5) ** 2 / share**2 + 16 / (1 - share) ** 2

        if q == 0.5:
            assert share == pytest.approx(0.1)
        else:
            assert variance(share) <= min(variance(share * 0.97), variance(share * 1.03))
        own = math.hypot(made.count_std * (q - 0.5), group_rank_errors(made.each, made.rank_scale).std)
        assert made.rank_error == pytest.approx(own)


@pytest.mark.parametrize(("q", "count"), list(itertools.product(FRACTIONS, [600, 3000])))
def test_ends_are_beyond_the_quantile_with_the_stated_probability(q: float, count: int) -> None:
    made = plan(q)
    found = {target.kind: target.rank for target in made.aims(count).targets}
    errors = binomial(count, q).plus(group_rank_errors(made.each, made.rank_scale))
    at = errors.first + np.arange(errors.pmf.size)
    for kind, beyond in ((LOW, -1), (HIGH, 1)):
        if kind not in found:
            assert q == 0.05 and kind == LOW and count == 600
            continue
        missed = errors.pmf[beyond * (at - found[kind]) > 0].sum()
        assert missed <= 0.025


def test_points_of_a_group_are_apart_from_the_bounds_or_spare() -> None:
    made = plan()
    for count in (2, 40, 150, made.least_rows - 1, made.least_rows, 4000):
        aims = made.aims(count)
        assert len(aims.targets) == made.each and list(aims.ranks) == sorted(aims.ranks)
        assert ({LOW, HIGH} <= aims.kinds) == (count >= made.least_rows)
    assert made.aims(2).kinds == {SPARE}
    # A lower end near the upper bound moves inward.
    high = plan(0.95, epsilon=2.0)
    kinds = [high.aims(count).kinds for count in range(100, 900, 20)]
    assert {LOW, SPARE} in kinds or {LOW, POINT, SPARE} in kinds


def test_places_are_those_of_the_sorted_ranks() -> None:
    aims = Aims(9, (Target(2, LOW, 0), Target(4, POINT, 0), Target(7, HIGH, 0)))
    assert aims.places([30, 10, 20]) == {(0, LOW): 10, (0, POINT): 20, (0, HIGH): 30}
    assert aims.ranks == (2, 4, 7)


def test_a_plan_says_how_many_rows_a_group_needs() -> None:
    made = plan()
    assert f"about {made.least_rows:,} rows or more" in str(made) and "warning" not in str(made)
    small = plan(n=100)
    assert any("warning: a group needs" in note for note in small.notes())
    assert plan(epsilon=4.0).least_rows < made.least_rows < plan(epsilon=0.5).least_rows
    assert plan(step=10.0).least_rows < made.least_rows
    facts = made.facts()
    assert facts["groups"] == ["a", "b"] and facts["least_rows"] == made.least_rows


def test_a_point_of_its_own_is_chosen_where_it_is_cheap() -> None:
    assert plan(n=200_000).each == 3 and plan(epsilon=0.2).each == 2
    assert plan(epsilon=0.2, step=1.0).each == 3  # the middle of two ends is no value of the data
    assert plan(confidence_level=None).each == 1
    assert plan(confidence_level=None).noise(ROWS).std == plan().noise(ROWS).std


def test_a_scale_that_is_too_wide_for_found_groups_is_refused_in_the_plan() -> None:
    count, grid = Stage(ROWS, "laplace", 1, 1.0, 1, 10.0), check_grid((0, 1000), 1.0)
    assert found_quantiles_plan(count, 40.0, 8000, (0.5,), grid, 0.1, 0.95).choice.scale_steps == pytest.approx(40.0)
    with pytest.raises(ScaleOutOfRange, match="epsilon is too small for an exact selection"):
        found_quantiles_plan(count, 40.0, 8000, (0.5,), grid, 1e-4, 0.95)
