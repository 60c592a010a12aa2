"""Parsing of SQL into a relation, and whose a row of the result is. The text of a query never runs.

Proof: docs/proofs/truncated-sums.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from dpstats.errors import refuse
from dpstats.sensitivity.elastic import Column, Distinct, Join, Relation, Select, Table, tables
from dpstats.sql.aggregates import groups_of, read_measure, split_conditions
from dpstats.sql.catalogue import Catalogue, fold
from dpstats.sql.query import (
    Compare,
    Group,
    Literal,
    Measure,
    Quantiles,
    Query,
    Several,
    conjuncts,
    list_columns,
    require_columns,
)
from dpstats.sql.scope import (
    Known,
    Scope,
    allow_only,
    argument,
    column_of,
    condition_of,
    instances_of,
    kind_of,
    name_of,
    no_reals,
    refuse_clause,
    same_type,
    tree_of,
)

# Units: whose a row of a result is


def unit_columns(relation: Relation, units: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns that say whose every row is, or refuse a query whose rows could be several units'.

    ``units`` are the columns that say it of each private table.
    """
    if not units:
        raise refuse("sql", allowed="be about a private table", remedy="One of public tables only needs no privacy.")
    partners = _check_left_joins(relation, units)
    units = [unit for unit in units if unit not in partners]
    classes = _Equal(relation)
    first, *others = units
    for other in others:
        if not classes.same(first, other):
            raise refuse(
                "where units are protected, a row of the result",
                allowed="one unit's",
                remedy=f"{first} = {other} must be among the equalities.",
            )
    same = {first, *classes.members(first)}
    for part in _parts(relation):
        private = {column.instance for column in units} & instances_of(part)
        if not (isinstance(part, Distinct) and private):
            continue
        # A column of a DISTINCT must be the unit's, or the key of a row that has the unit.
        own = [table for table in tables(part) if table.instance in private]
        known = [*units, *(Column(table.instance, key) for table in own for key in table.keys)]
        if not any(classes.same(column, each) for column in part.columns for each in known):
            raise refuse(
                "where units are protected, DISTINCT",
                allowed=f"have the unit's column ({first.name})",
                remedy="Otherwise a row may belong to several units.",
            )
    shown = tuple(sorted(same & set(_visible(relation, same))))
    if not shown:
        raise refuse(
            "where units are protected, the result",
            allowed=f"have the unit's column ({first.name})",
            remedy="Join the table that has it.",
        )
    return shown


def _check_left_joins(relation: Relation, units: Sequence[Column]) -> set[Column]:
    """Return the columns of units on the right of left joins, or refuse one whose partners may be other units'.

    A row and its partners must be of one unit, and then so is the absence of a partner.
    """
    found: set[Column] = set()
    for part in _parts(relation):
        if not (isinstance(part, Join) and part.outer):
            continue
        left, right = (
            [unit for unit in units if unit.instance in instances_of(side)] for side in (part.left, part.right)
        )
        if right:
            if left:
                unit_columns(part.left, left)
            unit_columns(part.right, right)
            # The equalities of a row and a partner.
            together = _Equal(replace(part, outer=False))
            own = set(left) - _check_left_joins(part.left, left)
            if not any(together.same(a, right[0]) for a in own):
                raise refuse(
                    "where units are protected, a LEFT JOIN",
                    allowed="be on the columns of the units",
                    remedy=f"{right[0]} must equal the unit of the left side.",
                )
        found |= set(right)
    return found


def _parts(relation: Relation) -> Iterator[Relation]:
    """Yield a relation and all that it is made of, but not the right sides of left joins."""
    yield relation
    if isinstance(relation, Join):
        yield from _parts(relation.left)
        if not relation.outer:
            yield from _parts(relation.right)
    elif not isinstance(relation, Table):
        yield from _parts(relation.of)


def _visible(relation: Relation, columns: set[Column]) -> Iterator[Column]:
    """Yield the given columns that are in the rows of a relation."""
    if isinstance(relation, Table):
        yield from (column for column in columns if column.instance == relation.instance)
    elif isinstance(relation, Join):
        yield from _visible(relation.left, columns)
        yield from _visible(relation.right, columns)
    elif isinstance(relation, Distinct):
        yield from (column for column in columns if column in relation.columns)
    else:
        yield from _visible(relation.of, columns)


class _Equal:
    """The columns that equal each other in all remaining rows.

    Instances of a table with equal keys are the same row, so that their other columns are equal, too.
    """

    def __init__(self, relation: Relation) -> None:
        self._parents: dict[Column, Column] = {}
        self._follow(relation)
        instances = list(tables(relation))
        pairs = [
            (a, b, key) for i, a in enumerate(instances) for b in instances[:i] if a.name == b.name for key in a.keys
        ]
        self._same_rows: set[frozenset[str]] = set()
        while True:
            known = len(self._same_rows)
            for a, b, key in pairs:
                if self.same(Column(a.instance, key), Column(b.instance, key)):
                    self._same_rows.add(frozenset((a.instance, b.instance)))
                    for column in {*self._parents, *self._parents.values()}:
                        if column.instance in (a.instance, b.instance):
                            self._merge(Column(a.instance, column.name), Column(b.instance, column.name))
            if len(self._same_rows) == known:
                break

    def same(self, a: Column, b: Column) -> bool:
        """Return whether two columns are equal."""
        if self._root(a) == self._root(b):
            return True
        twins = frozenset((a.instance, b.instance)) in self._same_rows and a.name == b.name
        if twins:
            self._merge(a, b)
        return twins

    def members(self, column: Column) -> set[Column]:
        """Return the known columns that equal one."""
        known = {*self._parents, *self._parents.values()}
        return {each for each in known if self.same(each, column)}

    def _root(self, column: Column) -> Column:
        while self._parents.get(column, column) != column:
            column = self._parents[column]
        return column

    def _merge(self, a: Column, b: Column) -> None:
        self._parents[self._root(a)] = self._root(b)

    def _follow(self, part: Relation) -> None:
        if isinstance(part, Join):
            self._follow(part.left)
            if part.outer:
                # Columns of the right side may be missing.
                return
            self._follow(part.right)
            for a, b in part.on:
                self._merge(a, b)
        elif isinstance(part, Select):
            self._follow(part.of)
            for condition in conjuncts(part.condition):
                if isinstance(condition, Compare) and condition.operator == "=" and isinstance(condition.right, Column):
                    self._merge(condition.left, condition.right)
        elif not isinstance(part, Table):
            self._follow(part.of)


# Parsing: a clause that is not listed raises an error with its name

_MOST_CELLS = 10_000
_MOST_INSTANCES = 12


def parse(text: str, catalogue: Catalogue, *, units: bool = False) -> Query:
    """Parse the text of a query, or raise an error.

    Parameters
    ----------
    text : str
        One SELECT, in DuckDB's dialect.
    catalogue : Catalogue
    units : bool, default=False
        Whether every row of the result must belong to one unit.
    """
    tree = tree_of(text)
    return _Reader(catalogue, units).query(tree, text)


def _list_needed(measure: Measure | Several, groups: tuple[Group, ...]) -> frozenset[str]:
    """Return instances of tables. A row counts only if it has a value of each."""
    if isinstance(measure, Measure):
        measured = [measure.column]
    else:
        places = [each.column for each in measure.asked]
        measured = [None if place is None else measure.columns[place].column for place in places]
    # A row counts for an aggregate if it has a value of its column. Computed values can exist without one.
    own = {one.instance if isinstance(one, Column) else "" for one in measured}
    # A CASE may have a label for a row without a partner.
    grouped = {group.column.instance for group in groups if isinstance(group.column, Column)}
    return frozenset(grouped | (own if len(own) == 1 else set()))


class _Reader:
    """Reader of one query. Instances of tables get their names in the order of the query."""

    def __init__(self, catalogue: Catalogue, units: bool) -> None:
        self._catalogue = catalogue
        self._protects_units = units
        self._instances: set[str] = set()
        self._units: list[Column] = []
        self._met = 0

    def query(self, tree: Any, text: str) -> Query:
        if kind_of(tree) != "Select":
            refuse_clause(kind_of(tree).upper(), "it must be one SELECT")
        scope = self._from(tree, {}, top=True)
        relation = scope.joined()
        groups = groups_of(tree, scope, self._catalogue)
        measure, label, arrangement = read_measure(tree, scope, groups, self._catalogue)
        quantiles = measure if isinstance(measure, Quantiles) else None
        if isinstance(measure, Quantiles):
            measure = Measure("count", measure.column)
        relation = drop_unpaired(relation, _list_needed(measure, groups))
        private = not all(table.public for table in tables(relation))
        unit = unit_columns(relation, self._units) if self._protects_units and private else ()
        if isinstance(measure, Measure) and measure.kind == "distinct":
            assert isinstance(measure.column, Column)
            keys: list[Column] = []
            for group in groups:
                plain = group.key == "{0}" and all(isinstance(value, Literal) for value in group.values)
                if not plain or not isinstance(group.column, Column):
                    # A cell has several values of the column, and a distinct value must be counted once.
                    refuse_clause(
                        f"COUNT(DISTINCT ...) with GROUP BY {group.name}, which has bins, conditions or numbers",
                        "declare categories of the column, with its type, or count rows",
                    )
                keys.append(group.column)
            relation = Distinct(relation, (*keys, measure.column))
        query = Query(relation, measure, groups, label, unit, text, arrangement, quantiles)
        if query.cells > _MOST_CELLS:
            raise refuse("GROUP BY", got=f"{query.cells:,}", allowed=f"have at most {_MOST_CELLS:,} cells")
        return query

    # FROM, JOIN, WITH.

    def _from(self, select: Any, outer: dict[str, Any], top: bool = False) -> Scope:
        allow_only(
            select,
            "expressions",
            "from",
            "joins",
            "where",
            "with",
            *(["group", "having", "order", "limit"] if top else ["distinct"]),
        )
        ctes = dict(outer)
        if argument(select, "with") is not None:
            self._with(argument(select, "with"), ctes)
        scope = Scope()
        source = argument(select, "from")
        if source is None:
            raise refuse("sql", allowed="have FROM")
        allow_only(source, "this")
        self._item(source.this, scope, ctes)
        for join in argument(select, "joins") or []:
            kind, side = join.args.get("kind") or "", join.args.get("side") or ""
            allowed = ["kind"] if kind in ("INNER", "SEMI") else []
            if side == "LEFT" and kind in ("", "OUTER"):
                allowed = ["kind", "side"]
            allow_only(join, "this", "on", "using", *allowed)
            if kind == "SEMI" or side == "LEFT":
                other, clause = Scope(), "SEMI JOIN" if kind == "SEMI" else "LEFT JOIN"
                pairs = self._read_pairs(join, scope, other, ctes, clause)
                if kind == "SEMI":
                    # A join with the distinct values of its right side
                    scope.restrict(other.joined(), pairs, clause)
                else:
                    # Rows without a partner stay. Later clauses use the result.
                    scope.extend(other, pairs)
                continue
            before = list(scope.sources)
            self._item(join.this, scope, ctes)
            if argument(join, "on") is not None:
                scope.conditions += conjuncts(condition_of(argument(join, "on"), scope))
            for word in argument(join, "using") or []:
                self._using(name_of(word), scope, before)
        where = argument(select, "where")
        if where is not None:
            allow_only(where, "this")
            for node in split_conditions(where.this):
                if kind_of(node) == "In" and node.args.get("query") is not None:
                    self._among(node, scope, ctes)
                else:
                    scope.conditions += conjuncts(condition_of(node, scope))
        return scope

    def _among(self, node: Any, scope: Scope, ctes: dict[str, Any]) -> None:
        """Read ``column IN (SELECT column ...)``: a join with the distinct values of the subquery."""
        allow_only(node, "this", "query")
        left = column_of(node.this, scope)
        self._count_instance()
        allow_only(node.args["query"], "this")
        relation, columns = self._inner(node.args["query"].this, ctes)
        if len(columns) != 1:
            raise refuse("IN (SELECT ...)", given=len(columns), allowed="have one column")
        (right,) = columns.values()
        scope.restrict(relation, [(left, right)], "IN")

    def _read_pairs(
        self, join: Any, scope: Scope, other: Scope, ctes: dict[str, Any], clause: str
    ) -> list[tuple[Known, Known]]:
        """Read the right side of a join, and return the columns that must be equal."""
        self._item(join.this, other, ctes)
        pairs: list[tuple[Known, Known]] = []
        for word in argument(join, "using") or []:
            pairs.append((scope.find(name_of(word)), other.find(name_of(word))))
        own = instances_of(other.relations[0])
        if argument(join, "on") is not None:
            both = Scope()
            both.sources = {**scope.sources, **other.sources}
            known = {each.column: each for columns in both.sources.values() for each in columns.values()}
            for condition in conjuncts(condition_of(argument(join, "on"), both)):
                right = [column for column in list_columns(condition) if column.instance in own]
                if len(right) == len(list_columns(condition)):
                    other.conditions.append(condition)
                    continue
                if not isinstance(condition, Compare) or condition.operator != "=" or len(right) != 1:
                    refuse_clause(
                        f"{clause} ON with another condition", "it takes equal columns, and conditions on the right"
                    )
                (left,) = (column for column in list_columns(condition) if column.instance not in own)
                pairs.append((known[left], known[right[0]]))
        if not pairs:
            refuse_clause("a join without an equality", "every table must be joined by equal columns (ON or USING)")
        return pairs

    def _with(self, node: Any, ctes: dict[str, Any]) -> None:
        allow_only(node, "expressions")
        for cte in node.expressions:
            allow_only(cte, "this", "alias")
            allow_only(cte.args["alias"], "this")
            name = name_of(cte.args["alias"].this)
            if fold(name) in ctes or fold(name) in self._catalogue.tables or fold(name) in self._catalogue.views:
                refuse_clause(
                    f"WITH {name}", "a name that a table or another WITH has (names ignore case) means two things"
                )
            # A WITH clause sees only the names that were defined before it.
            ctes[fold(name)] = (cte.this, dict(ctes))

    def _item(self, node: Any, scope: Scope, ctes: dict[str, Any]) -> None:
        self._count_instance()
        if kind_of(node) == "Subquery":
            allow_only(node, "this", "alias")
            alias = argument(node, "alias")
            if alias is None:
                raise refuse("a subquery in FROM", allowed="have a name: (SELECT ...) AS name")
            allow_only(alias, "this")
            relation, columns = self._inner(node.this, ctes)
            scope.add(name_of(alias.this), relation, columns)
            return
        if kind_of(node) != "Table":
            refuse_clause(f"{kind_of(node).upper()} in FROM")
        allow_only(node, "this", "alias")
        if kind_of(node.this) != "Identifier":
            refuse_clause("a function in FROM", "it takes names of tables")
        name = name_of(node.this)
        alias = argument(node, "alias")
        if alias is not None:
            allow_only(alias, "this")
        called = name if alias is None else name_of(alias.this)
        if fold(name) in ctes:
            inner, seen = ctes[fold(name)]
            relation, columns = self._inner(inner, seen)
        else:
            relation, columns = self._table(name)
        scope.add(called, relation, columns)

    def _count_instance(self) -> None:
        self._met += 1
        if self._met > _MOST_INSTANCES:
            raise refuse("sql", allowed=f"have at most {_MOST_INSTANCES} tables and subqueries")

    def _table(self, name: str) -> tuple[Relation, dict[str, Known]]:
        table = self._catalogue.table(name)
        instance, number = table.name, 1
        while instance in self._instances:  # as another table may be called so
            number += 1
            instance = f"{table.name}#{number}"
        self._instances.add(instance)
        if self._protects_units and not table.public and table.path is None:
            if table.unit is None:
                raise refuse(
                    f"table {table.name}",
                    allowed="have a unit, because it is private",
                    remedy="Name the column that says whose a row is, or the key of a table that has one "
                    "(unit={'items': 'order -> orders.id'}).",
                )
            self._units.append(Column(instance, table.unit))
        columns = {key: Known(Column(instance, own), kind, table.name) for key, (own, kind) in table.columns.items()}
        relation: Relation = Table(table.name, instance, table.public, keys=table.keys)
        if self._protects_units and not table.public and table.path is not None:
            # The row of another table has the unit. Its columns have no names here.
            self._count_instance()
            owner = self._table(self._catalogue.tables[table.path.table].name)[0]
            key = Column(next(tables(owner)).instance, table.path.key)
            relation = Join(relation, owner, ((Column(instance, table.path.column), key),))
        return relation, columns

    def _inner(self, node: Any, ctes: dict[str, Any]) -> tuple[Relation, dict[str, Known]]:
        """Return the relation of a subquery, and its columns: bare ones."""
        if kind_of(node) != "Select":
            refuse_clause(f"{kind_of(node).upper()} in a subquery")
        scope = self._from(node, ctes)
        relation = scope.joined()
        columns: dict[str, Known] = {}
        for item in node.expressions:
            for name, known in self._selected(item, scope):
                if fold(name) in columns:
                    raise refuse("a subquery", got=f"{name!r} twice", allowed="have each column once")
                columns[fold(name)] = known._replace(alias=name)
        if node.args.get("distinct") is not None:
            allow_only(node.args["distinct"])
            relation = Distinct(relation, tuple(dict.fromkeys(known.column for known in columns.values())))
        return relation, columns

    def _selected(self, item: Any, scope: Scope) -> Iterable[tuple[str, Known]]:
        if kind_of(item) == "Star":
            allow_only(item)
            return [(known.name, known) for columns in scope.sources.values() for known in columns.values()]
        if kind_of(item) == "Alias":
            allow_only(item, "this", "alias")
            return [(name_of(item.args["alias"]), column_of(item.this, scope))]
        known = column_of(item, scope)
        return [(name_of(item.this), known)]

    def _using(self, name: str, scope: Scope, before: list[str]) -> None:
        left = [scope.sources[source][fold(name)] for source in before if fold(name) in scope.sources[source]]
        right = scope.sources[list(scope.sources)[-1]].get(fold(name))
        if (len(left) != 1 and not (left and scope.equated(left))) or right is None:
            raise refuse(f"USING ({name})", allowed="name a column that both sides have, once each")
        same_type("USING", left[0], right)
        no_reals(right)
        scope.conditions.append(Compare("=", left[0].column, right.column))


def drop_unpaired(relation: Relation, needed: frozenset[str]) -> Relation:
    """Return a relation with the same rows that count, in which a left join is an inner one where that is possible.

    A row counts only if it has values of all instances in ``needed``. Conditions and inner joins need further ones.
    """
    if isinstance(relation, Select):
        columns = [column for part in conjuncts(relation.condition) for column in require_columns(part)]
        needed |= {column.instance for column in columns}
        return replace(relation, of=drop_unpaired(relation.of, needed))
    if not isinstance(relation, Join):
        return relation
    if relation.outer and not needed & instances_of(relation.right):
        return replace(relation, left=drop_unpaired(relation.left, needed))
    needed |= {column.instance for pair in relation.on for column in pair}
    left, right = (drop_unpaired(side, needed) for side in (relation.left, relation.right))
    return replace(relation, left=left, right=right, outer=False)
