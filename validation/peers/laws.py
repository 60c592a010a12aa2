"""Rows with mean 0 and standard deviation 1 in every column, from laws that are kind or unkind to clipping.

Needs numpy alone, so that peers in other environments draw the same rows from the same seeds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

RARE = 0.02  # probability of a one, in the Bernoulli columns
CONTAMINATED, FAR = 0.01, 10.0  # share of rows that are far off, all in one direction, and how far

LAWS = ("normal", "exponential", "Bernoulli(.02)", "Student t, 3 d.f.", "1% contaminated")


def standard_rows(law: str, n: int, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return ``n`` independent rows of ``d`` columns."""
    if law == "normal":
        return rng.standard_normal((n, d))
    if law == "exponential":
        return rng.standard_exponential((n, d)) - 1
    if law == "Bernoulli(.02)":
        return ((rng.random((n, d)) < RARE) - RARE) / np.sqrt(RARE * (1 - RARE))
    if law == "Student t, 3 d.f.":
        return rng.standard_t(3, (n, d)) / np.sqrt(3)
    rows = rng.standard_normal((n, d))
    rows[rng.random(n) < CONTAMINATED] = FAR
    mean = CONTAMINATED * FAR
    return (rows - mean) / np.sqrt(1 - CONTAMINATED + CONTAMINATED * FAR**2 - mean**2)
