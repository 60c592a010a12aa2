"""The study of quantiles, reduced: what is true of the laws, and cells that can fail."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "studies"))
import quantiles as study
from quantile_laws import LAWS


def test_quantiles_of_laws_are_true() -> None:
    for q in (0.5, 0.9):
        assert LAWS["normal"].quantile(q) == pytest.approx(stats.norm.ppf(q))
        assert LAWS["lognormal"].quantile(q) == pytest.approx(stats.lognorm(1).ppf(q))
        assert LAWS["Poisson(3)"].quantile(q) == stats.poisson(3).ppf(q)


def test_the_samples_interval_covers() -> None:
    rng = np.random.default_rng(0)
    ends = [study.sample_interval(rng.normal(size=200), 0.5) for _ in range(400)]
    covered = np.mean([low <= 0 <= high for low, high in ends])
    # Three standard deviations of .95; the interval is at least of its level.
    assert 0.917 < covered < 0.99


def test_cells_cover_and_are_little_wider_than_the_samples() -> None:
    cell = study.measure("lognormal", 0.5, 5000, 1.0, "regular", 60)
    # Seeds are fixed: of others .85 is below three standard deviations.
    assert cell.covered >= 0.85 and cell.width < 1.15 and cell.error < 1.2
    wide = study.measure("lognormal", 0.5, 500, 1.0, "any", 30)
    assert wide.covered >= 0.85 and 1.2 < wide.width < 2.5


def test_the_fast_version_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    study.main(["--fast"])
    out = capsys.readouterr().out
    assert "| normal | 0.5 | 5,000 | 1 | regular |" in out and out.count("\n| ") == 16


def test_peers_are_run_on_the_same_rows() -> None:
    law = LAWS["normal"]
    values, seconds = study.timed(np.median, law, 0.5, 100, 5)
    again, _ = study.timed(np.median, law, 0.5, 100, 5)
    assert np.array_equal(values, again) and seconds > 0
    chosen = study.opendp_quantile(law, 0.5, 2000, 1.0)
    assert abs(chosen(law.rows(2000, np.random.default_rng(0))) - 0.0) < 0.5


def test_a_part_that_is_run_again_keeps_the_other_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = study.Cell("normal", 0.5, 500, 1.0, "any", 0.88, 1.5, float("nan"), 400, "2026-11-22")
    other = study.Cell("lognormal", 0.5, 500, 1.0, "any", 0.99, 1.8, 1.2, 400, "2026-11-22")
    assert "0.880 !" in study.report([cell, other], [], "command")
    (tmp_path / "quantiles.md").write_text(study.report([cell, other], study.peer_lines([["a"]]), "command"))
    monkeypatch.setattr(study, "RESULTS", tmp_path)
    monkeypatch.setattr(study, "SIZES", ((500, 1.0), (500, 0.1)))
    study.main(["--replications", "3", "--only", "normal", "--epsilons", "1"])
    found = study.read_cells((tmp_path / "quantiles.md").read_text())
    assert found[other[:5]] == other and found[cell[:5]].replications == 3 and len(found) == 3
    assert "| a |" in capsys.readouterr().out
