"""``dpstats demo``: private means of real data, with a picture and a page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dpstats.cli.exits import epilog
from dpstats.cli.files import tell
from dpstats.errors import InvalidParameter


def add_demo(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "demo",
        help="private means of real data, with a picture and a page",
        description="Release private means of the RAND Health Insurance Experiment, draw a figure, and write a page "
        "that describes the release.",
        epilog=epilog(),
    )
    parser.add_argument(
        "--out", type=Path, default=Path("demo-output"), help="folder to write to (default: demo-output)"
    )
    parser.add_argument("--quiet", action="store_true", help="nothing on standard error but errors")
    parser.set_defaults(run=_demo)


def _demo(options: argparse.Namespace) -> None:
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidParameter(
            f"--out must name a folder, there or to be made, got {str(options.out)!r} ({error.strerror})"
        ) from None
    from dpstats.demo import run

    tell(run(options.out))
