"""A change of the unit of a column multiplies every answer of a query by a power of the factor, to the last digits.

The factors are powers of two, so that floating point and noise are the same in both units.
"""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pytest

from dpstats.sql import PrivateSQL

QUERIES: dict[str, tuple[str, dict[str, Any]]] = {
    "sum": ("SELECT g, SUM(x) AS one FROM r GROUP BY g", {}),
    "mean": ("SELECT g, AVG(x) AS one FROM r GROUP BY g", {}),
    "several": ("SELECT g, COUNT(*) AS none, AVG(x) AS one, SUM(x) AS one_more FROM r GROUP BY g", {}),
    "spreads": ("SELECT g, STDDEV(x) AS one, VAR_POP(x) AS two FROM r GROUP BY g", {}),
    "Gaussian": ("SELECT SUM(x) AS one, AVG(x) AS one_more, STDDEV_POP(x) AS one_again FROM r", {"delta": 1e-3}),
    "quantiles": ("SELECT MEDIAN(x) AS one, QUANTILE_CONT(x, 0.9) AS one_more FROM r", {}),
    "of people": ("SELECT g, SUM(x) AS one, COUNT(*) AS none FROM r GROUP BY g", {"unit": "u"}),
    "spread of people": ("SELECT STDDEV(x) AS one, AVG(x) AS one_more FROM r", {"unit": "u"}),
    "join": ("SELECT SUM(x) AS one FROM r JOIN s USING (k)", {"epsilon": 20.0}),
    "joined mean": ("SELECT AVG(x) AS one, COUNT(*) AS none FROM r JOIN s USING (k)", {"epsilon": 20.0}),
}
POWERS = {"none": 0, "one": 1, "two": 2}


def ask(text: str, options: dict[str, Any], factor: float) -> Any:
    """Return the answers of a query on a column in another unit, as a frame."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE r AS SELECT i % 2 AS g, i % 80 AS u, i % 17 AS k, "
        f"(i % 13 - 3)::DOUBLE * {factor!r}::DOUBLE AS x FROM range(400) t(i)"
    )
    connection.execute("CREATE TABLE s AS SELECT i::INTEGER AS k FROM range(17) t(i)")
    declared: dict[str, Any] = {
        "categories": {"r.g": [0, 1]},
        "bounds": {"r.x": (-2 * factor, 8 * factor)},
        "epsilon": 4.0,
        **options,
    }
    if "unit" in options:
        declared["public_tables"] = ["s"]
    return PrivateSQL(connection, random_state=3, **declared).query(text).to_frame()


@pytest.mark.parametrize("name", QUERIES)
def test_answers_follow_the_unit_of_their_values(name: str) -> None:
    text, options = QUERIES[name]
    one = ask(text, options, 1.0)
    labels = one["aggregate"] if "aggregate" in one else np.array(["one"])
    power = np.array([POWERS[label.partition("_")[0]] for label in labels])
    for factor in (2.0**-30, 2.0**9):
        other = ask(text, options, factor)
        assert list(other) == list(one)
        for column, numbers in one.items():
            if column != "g" and numbers.dtype == float:
                wanted = numbers.to_numpy() * factor**power
                np.testing.assert_allclose(other[column], wanted, rtol=1e-9, err_msg=f"{column} at {factor}")
