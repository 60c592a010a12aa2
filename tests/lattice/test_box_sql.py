"""The box in SQL gives the integers of the box in memory, for every float, at ties and beyond the ends."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpstats.data.opening import open_source
from dpstats.data.rows import Rows
from dpstats.data.schema import Schema
from dpstats.errors import InvalidData
from dpstats.lattice import base as box_sql
from dpstats.lattice.base import BoxLattice

duckdb = pytest.importorskip("duckdb")

STRANGE = [0.0, -0.0, 1e300, -1e300, 1e-300, np.finfo(float).max, -np.finfo(float).max, 5e-324]
BOXES = {
    "one clip": (3.0, 0.0, 2, False, 30),
    "clips and centers": (np.array([1.0, 7.3, 1e-5]), np.array([0.1, 1e3, 0.0]), 3, False, 30),
    "common spacing": (np.array([1.0, 0.3]), np.array([5.0, 1e7]), 2, True, 20),
    "a center far away": (0.7, 1e9, 1, False, 30),
    "a center of one far away": (1e-9, 1.0, 1, False, 30),
    "steps of a half, one and two": (np.array([4.0, 8.0, 16.0]), np.array([0.0, 1.0, 2.0]), 3, False, 3),
    "a power of two": (4.0, 1.0, 2, False, 12),
    "two steps": (0.1, 0.3, 1, False, 1),
}


def awkward(lattice: BoxLattice, n: int) -> np.ndarray:
    """Return rows at lattice points and between them, at ties, next to ties, and anywhere."""
    rng = np.random.default_rng(0)
    columns = []
    for j in range(lattice.n_features):
        center, spacing, bound = (
            np.broadcast_to(value, (lattice.n_features,))[j]
            for value in (lattice.center, lattice.spacing, lattice.bound)
        )
        steps = rng.integers(-bound - 3, bound + 4, n) + rng.choice([0, 0.5, -0.5, 0.25, 0.499999999], n)
        x = center + steps * spacing
        x = np.where(rng.random(n) < 0.1, np.nextafter(x, 0), x)
        columns.append(np.where(rng.random(n) < 0.1, rng.choice(STRANGE, n), x))
    return np.column_stack(columns)


def relation(X: np.ndarray) -> object:
    connection = duckdb.connect()
    connection.register("given", pd.DataFrame(X, columns=[f"column {j}" for j in range(X.shape[1])]))
    return connection.sql("SELECT * FROM given")


def rows_of(X: np.ndarray) -> Rows:
    source = open_source(relation(X))
    return source.read(Schema().resolve(source.names))


@pytest.mark.parametrize("name", BOXES)
def test_sums_are_those_in_memory(name: str) -> None:
    clip, center, d, common, bits = BOXES[name]
    lattice = BoxLattice.build(clip, center, d, common=common, bits=bits)
    X = awkward(lattice, 2000)
    for powers in (1, 4):
        here = lattice.moments(X, powers=powers, outside=True).all()
        there = lattice.row_moments(rows_of(X), powers=powers, outside=True).all()
        for mine, theirs in zip(here, there, strict=True):
            np.testing.assert_array_equal(mine, theirs)
            assert theirs.dtype == np.int64
    assert lattice.row_moments(rows_of(X)).outside.size == 0
    X[3, 0], X[5, -1], X[7, 0] = np.nan, np.inf, -np.inf
    here = lattice.moments(X, powers=4, outside=True, missing="center").all()
    there = lattice.row_moments(rows_of(X), powers=4, outside=True, missing="center").all()
    for mine, theirs in zip(here, there, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    with pytest.raises(InvalidData, match="contains NaN or infinity"):
        lattice.row_moments(rows_of(X))


def test_wide_tables_take_several_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(1).normal(size=(50, 7))
    lattice = BoxLattice.build(1.0, 0.0, 7, common=False)
    monkeypatch.setattr(box_sql, "_COLUMNS", 3)
    np.testing.assert_array_equal(lattice.row_moments(rows_of(X)).powers[0], lattice.sums(X)[0])


def test_ties_are_even() -> None:
    # round() of SQL is of ties away from zero: 3 in place of 2.
    X = np.array([[0.5], [1.5], [2.5], [-0.5], [-1.5]])
    lattice = BoxLattice.build(8.0, 0.0, 1, common=False, bits=3)
    assert lattice.sums(X)[0].tolist() == lattice.row_moments(rows_of(X)).powers[0].tolist() == [2]
    values = ", ".join(f"({x})" for x in X.ravel())
    assert duckdb.sql(f"SELECT sum(round(x)) FROM (VALUES {values}) t(x)").fetchall() == [(3,)]


def test_sums_beyond_the_integers_of_a_float_are_exact() -> None:
    # As arrays of numpy, sums of DuckDB would be floats.
    X = np.ones((2**23 + 2, 1))
    X[:2] = 2.0**-30
    lattice = BoxLattice.build(1.0, 0.0, 1, common=False)
    total = int(lattice.row_moments(rows_of(X)).powers[0][0])
    assert total == 2**53 + 2 and total == lattice.sums(X)[0][0]
    X[1] = 0.0
    assert int(lattice.row_moments(rows_of(X)).powers[0][0]) == 2**53 + 1 != int(float(2**53 + 1))
