"""What the logger dpstats is told: charges, waits and passes over the data, and never a value of the data."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpstats.groups import GroupMeans
from dpstats.means import ClippedMean
from dpstats.privacy import PrivacyBudget
from dpstats.sql import PrivateSQL


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("dpstats")]


def test_charges_and_passes_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pd.DataFrame({"age": np.arange(100.0)}).to_csv(tmp_path / "people.csv", index=False)
    budget = PrivacyBudget(1.0, ledger=tmp_path / "b.db").once("night")
    with caplog.at_level(logging.INFO, "dpstats"):
        for _ in range(2):
            ClippedMean(bounds={"age": (0, 100)}, epsilon=0.5, budget=budget).fit(tmp_path / "people.csv")
    found = messages(caplog)
    assert "charged (epsilon = 0.5, delta = 0) for 'night: ClippedMean'" in found
    assert "the answer of 'night' is returned again, nothing was charged" in found
    # The second fit reads the number of rows, and no entries.
    assert sum(text.startswith("pass over the data: ") for text in found) == 1


def test_no_value_of_the_data_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    frame = pd.DataFrame({"age": [4711.25] * 60, "ward": ["patient 4711"] * 60})
    budget = PrivacyBudget(9.0, 1e-3)
    with caplog.at_level(logging.DEBUG, "dpstats"):
        GroupMeans(bounds={"age": (0, 9999)}, by="ward", groups=["a"], budget=budget).fit(frame[["age", "ward"]])
        with pytest.raises(ValueError, match="number"):
            ClippedMean(bounds=(0, 1), budget=budget).fit(frame[["ward"]])
        PrivateSQL({"p": frame}, epsilon=1.0, budget=budget).query("SELECT COUNT(*) FROM p WHERE age > 3")
    assert len(messages(caplog)) >= 3 and "4711" not in caplog.text


def test_nothing_is_logged_above_information_in_a_fit(caplog: pytest.LogCaptureFixture) -> None:
    ClippedMean(bounds=(0, 1), budget=PrivacyBudget(1.0)).fit([0.0, 1.0])
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
