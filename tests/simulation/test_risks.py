"""Measured risks: which cells a fit uses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.simulation import StudyResults, fit_rate
from dpstats.simulation.table import CellResult, usable_cells
from tests.simulation.synthetic import power_law, synthetic


def test_failed_cells_are_left_out() -> None:
    results = synthetic(power_law(-1), np.random.default_rng(11))
    broken = CellResult({"n": 5, "d": 1}, {"squared_error": np.array([9.0, 9.0])}, {"ValueError: no": 3})
    mixed = StudyResults("mixed", (*results.cells, broken), results.losses, {})
    assert fit_rate(mixed, "n").slope == fit_rate(results, "n").slope
    with pytest.raises(InvalidParameter, match="at most 5% of the replications failed"):
        fit_rate(StudyResults("none", (broken,), results.losses, {}), "n")


def test_a_selection_of_cells_keeps_all_else_that_is_known_of_a_study() -> None:
    results = replace(synthetic(power_law(-1), np.random.default_rng(13)), seconds=7.0, versions=({"numpy": "1.0"},))
    kept = usable_cells(results, "squared_error")
    assert kept.seconds == 7.0 and kept.versions == ({"numpy": "1.0"},) and kept.facts == results.facts
