"""Random queries over random databases: each is refused, or answered and bounded as brute force says.

One row is replaced, or one person with all rows, and the numbers that noise is added to must move by no more than the
noise is for. The rows of a query are those that DuckDB selects by its text; what is computed of them is plain Python.
"""

from __future__ import annotations

import pytest

from tests.sql.fuzz import run, run_questions

SEEDS = range(8)
QUERIES = 50


@pytest.mark.parametrize("seed", SEEDS)
def test_random_queries_are_answered_and_bounded_rightly(seed: int) -> None:
    found = run_questions(QUERIES, seed=seed)
    # Most are accepted, so that the test is about something.
    assert found["rows"] > 0.8 * QUERIES and found["units"] > 0.2 * QUERIES
    assert found["found"] or seed == 0


def test_mutated_text_is_refused_or_bounded_rightly() -> None:
    found = run(60, seed=9)
    assert found["queries"] == found["mutated"] == 30
    # A left join behind a comma is refused.
    assert found["accepted"] >= 27
