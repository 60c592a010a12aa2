"""``dpstats table``: a private table of counts by one attribute or several, with tests and effects."""

from __future__ import annotations

import argparse
from typing import Any

from dpstats.cli.declared import levels_of
from dpstats.cli.input import InputTable
from dpstats.cli.options import given
from dpstats.cli.release import ReleaseCommand, private_size
from dpstats.cli.units import read_rows
from dpstats.errors import refuse


class TableCommand(ReleaseCommand):
    """Counts of all combinations of levels."""

    name = "table"
    help = "private table of counts, with proportions, a test of independence and effects"
    description = (
        "Release the counts of all combinations of declared levels, with intervals for proportions, a test of "
        "independence and, for two by two levels, differences and ratios. Public: the number of rows, column names and "
        "levels. Neighbors differ in one row."
    )
    parameters = """
    --levels NAME=A,B,..., repeated, required
        public levels of a column, as text; once for each attribute. A missing entry is the empty level
    --unknown {error,drop}, default error
        what a row at another level does: refuse the file (default), or count in no cell
    """
    unit = "the first level of each attribute"
    delta = 0.0
    neighbors = True
    picture = "a mosaic, and proportions within groups"
    names_columns = True

    def _levels(self, options: argparse.Namespace) -> dict[str, list[str]]:
        """Return the levels of the attributes, in the order of --column if that is given."""
        levels = levels_of(options.levels)
        order = getattr(options, "column", None) or list(levels)
        if sorted(order) != sorted(levels):
            allowed = f"name the columns of --levels ({', '.join(levels)})"
            raise refuse("--column", got=", ".join(order), allowed=allowed)
        return {name: levels[name] for name in order}

    def read(self, table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
        levels = self._levels(options)
        if options.unit is None:
            return (table.rows(list(levels), "--levels", text=levels),)
        return (read_rows(table, options, dict.fromkeys(levels, "first"), "--levels", text=levels),)

    def width(self, options: argparse.Namespace) -> int | None:
        return len(self._levels(options))

    def build(self, options: argparse.Namespace, n: int, d: int) -> Any:
        from dpstats.tables import ContingencyTable

        own = given(options, "epsilon delta unknown neighbors")
        return ContingencyTable(levels=self._levels(options), **own)

    def report(self, model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
        import numpy as np

        level = options.confidence
        interval, cells, shares = model.confidence_interval(level), model.cells(), model.proportions()
        facts: dict[str, Any] = {
            "noise": model.plan_.additive[0].noise,
            "noise_std": model.noise_std_,
            **private_size(model, level),
            "estimand": interval.estimand,
            "confidence_level": interval.confidence_level,
            "attributes": [str(name) for name in cells.names],
            "dropped": model.dropped_,
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
        tables = [model.summary(level)]
        if cells.counts.ndim > 1:
            test = model.independence()
            facts["independence"] = {"statistic": test.statistic, "pvalue": test.pvalue}
            tables.append(test.summary())
        if cells.counts.shape == (2, 2):
            for effect in (model.difference(), model.risk_ratio(), model.odds_ratio()):
                ends = effect.confidence_interval(level)
                facts[effect.names[0].replace(" ", "_")] = {
                    "estimate": float(effect.estimate),
                    "low": ends.low,
                    "high": ends.high,
                    "pvalue": effect.pvalue,
                    "estimand": effect.estimand,
                }
                tables.append(effect.summary(level))
        return tables, facts

    def draw(self, model: Any, options: argparse.Namespace) -> Any:
        from dpstats.plots import plot_table

        return plot_table(model, confidence_level=options.confidence)


TABLE = TableCommand()
