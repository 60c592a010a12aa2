"""Random queries over random databases, against DuckDB: answers, and how far a row or a person moves them.

Every fifth query has a new random database, and every query several neighbors of it. Each is refused, or its exact
answers must be those of DuckDB, and neighbors may not be further apart than the plan states: one row replaced, or one
person with all rows; and the same where one is added or removed.

    python validation/studies/sql_random_queries.py --jobs 2           # ten minutes of one core, writes the results
    python validation/studies/sql_random_queries.py --seeds 0-1 --no-write
    python validation/studies/sql_random_queries.py --seeds 0-9 --postgres postgresql://...   # compares engines
"""

from __future__ import annotations

import argparse
import datetime
import random
import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import joblib

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

# After its folder is on the path: tests are no part of the package.
from tests.sql.fuzz import Databases, Moves, check, check_found, check_units, compare_postgres, random_question  # noqa: E402

_EACH, _PART, _SEEDS = 5, 100, 50
"""Queries of a database and of a seed, and the number of seeds."""
RESULTS = ROOT / "validation" / "results" / "sql_random_queries.md"
CLAUSES = {
    "left join": r"\bLEFT\b",
    "inner join": r"(?<!LEFT )(?<!OUTER )(?<!SEMI )\bJOIN\b",
    "SEMI JOIN or IN": r"\bSEMI\b|\bIN \(SELECT\b",
    "DISTINCT": r"\bDISTINCT\b",
    "GROUP BY": r"\bGROUP BY\b",
    "a table with a declared key": r"(?:FROM|JOIN|,) k\b",
    "a table whose unit is at the end of a path": r"(?:FROM|JOIN|,) l\b",
}
BOUNDS = {
    "rows": "one row: a count, a sum or a mean, times its bound",
    "shares": "one row: several aggregates, times 2 wholes for each row of the bound",
    "units": "one person: sums cut at each threshold, times the threshold",
    "paths": "the same, where a table has its unit by a path",
    "added rows": "one row, added or removed: a count, a sum or a mean, times its bound",
    "added shares": "one row, added or removed: several aggregates, times 1 whole for each row of the bound",
    "added units": "one person, added or removed: sums cut at each threshold, times the threshold",
    "added paths": "the same, where a table has its unit by a path",
}


class Found(NamedTuple):
    """What was accepted, by clause, and how far neighbors were apart."""

    accepted: Counter[str]
    clauses: Counter[str]
    moves: Moves


def ask(queries: int, seed: int) -> Found:
    """Check random queries; fail where one is answered or bounded wrongly."""
    rng = random.Random(seed)
    found = Found(Counter(), Counter(), Moves())
    for i in range(queries):
        if i % _EACH == 0:
            data = Databases(rng)
        question = random_question(rng)
        accepted = {
            "rows": check(data, question, searched=1, moves=found.moves),
            "units": check_units(data, question, 1, moves=found.moves),
            "found": check_found(data, question, 1),
        }
        for is_checked in (check, check_units):
            is_checked(data, question, neighbors=1, moves=found.moves, added=True)
        found.accepted.update(kind for kind, answered in accepted.items() if answered)
        for name, pattern in CLAUSES.items():
            if re.search(pattern, question.text):
                found.clauses.update([name, *([(name, "units")] if accepted["units"] else [])])  # type: ignore[list-item]
    return found


def compare(queries: int, seed: int, address: str) -> int:
    """Return how many answers over Postgres are made of the integers of DuckDB; fail where one is not."""
    import psycopg

    rng, answered = random.Random(seed), 0
    with psycopg.connect(address, autocommit=True) as connection:
        for _ in range(queries // _EACH):
            connection.execute("DROP SCHEMA IF EXISTS random_queries CASCADE; CREATE SCHEMA random_queries")
            connection.execute("SET search_path = random_queries")
            questions = [random_question(rng) for _ in range(_EACH)]
            answered += compare_postgres(Databases(rng), connection, questions)
    return answered


def merge(parts: list[Found]) -> Found:
    """Return what was found together."""
    found = Found(Counter(), Counter(), Moves())
    for part in parts:
        found.accepted.update(part.accepted)
        found.clauses.update(part.clauses)
        for kind, (count, largest) in part.moves.found.items():
            known = found.moves.found.get(kind, (0, 0.0))
            found.moves.found[kind] = known[0] + count, max(known[1], largest)
    return found


def read_range(words: str) -> range:
    """Return the seeds from a first to a last one."""
    first, _, last = words.partition("-")
    return range(int(first), int(last or first) + 1)


def report(found: Found, queries: int, command: str) -> str:
    """Return the results as a page."""
    accepted = found.accepted
    lines = [
        "# Random queries against DuckDB",
        "",
        f"{datetime.date.today()}, `{command}`. {queries:,} random queries over {queries // _EACH:,} random "
        "databases and their neighbors. Exact answers equal those of DuckDB, and no pair of neighbors was further "
        "apart than its plan states.",
        "",
        f"{accepted['rows']:,} queries are answered where rows are protected, {accepted['units']:,} where persons "
        f"are, and {accepted['found']:,} with undeclared groups. The others are refused.",
        "",
        "| clause | queries | answered for persons |",
        "|---|--:|--:|",
        *(f"| {name} | {found.clauses[name]:,} | {found.clauses[name, 'units']:,} |" for name in CLAUSES),  # type: ignore[index]
        "",
        "The largest movement is a proportion of the bound: at most 1.",
        "",
        "| neighbors differ in | pairs | largest movement |",
        "|---|--:|--:|",
    ]
    for kind, words in BOUNDS.items():
        count, largest = found.moves.found.get(kind, (0, 0.0))
        lines.append(f"| {words} | {count:,} | {largest:.3g} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="+", metavar="FIRST-LAST", help=f"of 0 to {_SEEDS - 1} (default: all)")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--no-write", action="store_true")
    parser.add_argument("--postgres", metavar="ADDRESS", help="compare answers with those of this server instead")
    options = parser.parse_args()
    command = " ".join(
        ["python validation/studies/sql_random_queries.py", *(["--seeds", *options.seeds] if options.seeds else [])]
    )
    seeds = [seed for words in options.seeds or [f"0-{_SEEDS - 1}"] for seed in read_range(words)]
    if options.postgres:
        answered = sum(compare(_PART, 1000 + seed, options.postgres) for seed in seeds)
        print(f"{_PART * len(seeds):,} random queries: {answered:,} answers have the same integers over Postgres")
        return
    tasks = (joblib.delayed(ask)(_PART, 1000 + seed) for seed in seeds)
    page = report(merge(joblib.Parallel(options.jobs)(tasks)), _PART * len(seeds), command)
    print(page, end="")
    if not options.no_write:
        RESULTS.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
