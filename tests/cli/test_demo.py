"""dpstats demo: runs on the real data and writes what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

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
