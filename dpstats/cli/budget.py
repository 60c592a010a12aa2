"""``dpstats budget``: make, show and list the ledger of a privacy budget."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from dpstats.cli.files import as_json, tell
from dpstats.errors import InvalidParameter


def add_budget(commands: Any) -> None:
    """Add the command and its actions."""
    parser = commands.add_parser("budget", help="make, show and list the ledger of a privacy budget")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    new = actions.add_parser("new", help="make a ledger")
    new.add_argument("file", type=Path)
    new.add_argument("--epsilon", type=float, required=True)
    new.add_argument("--delta", type=float, default=0.0)
    new.add_argument("--method", choices=["basic", "gdp", "zcdp"], default="basic", help="how charges add up")
    new.add_argument(
        "--neighbors",
        choices=["REPLACE_ONE", "ADD_OR_REMOVE_ONE"],
        default="REPLACE_ONE",
        help="relation of all charges",
    )
    new.set_defaults(run=_new)
    show = actions.add_parser("show", help="what is spent and what is left")
    history = actions.add_parser("history", help="every charge, oldest first")
    for action, run in ((show, _show), (history, _history)):
        action.add_argument("file", type=Path)
        action.add_argument("--json", action="store_true", help="print JSON")
        action.set_defaults(run=run)


def _new(options: argparse.Namespace) -> None:
    from dpstats.privacy import Neighbors, PrivacyBudget

    if options.file.exists():
        raise InvalidParameter(f"{options.file} exists already")
    budget = PrivacyBudget(
        options.epsilon,
        options.delta,
        neighbors=Neighbors[options.neighbors],
        method=options.method,
        ledger=options.file,
    )
    tell(f"Made {options.file}: {budget.total}, method {budget.method!r}")


def _show(options: argparse.Namespace) -> None:
    from dpstats.privacy import PrivacyBudget

    budget = PrivacyBudget.open(options.file)
    charges = len(budget.history())
    amounts = {"total": budget.total, "spent": budget.spent, "remaining": budget.remaining}
    if options.json:
        numbers: dict[str, Any] = {
            name: {"epsilon": amount.epsilon, "delta": amount.delta} for name, amount in amounts.items()
        }
        facts = {"method": budget.method, "neighbors": budget.total.neighbors.name, "charges": charges}
        tell(as_json(numbers | facts))
        return
    lines = [f"Method:    {budget.method}", f"Charges:   {charges}"]
    tell("\n".join(lines + [f"{name.capitalize() + ':':<10} {amount}" for name, amount in amounts.items()]))


def _history(options: argparse.Namespace) -> None:
    from datetime import UTC, datetime

    from dpstats.privacy import PrivacyBudget

    rows = [
        {
            "time": datetime.fromtimestamp(entry.time, UTC).isoformat(timespec="seconds"),
            "label": entry.label,
            "epsilon": entry.guarantee.epsilon,
            "delta": entry.guarantee.delta,
        }
        for entry in PrivacyBudget.open(options.file).history()
    ]
    if options.json:
        tell(as_json(rows))
        return
    lines = [f"{'time (UTC)':<25}  {'epsilon':>10}  {'delta':>10}  label"]
    for row in rows:
        label = json.dumps(row["label"], ensure_ascii=False)[1:-1]  # on one line, whatever it holds
        lines.append(f"{row['time']:<25}  {row['epsilon']:>10.6g}  {row['delta']:>10.3g}  {label}")
    tell("\n".join(lines))
