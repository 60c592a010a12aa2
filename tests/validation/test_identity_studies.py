"""The studies of identity tests, reduced: what they measure, and that a part of a table keeps the rest."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "studies"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "searches"))
import identity_constants
import identity_power

WRITTEN = (identity_power.RESULTS / "identity_power.md").read_text(encoding="utf-8")


def test_written_power_is_read_again() -> None:
    table, runs = identity_power.read_markdown(WRITTEN)
    assert len(table) == len(identity_power.SIZES) * 2 * len(identity_power.NAMES) and runs
    assert identity_power.as_markdown(table, runs) == WRITTEN


def test_power_of_one_test_is_that_among_all() -> None:
    names = ("noisy mean, chi-square", "naive Laplace")
    sizes = ((60, 3),)
    together = identity_power.study(60, 1, sizes, names)
    alone = identity_power.study(60, 1, sizes, names[1:])
    for key, ratios in alone.items():
        assert together[key] == ratios
    # Less noise, more power; and a chi-square test through much noise needs a far larger distance.
    ratios = together[60, 3, "dense", names[0]]
    assert ratios == sorted(ratios, reverse=True) and ratios[0] > 3 * ratios[-1] > 3


def test_constants_on_common_rows() -> None:
    sizes = ((80, 6, 60),)
    table = identity_constants.study(1.0, 1, sizes)[80, 6]
    assert table.shape == (len(identity_power.EPSILONS), len(identity_constants.RHO), len(identity_constants.A0))
    assert np.all(table[-1] < 1.7) and np.all(table[1] > table[-1])
    text = identity_constants.as_markdown({(80, 6): table}, sizes, 1.0, 1.0)
    assert text.count("\n| 80 | 6 |") == len(identity_power.EPSILONS)
