"""``dpstats group-means``: private means of declared or discovered groups, and how they compare."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from dpstats.cli.declared import DISCOVER, bounds_of, by_column, check_discovery
from dpstats.cli.input import InputTable
from dpstats.cli.options import given, per_column, split_list
from dpstats.cli.release import ReleaseCommand, private_size
from dpstats.cli.units import read_rows
from dpstats.errors import refuse


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


GROUP_MEANS = GroupMeansCommand()
