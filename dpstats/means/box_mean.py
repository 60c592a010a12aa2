from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import erfcx

from dpstats.means.bias_aware import Numbers


def mean_in_box(
    value: Any,  # (d,): estimate, possibly outside the box
    std: Any,  # (d,): standard deviation of its error
    low: Any,  # (d,): the box
    high: Any,
) -> Numbers:
    """Return the expected mean, given an estimate, for a mean that is uniform in the box and a normal error.

    It is the estimate where that is precise, the middle of the box where noise dominates, and inside the box
    always. For every mean in the box its mean squared error is below the error of ``value`` (Hartigan 2004).

    Examples
    --------
    >>> from dpstats.means.box_mean import mean_in_box
    >>> [round(float(mean_in_box(12.0, std, -10.0, 10.0)), 2) for std in (0.1, 1.0, 100.0)]
    [10.0, 9.63, 0.04]
    """
    # Use standard deviations as units and the bound closest to the value as origin, mirrored to be the upper bound.
    # The mean is then a normal variable about ``gap``, given that it lies between -``width`` and 0.
    middle, half = (np.asarray(low) + high) / 2, (np.asarray(high) - low) / 2
    offset = value - middle
    gap, width = (np.abs(offset) - half) / std, 2 * half / std
    # E(Z | -width < Z < 0) for Z ~ N(gap, 1), by Mills' ratio, which loses nothing far out.
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        far = np.exp(-width * (width / 2 + gap))
        inside = gap - (1 - far) / (_mills(gap) - far * _mills(gap + width))
        # Far out the distribution is exponential; in a narrow box it is uniform, up to its slope.
        exponential = -1 / gap + width / np.expm1(np.minimum(gap * width, 700.0))
        uniform = -width / 2 + width**2 * (gap + width / 2) / 12
    inside = np.where(gap > 1e3, exponential, inside)
    inside = np.where(width * (np.abs(gap) + width) < 1e-3, uniform, inside)
    inside = np.clip(inside, -width, 0.0)
    result: Numbers = middle + np.sign(offset) * (half + std * inside)
    return result


def _mills(x: Numbers) -> Numbers:
    """Return P(N > x) over the normal density at x."""
    result: Numbers = np.sqrt(np.pi / 2) * erfcx(x / np.sqrt(2))
    return result


def within_box(
    value: Numbers, half: Numbers, estimate: Numbers, low: Numbers, high: Numbers, *, hard: bool = False
) -> tuple[Numbers, Numbers]:
    """Return intervals ``value`` +- ``half`` cut to the box, and open on a side where the value is outside the box.

    If the value is outside the box and the box is wider than the interval, the mean may lie outside too. The interval
    is then infinite on that side, unless the box is ``hard``. It always contains the ``estimate``, which a cut could
    leave outside.
    """
    bottom = np.minimum(np.maximum(value - half, low), estimate)
    top = np.maximum(np.minimum(value + half, high), estimate)
    bottom, top = np.minimum(bottom, high), np.maximum(top, low)
    if hard:
        return bottom, top
    below, above = outside_box(value, half, low, high)
    return np.where(below, -np.inf, bottom), np.where(above, np.inf, top)


def outside_box(value: Numbers, half: Numbers, low: Numbers, high: Numbers) -> tuple[Any, Any]:
    """Mark the values below the box, and the values above it, by more than noise explains."""
    # An infinite interval is not evidence about the box: judge the value alone.
    precise = (half < (high - low) / 2) | np.isinf(half)
    below = ((value < low) & precise) | (value + half <= low)
    above = ((value > high) & precise) | (value - half >= high)
    return below, above
