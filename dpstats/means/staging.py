"""How an adaptive mean spends its privacy: shares, clip radii and stages, planned without data.

One idea: plan the shortest honest interval. Each stage clips the rows to a ball about a public
centre, and the centre of the next is the average so far. The recursion carries three public
numbers for one column, in units of its standard deviation: the information (inverse variance of the
noise) so far, a bound on the clipping bias, and from these a bound on the second moment of the
centre's error; the radius of a stage is the one that plans the shortest interval after it.

Proof of the bounds: docs/proofs/adaptive-mean.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

Numbers = NDArray[np.float64]

TAILS = ("subgaussian", "symmetric", "variance")

_GROWTH = np.geomspace(1, 1e4, 13)  # last share over first share
_MAX_STAGES = 16
_SPARE_STAGES = 1.02  # every stage is a pass over the data: the fewest within this factor of the best
_QUANTILE = 1.959963984540054  # the interval that is planned has level 0.95
# Largest probability that a row at the planned distance is clipped: where more were, the second moment of
# the centre would rest on rows that do not move with it.
_LARGEST_TAIL = {"subgaussian": 0.1, "symmetric": 0.3}
# Probability that a centre's error leaves the next ball with less than half of the rows inside. Where that
# happens the mean may be lost, and no average over runs shows it: it is kept below what intervals promise.
_LOST = 3e-4
# What a unit of bias costs in units of interval width: above 1 it is kept small, as it is no random error.
_BIAS_WEIGHT = {"subgaussian": 3.0, "symmetric": 1.0, "variance": 1.0}


@dataclass(frozen=True, slots=True)
class Staging:
    """The stages of an adaptive mean, in whitened units: every column has standard deviation 1.

    Attributes
    ----------
    shares : tuple of float
        Part of the privacy (of mu^2, or of epsilon where delta = 0); they add up to just below 1.
    radii : tuple of float
        Radius of the clip ball.
    slopes : tuple of float
        How far the clipped mean moves when the mean moves by 1; 1 unless rows are symmetric.
    biases : tuple of float
        Bound on the clipping bias of one column, for the mean that the stage estimates.
    spreads : tuple of float
        Bound on the standard deviation of one column of one clipped row, over the slope.
    """

    shares: tuple[float, ...]
    radii: tuple[float, ...]
    slopes: tuple[float, ...]
    biases: tuple[float, ...]
    spreads: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Curves:
    """What clipping at B = sqrt((1 + P) q) does, on a grid of q.

    The bias is at most ``constant * sqrt(1 + P) + shift * sqrt(P)``. It varies with the centre's error, about its
    mean and in root mean square, by the smaller of ``variation * sqrt(P)`` and ``loss * sqrt(1 + P)``.
    ``spread`` is that of `Staging` over sqrt(1 + P).
    """

    q: Numbers
    constant: Numbers
    shift: Numbers
    variation: Numbers
    loss: Numbers
    slope: Numbers
    spread: Numbers


@lru_cache(maxsize=256)
def plan_stages(
    n: int, d: int, tails: str, norm2: float, reach2: float, noise: float, exponent: int
) -> Staging:
    """Return the stages that plan the shortest interval; a function of public numbers.

    Parameters
    ----------
    n, d : int
        Rows and columns.
    tails : {"subgaussian", "symmetric", "variance"}
    norm2 : float
        Bound on ||mu||^2/d, whitened.
    reach2 : float
        Bound on the square of a column's mean over its standard deviation.
    noise, exponent : float, int
        A stage of share s and radius B has noise of variance ``noise * B^2 / s^exponent`` in each column.

    Examples
    --------
    >>> from dpstats.means.staging import plan_stages
    >>> stages = plan_stages(1000, 5, "subgaussian", 100.0, 100.0, 7e-5, 1)
    >>> [round(radius, 1) for radius in stages.radii]
    [30.5, 21.9, 7.9, 3.9, 4.0]
    """
    curves = _curves(d, tails)
    far = _far(d, laplace=exponent == 2)
    found = []
    for count in range(1, _MAX_STAGES + 1):
        shares = np.power.outer(_GROWTH if count > 1 else _GROWTH[:1], np.arange(count) / max(count - 1, 1))
        # Just below 1 together, whatever the rounding of the sum.
        shares *= (1 - 1e-14) / shares.sum(axis=1, keepdims=True)
        unit = noise / shares**exponent
        stagings, costs = _recursion(unit, n, d, norm2, reach2, curves, _BIAS_WEIGHT[tails], far)
        best = int(np.argmin(costs))
        found.append((float(costs[best]), shares[best], [column[best] for column in stagings]))
    least = min(cost for cost, _, _ in found)
    _, chosen, columns = next(item for item in found if item[0] <= _SPARE_STAGES * least)
    return Staging(*(tuple(column.tolist()) for column in (chosen, *columns)))


def _far(d: int, *, laplace: bool) -> tuple[float, float]:
    """Return how many standard deviations a centre's noise may reach, in one direction and in norm.

    A Laplace vector that is far out is a typical one plus one far coordinate.
    """
    if laplace:
        one = -np.log(2 * _LOST) / np.sqrt(2)
        return float(one), float(one) if d == 1 else float(np.sqrt(d) + np.log(d / _LOST) / np.sqrt(2))
    return float(-special.ndtri(_LOST)), float(np.sqrt(special.chdtri(d, _LOST)))


def _recursion(
    unit: Numbers,
    n: int,
    d: int,
    norm2: float,
    reach2: float,
    curves: _Curves,
    weight: float,
    far: tuple[float, float],
) -> tuple[tuple[Numbers, ...], Numbers]:
    """Plan every row of ``unit`` (noise variance of each stage at radius 1) and price the interval.

    ``norm`` quantities bound root mean squares over the columns, ``one`` quantities any one column; they
    differ only where bounds over standard deviations do.
    """
    groups, stages = unit.shape
    rows = np.arange(groups)
    info, bias_norm, bias_one, common = np.zeros((4, groups))
    radii, slopes, biases, spreads = np.zeros((4, groups, stages))
    for t in range(stages):
        shrunk = info + 1 / norm2
        norm = (np.sqrt(1 / n + 1 / shrunk) + bias_norm) ** 2
        one = (np.sqrt(1 / n + (info + reach2 / norm2**2) / shrunk**2) + bias_one) ** 2
        # The ball holds half of the rows, which are at sqrt(d) from the mean in no direction of the centre's
        # error, however large that is.
        fixed = np.sqrt(d) * (1 / (np.sqrt(norm2) * shrunk) + bias_norm)
        random = np.sqrt(info / shrunk**2 + 1 / n)
        least = np.sqrt(d + fixed**2 + 2 * fixed * random * far[0] + (random * far[1]) ** 2)
        # Bounds for a smaller ball hold for a larger one.
        radius = np.maximum(np.sqrt((1 + norm)[:, None] * curves.q), least[:, None])
        step = curves.slope**2 / (unit[:, t][:, None] * radius**2)
        total = info[:, None] + step
        new_norm, new_one = (
            curves.constant * np.sqrt(1 + moment)[:, None] + curves.shift * np.sqrt(moment)[:, None]
            for moment in (norm, one)
        )
        # All rows share the centre's error: where it is large they are clipped together, on one side.
        together = np.minimum(
            curves.variation * np.sqrt(norm)[:, None], curves.loss * np.sqrt(1 + norm)[:, None]
        )
        new_norm = np.hypot(new_norm, together)
        spread = curves.spread * np.sqrt(1 + one)[:, None]
        # The rows are the same in every stage: their sampling errors add up as deviations.
        after_norm, after_one, after_common = (
            ((info * old)[:, None] + step * new) / total
            for old, new in ((bias_norm, new_norm), (bias_one, new_one), (common, spread))
        )
        cost = _QUANTILE * np.sqrt(after_common**2 / n + 1 / total) + weight * after_one
        k = np.argmin(cost, axis=1)
        radii[:, t], slopes[:, t] = radius[rows, k], curves.slope[k]
        biases[:, t], spreads[:, t] = new_one[rows, k], spread[rows, k]
        info, common = total[rows, k], after_common[rows, k]
        bias_norm, bias_one = after_norm[rows, k], after_one[rows, k]
    return (radii, slopes, biases, spreads), cost[rows, k]


@lru_cache(maxsize=64)
def _curves(d: int, tails: str) -> _Curves:
    if tails == "variance":
        return _variance_curves(d)
    u = np.geomspace(_LARGEST_TAIL[tails], 1e-9, 240)  # probability beyond the radius, from the largest
    q = special.chdtri(d, u)
    return _symmetric_curves(d, q, u) if tails == "symmetric" else _subgaussian_curves(d, q, u)


def _variance_curves(d: int) -> _Curves:
    # E|x_j| (1 - B/||x||)_+ <= E|x_j| ||x||/(4B); the shift is for the fourth moment of the centre's error.
    q = d * np.geomspace(1, 1e6, 160)
    constant = np.sqrt(d / q) / 4
    ones = np.ones_like(q)
    return _Curves(
        q, constant, (np.sqrt(1 + 2 / d) - 1) * constant, np.zeros_like(q), np.zeros_like(q), ones, ones
    )


def _symmetric_curves(d: int, q: Numbers, u: Numbers) -> _Curves:
    # The slope of E clip(X - c) in the mean, at c = mu, for normal rows; for others it may be up to 1, and
    # the stage is then off by (1/slope - 1) times the centre's error.
    slope = 1 - u
    if d > 1:
        inverse = np.exp(special.gammaln((d - 1) / 2) - special.gammaln(d / 2)) / np.sqrt(2)  # E 1/chi_d
        slope = slope + (1 - 1 / d) * np.sqrt(q) * inverse * special.chdtrc(d - 1, q)
    slope = np.minimum(slope, 1.0)
    spread = np.sqrt(special.chdtr(d + 2, q) + q / d * u) / slope
    variation, loss = (values / slope for values in _clipped_together(d, q, u))
    return _Curves(q, np.zeros_like(q), 1 / slope - 1, variation, loss, slope, spread)


def _subgaussian_curves(d: int, q: Numbers, u: Numbers) -> _Curves:
    # int_0^u z(s) (1 - sqrt(q(u)/q(s))) ds: the comonotone bound on E|x_j| (1 - B/||x||)_+.
    z = special.ndtri(1 - u / 2)
    # Raised by more than the error of the sum over the grid, and by what is beyond its last u: int_0^u z ds is
    # at most u (z + 1/z).
    constant = 1.005 * np.maximum(_beyond(z, u) - np.sqrt(q) * _beyond(z / np.sqrt(q), u), 0.0)
    constant += u[-1] * (z[-1] + 1 / z[-1])
    ones = np.ones_like(q)
    return _Curves(q, constant, np.zeros_like(q), *_clipped_together(d, q, u), ones, ones)


def _clipped_together(d: int, q: Numbers, u: Numbers) -> tuple[Numbers, Numbers]:
    """Return root mean squares, per column, of the slope of what clipping loses, and of the loss itself.

    For rows with normal norms. Outside the ball the loss x - clip x grows by 1 along x and by 1 - B/||x||
    across it.
    """
    across = u - 2 * np.sqrt(q) * _beyond(1 / np.sqrt(q), u) + q * _beyond(1 / q, u)
    mean = np.sqrt(2) * np.exp(special.gammaln((d + 1) / 2) - special.gammaln(d / 2))  # E chi_d
    square = d * special.chdtrc(d + 2, q) - 2 * np.sqrt(q) * mean * special.chdtrc(d + 1, q) + q * u
    # Raised by more than the error of the sum over the grid; a difference that is lost to rounding is no bound.
    variation = 1.1 * np.sqrt((u + (d - 1) * np.maximum(across, 0.0)) / d)
    return variation, np.sqrt(np.maximum(square, 1e-9 * q * u) / d)


def _beyond(values: Numbers, u: Numbers) -> Numbers:
    """Return int_0^u values(s) ds for every u of the grid, by the trapezoid rule in log s."""
    steps = values * u * np.log(u[0] / u[1])
    sums = np.cumsum(((steps[:-1] + steps[1:]) / 2)[::-1])[::-1]
    return np.append(sums, 0.0)
