"""The same rows are the same release: in every container, in every order, and whichever way their columns are named.

Seeded noise is the same wherever integers are, so all of a result has to be: every number and every word of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import dask.array
import dask.dataframe
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpstats.data import open_source
from dpstats.errors import DPStatsError, InvalidData
from dpstats.lattice import rounding as compiled
from tests.data.spark import IS_HERE, QUIET, cut, spark_session
from tests.nets.calls import ESTIMATORS, ROWS_OF, VARIANTS
from tests.nets.told import outcome, tell

OF_COUNTS = {"IterativeConstruction", "NetMechanism", "SmallDB", "OnlineMultiplicativeWeights"}
"""Estimators that are given how often each row is there."""
IN_ORDER = {"SparseMean", "PrivateStatistic", "CompleteCases", "KolmogorovSmirnovTest"}
"""Estimators that cut the rows into halves, blocks or samples, so that their order matters."""
IN_MEMORY = {"SparseMean"}
"""Estimators that refuse rows without an order."""
NAMES = "ab"


def parts_of(name: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows that an estimator is fitted to as one data frame, and the names of its y."""
    rows = ROWS_OF[ESTIMATORS[name].then]
    if isinstance(rows[0], pd.DataFrame):
        return rows[0], []
    X, *others = map(np.asarray, rows)
    X = X[:, None] if X.ndim == 1 else X
    beside = [f"y{place}" for place in range(len(others))]
    return pd.DataFrame({**dict(zip(NAMES, X.T, strict=False)), **dict(zip(beside, others, strict=True))}), beside


CONTAINERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "polars": pl.from_pandas,
    "lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "Arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "DuckDB": lambda frame: duckdb.connect().from_df(frame),
    "Dask": lambda frame: dask.dataframe.from_pandas(frame, npartitions=2),
    "Spark": lambda frame: cut(pa.Table.from_pandas(frame, preserve_index=False), 90),
}
BESIDE = ["lazy", "Dask", "DuckDB", "Spark"]
"""Containers of which y is a column: each estimator reads two of them."""
IN_WHOLE = ["polars", "Arrow"]


def fit(name: str, rows: Any, *y: Any) -> str:
    """Return all that a fit says."""
    call = ESTIMATORS[name]
    return repr(list(tell(call.made(**call.given).fit(rows, *y))))


def entries(frame: pd.DataFrame, beside: list[str]) -> tuple[Any, ...]:
    """Return columns as the y of a fit."""
    return tuple(frame[one].to_numpy() for one in beside)


@cache
def in_memory(name: str) -> str:
    frame, beside = parts_of(name)
    return fit(name, frame.drop(columns=beside), *entries(frame, beside))


ASKED = [name for name in ESTIMATORS if name not in OF_COUNTS]


@pytest.mark.parametrize("name", ASKED)
def test_rows_of_every_container_are_those_in_memory(name: str) -> None:
    frame, beside = parts_of(name)
    place = ASKED.index(name)
    for kind in (BESIDE[place % 4], BESIDE[(place + 1) % 4]):
        source = open_source(CONTAINERS[kind](frame)).having([*frame.columns.drop(beside)], tuple(beside))
        if name in IN_MEMORY:
            with pytest.raises(InvalidData):
                fit(name, source)
        else:
            assert fit(name, source) == in_memory(name), kind
    made = CONTAINERS[IN_WHOLE[place % 2]](frame.drop(columns=beside))
    assert fit(name, made, *entries(frame, beside)) == in_memory(name)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with spark_session() as made:
        yield made


@pytest.mark.skipif(not IS_HERE, reason="pyspark is not installed, or there is no Java: make test-spark")
@pytest.mark.filterwarnings(*QUIET)
@pytest.mark.parametrize("name", [name for name in ASKED if name not in IN_MEMORY])
def test_rows_of_spark_itself_are_those_in_memory(name: str, spark: Any) -> None:
    frame, beside = parts_of(name)
    rows = spark.createDataFrame(frame).repartition(3) if name not in IN_ORDER else spark.createDataFrame(frame)
    source = open_source(rows).having([*frame.columns.drop(beside)], tuple(beside))
    assert fit(name, source) == in_memory(name)


@pytest.mark.parametrize("name", [name for name in ASKED if len(ROWS_OF[ESTIMATORS[name].then]) > 1])
def test_y_has_as_many_columns_as_are_asked_for(name: str) -> None:
    frame, beside = parts_of(name)
    columns = [*frame.columns.drop(beside)]
    source = open_source(CONTAINERS["lazy"](frame))
    for others in (beside[:-1], [*beside, *columns[:1]], [*beside, *beside]):
        with pytest.raises(DPStatsError):
            fit(name, source.having(columns, tuple(others)))


@pytest.mark.parametrize("name", [name for name in ASKED if name not in IN_ORDER])
def test_rows_in_another_order_are_the_same_release(name: str) -> None:
    frame, beside = parts_of(name)
    for seed in (0, 1):
        other = frame.iloc[np.random.default_rng(seed).permutation(len(frame))]
        assert fit(name, other.drop(columns=beside), *entries(other, beside)) == in_memory(name)


@pytest.mark.parametrize("name", [*ASKED, *VARIANTS])
def test_loops_that_are_compiled_for_large_tables_are_the_same_release(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = {**ESTIMATORS, **VARIANTS}[name]
    wanted = outcome(partial(call, **call.given))
    monkeypatch.setattr(compiled, "FEWEST", 1)
    monkeypatch.setattr(compiled, "loops", lambda: compiled.UNCOMPILED)
    assert repr(outcome(partial(call, **call.given))) == repr(wanted)
