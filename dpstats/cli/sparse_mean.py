"""``dpstats sparse-mean``: the few columns whose mean is not zero."""

from __future__ import annotations

import argparse
from typing import Any

from dpstats.cli.options import add_privacy, numbers_of, per_column
from dpstats.cli.release import ReleaseCommand, estimates
from dpstats.cli.samples import ErrorTarget
from dpstats.cli.units import add_unit
from dpstats.errors import InvalidParameter


def _add_parameters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nonzero", type=int, required=True, metavar="S", help="how many columns to select")
    parser.add_argument(
        "--clip", type=float, required=True, metavar="C", help="public bound on the size of an entry"
    )
    parser.add_argument(
        "--std",
        action="append",
        required=True,
        metavar="S",
        help="public standard deviation, once or once per column; 'private' estimates it for the selected columns "
        "under the same guarantee, and needs --std-bound",
    )
    parser.add_argument(
        "--std-bound",
        action="append",
        type=float,
        metavar="B",
        help="with --std private: a public bound on standard deviations, which may be loose",
    )
    parser.add_argument(
        "--max-signal",
        type=float,
        default=1.0,
        metavar="M",
        help="public bound on the size of a mean, in standard deviations (default: 1)",
    )
    parser.add_argument(
        "--split",
        action="store_true",
        help="select on the first half of the rows and estimate on the second: gives intervals, if the rows are in "
        "no particular order",
    )
    add_unit(parser, "the mean of its entries")
    add_privacy(parser, 1e-6, missing=("error", "drop", "center"))


def _build(options: argparse.Namespace, n: int, d: int) -> Any:
    from dpstats.data.parameters import check_integer
    from dpstats.means import SparseMean

    private = options.std == ["private"]
    if private != (options.std_bound is not None):
        raise InvalidParameter("--std-bound goes with --std private, and --std private needs it")
    return SparseMean(
        n_nonzero=check_integer("--nonzero", options.nonzero, at_least=1, at_most=d),
        clip=options.clip,
        std="private"
        if private
        else per_column("--std", numbers_of("--std", options.std, "'private' or a number"), d),
        std_bound=None if options.std_bound is None else per_column("--std-bound", options.std_bound, d),
        max_signal=options.max_signal,
        split=options.split,
        epsilon=options.epsilon,
        delta=options.delta,
        missing=options.missing,
    )


def _report(mean: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
    import numpy as np

    plan, support = mean.plan_, mean.support_
    interval = mean.confidence_interval(options.confidence) if plan.disjoint else None
    facts: dict[str, Any] = {
        "noise": plan.stages[0].noise,
        "selection_threshold": plan.selection_threshold,
        "selection_threshold_any": plan.selection_threshold_any,
        "reliable_selection": plan.selection_threshold <= plan.max_signal,
        "beyond_max_signal": mean.beyond_max_signal_,
    }
    if interval is not None:
        facts |= {"estimand": interval.estimand, "confidence_level": interval.confidence_level}
    errors = np.full(support.shape, plan.noise_std)
    stds = getattr(mean, "std_", None)
    facts["columns"] = estimates(mean.feature_names_in_[support], mean.mean_[support], errors, interval, stds)
    summary = mean.summary(options.confidence)
    return [summary], facts


SPARSE_MEAN = ReleaseCommand(
    name="sparse-mean",
    help="the few columns whose mean is not zero, and their private means",
    description="Select the columns whose mean is not zero and release their means; all others count "
    "as 0. The number of rows and the names of columns are public.",
    add_parameters=_add_parameters,
    build=_build,
    report=_report,
    all_columns=True,
    target=ErrorTarget("of a selected column's mean, all found", lambda options, d: min(options.nonzero, d)),
)
