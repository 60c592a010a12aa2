"""What a reader of an adaptive mean has to know: what it assumed, what its last stage saw, where it is open."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpstats.means.adaptive_plan import AdaptiveMeanPlan
from dpstats.means.located import Located

_MUCH_SHORTER = 0.8  # intervals that assume tails are worth naming from there on
_LOOSE = 0.7  # a released spread, over the stated one, that shows that to be loose


def notes_of(
    plan: AdaptiveMeanPlan,
    located: Located,
    *,
    estimand: str,
    shorter: float,
    clipped_rows: float,
    beyond: Sequence[str],
    shrunk: bool,
) -> list[str]:
    """Return the notes of a summary.

    Parameters
    ----------
    plan : AdaptiveMeanPlan
    located : Located
        Where the mean is, as released, for the intervals of the summary.
    estimand : {"population", "tails"}
    shorter : float
        The width of the intervals that assume tails, over that of the intervals shown; 1 if there are no others.
    clipped_rows : float
        How many rows the last stage clipped, as released; 0 without a screen.
    beyond : sequence of str
        The names of columns whose intervals are open at an edge of the box.
    shrunk : bool
        Whether an estimate is moved towards the middle of the box.
    """
    notes = [f"The plan {plan.fallback}."] if plan.fallback else []
    screen, counted = plan.screen, f"The last stage clipped about {clipped_rows:,.0f} rows"
    if screen is None:
        notes.append(
            f'tails="{plan.tails}" assumes that {plan.assumption}. Where that is wrong, intervals can cover '
            "less than they say; privacy is not affected."
        )
    elif located.refuted:
        notes.append(
            f'REFUTED: tails="{plan.tails}" assumes that {plan.assumption}; then the last stage clips at most '
            f"{screen.most(located.variance):,.0f} rows, noise included, and it clipped about "
            f"{clipped_rows:,.0f}. Intervals are about the last stage alone, "
            + (
                "which assume the stated spread only."
                if np.isfinite(located.bias).all()
                else "which bounds nothing here."
            )
        )
    elif estimand == "population":
        notes.append(
            f"{counted}. Intervals are about that stage. They count the largest bias that so many rows, and the noise "
            "of their count, allow at the stated spread."
        )
        if shorter < _MUCH_SHORTER:
            notes.append(
                f'estimand="tails" gives intervals of {100 * shorter:.0f}% of this width. They assume that '
                f"{plan.assumption}."
            )
    else:
        rows, shift = screen.unnoticed_at(located.variance)
        notes.append(
            f"{counted}, which this assumption allows. Fewer than {rows:,} clipped rows would not be noticed, and "
            f"could move a mean by up to {shift:.2g} stated sd: intervals do not count that."
        )
    if located.wider:
        notes.append(
            f"REFUTED: the stated spread. That of the clipped rows is {math.sqrt(located.variance):.2g} times as "
            "large; sampling error is judged from it, and the bounds on the bias are too small."
        )
    elif plan.private_std:
        notes.append(
            "Sampling error is judged from the released spread, an upper limit, which all columns are taken to "
            f"have in common: {math.sqrt(located.variance):.2g} times std_bound."
        )
    elif located.spread < _LOOSE and not located.refuted:
        notes.append(
            f"The spread of the clipped rows is at most {located.spread:.2g} times the stated one. If that was stated "
            'too large, std="private" with it as std_bound makes the error and the intervals smaller.'
        )
    notes.append(
        "bias: the largest that clipping can cause under what is assumed; it is part of the intervals."
    )
    if beyond:
        notes.append(
            f"At the edge of the box: {', '.join(beyond)}. What was released is beyond it, the mean may be too, and "
            "the interval is open there: try a wider box."
        )
    if shrunk:
        notes.append(
            "Estimates are shrunk towards the middle of the box, as far as noise dominates; intervals are about the "
            "unshrunk ones."
        )
    return notes + [note[0].upper() + note[1:] + "." for note in plan.warnings()]
