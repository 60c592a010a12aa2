"""``dpstats statistic``: a private interval for what a Python function computes of rows."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from typing import Any

from dpstats.cli.input import InputTable
from dpstats.cli.options import add_privacy, check_ends
from dpstats.cli.release import ReleaseCommand
from dpstats.errors import InvalidParameter, show


def _add_parameters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--function",
        required=True,
        metavar="MODULE:NAME",
        help="a Python function in an importable module, or in MODULE.py of the current folder; it takes a data frame "
        "of a block of rows, and returns a number (or --outputs numbers) that depends on this block alone",
    )
    parser.add_argument(
        "--outcome", metavar="NAME", help="column that the function is given as its second argument"
    )
    parser.add_argument(
        "--bounds",
        nargs=2,
        type=float,
        default=[-100.0, 100.0],
        metavar=("LO", "HI"),
        help="public bounds of the values of blocks, on the scale of --link; wide ones cost little (default: -100 100)",
    )
    parser.add_argument("--outputs", type=int, default=1, metavar="K", help="how many numbers it returns")
    parser.add_argument("--blocks", type=int, metavar="B", help="number of blocks (default: by the rows)")
    parser.add_argument(
        "--parameters", type=int, default=1, metavar="P", help="how many parameters the function estimates"
    )
    parser.add_argument(
        "--skewness",
        type=float,
        default=8.0,
        metavar="S",
        help="largest skewness that intervals count (default: 8)",
    )
    parser.add_argument(
        "--remainder",
        type=float,
        default=0.35,
        metavar="R",
        help="largest bias of a block of m rows that intervals count, in its standard deviations times 1/m "
        "(default: 0.35)",
    )
    parser.add_argument(
        "--bias",
        choices=["jackknife", "jackknife2", "none"],
        default="jackknife",
        help="correction of the values of blocks (default: jackknife)",
    )
    parser.add_argument(
        "--resolution", type=float, metavar="R", help="what values are whole multiples of, as shares are"
    )
    parser.add_argument(
        "--link", choices=["fisher", "logit", "log"], help="scale of the values: fisher for correlations"
    )
    parser.add_argument(
        "--unit",
        metavar="NAME",
        help="the column that says whose row it is: a unit's rows stay together, and the guarantee is for the unit",
    )
    parser.add_argument(
        "--missing",
        choices=["error", "drop"],
        default="error",
        help="rows with a missing entry: refuse them (default), or leave them out of their block",
    )
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="CPU time of a block at most")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")
    add_privacy(parser, 0.0)


def _function(words: str) -> Callable[..., Any]:
    """Return the function that ``--function`` names."""
    module, _, name = words.partition(":")
    if not module or not name:
        raise InvalidParameter(f"--function must be MODULE:NAME, got {show(words)}")
    if "" not in sys.path:
        sys.path.insert(0, "")  # the current folder, as for `python -m`
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:  # any error of the user's module
        raise InvalidParameter(
            f"--function: the module {show(module)} cannot be imported: {type(error).__name__}: {error}"
        ) from None
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise InvalidParameter(f"--function: the module {show(module)} has no function {show(name)}")
    function: Callable[..., Any] = found
    return function


def _read(table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
    _function(options.function)
    beside = {"--outcome": options.outcome, "--unit": options.unit}
    named = [name for name in beside.values() if name is not None]
    if named and options.column is None:
        options_given = " and ".join(option for option, name in beside.items() if name is not None)
        raise InvalidParameter(f"--column must be given beside {options_given}")
    columns = None if options.column is None else [*options.column, *named]
    if columns is not None and len(set(columns)) < len(columns):
        raise InvalidParameter("--column, --outcome and --unit must name different columns")
    frame = table.frame(columns, "--column", text=[] if options.unit is None else [options.unit])
    return (frame,) if options.outcome is None else (frame, options.outcome)


def _build(options: argparse.Namespace, n: int, d: int) -> Any:
    from dpstats.statistic import PrivateStatistic

    check_ends(*options.bounds)
    return PrivateStatistic(
        _function(options.function),
        bounds=tuple(options.bounds),
        n_outputs=options.outputs,
        blocks="auto" if options.blocks is None else options.blocks,
        parameters=options.parameters,
        skewness=options.skewness,
        remainder=options.remainder,
        bias=None if options.bias == "none" else options.bias,
        resolution=options.resolution,
        link=options.link,
        unit=options.unit,
        missing=options.missing,
        time_limit=options.time_limit,
        n_jobs=options.jobs,
        epsilon=options.epsilon,
        delta=options.delta,
    )


def _report(fitted: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
    summary = fitted.summary(options.confidence)
    facts = {
        "function": options.function,
        "confidence_level": options.confidence,
        "estimand": fitted.confidence_interval(options.confidence).estimand,
        "estimates": fitted.estimates().to_dict(options.confidence)["rows"],
        "blocks": fitted.n_blocks_,
        "rows_of_a_block": fitted.block_size_,
        "failed_share": fitted.failed_share_,
    }
    return [summary], facts


STATISTIC = ReleaseCommand(
    name="statistic",
    help="a private interval for what a Python function computes",
    description="Call a Python function on secret blocks of rows and release the mean of its values, with an interval. "
    "The function must depend on the rows of its block alone. The number of rows, the names of columns, the function "
    "and its bounds are public.",
    add_parameters=_add_parameters,
    build=_build,
    report=_report,
    all_columns=True,
    read=_read,
    width=lambda options: 1,
)
