"""``dpstats sql``: a private answer to a query over files, or over a database of DuckDB or Postgres."""

from __future__ import annotations

import argparse
import contextlib
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dpstats.cli.declared import DISCOVER, bounds_of, check_discovery, levels_of
from dpstats.cli.exits import epilog
from dpstats.cli.files import TableFile, output
from dpstats.cli.options import add_neighbors, add_output, spell_notes
from dpstats.cli.plan import add_affordable, affordable
from dpstats.cli.release import (
    add_charge,
    charge_label,
    check_charge,
    delivering,
    ledger_budget,
    plan_facts,
)
from dpstats.errors import InvalidParameter, show


def add_sql(commands: Any, plans: Any) -> None:
    """Add the command, and its plan, which is what it explains."""
    parser = commands.add_parser(
        "sql",
        help="a private answer to one query with joins",
        description="Release the answer to a query. Several aggregates are one release. Names, types and declarations "
        "are public. A query without a known bound is refused, and costs nothing.",
        epilog=epilog(),
    )
    _add_parameters(parser)
    parser.add_argument(
        "--explain",
        action="store_true",
        help="say how far a row moves the answer, in symbols, and the plan; charges nothing ('dpstats plan sql')",
    )
    add_charge(parser)
    add_output(parser)
    parser.set_defaults(run=_sql)
    planned = plans.add_parser(
        "sql",
        help="the plan of 'sql' with these parameters",
        description="Say how far a row moves the answer, in symbols, and print the plan. Reads names and types of the "
        "tables, and public tables.",
    )
    _add_parameters(planned)
    add_affordable(planned)
    add_output(planned)
    planned.set_defaults(run=_sql, explain=True, seed=None, label=None)


def _add_parameters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "query",
        help="one SELECT, in DuckDB's dialect: COUNT, SUM, AVG, STDDEV, VARIANCE, MEDIAN, QUANTILE_CONT and "
        "PERCENTILE_CONT, also of values computed with + - *, CASE and COALESCE; FILTER; inner, left and semi-joins "
        "by equal columns; WHERE; GROUP BY with HAVING, ORDER BY and LIMIT",
    )
    parser.add_argument(
        "--table",
        type=_table_file,
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="a CSV or Parquet file, read in place, and its name; repeatable",
    )
    parser.add_argument(
        "--database",
        type=_database,
        metavar="FILE",
        help="a DuckDB database, or the postgresql:// address of one of Postgres, in place of --table. The password is "
        "read from PGPASSWORD or from a password file",
    )
    parser.add_argument(
        "--public",
        action="append",
        default=[],
        metavar="NAME",
        help="a table that anybody may know, for joins with less noise; repeatable",
    )
    parser.add_argument(
        "--key",
        action="append",
        metavar="NAME.COLUMN",
        help="a column without repeated values: joins with it have less noise. One with a value twice is refused, "
        "which reveals it; repeatable",
    )
    parser.add_argument(
        "--unit",
        action="append",
        metavar="COLUMN",
        help="the column that says whose a row is, which protects a person with all rows: of all private tables, or "
        "NAME.COLUMN of one. 'items.order->orders.id' is a path: an item is of the person of its order; repeatable",
    )
    parser.add_argument(
        "--levels",
        action="append",
        metavar="NAME.COLUMN=A,B,...",
        help="declared values to GROUP BY, or the word discover: values of many rows are then shown, which needs a "
        "positive --delta; repeatable",
    )
    parser.add_argument(
        "--bins",
        action="append",
        metavar="NAME.COLUMN=E,E,...",
        help="declared edges of bins of numbers to GROUP BY; for YEAR, QUARTER, MONTH or DATE_TRUNC of a date, the "
        "first date and the one after the last; repeatable",
    )
    parser.add_argument(
        "--bounds",
        action="append",
        nargs=1,
        metavar="NAME.COLUMN=LO,HI",
        help="declared bounds of a column in SUM, AVG, STDDEV, VARIANCE or a computed value; repeatable",
    )
    parser.add_argument(
        "--type",
        action="append",
        metavar="NAME.COLUMN=TYPE",
        help="what a column of a CSV file is (BIGINT, DOUBLE, BOOLEAN, DATE, TIMESTAMP), which else is text; "
        "repeatable",
    )
    parser.add_argument(
        "--missing",
        choices=["error", "drop"],
        default="error",
        help="what an entry that is not of the declared --type does (error: refuse the table, the default, drop: count "
        "as missing)",
    )
    parser.add_argument(
        "--epsilon", type=float, default=1.0, metavar="E", help="of the guarantee (default: 1)"
    )
    parser.add_argument(
        "--delta",
        type=float,
        default=0.0,
        metavar="D",
        help="of the guarantee (default: 0, pure); with delta > 0, noise of a private scale is Laplace noise",
    )
    add_neighbors(parser)
    parser.add_argument(
        "--truncation",
        choices=["threshold", "race"],
        default="threshold",
        help="how the contribution of a unit is limited",
    )
    parser.add_argument(
        "--unit-limit", type=int, default=2**20, metavar="N", help="no unit is expected to have more rows"
    )
    parser.add_argument("--no-intervals", action="store_true", help="all of epsilon for the answer")
    parser.add_argument(
        "--confidence", type=float, default=0.95, help="confidence level of the intervals (default: 0.95)"
    )


def _sql(options: argparse.Namespace) -> None:
    from dpstats.data.parameters import check_real
    from dpstats.sql import PrivateSQL

    check_charge(options)
    check_real("--confidence", options.confidence, above=0, below=1)
    bounds, named = bounds_of(options.bounds)
    if bounds:
        raise InvalidParameter("--bounds must be NAME.COLUMN=LO,HI, got bounds without a name")
    categories = levels_of(options.levels, discover=True)
    for name in categories:
        if categories[name] == DISCOVER:
            check_discovery(f"--levels {name}={DISCOVER}", options.delta)
    budget = ledger_budget(options.budget)
    what = charge_label(options, f"{_sources(options)}: {options.query}")
    if budget is not None:
        budget = budget.labelled(what)
    made = PrivateSQL(
        _tables(options),
        epsilon=options.epsilon,
        delta=options.delta,
        public_tables=options.public,
        keys=_keys(options.key),
        unit=_unit(options.unit),
        categories=categories,
        bins={name: tuple(map(_edge, edges)) for name, edges in levels_of(options.bins, "--bins").items()},
        bounds=named,
        types=_types(options.type),
        missing=options.missing,
        truncation=options.truncation,
        unit_limit=options.unit_limit,
        interval=not options.no_intervals,
        confidence_level=options.confidence,
        neighbors=options.neighbors,
        random_state=options.seed,
        budget=budget,
    )
    if options.explain:
        _explain(made, options)
        return
    with delivering(options, what) as show:
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
    text = made.explain(options.query)
    plan = made.plan_for(options.query)
    facts = {"query": options.query, "explanation": text, "privacy": plan.guarantee.to_dict()}
    lines, refusal = [text, str(plan)], None
    if options.budget is not None:
        words, facts["budget"], refusal = affordable(options.budget, plan)
        lines.append(words)
    with output(options) as show:
        show("\n".join(lines), facts | plan_facts(plan))
    if refusal is not None:
        raise refusal


def _sources(options: argparse.Namespace) -> str:
    if options.database is None:
        return ", ".join(map(str, options.table))
    if isinstance(options.database, Path):
        return options.database.name
    # Ledgers keep this: names of users and passwords are left out.
    address = urlsplit(options.database)
    return f"postgresql://{address.hostname or ''}{address.path}"


def _tables(options: argparse.Namespace) -> Any:
    """Return the files by their names, a connection to a database, or its address."""
    from dpstats.sql.catalogue import fold

    if bool(options.table) == (options.database is not None):
        raise InvalidParameter("--table or --database must be given, one of them")
    if isinstance(options.database, str):
        return options.database
    if options.database is not None:
        import duckdb

        if not options.database.exists():
            raise InvalidParameter(f"--database must be a file, got {options.database}")
        connection = None
        # A message of DuckDB's may quote what the file holds.
        with contextlib.suppress(duckdb.Error):
            connection = duckdb.connect(str(options.database), read_only=True)
        if connection is None:
            raise InvalidParameter(f"--database must be a DuckDB database, got {options.database.name}")
        return connection
    found: dict[str, Path] = {}
    for name, path in options.table:
        if fold(name) in map(fold, found):
            raise InvalidParameter(
                f"--table must have each name once, got {show(name)} twice: names ignore case"
            )
        found[name] = path
    return found


def _database(word: str) -> Path | str:
    """Return the path of a file, or an address unchanged."""
    from dpstats.sql.postgres_engine import is_postgres

    return word if is_postgres(word) else Path(word)


def _table_file(word: str) -> TableFile:
    name, _, path = word.partition("=")
    if not (name and path):
        raise argparse.ArgumentTypeError(f"must be NAME=FILE, got {show(word)}")
    return TableFile(name, Path(path))


def _types(given: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given or []:
        name, equals, kind = text.rpartition("=")
        if not equals or name in found:
            raise InvalidParameter(f"--type must be NAME.COLUMN=TYPE, each column once, got {show(text)}")
        found[name] = kind
    return found


def _edge(word: str) -> float | date:
    with contextlib.suppress(ValueError):
        return float(word)
    with contextlib.suppress(ValueError):
        return date.fromisoformat(word)
    raise InvalidParameter(f"--bins must have numbers or dates as edges, got {show(word)}")


def _keys(given: list[str] | None) -> dict[str, str]:
    """Return the declared key of each named table."""
    found: dict[str, str] = {}
    for text in given or []:
        table, dot, column = text.partition(".")
        if not (table and dot and column) or table in found:
            raise InvalidParameter(f"--key must be NAME.COLUMN, each table once, got {show(text)}")
        found[table] = column
    return found


def _unit(given: list[str] | None) -> Any:
    """Return a column for all tables, or a column for each named table."""
    if given is None:
        return None
    if len(given) == 1 and "." not in given[0]:
        return given[0]
    pairs = [text.partition(".") for text in given]
    if not all(table and dot and column for table, dot, column in pairs):
        raise InvalidParameter(
            f"--unit must be one column, or NAME.COLUMN for each table, got {', '.join(given)}"
        )
    return {table: column for table, _, column in pairs}
