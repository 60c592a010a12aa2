"""The ``dpstats`` command: private answers from files, in tables or JSON.

A file for each command, or family of commands: its arguments beside what it does. Only parsing is
loaded at the start; what a command needs loads when it runs.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from dpstats import __version__
from dpstats.cli.doctor import OPTIONAL, add_demo, add_doctor, add_simulate
from dpstats.cli.groups import GroupMeansCommand, HistogramCommand, KsCommand, SurvivalCommand, TableCommand
from dpstats.cli.mean import BoundsCommand, MeanCommand, ProportionCommand, QuantileCommand, SparseMeanCommand
from dpstats.cli.options import Parser, defer, in_options, join_lists, one_line
from dpstats.cli.output import EXITS, as_json, epilog, json_schema, keep_apart, status_of, tell, tell_error
from dpstats.cli.regress import ConformalCommand, IdentityTestCommand, RegressCommand, StatisticCommand
from dpstats.cli.release import ReleaseCommand, add_plans
from dpstats.cli.sql_and_ledgers import add_audit, add_budget, add_sql, add_verify
from dpstats.errors import DPStatsError, state_charges


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status (see `dpstats.cli.output`); bad input is one clear line."""
    if arguments is None:
        # The process is the command's own.
        defer("asyncio", "numpy.f2py", "numpy.testing", "pandas")
        defer("scipy.fft", "scipy.optimize", "scipy.signal", "scipy.stats")
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(join_lists(given))
    try:
        return _run(options)
    except tuple(kind for found in EXITS for kind in found.errors) as error:
        failure: BaseException = error
    except DPStatsError as error:
        failure = error
    words = ". ".join([_message(failure, options), *getattr(failure, "__notes__", [])])
    tell_error(f"dpstats {options.command}: {one_line(words)}")
    return status_of(failure)


@state_charges
def _run(options: argparse.Namespace) -> int:
    """Run a command. An error after its charge is a `ChargedError`, which states the charge."""
    keep_apart(options)
    with quiet(options.quiet):
        return options.run(options) or 0


def _message(error: BaseException, options: argparse.Namespace) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, ModuleNotFoundError) and (extra := OPTIONAL.get(error.name or "")):
        return f"this needs the package {error.name}: pip install 'dpstats[{extra}]'"
    return in_options(error, options)


# The order of commands in the help text
RELEASES: tuple[ReleaseCommand, ...] = (
    *(MeanCommand(), SparseMeanCommand(), GroupMeansCommand(), ProportionCommand(), TableCommand(), SurvivalCommand()),
    *(HistogramCommand(), QuantileCommand(), BoundsCommand(), RegressCommand(), StatisticCommand(), KsCommand()),
    *(ConformalCommand(), IdentityTestCommand()),
)


@contextlib.contextmanager
def quiet(wanted: bool) -> Iterator[None]:
    """Silence what the package logs: that it waits for a ledger."""
    if not wanted:
        yield
        return
    import logging

    logger = logging.getLogger("dpstats")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


class _PrintSchema(argparse.Action):
    """Prints the schema of the JSON output."""

    def __call__(self, parser: argparse.ArgumentParser, *arguments: Any, **options: Any) -> None:
        tell(as_json(json_schema()))
        parser.exit()


@cache
def _parser() -> argparse.ArgumentParser:
    # A caller of many commands needs one.
    parser = Parser(
        prog="dpstats",
        description="Private statistical inference: answers from private tables, with noise that protects every row, "
        "and intervals that count it.",
        epilog=epilog(),
    )
    parser.add_argument("--version", action="version", version=f"dpstats {__version__}")
    parser.add_argument("--json-schema", action=_PrintSchema, nargs=0, help="print the schema of --json, and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    # The order of commands in the help text
    add_demo(commands)
    plans = add_plans(commands, RELEASES)
    for release in RELEASES:
        release.add(commands)
    add_sql(commands, plans)
    add_audit(commands)
    add_simulate(commands)
    add_budget(commands)
    add_doctor(commands)
    add_verify(commands)
    return parser
