"""From SQL to a relation: what is not listed here is refused, by the name of its clause.

The text itself never runs: what runs is compiled from the relation (`dpstats.sql.compile`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

from dpstats.errors import InvalidParameter
from dpstats.sensitivity.relations import Column, Distinct, Join, Relation, Select, Table, tables
from dpstats.sql.catalogue import Catalogue, ColumnType
from dpstats.sql.conditions import (
    All,
    Among,
    Between,
    Compare,
    Condition,
    Constant,
    Either,
    Flag,
    Like,
    Literal,
    Missing,
    Not,
    conjuncts,
)
from dpstats.sql.query import FINEST, Bin, Group, Measure, Query

_MOST_TEXT = 20_000
_MOST_CELLS = 10_000
_MOST_INSTANCES = 12
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
    "kind": "a join of this kind (CROSS, SEMI, ANTI)",
    "db": "a table with a schema or database",
    "catalog": "a table with a database",
    "with": "WITH here",
    "group": "GROUP BY in a subquery",
}


class Known(NamedTuple):
    """A column that a query can name: where it is from, and its type."""

    column: Column
    type: ColumnType


class Scope:
    """What a level of a query selects from: columns by the name of their source and their own, in lower case."""

    def __init__(self) -> None:
        self.sources: dict[str, dict[str, Known]] = {}
        self.relations: list[Relation] = []
        self.conditions: list[Condition] = []

    def add(self, name: str, relation: Relation, columns: dict[str, Known]) -> None:
        """Add a table or a subquery."""
        if name.lower() in self.sources:
            raise InvalidParameter(f"FROM must have each name once, got {name!r} twice")
        self.sources[name.lower()] = columns
        self.relations.append(relation)

    def find(self, name: str, source: str = "") -> Known:
        """Return the column of a name."""
        if source and source.lower() not in self.sources:
            raise InvalidParameter(f"{source}.{name}: there is no {source!r} in FROM")
        places = [self.sources[source.lower()]] if source else list(self.sources.values())
        found = [columns[name.lower()] for columns in places if name.lower() in columns]
        if not found:
            raise InvalidParameter(f"there is no column {name!r} in {source or 'FROM'}")
        if len(found) > 1 and not self._equated(found):
            raise InvalidParameter(f"{name!r} is ambiguous: write it with the name of its table")
        return found[0]

    def _equated(self, found: list[Known]) -> bool:
        """Return whether columns are the two sides of a USING."""
        first, *others = (known.column for known in found)
        pairs = {
            frozenset((c.left, c.right))
            for c in self.conditions
            if isinstance(c, Compare) and c.operator == "=" and isinstance(c.right, Column)
        }
        return all(frozenset((first, other)) in pairs for other in others)


def parse(text: str, catalogue: Catalogue, *, units: bool = False) -> Query:
    """Return the query that a text asks, or refuse it.

    Parameters
    ----------
    text : str
        One SELECT, in DuckDB's dialect.
    catalogue : Catalogue
    units : bool, default=False
        Whether every row of the result must be one unit's.
    """
    tree = _tree(text)
    return _Reader(catalogue, units).query(tree, text)


def _tree(text: Any) -> Any:
    try:
        import sqlglot
        from sqlglot import errors
    except ImportError:
        raise InvalidParameter("dpstats.sql needs sqlglot: pip install 'dpstats[sql]'") from None
    if not isinstance(text, str) or not text.strip():
        raise InvalidParameter(f"sql must be the text of a query, got {type(text).__name__}")
    if len(text) > _MOST_TEXT:
        raise InvalidParameter(f"sql must have at most {_MOST_TEXT:,} characters, got {len(text):,}")
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
        raise InvalidParameter(f"sql must be a query that can be parsed: it is not{where}")
    statements = [statement for statement in statements if statement is not None]
    if len(statements) != 1:
        raise InvalidParameter(f"sql must be one statement, got {len(statements)}")
    if sum(1 for _ in _depths(statements[0])) > _MOST_TEXT:
        raise InvalidParameter("sql is too large")
    return statements[0]


def _depths(node: Any) -> Iterator[int]:
    """Yield how deep every node lies; refuse what recursion could not follow."""
    left = [(node, 0)]
    while left:
        one, depth = left.pop()
        if depth > _DEEPEST:
            raise InvalidParameter(f"sql must not be nested more than {_DEEPEST} deep")
        yield depth
        left += [(child, depth + 1) for child in one.iter_expressions()]


def _refuse(
    clause: str, why: str = "it is not supported, as no bound of its sensitivity is known here"
) -> NoReturn:
    raise InvalidParameter(f"sql must not have {clause}: {why}")


def _only(node: Any, *allowed: str) -> None:
    """Refuse a node with arguments beside those allowed: by (class, arguments), as classes alone mean too much."""
    for name, value in node.args.items():
        key = name.rstrip("_")
        if key not in allowed and value not in (None, False, [], ""):
            _refuse(_WORDS.get(key, f"{key.upper()} in {type(node).__name__.upper()}"))


def _kind(node: Any) -> str:
    return type(node).__name__


def _arg(node: Any, name: str) -> Any:
    """Return an argument whose key has an underscore in some versions."""
    return node.args.get(name) or node.args.get(f"{name}_")


def _name(node: Any) -> str:
    """Return a plain identifier."""
    if _kind(node) != "Identifier":
        _refuse(f"{_kind(node).upper()} in place of a name")
    _only(node, "this", "quoted")
    return str(node.this)


class _Reader:
    """Reads one query; tables get the names of their instances in the order in which they are met."""

    def __init__(self, catalogue: Catalogue, units: bool) -> None:
        self._catalogue = catalogue
        self._protects_units = units
        self._instances: dict[str, tuple[str, ...]] = {}
        self._units: list[Column] = []
        self._met = 0

    def query(self, tree: Any, text: str) -> Query:
        if _kind(tree) != "Select":
            _refuse(_kind(tree).upper(), "it must be one SELECT")
        scope = self._from(tree, {}, top=True)
        relation = self._joined(scope)
        groups = tuple(self._groups(tree, scope))
        measure, label = self._measure(tree, scope, groups)
        unit = self._unit(relation) if self._protects_units else ()
        if measure.kind == "distinct":
            assert measure.column is not None
            for group in groups:
                if any(isinstance(value, Bin) for value in group.values):
                    # A value may be in a bin with several numbers, and is to be counted once.
                    _refuse(
                        f"COUNT(DISTINCT ...) with GROUP BY {group.name}, which has bins",
                        "declare categories of the column, or count rows",
                    )
            relation = Distinct(relation, (*(group.column for group in groups), measure.column))
        query = Query(relation, measure, groups, label, unit, text)
        if query.cells > _MOST_CELLS:
            raise InvalidParameter(f"GROUP BY must have at most {_MOST_CELLS:,} cells, got {query.cells:,}")
        return query

    # FROM, JOIN, WITH.

    def _from(self, select: Any, outer: dict[str, Any], top: bool = False) -> Scope:
        _only(select, "expressions", "from", "joins", "where", "with", *(["group"] if top else ["distinct"]))
        ctes = dict(outer)
        if _arg(select, "with") is not None:
            self._with(_arg(select, "with"), ctes)
        scope = Scope()
        source = _arg(select, "from")
        if source is None:
            raise InvalidParameter("sql must have FROM")
        _only(source, "this")
        self._item(source.this, scope, ctes)
        for join in _arg(select, "joins") or []:
            _only(
                join, "this", "on", "using", *(["kind"] if (join.args.get("kind") or "") == "INNER" else [])
            )
            before = list(scope.sources)
            self._item(join.this, scope, ctes)
            if _arg(join, "on") is not None:
                scope.conditions += conjuncts(self._condition(_arg(join, "on"), scope))
            for word in _arg(join, "using") or []:
                self._using(_name(word), scope, before)
        where = _arg(select, "where")
        if where is not None:
            _only(where, "this")
            scope.conditions += conjuncts(self._condition(where.this, scope))
        return scope

    def _with(self, node: Any, ctes: dict[str, Any]) -> None:
        _only(node, "expressions")
        for cte in node.expressions:
            _only(cte, "this", "alias")
            _only(cte.args["alias"], "this")
            name = _name(cte.args["alias"].this)
            if (
                name.lower() in ctes
                or name.lower() in self._catalogue.tables
                or name.lower() in self._catalogue.views
            ):
                _refuse(
                    f"WITH {name}",
                    "a name that a table or another WITH has (names ignore case) means two things",
                )
            # As it was where it stands: it sees what was named before.
            ctes[name.lower()] = (cte.this, dict(ctes))

    def _item(self, node: Any, scope: Scope, ctes: dict[str, Any]) -> None:
        self._met += 1
        if self._met > _MOST_INSTANCES:
            raise InvalidParameter(f"sql must have at most {_MOST_INSTANCES} tables and subqueries")
        if _kind(node) == "Subquery":
            _only(node, "this", "alias")
            alias = _arg(node, "alias")
            if alias is None:
                raise InvalidParameter("a subquery in FROM must have a name: (SELECT ...) AS name")
            _only(alias, "this")
            relation, columns = self._inner(node.this, ctes)
            scope.add(_name(alias.this), relation, columns)
            return
        if _kind(node) != "Table":
            _refuse(f"{_kind(node).upper()} in FROM")
        _only(node, "this", "alias")
        name = _name(node.this)
        alias = _arg(node, "alias")
        if alias is not None:
            _only(alias, "this")
        called = name if alias is None else _name(alias.this)
        if name.lower() in ctes:
            inner, seen = ctes[name.lower()]
            relation, columns = self._inner(inner, seen)
        else:
            relation, columns = self._table(name)
        scope.add(called, relation, columns)

    def _table(self, name: str) -> tuple[Relation, dict[str, Known]]:
        table = self._catalogue.table(name)
        instance, number = table.name, 1
        while instance in self._instances:  # as another table may be called so
            number += 1
            instance = f"{table.name}#{number}"
        self._instances[instance] = (table.name,)
        if self._protects_units and not table.public:
            if table.unit is None:
                raise InvalidParameter(
                    f"table {table.name} is private and has no unit: name the column that says whose a row is, or "
                    "declare the table public"
                )
            self._units.append(Column(instance, table.unit))
        columns = {key: Known(Column(instance, own), kind) for key, (own, kind) in table.columns.items()}
        return Table(table.name, instance, table.public), columns

    def _inner(self, node: Any, ctes: dict[str, Any]) -> tuple[Relation, dict[str, Known]]:
        """Return the relation of a subquery, and its columns: bare ones."""
        if _kind(node) != "Select":
            _refuse(f"{_kind(node).upper()} in a subquery")
        scope = self._from(node, ctes)
        relation = self._joined(scope)
        columns: dict[str, Known] = {}
        for item in node.expressions:
            for name, known in self._selected(item, scope):
                if name.lower() in columns:
                    raise InvalidParameter(f"a subquery must have each column once, got {name!r} twice")
                columns[name.lower()] = known
        if node.args.get("distinct") is not None:
            _only(node.args["distinct"])
            relation = Distinct(relation, tuple(dict.fromkeys(known.column for known in columns.values())))
        return relation, columns

    def _selected(self, item: Any, scope: Scope) -> Iterable[tuple[str, Known]]:
        if _kind(item) == "Star":
            _only(item)
            return [
                (known.column.name, known) for columns in scope.sources.values() for known in columns.values()
            ]
        if _kind(item) == "Alias":
            _only(item, "this", "alias")
            return [(_name(item.args["alias"]), self._column(item.this, scope))]
        known = self._column(item, scope)
        return [(_name(item.this), known)]

    def _using(self, name: str, scope: Scope, before: list[str]) -> None:
        left = [
            scope.sources[source][name.lower()] for source in before if name.lower() in scope.sources[source]
        ]
        right = scope.sources[list(scope.sources)[-1]].get(name.lower())
        if (len(left) != 1 and not (left and scope._equated(left))) or right is None:
            raise InvalidParameter(f"USING ({name}) must name a column that both sides have, once each")
        self._same_type("USING", left[0], right)
        _no_reals(right)
        scope.conditions.append(Compare("=", left[0].column, right.column))

    def _joined(self, scope: Scope) -> Relation:
        """Return the join of all sources, each to those before it by the equalities there are; conditions after it."""
        equalities = [
            c
            for c in scope.conditions
            if isinstance(c, Compare) and c.operator == "=" and isinstance(c.right, Column)
        ]
        relation, *left = scope.relations
        inside = _columns_of(relation)
        while left:
            for place, other in enumerate(left):
                there = _columns_of(other)
                pairs = []
                for equality in equalities:
                    a, b = equality.left, equality.right
                    assert isinstance(b, Column)
                    if a.instance in inside and b.instance in there:
                        pairs.append((a, b))
                    elif b.instance in inside and a.instance in there:
                        pairs.append((b, a))
                if pairs:
                    relation = Join(relation, other, tuple(dict.fromkeys(pairs)))
                    inside |= there
                    del left[place]
                    break
            else:
                _refuse(
                    "a join without an equality",
                    "every table must be joined by equal columns (ON, USING or WHERE)",
                )
        return Select(relation, All(tuple(scope.conditions))) if scope.conditions else relation

    # Columns, literals, conditions.

    def _column(self, node: Any, scope: Scope) -> Known:
        if _kind(node) == "Paren":
            return self._column(node.this, scope)
        if _kind(node) != "Column":
            _refuse(
                f"{_kind(node).upper()} where a column must be",
                "only bare columns are read, without arithmetic or functions",
            )
        _only(node, "this", "table")
        table = node.args.get("table")
        if _kind(node.this) == "Star":
            _refuse("table.*", "columns must be named")
        return scope.find(_name(node.this), "" if table is None else _name(table))

    def _same_type(self, where: str, left: Known, right: Known) -> None:
        if left.type.name != right.type.name or left.type.kind == "other":
            raise InvalidParameter(
                f"{where}: {left.column.name} and {right.column.name} must be of one type, got {left.type.shown} and "
                f"{right.type.shown}"
            )

    def _condition(self, node: Any, scope: Scope) -> Condition:
        kind = _kind(node)
        if kind == "Paren":
            _only(node, "this")
            return self._condition(node.this, scope)
        if kind in ("And", "Or"):
            _only(node, "this", "expression")
            both = (self._condition(node.this, scope), self._condition(node.expression, scope))
            return All(both) if kind == "And" else Either(both)
        if kind == "Not":
            _only(node, "this")
            return Not(self._condition(node.this, scope))
        if kind == "Boolean":
            _only(node, "this")
            return Constant(bool(node.this))
        if kind == "Column":
            known = self._column(node, scope)
            if known.type.kind != "truth":
                raise InvalidParameter(
                    f"{known.column.name} must be a BOOLEAN to be a condition, got {known.type.shown}"
                )
            return Flag(known.column)
        if kind == "Is":
            _only(node, "this", "expression")
            if _kind(node.expression) != "Null":
                _refuse("IS", "only IS NULL and IS NOT NULL are read")
            return Missing(self._column(node.this, scope).column)
        if kind == "Between":
            _only(node, "this", "low", "high")
            known = self._column(node.this, scope)
            ends = (self._literal(node.args[end], known) for end in ("low", "high"))
            return Between(known.column, *ends)
        if kind == "In":
            _only(node, "this", "expressions")
            known = self._column(node.this, scope)
            return Among(known.column, tuple(self._literal(item, known) for item in node.expressions))
        if kind == "Like":
            _only(node, "this", "expression")
            known = self._column(node.this, scope)
            if known.type.kind != "text":
                raise InvalidParameter(f"LIKE: {known.column.name} must be VARCHAR, got {known.type.shown}")
            return Like(known.column, self._literal(node.expression, known))
        operators = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
        if kind in operators:
            _only(node, "this", "expression")
            return self._comparison(operators[kind], node.this, node.expression, scope)
        _refuse(
            f"{kind.upper()} in a condition",
            "it is not among AND, OR, NOT, comparisons, BETWEEN, IN, IS NULL and LIKE",
        )

    def _comparison(self, operator: str, left: Any, right: Any, scope: Scope) -> Condition:
        if _is_literal(left):
            turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
            left, right, operator = right, left, turned.get(operator, operator)
        known = self._column(left, scope)
        if _is_literal(right):
            return Compare(operator, known.column, self._literal(right, known))
        other = self._column(right, scope)
        self._same_type(operator, known, other)
        if operator == "=":
            _no_reals(known)
        return Compare(operator, known.column, other.column)

    def _literal(self, node: Any, known: Known) -> Literal:
        if not _is_literal(node):
            _refuse(
                f"{_kind(node).upper()} in a comparison",
                "a column is compared with a literal or another column",
            )
        if _kind(node) == "Neg":
            inner = node.this
            value: Any = f"-{inner.this}"
            text = bool(inner.args.get("is_string"))
        elif _kind(node) == "Boolean":
            value, text = bool(node.this), False
        else:
            value, text = node.this, bool(node.args.get("is_string"))
        return literal(value, text, known)

    # GROUP BY and what is selected.

    def _groups(self, tree: Any, scope: Scope) -> Iterator[Group]:
        group = tree.args.get("group")
        if group is None:
            return
        _only(group, "expressions")
        for item in group.expressions:
            known = self._column(item, scope)
            table = self._instances[known.column.instance][0]
            key = (table.lower(), known.column.name.lower())
            if key in self._catalogue.bins:
                yield Group(known.column, known.column.name, _bins(self._catalogue.bins[key], known))
                continue
            if key not in self._catalogue.categories:
                raise InvalidParameter(
                    f"GROUP BY {known.column.name}: its values must be declared, as they would show which there are: "
                    f"categories={{'{table}.{known.column.name}': [...]}}, or bins="
                )
            # Declared values may be text, as those of a command are.
            words = known.type.kind in ("text", "date", "time")
            values = self._catalogue.categories[key]
            literals = tuple(literal(value, words and isinstance(value, str), known) for value in values)
            yield Group(known.column, known.column.name, literals)

    def _measure(self, tree: Any, scope: Scope, groups: tuple[Group, ...]) -> tuple[Measure, str]:
        found: list[tuple[Measure, str]] = []
        for item in tree.expressions:
            name = ""
            if _kind(item) == "Alias":
                _only(item, "this", "alias")
                item, name = item.this, _name(item.args["alias"])
            if _kind(item) == "Column":
                known = self._column(item, scope)
                if known.column not in [group.column for group in groups]:
                    _refuse(
                        f"the column {known.column.name} in SELECT",
                        "rows are not released: aggregate, or GROUP BY it",
                    )
                continue
            found.append((self._aggregate(item, scope), name))
        if len(found) != 1:
            raise InvalidParameter(
                f"SELECT must have one aggregate: ask one query for each, got {len(found)}"
            )
        measure, name = found[0]
        return measure, name or {"distinct": "count", "mean": "mean"}.get(measure.kind, measure.kind)

    def _aggregate(self, node: Any, scope: Scope) -> Measure:
        kind = _kind(node)
        if kind not in ("Count", "Sum", "Avg"):
            _refuse(f"{kind.upper()} in SELECT", "COUNT, SUM and AVG are answered")
        _only(node, "this", *(["big_int"] if kind == "Count" else []))
        inner = node.this
        if kind == "Count":
            if inner is None or _kind(inner) == "Star":
                if inner is not None:
                    _only(inner)
                return Measure("count")
            if _kind(inner) == "Distinct":
                _only(inner, "expressions")
                if len(inner.expressions) != 1:
                    _refuse("COUNT(DISTINCT ...) of several columns", "it is of one")
                known = self._column(inner.expressions[0], scope)
                return Measure("distinct", known.column, known.type)
            known = self._column(inner, scope)
            return Measure("count", known.column, known.type)
        known = self._column(inner, scope)
        return self._bounded("sum" if kind == "Sum" else "mean", known)

    def _bounded(self, kind: str, known: Known) -> Measure:
        table = self._instances[known.column.instance][0]
        bounds = self._catalogue.bounds.get((table.lower(), known.column.name.lower()))
        word = "SUM" if kind == "sum" else "AVG"
        if known.type.kind not in ("whole", "real"):
            raise InvalidParameter(f"{word}: {known.column.name} must be a number, got {known.type.shown}")
        if bounds is None:
            raise InvalidParameter(
                f"{word}({known.column.name}): bounds of its values must be declared, without the data: "
                f"bounds={{'{table}.{known.column.name}': (low, high)}}"
            )
        low, high = bounds
        whole = (
            known.type.kind == "whole"
            and low == int(low)
            and high == int(high)
            and max(abs(low), abs(high)) <= 2**FINEST
        )
        # 2^-30 of the largest value or finer: what a value is rounded to, at least (see `Measure.of_bits`).
        spacing = 1.0 if whole else 2.0 ** (math.frexp(max(abs(low), abs(high)))[1] - 30)
        return Measure(
            kind, known.column, known.type, math.floor(low / spacing), math.ceil(high / spacing), spacing
        )

    # Units.

    def _unit(self, relation: Relation) -> tuple[Column, ...]:
        """Return the columns that say whose every row is, or refuse a query whose rows could be several units'."""
        if not self._units:
            raise InvalidParameter(
                "sql must be about a private table: one of public tables only needs no privacy"
            )
        classes = _equal(relation)
        first, *others = self._units
        for other in others:
            if classes.get(first, first) != classes.get(other, other):
                raise InvalidParameter(
                    f"where units are protected, a row of the result must be one unit's: {first} = {other} must be "
                    "among the equalities"
                )
        same = tuple({first, *(column for column in classes if classes[column] == classes.get(first, first))})
        for part in _parts(relation):
            private = {column.instance for column in self._units} & _columns_of(part)
            if isinstance(part, Distinct) and private and not set(part.columns) & set(same):
                raise InvalidParameter(
                    f"where units are protected, DISTINCT must have the unit's column ({first.name}): else a row "
                    "may be several units'"
                )
        return tuple(sorted(same))


def _no_reals(known: Known) -> None:
    """Refuse real numbers as equal: 0.0 and -0.0 are, and NaNs of several kinds."""
    if known.type.kind == "real":
        _refuse(
            "equality of two columns of real numbers",
            "joins are on whole numbers, text, dates or truth values",
        )


def literal(value: Any, text: bool, known: Known) -> Literal:
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
    raise InvalidParameter(
        f"{name} must be compared with a literal of its type {known.type.shown}, got {value!r}"[:300]
    )


def _bins(edges: tuple[float, ...], known: Known) -> tuple[Bin, ...]:
    if known.type.kind not in ("whole", "real"):
        raise InvalidParameter(f"bins are of numbers, and {known.column.name} is {known.type.shown}")
    ends = [Literal(edge, "DOUBLE") for edge in edges]
    return tuple(Bin(low, high, high is ends[-1]) for low, high in pairwise(ends))


def _is_literal(node: Any) -> bool:
    kind = _kind(node)
    if kind == "Neg":
        return _kind(node.this) == "Literal" and not node.this.args.get("is_string")
    return kind in ("Literal", "Boolean")


def _parts(relation: Relation) -> Iterator[Relation]:
    """Yield a relation and all that it is made of."""
    yield relation
    if isinstance(relation, Join):
        yield from _parts(relation.left)
        yield from _parts(relation.right)
    elif not isinstance(relation, Table):
        yield from _parts(relation.of)


def _columns_of(relation: Relation) -> set[str]:
    """Return the names of the instances that a relation has columns of."""
    return {table.instance for table in tables(relation)}


def _equal(relation: Relation) -> dict[Column, Column]:
    """Return a representative of every column that some other is equal to in all rows that are left."""
    found: dict[Column, Column] = {}

    def root(column: Column) -> Column:
        while found.get(column, column) != column:
            column = found[column]
        return column

    def follow(part: Relation) -> None:
        if isinstance(part, Join):
            follow(part.left)
            follow(part.right)
            for a, b in part.on:
                found[root(a)] = root(b)
        elif isinstance(part, Select):
            follow(part.of)
            for condition in conjuncts(part.condition):
                if (
                    isinstance(condition, Compare)
                    and condition.operator == "="
                    and isinstance(condition.right, Column)
                ):
                    found[root(condition.left)] = root(condition.right)
        elif not isinstance(part, Table):
            follow(part.of)

    follow(relation)
    return {column: root(column) for column in {*found, *found.values()}}
