"""The proved coverage of the private score: all bags of small sizes, all sizes of groups, all neighbors."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from dpstats.conformal import PrivateConformalRegressor
from dpstats.conformal.coverage import (
    conformal_plan,
    find_group_rule,
    find_rank,
    least_rows,
    place_scores,
    price_in_rows,
    read_scores,
)
from dpstats.release.session import Session
from tests.conformal.models import Zero

SETTINGS = [(2, 0.5), (3, 1.0), (4, 3.0), (6, 1.0)]


def distances(calibration: np.ndarray, points: int, target: float, group: bool) -> np.ndarray:
    """Return the distance of each point from a target rank, as docs/proofs/quantiles.md defines it."""
    counts = np.bincount(calibration, minlength=points)
    up_to, place = np.cumsum(counts), np.arange(points)
    below = up_to - counts
    if group:
        least = np.where(place > 0, below - target, 0), np.where(place < points - 1, target - up_to, 0)
        return np.maximum(0, np.maximum(*least))
    return np.abs(np.maximum(below - target, 0) + np.minimum(up_to - target, 0))


def covered(bag: np.ndarray, points: int, target: float, epsilon: float, group: bool = False) -> float:
    """Return the probability that the choice from all rows but one covers that one, on average over a bag."""
    found = 0.0
    for j, place in enumerate(bag):
        weights = np.exp(-epsilon / 2 * distances(np.delete(bag, j), points, target, group))
        found += weights[place:].sum() / weights.sum()
    return found / len(bag)


def bags(points: int, rows: int) -> list[np.ndarray]:
    return [np.array(bag) for bag in itertools.combinations_with_replacement(range(points), rows)]


@pytest.mark.parametrize(("points", "epsilon"), SETTINGS)
def test_no_bag_is_covered_less_than_the_theorem_says(points: int, epsilon: float) -> None:
    price = price_in_rows(epsilon, points)
    for n in (1, 3, 4):
        for rank in range(n + 1):
            bound = (rank + 1 - price) / (n + 1)
            for bag in bags(points, n + 1):
                assert covered(bag, points, rank, epsilon) >= bound - 1e-12
                # The target of a group may be half a row higher, and beyond its rows.
                assert covered(bag, points, rank + 0.5, epsilon, group=True) >= bound - 1e-12
                assert covered(bag, points, rank + n, epsilon, group=True) >= (n + 1 - price) / (n + 1) - 1e-12


def test_the_price_is_nearly_the_least() -> None:
    price = price_in_rows(3.0, 2)
    slack = [6 * covered(bag, 2, rank, 3.0) - (rank + 1 - price) for rank in range(6) for bag in bags(2, 6)]
    assert 0 <= min(slack) < 0.01


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 8.0])
def test_the_rank_is_the_least_with_the_level(alpha: float, epsilon: float) -> None:
    price = price_in_rows(epsilon, 256)
    n = least_rows(alpha, price)
    assert find_rank(n - 1, alpha, price) is None
    for size in (n, 3 * n, 10_000):
        rank = find_rank(size, alpha, price)
        assert rank is not None
        assert (rank + 1 - price) / (size + 1) >= 1 - alpha - 1e-12
        assert (rank - price) / (size + 1) < 1 - alpha


@pytest.mark.parametrize(
    ("n", "epsilon", "points", "plain", "theirs", "ours"),
    [
        (200, 1.0, 128, 181, 202, 188),
        (500, 1.0, 256, 451, 475, 459),
        (2000, 0.5, 512, 1801, 1855, 1819),
        (2000, 1.0, 1024, 1801, 1831, 1811),
        (20_000, 1.0, 4096, 18_001, 18_038, 18_014),
    ],
)
def test_ranks_are_those_of_the_page_on_the_field(
    n: int, epsilon: float, points: int, plain: int, theirs: int, ours: int
) -> None:
    # Angelopoulos, Bates, Zrnic and Jordan (2022): the level of their quantile, at the best of its constants.
    rank = min(
        (n + 1) * 0.9 / (1 - 0.1 * gamma) + 2 / epsilon * math.log(points / (0.1 * gamma))
        for gamma in np.geomspace(1e-5, 0.999, 4000)
    )
    assert (math.ceil(0.9 * (n + 1) - 1e-9), math.ceil(rank)) == (plain, theirs)
    assert find_rank(n, 0.1, price_in_rows(epsilon, points)) == ours


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.4])
@pytest.mark.parametrize(("scale", "price"), [(0.7, 1.5), (6.7, 9.0)])
def test_a_group_of_any_size_is_covered(alpha: float, scale: float, price: float) -> None:
    rule = find_group_rule(alpha, price, scale)
    far = math.ceil(45 * scale)
    noise, decay = np.arange(-far, far + 1), math.exp(-1 / scale)
    law = (1 - decay) / (1 + decay) * decay ** np.abs(noise)
    for size in range(0, 2 * rule.least + 50, 3):
        counted = size + noise
        ranks = np.array([rule.rank(int(count)) for count in counted])
        target = np.floor(ranks + (size - counted) / 2)
        bound = np.clip((np.minimum(target, size) + 1 - price) / (size + 1), 0, 1)
        assert (law * np.where(counted < rule.least, 1, bound)).sum() >= 1 - alpha - 1e-9


def test_a_group_whose_count_is_below_the_least_has_no_finite_score() -> None:
    plan = conformal_plan(400, 1, 0.1, 1.0, (1.0, 10.0, True), 8, ("a", "b"), "public", "Zero")
    assert plan.rule is not None
    released = {"score": np.array([3, 3]), "rows of each group": np.array([plan.rule.least, plan.rule.least - 1.0])}
    scores, counts = read_scores(released, plan)
    assert scores.tolist() == [plan.grid[3], np.inf] and counts is not None


def test_one_row_moves_log_probabilities_by_epsilon_at_most() -> None:
    epsilon, points, worst = 1.0, 4, 0.0
    for n, rank in ((2, 1), (3, 2), (4, 3)):
        for rest in itertools.combinations_with_replacement(range(points), n - 1):
            logs = []
            for place in range(points):
                weights = np.exp(-epsilon / 2 * distances(np.array([*rest, place]), points, rank, False))
                logs.append(np.log(weights / weights.sum()))
            worst = max(worst, *(np.abs(a - b).max() for a, b in itertools.combinations(logs, 2)))
    assert 0.5 * epsilon < worst <= epsilon


def test_the_fit_draws_what_the_theorem_is_about() -> None:
    # The exact sampler, on rows with ties: frequencies of its points beside the probabilities.
    y = np.repeat([0.5, 2.0, 7.0, 500.0], [4, 3, 2, 1])
    made = PrivateConformalRegressor(
        Zero(), score_bounds=(1.0, 100.0), alpha=0.4, n_points=8, epsilon=3.0, training="public"
    )
    plan = made.plan(10, 1)
    places = place_scores(y, plan)
    assert plan.rank is not None
    weights = np.exp(-1.5 * distances(places, 8, plan.rank, False))
    with Session.simulated(plan, np.random.default_rng(0), 20_000) as session:
        made._release([np.sort(places)], plan, session)
    found = np.bincount(session.released["score"][:, 0], minlength=8) / 20_000
    assert np.abs(found - weights / weights.sum()).max() < 4.5 * math.sqrt(0.25 / 20_000)


def test_without_noise_the_point_is_next_to_the_plain_one() -> None:
    y = np.random.default_rng(0).exponential(size=300)
    made = PrivateConformalRegressor(
        Zero(), score_bounds=100, epsilon=1e6, n_points=4096, training="public", random_state=0
    ).fit(y[:, None], y)
    ordered, place = np.sort(y), math.ceil(0.9 * 301) - 1
    assert ordered[place] <= made.half_width_ <= 1.01 * ordered[place + 1]


def test_a_score_that_is_not_a_number_has_the_last_point() -> None:
    plan = conformal_plan(100, 1, 0.1, 1.0, (1.0, 10.0, True), 8, (), "public", "Zero")
    assert place_scores(np.array([np.nan, np.inf, 0.5, 10.0, 11.0]), plan).tolist() == [7, 7, 0, 6, 7]


@pytest.mark.parametrize("groups", [None, ["a", "b"]])
@pytest.mark.parametrize("epsilon", [1400.0, 2e3, 1e4, 1e300])
def test_plans_of_any_large_epsilon_are_nearly_those_without_noise(epsilon: float, groups: Any) -> None:
    made = PrivateConformalRegressor(
        Zero(), groups=groups, by=groups and "g", score_bounds=100, epsilon=epsilon, training="public"
    )
    assert made.plan(300, 1).price < 1.1
