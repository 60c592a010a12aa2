"""HAVING, ORDER BY and LIMIT: which released cells are shown, and in which order. This is post-processing.

Proof of the intervals of selected cells: docs/intervals/sql.md, "Selected cells".
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import refuse
from dpstats.sql.catalogue import fold
from dpstats.sql.query import Arrangement, Bin, Group, Having, Measure, Order, Quantiles, Query
from dpstats.sql.syntax import (
    allow_only,
    argument,
    is_literal,
    kind_of,
    name_of,
    read_number,
    refuse_clause,
    split_conditions,
)

Numbers = NDArray[np.float64]

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "<>": operator.ne,
}
_OPERATORS = {"GT": ">", "GTE": ">=", "LT": "<", "LTE": "<=", "EQ": "=", "NEQ": "<>"}
_TURNED = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "=": "=", "<>": "<>"}


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
            refuse_clause(
                f"{clause} of what is not in SELECT", "name a column of GROUP BY, or an aggregate of SELECT"
            )
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
    elif kind in _OPERATORS:
        allow_only(node, "this", "expression")
        sign = _OPERATORS[kind]
        turned = is_literal(node.this)
        one, other = (node.expression, node.this) if turned else (node.this, node.expression)
        parts = [(_TURNED[sign] if turned else sign, one, other)]
    else:
        refuse_clause(
            f"{kind.upper()} in HAVING", "it takes comparisons of aggregates with numbers, joined by AND"
        )
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
        {value.label: i for i, value in enumerate(group.values) if isinstance(value, Bin)}
        for group in query.groups
    ]
    kept = np.ones(len(cells), dtype=bool)
    for condition in arrangement.having:
        kept &= _COMPARE[condition.sign](values[:, condition.place], condition.value)
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
