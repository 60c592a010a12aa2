"""``dpstats survival``: private survival curves, with medians, restricted means and a log-rank test."""

from __future__ import annotations

import argparse
from typing import Any

from dpstats.cli.input import InputTable
from dpstats.cli.options import add_privacy, split_list
from dpstats.cli.release import ReleaseCommand
from dpstats.errors import InvalidParameter


def _add_parameters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--time", required=True, metavar="NAME", help="the column of times")
    parser.add_argument(
        "--event", required=True, metavar="NAME", help="the column of events: 1, and 0 for a censored time"
    )
    parser.add_argument(
        "--horizon", type=float, required=True, metavar="T", help="the time up to which curves are released"
    )
    parser.add_argument("--bins", type=int, metavar="M", help="number of bins (default: 8 to 50)")
    parser.add_argument("--by", metavar="NAME", help="the column that has the groups")
    parser.add_argument(
        "--groups",
        metavar="A,B,...",
        help="the labels of the groups, which are public; one with a comma stands in double quotes",
    )
    parser.add_argument(
        "--discrete",
        action="store_true",
        help="events are at the upper edges of the bins only: curves are steps, and a row that is censored between two "
        "edges counts at the earlier one",
    )
    parser.add_argument(
        "--unit", metavar="NAME", help="whose row it is; a subject with several rows is refused"
    )
    add_privacy(parser, 0.0)


def _groups(options: argparse.Namespace) -> list[str] | None:
    if (options.by is None) != (options.groups is None):
        raise InvalidParameter("--by and --groups must be given together")
    return None if options.groups is None else split_list(options.groups)


def _read(table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
    if options.column:
        raise InvalidParameter("--column must not be given: --time, --event and --by name the columns")
    _groups(options)
    text = [name for name in (options.by, options.unit) if name is not None]
    columns = [options.time, options.event, *text]
    if len(set(columns)) < len(columns):
        raise InvalidParameter("--time, --event, --by and --unit must name different columns")
    return (table.frame(columns, "--time, --event and --by", text=text),)


def _build(options: argparse.Namespace, n: int, d: int) -> Any:
    from dpstats.survival import PrivateSurvival

    return PrivateSurvival(
        horizon=options.horizon,
        bins=options.bins,
        by=options.by,
        groups=_groups(options),
        time=options.time,
        event=options.event,
        unit=options.unit,
        discrete=options.discrete,
        epsilon=options.epsilon,
        delta=options.delta,
    )


def _report(model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
    summary = model.summary(options.confidence)
    median, mean = (found.to_dict(options.confidence)["rows"] for found in (model.median(), model.rmst()))
    facts: dict[str, Any] = {
        "noise": model.plan_.stages[0].noise,
        "estimand": model.confidence_interval().estimand,
        "confidence_level": options.confidence,
        "medians": median,
        "restricted_means": mean,
        "life_table": model.life_table(confidence_level=options.confidence).to_dict("records"),
    }
    tables = [summary]
    if model.plan_.cells.n_groups > 1:
        test = model.log_rank()
        tables.append(test.summary())
        facts["log_rank"] = {
            "statistic": test.statistic,
            "pvalue": test.pvalue,
            "degrees_of_freedom": test.degrees_of_freedom,
        }
    return tables, facts


SURVIVAL = ReleaseCommand(
    name="survival",
    help="private survival curves, with bands, medians and a log-rank test",
    description="Release a table of events and censored times, for survival curves, medians, restricted means and a "
    "log-rank test. Public: the number of rows, column names, horizon, bins and group labels. Group sizes are "
    "private. Neighbors differ in one row.",
    add_parameters=_add_parameters,
    build=_build,
    report=_report,
    read=_read,
    width=lambda options: 1,
    picture=(
        "the curves with their bands",
        lambda model, options: model.plot(confidence_level=options.confidence).figure,
    ),
)
