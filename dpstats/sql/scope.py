"""From the tree of a text to columns, conditions, periods and computed values. Any other part is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime
from operator import eq, ge, gt, le, lt, ne
from typing import Any, NamedTuple, NoReturn

from dpstats.errors import InvalidParameter, nearest, refuse, show_names
from dpstats.sensitivity.elastic import Column, Distinct, Join, Relation, Select, tables
from dpstats.sql.catalogue import Catalogue, ColumnType, fold
from dpstats.sql.query import (
    All,
    Among,
    Arithmetic,
    Between,
    Case,
    Choice,
    Compare,
    Condition,
    Constant,
    Either,
    Entry,
    Flag,
    Formula,
    Holds,
    Like,
    Literal,
    Missing,
    Not,
    Number,
    Span,
    Value,
    bound,
    list_entries,
)

# The tree of a text

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
    left, count = [(statements[0], 0)], 0
    while left:
        one, depth = left.pop()
        count += 1
        if depth > _DEEPEST:  # too deep for recursion
            raise refuse("sql", allowed=f"not be nested more than {_DEEPEST} deep")
        left += [(child, depth + 1) for child in one.iter_expressions()]
    if count > _MOST_TEXT:
        raise refuse("sql", allowed="a shorter statement")
    return statements[0]


def refuse_clause(clause: str, why: str = "it is not supported") -> NoReturn:
    """Refuse a clause, and say why."""
    raise refuse("sql", allowed=f"not have {clause}: {why}")


def allow_only(node: Any, *allowed: str) -> None:
    """Raise an error for a node with arguments that are not allowed, because a class alone may have many meanings."""
    for name, value in node.args.items():
        key = name.rstrip("_")
        if key not in allowed and value not in (None, False, [], ""):
            refuse_clause(_WORDS.get(key, f"{key.upper()} in {type(node).__name__.upper()}"))


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


# The sources of a level of a query


class Known(NamedTuple):
    """A column that a query can name: which, its type, the table that it is from, and its name in a subquery."""

    column: Column
    type: ColumnType
    table: str
    alias: str = ""

    @property
    def name(self) -> str:
        """The name by which a query knows the column."""
        return self.alias or self.column.name

    @property
    def type_advice(self) -> str:
        """The remedy of an error about the type of a column: in a CSV file it may be a number without a declaration."""
        if not self.type.undeclared:
            return ""
        name = f"{self.table}.{self.column.name}"
        return (
            "A column of a CSV file or of Python objects is text unless its type is declared, for example "
            f"types={{'{name}': 'DOUBLE'}}."
        )


class Scope:
    """What a level of a query selects from: columns by the name of their source and their own, in lower case."""

    def __init__(self) -> None:
        self.sources: dict[str, dict[str, Known]] = {}
        self.relations: list[Relation] = []
        self.conditions: list[Condition] = []

    def add(self, name: str, relation: Relation, columns: dict[str, Known]) -> None:
        """Add a table or a subquery."""
        if fold(name) in self.sources:
            raise refuse("FROM", got=f"{name!r} twice", allowed="have each name once")
        self.sources[fold(name)] = columns
        self.relations.append(relation)

    def restrict(self, relation: Relation, pairs: list[tuple[Known, Known]], where: str) -> None:
        """Keep the rows that have a partner in a relation: each once, with any number of partners.

        Parameters
        ----------
        relation : relation
            Its columns have no names here.
        pairs : list of pairs of Known
            A column of this scope, and the equal one of the relation.
        where : str
            The clause, for messages.
        """
        for left, right in pairs:
            same_type(where, left, right)
            no_reals(right)
            self.conditions.append(Compare("=", left.column, right.column))
        self.relations.append(Distinct(relation, tuple(dict.fromkeys(right.column for _, right in pairs))))

    def extend(self, other: Scope, pairs: list[tuple[Known, Known]]) -> None:
        """Join another scope to all sources so far; rows without a partner stay, and have no values of it."""
        for left, right in pairs:
            same_type("LEFT JOIN", left, right)
            no_reals(right)
        on = tuple(dict.fromkeys((left.column, right.column) for left, right in pairs))
        self.relations = [Join(self.joined(), other.joined(), on, outer=True)]
        self.conditions = []
        for name, columns in other.sources.items():
            if name in self.sources:
                raise refuse("FROM", got=f"{name!r} twice", allowed="have each name once")
            # A column that is NOT NULL in its table may be missing here.
            self.sources[name] = {
                key: known._replace(type=replace(known.type, required=False)) for key, known in columns.items()
            }

    def find(self, name: str, source: str = "") -> Known:
        """Return the column of a name."""
        if source and fold(source) not in self.sources:
            raise refuse(f"{source}.{name}", given=source, allowed="name a table in FROM")
        places = [self.sources[fold(source)]] if source else list(self.sources.values())
        found = [columns[fold(name)] for columns in places if fold(name) in columns]
        if not found:
            known = [each.name for columns in places for each in columns.values()]
            remedy = nearest(name, known) or "Text is in single quotes, names in double quotes."
            raise refuse(
                "the column", given=name, allowed=f"in {source or 'FROM'} ({show_names(known)})", remedy=remedy
            )
        if len(found) > 1 and not self.equated(found):
            remedy = "Write it with the name of its table."
            raise refuse(repr(name), allowed="name one column", remedy=remedy)
        return found[0]

    def has(self, name: str) -> bool:
        """Return whether a column has this name."""
        return any(fold(name) in columns for columns in self.sources.values())

    def equated(self, found: list[Known]) -> bool:
        """Return whether columns are the two sides of a USING."""
        first, *others = (known.column for known in found)
        pairs = {frozenset(pair) for pair in self.equalities}
        return all(frozenset((first, other)) in pairs for other in others)

    @property
    def equalities(self) -> list[tuple[Column, Column]]:
        """Pairs of columns that a condition equates."""
        return [
            (c.left, c.right)
            for c in self.conditions
            if isinstance(c, Compare) and c.operator == "=" and isinstance(c.right, Column)
        ]

    def joined(self) -> Relation:
        """Return the join of all sources, each to those before it by the equalities there are; conditions after it."""
        relation, *left = self.relations
        inside = instances_of(relation)
        while left:
            for place, other in enumerate(left):
                there = instances_of(other)
                both = [pair for a, b in self.equalities for pair in ((a, b), (b, a))]
                pairs = [(a, b) for a, b in both if a.instance in inside and b.instance in there]
                if pairs:
                    relation = Join(relation, other, tuple(dict.fromkeys(pairs)))
                    inside |= there
                    del left[place]
                    break
            else:
                refuse_clause(
                    "a join without an equality", "every table must be joined by equal columns (ON, USING or WHERE)"
                )
        return Select(relation, All(tuple(self.conditions))) if self.conditions else relation


def column_of(node: Any, scope: Scope) -> Known:
    """Return the bare column that a node names."""
    if kind_of(node) == "Paren":
        return column_of(node.this, scope)
    if kind_of(node) != "Column":
        found = "a literal" if kind_of(node) == "Literal" else kind_of(node).upper()
        refuse_clause(f"{found} where a column must be", "only bare columns are read, without arithmetic or functions")
    allow_only(node, "this", "table")
    table = node.args.get("table")
    if kind_of(node.this) == "Star":
        refuse_clause("table.*", "columns must be named")
    return scope.find(name_of(node.this), "" if table is None else name_of(table))


def same_type(where: str, left: Known, right: Known) -> None:
    """Raise an error for a comparison of columns with different types; whole numbers have one, and so has text."""
    alike = left.type.name == right.type.name or left.type.kind in ("whole", "text")
    if left.type.kind != right.type.kind or not alike or left.type.kind == "other":
        got = f"{left.type.shown} and {right.type.shown}"
        names = f"{where}: {left.column.name} and {right.column.name}"
        raise refuse(names, got=got, allowed="have the same type")


def no_reals(known: Known) -> None:
    """Refuse real numbers as equal: 0.0 and -0.0 are, and NaNs of several kinds."""
    if known.type.kind == "real":
        refuse_clause(
            "equality of two columns of real numbers", "joins are on whole numbers, text, dates or truth values"
        )


def instances_of(relation: Relation) -> set[str]:
    """Return the names of the instances that a relation has columns of."""
    return {table.instance for table in tables(relation)}


# Conditions of WHERE and ON

COMPARE: dict[str, Callable[[Any, Any], Any]] = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
SIGNS = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
"""Comparisons by the names of their nodes."""


def split_comparison(node: Any) -> tuple[str, Any, Any]:
    """Return the sign and the sides of a comparison, with a literal, if there is one, at the right."""
    allow_only(node, "this", "expression")
    sign = SIGNS[kind_of(node)]
    if is_literal(node.this):
        return _TURNED.get(sign, sign), node.expression, node.this
    return sign, node.this, node.expression


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
    if kind in SIGNS:
        return _comparison(*split_comparison(node), scope)
    refuse_clause(
        f"{kind.upper()} in a condition", "it is not among AND, OR, NOT, comparisons, BETWEEN, IN, IS NULL and LIKE"
    )


def _comparison(sign: str, left: Any, right: Any, scope: Scope) -> Condition:
    numbers = [number for node in (left, right) if (number := read_number(node)) is not None]
    if len(numbers) == 2:
        # WHERE 1 = 1 is what programs write in front of further conditions.
        return Constant(COMPARE[sign](*numbers))
    known = column_of(left, scope)
    if is_literal(right):
        return Compare(sign, known.column, _literal(right, known))
    other = column_of(right, scope)
    same_type(sign, known, other)
    if sign == "=":
        no_reals(known)
    return Compare(sign, known.column, other.column)


def _literal(node: Any, known: Known) -> Literal:
    if not is_literal(node):
        refuse_clause(
            f"{kind_of(node).upper()} in a comparison", "a column is compared with a literal or another column"
        )
    if is_date(node):
        allow_only(node, "this", "to")
        if known.type.kind not in ("date", "time"):
            raise refuse(
                known.column.name, got=known.type.shown, allowed="a DATE or a TIMESTAMP to be compared with a date"
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


# Years, quarters and months of a declared period

_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_MOST_YEARS = 200
_TRUNCATED = "by_"


def read_part(node: Any) -> tuple[str, Any]:
    """Return the part of a date that a node computes, and the node of the date. The part is empty for a bare date.

    A part is "year", "quarter" or "month". The part of DATE_TRUNC begins with "by_".
    """
    kind = kind_of(node)
    if kind in ("Year", "Quarter", "Month"):
        allow_only(node, "this")
        return kind.lower(), node.this
    if kind == "Extract":
        allow_only(node, "this", "expression")
        return _unit(node.this, "EXTRACT"), node.expression
    if kind == "TimestampTrunc":
        allow_only(node, "this", "unit")
        return _TRUNCATED + _unit(node.args.get("unit"), "DATE_TRUNC"), node.this
    return "", node


def _unit(node: Any, function: str) -> str:
    unit = str(node.this).lower() if kind_of(node) in ("Var", "Literal") else ""
    if unit not in _MONTHS:
        refuse_clause(f"{function} of this unit", "the units of a date are YEAR, QUARTER and MONTH")
    return unit


def read_period(name: str, given: Any) -> tuple[date, date]:
    """Return the first date of a declared period, and the date after its last."""
    try:
        first, end = (
            day if type(day) is date else date.fromisoformat(str(day))
            for day in (() if isinstance(given, str) else given)
        )
    except (TypeError, ValueError):
        raise refuse(
            name,
            given=given,
            allowed="two dates for a column of dates: the first, and the one after the last",
            remedy="For example ('2023-01-01', '2025-01-01').",
        ) from None
    if not first < end or end.year - first.year > _MOST_YEARS:
        raise refuse(name, got=f"{first} and {end}", allowed=f"two dates that rise, at most {_MOST_YEARS} years apart")
    return first, end


def list_spans(part: str, period: tuple[date, date], known: Known) -> tuple[Span, ...]:
    """Return the spans of the period with each value of a part, in the order of values."""
    months = _MONTHS[part.removeprefix(_TRUNCATED)]
    found: dict[Any, list[tuple[Any, Any]]] = {}
    begin, end = period

    def find_first_day(months: int) -> date:  # of a month, counted from the year 0
        year, month = divmod(months, 12)
        return date(year, month + 1, 1) if year <= date.max.year else date.max

    def bound_at(day: date) -> Any:
        whole = day if known.type.kind == "date" else datetime(day.year, day.month, day.day)
        return literal(whole, False, known)

    while begin < end:
        unit = (12 * begin.year + begin.month - 1) // months * months
        stop = min(find_first_day(unit + months), end)
        value = {"year": unit // 12, "quarter": unit % 12 // 3 + 1, "month": unit % 12 + 1}.get(
            part, find_first_day(unit)
        )
        found.setdefault(value, []).append((bound_at(begin), bound_at(stop)))
        begin = stop
    return tuple(Span(value, tuple(found[value])) for value in sorted(found))


def list_ends(known: Known) -> tuple[Literal, Literal] | None:
    """Return the first and the last date or time of Python, for a column of such."""
    kind = {"date": date, "time": datetime}.get(known.type.kind)
    return None if kind is None else (literal(kind.min, False, known), literal(kind.max, False, known))


# Computed values: arithmetic, CASE and COALESCE

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


_OTHER_KINDS = {
    "truth": "Write {word}(CASE WHEN {name} THEN 1 ELSE 0 END).",
    "date": "Put the number of days since a public day into a column.",
    "time": "Put the number of days since a public day into a column.",
}
"""The remedy where a number is needed and a column of another kind is given."""


def read_entry(known: Known, word: str, catalogue: Catalogue) -> Entry:
    """Return a column with its declared bounds."""
    name = known.column.name
    if known.type.kind not in ("whole", "real"):
        advice = _OTHER_KINDS.get(known.type.kind, "").format(word=word, name=name)
        raise refuse(f"{word}: {name}", got=known.type.shown, allowed="a number", remedy=known.type_advice or advice)
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
            refuse_clause(f"a division in {word} by something else than a number", "divide the released numbers")
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
        f"{kind.upper()} in {word}", "it takes columns with declared bounds, numbers, + - *, CASE and COALESCE"
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
            refuse_clause("GROUP BY of CASE with computed labels", "give texts or numbers after THEN and ELSE")
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
