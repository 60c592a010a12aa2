"""What rows are read from, where they are not in memory: a relation of DuckDB, a file, a Dask collection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpstats.data.engine import Engine
from dpstats.errors import InvalidData

_FILES = (".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz")


def engine_of(X: Any, y: Any = None) -> Any:
    """Return an `Engine` for rows that are not in memory, and anything else as it is.

    A ``y`` that is text is the name of the column beside the numbers.
    """
    found = _engine(X)
    return found.having(None, y) if isinstance(found, Engine) and isinstance(y, str) else found


def is_file(X: Any) -> bool:
    """Return whether X is the path of a file of rows, by its ending."""
    return isinstance(X, str | Path) and str(X).lower().endswith(_FILES)


def _engine(X: Any) -> Any:
    if isinstance(X, Engine):
        return X
    library = type(X).__module__.lstrip("_").partition(".")[0]
    if library == "duckdb" and hasattr(X, "aggregate"):
        from dpstats.data.duckdb_rows import of_relation

        return of_relation(X)
    if library == "dask" and hasattr(X, "to_delayed"):
        from dpstats.data.dask_rows import of_array, of_frame

        return of_frame(X) if hasattr(X, "columns") else of_array(X)
    if isinstance(X, str | Path):
        if not is_file(X):
            raise InvalidData(
                f"X must be a table of numbers, or the path of a file that ends in one of {', '.join(_FILES)}"
            )
        path = Path(X)
        if ".parquet" not in [suffix.lower() for suffix in path.suffixes]:
            from dpstats.data.text_files import of_text_file

            return of_text_file(path)
        from dpstats.data.duckdb_rows import of_parquet

        return of_parquet(path)
    return X
