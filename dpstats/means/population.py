from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def population_ends(
    low: Numbers, high: Numbers, std: Numbers, a: Numbers, b: Numbers
) -> tuple[Numbers, Numbers]:
    """Return limits of the population mean, if the mean of rows clipped to [a, b] lies in [low, high].

    ``std`` is an upper bound on the standard deviation of the rows before they are clipped. A limit is infinite if
    the clipped mean may equal the bound a or b on its side.

    >>> import numpy as np
    >>> one = np.ones(1)
    >>> low, high = population_ends(0 * one, 5.9 * one, one, -6 * one, 6 * one)
    >>> high.round(2)  # at the end of the clip nothing is known of what is beyond it
    array([8.4])
    """
    return -_upper(-low, std, -b, -a), _upper(high, std, a, b)


def _upper(high: Numbers, std: Numbers, a: Numbers, b: Numbers) -> Numbers:
    # A rounding error may put ``high`` outside [a, b].
    room, above = b - high, np.maximum(high - a, 0.0)
    with np.errstate(all="ignore"):
        near = high + std**2 / (4 * room)
        far = a + std * np.sqrt(above / room)
        return np.where(room > 0, np.where(std**2 <= 4 * room * above, near, far), np.inf)


def population_bias_in_ball(
    distance: float,  # upper limit of how far the mean of the clipped rows is from the center
    offset: Numbers,  # (n_features,): the same in each column
    # Shape (n_features,). Upper bounds on the standard deviations of the rows before they are clipped.
    std: Numbers,
    radius: float,
) -> Numbers:
    """Return the largest distance of each column's mean from the mean of rows clipped to a ball.

    Returns
    -------
    array of shape (n_features,)
        Infinite if no bound exists.
    """
    _, kappa = _population_norm(distance, std, radius)
    if kappa >= 1:
        return np.full(offset.shape, np.inf)
    nu = _population_offset(kappa, offset, std)
    result: Numbers = kappa * np.sqrt(std**2 + nu**2)
    return result


def clipped_variance_in_ball(distance: float, offset: Numbers, std: Numbers, radius: float) -> Numbers:
    """Return bounds on the variances of the columns of rows clipped to a ball.

    Clipping can raise the variance of a column: it moves an entry if another entry of its row is large. Parameters
    are as in `population_bias_in_ball`.

    >>> import numpy as np
    >>> std = np.array([0.1, 5.0])
    >>> near, far = np.array([0.2, 0.2]), np.array([6.0, 0.2])
    >>> clipped_variance_in_ball(0.3, near, std, 10.0).round(3)  # the rows of the first column are near the center
    array([1.200e-02, 2.501e+01])
    >>> clipped_variance_in_ball(6.0, far, std, 10.0).round(1)
    array([ 8.9, 25. ])
    """
    total = float(np.sum(std**2))
    far, kappa = _population_norm(distance, std, radius)
    if kappa >= 1:
        return np.full(offset.shape, total)
    # (1 - R/t)+ <= 4 t^2/27 R^2, tangent at t = 3R/2.
    share = min(1.0, 4 * (total + far**2) / (27 * radius**2))
    nu = _population_offset(kappa, offset, std)
    return np.minimum(total, std**2 + share * nu**2)


def _population_norm(distance: float, std: Numbers, radius: float) -> tuple[float, float]:
    """Return a bound on the norm of the population mean, and kappa, which is at least 1 if no bound exists."""
    room, spread = radius - distance, float(np.sum(std**2))
    if room <= 0:
        return math.inf, math.inf
    inner = 4 * radius * room - spread
    r = 2 * radius - math.sqrt(inner) if inner >= 0 else math.inf
    if not spread + r**2 <= 4 * radius**2:
        r = (spread - room**2) / (2 * room)
    return r, math.sqrt(spread + r**2) / (4 * radius)


def _population_offset(kappa: float, offset: Numbers, std: Numbers) -> Numbers:
    """Return bounds on the population means of the columns: |mu| <= offset + kappa sqrt(std^2 + mu^2)."""
    result: Numbers = (offset + kappa * np.sqrt(offset**2 + std**2 * (1 - kappa**2))) / (1 - kappa**2)
    return result
