"""GROUP BY and SELECT as declared cells and aggregates; HAVING, ORDER BY and LIMIT of released cells.

Proof of the intervals of selected cells: docs/intervals/sql.md, "Selected cells".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.columns import DISCOVER
from dpstats.data.schema import value_keys
from dpstats.data.values import exact_number, is_missing
from dpstats.errors import InvalidParameter, refuse
from dpstats.quantiles.grid import check_grid
from dpstats.sensitivity.elastic import Column
from dpstats.sql.catalogue import Catalogue, ColumnType, fold
from dpstats.sql.query import (
    FINEST,
    SPREADS,
    Aggregate,
    Arrangement,
    Bin,
    Choice,
    Formula,
    Group,
    Having,
    Literal,
    Measure,
    Order,
    Quantiles,
    Query,
    Several,
    bound,
)
from dpstats.sql.scope import (
    COMPARE,
    SIGNS,
    Known,
    Scope,
    allow_only,
    argument,
    column_of,
    kind_of,
    list_ends,
    list_spans,
    literal,
    name_of,
    read_choice,
    read_entry,
    read_formula,
    read_number,
    read_part,
    refuse_clause,
    split_comparison,
)

# HAVING, ORDER BY and LIMIT, which are post-processing

Numbers = NDArray[np.float64]


class Output(NamedTuple):
    """A column of the result: a group, or an aggregate, by its place among them.

    Attributes
    ----------
    place : int
    name : str
        Alias, or name of the column of a group. Empty for an aggregate without an alias.
    measure : Measure or Quantiles, optional
        None for a group.
    """

    place: int
    name: str
    measure: Measure | Quantiles | None


def read_arrangement(
    tree: Any,
    outputs: Sequence[Output],
    groups: tuple[Group, ...],
    read_aggregate: Callable[[Any], Measure | Quantiles],
    find_group: Callable[[Any], int | None],
) -> Arrangement:
    """Return HAVING, ORDER BY and LIMIT of a query.

    Parameters
    ----------
    tree : node
    outputs : sequence of Output
        The columns of SELECT, in order.
    groups : tuple of Group
    read_aggregate : callable
        Returns the aggregate of a node, or raises an error.
    find_group : callable
        Returns the place of the group that a node computes, or None.
    """
    having, order, limit = (argument(tree, name) for name in ("having", "order", "limit"))
    clauses = [word for word, node in (("HAVING", having), ("ORDER BY", order), ("LIMIT", limit)) if node]
    if clauses == ["LIMIT"] and not groups and _limit(limit):
        # The answer is one row.
        return Arrangement()
    if clauses and not groups:
        refuse_clause(f"{clauses[0]} without GROUP BY", "the answer is one row")

    def find(node: Any, clause: str) -> tuple[bool, int]:
        """Return whether a node is an aggregate, and its place among the aggregates or the groups."""
        wanted = None
        if kind_of(node) == "Literal" and not node.args.get("is_string") and clause == "ORDER BY":
            allow_only(node, "this", "is_string")
            wanted = [output for i, output in enumerate(outputs) if str(i + 1) == node.this]
        elif kind_of(node) == "Column" and node.args.get("table") is None:
            allow_only(node, "this")
            name = fold(name_of(node.this))
            wanted = [output for output in outputs if fold(output.name) == name]
            own = [j for j, group in enumerate(groups) if fold(group.name) == name]
            if not wanted and not own and (place := find_group(node)) is not None:
                # Another name in SELECT does not hide the column.
                own = [place]
            wanted = wanted or [Output(j, name, None) for j in own]
        elif (place := find_group(node)) is not None:
            wanted = [Output(place, groups[place].name, None)]
        else:
            measure = read_aggregate(node)
            wanted = [output for output in outputs if output.measure == measure]
        if not wanted:
            refuse_clause(f"{clause} of what is not in SELECT", "name a column of GROUP BY, or an aggregate of SELECT")
        if len({(output.measure is None, output.place) for output in wanted}) > 1:
            refuse_clause(f"{clause} of a name that two columns have", "give each a different name with AS")
        return wanted[0].measure is not None, wanted[0].place

    found: list[Having] = []
    if having is not None:
        allow_only(having, "this")
        for node in split_conditions(having.this):
            found += _comparisons(node, find)
    orders: list[Order] = []
    if order is not None:
        allow_only(order, "expressions")
        for item in order.expressions:
            # The parser of DuckDB's dialect sets where NULL is, unless the query does.
            allow_only(item, "this", "desc", "nulls_first")
            orders.append(Order(*find(item.this, "ORDER BY"), bool(item.args.get("desc"))))
    return Arrangement(tuple(found), tuple(orders), _limit(limit))


def _comparisons(node: Any, find: Callable[[Any, str], tuple[bool, int]]) -> Iterator[Having]:
    kind = kind_of(node)
    if kind == "Between":
        allow_only(node, "this", "low", "high")
        parts = [(">=", node.this, node.args["low"]), ("<=", node.this, node.args["high"])]
    elif kind in SIGNS:
        parts = [split_comparison(node)]
    else:
        refuse_clause(f"{kind.upper()} in HAVING", "it takes comparisons of aggregates with numbers, joined by AND")
    for sign, one, other in parts:
        value = read_number(other)
        if value is None:
            refuse_clause("HAVING with another comparison", "compare an aggregate with a number")
        aggregate, place = find(one, "HAVING")
        if not aggregate:
            refuse_clause("HAVING of a column of GROUP BY", "it is public: put the condition into WHERE")
        yield Having(place, sign, value)


def _limit(node: Any) -> int | None:
    if node is None:
        return None
    allow_only(node, "expression")
    count = node.args["expression"]
    if kind_of(count) != "Literal" or count.args.get("is_string") or not str(count.this).isdigit():
        raise refuse("LIMIT", allowed="a whole number of rows, such as LIMIT 10")
    return int(count.this)


def arrange(query: Query, cells: Sequence[tuple[Any, ...]], values: Numbers) -> tuple[list[int], float]:
    """Return the places of the cells to show, in order, and the proportion of cells that their values select.

    Parameters
    ----------
    query : Query
    cells : sequence of tuple
        Values of the groups in each cell.
    values : array of shape (n_cells, n_aggregates)
        Released values.
    """
    arrangement = query.arrangement
    if not len(cells):
        return [], 1.0
    # Bins are sorted by their edges, which rise, and other values by their value.
    by_edges = [
        {value.label: i for i, value in enumerate(group.values) if isinstance(value, Bin)} for group in query.groups
    ]
    kept = np.ones(len(cells), dtype=bool)
    for condition in arrangement.having:
        kept &= COMPARE[condition.sign](values[:, condition.place], condition.value)
    places = np.flatnonzero(kept).tolist()
    for order in reversed(arrangement.order):

        def key(place: int, order: Order = order) -> Any:
            if order.aggregate:
                return float(values[place, order.place])
            value = cells[place][order.place]
            return by_edges[order.place].get(value, value)

        places = sorted(places, key=key, reverse=order.descending)
    shown = places if arrangement.limit is None else places[: arrangement.limit]
    if not arrangement.chooses:
        return shown, 1.0
    return shown, max(len(shown), 1) / len(cells)


# GROUP BY and SELECT

_MOST_AGGREGATES = 50
_KINDS = {
    "Count": "count",
    "CountIf": "count",
    "Sum": "sum",
    "Avg": "mean",
    "Variance": "var_samp",
    "VariancePop": "var_pop",
    "Stddev": "stddev_samp",
    "StddevSamp": "stddev_samp",
    "StddevPop": "stddev_pop",
}
"""Aggregates by the names of their nodes."""
_SHARES = ("count", "mean", "variance")
"""Kinds of shares of a column. Each kind includes the previous kinds."""
_QUANTILES = {"Median": "MEDIAN", "PercentileCont": "QUANTILE_CONT", "WithinGroup": "PERCENTILE_CONT"}
"""Quantiles by the names of their nodes."""
_CHOICES = ("Case", "If")
_MOST_POINTS = 60
_MOST_STEPS = 2.0**40
_LEAST_POWER = -1000
"""The shortest step of values is two to this power: shorter ones may be no doubles."""
_ANSWERED = "COUNT, SUM, AVG, STDDEV, VARIANCE, MEDIAN, QUANTILE_CONT and PERCENTILE_CONT are answered"


def groups_of(tree: Any, scope: Scope, catalogue: Catalogue) -> tuple[Group, ...]:
    """Return the columns of GROUP BY, each once, with their declared values or bins, and with their names in SELECT."""
    group = tree.args.get("group")
    if group is None:
        return ()
    allow_only(group, "expressions")
    found: dict[tuple[str, Column | Choice], Group] = {}
    for item in group.expressions:
        one = _group(_find_grouped(item, tree.expressions, scope), scope, catalogue)
        found.setdefault((one.part, one.column), one)
    for item in tree.expressions:
        if kind_of(item) == "Alias" and _is_grouping(item.this):
            key = _read_key(item.this, scope)
            if key in found:
                found[key] = replace(found[key], name=name_of(item.args["alias"]))
    return tuple(found.values())


def _find_grouped(item: Any, selected: list[Any], scope: Scope) -> Any:
    """Return the node that an item of GROUP BY names, also by its number or alias in SELECT."""
    if kind_of(item) == "Literal" and not item.args.get("is_string"):
        if str(item.this) not in map(str, range(1, len(selected) + 1)):
            allowed = f"name one of the {len(selected)} columns of SELECT"
            raise refuse("GROUP BY", got=str(item.this), allowed=allowed)
        found = [selected[int(item.this) - 1]]
    elif kind_of(item) == "Column" and item.args.get("table") is None and not scope.has(item.name):
        named = (each for each in selected if kind_of(each) == "Alias")
        found = [each for each in named if fold(each.alias) == fold(item.name)]
    else:
        return item
    if len(found) != 1:
        return item
    inner = found[0].this if kind_of(found[0]) == "Alias" else found[0]
    if not _is_grouping(inner):
        refuse_clause("GROUP BY of an aggregate", "name a column")
    return inner


def _group(item: Any, scope: Scope, catalogue: Catalogue) -> Group:
    """Return a column of GROUP BY with its declared values or bins, or a CASE with its labels."""
    if kind_of(item) in _CHOICES:
        choice, labels = read_choice(item, scope)
        return Group(choice, choice.name, labels)
    part, known = _read_grouping(item, scope)
    key = (fold(known.table), fold(known.column.name))
    if part:
        return _spans(part, known, catalogue)
    if key in catalogue.periods:
        refuse_clause(
            f"GROUP BY {known.column.name}, a column of dates with a period",
            f"group by YEAR({known.column.name}) or DATE_TRUNC('month', {known.column.name})",
        )
    if key in catalogue.bins:
        return Group(known.column, known.name, _bins(catalogue.bins[key], known))
    if key not in catalogue.categories:
        raise refuse(
            f"GROUP BY {known.column.name}",
            allowed="have declared values, because the data would reveal them",
            remedy=f"Give categories={{'{known.table}.{known.column.name}': [...]}}, or bins of numbers. With "
            "'discover' in place of the list, values of many rows are found.",
        )
    if catalogue.categories[key] == DISCOVER:
        if known.type.kind not in ("whole", "text", "truth", "date", "time"):
            refuse_clause(
                f"GROUP BY undeclared values of {known.column.name}, a column of type {known.type.shown}",
                "they can be whole numbers, text, dates and truth values: declare bins of numbers",
            )
        return Group(known.column, known.name, discovered=True, ends=list_ends(known))
    return _group_declared(known, catalogue.categories[key])


def _group_declared(known: Known, labels: Any) -> Group:
    """Return a column with its declared values. They are compared by value if all of them read as numbers."""
    kind, key, values = known.type.kind, "{0}", list(labels)
    declared: list[str | None] = [None] * len(values)
    words = kind in ("text", "date", "time")
    numbers: list[Any] = [exact_number(each) if isinstance(each, str) else each for each in values]
    if (
        kind in _READ
        and (kind != "text" or all(known.type.numbers))
        and value_keys(values) is not None
        and not any(map(is_missing, numbers))
    ):
        if kind == "text":
            declared = [each if isinstance(each, str) else None for each in values]
            whole = all(number == int(number) and abs(number) < 2**63 for number in numbers)
            kind, words, key = "whole" if whole else "real", False, known.type.numbers[not whole]
        values = [_READ[kind](number, each) for number, each in zip(numbers, values, strict=True)]
    typed = known if key == "{0}" else known._replace(type=replace(known.type, kind=kind))
    literals = (_read_declared(value, words and isinstance(value, str), typed) for value in values)
    listed = tuple(replace(one, declared=word) for one, word in zip(literals, declared, strict=True))
    return Group(known.column, known.name, listed, key=key)


_READ: dict[str, Callable[[Any, Any], Any]] = {
    "whole": lambda number, given: int(number) if number == int(number) else given,
    "real": lambda number, given: float(number),
    "truth": lambda number, given: bool(number) if number in (0, 1) else given,
    "text": lambda number, given: given,
}
"""The value of a declared number in a column of this kind, or the declaration itself, which is then refused."""


def _read_declared(value: Any, text: bool, known: Known) -> Literal:
    """Return a declared value of a column, or refuse it by the name of its parameter."""
    try:
        return literal(value, text, known)
    except InvalidParameter:
        pass
    missing = "A row with a missing value is in no group: count such rows with IS NULL."
    raise refuse(
        f"categories['{known.table}.{known.column.name}']",
        got="another",
        allowed=f"values of its type {known.type.shown}",
        remedy=" ".join(filter(None, [missing * is_missing(value), known.type_advice])),
    )


def read_measure(
    tree: Any, scope: Scope, groups: tuple[Group, ...], catalogue: Catalogue
) -> tuple[Measure | Several | Quantiles, str, Arrangement]:
    """Return the aggregates of SELECT as one measure, its label, and the order of the result."""
    found: list[tuple[Measure | Quantiles, str]] = []
    outputs: list[Output] = []

    def find_group(node: Any) -> int | None:
        """Return the place of the group that a node computes, or None."""
        if not _is_grouping(node):
            return None
        key, keys = _read_key(node, scope), [(group.part, group.column) for group in groups]
        return keys.index(key) if key in keys else None

    for item in tree.expressions:
        name = ""
        if kind_of(item) == "Alias":
            allow_only(item, "this", "alias")
            item, name = item.this, name_of(item.args["alias"])
        if _is_grouping(item):
            place = find_group(item)
            if place is None:
                part, column = _read_key(item, scope)
                refuse_clause(
                    f"{'a part of ' if part else ''}the column {column.name} in SELECT",
                    "rows are not released: aggregate, or GROUP BY it",
                )
            outputs.append(Output(place, name or groups[place].name, None))
            continue
        found.append((_aggregate(item, scope, catalogue), name))
        outputs.append(Output(len(found) - 1, name, found[-1][0]))
    if not found:
        raise refuse("SELECT", got="none", allowed="have an aggregate", remedy=f"{_ANSWERED}.")
    arrangement = read_arrangement(tree, outputs, groups, lambda node: _aggregate(node, scope, catalogue), find_group)
    measures = [(measure, name) for measure, name in found if isinstance(measure, Measure)]
    if len(measures) < len(found):
        if measures:
            refuse_clause("a quantile beside other aggregates", "they are other releases: write a separate query")
        quantiles = [(each, name) for each, name in found if isinstance(each, Quantiles)]
        return _quantiles(quantiles, groups, arrangement), "quantiles", arrangement
    discovers = any(group.discovered for group in groups)
    if len(measures) > 1 or measures[0][0].kind in ("mean", *SPREADS) or discovers:
        return _several(measures, groups), "answers", arrangement
    measure, name = measures[0]
    return measure, name or {"distinct": "count"}.get(measure.kind, measure.kind), arrangement


def _quantiles(found: list[tuple[Quantiles, str]], groups: tuple[Group, ...], arrangement: Arrangement) -> Quantiles:
    """Return the quantiles of SELECT as one choice."""
    first = found[0][0]
    if any(each.column != first.column for each, _ in found):
        refuse_clause("quantiles of several columns", "write a separate query for each")
    if groups and len(found) > 1:
        refuse_clause("several quantiles with GROUP BY", "a group has one quantile: write a separate query for each")
    if arrangement.chooses:
        refuse_clause(
            "HAVING or LIMIT by the values of a quantile",
            "its intervals cannot count the selection: select from the released table",
        )
    if len(found) > _MOST_POINTS:
        raise refuse("SELECT", given=len(found), allowed=f"have at most {_MOST_POINTS} quantiles")
    q = tuple(each.q[0] for each, _ in found)
    if len(set(q)) < len(q):
        raise refuse("SELECT", allowed="have each quantile once")
    labels = tuple(
        name or f"{'median' if each.q[0] == 0.5 else f'quantile_{each.q[0]:g}'}_{each.column.name}"
        for each, name in found
    )
    taken = [fold(label) for label in (*labels, *(group.name for group in groups))]
    if len(set(taken)) < len(taken):
        raise refuse("SELECT", allowed="give each column a different name", remedy="Name them with AS.")
    return replace(first, q=q, labels=labels)


def _several(found: list[tuple[Measure, str]], groups: tuple[Group, ...]) -> Several:
    """Return several aggregates as one measure: aggregates of one column use the same numbers."""
    if len(found) > _MOST_AGGREGATES:
        raise refuse("SELECT", given=len(found), allowed=f"have at most {_MOST_AGGREGATES} aggregates")
    discovers = any(group.discovered for group in groups)
    if any(measure.kind == "distinct" for measure, _ in found):
        if discovers:
            refuse_clause("COUNT(DISTINCT ...) with undeclared groups", "declare categories of the groups")
        refuse_clause(
            "COUNT(DISTINCT ...) beside other aggregates",
            "it counts values and not rows; write a separate query for it",
        )
    columns: dict[Column | Formula, Measure] = {}
    for measure, _ in found:
        if measure.column is not None:
            kind = {"count": "count", "sum": "mean", "mean": "mean"}.get(measure.kind, "variance")
            known = columns.get(measure.column)
            if known is None or _SHARES.index(kind) > _SHARES.index(known.kind):
                columns[measure.column] = replace(measure, kind=kind)
    places = {column: i for i, column in enumerate(columns)}
    asked = [
        Aggregate(
            measure.kind,
            None if measure.column is None else places[measure.column],
            name or "_".join([measure.kind, *([measure.column.name] if measure.column else [])]),
        )
        for measure, name in found
    ]
    labels = [*(each.label for each in asked), *(group.name for group in groups)]
    if len({fold(label) for label in labels}) < len(labels):
        repeated = next(label for i, label in enumerate(labels) if fold(label) in map(fold, labels[:i]))
        raise refuse(
            "SELECT", got=f"{repeated!r} twice", allowed="give each column a different name", remedy="Name it with AS."
        )
    shared = tuple(columns.values())
    if discovers:
        # The rows of a key are released with it.
        return Several(tuple(asked), shared).of_bits(FINEST)
    every, rows = any(each.column is None for each in asked), 0
    if every and not shared:
        shared = (Measure("count"),)
    # COUNT(*) is the sum over a column without missing values, with as few numbers as possible.
    full = [i for i, one in enumerate(shared) if one.type is None or one.type.required]
    rows = min(full or range(len(shared)), key=lambda i: shared[i].kind != "count")
    missing = rows if every and not full else None
    # In a single cell no row changes its cell, so the sum of two shares moves less than each of them.
    paired = not groups and missing is None and all(one.kind != "variance" for one in shared)
    return Several(tuple(asked), shared, missing, rows, paired=paired).of_bits(FINEST)


def _aggregate(node: Any, scope: Scope, catalogue: Catalogue) -> Measure | Quantiles:
    where = None
    if kind_of(node) == "Filter":
        allow_only(node, "this", "expression")
        allow_only(node.expression, "this")
        node, where = node.this, node.expression.this
    kind = kind_of(node)
    if kind in _QUANTILES:
        return _read_quantile(node, scope, catalogue, where)
    if kind not in _KINDS:
        refuse_clause(f"{kind.upper()} in SELECT", _ANSWERED)
    allow_only(node, "this", *(["big_int"] if kind == "Count" else []))
    inner = node.this
    if kind == "CountIf":
        if where is not None:
            refuse_clause("FILTER of COUNT_IF", "write one condition with AND")
        return _count_formula(None, inner, scope, catalogue)
    if kind != "Count":
        return _measure_values(_KINDS[kind], inner, scope, catalogue, where)
    if inner is None or kind_of(inner) == "Star":
        if inner is not None:
            allow_only(inner)
        inner = None
    elif kind_of(inner) == "Literal":
        # COUNT(1) counts every row: a literal is never missing.
        allow_only(inner, "this", "is_string")
        inner = None
    if inner is None:
        return Measure("count") if where is None else _count_formula(None, where, scope, catalogue)
    if kind_of(inner) == "Distinct":
        if where is not None:
            refuse_clause("FILTER of COUNT(DISTINCT ...)", "put the condition into WHERE")
        allow_only(inner, "expressions")
        if len(inner.expressions) != 1:
            refuse_clause("COUNT(DISTINCT ...) of several columns", "it is of one")
        known = column_of(inner.expressions[0], scope)
        return Measure("distinct", known.column, known.type)
    if where is not None or not _is_column(inner):
        return _count_formula(inner, where, scope, catalogue)
    known = column_of(inner, scope)
    return Measure("count", known.column, known.type)


def _is_column(node: Any) -> bool:
    return kind_of(node) == "Column" or (kind_of(node) == "Paren" and _is_column(node.this))


def _count_formula(node: Any, where: Any, scope: Scope, catalogue: Catalogue) -> Measure:
    formula = read_formula(node, "COUNT", scope, catalogue, where)
    return Measure("count", formula, formula.type)


def _read_quantile(node: Any, scope: Scope, catalogue: Catalogue, where: Any) -> Quantiles:
    """Return MEDIAN(x), QUANTILE_CONT(x, 0.9) or PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)."""
    word, fraction = _QUANTILES[kind_of(node)], None
    if kind_of(node) == "WithinGroup":
        allow_only(node, "this", "expression")
        inner, order = node.this, node.expression
        if kind_of(inner) != "PercentileCont":
            refuse_clause(f"{kind_of(inner).upper()} WITHIN GROUP", _ANSWERED)
        allow_only(inner, "this")
        allow_only(order, "expressions")
        if len(order.expressions) != 1:
            refuse_clause("PERCENTILE_CONT of several columns", "order by one column")
        allow_only(order.expressions[0], "this", "desc", "nulls_first")
        fraction, values = _read_fraction(inner.this, word), order.expressions[0].this
        if order.expressions[0].args.get("desc"):
            fraction = 1 - fraction
    else:
        allow_only(node, "this", *(["expression"] if word == "QUANTILE_CONT" else []))
        fraction = 0.5 if word == "MEDIAN" else _read_fraction(node.args.get("expression"), word)
        values = node.this
    column, kind, low, high = _read_values(word, values, scope, catalogue, where)
    whole = kind.kind == "whole" and low == int(low) and high == int(high) and high - low <= _MOST_STEPS
    return Quantiles((fraction,), column, check_grid((low, high), 1.0 if whole else None))


def _read_fraction(node: Any, word: str) -> float:
    """Return the fraction of a quantile."""
    plain = node is not None and kind_of(node) == "Literal" and not node.args.get("is_string")
    if not plain or not 0 < float(node.this) < 1:
        refuse_clause(f"{word} of another fraction", "it takes one number between 0 and 1, such as 0.9")
    return float(node.this)


def _read_values(
    word: str, node: Any, scope: Scope, catalogue: Catalogue, where: Any
) -> tuple[Column | Formula, ColumnType, float, float]:
    """Return a column or a computed value, its type, and its bounds."""
    if where is None and _is_column(node):
        entry = read_entry(column_of(node, scope), word, catalogue)
        return entry.column, entry.type, entry.low, entry.high
    formula = read_formula(node, word, scope, catalogue, where)
    return formula, formula.type, *bound(formula.value)


def _measure_values(kind: str, node: Any, scope: Scope, catalogue: Catalogue, where: Any) -> Measure:
    """Return the measure of values within declared bounds."""
    word = {"sum": "SUM", "mean": "AVG"}.get(kind, kind.upper())
    column, kind_of_values, low, high = _read_values(word, node, scope, catalogue, where)
    whole = (
        kind_of_values.kind == "whole"
        and low == int(low)
        and high == int(high)
        and max(abs(low), abs(high)) <= 2**FINEST
    )
    # Values are rounded to at most 2^-30 of the largest value (see `Measure.of_bits`).
    spacing = 1.0 if whole else 2.0 ** max(math.frexp(max(abs(low), abs(high)))[1] - 30, _LEAST_POWER)
    least, most = math.floor(low / spacing), math.ceil(high / spacing)
    return Measure(kind, column, kind_of_values, least, max(most, least + 1), spacing)


def _is_grouping(node: Any) -> bool:
    """Return whether a node is a column, computes a part of a date, or is a CASE."""
    return kind_of(node) in ("Column", *_CHOICES) or bool(read_part(node)[0])


def _read_key(node: Any, scope: Scope) -> tuple[str, Column | Choice]:
    """Return the part of a date that a node computes, or nothing, and the column or the CASE."""
    if kind_of(node) in _CHOICES:
        return "", read_choice(node, scope)[0]
    part, known = _read_grouping(node, scope)
    return part, known.column


def _read_grouping(node: Any, scope: Scope) -> tuple[str, Known]:
    """Return the part of a date that a node computes, or nothing, and the column."""
    part, inner = read_part(node)
    return part, column_of(inner, scope)


def _spans(part: str, known: Known, catalogue: Catalogue) -> Group:
    name = known.column.name
    if known.type.kind not in ("date", "time"):
        allowed = "be of a DATE or a TIMESTAMP"
        raise refuse(f"GROUP BY of a part of {name}", got=known.type.shown, allowed=allowed)
    period = catalogue.periods.get((fold(known.table), fold(name)))
    if period is None:
        raise refuse(
            f"GROUP BY of a part of {name}",
            allowed="have its first date and the date after the last declared, without the data",
            remedy=f"Give bins={{'{known.table}.{name}': ('2023-01-01', '2025-01-01')}}.",
        )
    return Group(known.column, f"{known.name}_{part}", list_spans(part, period, known), part)


def _bins(edges: tuple[float, ...], known: Known) -> tuple[Bin, ...]:
    if known.type.kind not in ("whole", "real"):
        got = f"{known.column.name} of type {known.type.shown}"
        raise refuse("bins", got=got, allowed="be of a column of numbers")
    ends = [Literal(edge, "DOUBLE") for edge in edges]
    return tuple(Bin(low, high, high is ends[-1]) for low, high in pairwise(ends))


def split_conditions(node: Any) -> Iterator[Any]:
    """Yield the conditions that AND joins, without parentheses around them."""
    if kind_of(node) == "Paren":
        allow_only(node, "this")
        yield from split_conditions(node.this)
    elif kind_of(node) == "And":
        allow_only(node, "this", "expression")
        yield from split_conditions(node.this)
        yield from split_conditions(node.expression)
    else:
        yield node
