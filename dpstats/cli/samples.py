"""What ``dpstats plan samples`` finds a number of rows for: an error, or the power of a test."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from dpstats.cli.options import per_column
from dpstats.errors import InvalidParameter

Build = Callable[[argparse.Namespace, int, int], Any]
"""(options, rows, columns) -> the estimator."""


class Found(NamedTuple):
    """The estimator and its required number of rows, as text and as facts of the JSON output."""

    estimator: Any
    rows: int
    words: str
    facts: dict[str, Any]


class Target(Protocol):
    """The target of a required number of rows: an error or a power."""

    @property
    def help(self) -> str:
        """Short description of the target."""

    @property
    def description(self) -> str:
        """Full description of the target."""

    def add_parameters(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments for the size of the target."""

    def find(self, options: argparse.Namespace, d: int, build: Build) -> Found:
        """Return the required number of rows for a number of columns."""


class ErrorTarget(NamedTuple):
    """An error that the plan has a formula for.

    Attributes
    ----------
    words : str
        Quantity that has the error.
    share : callable
        (options, columns) -> the number of numbers in the sum of the expected error of the plan.
    """

    words: str
    share: Callable[[argparse.Namespace, int], int]

    @property
    def help(self) -> str:
        return f"rows for an error {self.words}"

    @property
    def description(self) -> str:
        return (
            f"Find the smallest number of rows at which the root mean square error {self.words} is at most "
            "--target-error, by the plan's own expected error."
        )

    def add_parameters(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--target-error",
            type=float,
            required=True,
            metavar="E",
            help=f"root mean square error {self.words}, in its units",
        )
        parser.add_argument(
            "--spread",
            action="append",
            type=float,
            metavar="S",
            help="standard deviation that rows are taken to have, once or once per column: for planning only (default: "
            "what the plan says of it)",
        )

    def find(self, options: argparse.Namespace, d: int, build: Build) -> Found:
        from dpstats.data.parameters import check_real
        from dpstats.means import required_samples

        target = check_real("--target-error", options.target_error, above=0)
        spread = None if options.spread is None else per_column("--spread", options.spread, d)
        share = self.share(options, d)
        # The estimator depends on columns and parameters only, so any number of rows builds the same one.
        estimator = build(options, 2, d)
        try:
            n = required_samples(estimator, d, share * target**2, spread)
        except InvalidParameter as error:
            if not str(error).startswith("target_error"):
                raise
            raise InvalidParameter(
                "--target-error cannot be reached by 2^32 rows, the most that are added up exactly; 'dpstats plan' "
                "says the noise there"
            ) from None
        plan = estimator.plan(n, d)
        reached = math.sqrt(plan.expected_error(spread) / share)
        words = f"{n:,} rows, for a root mean square error {self.words} of {reached:.4g}"
        if spread is None and plan.expected_error(0.0) == plan.expected_error():
            words += "\n  of the noise alone: --spread counts the sampling error"
        return Found(estimator, n, words, {"rows": n, "root_mean_square_error": reached})


class PowerTarget(NamedTuple):
    """The power of an identity test, by simulation.

    Attributes
    ----------
    chosen : callable
        (rows, columns, options) -> the value of ``--test`` that "auto" stands for.
    """

    chosen: Callable[[int, int, argparse.Namespace], str]

    @property
    def help(self) -> str:
        return "rows for the power of the test"

    @property
    def description(self) -> str:
        return (
            "Find, to within 2%, how many rows the test needs to reject with probability --power where the mean is "
            "--distance off, by simulation of public numbers: no data are read."
        )

    def add_parameters(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--distance",
            type=float,
            required=True,
            metavar="A",
            help="Mahalanobis distance of the rows' mean from --mean: of one column, in its standard deviations",
        )
        parser.add_argument(
            "--power",
            type=float,
            default=0.8,
            metavar="P",
            help="probability to reject at that distance (default: 0.8)",
        )
        parser.add_argument(
            "--direction",
            choices=["dense", "sparse"],
            default="dense",
            help="where the mean lies: off in all columns alike (default), or in the first alone",
        )
        parser.add_argument(
            "--simulations",
            type=int,
            default=1000,
            metavar="N",
            help="datasets of each size that is tried (default: 1000)",
        )
        parser.add_argument(
            "--max-seconds",
            type=float,
            default=3600.0,
            metavar="S",
            help="of one core: a search that would take longer is refused (default: 3600)",
        )

    def find(self, options: argparse.Namespace, d: int, build: Build) -> Found:
        if options.test == "auto" and options.rho is not None:
            raise InvalidParameter(
                "--rho goes with --test row-distance only: which test 'auto' is depends on the number of rows"
            )
        # "auto" chooses a test by the number of rows, which is the unknown here. Start with the test that is
        # quick to simulate. If "auto" selects another test for the result, search again with this test, which
        # needs fewer rows.
        named = self.chosen(2**32, d, options) if options.test == "auto" else options.test
        test, n = self._search(options, named, d, build)
        if options.test == "auto" and self.chosen(n, d, options) != named:
            other = self.chosen(n, d, options)
            better = self._search(options, other, d, build)
            if self.chosen(better[1], d, options) == other:
                test, n = better
        words = (
            f"{n:,} rows, for power {options.power:g} at distance {options.distance:g} "
            f"({options.direction}), to within 2%"
        )
        facts = {name: getattr(options, name) for name in ("distance", "power", "direction", "simulations")}
        return Found(test, n, words, {"rows": n, **facts})

    def _search(self, options: argparse.Namespace, name: str, d: int, build: Build) -> tuple[Any, int]:
        test = build(argparse.Namespace(**{**vars(options), "test": name}), 2, d)
        try:
            n = test.required_samples(
                options.distance,
                d,
                options.power,
                direction=options.direction,
                n_simulations=options.simulations,
                max_seconds=options.max_seconds,
            )
        except InvalidParameter as error:
            raise InvalidParameter(_as_options(str(error))) from None
        return test, n


def _as_options(message: str) -> str:
    """Return a refusal with the names that a parameter has on the command line."""
    for name, option in (("n_simulations", "--simulations"), ("max_seconds", "--max-seconds")):
        message = message.replace(name, option)
    first, _, rest = message.partition(" ")
    return f"--{first} {rest}" if first in {"distance", "power"} else message
