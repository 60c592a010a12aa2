"""Cells: what each row adds, in whole numbers, at the edges and between them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpstats.data.rows import Table
from dpstats.errors import InvalidData
from dpstats.survival.cells import CELLS, POSITIONS, Cells, first_edge

EDGES = (0.0, 1.0, 2.5, 4.0)


def added(time: float, code: int, cells: Cells) -> dict[int, int]:
    """Return what a row adds to the cells of its group, from the definition."""
    edges, m, one = [Fraction(edge) for edge in cells.edges], cells.n_bins, 1 << cells.bits
    first_edge = cells.n_causes * m
    if time > edges[-1]:
        return {first_edge + m: one}
    j = next(place for place in range(1, m + 1) if time <= edges[place])
    if code:
        return {(code - 1) * m + j - 1: one}
    share = (Fraction(time) - edges[j - 1]) / (edges[j] - edges[j - 1])
    later = int(share * one)
    return {first_edge + j - 1: one - later, first_edge + j: later}


@pytest.mark.parametrize("bits", [0, 3, 16])
@pytest.mark.parametrize("code", [0, 1, 2])
@pytest.mark.parametrize("time", [0.0, 1e-300, 0.5, 1.0, 1.75, 2.5, 2.6875, 4.0, 4.0000001, 1e300])
def test_a_row_adds_what_the_definition_says(time: float, code: int, bits: int) -> None:
    cells = Cells(EDGES, 2, 2, bits)
    found = cells.count(np.array([time]), np.array([code]), np.array([1]))
    expected = np.zeros_like(found)
    for place, steps in added(time, code, cells).items():
        expected[1, place] += steps
    assert np.array_equal(found, expected) and found.sum() == 1 << bits


@pytest.mark.parametrize("bits", [0, 3, 16])
@pytest.mark.parametrize(("time", "code", "bin_", "value"), [
    (0.0, 1, 0, -1.0), (0.5, 1, 0, 0.0), (1.0, 2, 0, 1.0), (1.75, 1, 1, 0.0), (2.125, 1, 1, 0.5),
    (0.0, 0, 0, 0.0), (0.5, 0, 0, 1.0), (1.0, 0, 0, 0.0), (1.375, 0, 1, 0.75), (4.0, 0, 2, 0.0),
    (4.1, 0, 2, 0.0), (4.1, 1, 2, 0.0), (1e300, 1, 2, 0.0),
])  # fmt: skip
def test_positions_are_what_the_definition_says(time: float, code: int, bin_: int, value: float, bits: int) -> None:
    cells = Cells(EDGES, 2, 2, bits, position_share=0.1)
    row = np.array([time]), np.array([code]), np.array([1])
    found = cells.totals(*row)[POSITIONS]
    expected = np.zeros((2, 2, 3))
    expected[1, int(code == 0), bin_] = np.rint(value * 2**bits)
    assert np.array_equal(found, expected)


def test_positions_are_counted_where_they_are_asked_for() -> None:
    row = np.array([0.5]), np.array([0]), np.array([0])
    assert list(Cells(EDGES, 1, 1, 3).totals(*row)) == [CELLS]


def test_rows_add_up_and_every_row_weighs_the_same() -> None:
    rng = np.random.default_rng(0)
    cells, n = Cells(EDGES, 2, 3, 16), 500
    rows = rng.uniform(0, 5, n), rng.integers(3, size=n), rng.integers(3, size=n)
    whole = cells.count(*rows)
    parts = [cells.count(*(column[start : start + 7] for column in rows)) for start in range(0, n, 7)]
    assert np.array_equal(whole, np.sum(parts, axis=0))
    assert whole.sum(axis=1).tolist() == (np.bincount(rows[2]) << 16).tolist()


@pytest.mark.parametrize(
    ("time", "code", "edge"),
    [
        (0.0, 0, 0.0),
        (0.9, 0, 0.0),
        (1.0, 0, 1.0),
        (2.4999, 0, 1.0),
        (1.5, 1, 2.5),
        (2.5, 1, 2.5),
        (3.9, 0, 2.5),
        (4.0, 0, 4.0),
        (4.1, 1, 4.1),
        (1e300, 0, 1e300),
    ],
)
def test_discrete_rows_are_moved_to_an_edge(time: float, code: int, edge: float) -> None:
    row = np.array([code]), np.array([0])
    moved = Cells(EDGES, 1, 1, 16, discrete=True).count(np.array([time]), *row)
    assert np.array_equal(moved, Cells(EDGES, 1, 1, 16).count(np.array([edge]), *row))


def test_events_at_time_0_have_a_bin_if_0_is_there_twice() -> None:
    cells = Cells((0.0, 0.0, 1.0, 3.0), 1, 1, 4, discrete=True)
    assert (cells.n_bins, first_edge(cells), first_edge(Cells(EDGES, 1, 1, 4))) == (3, 1, 0)
    found = {
        (time, code): cells.count(np.array([time]), np.array([code]), np.array([0]))[0].tolist()
        for time in (0.0, 0.5, 1.0, 2.0, 3.0, 9.0)
        for code in (0, 1)
    }
    # Events of the bins that end at 0, 1 and 3; then censored rows of the edges 0, 0, 1 and 3.
    places = {(0.0, 1): 0, (0.5, 1): 1, (1.0, 1): 1, (2.0, 1): 2, (3.0, 1): 2}
    places |= {(0.0, 0): 4, (0.5, 0): 4, (1.0, 0): 5, (2.0, 0): 5, (3.0, 0): 6, (9.0, 0): 6, (9.0, 1): 6}
    assert found == {row: [16 * (j == place) for j in range(7)] for row, place in places.items()}


def test_discrete_times_are_edges_up_to_rounding() -> None:
    tenths = np.arange(1, 11) / 10
    edges = np.cumsum(np.full(10, 0.1))  # 0.30000000000000004 and 0.7999999999999999 are among them
    assert (edges > tenths).any() and (edges < tenths).any()
    cells = Cells((0.0, *edges.tolist()), 1, 1, 0, discrete=True)
    censored, event = (cells.count(tenths, np.full(10, code), np.zeros(10, dtype=np.int64)) for code in (0, 1))
    assert censored[0].tolist() == [0] * 11 + [1] * 10 and event[0].tolist() == [1] * 10 + [0] * 11


@pytest.mark.parametrize("time", [-1e-9, -np.inf, np.inf, np.nan])
def test_times_without_a_meaning_are_refused(time: float) -> None:
    table = Table(np.array([[1.0], [time]]), event=np.array([0, 1]))  # type: ignore[arg-type]
    with pytest.raises(InvalidData, match="times must"):
        Cells(EDGES, 1, 1, 3)(table)


def test_undeclared_events_and_groups_are_refused() -> None:
    times, fine, wrong = np.ones((2, 1)), np.array([0, 1]), np.array([0, -1])
    cells = Cells(EDGES, 1, 2, 3)
    with pytest.raises(InvalidData, match="event must"):
        cells(Table(times, event=wrong, groups=fine))  # type: ignore[arg-type]
    with pytest.raises(InvalidData, match="labels must"):
        cells(Table(times, event=fine, groups=wrong))  # type: ignore[arg-type]
    assert cells(Table(times, event=fine, groups=fine))[CELLS].sum() == 16  # type: ignore[arg-type]
