"""``dpstats budget``: make, show and list the ledger of a privacy budget, and what it holds that was not delivered."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from dpstats.cli.exits import epilog
from dpstats.cli.files import as_json, output
from dpstats.cli.options import add_options, add_output
from dpstats.cli.undelivered import KeptResult, KeptResults
from dpstats.errors import refuse

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
            text += (
                "\nThe first charge sets the unit: a row, or a person with all rows (to declare it: --unit)."
            )
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
        lines.append(
            f"{row['time']:<25}  {row['epsilon']:>10.6g}  {row['delta']:>10.3g}  {unit:<10}  {label}"
        )
    with output(options) as show:
        show("\n".join(lines), {"ledger": str(options.ledger), "charges": rows})


def _results(options: argparse.Namespace) -> None:
    from dpstats.privacy import PrivacyBudget

    PrivacyBudget.open(options.ledger)  # raises an error if the file is not a ledger
    kept = KeptResults(options.ledger)
    found = kept.all()
    facts = [
        {
            "number": result.number,
            "time": _time(result.time),
            "releases": result.releases,
            "result": result.facts,
        }
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
    return "\n".join(
        [head, "The report was not made. The released values, by the stages of the plan:", *parts]
    )


def _time(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
