"""Private rows or counts of cells: which of them was given, and that both are the same."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dpstats.data.opening import is_histogram, read_counts
from dpstats.errors import InvalidData
from dpstats.queries import Domain
from dpstats.queries.domain import counts_of, domain_schema
from tests.queries.reading import private_table

DOMAIN = Domain((2, 3))


def test_rows_and_their_counts_are_the_same_table() -> None:
    codes = np.random.default_rng(0).integers(0, [2, 3], size=(50, 2))
    counts = DOMAIN.histogram(codes)
    rows = private_table(codes, DOMAIN, declared=True)
    for counted in (
        private_table(counts, DOMAIN, declared=True),
        private_table(counts.reshape(2, 3), DOMAIN, declared=False),
    ):
        assert counted.shape == (50, 6) and rows.shape == (50, 2)
        assert np.array_equal(counts_of(counted, DOMAIN.shape), counts_of(rows, DOMAIN.shape))


def test_rows_of_one_attribute_are_never_taken_for_counts() -> None:
    table = private_table(np.array([1, 0, 1]), Domain([3]), declared=True)
    assert table.shape == (3, 1) and counts_of(table, (3,)).tolist() == [1, 2, 0]
    schema = domain_schema(DOMAIN)
    assert is_histogram(np.arange(6), schema) and not is_histogram(np.arange(6.0), schema)
    assert not is_histogram([0, 1, 2, 3, 4, 5], schema)
    # As many rows as there are levels, and neighbors of theirs: three rows, however they are written.
    for rows in itertools.product(range(3), repeat=3):
        for given in (np.array(rows), np.array(rows)[:, None]):
            counts = np.bincount(rows, minlength=3).tolist()
            assert private_table(given, Domain([3]), declared=True).shape == (3, 1)
            assert counts_of(private_table(given, Domain([3]), declared=True), (3,)).tolist() == counts
    # A histogram is given without the domain.
    assert read_counts(np.array([0, 1, 1])).shape == (2, 3)


@pytest.mark.parametrize("counts", [np.ones(5, int), np.array([1, 1, 1, 1, 1, -1]), np.zeros(6, int), np.full(6, 0.5)])
def test_bad_counts_are_refused(counts: Any) -> None:
    with pytest.raises(InvalidData):
        private_table(counts, DOMAIN, declared=False)
