"""The commands that release: what all of them share.

A command is its parameters, its estimator and its report; see `dpstats.cli.mean` for one.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpstats.cli.exits import epilog
from dpstats.cli.files import notice, opened, output
from dpstats.cli.input import InputTable, add_table, missing_words, text_format
from dpstats.cli.kept import until_delivered
from dpstats.cli.options import add_output, add_plot, check_plot, spell_notes, split_list
from dpstats.cli.samples import Target
from dpstats.cli.units import read_rows
from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter, LedgerError, show

if TYPE_CHECKING:
    from dpstats.results import Summary


class ReleaseCommand(NamedTuple):
    """A command that releases.

    Attributes
    ----------
    name, help, description : str
    add_parameters : callable
        Adds the arguments that release and plan share.
    build : callable
        (options, rows, columns) -> the estimator.
    report : callable
        (fitted estimator, options) -> the tables, and the facts of the JSON output. The notes of the first table are
        added to the facts.
    in_blocks : bool
        Whether the estimator computes sums, so that rows can be read block by block.
    all_columns : bool
        Whether a command without ``--column`` uses all columns. For Parquet, which declares types, it uses
        all columns of numbers.
    intervals : bool
        Whether the report has a confidence level.
    read : callable, optional
        (table, options) -> the arguments of a fit, rows first, if it needs more than the rows of
        ``--column``.
    width : callable, optional
        options -> the number of columns of a plan, if the options determine it, otherwise None.
    picture : (str, callable), optional
        Description of the figure of ``--plot``, and (fitted estimator, options) -> the figure.
    target : Target, optional
        Target for which ``plan samples`` finds a number of rows.
    add_answers : callable, optional
        Adds the arguments that only a release has, such as questions about the result.
    """

    name: str
    help: str
    description: str
    add_parameters: Callable[[argparse.ArgumentParser], None]
    build: Callable[[argparse.Namespace, int, int], Any]
    report: Callable[[Any, argparse.Namespace], tuple[Sequence[Summary], dict[str, Any]]]
    in_blocks: bool = False
    all_columns: bool = False
    intervals: bool = True
    read: Callable[[InputTable, argparse.Namespace], tuple[Any, ...]] | None = None
    width: Callable[[argparse.Namespace], int | None] | None = None
    picture: tuple[str, Callable[[Any, argparse.Namespace], Any]] | None = None
    target: Target | None = None
    add_answers: Callable[[argparse.ArgumentParser], None] | None = None


def add_release(commands: Any, command: ReleaseCommand) -> None:
    """Add a command that releases."""
    parser = commands.add_parser(
        command.name, help=command.help, description=command.description, epilog=epilog()
    )
    add_table(parser)
    parser.add_argument(
        "--column",
        action="append",
        required=not command.all_columns and command.read is None,
        metavar="NAME",
        help="column to use; repeatable"
        + (" (default: all, which have to be numbers)" if command.all_columns else ""),
    )
    if command.intervals:
        parser.add_argument(
            "--confidence",
            type=float,
            default=0.95,
            metavar="P",
            help="confidence level of the intervals (default: 0.95)",
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
        width=command.width or (lambda options: None),
        draw=draw,
    )


def add_charge(parser: argparse.ArgumentParser) -> None:
    """Add who pays for a release, or that it is none."""
    charge = parser.add_argument_group("who pays")
    charge.add_argument(
        "--budget",
        type=Path,
        metavar="LEDGER",
        help="charge this ledger, and keep the result until it was delivered",
    )
    charge.add_argument("--label", metavar="TEXT", help="what the charge is for, in the ledger's history")
    charge.add_argument(
        "--seed", type=int, metavar="N", help="simulate with this seed; charges nothing, and is not private"
    )


def check_charge(options: argparse.Namespace) -> None:
    """Refuse what does not go together of `add_charge`."""
    if options.seed is not None and options.budget is not None:
        raise InvalidParameter("--seed and --budget cannot be given together: a simulation charges no budget")
    if options.seed is not None and options.seed < 0:
        raise InvalidParameter(f"--seed must be a non-negative integer, got {options.seed}")
    if options.label is not None and options.budget is None:
        raise InvalidParameter("--label needs --budget, whose charge it names")


def _rows(table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
    return (table.rows(options.column),) if options.unit is None else _of_units(table, options)


def _frame(table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
    return (table.frame(options.column),) if options.unit is None else _of_units(table, options)


def _of_units(table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
    if not options.column:
        raise InvalidParameter("--unit needs --column, once for each column whose entries are averaged")
    return (read_rows(table, options, dict.fromkeys(options.column, "mean")),)


def _release(options: argparse.Namespace) -> None:
    """Fit what a command releases on the columns of a table, and report it."""
    from dpstats.data.parameters import check_real

    check_charge(options)
    if "confidence" in options:
        check_real("--confidence", options.confidence, above=0, below=1)
    picture = getattr(options, "plot", None)
    check_plot(picture)
    _check_missing_words(options)
    budget = ledger_budget(options.budget)
    if budget is not None and budget.remaining.epsilon <= 0:
        # Before the rows are counted: a file that cannot be read would say something about it.
        raise BudgetExceeded(
            f"--budget must name a ledger with a budget that remains, got {options.budget}, which is spent. "
            "Nothing was charged. Make another ledger with 'dpstats budget new'."
        )
    table = InputTable(options, partial(_check_budget, options, budget))
    with _naming(table, options):
        given = options.read(table, options)
    estimator = options.build(options, *given[0].shape)
    what = charge_label(options, table.read)
    if budget is not None:
        budget = budget.labelled(what)
    estimator.set_params(random_state=options.seed, budget=budget)
    if "missing_codes" in estimator.get_params():
        estimator.set_params(missing_codes=missing_words(options) or None)
    # Opened before anything is charged, so that a path that cannot be written costs nothing.
    with opened("--plot", picture), delivering(options, what) as show:
        with _naming(table, options):
            estimator.fit(*given)
        tables, facts = options.report(estimator, options)
        tables = [spell_notes(table, options) for table in tables]
        plan = estimator.plan_
        sizes = {} if plan.has_private_size else {"n_samples": plan.n_samples}
        sizes["n_features"] = plan.n_features
        named = {"estimator": type(estimator).__name__} | plan.facts()
        facts = named | sizes | {"privacy": estimator.privacy_.to_dict()} | facts
        facts |= {"notes": list(tables[0].notes), "plan": plan_facts(plan)}
        show("\n\n".join(map(str, tables)), facts)
        if picture is not None:
            options.draw(estimator, options).savefig(picture, dpi=150)


def _check_missing_words(options: argparse.Namespace) -> None:
    """Refuse words that mean missing where a missing entry is an error. It would say whether a word is in the table."""
    if options.na_values is None:
        return
    codes = text_format(options).missing
    for option, label in _declared_labels(options):
        if label and codes.matches(label):
            raise InvalidParameter(
                f"--na-values must not have a declared label, got {show(label)} in {option}. No row could have it."
            )
    for policy in ("missing", "unknown"):
        if getattr(options, policy, None) == "error":
            raise InvalidParameter(
                f"--na-values cannot be given with --{policy} error, got {show(options.na_values)}: an error would say "
                f"that one of these words is in the table. Give another --{policy}."
            )
    if "missing" not in options and "unknown" not in options:
        raise InvalidParameter(
            f"--na-values cannot be given for {options.command}, which refuses missing entries, got "
            f"{show(options.na_values)}. Replace these words in the table."
        )


def _declared_labels(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield the labels that options declare, with the name of their option."""
    for name in ("groups", "categories"):
        if isinstance(text := getattr(options, name, None), str):
            yield from ((f"--{name}", label) for label in split_list(text))
    for text in getattr(options, "levels", None) or []:
        yield from (("--levels", label) for label in split_list(text.partition("=")[2]))
    for text in getattr(options, "column", None) or []:
        yield "--column", text.partition("=")[2]


def _check_budget(options: argparse.Namespace, budget: Any, n: int, d: int) -> None:
    """Raise an error if the budget cannot pay for a release of this size, before any entry is read."""
    if budget is None:
        return
    unit = getattr(options, "unit", None)
    # How many units there are is known only when their rows are put together: at most one for each row. The
    # column of their names is none of the numbers.
    n, d = max(n, 2), options.width(options) or (d if unit is None else max(d - 1, 1))
    plan = options.build(options, n, d).plan(n, d)
    budget.check(plan if unit is None else plan.for_data(unit, simulated=False))


@contextlib.contextmanager
def delivering(options: argparse.Namespace, what: str) -> Iterator[Any]:
    """Open the output of a result, and yield the function that shows it.

    Charged results are stored until shown.

    ``what`` is the label of the charge.
    """

    def warn(text: str) -> None:
        notice(options, text)

    with output(options) as show, until_delivered(options.budget, what, warn) as delivery:
        if delivery is None:
            yield show
            return

        def show_kept(text: Any, facts: dict[str, Any]) -> None:
            delivery.report(str(text), facts)
            show(text, facts)

        yield show_kept


def private_size(estimator: Any, confidence: float) -> dict[str, Any]:
    """Return the released number of rows and its interval, if it is private."""
    if not hasattr(estimator, "n_"):
        return {}
    low, high = estimator.n_interval(confidence)
    return {"n": estimator.n_, "n_noise_std": estimator.n_noise_std_, "n_low": low, "n_high": high}


def charge_label(options: argparse.Namespace, what: str) -> str:
    """Return the label of a charge: the given label, and the public names of the table and columns."""
    return what if options.label is None else f"{options.label}: {what}"


@contextlib.contextmanager
def _naming(table: InputTable, options: argparse.Namespace) -> Iterator[None]:
    """Add the table to an error."""
    try:
        yield
    except InvalidData as error:
        from dpstats.data.words import NO_NUMBER

        words = str(error).replace("if None is declared", "if an empty one is declared: NAME=A,B,")
        if words.endswith(NO_NUMBER):
            words += ". Remove units and thousands separators, or declare words for missing entries with --na-values"
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


def plan_facts(plan: Any) -> dict[str, Any]:
    """Return the stages of a plan: its selections, and all other stages."""
    facts = plan.to_dict()
    return {key: facts[key] for key in ("selections", "stages")}


def estimates(
    names: Any, means: Any, errors: Any, interval: Any = None, stds: Any = None
) -> list[dict[str, Any]]:
    """Return a record per column: estimate, noise, and optionally the interval and the standard deviation."""
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
