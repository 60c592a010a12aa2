"""``dpstats survival``: private survival curves, with medians, restricted means and a log-rank test."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

from dpstats.cli.input import InputTable
from dpstats.cli.options import add_privacy, numbers_of, split_list
from dpstats.cli.release import ReleaseCommand
from dpstats.errors import InvalidParameter

if TYPE_CHECKING:
    from dpstats.results import Summary


def _add_parameters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--time", required=True, metavar="NAME", help="the column of times")
    parser.add_argument(
        "--event",
        required=True,
        metavar="NAME",
        help="the column of events: 1, and 0 for a censored time, unless --cause and --censored declare other values",
    )
    parser.add_argument(
        "--cause",
        action="append",
        metavar="A,B,...",
        help="the values of --event that are an event (default: 1), one or several competing causes; public",
    )
    parser.add_argument(
        "--censored",
        default="0",
        metavar="VALUE",
        help="the value of --event of a censored time (default: 0)",
    )
    parser.add_argument(
        "--horizon",
        type=float,
        metavar="T",
        help="the time up to which curves are released; not needed with --edges",
    )
    parser.add_argument("--bins", type=int, metavar="M", help="number of bins (default: 8 to 50)")
    parser.add_argument(
        "--edges",
        metavar="T,T,...",
        help="the right edges of the bins, in place of --bins. With --discrete and 0 as the first one, events at time "
        "0 have a bin",
    )
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


def _edges(options: argparse.Namespace) -> list[float] | None:
    if options.edges is None:
        return None
    return numbers_of("--edges", split_list(options.edges), "increasing times, separated by commas")


def _event_values(options: argparse.Namespace) -> tuple[Any, list[Any]]:
    """Return the declared values of a censored time and of events: numbers if all of them read as numbers."""
    from dpstats.data.words import number

    causes = [value for text in options.cause or ["1"] for value in split_list(text)]
    words = [options.censored, *causes]
    found = [value for word in words if (value := number(word)) is not None and math.isfinite(value)]
    if len(found) < len(words):
        return options.censored, causes
    censored, *numbers = (int(value) if value.is_integer() else value for value in found)
    return censored, numbers


def _read(table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
    if options.column:
        raise InvalidParameter("--column must not be given: --time, --event and --by name the columns")
    _groups(options)
    text = [name for name in (options.by, options.unit) if name is not None]
    columns = [options.time, options.event, *text]
    if isinstance(_event_values(options)[0], str):
        text.append(options.event)
    if len(set(columns)) < len(columns):
        raise InvalidParameter("--time, --event, --by and --unit must name different columns")
    return (table.frame(columns, "--time, --event and --by", text=text),)


def _build(options: argparse.Namespace, n: int, d: int) -> Any:
    from dpstats.survival import PrivateSurvival

    censored, causes = _event_values(options)
    return PrivateSurvival(
        horizon=options.horizon,
        bins=options.bins,
        edges=_edges(options),
        by=options.by,
        groups=_groups(options),
        time=options.time,
        event=options.event,
        causes=causes,
        censored=censored,
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
    if len(model.plan_.causes) > 1:
        facts["cumulative_incidences"] = _incidences(model, options.confidence)
        tables.append(_incidence_table(facts["cumulative_incidences"], summary, options.confidence))
    if model.plan_.cells.n_groups > 1:
        test = model.log_rank()
        tables.append(test.summary())
        facts["log_rank"] = {
            "statistic": test.statistic,
            "pvalue": test.pvalue,
            "degrees_of_freedom": test.degrees_of_freedom,
        }
    return tables, facts


def _incidences(model: Any, confidence: float) -> list[dict[str, Any]]:
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
        for interval in [model.incidence_interval(cause, confidence_level=confidence, group=group)]
    ]


def _incidence_table(records: list[dict[str, Any]], summary: Summary, confidence: float) -> Summary:
    """Return the cumulative incidences at the horizon as a table."""
    from dpstats.report import SIMULATED
    from dpstats.results import Summary
    from dpstats.survival.results import shown

    columns = ["cause", "group", "time", "incidence", f"{confidence:g}LCL", f"{confidence:g}UCL"]
    rows = []
    for record in records:
        time, *numbers = (record[key][-1] for key in ("time", "estimate", "low", "high"))
        width = numbers[2] - numbers[1]
        rows.append(
            [record["cause"], record["name"], f"{time:g}", *(shown(each, width / 4) for each in numbers)]
        )
    simulated = [note for note in summary.notes if note == SIMULATED]
    return Summary("Private cumulative incidences", [], columns, rows, simulated)


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
