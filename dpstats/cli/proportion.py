"""``dpstats proportion``: the private proportion of rows with a property."""

from __future__ import annotations

import argparse
from typing import Any

from dpstats.cli.input import InputTable
from dpstats.cli.options import add_privacy
from dpstats.cli.release import ReleaseCommand, private_size
from dpstats.cli.samples import ErrorTarget
from dpstats.cli.units import add_unit, read_rows
from dpstats.errors import InvalidParameter


def _add_parameters(parser: argparse.ArgumentParser) -> None:
    add_unit(parser, "whether any of them has the property")
    add_privacy(parser, 0.0, missing=("error", "drop"), neighbors=True)


def _read(table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
    name, equals, word = _column(options).partition("=")
    if not equals:
        return (read_rows(table, options, {name: "max"}),)

    def mark_property(frame: Any) -> Any:
        from dpstats.data.levels import Categories
        from dpstats.data.words import Words

        found = frame.assign(**{name: Categories([word]).codes(Words(frame[name])) == 0})
        if options.missing == "drop" and word:
            found[name] = found[name].astype(object).where(frame[name] != "", None)
        return found

    # Entry by entry, as text: a missing one is the empty word.
    return (read_rows(table, options, {name: "max"}, text=[name], changed=mark_property),)


def _column(options: argparse.Namespace) -> str:
    if options.column is None or len(options.column) != 1:
        raise InvalidParameter("--column must be given once: NAME (of 0 and 1), or NAME=WORD")
    return str(options.column[0])


def _one(options: argparse.Namespace) -> int:
    return 1


def _build(options: argparse.Namespace, n: int, d: int) -> Any:
    from dpstats.tables import PrivateProportion

    return PrivateProportion(
        epsilon=options.epsilon, delta=options.delta, missing=options.missing, neighbors=options.neighbors
    )


def _report(share: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
    interval = share.confidence_interval(options.confidence)
    summary = share.summary(options.confidence)
    facts = {
        "noise": share.plan_.additive[0].noise,
        "estimand": interval.estimand,
        "confidence_level": interval.confidence_level,
        "column": _column(options),
        "proportion": share.proportion_,
        "noise_std": share.noise_std_,
        "low": interval.low,
        "high": interval.high,
        "count": share.count_,
        "statistic": share.statistic_,
        **({"rows": share.rows_} if options.missing == "drop" else {}),
        **private_size(share, options.confidence),
    }
    return [summary], facts


def _draw(share: Any, options: argparse.Namespace) -> Any:
    from dpstats.plots import plot_proportion

    return plot_proportion(share, confidence_level=options.confidence)


PROPORTION = ReleaseCommand(
    name="proportion",
    help="private proportion of rows with a property, with a conservative interval",
    description="Release the proportion of rows in which a column is 1 (--column NAME), or a word (--column "
    "NAME=WORD), with a conservative interval that includes sampling error and noise. The number of rows is "
    "public, unless --neighbors add_or_remove. Neighbors differ in one row.",
    add_parameters=_add_parameters,
    build=_build,
    report=_report,
    read=_read,
    width=_one,
    picture=("the p-value of every proportion", _draw),
    target=ErrorTarget("of the proportion", lambda options, d: 1),
)
