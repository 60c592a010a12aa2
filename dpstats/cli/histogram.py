"""``dpstats histogram``: private counts of declared or discovered categories, or of bins with densities."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dpstats.cli.declared import DISCOVER, check_discovery
from dpstats.cli.input import InputTable
from dpstats.cli.options import add_privacy, split_list
from dpstats.cli.release import ReleaseCommand
from dpstats.cli.units import add_unit, read_rows
from dpstats.errors import InvalidParameter

if TYPE_CHECKING:
    from dpstats.mechanisms import CountEstimate
    from dpstats.privacy import PrivacyGuarantee, ReleasePlan


def _add_parameters(parser: argparse.ArgumentParser) -> None:
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument(
        "--bins", nargs="+", type=float, metavar="E", help="public and increasing edges of bins of numbers"
    )
    kind.add_argument(
        "--categories",
        metavar="A,B,...",
        help="public categories, as text. The word discover shows the "
        "categories of many rows, which needs a positive --delta",
    )
    add_unit(parser, "the mean of its numbers, or its first category")
    parser.add_argument(
        "--unknown",
        choices=["error", "drop"],
        default="error",
        help="what a row outside of them does: refuse the file (default), or count nowhere",
    )
    add_privacy(parser, 0.0, neighbors=True)


def _read(table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
    if options.column is None or len(options.column) != 1:
        raise InvalidParameter("--column must be given once")
    (name,) = options.column
    text = [] if options.bins else [name]
    if options.unit is None:
        return (table.rows([name], text=text),)
    return (read_rows(table, options, {name: "mean" if options.bins else "first"}, text=text),)


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


def _one(options: argparse.Namespace) -> int:
    return 1


def _build(options: argparse.Namespace, n: int, d: int) -> Any:
    if options.categories == DISCOVER:
        check_discovery(f"--categories {DISCOVER}", options.delta)
    return ColumnHistogram(
        categories=_categories(options),
        bins=options.bins,
        epsilon=options.epsilon,
        delta=options.delta,
        unknown=options.unknown,
        neighbors=options.neighbors,
    )


def _categories(options: argparse.Namespace) -> Any:
    """Return the declared categories, or the word for discovered ones."""
    if options.categories in (None, DISCOVER):
        return options.categories
    return split_list(options.categories)


def _report(made: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
    import numpy as np

    result = made.result_
    interval = result.confidence_interval(options.confidence)
    summary = result.summary(options.confidence)
    records = [
        {"name": str(name), "count": count, "low": low, "high": high}
        for name, count, low, high in zip(
            result.categories,
            result.counts.tolist(),
            interval.low.tolist(),
            interval.high.tolist(),
            strict=True,
        )
    ]
    if _has_densities(options):
        band = result.density_interval(options.confidence)
        columns = np.column_stack([result.densities, band.low, band.high]).tolist()
        names = ("density", "density_low", "density_high")
        for record, values in zip(records, columns, strict=True):
            record |= dict(zip(names, values, strict=True))
    facts = {
        "noise": result.noise,
        "noise_scale": result.scale,
        "estimand": interval.estimand,
        "confidence_level": interval.confidence_level,
        "column": options.column[0],
        "bins" if options.bins else "categories": records,
    }
    return [summary], facts


def _has_densities(options: argparse.Namespace) -> bool:
    """Return whether densities are reported, which need a public number of rows."""
    return bool(options.bins) and options.neighbors == "replace_one"


def _draw(made: Any, options: argparse.Namespace) -> Any:
    from dpstats.plots import plot_counts, plot_density

    draw = plot_density if _has_densities(options) else plot_counts
    return draw(made.result_, confidence_level=options.confidence, title=options.column[0])


HISTOGRAM = ReleaseCommand(
    name="histogram",
    help="private counts of categories, or of bins of numbers with densities",
    description="Release the number of rows in declared or discovered categories, or in bins; for bins, also "
    "densities with a band. Public: the number of rows, the column's name, categories and edges. Neighbors differ in "
    "one row.",
    add_parameters=_add_parameters,
    build=_build,
    report=_report,
    read=_read,
    width=_one,
    picture=("the counts, or the densities with their band", _draw),
)
