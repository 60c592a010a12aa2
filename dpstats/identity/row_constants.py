"""Public constants of the row distance, from the null law of inner products; no data.

Any constants are private. Good ones center the clipped inner products at zero under the null, and put tau0 at about
the median of f0.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

_GRID = 2**15
# A sum of independent terms exceeds Bernstein's bound with this logarithm with probability 2e-13.
_BEYOND = 30.0
_COLUMNS_AT_ONCE = 64


def normal_clipped_square(d: int, rho: int, variance: float) -> float:
    """Return E min(<x, y>^2, rho^2) for rows of d columns with this ``variance``, by a normal law."""
    t = rho / (variance * math.sqrt(d))
    density = math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
    square = (2 * float(ndtr(t)) - 1) - 2 * t * density + 2 * t * t * float(ndtr(-t))
    return variance**2 * d * square


def sign_inner_products(
    high: NDArray[np.int64], low: NDArray[np.int64], up: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the law of <x, y> for two rows of independent columns that are ``high`` with probability ``up``, else low.

    Returns
    -------
    values, probabilities : float arrays
        On a grid: each product is split between its two neighbours on it, which keeps the mean. Steps are
        small beside a standard deviation unless a column is nearly constant.
    """
    columns, counts = np.unique(np.stack([high, low, up]), axis=1, return_counts=True)
    high, low, up = columns
    products = np.stack([high * high, high * low, low * low])
    weights = np.stack([up * up, 2 * up * (1 - up), (1 - up) ** 2])
    mean = np.sum(weights * products, axis=0)
    variance = float(counts @ np.sum(weights * (products - mean) ** 2, axis=0))
    third = _BEYOND * float(np.abs(products - mean).max()) / 3
    bernstein = third + math.sqrt(third**2 + 2 * _BEYOND * variance) + abs(float(counts @ mean))
    reach = min(bernstein, float(counts @ np.abs(products).max(axis=0)))
    step = 2.01 * reach / (_GRID - 4)
    # The characteristic function at 2 pi k / N, k = 0..N/2: powers of one root of unity.
    roots = np.exp(2j * np.pi * np.arange(_GRID) / _GRID)
    k = np.arange(_GRID // 2 + 1)
    transform = np.ones(k.size, dtype=np.complex128)
    for start in range(0, counts.size, _COLUMNS_AT_ONCE):
        piece = slice(start, start + _COLUMNS_AT_ONCE)
        factors = np.zeros((counts[piece].size, k.size), dtype=np.complex128)
        for product, weight in zip(products[:, piece], weights[:, piece], strict=True):
            place = np.floor(product / step)
            part = product / step - place
            turned = roots[np.outer(place.astype(np.int64), k) % _GRID]
            factors += weight[:, None] * turned * (1 + part[:, None] * (roots[k] - 1))
        transform *= np.prod(factors ** counts[piece][:, None], axis=0)
    probabilities = np.fft.fftshift(np.fft.irfft(np.conj(transform), _GRID))
    values: NDArray[np.float64] = step * np.arange(-_GRID // 2, _GRID // 2, dtype=np.float64)
    return values, probabilities


def balanced_center(
    values: NDArray[np.float64], probabilities: NDArray[np.float64], rho: int
) -> tuple[int, float]:
    """Return the integer c at which clip(<x, y> - c, -rho, rho) has mean about zero, and its mean square."""
    low, high = math.floor(values[0]), math.ceil(values[-1])
    while high - low > 1:
        middle = (low + high) // 2
        above = probabilities @ np.clip(values - middle, -rho, rho) > 0
        low, high = (middle, high) if above else (low, middle)
    return low, float(probabilities @ np.clip(values - low, -rho, rho) ** 2)


def signs_center(
    high: NDArray[np.int64], low: NDArray[np.int64], up: NDArray[np.float64], rho: int
) -> tuple[int, float]:
    """Return `balanced_center` of `sign_inner_products`; kept, as it takes a second at a thousand different columns."""
    return _signs_center(high.tobytes(), low.tobytes(), up.tobytes(), rho)


@lru_cache(maxsize=32)
def _signs_center(high: bytes, low: bytes, up: bytes, rho: int) -> tuple[int, float]:
    law = sign_inner_products(
        np.frombuffer(high, np.int64), np.frombuffer(low, np.int64), np.frombuffer(up, np.float64)
    )
    return balanced_center(*law, rho)


def approximate_null_f0(n: int, a0: int, clipped_square: float) -> float:
    """Return a closed approximation of the null mean of `row_statistic_f0`.

    Clipped inner products have mean zero and this mean square; row sums are taken as normal. Any public tau0 is
    valid; this one costs no simulation.
    """
    spread = math.sqrt((n - 1) * clipped_square)
    if spread == 0:
        return 0.0
    s = a0 / spread
    return 2 * n * spread * (math.exp(-s * s / 2) / math.sqrt(2 * math.pi) - s * float(ndtr(-s)))
