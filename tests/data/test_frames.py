"""Columns of data frames by their names, of pandas and polars alike."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pytest

from dpstats.data.frames import column, refuse_unknown, select, take
from dpstats.errors import InvalidParameter

DATA = {"a": [1.0, 2.0], "g": ["x", "y"], "b": [3.0, 4.0]}
frames = pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])


@frames
def test_columns_and_entries(kind: type) -> None:
    frame = kind(DATA)
    assert list(take(frame, "g", [1, 0])) == ["y", "x"]
    assert list(column(select(frame, ["b"]), "b")) == [3.0, 4.0]


def test_unknown_and_repeated_names_are_refused() -> None:
    frame = pd.DataFrame([[1, 2, 3]], columns=["g", "g", "x"])
    for name in ("g", "q"):
        with pytest.raises(InvalidParameter, match="unit must name columns"):
            refuse_unknown("unit", [name], list(frame.columns))
