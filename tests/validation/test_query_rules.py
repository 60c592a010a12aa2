"""The study of update rules, reduced: its promises are those of the theorems, and what it measures stays below them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dpstats.textbook.error_bounds import perceptron_updates

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "studies"))
import query_rules


def test_rules_use_fewer_updates_than_promised() -> None:
    ((share, weights, used, perceptron, also_used),) = query_rules.densities(1, 0, shares=(0.5,))
    assert share == 0.5 and used <= weights and also_used <= perceptron < weights
    # (|X|/s - 1)/(4 g^2) at a gap of not much less than the accuracy.
    assert perceptron_updates(256, 0.1, 2 / 256) <= perceptron <= perceptron_updates(256, 0.09, 2 / 256)


def test_errors_are_below_what_is_promised() -> None:
    for delta in (0.0, 1e-6):
        ((n, k, rounds, promised, measured, _),) = query_rules.errors(delta, 2, 0, [(10_000, 8)])
        assert (n, k) == (10_000, 8) and rounds > 1 and 0 < measured < promised


def test_a_page_and_a_picture_are_made_of_what_was_measured() -> None:
    cells = [(n, k, 5, 10 / n**0.5, 5 / n**0.5, 0.1) for n, k in ((100, 8), (400, 64), (900, 512))]
    both = dict.fromkeys(query_rules.THEORY, cells)
    found = query_rules.Measured([(0.5, 284.0, 3.5, 25.0, 1.0), (1.0, 284.0, 0.0, 0.0, 0.0)], both, both)
    text = query_rules.as_markdown(found, 2, "command")
    assert "| 0.5 | 284 | 3.5 | 25 | 1.0 |" in text and "promised -0.500" in text
    assert len(query_rules.picture(found).axes) == 2


def test_slopes() -> None:
    found, error = query_rules.slope([1.0, 10.0, 100.0], [5.0, 0.5, 0.05])
    assert found == pytest.approx(-1) and error == pytest.approx(0, abs=1e-9)
