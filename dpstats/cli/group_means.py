"""``dpstats group-means``: private means of declared or discovered groups, and how they compare."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from dpstats.cli.declared import DISCOVER, bounds_of, by_column, check_discovery
from dpstats.cli.input import InputTable
from dpstats.cli.options import add_privacy, per_column, split_list
from dpstats.cli.release import ReleaseCommand, private_size
from dpstats.cli.units import add_unit, read_rows
from dpstats.errors import InvalidParameter, show


def _add_parameters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--by", required=True, metavar="NAME", help="the column that has the labels")
    parser.add_argument(
        "--groups",
        required=True,
        metavar="A,B,...",
        help="the labels, which are public; one with a comma stands in double quotes. The word discover shows the "
        "labels of many rows, which needs a positive --delta",
    )
    parser.add_argument(
        "--bounds",
        action="append",
        nargs="+",
        required=True,
        metavar="BOUNDS",
        help="public bounds: LO HI for columns without a name (once, or once per column), or NAME=LO,HI",
    )
    parser.add_argument(
        "--adjust",
        action="append",
        default=[],
        metavar="NAME",
        help="a covariate to adjust the comparisons for (once for each), with bounds as NAME=LO,HI in --bounds",
    )
    parser.add_argument(
        "--not-randomized",
        action="store_true",
        help="with --adjust: the covariates may differ between groups, which are compared by a linear model",
    )
    parser.add_argument("--hard", action="store_true", help="the bounds hold by nature, for every row")
    parser.add_argument(
        "--pairwise",
        nargs="?",
        const="tukey",
        choices=["tukey", "holm"],
        help="compare all pairs of groups, by Tukey's range (default) or Holm's p-values",
    )
    parser.add_argument("--anova", action="store_true", help="test whether all means are equal")
    add_unit(parser, "the mean of its entries and its first label")
    add_privacy(parser, 1e-6, missing=("error", "drop"), neighbors=True)


def _groups(options: argparse.Namespace) -> list[str] | str:
    """Return the declared labels, or the word for none. In double quotes, the word is a label."""
    return DISCOVER if _discovers(options) else split_list(options.groups)


def _discovers(options: argparse.Namespace) -> bool:
    return bool(options.groups == DISCOVER)


def _read(table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
    if not options.column:
        raise InvalidParameter("--column must be given, once for each column")
    columns = list(dict.fromkeys([*options.column, *options.adjust]))
    if len(columns) < len(options.column) + len(options.adjust) or options.by in columns:
        raise InvalidParameter("--column and --adjust must name each column once, and not the column of --by")
    if unknown := [name for name in bounds_of(options.bounds)[1] if name not in columns]:
        raise InvalidParameter(
            f"--bounds must name a column of --column, or of --adjust, got {show(unknown[0])}"
        )
    if options.unit is None and not _discovers(options):
        return table.parts(columns, options.by, "--column and --by", text=[options.by])
    how = {**dict.fromkeys(columns, "mean"), options.by: "first"}
    frame = read_rows(table, options, how, "--column and --by", text=[options.by])
    labels = frame[options.by]
    # In a file, a missing label is empty, and must not be discovered.
    return frame[columns], labels.where(labels != "", None) if _discovers(options) else labels


def _build(options: argparse.Namespace, n: int, d: int) -> Any:
    from dpstats.groups import GroupMeans

    groups = _groups(options)
    if groups == DISCOVER:
        check_discovery(f"--groups {DISCOVER}", options.delta)
        if options.anova:
            raise InvalidParameter(
                f"--anova needs declared groups, got --groups {DISCOVER}. Use --pairwise holm instead."
            )
    elif (options.pairwise or options.anova) and len(groups) < 2:
        raise InvalidParameter("--pairwise and --anova compare groups: --groups must have two or more")
    pairs, named = bounds_of(options.bounds)
    columns = list(dict.fromkeys([*options.column, *options.adjust])) if "column" in options else list(named)
    if missing := [name for name in options.adjust if name not in named]:
        raise InvalidParameter(f"--adjust needs bounds as {missing[0]}=LO,HI in --bounds")
    if "column" in options:
        bounds = by_column(columns, pairs, named)
    elif named:
        if len(named) != d or pairs:
            raise InvalidParameter(
                f"--bounds must name each of the --columns ({d}) or none, got {len(named)}"
            )
        bounds = list(named.values())
    else:
        bounds = per_column("--bounds", pairs, d)
    return GroupMeans(
        groups=groups,
        bounds=bounds,
        bounds_are="hard" if options.hard else "clip",
        epsilon=options.epsilon,
        delta=options.delta,
        adjust=[columns.index(name) for name in options.adjust] or None,
        randomized=not options.not_randomized,
        missing=options.missing,
        neighbors=options.neighbors,
    )


def _report(model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
    summary = model.summary(options.confidence)
    names = options.column
    facts: dict[str, Any] = {
        "noise": model.plan_.stages[0].noise,
        "estimand": model.estimand_,
        "confidence_level": options.confidence,
        **private_size(model, options.confidence),
        "count_noise_std": model.counts_noise_std_,
        "group_means": _records(model, options.confidence, found=_discovers(options)),
    }
    few = len(model.groups_) < 2
    if options.pairwise and few:
        words = "No pairs are compared, because fewer than two groups were found."
        summary = replace(summary, notes=[*summary.notes, words])
    tables = [summary]
    if options.anova:
        found = model.anova()
        tables.append(found.summary())
        facts["anova"] = [
            {"column": name, "statistic": statistic, "pvalue": pvalue, "simulations": found.n_simulations}
            for name, statistic, pvalue in zip(
                names, found.statistic.tolist(), found.pvalue.tolist(), strict=True
            )
        ]
    if options.pairwise and few:
        facts["pairwise"] = []
    elif options.pairwise:
        pairs = model.pairwise(options.pairwise)
        tables.append(pairs.summary(options.confidence))
        facts["pairwise"] = _pairs(pairs, options.pairwise, options.confidence)
    return tables, facts


def _records(model: Any, confidence: float, found: bool) -> list[dict[str, Any]]:
    """Return a record per group and column; of groups that were found, with intervals of their sizes."""
    sizes = [{"rows": count} for count in model.counts_.tolist()]
    if found:
        interval = model.count_interval(confidence)
        for size, low, high in zip(sizes, interval.low.tolist(), interval.high.tolist(), strict=True):
            size |= {"rows_low": low, "rows_high": high}
    rows = [size for size in sizes for _ in range(model.means_.shape[1])]
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
        for row, size, std in zip(
            model.to_dict(confidence)["rows"], rows, model.std_.ravel().tolist(), strict=True
        )
    ]


def _pairs(found: Any, method: str, confidence: float) -> list[dict[str, Any]]:
    """Return a record per pair and column."""
    return [
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
        for row in found.to_dict(confidence)["rows"]
    ]


def _drawn(model: Any, confidence: float) -> Any:
    panels = model.plot(confidence_level=confidence)
    return (panels if model.means_.shape[1] == 1 else panels[0]).figure


GROUP_MEANS = ReleaseCommand(
    name="group-means",
    help="private means of declared or discovered groups, with intervals and comparisons",
    description="Release and compare the means of columns in groups, and the group sizes. Public: the number of rows, "
    "column names, declared labels and bounds. Group sizes are private. Neighbors differ in one row (with --unit: one "
    "unit).",
    add_parameters=_add_parameters,
    build=_build,
    report=_report,
    read=_read,
    picture=("the means with their intervals", lambda model, options: _drawn(model, options.confidence)),
)
