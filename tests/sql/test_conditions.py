"""Conditions in SQL: every form, with columns named and literals bound by who asks."""

from __future__ import annotations

import duckdb
import pytest

from dpstats.sensitivity.elastic import Column
from dpstats.sql import PrivateSQL
from dpstats.sql.query import (
    All,
    Among,
    Between,
    Compare,
    Constant,
    Either,
    Flag,
    Holds,
    Like,
    Literal,
    Missing,
    Not,
    conjuncts,
    written,
)

A, B = Column("t", "a"), Column("t", "b")


def test_every_form_is_written() -> None:
    whole = Either(
        (
            All((Compare("<>", A, B), Not(Missing(A)))),
            Between(A, Literal(1, "BIGINT"), Literal(2, "BIGINT")),
            Among(B, (Literal("x'--", "VARCHAR"),)),
            Like(B, Literal("%", "VARCHAR")),
            Flag(A),
            Constant(True),
            Constant(False),
            Holds(Flag(A), True),
            Not(Holds(Flag(A), False)),
        )
    )
    bound: list[object] = []

    def bind(value: Literal) -> str:
        bound.append(value.value)
        return f"${len(bound)}"

    text = written(whole, lambda column: column.name.upper(), bind)
    assert text == (
        "((((A <> B) AND ((NOT (A IS NULL))))) OR (A BETWEEN $1 AND $2) OR (B IN ($3)) OR (B LIKE $4) OR (A) "
        "OR (TRUE) OR (FALSE) OR (((A) IS TRUE)) OR ((NOT (((A) IS FALSE)))))"
    )
    assert bound == [1, 2, "x'--", "%"] and "x'" not in text


def test_conjuncts_are_what_must_hold() -> None:
    both = All((Compare("=", A, B), All((Flag(A), Either((Flag(A), Flag(B)))))))
    assert list(conjuncts(both)) == [Compare("=", A, B), Flag(A), Either((Flag(A), Flag(B)))]


@pytest.mark.parametrize("condition", ["TRUE", "FALSE", "NOT FALSE", "NOT TRUE", "a > 1 OR FALSE", "a > 1 AND TRUE"])
def test_constant_conditions_mean_what_they_mean_to_duckdb(condition: str) -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE r AS SELECT range AS a FROM range(5)")
    sql = PrivateSQL(connection, epsilon=1e4, delta=1e-6, random_state=0)
    query = f"SELECT COUNT(*) FROM r WHERE {condition}"
    assert round(sql.query(query).value) == connection.execute(query).fetchone()[0]
