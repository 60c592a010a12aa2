"""Every row is in exactly one part of a plan, and counts there: none is forgotten, none is read twice.

What a stage is about is recorded where it reaches the session (registry/reading.py), so that these nets hold for
whatever an estimator does in between. They are exact: no test here can raise a false alarm.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from registry import ENTRIES, Entry
from registry.entry import traits_of
from registry.reading import Integers, given, settings, width
from scipy import sparse

from dpstats.data.rows import Table
from dpstats.errors import InvalidData
from dpstats.lattice import BoxLattice
from dpstats.lattice import sums as lattice_sums
from dpstats.means import ClippedMean, PrivateVariance, SparseMean
from dpstats.means.estimator import ROWS as COMPLETE
from dpstats.means.moments import CUBES, FOURTHS, MEAN, OUTSIDE, SQUARES
from dpstats.means.moments import ROWS as OBSERVED
from dpstats.means.ratio import COUNTS as TOTALED
from dpstats.mechanisms import Count, Histogram
from dpstats.privacy import Discovery
from dpstats.regression.plan import ROWS as COUNTED
from dpstats.release.additive import has_private_size

HUGE = 1e300
SETTINGS = settings(ENTRIES)
fits = pytest.mark.parametrize("entry", SETTINGS, ids=lambda entry: entry.name)
sizes = pytest.mark.parametrize("n", [4, 5, 7])


def rows_and_one_more(n: int, d: int, equal: bool) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield n - 1 rows, a row to go with them, and another in its place."""
    rng = np.random.default_rng(n)
    for size in (1.0, 0.3, 5.0) * 5:
        row, other = size * rng.choice([-1.0, 1.0], size=(2, d)) * rng.uniform(0.5, 1.0, size=(2, d))
        rest = size * rng.choice([-1.0, 1.0], size=(n - 1, d))
        # Equal rows may stand anywhere: one replaced is one that has been put in.
        yield np.tile(row, (n - 1, 1)) if equal else rest, row, other


def check_every_row_counts(estimator: Any, n: int, d: int) -> None:
    """Fail unless another row moves what is read, by the same wherever in its part it stands."""
    plan = estimator.plan(n, d)
    cut = getattr(plan, "n_planned", n) - getattr(plan, "n_release", n)
    for part in [range(cut), range(cut, n)] if cut else [range(n)]:
        moves = 0
        for rest, row, other in rows_and_one_more(n, d, equal=cut > 0):
            other = traits_of(estimator).other_row(other)
            before = given(estimator, plan, np.vstack([row, rest]))
            after = [given(estimator, plan, np.insert(rest, i, other, axis=0)) for i in part]
            assert all(one == after[0] for one in after), "where in its part a row stands changes what is read"
            moves += after[0] != before
        assert moves > 0, "no row moves what is read"


@pytest.mark.kinds
@fits
@sizes
def test_every_row_counts_and_as_much_as_any_other(entry: Entry, n: int) -> None:
    check_every_row_counts(entry.estimator, n, width(entry))


# Distances and ranks are of rows beside each other, and order statistics and errors of tables of all rows; that each
# row counts is seen above.
ADDITIVE = [entry for entry in SETTINGS if entry.adds_up]
NUMBERS = frozenset({OBSERVED, COUNTED, COMPLETE, TOTALED})
"""Names of public numbers of rows, which are the same for all rows of one size."""


def check_rows_add_up(estimator: Any, n: int, d: int) -> None:
    """Fail unless what is read of rows is what is read of each, added up, and each of them moves all of it."""
    plan = estimator.plan(n, d)
    moving: set[str] = set()
    # Above zero: scores are the sizes of sums. Near and far out too: some integers are counts of what is there.
    for size in (0.03, 0.9, 3.0, 1e9):
        X = np.random.default_rng(0).uniform(0.1 * size, size, size=(n, d))
        nothing, everything = given(estimator, plan, np.zeros((n, d))), given(estimator, plan, X)
        alone = [given(estimator, plan, np.where(np.arange(n)[:, None] == i, X, 0.0)) for i in range(n)]
        for name, total in everything.items():
            moved = [np.subtract(one[name], nothing[name]) for one in alone]
            assert np.add(nothing[name], np.sum(moved, axis=0)).tolist() == total
            if all(any(one) for one in moved):
                moving.add(name)
    same = (NUMBERS | traits_of(estimator).unmoved) & everything.keys()
    assert moving | same == everything.keys() or plan.disjoint


@pytest.mark.kinds
@pytest.mark.parametrize("entry", ADDITIVE, ids=lambda entry: entry.name)
@sizes
def test_what_is_read_of_rows_is_what_is_read_of_each(entry: Entry, n: int) -> None:
    check_rows_add_up(entry.estimator, n, width(entry))


MOMENTS = [
    entry
    for entry in ADDITIVE
    if isinstance(entry.estimator, PrivateVariance)
    or (isinstance(entry.estimator, ClippedMean) and not has_private_size(entry.estimator))
]


def steps_of_moments(lattice: Any, X: np.ndarray) -> Integers:
    """Return what rows add up to, in Python integers: powers of the steps over the largest, and what is outside."""
    largest = np.broadcast_to(lattice.largest, X.shape[1]).tolist()
    powers: list[list[int]] = [[], [], [], []]
    for column, K in zip(lattice.round_rows(X).T.tolist(), largest, strict=True):
        second = [k * k // K for k in column]
        third = [k * s // K for k, s in zip(column, second, strict=True)]
        for found, values in zip(powers, (column, second, third, [s * s // K for s in second]), strict=True):
            found.append(sum(values))
    if isinstance(lattice, BoxLattice):
        outside = ((lattice.low > X) | (lattice.high < X)).sum(axis=0)
    else:
        outside = np.atleast_1d(
            (((X - lattice.center) ** 2).sum(axis=1) ** 0.5 > lattice.spacing * lattice.radius).sum()
        )
    counted = [int(count) << lattice.bits for count in outside]
    return dict(zip((MEAN, SQUARES, CUBES, FOURTHS, OUTSIDE), [*powers, counted], strict=True))


@pytest.mark.parametrize("entry", MOMENTS, ids=lambda entry: entry.name)
@sizes
def test_a_row_adds_what_its_map_says(entry: Entry, n: int) -> None:
    d = width(entry)
    plan = entry.estimator.plan(n, d)
    X = np.random.default_rng(1).normal(scale=2.0, size=(n, d))
    if dropped := entry.estimator.missing == "drop":
        X[1, -1] = np.nan
    there = X[np.isfinite(X).all(axis=1)]
    counted = dropped or has_private_size(entry.estimator)
    expected = steps_of_moments(plan.lattice, there)
    if counted:
        for name in (SQUARES, FOURTHS):
            off = np.broadcast_to(len(there) * np.asarray(plan.lattice.even_center), d).tolist()
            expected[name] = [total - less for total, less in zip(expected[name], off, strict=True)]
        expected[OBSERVED] = [len(there) << plan.lattice.bits]
    read = given(entry.estimator, plan, X)
    assert read == {name: expected[name] for name in read}
    assert sum(len(steps) for steps in read.values()) == sum(stage.size for stage in plan.stages)


# Rows of units, which are pairs, are cut: tests/data/test_units.py.
COUNTS = [entry for entry in ENTRIES if issubclass(entry.covers, Histogram) and not isinstance(entry.dataset[0], tuple)]


@pytest.mark.parametrize("entry", COUNTS, ids=lambda entry: entry.name)
@sizes
def test_every_row_is_counted_once(entry: Entry, n: int) -> None:
    yes_or_no = issubclass(entry.covers, Count)
    first, other = (True, False) if yes_or_no else (entry.dataset[0], 2)
    (stage,) = entry.plan.stages
    one = stage.row_steps if isinstance(stage, Discovery) else round(1 / stage.spacing)

    def read(rows: list[Any]) -> np.ndarray:
        (steps,) = entry.integers(rows)
        return np.asarray(steps["rows"] if isinstance(stage, Discovery) else steps)

    before = read([first] * n)
    assert first != other and sum(before) == n * one
    for i in range(n):
        after = read([*[first] * i, other, *[first] * (n - i - 1)])
        moved = sorted((after - before).tolist())
        assert [k for k in moved if k] == ([-one] if yes_or_no else [-one, one])


# Halves of a sparse mean.

SPLIT: dict[str, dict[str, Any]] = {
    "gumbel": {"delta": 1e-2},
    "gumbel, pure": {"delta": 0.0},
    "peeling": {"delta": 0.0, "selection": "peeling"},
}
LAYOUTS: dict[str, Callable[[np.ndarray], Any]] = {
    "dense": np.asarray,
    "Fortran": np.asfortranarray,
    "csr": sparse.csr_array,
}


def split_mean(name: str, kind: type[SparseMean] = SparseMean) -> SparseMean:
    return kind(n_nonzero=2, clip=1.0, std=1.0, epsilon=1.0, split=True, **SPLIT[name])


def check_halves(estimator: SparseMean, n: int, layout: str) -> None:
    """Fail unless every row moves what one half is about, and nothing of the other."""
    d = 5
    plan = estimator.plan(n, d)
    X = np.random.default_rng(3).uniform(0.1, 0.5, size=(n, d))
    build = LAYOUTS[layout]
    parts = [{stage.name for stage in plan.stages if stage.part == part} for part in ("first half", "second half")]
    before = given(estimator, plan, build(X))
    owners = []
    for i, value in itertools.product(range(n), (HUGE, -HUGE, 0.0)):
        changed = X.copy()
        changed[i] = value
        after = given(estimator, plan, build(changed))
        moved = {name for name, integers in after.items() if integers != before[name]}
        owner = [part for part in parts if moved & part]
        assert len(owner) == 1, f"row {i} of {n} moves {len(owner)} halves"
        assert moved == owner[0]
        owners.append(parts.index(owner[0]))
    # Cut once, in the middle, by position; the second half has the odd row.
    assert owners == [0] * (3 * (n // 2)) + [1] * (3 * (n - n // 2))


@pytest.mark.parametrize("name", SPLIT)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", [4, 5, 7, 8])
def test_every_row_is_in_exactly_one_half(name: str, layout: str, n: int) -> None:
    check_halves(split_mean(name), n, layout)


# Large sparse tables: blocks of 2^20 stored entries.

BLOCK = 1 << 20


def full_table(n: int, d: int, values: np.ndarray) -> Any:
    """Return a CSR table that stores every entry."""
    return sparse.csr_array((values, np.tile(np.arange(d), n), np.arange(n + 1) * d), shape=(n, d))


def check_stored_sums(n: int, d: int) -> None:
    """Fail unless all stored entries count: at the clip, where each adds the same; and any, against their steps."""
    lattice = BoxLattice.build(1.0, 0.0, d, common=True)
    top = int(lattice.round_rows(np.ones((1, d)))[0, 0])
    assert top > 0
    assert lattice.stored_sums(full_table(n, d, np.ones(n * d)), missing="error").tolist() == [n * top] * d
    X = np.random.default_rng(n).normal(size=(n, d))
    expected = lattice.round_rows(X).sum(axis=0)
    assert lattice.stored_sums(full_table(n, d, X.ravel()), missing="error").tolist() == expected.tolist()
    assert lattice.sums(X, missing="error")[0].tolist() == expected.tolist()


BLOCKS = [(BLOCK, 1), (BLOCK + 1, 1), (BLOCK // 2 + 1, 2), (1049, 1000), (3, BLOCK // 2 + 7)]


@pytest.mark.parametrize(("n", "d"), BLOCKS)
def test_every_stored_entry_of_a_large_table_counts(n: int, d: int) -> None:
    assert lattice_sums._STORED_BLOCK == BLOCK
    check_stored_sums(n, d)


@pytest.mark.parametrize("block", [1, 2, 3, 4])
@pytest.mark.parametrize("starts", [[0, 4], [0, 2, 4], [0, 3, 3, 4], [0, 0, 1, 4]], ids=str)
def test_a_row_counts_once_in_a_column_wherever_blocks_end(
    block: int, starts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lattice_sums, "_STORED_BLOCK", block)
    lattice = BoxLattice.build(1.0, 0.0, 3, common=True)
    top = int(lattice.round_rows(np.ones((1, 3)))[0, 0])
    for columns in itertools.product(range(3), repeat=4):
        table = sparse.csr_array((np.ones(4), np.array(columns), np.array(starts)), shape=(len(starts) - 1, 3))
        rows = [columns[low:high] for low, high in itertools.pairwise(starts)]
        if all(first < second for row in rows for first, second in itertools.pairwise(row)):
            assert lattice.stored_sums(table).tolist() == [top * columns.count(j) for j in range(3)]
        else:
            with pytest.raises(InvalidData, match="no entry twice"):
                lattice.stored_sums(table)


# Bugs, planted: each must fail its net.


def odd_row_forgotten(kind: type) -> type:
    """Planted bug: pairs of rows are read, so that the last of an odd number is not."""

    class Pairs(kind):  # type: ignore[misc]
        def _read(self, table: Table, plan: Any) -> Any:
            return super()._read(Table(table.X[: plan.n_samples - plan.n_samples % 2]), plan)

    return Pairs


def first_row_twice(kind: type) -> type:
    """Planted bug: the first row is read again in place of the last."""

    class Twice(kind):  # type: ignore[misc]
        def _read(self, table: Table, plan: Any) -> Any:
            return super()._read(Table(np.vstack([table.X[:-1], table.X[:1]])), plan)

    return Twice


KINDS = {type(entry.estimator): entry for entry in SETTINGS if not has_private_size(entry.estimator)}
FORGETFUL = [
    (kind, bug)
    for kind in KINDS
    for bug in (odd_row_forgotten, first_row_twice)
    if bug is not odd_row_forgotten or "odd row" not in traits_of(kind).excused
]


@pytest.mark.parametrize(("kind", "bug"), FORGETFUL)
def test_a_forgotten_row_would_be_noticed(kind: type, bug: Callable[[type], type]) -> None:
    entry = KINDS[kind]
    wrong = bug(kind)(**entry.estimator.get_params())
    with pytest.raises(AssertionError):
        check_every_row_counts(wrong, 5, width(entry))


class Overlapping(SparseMean):
    """Planted bug: the second half begins one row early."""

    def _read(self, table: Table, plan: Any) -> Any:
        halves = super()._read(table, plan)
        rows = table.X[plan.n_samples - plan.n_release - 1 :]
        return halves._replace(rest=rows if plan.balls else plan.lattice.sums(np.asarray(rows))[0])


class MiddleRowForgotten(SparseMean):
    """Planted bug: both halves are n // 2 rows, so that an odd one is in neither."""

    def _read(self, table: Table, plan: Any) -> Any:
        halves = super()._read(table, plan)
        rows = table.X[-(plan.n_samples // 2) :]
        return halves._replace(rest=rows if plan.balls else plan.lattice.sums(np.asarray(rows))[0])


class WrongHalf(SparseMean):
    """Planted bug: the scores are of all rows."""

    def _read(self, table: Table, plan: Any) -> Any:
        return super()._read(table, plan)._replace(scores=np.abs(plan.lattice.sums(np.asarray(table.X))[0]))


@pytest.mark.parametrize("name", SPLIT)
@pytest.mark.parametrize("kind", [Overlapping, MiddleRowForgotten, WrongHalf])
def test_halves_that_are_not_would_be_noticed(name: str, kind: type[SparseMean]) -> None:
    with pytest.raises(AssertionError):
        check_halves(split_mean(name, kind), 5, "dense")


def test_an_entry_dropped_in_a_million_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = lattice_sums.rounded

    def last_dropped(row_map: Any, rows: Any) -> Any:
        steps = made(row_map, rows)
        if steps.shape[1] == BLOCK:
            steps[0, -1] = 0
        return steps

    monkeypatch.setattr(lattice_sums, "rounded", last_dropped)
    for n, d in BLOCKS:
        with pytest.raises(AssertionError):
            check_stored_sums(n, d)


def test_rows_that_do_not_add_up_would_be_noticed() -> None:
    class MeanClipped(ClippedMean):
        """Planted bug: the mean of the rows is clipped, and not each of them."""

        def _read(self, table: Table, plan: Any) -> Any:
            mean = np.asarray(table.X).mean(axis=0, keepdims=True)
            return {plan.stages[0].name: plan.n_samples * plan.lattice.sums(mean)[0]}

    class SquaresOfPairs(ClippedMean):
        """Planted bug: the squares leave out the last of an odd number of rows, which the sums do not."""

        def _read(self, table: Table, plan: Any) -> Any:
            exact, X = super()._read(table, plan), np.asarray(table.X)
            ((stage, blocks),) = exact.items()
            return {stage: blocks | {SQUARES: plan.lattice.sums(X[: len(X) // 2 * 2], squares=True)[1]}}

    for wrong in (MeanClipped(clip=1.0, std=None), SquaresOfPairs(clip=1.0)):
        with pytest.raises(AssertionError):
            check_rows_add_up(wrong, 5, 2)


def rows_at_edges(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Return rows with entries on either side of a number at which clips, reaches and bins may end."""
    edge = rng.choice([0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 8.0, 16.0], size=(n, 1))
    sides = np.stack([np.nextafter(edge, np.inf), edge, np.nextafter(edge, 0.0)])
    return np.take_along_axis(np.broadcast_to(sides, (3, n, d)), rng.integers(3, size=(1, n, d)), axis=0)[0]


@pytest.mark.kinds
@pytest.mark.parametrize("entry", ADDITIVE, ids=lambda entry: entry.name)
def test_rows_at_an_edge_count_alone_as_among_far_ones(entry: Entry) -> None:
    n, d = 7, width(entry)
    plan, rng = entry.estimator.plan(n, d), np.random.default_rng(3)
    for far in (0.0, 1e9):
        for _ in range(6):
            X = rows_at_edges(rng, n, d) * rng.choice(traits_of(entry).row_signs, size=(n, d))
            X[0] = far
            read = partial(given, entry.estimator, plan)
            nothing, everything = read(np.zeros((n, d))), read(X)
            alone = [read(np.where(np.arange(n)[:, None] == i, X, 0.0)) for i in range(n)]
            for name, total in everything.items():
                moved = [np.subtract(one[name], nothing[name]) for one in alone]
                assert np.add(nothing[name], np.sum(moved, axis=0)).tolist() == total, name
