from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpstats.data.duckdb_files import is_parquet
from dpstats.data.memory import Memory
from dpstats.data.source import Source
from dpstats.errors import refuse_data

# Containers of all kinds


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
        raise refuse_data(
            "X",
            allowed="a table of numbers, or the path of a file that ends in .parquet, .pq, .csv, .tsv or .txt, the "
            f"last three also compressed ({', '.join(_PACKED[1:])})",
        )
    path = Path(X)
    if not is_parquet(path):
        from dpstats.data.text import of_text_file

        return of_text_file(path)
    from dpstats.data.duckdb_rows import of_parquet

    return of_parquet(path)


# The modules of the libraries are imported by the first container of each. A container without the methods is one in
# memory, such as a column.


def _open_relation(X: Any) -> Source | None:
    from dpstats.data.duckdb_rows import of_relation

    return of_relation(X) if hasattr(X, "aggregate") else None


def _open_dask(X: Any) -> Source | None:
    from dpstats.data.dask_rows import open_array, open_frame

    if not hasattr(X, "to_delayed"):
        return None
    return open_frame(X) if hasattr(X, "columns") else open_array(X)


def _open_polars(X: Any) -> Source | None:
    from dpstats.data.lazy_rows import open_lazy_frame

    return open_lazy_frame(X) if hasattr(X, "collect_schema") and hasattr(X, "collect") else None


def _open_ibis(X: Any) -> Source | None:
    from dpstats.data.lazy_rows import IbisRows

    if not hasattr(X, "to_pyarrow_batches") or not hasattr(X, "columns"):
        return None
    return IbisRows(X, [str(name) for name in X.columns])


def _open_arrow(X: Any) -> Source | None:
    from dpstats.data.lazy_rows import DatasetRows

    return DatasetRows(X, list(X.schema.names)) if hasattr(X, "count_rows") and hasattr(X, "schema") else None


def _open_spark(X: Any) -> Source | None:
    from dpstats.data.spark_rows import open_spark_frame

    frame = X.to_spark() if hasattr(X, "to_spark") else X  # pandas on Spark
    return open_spark_frame(frame) if hasattr(frame, "mapInArrow") else None


_OPENERS.update(
    duckdb=_open_relation,
    dask=_open_dask,
    polars=_open_polars,
    ibis=_open_ibis,
    pyspark=_open_spark,
    pyarrow=_open_arrow,
)
