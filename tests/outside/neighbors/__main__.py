"""Run the net for as long as asked: ``python -m tests.outside.neighbors --minutes 60``."""

from __future__ import annotations

import argparse

from tests.outside.neighbors.net import Net
from tests.outside.seeds import daily_seed, print_found, replay


def run() -> int:
    """Run the net and print its counts; 1 if a row moved more than its plan says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=daily_seed())
    options = parser.parse_args()
    net = Net(options.seed).run(60 * options.minutes)
    return print_found(f"{net.counts.total():,} pairs, {replay(options.seed)}", net.counts, net.faults)


raise SystemExit(run())
