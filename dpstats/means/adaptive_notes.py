"""What a reader of an adaptive mean has to know: what it assumed, what its last stage saw, where it is open."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpstats.means.adaptive_plan import AdaptiveMeanPlan
from dpstats.means.located import Located

_MUCH_SHORTER = 0.8  # intervals that assume tails are worth naming from there on
_LOOSE = 0.7  # ratio of the released to the stated standard deviation below which the latter is loose


def build_notes(
    plan: AdaptiveMeanPlan,
    located: Located,  # where the mean is, as released, for the intervals of the summary
    *,
    estimand: str,  # one of "population", "tails"
    # Ratio of the width of the intervals that assume tails to the width of the intervals shown; 1 if there
    # are no others.
    shorter: float,
    # How many rows the last stage clipped, as released; 0 without a screen.
    clipped_rows: float,
    beyond: Sequence[str],  # the names of columns whose intervals are open at an edge of the box
    shrunk: bool,  # whether an estimate is moved towards the middle of the box
) -> list[str]:
    """Return the notes of a summary."""
    notes = [f"The plan {plan.fallback}."] if plan.fallback else []
    screen, counted = plan.screen, f"The last stage clipped about {clipped_rows:,.0f} rows"
    if screen is None:
        notes.append(
            f'tails="{plan.tails}" assumes that {plan.assumption}. If this is wrong, intervals may undercover. Privacy '
            "is not affected."
        )
    elif located.refuted:
        notes.append(
            f'REFUTED: tails="{plan.tails}" assumes that {plan.assumption}. The last stage would then clip at most '
            f"{screen.most(located.variance):,.0f} rows, noise included, and it clipped about "
            f"{clipped_rows:,.0f}. "
            + (
                "The intervals assume only the stated standard deviation."
                if np.isfinite(located.bias).all()
                else "The last stage alone gives no limits here."
            )
        )
    elif estimand == "population":
        notes.append(
            f"{counted}. The intervals include the largest bias that these rows, and the noise of their count, allow "
            "at the stated standard deviation."
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
            f"could move a mean by up to {shift:.2g} stated sd. The intervals do not include this."
        )
    if located.wider:
        notes.append(
            "REFUTED: the stated standard deviation. The clipped rows have "
            f"{math.sqrt(located.variance):.2g} times this value. The sampling error uses the larger value, but the "
            "bounds on the bias are too small."
        )
    elif plan.private_std:
        notes.append(
            "The sampling error uses a released upper limit on the standard deviation of all columns: "
            f"{math.sqrt(located.variance):.2g} times std_bound."
        )
    elif located.spread < _LOOSE and not located.refuted:
        notes.append(
            f"The standard deviation of the clipped rows is at most {located.spread:.2g} times the stated one. If you "
            'stated it too large, give it as std_bound with std="private": the error is then smaller.'
        )
    notes.append(
        "The column 'bias' is the largest bias that clipping can cause under the assumptions. The intervals include it."
    )
    if beyond:
        notes.append(
            f"At the edge of the box: {', '.join(beyond)}. The release is beyond the box, so the mean may be too. The "
            "interval is open on this side. Use a wider box."
        )
    if shrunk:
        notes.append(
            "Estimates are shrunk toward the middle of the box where noise dominates. Intervals are for the estimates "
            "before this."
        )
    return notes + [note[0].upper() + note[1:] + "." for note in plan.warnings()]
