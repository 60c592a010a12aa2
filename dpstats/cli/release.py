"""The commands that release: what all of them share.

A command is a class of its options, its estimator and its report; see `dpstats.cli.mean` for one.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpstats.cli.exits import epilog
from dpstats.cli.files import notice, opened, output
from dpstats.cli.input import InputTable, add_table, missing_words, text_format
from dpstats.cli.options import (
    add_options,
    add_output,
    add_plot,
    add_privacy,
    check_plot,
    in_options,
    refuse_both,
    spell_notes,
    split_list,
)
from dpstats.cli.undelivered import until_delivered
from dpstats.cli.units import add_unit, read_rows
from dpstats.errors import BudgetExceeded, InvalidData, LedgerError, refuse, show

if TYPE_CHECKING:
    from dpstats.cli.samples import Target
    from dpstats.results import Summary

_CONFIDENCE = """
    --confidence P, float, default 0.95
        confidence level of the intervals (default: 0.95)
"""


class ReleaseCommand:
    """A command that releases.

    Attributes
    ----------
    name, help, description : str
    parameters : str
        The options that release and plan share, as `add_options` reads them.
    unit : str
        What is kept of the rows of a unit. Empty for a command with another ``--unit``, or none.
    delta : float, optional
        Default of ``--delta``. None for a command with another ``--delta``, or none.
    missing : tuple of str
        Choices of ``--missing``.
    neighbors : bool
        Whether the command has ``--neighbors``.
    answers : str
        The options that only a release has, such as questions about the result.
    picture : str
        What ``--plot`` draws. Empty for a command without a picture.
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
        raise NotImplementedError

    def report(self, model: Any, options: argparse.Namespace) -> tuple[Sequence[Summary], dict[str, Any]]:
        """Return the tables of a fit, and the facts of the JSON output. Notes of the first table are added to these."""
        raise NotImplementedError

    def read(self, table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
        """Return the arguments of a fit, rows first."""
        if options.unit is None:
            return (table.rows(options.column) if self.in_blocks else table.frame(options.column),)
        if not options.column:
            raise refuse(
                "--unit", allowed="be given with --column, once for each column whose entries are averaged"
            )
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
        raise NotImplementedError

    def add_parameters(self, parser: argparse.ArgumentParser) -> None:
        """Add the options that release and plan share."""
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
        add_options(
            parser, f"    --column NAME, repeated{required}\n        column to use; repeatable{every}"
        )
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
        budget = ledger_budget(options.budget)
        if budget is not None and budget.remaining.epsilon <= 0:
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
        with opened("--plot", picture), delivering(options, what) as show:
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
        charge this ledger, and keep the result until it was delivered
    --label TEXT
        what the charge is for, in the ledger's history
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
    if options.label is not None and options.budget is None:
        raise refuse("--label", allowed="be given with --budget, whose charge it names")


def charge_label(options: argparse.Namespace, what: str) -> str:
    """Return the label of a charge: the given label, and the public names of the table and columns."""
    return what if options.label is None else f"{options.label}: {what}"


def ledger_budget(ledger: Path | None) -> Any:
    """Return the budget of a ledger, if one is given."""
    from dpstats.privacy import PrivacyBudget

    if ledger is None:
        return None
    try:
        return PrivacyBudget.open(ledger)
    except LedgerError as error:
        raise LedgerError(f"--budget must name a ledger (see 'dpstats budget new'): {error}") from None


@contextlib.contextmanager
def delivering(options: argparse.Namespace, what: str) -> Iterator[Any]:
    """Open the output of a result, and yield the function that shows it. Charged results are stored until shown.

    ``what`` is the label of the charge.
    """
    warn = partial(notice, options)
    with output(options) as show, until_delivered(options.budget, what, warn) as delivery:
        if delivery is None:
            yield show
            return

        def show_kept(text: Any, facts: dict[str, Any]) -> None:
            delivery.report(str(text), facts)
            show(text, facts)

        yield show_kept


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
        from dpstats.data.words import NO_NUMBER

        words = in_options(error, options).replace(
            "if None is declared", "if an empty one is declared: NAME=A,B,"
        )
        if words.endswith(NO_NUMBER):
            words += ". Remove units and thousands separators, or declare words for missing entries with --na-values"
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


def estimates(
    names: Any, means: Any, errors: Any, interval: Any = None, stds: Any = None
) -> list[dict[str, Any]]:
    """Return a record per column: estimate, noise, and optionally the interval and the standard deviation."""
    columns = {"name": map(str, names), "mean": means.tolist(), "noise_std": errors.tolist()}
    if interval is not None:
        columns |= {"low": interval.low.tolist(), "high": interval.high.tolist()}
    if stds is not None:
        columns["std"] = stds.tolist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
