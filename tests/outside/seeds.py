"""The seed of the day, which every net prints."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

VARIABLE = "DPSTATS_OUTSIDE_SEED"


def daily_seed() -> int:
    """Return the seed in the environment, or the date as a number, so that every day draws other cases."""
    given = os.environ.get(VARIABLE)
    return int(given) if given else int(datetime.now(UTC).strftime("%Y%m%d"))


def replay(seed: int) -> str:
    """Return what to set to draw the same cases again."""
    return f"{VARIABLE}={seed}"


def print_found(what: str, counts: Counter[str], faults: Iterable[object]) -> int:
    """Print how often a net has seen what, and its faults; return 1 if there are some."""
    some = sorted(set(map(str, faults)))
    print(what)
    for seen, count in sorted(counts.items()):
        print(f"{count:7,} {seen}")
    print(f"{len(some):7,} faults")
    for fault in some:
        print(f"  {fault}")
    return int(bool(some))
