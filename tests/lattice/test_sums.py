"""Sums against Python integers: for every order, number of threads and block size."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.lattice import BITS, BallLattice, BoxLattice, sums
from dpstats.lattice.sums import cut_columns
from tests.lattice.rows import FIXED, LATTICES, SEEDS, every_lattice, python_moments, python_sums, rows_for


@every_lattice
@pytest.mark.parametrize("n", [1, 2, 1000])
def test_sums_equal_python_integers(lattice, n):
    X = rows_for(lattice, n)
    first, second = python_sums(lattice, X)
    sums, squares = lattice.sums(X, squares=True)
    assert sums.dtype == squares.dtype == np.int64
    assert (sums.tolist(), squares.tolist()) == (first, second)
    assert lattice.sums(X)[0].tolist() == first and lattice.sums(X)[1] is None


@every_lattice
@pytest.mark.parametrize("powers", [1, 2, 3, 4])
def test_moments_equal_python_integers(lattice, powers):
    X = rows_for(lattice, 300)
    for options in ({}, {"threads": 2, "block": 64}):
        found = lattice.moments(X, powers=powers, outside=True, **options)
        assert [power.tolist() for power in found.powers] == python_moments(lattice, X)[:powers]
        if isinstance(lattice, BoxLattice):
            beyond = (lattice.low > X) | (lattice.high < X)
            assert found.outside.tolist() == beyond.sum(axis=0).tolist()
        else:
            norms = np.linalg.norm((X - lattice.center) / lattice.spacing, axis=1)
            assert found.outside.tolist() == [int(np.sum(norms > lattice.radius))]
        assert 0 < found.outside.sum() < X.size
    assert lattice.moments(X).outside.size == 0


def test_what_lies_on_the_declared_ends_is_not_outside():
    # Ends that no binary fraction is: a center and a half width would round them.
    lattice = BoxLattice.build(0.1, 0.2, 1, common=False, ends=(0.1, 0.3))
    on, off = [0.1, 0.3], [np.nextafter(0.1, 0), np.nextafter(0.3, 1)]
    assert lattice.moments(np.array([on]).T, outside=True).outside.tolist() == [0]
    assert lattice.moments(np.array([off]).T, outside=True).outside.tolist() == [2]
    # 0/1 data are on both ends, and far inside a ball that touches them.
    binary = np.array([[0.0], [1.0], [1.0]])
    assert BoxLattice.build(0.5, 0.5, 1, common=False).moments(binary, outside=True).outside.tolist() == [0]
    assert BallLattice.build(0.5, 0.5, 1).moments(binary, outside=True).outside.tolist() == [0]
    # Without rounding to a step: what is a millionth of a step beyond is beyond.
    assert lattice.moments(np.array([[np.inf]]), outside=True, missing="center").outside.tolist() == [0]


@given(
    st.integers(1, 300),
    st.integers(1, 40),
    st.sampled_from([1, 7, 64, 999, 1 << 18]),
    st.integers(1, 5),
    st.sampled_from(["box", "columns", "ball"]),
    SEEDS,
)
@FIXED
def test_sums_equal_python_integers_in_any_shape(n, d, block, threads, kind, seed):
    rng = np.random.default_rng(seed)
    clip = rng.uniform(0.1, 2, size=d)
    lattice = {
        "box": BoxLattice.build(1.0, 0.25, d, common=False),
        "columns": BoxLattice.build(clip, -clip, d, common=False),
        "ball": BallLattice.build(1.5, 0.0, d),
    }[kind]
    X = rng.normal(size=(n, d))
    sums, squares = lattice.sums(X, squares=True, block=block, threads=threads)
    assert (sums.tolist(), squares.tolist()) == python_sums(lattice, X)


@every_lattice
def test_sums_depend_on_nothing_but_the_rows(lattice):
    X = rows_for(lattice, 1200)
    reference = [part.tolist() for part in lattice.sums(X, squares=True)]
    order = np.random.default_rng(1).permutation(len(X))
    wide = np.zeros((len(X), 9))
    wide[:, 1::2] = X
    layouts = {"C": X, "F": np.asfortranarray(X), "view": wide[:, 1::2], "permuted": X[order], "reversed": X[::-1]}
    for name, layout in layouts.items():
        for threads in (None, 1, 2, 3):
            for block in (20, 300, 1 << 18):
                found = lattice.sums(layout, squares=True, threads=threads, block=block)
                assert [part.tolist() for part in found] == reference, (name, threads, block)


def test_floating_point_sums_do_depend_on_the_order():
    # Power control: the same rows, added up in floating point, notice a permutation.
    X = rows_for(LATTICES["box"], 5000)
    assert len({tuple(X[np.random.default_rng(s).permutation(5000)].sum(axis=0)) for s in range(5)}) > 1


@pytest.mark.parametrize("d", [1, 2, 1023, 1024, 1025, 2048, 3000])
def test_narrow_and_wide_rows(d):
    rng = np.random.default_rng(d)
    clip = rng.uniform(0.5, 2, size=d)
    X = rng.normal(size=(17, d))
    for lattice in (
        BoxLattice.build(1.0, 0.0, d, common=False),
        BoxLattice.build(clip, clip, d, common=False),
        BoxLattice.build(clip, clip, d, common=True),
        BallLattice.build(1.0, 0.0, d),
    ):
        sums, squares = lattice.sums(X, squares=True)
        assert (sums.tolist(), squares.tolist()) == python_sums(lattice, X)


@every_lattice
def test_the_data_are_not_changed(lattice):
    X = rows_for(lattice, 100)
    X[3, 1] = np.nan
    copy = X.copy()
    lattice.sums(X, squares=True, missing="center")
    np.testing.assert_array_equal(X, copy)
    X.setflags(write=False)
    lattice.sums(X, missing="center")


@every_lattice
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint8", "int64", "uint64", "bool"])
def test_every_numeric_type_equals_its_float64_conversion(lattice, dtype):
    X = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 100, size=(50, 4)).astype(dtype)
    if X.dtype.kind == "f":
        X = X / X.dtype.type(7)
    expected = lattice.sums(X.astype(np.float64), squares=True)
    found = lattice.sums(X, squares=True)
    assert [a.tolist() for a in found] == [a.tolist() for a in expected]


@pytest.mark.parametrize("threads", [-1, 0])
def test_bad_thread_counts_are_refused(threads):
    with pytest.raises(InvalidParameter, match="threads must"):
        LATTICES["box"].sums(np.zeros((2, 4)), threads=threads)


def test_the_sum_of_no_rows_is_zero():
    for lattice in LATTICES.values():
        sums, squares = lattice.sums(np.zeros((0, 4)), squares=True)
        assert sums.tolist() == squares.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
@pytest.mark.parametrize(("n", "d"), [(3, 40_000), (40_000, 3), (9000, 130)])
@pytest.mark.parametrize("per_column", [False, True])
def test_wide_and_fortran_tables_add_up_as_their_rows_do(order, dtype, n, d, per_column):
    rng = np.random.default_rng(n + d)
    X = np.asarray(rng.normal(scale=2.0, size=(n, d)).astype(dtype), order=order)
    clip = np.linspace(0.5, 1.5, d) if per_column else 1.0
    lattice = BoxLattice.build(clip, 0.0, d, common=False)
    points = lattice.round_rows(X)
    expected = points.sum(axis=0), (points * points >> BITS).sum(axis=0)
    for options in ({}, {"threads": 1}, {"threads": 3, "block": 1000}, {"block": 1 << 16}):
        if n * d / options.get("block", 1e9) > 500:
            continue
        sums, squares = lattice.sums(X, squares=True, **options)
        assert np.array_equal(sums, expected[0]) and np.array_equal(squares, expected[1])
    if dtype != "i8":
        X[n // 2, d - 1] = np.nan
        with pytest.raises(InvalidData, match="NaN"):
            lattice.sums(X)
        X[n // 2, d - 1] = np.inf
        centered = lattice.sums(X, missing="center")[0]
        points[n // 2, d - 1] = 0
        assert np.array_equal(centered, points.sum(axis=0))


@pytest.mark.parametrize(
    ("d", "width", "threads", "least"),
    [(0, 8, 2, 1), (1, 8, 2, 1), (8, 8, 4, 2), (9, 8, 3, 4), (100, 8, 4, 4), (100, 33, 8, 20), (1000, 7, 16, 1)],
)
def testcut_columns_cover_the_columns_once_and_evenly(d, width, threads, least):
    tiles = cut_columns(d, width, threads, least)
    assert [j for tile in tiles for j in range(tile.start, tile.stop)] == list(range(d))
    sizes = [tile.stop - tile.start for tile in tiles]
    assert max(sizes) <= width and max(sizes) - min(sizes) <= 1
    assert len(tiles) == 1 or min(sizes) >= min(least, d // -(-d // width))
    # As many for every thread, where they need not be too narrow for that.
    assert len(tiles) == 1 or len(tiles) % threads == 0 or d // (len(tiles) + 1) < least


def test_stored_sums_are_those_of_the_dense_table():
    table = scipy.sparse.random(300, 50, density=0.3, random_state=0, format="csr")
    table.data *= np.random.default_rng(0).normal(scale=3.0, size=table.nnz)
    for clip in (1.0, np.linspace(0.5, 2.0, 50)):
        lattice = BoxLattice.build(clip, 0.0, 50, common=False)
        assert np.array_equal(lattice.stored_sums(table), lattice.sums(table.toarray())[0])
    table.data[7] = np.inf
    with pytest.raises(InvalidData, match="NaN"):
        lattice.stored_sums(table)
    dense = table.toarray()
    assert np.array_equal(lattice.stored_sums(table, missing="center"), lattice.sums(dense, missing="center")[0])
    with pytest.raises(InvalidParameter, match="center must be 0"):
        BoxLattice.build(1.0, 3.0, 50, common=False).stored_sums(table)


@pytest.mark.parametrize("threads", [1, 2, 7, 16, 40])
@pytest.mark.parametrize("n", [0, 1, 99, 100, 5000])
def test_runs_of_threads_hold_every_row_once(n, threads):
    runs = sums._split(n, threads, 10)
    assert len(runs) <= threads
    assert [i for low, high in runs for i in range(low, high)] == list(range(n))
