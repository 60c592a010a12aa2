"""``dpstats plan``: what a release would consist of, whether a budget could pay, how many rows are needed."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dpstats.cli.exits import epilog
from dpstats.cli.files import output
from dpstats.cli.options import add_output
from dpstats.cli.release import (
    ReleaseCommand,
    ledger_budget,
)
from dpstats.cli.samples import Target
from dpstats.errors import BudgetExceeded, InvalidParameter

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
        planned = plans.add_parser(command.name, help=words, description=f"Print {words}.")
        planned.add_argument("--rows", type=int, required=True, metavar="N", help="number of rows")
        _add_plan(planned, command, _plan)
        if command.target is not None:
            _add_samples(sampled, command, command.target)
    return plans


def _add_plan(parser: argparse.ArgumentParser, command: ReleaseCommand, run: Any) -> None:
    parser.add_argument(
        "--columns",
        nargs="+",
        required=command.width is None,
        metavar="D",
        help="number of columns, or their names as --column has them in the release",
    )
    command.add_parameters(parser)
    add_affordable(parser)
    add_output(parser)
    parser.set_defaults(run=run, build=command.build, width=command.width or _columns, target=command.target)


def _add_samples(commands: Any, command: ReleaseCommand, target: Target) -> None:
    parser = commands.add_parser(command.name, help=target.help, description=target.description)
    target.add_parameters(parser)
    _add_plan(parser, command, _samples)


def add_affordable(parser: argparse.ArgumentParser) -> None:
    """Add the ledger that a plan is compared with."""
    parser.add_argument(
        "--budget",
        type=Path,
        metavar="LEDGER",
        help="say whether this ledger could pay, and show the remaining budget; exit status 4 if it could not",
    )


def _columns(options: argparse.Namespace) -> int | None:
    return None


def _plan(options: argparse.Namespace) -> None:
    """Print what a release would consist of, without data."""
    from dpstats.data.parameters import check_integer

    n = check_integer("--rows", options.rows, at_least=2, at_most=_MOST_ROWS)
    d = _planned_columns(options)
    _show_plan(options, options.build(options, n, d), n, d)


def _samples(options: argparse.Namespace) -> None:
    """Print the required number of rows, and the plan for this number."""
    d = _planned_columns(options)
    found = options.target.find(options, d, options.build)
    _show_plan(options, found.estimator, found.rows, d, f"{found.words}\n", found.facts)


def _planned_columns(options: argparse.Namespace) -> int:
    from dpstats.data.parameters import check_integer

    given = options.columns or []
    if len(given) > 1 or any(not _is_whole(word) for word in given):
        return _named_columns(options, given)
    options.columns = int(given[0]) if given else None
    known: int | None = options.width(options)
    if known is not None and options.columns is not None:
        raise InvalidParameter(f"--columns must not be given: by the other options there are {known} of them")
    if known is None and options.columns is None:
        raise InvalidParameter("--columns must be given: the number of columns")
    return known or check_integer("--columns", options.columns, at_least=1, at_most=_MOST_COLUMNS)


def _is_whole(word: str) -> bool:
    """Return whether a word is a whole number."""
    return word.removeprefix("-").isdecimal()


def _named_columns(options: argparse.Namespace, names: list[str]) -> int:
    """Return the number of columns of a design of named columns, which other options can refer to by name."""
    if len(set(names)) < len(names):
        raise InvalidParameter(f"--columns must name each column once, got {', '.join(names)}")
    options.column = names
    known: int | None = options.width(options)
    if known is not None and len(names) > known:
        raise InvalidParameter(f"--columns must name {known} of them, got {', '.join(names)}")
    return known or len(names)


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
    facts = {
        "estimator": name,
        **(found or {}),
        **plan.to_dict(),
    }
    if hasattr(estimator, "calibration_seconds"):
        seconds = estimator.calibration_seconds(n, d)
        facts["calibration_seconds"] = seconds
        if seconds:
            lines.append(
                f"  calibration, before the charge: about {_duration(seconds)} of one core, to within a factor of a few"
            )
    refusal = None
    if options.budget is not None:
        words, facts["budget"], refusal = affordable(options.budget, plan)
        lines.append(words)
    with output(options) as show:
        show("\n".join(lines), facts)
    if refusal is not None:
        raise refusal


def affordable(ledger: Path, plan: Any) -> tuple[str, dict[str, Any], BudgetExceeded | None]:
    """Return whether a ledger can pay for a plan, as text and as facts, and the error if not."""
    budget = ledger_budget(ledger)
    left, refusal = None, None
    try:
        left = budget.remaining_after(plan)
    except BudgetExceeded as error:
        refusal = error
    facts = {
        "ledger": str(ledger),
        "can_pay": left is not None,
        "remaining": budget.remaining.to_dict(),
        "remaining_after": None if left is None else left.to_dict(),
    }
    words = f"Budget {ledger}: " + (
        "it cannot pay"
        if left is None
        else f"it can pay. Afterwards the largest single charge that fits is {left}"
    )
    return words, facts, refusal


def _duration(seconds: float) -> str:
    """Return a rough length of time."""
    if seconds < 1:
        return "a second or less"
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} seconds"
