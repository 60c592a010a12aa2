"""Synthetic risks with known means, for the tests of fits."""

from __future__ import annotations

import numpy as np

from dpstats.simulation import StudyResults
from dpstats.simulation.table import CellResult

N = [100, 200, 400, 800, 1600]
TERMS = {"sampling": lambda cell: cell["d"] / cell["n"], "privacy": lambda cell: (30 * cell["d"] / cell["n"]) ** 2}
CONSTANTS = {"sampling": 1.0, "privacy": 1.0}


def synthetic(risk, rng: np.random.Generator, cells=None, replications: int = 200, df: int = 4) -> StudyResults:
    """Return chi-square losses, as squared errors are, with a known mean in every cell."""
    cells = [{"n": n, "d": 1} for n in N] if cells is None else cells
    made = tuple(
        CellResult(cell, {"squared_error": risk(cell) * rng.chisquare(df, replications) / df}, {}) for cell in cells
    )
    return StudyResults("synthetic", made, ("squared_error",), {"Seed": "0"})


def power_law(exponent: float):
    return lambda cell: 3.0 * cell["n"] ** exponent


def two_terms(cell) -> float:
    return TERMS["sampling"](cell) + TERMS["privacy"](cell)


CELLS = [{"n": n, "d": d} for n in (50, 200, 800, 3200, 12_800) for d in (1, 4)]
