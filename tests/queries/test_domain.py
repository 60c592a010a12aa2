"""Domains: every entry at its declared level, whatever holds the rows, and rows back from cells."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.queries import Bins, Domain

ROWS = [("yes", 20.0), ("no", 65.0), ("no", 39.5), ("no", 40.0)]
DOMAIN = Domain({"smokes": ["yes", "no"], "age": Bins([18, 40, 65])})
COUNTS = [1, 0, 1, 2]


def relation(query: str, rows: list[tuple[Any, Any]] = ROWS) -> Any:
    """Return a relation of DuckDB over rows of answers and ages."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE rows (smokes VARCHAR, age DOUBLE)")
    connection.executemany("INSERT INTO rows VALUES (?, ?)", rows)
    return connection.sql(query)


def containers() -> dict[str, Any]:
    frame = pd.DataFrame(ROWS, columns=["smokes", "age"]).assign(more=1)
    return {
        "rows": ROWS,
        "objects": np.array(ROWS, dtype=object),
        "pandas": frame[["more", "age", "smokes"]],
        "polars": pl.DataFrame(frame.to_dict(orient="list")),
        "lazy": pl.DataFrame(frame.to_dict(orient="list")).lazy(),
        "DuckDB": relation("SELECT 1 AS more, age, smokes FROM rows"),
    }


@pytest.mark.parametrize("kind", containers())
def test_the_histogram_is_the_same_of_every_container(kind: str) -> None:
    counts = DOMAIN.histogram(containers()[kind])
    assert counts.dtype == np.int64 and counts.tolist() == COUNTS


def test_a_rows_cell_is_its_own() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, [3, 2, 5], size=(200, 3))
    domain = Domain((3, 2, 5))
    together = domain.cells_of(domain.codes(codes))
    assert together.tolist() == [int(domain.cells_of(domain.codes(row[None]))[0]) for row in codes]
    assert together.tolist() == np.ravel_multi_index(codes.T, domain.shape).tolist()
    assert domain.cells_of(codes, (0, 2)).tolist() == np.ravel_multi_index(codes[:, [0, 2]].T, (3, 5)).tolist()


def test_cells_come_back_as_the_rows_they_count() -> None:
    domain = Domain({"smokes": ["yes", "no"], "age": Bins([18, 40, 65])}, other=["age"])
    assert domain.shape == (2, 3) and domain.levels[1] == ("[18, 40)", "[40, 65]", "other")
    assert domain.histogram([*ROWS, ("yes", 99), ("no", None)]).tolist() == [1, 0, 1, 1, 2, 1]
    frame = domain.cells()
    assert frame["smokes"].tolist() == ["yes"] * 3 + ["no"] * 3
    assert isinstance(domain.rows([0, 0, 5], backend="polars"), pl.DataFrame)
    holes = relation("SELECT * FROM rows", [*ROWS, ("yes", 99.0), ("no", None)])
    assert domain.histogram(holes).tolist() == [1, 0, 1, 1, 2, 1]
    labels = Domain({"smokes": ["yes", "no"], "n": 4})
    assert labels.histogram(labels.rows([1, 6, 6])).tolist() == [0, 1, 0, 0, 0, 0, 2, 0]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("abc", "attributes must be declared"),
        ({}, "at least one"),
        ({"a": [1]}, r"the attribute at position 0 must"),
        ({"a": [1, 1.0]}, "must be distinct"),
        ({"a": 1}, r"the attribute at position 0 must be two levels or more, got fewer"),
        ({"a": -2}, "two levels or more, got fewer"),
        ({"a": 10**12}, r"the attribute at position 0 must be at most 67,108,864 levels"),
        ({"a × b": 2}, "text without '×'"),
        ({3: 2}, "must be text"),
    ],
)
def test_bad_declarations_are_refused(attributes: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Domain(attributes)


def test_bad_rows_are_refused_and_not_shown() -> None:
    for rows in ([("hush", 20)], [("yes", 12.5)], [("yes", None)]):
        with pytest.raises(InvalidData, match="declared levels only") as error:
            DOMAIN.histogram(rows)
        assert "hush" not in str(error.value) and "12.5" not in str(error.value)
    with pytest.raises(InvalidData, match="at least one row"):
        DOMAIN.histogram(pd.DataFrame({"smokes": [], "age": []}))
    with pytest.raises(InvalidParameter, match="got another at position 1"):
        DOMAIN.histogram(relation("SELECT smokes FROM rows"))
    with pytest.raises(InvalidData, match="rows that can be read") as error:
        DOMAIN.histogram(relation("SELECT CAST(smokes AS DOUBLE) AS age, smokes FROM rows"))
    assert "yes" not in str(error.value) and error.value.__context__ is None
    with pytest.raises(InvalidParameter, match="other must"):
        Domain({"a": 2}, other=["b"])
    with pytest.raises(InvalidParameter, match="must not declare 'other'"):
        Domain({"a": ["x", "other"]}, other="a")
    with pytest.raises(InvalidParameter, match="domain must"):
        Domain([2] * 30).histogram([[0] * 30])
    with pytest.raises(InvalidParameter, match="cells must"):
        DOMAIN.rows([4])


def test_domains_are_the_same_by_names_levels_and_edges() -> None:
    first = Domain({"a": Bins([0, 1, 2]), "b": 2}, other=["a"])
    assert first.same_as(Domain({"a": Bins([0.0, 1.0, 2.0]), "b": [0, 1]}, other=["a"]))
    assert not first.same_as(Domain({"a": Bins([0, 1 + 1e-9, 2]), "b": 2}, other=["a"]))
    assert not first.same_as(Domain({"a": 3, "b": 2}))
