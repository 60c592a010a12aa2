"""``dpstats mean``: private means of columns, clipped or adaptive."""

from __future__ import annotations

import argparse
from typing import Any

from dpstats.cli.options import check_ends, given, numbers_of, per_column, refuse_both
from dpstats.cli.release import ReleaseCommand, estimates, private_size
from dpstats.cli.samples import ErrorTarget
from dpstats.errors import refuse


class MeanCommand(ReleaseCommand):
    """Means of columns."""

    name = "mean"
    help = "private means of the columns of a CSV or Parquet file"
    description = (
        "Release the private mean of each named column. The number of rows, the column names and the bounds are "
        "public; two files of the same size that differ in one row are neighbors."
    )
    parameters = """
    --method {clipped,adaptive}, default clipped
        clipped (default): rows clipped to --bounds; adaptive: finds out where the rows are, and needs only --bound and
        --std
    --bounds LO HI, float, repeated
        public bounds of the column (adaptive: of its mean); once for all columns, or once per column in their order
    --hard
        the bounds hold by nature, for every row (a percentage, an age, an answer from 1 to 5)
    --clipped-share
        clipped: release also the fraction of each column outside the bounds (1 to 3%% more noise)
    --bound B, float, repeated
        adaptive: public bound on the size of the column's mean, in place of --bounds; once, or once per column
    --std STD, repeated
        public standard deviation, once or once per column; an upper bound with adaptive. 'private' (the default with
        clipped) estimates it under the same guarantee; clipped also takes 'none'
    --std-bound B, float, repeated
        adaptive with --std private: a loose public bound on the standard deviation
    --cov {private}
        adaptive: release the covariance of the columns first, so that the noise has the shape of the rows; the plan
        says whether there are enough rows
    --tails {subgaussian,symmetric,variance}
        adaptive: what bias and intervals assume about the rows (default: subgaussian)
    """
    unit = "the mean of its entries"
    delta = 0.0
    missing = ("error", "drop", "center")
    neighbors = True
    answers = """
    --test VALUE, float, repeated
        test whether the mean is this, once or once per column; costs no privacy
    --alternative {two-sided,less,greater}, default two-sided
        what speaks against --test's value (default: two-sided)
    """
    in_blocks = True
    target = ErrorTarget("of a column's mean", lambda options, d: d)

    def build(self, options: argparse.Namespace, n: int, d: int) -> Any:
        from dpstats.means import AdaptiveMean, ClippedMean

        adaptive = options.method == "adaptive"
        for name in ("clipped_share",) if adaptive else ("bound", "tails", "std_bound", "cov"):
            if getattr(options, name) not in (None, False):
                raise refuse_both(f"--{name.replace('_', '-')}", f"--method {options.method}")
        if not adaptive and options.bounds is None:
            raise refuse("--bounds", allowed="be given with --method clipped")
        for low, high in options.bounds or []:
            check_ends(low, high)
        if getattr(options, "test", None) is not None:
            self._check_values(options, d)
        shared = {
            **given(options, "epsilon delta missing"),
            "bounds": None if options.bounds is None else per_column("--bounds", options.bounds, d),
            "bounds_are": "hard" if options.hard else "clip",
            "std": self._std(options.std, d, adaptive),
        }
        if not adaptive:
            return ClippedMean(**given(options, "clipped_share neighbors"), **shared)
        if options.neighbors != "replace_one":
            raise refuse(
                "--neighbors",
                got=options.neighbors,
                allowed="replace_one with --method adaptive",
                remedy="Use --method clipped.",
            )
        if (options.bound is None) == (options.bounds is None):
            raise refuse("--method adaptive", allowed="have --bound or --bounds, one of them")
        if options.std is None:
            raise refuse("--std", allowed="be given with --method adaptive")
        return AdaptiveMean(
            bound=None if options.bound is None else per_column("--bound", options.bound, d),
            std_bound=None if options.std_bound is None else per_column("--std-bound", options.std_bound, d),
            tails=options.tails or "subgaussian",
            cov=options.cov,
            **shared,
        )

    def _check_values(self, options: argparse.Namespace, d: int) -> None:
        """Refuse, before anything is charged, to test values that no mean can have."""
        ends = options.bounds or [(-bound, bound) for bound in options.bound or []]
        for option, values in (("--test", options.test), ("--bounds", ends)):
            per_column(option, values, d)
        for j in range(d if ends else 0):
            value, (low, high) = options.test[j % len(options.test)], ends[j % len(ends)]
            if not low <= value <= high:
                got = f"{value:g} for a column between {low:g} and {high:g}"
                allowed = "between the declared bounds, where every mean is"
                raise refuse("--test", got=got, allowed=allowed)

    def _std(self, texts: list[str] | None, d: int, adaptive: bool) -> Any:
        """Return the ``std`` parameter of an estimator: "private", None, or public numbers."""
        if texts in (None, ["private"]):
            return "private"
        if texts == ["none"] and not adaptive:
            return None
        words = "'private' or a number" if adaptive else "'private', 'none' or a number"
        return per_column("--std", numbers_of("--std", texts or [], words), d)

    def report(self, model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
        import numpy as np

        interval = model.confidence_interval(options.confidence)
        # The standard deviation that the fit uses, released or public.
        std = getattr(model, "std_", model.std)
        std = None if std is None or isinstance(std, str) else np.broadcast_to(std, model.mean_.shape)
        facts = {
            "noise": model.plan_.stages[0].noise,
            "estimand": interval.estimand,
            "confidence_level": interval.confidence_level,
            **private_size(model, options.confidence),
            "columns": estimates(model.feature_names_in_, model.mean_, model.noise_std_, interval, std),
        }
        tables = [model.summary(options.confidence)]
        if options.test is None:
            return tables, facts
        value = per_column("--test", options.test, model.plan_.n_features)
        test = model.test(value, options.alternative)
        names = ("value", "statistic", "pvalue")
        columns = [np.broadcast_to(getattr(test, name), len(test.names)).tolist() for name in names]
        facts["test"] = {
            "estimand": test.estimand,
            "alternative": test.alternative,
            "columns": [
                {"name": str(name), **dict(zip(names, record, strict=True))}
                for name, *record in zip(test.names, *columns, strict=True)
            ],
        }
        return [*tables, test.summary()], facts


MEAN = MeanCommand()
