"""A small study, and the rows of its file, which the tests of studies share."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from dpstats.means import ClippedMean

ESTIMATOR = ClippedMean(clip=1.0, delta=1e-6)
GRID = {"n": [20, 200], "d": [1, 3], "epsilon": [0.5]}
ONE_CELL = {"n": [20], "d": [2]}


def rows_of(path: Path) -> list[tuple]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT * FROM results").fetchall()
    connection.close()
    return rows


def count(path: Path) -> int:
    try:
        with sqlite3.connect(path) as connection:
            number = connection.execute("SELECT count(*) FROM results").fetchone()[0]
        connection.close()
        return number
    except sqlite3.OperationalError:  # not made yet, or being written
        return 0
