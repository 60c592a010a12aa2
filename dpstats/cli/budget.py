"""Commands about budgets: ``dpstats budget``, its ledgers, ``dpstats audit`` and ``dpstats verify``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpstats.cli.options import QUIET, add_options, add_output, add_plot, check_plot, given
from dpstats.cli.output import VIOLATION, KeptResult, KeptResults, as_json, epilog, opened, output, tell
from dpstats.cli.tables import InputTable, add_table
from dpstats.errors import InvalidData, refuse

if TYPE_CHECKING:
    from dpstats.release.receipts import Check

# Ledgers

_NEW = """
    ledger, path
        the ledger, which must not be there yet
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
        raise refuse("ledger", got=str(options.ledger), allowed="a file that is not there yet")
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
