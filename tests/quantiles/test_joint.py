"""Windows of ranks and counts beside points: against what they are by definition, and what a row moves."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from dpstats.quantiles.grid import counts_beside, group_windows, windows

LAST = 4


def beyond(rows: np.ndarray, g: int, rank: int) -> int:
    """Return how many rows a point is beyond a rank."""
    below, up_to = int((rows < g).sum()), int((rows <= g).sum())
    return max(below - rank, 0) + min(up_to - rank, 0)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_window_holds_the_points_that_are_no_further_off(n: int) -> None:
    for rows in itertools.combinations_with_replacement(range(LAST + 1), n):
        z = np.array(rows)
        for rank in range(n + 1):
            made = windows(z, (rank,), LAST)
            for a, b in itertools.product(range(n + 2), repeat=2):
                low, high = made.box(a, b)
                inside = [g for g in range(LAST + 1) if -a <= beyond(z, g, rank) <= b]
                assert inside == list(range(low[0], high[0] + 1))


@pytest.mark.parametrize("ranks", [(1,), (2,), (1, 2), (0, 2, 3)])
def test_utilities_move_by_one_and_apart_by_two(ranks: tuple[int, ...]) -> None:
    tuples = list(itertools.product(range(LAST + 1), repeat=len(ranks)))

    def utilities(rows: tuple[int, ...]) -> np.ndarray:
        z = np.array(rows)
        s = [[beyond(z, g, r) for g, r in zip(one, ranks, strict=True)] for one in tuples]
        return np.array([min(0, *x) - max(0, *x) for x in s])

    apart, most = [], []
    for rest in itertools.combinations_with_replacement(range(LAST + 1), 2):
        for first, second in itertools.combinations(range(LAST + 1), 2):
            moves = utilities((*rest, first)) - utilities((*rest, second))
            apart.append(moves.max() - moves.min())
            most.append(np.abs(moves).max())
    assert max(most) == 1 and max(apart) == 2


def largest_apart(shift: Callable[[int, int], int], ranks: tuple[int, ...] = (0, 0)) -> int:
    """Return how far apart one row, also one that goes missing, moves utilities; ``shift(j, n)`` moves rank j."""
    tuples = list(itertools.product(range(LAST + 1), repeat=len(ranks)))
    most = 0

    def utilities(rows: tuple[int, ...]) -> np.ndarray:
        z, n = np.array(rows), len(rows)
        moved = [rank + shift(j, n) for j, rank in enumerate(ranks)]
        s = [[beyond(z, g, r) for g, r in zip(one, moved, strict=True)] for one in tuples]
        return np.array([min(0, *x) - max(0, *x) for x in s])

    for size in range(4):
        for rest in itertools.combinations_with_replacement(range(LAST + 1), size):
            found = [utilities((*rest, *more)) for more in [(), *((x,) for x in range(LAST + 1))]]
            for first, second in itertools.combinations(found, 2):
                most = max(most, int((first - second).max() - (first - second).min()))
    return most


def test_ranks_that_move_together_with_the_observed_rows_cost_no_more() -> None:
    assert largest_apart(lambda j, n: n // 2) == 2
    # Each by its own share of the rows: a tuple that is not in order moves by two.
    assert largest_apart(lambda j, n: round((0.2, 0.8)[j] * n)) > 2


def test_windows_of_no_rows_hold_all_points() -> None:
    low, high = windows(np.array([], dtype=np.int64), (-1, 2), LAST).box(3, 3)
    assert low.tolist() == [0, 0] and high.tolist() == [LAST, LAST]


def test_sorting_makes_no_tuple_worse() -> None:
    ranks = (1, 2, 3)
    for rows in itertools.combinations_with_replacement(range(LAST + 1), 4):
        z = np.array(rows)
        for one in itertools.product(range(LAST + 1), repeat=3):
            s, t = ([beyond(z, g, r) for g, r in zip(x, ranks, strict=True)] for x in (one, sorted(one)))
            assert max(0, *t) - min(0, *t) <= max(0, *s) - min(0, *s)


def test_counts_move_together() -> None:
    low, high = np.array([1, 3]), np.array([2, 4])
    z = np.array([0, 1, 1, 3, 4])
    assert counts_beside(z, low, high).tolist() == [1, 3, 3, 5]
    assert counts_beside(z, np.stack([low, low]), np.stack([high, high])).shape == (2, 4)
    for rest in itertools.combinations_with_replacement(range(5), 2):
        for first, second in itertools.combinations(range(5), 2):
            a, b = (counts_beside(np.sort([*rest, x]), low, high) for x in (first, second))
            assert set(a - b) <= {0, 1}


def half_rows_off(z: np.ndarray, g: int, rank: int, anchor: int) -> int:
    """Return how many half rows a point of a group is off a rank for ``anchor`` rows, as the proof defines it."""
    twice = z.size - anchor + 2 * rank
    over = 2 * int((z < g).sum()) - twice if g > 0 else 0
    short = twice - 2 * int((z <= g).sum()) if g < LAST else 0
    return max(over, short, 0)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_a_window_of_a_group_holds_the_points_that_are_no_further_off(n: int) -> None:
    for rows in itertools.combinations_with_replacement(range(LAST + 1), n):
        z = np.array(rows, dtype=np.int64)
        for rank, anchor in itertools.product(range(-1, n + 2), range(n + 2)):
            made = group_windows(z, (rank,), anchor, LAST)
            for a in range(2 * n + 4):
                (low,), (high,) = made.ends(np.array([a]))
                inside = [g for g in range(LAST + 1) if half_rows_off(z, g, rank, anchor) <= a]
                assert inside == list(range(low[0], high[0] + 1))


def moves_of_groups(ranks: tuple[int, ...], anchor: int, follow: int = 1) -> tuple[int, int]:
    """Return by how much a row raises one choice over another, if it stays in its group, and if it enters one.

    ``follow`` is how many half rows a rank moves by with its group's size.
    """
    tuples = list(itertools.product(range(LAST + 1), repeat=len(ranks)))

    def utilities(rows: tuple[int, ...]) -> np.ndarray:
        z = np.array(rows, dtype=np.int64)
        own = anchor + (follow - 1) * (anchor - z.size)
        return np.array([-max(half_rows_off(z, g, r, own) for g, r in zip(one, ranks, strict=True)) for one in tuples])

    stays, enters = 0, 0
    for size in range(4):
        for rest in itertools.combinations_with_replacement(range(LAST + 1), size):
            with_row = [utilities((*rest, value)) for value in range(LAST + 1)]
            without = utilities(rest)
            enters = max(enters, *(int(np.ptp(one - without)) for one in with_row))
            stays = max(stays, *(int(np.ptp(a - b)) for a, b in itertools.combinations(with_row, 2)))
    return stays, enters


@pytest.mark.parametrize("ranks", [(1,), (1, 2), (0, 2)])
def test_a_row_that_changes_its_group_costs_as_much_as_one_that_stays(ranks: tuple[int, ...]) -> None:
    for anchor in (0, 2, 3):
        stays, enters = moves_of_groups(ranks, anchor)
        # It leaves one group and enters another, which are chosen from independently.
        assert stays <= 4 and 2 * enters <= 4
    assert moves_of_groups(ranks, 3) == (4, 2)
    # Ranks that are fixed, or that follow all of a group's own size, cost twice as much.
    assert max(moves_of_groups(ranks, 3, follow)[1] for follow in (0, 2)) == 4
