"""The ball and the cross, row by row, against Python integers: every row is inside."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpstats.errors import InvalidData
from dpstats.lattice import BallLattice, CrossLattice, check_finite
from tests.lattice.rows import (
    FIXED,
    KINDS,
    LATTICES,
    SEEDS,
    ball_rows,
    extreme_rows,
    largest_distances,
    outside,
    rows_for,
)


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


@given(st.integers(1, 400), SEEDS)
@FIXED
def test_a_ball_row_is_mapped_on_its_own_in_any_dimension(d, seed):
    rng = np.random.default_rng(seed)
    lattice = BallLattice.build(1.0, 0.1, d)
    X = rng.normal(size=(9, d)) * rng.choice([0.1, 1.0, 1e200], size=(9, 1)) / math.sqrt(d)
    together = lattice.round_rows(X)
    alone = np.vstack([lattice.round_rows(row[None, :]) for row in X])
    np.testing.assert_array_equal(alone, together)


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
        [[r + 1.0, 0, 0], [r, 1.0, 0], [r - 10.0, 0, 0], [2.0**50, -(2.0**50), 7], [3.0, -4, 5], [np.nan, 1.0, 2.0]]
    )
    before = rows.copy()
    lattice._enforce(rows)
    assert not any(outside([[int(k) for k in row] for row in rows], r))
    np.testing.assert_array_equal(rows[[2, 4]], before[[2, 4]])
    assert (np.linalg.norm(rows[:2], axis=1) > 0.99 * r).all()  # by a thousandth, not to nothing
    np.testing.assert_array_equal(rows, np.trunc(rows))
    assert outside([[int(k) for k in row] for row in before[:2]], r) == [True, True]


@pytest.mark.parametrize("beyond", [3, 500_000])
@pytest.mark.parametrize("kind", [BallLattice, CrossLattice])
def test_the_norm_is_held_by_the_integers_and_not_by_the_projection(monkeypatch, kind, beyond):
    # A projection that ends so many steps outside: what privacy rests on is the check that follows it.
    power = 2 if kind is BallLattice else 1
    monkeypatch.setattr(kind, "_rounding", lambda self: -1.0 - beyond)
    lattice = kind.build(1.0, 0.0, 5)
    rows = np.random.default_rng(0).normal(size=(200, 5))
    norms = [sum(abs(k) ** power for k in row) for row in lattice.round_rows(10 * rows).tolist()]
    assert (0.99 * 2**30) ** power < min(norms) and max(norms) <= lattice.radius**power == 2 ** (30 * power)
    monkeypatch.setattr(BallLattice, "_enforce", lambda self, rows: None)
    norms = [sum(abs(k) ** power for k in row) for row in lattice.round_rows(10 * rows).tolist()]
    assert max(norms) > lattice.radius**power


@pytest.mark.parametrize("kind", [BallLattice, CrossLattice])
@pytest.mark.parametrize("d", [1, 2, 50, 400])
def test_rows_that_are_accepted_before_rounding_pass_the_check_after_it(monkeypatch, kind, d):
    # Rows whose norms are a few steps from where acceptance ends, with entries between two integers.
    lattice, rng = kind.build(1.0, 0.0, d), np.random.default_rng(d)
    rows = rng.normal(size=(300, d))
    power = 2 if kind is BallLattice else 1
    norms = np.linalg.norm(rows, ord=power, axis=1, keepdims=True)
    rows *= (lattice.radius - rng.uniform(0, 2 * d + 5, size=(300, 1))) / norms
    rows = np.trunc(rows) + np.where(rows > 0, 0.5, -0.5)
    checked = []
    monkeypatch.setattr(kind, "_enforce", lambda self, far: checked.append(far))
    steps = []
    for row in rows[:, None, :]:
        found = lattice.round_rows(row * lattice.spacing)
        if checked:
            checked.clear()
        else:
            steps += found.tolist()
    assert 0 < len(steps) < 300
    assert max(sum(abs(k) ** power for k in row) for row in steps) <= lattice.radius**power


def test_a_row_whose_squares_overflow_is_inside_and_keeps_its_direction():
    lattice = BallLattice.build(1.0, -1e140, 2)
    steps = lattice.round_rows(np.array([[1.7e308, 1.7e308], [-1e140, 1.7e308], [-1e140, -1e140]])).tolist()
    assert not any(outside(steps, lattice.radius))
    assert steps[0][0] == steps[0][1] > 0.7 * 2**30  # the diagonal
    assert steps[1][0] == 0 and steps[1][1] > 0.99 * 2**30
    assert steps[2] == [0, 0]


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


@pytest.mark.parametrize("kind", [BallLattice, CrossLattice])
@pytest.mark.parametrize(("n", "d", "count"), [(2, 1, 3), (5, 3, 400), (700, 4, 900)])
def test_moments_about_many_centers_are_those_about_each(kind, n, d, count):
    rng = np.random.default_rng(n)
    rows = rng.standard_t(1, size=(n, d)) * rng.choice([1e-9, 1.0, 1e12, 1e299], size=(n, 1))
    rows[0], rows[-1] = -1e300, 0.1
    centers = rng.normal(scale=3.0, size=(count, d))
    centers[0], centers[1] = 0.0, 1e9
    ball = kind.build(1.5, 0.7, d)
    for powers in (1, 2):
        found = ball.moments_about(rows, centers, powers=powers)
        assert found.shape == (powers, count, d)
        for t in range(0, count, 97):
            each = replace(ball, center=centers[t]).moments(rows, powers=powers).powers
            np.testing.assert_array_equal(found[:, t], each)
    # About other centers they are others.
    assert (found[:, 2:] != found[:, 1:2]).any()
