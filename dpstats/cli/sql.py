"""``dpstats sql``: a private answer to a query over files, or over a database of DuckDB or Postgres."""

from __future__ import annotations

import argparse
import contextlib
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dpstats.cli.options import (
    DISCOVER,
    NEIGHBORS,
    add_options,
    add_output,
    bounds_of,
    check_discovery,
    given,
    levels_of,
    spell_notes,
)
from dpstats.cli.output import TableFile, epilog, path_or_address
from dpstats.cli.release import (
    add_affordable,
    add_charge,
    charge_label,
    check_charge,
    delivering,
    ledger_budget,
    plan_facts,
    show_affordable,
)
from dpstats.errors import refuse, show

_QUERY = """
    query
        one SELECT, in DuckDB's dialect: COUNT, SUM, AVG, STDDEV, VARIANCE, MEDIAN, QUANTILE_CONT and PERCENTILE_CONT,
        also of values computed with + - *, CASE and COALESCE; FILTER; inner, left and semi-joins by equal columns;
        WHERE; GROUP BY with HAVING, ORDER BY and LIMIT
    --table NAME=FILE, repeated
        a CSV or Parquet file, a folder of them, or an address (s3://...), and its name; repeatable
    --pattern
        read all files of a pattern with *, ?, [...] or **
    --database FILE
        a DuckDB database, or the postgresql:// address of one of Postgres, in place of --table. The password is read
        from PGPASSWORD or from a password file
    --public NAME, repeated
        a table that anybody may know, for joins with less noise; repeatable
    --key NAME.COLUMN, repeated
        a column without repeated values: joins with it have less noise. One with a value twice is refused, which
        reveals it; repeatable
    --unit COLUMN, repeated
        the column that says whose a row is, which protects a person with all rows: of all private tables, or
        NAME.COLUMN of one. 'items.order->orders.id' is a path: an item is of the person of its order; repeatable
    --levels NAME.COLUMN=A,B,..., repeated
        declared values to GROUP BY, or the word discover: values of many rows are then shown, which needs a positive
        --delta; repeatable
    --bins NAME.COLUMN=E,E,..., repeated
        declared edges of bins of numbers to GROUP BY; for YEAR, QUARTER, MONTH or DATE_TRUNC of a date, the first date
        and the one after the last; repeatable
    --bounds NAME.COLUMN=LO,HI, repeated
        declared bounds of a column in SUM, AVG, STDDEV, VARIANCE or a computed value; repeatable
    --type NAME.COLUMN=TYPE, repeated
        what a column of a CSV file is (BIGINT, DOUBLE, BOOLEAN, DATE, TIMESTAMP), which else is text; repeatable
    --missing {error,drop}, default error
        what an entry that is not of the declared --type does (error: refuse the table, the default, drop: count as
        missing)
    --epsilon E, float, default 1
        of the guarantee (default: 1)
    --delta D, float, default 0
        of the guarantee (default: 0, pure); with delta > 0, noise of a private scale is Laplace noise
"""
_METHOD = """
    --truncation {threshold,race}, default threshold
        limit on the contribution of a unit
    --unit-limit N, int, default 1048576
        most rows expected of a unit
    --no-intervals
        all of epsilon for the answer
    --confidence CONFIDENCE, float, default 0.95
        confidence level of the intervals (default: 0.95)
"""
_EXPLAIN = """
    --explain
        say how far a row moves the answer, in symbols, and the plan; charges nothing ('dpstats plan sql')
"""


def add_sql(commands: Any, plans: Any) -> None:
    """Add the command, and its plan, which is what it explains."""
    parser = commands.add_parser(
        "sql",
        help="a private answer to one query with joins",
        description="Release the answer to a query. Several aggregates are one release. Names, types and declarations "
        "are public. A query without a known bound is refused, and costs nothing.",
        epilog=epilog(),
    )
    planned = plans.add_parser(
        "sql",
        help="the plan of 'sql' with these parameters",
        description="Say how far a row moves the answer, in symbols, and print the plan. Reads names and types of the "
        "tables, and public tables.",
    )
    for each in (parser, planned):
        add_options(each, _QUERY + NEIGHBORS + _METHOD, table=_table_file, database=_database)
    add_options(parser, _EXPLAIN)
    add_charge(parser)
    add_affordable(planned)
    for each in (parser, planned):
        add_output(each)
        each.set_defaults(run=_sql)
    planned.set_defaults(explain=True, seed=None, label=None, once=None)


def _sql(options: argparse.Namespace) -> None:
    from dpstats.data.parameters import check_real
    from dpstats.sql import PrivateSQL

    check_charge(options)
    check_real("--confidence", options.confidence, above=0, below=1)
    bounds, named = bounds_of([[text] for text in options.bounds or []])
    if bounds:
        raise refuse("--bounds", got="bounds without a name", allowed="NAME.COLUMN=LO,HI")
    categories = levels_of(options.levels, discover=True)
    for name in categories:
        if categories[name] == DISCOVER:
            check_discovery(f"--levels {name}={DISCOVER}", options.delta)
    budget = ledger_budget(options.budget, options.once)
    what = charge_label(options, f"{_sources(options)}: {options.query}")
    if budget is not None:
        budget = budget.labelled(what)
    names = "epsilon delta missing truncation unit_limit neighbors"
    made = PrivateSQL(
        _tables(options),
        public_tables=options.public or [],
        keys=_keys(options.key),
        unit=_unit(options.unit),
        categories=categories,
        bins={name: tuple(map(_edge, edges)) for name, edges in levels_of(options.bins, "--bins").items()},
        bounds=named,
        types=_types(options.type),
        interval=not options.no_intervals,
        budget=budget,
        **given(options, names, confidence_level="confidence", random_state="seed"),
    )
    if options.explain:
        _explain(made, options)
        return
    with delivering(options, what, budget) as show:
        answer = made.query(options.query)
        summary = spell_notes(answer.summary(options.confidence), options)
        facts = {
            "query": options.query,
            "privacy": answer.guarantee.to_dict(),
            "method": answer.method,
            "estimand": answer.estimand,
            "thresholds": list(answer.thresholds),
            "confidence_level": options.confidence,
            "cells": answer.records(options.confidence),
            "plan": plan_facts(made.plan_for(options.query)),
            "notes": list(summary.notes),
        }
        show(summary, facts)


def _explain(made: Any, options: argparse.Namespace) -> None:
    """Show how far a row moves the answer, and the plan; charge nothing."""
    text, plan = made.explain(options.query), made.plan_for(options.query)
    facts = {"query": options.query, "explanation": text, "privacy": plan.guarantee.to_dict()}
    show_affordable(options, plan, [text, str(plan)], facts | plan_facts(plan))


def _sources(options: argparse.Namespace) -> str:
    if options.database is None:
        return ", ".join(map(str, options.table or []))
    if isinstance(options.database, Path):
        return options.database.name
    # Ledgers keep this: names of users and passwords are left out.
    address = urlsplit(options.database)
    return f"postgresql://{address.hostname or ''}{address.path}"


def _tables(options: argparse.Namespace) -> Any:
    """Return the files by their names, a connection to a database, or its address."""
    from dpstats.data import files
    from dpstats.sql.catalogue import fold

    if bool(options.table) == (options.database is not None):
        raise refuse("--table or --database", allowed="be given, one of them")
    if isinstance(options.database, str):
        return options.database
    if options.database is not None:
        import duckdb

        if not options.database.exists():
            raise refuse("--database", got=str(options.database), allowed="a file")
        connection = None
        # A message of DuckDB's may quote what the file holds.
        with contextlib.suppress(duckdb.Error):
            connection = duckdb.connect(str(options.database), read_only=True)
        if connection is None:
            raise refuse("--database", got=options.database.name, allowed="a DuckDB database")
        return connection
    found: dict[str, Any] = {}
    for name, path in options.table:
        if fold(name) in map(fold, found):
            remedy = "Names ignore case."
            raise refuse("--table", got=f"{show(name)} twice", allowed="have each name once", remedy=remedy)
        found[name] = files(path, pattern=True) if options.pattern else path
    return found


def _database(word: str) -> Path | str:
    """Return the path of a file, or an address unchanged."""
    from dpstats.sql.engines import is_postgres

    return word if is_postgres(word) else Path(word)


def _table_file(word: str) -> TableFile:
    name, _, path = word.partition("=")
    if not (name and path):
        raise argparse.ArgumentTypeError(f"must be NAME=FILE, got {show(word)}")
    return TableFile(name, path_or_address(path))


def _types(texts: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts or []:
        name, equals, kind = text.rpartition("=")
        if not equals or name in found:
            raise refuse("--type", given=text, allowed="NAME.COLUMN=TYPE, each column once")
        found[name] = kind
    return found


def _edge(word: str) -> float | date:
    with contextlib.suppress(ValueError):
        return float(word)
    with contextlib.suppress(ValueError):
        return date.fromisoformat(word)
    raise refuse("--bins", given=word, allowed="have numbers or dates as edges")


def _keys(texts: list[str] | None) -> dict[str, str]:
    """Return the declared key of each named table."""
    found: dict[str, str] = {}
    for text in texts or []:
        table, dot, column = text.partition(".")
        if not (table and dot and column) or table in found:
            raise refuse("--key", given=text, allowed="NAME.COLUMN, each table once")
        found[table] = column
    return found


def _unit(texts: list[str] | None) -> Any:
    """Return a column for all tables, or a column for each named table."""
    if texts is None:
        return None
    if len(texts) == 1 and "." not in texts[0]:
        return texts[0]
    pairs = [text.partition(".") for text in texts]
    if not all(table and dot and column for table, dot, column in pairs):
        raise refuse("--unit", got=", ".join(texts), allowed="one column, or NAME.COLUMN for each table")
    return {table: column for table, _, column in pairs}
