"""How far what is counted moves, by brute force over rows that go and come; and the cells of groups."""

from __future__ import annotations

import itertools

import pytest

from dpstats.sensitivity.elastic import Column, Table
from dpstats.sql.query import Group, Literal, Measure, Query, Several


def numbers(measure: Measure, rows: tuple[tuple[int, int], ...], cells: int) -> list[int]:
    """Return what is released of (cell, value) rows, in steps."""
    found = [0] * (cells * measure.parts)
    for cell, value in rows:
        found[cell] += value if measure.kind == "sum" else 1
    return found


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize(
    "measure",
    [Measure("count"), Measure("sum", low=0, high=3), Measure("sum", low=-2, high=3), Measure("sum", low=1, high=3)],
    ids=lambda measure: f"{measure.kind} {measure.low} {measure.high}",
)
def test_what_a_row_moves_is_attained_and_never_more(measure: Measure, cells: int, added: bool) -> None:
    # S rows go and S come, or fewer: none, one or two of each here. Where one is added, S go or come together.
    values = [0] if measure.kind == "count" else range(measure.low, measure.high + 1)
    rows = list(itertools.product(range(cells), values))
    for moved in (1, 2):
        some = [(n, held) for n in range(moved + 1) for held in itertools.combinations_with_replacement(rows, n)]
        kept = [(n, numbers(measure, held, cells)) for n, held in some]
        most = max(
            sum(abs(x - y) for x, y in zip(a, b, strict=True))
            for n, a in kept
            for m, b in kept
            if not added or n + m <= moved
        )
        bound = measure.moved(cells > 1, added)
        assert most == moved * bound


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("added", [False, True])
def test_what_a_row_moves_of_several_aggregates(added: bool, paired: bool) -> None:
    column = Measure("mean", Column("t", "x"), low=0, high=4)
    several = Several((), (column,), bits=2, paired=paired)
    places = range(several.whole(0) + 1)
    parts = [(several.whole(0), 2 * k - several.whole(0)) if paired else (k, several.whole(0) - k) for k in places]
    # A row of either cell, or in none: of one cell only where its shares are paired.
    rows = [(0, 0, 0, 0), *((*part, 0, 0) for part in parts)]
    rows += [] if paired else [(0, 0, *part) for part in parts]
    pairs = [(a, b) for a in rows for b in rows if not added or not any(a)]
    differences = [[x - y for x, y in zip(a, b, strict=True)] for a, b in pairs]
    assert max(sum(map(abs, one)) for one in differences) == several.moved(not paired, added)
    squares = max(sum(x * x for x in one) for one in differences)
    assert squares == several.moved_squared(added) or (paired and squares <= several.moved_squared(added))


def test_cells_are_in_the_order_of_their_declaration() -> None:
    groups = tuple(
        Group(Column("t", name), name, tuple(Literal(v, "BIGINT") for v in values))
        for name, values in (("a", (1, 2)), ("b", (7, 8, 9)))
    )
    query = Query(Table("t"), Measure("count"), groups, "n", (), "")
    assert query.cells == 6
    assert [query.cell(i) for i in range(6)] == list(itertools.product((1, 2), (7, 8, 9)))
