"""A script of ordinary queries to a warehouse: what each gives beside the exact answer, or why it is refused.

The warehouse is a star that DuckDB makes: sales of customers in stores. Replacing one row of sales or of customers is
what the guarantee hides; stores are public.

    python validation/studies/warehouse_queries.py                      # writes validation/results/warehouse_queries.md
    python validation/studies/warehouse_queries.py --rows 2000 --no-write
"""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpstats.errors import InvalidParameter
from dpstats.sql import PrivateSQL

RESULTS = Path(__file__).resolve().parents[1] / "results" / "warehouse_queries.md"
EPSILON = 1.0

QUERIES = [
    "SELECT COUNT(*) FROM sale",
    "SELECT COUNT(*) AS orders FROM sale WHERE day >= DATE '2025-03-01' AND day < DATE '2025-04-01'",
    "SELECT SUM(amount) AS revenue FROM sale",
    "SELECT AVG(amount) AS mean_basket FROM sale WHERE channel = 'web'",
    "SELECT channel, COUNT(*), SUM(amount), AVG(amount) FROM sale GROUP BY channel",
    "SELECT channel, COUNT(*) AS n FROM sale GROUP BY channel ORDER BY n DESC",
    "SELECT store, SUM(amount) AS revenue FROM sale GROUP BY store ORDER BY revenue DESC LIMIT 3",
    "SELECT store, COUNT(*) AS n FROM sale GROUP BY store HAVING COUNT(*) > 1000 ORDER BY store",
    "SELECT region, SUM(amount) AS revenue FROM sale JOIN store ON sale.store = store.id GROUP BY region",
    "SELECT region, AVG(amount) FROM sale JOIN store ON sale.store = store.id WHERE channel <> 'web' GROUP BY region",
    "SELECT COUNT(*) FROM sale JOIN store ON sale.store = store.id WHERE store.opened < 2010",
    "SELECT COUNT(*) FROM sale WHERE store IN (SELECT id FROM store WHERE region = 'north')",
    "SELECT COUNT(*) FROM customer WHERE id IN (SELECT customer FROM sale WHERE channel = 'web')",
    "SELECT COUNT(*) FROM customer SEMI JOIN sale ON customer.id = sale.customer AND sale.amount > 150",
    "SELECT COUNT(DISTINCT customer) FROM sale",
    "SELECT COUNT(*) FROM sale WHERE channel IN ('web', 'phone') AND NOT amount < 20",
    "SELECT COUNT(*) FROM sale WHERE discount IS NULL",
    "SELECT COUNT(discount), AVG(discount) FROM sale",
    "SELECT age, COUNT(*) AS customers FROM customer GROUP BY age ORDER BY age",
    "SELECT segment, age, COUNT(*) FROM customer GROUP BY segment, age",
    "SELECT COUNT(*) FROM customer WHERE segment LIKE 'p%' AND age BETWEEN 30 AND 49",
    "WITH web AS (SELECT customer, amount FROM sale WHERE channel = 'web') SELECT SUM(amount) FROM web",
    "SELECT segment, COUNT(*) FROM sale JOIN customer ON sale.customer = customer.id GROUP BY segment",
    "SELECT MAX(amount) FROM sale",
    "SELECT COUNT(*) FROM customer LEFT JOIN sale ON customer.id = sale.customer AND sale.channel = 'phone' "
    "WHERE sale.customer IS NULL",
    "SELECT MEDIAN(amount), QUANTILE_CONT(amount, 0.9) AS p90 FROM sale WHERE channel = 'web'",
    "SELECT channel, MEDIAN(amount) AS typical FROM sale GROUP BY channel ORDER BY channel",
    "SELECT region, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount) FROM sale JOIN store ON sale.store = store.id "
    "GROUP BY region",
    "SELECT region, COUNT(*) FROM sale LEFT JOIN store ON sale.store = store.id AND store.opened >= 2006 "
    "GROUP BY region",
    "SELECT COUNT(*) FROM sale LEFT JOIN customer ON sale.customer = customer.id WHERE customer.age >= 65",
]


class Answered(NamedTuple):
    """What a query gave: the shown and the exact numbers, or the words of the refusal."""

    query: str
    shown: str
    exact: str
    error: float
    refusal: str


def warehouse(rows: int) -> Any:
    """Return a connection to a star of sales, customers and stores."""
    import duckdb
    import pandas as pd

    rng, people = np.random.default_rng(0), max(rows // 10, 1)
    stores = pd.DataFrame(
        {"id": np.arange(12), "region": ["north", "south", "east"] * 4, "opened": 2000 + np.arange(12)}
    )
    customers = pd.DataFrame(
        {
            "id": np.arange(people),
            "segment": rng.choice(["private", "public", "school"], people, p=[0.6, 0.3, 0.1]),
            "age": rng.integers(18, 79, people),
        }
    )
    discount = pd.Series(rng.integers(0, 31, rows), dtype="Int64").where(rng.random(rows) < 0.25)
    sales = pd.DataFrame(
        {
            "customer": rng.integers(0, people, rows),
            "store": rng.integers(0, 12, rows),
            "day": pd.Timestamp("2025-01-01") + pd.to_timedelta(rng.integers(0, 365, rows), unit="D"),
            "amount": np.round(rng.gamma(2.0, 25.0, rows), 2),
            "channel": rng.choice(["web", "shop", "phone"], rows, p=[0.5, 0.4, 0.1]),
            "discount": discount,
        }
    )
    connection = duckdb.connect()
    for name, frame in (("store", stores), ("customer", customers), ("sale", sales)):
        connection.register("frame", frame)
        day = "* REPLACE (CAST(day AS DATE) AS day)" if name == "sale" else "*"
        connection.execute(f"CREATE TABLE {name} AS SELECT {day} FROM frame")
        connection.unregister("frame")
    return connection


def ask(connection: Any, seed: int = 0) -> list[Answered]:
    """Return what each query gives, with simulated noise."""
    sql = PrivateSQL(
        connection,
        epsilon=EPSILON,
        delta=1e-6,
        public_tables=["store"],
        keys={"customer": "id", "store": "id"},
        categories={
            "sale.channel": ["web", "shop", "phone"],
            "sale.store": list(range(12)),
            "store.region": ["north", "south", "east"],
            "customer.segment": ["private", "public", "school"],
        },
        bins={"customer.age": [18, 30, 45, 60, 78]},
        bounds={"sale.amount": (0, 200), "sale.discount": (0, 30)},
        random_state=seed,
    )
    found = []
    for query in QUERIES:
        try:
            answer = sql.query(query)
        except InvalidParameter as refused:
            found.append(Answered(query, "", "", np.nan, str(refused)))
            continue
        exact = exact_numbers(connection, query, answer)
        values = np.reshape(answer.values, (len(answer.cells), -1))
        error = float(np.max(np.abs(values - exact) / np.maximum(np.abs(exact), 1.0)))
        first = ", ".join(f"{value:,.1f}" for value in values[0])
        found.append(Answered(query, first, ", ".join(f"{value:,.1f}" for value in exact[0]), error, ""))
    return found


def exact_numbers(connection: Any, query: str, answer: Any) -> Any:
    """Return the exact numbers of the shown cells: those of the query without HAVING, ORDER BY and LIMIT."""
    text = query
    for word in (" HAVING ", " ORDER BY ", " LIMIT "):
        text = text.partition(word)[0]
    rows = connection.execute(text).fetchall()
    count = len(answer.names)
    if "age" in answer.names:
        bins = " ".join(f"WHEN age < {high} THEN '[{low}, {high})'" for low, high in ((18, 30), (30, 45), (45, 60)))
        edges = f"CASE {bins} ELSE '[60, 78]' END"
        text = text.replace("GROUP BY segment, age", f"GROUP BY segment, {edges}").replace(
            "GROUP BY age", f"GROUP BY {edges}"
        )
        text = text.replace("SELECT segment, age", f"SELECT segment, {edges}").replace("SELECT age", f"SELECT {edges}")
        rows = connection.execute(text).fetchall()
    exact = {tuple(row[:count]): [float(value or 0) for value in row[count:]] for row in rows}
    return np.array([exact.get(tuple(cell), [0.0] * (len(rows[0]) - count)) for cell in answer.cells])


def report(found: list[Answered], rows: int, command: str) -> str:
    """Return the results as a page."""
    answered = [each for each in found if not each.refusal]
    lines = [
        f"# A warehouse analyst's script of {len(QUERIES)} queries",
        "",
        f"{datetime.date.today()}, `{command}`. {rows:,} sales of {max(rows // 10, 1):,} customers in 12 stores. Each "
        f"query has epsilon = {EPSILON:g} and delta = 1e-6, one row replaced. Stores are public; noise is simulated.",
        "",
        f"{len(answered)} of {len(found)} queries are answered. Errors are relative: the largest of the shown cells.",
        "",
        "| query | first cell | exact | largest error | refused, as |",
        "|---|--:|--:|--:|---|",
    ]
    for each in found:
        text = each.query.replace("|", "\\|")
        error = "" if each.refusal else f"{100 * each.error:.2g}%"
        lines.append(f"| `{text}` | {each.shown} | {each.exact} | {error} | {each.refusal} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    page = report(ask(warehouse(options.rows)), options.rows, "python validation/studies/warehouse_queries.py")
    print(page, end="")
    if not options.no_write:
        RESULTS.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
