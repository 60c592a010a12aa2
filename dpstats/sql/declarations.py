"""Declarations: public tables, keys, units, and what is known of columns. A wrong one is refused by its name."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from dpstats.data.keys import DISCOVER
from dpstats.data.parameters import check_real
from dpstats.errors import attempt, refuse, refuse_data
from dpstats.sensitivity.relations import Column
from dpstats.sql.calendar import read_period
from dpstats.sql.catalogue import BaseTable, Catalogue, Path, fold
from dpstats.sql.scope import Known, same_type
from dpstats.sql.source import Source


@dataclass(frozen=True)
class Declarations:
    """What is declared of tables and of columns, as `PrivateSQL` takes it."""

    public_tables: tuple[Any, ...]
    keys: Mapping[str, Any]
    unit: Any
    categories: Mapping[str, Any]
    bins: Mapping[str, Any]
    bounds: Mapping[str, Any]

    def read(self, data: Source) -> Catalogue:
        """Return the catalogue of a snapshot, or refuse a declaration that does not fit its tables."""
        found = data.tables()
        for name in self.public_tables:
            if fold(name) not in found:
                got = f"{len(self.public_tables)} names with another"
                raise refuse("public_tables", got=got, allowed="name tables")
            found[fold(name)] = replace(found[fold(name)], public=True)
        for name, key in self.keys.items():
            table = found.get(fold(name))
            if table is None or not isinstance(key, str):
                allowed = "a mapping of names of tables to names of columns"
                raise refuse("keys", given=self.keys, allowed=allowed)
            found[fold(name)] = _add_key(data, table, key, f"keys[{name!r}]")
        if self.unit is not None:
            self._read_units(data, found)
        return self._read_columns(Catalogue(found, data.views()))

    def _read_units(self, data: Source, found: dict[str, BaseTable]) -> None:
        """Add the unit of every private table: its column, or the path to it."""
        unit = self.unit
        if not isinstance(unit, str | Mapping):
            raise refuse("unit", given=unit, allowed="a column's name, or one for each table")
        given = {fold(key): value for key, value in unit.items()} if isinstance(unit, Mapping) else {}
        if given and len(given) < len(unit):
            raise refuse("unit", given=unit, allowed="name each table once", remedy="Names ignore case.")
        if given.keys() - found.keys():
            raise refuse("unit", given=unit, allowed="name known tables")
        for name, table in found.items():
            column = given.get(name) if given else unit
            if table.public or column is None:
                continue
            if "->" in str(column):
                found[name] = replace(table, path=_read_path(table, str(column), found))
            elif fold(column) in table.columns:
                found[name] = replace(table, unit=table.columns[fold(column)][0])
            elif given:
                raise refuse("unit", given=unit, allowed=f"name a column of {table.name}")
        for name, table in list(found.items()):
            if table.path is not None:
                _check_path(name, found)
                target = found[table.path.table]
                found[table.path.table] = _add_key(data, target, table.path.key, f"unit[{table.name!r}]")

    def _read_columns(self, catalogue: Catalogue) -> Catalogue:
        """Return the catalogue with the declarations of columns."""
        categories: dict[tuple[str, str], tuple[Any, ...] | str] = {}
        for key, place in catalogue.columns_of("categories", self.categories).items():
            values = self.categories[key]
            if isinstance(values, str) and values == DISCOVER:
                categories[place] = DISCOVER
                continue
            listed = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else ()
            hashable = all(isinstance(value, Hashable) for value in listed)
            if not listed or not hashable or len(set(listed)) < len(listed):
                allowed = "a sequence of different values, or 'discover'"
                raise refuse(f"categories[{key!r}]", given=values, allowed=allowed)
            categories[place] = listed
        edges, periods, limits = {}, {}, {}
        for key, place in catalogue.columns_of("bins", self.bins).items():
            values, (table, column), name = self.bins[key], place, f"bins[{key!r}]"
            kind = catalogue.tables[table].columns[column][1].kind
            if kind in ("date", "time") and place not in categories:
                periods[place] = read_period(name, values)
                continue
            listed = tuple(values) if isinstance(values, Iterable) else ()
            ends = tuple(check_real(name, edge, of=values) for edge in listed)
            if len(ends) < 2 or not all(low < high for low, high in pairwise(ends)) or place in categories:
                allowed = "two edges or more that rise, of a column without categories"
                raise refuse(name, given=values, allowed=allowed)
            edges[place] = ends
        for key, place in catalogue.columns_of("bounds", self.bounds).items():
            values, name = self.bounds[key], f"bounds[{key!r}]"
            pair = attempt(lambda values=values: tuple(values), Exception) or ()  # type: ignore[misc]
            if len(pair) != 2:
                raise refuse(name, given=values, allowed="two numbers")
            low, high = (check_real(name, end, at_least=-1e15, at_most=1e15, of=values) for end in pair)
            if not low < high:
                raise refuse(name, given=values, allowed="low < high")
            limits[place] = (low, high)
        return replace(catalogue, categories=categories, bins=edges, periods=periods, bounds=limits)


def _add_key(data: Source, table: BaseTable | None, column: Any, parameter: str) -> BaseTable:
    """Return a table with its declared key, or refuse one that has a value twice."""
    if table is None or fold(column) not in table.columns:
        raise refuse(parameter, given=column, allowed="name a column of a table")
    key, kind = table.columns[fold(column)]
    if kind.kind in ("real", "other"):
        raise refuse(parameter, got=kind.shown, allowed="a column that joins can use")
    check_key(data, table, key, parameter)
    return replace(table, keys=tuple(dict.fromkeys((*table.keys, key))))


def check_key(data: Source, table: BaseTable, key: str, parameter: str) -> None:
    """Refuse a declared key that has a value twice."""
    if data.frequency(table, key) > 1:
        raise refuse_data(
            parameter,
            got=f"{table.name}.{key}, which has a value twice",
            allowed="a column without repeated values",
            remedy="Declare another column, or none.",
        )


def _read_path(table: BaseTable, text: str, tables: Mapping[str, BaseTable]) -> Path:
    """Return a path that is written as "column -> table.key"."""
    parameter = f"unit[{table.name!r}]"
    column, _, target = (word.strip() for word in text.partition("->"))
    name, dot, key = target.partition(".")
    if fold(column) not in table.columns or not dot or fold(name) not in tables:
        raise refuse(parameter, given=text, allowed="a column, or a path 'column -> table.key'")
    other = tables[fold(name)]
    if fold(key) not in other.columns:
        raise refuse(parameter, given=key, allowed=f"lead to a column of {other.name}")
    own, kind = table.columns[fold(column)]
    found, other_kind = other.columns[fold(key)]
    left = Known(Column(table.name, own), kind, table.name)
    same_type(parameter, left, Known(Column(other.name, found), other_kind, other.name))
    return Path(own, fold(name), found)


def _check_path(name: str, tables: Mapping[str, BaseTable]) -> None:
    """Refuse a path that does not end at a column of a private table."""
    seen = [name]
    while (path := tables[seen[-1]].path) is not None:
        if path.table in seen:
            got = f"the circle {' -> '.join([*seen, path.table])}"
            raise refuse("unit", got=got, allowed="lead to a column")
        seen.append(path.table)
    last = tables[seen[-1]]
    if last.public or last.unit is None:
        raise refuse(
            f"unit[{tables[name].name!r}]",
            got=f"{last.name}, which {'is public' if last.public else 'has no unit'}",
            allowed="lead to a private table with a unit",
            remedy=f"Give the column of the unit as unit[{last.name!r}].",
        )
