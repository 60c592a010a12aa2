"""Run the net for as long as asked: ``python -m tests.outside.charges --minutes 60``."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.outside.charges.calls import command_calls, folder, registered_calls
from tests.outside.charges.net import Net
from tests.outside.seeds import daily_seed, print_found


def run() -> int:
    """Run the net and print its counts; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=daily_seed())
    parser.add_argument("--only", default="", help="part of the names of calls")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, folder(Path(name)):
        calls = [call for call in (*registered_calls(), *command_calls()) if options.only in call.name]
        tally = Net(calls, options.seed).run(60 * options.minutes)
    return print_found(f"seed {options.seed}, {len(calls)} calls", tally.counts, tally.faults)


raise SystemExit(run())
