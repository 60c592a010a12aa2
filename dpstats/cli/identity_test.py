"""``dpstats identity-test``: is the mean of the rows a public one?"""

from __future__ import annotations

import argparse
import math
import warnings
from pathlib import Path
from typing import Any

from dpstats.cli.files import shows_progress
from dpstats.cli.input import reading
from dpstats.cli.options import add_privacy, per_column
from dpstats.cli.release import ReleaseCommand
from dpstats.cli.samples import PowerTarget
from dpstats.cli.units import add_unit
from dpstats.errors import InvalidParameter


def _add_parameters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mean",
        action="extend",
        nargs="+",
        type=float,
        required=True,
        metavar="M",
        help="mean under the null hypothesis: one number, or one per column",
    )
    spread = parser.add_mutually_exclusive_group()
    spread.add_argument(
        "--cov", type=Path, metavar="FILE", help="public covariance matrix: a CSV file of numbers, no header"
    )
    spread.add_argument(
        "--std",
        action="extend",
        nargs="+",
        type=float,
        metavar="S",
        help="public standard deviations of independent columns: one number, or one per column",
    )
    parser.add_argument(
        "--null",
        choices=["normal", "product"],
        default="normal",
        help="normal rows (default), or independent entries of -1 and 1 (0 counts as -1) with this mean",
    )
    parser.add_argument("--level", type=float, default=0.05, metavar="A", help="of the test (default: 0.05)")
    parser.add_argument(
        "--test",
        choices=["row-distance", "spatial-sign", "lipschitz", "filtering", "auto"],
        default="auto",
        help="auto (default): row-distance for 8 columns or more if its calibration takes minutes at most, and "
        "otherwise spatial-sign",
    )
    parser.add_argument("--delta", type=float, help="of filtering (default: 1e-06); the others are pure")
    parser.add_argument(
        "--rho",
        type=float,
        help="row-distance, for budgets kept in zero-concentrated privacy: Gaussian noise of this cost, in place of "
        "--epsilon",
    )
    add_unit(parser, "the mean of its entries")
    add_privacy(parser, missing=("error", "drop", "center"))
    parser.set_defaults(epsilon=None)  # 1, where --rho does not take its place


def _automatic(n: int, d: int, options: argparse.Namespace) -> str:
    """Return the test that --test auto selects."""
    from dpstats.identity import RowDistanceTest
    from dpstats.identity.choice import automatic_test

    # Only the row distance takes --rho, so its size alone decides.
    epsilon = math.inf if options.rho is not None else 1.0 if options.epsilon is None else options.epsilon
    return "row-distance" if automatic_test(n, d, epsilon) is RowDistanceTest else "spatial-sign"


def _build(options: argparse.Namespace, n: int, d: int) -> Any:
    from dpstats.identity import FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest

    tests: dict[str, Any] = {
        "row-distance": RowDistanceTest,
        "spatial-sign": SpatialSignTest,
        "lipschitz": LipschitzExtensionTest,
        "filtering": FilteringTest,
    }
    if options.delta is not None and options.test != "filtering":
        raise InvalidParameter(f"--delta goes with --test filtering only, got --test {options.test}")
    if options.null == "product" and (options.std is not None or options.cov is not None):
        raise InvalidParameter("--std and --cov go with --null normal only: signs have variance 1 - mean^2")
    own: dict[str, Any] = {} if options.delta is None else {"delta": options.delta}
    test = tests[_automatic(n, d, options) if options.test == "auto" else options.test]
    if options.rho is not None:
        if test is not RowDistanceTest:
            raise InvalidParameter(f"--rho goes with --test row-distance only, got --test {options.test}")
        if options.epsilon is not None:
            raise InvalidParameter(
                "--rho and --epsilon cannot be given together: each is the privacy cost. Give one of them"
            )
        own["rho"] = options.rho
    return test(
        mean=per_column("--mean", options.mean, d),
        cov=_covariance(options, d),
        null=options.null,
        epsilon=1.0 if options.epsilon is None and options.rho is None else options.epsilon,
        level=options.level,
        missing=options.missing,
        progress=shows_progress(options),
        **own,
    )


def _covariance(options: argparse.Namespace, d: int) -> Any:
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
        raise InvalidParameter(
            f"--cov must hold {d} lines of {d} numbers, one per column, got {matrix.shape[0]} of {matrix.shape[1]}"
        )
    return matrix


def _report(test: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
    result = test.result_
    names = (
        "test",
        "null",
        "statistic",
        "threshold",
        "pvalue",
        "level",
        "reject",
        "n_calibration",
        "level_range",
        "attainable_power",
    )
    summary = result.summary()
    return [summary], {name: getattr(result, name) for name in names}


IDENTITY_TEST = ReleaseCommand(
    name="identity-test",
    help="private test of whether the mean of the rows is a public one",
    description="Test privately whether the rows are normal with a public mean and covariance (by default "
    "the identity), or the columns independent signs. Pure privacy, but for filtering; the critical value is "
    "simulated, from public numbers only.",
    add_parameters=_add_parameters,
    build=_build,
    report=_report,
    intervals=False,
    target=PowerTarget(_automatic),
)
