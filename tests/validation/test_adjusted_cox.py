"""The study of an adjusted Cox model, reduced: it has the errors that its page states."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "studies"))
import adjusted_cox


def test_without_noise_the_design_is_nearly_cox() -> None:
    cell = adjusted_cox.Cell(4000, 1e6, 1.0, 0.5, 0.5, np.array([0.2]), ("yes/no",))
    rng = np.random.default_rng(0)
    found = np.array([adjusted_cox.private(cell, rng) for _ in range(60)])[..., 0]
    assert abs(found[:, 0].mean() - 0.2) < 0.02
    assert np.median(found[:, 1]) / adjusted_cox.cox_error(cell, rng)[0] < 1.1
    assert (np.abs(found[:, 0] - 0.2) <= adjusted_cox.NORMAL * found[:, 1]).mean() > 0.85


def test_the_page_states_a_decision() -> None:
    page = adjusted_cox.as_markdown(1, 3, 0, "command")
    assert "Decision: dpstats does not have it" in page and page.count("\n| ") == 2
