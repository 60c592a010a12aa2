"""What a level of a query selects from, and what the columns that it names are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from dpstats.errors import refuse
from dpstats.sensitivity.relations import Column, Distinct, Join, Relation, Select, tables
from dpstats.sql.catalogue import ColumnType, fold
from dpstats.sql.conditions import All, Compare, Condition, conjuncts, require_columns
from dpstats.sql.syntax import allow_only, kind_of, name_of, refuse_clause


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
                key: known._replace(type=replace(known.type, required=False))
                for key, known in columns.items()
            }

    def find(self, name: str, source: str = "") -> Known:
        """Return the column of a name."""
        if source and fold(source) not in self.sources:
            raise refuse(f"{source}.{name}", given=source, allowed="name a table in FROM")
        places = [self.sources[fold(source)]] if source else list(self.sources.values())
        found = [columns[fold(name)] for columns in places if fold(name) in columns]
        if not found:
            raise refuse("the column", given=name, allowed=f"in {source or 'FROM'}")
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
        pairs = {
            frozenset((c.left, c.right))
            for c in self.conditions
            if isinstance(c, Compare) and c.operator == "=" and isinstance(c.right, Column)
        }
        return all(frozenset((first, other)) in pairs for other in others)

    def joined(self) -> Relation:
        """Return the join of all sources, each to those before it by the equalities there are; conditions after it."""
        equalities = [
            c
            for c in self.conditions
            if isinstance(c, Compare) and c.operator == "=" and isinstance(c.right, Column)
        ]
        relation, *left = self.relations
        inside = instances_of(relation)
        while left:
            for place, other in enumerate(left):
                there = instances_of(other)
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
                refuse_clause(
                    "a join without an equality",
                    "every table must be joined by equal columns (ON, USING or WHERE)",
                )
        return Select(relation, All(tuple(self.conditions))) if self.conditions else relation


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


def column_of(node: Any, scope: Scope) -> Known:
    """Return the bare column that a node names."""
    if kind_of(node) == "Paren":
        return column_of(node.this, scope)
    if kind_of(node) != "Column":
        found = "a literal" if kind_of(node) == "Literal" else kind_of(node).upper()
        refuse_clause(
            f"{found} where a column must be",
            "only bare columns are read, without arithmetic or functions",
        )
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
            "equality of two columns of real numbers",
            "joins are on whole numbers, text, dates or truth values",
        )


def instances_of(relation: Relation) -> set[str]:
    """Return the names of the instances that a relation has columns of."""
    return {table.instance for table in tables(relation)}
