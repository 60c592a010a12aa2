"""``dpstats survival``: private survival curves, with medians, restricted means and a log-rank test."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

from dpstats.cli.input import InputTable
from dpstats.cli.options import given, numbers_of, split_list
from dpstats.cli.release import ReleaseCommand
from dpstats.errors import refuse

if TYPE_CHECKING:
    from dpstats.results import Summary


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
        from dpstats.data.words import number

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
        from dpstats.report import SIMULATED
        from dpstats.results import Summary
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


SURVIVAL = SurvivalCommand()
