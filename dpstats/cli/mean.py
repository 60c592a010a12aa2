"""``dpstats mean``: private means of columns, clipped or adaptive."""

from __future__ import annotations

import argparse
import math
from typing import Any

from dpstats.cli.options import add_privacy, per_column
from dpstats.cli.release import ReleaseCommand, estimates
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
        help="clipped: public bounds of the column; once for all columns, or once per column in the same order",
    )
    parser.add_argument(
        "--hard",
        action="store_true",
        help="clipped: the bounds hold by nature (a share, an age, an answer from 1 to 5): clipping changes no row",
    )
    parser.add_argument(
        "--clipped-share",
        action="store_true",
        help="clipped: release also what share of each column lies outside the bounds (1 to 3%% more noise)",
    )
    parser.add_argument(
        "--bound",
        action="append",
        type=float,
        metavar="B",
        help="adaptive: public bound on the size of the column's mean; once, or once per column",
    )
    parser.add_argument(
        "--std",
        action="append",
        help="public standard deviation, once or once per column; an upper bound with adaptive. With clipped also "
        "'private' (default: estimated, under the same guarantee) or 'none'",
    )
    parser.add_argument(
        "--tails",
        choices=["subgaussian", "symmetric", "variance"],
        help="adaptive: what bias and intervals assume about the rows (default: subgaussian)",
    )
    add_privacy(parser, 0.0)


def _build(options: argparse.Namespace, n: int, d: int) -> Any:
    from dpstats.means import AdaptiveMean, ClippedMean

    adaptive = options.method == "adaptive"
    needed = ("bound", "std") if adaptive else ("bounds",)
    foreign = ("bounds", "hard", "clipped_share") if adaptive else ("bound", "tails")
    for name in needed:
        if getattr(options, name) is None:
            raise InvalidParameter(f"--method {options.method} needs --{name}")
    for name in foreign:
        if getattr(options, name) not in (None, False):
            raise InvalidParameter(f"--{name.replace('_', '-')} does not go with --method {options.method}")
    shared = {"epsilon": options.epsilon, "delta": options.delta, "missing": options.missing}
    if adaptive:
        return AdaptiveMean(
            bound=per_column("--bound", options.bound, d),
            std=per_column("--std", _numbers(options.std, "a number"), d),
            tails=options.tails or "subgaussian",
            **shared,
        )
    for low, high in options.bounds:
        if not low < high:
            raise InvalidParameter(f"--bounds must be two numbers LO < HI, got {low:g} {high:g}")
        if not math.isfinite(high - low) or not math.isfinite(high + low):
            raise InvalidParameter(f"--bounds must have a finite sum and difference, got {low:g} {high:g}")
    std: Any = options.std or ["private"]
    if std in (["private"], ["none"]):
        std = None if std == ["none"] else "private"
    else:
        std = per_column("--std", _numbers(std, "'private', 'none' or a number"), d)
    return ClippedMean(
        bounds=per_column("--bounds", options.bounds, d),
        bounds_are="hard" if options.hard else "clip",
        clipped_share=options.clipped_share,
        std=std,
        **shared,
    )


def _numbers(texts: list[str], words: str) -> list[float]:
    try:
        return [float(text) for text in texts]
    except ValueError:
        raise InvalidParameter(f"--std must be {words}, got {', '.join(map(repr, texts))}") from None


def _report(mean: Any, options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    interval = mean.confidence_interval(options.confidence)
    summary = mean.summary(options.confidence)
    facts = {
        "noise": mean.plan_.stages[0].noise,
        "estimand": interval.estimand,
        "confidence_level": interval.confidence_level,
        "columns": estimates(mean.feature_names_in_, mean.mean_, mean.noise_std_, interval),
        "notes": list(summary.notes),
    }
    return summary, facts


MEAN = ReleaseCommand(
    name="mean",
    help="private means of the columns of a CSV or Parquet file",
    description="Release the private mean of each named column. The number of rows, the column names and "
    "the bounds are public; two files of the same size that differ in one row are neighbours.",
    add_parameters=_add_parameters,
    build=_build,
    report=_report,
)
