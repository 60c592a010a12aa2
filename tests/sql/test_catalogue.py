"""Tables and columns by their names, and identifiers that mean themselves."""

from __future__ import annotations

import duckdb
import pytest

from dpstats.errors import InvalidParameter
from dpstats.sql.catalogue import BaseTable, Catalogue, quoted
from dpstats.sql.engines import duckdb_type

R = BaseTable("Rows", '"Rows"', {"a": ("A", duckdb_type("INTEGER"))})
CATALOGUE = Catalogue({"rows": R}, frozenset({"v"}))


def test_types_are_of_a_kind() -> None:
    kinds = {"UBIGINT": "whole", "DECIMAL(10,2)": "real", "DOUBLE": "real", "VARCHAR": "text", "BOOLEAN": "truth"}
    kinds |= {"DATE": "date", "TIMESTAMP": "time", "TIMESTAMP WITH TIME ZONE": "other", "INTEGER[]": "other"}
    assert {name: duckdb_type(name).kind for name in kinds} == kinds


def test_names_are_found_whatever_their_case() -> None:
    assert CATALOGUE.table("ROWS") is R
    assert CATALOGUE.columns_of("bounds", ["rOws.a"]) == {"rOws.a": ("rows", "a")}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CATALOGUE.table("x"), r"base tables \(Rows\), got 'x', which is no table"),
        (lambda: CATALOGUE.table("V"), "'V', which is a view"),
        (lambda: CATALOGUE.columns_of("bounds", ["a"]), r"of base tables \(Rows\) as 'table.column', got another key$"),
        (lambda: CATALOGUE.columns_of("bins", ["x.a"]), "got 'x.a': 'x' is no table$"),
        (lambda: CATALOGUE.columns_of("bins", ["v.a"]), r"is a view.*PrivateSQL\(\{'v': \.\.\.\}\)"),
        (lambda: Catalogue({}).table("v"), r"\(none\), got 'v', which is no table.*PrivateSQL\(\{'v': \.\.\.\}\)"),
        (lambda: CATALOGUE.columns_of("bounds", ["rows.b"]), r"columns of Rows \(\[.*\]\), got 'rows.b'"),
        (lambda: quoted("a\0b"), "zero character"),
    ],
)
def test_what_is_not_there_is_named(call: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        call()  # type: ignore[operator]


@pytest.mark.parametrize("name", ['a"b', "a; DROP TABLE r", "select", "ä b", '"', "a''b"])
def test_identifiers_mean_themselves(name: str) -> None:
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE r ({quoted(name)} INTEGER)")
    assert connection.execute(f"SELECT * FROM r AS t WHERE t.{quoted(name)} = 1").description[0][0] == name
