"""Critical distances of the identity tests from the distribution of the released number, not from rows.

The critical distance a_c(n, d, epsilon) is where a test of level 5% has power 2/3. Each function returns one estimate
of it. The Laplace noise of the release is integrated out, and the datasets of a batch are the same at every distance,
so that few of them suffice. What a statistic depends on is drawn, instead of rows:

* row distance: the inner products of n normal rows. For d >= n these are Bartlett's triangle times its transpose, at a
  cost that does not grow with d. The lattice of the rows is left out: it adds 1/768 to a variance of 1.
* row distance with infinitely many columns: inner products are independent, row sums normal. What comes back is the
  limit of a_c^2/sqrt(d).
* spatial sign, n >= 10,000: the norm of the sum has a normal and a chi-square part. Quadrature, no Monte Carlo error.
* l1 extension: the d sums of clipped coordinates are normal.
* filtering: sums of the coordinates are normal. No row is filtered, which fits of the test itself confirm.
* inner products: the exact solver of algorithms 9.3.1 and 9.3.2, with the corrected constant, at sizes it can do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import chi2, ncx2, norm

from dpstats.errors import DPStatsError
from dpstats.identity.by_extension import exact_inner_product_extension, expected_saving, inner_product_constant, shrunk
from dpstats.identity.by_filtering import filtering_constants
from dpstats.identity.by_spatial_sign import projected_moments
from dpstats.identity.row_distance_statistic import approximate_null_f0, normal_clipped_square

LEVEL, TARGET = 0.05, 2 / 3
Floats = NDArray[np.float64]


@cache
def nonprivate(d: int) -> float:
    """Return n a^2 at which the chi-square test has power 2/3: about 2.93 sqrt(d) for many columns."""
    threshold = chi2.isf(LEVEL, d)
    return float(brentq(lambda noncentrality: ncx2.sf(threshold, d, noncentrality) - TARGET, 1e-6, 1e6))


def laplace_tail(x: Floats) -> Floats:
    """Return P(L > x) of a Laplace variable of scale one."""
    tail = 0.5 * np.exp(-np.abs(x))
    return np.where(x > 0, tail, 1 - tail)


def crossing(
    statistic: Callable[[float], Floats],
    scale: float,
    guess: float,
    weights: Floats | None = None,
    earlier: Callable[[float], Floats] | None = None,
) -> float:
    """Return the distance at which the released statistic has power 2/3.

    Parameters
    ----------
    statistic : callable
        Distance -> the statistics of a batch of datasets.
    scale : float
        Of the release's Laplace noise.
    guess : float
        A distance to begin with.
    weights : array, optional
        Of the datasets; equal by default.
    earlier : callable, optional
        Distance -> the probabilities that the test rejects each dataset before it releases the statistic.
    """
    mean = np.mean if weights is None else (lambda values: np.sum(weights * values))
    null, sooner = statistic(0.0), earlier or np.zeros_like

    def rejected(t: float, values: Floats, distance: float) -> float:
        return float(mean(1 - (1 - sooner(distance)) * (1 - laplace_tail((t - values) / scale))))

    threshold = brentq(
        lambda t: rejected(t, null, 0.0) - LEVEL, null.min() - 40 * scale, null.max() + 40 * scale, xtol=1e-7 * scale
    )

    def gap(distance: float) -> float:
        return rejected(threshold, statistic(distance), distance) - TARGET

    low, high = 0.8 * guess, 1.2 * guess
    for _ in range(40):
        if gap(high) >= 0:
            break
        low, high = high, 1.5 * high
    else:
        raise DPStatsError("the power does not reach 2/3")
    while gap(low) > 0:
        low, high = low / 1.5, low
    return float(brentq(gap, low, high, rtol=2e-4))


def _row_distance(row_sums: Floats, step: float, a0: float, tau: float) -> int:
    """Return the row distance, min {k : f_k <= tau + 2 a0 k + step k(k - 1)}, of row sums of clipped products."""
    n = row_sums.size
    ordered = np.sort(row_sums)
    k = np.arange(n + 1)
    largest = np.concatenate([[0], np.cumsum(np.maximum(ordered[::-1], 0))])
    smallest = np.concatenate([[0], np.cumsum(ordered)])
    slack = a0 + step / 2 * k
    below = np.searchsorted(ordered, -slack)
    f = smallest[n] - 2 * largest + 2 * (-slack * below - smallest[below])
    small = f <= tau + 2 * a0 * k + step * k * (k - 1)
    return int(np.argmax(small)) if small.any() else n


def _inner_products(n: int, d: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw the inner products of n standard normal rows of d columns."""
    if d < n:
        rows = rng.standard_normal((n, d), dtype=np.float32)
        return np.asarray(rows @ rows.T)
    triangle = np.tril(rng.standard_normal((n, n), dtype=np.float32), -1)
    triangle[np.arange(n), np.arange(n)] = np.sqrt(rng.chisquare(d - np.arange(n)))
    return np.asarray(triangle @ triangle.T)


def row_distance(n: int, d: int, epsilon: float, rng: np.random.Generator, size: int) -> float:
    """Return a_c of `RowDistanceTest(clip=1)`, from ``size`` datasets."""
    rest = [_inner_products(n, d - 1, rng) for _ in range(size)]
    along = rng.standard_normal((size, n)).astype(np.float32)
    rho, a0 = math.sqrt(d), 1.4 * math.sqrt(n * d)
    tau = approximate_null_f0(n, a0, normal_clipped_square(d, rho, 1.0))
    products = np.empty((n, n), np.float32)

    def statistic(distance: float) -> Floats:
        found = np.empty(size)
        for i in range(size):
            shifted = along[i] + np.float32(distance)
            np.multiply(shifted[:, None], shifted[None], out=products)
            np.add(products, rest[i], out=products)
            np.clip(products, -rho, rho, out=products)
            sums = products.sum(axis=1, dtype=np.float64) - np.diagonal(products)
            found[i] = _row_distance(sums, 4 * rho, a0, tau)
        return found

    q = math.sqrt(n) * epsilon
    guess = math.sqrt(math.sqrt(d) / n * (2.93 + 8.45 / q + 97 / q**2))
    return crossing(statistic, 1 / epsilon, guess)


_X, _W = np.polynomial.legendre.leggauss(200)


def clipped_moments(mean: float, clip: float) -> tuple[float, float]:
    """Return the mean and the variance of N(mean, 1) clipped to [-clip, clip]."""
    above, below = norm.sf(clip - mean), norm.cdf(-clip - mean)
    density = norm.pdf(clip * _X - mean) * _W * clip
    average = clip * (above - below) + density @ (clip * _X)
    return float(average), float(clip**2 * (above + below) + density @ (clip * _X) ** 2 - average**2)


def row_distance_limit(n: int, epsilon: float, rng: np.random.Generator, size: int) -> float:
    """Return the limit of a_c/d^(1/4) of `RowDistanceTest(clip=1)` for many columns, from ``size`` datasets."""
    each, common = rng.standard_normal((size, n)), rng.standard_normal(size)
    a0 = 1.4 * math.sqrt(n)
    tau = approximate_null_f0(n, a0, clipped_moments(0.0, 1.0)[1])

    def statistic(distance: float) -> Floats:
        mean, variance = clipped_moments(distance**2, 1.0)
        # Row sums share the products of pairs: their covariance is the variance of one product.
        sums = (n - 1) * mean + math.sqrt((n - 2) * variance) * each + math.sqrt(variance) * common[:, None]
        return np.array([_row_distance(row, 4.0, a0, tau) for row in sums], float)

    q = math.sqrt(n) * epsilon
    return crossing(statistic, 1 / epsilon, math.sqrt((2.93 + 8.45 / q + 97 / q**2) / n))


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def spatial_sign(n: int, d: int, epsilon: float) -> float:
    """Return a_c of `SpatialSignTest` from the normal limit of the projected sum, exactly."""
    radius = 0.75 * math.sqrt(d)
    # Of the upper half, from the upper tail: there probabilities round to 1.
    tails = norm.sf(np.abs(_NODES))
    across_square = np.where(_NODES > 0, chi2.isf(tails, d - 1), chi2.ppf(tails, d - 1))

    def statistic(distance: float) -> Floats:
        mean, along, across = projected_moments(float(distance), d, radius)
        parallel = n * mean + math.sqrt(n * along) * _NODES
        return np.sqrt(parallel[:, None] ** 2 + n * across * across_square[None])

    q = math.sqrt(n) * epsilon
    guess = math.sqrt(math.sqrt(d) / n * 2.93 + d / n * (6.4 / q + 40 / q**2))
    return crossing(statistic, 2 * radius / epsilon, guess, _WEIGHTS[:, None] * _WEIGHTS[None])


def l1_extension(n: int, d: int, epsilon: float, rng: np.random.Generator, size: int) -> float:
    """Return a_c of `LipschitzExtensionTest(constraint="l1")` from the normal limit of its sums."""
    clip, factor = 1.0, 0.8
    noise = rng.standard_normal((size, d))
    price = factor * d * expected_saving(n * clipped_moments(0.0, clip)[1], 2 * clip)

    def statistic(distance: float) -> Floats:
        mean, variance = clipped_moments(distance / math.sqrt(d), clip)
        sums = np.abs(n * mean + math.sqrt(n * variance) * noise)
        low, high = np.zeros(size), np.ceil(sums.max(axis=1) / (2 * clip)) + 1
        while np.any(low < high):
            k = np.floor((low + high) / 2)
            now = shrunk(sums, 0.0, 2 * clip * k[:, None])
            enough = np.sum(now**2 - shrunk(now, 0.0, 2 * clip) ** 2, axis=1) <= price
            low, high = np.where(enough, low, np.minimum(k + 1, high)), np.where(enough, k, high)
        return np.asarray(np.sum(shrunk(sums, 0.0, 2 * clip * low[:, None]) ** 2, axis=1) + price * low)

    q = math.sqrt(n) * epsilon
    guess = math.sqrt(math.sqrt(d) / n * 2.93 + d / n * (4.5 / q + 72 / q**2))
    return crossing(statistic, price / epsilon, guess)


MANY_COLUMNS = 4096
"""Above it the largest of the coordinates and the sum of their squares count as independent."""


def filtering(n: int, d: int, epsilon: float, rng: np.random.Generator, size: int) -> float:
    """Return a_c of `FilteringTest` if it filters no row, from ``size`` datasets."""
    c = filtering_constants(n, d, epsilon, 1e-6)
    if d <= MANY_COLUMNS:
        noise = rng.standard_normal((size, d))
        total, squares = noise.sum(axis=1), (noise**2).sum(axis=1)
        highest, lowest = noise.max(axis=1), noise.min(axis=1)
    else:
        along = rng.standard_normal(size)
        total, squares = math.sqrt(d) * along, along**2 + rng.chisquare(d - 1, size)
        highest, lowest = (sign * norm.isf(-np.expm1(np.log(rng.random(size)) / d)) for sign in (1, -1))

    def moments(distance: float) -> tuple[float, float]:
        p = math.erf(distance / math.sqrt(2 * d))
        return n * p, n * (1 - p * p)

    def statistic(distance: float) -> Floats:
        mean, variance = moments(distance)
        return np.asarray(d * mean**2 + 2 * mean * math.sqrt(variance) * total + variance * squares - n * d)

    def earlier(distance: float) -> Floats:
        mean, variance = moments(distance)
        largest = np.maximum(mean + math.sqrt(variance) * highest, -mean - math.sqrt(variance) * lowest)
        return laplace_tail((c.largest_threshold - largest) / c.largest_scale)

    guess = math.sqrt(math.sqrt(d) / n * 2.93 + 2 * c.statistic_scale / n**2)
    return crossing(statistic, c.statistic_scale, min(guess, math.sqrt(d)), earlier=earlier)


def inner_products(n: int, d: int, epsilon: float, rng: np.random.Generator, size: int) -> float:
    """Return a_c of `InnerProductTest(solver="exact")`, from ``size`` datasets of signs.

    The extension depends on how often each of the 2^d sign rows occurs, and is kept by these counts.
    """
    Delta = min(n * d, math.ceil(d + math.sqrt((n - 1) * d) * float(ndtri(1 - 0.005 / n))))
    K = math.ceil(min(inner_product_constant(n, d, Delta), 4.0 * d * (n - 1)))
    noise = rng.standard_normal((size, n, d))
    known: dict[bytes, float] = {}

    def extension(rows: NDArray[Any]) -> float:
        key = np.sort(rows @ (2 ** np.arange(d))).tobytes()
        if key not in known:
            known[key] = float(exact_inner_product_extension(rows, Delta, K))
        return known[key]

    def statistic(distance: float) -> Floats:
        signs = np.where(noise + distance / math.sqrt(d) >= 0, 1, -1)
        return np.array([extension(rows) for rows in signs])

    return crossing(statistic, K / epsilon, 1.0)
