"""Relations: what can be said of tables and joins, and what is refused."""

from __future__ import annotations

import pytest

from dpstats.errors import InvalidParameter
from dpstats.sensitivity.elastic import Column, Count, Distinct, Join, Select, Table, column, tables


def test_columns_and_tables() -> None:
    assert column("t.a") == column(("t", "a")) == Column("t", "a") and str(column("t.a")) == "t.a"
    join = Join(Select(Table("t")), Distinct(Table("t", "u"), ("u.b",)), [("t.a", "u.b")])
    assert [table.instance for table in tables(join)] == ["t", "u"]
    assert join.on == ((Column("t", "a"), Column("u", "b")),)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: column("a"), "instance.name"),
        (lambda: Table(""), "name must"),
        (lambda: Table("t", n_rows=-1), "n_rows must"),
        (lambda: Join(Table("t"), Table("t"), [("t.a", "t.a")]), "instance must"),
        (lambda: Join(Table("t"), Table("u"), []), "at least one pair"),
        (lambda: Join(Table("t"), Table("u"), [("u.a", "t.a")]), "left side"),
        (lambda: Join(Table("t"), Table("u"), [("t.a", "t.b")]), "left side"),
        (lambda: Join(Table("t"), Table("u"), [("t.a", "u.a"), ("u.b", "u.c")]), "left side"),
        (lambda: Count(Table("t"), "sum"), "kind must"),
    ],
)
def test_bad_relations_are_named(call: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        call()  # type: ignore[operator]


def test_a_table_may_be_empty() -> None:
    assert Table("t", n_rows=0).n_rows == 0
