"""Marginals by residuals: exact integers of rows, of counts and of large domains, and answers that are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.data.rows import Table
from dpstats.errors import InvalidParameter
from dpstats.queries import LinearQueries, residual_release
from dpstats.queries.domain import Domain, MarginalQueries
from dpstats.queries.residual_release import RESIDUALS, ResidualRelease
from tests.queries.reading import private_table

SHAPE = (2, 3, 4)
CODES = np.random.default_rng(0).integers(0, SHAPE, size=(60, 3))


def release(k: Any = 2) -> ResidualRelease:
    queries = LinearQueries.marginals(SHAPE, k)
    assert isinstance(queries, MarginalQueries)
    return ResidualRelease(queries, len(CODES))


def exact(made: ResidualRelease, table: Any) -> dict[str, Any]:
    return {name: steps.tolist() for name, steps in made.integers(table)[RESIDUALS].items()}


def test_integers_are_the_same_of_rows_of_counts_and_without_the_whole_table(monkeypatch: pytest.MonkeyPatch) -> None:
    made, domain = release(), Domain(SHAPE)
    whole = exact(made, Table(CODES))
    assert exact(made, private_table(domain.histogram(CODES), domain, declared=True)) == whole
    monkeypatch.setattr(residual_release, "FULL_TABLE", 0)
    assert exact(made, Table(CODES)) == whole
    # Counts are no rows, however many cells there are, and whether the domain was declared or not.
    counts = domain.histogram(CODES)
    assert exact(made, private_table(counts, domain, declared=True)) == whole
    assert exact(made, private_table(counts.reshape(SHAPE), domain, declared=False)) == whole
    assert made.fitted({}, None, "mean") is None  # type: ignore[arg-type]


def test_answers_without_noise_are_exact() -> None:
    made = release((1, 2, 3))
    steps = made.integers(Table(CODES))[RESIDUALS]
    blocks = {block.name: block for block in made.items().blocks}
    released = {RESIDUALS: {name: values * blocks[name].spacing for name, values in steps.items()}}
    truth = made.queries.answers(Domain(SHAPE).histogram(CODES))
    assert made.linear(released) == pytest.approx(truth, abs=1e-6)


def test_steps_are_whole_multiples_of_the_residuals_and_fit_64_bits() -> None:
    made = release(3)
    for table, block in zip(made.weights, made.items().blocks, strict=True):
        cells = np.prod([SHAPE[j] for j in table])
        assert (1 / block.spacing) % cells == 0 and block.size == cells
        assert len(CODES) / block.spacing < 2**62
    huge = ResidualRelease(made.queries, 2**31)
    assert all(2**31 / block.spacing < 2**62 for block in huge.items().blocks)


def test_a_table_of_too_many_cells_is_refused() -> None:
    queries = LinearQueries.marginals((2,) * 25, 25)
    assert isinstance(queries, MarginalQueries)
    with pytest.raises(InvalidParameter, match="tables of at most 16,777,216 cells, got 33,554,432"):
        _ = ResidualRelease(queries, 10).weights
