"""What neighbors move every kind of stage by, against values by hand."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpstats.auditing import movement as movements
from dpstats.auditing.movement import in_steps, measure_change, movement, stated_sensitivity, vectors
from dpstats.privacy import Block, Choice, Coins, Comparisons, JointStage, OneOf, Responses, Selection, Smooth, Stage
from dpstats.quantiles.grid import cells, group_windows, windows
from dpstats.release.groups import Runs
from dpstats.release.session import Part
from dpstats.release.witness import Declared, Seen

LAPLACE = Stage("sum", "laplace", 2, 0.5, 3, 10.0)
GAUSSIAN = Stage("sum", "gaussian", 2, (0.5, 1.0), 5, 20.0)
BLOCKS = (Block("a", 2, 1.0, 2.0), Block("b", 1, 1.0, 4.0))
JOINT = JointStage("both", "gaussian", BLOCKS, 2.0, 5.0)


def found(stage: Any, first: Any, second: Any) -> Any:
    return movement(Seen(stage, first, None), Seen(stage, second, None))


def steps(*values: int) -> tuple[np.ndarray, bool]:
    return np.array(values), True


def test_additive_stages() -> None:
    item = found(LAPLACE, steps(1, 2), steps(3, 1))
    # 2 + 1 of 3 steps of .5.
    assert (item.moved, item.declared, item.ok, item.ratio, item.norm) == (1.5, 1.5, True, 1.0, "l1")
    assert not found(LAPLACE, steps(1, 2), steps(3, 0)).ok
    item = found(GAUSSIAN, steps(0, 0), steps(3, 4))
    assert (item.moved, item.declared, item.ok, item.norm) == (5.0, 5.0, True, "l2, steps")
    # One step beyond 5 in 2^40 of them is seen, which no float would show.
    large = Stage("sum", "gaussian", 1, 1.0, 2**60, 2.0**60)
    assert found(large, steps(0), steps(2**60)).ok and not found(large, steps(0), steps(2**60 + 1)).ok
    several = Stage("sums", "laplace", 4, 1.0, 3, 10.0, times=2)
    assert found(several, steps(0, 0, 0, 0), steps(2, 1, 3, 0)).ratio == 1.0
    assert "count depends on the data" in found(LAPLACE, steps(1, 2), steps(1)).problem
    other = found(LAPLACE, (np.zeros((2, 1)), np.array([True])), (np.zeros((2, 1)), np.array([False])))
    assert "for one neighbor and not for the other" in other.problem


def test_blocks_move_together() -> None:
    first = {"a": np.array([0, 0]), "b": np.array([0])}
    second = {"a": np.array([2, 0]), "b": np.array([4])}
    # 1 of the first's units and 1 of the second's: sqrt 2 of 2.
    assert measure_change(JOINT, first, second) == Fraction(2) and stated_sensitivity(JOINT) == Fraction(4)
    assert in_steps(JOINT, Fraction(2)) == math.sqrt(2)
    assert [vector.scale for vector in vectors(JOINT)] == [10.0, 20.0]
    item = found(JOINT, (first, True), (second, True))
    assert item.ok and item.ratio == pytest.approx(math.sqrt(0.5))
    assert not found(JOINT, (first, True), ({"a": np.array([4, 4]), "b": np.array([0])}, True)).ok
    assert found(JOINT, (first, True), ({"a": np.array([4, 0])}, True)).problem


def test_joint_noise_counts_the_range_with_0() -> None:
    stage = Stage("counts", "joint", 3, 1.0, 2, 5.0)
    assert found(stage, steps(0, 0, 0), steps(1, 1, 1)).ratio == 0.5
    assert found(stage, steps(0, 0, 0), steps(1, -1, 0)).ratio == 1.0
    assert not found(stage, steps(0, 0, 0), steps(2, -1, 0)).ok


def test_scores_count_up_to_what_is_common() -> None:
    two = Selection("best", "gumbel", 1, 1.0, 1, 5.0)
    one = Selection("best", "gumbel", 1, 1.0, 1, 5.0, monotone=True)
    zero, raised = np.array([5, 0, 2]), np.array([9, 4, 7])
    # 4 or 5 more each: 1 apart, half of what two sides may be.
    assert found(two, zero, raised).ratio == 0.5 and found(one, zero, raised).ratio == 1.0
    assert not found(one, zero, np.array([6, -1, 2])).ok and found(two, zero, np.array([6, -1, 2])).ok
    assert "other candidates" in found(two, zero, zero[:2]).problem


@pytest.mark.parametrize("ranks", [(2,), (1, 3)])
def test_utilities_of_ranks_move_by_two_at_most(ranks: tuple[int, ...]) -> None:
    stage = Choice("points", len(ranks), 2, 4.0, 12)
    rng = np.random.default_rng(0)
    most = 0.0
    for _ in range(60):
        first = np.sort(rng.integers(12, size=4))
        second = first.copy()
        second[rng.integers(4)] = rng.integers(12)
        given = [(Part([windows(np.sort(x), ranks, 11)]),) for x in (first, second)]
        item = found(stage, *given)
        assert item.ok and item.ratio == found(stage, *given[::-1]).ratio
        # Against the definition: how far the ranks of a point are beyond what they may be, for each tuple.
        assert item.moved == by_definition(first, np.sort(second), ranks)
        most = max(most, item.ratio)
    assert most == 1.0


def by_definition(first: np.ndarray, second: np.ndarray, ranks: tuple[int, ...]) -> float:
    def utility(x: np.ndarray, points: tuple[int, ...]) -> int:
        beyond = [max(0, int((x < g).sum()) - r) for g, r in zip(points, ranks, strict=True)]
        short = [max(0, r - int((x <= g).sum())) for g, r in zip(points, ranks, strict=True)]
        return -(max(beyond) + max(short))

    moves = [utility(second, points) - utility(first, points) for points in np.ndindex(*(12,) * len(ranks))]
    return float(max(moves) - min(moves))


def test_a_part_that_gets_a_row_moves_by_its_unit() -> None:
    stage = Choice("points", 1, 4, 4.0, 12)
    x = np.array([2, 5, 7])
    first, second = (Part([cells(rows, Fraction(1, 3), 0, 11)]) for rows in (x, np.array([2, 5, 7, 9])))
    item = found(stage, (first,), (second,))
    assert item.ok and 0 < item.moved <= 2


def test_a_choice_among_other_points_is_wrong() -> None:
    x = np.array([2, 5, 7])
    of_cells = [Part([cells(x, Fraction(1, 3), low, high)]) for low, high in ((0, 11), (0, 10), (1, 11))]
    of_windows = [Part([windows(x, (1, 2), steps)]) for steps in (11, 12)]
    places = [([0, 0], [0, 5], [4, 9]), ([0, 0], [0, 5], [4, 8]), ([0, 1], [0, 5], [4, 9])]
    of_runs = [Part([Runs(*map(np.array, (*place, [0, -1], [1, 1])))]) for place in places]
    for size, (first, *others) in ((1, of_cells), (2, of_windows), (2, of_runs)):
        stage = Choice("points", size, 4, 4.0, 12)
        assert found(stage, (first,), (first,)).ok
        for other in others:
            assert "other candidates" in found(stage, (first,), (other,)).problem
            assert "other candidates" in found(stage, (other,), (first,)).problem


def test_windows_of_tied_rows_are_compared_up_to_the_widest() -> None:
    # Windows of 20 equal rows stand still for 20 steps before they reach the upper end.
    stage, places = Choice("points", 1, 4, 4.0, 12), np.zeros(20, dtype=np.int64)
    given = [(Part([group_windows(x, (10,), 20, 11)]),) for x in (places, places[1:])]
    assert found(stage, *given).ok and found(stage, *given).moved == found(stage, *given[::-1]).moved > 0


def test_many_candidates_are_sampled_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(movements, "MOST_CANDIDATES", 50)
    stage = Choice("points", 2, 2, 4.0, 12)
    x, z = np.array([1, 4, 6, 9]), np.array([1, 4, 6, 11])
    item = found(stage, (Part([windows(x, (1, 3), 11)]),), (Part([windows(z, (1, 3), 11)]),))
    assert item.ok and "at 50 candidates" in item.norm


def test_other_stages() -> None:
    smooth = Smooth("median", 1.0, (10.0, 12.0, 14.4), 0.5, 1.0)
    # Half of the smaller level's 10 is what one row may move them by.
    assert found(smooth, (np.array([0]), 0), (np.array([5]), 1)).ratio == 1.0
    assert not found(smooth, (np.array([0]), 0), (np.array([6]), 1)).ok
    assert "not next to each other" in found(smooth, (np.array([0]), 0), (np.array([0]), 2)).problem
    options = OneOf("sum", (Stage("a", "laplace", 1, 1.0, 2, 8.0), Stage("b", "laplace", 1, 1.0, 4, 16.0)))
    assert found(options, (np.array([0]), 1), (np.array([4]), 1)).ratio == 1.0
    assert not found(options, (np.array([0]), 0), (np.array([4]), 0)).ok
    assert "by the data" in found(options, (np.array([0]), 0), (np.array([0]), 1)).problem
    said = Responses("answers", 2, 3 << 60)
    assert found(said, np.array([0, 1, 0]), np.array([0, 1, 1])).ratio == 1.0
    assert not found(said, np.array([0, 1, 0]), np.array([1, 0, 0])).ok
    assert "number of rows" in found(said, np.zeros(3), np.zeros(2)).problem
    asked = Comparisons("stream", 1.0, 2, 0, 8.0, 16.0, 1)
    assert found(asked, (5, None), (7, None)).ratio == 1.0 and not found(asked, (5, 0), (6, 3)).ok
    assert found(Coins("signs", (3,)), None, None) is None
    assert found(LAPLACE, "the search has ended", "the search has ended") is None
    assert "left out for one" in found(LAPLACE, "the search has ended", steps(0, 0)).problem


def test_what_is_declared_by_others() -> None:
    vector = Declared("sum", "l2", 5.0, 5.0)
    assert found(vector, np.zeros(2), np.array([3.0, 4.0])).ratio == 1.0
    # Floating point may add a billionth, and no more.
    assert found(vector, np.zeros(1), np.array([5.0 * (1 + 1e-10)])).ok
    assert not found(vector, np.zeros(1), np.array([5.0 * (1 + 1e-8)])).ok
    assert found(Declared("max", "linf", 2.0, 1.0), np.zeros(3), np.array([1.0, -2.0, 0.0])).ratio == 1.0
    nothing = Declared("sum", "l1", 0.0, 0.0)
    assert found(nothing, np.zeros(1), np.ones(1)).ratio == math.inf
    assert found(nothing, np.zeros(1), np.zeros(1)).ratio == 0.0
    other = movement(Seen(vector, np.zeros(1), None), Seen(Declared("sum", "l2", 6.0, 6.0), np.zeros(1), None))
    assert other is not None and "from the data" in other.problem and math.isnan(other.ratio)
