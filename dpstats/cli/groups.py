"""Commands about groups and counts: ``dpstats group-means``, ``table``, ``histogram``, ``survival`` and ``ks``."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpstats.cli.options import (
    DISCOVER,
    bounds_of,
    by_column,
    check_discovery,
    check_one,
    given,
    levels_of,
    numbers_of,
    per_column,
    split_list,
)
from dpstats.cli.release import ReleaseCommand, private_size
from dpstats.cli.tables import InputTable, read_rows
from dpstats.errors import refuse

if TYPE_CHECKING:
    from dpstats.inference.results import Summary
    from dpstats.mechanisms import CountEstimate
    from dpstats.privacy import PrivacyGuarantee, ReleasePlan


class GroupMeansCommand(ReleaseCommand):
    """Means of groups."""

    name = "group-means"
    help = "private means of declared or discovered groups, with intervals and comparisons"
    description = (
        "Release and compare the means of columns in groups, and the group sizes. Public: the number of rows, column "
        "names, declared labels and bounds. Group sizes are private. Neighbors differ in one row (with --unit: one "
        "unit)."
    )
    parameters = """
    --by NAME, required
        the column that has the labels
    --groups A,B,..., required
        the labels, which are public; one with a comma stands in double quotes. The word discover shows the labels of
        many rows, which needs a positive --delta
    --bounds BOUNDS ..., repeated, required
        public bounds: LO HI for columns without a name (once, or once per column), or NAME=LO,HI
    --adjust NAME, repeated
        a covariate to adjust the comparisons for (once for each), with bounds as NAME=LO,HI in --bounds
    --not-randomized
        with --adjust: the covariates may differ between groups, which are compared by a linear model
    --hard
        the bounds hold by nature, for every row
    --pairwise [{tukey,holm}], const tukey
        compare all pairs of groups, by Tukey's range (default) or Holm's p-values
    --anova
        test whether all means are equal
    """
    unit = "the mean of its entries and its first label"
    delta = 1e-6
    missing = ("error", "drop")
    neighbors = True
    picture = "the means with their intervals"
    names_columns = True

    def _columns(self, options: argparse.Namespace) -> list[str]:
        return list(dict.fromkeys([*options.column, *(options.adjust or [])]))

    def read(self, table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
        if not options.column:
            raise refuse("--column", allowed="be given, once for each column")
        columns, discovers = self._columns(options), options.groups == DISCOVER
        if len(columns) < len(options.column) + len(options.adjust or []) or options.by in columns:
            raise refuse("--column and --adjust", allowed="name each column once, and not the column of --by")
        if unknown := [name for name in bounds_of(options.bounds)[1] if name not in columns]:
            raise refuse("--bounds", given=unknown[0], allowed="name a column of --column, or of --adjust")
        if options.unit is None and not discovers:
            return table.parts(columns, options.by, "--column and --by", text=[options.by])
        how = {**dict.fromkeys(columns, "mean"), options.by: "first"}
        frame = read_rows(table, options, how, "--column and --by", text=[options.by])
        labels = frame[options.by]
        # In a file, a missing label is empty, and must not be discovered.
        return frame[columns], labels.where(labels != "", None) if discovers else labels

    def build(self, options: argparse.Namespace, n: int, d: int) -> Any:
        from dpstats.groups import GroupMeans

        # In double quotes, the word for no declared labels is a label.
        groups = DISCOVER if options.groups == DISCOVER else split_list(options.groups)
        if groups == DISCOVER:
            check_discovery(f"--groups {DISCOVER}", options.delta)
            if options.anova:
                remedy = "Use --pairwise holm instead."
                raise refuse("--anova", allowed=f"not be given with --groups {DISCOVER}", remedy=remedy)
        elif (options.pairwise or options.anova) and len(groups) < 2:
            raise refuse("--groups", allowed="have two or more for --pairwise and --anova")
        pairs, named = bounds_of(options.bounds)
        columns = self._columns(options) if "column" in options else list(named)
        adjust = options.adjust or []
        if missing := [name for name in adjust if name not in named]:
            raise refuse("--bounds", allowed=f"have {missing[0]}=LO,HI for --adjust")
        if "column" in options:
            bounds = by_column(columns, pairs, named)
        elif named:
            if len(named) != d or pairs:
                got = str(len(named))
                raise refuse("--bounds", got=got, allowed=f"name each of the --columns ({d}) or none")
            bounds = list(named.values())
        else:
            bounds = per_column("--bounds", pairs, d)
        return GroupMeans(
            groups=groups,
            bounds=bounds,
            bounds_are="hard" if options.hard else "clip",
            adjust=[columns.index(name) for name in adjust] or None,
            randomized=not options.not_randomized,
            **given(options, "epsilon delta missing neighbors"),
        )

    def report(self, model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
        level, method = options.confidence, options.pairwise
        facts: dict[str, Any] = {
            "noise": model.plan_.stages[0].noise,
            "estimand": model.estimand_,
            "confidence_level": level,
            **private_size(model, level),
            "count_noise_std": model.counts_noise_std_,
            "group_means": self._records(model, level, found=options.groups == DISCOVER),
        }
        tables = [model.summary(level)]
        if options.anova:
            found = model.anova()
            tables.append(found.summary())
            facts["anova"] = [
                {"column": name, "statistic": statistic, "pvalue": pvalue, "simulations": found.n_simulations}
                for name, statistic, pvalue in zip(
                    options.column, found.statistic.tolist(), found.pvalue.tolist(), strict=True
                )
            ]
        if method and len(model.groups_) < 2:
            words = "No pairs are compared, because fewer than two groups were found."
            tables[0] = replace(tables[0], notes=[*tables[0].notes, words])
            facts["pairwise"] = []
        elif method:
            pairs = model.pairwise(method)
            tables.append(pairs.summary(level))
            facts["pairwise"] = [
                {
                    "first": str(row["first"]),
                    "second": str(row["second"]),
                    "column": row["column"],
                    "difference": row["estimate"],
                    "pvalue": row["pvalue"],
                    "low": row["low"],
                    "high": row["high"],
                    "method": method,
                }
                for row in pairs.to_dict(level)["rows"]
            ]
        return tables, facts

    def _records(self, model: Any, level: float, found: bool) -> list[dict[str, Any]]:
        """Return a record per group and column; of groups that were found, with intervals of their sizes."""
        sizes = [{"rows": count} for count in model.counts_.tolist()]
        if found:
            interval = model.count_interval(level)
            for size, low, high in zip(sizes, interval.low.tolist(), interval.high.tolist(), strict=True):
                size |= {"rows_low": low, "rows_high": high}
        rows = [size for size in sizes for _ in range(model.means_.shape[1])]
        stds = model.std_.ravel().tolist()
        return [
            {
                "group": str(row["group"]),
                **size,
                "column": row["column"],
                "mean": row["estimate"],
                "low": row["low"],
                "high": row["high"],
                "std": std,
            }
            for row, size, std in zip(model.to_dict(level)["rows"], rows, stds, strict=True)
        ]

    def draw(self, model: Any, options: argparse.Namespace) -> Any:
        panels = model.plot(confidence_level=options.confidence)
        return (panels if model.means_.shape[1] == 1 else panels[0]).figure


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
    --unknown {drop,error}, default drop
        what a row at another level does: count in no cell (default), or refuse the file
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
    --unknown {drop,error}, default drop
        what a row outside of them does: count nowhere (default), or refuse the file
    """
    unit = "the mean of its numbers, or its first category"
    delta = 0.0
    neighbors = True
    picture = "the counts, or the densities with their band"
    names_columns = True

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


class SurvivalCommand(ReleaseCommand):
    """Survival curves."""

    name = "survival"
    help = "private survival curves, with bands, medians and a log-rank test"
    description = (
        "Release a table of events and censored times, for survival curves, medians, restricted means and a log-rank "
        "test. Public: the number of rows, column names, horizon, bins and group labels. Group sizes are private. "
        "Neighbors differ in one row."
    )
    parameters = """
    --time NAME, required
        the column of times
    --event NAME, required
        the column of events: 1, and 0 for a censored time, unless --cause and --censored declare other values
    --cause A,B,..., repeated
        the values of --event that are an event (default: 1), one or several competing causes; public
    --censored VALUE, default 0
        the value of --event of a censored time (default: 0)
    --horizon T, float
        the time up to which curves are released; not needed with --edges
    --bins M, int
        number of bins (default: 8 to 50)
    --edges T,T,...
        the right edges of the bins, in place of --bins. With --discrete and 0 as the first one, events at time 0 have
        a bin
    --by NAME
        the column that has the groups
    --groups A,B,...
        the labels of the groups, which are public; one with a comma stands in double quotes
    --discrete
        events are at the upper edges of the bins only: curves are steps, and a row that is censored between two edges
        counts at the earlier one
    --unit NAME
        whose row it is; a subject with several rows is refused
    """
    delta = 0.0
    picture = "the curves with their bands"
    names_columns = True

    def _groups(self, options: argparse.Namespace) -> list[str] | None:
        if (options.by is None) != (options.groups is None):
            raise refuse("--by and --groups", allowed="be given together")
        return None if options.groups is None else split_list(options.groups)

    def _event_values(self, options: argparse.Namespace) -> tuple[Any, list[Any]]:
        """Return the declared values of a censored time and of events: numbers if all of them read as numbers."""
        from dpstats.data.values import number

        causes = [value for text in options.cause or ["1"] for value in split_list(text)]
        words = [options.censored, *causes]
        found = [value for word in words if (value := number(word)) is not None and math.isfinite(value)]
        if len(found) < len(words):
            return options.censored, causes
        censored, *numbers = (int(value) if value.is_integer() else value for value in found)
        return censored, numbers

    def read(self, table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
        if options.column:
            remedy = "--time, --event and --by name the columns."
            raise refuse("--column", allowed="not be given", remedy=remedy)
        self._groups(options)
        text = [name for name in (options.by, options.unit) if name is not None]
        columns = [options.time, options.event, *text]
        if isinstance(self._event_values(options)[0], str):
            text.append(options.event)
        if len(set(columns)) < len(columns):
            raise refuse("--time, --event, --by and --unit", allowed="name different columns")
        return (table.frame(columns, "--time, --event and --by", text=text),)

    def width(self, options: argparse.Namespace) -> int | None:
        return 1

    def build(self, options: argparse.Namespace, n: int, d: int) -> Any:
        from dpstats.survival import PrivateSurvival

        censored, causes = self._event_values(options)
        edges = None
        if options.edges is not None:
            words = "increasing times, separated by commas"
            edges = numbers_of("--edges", split_list(options.edges), words)
        return PrivateSurvival(
            edges=edges,
            groups=self._groups(options),
            causes=causes,
            censored=censored,
            **given(options, "horizon bins by time event unit discrete epsilon delta"),
        )

    def report(self, model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
        level = options.confidence
        median, mean = (found.to_dict(level)["rows"] for found in (model.median(), model.rmst()))
        facts: dict[str, Any] = {
            "noise": model.plan_.stages[0].noise,
            "estimand": model.confidence_interval().estimand,
            "confidence_level": level,
            "medians": median,
            "restricted_means": mean,
            "life_table": model.life_table(confidence_level=level).to_dict("records"),
        }
        tables = [model.summary(level)]
        if len(model.plan_.causes) > 1:
            facts["cumulative_incidences"] = self._incidences(model, level)
            tables.append(self._incidence_table(facts["cumulative_incidences"], tables[0], level))
        if model.plan_.cells.n_groups > 1:
            test = model.log_rank()
            tables.append(test.summary())
            names = ("statistic", "pvalue", "degrees_of_freedom")
            facts["log_rank"] = {name: getattr(test, name) for name in names}
        return tables, facts

    def _incidences(self, model: Any, level: float) -> list[dict[str, Any]]:
        """Return the cumulative incidence of each cause in each group at the edges, with pointwise limits."""
        import numpy as np

        groups: tuple[Any, ...] = (None,) if model.plan_.groups is None else model.plan_.groups
        return [
            {
                "cause": str(cause),
                "name": "all" if group is None else str(group),
                "time": model.edges_.tolist(),
                "estimate": model.cumulative_incidence(cause, group=group).tolist(),
                "low": np.asarray(interval.low).tolist(),
                "high": np.asarray(interval.high).tolist(),
            }
            for cause in model.plan_.causes
            for group in groups
            for interval in [model.incidence_interval(cause, confidence_level=level, group=group)]
        ]

    def _incidence_table(self, records: list[dict[str, Any]], summary: Summary, level: float) -> Summary:
        """Return the cumulative incidences at the horizon as a table."""
        from dpstats.inference.reports import SIMULATED
        from dpstats.inference.results import Summary
        from dpstats.survival.results import shown

        rows = []
        for record in records:
            time, *numbers = (record[key][-1] for key in ("time", "estimate", "low", "high"))
            width = numbers[2] - numbers[1]
            ends = (shown(each, width / 4) for each in numbers)
            rows.append([record["cause"], record["name"], f"{time:g}", *ends])
        columns = ["cause", "group", "time", "incidence", f"{level:g}LCL", f"{level:g}UCL"]
        simulated = [note for note in summary.notes if note == SIMULATED]
        return Summary("Private cumulative incidences", [], columns, rows, simulated)

    def draw(self, model: Any, options: argparse.Namespace) -> Any:
        return model.plot(confidence_level=options.confidence).figure


class KsCommand(ReleaseCommand):
    """Tests of whole distributions."""

    name = "ks"
    help = "private test of whether two groups, or a column and a distribution, are alike"
    description = (
        "Test whether a column has the same distribution in two groups, or a given distribution. Public: the number of "
        "rows, column names, labels and the distribution. Group sizes are private. Neighbors differ in one row."
    )
    kinds = """
    --groups A,B
        the labels of two groups, which are public; one with a comma stands in double quotes
    --distribution NAME,P,...
        public distribution with its parameters, as in scipy.stats: norm,100,15
    """
    parameters = """
    --by NAME
        with --groups: the column that has the labels
    --unknown {drop,error}
        with --groups: leave out rows with other labels (default), or refuse the file
    --statistic {ks,kuiper,cvm}, default ks
        Kolmogorov-Smirnov (default), Kuiper (spread and tails), or Cramer-von Mises
    """
    missing = ("error", "drop")
    names_columns = True
    intervals = False

    def read(self, table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
        name = check_one(options)
        self._check_labels(options)
        if options.groups is None:
            return (table.frame([name]),)
        if options.by == name:
            raise refuse("--by", allowed="name another column than --column")
        frame = table.frame([name, options.by], "--column and --by", text=[options.by])
        return frame[[name]], frame[options.by]

    def _check_labels(self, options: argparse.Namespace) -> None:
        if (options.by is None) != (options.groups is None):
            raise refuse("--by", allowed="be given with --groups, and with it only")
        if options.groups is None and options.unknown is not None:
            raise refuse("--unknown", allowed="be given with --groups only")

    def width(self, options: argparse.Namespace) -> int | None:
        return 1

    def build(self, options: argparse.Namespace, n: int, d: int) -> Any:
        from dpstats.ranks import GoodnessOfFitTest, KolmogorovSmirnovTest

        self._check_labels(options)
        own = given(options, "statistic epsilon missing")
        if options.groups is not None:
            unknown = options.unknown or "drop"
            return KolmogorovSmirnovTest(groups=split_list(options.groups), unknown=unknown, **own)
        name, *args = split_list(options.distribution) or [""]
        words = "a name of scipy.stats and numbers, separated by commas"
        return GoodnessOfFitTest(distribution=name, args=tuple(numbers_of("--distribution", args, words)), **own)

    def report(self, model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
        result = model.result_
        names = ("test", "null", "statistic", "noise_std", "cutoff", "pvalue", "n_simulations")
        return [result.summary()], {name: getattr(result, name) for name in names}
