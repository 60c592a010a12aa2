"""Lattices, rows that try them, and sums in Python integers, which the tests of the lattice share."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from dpstats.lattice import BITS, BallLattice, BoxLattice

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=150)
SEEDS = st.integers(0, 2**32 - 1)
CLIPS = np.array([0.5, 3.0, 1e-3, 7e4])
CENTERS = np.array([0.0, -2.5, 1e-2, 3e4])
LATTICES = {
    "box": BoxLattice.build(2.0, 0.0, 4, common=False),
    "box, centered": BoxLattice.build(0.7, 0.3, 4, common=False),
    "box, per column": BoxLattice.build(CLIPS, CENTERS, 4, common=False),
    "box, one spacing": BoxLattice.build(CLIPS, CENTERS, 4, common=True),
    "ball": BallLattice.build(2.0, 0.0, 4),
    "ball, centered": BallLattice.build(0.7, 0.3, 4),
    "ball, centers": BallLattice.build(3.0, CENTERS, 4),
}
every_lattice = pytest.mark.parametrize("lattice", LATTICES.values(), ids=LATTICES)


def rows_for(lattice, n, seed=0):
    """Rows inside, near and far outside the region."""
    rng = np.random.default_rng(seed)
    unit = np.asarray(lattice.spacing) * 2.0**BITS
    return lattice.center + unit * rng.standard_t(2, size=(n, lattice.n_features))


def largest(lattice):
    """The most steps of each column from the center, as Python integers."""
    return np.broadcast_to(lattice.largest, (lattice.n_features,)).tolist()


def python_moments(lattice, X):
    """Sums of the powers of the steps, in Python integers."""
    columns = zip(*lattice.round_rows(X).tolist(), strict=True)
    sums = []
    for column, K in zip(columns, largest(lattice), strict=True):
        second = [k * k // K for k in column]
        third = [k * s // K for k, s in zip(column, second, strict=True)]
        sums.append([sum(column), sum(second), sum(third), sum(s * s // K for s in second)])
    return [list(power) for power in zip(*sums, strict=True)]


def python_sums(lattice, X):
    return tuple(python_moments(lattice, X)[:2])


def extreme_rows(lattice):
    """Corners of the region, far outside, huge, tiny, the center, spikes, the face's middle."""
    d = lattice.n_features
    unit = np.broadcast_to(np.asarray(lattice.spacing) * 2.0**BITS, d)
    rows = [lattice.center + np.array(s) * unit for s in itertools.product([-1.0, 0.0, 1.0], repeat=d)]
    rows += [
        lattice.center + scale * np.array(s) for s in itertools.product([-1, 1], repeat=d) for scale in (1e308, 1e-300)
    ]
    rows += [lattice.center + sign * big * unit * axis for axis in np.eye(d) for sign in (-1, 1) for big in (1, 1e9)]
    rows += [lattice.center + np.array(s) * unit / math.sqrt(d) for s in itertools.product([-1, 1], repeat=d)]
    return np.array([np.broadcast_to(row, d) for row in rows])


def largest_distances(steps):
    """Over all pairs, in Python integers: the largest l1 and squared l2 distance."""
    l1 = l2 = 0
    for a, b in itertools.combinations([tuple(row) for row in {tuple(r) for r in steps}], 2):
        gaps = [x - y for x, y in zip(a, b, strict=True)]
        l1, l2 = max(l1, sum(map(abs, gaps))), max(l2, sum(g * g for g in gaps))
    return l1, l2


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
