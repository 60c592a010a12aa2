"""The tree that a text parses to, and refusing what in it is not listed: by the name of its clause."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from dpstats.errors import InvalidParameter, refuse

_MOST_TEXT = 20_000
_DEEPEST = 100

# Clauses by the names that users know them by.
_WORDS = {
    "having": "HAVING",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "order": "ORDER BY",
    "windows": "WINDOW",
    "qualify": "QUALIFY",
    "sample": "SAMPLE",
    "distinct": "SELECT DISTINCT of the whole query",
    "laterals": "LATERAL",
    "pivots": "PIVOT",
    "side": "an outer join",
    "method": "a join of this kind (NATURAL, ASOF, POSITIONAL)",
    "kind": "a join of this kind (CROSS, ANTI)",
    "db": "a table with a schema or database",
    "catalog": "a table with a database",
    "with": "WITH here",
    "group": "GROUP BY in a subquery",
    "columns": "names of columns after the name of a table",
    "all": "GROUP BY ALL",
}


def tree_of(text: Any) -> Any:
    """Return the tree of one statement in DuckDB's dialect."""
    try:
        import sqlglot
        from sqlglot import errors
    except ImportError:
        raise InvalidParameter("dpstats.sql needs sqlglot: pip install 'dpstats[sql]'") from None
    if not isinstance(text, str) or not text.strip():
        given = repr(text) if isinstance(text, str) else type(text).__name__
        raise refuse("sql", got=given, allowed="the text of a query")
    if len(text) > _MOST_TEXT:
        raise refuse("sql", got=f"{len(text):,}", allowed=f"have at most {_MOST_TEXT:,} characters")
    where = ""
    try:
        statements = sqlglot.parse(text, read="duckdb")
    except errors.SqlglotError as error:
        found = (getattr(error, "errors", None) or [{}])[0]
        if found.get("line"):
            where = f" at line {found['line']}, column {found.get('col')}"
        statements = None
    except RecursionError:
        statements = None
    if statements is None:
        raise refuse("sql", allowed=f"a query that can be parsed: it is not{where}")
    statements = [statement for statement in statements if statement is not None]
    if len(statements) != 1:
        raise refuse("sql", given=len(statements), allowed="one statement")
    if sum(1 for _ in _depths(statements[0])) > _MOST_TEXT:
        raise refuse("sql", allowed="a shorter statement")
    return statements[0]


def _depths(node: Any) -> Iterator[int]:
    """Yield the depth of every node, and raise an error if the tree is too deep for recursion."""
    left = [(node, 0)]
    while left:
        one, depth = left.pop()
        if depth > _DEEPEST:
            raise refuse("sql", allowed=f"not be nested more than {_DEEPEST} deep")
        yield depth
        left += [(child, depth + 1) for child in one.iter_expressions()]


def refuse_clause(clause: str, why: str = "it is not supported") -> NoReturn:
    """Refuse a clause, and say why."""
    raise refuse("sql", allowed=f"not have {clause}: {why}")


def allow_only(node: Any, *allowed: str) -> None:
    """Raise an error for a node with arguments that are not allowed, because a class alone may have many meanings."""
    for name, value in node.args.items():
        key = name.rstrip("_")
        if key not in allowed and value not in (None, False, [], ""):
            refuse_clause(_WORDS.get(key, f"{key.upper()} in {type(node).__name__.upper()}"))


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


def kind_of(node: Any) -> str:
    """Return the name of a node's class."""
    return type(node).__name__


def argument(node: Any, name: str) -> Any:
    """Return an argument whose key has an underscore in some versions."""
    return node.args.get(name) or node.args.get(f"{name}_")


def name_of(node: Any) -> str:
    """Return a plain identifier."""
    if kind_of(node) != "Identifier":
        refuse_clause(f"{kind_of(node).upper()} in place of a name")
    allow_only(node, "this", "quoted")
    return str(node.this)


def is_literal(node: Any) -> bool:
    """Return whether a node is a number, a text, a date or a truth value."""
    kind = kind_of(node)
    if kind == "Neg":
        return kind_of(node.this) == "Literal" and not node.this.args.get("is_string")
    return kind in ("Literal", "Boolean") or is_date(node)


def read_number(node: Any) -> float | None:
    """Return the value of a number with or without a sign, or None for any other node."""
    if kind_of(node) == "Neg":
        value = read_number(node.this)
        return None if value is None else -value
    if kind_of(node) != "Literal" or node.args.get("is_string"):
        return None
    return float(node.this)


def is_date(node: Any) -> bool:
    """Return whether a node is a text declared as a date or a time: DATE '2025-01-31'."""
    return (
        kind_of(node) == "Cast"
        and kind_of(node.this) == "Literal"
        and bool(node.this.args.get("is_string"))
        and str(node.args["to"]).upper() in ("DATE", "TIMESTAMP", "TIMESTAMPNTZ")
    )
