"""Contrasts: an orthonormal transform, in which residuals are apart."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from scipy.linalg import helmert

from dpstats.queries.domain import Contrasts, closure, margins, places, residual, residual_coefficients, whole_factor

SHAPE = (3, 2, 5, 4)


def test_the_transform_is_orthonormal() -> None:
    x = np.random.default_rng(0).normal(size=(7, *SHAPE))
    contrasts = Contrasts(SHAPE)
    found = contrasts.coefficients(x)
    assert (found**2).sum() == pytest.approx((x**2).sum())
    assert contrasts.tables(found) == pytest.approx(x, abs=1e-12)
    assert contrasts.coefficients(x[3]) == pytest.approx(found[3], abs=1e-12)


def test_coefficients_of_a_residual_are_where_they_are_said_to_be() -> None:
    x = np.random.default_rng(1).normal(size=SHAPE)
    found = Contrasts(SHAPE).coefficients(x)
    for table, own in margins(x, closure([(0, 1, 2, 3)])):
        others = math.prod(SHAPE) // whole_factor(table, SHAPE)
        assert residual_coefficients(own) == pytest.approx(residual_coefficients(residual(own)), abs=1e-10)
        at = found[places(table, SHAPE)] * math.sqrt(others)
        assert at == pytest.approx(residual_coefficients(own), abs=1e-10)
    assert found[0, 0, 0, 0] * math.sqrt(math.prod(SHAPE)) == pytest.approx(x.sum())
    # Every coefficient belongs to one residual.
    count = sum(
        math.prod(SHAPE[j] - 1 for j in table) for k in range(5) for table in itertools.combinations(range(4), k)
    )
    assert count == x.size


@pytest.mark.parametrize("size", [33, 40, 257])
def test_many_levels_have_the_coefficients_of_the_dense_matrix(size: int) -> None:
    x, matrix = np.random.default_rng(2).normal(size=(3, size)), helmert(size, full=True)
    contrasts = Contrasts([size])
    # Sums of n terms in two orders are at most n ulps of the largest partial sum apart.
    assert contrasts.coefficients(x) == pytest.approx(x @ matrix.T, abs=1e-12)
    assert contrasts.tables(x) == pytest.approx(x @ matrix, abs=1e-12)
    assert residual_coefficients(x[0]) == pytest.approx(matrix[1:] @ x[0], abs=1e-12)
    both = np.random.default_rng(3).normal(size=(size, 5, 3))
    assert Contrasts(both.shape).tables(Contrasts(both.shape).coefficients(both)) == pytest.approx(both, abs=1e-12)


def test_memory_grows_with_the_levels_and_not_with_their_square() -> None:
    tracemalloc.start()
    x = np.random.default_rng(4).normal(size=40_000)
    Contrasts([x.size]).tables(Contrasts([x.size]).coefficients(x))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * x.nbytes  # of a matrix: 40,000 times
