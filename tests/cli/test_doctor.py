"""dpstats doctor: a table or JSON, and an exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpstats.cli import main


def test_a_sound_installation_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--folder", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "FAILED" not in printed and "numpy" in printed and "Laplace noise" in printed
    assert main(["doctor", "--folder", str(tmp_path), "--json"]) == 0
    assert all(check["passed"] for check in json.loads(capsys.readouterr().out))
    assert not list(tmp_path.iterdir())


def test_a_folder_without_a_ledger_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--folder", str(tmp_path / "nowhere")]) == 6
    assert "FAILED  ledger" in capsys.readouterr().out
