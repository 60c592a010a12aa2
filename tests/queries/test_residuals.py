"""Residuals: whole numbers that tables are sums of, and their variances."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpstats.queries.domain import added_up, cell_variance, closure, margins, residual, whole_factor, whole_residual

SHAPE = (2, 3, 4)
TABLES = [(0, 1), (1, 2)]


def test_parts_are_all_subsets_of_tables() -> None:
    assert closure([(0, 2), (1,)]) == ((0,), (1,), (2,), (0, 2))


def test_tables_are_sums_of_their_residuals() -> None:
    x = np.random.default_rng(0).integers(99, size=SHAPE)
    exact = dict(margins(x, closure([(0, 1, 2)])))
    parts = {table: residual(counts.astype(float)) for table, counts in exact.items()}
    for table, counts in exact.items():
        whole = whole_residual(counts)
        assert whole.dtype == np.int64
        # Exact: each is the number of cells times what real numbers give.
        assert whole / whole_factor(table, SHAPE) == pytest.approx(parts[table], abs=1e-10)
        assert added_up(parts, table, SHAPE, float(x.sum())) == pytest.approx(counts, abs=1e-9)


def test_the_variance_of_a_cell_is_that_of_simulated_noise() -> None:
    rng = np.random.default_rng(1)
    weights = {part: 0.5 + i for i, part in enumerate(closure(TABLES))}
    size, drawn = 4000, {}
    for part, weight in weights.items():
        noise = rng.normal(scale=weight**-0.5, size=(size, *(SHAPE[j] for j in part)))
        drawn[part] = residual(noise, range(1, noise.ndim))
    for table in TABLES:
        found = [added_up({p: noise[i] for p, noise in drawn.items()}, table, SHAPE, 0.0) for i in range(size)]
        variance = cell_variance(weights, table, SHAPE)
        # The mean of 6 or 12 estimated variances, each to within 2%.
        assert np.var(found, axis=0).mean() == pytest.approx(variance, rel=0.05)
        assert np.var(found, axis=0).mean() != pytest.approx(1.15 * variance, rel=0.05)


def test_an_entry_of_a_residual_is_bounded() -> None:
    for counts in itertools.product((0, 7), repeat=6):
        table = np.array(counts).reshape(2, 3)
        assert np.abs(whole_residual(table)).max() <= table.sum() * 6
