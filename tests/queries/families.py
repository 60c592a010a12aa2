"""What every family of queries must be: the matrix that its queries are the rows of."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.queries import LinearQueries


def check_family(family: LinearQueries) -> np.ndarray:
    """Check answers, their exactness and the transpose of a family against its queries, and return these."""
    matrix = np.array([family.query(j) for j in range(len(family))])
    assert matrix.shape == (family.n_queries, family.size) and np.isin(matrix, (0.0, 1.0)).all()
    assert family.is_counting and len({family.label(j) for j in range(len(family))}) == len(family)
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=family.size), rng.normal(size=len(family))
    assert family.answers(x) == pytest.approx(matrix @ x, rel=1e-12, abs=1e-12)
    assert family.transpose(w) == pytest.approx(w @ matrix, rel=1e-12, abs=1e-12)
    counts = rng.integers(2**31, size=family.size) if family.size < 64 else rng.integers(9, size=family.size)
    answers = family.answers(counts)
    assert answers.dtype == np.int64
    assert answers.tolist() == [int(row.astype(int) @ counts) for row in matrix]
    return matrix
