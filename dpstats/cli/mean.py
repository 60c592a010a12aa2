"""Commands about columns: ``dpstats mean``, ``sparse-mean``, ``quantile`` and ``proportion``."""

from __future__ import annotations

import argparse
from typing import Any

from dpstats.cli.options import check_ends, check_one, given, numbers_of, per_column, refuse_both
from dpstats.cli.release import ErrorTarget, ReleaseCommand, estimates, private_size
from dpstats.cli.tables import InputTable, read_rows
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
    --private-bounds
        clipped: choose bounds from the rows for a fifth of epsilon, in place of --bounds; --bounds private is the same
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
        private = options.private_bounds
        if private and (adaptive or options.bounds is not None):
            raise refuse_both("--private-bounds", "--method adaptive" if adaptive else "--bounds LO HI")
        if not adaptive and options.bounds is None and not private:
            raise refuse("--bounds", allowed="be given with --method clipped: LO HI, or private")
        for low, high in options.bounds or []:
            check_ends(low, high)
        if getattr(options, "test", None) is not None:
            self._check_values(options, d)
        shared = {
            **given(options, "epsilon delta missing"),
            "bounds": "private" if private else options.bounds and per_column("--bounds", options.bounds, d),
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
        names, means, stds = (model.feature_names_in_[support], model.mean_[support], getattr(model, "std_", None))
        facts["columns"] = estimates(names, means, errors, interval, stds)
        return [model.summary(options.confidence)], facts


class BoundsCommand(ReleaseCommand):
    """Bounds of columns about which nobody knows anything."""

    name = "bounds"
    help = "private bounds of columns, where nobody knows any"
    description = (
        "Release bounds for the mean of each named column, without any public bounds. The number of rows and the "
        "column names are public; two files of the same size that differ in one row are neighbors."
    )
    parameters = """
    --step STEP, float
        what the data are whole multiples of (1 for counts)
    --within LO HI, float
        public limits of all columns, 'inf' or '-inf' for none
    --for-epsilon E, float
        epsilon of the mean that will use the bounds (default: four times --epsilon)
    """
    unit = "the mean of its entries"
    delta = None
    missing = ("error", "drop")
    intervals = False

    def build(self, options: argparse.Namespace, n: int, d: int) -> Any:
        from dpstats.means import PrivateBounds

        within = None if options.within is None else tuple(options.within)
        return PrivateBounds(**given(options, "step for_epsilon epsilon missing"), within=within)

    def report(self, model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
        return [model.summary()], {"bounds": model.to_dict()["rows"]}


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
    --bounds LO HI, float
        public bounds, known without the data; wide bounds cost little
    --private-bounds
        choose bounds from the rows for a fifth of epsilon, in place of --bounds; --bounds private is the same
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

        if options.private_bounds == (options.bounds is not None):
            raise refuse("--bounds", allowed="be given: LO HI, or private")
        if options.bounds is not None:
            check_ends(*options.bounds)
        if d != 1:
            raise refuse("--column", got=f"{d} columns", allowed="be given once")
        return PrivateQuantile(
            options.quantile or [0.5],
            bounds="private" if options.bounds is None else tuple(options.bounds),
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
                dict(zip(keys, row, strict=False)) for row in zip(model.q, *(x.tolist() for x in ends), strict=True)
            ],
            **({"rows": model.rows_} if options.missing == "drop" else {}),
        }
        return [model.summary()], facts

    def draw(self, model: Any, options: argparse.Namespace) -> Any:
        from dpstats.plots import plot_quantiles

        return plot_quantiles(model, title=f"{options.column[0]}")


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
            from dpstats.data.schema import Categories
            from dpstats.data.values import Words

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
