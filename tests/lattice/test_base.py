"""Every lattice: a row is mapped on its own, and the stated sensitivities hold by brute force."""

import math

import numpy as np
import pytest

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.lattice import BallLattice, BoxLattice
from tests.lattice.rows import (
    CENTERS,
    CLIPS,
    LATTICES,
    every_lattice,
    extreme_rows,
    largest,
    largest_distances,
    rows_for,
)


@every_lattice
def test_a_row_is_mapped_on_its_own(lattice):
    # What the other rows of a block hold must not matter, or the sensitivity is not that of one row.
    X = rows_for(lattice, 64)
    X[7] = 1e308
    X[11] = lattice.center
    together = lattice.round_rows(X)
    for i, row in enumerate(X):
        np.testing.assert_array_equal(lattice.round_rows(row[None, :])[0], together[i])


def test_the_center_is_zero_steps_away():
    for lattice in LATTICES.values():
        assert not lattice.round_rows(np.full((2, 4), lattice.center)).any()


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


@pytest.mark.parametrize("clip", [1e-140, 1e-30, 1.0, 1e30, 1e140])
@pytest.mark.parametrize("center", [0.0, -1e140, 1e-308, 5.0, 1000.0])
def test_extreme_entries_stay_inside(clip, center):
    X = np.array([[0.0], [clip], [-clip], [1.0], [1e140], [1.7e308], [-1.7e308], [5e-324], [center]])
    for lattice in (BoxLattice.build(clip, center, 1, common=False), BallLattice.build(clip, center, 1)):
        steps = lattice.round_rows(X).ravel()
        assert np.abs(steps).max() <= 2**30
        # Far out is at the bound (a ball: two steps inside it), on the right side.
        assert steps[5] >= 2**30 - 2 and steps[6] <= -(2**30) + 2


def test_too_many_rows_are_refused_before_they_are_read():
    # 2^30 n must stay below 2^62; a broadcast view has that many rows without the memory.
    X = np.broadcast_to(np.zeros((1, 1)), (2**32 + 1, 1))
    with pytest.raises(InvalidData, match="must have at most 4294967296 rows"):
        BoxLattice.build(1.0, 0.0, 1, common=False).sums(X)


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
    l1, l2 = largest_distances([[k * k // K for k, K in zip(row, largest(lattice), strict=True)] for row in steps])
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
