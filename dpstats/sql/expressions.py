"""Reading of arithmetic, CASE and COALESCE in an aggregate, as values with bounds."""

from __future__ import annotations

from typing import Any

from dpstats.errors import refuse
from dpstats.sql.catalogue import Catalogue, fold
from dpstats.sql.conditions import Literal, Missing
from dpstats.sql.predicates import condition_of
from dpstats.sql.query import Choice
from dpstats.sql.scope import Known, Scope, column_of
from dpstats.sql.syntax import allow_only, kind_of, read_number, refuse_clause
from dpstats.sql.values import Arithmetic, Case, Entry, Formula, Number, Value, bound, list_entries

LARGEST = 1e15
"""Largest size of a bound."""
_SIGNS = {"Add": "+", "Sub": "-", "Mul": "*"}


def read_formula(node: Any, word: str, scope: Scope, catalogue: Catalogue, where: Any = None) -> Formula:
    """Return the value that a node computes, named after its columns.

    Parameters
    ----------
    node : node, optional
        None is a value that every row has.
    word : str
        The aggregate, for messages.
    scope : Scope
    catalogue : Catalogue
    where : node, optional
        A condition, without which there is no value.
    """
    # COUNT(*) counts rows: any number in its place is never missing.
    value = Number(1.0) if node is None else _read(node, word, scope, catalogue)
    if where is not None:
        value = Case(((condition_of(where, scope), value),), None)
    if value is None or (isinstance(value, Case) and not value.values):
        refuse_clause(f"{word} of NULL", "it has no value")
    names = dict.fromkeys(entry.column.name for entry in list_entries(value))
    return Formula(value, "_".join(names) or "value")


def read_entry(known: Known, word: str, catalogue: Catalogue) -> Entry:
    """Return a column with its declared bounds."""
    name = known.column.name
    if known.type.kind not in ("whole", "real"):
        raise refuse(f"{word}: {name}", got=known.type.shown, allowed="a number", remedy=known.type_advice)
    bounds = catalogue.bounds.get((fold(known.table), fold(name)))
    if bounds is None:
        raise refuse(
            f"{word}({name})",
            allowed="have declared bounds of its values, without the data",
            remedy=f"Give bounds={{'{known.table}.{name}': (low, high)}}.",
        )
    return Entry(known.column, known.type, *bounds)


def _read(node: Any, word: str, scope: Scope, catalogue: Catalogue) -> Value | None:
    kind = kind_of(node)

    def read(part: Any) -> Value | None:
        return _read(part, word, scope, catalogue)

    def need(part: Any) -> Value:
        value = read(part)
        if value is None or (isinstance(value, Case) and not value.values):
            refuse_clause(f"arithmetic with NULL in {word}", "it has no value")
        return value

    if kind == "Paren":
        allow_only(node, "this")
        return read(node.this)
    if kind == "Column":
        return read_entry(column_of(node, scope), word, catalogue)
    if kind == "Null":
        return None
    if kind == "Literal" and not node.args.get("is_string"):
        allow_only(node, "this", "is_string")
        return _check(Number(float(node.this)), word)
    if kind == "Neg":
        allow_only(node, "this")
        return _check(Arithmetic("*", Number(-1.0), need(node.this)), word)
    if kind in _SIGNS:
        allow_only(node, "this", "expression")
        return _check(Arithmetic(_SIGNS[kind], need(node.this), need(node.expression)), word)
    if kind == "Div":
        allow_only(node, "this", "expression", "typed", "safe")
        divisor = need(node.expression)
        if not isinstance(divisor, Number) or divisor.value == 0:
            refuse_clause(
                f"a division in {word} by something else than a number", "divide the released numbers"
            )
        return _check(Arithmetic("*", need(node.this), _check(Number(1 / divisor.value), word)), word)
    if kind in ("Case", "If"):
        return _case(node, word, scope, read)
    if kind == "Coalesce":
        allow_only(node, "this", "expressions")
        parts: list[Any] = [node.this, *node.expressions]
        value: Value | None = read(parts[-1])
        for other in reversed(parts[:-1]):
            known = column_of(other, scope)
            value = Case(((Missing(known.column), value),), read_entry(known, word, catalogue))
        return value
    refuse_clause(
        f"{kind.upper()} in {word}",
        "it takes columns with declared bounds, numbers, + - *, CASE and COALESCE",
    )


def _case(node: Any, word: str, scope: Scope, read: Any) -> Case:
    if kind_of(node) == "If":
        allow_only(node, "this", "true", "false")
        cases, otherwise = [node], node.args.get("false")
    else:
        allow_only(node, "ifs", "default", *(["this"] if node.args.get("this") is None else []))
        cases, otherwise = node.args["ifs"], node.args.get("default")
    found = []
    for case in cases:
        allow_only(case, "this", "true", *(["false"] if case is node else []))
        found.append((condition_of(case.this, scope), read(case.args["true"])))
    return Case(tuple(found), None if otherwise is None else read(otherwise))


def read_choice(node: Any, scope: Scope) -> tuple[Choice, tuple[Literal, ...]]:
    """Return a CASE that chooses among labels, and the labels."""
    labels: dict[Any, Literal] = {}

    def read_label(part: Any) -> int | None:
        if part is None or kind_of(part) == "Null":
            return None
        number = read_number(part)
        if number is None and kind_of(part) != "Literal":
            refuse_clause(
                "GROUP BY of CASE with computed labels", "give texts or numbers after THEN and ELSE"
            )
        value: Any = str(part.this) if number is None else int(number) if number == int(number) else number
        kind = "VARCHAR" if number is None else "DOUBLE"
        labels.setdefault((kind, value), Literal(value, kind))
        return list(labels).index((kind, value))

    cases = _case(node, "GROUP BY", scope, read_label)
    choice = Choice(cases.cases, cases.otherwise)  # type: ignore[arg-type]
    if not labels:
        refuse_clause("GROUP BY of CASE without a label", "give texts or numbers after THEN")
    return choice, tuple(labels.values())


def _check(value: Arithmetic | Number, word: str) -> Arithmetic | Number:
    """Refuse values so large that a double may not hold what follows."""
    low, high = bound(value)
    if not max(abs(low), abs(high)) <= LARGEST:
        got = f"bounds {low:g} and {high:g}"
        raise refuse(word, got=got, allowed=f"have values within {LARGEST:g}")
    return value
