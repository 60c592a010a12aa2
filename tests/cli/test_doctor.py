"""dpstats doctor: a table or JSON, and an exit status."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpstats.cli import doctor, main


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


ROOT = Path(__file__).resolve().parents[2]


def failed_checks(folder: Path) -> list[str]:
    return [check.name for check in doctor.diagnose(folder) if not check.passed]


def test_the_packages_are_those_that_are_declared() -> None:
    path = ROOT / "pyproject.toml"
    if not path.exists():
        pytest.skip("the sources are elsewhere")
    declared = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    names = [words.split(">=")[0] for words in declared["dependencies"]]
    assert list(doctor.REQUIRED) == names
    extras = declared["optional-dependencies"]
    for package, extra in doctor.OPTIONAL.items():
        assert not extra or any(words.startswith(package) for words in extras[extra])


def constant(self: Any, values: Any) -> Any:
    return np.zeros(len(values)) + 0.25


def gaussian(self: Any, values: Any) -> Any:
    return np.random.default_rng(0).normal(scale=3.0, size=len(values))


def test_every_defect_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert failed_checks(tmp_path) == []
    for released in (constant, gaussian):
        with monkeypatch.context() as patch:
            patch.setattr("dpstats.mechanisms.LaplaceMechanism.release", released)
            assert failed_checks(tmp_path) == ["exact noise"]
    with monkeypatch.context() as patch:
        patch.setattr("os.urandom", lambda size: b"\x07" * size)
        assert "random numbers" in failed_checks(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(doctor, "REQUIRED", ("numpy", "no-such-package"))
        assert failed_checks(tmp_path) == ["required packages"]
    for name, kind in (("scipy", "required"), ("duckdb", "optional")):
        with monkeypatch.context() as patch:
            patch.setattr(doctor, "_least_versions", lambda name=name: {name: "99.1"})
            (old,) = [check for check in doctor.diagnose(tmp_path) if not check.passed]
            assert old.name == f"{kind} packages" and "older than 99.1" in old.found
    assert failed_checks(tmp_path / "nowhere") == ["ledger"]
