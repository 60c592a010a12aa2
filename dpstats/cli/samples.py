"""What ``dpstats plan samples`` finds a number of rows for: an error, or the power of a test."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from dpstats.cli.options import given, per_column
from dpstats.errors import InvalidParameter, refuse

Build = Callable[[argparse.Namespace, int, int], Any]
"""(options, rows, columns) -> the estimator."""


class Found(NamedTuple):
    """The estimator and its required number of rows, as text and as facts of the JSON output."""

    estimator: Any
    rows: int
    words: str
    facts: dict[str, Any]


class Target(Protocol):
    """The target of a required number of rows, an error or a power, and the options for its size."""

    @property
    def help(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> str: ...

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

    @property
    def parameters(self) -> str:
        return f"""
    --target-error E, float, required
        root mean square error {self.words}, in its units
    --spread S, float, repeated
        standard deviation that rows are taken to have, once or once per column: for planning only (default: what the
        plan says of it)
    """

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
            raise refuse(
                "--target-error",
                allowed="be reached by 2^32 rows, the most that are added up exactly",
                remedy="'dpstats plan' says the noise there.",
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

    @property
    def parameters(self) -> str:
        return """
    --distance A, float, required
        Mahalanobis distance of the rows' mean from --mean: of one column, in its standard deviations
    --power P, float, default 0.8
        probability to reject at that distance (default: 0.8)
    --direction {dense,sparse}, default dense
        where the mean lies: off in all columns alike (default), or in the first alone
    --simulations N, int, default 1000
        datasets of each size that is tried (default: 1000)
    --max-seconds S, float, default 3600
        of one core: a search that would take longer is refused (default: 3600)
    """

    def find(self, options: argparse.Namespace, d: int, build: Build) -> Found:
        if options.test == "auto" and options.rho is not None:
            raise refuse(
                "--rho",
                allowed="be given with --test row-distance only",
                remedy="Which test 'auto' is depends on the number of rows.",
            )

        def search(name: str) -> tuple[Any, int]:
            test = build(argparse.Namespace(**{**vars(options), "test": name}), 2, d)
            own = given(options, "direction max_seconds", n_simulations="simulations")
            return test, test.required_samples(options.distance, d, options.power, **own)

        # "auto" chooses a test by the number of rows, which is the unknown here. Start with the test that is
        # quick to simulate. If "auto" selects another test for the result, search again with this test, which
        # needs fewer rows.
        named = self.chosen(2**32, d, options) if options.test == "auto" else options.test
        test, n = search(named)
        if options.test == "auto" and (other := self.chosen(n, d, options)) != named:
            better = search(other)
            if self.chosen(better[1], d, options) == other:
                test, n = better
        words = (
            f"{n:,} rows, for power {options.power:g} at distance {options.distance:g} "
            f"({options.direction}), to within 2%"
        )
        facts = given(options, "distance power direction simulations")
        return Found(test, n, words, {"rows": n, **facts})
