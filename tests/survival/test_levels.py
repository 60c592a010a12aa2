"""Released sums: sensitivity by brute force over all pairs of rows, and least squares that are exact without noise."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.survival.cells import Cells, LeastSquares, Levels, default_bins, levels_for

SHAPES = [(1, 3), (2, 3), (3, 3), (5, 2), (9, 2), (36, 1), (49, 0)]
PLACES = (1e-9, 0.3, 0.5, 1.0)


def all_rows(m: int, n_causes: int, bits: int) -> list[tuple[float, int, int]]:
    """Return rows of every kind that moves the cells differently: time, event code, group."""
    steps = 1 << bits
    left = [(k / steps, 0) for k in range(m * steps + 1)]
    events = [(j + u, code) for j in range(m) for code in range(1, n_causes + 1) for u in PLACES]
    return [(time, code, group) for time, code in [*left, *events, (m + 1.0, 1)] for group in (0, 1)]


def vectors(levels: Levels, cells: Cells) -> np.ndarray:
    rows = all_rows(cells.n_bins, cells.n_causes, cells.bits)
    return np.array(
        [
            levels.steps(cells.totals(np.array([time]), np.array([code]), np.array([group])))
            for time, code, group in rows
        ]
    )


def furthest(found: np.ndarray, pure: bool) -> int:
    """Return the largest l1 distance of two rows, or the largest squared l2 distance."""
    worst = 0
    for row in found:
        apart = np.abs(found - row)
        worst = max(worst, int((apart if pure else apart**2).sum(axis=1).max()))
    return worst


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize(("m", "bits"), SHAPES)
def test_no_pair_of_rows_is_further_apart_than_stated_and_one_attains_it(
    m: int, bits: int, discrete: bool, pure: bool
) -> None:
    n_causes = 2 if m < 9 else 1
    cells, levels = (Cells(tuple(np.arange(m + 1.0)), n_causes, 2, bits, discrete), levels_for(m, n_causes, pure))
    integers = levels.integers(cells)
    worst = furthest(vectors(levels, cells), pure)
    if pure:
        assert worst == integers.l1
    else:
        assert worst <= integers.l2**2 < worst * 1.001 + 2 * integers.l2


@pytest.mark.parametrize("share", [0.05, 0.1])
@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("n_causes", [1, 2])
@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize(("m", "bits"), [(1, 3), (2, 3), (4, 8), (36, 0)])
def test_no_pair_of_rows_with_positions_is_further_apart_than_stated(
    m: int, bits: int, pure: bool, n_causes: int, pooled: bool, share: float
) -> None:
    cells = Cells(tuple(np.arange(m + 1.0)), n_causes, 2, bits, False, share)
    levels = levels_for(m, n_causes, pure, share, pooled)
    kinds = all_rows(m, n_causes, min(bits, 3))
    found = np.array([levels.steps(cells.totals(*(np.array([value]) for value in kind))) for kind in kinds])
    integers = levels.integers(cells)
    assert found.shape[1] == integers.size
    worst = furthest(found, pure)
    if pure:
        assert worst == integers.l1
        # The unit of noise is the same as without positions.
        assert integers.l1 == 2000 << bits
    else:
        assert worst <= integers.l2**2 < worst * 1.002 + 2 * integers.l2
        assert integers.l2 == pytest.approx(np.sqrt(2) * 1024 * 2**bits, rel=2e-3)


@pytest.mark.parametrize("n_groups", [1, 2])
@pytest.mark.parametrize("pooled", [False, True])
def test_a_release_is_split_into_cells_and_positions(n_groups: int, pooled: bool) -> None:
    rng = np.random.default_rng(0)
    n, m = 500, 3
    rows = rng.uniform(0, 4, n), rng.integers(2, size=n), rng.integers(n_groups, size=n)
    cells = Cells(tuple(np.arange(m + 1.0)), 1, n_groups, 16, False, 0.1)
    levels = levels_for(m, 1, True, 0.1, pooled)
    released = levels.steps(cells.totals(*rows)) * np.asarray(levels.integers(cells).spacing)
    sums, positions = levels.split_release(np.array([released, released]), n_groups)
    assert positions is not None and positions.shape == (2, 1 if pooled else n_groups, 2, m)
    assert np.allclose(sums[0], (cells.count(*rows) / 2.0**16 @ levels.sums.T).ravel())
    u = rows[0] - np.floor(rows[0])
    for group in range(1 if pooled else n_groups):
        for j in range(m):
            here = (np.floor(rows[0]) == j) & (pooled | (rows[2] == group))
            X, Q = (u - 0.5)[here & (rows[1] == 1)].sum(), (u * (1 - u))[here & (rows[1] == 0)].sum()
            assert positions[0, group, :, j] == pytest.approx([X, Q], abs=1e-3)


@pytest.mark.parametrize("pure", [True, False])
def test_a_row_that_counts_twice_would_be_noticed(pure: bool) -> None:
    cells, levels = Cells((0.0, 1.0, 2.0, 3.0), 1, 2, 2), levels_for(3, 1, pure)
    found = vectors(levels, cells)
    censored = next(i for i, (t, code, _) in enumerate(all_rows(3, 1, 2)) if code == 0 and t == 1.5)
    found[censored] *= 2
    integers = levels.integers(cells)
    assert furthest(found, pure) > (integers.l1 if pure else integers.l2**2)


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("m", [1, 2, 8, 33, 50])
def test_every_cell_has_the_same_weight_in_its_tree_and_shares_are_used_up(m: int, pure: bool) -> None:
    levels = levels_for(m, 2, pure)
    path = levels.weights @ levels.sums if pure else levels.weights**2 @ levels.sums
    events, edges = set(path[: 2 * m].tolist()), set(path[2 * m :].tolist())
    assert len(events) == len(edges) == 1
    whole = 100 if pure else 1024**2
    for (total,) in (events, edges):
        assert total == whole if pure else abs(total / whole - 1) < 2e-3


def least_squares(m: int, n_causes: int, n_groups: int, pure: bool) -> tuple[Levels, np.ndarray, LeastSquares]:
    levels = levels_for(m, n_causes, pure)
    std = 3.0 / levels.weights
    return levels, std, LeastSquares.build(levels, std, n_groups)


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("m", [1, 4, 40])
def test_least_squares_are_exact_without_noise(m: int, pure: bool) -> None:
    levels, _, found = least_squares(m, 2, 3, pure)
    counts = np.random.default_rng(m).integers(50, size=(3, 3 * m + 1))
    released = (counts @ levels.sums.T).ravel().astype(float)
    assert np.allclose(found.cells(released, counts.sum()), counts)


@pytest.mark.parametrize("pure", [True, False])
def test_the_covariance_is_that_of_simulated_noise(pure: bool) -> None:
    _, std, found = least_squares(6, 1, 3, pure)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(20_000, 3, std.size)) * std
    cells = found.cells(noise.reshape(20_000, -1), 0.0)
    assert np.allclose(cells.sum(axis=(1, 2)), 0, atol=1e-9)
    own = np.cov(cells[:, 0].T)
    across = cells[:, 0].T @ cells[:, 1] / len(cells)
    scale = np.sqrt(np.outer(np.diag(found.own), np.diag(found.own)))
    # 200 entries, each with a standard error of at most 0.01 of the scale: six of them fail in fewer than 1e-6 of runs.
    assert np.abs((own - found.own) / scale).max() < 0.06
    assert np.abs((across + np.outer(found.shared, found.shared)) / scale).max() < 0.06
    drawn = found.draw("gaussian", std, 20_000)
    assert np.abs((np.cov(drawn.T) - found.own) / scale).max() < 0.06


def test_a_single_group_has_a_total_without_noise() -> None:
    _, _, found = least_squares(5, 1, 1, True)
    total = np.ones(len(found.own)) @ found.own @ np.ones(len(found.own))
    assert abs(total) < 1e-9 * found.own.max()


def test_the_default_number_of_bins_goes_by_public_facts() -> None:
    assert default_bins(5000, 1.0, 1) == 50 and default_bins(5000, 1.0, 2) == 25
    assert default_bins(200, 1.0, 1) == 8 and default_bins(10**9, 1e5, 1) == 50
    assert default_bins(5000, 0.2, 1) == 8
