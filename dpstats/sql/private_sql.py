"""Private SQL: counts, sums, means and spreads of queries with joins, each one release, and its declarations.

Proofs: docs/proofs/elastic-sensitivity.md, docs/proofs/truncated-sums.md, docs/proofs/several-aggregates.md.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from dpstats.data.columns import DISCOVER
from dpstats.data.parameters import (
    check_choice,
    check_flag,
    check_integer,
    check_level,
    check_missing,
    check_privacy_parameters,
    check_real,
)
from dpstats.data.values import quiet
from dpstats.errors import DPStatsError, attempt, refuse, refuse_data, refuse_name, state_charges
from dpstats.means.private_bounds import Bounds, PrivateBounds
from dpstats.mechanisms.unknown_bounds import NO_WINDOW, check_limits, read_bounds, read_column, release_bounds
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee, parse_neighbors
from dpstats.release.mechanism import Releasing
from dpstats.sensitivity.elastic import Column, tables
from dpstats.sql.aggregates import arrange
from dpstats.sql.answers import PrivateAnswer, PrivateTable, SQLPlan
from dpstats.sql.catalogue import BaseTable, Catalogue, ForeignKey, fold, quoted
from dpstats.sql.compile import Source
from dpstats.sql.kinds import Answer, Kind, Setting, kind_of_query
from dpstats.sql.parse import parse
from dpstats.sql.quantiles import QuantileAnswers
from dpstats.sql.query import AS_DECLARED, Query, Several
from dpstats.sql.scope import Known, read_period, same_type
from dpstats.sql.several import PrivateAnswers

_FURTHEST = 1e15  # bounds are at most this far from 0
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Declarations:
    """Declarations of tables and columns, as `PrivateSQL` takes them."""

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
                raise refuse_name(f"unit[{name!r}]", column, [own for own, _ in table.columns.values()], of=table.name)
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
            listed = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str | Mapping) else ()
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
            low, high = (check_real(name, end, at_least=-_FURTHEST, at_most=_FURTHEST, of=values) for end in pair)
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


def _read_path(table: BaseTable, text: str, tables: Mapping[str, BaseTable]) -> ForeignKey:
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
    return ForeignKey(own, fold(name), found)


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


class PrivateSQL(Releasing):
    """Private answers to SQL queries over private tables, with noise for the effect of one row through all joins.

    Use this class for questions about joined tables, or tables of a database. Every answer is a separate release; all
    aggregates of a query are one. Notes list the clauses, and what each of them needs declared.

    Parameters
    ----------
    connection : DuckDB or psycopg connection, "postgresql://..." address, or mapping of str to path or data frame
        The tables. A path is of a file or of a folder; `dpstats.data.files` are several files. A second connection
        reads the database. Every answer from Postgres reads its current state, and other answers the state at the
        creation of this object or at the last `refresh`. CSV and Parquet files are read in place, or copied where
        DuckDB could find other records in a CSV file than all other readers here.
    epsilon : float
        Privacy parameter of each answer. Must be positive.
    delta : float, default=0.0
        Privacy parameter of each answer, in [0, 0.5]. 0 gives pure differential privacy. With a positive value, noise
        with a private scale is Laplace noise, as in the textbook. This is usually more noise.
    public_tables : sequence of str, default=()
        Public tables. They are the same for all neighboring databases. A join with a public table often has the noise
        of a query without a join.
    keys : mapping of str to str, optional
        Columns without repeated values, as {"table": "column"}: primary keys. A join with one has less noise, as a row
        has one partner at most. A column with a value twice raises an error before anything is charged. This error
        reveals it.
    unit : str, or mapping of str to str, optional
        Column that identifies the unit of a row, for all private tables or by table. None protects one row of one
        private table. A unit protects a person with all rows in all tables. Joins of private tables must then be by
        this column. A table without the column has a path: {"orders": "customer", "items": "order -> orders.id"} says
        that an item is of the unit of its order. The key at the end of an arrow is checked like ``keys``.
    categories : mapping of str to sequence or "discover", optional
        Declared values of columns for GROUP BY, as {"table.column": [...]}. Rows with other values are ignored. The
        word "discover" in place of the values shows each value whose noisy count reaches a threshold (see `explain`).
        This needs ``delta > 0``.
    bins : mapping of str to sequence of float or date, optional
        Declared edges of bins of numbers for GROUP BY. A bin includes its lower edge. Only the last bin includes its
        upper edge. For a column of dates, the first date and the date after the last: GROUP BY then takes DATE_TRUNC,
        YEAR, QUARTER and MONTH of the column. Other dates are ignored.
    bounds : mapping of str to (float, float), optional
        Declared bounds of columns for SUM, AVG, STDDEV, VARIANCE and computed values, as
        {"table.column": (low, high)}. Values outside count as the nearer bound. NaN and infinity are missing.
    types : mapping of str to str, optional
        Declared types of columns of text, as {"table.column": "BIGINT"}: BIGINT, DOUBLE, VARCHAR, BOOLEAN, DATE or
        TIMESTAMP. Columns of CSV files are text, and so are columns of Python objects in pandas data frames. Words are
        read as in all other files: see `missing`.
    missing : {"error", "drop"}, default="error"
        Treatment of an entry of a CSV file that is neither of its declared type nor missing, such as "1,000" for
        DOUBLE. "error" refuses the table before anything is charged, which reveals that there is one. "drop" counts it
        as missing, and its number is not released.
    truncation : {"threshold", "race"}, default="threshold"
        Private choice of the largest contribution of a unit. "threshold" uses the first power of two that few units
        exceed. "race" uses the best of several answers (Dong et al. 2022), with more noise.
    unit_limit : int, default=2**20
        Public limit for thresholds, in rows. Never take it from the data.
    interval : bool, default=True
        Whether to spend a part of epsilon on a bound for a private noise scale, which intervals need: a fifth with
        Laplace noise, otherwise two fifths. False also omits the intervals of quantiles.
    confidence_level : float, default=0.95
        Level of the intervals of MEDIAN, QUANTILE_CONT and PERCENTILE_CONT, whose release chooses their limits.
    neighbors : {"replace_one", "add_or_remove"}, default="replace_one"
        Neighboring databases. "add_or_remove": one row of a private table is added or removed, or one unit with all its
        rows. The numbers of rows of private tables are then private. Counts by group have half the noise.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every answer charges before it draws noise.

    Notes
    -----
    **Public facts.** Names of tables and columns, types and declarations are public, and the sizes of private tables
    unless ``neighbors="add_or_remove"``.

    **Queries.** The text of a query never runs. It is parsed, checked for a bounded sensitivity, and compiled to a new
    statement with bound literals. A query is one SELECT of the following parts. Any other part raises an error before
    anything is charged.

    * `choose_bounds` releases bounds of a column that nobody knows.
    * COUNT and SUM of public tables only are exact, and cost nothing.
    * COUNT and COUNT_IF need no declaration. COUNT(DISTINCT column) must be the only aggregate.
    * SUM, AVG, STDDEV, STDDEV_POP, VARIANCE and VAR_POP need ``bounds`` of their column.
    * MEDIAN, QUANTILE_CONT and PERCENTILE_CONT (WITHIN GROUP) need ``bounds`` of their column. Without ``unit`` a row
      of the data must be in at most one row of the result. Other aggregates need a separate query.
    * Computed values need ``bounds`` of each of their columns: ``+``, ``-``, ``*``, division by a number, CASE and
      COALESCE. Conditions in CASE and in FILTER (WHERE ...) need none.
    * GROUP BY needs ``categories`` or ``bins`` of its columns, which it may name by number or alias. With "discover" it
      needs ``delta > 0``, no ``unit``, and a query where a row of the data is in at most one row of the result.
    * GROUP BY YEAR, QUARTER or MONTH, EXTRACT and DATE_TRUNC of a date need its period in ``bins``.
    * HAVING, ORDER BY and LIMIT of a GROUP BY need no declaration. They act on released values, without additional
      privacy cost.
    * LEFT JOIN by equal columns keeps rows without a partner. Further conditions of ON must be about the right side.
    * Inner joins by equal columns, SEMI JOIN and ``column IN (SELECT column ...)`` need ``public_tables`` for tables
      that are public. A join of private tables has noise of a private scale.
    * WHERE takes comparisons, BETWEEN, IN, LIKE, IS NULL, AND, OR and NOT. Columns of CSV files are text without
      ``types``.

    **Limits.** FULL and RIGHT JOIN, MAX, windows, UNION and arithmetic in conditions are refused. Intervals reflect
    privacy noise only, not sampling. Totals over units have a lower bound only, and need about 50/epsilon units.

    References
    ----------
    Johnson, Near and Song (2018), Towards practical differential privacy for SQL queries.
    Dong, Fang, Yi, Tao and Machanavajjhala (2022), R2T.

    Examples
    --------
    >>> import duckdb
    >>> from dpstats.sql import PrivateSQL
    >>> connection = duckdb.connect()
    >>> _ = connection.execute("CREATE TABLE visit AS SELECT i % 40 AS person, i % 7 AS clinic FROM range(1000) t(i)")
    >>> _ = connection.execute("CREATE TABLE clinic AS SELECT i AS id, i < 3 AS rural FROM range(7) t(i)")
    >>> sql = PrivateSQL(connection, epsilon=1.0, public_tables=["clinic"], random_state=0)
    >>> query = "SELECT COUNT(*) FROM visit JOIN clinic ON visit.clinic = clinic.id WHERE rural"
    >>> answer = sql.count(query)
    >>> answer.value, answer.confidence_interval().low, answer.confidence_interval().high
    (428.0, 425.0, 431.0)
    >>> print(sql.explain(query))
    count: mf(clinic.id)
      select: mf(clinic.id)
        join on visit.clinic = clinic.id: mf(clinic.id)
          visit, private: 1
          clinic, public: 0
    """

    def __init__(
        self,
        connection: Any,
        *,
        epsilon: float,
        delta: float = 0.0,
        public_tables: Iterable[str] = (),
        keys: Mapping[str, str] | None = None,
        unit: str | Mapping[str, str] | None = None,
        categories: Mapping[str, Iterable[Any]] | None = None,
        bins: Mapping[str, Iterable[Any]] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        types: Mapping[str, str] | None = None,
        missing: str = "error",
        truncation: str = "threshold",
        unit_limit: int = 2**20,
        interval: bool = True,
        confidence_level: float = 0.95,
        neighbors: Any = "replace_one",
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        epsilon, delta = check_privacy_parameters(epsilon, delta)
        check_real("delta", delta, at_least=0, at_most=0.5)
        self._truncation = check_choice("truncation", truncation, ["threshold", "race"])
        self._missing = check_missing(missing, ["error", "drop"])
        limit = check_integer("unit_limit", unit_limit, at_least=2, at_most=2**30)
        self._powers = (limit - 1).bit_length()
        self._interval = check_flag("interval", interval)
        self._level = check_level("confidence_level", confidence_level) if self._interval else None
        if isinstance(public_tables, str) or not isinstance(public_tables, Iterable):
            raise refuse("public_tables", given=public_tables, allowed="a sequence of names")
        mappings = {"keys": keys, "categories": categories, "bins": bins, "bounds": bounds, "types": types}
        for name, given in mappings.items():
            if given is not None and not isinstance(given, Mapping):
                remedy = f"Name the column of each: {name}={{'table.column': ...}}."
                raise refuse(name, got=type(given).__name__, allowed="a mapping of names", remedy=remedy)
        self._declared = Declarations(
            tuple(public_tables), keys or {}, unit, categories or {}, bins or {}, bounds or {}
        )
        self._types = dict(types or {})
        self._data = Source(connection, types)
        try:
            self._catalogue = self._first = self._declared.read(self._data)
        finally:
            self._data.rest()
        self._units = unit is not None
        name = "row" if unit is None else unit if isinstance(unit, str) else "unit"
        guarantee = PrivacyGuarantee(epsilon, delta, parse_neighbors(neighbors), unit=name)
        super().__init__(guarantee, random_state, budget)

    # Public methods

    @state_charges
    def count(self, sql: str) -> PrivateAnswer:
        """Release the answer to a query with one COUNT and no GROUP BY.

        Raises
        ------
        InvalidParameter
            If the query is not one whose sensitivity is bounded here; nothing is charged.
        BudgetExceeded
            If the budget cannot pay.
        """
        query = self._parsed(sql)
        if query.groups or query.quantiles or query.measure.kind not in ("count", "distinct"):
            allowed = "have one COUNT without GROUP BY for count()"
            raise refuse("sql", allowed=allowed, remedy="query() answers the others.")
        with self._snapshot(query):
            answer = self._answer(query)
        assert isinstance(answer, PrivateAnswer)
        return answer

    @state_charges
    def query(self, sql: str) -> PrivateTable | PrivateAnswers | QuantileAnswers:
        """Release the answer to a query; with GROUP BY, each aggregate of each group.

        Several aggregates are one release, and do not divide epsilon between them. Notes of the class list the clauses.

        Returns
        -------
        PrivateAnswer, PrivateTable, PrivateAnswers or QuantileAnswers
            One COUNT or SUM gives a `PrivateAnswer`, and with GROUP BY a `PrivateTable`. AVG, STDDEV, VARIANCE and
            several aggregates give `PrivateAnswers`. Quantiles give `QuantileAnswers`.
        """
        query = self._parsed(sql)
        with self._snapshot(query):
            return self._answer(query)

    @state_charges
    def choose_bounds(self, column: str, *, epsilon: float, step: float | None = None, within: Any = None) -> Bounds:
        """Release bounds of a column that nobody knows, and declare them for all later queries.

        `dpstats.means.PrivateBounds` would release the same for the rows of the column's table. They cost ``epsilon``
        in addition to the queries that use them. Later answers describe values clipped to them. Call it once for a
        column.

        Parameters
        ----------
        column : str
            A column of numbers, as "table.column".
        epsilon : float
            Privacy parameter of the bounds. Must be positive.
        step, within : optional
            Spacing and public limits of the values, as for `dpstats.means.PrivateBounds`.

        Returns
        -------
        Bounds
            Unpacks as ``low, high``.

        Raises
        ------
        InvalidParameter
            If the column has bounds or is public, with ``unit``, or if the rows are too few for this epsilon. Nothing
            is charged.
        BudgetExceeded
            If the budget cannot pay.
        DPStatsError
            If no bounds were found. Their epsilon is spent.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> from dpstats.sql import PrivateSQL
        >>> visits = pd.DataFrame({"cost": np.random.default_rng(0).lognormal(6, 1, 5000)})
        >>> sql = PrivateSQL({"visits": visits}, epsilon=0.8, random_state=0)
        >>> low, high = sql.choose_bounds("visits.cost", epsilon=0.2, within=(0, float("inf")))
        >>> round(low), round(high)
        (0, 8024)
        >>> round(sql.query("SELECT AVG(cost) AS mean FROM visits").to_frame()["estimate"].iloc[0])
        651
        """
        (place,) = self._catalogue.columns_of("column", [column]).values()
        table, listed = self._catalogue.tables[place[0]], self._catalogue.bounds
        name, kind = table.columns[place[1]]
        for wrong, got in (
            (self._units, "one of tables with a unit"),
            (table.public, "one of a public table"),
            (place in listed, "one that has bounds"),
            (kind.kind not in ("whole", "real"), "one of another type"),
        ):
            if wrong:
                allowed = "a column of numbers without bounds, of a private table"
                remedy = "Declare types for columns of CSV files, and bounds for the others."
                raise refuse("column", got=got, allowed=allowed, remedy=remedy)
        if within is not None:
            low, high = check_limits(within)
            within = max(low, -_FURTHEST), min(high, _FURTHEST)
            if not within[0] < within[1]:
                raise refuse("within", got=f"({low:g}, {high:g})", allowed=f"have numbers within {_FURTHEST:g} of 0")
        # The name is public, as the declarations of columns are.
        neighbors = self._guarantee.neighbors
        chooser = PrivateBounds(
            step=step, within=within, for_epsilon=self.epsilon, neighbors=neighbors, epsilon=epsilon
        )
        with self._data.snapshot([table.source]):
            if not self._data.lasting:
                self._confirm([place[0]])
            added = neighbors is Neighbors.ADD_OR_REMOVE_ONE
            plan = chooser.plan(None if added else self._data.size(table), 1)
            plan = plan.for_data(self._guarantee.unit, self._guarantee.simulated)
            session = self._session_of(plan, column=place, declared=self._declared, types=self._types)
            session.check()
            self._check_entries([table.name])
            expression = kind.entry.format(quoted(name))
            rows = self._data.run(f"SELECT CAST({expression} AS FLOAT8) FROM {table.source}")
        x = np.array([np.nan if value is None else value for (value,) in rows], dtype=np.float64)
        with session, quiet():
            release_bounds([read_column(x[:, None], 0)], plan, session)
        (found,) = read_bounds(session.released, plan)
        low, high = max(found.clip.low, -_FURTHEST), min(found.clip.high, _FURTHEST)
        if not found.found or not low < high:
            raise DPStatsError(
                f"no bounds of {column} were found: {NO_WINDOW}. The epsilon of this choice, {epsilon:g}, is spent. "
                "Use more rows, a larger epsilon, a step or declared bounds"
            )
        self._declared = replace(self._declared, bounds={**self._declared.bounds, column: (low, high)})
        self._catalogue = replace(self._catalogue, bounds={**listed, place: (low, high)})
        below, above = found.tail_shares[0].tolist()
        return Bounds(low, high, plan.guarantee, below, above, True)

    def plan_for(self, sql: str) -> SQLPlan:
        """Return the release plan of an answer, from public facts only. This charges nothing."""
        query = self._parsed(sql)
        with self._snapshot(query):
            return self._kind(query).plan()

    def explain(self, sql: str) -> str:
        """Return the sensitivity of the answer to one row (or unit) as text, part by part, in symbols.

        Numbers would be private. mf(t.c, k) is the frequency of the most frequent value of a column, for data that
        differ in k rows.
        """
        query = self._parsed(sql)
        with self._snapshot(query):
            return self._kind(query).explain()

    def refresh(self) -> None:
        """Read the current tables, and discard cached frequencies of the old ones. Over Postgres every answer does.

        Raises
        ------
        InvalidData
            If a table is gone, is a view now or has other columns: nothing is answered then.
        """
        self._catalogue = Catalogue({})
        self._data.refresh()
        try:
            self._confirm(self._first.tables)
            self._catalogue = self._declared.read(self._data)
        finally:
            self._data.rest()

    # Internal steps

    @contextlib.contextmanager
    def _snapshot(self, query: Query) -> Iterator[None]:
        """Read from one snapshot. If it is of this query alone, its tables must be those that were declared."""
        used = {table.name: self._by_name[table.name] for table in tables(query.relation)}
        _LOGGER.info("pass over the data: a snapshot of %s", ", ".join(used))
        with self._data.snapshot([table.source for table in used.values()]):
            if not self._data.lasting:
                self._confirm(fold(name) for name in used)
                for table in used.values():
                    for key in table.keys:
                        check_key(self._data, table, key, "a declared key")
            yield

    def _confirm(self, names: Iterable[str]) -> None:
        """Refuse tables that are not what they were when they were declared."""
        now = self._data.tables()
        for name in names:
            table = self._first.tables[name]
            if name not in now or (now[name].source, now[name].columns) != (table.source, table.columns):
                raise refuse_data(
                    f"table {table.name}",
                    got="none, or one with other columns",
                    allowed="what it was declared as",
                    remedy="Make a new PrivateSQL.",
                )

    def _check_entries(self, names: Iterable[str]) -> None:
        """Refuse tables of text with an entry that is not of its declared type, unless such entries are missing."""
        if self._missing == "error":
            for name in names:
                self._data.check_entries(self._by_name[name])

    @property
    def _by_name(self) -> dict[str, BaseTable]:
        """The tables by their original names."""
        return {table.name: table for table in self._catalogue.tables.values()}

    def _parsed(self, sql: str) -> Query:
        query = replace(parse(sql, self._catalogue, units=self._units), neighbors=self._guarantee.neighbors)
        if query.added and isinstance(query.measure, Several):
            # A row moves shares least: a sum and a difference of them would move by two wholes.
            query = replace(query, measure=replace(query.measure, paired=False))
        return query

    def _kind(self, query: Query) -> Kind[Any]:
        """Return the query as an object of its kind, or refuse it."""
        setting = Setting(
            self._guarantee,
            self._units,
            self._truncation,
            self._powers,
            self._interval,
            self._level,
            self._data,
            self._by_name,
            self._budget,
        )
        return kind_of_query(query, setting)

    def _answer(self, query: Query) -> Answer:
        kind = self._kind(query)
        plan = kind.plan()
        session = self._session_of(plan, query=query.text, declared=self._declared, types=self._types)
        if plan.stages:
            session.check()
        self._check_entries({table.name for table in tables(query.relation)})
        with quiet():
            released = kind.released(kind.read(plan), plan, session)
        found = kind.answer(plan, released)
        if query.arrangement == AS_DECLARED:
            return found
        return found.show(*arrange(query, found.cells, np.atleast_2d(found.values.T).T))
