"""The source of a container, chosen by the type of the container."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpstats.data.duckdb_files import is_parquet
from dpstats.data.memory import Memory
from dpstats.data.source import Source
from dpstats.errors import InvalidData

Opener = Callable[[Any], Source | None]

_PACKED = ("", ".gz", ".bz2", ".xz", ".zip")
_TEXTS = (".csv", ".tsv", ".txt")
_FILES = (".parquet", ".pq", ".zip", *(f"{kind}{packed}" for kind in _TEXTS for packed in _PACKED))
_OPENERS: dict[str | type, Opener] = {}


def register(container: str | type, opener: Opener) -> None:
    """Register a function that opens containers of a type.

    Parameters
    ----------
    container : type, or str
        The type, or its library: the first part of the name of its module. The library is not imported.
    opener : callable
        Takes the container and returns its `Source`, or None for an unknown container, which is then read as rows in
        memory. It must not read an entry.
    """
    _OPENERS[container] = opener


def open_source(X: Any) -> Source:
    """Return the source of private rows, without reading an entry.

    Raises
    ------
    InvalidData
        If X is text that is not the path of a file of rows.
    """
    if isinstance(X, Source):
        return X
    if isinstance(X, str | Path):
        return _file(X)
    for kind in type(X).__mro__:
        if kind in _OPENERS:
            found = _OPENERS[kind](X)
            if found is not None:
                return found
    opener = _OPENERS.get(type(X).__module__.lstrip("_").partition(".")[0])
    found = None if opener is None else opener(X)
    return Memory(X) if found is None else found


def _file(X: str | Path) -> Source:
    if not str(X).lower().endswith(_FILES):
        raise InvalidData(
            "X must be a table of numbers, or the path of a file that ends in .parquet, .pq, .csv, .tsv or .txt, the "
            f"last three also compressed ({', '.join(_PACKED[1:])})"
        )
    path = Path(X)
    if not is_parquet(path):
        from dpstats.data.text import of_text_file

        return of_text_file(path)
    from dpstats.data.duckdb_rows import of_parquet

    return of_parquet(path)


def _duckdb(X: Any) -> Source | None:
    if not hasattr(X, "aggregate"):
        return None
    from dpstats.data.duckdb_rows import of_relation

    return of_relation(X)


def _dask(X: Any) -> Source | None:
    if not hasattr(X, "to_delayed"):
        return None
    from dpstats.data.dask_rows import open_array, open_frame

    return open_frame(X) if hasattr(X, "columns") else open_array(X)


def _polars(X: Any) -> Source | None:
    if not hasattr(X, "collect_schema") or not hasattr(X, "collect"):
        return None
    from dpstats.data.lazy_rows import open_lazy_frame

    return open_lazy_frame(X)


def _ibis(X: Any) -> Source | None:
    if not hasattr(X, "to_pyarrow_batches") or not hasattr(X, "columns"):
        return None
    from dpstats.data.lazy_rows import open_ibis_table

    return open_ibis_table(X)


def _arrow(X: Any) -> Source | None:
    if not hasattr(X, "count_rows") or not hasattr(X, "schema"):  # a table or a column
        return None
    from dpstats.data.lazy_rows import open_dataset

    return open_dataset(X)


def _spark(X: Any) -> Source | None:
    frame = X.to_spark() if hasattr(X, "to_spark") else X  # pandas on Spark
    if not hasattr(frame, "mapInArrow"):
        return None
    from dpstats.data.spark_rows import open_spark_frame

    return open_spark_frame(frame)


for _library, _opener in (
    ("duckdb", _duckdb),
    ("dask", _dask),
    ("polars", _polars),
    ("ibis", _ibis),
    ("pyspark", _spark),
    ("pyarrow", _arrow),
):
    register(_library, _opener)
