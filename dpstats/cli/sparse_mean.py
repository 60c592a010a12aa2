"""``dpstats sparse-mean``: the few columns whose mean is not zero."""

from __future__ import annotations

import argparse
from typing import Any

from dpstats.cli.options import given, numbers_of, per_column
from dpstats.cli.release import ReleaseCommand, estimates
from dpstats.cli.samples import ErrorTarget
from dpstats.errors import refuse


class SparseMeanCommand(ReleaseCommand):
    """Means of a few columns."""

    name = "sparse-mean"
    help = "the few columns whose mean is not zero, and their private means"
    description = (
        "Select the columns whose mean is not zero and release their means; all others count as 0. The number of rows "
        "and the names of columns are public."
    )
    parameters = """
    --nonzero S, int, required
        how many columns to select
    --clip C, float, required
        public bound on the size of an entry
    --std S, repeated, required
        public standard deviation, once or once per column; 'private' estimates it for the selected columns under the
        same guarantee, and needs --std-bound
    --std-bound B, float, repeated
        with --std private: a public bound on standard deviations, which may be loose
    --max-signal M, float, default 1
        public bound on the size of a mean, in standard deviations (default: 1)
    --split
        select on the first half of the rows and estimate on the second: gives intervals, if the rows are in no
        particular order
    """
    unit = "the mean of its entries"
    delta = 1e-6
    missing = ("error", "drop", "center")
    all_columns = True
    target = ErrorTarget("of a selected column's mean, all found", lambda options, d: min(options.nonzero, d))

    def build(self, options: argparse.Namespace, n: int, d: int) -> Any:
        from dpstats.data.parameters import check_integer
        from dpstats.means import SparseMean

        std: Any = "private"
        if (options.std == ["private"]) != (options.std_bound is not None):
            raise refuse("--std-bound", allowed="be given with --std private, and only with it")
        if options.std_bound is None:
            std = per_column("--std", numbers_of("--std", options.std, "'private' or a number"), d)
        return SparseMean(
            n_nonzero=check_integer("--nonzero", options.nonzero, at_least=1, at_most=d),
            std=std,
            std_bound=None if options.std_bound is None else per_column("--std-bound", options.std_bound, d),
            **given(options, "clip max_signal split epsilon delta missing"),
        )

    def report(self, model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
        import numpy as np

        plan, support = model.plan_, model.support_
        interval = model.confidence_interval(options.confidence) if plan.disjoint else None
        facts: dict[str, Any] = {
            "noise": plan.stages[0].noise,
            "selection_threshold": plan.selection_threshold,
            "selection_threshold_any": plan.selection_threshold_any,
            "reliable_selection": plan.selection_threshold <= plan.max_signal,
            "beyond_max_signal": model.beyond_max_signal_,
        }
        if interval is not None:
            facts |= {"estimand": interval.estimand, "confidence_level": interval.confidence_level}
        errors = np.full(support.shape, plan.noise_std)
        names, means, stds = (
            model.feature_names_in_[support],
            model.mean_[support],
            getattr(model, "std_", None),
        )
        facts["columns"] = estimates(names, means, errors, interval, stds)
        return [model.summary(options.confidence)], facts


SPARSE_MEAN = SparseMeanCommand()
