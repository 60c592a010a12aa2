"""``dpstats audit``: what recorded outputs of a release prove about its epsilon."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dpstats.cli.files import keep_apart, opened, output, read_table
from dpstats.cli.options import add_json, add_plot, check_plot
from dpstats.errors import InvalidParameter


def add_audit(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "audit",
        help="what recorded outputs of a release prove about its epsilon",
        description="Bound epsilon from below by recorded outputs of a release on two neighbouring datasets, "
        "one run per line. The first half of the lines chooses the attack and the second half counts.",
    )
    parser.add_argument("file", type=Path, help="CSV or Parquet file with a header")
    parser.add_argument("--epsilon", type=float, required=True, help="the claim")
    parser.add_argument("--delta", type=float, default=0.0, help="of the claim (default: 0)")
    parser.add_argument("--confidence", type=float, default=0.95, help="of the lower bound")
    parser.add_argument(
        "--columns",
        nargs=2,
        default=["dataset", "neighbor"],
        metavar=("DATASET", "NEIGHBOR"),
        help="the columns that hold the outputs (default: dataset neighbor)",
    )
    add_plot(parser, "the trade-off curve")
    add_json(parser)
    parser.set_defaults(run=_audit)


def _audit(options: argparse.Namespace) -> None:
    from dataclasses import asdict

    from dpstats.auditing import audit_outputs

    check_plot(options.plot)
    keep_apart(options, "file", "plot", "json")
    frame = read_table(options.file, options.columns, "--columns")
    if frame.isna().any(axis=None):
        raise InvalidParameter(
            f"--columns must hold one output per line of {options.file.name}, got empty cells: "
            "write a word where a release returns nothing"
        )
    outputs = [frame[name] for name in options.columns]
    # Opened before the work, so that a path that cannot be written is refused at once.
    with opened("--plot", options.plot), output(options.json) as show:
        result = audit_outputs(
            *(values.to_numpy() if values.dtype.kind in "biuf" else values.tolist() for values in outputs),
            epsilon=options.epsilon,
            delta=options.delta,
            confidence=options.confidence,
        )
        if options.plot is not None:
            from dpstats.plots import plot_audit

            plot_audit(result, title=options.file.name).savefig(options.plot, dpi=150)
        facts = asdict(result)
        del facts["curve"]
        show(result, facts)
