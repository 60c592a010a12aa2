"""Plans of groups: what they say before any row is read."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.groups import GroupMeans


def test_what_a_plan_says() -> None:
    plan = GroupMeans(groups=["a", "b"], bounds=[(0, 10), (0, 2)], epsilon=0.5).plan(400, 2)
    assert plan.mean_noise(100) == pytest.approx([5 * plan.totals_noise.total / 100, plan.totals_noise.total / 100])
    assert plan.facts() == {"groups": ["a", "b"]} and plan.half.tolist() == [5.0, 1.0]
    assert "a group of n/2 = 200 rows" in str(plan) and "warning" not in str(plan)


def test_groups_that_noise_will_hide_are_said_beforehand() -> None:
    plan = GroupMeans(groups=range(50), bounds=(0, 1), epsilon=0.2).plan(500, 1)
    assert any("cannot be distinguished from noise" in note for note in plan.notes())


def test_noise_of_means_is_what_the_plan_says() -> None:
    # 300 releases of groups of 4000 equal rows: a standard error of 4%.
    rng = np.random.default_rng(0)
    made = GroupMeans(groups=[0, 1], bounds=(0, 10), random_state=rng)
    X, y = np.full((8000, 1), 5.0), np.repeat([0, 1], 4000)
    found = np.array([made.fit(X, y).means_[:, 0] for _ in range(300)])
    assert found.std(axis=0) == pytest.approx(made.plan_.mean_noise(4000)[0], rel=0.16)


@pytest.mark.parametrize("delta", [0.0, 1e-30])
def test_tiny_and_large_epsilon_have_a_plan(delta: float) -> None:
    for epsilon in (1e-6, 1e-3, 30.0):
        plan = GroupMeans(groups=["a", "b"], bounds=(0, 1), epsilon=epsilon, delta=delta).plan(1000, 3)
        assert plan.guarantee.epsilon <= epsilon


@pytest.mark.parametrize("rows", [None, "x", 0, -5, np.nan, {}, 10**400])
def test_rows_of_a_group_that_are_none_are_refused(rows: object) -> None:
    plan = GroupMeans(groups=["a", "b"], bounds=(0, 1)).plan(400, 1)
    with pytest.raises(InvalidParameter, match="n_rows must"):
        plan.mean_noise(rows)  # type: ignore[arg-type]
