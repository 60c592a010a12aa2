"""The seed of the day, which every net prints."""

from __future__ import annotations

import os
from datetime import UTC, datetime

VARIABLE = "DPSTATS_OUTSIDE_SEED"


def daily_seed() -> int:
    """Return the seed in the environment, or the date as a number, so that every day draws other cases."""
    given = os.environ.get(VARIABLE)
    return int(given) if given else int(datetime.now(UTC).strftime("%Y%m%d"))


def replay(seed: int) -> str:
    """Return what to set to draw the same cases again."""
    return f"{VARIABLE}={seed}"
