"""What a reader of an adaptive mean has to know: what it assumed, what its last stage saw, where it is open."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpstats.means.adaptive_plan import AdaptiveMeanPlan
from dpstats.means.located import Located


def notes_of(
    plan: AdaptiveMeanPlan,
    located: Located,
    *,
    refuted: bool,
    clipped_rows: float,
    beyond: Sequence[str],
    shrunk: bool,
) -> list[str]:
    """Return the notes of a summary.

    Parameters
    ----------
    plan : AdaptiveMeanPlan
    located : Located
        Where the mean is, as released.
    refuted : bool
        Whether the screen refuted the assumption on tails.
    clipped_rows : float
        How many rows the last stage clipped, as released; 0 without a screen.
    beyond : sequence of str
        The names of columns whose intervals are open at an edge of the box.
    shrunk : bool
        Whether an estimate is moved towards the middle of the box.
    """
    notes = [
        f'tails="{plan.tails}" assumes that {plan.assumption}. Where that is wrong, intervals can cover '
        "less than they say; privacy is not affected.",
    ]
    screen = plan.screen
    if screen is not None and refuted:
        bounded = np.isfinite(located.bias).all()
        notes[-1] = (
            f'REFUTED: tails="{plan.tails}" assumes that {plan.assumption}; then the last stage clips at most '
            f"{screen.most(located.variance):,.0f} rows, noise included, and it clipped about "
            f"{clipped_rows:,.0f}. Intervals are about the last stage alone, "
            + ("which assume the stated spread only." if bounded else "which bounds nothing here.")
        )
    elif screen is not None:
        rows, shift = screen.unnoticed
        notes.append(
            f"The last stage clipped about {clipped_rows:,.0f} rows, which this assumption allows. Fewer "
            f"than {rows:,} clipped rows would not be noticed, and could move a mean by up to {shift:.2g} "
            "stated sd."
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
