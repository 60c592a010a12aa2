"""Survival with hardly any noise, beside lifelines on its own data. Skipped where lifelines is not installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "studies"))
from survival_lifelines import DATA, LARGEST, compare

MOST = {"curve": 0.05, "restricted means": 0.05, "table z": 0.12, "LogRankTest z": 0.12, "log ratio": 0.08}
"""Standard errors of lifelines."""
STRONG = {"waltons, days", "leukemia, weeks"}
"""Hazard ratios of 8 and 5: few rows of one group are left in most bins, and the model of ties matters."""


@pytest.mark.filterwarnings("ignore")  # lifelines uses what pandas will drop
@pytest.mark.parametrize("name", DATA)
def test_curves_tests_and_hazard_ratios_are_those_of_lifelines(name: str) -> None:
    pytest.importorskip("lifelines")
    found = compare(name)
    assert found["edges"] > DATA[name].bins / 2
    for key in LARGEST:
        assert abs(found[key]) < (0.3 if key == "log ratio" and name in STRONG else MOST[key]), key
    assert found["ratio width"] == pytest.approx(1.0, abs=0.2 if name in STRONG else 0.05)
