"""``dpstats identity-test``: is the mean of the rows a public one?"""

from __future__ import annotations

import argparse
import math
import warnings
from typing import Any

from dpstats.cli.files import shows_progress
from dpstats.cli.input import reading
from dpstats.cli.options import add_options, given, per_column, refuse_both
from dpstats.cli.release import ReleaseCommand
from dpstats.cli.samples import PowerTarget
from dpstats.errors import InvalidParameter, refuse


def automatic(n: int, d: int, options: argparse.Namespace) -> str:
    """Return the test that --test auto selects."""
    from dpstats.identity import RowDistanceTest
    from dpstats.identity.choice import automatic_test

    # Only the row distance takes --rho, so its size alone decides.
    epsilon = math.inf if options.rho is not None else 1.0 if options.epsilon is None else options.epsilon
    return "row-distance" if automatic_test(n, d, epsilon) is RowDistanceTest else "spatial-sign"


class IdentityTestCommand(ReleaseCommand):
    """Tests of a public mean."""

    name = "identity-test"
    help = "private test of whether the mean of the rows is a public one"
    description = (
        "Test privately whether the rows are normal with a public mean and covariance (by default the identity), or "
        "the columns independent signs. Pure privacy, but for filtering; the critical value is simulated, from public "
        "numbers only."
    )
    mean = """
    --mean M ..., float, extended, required
        mean under the null hypothesis: one number, or one per column
    """
    spread = """
    --cov FILE, path
        public covariance matrix: a CSV file of numbers, no header
    --std S ..., float, extended
        public standard deviations of independent columns: one number, or one per column
    """
    parameters = """
    --null {normal,product}, default normal
        normal rows (default), or independent entries of -1 and 1 (0 counts as -1) with this mean
    --level A, float, default 0.05
        of the test (default: 0.05)
    --test {row-distance,spatial-sign,lipschitz,filtering,auto}, default auto
        auto (default): row-distance for 8 columns or more if its calibration takes minutes at most, and otherwise
        spatial-sign
    --delta DELTA, float
        of filtering (default: 1e-06); the others are pure
    --rho RHO, float
        row-distance, for budgets kept in zero-concentrated privacy: Gaussian noise of this cost, in place of --epsilon
    """
    unit = "the mean of its entries"
    missing = ("error", "drop", "center")
    intervals = False
    target = PowerTarget(automatic)

    def add_parameters(self, parser: argparse.ArgumentParser) -> None:
        add_options(parser, self.mean)
        add_options(parser.add_mutually_exclusive_group(), self.spread)
        super().add_parameters(parser)
        parser.set_defaults(epsilon=None)  # 1, where --rho does not take its place

    def build(self, options: argparse.Namespace, n: int, d: int) -> Any:
        from dpstats.identity import FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest

        tests: dict[str, Any] = {
            "row-distance": RowDistanceTest,
            "spatial-sign": SpatialSignTest,
            "lipschitz": LipschitzExtensionTest,
            "filtering": FilteringTest,
        }
        if options.delta is not None and options.test != "filtering":
            raise refuse(
                "--delta", got=f"--test {options.test}", allowed="be given with --test filtering only"
            )
        if options.null == "product" and (options.std is not None or options.cov is not None):
            remedy = "Signs have variance 1 - mean^2."
            raise refuse("--std and --cov", allowed="be given with --null normal only", remedy=remedy)
        own: dict[str, Any] = {} if options.delta is None else {"delta": options.delta}
        test = tests[automatic(n, d, options) if options.test == "auto" else options.test]
        if options.rho is not None:
            if test is not RowDistanceTest:
                allowed = "be given with --test row-distance only"
                raise refuse("--rho", got=f"--test {options.test}", allowed=allowed)
            if options.epsilon is not None:
                raise refuse_both("--rho", "--epsilon", "Each is the privacy cost: remove one of them.")
            own["rho"] = options.rho
        return test(
            mean=per_column("--mean", options.mean, d),
            cov=self._covariance(options, d),
            epsilon=1.0 if options.epsilon is None and options.rho is None else options.epsilon,
            progress=shows_progress(options),
            **given(options, "null level missing"),
            **own,
        )

    def _covariance(self, options: argparse.Namespace, d: int) -> Any:
        """Return the public covariance of an identity test: None, variances or a matrix."""
        import numpy as np

        from dpstats.data.parameters import check_columns

        if options.std is not None:
            std = check_columns("--std", per_column("--std", options.std, d), d, above=0)
            return np.broadcast_to(std, (d,)) ** 2
        if options.cov is None:
            return None
        refusal = f"--cov must be a CSV file of numbers without a header, got {options.cov}"
        with reading(options.cov, refusal, InvalidParameter), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about an empty file, which is refused below
            matrix = np.loadtxt(options.cov, delimiter=",", ndmin=2)
        if matrix.size == 0:
            raise InvalidParameter(f"{refusal}: the file is empty")
        if matrix.shape != (d, d):
            got = f"{matrix.shape[0]} of {matrix.shape[1]}"
            raise refuse("--cov", got=got, allowed=f"hold {d} lines of {d} numbers, one per column")
        return matrix

    def report(self, model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
        result = model.result_
        names = (
            *("test", "null", "statistic", "threshold", "pvalue", "level", "reject", "n_calibration"),
            *("level_range", "attainable_power"),
        )
        return [result.summary()], {name: getattr(result, name) for name in names}


IDENTITY_TEST = IdentityTestCommand()
