"""Run the net: python -m tests.outside.messages --minutes 5."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.outside.messages.examples import public_slots
from tests.outside.messages.net import Net
from tests.outside.seeds import daily_seed, replay

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--each", type=int, default=0, help="containers for each slot; 0 for all")
    parser.add_argument(
        "--verbose", action="store_true", help="print errors of other packages and slots not reached"
    )
    options = parser.parse_args()
    seed = daily_seed()
    start = time.monotonic()
    count = Net(seed, options.each, start + 60 * options.minutes).walk()
    print(count, f"{time.monotonic() - start:.0f} s, replay with {replay(seed)}")
    for leak in sorted(count.leaks):
        print("LEAK", leak)
    if options.verbose:
        for text, number in sorted(count.foreign.items()):
            print("FOREIGN", number, text)
        reached = {
            (name.removesuffix(", parameter").removesuffix(".fit"), slot) for name, slot in count.tried
        }
        for name, slot in sorted(set(public_slots()) - reached):
            print("NOT REACHED", f"{name}({slot}=)")
    sys.stdout.flush()
    os._exit(1 if count.leaks else 0)
