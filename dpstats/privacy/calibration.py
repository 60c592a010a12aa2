"""The largest cost that a guarantee allows: composition, inverted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from scipy.optimize import brentq

from dpstats.data.parameters import check_real
from dpstats.errors import refuse
from dpstats.privacy.events import Event
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.totals import compose, covers

_LARGEST = math.log(1e6)  # largest epsilon of a calibration: one million

MARGINS = (1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
"""Candidate reductions of a cost, or increases of a scale, relative. Searches take the first whose total is certified.

A computed total is an upper bound, and jumps by a relative 4e-6. Near the guarantee the last digits of a cost, which
depend on the processor, decide whether it is certified. Margins close together keep the noise the same to 1e-5."""


def largest_cost(
    events: Callable[[float], Sequence[Event]], guarantee: PrivacyGuarantee, start: float
) -> float:
    """Return the largest number, to a relative 1e-9, at which the events stay within the guarantee.

    Parameters
    ----------
    events : callable
        Maps a positive number to events whose total grows with it.
    guarantee : PrivacyGuarantee
    start : float
        A number at which the events stay within the guarantee.

    Returns
    -------
    float
        At least ``start``. The total of the events certifies it, so privacy does not depend on the search.
    """

    start = check_real("start", start, above=0)
    if not covers(events(start), guarantee):
        raise refuse("start", given=start, allowed=f"within {guarantee}")
    if guarantee.epsilon == 0:
        return start  # no larger number can be certified

    def excess(log_cost: float) -> float:
        total = compose(events(math.exp(log_cost)), guarantee.delta).epsilon
        return math.log(max(total, 1e-300) / guarantee.epsilon)

    low = math.log(start)
    if excess(low) > 0:
        return start  # already at the limit, up to rounding
    step = 0.5
    while excess(low + step) <= 0 and low <= _LARGEST:
        low, step = low + step, min(2 * step, 1.0)
    # Above the largest cost there is no search. The result is certified in the same way.
    found = low if low > _LARGEST else brentq(excess, low, low + step, xtol=1e-10, rtol=1e-10)
    for margin in (2e-10, *MARGINS, 1e-2):
        cost = math.exp(found - margin)
        if cost > start and covers(events(cost), guarantee):
            return cost
    return start
