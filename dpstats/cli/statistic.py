"""``dpstats statistic``: a private interval for what a Python function computes of rows."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from typing import Any

from dpstats.cli.input import InputTable
from dpstats.cli.options import check_ends, given
from dpstats.cli.release import ReleaseCommand
from dpstats.errors import InvalidParameter, refuse, show


class StatisticCommand(ReleaseCommand):
    """The values of a Python function on blocks of rows."""

    name = "statistic"
    help = "a private interval for what a Python function computes"
    description = (
        "Call a Python function on secret blocks of rows and release the mean of its values, with an interval. The "
        "function must depend on the rows of its block alone. The number of rows, the names of columns, the function "
        "and its bounds are public."
    )
    parameters = """
    --function MODULE:NAME, required
        a Python function in an importable module, or in MODULE.py of the current folder; it takes a data frame of a
        block of rows, and returns a number (or --outputs numbers) that depends on this block alone
    --outcome NAME
        column that the function is given as its second argument
    --bounds LO HI, float
        public bounds of the values of blocks, on the scale of --link; wide ones cost little (default: -100 100)
    --outputs K, int, default 1
        how many numbers it returns
    --blocks B, int
        number of blocks (default: by the rows)
    --parameters P, int, default 1
        how many parameters the function estimates
    --skewness S, float, default 8
        largest skewness that intervals count (default: 8)
    --remainder R, float, default 0.35
        largest bias of a block of m rows that intervals count, in its standard deviations times 1/m (default: 0.35)
    --bias {jackknife,jackknife2,none}, default jackknife
        correction of the values of blocks (default: jackknife)
    --resolution R, float
        what values are whole multiples of, as shares are
    --link {fisher,logit,log}
        scale of the values: fisher for correlations
    --unit NAME
        the column that says whose row it is: a unit's rows stay together, and the guarantee is for the unit
    --missing {error,drop}, default error
        rows with a missing entry: refuse them (default), or leave them out of their block
    --time-limit SECONDS, float
        CPU time of a block at most
    --jobs N, int, default 1
        processes (default: 1)
    """
    delta = 0.0
    all_columns = True

    def add_parameters(self, parser: argparse.ArgumentParser) -> None:
        super().add_parameters(parser)
        parser.set_defaults(bounds=[-100.0, 100.0])

    def _function(self, words: str) -> Callable[..., Any]:
        """Return the function that ``--function`` names."""
        module, _, name = words.partition(":")
        if not module or not name:
            raise refuse("--function", given=words, allowed="MODULE:NAME")
        if "" not in sys.path:
            sys.path.insert(0, "")  # the current folder, as for `python -m`
        try:
            found: Any = importlib.import_module(module)
        except Exception as error:  # any error of the user's module
            raise InvalidParameter(
                f"--function: the module {show(module)} cannot be imported: {type(error).__name__}: {error}"
            ) from None
        for part in name.split("."):
            found = getattr(found, part, None)
        if not callable(found):
            raise refuse("--function", given=name, allowed=f"name a function of the module {show(module)}")
        function: Callable[..., Any] = found
        return function

    def read(self, table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
        self._function(options.function)
        beside = {"--outcome": options.outcome, "--unit": options.unit}
        named = {option: name for option, name in beside.items() if name is not None}
        if named and options.column is None:
            raise refuse("--column", allowed=f"be given beside {' and '.join(named)}")
        columns = None if options.column is None else [*options.column, *named.values()]
        if columns is not None and len(set(columns)) < len(columns):
            raise refuse("--column, --outcome and --unit", allowed="name different columns")
        frame = table.frame(columns, "--column", text=[] if options.unit is None else [options.unit])
        return (frame,) if options.outcome is None else (frame, options.outcome)

    def width(self, options: argparse.Namespace) -> int | None:
        return 1

    def build(self, options: argparse.Namespace, n: int, d: int) -> Any:
        from dpstats.statistic import PrivateStatistic

        check_ends(*options.bounds)
        names = "parameters skewness remainder resolution link unit missing time_limit epsilon delta"
        return PrivateStatistic(
            self._function(options.function),
            bounds=tuple(options.bounds),
            blocks="auto" if options.blocks is None else options.blocks,
            bias=None if options.bias == "none" else options.bias,
            **given(options, names, n_outputs="outputs", n_jobs="jobs"),
        )

    def report(self, model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
        facts = {
            "function": options.function,
            "confidence_level": options.confidence,
            "estimand": model.confidence_interval(options.confidence).estimand,
            "estimates": model.estimates().to_dict(options.confidence)["rows"],
            "blocks": model.n_blocks_,
            "rows_of_a_block": model.block_size_,
            "failed_share": model.failed_share_,
        }
        return [model.summary(options.confidence)], facts


STATISTIC = StatisticCommand()
