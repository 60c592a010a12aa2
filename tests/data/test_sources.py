"""What is not in memory is found by what it is, and anything else passes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from dpstats.data.sources import engine_of

from dpstats.data.engine import Engine
from dpstats.errors import InvalidData
from dpstats.means import ClippedMean
from tests.data.engines import Cut


def test_rows_in_memory_pass():
    for rows in (np.zeros((2, 2)), [[1.0]], pd.DataFrame({"a": [1.0]}), None):
        assert engine_of(rows) is rows


def test_an_engine_takes_the_name_of_what_is_beside():
    engine = Cut(np.zeros((3, 1)), 2)
    assert engine_of(engine) is engine and engine_of(engine, np.zeros(3)) is engine
    assert engine_of(engine, "y").beside == "y"


def test_relations_and_collections_are_engines():
    duckdb, array = pytest.importorskip("duckdb"), pytest.importorskip("dask.array")
    assert isinstance(engine_of(duckdb.sql("SELECT 1.0::DOUBLE AS a")), Engine)
    assert isinstance(engine_of(array.zeros((4, 2))), Engine)


@pytest.mark.parametrize("name", ["abc", "rows.json", ""])
def test_other_text_is_no_table(name):
    with pytest.raises(InvalidData, match=r"path of a file that ends in one of \.parquet, \.csv"):
        engine_of(name)
    with pytest.raises(InvalidData, match="X must be a table of numbers"):
        ClippedMean(bounds=(0, 1)).fit(name)


def test_a_file_has_to_be_there(tmp_path):
    pytest.importorskip("duckdb")
    with pytest.raises(InvalidData, match="a file that is there"):
        engine_of(tmp_path / "rows.csv")
