"""PrivateSQL over files, a DuckDB database and the plain query: CPU times side by side, and beside another version.

    python validation/benchmarks/sql.py                      print the table of this version
    python validation/benchmarks/sql.py --beside OTHER       and of the package in the folder OTHER, in turns
    python validation/benchmarks/sql.py --write              and write validation/results/benchmark_sql.md

Every case runs in a process of its own, which also times DuckDB's own answer to the same query. Where units are
protected, DuckDB sums within each unit first. One twentieth of the column ``a`` is NULL and one twentieth NaN, and
``b`` has neither. The times are those of the process, so that other work on the machine matters little.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from timing import publish, table, versions

ROWS, ROUNDS = 2_000_000, 4
ROOT = Path(__file__).resolve().parents[2]
TABLES = {
    "v": """
        SELECT i % 100000 AS p, CAST(hash(i) % 100 AS INTEGER) AS g, 's' || (hash(i * 7) % 50) AS s,
        CASE hash(i * 3) % 20 WHEN 0 THEN NULL WHEN 1 THEN 'nan'::DOUBLE ELSE (hash(i * 11) % 10000) / 100.0 END AS a,
        (hash(i * 5) % 10000) / 100.0 AS b, CAST(hash(i * 13) % 1000 AS INTEGER) AS w FROM range({rows}) t(i)
    """,
    "c": "SELECT CAST(i AS INTEGER) AS id, i < 30 AS rural FROM range(100) t(i)",
    "p": "SELECT i AS id, CAST(i % 90 AS INTEGER) AS age FROM range(100000) t(i)",
}
QUERIES = (
    "SELECT COUNT(*) FROM v WHERE w > 700",
    "SELECT COUNT(*) FROM v WHERE b > 70",
    "SELECT COUNT(*) FROM v WHERE a > 70",
    "SELECT SUM(w) FROM v",
    "SELECT SUM(a) FROM v",
    "SELECT AVG(a) FROM v",
    "SELECT AVG(b) FROM v",
    "SELECT STDDEV(b) FROM v",
    "SELECT g, AVG(w) FROM v WHERE b > 20 GROUP BY g",
    "SELECT s, COUNT(*), SUM(a), AVG(w) FROM v GROUP BY s",
    "SELECT s, g, SUM(a) FROM v GROUP BY s, g",
    "SELECT COUNT(*) FROM v JOIN c ON v.g = c.id WHERE rural",
    "SELECT SUM(w) FROM v JOIN p ON v.p = p.id WHERE age > 50",
    "SELECT COUNT(DISTINCT g) FROM v",
    "SELECT MEDIAN(w) FROM v",
    "SELECT MEDIAN(b) FROM v",
    "SELECT s, MEDIAN(b) FROM v GROUP BY s",
)
UNITS = {
    "SELECT COUNT(*) FROM v": "SELECT sum(n) FROM (SELECT count(*) AS n FROM v GROUP BY p)",
    "SELECT SUM(a) FROM v": "SELECT sum(x) FROM (SELECT sum(a) AS x FROM v GROUP BY p)",
    "SELECT AVG(b) FROM v": "SELECT sum(x) / sum(n) FROM (SELECT sum(b) AS x, count(b) AS n FROM v GROUP BY p)",
    "SELECT s, SUM(w) FROM v GROUP BY s": (
        "SELECT s, sum(x) FROM (SELECT s, sum(w) AS x FROM v GROUP BY s, p) GROUP BY s"
    ),
}
"""Queries where units are protected, and DuckDB's own ones that sum within each unit first."""


def measure(folder: str, kind: str) -> dict[str, tuple[float, float]]:
    """Return the least CPU times of every query, in milliseconds: private, and DuckDB's own."""
    import duckdb

    from dpstats.sql import PrivateSQL

    plain = duckdb.connect()
    made = "TABLE" if kind == "database" else "VIEW"
    files = {name: f"{folder}/{name}.parquet" for name in TABLES}
    for name, path in files.items():
        plain.execute(f"CREATE {made} {name} AS FROM '{path}'")
    data: Any = plain if kind == "database" else files
    declared: dict[str, Any] = {
        "epsilon": 1.0,
        "random_state": 0,
        "bounds": {"v.a": (0, 100), "v.b": (0, 100), "v.w": (0, 1000)},
        "categories": {"v.g": [*range(100)], "v.s": [f"s{i}" for i in range(50)]},
        "public_tables": ["c"],
    }

    def answer(text: str) -> Any:
        return plain.execute(text).fetchall()

    rows = PrivateSQL(data, keys={"p": "id"}, **declared)
    units = PrivateSQL(data, unit={"v": "p", "p": "id"}, **declared)
    cases = [(query, rows, query, query) for query in QUERIES]
    cases += [(f"{query}, units", units, query, own) for query, own in UNITS.items()]
    found = {}
    for name, private, query, own in cases:
        times = [(_time(private.query, query), _time(answer, own)) for _ in range(ROUNDS)]
        first, second = (1000 * min(each) for each in zip(*times, strict=True))
        found[name] = first, second
    return found


def _time(work: Callable[[str], Any], query: str) -> float:
    start = time.process_time()
    work(query)
    return time.process_time() - start


def run(folder: str, kind: str, package: str) -> dict[str, tuple[float, float]]:
    """Return the times of a package, in a process of its own."""
    command = [sys.executable, __file__, "--case", kind, "--folder", folder]
    environment = {**os.environ, "PYTHONPATH": package, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    times: dict[str, tuple[float, float]] = json.loads(done.stdout.splitlines()[-1])
    return times


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--case")
    parser.add_argument("--folder")
    parser.add_argument("--beside")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(options.folder, options.case)))
        return
    import duckdb

    lines = [
        f"{options.rows:,} rows; CPU milliseconds of an answer, the least of {ROUNDS}, with parsing and checks, and in "
        "brackets over DuckDB's own in the same process.\n"
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, text in TABLES.items():
            duckdb.sql(f"COPY ({text.format(rows=options.rows)}) TO '{folder}/{name}.parquet'")
        for kind in ("files", "database"):
            packages = {"before": options.beside} if options.beside else {}
            packages["now"] = str(ROOT)
            times = {word: run(folder, kind, package) for word, package in packages.items()}
            rows = [
                [
                    f"`{query}`",
                    f"{min(each[query][1] for each in times.values()):.1f}",
                    *(f"{each[query][0]:.1f} ({each[query][0] / each[query][1]:.1f})" for each in times.values()),
                ]
                for query in times["now"]
            ]
            names = ["query", "DuckDB's own", *times]
            title = "Parquet files" if kind == "files" else "A DuckDB database"
            lines.append(f"## {title}\n\n{table(names, rows)}\n")
    body = "\n".join(lines).rstrip()
    publish("benchmark_sql", "SQL", body, versions("duckdb", "sqlglot"), write=options.write)


if __name__ == "__main__":
    main()
