"""``dpstats mean``: private means of columns, clipped or adaptive."""

from __future__ import annotations

import argparse
from typing import Any

from dpstats.cli.options import add_privacy, check_ends, numbers_of, per_column
from dpstats.cli.release import ReleaseCommand, estimates, private_size
from dpstats.cli.samples import ErrorTarget
from dpstats.cli.units import add_unit
from dpstats.errors import InvalidParameter


def _add_parameters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--method",
        choices=["clipped", "adaptive"],
        default="clipped",
        help="clipped (default): rows clipped to --bounds; adaptive: finds out where the rows are, and needs only "
        "--bound and --std",
    )
    parser.add_argument(
        "--bounds",
        action="append",
        nargs=2,
        type=float,
        metavar=("LO", "HI"),
        help="public bounds of the column (adaptive: of its mean); once for all columns, or once per column in their "
        "order",
    )
    parser.add_argument(
        "--hard",
        action="store_true",
        help="the bounds hold by nature, for every row (a percentage, an age, an answer from 1 to 5)",
    )
    parser.add_argument(
        "--clipped-share",
        action="store_true",
        help="clipped: release also the fraction of each column outside the bounds (1 to 3%% more noise)",
    )
    parser.add_argument(
        "--bound",
        action="append",
        type=float,
        metavar="B",
        help="adaptive: public bound on the size of the column's mean, in place of --bounds; once, or once per column",
    )
    parser.add_argument(
        "--std",
        action="append",
        help="public standard deviation, once or once per column; an upper bound with adaptive. 'private' (the default "
        "with clipped) estimates it under the same guarantee; clipped also takes 'none'",
    )
    parser.add_argument(
        "--std-bound",
        action="append",
        type=float,
        metavar="B",
        help="adaptive with --std private: a loose public bound on the standard deviation",
    )
    parser.add_argument(
        "--cov",
        choices=["private"],
        help="adaptive: release the covariance of the columns first, so that the noise has the shape of the rows; the "
        "plan says whether there are enough rows",
    )
    parser.add_argument(
        "--tails",
        choices=["subgaussian", "symmetric", "variance"],
        help="adaptive: what bias and intervals assume about the rows (default: subgaussian)",
    )
    add_unit(parser, "the mean of its entries")
    add_privacy(parser, 0.0, missing=("error", "drop", "center"), neighbors=True)


def _add_answers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--test",
        action="append",
        type=float,
        metavar="VALUE",
        help="test whether the mean is this, once or once per column; costs no privacy",
    )
    parser.add_argument(
        "--alternative",
        choices=["two-sided", "less", "greater"],
        default="two-sided",
        help="what speaks against --test's value (default: two-sided)",
    )


def _build(options: argparse.Namespace, n: int, d: int) -> Any:
    from dpstats.means import AdaptiveMean, ClippedMean

    adaptive = options.method == "adaptive"
    foreign = ("clipped_share",) if adaptive else ("bound", "tails", "std_bound", "cov")
    for name in foreign:
        if getattr(options, name) not in (None, False):
            raise InvalidParameter(
                f"--{name.replace('_', '-')} cannot be used with --method {options.method}. Remove one of them"
            )
    if not adaptive and options.bounds is None:
        raise InvalidParameter("--method clipped needs --bounds")
    for low, high in options.bounds or []:
        check_ends(low, high)
    if getattr(options, "test", None) is not None:
        _check_values(options, d)
    shared = {
        "epsilon": options.epsilon,
        "delta": options.delta,
        "missing": options.missing,
        "bounds": None if options.bounds is None else per_column("--bounds", options.bounds, d),
        "bounds_are": "hard" if options.hard else "clip",
        "std": _std(options.std, d, adaptive),
    }
    if not adaptive:
        return ClippedMean(clipped_share=options.clipped_share, neighbors=options.neighbors, **shared)
    if options.neighbors != "replace_one":
        raise InvalidParameter(
            f"--neighbors must be replace_one with --method adaptive, got {options.neighbors}. Use --method clipped"
        )
    if (options.bound is None) == (options.bounds is None):
        raise InvalidParameter("--method adaptive needs --bound or --bounds, one of them")
    if options.std is None:
        raise InvalidParameter("--method adaptive needs --std")
    return AdaptiveMean(
        bound=None if options.bound is None else per_column("--bound", options.bound, d),
        std_bound=None if options.std_bound is None else per_column("--std-bound", options.std_bound, d),
        tails=options.tails or "subgaussian",
        cov=options.cov,
        **shared,
    )


def _check_values(options: argparse.Namespace, d: int) -> None:
    """Refuse, before anything is charged, to test values that no mean can have."""
    ends = options.bounds or [(-bound, bound) for bound in options.bound or []]
    for option, given in (("--test", options.test), ("--bounds", ends)):
        per_column(option, given, d)
    for j in range(d if ends else 0):
        value, (low, high) = options.test[j % len(options.test)], ends[j % len(ends)]
        if not low <= value <= high:
            raise InvalidParameter(
                f"--test must be between the declared bounds, where every mean is, got {value:g} for a column "
                f"between {low:g} and {high:g}"
            )


def _std(given: list[str] | None, d: int, adaptive: bool) -> Any:
    """Return the ``std`` parameter of an estimator: "private", None, or public numbers."""
    if given in (None, ["private"]):
        return "private"
    if given == ["none"] and not adaptive:
        return None
    words = "'private' or a number" if adaptive else "'private', 'none' or a number"
    return per_column("--std", numbers_of("--std", given, words), d)


def _report(mean: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
    import numpy as np

    interval = mean.confidence_interval(options.confidence)
    summary = mean.summary(options.confidence)
    facts = {
        "noise": mean.plan_.stages[0].noise,
        "estimand": interval.estimand,
        "confidence_level": interval.confidence_level,
        **private_size(mean, options.confidence),
        "columns": estimates(mean.feature_names_in_, mean.mean_, mean.noise_std_, interval, _spread(mean)),
    }
    if options.test is None:
        return [summary], facts
    value = per_column("--test", options.test, mean.plan_.n_features)
    test = mean.test(value, options.alternative)
    names = ("value", "statistic", "pvalue")
    columns = [np.broadcast_to(getattr(test, name), len(test.names)).tolist() for name in names]
    facts["test"] = {
        "estimand": test.estimand,
        "alternative": test.alternative,
        "columns": [
            {"name": str(name), **dict(zip(names, record, strict=True))}
            for name, *record in zip(test.names, *columns, strict=True)
        ],
    }
    return [summary, test.summary()], facts


def _spread(mean: Any) -> Any:
    """Return the standard deviation that the fit uses, released or public, if there is one."""
    import numpy as np

    std = getattr(mean, "std_", mean.std)
    return None if std is None or isinstance(std, str) else np.broadcast_to(std, mean.mean_.shape)


MEAN = ReleaseCommand(
    name="mean",
    help="private means of the columns of a CSV or Parquet file",
    description="Release the private mean of each named column. The number of rows, the column names and "
    "the bounds are public; two files of the same size that differ in one row are neighbors.",
    add_parameters=_add_parameters,
    build=_build,
    report=_report,
    in_blocks=True,
    target=ErrorTarget("of a column's mean", lambda options, d: d),
    add_answers=_add_answers,
)
