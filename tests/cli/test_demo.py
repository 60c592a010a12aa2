"""dpstats demo: runs on the real data and writes what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpstats.cli import doctor as demo
from dpstats.cli import main


def test_demo_writes_its_page_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for part in ("mdvis", "not private", "Privacy spent, per row", "(epsilon = 5,", "Nothing was charged."):
        assert part in out
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "data:image/png;base64," in page
    # Self-contained: nothing is loaded from anywhere.
    assert "http://" not in page and "https://" not in page and "<script" not in page
    assert (tmp_path / "means_by_epsilon.png").read_bytes().startswith(b"\x89PNG")


def test_public_bounds_hold_the_data() -> None:
    # The bounds are stated beforehand; this documents how many of these public rows they clip.
    data = demo.load()
    assert data.shape == (20_190, len(demo.COLUMNS))
    clipped = {c.name: int(((data[c.name] < c.low) | (data[c.name] > c.high)).sum()) for c in demo.COLUMNS}
    assert clipped == {"mdvis": 12, "disea": 0, "physlm": 0, "hlthg": 0, "hlthf": 0, "hlthp": 0}


def test_a_person_costs_what_group_privacy_says() -> None:
    table = demo.price_per_person()
    guarantees = dict(table.facts)
    assert guarantees["A person protected"].endswith("one person replaced")
    # Six columns have Laplace noise: epsilon is five times that of a row, and no delta is spent.
    assert "(epsilon = 1, delta = 0)" in guarantees["A person protected"]
    assert "(epsilon = 1, delta = 0)" in guarantees["A row protected"]
    assert [row[-1] for row in table.rows] == ["5.00"] * 6


def test_demo_intervals_cover_the_non_private_means() -> None:
    data = demo.load()
    fitted = demo.estimator(random_state=1).fit(data)
    low, high = fitted.confidence_interval(1 - 1e-9)
    truth = data.clip([c.low for c in demo.COLUMNS], [c.high for c in demo.COLUMNS], axis=1).mean()
    assert np.all((low <= truth) & (truth <= high))


def test_the_demo_shows_the_means_beside_the_estimates() -> None:
    mean, truth = (demo.estimator(random_state=1).fit(demo.load()), [3.25, 11.1, 0.125, 0.375, 0.0625, 0.015625])
    shown = [float(row[-1]) for row in demo.comparison(mean, truth).rows]
    assert shown == pytest.approx(truth, rel=0.2)
