"""The ``dpstats`` command: private answers from files, in tables or JSON.

A file for each command, or family of commands: its arguments beside what it does. Only parsing is
loaded at the start; what a command needs loads when it runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from dpstats import __version__
from dpstats.cli.audit import add_audit
from dpstats.cli.budget import add_budget
from dpstats.cli.demo import add_demo
from dpstats.cli.group_means import GROUP_MEANS
from dpstats.cli.histogram import HISTOGRAM
from dpstats.cli.identity_test import IDENTITY_TEST
from dpstats.cli.mean import MEAN
from dpstats.cli.options import Parser, one_line, plain_number
from dpstats.cli.proportion import PROPORTION
from dpstats.cli.quantile import QUANTILE
from dpstats.cli.regress import REGRESS
from dpstats.cli.release import add_releases
from dpstats.cli.simulate import add_simulate
from dpstats.cli.sparse_mean import SPARSE_MEAN
from dpstats.cli.sql import add_sql
from dpstats.cli.table import TABLE
from dpstats.errors import DPStatsError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 2 after one clear line about bad input (130 if interrupted)."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args([plain_number(word) for word in given])
    message, status = "", 2
    try:
        options.run(options)
        return 0
    except (DPStatsError, OSError) as error:
        message = str(error)
    except MemoryError:
        message = "not enough memory"
    except KeyboardInterrupt:
        message, status = "interrupted", 130  # as shells count a SIGINT
    print(f"dpstats {options.command}: {one_line(message)}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="dpstats", description="Private statistical inference.")
    parser.add_argument("--version", action="version", version=f"dpstats {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    # In the order of the help.
    add_demo(commands)
    add_releases(
        commands,
        (MEAN, SPARSE_MEAN, GROUP_MEANS, PROPORTION, TABLE, HISTOGRAM, QUANTILE, REGRESS, IDENTITY_TEST),
    )
    add_sql(commands)
    add_audit(commands)
    add_simulate(commands)
    add_budget(commands)
    return parser
