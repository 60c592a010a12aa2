"""Tables for the commands to read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpstats.cli import main


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(40, 10, 500), "visits": rng.poisson(3, 500), "name": ["secret"] * 500})
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def signals(tmp_path: Path) -> Path:
    rows = np.random.default_rng(0).normal(size=(2000, 30))
    rows[:, [3, 7]] += 0.9
    frame = pd.DataFrame(rows, columns=[f"g{j}" for j in range(30)])
    path = tmp_path / "genes.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"age": rng.normal(40, 10, 200), "name": ["secret"] * 200})


@pytest.fixture
def folder(tmp_path: Path, frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a table, and a ledger of epsilon 1 without a charge."""
    monkeypatch.chdir(tmp_path)
    frame.to_csv("people.csv", index=False)
    assert main(["budget", "new", "b.db", "--epsilon", "1"]) == 0
    return tmp_path
