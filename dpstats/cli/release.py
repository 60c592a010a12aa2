"""The commands that release, and ``plan``, which says beforehand what they would release: what all of them share.

A command is its parameters, its estimator and its report; see `dpstats.cli.mean` for one.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dpstats.cli.files import keep_apart, opened, output, read_table
from dpstats.cli.options import add_json, add_plot, check_plot
from dpstats.errors import InvalidData, InvalidParameter, LedgerError

# Larger sizes are typing errors: plans for them would run out of memory or leave floating point.
_MOST_ROWS, _MOST_COLUMNS = 10**15, 10**8


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
    all_columns : bool
        Whether no ``--column`` means all numeric ones.
    intervals : bool
        Whether the report has a confidence level.
    read : callable, optional
        options -> what a fit is given, a table first, where that is more than the rows of ``--column``.
    width : callable, optional
        options -> how many columns a plan is about, where the options say it; else None.
    picture : (str, callable), optional
        What ``--plot`` draws, in words; and (fitted estimator, options) -> the figure.
    """

    name: str
    help: str
    description: str
    add_parameters: Callable[[argparse.ArgumentParser], None]
    build: Callable[[argparse.Namespace, int, int], Any]
    report: Callable[[Any, argparse.Namespace], tuple[Any, dict[str, Any]]]
    all_columns: bool = False
    intervals: bool = True
    read: Callable[[argparse.Namespace], tuple[Any, ...]] | None = None
    width: Callable[[argparse.Namespace], int | None] | None = None
    picture: tuple[str, Callable[[Any, argparse.Namespace], Any]] | None = None


def add_releases(commands: Any, releases: Iterable[ReleaseCommand]) -> None:
    """Add ``plan`` and the commands themselves."""
    plan = commands.add_parser("plan", help="what a release would consist of and cost; needs no data")
    plans = plan.add_subparsers(dest="planned", required=True, metavar="COMMAND")
    for command in releases:
        _add_release(commands, command)
        planned = plans.add_parser(command.name, help=f"the plan of '{command.name}' with these parameters")
        planned.add_argument("--rows", type=int, required=True, metavar="N", help="number of rows")
        planned.add_argument(
            "--columns", type=int, required=command.width is None, metavar="D", help="number of columns"
        )
        command.add_parameters(planned)
        add_json(planned)
        planned.set_defaults(run=_plan, build=command.build, width=command.width or _columns)


def _add_release(commands: Any, command: ReleaseCommand) -> None:
    parser = commands.add_parser(command.name, help=command.help, description=command.description)
    parser.add_argument("file", type=Path, help="CSV or Parquet file with a header")
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
    parser.add_argument("--seed", type=int, help="simulate with this seed instead of releasing")
    parser.add_argument(
        "--budget", type=Path, metavar="LEDGER", help="charge this ledger (see 'dpstats budget')"
    )
    add_json(parser)
    draw = None
    if command.picture is not None:
        words, draw = command.picture
        add_plot(parser, words)
    parser.set_defaults(
        run=_release, read=command.read or _rows, build=command.build, report=command.report, draw=draw
    )


def _rows(options: argparse.Namespace) -> tuple[Any, ...]:
    return (read_table(options.file, options.column),)


def _columns(options: argparse.Namespace) -> int | None:
    return None


def _release(options: argparse.Namespace) -> None:
    """Fit what a command releases on the columns of a file, and report it."""
    from dpstats.data.parameters import check_real

    if options.seed is not None and options.budget is not None:
        raise InvalidParameter("--seed and --budget cannot be given together: a simulation charges no budget")
    if options.seed is not None and options.seed < 0:
        raise InvalidParameter(f"--seed must be a non-negative integer, got {options.seed}")
    if "confidence" in options:
        check_real("--confidence", options.confidence, above=0, below=1)
    picture = getattr(options, "plot", None)
    check_plot(picture)
    keep_apart(options, "file", "cov", "budget", "plot", "json")
    budget = ledger_budget(options.budget)
    with _naming(options.file):
        given = options.read(options)
    estimator = options.build(options, *given[0].shape)
    estimator.set_params(random_state=options.seed, budget=budget)
    # Opened before anything is charged, so that a path that cannot be written costs nothing.
    with opened("--plot", picture), output(options.json) as show:
        with _naming(options.file):
            estimator.fit(*given)
        table, facts = options.report(estimator, options)
        plan = estimator.plan_
        sizes = {"n_samples": plan.n_samples, "n_features": plan.n_features}
        named = {"estimator": type(estimator).__name__} | plan.facts()
        if picture is not None:
            options.draw(estimator, options).savefig(picture, dpi=150)
        show(table, named | sizes | {"privacy": guarantee_facts(estimator.privacy_)} | facts)


@contextlib.contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Say of which file a refusal is, and parameters by the names of their options."""
    try:
        yield
    except InvalidData as error:
        words = str(error).replace("missing='center'", "--missing center")
        words = words.replace("if None is declared", "if an empty one is declared: NAME=A,B,")
        raise InvalidData(f"{file.name}: {words}") from None


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
    known = options.width(options)
    if known is not None and options.columns is not None:
        raise InvalidParameter(f"--columns must not be given: by the other options there are {known} of them")
    if known is None and options.columns is None:
        raise InvalidParameter("--columns must be given: the number of columns")
    d = known or check_integer("--columns", options.columns, at_least=1, at_most=_MOST_COLUMNS)
    keep_apart(options, "cov", "json")
    estimator = options.build(options, n, d)
    plan = estimator.plan(n, d)
    facts = {
        "estimator": type(estimator).__name__,
        **plan.facts(),
        "n_samples": n,
        "n_features": d,
        "privacy": guarantee_facts(plan.guarantee),
        "selections": [stage.facts() for stage in plan.selections],
        "stages": [stage.facts() for stage in plan.stages if stage not in plan.selections],
    }
    text = f"{type(estimator).__name__}: {plan}"
    lines = [text, *(f"  {note}" for note in plan.notes() if note not in text)]
    with output(options.json) as show:
        show("\n".join(lines), facts)


def guarantee_facts(privacy: Any) -> dict[str, Any]:
    """Return a guarantee by the names of its parts."""
    unit = {} if privacy.unit == "row" else {"unit": privacy.unit}
    return {
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "neighbors": privacy.neighbors.name,
        "simulated": privacy.simulated,
        **unit,
    }


def estimates(names: Any, means: Any, errors: Any, interval: Any = None) -> list[dict[str, Any]]:
    """Return a record per column: estimate, noise, and the interval where there is one."""
    records: list[dict[str, Any]] = [
        {"name": str(name), "mean": value, "noise_std": error}
        for name, value, error in zip(names, means.tolist(), errors.tolist(), strict=True)
    ]
    if interval is not None:
        for record, low, high in zip(records, interval.low.tolist(), interval.high.tolist(), strict=True):
            record |= {"low": low, "high": high}
    return records
