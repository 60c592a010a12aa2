"""The lattice against Python integers: sums, sensitivities, norms, refusals."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.lattice import BITS, BallLattice, BoxLattice, CrossLattice, check_finite, isqrt_up
from dpstats.lattice import sums as sums_module
from dpstats.lattice.sums import _tiles

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=150)
SEEDS = st.integers(0, 2**32 - 1)

CLIPS = np.array([0.5, 3.0, 1e-3, 7e4])
CENTERS = np.array([0.0, -2.5, 1e-2, 3e4])
LATTICES = {
    "box": BoxLattice.build(2.0, 0.0, 4, common=False),
    "box, centred": BoxLattice.build(0.7, 0.3, 4, common=False),
    "box, per column": BoxLattice.build(CLIPS, CENTERS, 4, common=False),
    "box, one spacing": BoxLattice.build(CLIPS, CENTERS, 4, common=True),
    "ball": BallLattice.build(2.0, 0.0, 4),
    "ball, centred": BallLattice.build(0.7, 0.3, 4),
    "ball, centres": BallLattice.build(3.0, CENTERS, 4),
}
every_lattice = pytest.mark.parametrize("lattice", LATTICES.values(), ids=LATTICES)


def rows_for(lattice, n, seed=0):
    """Rows inside, near and far outside the region."""
    rng = np.random.default_rng(seed)
    unit = np.asarray(lattice.spacing) * 2.0**BITS
    return lattice.center + unit * rng.standard_t(2, size=(n, lattice.n_features))


def python_sums(lattice, X):
    steps = lattice.round_rows(X).tolist()
    first = [sum(column) for column in zip(*steps, strict=True)]
    return first, [sum(k * k >> BITS for k in column) for column in zip(*steps, strict=True)]


@pytest.mark.parametrize(("value", "root"), [(0, 0), (1, 1), (2, 2), (4, 2), (5, 3), (10**40, 10**20)])
def test_isqrt_up(value, root):
    assert isqrt_up(value) == root


@given(st.integers(0, 2**140))
@FIXED
def test_isqrt_up_is_the_least_integer_root_from_above(value):
    root = isqrt_up(value)
    assert root * root >= value and (root == 0 or (root - 1) ** 2 < value)


# The row map


@given(SEEDS, st.sampled_from([name for name in LATTICES if name.startswith("box")]))
@FIXED
def test_box_rows_are_the_nearest_lattice_points(seed, name):
    lattice = LATTICES[name]
    X = rows_for(lattice, 3, seed)
    center, spacing, bound = (np.broadcast_to(v, 4) for v in (lattice.center, lattice.spacing, lattice.bound))
    for row, steps in zip(X.tolist(), lattice.round_rows(X).tolist(), strict=True):
        for j, (x, k) in enumerate(zip(row, steps, strict=True)):
            exact = (Fraction(x) - Fraction(float(center[j]))) / Fraction(float(spacing[j]))
            exact = min(max(exact, -int(bound[j])), int(bound[j]))
            # Rounding is to nearest; the two float operations before it move at most 2^30 steps by a few 2^-53
            # (of the entry as given: times |x|/spacing, here below 2^36).
            assert abs(k - exact) <= Fraction(1, 2) + Fraction(1, 2**14)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
@pytest.mark.parametrize("power", [-440, -3, 0, 30, 31, 440])
@pytest.mark.parametrize("center", [0, 3, -512])
def test_steps_that_are_a_power_of_two_are_rounded_without_scaling(dtype, power, center):
    # Entries are exact multiples of tiny powers of two: Python's rounding, ties to even, is the answer itself.
    clip = 2.0**power
    lattice = BoxLattice.build(clip, center * clip, 4, common=False)
    step = Fraction(clip) / 2**BITS
    rng = np.random.default_rng(power + center + 1000)
    with np.errstate(over="ignore"):
        near = (
            rng.integers(-(2**32), 2**32, size=(40, 4)) / 4 * float(step) + center * clip
        )  # quarters of a step
        far = rng.standard_t(1, size=(40, 4)) * clip
        X = np.vstack([near, far, np.full((1, 4), 1e-310), rng.choice([3e38, -3e38], size=(3, 4))])
        X = np.rint(np.clip(X, -(2.0**62), 2.0**62)).astype(dtype) if dtype == "i8" else X.astype(dtype)
    X[~np.isfinite(X)] = 0
    expected = [
        [min(max(round(Fraction(x) / step - center * 2**BITS), -(2**BITS)), 2**BITS) for x in row]
        for row in X.tolist()
    ]
    assert lattice.round_rows(X).tolist() == expected
    assert lattice.sums(X)[0].tolist() == [sum(column) for column in zip(*expected, strict=True)]
    # The scaled path of a table with one spacing per column is the same map.
    columns = BoxLattice.build(np.full(4, clip), center * clip, 4, common=False)
    assert columns.round_rows(X).tolist() == expected


@given(SEEDS, st.sampled_from([name for name in LATTICES if name.startswith("ball")]))
@FIXED
def test_ball_rows_are_the_projections(seed, name):
    lattice = LATTICES[name]
    X = rows_for(lattice, 3, seed)
    steps = (X - lattice.center) / lattice.spacing
    norms = np.linalg.norm(steps, axis=1, keepdims=True)
    exact = steps * np.minimum(1.0, lattice.radius / norms)
    # Half a step for rounding; rows that are scaled end sqrt(d)/2 + 1 = 2 steps inside.
    assert np.abs(lattice.round_rows(X) - exact).max() <= 0.5 + 2 + 1e-3


@every_lattice
def test_a_row_is_mapped_on_its_own(lattice):
    # What the other rows of a block hold must not matter, or the sensitivity is not that of one row.
    X = rows_for(lattice, 64)
    X[7] = 1e308
    X[11] = lattice.center
    together = lattice.round_rows(X)
    for i, row in enumerate(X):
        np.testing.assert_array_equal(lattice.round_rows(row[None, :])[0], together[i])


@given(st.integers(1, 400), SEEDS)
@FIXED
def test_a_ball_row_is_mapped_on_its_own_in_any_dimension(d, seed):
    rng = np.random.default_rng(seed)
    lattice = BallLattice.build(1.0, 0.1, d)
    X = rng.normal(size=(9, d)) * rng.choice([0.1, 1.0, 1e200], size=(9, 1)) / math.sqrt(d)
    together = lattice.round_rows(X)
    alone = np.vstack([lattice.round_rows(row[None, :]) for row in X])
    np.testing.assert_array_equal(alone, together)


def test_the_centre_is_zero_steps_away():
    for lattice in LATTICES.values():
        assert not lattice.round_rows(np.full((2, 4), lattice.center)).any()


@pytest.mark.parametrize("power", [0, 9, 10, 11, 25, 40])
def test_a_centre_far_away_loses_no_precision(power):
    # 2^power + 1/4 is a double; a quarter of the clip is 2^28 steps, however far the centre is.
    center = 2.0**power
    lattice = BoxLattice.build(1.0, center, 1, common=False)
    assert lattice.round_rows(np.array([[center + 0.25], [center - 0.5]])).tolist() == [[2**28], [-(2**29)]]


@pytest.mark.parametrize("name", [name for name in LATTICES if name.startswith("box")])
def test_a_box_is_centred_on_the_nearest_lattice_point(name):
    given = {"box": 0.0, "box, centred": 0.3}.get(name, CENTERS)
    lattice = LATTICES[name]
    spacing = np.broadcast_to(lattice.spacing, 4)
    # Half a step, and the rounding of the centre itself.
    moved = np.abs(np.asarray(lattice.center) - given)
    assert (moved <= 0.5 * spacing + np.spacing(np.abs(given))).all()


def test_a_fine_bound_of_a_common_spacing_is_at_least_one_step():
    lattice = BoxLattice.build(np.array([1.0, 1e-12]), 0.0, 2, common=True)
    assert lattice.bound.tolist() == [2**30, 1]
    assert lattice.round_rows(np.array([[5.0, 5.0]])).tolist() == [[2**30, 1]]


@pytest.mark.parametrize("build", [lambda *a: BoxLattice.build(*a, common=False), BallLattice.build])
@pytest.mark.parametrize(
    ("clip", "center", "name"),
    [(1e-300, 0.0, "clip"), (5e-324, 0.0, "clip"), (1e200, 0.0, "clip"), (1.0, -1.7e308, "center")],
)
def test_regions_beyond_exact_arithmetic_are_refused(build, clip, center, name):
    # At a clip of 1e-300 the inverse of the spacing is infinite, and zero times it is NaN: its bits, read as an
    # integer, have no bound.
    with pytest.raises(InvalidParameter, match=rf"^{name} must be between"):
        build(clip, center, 1)


def test_one_extreme_column_is_refused():
    for clip in (np.array([1.0, 1e-300]), np.array([1e200, 1.0])):
        for common in (True, False):
            with pytest.raises(InvalidParameter, match=r"^clip must be between"):
                BoxLattice.build(clip, 0.0, 2, common=common)


@pytest.mark.parametrize("clip", [1e-140, 1e-30, 1.0, 1e30, 1e140])
@pytest.mark.parametrize("center", [0.0, -1e140, 1e-308, 5.0, 1000.0])
def test_extreme_entries_stay_inside(clip, center):
    X = np.array([[0.0], [clip], [-clip], [1.0], [1e140], [1.7e308], [-1.7e308], [5e-324], [center]])
    for lattice in (BoxLattice.build(clip, center, 1, common=False), BallLattice.build(clip, center, 1)):
        steps = lattice.round_rows(X).ravel()
        assert np.abs(steps).max() <= 2**30
        # Far out is at the bound (a ball: two steps inside it), on the right side.
        assert steps[5] >= 2**30 - 2 and steps[6] <= -(2**30) + 2


# Sums


@every_lattice
@pytest.mark.parametrize("n", [1, 2, 1000])
def test_sums_equal_python_integers(lattice, n):
    X = rows_for(lattice, n)
    first, second = python_sums(lattice, X)
    sums, squares = lattice.sums(X, squares=True)
    assert sums.dtype == squares.dtype == np.int64
    assert (sums.tolist(), squares.tolist()) == (first, second)
    assert lattice.sums(X)[0].tolist() == first and lattice.sums(X)[1] is None


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
    layouts = {
        "C": X,
        "F": np.asfortranarray(X),
        "view": wide[:, 1::2],
        "permuted": X[order],
        "reversed": X[::-1],
    }
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


def test_too_many_rows_are_refused_before_they_are_read():
    # 2^30 n must stay below 2^62; a broadcast view has that many rows without the memory.
    X = np.broadcast_to(np.zeros((1, 1)), (2**32 + 1, 1))
    with pytest.raises(InvalidData, match="too many rows"):
        BoxLattice.build(1.0, 0.0, 1, common=False).sums(X)


@pytest.mark.parametrize("threads", [-1, 0])
def test_bad_thread_counts_are_refused(threads):
    with pytest.raises(InvalidParameter, match=f"threads must be at least 1, got {threads}"):
        LATTICES["box"].sums(np.zeros((2, 4)), threads=threads)


def test_the_sum_of_no_rows_is_zero():
    for lattice in LATTICES.values():
        sums, squares = lattice.sums(np.zeros((0, 4)), squares=True)
        assert sums.tolist() == squares.tolist() == [0, 0, 0, 0]


# Memory that another process writes to

LATE = [np.nan, -np.nan, np.inf, -np.inf, 1.7e308, -1.7e308, 5e-324, -0.0]


def bounded(lattice, steps, squares):
    """Whether these column sums of n rows can be those of n rows inside the region."""
    bound = lattice.bound if isinstance(lattice, BoxLattice) else lattice.radius
    n = 6000
    inside = np.all(np.abs(steps) <= n * np.asarray(bound))
    return bool(inside and np.all(squares >= 0) and np.all(squares <= n * (np.asarray(bound) ** 2 >> BITS)))


@pytest.mark.parametrize("lattice", [*LATTICES.values(), CrossLattice.build(2.0, 0.3, 4)])
@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_that_change_after_the_finite_check_stay_inside(monkeypatch, lattice, late, order, dtype):
    # Checked while it is finite, read when it is not: of a NaN the clip of numbers makes a NaN, whose pattern is a
    # step 2^20 times beyond the bound.
    with np.errstate(over="ignore"):
        X = np.zeros((6000, 4), dtype=dtype, order=order)
        checked = sums_module.finite_or_center

        def then_written_to(rows, center, missing):
            X[...] = 0
            found = checked(rows, center, missing)
            rows[...] = late
            return found

        monkeypatch.setattr(sums_module, "finite_or_center", then_written_to)
        for threads in (1, 2):
            steps, squares = lattice.sums(X, squares=True, threads=threads, block=512)
            assert bounded(lattice, steps, squares)
        # Every single row, not their sum alone: nothing is averaged out.
        single = lattice.round_rows(np.full((3, 4), late, dtype=dtype))
        assert np.all(np.abs(single) <= np.asarray(getattr(lattice, "bound", 2**BITS)))
        if isinstance(lattice, BallLattice):
            norms = [sum(k * k for k in row) for row in single.tolist()]
            assert max(norms) <= lattice.radius**2


@pytest.mark.parametrize(
    ("name", "late"),
    [("indices", 0), ("indices", 7), ("indices", -1), ("indptr", 0), ("indptr", 9), ("data", np.nan)],
)
def test_a_stored_table_that_changed_after_its_check_is_refused_or_inside(monkeypatch, name, late):
    # Two entries of a row in one column, or one outside the table, would count twice, or elsewhere.
    table = scipy.sparse.csr_array(
        (np.full(4, 9.0), np.array([0, 1, 0, 2]), np.array([0, 2, 3, 4])), shape=(3, 3)
    )
    getattr(table, name)[1] = late
    lattice = BoxLattice.build(1.0, 0.0, 3, common=False)
    if name == "data":
        monkeypatch.setattr(sums_module, "finite_or_center", lambda values, center, missing: values)
        steps = lattice.stored_sums(table)
        assert np.all(np.abs(steps) <= np.array([2, 1, 1]) * 2**BITS)
        return
    if (name, late) == ("indptr", 0):
        # The first row is empty now, and the second one has columns 0, 1, 0.
        assert table.indptr.tolist() == [0, 0, 3, 4]
    with pytest.raises(InvalidData, match="X must be a sparse table in CSR form"):
        lattice.stored_sums(table)


# Missing entries


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
def test_missing_entries_count_as_the_centre(lattice, bad):
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
def test_missing_entries_of_short_floats_count_as_the_centre(dtype, center):
    # Short floats hold 0.5, but neither 0.1 nor (float16) 1e10: the centre must not take their type.
    X = np.array([[np.nan], [np.inf]], dtype=dtype)
    for lattice in (BoxLattice.build(1.0, center, 1, common=False), BallLattice.build(1.0, center, 1)):
        assert lattice.sums(X, missing="center")[0].tolist() == [0]


# Sensitivity


def extreme_rows(lattice):
    """Corners of the region, far outside, huge, tiny, the centre, spikes, the face's middle."""
    d = lattice.n_features
    unit = np.broadcast_to(np.asarray(lattice.spacing) * 2.0**BITS, d)
    rows = [lattice.center + np.array(s) * unit for s in itertools.product([-1.0, 0.0, 1.0], repeat=d)]
    rows += [
        lattice.center + scale * np.array(s)
        for s in itertools.product([-1, 1], repeat=d)
        for scale in (1e308, 1e-300)
    ]
    rows += [
        lattice.center + sign * big * unit * axis
        for axis in np.eye(d)
        for sign in (-1, 1)
        for big in (1, 1e9)
    ]
    rows += [lattice.center + np.array(s) * unit / math.sqrt(d) for s in itertools.product([-1, 1], repeat=d)]
    return np.array([np.broadcast_to(row, d) for row in rows])


def largest_distances(steps):
    """Over all pairs, in Python integers: the largest l1 and squared l2 distance."""
    l1 = l2 = 0
    for a, b in itertools.combinations([tuple(row) for row in {tuple(r) for r in steps}], 2):
        gaps = [x - y for x, y in zip(a, b, strict=True)]
        l1, l2 = max(l1, sum(map(abs, gaps))), max(l2, sum(g * g for g in gaps))
    return l1, l2


SMALL = {
    "box 1": BoxLattice.build(2.0, 0.0, 1, common=False),
    "box 3": BoxLattice.build(2.0, 0.3, 3, common=False),
    "box, per column": BoxLattice.build(CLIPS[:3], CENTERS[:3], 3, common=False),
    "box, one spacing": BoxLattice.build(CLIPS[:3], CENTERS[:3], 3, common=True),
    "ball 1": BallLattice.build(2.0, 0.0, 1),
    "ball 2": BallLattice.build(0.7, 0.3, 2),
    "ball 4": BallLattice.build(3.0, CENTERS, 4),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_sensitivity_of_the_sums_by_brute_force(name):
    lattice = SMALL[name]
    l1, l2 = largest_distances(lattice.round_rows(extreme_rows(lattice)).tolist())
    assert l1 <= lattice.sensitivity("l1")
    assert l2 <= lattice.sensitivity("l2") ** 2
    if isinstance(lattice, BoxLattice):  # attained, to the step
        assert l1 == lattice.sensitivity("l1")
        assert (lattice.sensitivity("l2") - 1) ** 2 < l2
    else:  # rows at the surface are scaled at most sqrt(d)/2 + 3 steps inside it
        loss = 2 * (math.sqrt(lattice.n_features) / 2 + 3)
        assert math.isqrt(l2) >= lattice.sensitivity("l2") - loss - 1
        assert l1 >= lattice.sensitivity("l1") - math.sqrt(lattice.n_features) * loss - 2


@pytest.mark.parametrize("name", SMALL)
def test_the_sensitivity_of_the_squares_by_brute_force(name):
    lattice = SMALL[name]
    steps = lattice.round_rows(extreme_rows(lattice)).tolist()
    l1, l2 = largest_distances([[k * k >> BITS for k in row] for row in steps])
    assert l1 <= lattice.square_sensitivity("l1")
    assert l2 <= lattice.square_sensitivity("l2") ** 2
    if isinstance(lattice, BoxLattice):
        assert l1 == lattice.square_sensitivity("l1")
        assert (lattice.square_sensitivity("l2") - 1) ** 2 < l2
    else:  # (2^30 - t)^2 / 2^30 >= 2^30 - 2t at either end
        loss = 4 * (math.sqrt(lattice.n_features) / 2 + 4)
        assert l1 >= lattice.square_sensitivity("l1") - loss
        assert math.isqrt(l2) >= lattice.square_sensitivity("l2") - loss


@pytest.mark.parametrize("name", ["box 3", "box, per column", "ball 2"])
def test_one_replaced_row_moves_the_sums_by_at_most_the_sensitivity(name):
    lattice = SMALL[name]
    X = rows_for(lattice, 50)
    base, base_squares = (part.tolist() for part in lattice.sums(X, squares=True))
    for row in extreme_rows(lattice)[::3]:
        Y = X.copy()
        Y[17] = row
        sums, squares = (part.tolist() for part in lattice.sums(Y, squares=True))
        gaps = [a - b for a, b in zip(sums, base, strict=True)]
        assert sum(map(abs, gaps)) <= lattice.sensitivity("l1")
        assert sum(g * g for g in gaps) <= lattice.sensitivity("l2") ** 2
        gaps = [a - b for a, b in zip(squares, base_squares, strict=True)]
        assert sum(map(abs, gaps)) <= lattice.square_sensitivity("l1")


def test_stated_sensitivities_in_closed_form():
    # 2R per entry: l1 2dR, l2 2R sqrt(d), R = 2^30 steps; ball: l2 2R, l1 2R sqrt(d).
    box, ball = BoxLattice.build(5.0, 1.0, 9, common=False), BallLattice.build(5.0, 1.0, 9)
    assert (box.sensitivity("l1"), box.sensitivity("l2")) == (18 * 2**30, 6 * 2**30)
    assert (ball.sensitivity("l1"), ball.sensitivity("l2")) == (6 * 2**30, 2 * 2**30)
    # squares lie in [0, R^2]: half of that for the box.
    assert (box.square_sensitivity("l1"), box.square_sensitivity("l2")) == (9 * 2**30, 3 * 2**30)
    assert ball.square_sensitivity("l1") == 2 * 2**30
    assert ball.square_sensitivity("l2") == math.isqrt(2 * 2**60) + 1
    assert box.square_spacing == pytest.approx(25 * 2.0**-30, rel=1e-15)  # 2^30 steps are R^2 = 25


@pytest.mark.parametrize("clip", [1e-140, 1e140])
def test_squares_of_extreme_bounds_have_a_spacing(clip):
    # 2^30 steps of it are clip^2.
    spacing = BoxLattice.build(clip, 0.0, 1, common=False).square_spacing
    assert Fraction(spacing) * 2**30 == pytest.approx(Fraction(clip) ** 2, rel=1e-12)


# The ball, row by row


def ball_rows(kind, d, rng):
    """Rows in units of the radius that put a projection or its rounding to the test."""
    directions = rng.normal(size=(4, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    if kind == "surface":
        return directions * (1 + rng.integers(-4, 5, size=(4, 1)) * 2.0**-52)
    if kind == "half steps":
        # Entries half-way between lattice points, norm at the surface: rounding can only lengthen.
        return np.sign(directions) * (np.floor(np.abs(directions) * 2.0**30) + 0.5) * 2.0**-30
    if kind == "equal":
        return np.sign(directions) / math.sqrt(d)
    if kind == "huge":
        return np.clip(directions * math.sqrt(d) * 10.0 ** rng.integers(150, 309), -1.7e308, 1.7e308)
    if kind == "spike":
        rows = directions * 1e-320
        rows[:, rng.integers(d)] = rng.choice([1.0, -1.0, 1e308, 1.0000000001])
        return rows
    return directions * rng.uniform(0, 2, size=(4, 1))


def outside(steps, radius):
    return [sum(k * k for k in row) > radius * radius for row in steps]


KINDS = ["surface", "half steps", "equal", "huge", "spike", "anywhere"]


@given(st.integers(1, 2000), st.sampled_from(KINDS), st.sampled_from([1.0, 0.3, 1e-5, 1e140]), SEEDS)
@example(1, "surface", 1.0, 0)
@example(2000, "half steps", 1.0, 0)
@example(2000, "huge", 1e140, 0)
@FIXED
def test_ball_rows_are_inside_in_python_integers(d, kind, clip, seed):
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        X = np.clip(ball_rows(kind, d, rng) * clip, -1.7e308, 1.7e308)
    for center in (0.0, clip * 0.77):
        lattice = BallLattice.build(clip, center, d)
        steps = lattice.round_rows(X + center).tolist()
        assert not any(outside(steps, lattice.radius))
        if kind == "surface" and center == 0.0:  # and not needlessly short
            shortest = min(math.isqrt(sum(k * k for k in row)) for row in steps)
            assert shortest >= lattice.radius - math.sqrt(d) - 3


def test_rounding_a_float_projection_is_not_inside():
    # Power control: the obvious map, x * R/||x|| rounded, leaves rows outside that the check above notices.
    rng = np.random.default_rng(0)
    found = 0
    for kind in KINDS[:3]:
        X = ball_rows(kind, 50, rng)
        naive = np.rint(X / np.linalg.norm(X, axis=1, keepdims=True) * 2**30).astype(np.int64)
        found += sum(outside(naive.tolist(), 2**30))
    assert found > 0


def test_a_row_outside_is_shrunk_and_one_inside_is_left():
    lattice = BallLattice.build(1.0, 0.0, 3)
    r = lattice.radius
    rows = np.array(
        [
            [r + 1.0, 0, 0],
            [r, 1.0, 0],
            [r - 10.0, 0, 0],
            [2.0**50, -(2.0**50), 7],
            [3.0, -4, 5],
            [np.nan, 1.0, 2.0],
        ]
    )
    before = rows.copy()
    lattice._enforce(rows)
    assert not any(outside([[int(k) for k in row] for row in rows], r))
    np.testing.assert_array_equal(rows[[2, 4]], before[[2, 4]])
    assert (np.linalg.norm(rows[:2], axis=1) > 0.99 * r).all()  # by a thousandth, not to nothing
    np.testing.assert_array_equal(rows, np.trunc(rows))
    assert outside([[int(k) for k in row] for row in before[:2]], r) == [True, True]


def test_the_norm_is_held_by_the_integers_and_not_by_the_projection(monkeypatch):
    # A projection that ends 500,000 steps outside: what privacy rests on is the check that follows it.
    import types

    from dpstats.lattice import ball as module

    monkeypatch.setattr(module, "math", types.SimpleNamespace(sqrt=lambda value: -1e6, isqrt=math.isqrt))
    rows = np.random.default_rng(0).normal(size=(200, 5))
    steps = BallLattice.build(1.0, 0.0, 5).round_rows(10 * rows).tolist()
    assert not any(outside(steps, 2**30))
    assert min(sum(k * k for k in row) for row in steps) > (0.99 * 2**30) ** 2


def test_a_row_whose_squares_overflow_is_inside_and_keeps_its_direction():
    lattice = BallLattice.build(1.0, -1e140, 2)
    steps = lattice.round_rows(np.array([[1.7e308, 1.7e308], [-1e140, 1.7e308], [-1e140, -1e140]])).tolist()
    assert not any(outside(steps, lattice.radius))
    assert steps[0][0] == steps[0][1] > 0.7 * 2**30  # the diagonal
    assert steps[1][0] == 0 and steps[1][1] > 0.99 * 2**30
    assert steps[2] == [0, 0]


# A row's lattice point does not depend on the rows around it


def test_long_rows_are_rounded_alike_alone_and_in_company():
    # numpy sums a single row of more than 8192 entries in another order than one among others.
    rng = np.random.default_rng(5)
    d = 10_000
    lattice = BallLattice.build(1.0, 0.0, d)
    row = rng.normal(size=d) * 1e200
    alone = lattice.round_rows(row[None, :])[0]
    for other in (np.zeros(d), np.full(d, -1e300), row):
        company = lattice.round_rows(np.vstack([row, other, other]))[0]
        assert np.array_equal(alone, company)
    X = rng.normal(size=(7, d))
    sums = [lattice.sums(X, block=block)[0].tolist() for block in (1, d, 3 * d, 100 * d)]
    assert all(each == sums[0] for each in sums)


# Wide tables, Fortran order, sparse tables: the same sums


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
        centred = lattice.sums(X, missing="center")[0]
        points[n // 2, d - 1] = 0
        assert np.array_equal(centred, points.sum(axis=0))


@pytest.mark.parametrize(
    ("d", "width", "threads", "least"),
    [
        (0, 8, 2, 1),
        (1, 8, 2, 1),
        (8, 8, 4, 2),
        (9, 8, 3, 4),
        (100, 8, 4, 4),
        (100, 33, 8, 20),
        (1000, 7, 16, 1),
    ],
)
def test_tiles_cover_the_columns_once_and_evenly(d, width, threads, least):
    tiles = _tiles(d, width, threads, least)
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
    assert np.array_equal(
        lattice.stored_sums(table, missing="center"), lattice.sums(dense, missing="center")[0]
    )
    with pytest.raises(InvalidParameter, match="centred at 0"):
        BoxLattice.build(1.0, 3.0, 50, common=False).stored_sums(table)


@given(st.integers(1, 300), st.sampled_from(KINDS), st.sampled_from([1.0, 1e-5, 1e140]), SEEDS)
@FIXED
def test_cross_rows_are_inside_in_python_integers(d, kind, clip, seed):
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        X = np.clip(ball_rows(kind, d, rng) * clip, -1.7e308, 1.7e308)
    for center in (0.0, clip * 0.77):
        lattice = CrossLattice.build(clip, center, d)
        norms = [sum(map(abs, row)) for row in lattice.round_rows(X + center).tolist()]
        assert max(norms) <= lattice.radius == 2**30
        assert not np.array_equal(X, X * 0) or max(norms) == 0


def test_the_sensitivity_of_the_cross_is_attained():
    lattice = CrossLattice.build(2.0, 0.3, 3)
    l1, l2 = largest_distances(lattice.round_rows(extreme_rows(lattice)).tolist())
    assert lattice.sensitivity("l1") - 8 <= l1 <= lattice.sensitivity("l1")
    assert lattice.sensitivity("l2") - 8 <= math.isqrt(l2) <= lattice.sensitivity("l2")
    with pytest.raises(InvalidData, match="NaN"):
        check_finite(np.array([[1.0, np.nan]]))
    check_finite(np.array([[1.7e308, 1.7e308]]))
    check_finite(np.array([1.7e308, 1.7e308]))
    with pytest.raises(InvalidData, match="NaN"):
        check_finite(np.array([1.0, -np.inf]))
