"""Counts of labels that are not in memory are those of the same labels in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from dpstats.data.opening import Tally, open_source, read_counts
from dpstats.data.schema import Categories, Schema
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.mechanisms import Histogram
from dpstats.privacy import PrivacyBudget
from dpstats.tables import ContingencyTable

rng = np.random.default_rng(1)
FRAME = pd.DataFrame(
    {"number": rng.normal(size=500), "plan": rng.choice(["a", "b", "c"], 500), "visits": rng.integers(0, 3, 500)}
)
LEVELS = {"visits": [0, 1, 2], "plan": ["a", "b"]}
KINDS = (Categories([0, 1, 2]), Categories(["a", "b"]))


def sources(folder: Path) -> dict[str, Any]:
    FRAME.to_csv(folder / "rows.csv", index=False)
    duckdb.sql(f"COPY (FROM FRAME) TO '{folder / 'rows.parquet'}'")
    found = {"relation": duckdb.sql("FROM FRAME")}
    found |= {"CSV": folder / "rows.csv", "Parquet": str(folder / "rows.parquet")}
    return found


def test_every_source_gives_the_counts_in_memory(tmp_path: Path) -> None:
    made = ContingencyTable(levels=LEVELS, unknown="drop", epsilon=2.0, random_state=0)
    expected = made.fit(FRAME)
    counts, dropped = expected.counts_, expected.dropped_
    for name, rows in sources(tmp_path).items():
        found = ContingencyTable(levels=LEVELS, unknown="drop", epsilon=2.0, random_state=0).fit(rows)
        assert np.array_equal(found.counts_, counts) and found.dropped_ == dropped, name
        assert found.feature_names_in_.tolist() == ["visits", "plan"] and found.plan_.n_samples == 500
    tally = Tally((3, 2))
    codes = np.column_stack([KINDS[0].codes(FRAME["visits"]), KINDS[1].codes(FRAME["plan"])])
    exact = tally.of_codes(codes)
    assert exact.sum() == 500 and exact[-1] == (FRAME["plan"] == "c").sum()


def test_dask_frames() -> None:
    pytest.importorskip("pyarrow")  # which these frames need
    import dask.dataframe as dd

    source = open_source(dd.from_pandas(FRAME, npartitions=3))
    rows = source.read(Schema(("visits", "plan"), levels=KINDS).resolve(source.names))
    assert Tally((3, 2)).of(rows).sum() == 500


def test_histograms_take_a_source_of_one_column() -> None:
    one = duckdb.sql("SELECT visits FROM FRAME")
    found = Histogram([0, 1, 2], 1.0, random_state=0).release(one).counts
    assert np.array_equal(found, Histogram([0, 1, 2], 1.0, random_state=0).release(FRAME["visits"]).counts)
    numbers = duckdb.sql("SELECT number FROM FRAME")
    both = [
        Histogram(bins=[-5, 0, 5], epsilon=1.0, random_state=0).release(rows).counts
        for rows in (numbers, FRAME["number"])
    ]
    assert np.array_equal(*both)


def test_what_is_missing_or_undeclared_is_refused_and_nothing_charged() -> None:
    budget = PrivacyBudget(1.0)
    some = duckdb.sql("SELECT CASE WHEN visits = 2 THEN NULL ELSE visits END AS visits, plan FROM FRAME")
    with pytest.raises(InvalidData, match="declared levels only"):
        ContingencyTable(levels=LEVELS, unknown="error", budget=budget).fit(some)
    with pytest.raises(InvalidParameter, match="got another at position 1"):
        ContingencyTable(levels=LEVELS, budget=budget).fit(duckdb.sql("SELECT visits FROM FRAME"))
    with pytest.raises(InvalidData, match="must have 1 columns"):
        Histogram([0, 1], 1.0, budget=budget).release(some)
    with pytest.raises(InvalidData, match="at least one row"):
        ContingencyTable(levels=LEVELS, budget=budget).fit(duckdb.sql("FROM FRAME WHERE visits > 9"))
    assert not budget.history()
    with_missing = {"visits": [0, 1, None], "plan": ["a", "b"]}
    table = ContingencyTable(levels=with_missing, unknown="drop", epsilon=50.0, random_state=0).fit(some)
    exact = ((FRAME["visits"] == 2) & (FRAME["plan"] == "a")).sum()
    assert abs(table.counts_[2, 0] - exact) < 2


@pytest.mark.parametrize(
    "counts",
    [
        [2**31 + 1, 0],
        [2**31, 1],
        [1e19, 0.0],
        np.array([2**64 - 1, 2], dtype=np.uint64),
        [1e300, 1],
        [-1, 2],
        [0.5, 1],
        [0, 0],
    ],
)
def test_histograms_have_whole_counts_of_at_most_the_most_rows(counts: Any) -> None:
    with pytest.raises(InvalidData, match="X must"):
        read_counts(counts)
    assert read_counts([2**31, 0]).X.tolist() == [2**31, 0]
