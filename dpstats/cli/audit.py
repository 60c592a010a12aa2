"""``dpstats audit``: what recorded outputs of a release prove about its epsilon."""

from __future__ import annotations

import argparse
from typing import Any

from dpstats.cli.exits import VIOLATION, epilog
from dpstats.cli.files import opened, output
from dpstats.cli.input import InputTable, add_table
from dpstats.cli.options import add_options, add_output, add_plot, check_plot, given
from dpstats.errors import InvalidData, refuse

_AUDIT = """
    --epsilon EPSILON, float, required
        the claim
    --delta DELTA, float, default 0
        of the claim (default: 0)
    --confidence CONFIDENCE, float, default 0.95
        of the lower bound (default: 0.95)
    --column NAME, repeated
        the columns that hold the outputs: first of the dataset, then of its neighbor (default: dataset, neighbor)
"""


def add_audit(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "audit",
        help="what recorded outputs of a release prove about its epsilon",
        description="Bound epsilon from below by recorded outputs of a release on two neighboring datasets, "
        "one run per line. The first half of the lines chooses the attack and the second half counts. A claim that is "
        f"proved false ends with exit status {VIOLATION}.",
        epilog=epilog(),
    )
    add_table(parser)
    add_options(parser, _AUDIT)
    add_plot(parser, "the trade-off curve")
    add_output(parser)
    parser.set_defaults(run=_audit)


def _audit(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from dpstats.auditing import audit_outputs

    check_plot(options.plot)
    columns = options.column or ["dataset", "neighbor"]
    if len(columns) != 2:
        got = f"{len(columns)} times"
        raise refuse("--column", got=got, allowed="be given twice, or not at all")
    table = InputTable(options)
    frame = table.frame(columns, text=columns)
    outputs = [_outputs(frame[name], table.name) for name in columns]
    # Opened before the work, so that a path that cannot be written is refused at once.
    with opened("--plot", options.plot), output(options) as show:
        result = audit_outputs(*outputs, **given(options, "epsilon delta confidence"))
        facts = asdict(result)
        del facts["curve"]
        show(result, facts)
        if options.plot is not None:
            from dpstats.plots import plot_audit

            plot_audit(result, title=table.name).savefig(options.plot, dpi=150)
    return VIOLATION if result.violated else 0


def _outputs(column: Any, name: str) -> Any:
    """Return recorded outputs: as numbers if all of them are numbers, otherwise as text."""
    import numpy as np

    words = column.tolist()
    if not all(words):
        raise InvalidData(
            f"{name} must hold one output per line, got empty cells: write a word where a release returns nothing"
        )
    try:
        return np.array([float(word) for word in words])
    except ValueError:
        return words
