"""The study of private SQL, reduced: made-up flights, every query in every way."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "studies"))
import private_sql
import sql_joins
import sql_random_queries
import warehouse_queries


def test_the_study_runs_and_says_what_is_known() -> None:
    private_sql.REPEATS = 1
    for name in list(private_sql.QUERIES):
        if name not in ("by Boeings", "late in fog", "pairs of flights of a plane in a day", "planes seen at JFK"):
            del private_sql.QUERIES[name]
    found, bounds = private_sql.study(private_sql.made_up(np.random.default_rng(0), 400), 5)
    assert list(found) == list(private_sql.QUERIES) and "by Boeings" in bounds
    for name, row in found.items():
        # Planes are public: what a flight moves is known, and the noise of two or three rows is small.
        if not name.startswith("pairs"):
            assert row["a flight"].error <= 20
        assert row["a plane with all its flights"] is not None
    text = private_sql.as_markdown(found, bounds, 5, "python validation/studies/private_sql.py")
    assert text.count("\n| ") == 2 * (1 + len(private_sql.QUERIES))
    # What a plane adds, by hand.
    tables = private_sql.made_up(np.random.default_rng(1), 300)
    most = private_sql.largest_unit(private_sql.connected(tables), "SELECT COUNT(*) FROM flights WHERE dep_delay > 60")
    late = tables["flights"][tables["flights"]["dep_delay"] > 60]
    assert most == late["tailnum"].value_counts().max()


def test_most_queries_of_an_analyst_are_answered_and_right() -> None:
    found = warehouse_queries.ask(warehouse_queries.warehouse(20_000))
    answered = [each for each in found if not each.refusal]
    assert len(found) == 30 and len(answered) >= 28
    # At 20,000 rows and epsilon = 1 no shown cell is off by more than a fifth, with this seed.
    assert max(each.error for each in answered) < 0.2
    refused = " ".join(each.refusal for each in found)
    assert "MAX in SELECT" in refused
    assert warehouse_queries.report(found, 20_000, "x").count("\n| `SELECT") == 29


def test_random_queries_are_counted_and_neighbors_within_their_bounds() -> None:
    parts = [sql_random_queries.ask(10, seed) for seed in (1, 2)]
    found = sql_random_queries.merge(parts)
    assert found.accepted["rows"] == sum(part.accepted["rows"] for part in parts) > 15
    assert {"rows", "shares", "units"} <= found.moves.found.keys()
    assert all(count > 0 and largest <= 1 for count, largest in found.moves.found.values())
    page = sql_random_queries.report(found, 20, "x")
    assert page.count("\n| ") == 2 + len(sql_random_queries.CLAUSES) + len(sql_random_queries.BOUNDS)


def test_intervals_of_joins_cover() -> None:
    found = sql_joins.study(25, (1.0,), (300,))
    assert len(found) == len(sql_joins.ROWS) + len(sql_joins.PEOPLE)
    # At coverage 0.95 an answer has fewer than 18 of 25 with probability 1e-5.
    assert (found["coverage"] >= 0.72).all() and found["coverage"].mean() > 0.9
    text = sql_joins.as_markdown(found, 25, "python validation/studies/sql_joins.py")
    assert text.count("\n| ") == 1 + len(found)
