"""Sums over rows mapped into a ball: the integers of numpy, and a list of rows that need its order of operations."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from dpstats.lattice import products
from dpstats.lattice.products import (
    BallMap,
    Wanted,
    compute_room,
    dyadic,
    factor_bits,
    gram,
    inside_ball,
    sum_mapped,
    to_panels,
)

has_numba = importlib.util.find_spec("numba") is not None


@pytest.fixture(params=["python", pytest.param("numba", marks=pytest.mark.skipif(not has_numba, reason="no numba"))])
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(products, "_loop", lambda: products.add_rows)
        monkeypatch.setattr(products, "_LINE", 8)


def identity(p: int, steps: int, size: float) -> BallMap:
    return BallMap(np.eye(p), np.zeros(p), size, 1.0, steps)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("p", [1, 3, 8])
def test_every_sum_is_that_of_the_same_rows(p: int) -> None:
    rng, bits = np.random.default_rng(p), 20
    X = rng.normal(size=(150, p)) * 10.0 ** rng.uniform(-3, 1, (150, 1))
    X[3], X[5], X[7] = np.nan, np.inf, 0.0
    to = identity(p, 2**bits, 2**bits - np.sqrt(p) / 2 - 1)
    parts, weights, signs = rng.uniform(-1, 1, 150), rng.random(150), np.where(rng.random(150) < 0.5, 1.0, -1.0)
    constants = np.array([500.0, 20.0])
    wanted = Wanted(constants, signs, True, weights, parts, gradient=True, meat=True, bits=bits, powers=True)
    found = sum_mapped(X, to, wanted)
    kept = np.setdiff1d(np.arange(150), found.left)
    assert {3, 5} <= set(found.left.tolist()) and len(kept) > 100
    X, parts, weights, signs = X[kept], parts[kept], weights[kept], signs[kept]
    longest = np.maximum(np.sqrt((X**2).sum(axis=1)), 1.0)
    k = inside_ball(X, longest, 2**bits)
    v = np.rint(parts / longest * 2.0**bits)
    extended = np.column_stack([np.full(len(k), 500.0), 20.0 * signs, k])
    assert np.array_equal(found.products, gram(extended))
    assert np.array_equal(found.weighted[2:, 2:], gram(np.rint(k * weights[:, None])))
    assert np.array_equal(found.meat[2:, 2:], gram(np.rint(k * v[:, None] * 2.0**-bits)))
    assert np.array_equal(found.gradient, v @ k)
    assert np.array_equal(found.fourths, (np.rint(k**2 * 2.0**-bits) ** 2).sum(axis=0))
    assert found.norms == (np.rint((k**2).sum(axis=1) * 2.0**-bits) ** 2).sum()
    assert found.beyond == np.count_nonzero(longest > 1.0)


@pytest.mark.usefixtures("loop")
def test_rows_near_half_a_step_are_left_out() -> None:
    # Errors of floats may reach 2e-12 steps, and some rows are nearer to half a step than that.
    X = np.array([[0.25], [0.5 + 2.0**-11], [0.5 + 2.0**-11 + 2.0**-50], [0.5 + 2.0**-11 + 2.0**-20], [2.0]])
    found = sum_mapped(X, identity(1, 2**10, 1024.0), Wanted(products=True))
    assert found.left.tolist() == [1, 2]
    assert found.products[0, 0] == 256**2 + 513**2 + 1024**2


@pytest.mark.usefixtures("loop")
def test_rows_outside_their_ball_are_left_out() -> None:
    # The map leaves no room for rounding: 723.66 twice becomes 724 twice, which is longer than 1,023.4.
    X = np.array([[0.7071, 0.7071], [0.5, 0.5]])
    found = sum_mapped(X, identity(2, 1023, 1023.4), Wanted(products=True))
    assert found.left.tolist() == [0]


@pytest.mark.usefixtures("loop")
def test_rows_whose_length_errors_decide_are_left_out_of_counts() -> None:
    X = np.array([[0.6, 0.8], [0.6, 0.81], [0.3, 0.4]])
    to = identity(2, 2**20, 2**20 - 3.25)
    found = sum_mapped(X, to, Wanted(products=True, powers=True, bits=20))
    assert found.left.tolist() == [0] and found.beyond == 1
    assert sum_mapped(X, to, Wanted(products=True)).left.size == 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("loop")
def test_errors_of_an_inexact_map_are_within_their_bounds() -> None:
    # Rows are compared with rational numbers: sums of two orders differ by no more than both from these.
    rng = np.random.default_rng(0)
    d, size = 5, 2.0**20
    matrix, center, half = rng.normal(size=(d, d)), rng.normal(size=d), rng.uniform(0.1, 9.0, d)
    X = rng.normal(size=(400, d)) * 3
    for limit in (1.0, 1e6):
        to = BallMap(matrix, rng.normal(size=d), size, 1.0, 2**20, center, 1 / half, limit, exact=False)
        spread, error, grow = to.errors
        with np.errstate(all="ignore"):
            Z = np.clip((X.astype(np.longdouble) - center) / half, -limit, limit)
            exact = Z @ matrix.T.astype(np.longdouble) + to.constant
            near = np.clip((X - center) / half, -limit, limit) @ matrix.T + to.constant
        longest = np.maximum(np.sqrt((exact**2).sum(axis=1)), 1.0)[:, None]
        other = np.maximum(np.sqrt((near**2).sum(axis=1)), 1.0)[:, None]
        reach = np.maximum(np.abs(Z).max(axis=1, keepdims=True), 1.0)
        bound = (spread * reach + error * longest) / longest * np.where(longest > 1, grow, 1.0)
        assert (np.abs(exact * size / longest - near * (size / other)) <= bound / 2).all()


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("d", [1, 2, 3, 5, 33])
def test_sums_do_not_depend_on_layout_nor_on_zero_squares_of_the_matrix(d: int) -> None:
    rng, bits = np.random.default_rng(d), 20
    for n in (1, 7, 129, 256):
        base = np.rint(rng.normal(size=(2 * n, 2 * d)) * 2.0**17)
        for matrix in (
            rng.normal(size=(d, d)),
            np.eye(d),
            np.where(np.arange(d) < d // 2, 0.0, rng.normal(size=(d, d))),
        ):
            exact = dyadic(matrix * 2.0**-18, factor_bits(d, 23))
            to = BallMap(exact, np.zeros(d), 2.0**bits - compute_room(d, "l2"), 0.6, 2**bits)
            roots = np.sqrt(rng.random(n)) if n > 7 else None
            for rows in (
                base[:n, :d],
                base[::2, ::2],
                np.asfortranarray(base[:n, :d]),
                base[:n, :d].astype(np.float32),
            ):
                w = rows.astype(np.float64) @ exact.T
                longest = np.maximum(np.sqrt((w**2).sum(axis=1)), 0.6) / (1.0 if roots is None else roots)
                k = np.rint(w * (to.size / longest)[:, None]).astype(np.int64)
                for given, count in ((rows, None), (to_panels(rows), n)):
                    found = sum_mapped(given, to, Wanted(products=True, roots=roots), count)
                    own = np.delete(k, found.left, axis=0)
                    assert np.array_equal(found.products, own.T @ own)
                    assert d == 1 or found.left.size < n / 20 + 1  # long rows of one entry are at half a step
