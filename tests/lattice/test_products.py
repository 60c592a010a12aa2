"""Sums of products of integer rows: exact, whatever the blocks, threads and order of the arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import ScaleOutOfRange
from dpstats.lattice import products
from dpstats.lattice.products import (
    ROW_BITS,
    ROWS,
    above_diagonal,
    compute_room,
    dyadic,
    factor_bits,
    finest,
    gram,
    inside_ball,
    multiply,
    powered_norms,
    row_bits,
    summed,
    weighted,
)


def largest_rows(n: int, p: int) -> np.ndarray:
    """Return rows of the largest norm: what a block adds up is as large as it can be."""
    rows = np.zeros((n, p))
    rows[:, 0] = 2.0**ROW_BITS
    return rows


def test_the_largest_block_adds_up_exactly() -> None:
    rows = largest_rows(ROWS, 3)
    rows[1:, 0] -= 1
    exact = sum(int(k) ** 2 for k in rows[:, 0])
    assert gram(rows)[0, 0] == exact
    assert weighted(rows[:, 0], rows)[0] == exact


def test_more_rows_than_a_product_holds_add_up_exactly() -> None:
    rows = largest_rows(3 * ROWS + 1, 3)
    rows[1:, 0] -= 1
    exact = sum(int(k) ** 2 for k in rows[:, 0])
    assert exact > 2**53
    assert gram(rows)[0, 0] == exact
    assert weighted(rows[:, 0], rows)[0] == exact


@pytest.mark.parametrize("p", [0, 1, 5, 16, 21, 28, 29, 1500])
@pytest.mark.parametrize("n", [0, 1, 100, ROWS])
def test_quick_products_are_those_of_numpy(n: int, p: int) -> None:
    rows = np.rint(np.random.default_rng(p).normal(size=(n, p)) * 1000)
    matrix = np.rint(np.random.default_rng(p).normal(size=(3, p)) * 1000)
    assert np.array_equal(gram(rows), (rows.T @ rows).astype(np.int64))
    assert np.array_equal(gram(rows[:, ::2]), (rows[:, ::2].T @ rows[:, ::2]).astype(np.int64))
    for kind in (np.float64, np.float32):
        assert np.array_equal(multiply(rows.astype(kind), matrix), rows @ matrix.T)


@pytest.mark.parametrize("compiled", [True, False])
def test_the_loop_adds_up_the_same_products(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "is_compiled", lambda rows: True)
    if not compiled:
        monkeypatch.setattr(products, "_loop", lambda: products.add_rows)
        monkeypatch.setattr(products, "_LINE", 16)
    for n, p in ((1, 1), (64, 2), (129, 3), (65, 4), (200, 7)):
        rows = np.rint(np.random.default_rng(n).normal(size=(2 * n, 2 * p)) * 1000)
        for part in (rows[:n, :p], rows[::2, ::2]):
            assert np.array_equal(gram(part), (part.T @ part).astype(np.int64))
    # The sums of a block are below 2^53, and the sum of all blocks is not.
    monkeypatch.setattr(products, "ROWS", 70)
    rows = np.full((200, 2), 11e6) - np.arange(200)[:, None] % 3
    whole = rows.astype(np.int64)
    assert np.array_equal(gram(rows), whole.T @ whole)


def test_gram_is_that_of_python_integers() -> None:
    rng = np.random.default_rng(0)
    rows = inside_ball(rng.normal(size=(50, 4)), 10.0, 2**ROW_BITS)
    integers = [[int(k) for k in row] for row in rows]
    found = gram(rows)
    for i in range(4):
        for j in range(4):
            assert found[i, j] == sum(row[i] * row[j] for row in integers)


@pytest.mark.parametrize("n", [1, 4096, 2**22, 2**23, 2**40])
def test_sums_stay_in_64_bits(n: int) -> None:
    assert n * 4 ** row_bits(n) <= 2**62
    # And are no coarser than that needs.
    assert row_bits(n) == ROW_BITS or n * 4 ** (row_bits(n) + 2) > 2**62


@pytest.mark.parametrize("p", [1, 2, 5, 64, 65])
def test_products_with_a_public_matrix_are_exact(p: int) -> None:
    bits = 23
    rng = np.random.default_rng(p)
    matrix = dyadic(rng.normal(size=(3, p)) * 10.0 ** rng.integers(-6, 6, (3, 1)), factor_bits(p, bits))
    rows = rng.integers(-(2**bits), 2**bits, (20, p)).astype(float)
    forward, backward = rows @ matrix.T, rows[:, ::-1] @ matrix[:, ::-1].T
    assert np.array_equal(forward, backward)
    from fractions import Fraction

    for i in range(20):
        for j in range(3):
            exact = sum(Fraction(a) * Fraction(b) for a, b in zip(rows[i], matrix[j], strict=True))
            assert Fraction(forward[i, j]) == exact


def test_dyadic_is_close_and_keeps_zero() -> None:
    matrix = np.array([[1e-9, 3e-9], [0.0, 0.0]])
    found = dyadic(matrix, 26)
    assert np.allclose(found[0], matrix[0], rtol=1e-7)
    assert not found[1].any()
    assert dyadic(np.zeros((2, 0)), 26).shape == (2, 0)


def test_rows_stay_inside_their_ball() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(2000, 7))
    norms = np.linalg.norm(rows, axis=1)
    found = inside_ball(rows, norms, 2**10)  # every row on the sphere, on coarse steps
    squares = (found.astype(int) ** 2).sum(axis=1)
    assert squares.max() <= 4**10
    assert squares.min() > 4**10 * 0.99


def test_rows_stay_inside_their_ball_in_l1() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(2000, 7))
    norms = powered_norms(rows, "l1")
    assert np.allclose(norms, np.linalg.norm(rows, 1, axis=1))
    found = inside_ball(rows, norms, 2**10, "l1")
    sums = np.abs(found.astype(int)).sum(axis=1)
    assert sums.max() <= 2**10
    assert sums.min() > 2**10 * 0.98
    assert not inside_ball(np.full((1, 2), 0.6), 1.0, 2**10, "l1").any()
    # Which the ball of l2 would let through.
    assert inside_ball(np.full((1, 2), 0.6), 1.0, 2**10).all()


def test_the_room_for_rounding_is_half_a_step_of_each_entry_and_one_step() -> None:
    # Rounding moves each of p entries by at most half a step: sqrt(p)/2 in l2, p/2 in l1.
    assert [compute_room(p, "l2") for p in (1, 4, 9)] == [1.5, 2.0, 2.5]
    assert [compute_room(p, "l1") for p in (1, 4, 9)] == [1.5, 3.0, 5.5]


def test_a_row_that_is_beyond_its_radius_becomes_zero() -> None:
    found = inside_ball(np.array([[3.0, 0.0], [1.0, 0.0], [np.nan, 1.0]]), 1.0, 2**10)
    assert not found[0].any()
    assert found[1].any()
    assert not found[2].any()


def test_sums_do_not_depend_on_blocks() -> None:
    n = 3 * ROWS + 17
    values = np.arange(n)
    found = summed(lambda where: {"sum": np.array([values[where].sum()])}, n, 10**6)
    assert found["sum"][0] == n * (n - 1) // 2


def test_places_above_the_diagonal_go_row_by_row() -> None:
    rows, columns = above_diagonal(3)
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == [(0, 1), (0, 2), (1, 2)]


def test_the_finest_lattice_is_taken_on_which_noise_can_be_drawn() -> None:
    tried: list[int] = []

    def made(bits: int) -> int:
        tried.append(bits)
        if bits > 15:
            raise ScaleOutOfRange("too fine")
        return bits

    assert finest(made, 20) == 14
    assert tried == [20, 18, 16, 14]
    with pytest.raises(ScaleOutOfRange):
        finest(lambda bits: (_ for _ in ()).throw(ScaleOutOfRange("never")), 12)
