"""Functions of a DuckDB connection that are not DuckDB's own: macros and Python functions of their names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any

# Whatever the search path. A macro of another schema counts, too.
_LISTED = (
    "SELECT lower(function_name), internal IS FALSE, CAST(parameter_types AS VARCHAR) "
    "FROM system.main.duckdb_functions() WHERE lower(function_name) IN ({})"
)

# DuckDB's extensions add operators of these types, which no statement of this package uses.
_OF_EXTENSIONS = ("TIME ZONE", "INTERVAL")

Signatures = frozenset[tuple[str, bool, str]]


def overridden(ask: Callable[[str], Sequence[Sequence[Any]]], names: Collection[str]) -> str | None:
    """Return a function of ``names`` that the connection gives another meaning, or None.

    A macro says that it is no internal function. A function registered from Python says that it is one, but has
    parameter types that DuckDB's own lacks.

    Parameters
    ----------
    ask : callable
        SQL -> its rows, on the connection.
    names : collection of str
        In lower case.
    """
    asked = _LISTED.format(", ".join(f"'{name}'" for name in sorted(names)))
    added = {
        name
        for name, own, types in _signatures(ask(asked)) - _built_in(asked)
        if own or not any(kind in types for kind in _OF_EXTENSIONS)
    }
    return min(added, default=None)


def _signatures(rows: Sequence[Sequence[Any]]) -> Signatures:
    return frozenset((str(name), bool(own), str(types)) for name, own, types in rows)


@lru_cache(maxsize=4)
def _built_in(asked: str) -> Signatures:
    """Return the functions of a connection to which nothing was added."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        return _signatures(connection.execute(asked).fetchall())
