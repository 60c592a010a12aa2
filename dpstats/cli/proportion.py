"""``dpstats proportion``: the private proportion of rows with a property."""

from __future__ import annotations

import argparse
from typing import Any

from dpstats.cli.input import InputTable
from dpstats.cli.options import check_one, given
from dpstats.cli.release import ReleaseCommand, private_size
from dpstats.cli.samples import ErrorTarget
from dpstats.cli.units import read_rows


class ProportionCommand(ReleaseCommand):
    """The proportion of rows in which a column is 1, or a word."""

    name = "proportion"
    help = "private proportion of rows with a property, with a conservative interval"
    description = (
        "Release the proportion of rows in which a column is 1 (--column NAME), or a word (--column NAME=WORD), with a "
        "conservative interval that includes sampling error and noise. The number of rows is public, unless "
        "--neighbors add_or_remove. Neighbors differ in one row."
    )
    unit = "whether any of them has the property"
    delta = 0.0
    missing = ("error", "drop")
    neighbors = True
    picture = "the p-value of every proportion"
    names_columns = True
    target = ErrorTarget("of the proportion", lambda options, d: 1)

    def read(self, table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
        name, equals, word = check_one(options, ": NAME (of 0 and 1), or NAME=WORD").partition("=")
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

    def width(self, options: argparse.Namespace) -> int | None:
        return 1

    def build(self, options: argparse.Namespace, n: int, d: int) -> Any:
        from dpstats.tables import PrivateProportion

        return PrivateProportion(**given(options, "epsilon delta missing neighbors"))

    def report(self, model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
        interval = model.confidence_interval(options.confidence)
        facts = {
            "noise": model.plan_.additive[0].noise,
            "estimand": interval.estimand,
            "confidence_level": interval.confidence_level,
            "column": options.column[0],
            "proportion": model.proportion_,
            "noise_std": model.noise_std_,
            "low": interval.low,
            "high": interval.high,
            "count": model.count_,
            "statistic": model.statistic_,
            **({"rows": model.rows_} if options.missing == "drop" else {}),
            **private_size(model, options.confidence),
        }
        return [model.summary(options.confidence)], facts

    def draw(self, model: Any, options: argparse.Namespace) -> Any:
        from dpstats.plots import plot_proportion

        return plot_proportion(model, confidence_level=options.confidence)


PROPORTION = ProportionCommand()
