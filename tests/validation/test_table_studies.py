"""The studies of proportions, tables and ranks, reduced: every part runs, and says what is known of it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "studies"))
import proportions
import ranks
import tables

from dpstats.inference.noisy_counts import CountNoise, at_least, at_most


def test_shares_of_the_tables_are_what_they_are_called() -> None:
    for shape in tables.SHAPES:
        for kind in tables.KINDS:
            shares = tables.independent(shape, kind)
            assert shares.shape == shape and shares.sum() == pytest.approx(1)
            moved = tables.dependent(shape, kind, 0.3)
            assert moved.min() > 0 and moved.sum() == pytest.approx(1) and np.abs(moved - shares).max() > 1e-3
    assert tables.margin("skewed", 3).tolist() == pytest.approx([6 / 11, 3 / 11, 2 / 11])


def test_naive_tests_are_scipys_and_have_power() -> None:
    counts = np.array([[300.0, 100.0], [100.0, 300.0]])
    noise = CountNoise("laplace", 2.0)
    assert tables.naive_pvalue(counts) < 1e-9
    assert tables.naive_simulated(counts, 800, noise, np.random.default_rng(0)) == 1 / (tables.SIMULATIONS + 1)
    assert tables.naive_pvalue(np.array([[0.0, 0.0], [1.0, 2.0]])) == 1.0
    assert tables.naive_statistic(counts[None])[0] == pytest.approx(200)


def test_the_study_of_tables_runs_and_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tables, "SIMULATIONS", 99)
    monkeypatch.setattr(tables, "DEFAULT", 199)
    monkeypatch.setattr(tables, "EFFECTS", tables.EFFECTS[:9])
    kept = tmp_path / "cells"
    found = tables.study(12, small=True, kept=kept)
    done = kept.read_text().splitlines(keepends=True)
    kept.write_text("".join(done[1:]))
    again = tables.study(12, small=True, kept=kept)
    assert len(kept.read_text().splitlines()) == len(done)
    for part, cells in found.items():
        assert {cell: row.tolist() for cell, row in cells.items()} == {
            cell: row.tolist() for cell, row in again[part].items()
        }
    text = tables.as_markdown(found, 12, "python validation/studies/tables.py")
    assert text.count("| 2 x 2 |") + text.count("| 3 x 3 |") >= 3 and "Coverage of 95% intervals for effects" in text
    # 48 groups a cell, at .95: fewer than 36 with probability below 1e-7.
    assert min(row[0] for row in found["shares"].values()) > 0.7
    assert max(row[0] for row in found["level"].values()) < 0.6


def test_powers_are_beside_their_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "SIMULATIONS", 99)
    page = tables.powers(8, cells=[((2, 2), "uniform", 2000, 1.0, 0.6)])
    row = page.splitlines()[-1]
    found = [tuple(map(float, cell.rstrip(")").split(" ("))) for cell in row.strip("| ").split(" | ")[5:]]
    assert len(found) == len(tables.TESTS)
    # Without noise and with little of it, a strong dependence is found; of eight independent tables five are not.
    assert all(found[place][0] == 1.0 for place in (0, 1, 3)) and all(level <= 0.5 for _, level in found)


def test_levels_powers_and_coverage_of_proportions_are_computed() -> None:
    noise = CountNoise("laplace", 1.0)
    level, power = proportions.power(30, noise)
    assert level == pytest.approx(0.05, abs=1e-9) and power == pytest.approx(0.6353, abs=1e-4)
    assert proportions.coverage(30, 0.3, noise) == pytest.approx(0.95, abs=1e-9)
    # The conservative interval covers what the sum over all counts says.
    counts = np.arange(-60, 91)
    kept = [min(at_least(k - 0.5, 30, 0.3, noise), at_most(k + 0.5, 30, 0.3, noise)) >= 0.025 for k in counts]
    tails = np.array([at_least(k - 0.5, 30, 0.3, noise) for k in [*counts, 91]])
    assert proportions.conservative_coverage(30, 0.3, noise) == pytest.approx(-np.diff(tails) @ kept, abs=1e-9)
    own, wide, plain, _ = proportions.lengths(100, 1.0, 0.5, 40)
    assert wide > own
    # Published: .199 and .202 in the mean.
    assert own == pytest.approx(0.199, abs=0.01) and plain == pytest.approx(0.202, abs=0.001)


@pytest.mark.parametrize("name", ranks.FAMILIES)
def test_rank_tests_of_the_study_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "SIMULATIONS", 199)
    level, plain = ranks.rate(name, 30, 5.0, 0.3, 0.0, True, 40, 0)
    # 40 at .05: more than 15 with probability below 1e-9.
    assert level < 0.4 and plain < 0.4
    power = ranks.rate(name, 100, 5.0, 0.5, 2.0, False, 20, 0)
    assert min(power) > 0.5
