"""Commands of no single class: ``dpstats budget`` with its ledgers, ``audit`` and ``verify``, and ``dpstats sql``."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dpstats.cli.options import (
    DISCOVER,
    NEIGHBORS,
    QUIET,
    add_options,
    add_output,
    add_plot,
    bounds_of,
    check_discovery,
    check_plot,
    given,
    levels_of,
    spell_notes,
)
from dpstats.cli.output import (
    VIOLATION,
    KeptResult,
    KeptResults,
    TableFile,
    as_json,
    epilog,
    opened,
    output,
    path_or_address,
    tell,
)
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
from dpstats.cli.tables import InputTable, add_table
from dpstats.errors import InvalidData, refuse, show

if TYPE_CHECKING:
    from dpstats.release.receipts import Check


# Ledgers

_NEW = """
    ledger, path
        the ledger, which must not exist yet
    --epsilon EPSILON, float, required
        the total
    --delta DELTA, float, default 0
        the total (default: 0)
    --method {basic,gdp,zcdp}, default basic
        how charges add up: epsilons and deltas (basic, the default), or as Gaussian (gdp) or zero-concentrated (zcdp)
        releases, which are tighter where there are many
    --unit NAME
        what the budget protects: the column that names the unit of a row, as in the commands that release (default: the
        unit of the first charge)
    --neighbors {REPLACE_ONE,ADD_OR_REMOVE_ONE}, default REPLACE_ONE
        relation of all charges (default: REPLACE_ONE)
"""
_LEDGER = """
    ledger, path
        the ledger
"""
_DISCARD = """
    --discard
        forget these results, once they have been shown
"""


def add_budget(commands: Any) -> None:
    """Add the command and its actions."""
    words = "make, show and list the ledger of a privacy budget"
    parser = commands.add_parser(
        "budget",
        help=words,
        description="A ledger is a file that keeps a budget and every charge of it, for any number of processes. "
        "Commands that release take it by --budget.",
        epilog=epilog(),
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    new = actions.add_parser("new", help="make a ledger", description="Make a ledger.")
    add_options(new, _NEW)
    add_output(new)
    new.set_defaults(run=_new)
    for name, help_text, run in (
        ("show", "the spent and the remaining budget", _show),
        ("history", "every charge, oldest first: when, how much, and for which table and columns", _history),
        ("keys", "the keys of --once: when each was charged, for what, and the released values", _keys),
        ("results", "results that were released and charged, and not delivered", _results),
    ):
        action = actions.add_parser(name, help=help_text, description=f"Show {help_text}.")
        add_options(action, _LEDGER + (_DISCARD if name == "results" else ""))
        add_output(action)
        action.set_defaults(run=run)


def _new(options: argparse.Namespace) -> None:
    from dpstats.privacy import Neighbors, PrivacyBudget

    if options.ledger.exists():
        raise refuse("ledger", got=str(options.ledger), allowed="a new file")
    with output(options) as show:
        budget = PrivacyBudget(
            options.epsilon,
            options.delta,
            neighbors=Neighbors[options.neighbors],
            method=options.method,
            ledger=options.ledger,
            unit=options.unit,
        )
        text = f"Made {options.ledger}: {budget.total}, method {budget.method!r}"
        if budget.unit is None:
            text += "\nThe first charge sets the unit: a row, or a person with all rows (to declare it: --unit)."
        show(text, _facts(options.ledger, budget))


def _facts(ledger: Path, budget: Any) -> dict[str, Any]:
    amounts = {"total": budget.total, "spent": budget.spent, "remaining": budget.remaining}
    numbers = {name: {"epsilon": amount.epsilon, "delta": amount.delta} for name, amount in amounts.items()}
    facts = {"ledger": str(ledger), "method": budget.method, "neighbors": budget.total.neighbors.name}
    return facts | numbers | {"unit": budget.unit, "charges": len(budget.history())}


def _show(options: argparse.Namespace) -> None:
    from dpstats.privacy import PrivacyBudget

    budget = PrivacyBudget.open(options.ledger)
    facts = _facts(options.ledger, budget)
    lines = [f"Method:    {budget.method}", f"Charges:   {facts['charges']}"]
    amounts = {"Total": budget.total, "Spent": budget.spent, "Remaining": budget.remaining}
    lines += [f"{name + ':':<10} {amount}" for name, amount in amounts.items()]
    if waiting := len(KeptResults(options.ledger).all()):
        lines.append(f"Results that were not delivered: {waiting} (dpstats budget results {options.ledger})")
    with output(options) as show:
        show("\n".join(lines), facts | {"undelivered": waiting})


def _history(options: argparse.Namespace) -> None:
    from dpstats.privacy import PrivacyBudget

    rows = [
        {
            "time": _time(entry.time),
            "label": entry.label,
            "epsilon": entry.guarantee.epsilon,
            "delta": entry.guarantee.delta,
            "unit": entry.guarantee.unit,
        }
        for entry in PrivacyBudget.open(options.ledger).history()
    ]
    lines = [f"{'time (UTC)':<25}  {'epsilon':>10}  {'delta':>10}  {'unit':<10}  for"]
    for row in rows:
        label, unit = (json.dumps(row[name], ensure_ascii=False)[1:-1] for name in ("label", "unit"))
        lines.append(f"{row['time']:<25}  {row['epsilon']:>10.6g}  {row['delta']:>10.3g}  {unit:<10}  {label}")
    with output(options) as show:
        show("\n".join(lines), {"ledger": str(options.ledger), "charges": rows})


def _keys(options: argparse.Namespace) -> None:
    from dpstats.privacy import PrivacyBudget
    from dpstats.release.once import decode_answer

    rows = [
        {
            "key": kept.key,
            "time": _time(kept.time),
            "label": kept.label,
            "state": kept.state,
            "released": {}
            if kept.answer is None
            else {name: stored.released for name, stored in decode_answer(kept.answer).items()},
        }
        for kept in PrivacyBudget.open(options.ledger).answers()
    ]
    lines = [f"{'time (UTC)':<25}  {'answer':<8}  key: for"]
    lines += [
        f"{row['time']:<25}  {row['state']:<8}  {json.dumps(row['label'], ensure_ascii=False)[1:-1]}" for row in rows
    ]
    with output(options) as show:
        show("\n".join(lines), {"ledger": str(options.ledger), "keys": rows})


def _results(options: argparse.Namespace) -> None:
    from dpstats.privacy import PrivacyBudget

    PrivacyBudget.open(options.ledger)  # raises an error if the file is not a ledger
    kept = KeptResults(options.ledger)
    found = kept.all()
    facts = [
        {"number": result.number, "time": _time(result.time), "releases": result.releases, "result": result.facts}
        for result in found
    ]
    with output(options) as show:
        show("\n\n".join(map(_text, found)) or "Every result was delivered.", {"results": facts})
    if options.discard:
        kept.discard([result.number for result in found])


def _text(result: KeptResult) -> str:
    """Return the printed form of a result, or the released values if the result was not finished."""
    labels = ", ".join(str(release["label"]) for release in result.releases)
    head = f"Result {result.number}, released {_time(result.time)}: {labels}"
    if result.text is not None:
        return f"{head}\n\n{result.text}"
    parts = [f"{release['plan']}\nreleased: {as_json(release['released'])}" for release in result.releases]
    return "\n".join([head, "The report was not made. The released values, by the stages of the plan:", *parts])


def _time(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


# Audits of recorded outputs

_AUDIT = """
    --epsilon EPSILON, float, required
        the claim
    --delta DELTA, float, default 0
        of the claim (default: 0)
    --confidence CONFIDENCE, float, default 0.95
        of the lower bound (default: 0.95)
    --column NAME, repeated
        columns of outputs: of the dataset, then of its neighbor (default: dataset, neighbor)
"""


def add_audit(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "audit",
        help="what recorded outputs of a release prove about its epsilon",
        description="Bound epsilon from below by recorded outputs of a release on two neighboring datasets, "
        "one run per line. The first half of the lines chooses the attack and the second half counts. A claim that is "
        f"proved false ends with exit status {VIOLATION}.",
        epilog=epilog(),
    )
    add_table(parser)
    add_options(parser, _AUDIT)
    add_plot(parser, "the trade-off curve")
    add_output(parser)
    parser.set_defaults(run=_audit)


def _audit(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from dpstats.auditing import audit_outputs

    check_plot(options.plot)
    columns = options.column or ["dataset", "neighbor"]
    if len(columns) != 2:
        got = f"{len(columns)} times"
        raise refuse("--column", got=got, allowed="be given twice, or not at all")
    table = InputTable(options)
    frame = table.frame(columns, text=columns)
    outputs = [_outputs(frame[name], table.name) for name in columns]
    # Opened before the work, so that a path that cannot be written is refused at once.
    with opened("--plot", options.plot), output(options) as show:
        result = audit_outputs(*outputs, **given(options, "epsilon delta confidence"))
        facts = asdict(result)
        del facts["curve"]
        show(result, facts)
        if options.plot is not None:
            from dpstats.plots import plot_audit

            plot_audit(result, title=table.name).savefig(options.plot, dpi=150)
    return VIOLATION if result.violated else 0


def _outputs(column: Any, name: str) -> Any:
    """Return recorded outputs: as numbers if all of them are numbers, otherwise as text."""
    import numpy as np

    words = column.tolist()
    if not all(words):
        raise InvalidData(
            f"{name} must hold one output per line, got empty cells: write a word where a release returns nothing"
        )
    try:
        return np.array([float(word) for word in words])
    except ValueError:
        return words


# Checks of receipts

_RECEIPT = """
    file FILE, path
        the receipt
    --key-file FILE, path
        file with the key of the signature; trailing white space is ignored
    --json
        print JSON in place of the table
"""


def add_verify(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "verify",
        help="check the receipt of a release without the data",
        description="Check the receipt of a fit: its hash, its privacy cost, its proof pages, its noise and, with a "
        "key, its signature. The check reads no data and charges nothing.",
        epilog=epilog(),
    )
    add_options(parser, _RECEIPT + QUIET)
    parser.set_defaults(run=_verify)


def _verify(options: argparse.Namespace) -> int:
    from dpstats.release.receipts import verify_receipt

    key = None if options.key_file is None else _content("--key-file", options.key_file).rstrip()
    try:
        text = _content("file", options.file).decode("utf-8")
    except UnicodeDecodeError:
        remedy = "Check the name of the file."
        raise refuse("file", given=str(options.file), allowed="a receipt in UTF-8", remedy=remedy) from None
    return tell_checks(verify_receipt(text, key), options, VIOLATION)


def tell_checks(checks: Sequence[Check], options: argparse.Namespace, failed: int) -> int:
    """Print checks, and return the exit status: ``failed`` if one of them fails."""
    from dpstats.release.receipts import as_text

    if options.json:
        tell(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        tell(as_text(checks))
    return 0 if all(check.passed for check in checks) else failed


def _content(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        got = f"{str(path)!r} ({error.strerror})"
        raise refuse(name, got=got, allowed="name a file that can be read") from None


# SQL


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
        whole epsilon for the answer
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
        keys=_declared_keys(options.key),
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


def _declared_keys(texts: list[str] | None) -> dict[str, str]:
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
