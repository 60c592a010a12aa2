"""p-values and critical values from a calibration of B null statistics, and their level."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from dpstats.data.parameters import check_integer
from dpstats.errors import refuse

# p = (1 + #{null >= observed})/(B + 1) is exactly valid on average over calibrations. For one calibration, the realized
# level has a Beta distribution (docs/intervals/identity-tests.md).

SIZES = (9999, 4999, 1999, 999)
_SECONDS = 10.0  # of one core, that a calibration may take by default


def calibration_size(level: float, n_calibration: Any, seconds: float) -> int:
    """Return B, the number of null datasets, with (B + 1) level a positive integer.

    Parameters
    ----------
    level : float
    n_calibration : None or int
        None chooses 9999 to 999 by the time of one dataset, and more if the level requires it.
    seconds : float
        Time of one null dataset, a function of public sizes.
    """
    exact = Fraction(repr(level))
    if n_calibration is not None:
        B = check_integer("n_calibration", n_calibration, at_least=1)
        if (exact * (B + 1)).denominator != 1:
            raise refuse(
                "n_calibration",
                given=B,
                allowed=f"make (n_calibration + 1) * level an integer of at least 1, with level = {level:g}",
                remedy="The p-value could not have this level exactly.",
            )
        return B
    if exact.denominator > 100_000:
        raise refuse(
            "level",
            given=level,
            allowed="have at most five decimal places",
            remedy="No calibration has it exactly. Round it.",
        )
    size = next((size for size in SIZES if size * seconds <= _SECONDS), SIZES[-1])
    return exact.denominator * -(-(size + 1) // exact.denominator) - 1


def pvalue(null: NDArray[np.float64], observed: float) -> float:
    """Return (1 + #{null >= observed})/(B + 1) for ascending ``null``. Ties count against rejection."""
    at_least = null.size - int(np.searchsorted(null, observed, side="left"))
    return (1 + at_least) / (null.size + 1)


def critical_value(null: NDArray[np.float64], level: float) -> float:
    """Return the number that a statistic must exceed for a p-value of at most ``level``."""
    k = int(Fraction(repr(level)) * (null.size + 1))
    return float(null[null.size - k])


def realised_level(size: int, level: float, coverage: float = 0.95) -> tuple[float, float]:
    """Return the range that contains the level of one calibration with probability ``coverage``.

    With k = (B + 1) level, the chance that a new null statistic exceeds the k-th largest of B is
    Beta(k, B + 1 - k), of mean ``level``.
    """
    k = int(Fraction(repr(level)) * (size + 1))
    low, high = beta.ppf([(1 - coverage) / 2, (1 + coverage) / 2], k, size + 1 - k)
    return float(low), float(high)
