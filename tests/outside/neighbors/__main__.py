"""Run the net for as long as asked: ``python -m tests.outside.neighbors --minutes 60``."""

from __future__ import annotations

import argparse

from tests.outside.neighbors.net import Net
from tests.outside.seeds import daily_seed, replay


def run() -> int:
    """Run the net and print its counts; 1 if a row moved more than its plan says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=daily_seed())
    options = parser.parse_args()
    net = Net(options.seed).run(60 * options.minutes)
    print(f"{net.counts.total():,} pairs, {replay(options.seed)}")
    for seen, count in net.counts.most_common():
        print(f"{count:7,} {seen}")
    print(f"{len(net.faults):7,} faults")
    for fault in net.faults[:40]:
        print(f"  {fault}")
    return int(bool(net.faults))


raise SystemExit(run())
