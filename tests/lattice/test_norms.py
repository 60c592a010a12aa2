"""Squared norms and rows outside, beside the sums: against Python integers, and their joint sensitivity."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.lattice import BallLattice, CrossLattice
from dpstats.means.boxed_errors import Shape
from tests.lattice.rows import FIXED, KINDS, SEEDS, ball_rows

WHITENED = Shape(1.0, np.linalg.cholesky([[1.0, 0.6], [0.6, 2.0]])).lattice(1.5, 2, 30)


@given(st.integers(1, 30), st.sampled_from(KINDS), SEEDS)
@FIXED
def test_sums_are_those_of_python_integers(d, kind, seed):
    rng = np.random.default_rng(seed)
    X = ball_rows(kind, d, rng)
    for lattice in (BallLattice.build(1.0, 0.0, d), CrossLattice.build(0.7, 0.1, d)):
        steps = lattice.round_rows(X).tolist()
        found = lattice.norm_sums(X, block=2 * d)
        assert found.steps.tolist() == [sum(column) for column in zip(*steps, strict=True)]
        assert found.squared_norms.tolist() == [sum(sum(k * k for k in row) >> 30 for row in steps)]
        together = lattice.norm_rows(X)
        np.testing.assert_array_equal(together.sum(axis=0), np.concatenate(found))
        # A row's numbers are its own.
        alone = np.vstack([lattice.norm_rows(row[None]) for row in X])
        np.testing.assert_array_equal(alone, together)


def test_rows_outside_are_those_whose_own_norm_is_beyond_the_radius():
    lattice = BallLattice.build(2.0, 1.0, 2)
    X = 1.0 + np.array([[2.0, 0.0], [0.0, -2.0], [2 / math.sqrt(2), 2 / math.sqrt(2)], [2 + 1e-8, 0.0]])
    X = np.vstack([X, [[1e308, -1e308], [1.0, 1.0], [-1.5, 1.5]]])
    counted = lattice.norm_rows(X)[:, 3] / 2**30
    # On the sphere is inside: 0/1 rows lie on it by the thousand.
    assert counted.tolist() == [0, 0, 0, 1, 1, 0, 1]
    assert lattice.norm_sums(X).outside.tolist() == [3 << 30]
    # A missing entry is the center's.
    holes = np.array([[np.nan, 2.5], [np.inf, 4.0]])
    assert lattice.norm_sums(holes, missing="center").outside.tolist() == [1 << 30]
    with pytest.raises(InvalidData, match="NaN or infinity"):
        lattice.norm_sums(holes)


def test_whitened_rows_are_outside_in_whitened_units():
    X = np.random.default_rng(0).normal(size=(500, 2)) @ np.linalg.cholesky([[1.0, 0.6], [0.6, 2.0]]).T
    white = X @ WHITENED.whitening
    found = WHITENED.norm_sums(X)
    assert found.outside[0] >> 30 == np.count_nonzero(np.linalg.norm(white, axis=1) > 1.5)
    clipped = np.minimum(np.linalg.norm(white, axis=1), 1.5) ** 2
    assert found.squared_norms[0] * WHITENED.spacing**2 * 2.0**30 == pytest.approx(clipped.sum(), rel=1e-7)


def moved(lattice, weight, count_weight, norm):
    """Return the largest joint movement over all pairs of rows of a small lattice, squared under l2, exactly."""
    bits, d = lattice.bits, lattice.n_features
    rows = np.array(list(itertools.product(range(-(2**bits), 2**bits + 1), repeat=d)))
    rows = rows[np.sum(rows**2, axis=1) <= 4**bits]
    # Inside, or outside and clipped to it; only points near the sphere are clipped to.
    integers = np.hstack([rows, np.sum(rows**2, axis=1, keepdims=True) >> bits])
    largest = 0.0
    w = float(weight)
    for row in integers:
        gaps = np.abs(integers - row)
        if norm == "l2":
            value = np.sum(gaps[:, :d] ** 2, axis=1) + (w * gaps[:, d]) ** 2 + (count_weight * 2**bits) ** 2
        else:
            value = gaps[:, :d].sum(axis=1) + w * gaps[:, d] + count_weight * 2**bits
        largest = max(largest, float(value.max()))
    return largest


@pytest.mark.parametrize(("d", "bits"), [(1, 8), (1, 11), (2, 5)])
@pytest.mark.parametrize("count_weight", [0.0, 0.3])
def test_joint_sensitivity_over_all_pairs(d, bits, count_weight):
    lattice = BallLattice(0.0, 2.0**-bits, d, bits, 2**bits)
    stated = lattice.norm_sensitivity("l2", lattice.free_weight("l2"), count_weight)
    found = moved(lattice, lattice.free_weight("l2"), count_weight, "l2")
    assert found <= stated**2
    assert stated**2 < found + 36  # what is added for rounding
    weight = lattice.free_weight("l1")
    found = moved(lattice, weight, count_weight, "l1")
    stated = lattice.norm_sensitivity("l1", weight, count_weight)
    assert found <= stated
    # Corners of the cube are seldom points of a coarse ball.
    assert stated < found + weight + 1 + (4 if d > 1 else 0)


def test_the_weight_is_the_largest_that_is_free():
    # Beyond phi^(5/2)/2 the sums alone no longer bound the movement: the check above sees it.
    lattice = BallLattice(0.0, 2.0**-11, 1, 11, 2**11)
    assert moved(lattice, 1.8, 0.0, "l2") > 4.03 * 4**11
    root = ((1 + math.sqrt(5)) / 2) ** 2.5 / 2
    assert moved(lattice, root, 0.0, "l2") < 4.003 * 4**11
    assert lattice.norm_sensitivity("l2", root - 1e-6) > 2 * 2**11
    for norm, weight in (("l2", root + 1e-9), ("l1", 0.51)):
        with pytest.raises(InvalidParameter, match="weight must be"):
            lattice.norm_sensitivity(norm, weight)


def test_stated_sensitivities():
    fine = BallLattice.build(1.0, 0.0, 3)
    # 1.665 costs nothing that a float shows, and the count exactly v^2 in 4.
    assert fine.norm_sensitivity("l2", fine.free_weight("l2")) == pytest.approx(2**31, rel=1e-13)
    assert fine.norm_sensitivity("l2", 0.0, 0.5) == pytest.approx(2**30 * math.sqrt(4.25), rel=1e-15)
    assert Fraction(fine.norm_sensitivity("l2", 0.0, 0.5)) ** 2 >= Fraction(17, 4) * 4**30
    assert fine.norm_sensitivity("l2") == fine.sensitivity("l2")
    assert fine.norm_sensitivity("l1", 0.0, 0.5) == pytest.approx(2**30 * (2 * math.sqrt(3) + 0.5))
    coarse = BallLattice.build(1.0, 0.0, 3, bits=8)
    assert coarse.free_weight("l2") == 1.6
    assert coarse.norm_sensitivity("l2", 1.6) ** 2 - 4**9 < 36


def test_squared_norms_at_an_integer_are_exact():
    # The float quotient is within its error of an integer: integers decide, one step below as well as at it.
    lattice = BallLattice.build(1.0, 0.0, 4)
    # The second is one below a multiple of 2^30, and as a float it is that multiple.
    steps = np.array([[1 << 28] * 4, [(1 << 29) - 1, 32767, 213, 142], [3 << 20, 4 << 20, 0, 1]])
    near = [[(1 << 28) + i, (1 << 27) - i, 12345 * i, 1] for i in range(200)]
    steps = np.concatenate([steps, near])
    found = lattice.norm_rows(steps * lattice.spacing)
    assert found[:, :4].tolist() == steps.tolist()
    assert found[:, 4].tolist() == [sum(k * k for k in row) >> 30 for row in steps.tolist()]
    assert found[0, 4] == 1 << 28 and found[1, 4] == (1 << 28) - 1


@pytest.mark.parametrize(
    "lattice", [BallLattice.build(1.5, 0.0, 2), CrossLattice.build(1.5, 0.0, 2), WHITENED], ids=["l2", "l1", "whitened"]
)
def test_only_rows_that_are_not_clearly_inside_are_looked_at_again(lattice, monkeypatch):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(300, 2)) * 0.1, rng.normal(size=(5, 2)) * 100])
    kind, looked = type(lattice), []
    whole = kind._outside

    def outside(self, rows):
        looked.append(len(rows))
        return whole(self, rows)

    monkeypatch.setattr(kind, "_outside", outside)
    assert (lattice.norm_rows(X)[:, 3] >> lattice.bits).tolist() == [0] * 300 + [1] * 5
    # Where a matrix product may round a row differently at another place, places must not depend on other rows.
    assert looked == ([305] if lattice is WHITENED else [5])
    assert lattice.norm_rows(X[:300])[:, 3].tolist() == [0] * 300
