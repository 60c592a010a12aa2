"""``dpstats plan``: what a release would consist of, whether a budget could pay, how many rows are needed."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from dpstats.cli.exits import epilog
from dpstats.cli.files import output
from dpstats.cli.options import add_options, add_output
from dpstats.cli.release import ReleaseCommand, ledger_budget
from dpstats.errors import BudgetExceeded, refuse

# Larger sizes are typing errors: plans for them would run out of memory or leave floating point.
_MOST_ROWS, _MOST_COLUMNS = 10**15, 10**8


def add_plans(commands: Any, releases: Iterable[ReleaseCommand]) -> Any:
    """Add ``plan`` for all releases; return its commands, for a plan that is of no table."""
    plan = commands.add_parser(
        "plan",
        help="what a release would consist of and cost; needs no data",
        description="Show the parts of a release, their noise and cost, whether a budget could pay, and the time of "
        "calibration, from public numbers alone. 'plan samples' finds the number of rows for an error or a power.",
        epilog=epilog(),
    )
    plans = plan.add_subparsers(dest="planned", required=True, metavar="COMMAND")
    sampled = plans.add_parser(
        "samples",
        help="how many rows a release needs for an error, or a test for a power",
        description="Find the number of rows at which a release has an error or a test has a power, and print the "
        "plan for that number.",
    ).add_subparsers(dest="sampled", required=True, metavar="COMMAND")
    for command in releases:
        words = f"the plan of '{command.name}' with these parameters"
        parser = plans.add_parser(command.name, help=words, description=f"Print {words}.")
        add_options(parser, "    --rows N, int, required\n        number of rows")
        _add_plan(parser, command, _plan)
        if (target := command.target) is not None:
            parser = sampled.add_parser(command.name, help=target.help, description=target.description)
            add_options(parser, target.parameters)
            _add_plan(parser, command, _samples)
    return plans


def _add_plan(parser: argparse.ArgumentParser, command: ReleaseCommand, run: Any) -> None:
    required = ", required" if command.needs_columns else ""
    words = "number of columns, or their names as --column has them in the release"
    add_options(parser, f"    --columns D ...{required}\n        {words}")
    command.add_parameters(parser)
    add_affordable(parser)
    add_output(parser)
    parser.set_defaults(run=lambda options: run(command, options))


def add_affordable(parser: argparse.ArgumentParser) -> None:
    """Add the ledger that a plan is compared with."""
    text = """
    --budget LEDGER, path
        say whether this ledger could pay, and show the remaining budget; exit status 4 if it could not
    """
    add_options(parser, text)


def _plan(command: ReleaseCommand, options: argparse.Namespace) -> None:
    """Print what a release would consist of, without data."""
    from dpstats.data.parameters import check_integer

    n = check_integer("--rows", options.rows, at_least=2, at_most=_MOST_ROWS)
    d = _planned_columns(command, options)
    _show_plan(options, command.build(options, n, d), n, d)


def _samples(command: ReleaseCommand, options: argparse.Namespace) -> None:
    """Print the required number of rows, and the plan for this number."""
    assert command.target is not None
    d = _planned_columns(command, options)
    found = command.target.find(options, d, command.build)
    _show_plan(options, found.estimator, found.rows, d, f"{found.words}\n", found.facts)


def _planned_columns(command: ReleaseCommand, options: argparse.Namespace) -> int:
    """Return the number of columns. Other options can refer to columns by their names, if these are given."""
    from dpstats.data.parameters import check_integer

    names = options.columns or []
    if len(names) > 1 or any(not word.removeprefix("-").isdecimal() for word in names):
        if len(set(names)) < len(names):
            raise refuse("--columns", got=", ".join(names), allowed="name each column once")
        options.column = names
        known = command.width(options)
        if known is not None and len(names) > known:
            raise refuse("--columns", got=", ".join(names), allowed=f"name {known} of them")
        return known or len(names)
    options.columns = int(names[0]) if names else None
    known = command.width(options)
    if known is not None and options.columns is not None:
        remedy = f"By the other options there are {known} of them."
        raise refuse("--columns", allowed="not be given", remedy=remedy)
    if known is None and options.columns is None:
        raise refuse("--columns", allowed="be given: the number of columns")
    return known or check_integer("--columns", options.columns, at_least=1, at_most=_MOST_COLUMNS)


def _show_plan(
    options: argparse.Namespace,
    estimator: Any,
    n: int,
    d: int,
    before: str = "",
    found: dict[str, Any] | None = None,
) -> None:
    """Show a plan: what it costs, whether a budget could pay it, and how long it takes to calibrate."""
    plan = estimator.plan(n, d)
    name = type(estimator).__name__
    text = f"{before}{name}: {plan}"
    lines = [text, *(f"  {note}" for note in plan.notes() if note not in text)]
    facts = {"estimator": name, **(found or {}), **plan.to_dict()}
    if hasattr(estimator, "calibration_seconds"):
        seconds = facts["calibration_seconds"] = estimator.calibration_seconds(n, d)
        if seconds:
            lines.append(
                f"  calibration, before the charge: about {_duration(seconds)} of one core, to within a factor of a few"
            )
    show_affordable(options, plan, lines, facts)


def show_affordable(options: argparse.Namespace, plan: Any, lines: list[str], facts: dict[str, Any]) -> None:
    """Show a plan and whether the ledger of ``--budget`` can pay for it, and raise the error if it cannot."""
    refusal = None
    if options.budget is not None:
        budget, left = ledger_budget(options.budget), None
        try:
            left = budget.remaining_after(plan)
        except BudgetExceeded as error:
            refusal = error
        facts["budget"] = {
            "ledger": str(options.budget),
            "can_pay": left is not None,
            "remaining": budget.remaining.to_dict(),
            "remaining_after": None if left is None else left.to_dict(),
        }
        words = "it cannot pay"
        if left is not None:
            words = f"it can pay. Afterwards the largest single charge that fits is {left}"
        lines.append(f"Budget {options.budget}: {words}")
    with output(options) as show:
        show("\n".join(lines), facts)
    if refusal is not None:
        raise refusal


def _duration(seconds: float) -> str:
    """Return a rough length of time."""
    if seconds < 1:
        return "a second or less"
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} seconds"
