"""The l1 extension: T = ||S||^2 - n d v, with S the sum of the rows, extended from where ||S||_1 is small."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpstats.data.arithmetic import as_int64
from dpstats.data.parameters import check_integer, check_real
from dpstats.errors import refuse_data

# T is stable on datasets with ||S||_1 <= A. Its extension to all datasets has a closed form that is 4cA-Lipschitz. It
# is the minimum over k of a cost g_k(X) + K k, with g_{k+1}(X') <= g_k(X) for neighbors
# (docs/proofs/lipschitz-extension.md). Integer input gives exact integer output.

_MAX_INTEGER = 2**62


def l1_extension(S: Any, n: int, A: float, c: float = 1.0, v: float = 1.0, parity: bool = True) -> float:
    """Return h, the extension of T from the datasets with ``||S||_1 <= A`` to all datasets.

    ``h = min over k >= 0 of sum_i max(|S_i| - 2ck, m)^2 - n d v + 4cAk``, with m = n mod 2 for signs, otherwise 0.

    Parameters
    ----------
    S : array of shape (d,)
        Sum of the rows. With integer ``S``, ``A`` and ``c`` (lattice steps, say) the minimum is exact.
    n : int
        Number of rows.
    A : float
        Public radius, at least 0: h = T where ``l1_excess(S, n, c, parity) <= A``, and h <= T elsewhere.
    c : float, default=1.0
        Bound on the absolute entries of a row.
    v : float, default=1.0
        Mean square of an entry under the null hypothesis; 1 for signs.
    parity : bool, default=True
        Entries are -1 and 1, so that every S_i has the parity of n. With other entries this must be False:
        h stays private, but the floor m keeps it from being T where some ``|S_i|`` is below m.

    Returns
    -------
    float
        Changes by at most 4cA when a row is replaced.

    Examples
    --------
    >>> from dpstats.identity import l1_extension
    >>> l1_extension([3, -1, 5], n=7, A=9), l1_extension([3, -1, 5], n=7, A=4)
    (14.0, 6.0)
    """
    S = _check_sum(S)
    n = check_integer("n", n, at_least=1)
    A = check_real("A", A, at_least=0)
    c = check_real("c", c, above=0)
    v = check_real("v", v, at_least=0)
    d = S.size
    if float(A).is_integer() and float(c).is_integer() and np.array_equal(np.rint(S), S):
        return float(l1_cost(S, n, int(A), int(c), parity) - Fraction(v) * n * d)
    a, floor = np.abs(S.astype(np.float64)), float(n % 2 if parity else 0)
    k = int(first_stop(a[None], floor, 2 * c, 4 * c * A)[0])
    return float(np.sum(shrunk(a, floor, 2 * c * k) ** 2) - n * d * v + 4 * c * A * k)


def l1_cost(S: NDArray[Any], n: int, A: int, c: int = 1, parity: bool = True) -> int:
    """Return h + n d v in integers, the private part of the statistic. Its sensitivity is 4cA.

    ``S``, ``A`` and ``c`` are integers, all in the same steps.
    """
    floor = n % 2 if parity else 0
    return int(extended_squares(np.asarray(S)[None], 2 * c, 4 * c * A, floor)[0])


def extended_squares(S: NDArray[Any], width: Any, price: int, floor: int = 0) -> NDArray[Any]:
    """Return min over k >= 0 of sum_i max(|S_i| - width_i k, floor)^2 + price k for every row of ``S``, exactly.

    Parameters
    ----------
    S : integer array of shape (size, d)
    width : int or int array of shape (d,)
        Sensitivity of S_i to replacing a row, in the steps of ``S``, at least 1.
    price : int
        Sensitivity of the result.
    floor : int, default=0
    """
    a = _absolute_integers(S, extra=int(np.max(width)) + price)
    k = first_stop(a, floor, width, price)
    costs: NDArray[Any] = np.sum(shrunk(a, floor, width * k[:, None]) ** 2, axis=1) + price * k
    return costs


def l1_excess(S: Any, n: int, c: float = 1.0, parity: bool = True) -> float:
    """Return sum_i psi(|S_i|) / (4c), psi(a) = a^2 - max(a - 2c, m)^2; h = T exactly where this is at most A.

    It is below ||S||_1; calibrate ``A`` to one of its null quantiles.
    """
    S = _check_sum(S)
    a = np.abs(S.astype(np.float64))
    floor = float(n % 2 if parity else 0)
    return float(np.sum(a**2 - shrunk(a, floor, 2 * c) ** 2) / (4 * c))


def l1_radius(factor: float, n: int, d: int, clip: float, variance: float) -> int:
    """Return A: ``factor`` times the null mean of sum_i psi(|S_i|)/(4c), in closed form, rounded up.

    Any public A is valid.
    """
    return max(1, math.ceil(factor * d * expected_saving(n * variance, 2 * clip) / (4 * clip)))


def expected_saving(variance: float, width: float) -> float:
    """Return E psi(|S|), psi(a) = a^2 - max(a - width, 0)^2, for normal S: what the first step saves in a column."""
    s, t = math.sqrt(variance), width
    tail, density = float(ndtr(-t / s)), math.exp(-((t / s) ** 2) / 2) / math.sqrt(2 * math.pi)
    return s * s - 2 * ((s * s + t * t) * tail - s * t * density)


def shrunk(a: NDArray[Any], floor: float, by: Any) -> NDArray[Any]:
    shrunk: NDArray[Any] = np.maximum(a - by, floor)
    return shrunk


def first_stop(a: NDArray[Any], floor: float, step: Any, price: float) -> NDArray[Any]:
    """Return, for every row of ``a``, the smallest k >= 0 whose next step saves at most its price.

    sum_i max(a_i - step_i k, floor)^2 is convex and decreasing in k, so this k minimizes it plus price k.
    """
    low = np.zeros(len(a), dtype=np.int64)
    high = np.maximum(as_int64((-((floor - a) // step)).max(axis=1)), 0) + 1
    while np.any(low < high):
        k = (low + high) // 2
        now = shrunk(a, floor, step * k[:, None])
        saved = np.sum(now**2 - shrunk(now, floor, step) ** 2, axis=1)
        enough = (saved <= price).astype(np.bool_)
        # Rows that are done have low = high = k and stay: their next step saves at most its price.
        low, high = np.where(enough, low, np.minimum(k + 1, high)), np.where(enough, k, high)
    return low.astype(a.dtype) if a.dtype == object else low


def _check_sum(S: Any) -> NDArray[Any]:
    S = np.asarray(S)
    bad = S.ndim != 1 or S.size == 0 or S.dtype.kind not in "iufO"
    if bad or (S.dtype.kind == "f" and not np.isfinite(S).all()):
        raise refuse_data("S", allowed="a non-empty vector of finite numbers")
    vector: NDArray[Any] = S
    return vector


def _absolute_integers(S: NDArray[Any], extra: int) -> NDArray[Any]:
    """Return |S| of shape (datasets, d) as int64 if squares and their sum fit, otherwise as Python integers."""
    largest = max(abs(int(S.min())), abs(int(S.max())))
    fits = S.shape[1] * largest**2 < _MAX_INTEGER and extra * (largest + 1) < _MAX_INTEGER
    if fits:
        return np.abs(as_int64(S))
    return np.array([[abs(int(value)) for value in row] for row in S.tolist()], dtype=object)
