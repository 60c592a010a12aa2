"""The commands that release, and ``plan``, which says beforehand what they would release: what all of them share.

A command is its parameters, its estimator and its report; see `dpstats.cli.mean` for one.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dpstats.cli.exits import epilog
from dpstats.cli.files import keep_apart, notice, opened, output
from dpstats.cli.kept import results_path, until_delivered
from dpstats.cli.options import add_budget_option, add_output, add_plot, check_plot, per_column
from dpstats.cli.tables import Table, add_table
from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter, LedgerError

# Larger sizes are typing errors: plans for them would run out of memory or leave floating point.
_MOST_ROWS, _MOST_COLUMNS = 10**15, 10**8


class Target(NamedTuple):
    """The error that a number of rows is asked for.

    Attributes
    ----------
    words : str
        Of what it is the error.
    share : callable
        (options, columns) -> over how many numbers the plan's expected error is added up.
    """

    words: str
    share: Callable[[argparse.Namespace, int], int]


class ReleaseCommand(NamedTuple):
    """A command that releases.

    Attributes
    ----------
    name, help, description : str
    add_parameters : callable
        Adds the arguments that a plan has too.
    build : callable
        (options, rows, columns) -> the estimator.
    report : callable
        (fitted estimator, options) -> the table, and the facts of the JSON.
    in_blocks : bool
        Whether the estimator adds rows up, and may be given them block by block.
    all_columns : bool
        Whether no ``--column`` means all numeric ones.
    intervals : bool
        Whether the report has a confidence level.
    read : callable, optional
        (table, options) -> what a fit is given, rows first, where that is more than the rows of ``--column``.
    width : callable, optional
        options -> how many columns a plan is about, where the options say it; else None.
    picture : (str, callable), optional
        What ``--plot`` draws, in words; and (fitted estimator, options) -> the figure.
    target : Target, optional
        What ``plan samples`` finds a number of rows for.
    add_answers : callable, optional
        Adds the arguments that only a release has: what is asked of it once it is made.
    """

    name: str
    help: str
    description: str
    add_parameters: Callable[[argparse.ArgumentParser], None]
    build: Callable[[argparse.Namespace, int, int], Any]
    report: Callable[[Any, argparse.Namespace], tuple[Any, dict[str, Any]]]
    in_blocks: bool = False
    all_columns: bool = False
    intervals: bool = True
    read: Callable[[Table, argparse.Namespace], tuple[Any, ...]] | None = None
    width: Callable[[argparse.Namespace], int | None] | None = None
    picture: tuple[str, Callable[[Any, argparse.Namespace], Any]] | None = None
    target: Target | None = None
    add_answers: Callable[[argparse.ArgumentParser], None] | None = None


def add_releases(commands: Any, releases: Iterable[ReleaseCommand]) -> Any:
    """Add ``plan`` and the commands themselves; return the plans, for commands that are no releases of a table."""
    plan = commands.add_parser(
        "plan",
        help="what a release would consist of and cost; needs no data",
        description="Say what a release would consist of, at which noise and which cost, whether a budget could pay "
        "it, and how long its calibration takes: from public numbers alone. 'plan samples' finds the number of rows "
        "that an error asks for.",
        epilog=epilog(),
    )
    plans = plan.add_subparsers(dest="planned", required=True, metavar="COMMAND")
    sampled = plans.add_parser(
        "samples",
        help="how many rows a release needs for an error",
        description="Find the smallest number of rows at which the plan of a release promises an error, and print "
        "that plan.",
    ).add_subparsers(dest="sampled", required=True, metavar="COMMAND")
    for command in releases:
        _add_release(commands, command)
        words = f"the plan of '{command.name}' with these parameters"
        planned = plans.add_parser(command.name, help=words, description=f"Print {words}.")
        planned.add_argument("--rows", type=int, required=True, metavar="N", help="number of rows")
        _add_plan(planned, command, _plan)
        if command.target is not None:
            _add_samples(sampled, command, command.target)
    return plans


def _add_plan(parser: argparse.ArgumentParser, command: ReleaseCommand, run: Any) -> None:
    parser.add_argument(
        "--columns", type=int, required=command.width is None, metavar="D", help="number of columns"
    )
    command.add_parameters(parser)
    add_budget_option(
        parser, "say whether this ledger could pay, and what would be left; exit status 4 if not"
    )
    add_output(parser)
    parser.set_defaults(run=run, build=command.build, width=command.width or _columns, target=command.target)


def _add_samples(commands: Any, command: ReleaseCommand, target: Target) -> None:
    parser = commands.add_parser(
        command.name,
        help=f"rows for an error {target.words}",
        description=f"Find the smallest number of rows at which the root mean square error {target.words} is at most "
        "--target-error, by the plan's own expected error.",
    )
    parser.add_argument(
        "--target-error",
        type=float,
        required=True,
        metavar="E",
        help=f"root mean square error {target.words}, in its units",
    )
    parser.add_argument(
        "--spread",
        action="append",
        type=float,
        metavar="S",
        help="standard deviation that rows are taken to have, once or once per column: for planning only (default: "
        "what the plan says of it)",
    )
    _add_plan(parser, command, _samples)


def _add_release(commands: Any, command: ReleaseCommand) -> None:
    parser = commands.add_parser(
        command.name, help=command.help, description=command.description, epilog=epilog()
    )
    add_table(parser)
    parser.add_argument(
        "--column",
        action="append",
        required=not command.all_columns and command.read is None,
        metavar="NAME",
        help="column to use; repeatable" + (" (default: all numeric ones)" if command.all_columns else ""),
    )
    if command.intervals:
        parser.add_argument(
            "--confidence", type=float, default=0.95, help="confidence level of the intervals (default: 0.95)"
        )
    command.add_parameters(parser)
    if command.add_answers is not None:
        command.add_answers(parser)
    add_charge(parser)
    draw = None
    if command.picture is not None:
        words, draw = command.picture
        add_plot(parser, words)
    add_output(parser)
    parser.set_defaults(
        run=_release,
        read=command.read or (_rows if command.in_blocks else _frame),
        build=command.build,
        report=command.report,
        draw=draw,
    )


def add_charge(parser: argparse.ArgumentParser) -> None:
    """Add who pays for a release, or that it is none."""
    parser.add_argument("--seed", type=int, help="simulate with this seed instead of releasing")
    add_budget_option(parser, "charge this ledger (see 'dpstats budget')")
    parser.add_argument("--label", metavar="TEXT", help="what the charge is for, in the ledger's history")


def check_charge(options: argparse.Namespace) -> None:
    """Refuse what does not go together of `add_charge`."""
    if options.seed is not None and options.budget is not None:
        raise InvalidParameter("--seed and --budget cannot be given together: a simulation charges no budget")
    if options.seed is not None and options.seed < 0:
        raise InvalidParameter(f"--seed must be a non-negative integer, got {options.seed}")
    if options.label is not None and options.budget is None:
        raise InvalidParameter("--label needs --budget: it is of the charge")


def _rows(table: Table, options: argparse.Namespace) -> tuple[Any, ...]:
    return (table.rows(options.column),)


def _frame(table: Table, options: argparse.Namespace) -> tuple[Any, ...]:
    return (table.frame(options.column),)


def _columns(options: argparse.Namespace) -> int | None:
    return None


def _release(options: argparse.Namespace) -> None:
    """Fit what a command releases on the columns of a table, and report it."""
    from dpstats.data.parameters import check_real

    check_charge(options)
    if "confidence" in options:
        check_real("--confidence", options.confidence, above=0, below=1)
    picture = getattr(options, "plot", None)
    check_plot(picture)
    check_outputs(options, "file", "cov", "plot")
    budget = ledger_budget(options.budget)
    table = Table(options)
    with _naming(table, options):
        given = options.read(table, options)
    estimator = options.build(options, *given[0].shape)
    if budget is not None:
        budget = budget.labelled(charge_label(options, f"{table.name} ({', '.join(table.columns)})"))
    estimator.set_params(random_state=options.seed, budget=budget)
    # Opened before anything is charged, so that a path that cannot be written costs nothing.
    with opened("--plot", picture), delivering(options) as show:
        with _naming(table, options):
            estimator.fit(*given)
        text, facts = options.report(estimator, options)
        plan = estimator.plan_
        sizes = {"n_samples": plan.n_samples, "n_features": plan.n_features}
        named = {"estimator": type(estimator).__name__} | plan.facts()
        facts = named | sizes | {"privacy": guarantee_facts(estimator.privacy_)} | facts
        show(text, facts | {"plan": plan_facts(plan)})
        if picture is not None:
            options.draw(estimator, options).savefig(picture, dpi=150)


def check_outputs(options: argparse.Namespace, *names: str) -> None:
    """Refuse one file for two things, the results beside a ledger among them."""
    beside = None if options.budget is None else results_path(options.budget)
    keep_apart(argparse.Namespace(**vars(options), results=beside), *names, "budget", "results", "json")


@contextlib.contextmanager
def delivering(options: argparse.Namespace) -> Iterator[Any]:
    """Open where a result goes, and yield what shows it; what is charged within is kept until it was shown."""

    def warn(text: str) -> None:
        notice(options, text)

    with output(options) as show, until_delivered(options.budget, warn) as delivery:
        if delivery is None:
            yield show
            return

        def show_kept(text: Any, facts: dict[str, Any]) -> None:
            delivery.report(str(text), facts)
            show(text, facts)

        yield show_kept


def charge_label(options: argparse.Namespace, what: str) -> str:
    """Return what a charge is for: the label that was given, and the public names of what was read."""
    return what if options.label is None else f"{options.label}: {what}"


@contextlib.contextmanager
def _naming(table: Table, options: argparse.Namespace) -> Iterator[None]:
    """Say of which table a refusal is, where in it, and parameters by the names of their options."""
    try:
        yield
    except InvalidData as error:
        words = (
            str(error)
            .replace("missing='center'", "--missing center")
            .replace("missing='drop'", "--missing drop")
        )
        words = words.replace("if None is declared", "if an empty one is declared: NAME=A,B,")
        if table.unusable is not None and getattr(options, "missing", "error") == "error":
            line, column = table.unusable
            words += f" (the first entry that is missing or infinite: line {line}, column {column!r})"
        raise InvalidData(words if words.startswith(table.name) else f"{table.name}: {words}") from None


def ledger_budget(ledger: Path | None) -> Any:
    """Return the budget of a ledger, if one is given."""
    from dpstats.privacy import PrivacyBudget

    if ledger is None:
        return None
    try:
        return PrivacyBudget.open(ledger)
    except LedgerError as error:
        raise LedgerError(f"--budget must name a ledger (see 'dpstats budget new'): {error}") from None


def _plan(options: argparse.Namespace) -> None:
    """Print what a release would consist of, without data."""
    from dpstats.data.parameters import check_integer

    n = check_integer("--rows", options.rows, at_least=2, at_most=_MOST_ROWS)
    check_outputs(options, "cov")
    d = _planned_columns(options)
    _show_plan(options, options.build(options, n, d), n, d)


def _samples(options: argparse.Namespace) -> None:
    """Print how many rows an error asks for, and the plan of so many."""
    import math

    from dpstats.data.parameters import check_real
    from dpstats.means import required_samples

    target = check_real("--target-error", options.target_error, above=0)
    check_outputs(options)
    d = _planned_columns(options)
    spread = None if options.spread is None else per_column("--spread", options.spread, d)
    share = options.target.share(options, d)
    # Whatever is built for a number of rows goes by columns and parameters alone.
    estimator = options.build(options, 2, d)
    with _squared_errors(share):
        n = required_samples(estimator, d, share * target**2, spread)
    error = math.sqrt(estimator.plan(n, d).expected_error(spread) / share)
    text = f"{n:,} rows, for a root mean square error {options.target.words} of {error:.4g}"
    if spread is None and estimator.plan(n, d).expected_error(0.0) == estimator.plan(n, d).expected_error():
        text += "\n  of the noise alone: --spread counts the sampling error"
    _show_plan(options, estimator, n, d, f"{text}\n", {"rows": n, "root_mean_square_error": error})


@contextlib.contextmanager
def _squared_errors(share: int) -> Iterator[None]:
    """Say errors as the options have them."""
    try:
        yield
    except InvalidParameter as error:
        if not str(error).startswith("target_error"):
            raise
        raise InvalidParameter(
            "--target-error cannot be reached by 2^32 rows, the most that are added up exactly: see 'dpstats plan' for "
            "the error there"
        ) from None


def _planned_columns(options: argparse.Namespace) -> int:
    from dpstats.data.parameters import check_integer

    known: int | None = options.width(options)
    if known is not None and options.columns is not None:
        raise InvalidParameter(f"--columns must not be given: by the other options there are {known} of them")
    if known is None and options.columns is None:
        raise InvalidParameter("--columns must be given: the number of columns")
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
    facts = {
        "estimator": name,
        **(found or {}),
        **plan.facts(),
        "n_samples": n,
        "n_features": d,
        "privacy": guarantee_facts(plan.guarantee),
        **plan_facts(plan),
        "notes": plan.notes(),
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
        words, facts["budget"], refusal = _affordable(options.budget, plan)
        lines.append(words)
    with output(options) as show:
        show("\n".join(lines), facts)
    if refusal is not None:
        raise refusal


def _affordable(ledger: Path, plan: Any) -> tuple[str, dict[str, Any], BudgetExceeded | None]:
    """Return whether a ledger could pay a plan, in words and as facts, and its refusal if not."""
    budget = ledger_budget(ledger)
    left, refusal = None, None
    try:
        left = budget.remaining_after(plan)
    except BudgetExceeded as error:
        refusal = error
    facts = {
        "ledger": str(ledger),
        "can_pay": left is not None,
        "remaining": guarantee_facts(budget.remaining),
        "remaining_after": None if left is None else guarantee_facts(left),
    }
    words = f"Budget {ledger}: " + (
        "it cannot pay"
        if left is None
        else f"it can pay; left would be {left}, the largest single charge that fits"
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


def plan_facts(plan: Any) -> dict[str, Any]:
    """Return what a plan consists of: its selections, and all its other stages."""
    return {
        "selections": [stage.facts() for stage in plan.selections],
        "stages": [stage.facts() for stage in plan.stages if stage not in plan.selections],
    }


def guarantee_facts(privacy: Any) -> dict[str, Any]:
    """Return a guarantee by the names of its parts."""
    unit = {} if privacy.unit == "row" else {"unit": privacy.unit}
    return {
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "neighbors": privacy.neighbors.name,
        "simulated": privacy.simulated,
        "guarantee": str(privacy),
        **unit,
    }


def estimates(
    names: Any, means: Any, errors: Any, interval: Any = None, stds: Any = None
) -> list[dict[str, Any]]:
    """Return a record per column: estimate, noise, and where there are any the interval and the spread."""
    records: list[dict[str, Any]] = [
        {"name": str(name), "mean": value, "noise_std": error}
        for name, value, error in zip(names, means.tolist(), errors.tolist(), strict=True)
    ]
    if interval is not None:
        for record, low, high in zip(records, interval.low.tolist(), interval.high.tolist(), strict=True):
            record |= {"low": low, "high": high}
    if stds is not None:
        for record, std in zip(records, stds.tolist(), strict=True):
            record["std"] = std
    return records
