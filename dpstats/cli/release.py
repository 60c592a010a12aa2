"""The commands that release, and their plans. A command is a class of its options, its estimator and its report."""

from __future__ import annotations

import argparse
import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dpstats.cli.options import (
    add_options,
    add_output,
    add_plot,
    add_privacy,
    check_plot,
    given,
    in_options,
    per_column,
    refuse_both,
    spell_notes,
    split_list,
)
from dpstats.cli.output import epilog, notice, opened, output, until_delivered
from dpstats.cli.tables import InputTable, add_table, add_unit, missing_words, read_rows, text_format
from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter, LedgerError, refuse, show

if TYPE_CHECKING:
    from dpstats.inference.results import Summary

# Targets of `dpstats plan samples`: an error, or the power of a test

Build = Callable[[argparse.Namespace, int, int], Any]
"""(options, rows, columns) -> the estimator."""


class Found(NamedTuple):
    """The estimator and its required number of rows, as text and as facts of the JSON output."""

    estimator: Any
    rows: int
    words: str
    facts: dict[str, Any]


class Target(Protocol):
    """The target of a required number of rows, an error or a power, and the options for its size."""

    @property
    def help(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> str: ...

    def find(self, options: argparse.Namespace, d: int, build: Build) -> Found:
        """Return the required number of rows for a number of columns."""


class ErrorTarget(NamedTuple):
    """An error that the plan has a formula for.

    Attributes
    ----------
    words : str
        Quantity that has the error.
    share : callable
        (options, columns) -> the number of numbers in the sum of the expected error of the plan.
    """

    words: str
    share: Callable[[argparse.Namespace, int], int]

    @property
    def help(self) -> str:
        return f"rows for an error {self.words}"

    @property
    def description(self) -> str:
        return (
            f"Find the smallest number of rows at which the root mean square error {self.words} is at most "
            "--target-error, by the plan's own expected error."
        )

    @property
    def parameters(self) -> str:
        return f"""
    --target-error E, float, required
        root mean square error {self.words}, in its units
    --spread S, float, repeated
        standard deviation that rows are taken to have, once or once per column: for planning only (default: what the
        plan says of it)
    """

    def find(self, options: argparse.Namespace, d: int, build: Build) -> Found:
        from dpstats.data.parameters import check_real
        from dpstats.means import required_samples

        target = check_real("--target-error", options.target_error, above=0)
        spread = None if options.spread is None else per_column("--spread", options.spread, d)
        share = self.share(options, d)
        # The estimator depends on columns and parameters only, so any number of rows builds the same one.
        estimator = build(options, 2, d)
        try:
            n = required_samples(estimator, d, share * target**2, spread)
        except InvalidParameter as error:
            if not str(error).startswith("target_error"):
                raise
            raise refuse(
                "--target-error",
                allowed="be reached by 2^32 rows, the most that are added up exactly",
                remedy="'dpstats plan' says the noise there.",
            ) from None
        plan = estimator.plan(n, d)
        reached = math.sqrt(plan.expected_error(spread) / share)
        words = f"{n:,} rows, for a root mean square error {self.words} of {reached:.4g}"
        if spread is None and plan.expected_error(0.0) == plan.expected_error():
            words += "\n  of the noise alone: --spread adds the sampling error"
        return Found(estimator, n, words, {"rows": n, "root_mean_square_error": reached})


class PowerTarget(NamedTuple):
    """The power of an identity test, by simulation.

    Attributes
    ----------
    chosen : callable
        (rows, columns, options) -> the value of ``--test`` that "auto" stands for.
    """

    chosen: Callable[[int, int, argparse.Namespace], str]

    @property
    def help(self) -> str:
        return "rows for the power of the test"

    @property
    def description(self) -> str:
        return (
            "Find, to within 2%, how many rows the test needs to reject with probability --power where the mean is "
            "--distance off, by simulation of public numbers: no data are read."
        )

    @property
    def parameters(self) -> str:
        return """
    --distance A, float, required
        Mahalanobis distance of the rows' mean from --mean: of one column, in its standard deviations
    --power P, float, default 0.8
        probability to reject at that distance (default: 0.8)
    --direction {dense,sparse}, default dense
        where the mean lies: off in all columns alike (default), or in the first alone
    --simulations N, int, default 1000
        datasets of each size that is tried (default: 1000)
    --max-seconds S, float, default 3600
        of one core: a search that would take longer is refused (default: 3600)
    """

    def find(self, options: argparse.Namespace, d: int, build: Build) -> Found:
        if options.test == "auto" and options.rho is not None:
            raise refuse(
                "--rho",
                allowed="be given with --test row-distance only",
                remedy="Which test 'auto' is depends on the number of rows.",
            )

        def search(name: str) -> tuple[Any, int]:
            test = build(argparse.Namespace(**{**vars(options), "test": name}), 2, d)
            own = given(options, "direction max_seconds", n_simulations="simulations")
            return test, test.required_samples(options.distance, d, options.power, **own)

        # "auto" chooses a test by the number of rows, which is the unknown here. Start with the test that is
        # quick to simulate. If "auto" selects another test for the result, search again with this test, which
        # needs fewer rows.
        named = self.chosen(2**32, d, options) if options.test == "auto" else options.test
        test, n = search(named)
        if options.test == "auto" and (other := self.chosen(n, d, options)) != named:
            better = search(other)
            if self.chosen(better[1], d, options) == other:
                test, n = better
        words = (
            f"{n:,} rows, for power {options.power:g} at distance {options.distance:g} "
            f"({options.direction}), to within 2%"
        )
        facts = given(options, "distance power direction simulations")
        return Found(test, n, words, {"rows": n, **facts})


# Commands that release

_CONFIDENCE = """
    --confidence P, float, default 0.95
        confidence level of the intervals (default: 0.95)
"""


class ReleaseCommand:
    """A command that releases.

    Attributes
    ----------
    name, help, description : str
    kinds : str
        Shared options. A call has exactly one of them. Empty: there are none.
    parameters : str
        The options that release and plan share, as `add_options` reads them.
    unit : str
        Summary of the rows of a unit. Empty for a command with another ``--unit``, or none.
    delta : float, optional
        Default of ``--delta``. None for a command with another ``--delta``, or none.
    missing : tuple of str
        Choices of ``--missing``.
    neighbors : bool
        Whether the command has ``--neighbors``.
    answers : str
        The options that only a release has, such as questions about the result.
    picture : str
        Content of ``--plot``. Empty for a command without a picture.
    in_blocks : bool
        Whether the estimator computes sums, so that rows can be read block by block.
    all_columns : bool
        Whether a command without ``--column`` uses all columns: of Parquet, which declares types, all numeric ones.
    names_columns : bool
        Whether columns may have other options than ``--column``.
    intervals : bool
        Whether ``--confidence`` is the usual one.
    target : Target, optional
        Target for which ``plan samples`` finds a number of rows.
    """

    name: str
    help: str
    description: str
    kinds = ""
    parameters = ""
    unit = ""
    delta: float | None = None
    missing: tuple[str, ...] = ()
    neighbors = False
    answers = ""
    picture = ""
    in_blocks = False
    all_columns = False
    names_columns = False
    intervals = True
    target: Target | None = None

    def build(self, options: argparse.Namespace, n: int, d: int) -> Any:
        """Return the estimator for a number of rows and of columns."""
        raise TypeError(f"{type(self).__name__} does not define build")

    def report(self, model: Any, options: argparse.Namespace) -> tuple[Sequence[Summary], dict[str, Any]]:
        """Return the tables of a fit, and the facts of the JSON output. Notes of the first table are added to these."""
        raise TypeError(f"{type(self).__name__} does not define report")

    def read(self, table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
        """Return the arguments of a fit, rows first."""
        if options.unit is None:
            return (table.rows(options.column) if self.in_blocks else table.frame(options.column),)
        if not options.column:
            raise refuse("--unit", allowed="be given with --column, once for each column whose entries are averaged")
        return (read_rows(table, options, dict.fromkeys(options.column, "mean")),)

    def width(self, options: argparse.Namespace) -> int | None:
        """Return the number of columns of a plan, if the options determine it."""
        return None

    @property
    def needs_columns(self) -> bool:
        """Whether a plan must be given a number of columns."""
        return type(self).width is ReleaseCommand.width

    def draw(self, model: Any, options: argparse.Namespace) -> Any:
        """Return the figure of ``--plot``."""
        raise TypeError(f"{type(self).__name__} does not define draw")

    def add_parameters(self, parser: argparse.ArgumentParser) -> None:
        """Add the options that release and plan share."""
        if self.kinds:
            add_options(parser.add_mutually_exclusive_group(required=True), self.kinds)
        add_options(parser, self.parameters)
        if self.unit:
            add_unit(parser, self.unit)
        add_privacy(parser, self.delta, missing=self.missing, neighbors=self.neighbors)

    def add(self, commands: Any) -> None:
        """Add the command."""
        parser = commands.add_parser(self.name, help=self.help, description=self.description, epilog=epilog())
        add_table(parser)
        required = "" if self.all_columns or self.names_columns else ", required"
        every = " (default: all, which have to be numbers)" if self.all_columns else ""
        add_options(parser, f"    --column NAME, repeated{required}\n        column to use; repeatable{every}")
        if self.intervals:
            add_options(parser, _CONFIDENCE)
        self.add_parameters(parser)
        add_options(parser, self.answers)
        add_charge(parser)
        if self.picture:
            add_plot(parser, self.picture)
        add_output(parser)
        parser.set_defaults(run=self.run)

    def run(self, options: argparse.Namespace) -> None:
        """Fit the estimator on the columns of a table, and report it."""
        from dpstats.data.parameters import check_real

        check_charge(options)
        if "confidence" in options:
            check_real("--confidence", options.confidence, above=0, below=1)
        picture = getattr(options, "plot", None)
        check_plot(picture)
        _check_missing_words(options)
        budget = ledger_budget(options.budget, options.once)
        if budget is not None and budget.find_kept() is None and budget.remaining.epsilon <= 0:
            # Before the rows are counted: a file that cannot be read would say something about it.
            raise BudgetExceeded(
                f"--budget must name a ledger with a budget that remains, got {options.budget}, which is spent. "
                "Nothing was charged. Make another ledger with 'dpstats budget new'."
            )
        table = InputTable(options, partial(self._check_budget, options, budget))
        with _naming(table, options):
            given = self.read(table, options)
        estimator = self.build(options, *given[0].shape)
        what = charge_label(options, table.read)
        if budget is not None:
            budget = budget.labelled(what)
        estimator.set_params(random_state=options.seed, budget=budget)
        if "missing_codes" in estimator.get_params():
            estimator.set_params(missing_codes=missing_words(options) or None)
        # Opened before anything is charged, so that a path that cannot be written costs nothing.
        with opened("--plot", picture), delivering(options, what, budget) as show:
            with _naming(table, options):
                estimator.fit(*given)
            tables, facts = self.report(estimator, options)
            tables = [spell_notes(table, options) for table in tables]
            plan = estimator.plan_
            sizes = {} if plan.has_private_size else {"n_samples": plan.n_samples}
            sizes["n_features"] = plan.n_features
            named = {"estimator": type(estimator).__name__} | plan.facts()
            facts = named | sizes | {"privacy": estimator.privacy_.to_dict()} | facts
            facts |= {"notes": list(tables[0].notes), "plan": plan_facts(plan)}
            show("\n\n".join(map(str, tables)), facts)
            if picture is not None:
                self.draw(estimator, options).savefig(picture, dpi=150)

    def _check_budget(self, options: argparse.Namespace, budget: Any, n: int, d: int) -> None:
        """Raise an error if the budget cannot pay for a release of this size, before any entry is read."""
        if budget is None:
            return
        unit = getattr(options, "unit", None)
        # How many units there are is known only when their rows are put together: at most one for each row. The
        # column of their names is none of the numbers.
        n, d = max(n, 2), self.width(options) or (d if unit is None else max(d - 1, 1))
        plan = self.build(options, n, d).plan(n, d)
        budget.check(plan if unit is None else plan.for_data(unit, simulated=False))


# Charges


def add_charge(parser: argparse.ArgumentParser) -> None:
    """Add who pays for a release, or that it is none."""
    text = """
    --budget LEDGER, path
        ledger to charge, which keeps the result until delivery
    --once KEY
        charge once per key: later runs show the kept answer
    --label TEXT
        purpose, in the ledger's history
    --seed N, int
        simulate with this seed; charges nothing, and is not private
    """
    add_options(parser.add_argument_group("who pays"), text)


def check_charge(options: argparse.Namespace) -> None:
    """Refuse what does not go together of `add_charge`."""
    if options.seed is not None and options.budget is not None:
        raise refuse_both("--seed", "--budget", "A simulation charges no budget.")
    if options.seed is not None and options.seed < 0:
        raise refuse("--seed", given=options.seed, allowed="a non-negative integer")
    for name, words in (("label", "whose charge it names"), ("once", "which keeps the answer")):
        if getattr(options, name) is not None and options.budget is None:
            raise refuse(f"--{name}", allowed=f"be given with --budget, {words}")


def charge_label(options: argparse.Namespace, what: str) -> str:
    """Return the label of a charge: the given label, and the public names of the table and columns."""
    return what if options.label is None else f"{options.label}: {what}"


def ledger_budget(ledger: Path | None, key: str | None = None) -> Any:
    """Return the budget of a ledger, if one is given, for a key of ``--once``."""
    from dpstats.privacy import PrivacyBudget

    if ledger is None:
        return None
    try:
        budget = PrivacyBudget.open(ledger)
        return budget if key is None else budget.once(key)
    except LedgerError as error:
        raise LedgerError(f"--budget must name a ledger (see 'dpstats budget new'): {error}") from None


@contextlib.contextmanager
def delivering(options: argparse.Namespace, what: str, budget: Any = None) -> Iterator[Any]:
    """Open the output of a result, and yield the function that shows it. Charged results are stored until shown.

    ``what`` is the label of the charge, and ``budget`` pays it.
    """
    warn, start = partial(notice, options), time.time()
    with output(options) as show, until_delivered(options.budget, what, warn) as delivery:
        if delivery is None:
            yield show
            return

        def show_kept(text: Any, facts: dict[str, Any]) -> None:
            delivery.report(str(text), facts)
            show(text, facts)
            _note_repeat(options, budget, start)

        yield show_kept


def _note_repeat(options: argparse.Namespace, budget: Any, start: float) -> None:
    """Note on standard error that the same charge was made within a day. The result is delivered already."""
    from dpstats.privacy.kept_answers import moment

    with contextlib.suppress(LedgerError):
        before = budget.find_repeat(start)
        if before is not None:
            notice(
                options,
                f"the same release was charged at {moment(before)}, too, and both charges stand. With --once KEY a "
                "repeated command is charged once.",
            )


# Words that mean a missing entry


def _check_missing_words(options: argparse.Namespace) -> None:
    """Refuse words that mean missing where a missing entry is an error. It would say whether a word is in the table."""
    if options.na_values is None:
        return
    codes = text_format(options).missing
    for option, label in _declared_labels(options):
        if label and codes.matches(label):
            remedy = "No row could have it."
            got = f"{show(label)} in {option}"
            raise refuse("--na-values", got=got, allowed="not have a declared label", remedy=remedy)
    for policy in ("missing", "unknown"):
        if getattr(options, policy, None) == "error":
            raise refuse(
                "--na-values",
                given=options.na_values,
                allowed=f"not be given with --{policy} error",
                remedy=f"An error would say that one of these words is in the table. Give another --{policy}.",
            )
    if "missing" not in options and "unknown" not in options:
        allowed = f"not be given for {options.command}, which refuses missing entries"
        remedy = "Replace these words in the table."
        raise refuse("--na-values", given=options.na_values, allowed=allowed, remedy=remedy)


def _declared_labels(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield the labels that options declare, with the name of their option."""
    for name in ("groups", "categories"):
        if isinstance(text := getattr(options, name, None), str):
            yield from ((f"--{name}", label) for label in split_list(text))
    for text in getattr(options, "levels", None) or []:
        yield from (("--levels", label) for label in split_list(text.partition("=")[2]))
    for text in getattr(options, "column", None) or []:
        yield "--column", text.partition("=")[2]


@contextlib.contextmanager
def _naming(table: InputTable, options: argparse.Namespace) -> Iterator[None]:
    """Add the table to an error."""
    try:
        yield
    except InvalidData as error:
        from dpstats.data.duckdb_rows import CHOOSE_COLUMNS
        from dpstats.data.values import NO_NUMBER

        words = in_options(error, options).replace("if None is declared", "if an empty one is declared: NAME=A,B,")
        words = words.removesuffix(f". {CHOOSE_COLUMNS}")
        if words.endswith(NO_NUMBER):
            words += ". Remove units, thousands separators and decimal commas, or declare words for missing entries "
            words += "with --na-values"
        raise InvalidData(words if words.startswith(table.name) else f"{table.name}: {words}") from None


# Facts of the JSON output


def plan_facts(plan: Any) -> dict[str, Any]:
    """Return the stages of a plan: its selections, and all other stages."""
    facts = plan.to_dict()
    return {key: facts[key] for key in ("selections", "stages")}


def private_size(estimator: Any, confidence: float) -> dict[str, Any]:
    """Return the released number of rows and its interval, if it is private."""
    if not hasattr(estimator, "n_"):
        return {}
    low, high = estimator.n_interval(confidence)
    return {"n": estimator.n_, "n_noise_std": estimator.n_noise_std_, "n_low": low, "n_high": high}


def estimates(names: Any, means: Any, errors: Any, interval: Any = None, stds: Any = None) -> list[dict[str, Any]]:
    """Return a record per column: estimate, noise, and optionally the interval and the standard deviation."""
    columns = {"name": map(str, names), "mean": means.tolist(), "noise_std": errors.tolist()}
    if interval is not None:
        columns |= {"low": interval.low.tolist(), "high": interval.high.tolist()}
    if stds is not None:
        columns["std"] = stds.tolist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


# Plans

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
    options: argparse.Namespace, estimator: Any, n: int, d: int, before: str = "", found: dict[str, Any] | None = None
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
