"""A small study, one that fails for a while, and the rows of their files, which the tests of studies share."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import numpy as np

from dpstats.means import ClippedMean

ESTIMATOR = ClippedMean(clip=3.0, delta=1e-6)
GRID = {"n": [20, 200], "d": [1, 3], "epsilon": [20.0]}  # noise well inside the bounds, which would cut it
ONE_CELL = {"n": [20], "d": [2]}


def mean_of(X: np.ndarray, rng: np.random.Generator, power: int = 1) -> np.ndarray:
    return (X**power).mean(axis=0)


class Flaky:
    """Fails for a reason of the machine while the disk is full."""

    def __call__(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        X = rng.normal(size=(n, d))
        if X[0, 0] > 0 and os.environ.get("DISK_OF_A_TEST") == "full":
            raise OSError("no space left on device")
        return X

    def true_mean(self, d: int) -> np.ndarray:
        return np.zeros(d)


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
