"""``dpstats quantile``: private quantiles of a column, with intervals."""

from __future__ import annotations

import argparse
from typing import Any

from dpstats.cli.input import InputTable
from dpstats.cli.options import add_privacy, check_ends
from dpstats.cli.release import ReleaseCommand
from dpstats.cli.units import add_unit, read_rows
from dpstats.errors import InvalidParameter


def _add_parameters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-q",
        "--quantile",
        action="append",
        type=float,
        metavar="Q",
        help="fraction in (0, 1); repeatable (default: 0.5)",
    )
    parser.add_argument(
        "--bounds",
        nargs=2,
        type=float,
        required=True,
        metavar=("LO", "HI"),
        help="public bounds, known without the data; wide bounds cost little",
    )
    parser.add_argument(
        "--step", type=float, help="what the data are whole multiples of (1 for counts), from LO on"
    )
    parser.add_argument(
        "--coverage",
        choices=["regular", "any"],
        default="regular",
        help="distributions that intervals cover: without a gap near the quantile (default), or any, which is wider",
    )
    parser.add_argument(
        "--no-intervals", action="store_true", help="points alone, with smaller errors where there are many"
    )
    parser.add_argument(
        "--confidence",
        type=float,
        default=0.95,
        metavar="P",
        help="confidence level of the intervals (default: 0.95)",
    )
    # Its name until 0.1.
    parser.add_argument("--level", type=float, dest="confidence", help=argparse.SUPPRESS)
    add_unit(parser, "the mean of its entries")
    add_privacy(parser, 0.0, missing=("error", "drop"))


def _read(table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
    if options.column is None or len(options.column) != 1:
        raise InvalidParameter("--column must be given once")
    return (read_rows(table, options, {options.column[0]: "mean"}),)


def _build(options: argparse.Namespace, n: int, d: int) -> Any:
    from dpstats.quantiles import PrivateQuantile

    check_ends(*options.bounds)
    if d != 1:
        raise InvalidParameter(f"--column must be given once, got {d} columns")
    return PrivateQuantile(
        options.quantile or [0.5],
        bounds=tuple(options.bounds),
        step=options.step,
        epsilon=options.epsilon,
        delta=options.delta,
        confidence_level=None if options.no_intervals else options.confidence,
        coverage=options.coverage,
        missing=options.missing,
    )


def _report(quantile: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
    summary = quantile.summary()
    ends = [quantile.quantile_, quantile.low_, quantile.high_]
    keys = ("q", "quantile", "low", "high")[: 2 if options.no_intervals else 4]
    records = [
        dict(zip(keys, row, strict=False))
        for row in zip(quantile.q, *(x.tolist() for x in ends), strict=True)
    ]
    facts = {
        "column": options.column[0],
        "confidence_level": None if options.no_intervals else options.confidence,
        "coverage": options.coverage,
        "quantiles": records,
        **({"rows": quantile.rows_} if options.missing == "drop" else {}),
    }
    return [summary], facts


def _picture(quantile: Any, options: argparse.Namespace) -> Any:
    from dpstats.plots import plot_quantiles

    return plot_quantiles(quantile, title=f"{options.column[0]}")


QUANTILE = ReleaseCommand(
    name="quantile",
    help="private quantiles of a column: one or many, with intervals",
    description="Release quantiles of a column, chosen together, with intervals for the population quantiles. The "
    "number of rows, the column's name, bounds and step are public; two files of the same size that differ in one row "
    "are neighbors.",
    add_parameters=_add_parameters,
    build=_build,
    report=_report,
    intervals=False,
    read=_read,
    width=lambda options: 1,
    picture=("the quantiles with their intervals", _picture),
)
