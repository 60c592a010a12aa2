"""``dpstats table``: a private table of counts by one attribute or several, with tests and effects."""

from __future__ import annotations

import argparse
from typing import Any

from dpstats.cli.declared import levels_of
from dpstats.cli.input import InputTable
from dpstats.cli.options import add_privacy
from dpstats.cli.release import ReleaseCommand, private_size
from dpstats.cli.units import add_unit, read_rows
from dpstats.errors import InvalidParameter


def _add_parameters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--levels",
        action="append",
        required=True,
        metavar="NAME=A,B,...",
        help="public levels of a column, as text; once for each attribute. A missing entry is the empty level",
    )
    add_unit(parser, "the first level of each attribute")
    parser.add_argument(
        "--unknown",
        choices=["error", "drop"],
        default="error",
        help="what a row at another level does: refuse the file (default), or count in no cell",
    )
    add_privacy(parser, 0.0, neighbors=True)


def _names(options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the levels of the attributes, in the order of --column if that is given."""
    levels = levels_of(options.levels)
    order = getattr(options, "column", None) or list(levels)
    if sorted(order) != sorted(levels):
        raise InvalidParameter(
            f"--column must name the columns of --levels ({', '.join(levels)}), got {', '.join(order)}"
        )
    return {name: levels[name] for name in order}


def _read(table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
    levels = _names(options)
    if options.unit is None:
        return (table.rows(list(levels), "--levels", text=levels),)
    return (read_rows(table, options, dict.fromkeys(levels, "first"), "--levels", text=levels),)


def _width(options: argparse.Namespace) -> int | None:
    return len(_names(options))


def _build(options: argparse.Namespace, n: int, d: int) -> Any:
    from dpstats.tables import ContingencyTable

    return ContingencyTable(
        levels=_names(options),
        epsilon=options.epsilon,
        delta=options.delta,
        unknown=options.unknown,
        neighbors=options.neighbors,
    )


def _report(table: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
    import numpy as np

    level = options.confidence
    interval = table.confidence_interval(level)
    summary = table.summary(level)
    cells = table.cells()
    shares = table.proportions()
    facts: dict[str, Any] = {
        "noise": table.plan_.additive[0].noise,
        "noise_std": table.noise_std_,
        **private_size(table, options.confidence),
        "estimand": interval.estimand,
        "confidence_level": interval.confidence_level,
        "attributes": [str(name) for name in cells.names],
        "dropped": table.dropped_,
        "cells": [
            {
                "levels": [cells.levels[j][code] for j, code in enumerate(place)],
                "count": float(cells.counts[place]),
                "proportion": float(shares[place]),
                "low": float(interval.low[place]),
                "high": float(interval.high[place]),
            }
            for place in np.ndindex(cells.counts.shape)
        ],
    }
    parts = [summary]
    if cells.counts.ndim > 1:
        test = table.independence()
        facts["independence"] = {"statistic": test.statistic, "pvalue": test.pvalue}
        parts.append(test.summary())
    if cells.counts.shape == (2, 2):
        for effect in (table.difference(), table.risk_ratio(), table.odds_ratio()):
            ends = effect.confidence_interval(level)
            name = effect.names[0].replace(" ", "_")
            facts[name] = {
                "estimate": float(effect.estimate),
                "low": ends.low,
                "high": ends.high,
                "pvalue": effect.pvalue,
                "estimand": effect.estimand,
            }
            parts.append(effect.summary(level))
    return parts, facts


def _draw(table: Any, options: argparse.Namespace) -> Any:
    from dpstats.plots import plot_table

    return plot_table(table, confidence_level=options.confidence)


TABLE = ReleaseCommand(
    name="table",
    help="private table of counts, with proportions, a test of independence and effects",
    description="Release the counts of all combinations of declared levels, with intervals for proportions, a test of "
    "independence and, for two by two levels, differences and ratios. Public: the number of rows, column names and "
    "levels. Neighbors differ in one row.",
    add_parameters=_add_parameters,
    build=_build,
    report=_report,
    read=_read,
    width=_width,
    picture=("a mosaic, and proportions within groups", _draw),
)
