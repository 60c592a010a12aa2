"""Comparisons with stated values: how often they are false, and that they can fail."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.simulation import StudyResults, compare
from dpstats.simulation.table import CellResult


def outcomes(rates: list[float], rng: np.random.Generator, replications: int = 400) -> StudyResults:
    cells = tuple(
        CellResult({"n": i + 1}, {"rejection": (rng.random(replications) < rate).astype(float)}, {})
        for i, rate in enumerate(rates)
    )
    return StudyResults("outcomes", cells, ("rejection",), {})


def test_comparisons() -> None:
    rng = np.random.default_rng(9)
    assert compare(outcomes([0.05, 0.05, 0.0], rng), 0.05, relation="at_most").verdict == "reproduced"
    assert compare(outcomes([0.05, 0.15], rng), 0.05, relation="at_most").verdict == "not reproduced"
    assert compare(outcomes([0.95, 1.0], rng), 0.95, relation="at_least").verdict == "reproduced"
    assert compare(outcomes([0.95, 1.0], rng), 0.95).verdict == "not reproduced"
    check = compare(outcomes([0.5, 0.9], rng), lambda cell: 0.5 if cell["n"] == 1 else 0.9)
    assert check.verdict == "reproduced" and "n=2" in str(check)
    # Clopper and Pearson: no rejection in 400, with 2.5% in one tail.
    interval = compare(outcomes([0.0], rng), 0.0).lines[0][2]
    assert interval.low == 0 and interval.high == pytest.approx(1 - 0.025 ** (1 / 400), rel=1e-9)


def test_false_verdicts_of_comparisons() -> None:
    rng = np.random.default_rng(10)
    false = sum(compare(outcomes([0.3, 0.3, 0.3], rng, 200), 0.3).verdict != "reproduced" for _ in range(400))
    assert false <= 37
