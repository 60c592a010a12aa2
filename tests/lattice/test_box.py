"""The box against fractions: nearest lattice points, centers, bounds."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpstats.errors import InvalidParameter
from dpstats.lattice import BITS, BoxLattice
from tests.lattice.rows import CENTERS, FIXED, LATTICES, SEEDS, rows_for


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
        near = rng.integers(-(2**32), 2**32, size=(40, 4)) / 4 * float(step) + center * clip  # quarters of a step
        far = rng.standard_t(1, size=(40, 4)) * clip
        X = np.vstack([near, far, np.full((1, 4), 1e-310), rng.choice([3e38, -3e38], size=(3, 4))])
        X = np.rint(np.clip(X, -(2.0**62), 2.0**62)).astype(dtype) if dtype == "i8" else X.astype(dtype)
    X[~np.isfinite(X)] = 0
    expected = [
        [min(max(round(Fraction(x) / step - center * 2**BITS), -(2**BITS)), 2**BITS) for x in row] for row in X.tolist()
    ]
    assert lattice.round_rows(X).tolist() == expected
    assert lattice.sums(X)[0].tolist() == [sum(column) for column in zip(*expected, strict=True)]
    # The scaled path of a table with one spacing per column is the same map.
    columns = BoxLattice.build(np.full(4, clip), center * clip, 4, common=False)
    assert columns.round_rows(X).tolist() == expected


@pytest.mark.parametrize("power", [0, 9, 10, 11, 25, 40])
def test_a_center_far_away_loses_no_precision(power):
    # 2^power + 1/4 is a double; a quarter of the clip is 2^28 steps, however far the center is.
    center = 2.0**power
    lattice = BoxLattice.build(1.0, center, 1, common=False)
    assert lattice.round_rows(np.array([[center + 0.25], [center - 0.5]])).tolist() == [[2**28], [-(2**29)]]


@pytest.mark.parametrize("name", [name for name in LATTICES if name.startswith("box")])
def test_a_box_is_centered_on_the_nearest_lattice_point(name):
    given = {"box": 0.0, "box, centered": 0.3}.get(name, CENTERS)
    lattice = LATTICES[name]
    spacing = np.broadcast_to(lattice.spacing, 4)
    # Half a step, and the rounding of the center itself.
    moved = np.abs(np.asarray(lattice.center) - given)
    assert (moved <= 0.5 * spacing + np.spacing(np.abs(given))).all()


def test_a_fine_bound_of_a_common_spacing_is_at_least_one_step():
    lattice = BoxLattice.build(np.array([1.0, 1e-12]), 0.0, 2, common=True)
    assert lattice.bound.tolist() == [2**30, 1]
    assert lattice.round_rows(np.array([[5.0, 5.0]])).tolist() == [[2**30, 1]]


def test_one_extreme_column_is_refused():
    for clip in (np.array([1.0, 1e-300]), np.array([1e200, 1.0])):
        for common in (True, False):
            with pytest.raises(InvalidParameter, match=r"^clip must be between"):
                BoxLattice.build(clip, 0.0, 2, common=common)


@pytest.mark.parametrize("clip", [1e-140, 1e140])
def test_squares_of_extreme_bounds_have_a_spacing(clip):
    # 2^30 steps of it are clip^2.
    spacing = BoxLattice.build(clip, 0.0, 1, common=False).square_spacing
    assert Fraction(spacing) * 2**30 == pytest.approx(Fraction(clip) ** 2, rel=1e-12)
