"""Run the net: python -m tests.outside.messages --minutes 5."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.outside.messages.examples import public_slots
from tests.outside.messages.net import Net
from tests.outside.messages.rows import fit_rows, run_commands
from tests.outside.seeds import daily_seed, replay

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--each", type=int, default=0, help="containers for each slot; 0 for all")
    parser.add_argument("--verbose", action="store_true", help="print errors of other packages and slots not reached")
    options = parser.parse_args()
    seed = daily_seed()
    start = time.monotonic()
    seconds = 60 * options.minutes
    counts = {
        "rows": fit_rows(seed, start + 0.2 * seconds),
        "commands": run_commands(seed, start + 0.3 * seconds),
        "slots": (net := Net(seed, options.each, start + seconds)).walk(),
    }
    for name, count in counts.items():
        print(f"{name}: {count}")
    print(f"{time.monotonic() - start:.0f} s, replay with {replay(seed)}")
    leaks = sorted(leak for count in counts.values() for leak in count.leaks)
    for leak in leaks:
        print("LEAK", leak)
    if options.verbose:
        for text, number in sorted(net.count.foreign.items()):
            print("FOREIGN", number, text)
        for name, slot in sorted(set(public_slots()) - net.count.tried):
            print("NOT REACHED", f"{name}({slot}=)")
    sys.stdout.flush()
    os._exit(1 if leaks else 0)
