"""Small databases by brute force: relations evaluated by loops, all rows replaced by all others."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

from dpstats.sensitivity.elastic import Count, Distinct, Join, Relation, Select, Table, tables

Rows = tuple[tuple[Any, ...], ...]
Database = dict[str, Rows]
Row = dict[tuple[str, str], Any]


def rows(relation: Relation, data: Database, names: dict[str, tuple[str, ...]]) -> list[Row]:
    """Return the rows of a relation, by (instance, column)."""
    if isinstance(relation, Table):
        keys = _columns(relation, names)
        return [dict(zip(keys, row, strict=True)) for row in data[relation.name]]
    if isinstance(relation, Join):
        left, right = rows(relation.left, data, names), rows(relation.right, data, names)
        found, nothing = [], {key: None for table in tables(relation.right) for key in _columns(table, names)}
        for a in left:
            partners = [
                b for b in right if all(a[tuple(x)] is not None and a[tuple(x)] == b[tuple(y)] for x, y in relation.on)
            ]
            found += [{**a, **b} for b in partners or ([nothing] if relation.outer else [])]
        return found
    found = rows(relation.of, data, names)
    if isinstance(relation, Select):
        return [row for row in found if relation.condition is None or relation.condition(row)]
    if isinstance(relation, Distinct):
        seen = dict.fromkeys(tuple(row[tuple(c)] for c in relation.columns) for row in found)
        return [dict(zip((tuple(c) for c in relation.columns), values, strict=True)) for values in seen]
    return found


def _columns(table: Table, names: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(table.instance, name) for name in names[table.name]]


def count(query: Count, data: Database, names: dict[str, tuple[str, ...]], by: Any = None) -> tuple[int, ...]:
    """Return a count, or the counts of the values of a column in 0, 1, 2."""
    found = rows(query.of, data, names)
    if query.kind == "count":
        return (len(found),)
    counts = Counter(row[by] for row in found)
    return tuple(counts[value] for value in range(3))


def frequencies(data: Database, names: dict[str, tuple[str, ...]]) -> dict[str, int]:
    """Return how often the most frequent value of every column occurs."""
    return {
        f"{table}.{name}": max(Counter(row[i] for row in held if row[i] is not None).values(), default=0)
        for table, held in data.items()
        for i, name in enumerate(names[table])
    }


def neighbors(data: Database, private: list[str], values: list[tuple[Any, ...]]) -> Iterator[Database]:
    """Yield all databases with one row of one private table replaced."""
    for table in private:
        for place, new in itertools.product(range(len(data[table])), values):
            held = data[table]
            if new != held[place]:
                yield {**data, table: (*held[:place], new, *held[place + 1 :])}
