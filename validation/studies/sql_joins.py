"""Answers to SQL over joins: coverage of the printed 95% intervals, for rows and for people, in skewed data.

Visits of people at clinics, both of very unequal sizes; clinics are public. The tables are fixed, and releases are
simulated: intervals reflect noise only, for the answer in these data. Where people are protected, their contributions
are cut at the chosen threshold, and the interval is for the answer after this cut.

    python validation/studies/sql_joins.py
    python validation/studies/sql_joins.py --releases 10 --no-write
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

import dpstats
from dpstats.release.session import Session
from dpstats.sql import PrivateSQL

RESULTS = Path(__file__).resolve().parents[1] / "results" / "sql_joins.md"
EPSILONS, SIZES = (0.1, 1.0, 5.0), (60, 6000)
LATE = "FROM visit JOIN clinic ON clinic = clinic.id WHERE rural"
ROWS = {
    "inner join, public": f"SELECT COUNT(*) {LATE}",
    "inner join, public, sum": f"SELECT SUM(cost) {LATE}",
    "inner join, public, mean": f"SELECT AVG(cost) {LATE}",
    "inner join, public, by group": "SELECT size, COUNT(cost), SUM(cost), AVG(cost) FROM visit JOIN clinic ON "
    "clinic = clinic.id GROUP BY size",
    "inner join, private": "SELECT COUNT(*) FROM visit JOIN person ON person = person.id WHERE age >= 65",
    "LEFT JOIN, public right": "SELECT COUNT(*) FROM visit LEFT JOIN closed ON clinic = closed.id WHERE "
    "closed.id IS NULL",
    "LEFT JOIN, private right": "SELECT COUNT(*) FROM clinic LEFT JOIN visit ON clinic.id = visit.clinic WHERE "
    "visit.cost IS NULL",
    "IN (SELECT), public": "SELECT COUNT(*) FROM visit WHERE clinic IN (SELECT id FROM clinic WHERE rural)",
    "SEMI JOIN, private": "SELECT COUNT(*) FROM visit SEMI JOIN person ON person = person.id AND age >= 65",
}
PEOPLE = {
    "people, inner join": ROWS["inner join, private"],
    "people, LEFT JOIN": "SELECT COUNT(*) FROM visit LEFT JOIN person ON person = person.id AND age >= 65 WHERE "
    "age IS NULL",
    "people, a path": "SELECT COUNT(*) FROM item WHERE price > 40",
    "people, a path and a join": "SELECT COUNT(*) FROM item JOIN visit ON visit = visit.id JOIN clinic ON clinic = "
    "clinic.id WHERE rural",
    "people, by group": "SELECT size, COUNT(*) FROM visit JOIN clinic ON clinic = clinic.id GROUP BY size",
}
DECLARED: dict[str, Any] = {
    "public_tables": ["clinic", "closed"],
    "bounds": {"visit.cost": (0, 200)},
    "categories": {"clinic.size": [0, 1, 2]},
}
UNITS = {"visit": "person", "person": "id", "item": "visit -> visit.id"}


def make_tables(rng: np.random.Generator, n: int) -> Any:
    """Return a connection with n visits; a few people and clinics have most of them."""
    people, clinics = max(n // 4, 10), 40
    visit = pd.DataFrame(
        {
            "id": np.arange(n),
            "person": np.minimum(rng.zipf(1.6, n) - 1, people - 1),
            "clinic": np.minimum(rng.zipf(1.4, n) - 1, clinics - 1),
            "cost": np.minimum(rng.lognormal(3.5, 1.0, n), 200.0),
        }
    )
    person = pd.DataFrame({"id": np.arange(people), "age": rng.integers(20, 90, people)})
    clinic = pd.DataFrame({"id": np.arange(clinics)})
    clinic["rural"], clinic["size"] = clinic["id"] % 3 == 0, clinic["id"] % 3
    closed = clinic[clinic["id"] % 5 == 0][["id"]]
    item = pd.DataFrame({"visit": rng.integers(0, n, 2 * n), "price": rng.integers(0, 60, 2 * n)})
    connection = duckdb.connect(":memory:", config={"threads": 1})
    for name, frame in {"visit": visit, "person": person, "clinic": clinic, "closed": closed, "item": item}.items():
        connection.register("frame", frame)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM frame")
    return connection


def study_query(sql: PrivateSQL, text: str, releases: int, seed: int) -> tuple[float, float]:
    """Return the coverage of all intervals of a query, and the median of their half-widths over the answers."""
    query = sql._parsed(text)
    with sql._snapshot(query):
        kind = sql._kind(query)
        plan = kind.plan()
        private = kind.read(plan)
    rng = np.random.default_rng(seed)
    exact: dict[int, np.ndarray] = {}
    covered, widths = [], []
    for _ in range(releases):
        with Session.simulated(plan, rng) as session:
            kind.release(private, plan, session)
        found = kind.answer(plan, session.released)
        place = session.released["answer"][0] if plan.truncations else 0
        if place not in exact:
            exact[place] = compute_answer(kind, plan, private, place)
        interval = found.confidence_interval(0.95)
        low, high = (np.ravel(end) for end in (interval.low, interval.high))
        slack = 1e-9 * np.maximum(np.abs(exact[place]), 1.0)
        covered.append((low <= exact[place] + slack) & (exact[place] - slack <= high))
        widths.append((high - low) / 2 / np.maximum(np.abs(exact[place]), 1.0))
    return float(np.mean(covered)), float(np.median(widths))


def compute_answer(kind: Any, plan: Any, private: Any, place: int) -> np.ndarray:
    """Return the answer without noise, after contributions are cut at a threshold: intervals are for it."""
    if plan.truncations:
        (truncation,) = plan.truncations
        released = {"answer": (place, private.cut["answer"][place] / truncation.finer)}
    else:
        stage = plan.stages[-1]
        released = {"answer": private.numbers * stage.spacing, "level of the noise": np.array([private.level])}
    values = kind.answer(plan, released).values
    return np.ravel(values.T)


def study(releases: int, epsilons: tuple[float, ...] = EPSILONS, sizes: tuple[int, ...] = SIZES) -> pd.DataFrame:
    """Return the coverage and the relative half-width of every query, size and epsilon."""
    found = []
    for n in sizes:
        connection = make_tables(np.random.default_rng(n), n)
        for protected, queries in ((None, ROWS), (UNITS, PEOPLE)):
            for epsilon in epsilons:
                sql = PrivateSQL(connection, epsilon=epsilon, unit=protected, random_state=0, **DECLARED)
                for k, (name, text) in enumerate(queries.items()):
                    coverage, width = study_query(sql, text, releases, k)
                    found.append((name, n, epsilon, coverage, width))
    return pd.DataFrame(found, columns=["query", "rows", "epsilon", "coverage", "width"])


def as_markdown(found: pd.DataFrame, releases: int, command: str) -> str:
    """Return the page of results."""
    lines = [
        "# Private SQL: coverage over joins",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, duckdb {duckdb.__version__}. Coverage of 95% "
        f"intervals in {releases} simulated releases (Monte Carlo standard error {np.sqrt(0.05 * 0.95 / releases):.3f} "
        "or less), and behind it the median half-width over the answer (of at least 1).",
        "",
        f"    {command}",
        "",
        "Visits of people at clinics: the largest person and clinic have a third of the visits or more. Intervals "
        "cover the answer in these data; for people, the answer with contributions cut at the threshold.",
        "",
    ]
    cells = [(n, epsilon) for n in found["rows"].unique() for epsilon in found["epsilon"].unique()]
    lines += [
        "| query | " + " | ".join(f"{n:,} visits, ε = {epsilon:g}" for n, epsilon in cells) + " |",
        "|---" * (len(cells) + 1) + "|",
    ]
    for name, rows in found.groupby("query", sort=False):
        shown = rows.set_index(["rows", "epsilon"])
        listed = " | ".join(f"{shown.loc[cell].coverage:.3f}, {shown.loc[cell].width:.2g}" for cell in cells)
        lines.append(f"| {name} | {listed} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    text = as_markdown(study(options.releases), options.releases, "python validation/studies/sql_joins.py")
    print(text)
    if not options.no_write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
