"""Run the net, ``python -m tests.outside.statements --minutes 15``, or one cell of it, ``--cell SEED:K``."""

from __future__ import annotations

import argparse

from tests.outside.seeds import daily_seed
from tests.outside.statements.net import FAULTS, Net, describe, judge_cell


def run() -> int:
    """Print what was found; 1 if a statement was false."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=daily_seed())
    parser.add_argument("--cells", type=int, default=10**9, help="at most this many cells")
    parser.add_argument("--cell", metavar="SEED:K", help="one cell, again")
    options = parser.parse_args()
    if options.cell:
        cell, verdict = judge_cell(*map(int, options.cell.split(":")))
        print(describe(cell), verdict, f"{verdict.seconds:.1f} s", sep="\n")
        for note, times in verdict.notes.most_common():
            print(f"{times:5} fits: {note}")
        return int(verdict.kind in FAULTS)
    net = Net(options.seed).run(60 * options.minutes, range(options.cells))
    print(net.page())
    return int(bool(net.faults))


raise SystemExit(run())
