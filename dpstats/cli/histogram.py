"""``dpstats histogram``: private counts of declared or discovered categories, or of bins with densities."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dpstats.cli.declared import DISCOVER, check_discovery
from dpstats.cli.input import InputTable
from dpstats.cli.options import add_options, check_one, given, split_list
from dpstats.cli.release import ReleaseCommand
from dpstats.cli.units import read_rows

if TYPE_CHECKING:
    from dpstats.mechanisms import CountEstimate
    from dpstats.privacy import PrivacyGuarantee, ReleasePlan


class ColumnHistogram:
    """A `Histogram` of a column of a table, called as estimators are."""

    plan_: ReleasePlan
    privacy_: PrivacyGuarantee
    result_: CountEstimate

    def __init__(self, **given: Any) -> None:
        self._given = given

    def get_params(self) -> dict[str, Any]:
        """Return the parameters of the histogram."""
        return dict(self._given)

    def set_params(self, **given: Any) -> ColumnHistogram:
        """Set parameters of the histogram."""
        self._given |= given
        return self

    def plan(self, n_samples: int | None, n_features: int = 1) -> ReleasePlan:
        """Return the plan of a release for a number of rows. It is None if it is private."""
        from dpstats.mechanisms import Histogram
        from dpstats.privacy import ReleasePlan

        plan = Histogram(**self._given).plan
        return ReleasePlan(plan.stages, plan.target, n_samples, n_features)

    def fit(self, X: Any) -> ColumnHistogram:
        """Release the counts of the only column."""
        from dpstats.mechanisms import Histogram

        made = Histogram(**self._given)
        column = X.iloc[:, 0] if hasattr(X, "iloc") else X  # or rows that are counted block by block
        self.result_ = made.release(column)
        self.privacy_ = self.result_.guarantee
        private = self._given["neighbors"] == "add_or_remove"
        self.plan_ = self.plan(None if private else X.shape[0])
        return self


class HistogramCommand(ReleaseCommand):
    """Counts of categories, or of bins."""

    name = "histogram"
    help = "private counts of categories, or of bins of numbers with densities"
    description = (
        "Release the number of rows in declared or discovered categories, or in bins; for bins, also densities with a "
        "band. Public: the number of rows, the column's name, categories and edges. Neighbors differ in one row."
    )
    kinds = """
    --bins E ..., float
        public and increasing edges of bins of numbers
    --categories A,B,...
        public categories, as text. The word discover shows the categories of many rows, which needs a positive --delta
    """
    parameters = """
    --unknown {error,drop}, default error
        what a row outside of them does: refuse the file (default), or count nowhere
    """
    unit = "the mean of its numbers, or its first category"
    delta = 0.0
    neighbors = True
    picture = "the counts, or the densities with their band"
    names_columns = True

    def add_parameters(self, parser: argparse.ArgumentParser) -> None:
        add_options(parser.add_mutually_exclusive_group(required=True), self.kinds)
        super().add_parameters(parser)

    def read(self, table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
        name = check_one(options)
        text = [] if options.bins else [name]
        if options.unit is None:
            return (table.rows([name], text=text),)
        return (read_rows(table, options, {name: "mean" if options.bins else "first"}, text=text),)

    def width(self, options: argparse.Namespace) -> int | None:
        return 1

    def build(self, options: argparse.Namespace, n: int, d: int) -> Any:
        categories = options.categories
        if categories == DISCOVER:
            check_discovery(f"--categories {DISCOVER}", options.delta)
        elif categories is not None:
            categories = split_list(categories)
        own = given(options, "bins epsilon delta unknown neighbors")
        return ColumnHistogram(categories=categories, **own)

    def report(self, model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
        result = model.result_
        interval = result.confidence_interval(options.confidence)
        columns = {
            "name": [str(name) for name in result.categories],
            "count": result.counts.tolist(),
            "low": interval.low.tolist(),
            "high": interval.high.tolist(),
        }
        if self._has_densities(options):
            band = result.density_interval(options.confidence)
            names, parts = ("density", "density_low", "density_high"), (result.densities, band.low, band.high)
            columns |= {name: part.tolist() for name, part in zip(names, parts, strict=True)}
        facts = {
            "noise": result.noise,
            "noise_scale": result.scale,
            "estimand": interval.estimand,
            "confidence_level": interval.confidence_level,
            "column": options.column[0],
            "bins" if options.bins else "categories": [
                dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
            ],
        }
        return [result.summary(options.confidence)], facts

    def _has_densities(self, options: argparse.Namespace) -> bool:
        """Return whether densities are reported, which need a public number of rows."""
        return bool(options.bins) and options.neighbors == "replace_one"

    def draw(self, model: Any, options: argparse.Namespace) -> Any:
        from dpstats.plots import plot_counts, plot_density

        draw = plot_density if self._has_densities(options) else plot_counts
        return draw(model.result_, confidence_level=options.confidence, title=options.column[0])


HISTOGRAM = HistogramCommand()
