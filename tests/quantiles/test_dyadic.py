"""Counts in halves of halves: against definitions, and least squares against the normal equations."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.quantiles.distribution import consistent_leaves, height_of, tree_counts


def nodes_of(height: int) -> np.ndarray:
    """Return which leaves are below each node."""
    leaves = np.arange(1 << height)
    return np.array([leaves >> (height - k) == v for k in range(1, height + 1) for v in range(1 << k)])


def test_counts_are_of_the_leaves_below_a_node() -> None:
    codes = np.random.default_rng(0).integers(8, size=100)
    leaves = np.bincount(codes, minlength=8)
    assert tree_counts(codes, 3).tolist() == (nodes_of(3) @ leaves).tolist()
    assert [height_of(cells) for cells in (1, 2, 3, 8, 9, 1024)] == [1, 1, 2, 3, 4, 10]


@pytest.mark.parametrize("height", [1, 2, 4])
def test_leaves_solve_the_normal_equations(height: int) -> None:
    A = nodes_of(height).astype(float)
    nodes = np.random.default_rng(height).normal(size=(3, len(A)))
    size = 1 << height
    # Least squares with the sum of the leaves known, by its multiplier.
    matrix = np.block([[A.T @ A, np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
    for row, found in zip(nodes, consistent_leaves(nodes, height, 7.0), strict=True):
        expected = np.linalg.solve(matrix, np.append(A.T @ row, 7.0))[:size]
        np.testing.assert_allclose(found, expected, atol=1e-12)
    exact = tree_counts(np.arange(size), height).astype(float)
    np.testing.assert_allclose(consistent_leaves(exact, height, size), np.ones(size), atol=1e-12)


@pytest.mark.parametrize("height", [1, 3])
def test_a_noisy_root_is_one_more_node(height: int) -> None:
    A = np.vstack([np.ones(1 << height), nodes_of(height)])
    nodes = np.random.default_rng(height).normal(size=(2, len(A)))
    for row, found in zip(nodes, consistent_leaves(nodes, height, None), strict=True):
        np.testing.assert_allclose(found, np.linalg.lstsq(A, row)[0], atol=1e-12)
    codes = np.random.default_rng(0).integers(1 << height, size=40)
    assert tree_counts(codes, height, root=True).tolist() == [40, *tree_counts(codes, height)]
