"""Entries that are no numbers are refused or count as the center; large numbers are neither."""

import math

import numpy as np
import pytest

from dpstats.errors import InvalidData
from dpstats.lattice import BITS, BallLattice, BoxLattice
from dpstats.lattice.rounding import rows_that_count
from tests.lattice.rows import LATTICES, every_lattice, rows_for


def test_large_finite_rows_are_not_refused():
    # Their sum overflows to infinity, each is finite: clipped like any other.
    X = np.array([[1e308, 1e308]] * 10 + [[1.0, 0.0]])
    with np.errstate(over="ignore"):
        assert np.isinf(X.sum())
    box = BoxLattice.build(1.0, 0.0, 2, common=False)
    assert box.sums(X)[0].tolist() == [11 * 2**30, 10 * 2**30]
    ball = BallLattice.build(1.0, 0.0, 2).sums(X)[0]
    diagonal = 10 * 2**30 / math.sqrt(2)
    np.testing.assert_allclose(ball, [diagonal + 2**30, diagonal], rtol=0, atol=40)  # at most 3 steps a row


def test_large_float16_rows_are_not_refused():
    # 60000 + 60000 overflows in float16.
    X = np.full((4, 1), 60000, dtype=np.float16)
    assert BoxLattice.build(1.0, 0.0, 1, common=False).sums(X)[0].tolist() == [4 * 2**30]


@every_lattice
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_non_finite_entries_are_refused(lattice, bad, dtype):
    X = np.zeros((3000, 4), dtype=dtype)
    X[2999, 2] = bad
    for threads, block in ((1, 1 << 18), (3, 16)):
        with pytest.raises(InvalidData, match="Input X contains NaN or infinity"):
            lattice.sums(X, threads=threads, block=block)


def test_both_infinities_in_one_block_are_refused():
    with pytest.raises(InvalidData, match="NaN or infinity"):
        LATTICES["box"].sums(np.array([[np.inf, -np.inf, 0.0, 0.0]]))


@every_lattice
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_missing_entries_count_as_the_center(lattice, bad):
    X = rows_for(lattice, 200)
    replaced = X.copy()
    for i, j in [(0, 0), (5, 1), (5, 2), (199, 3), (77, 0)]:
        X[i, j] = bad
        replaced[i, j] = np.broadcast_to(lattice.center, 4)[j]
    X[100] = bad
    replaced[100] = lattice.center
    found = lattice.sums(X, squares=True, missing="center", block=40)
    assert [a.tolist() for a in found] == [a.tolist() for a in lattice.sums(replaced, squares=True)]


@pytest.mark.parametrize("center", [0.5, 0.1, 1e10])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_missing_entries_of_short_floats_count_as_the_center(dtype, center):
    # Short floats hold 0.5, but neither 0.1 nor (float16) 1e10: the center must not take their type.
    X = np.array([[np.nan], [np.inf]], dtype=dtype)
    for lattice in (BoxLattice.build(1.0, center, 1, common=False), BallLattice.build(1.0, center, 1)):
        assert lattice.sums(X, missing="center")[0].tolist() == [0]


@every_lattice
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("block", [8, 1 << 18])
def test_a_missing_entry_changes_the_comparison_of_no_other_row(lattice, dtype, block):
    # Rows at the region's ends as far as a narrow type can tell, and beyond them in float64.
    reach = (0.5 if isinstance(lattice, BallLattice) else 1.0) * np.asarray(lattice.spacing) * 2.0**BITS
    ends = [np.broadcast_to(lattice.center + sign * reach, 4) for sign in (-1, 1)]
    X = np.clip(np.tile(ends, (50, 1)), -6e4, 6e4).astype(dtype)
    options = {"powers": 2, "outside": True, "missing": "center", "block": block}
    whole = lattice.moments(X.astype(np.float64), **options)
    rows = [lattice.moments(X[i : i + 1].astype(np.float64), **options) for i in (0, 1)]
    with_missing = X.copy()
    with_missing[7] = np.nan  # an odd row: of the upper end
    found = lattice.moments(with_missing, **options)
    alone = lattice.moments(np.full((1, 4), np.nan), **options).all()
    for all_rows, lower, upper, missing, more in zip(
        whole.all(), rows[0].all(), rows[1].all(), alone, found.all(), strict=True
    ):
        assert all_rows.tolist() == (50 * (lower + upper)).tolist()
        assert more.tolist() == (50 * lower + 49 * upper + missing).tolist()
    plain = lattice.moments(X, **options)
    assert [a.tolist() for a in plain.all()] == [a.tolist() for a in whole.all()]


def test_rows_that_count() -> None:
    X = np.ones((3, 2))
    assert rows_that_count(X, "error").all() and rows_that_count(X.astype(int), "error").all()
    for bad in (np.nan, np.inf):
        X[1, 1] = bad
        assert rows_that_count(X, "drop").tolist() == [True, False, True]
        with pytest.raises(InvalidData, match=r"Input X contains NaN or infinity.*missing='drop'") as refused:
            rows_that_count(X, "error")
        # Both kinds of advice would break the guarantee.
        assert "center" not in str(refused.value) and "impute" not in str(refused.value)
