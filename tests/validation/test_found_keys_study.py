"""The study of groups that nobody declared, with few draws."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "studies"))
import found_keys


def test_the_page_has_every_class_under_both_relations() -> None:
    text = found_keys.as_markdown(60, "python validation/studies/found_keys.py")
    rows = [line.split("|")[2:] for line in text.splitlines() if line.startswith("| 1, 1e-06")]
    found = {cells[0].strip(): [cell.strip() for cell in cells[1:4]] for cells in rows}
    assert found["`Histogram`, replaced"] == ["18.0", "20", "27"]
    assert found["`Histogram`, added or removed"][1:] == ["14", "16"] and len(found) == 6
    assert text.count("means, ") == 12


def test_counts_are_drawn_given_that_the_group_was_found() -> None:
    stage, rng = found_keys.list_stages(1.0, 1e-6)["`Histogram`, replaced"], np.random.default_rng(0)
    drawn = found_keys.draw_counts(stage, 20, 20_000, rng)
    assert stage.threshold <= drawn.min() and drawn.max() < 20 + stage.threshold
    # Against the masses of the noise: within five standard errors.
    mass = stage.count_noise.mass
    share = float(mass(2.0, stage.threshold) / mass(stage.threshold - 20, stage.threshold))
    assert abs((drawn > 22).mean() - share) < 5 * np.sqrt(share * (1 - share) / 20_000)
