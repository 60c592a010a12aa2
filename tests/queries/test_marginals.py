"""Marginals: the sums of a table over the attributes that are left out."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.queries import Domain, LinearQueries
from dpstats.queries.domain import MarginalQueries, margins, spread
from tests.queries.families import check_family


@pytest.mark.parametrize("k", [1, 2, 3, (1, 2), [("x0", "x2"), (1,)], [(2, 0)]])
def test_marginals_are_sums_of_the_table(k: Any) -> None:
    family = LinearQueries.marginals((2, 3, 4), k)
    check_family(family)
    assert isinstance(family, MarginalQueries)
    x = np.random.default_rng(1).integers(9, size=(2, 3, 4))
    for table, found in zip(family.tables, family.split(family.answers(x.ravel())), strict=True):
        others = tuple(j for j in range(3) if j not in table)
        assert np.array_equal(found, x.sum(axis=others))


def test_labels_are_of_the_declared_levels() -> None:
    family = LinearQueries.marginals(Domain({"smokes": ["yes", "no"], "age": 3}), [("age", "smokes")])
    assert family.label(4) == "smokes = no, age = 1"
    assert repr(family) == "MarginalQueries(6 counting queries on 6 points)"


def test_margins_of_a_large_table_share_their_sums() -> None:
    shape = (2,) * 12
    x = np.random.default_rng(2).integers(9, size=shape)
    tables = list(itertools.combinations(range(12), 2))
    for table, found in margins(x, [*tables, tables[0]]):
        assert np.array_equal(found, x.sum(axis=tuple(j for j in range(12) if j not in table)))
    # The transpose: <spread(w), x> = sum of <w, margin>.
    weights = {table: np.random.default_rng(3).integers(9, size=(2, 2)) for table in tables}
    both = sum(int((weights[table] * found).sum()) for table, found in margins(x, tables))
    assert int((spread(weights, shape) * x).sum()) == both


@pytest.mark.parametrize(
    ("k", "message"),
    [
        (0, "k must be|tables must be an integer"),
        ([()], "must be a number of attributes"),
        (4, "at most 3"),
        ("x0", "number of attributes"),
        ([("x0", "x9")], "an attribute must be one of 'x0', 'x1', 'x2'"),
        ([("x0", "x0")], "an attribute twice"),
        ([("x0", "x1"), (1, 0)], "got 'x0 × x1' twice"),
        ([], "must be at least one table"),
    ],
)
def test_bad_tables_are_refused(k: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        LinearQueries.marginals((2, 3, 4), k)
