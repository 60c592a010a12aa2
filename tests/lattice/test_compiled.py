"""Compiled sums equal those of blocks to the integer. Python runs the same loops, and numba too if it is installed."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar
from unittest import mock

import numpy as np
import pytest

from dpstats.errors import InvalidData
from dpstats.lattice import BallLattice, BoxLattice, CrossLattice, sums
from dpstats.lattice import rounding as compiled
from dpstats.lattice.sums import Moments, Reading
from dpstats.means.boxed_errors import Shape

has_numba = importlib.util.find_spec("numba") is not None
RNG = np.random.default_rng(0)
Made = TypeVar("Made")
WIDTHS = (1, 3, 8, 70)


@pytest.fixture(params=["python", pytest.param("numba", marks=pytest.mark.skipif(not has_numba, reason="no numba"))])
def fast(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let compiled sums be taken for small tables."""
    monkeypatch.setattr(compiled, "FEWEST", 1)
    if request.param == "python":
        monkeypatch.setattr(compiled, "loops", lambda: compiled.UNCOMPILED)


def boxes(d: int) -> list[BoxLattice]:
    clips, centers = RNG.uniform(0.5, 50.0, d), RNG.uniform(-9.0, 9.0, d)
    return [
        BoxLattice.build(2.0, 0.0, d, common=False),
        BoxLattice.build(0.7, 0.3, d, common=False),
        BoxLattice.build(clips, centers, d, common=False),
        BoxLattice.build(2.0, 0.0, d, common=False, bits=10),
        BoxLattice.build(clips, centers, d, common=True),
        BoxLattice.build(1e-9, 1e9, d, common=False),
    ]


def balls(d: int) -> list[BallLattice]:
    return [
        BallLattice.build(2.0, 0.0, d),
        BallLattice.build(3.0, RNG.normal(size=d), d),
        BallLattice.build(2.0, 0.0, d, bits=6),
        CrossLattice.build(4.0, 0.0, d),
        Shape(RNG.uniform(0.5, 2.0, d), None).lattice(3.0, d, 30),
        replace(Shape(RNG.uniform(0.5, 2.0, d), None).lattice(3.0, d, 30), center=RNG.normal(size=d)),
        Shape(1.0, np.linalg.cholesky(np.eye(d) + 0.5)).lattice(3.0, d, 30),
    ]


def rows(lattice, n: int) -> np.ndarray:
    """Return rows inside, on the boundary and far outside, and numbers of all sizes."""
    d = lattice.n_features
    unit = np.sqrt(d) if isinstance(lattice, BoxLattice) else 1.0
    X = RNG.standard_t(2, size=(n, d)) * unit / np.sqrt(d)
    with np.errstate(over="ignore"):
        X[::5] *= 10.0 ** RNG.integers(-320, 308, size=(len(X[::5]), 1))
    X[1::7] = 0.0
    X[1::7, 0] = RNG.choice([2.0, np.nextafter(2.0, 3.0), 3.0, -2.0 + 2.0**-29], size=len(X[1::7]))
    return np.clip(X, -1e308, 1e308)


def in_blocks(work: Callable[[], Made]) -> Made:
    """Return what ``work`` makes without compiled loops."""
    with mock.patch.object(sums, "is_compiled", return_value=False):
        return work()


def both(X: np.ndarray, lattice, **how) -> list[Moments]:
    def work() -> Moments:
        return lattice.moments(X, **how)

    return [work(), in_blocks(work)]


def assert_same(first: Moments, second: Moments) -> None:
    for one, other in zip(first.all(), second.all(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("d", WIDTHS)
def test_sums_are_those_of_blocks(d: int) -> None:
    for lattice, n in itertools.product([*boxes(d), *balls(d)], (1, 257)):
        X = rows(lattice, n)
        for powers, outside in itertools.product((1, 2, 3), (False, True)):
            assert_same(*both(X, lattice, powers=powers, outside=outside))
        if not isinstance(lattice, BoxLattice):
            found, expected = lattice.norm_sums(X), in_blocks(partial(lattice.norm_sums, X))
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("missing", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("lattice", [*boxes(8)[:2], *balls(8)[:2]])
def test_missing_entries_are_refused_or_the_center(lattice, missing: float) -> None:
    X = rows(lattice, 300)
    X[150, 2] = missing
    for rows_missing, order in itertools.product(("center", "drop"), "CF"):
        assert_same(*both(np.array(X, order=order), lattice, powers=2, outside=True, missing=rows_missing))
    assert lattice.moments(X, missing="drop").rows.tolist() == [299]
    with pytest.raises(InvalidData, match="NaN or infinity"):
        lattice.moments(X)


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("d", WIDTHS)
def test_totals_of_groups_are_those_of_blocks(d: int, order: str) -> None:
    for lattice, n in itertools.product(boxes(d)[:4], (1, 61)):
        X = np.array(rows(lattice, n), order=order)
        codes = RNG.integers(-1, 3, n)
        holes = X.copy(order="K")
        holes[RNG.random((n, d)) < 0.2 / d] = RNG.choice([np.nan, np.inf, -np.inf])
        for table, missing, shares, groups in (
            (X, "error", False, (codes, 3)),
            (X, "error", True, (codes, 3)),
            (holes, "drop", False, (codes, 3)),
            (holes, "drop", True, (codes, 3)),
            (holes, "drop", True, None),
            (holes, "center", True, None),
        ):
            work = partial(lattice.sum_groups, table, groups, missing=missing, shares=shares)
            assert_same(work(), in_blocks(work))


@pytest.mark.usefixtures("fast")
def test_a_missing_entry_is_refused_in_rows_of_no_group() -> None:
    lattice = BoxLattice.build(1.0, 0.0, 1, common=False)
    work = partial(lattice.sum_groups, np.array([[1.0], [np.nan]]), (np.array([0, -1]), 1), missing="error")
    for run in (work, partial(in_blocks, work)):
        with pytest.raises(InvalidData, match="drop"):
            run()


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("lattice", [boxes(8)[2], balls(8)[1]])
def test_sums_do_not_depend_on_threads_or_on_the_arrays_type(lattice) -> None:
    X = RNG.normal(size=(70_001 if compiled.loops() is not compiled.UNCOMPILED else 3001, 8))
    expected = in_blocks(partial(lattice.moments, X, powers=2, threads=1))
    fixed = X.copy()
    fixed.flags.writeable = False
    tables = [X, fixed, np.asfortranarray(X), X[:, ::-1][:, ::-1], X.astype(">f8"), np.repeat(X, 2, axis=1)[:, ::2]]
    for table, threads in itertools.product(tables, (1, 3)):
        assert_same(lattice.moments(table, powers=2, threads=threads), expected)


def test_a_row_is_added_only_if_its_integers_are_in_the_ball() -> None:
    # One row at a time, about the largest norm that is accepted; and squares that overflow 64 bits.
    lattice = BallLattice.build(1.0, 0.0, 8)
    kernel = lattice._kernel(Reading(1, False, "error", 1, 1024))
    assert kernel is not None and kernel.inside < 2**30
    for steps in (kernel.inside - 2, kernel.inside + 2, 2.0**33, 1e300):
        with np.errstate(all="ignore"):
            (first, *_), left = kernel(np.full((1, 8), steps / np.sqrt(8)) * lattice.spacing, None)
        assert (len(left) == 0) == (steps < kernel.inside) and bool(first.any()) == (len(left) == 0)
        assert sum(int(k) ** 2 for k in first) <= 4**30


def test_maps_with_other_norms_have_no_kernel() -> None:
    how = Reading(2, False, "error", 1, 1024)
    cross, matrix = balls(8)[3], balls(8)[-1]
    assert cross._kernel(how) is None and matrix._kernel(how) is None
    assert [box._kernel(how) is None for box in boxes(8)] == [False, False, False, False, True, True]


def test_small_tables_do_not_import_numba() -> None:
    assert not compiled.is_compiled(np.zeros((10, 2)))


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("lattice", [boxes(70)[0], balls(70)[0]])
def test_rows_before_a_missing_entry_count_once(lattice) -> None:
    # Rows are so wide that each is a line: the loop has added some groups before it meets the entry.
    X = rows(lattice, 300)
    X[290, 2] = np.nan
    assert_same(*both(X, lattice, powers=2, outside=True, missing="center"))
