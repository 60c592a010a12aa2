"""``dpstats verify``: the checks of a receipt, in a table or in JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dpstats.checks import Check, as_text
from dpstats.cli.exits import VIOLATION, epilog
from dpstats.cli.files import tell
from dpstats.cli.options import QUIET, add_options
from dpstats.errors import refuse

_RECEIPT = """
    file FILE, path
        the receipt
    --key-file FILE, path
        file with the key of the signature; trailing white space is ignored
    --json
        print JSON in place of the table
"""


def add_verify(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "verify",
        help="check the receipt of a release without the data",
        description="Check the receipt of a fit: its hash, its privacy cost, its proof pages, its noise and, with a "
        "key, its signature. The check reads no data and charges nothing.",
        epilog=epilog(),
    )
    add_options(parser, _RECEIPT + QUIET)
    parser.set_defaults(run=_verify)


def _verify(options: argparse.Namespace) -> int:
    from dpstats.receipts import verify_receipt

    key = None if options.key_file is None else _content("--key-file", options.key_file).rstrip()
    try:
        text = _content("file", options.file).decode("utf-8")
    except UnicodeDecodeError:
        remedy = "Check the name of the file."
        raise refuse("file", given=str(options.file), allowed="a receipt in UTF-8", remedy=remedy) from None
    return tell_checks(verify_receipt(text, key), options, VIOLATION)


def tell_checks(checks: Sequence[Check], options: argparse.Namespace, failed: int) -> int:
    """Print checks, and return the exit status: ``failed`` if one of them fails."""
    if options.json:
        tell(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        tell(as_text(checks))
    return 0 if all(check.passed for check in checks) else failed


def _content(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        got = f"{str(path)!r} ({error.strerror})"
        raise refuse(name, got=got, allowed="name a file that can be read") from None
