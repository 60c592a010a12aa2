"""Parsing of GROUP BY and SELECT into declared cells and one aggregate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from dpstats.errors import InvalidParameter
from dpstats.sql.catalogue import Catalogue
from dpstats.sql.conditions import Literal
from dpstats.sql.predicates import literal
from dpstats.sql.query import FINEST, Bin, Group, Measure
from dpstats.sql.scope import Known, Scope, column_of
from dpstats.sql.syntax import allow_only, kind_of, name_of, refuse


def groups_of(tree: Any, scope: Scope, catalogue: Catalogue) -> Iterator[Group]:
    """Yield the columns of GROUP BY with their declared values or bins."""
    group = tree.args.get("group")
    if group is None:
        return
    allow_only(group, "expressions")
    for item in group.expressions:
        known = column_of(item, scope)
        key = (known.table.lower(), known.column.name.lower())
        if key in catalogue.bins:
            yield Group(known.column, known.column.name, _bins(catalogue.bins[key], known))
            continue
        if key not in catalogue.categories:
            raise InvalidParameter(
                f"GROUP BY {known.column.name}: its values must be declared, as they would show which there are: "
                f"categories={{'{known.table}.{known.column.name}': [...]}}, or bins="
            )
        # Declared values may be text, for example from the command line.
        words = known.type.kind in ("text", "date", "time")
        values = catalogue.categories[key]
        literals = tuple(literal(value, words and isinstance(value, str), known) for value in values)
        yield Group(known.column, known.column.name, literals)


def measure_of(
    tree: Any, scope: Scope, groups: tuple[Group, ...], catalogue: Catalogue
) -> tuple[Measure, str]:
    """Return the only aggregate of SELECT, and its label."""
    found: list[tuple[Measure, str]] = []
    for item in tree.expressions:
        name = ""
        if kind_of(item) == "Alias":
            allow_only(item, "this", "alias")
            item, name = item.this, name_of(item.args["alias"])
        if kind_of(item) == "Column":
            known = column_of(item, scope)
            if known.column not in [group.column for group in groups]:
                refuse(
                    f"the column {known.column.name} in SELECT",
                    "rows are not released: aggregate, or GROUP BY it",
                )
            continue
        found.append((_aggregate(item, scope, catalogue), name))
    if len(found) != 1:
        raise InvalidParameter(f"SELECT must have one aggregate: ask one query for each, got {len(found)}")
    measure, name = found[0]
    return measure, name or {"distinct": "count", "mean": "mean"}.get(measure.kind, measure.kind)


def _aggregate(node: Any, scope: Scope, catalogue: Catalogue) -> Measure:
    kind = kind_of(node)
    if kind not in ("Count", "Sum", "Avg"):
        refuse(f"{kind.upper()} in SELECT", "COUNT, SUM and AVG are answered")
    allow_only(node, "this", *(["big_int"] if kind == "Count" else []))
    inner = node.this
    if kind == "Count":
        if inner is None or kind_of(inner) == "Star":
            if inner is not None:
                allow_only(inner)
            return Measure("count")
        if kind_of(inner) == "Distinct":
            allow_only(inner, "expressions")
            if len(inner.expressions) != 1:
                refuse("COUNT(DISTINCT ...) of several columns", "it is of one")
            known = column_of(inner.expressions[0], scope)
            return Measure("distinct", known.column, known.type)
        known = column_of(inner, scope)
        return Measure("count", known.column, known.type)
    known = column_of(inner, scope)
    return _bounded("sum" if kind == "Sum" else "mean", known, catalogue)


def _bounded(kind: str, known: Known, catalogue: Catalogue) -> Measure:
    bounds = catalogue.bounds.get((known.table.lower(), known.column.name.lower()))
    word = "SUM" if kind == "sum" else "AVG"
    if known.type.kind not in ("whole", "real"):
        raise InvalidParameter(f"{word}: {known.column.name} must be a number, got {known.type.shown}")
    if bounds is None:
        raise InvalidParameter(
            f"{word}({known.column.name}): bounds of its values must be declared, without the data: "
            f"bounds={{'{known.table}.{known.column.name}': (low, high)}}"
        )
    low, high = bounds
    whole = (
        known.type.kind == "whole"
        and low == int(low)
        and high == int(high)
        and max(abs(low), abs(high)) <= 2**FINEST
    )
    # Values are rounded to at most 2^-30 of the largest value (see `Measure.of_bits`).
    spacing = 1.0 if whole else 2.0 ** (math.frexp(max(abs(low), abs(high)))[1] - 30)
    return Measure(
        kind, known.column, known.type, math.floor(low / spacing), math.ceil(high / spacing), spacing
    )


def _bins(edges: tuple[float, ...], known: Known) -> tuple[Bin, ...]:
    if known.type.kind not in ("whole", "real"):
        raise InvalidParameter(
            f"bins need a column of numbers, got {known.column.name} of type {known.type.shown}"
        )
    ends = [Literal(edge, "DOUBLE") for edge in edges]
    return tuple(Bin(low, high, high is ends[-1]) for low, high in pairwise(ends))
