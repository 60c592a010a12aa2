"""Run the net for as long as asked: ``python -m tests.outside.files --minutes 60``."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.outside.files.net import Net
from tests.outside.seeds import daily_seed, print_found, replay


def run() -> int:
    """Run the net and print its counts; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=daily_seed())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        net = Net(options.seed, Path(name)).run(60 * options.minutes)
    return print_found(f"{net.files:,} files and frames, {replay(options.seed)}", net.counts, net.faults)


raise SystemExit(run())
