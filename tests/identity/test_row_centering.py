"""The row-centered kernel: g against enumeration, the same bits at every place, windows, and a mean of zero."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpstats.identity.row_distance_statistic import RowCentering, row_centering

STEPS = 256


def columns(means: list[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    m = np.array(means)
    root = np.sqrt(1 - m**2)
    high, low = np.rint(STEPS * (1 - m) / root), np.rint(STEPS * (-1 - m) / root)
    return high.astype(np.int64), low.astype(np.int64), (1 + m) / 2


def enumerated(means: list[float], clip: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return all rows, their probabilities and E clip(<x, y>) of each, by definition."""
    high, low, up = columns(means)
    bits = np.array(list(itertools.product((True, False), repeat=len(means))))
    rows = np.where(bits, high, low)
    chances = np.prod(np.where(bits, up, 1 - up), axis=1)
    return rows, chances, np.clip((rows @ rows.T).astype(float), -clip, clip) @ chances


@pytest.mark.parametrize("means", [[0.5], [0.9, -0.9], [0.5, 0.5, 0.5, 0.99], [-0.3, 0.7, 0.2, 0.9, 0.0]])
def test_the_table_is_the_conditional_mean(means: list[float]) -> None:
    clip = round(STEPS**2 * np.sqrt(len(means)))
    rows, chances, exact = enumerated(means, clip)
    centering = RowCentering(*columns(means), clip)
    assert np.array_equal(centering.terms(rows.astype(float)), np.rint(exact))
    assert centering.mean == round(float(chances @ exact))
    window = centering.window(10**9)
    G = np.clip(rows @ rows.T, -clip, clip) - np.rint(exact)[:, None] - np.rint(exact) + centering.mean
    # So many rows leave nothing to cut off; the square is that of what is left.
    assert window.low <= G.min() + 1 and G.max() - 1 <= window.high
    assert window.square == pytest.approx(chances @ G**2 @ chances, rel=1e-9)
    assert abs(chances @ G @ chances) <= 2


@pytest.mark.parametrize("means", [[0.5] * 13, [0.9] * 13, np.linspace(-0.9, 0.9, 13).tolist()])
def test_the_integral_is_the_conditional_mean(means: list[float]) -> None:
    """To a two-hundredth of the clip, as far as the nodes reach; its mean is exact, or n^2 products would show it."""
    clip = round(STEPS**2 * np.sqrt(len(means)))
    rows, chances, exact = enumerated(means, clip)
    centering = RowCentering(*columns(means), clip)
    found = centering.terms(rows.astype(np.float32))
    assert np.sqrt(chances @ (found - exact) ** 2) < clip / 500
    assert np.abs(found - exact)[chances > 1e-9].max() < clip / 100
    mean = chances @ exact - 2 * chances @ found + centering.mean
    assert abs(mean) < clip / 5000


def test_a_term_is_the_same_bits_wherever_its_row_is() -> None:
    """In blocks of any size, at any place, in any memory order and type: else one row would move others' products."""
    rng = np.random.default_rng(0)
    for d in (5, 13, 30, 300):
        means = rng.uniform(-0.9, 0.9, d)
        high, low, up = columns(means.tolist())
        centering = row_centering(high, low, up, round(STEPS**2 * np.sqrt(d)))
        rows = np.where(rng.random((2500, d)) < up, high, low).astype(np.float32)
        whole = centering.terms(rows)
        assert np.ptp(whole) > 0
        for order in (rng.permutation(2500), np.arange(2500)[::-1]):
            assert np.array_equal(centering.terms(rows[order]), whole[order])
        assert np.array_equal(centering.terms(np.asfortranarray(rows.astype(np.float64))), whole)
        for start, stop in ((0, 1), (7, 8), (1023, 1026), (100, 1300)):
            assert np.array_equal(centering.terms(rows[start:stop]), whole[start:stop])
        # No row but the first differs, and no term but the first.
        changed = rows.copy()
        changed[0] = high
        assert np.array_equal(centering.terms(changed)[1:], whole[1:])


def test_a_product_of_matrices_is_not_the_same_bits() -> None:
    """What the fixed order is for: sums of the same rows by a matrix product, alone and among others."""
    rng = np.random.default_rng(1)
    rows, weights = rng.standard_normal((4000, 64)), rng.standard_normal((64, 3))
    whole = rows @ weights
    assert any(not np.array_equal(rows[i : i + 1] @ weights, whole[i : i + 1]) for i in range(4000))


def test_windows_narrow_where_few_rows_cannot_tell() -> None:
    centering = RowCentering(*columns([0.5] * 20), round(STEPS**2 * np.sqrt(20)))
    windows = [centering.window(n) for n in (10, 300, 10_000)]
    widths = [window.high - window.low for window in windows]
    assert widths == sorted(widths) and widths[0] < widths[2]
    assert all(window.low <= 0 <= window.high for window in windows)
