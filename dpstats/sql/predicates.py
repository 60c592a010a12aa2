"""From WHERE and ON to conditions: comparisons of bare columns with literals, which are converted here."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from dpstats.errors import refuse
from dpstats.sql.conditions import (
    All,
    Among,
    Between,
    Compare,
    Condition,
    Constant,
    Either,
    Flag,
    Holds,
    Like,
    Literal,
    Missing,
    Not,
)
from dpstats.sql.scope import Known, Scope, column_of, no_reals, same_type
from dpstats.sql.syntax import allow_only, is_date, is_literal, kind_of, read_number, refuse_clause

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "=": eq,
    "<>": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}


def condition_of(node: Any, scope: Scope) -> Condition:
    """Return the condition that a node says of the columns of a scope."""
    kind = kind_of(node)
    if kind == "Paren":
        allow_only(node, "this")
        return condition_of(node.this, scope)
    if kind in ("And", "Or"):
        allow_only(node, "this", "expression")
        both = (condition_of(node.this, scope), condition_of(node.expression, scope))
        return All(both) if kind == "And" else Either(both)
    if kind == "Not":
        allow_only(node, "this")
        return Not(condition_of(node.this, scope))
    if kind == "Boolean":
        allow_only(node, "this")
        return Constant(bool(node.this))
    if kind == "Column":
        known = column_of(node, scope)
        if known.type.kind != "truth":
            raise refuse(known.column.name, got=known.type.shown, allowed="a BOOLEAN to be a condition")
        return Flag(known.column)
    if kind == "Is":
        allow_only(node, "this", "expression")
        if kind_of(node.expression) == "Boolean":
            allow_only(node.expression, "this")
            return Holds(condition_of(node.this, scope), bool(node.expression.this))
        if kind_of(node.expression) != "Null":
            refuse_clause("IS", "only IS NULL, IS TRUE, IS FALSE and their negations are read")
        return Missing(column_of(node.this, scope).column)
    if kind == "Between":
        allow_only(node, "this", "low", "high")
        known = column_of(node.this, scope)
        ends = (_literal(node.args[end], known) for end in ("low", "high"))
        return Between(known.column, *ends)
    if kind == "In":
        allow_only(node, "this", "expressions")
        known = column_of(node.this, scope)
        return Among(known.column, tuple(_literal(item, known) for item in node.expressions))
    if kind == "Like":
        # NOT LIKE is a node with this argument in newer versions of sqlglot, and a NOT around one in older versions.
        allow_only(node, "this", "expression", "negate")
        known = column_of(node.this, scope)
        if known.type.kind != "text":
            raise refuse(f"LIKE: {known.column.name}", got=known.type.shown, allowed="VARCHAR")
        like = Like(known.column, _literal(node.expression, known))
        return Not(like) if node.args.get("negate") else like
    operators = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
    if kind in operators:
        allow_only(node, "this", "expression")
        return _comparison(operators[kind], node.this, node.expression, scope)
    refuse_clause(
        f"{kind.upper()} in a condition",
        "it is not among AND, OR, NOT, comparisons, BETWEEN, IN, IS NULL and LIKE",
    )


def _comparison(operator: str, left: Any, right: Any, scope: Scope) -> Condition:
    numbers = [number for node in (left, right) if (number := read_number(node)) is not None]
    if len(numbers) == 2:
        # WHERE 1 = 1 is what programs write in front of further conditions.
        return Constant(_COMPARE[operator](*numbers))
    if is_literal(left):
        turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
        left, right, operator = right, left, turned.get(operator, operator)
    known = column_of(left, scope)
    if is_literal(right):
        return Compare(operator, known.column, _literal(right, known))
    other = column_of(right, scope)
    same_type(operator, known, other)
    if operator == "=":
        no_reals(known)
    return Compare(operator, known.column, other.column)


def _literal(node: Any, known: Known) -> Literal:
    if not is_literal(node):
        refuse_clause(
            f"{kind_of(node).upper()} in a comparison",
            "a column is compared with a literal or another column",
        )
    if is_date(node):
        allow_only(node, "this", "to")
        if known.type.kind not in ("date", "time"):
            raise refuse(
                known.column.name,
                got=known.type.shown,
                allowed="a DATE or a TIMESTAMP to be compared with a date",
            )
        node = node.this
    if kind_of(node) == "Neg":
        inner = node.this
        value: Any = f"-{inner.this}"
        text = bool(inner.args.get("is_string"))
    elif kind_of(node) == "Boolean":
        value, text = bool(node.this), False
    else:
        value, text = node.this, bool(node.args.get("is_string"))
    return literal(value, text, known, repr(value) if text else str(value))


def literal(value: Any, text: bool, known: Known, given: str = "") -> Literal:
    """Return a literal of the type of the column that it is compared with: converted here, and not by the database."""
    kind, name = known.type.kind, known.column.name
    try:
        if kind == "whole" and not text and not isinstance(value, bool):
            number = int(str(value))
            if not -(2**63) <= number < 2**63:
                raise ValueError
            return Literal(number, "BIGINT")
        if kind == "real" and not text and not isinstance(value, bool):
            real = float(value)
            if not math.isfinite(real):
                raise ValueError
            return Literal(real, "DOUBLE")
        if kind == "truth" and not text and str(value).lower() in ("true", "false"):
            return Literal(str(value).lower() == "true", "BOOLEAN")
        if kind == "text" and text and "\0" not in str(value):
            return Literal(str(value), "VARCHAR")
        if kind == "date" and isinstance(value, date) and not isinstance(value, datetime):
            return Literal(value, "DATE")
        if kind == "date" and text:
            return Literal(date.fromisoformat(str(value)), "DATE")
        if kind == "time" and (text or isinstance(value, datetime)):
            moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
            if moment.tzinfo is not None:
                raise ValueError
            return Literal(moment, "TIMESTAMP")
    except (ValueError, OverflowError):
        pass
    raise refuse(
        name,
        got=(given or repr(value))[:200],
        allowed=f"be compared with a literal of its type {known.type.shown}{' in quotes' * (kind == 'text')}",
        remedy=known.type_advice,
    )
