"""The seed of the day: the same in all processes of a day, another tomorrow."""

from __future__ import annotations

import datetime
import os


def daily_seed() -> int:
    """Return the seed in DPSTATS_OUTSIDE_SEED, or today's date as a number such as 20260131."""
    given = os.environ.get("DPSTATS_OUTSIDE_SEED")
    return int(given) if given else int(datetime.datetime.now(datetime.UTC).strftime("%Y%m%d"))
