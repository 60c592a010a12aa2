"""Private SQL: counts, sums, means and spreads of queries with joins, each one release.

Proofs: docs/proofs/elastic-sensitivity.md, docs/proofs/truncated-sums.md, docs/proofs/several-aggregates.md.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.keys import DISCOVER
from dpstats.data.parameters import (
    check_choice,
    check_flag,
    check_integer,
    check_level,
    check_missing,
    check_privacy_parameters,
    check_real,
)
from dpstats.errors import (
    InvalidData,
    InvalidParameter,
    ScaleOutOfRange,
    attempt,
    show,
)
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.guarantee import PrivacyGuarantee, parse_neighbors
from dpstats.release.charges import state_charges
from dpstats.release.mechanism import Releasing
from dpstats.release.session import Session
from dpstats.sensitivity.elastic import ElasticSensitivity
from dpstats.sensitivity.levels import LEVEL
from dpstats.sensitivity.relations import Column, Count, Join, Relation, tables
from dpstats.sensitivity.smooth import smooth_level
from dpstats.sql.answers import PrivateAnswer, PrivateTable, answered
from dpstats.sql.arrangement import arrange
from dpstats.sql.calendar import read_period
from dpstats.sql.catalogue import BaseTable, Catalogue, Path, fold
from dpstats.sql.compile import Compiled
from dpstats.sql.parse import parse
from dpstats.sql.plan import (
    ANSWER,
    DISCOVERY_BITS,
    ROWS,
    SHARES,
    SQLPlan,
    discovery_plan,
    exact_plan,
    public_plan,
    smooth_plan,
    unit_plan,
)
from dpstats.sql.quantiles import (
    MOST_ROWS,
    Keyed,
    QuantileAnswers,
    SQLQuantilesPlan,
    found_plan,
    quantiles_answered,
    quantiles_plan,
    release_found_quantiles,
    release_quantiles,
    repeat_places,
    sort_places,
    unit_quantiles_plan,
)
from dpstats.sql.query import AS_DECLARED, FINEST, Measure, Query, Several
from dpstats.sql.scope import Known, same_type
from dpstats.sql.several import PrivateAnswers, all_answered
from dpstats.sql.source import Source
from dpstats.sql.syntax import refuse

_LARGEST_INTEGER = 2**62
_COARSEST = 17
"""Values have two to this power of steps, where noise of finer ones cannot be drawn."""


class _Private(NamedTuple):
    """Exact numbers of an answer, in steps of its noise: all private.

    ``level`` is the level of noise by the smooth sensitivity. For sums over units, ``above`` has the number of units
    above each threshold, and ``cut`` the numbers after cutting at each threshold. Both are keyed by part. ``keys``
    are the keys that have rows, where they are not declared: then ``numbers`` has a row for each. ``places`` are the
    sorted places of the values of each cell, for quantiles, and for each limit of a unit. ``keyed`` has all keys with
    their sorted places.
    """

    numbers: NDArray[Any] | None = None
    level: int = 0
    above: dict[str, list[int]] | None = None
    cut: dict[str, NDArray[Any]] | None = None
    keys: tuple[Any, ...] = ()
    places: list[Sequence[NDArray[np.int64]]] | None = None
    keyed: list[Keyed] | None = None


class PrivateSQL(Releasing):
    """Private answers to SQL queries over private tables, with noise for the effect of one row through all joins.

    Use this class for questions about joined tables, or tables of a database. Every answer is a separate release; all
    aggregates of a query are one. Notes list the clauses, and what each of them needs declared.

    Parameters
    ----------
    connection : DuckDB or psycopg connection, "postgresql://..." address, or mapping of str to path or data frame
        The tables. A second connection reads the database. Every answer from Postgres reads its current state, and
        other answers the state at the creation of this object or at the last `refresh`. CSV and Parquet files are read
        in place, or copied where DuckDB could find other records in a CSV file than all other readers here.
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
        if delta > 0.5:
            raise InvalidParameter(f"delta must be at most 0.5, got {delta:g}")
        self._truncation = check_choice("truncation", truncation, ["threshold", "race"])
        self._missing = check_missing(missing, ["error", "drop"])
        limit = check_integer("unit_limit", unit_limit, at_least=2, at_most=2**30)
        self._powers = (limit - 1).bit_length()
        self._interval = check_flag("interval", interval)
        self._level = check_level("confidence_level", confidence_level) if self._interval else None
        if isinstance(public_tables, str) or not isinstance(public_tables, Iterable):
            raise InvalidParameter(f"public_tables must be a sequence of names, got {show(public_tables)}")
        mappings = {"keys": keys, "categories": categories, "bins": bins, "bounds": bounds, "types": types}
        for name, given in mappings.items():
            if given is not None and not isinstance(given, Mapping):
                raise InvalidParameter(f"{name} must be a mapping of names, got {type(given).__name__}")
        public, self._columns = tuple(public_tables), (categories or {}, bins or {}, bounds or {})
        self._declares = (public, keys or {}, unit)
        self._data = Source(connection, types)
        try:
            self._catalogue = self._first = self._found()
        finally:
            self._data.rest()
        self._units = unit is not None
        name = "row" if unit is None else unit if isinstance(unit, str) else "unit"
        guarantee = PrivacyGuarantee(epsilon, delta, parse_neighbors(neighbors), unit=name)
        super().__init__(guarantee, random_state, budget)

    def _found(self) -> Catalogue:
        """Return the catalogue of the snapshot with its declarations."""
        return _with_columns(Catalogue(self._declared(*self._declares), self._data.views()), *self._columns)

    def _declared(
        self, public_tables: Iterable[str], keys: Mapping[str, str], unit: Any
    ) -> dict[str, BaseTable]:
        """Return the tables with their declarations."""
        found = self._data.tables()
        public = tuple(public_tables)
        for name in public:
            if fold(name) not in found:
                raise InvalidParameter(
                    f"public_tables must name tables, got {len(public)} names with another"
                )
            found[fold(name)] = replace(found[fold(name)], public=True)
        for name, key in keys.items():
            table = found.get(fold(name))
            if table is None or not isinstance(key, str):
                raise InvalidParameter(
                    f"keys must be a mapping of names of tables to names of columns, got {show(keys)}"
                )
            found[fold(name)] = self._add_key(table, key, f"keys[{name!r}]")
        if unit is None:
            return found
        if not isinstance(unit, str | Mapping):
            raise InvalidParameter(f"unit must be a column's name, or one for each table, got {show(unit)}")
        given = {fold(key): value for key, value in unit.items()} if isinstance(unit, Mapping) else {}
        if given and len(given) < len(unit):
            raise InvalidParameter(f"unit must name each table once, and names ignore case, got {show(unit)}")
        unknown = given.keys() - found.keys()
        if unknown:
            raise InvalidParameter(f"unit must name known tables, got {show(unit)}")
        for name, table in found.items():
            column = given.get(name) if given else unit
            if table.public or column is None:
                continue
            if "->" in str(column):
                found[name] = replace(table, path=self._path(table, str(column), found))
                continue
            if fold(column) in table.columns:
                found[name] = replace(table, unit=table.columns[fold(column)][0])
            elif given:
                raise InvalidParameter(f"unit must name a column of {table.name}, got {show(unit)}")
        for name, table in list(found.items()):
            if table.path is not None:
                _check_path(name, found)
                target = found[table.path.table]
                found[table.path.table] = self._add_key(target, table.path.key, f"unit[{table.name!r}]")
        return found

    def _add_key(self, table: BaseTable | None, column: Any, parameter: str) -> BaseTable:
        """Return a table with its declared key, or refuse one that has a value twice."""
        if table is None or fold(column) not in table.columns:
            raise InvalidParameter(f"{parameter} must name a column of a table, got {column!r}")
        key, kind = table.columns[fold(column)]
        if kind.kind in ("real", "other"):
            raise InvalidParameter(f"{parameter} must be a column that joins can use, got {kind.shown}")
        self._check_key(table, key, parameter)
        return replace(table, keys=tuple(dict.fromkeys((*table.keys, key))))

    def _check_key(self, table: BaseTable, key: str, parameter: str) -> None:
        """Refuse a declared key that has a value twice."""
        if self._data.frequency(table, key) > 1:
            raise InvalidData(
                f"{parameter} must be a column without repeated values, but {table.name}.{key} has a value twice. "
                "Declare another column, or none."
            )

    def _path(self, table: BaseTable, text: str, tables: Mapping[str, BaseTable]) -> Path:
        """Return a path that is written as "column -> table.key"."""
        column, _, target = (word.strip() for word in text.partition("->"))
        name, dot, key = target.partition(".")
        if fold(column) not in table.columns or not dot or fold(name) not in tables:
            raise InvalidParameter(
                f"unit[{table.name!r}] must be a column, or a path 'column -> table.key', got {text!r}"
            )
        other = tables[fold(name)]
        if fold(key) not in other.columns:
            raise InvalidParameter(f"unit[{table.name!r}] must lead to a column of {other.name}, got {key!r}")
        own, kind = table.columns[fold(column)]
        found, other_kind = other.columns[fold(key)]
        left, right = (
            Known(Column(name, one), each, name)
            for name, one, each in ((table.name, own, kind), (other.name, found, other_kind))
        )
        same_type(f"unit[{table.name!r}]", left, right)
        return Path(own, fold(name), found)

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
            raise InvalidParameter("count() needs one COUNT without GROUP BY; query() answers the others")
        with self._snapshot(query):
            answer = self._answer(query)
        assert isinstance(answer, PrivateAnswer)
        return answer

    @state_charges
    def query(self, sql: str) -> PrivateTable | PrivateAnswers | QuantileAnswers:
        """Release the answer to a query; with GROUP BY, each aggregate of each group.

        Several aggregates are one release, with all of epsilon for each answer. Notes of the class list the clauses.

        Returns
        -------
        PrivateAnswer, PrivateTable, PrivateAnswers or QuantileAnswers
            One COUNT or SUM gives a `PrivateAnswer`, and with GROUP BY a `PrivateTable`. AVG, STDDEV, VARIANCE and
            several aggregates give `PrivateAnswers`. Quantiles give `QuantileAnswers`.
        """
        query = self._parsed(sql)
        with self._snapshot(query):
            return self._answer(query)

    def plan_for(self, sql: str) -> SQLPlan:
        """Return the release plan of an answer, from public facts only. This charges nothing."""
        query = self._parsed(sql)
        with self._snapshot(query):
            return self._planned(query)

    def explain(self, sql: str) -> str:
        """Return the sensitivity of the answer to one row (or unit) as text, part by part, in symbols.

        Numbers would be private. mf(t.c, k) is the frequency of the most frequent value of a column, for data that
        differ in k rows.
        """
        query = self._parsed(sql)
        with self._snapshot(query):
            return self._explain(query)

    def _explain(self, query: Query) -> str:
        if query.discovers:
            plan = self._planned(query)
            stage = plan.discovery
            half, most = map(stage.find_size, (0.5, 0.95))
            names = ", ".join(group.name for group in query.groups)
            return (
                f"{self._explain_rows(query)}\n"
                f"values of {names} are shown if their noisy count reaches {stage.threshold:.1f} rows\n"
                f"  one of {half:.0f} rows is found with probability 0.50, one of {most:.0f} rows with 0.95"
                f"{_explain_ranks(plan)}"
            )
        if query.quantiles is not None:
            ranks = _explain_ranks(self._planned(query))
            if self._units:
                return self._explain_units(query, "quantiles", "rows", (0, self._powers)) + ranks
            return self._explain_rows(query) + ranks
        if not query.unit:
            return self._explain_rows(query)
        if _own_distinct(query):
            return f"{query.measure.kind}: 1, as a {self._guarantee.unit} is counted once"
        planned = self._planned(query)
        measure, (first, last) = planned.query.measure, planned.truncations[0].powers
        if not isinstance(measure, Measure) or measure.kind != "sum":
            return self._explain_units(query, measure.kind, "rows", (first, last))
        # The length of a step is a power of two.
        power = math.frexp(measure.spacing)[1] - 1
        return self._explain_units(query, measure.kind, "values", (first + power, last + power))

    def _explain_rows(self, query: Query) -> str:
        """Return the number of rows of the result that a row of each table moves. A COUNT has this sensitivity."""
        text = self._elastic(query, symbols=True).explain()
        if query.quantiles is None and query.measure.kind in ("count", "distinct"):
            return text
        _, colon, rest = text.partition(":")
        return f"rows of the result{colon}{rest}"

    def _explain_units(self, query: Query, answer: str, what: str, powers: tuple[int, int]) -> str:
        unit = self._guarantee.unit
        columns = " = ".join(map(str, query.unit))
        return (
            f"{answer}: 2^j, j chosen privately\n"
            f"  every row is of one {unit} ({columns}); rows without one do not count\n"
            f"  what a {unit} adds of {what} is cut at 2^j, j among {powers[0]}, ..., {powers[1]}"
        )

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
            self._catalogue = self._found()
        finally:
            self._data.rest()

    # Internal steps

    @contextlib.contextmanager
    def _snapshot(self, query: Query) -> Iterator[None]:
        """Read from one snapshot. If it is of this query alone, its tables must be those that were declared."""
        by_name = self._by_name
        used = {name: by_name[name] for name in {table.name for table in tables(query.relation)}}
        with self._data.snapshot([table.source for table in used.values()]):
            if not self._data.lasting:
                self._confirm(fold(name) for name in used)
                for table in used.values():
                    for key in table.keys:
                        self._check_key(table, key, "a declared key")
            yield

    def _confirm(self, names: Iterable[str]) -> None:
        """Refuse tables that are not what they were when they were declared."""
        now = self._data.tables()
        for name in names:
            table = self._first.tables[name]
            if name not in now or (now[name].source, now[name].columns) != (table.source, table.columns):
                raise InvalidData(
                    f"table {table.name} is not what it was declared as: it is gone, or has other columns; make a new "
                    "PrivateSQL"
                )

    @property
    def _by_name(self) -> dict[str, BaseTable]:
        """The tables by their original names."""
        return {table.name: table for table in self._catalogue.tables.values()}

    def _parsed(self, sql: str) -> Query:
        query = replace(parse(sql, self._catalogue, units=self._units), neighbors=self._guarantee.neighbors)
        if query.added:
            query = self._hide_sizes(query)
        measure = query.measure
        if (
            isinstance(measure, Measure)
            and query.unit
            and measure.kind == "distinct"
            and measure.column not in query.unit
        ):
            raise InvalidParameter(
                f"COUNT(DISTINCT {measure.column and measure.column.name}): where units are protected, "
                "only units can be counted so: another value may be of several"
            )
        if (
            self._units
            and self._truncation == "race"
            and (query.groups or query.quantiles or measure.kind == "several")
        ):
            raise InvalidParameter("truncation='race' needs one count or sum; use 'threshold'")
        return query

    def _hide_sizes(self, query: Query) -> Query:
        """Return the query with shares that a row moves least."""
        if isinstance(query.measure, Several):
            # A sum and a difference of shares would move by two wholes.
            return replace(query, measure=replace(query.measure, paired=False))
        return query

    def _check_discovery(self, query: Query) -> None:
        """Refuse undeclared values where a row of the data may be in more than one of them."""
        names = ", ".join(group.name for group in query.groups if group.discovered)
        if self._units:
            refuse(
                f"GROUP BY undeclared values of {names} where units are protected",
                "a unit may have several of them: declare categories",
            )
        if not self._guarantee.delta:
            raise InvalidParameter(
                f"delta must be positive to discover the values of {names}, got 0. Declare categories, or give "
                "delta=1e-6 for example."
            )
        if not self._counts_once(query):
            refuse(
                f"GROUP BY undeclared values of {names} in this join",
                "a row may be in several rows of the result: join with public tables by their keys, or declare "
                "categories",
            )

    def _check_quantiles(self, query: Query) -> None:
        """Refuse quantiles where a row of the data may be in more than one row of the result."""
        if not self._units and not self._counts_once(query):
            refuse(
                "a quantile in this join",
                "a row may be in several rows of the result: join with public tables by their keys, or protect a unit",
            )

    def _counts_once(self, query: Query) -> bool:
        """Return whether a row of the data is in at most one row of the result."""
        return self._constant(query) and self._elastic(query, public=True).at_distance(0) <= 1

    def _planned(self, query: Query) -> SQLPlan:
        """Return the plan, in the finest steps of values that its noise can be drawn in."""
        if all(table.public for table in tables(query.relation)):
            if isinstance(query.measure, Measure) and not query.quantiles and not query.discovers:
                return exact_plan(query, self._guarantee)
            if self._units or query.quantiles:
                refuse(
                    "AVG, STDDEV, VARIANCE or a quantile of public tables only",
                    "they need no privacy: ask the database. COUNT and SUM are exact",
                )
        if query.discovers:
            self._check_discovery(query)
        if query.quantiles is not None:
            self._check_quantiles(query)
            return self._planned_with(query)
        for bits in (FINEST, 28, 24, 20):
            with contextlib.suppress(ScaleOutOfRange):
                return self._planned_with(replace(query, measure=query.measure.of_bits(bits)))
        return self._planned_with(replace(query, measure=query.measure.of_bits(_COARSEST)))

    def _planned_with(self, query: Query) -> SQLPlan:
        """Return the plan in these steps, for the unit and the noise of the guarantee."""
        promised = self._guarantee
        return self._planned_in(query).for_data(promised.unit, promised.simulated)

    def _planned_in(self, query: Query) -> SQLPlan:
        if self._units:
            if _own_distinct(query):
                return public_plan(query, 1, self._bare)
            if query.quantiles is not None:
                return unit_quantiles_plan(query, self._bare, self._level, self._powers)
            return unit_plan(query, self._bare, self._truncation, self._powers)
        if query.quantiles is not None and query.discovers:
            return found_plan(query, self._bare, self._level)
        if query.quantiles is not None:
            by_name = self._by_name
            private = [by_name[table.name] for table in tables(query.relation) if not table.public]
            sizes = [] if query.added else map(self._data.size, private)
            return quantiles_plan(query, self._bare, MOST_ROWS if query.added else max(sizes), self._level)
        if query.discovers:
            return discovery_plan(replace(query, measure=query.measure.of_bits(DISCOVERY_BITS)), self._bare)
        if self._constant(query):
            times = self._elastic(query, public=True).at_distance(0)
            return public_plan(query, query.moved * times, self._bare)
        # The longer the steps, the larger the answer may be.
        measure = query.measure
        kind = "whole" if isinstance(measure, Several) else measure.type and measure.type.kind
        query = replace(query, measure=measure.of_bits(20 if kind == "whole" else _COARSEST))
        return smooth_plan(query, self._bare, self._interval)

    @property
    def _bare(self) -> PrivacyGuarantee:
        return replace(self._guarantee, simulated=False, unit="row")

    def _elastic(self, query: Query, symbols: bool = False, public: bool = False) -> ElasticSensitivity:
        """Return the elastic sensitivity; for its symbols no frequency is read, where it is public no private one."""
        known = {}
        by_name = self._by_name
        instances = {table.instance: table.name for table in tables(query.relation)}
        for column in _keys(query.relation):
            table = by_name[instances[column.instance]]
            needless = symbols or (public and not table.public)
            known[table.name, column.name] = 1 if needless else self._data.frequency(table, column.name)
        kind = "histogram" if symbols and query.groups and not query.added else "count"
        return ElasticSensitivity(Count(query.relation, kind), known)

    def _constant(self, query: Query) -> bool:
        return self._elastic(query, symbols=True).constant

    def _answer(self, query: Query) -> PrivateTable | PrivateAnswers | QuantileAnswers:
        plan = self._planned(query)
        session = self._session_of(plan)
        if plan.stages:
            session.check()
        if self._missing == "error":
            by_name = self._by_name
            for name in {table.name for table in tables(query.relation)}:
                self._data.check_entries(by_name[name])
        private = self._read(query, plan)
        released: Any = {ANSWER: private.numbers}
        if plan.method != "exact":
            with session:
                self._release(private, plan, session)
            released = session.released
        found: PrivateTable | PrivateAnswers | QuantileAnswers
        if isinstance(plan, SQLQuantilesPlan):
            found = quantiles_answered(plan.query, plan, released, plan.guarantee)
        else:
            answer = all_answered if isinstance(query.measure, Several) else answered
            found = answer(plan.query, plan, released, plan.guarantee)
        if query.arrangement == AS_DECLARED:
            return found
        return found.show(*arrange(query, found.cells, np.atleast_2d(found.values.T).T))

    def _read(self, query: Query, plan: SQLPlan) -> _Private:
        query = plan.query
        compiled = Compiled(query, self._by_name, self._data.dialect)
        if plan.truncations:
            above, cut = {}, {}
            for truncation in plan.truncations:
                part = truncation.name
                if part == ANSWER:
                    measure, part = query.measure, "all"
                    if isinstance(measure, Measure) and measure.kind == "sum":
                        part = "positive" if measure.high > 0 else "negative"
                times = len(truncation.each)
                rows = self._data.run(*compiled.units_cut(part, truncation.each, truncation.finer))
                above[truncation.name] = [sum(int(row[1 + i]) for row in rows) for i in range(times)]
                sums = [(row[0], *row[times + 1 :]) for row in rows]
                cut[truncation.name] = _by_cell(sums, query, times)
            return _Private(above=above, cut=cut)
        if isinstance(plan, SQLQuantilesPlan):
            return self._read_places(compiled, plan)
        if query.discovers:
            return _read_keys(self._data.run(*compiled.keys()), query)
        found = _by_cell(self._data.run(*compiled.cells()), query, 1)[0]
        numbers = np.clip(found, -plan.largest, plan.largest) * plan.finer
        if plan.method in ("public", "exact"):
            return _Private(numbers)
        elastic, moved = self._elastic(query), plan.finer * query.moved
        stage = plan.smooth
        most = 2 * plan.largest * plan.finer * stage.size
        level = smooth_level(lambda k: min(moved * elastic.at_distance(k), most), stage.limits)
        return _Private(numbers, level)

    def _read_places(self, compiled: Compiled, plan: SQLQuantilesPlan) -> _Private:
        """Return the sorted places of the cells, and of units how many have more rows than each limit."""
        if plan.query.discovers:
            return _sort_keys(self._data.run(*compiled.keys()), plan.query)
        if plan.threshold is None:
            return _Private(places=[sort_places(self._data.columns(*compiled.places()), plan.query)])
        (counts,) = self._data.run(*compiled.units_above("all", plan.threshold.each))
        rows = self._data.columns(*compiled.unit_places(plan.limits))
        places: list[Sequence[NDArray[np.int64]]]
        places = [sort_places(rows, plan.query, i) for i in range(len(plan.limits))]
        return _Private(above={plan.rows: [int(n) for n in counts]}, places=places)

    def _release(self, private: _Private, plan: SQLPlan, session: Session) -> None:
        if plan.truncations:
            assert private.above is not None and private.cut is not None
            for truncation in plan.truncations:
                truncation.release(session, private.above[truncation.name], private.cut[truncation.name])
        elif isinstance(plan, SQLQuantilesPlan) and plan.query.discovers:
            assert private.keyed is not None
            release_found_quantiles(private.keyed, plan, session)
        elif isinstance(plan, SQLQuantilesPlan):
            assert private.places is not None
            release_quantiles(private.places, (private.above or {}).get(plan.rows, []), plan, session)
        elif plan.method == "discovery":
            assert private.numbers is not None
            shares = {SHARES: private.numbers[:, 1:]} if private.numbers.shape[1] > 1 else {}
            session.discover(ANSWER, private.keys, {ROWS: private.numbers[:, :1], **shares})
        elif plan.method == "public":
            session.add(ANSWER, private.numbers)
        else:
            if len(plan.stages) == 2:
                session.add(LEVEL, np.array([private.level]))
            session.smooth(ANSWER, private.numbers, private.level)


def _explain_ranks(plan: SQLPlan) -> str:
    """Return the line of `PrivateSQL.explain` about the ranks of quantiles."""
    if not isinstance(plan, SQLQuantilesPlan):
        return ""
    rows = "rows" if plan.threshold is None else "2^j rows"
    return f"\nquantiles are chosen by their ranks: sd of a rank's error about {plan.points.rank_error:.3g} {rows}"


def _check_path(name: str, tables: Mapping[str, BaseTable]) -> None:
    """Refuse a path that does not end at a column of a private table."""
    seen = [name]
    while (path := tables[seen[-1]].path) is not None:
        if path.table in seen:
            raise InvalidParameter(
                f"unit must lead to a column, got the circle {' -> '.join([*seen, path.table])}"
            )
        seen.append(path.table)
    last = tables[seen[-1]]
    if last.public or last.unit is None:
        raise InvalidParameter(
            f"unit[{tables[name].name!r}] leads to {last.name}, which {'is public' if last.public else 'has no unit'}: "
            f"give the column of the unit as unit[{last.name!r}]"
        )


def _own_distinct(query: Query) -> bool:
    """Return whether units are counted, once each."""
    return query.measure.kind == "distinct" and not query.groups


def _keys(relation: Relation) -> set[Column]:
    """Return the columns that joins are on."""
    if isinstance(relation, Join):
        return (
            _keys(relation.left) | _keys(relation.right) | {column for pair in relation.on for column in pair}
        )
    return _keys(relation.of) if hasattr(relation, "of") else set()


def _by_cell(rows: list[tuple[Any, ...]], query: Query, times: int) -> NDArray[Any]:
    """Return the exact numbers of all cells: shape (times, cells * parts); Python integers where 64 bits are few."""
    parts = query.measure.parts
    found = np.zeros((times, query.cells, parts), dtype=object)
    for cell, *numbers in rows:
        if cell is not None:
            found[:, int(cell), :] = np.array([int(n or 0) for n in numbers], dtype=object).reshape(
                times, parts
            )
    flat = found.reshape(times, -1)
    return as_int64(flat) if np.abs(flat).max() < 2**62 else flat


def _read_keys(rows: list[tuple[Any, ...]], query: Query) -> _Private:
    """Return the keys that have rows in their order, and the exact integers of each key: its rows and its parts.

    A key has the values of all groups, as places among declared ones.
    """
    several = query.measure
    assert isinstance(several, Several)
    count = sum(group.discovered for group in query.groups)
    found = sorted((query.key(row[:count], int(row[count])), row[count + 1 :]) for row in rows)
    numbers = np.zeros((len(found), 1 + several.parts), dtype=np.int64)
    for i, (_, (size, *shares)) in enumerate(found):
        # Cut as all that a 64-bit integer cannot hold: this moves nothing further.
        exact = [int(size) * several.row_steps, *(int(n or 0) for n in shares)]
        numbers[i] = [max(-_LARGEST_INTEGER, min(n, _LARGEST_INTEGER)) for n in exact]
    return _Private(numbers, keys=tuple(key for key, _ in found))


def _sort_keys(rows: list[tuple[Any, ...]], query: Query) -> _Private:
    """Return the keys that have rows in their order, and the sorted places of each key."""
    held: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for *found, cell, place, size in rows:
        held.setdefault(query.key(found, int(cell)), []).append((int(place), int(size)))
    return _Private(keyed=[tuple((key, repeat_places(held[key])) for key in sorted(held))])


def _with_columns(
    catalogue: Catalogue,
    categories: Mapping[str, Iterable[Any]],
    bins: Mapping[str, Iterable[Any]],
    bounds: Mapping[str, tuple[float, float]],
) -> Catalogue:
    """Return a catalogue with the declarations of columns."""
    keys = catalogue.columns_of("categories", categories)
    declared: dict[tuple[str, str], tuple[Any, ...] | str] = {}
    for key, values in categories.items():
        if isinstance(values, str) and values == DISCOVER:
            declared[keys[key]] = DISCOVER
            continue
        listed = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else ()
        hashable = all(isinstance(value, Hashable) for value in listed)
        if not listed or not hashable or len(set(listed)) < len(listed):
            raise InvalidParameter(
                f"categories[{key!r}] must be a sequence of different values, or 'discover', got {show(values)}"
            )
        declared[keys[key]] = listed
    edges: dict[tuple[str, str], tuple[float, ...]] = {}
    periods: dict[tuple[str, str], tuple[date, date]] = {}
    for key, place in catalogue.columns_of("bins", bins).items():
        table, column = place
        if catalogue.tables[table].columns[column][1].kind in ("date", "time") and place not in declared:
            periods[place] = read_period(f"bins[{key!r}]", bins[key])
            continue
        given = bins[key] if isinstance(bins[key], Iterable) else ()
        ends = tuple(check_real(f"bins[{key!r}]", edge, of=bins[key]) for edge in given)
        if len(ends) < 2 or not all(low < high for low, high in pairwise(ends)) or place in declared:
            raise InvalidParameter(
                f"bins[{key!r}] must be two edges or more that rise, of a column without categories, got "
                f"{show(bins[key])}"
            )
        edges[place] = ends
    limits: dict[tuple[str, str], tuple[float, float]] = {}
    for key, place in catalogue.columns_of("bounds", bounds).items():
        pair = attempt(lambda given=bounds[key]: tuple(given), Exception) or ()  # type: ignore[misc]
        if len(pair) != 2:
            raise InvalidParameter(f"bounds[{key!r}] must be two numbers, got {show(bounds[key])}")
        low, high = (
            check_real(f"bounds[{key!r}]", end, at_least=-1e15, at_most=1e15, of=bounds[key]) for end in pair
        )
        if not low < high:
            raise InvalidParameter(f"bounds[{key!r}] must be low < high, got {show(bounds[key])}")
        limits[place] = (low, high)
    return replace(catalogue, categories=declared, bins=edges, periods=periods, bounds=limits)
