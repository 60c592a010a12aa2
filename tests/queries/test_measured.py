"""What was measured: chi-square of noisy residuals, and its gradient."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.queries.domain import closure, margins, residual
from dpstats.queries.workload import measured

SHAPE, N = (2, 3, 2), 50


def test_chi_square_is_the_sum_over_residuals() -> None:
    rng = np.random.default_rng(0)
    weights = {table: 0.5 + i for i, table in enumerate(closure([(0, 1), (2,)]))}
    noisy = {t: residual(rng.normal(size=[SHAPE[j] for j in t])) for t in weights}
    known = measured(noisy, weights, SHAPE, N)
    p = rng.dirichlet(np.ones(12), size=1)
    (misfit,), (gradient,) = known.evaluate()(p)

    def half_chi_square(q: np.ndarray) -> float:
        parts = dict(margins(N * q.reshape(SHAPE), tuple(weights)))
        return sum(w * ((residual(parts[t]) - noisy[t]) ** 2).sum() / 2 for t, w in weights.items())

    assert misfit == pytest.approx(half_chi_square(p[0]))
    step = 1e-6 * np.eye(12)
    differences = [(half_chi_square(p[0] + s) - half_chi_square(p[0] - s)) / 2e-6 for s in step]
    assert gradient == pytest.approx(differences, rel=1e-5, abs=1e-4)
    # 1 + 2 + 2 of (0,), (1,), (0, 1), and 1 of (2,).
    assert known.degrees_of_freedom == 6
