"""``dpstats quantile``: private quantiles of a column, with intervals."""

from __future__ import annotations

import argparse
from typing import Any

from dpstats.cli.input import InputTable
from dpstats.cli.options import check_ends, check_one, given
from dpstats.cli.release import ReleaseCommand
from dpstats.cli.units import read_rows
from dpstats.errors import refuse


class QuantileCommand(ReleaseCommand):
    """Quantiles of a column."""

    name = "quantile"
    help = "private quantiles of a column: one or many, with intervals"
    description = (
        "Release quantiles of a column, chosen together, with intervals for the population quantiles. The number of "
        "rows, the column's name, bounds and step are public; two files of the same size that differ in one row are "
        "neighbors."
    )
    parameters = """
    -q --quantile Q, float, repeated
        fraction in (0, 1); repeatable (default: 0.5)
    --bounds LO HI, float, required
        public bounds, known without the data; wide bounds cost little
    --step STEP, float
        what the data are whole multiples of (1 for counts), from LO on
    --coverage {regular,any}, default regular
        distributions that intervals cover: without a gap near the quantile (default), or any, which is wider
    --no-intervals
        points alone, with smaller errors where there are many
    --confidence P, float, default 0.95
        confidence level of the intervals (default: 0.95)
    """
    unit = "the mean of its entries"
    delta = 0.0
    missing = ("error", "drop")
    picture = "the quantiles with their intervals"
    names_columns = True
    intervals = False

    def read(self, table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
        return (read_rows(table, options, {check_one(options): "mean"}),)

    def width(self, options: argparse.Namespace) -> int | None:
        return 1

    def build(self, options: argparse.Namespace, n: int, d: int) -> Any:
        from dpstats.quantiles import PrivateQuantile

        check_ends(*options.bounds)
        if d != 1:
            raise refuse("--column", got=f"{d} columns", allowed="be given once")
        return PrivateQuantile(
            options.quantile or [0.5],
            bounds=tuple(options.bounds),
            confidence_level=None if options.no_intervals else options.confidence,
            **given(options, "step epsilon delta coverage missing"),
        )

    def report(self, model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
        ends = [model.quantile_, model.low_, model.high_]
        keys = ("q", "quantile", "low", "high")[: 2 if options.no_intervals else 4]
        facts = {
            "column": options.column[0],
            "confidence_level": None if options.no_intervals else options.confidence,
            "coverage": options.coverage,
            "quantiles": [
                dict(zip(keys, row, strict=False))
                for row in zip(model.q, *(x.tolist() for x in ends), strict=True)
            ],
            **({"rows": model.rows_} if options.missing == "drop" else {}),
        }
        return [model.summary()], facts

    def draw(self, model: Any, options: argparse.Namespace) -> Any:
        from dpstats.plots import plot_quantiles

        return plot_quantiles(model, title=f"{options.column[0]}")


QUANTILE = QuantileCommand()
