"""Years, quarters and months of dates in GROUP BY: against DuckDB's functions, and for every replaced row."""

from __future__ import annotations

import itertools
import random
from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.sql import PrivateSQL

duckdb = pytest.importorskip("duckdb")

FIRST, END = date(2019, 11, 17), date(2021, 3, 1)
PARTS = [
    *("YEAR(d)", "QUARTER(d)", "MONTH(d)", "EXTRACT(YEAR FROM d)", "EXTRACT('quarter' FROM d)"),
    *("extract(month from d)", "DATE_TRUNC('year', d)", "date_trunc('Quarter', d)", "DATE_TRUNC('month', v.d)"),
]
EDGES = [FIRST, END, date(2020, 2, 28), date(2020, 2, 29), date(2020, 3, 1), date(2019, 12, 31), date(2021, 1, 1)]


def visits(kind: str) -> Any:
    """Return a connection with dates near all boundaries, infinite and missing ones."""
    rng = random.Random(0)
    days = EDGES + [FIRST + timedelta(rng.randrange(-40, 560)) for _ in range(60)]
    entries = [str(day + timedelta(move)) for day in days for move in (-1, 0, 1)]
    if kind == "TIMESTAMP":
        entries += [f"{entry} 23:59:59.999999" for entry in entries]
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE v (d {kind}, x INTEGER)")
    connection.executemany("INSERT INTO v VALUES (?, 1)", [[entry] for entry in entries])
    connection.execute("INSERT INTO v VALUES ('infinity', 1), ('-infinity', 1), (NULL, 1)")
    return connection


def asked(connection: Any, **more: Any) -> PrivateSQL:
    return PrivateSQL(connection, epsilon=1.0, bins={"v.d": (str(FIRST), END)}, random_state=0, **more)


def exact(made: PrivateSQL, text: str) -> dict[tuple[Any, ...], int]:
    """Return the exact count of each cell."""
    query = made._parsed(text)
    found = made._kind(query).read(made._kind(query).plan()).numbers
    return {query.cell(i): int(count) for i, count in enumerate(found)}


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP"])
def test_every_part_has_the_rows_that_the_functions_of_duckdb_give(kind: str) -> None:
    connection = visits(kind)
    made = asked(connection)
    for part in PARTS:
        ours = exact(made, f"SELECT {part}, COUNT(*) FROM v GROUP BY {part}")
        value = f"CAST({part} AS DATE)" if "TRUNC" in part.upper() else part
        theirs = dict(
            connection.execute(
                f"SELECT {value}, count(*) FROM v WHERE d >= ? AND d < ? GROUP BY ALL", [FIRST, END]
            ).fetchall()
        )
        assert {cell: n for (cell,), n in ours.items() if n} == theirs, part
        # Labels come from the declared period, in order, and not from the rows.
        assert list(ours) == sorted(ours)
    both = "YEAR(d), MONTH(d)"
    ours = exact(made, f"SELECT {both}, COUNT(*) FROM v GROUP BY {both}")
    assert sum(ours.values()) == sum(theirs.values()) and len(ours) == 36


def test_a_replaced_row_moves_two_counts_by_one() -> None:
    """All pairs of tables with two rows: one row is replaced by each other entry."""
    days = ["2019-11-16", "2019-11-17", "2019-12-31", "2020-02-29", "2021-02-28", "2021-03-01", None]
    text = "SELECT YEAR(d), MONTH(d), COUNT(*) FROM v GROUP BY YEAR(d), MONTH(d)"
    connection = duckdb.connect()
    connection.execute("CREATE TABLE v (d DATE)")
    made = asked(connection)
    found, most = {}, 0
    for pair in itertools.combinations_with_replacement(days, 2):
        connection.execute("DELETE FROM v")
        connection.execute("INSERT INTO v VALUES (?), (?)", pair)
        made.refresh()
        found[pair] = np.array(list(exact(made, text).values()))
    for one, other in itertools.combinations(found, 2):
        if set(one) & set(other):
            most = max(most, int(np.abs(found[one] - found[other]).sum()))
    assert most == 2 == made.plan_for(text).query.measure.moved(True)


def test_answers_have_the_values_of_parts_in_each_clause() -> None:
    made = asked(visits("DATE"), bounds={"v.x": (0, 2)})
    table = made.query(
        "SELECT DATE_TRUNC('month', d) AS start, COUNT(*) AS n, AVG(x) AS mean FROM v "
        "GROUP BY DATE_TRUNC('month', d) ORDER BY DATE_TRUNC('month', d) DESC LIMIT 2"
    )
    assert [cell for (cell,) in table.cells] == [date(2021, 2, 1), date(2021, 1, 1)]
    years = made.query("SELECT YEAR(d), COUNT(*) FROM v GROUP BY YEAR(d) ORDER BY d_year")
    assert list(years.cells) == [(2019,), (2020,), (2021,)]
    assert np.all(np.isfinite(years.values))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT COUNT(*) FROM v GROUP BY d", "a column of dates with a period"),
        ("SELECT COUNT(*) FROM v GROUP BY EXTRACT(DOW FROM d)", "EXTRACT of this unit"),
        ("SELECT COUNT(*) FROM v GROUP BY DATE_TRUNC('week', d)", "DATE_TRUNC of this unit"),
        ("SELECT COUNT(*) FROM v GROUP BY YEAR(x)", "must be of a DATE or a TIMESTAMP"),
        ("SELECT COUNT(*) FROM v GROUP BY YEAR(CAST(d AS DATE))", "CAST where a column"),
        ("SELECT MONTH(d), COUNT(*) FROM v GROUP BY YEAR(d)", "a part of the column d in SELECT"),
        ("SELECT d, COUNT(*) FROM v GROUP BY YEAR(d)", "the column d in SELECT"),
        ("SELECT COUNT(DISTINCT x) FROM v GROUP BY YEAR(d)", "which has bins"),
        ("SELECT COUNT(*) FROM v WHERE YEAR(d) = 2020", "YEAR"),
        ("SELECT YEAR(d) FROM v", "a part of the column d in SELECT"),
    ],
)
def test_other_uses_of_dates_are_refused(text: str, message: str) -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE v (d DATE, x INTEGER)")
    with pytest.raises(InvalidParameter, match=message):
        asked(connection).query(text)


@pytest.mark.parametrize(
    "period", ["2020-01-01", ("2020-01-01",), (1, 2), ("2021-01-01", "2020-01-01"), ("1800-01-01", "2020-01-01"), None]
)
def test_a_period_must_be_two_dates(period: Any) -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE v (d DATE)")
    with pytest.raises(InvalidParameter, match=r"bins\['v.d'\] must be two dates"):
        PrivateSQL(connection, epsilon=1.0, bins={"v.d": period})
    made = PrivateSQL(connection, epsilon=1.0)
    with pytest.raises(InvalidParameter, match=r"the date after the last declared"):
        made.query("SELECT COUNT(*) FROM v GROUP BY YEAR(d)")


def test_a_period_may_end_with_the_last_date_there_is() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE v AS SELECT DATE '9999-12-30' AS d")
    made = PrivateSQL(connection, epsilon=1.0, bins={"v.d": (date(9999, 11, 2), date.max)})
    assert exact(made, "SELECT COUNT(*) FROM v GROUP BY MONTH(d)") == {(11,): 0, (12,): 1}
