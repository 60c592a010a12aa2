from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

# The normal part is raised to this part of the largest Laplace scale, which bounds the work. It is never
# narrower: more normal noise spreads a symmetric unimodal law (Anderson 1955).
_LEAST_NORMAL = 1e-3

_SMALLEST_TAIL = (
    1e-9  # below it, rounding hides the computed tail: use the exponential bound, which is larger
)


def laplace_sum_quantile(
    tail: float,
    std: float,  # standard deviation of the normal variable N
    scales: NDArray[np.float64],  # (m,): scales of the independent Laplace variables
    bias: float = 0.0,
) -> float:
    """Return x with P(|N + sum_k L_k + bias| > x) = 2 tail, for a tail below one half.

    Without a bias that is P(N + sum_k L_k > x) = tail.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means.laplace_sums import laplace_sum_quantile
    >>> round(laplace_sum_quantile(0.025, 0.01, np.array([1.0])), 3)  # close to log(20)
    2.996
    """
    largest = float(scales.max())
    std = max(std, _LEAST_NORMAL * largest)
    # Use the largest part as the unit.
    unit = max(std, largest)
    s, b, shift = std / unit, scales / unit, abs(bias) / unit
    high = _chernoff(tail, s, b) + shift
    if tail < _SMALLEST_TAIL:
        return unit * high
    # A sum with this step also counts copies of the distribution, 2 pi/step apart: move them beyond its mass.
    step = 2 * math.pi / (high + shift + _chernoff(1e-10 * tail, s, b))
    end = 1.0
    while _log_phi(np.array([end]), s, b)[0] > math.log(tail) - 25:
        end *= 1.5
    t = step * np.arange(1, math.ceil(end / step) + 1)
    weights = np.exp(_log_phi(t, s, b)) / t

    def tail_above(x: float) -> float:
        return 0.5 - step / math.pi * (x / 2 + float(np.sin(t * x) @ weights))

    def excess(x: float) -> float:
        return (tail_above(x - shift) + tail_above(x + shift)) / 2 - tail

    return unit * float(brentq(excess, 0.0, high, xtol=1e-13, rtol=1e-12))


def _log_phi(t: NDArray[Any], std: float, scales: NDArray[Any]) -> NDArray[np.float64]:
    total: NDArray[np.float64] = -0.5 * (std * t) ** 2
    for scale in scales:
        total = total - np.log1p((scale * t) ** 2)
    return total


def _chernoff(tail: float, std: float, scales: NDArray[Any]) -> float:
    """Return x with P(S > x) <= tail: the best exponential bound on a grid of rates."""
    rates = np.concatenate([np.linspace(0.01, 0.99, 99) / scales.max(), np.linspace(0.1, 20, 100) / std])
    rates = rates[rates < 0.995 / scales.max()]
    log_moment = 0.5 * (std * rates) ** 2
    for scale in scales:
        log_moment -= np.log1p(-((scale * rates) ** 2))
    return float(np.min((log_moment + math.log(1 / tail)) / rates))
