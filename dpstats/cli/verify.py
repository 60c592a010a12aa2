"""``dpstats verify``: the checks of a receipt, in a table or in JSON."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dpstats.checks import as_text
from dpstats.cli.exits import VIOLATION, epilog
from dpstats.cli.files import tell
from dpstats.errors import InvalidParameter


def add_verify(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "verify",
        help="check the receipt of a release without the data",
        description="Check the receipt of a fit: its hash, its privacy cost, its proof pages, its noise and, with a "
        "key, its signature. The check reads no data and charges nothing.",
        epilog=epilog(),
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the receipt")
    parser.add_argument(
        "--key-file",
        type=Path,
        metavar="FILE",
        help="file with the key of the signature; trailing white space is ignored",
    )
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    parser.add_argument("--quiet", action="store_true", help="nothing on standard error but errors")
    parser.set_defaults(run=_verify)


def _verify(options: argparse.Namespace) -> int:
    from dpstats.receipts import verify_receipt

    key = None if options.key_file is None else _content("--key-file", options.key_file).rstrip()
    try:
        text = _content("file", options.file).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidParameter(
            f"file must be a receipt in UTF-8, got {str(options.file)!r}. Check the name of the file."
        ) from None
    checks = verify_receipt(text, key)
    if options.json:
        tell(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        tell(as_text(checks))
    return 0 if all(check.passed for check in checks) else VIOLATION


def _content(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidParameter(
            f"{name} must name a file that can be read, got {str(path)!r} ({error.strerror})"
        ) from None
