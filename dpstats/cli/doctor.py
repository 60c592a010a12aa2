"""``dpstats doctor``: checks of the installation, in a table or in JSON."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from dpstats.checks import as_text
from dpstats.cli.exits import epilog
from dpstats.cli.files import tell

_BROKEN = 6


def add_doctor(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "doctor",
        help="check the installation: versions, randomness, exact noise, a ledger",
        description="Check versions, the source of random numbers, linear algebra and its threads, optional packages, "
        "one exact release against its distribution, and that a ledger can be written. No file remains.",
        epilog=epilog(),
    )
    parser.add_argument(
        "--folder",
        default=".",
        help="folder of the ledgers (default: the current one)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    parser.add_argument("--quiet", action="store_true", help="nothing on standard error but errors")
    parser.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    from dpstats.doctor import diagnose

    checks = diagnose(options.folder)
    if options.json:
        tell(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        tell(as_text(checks))
    return 0 if all(check.passed for check in checks) else _BROKEN
