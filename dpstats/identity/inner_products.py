"""Extensions of T = ||S||^2 - n d from C(Delta) = {|<x_j, S>| <= Delta for all rows j}, for sign rows."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.parameters import check_integer, check_real
from dpstats.errors import refuse_data
from dpstats.identity.l1_norm import first_stop, shrunk

# C(Delta) is the set of algorithm 9.3.1, with the corrected constant K(Delta) in place of 4 Delta. Here are the
# constant, and a computable K-Lipschitz lower bound of the extension; `exact_extension` has the extension itself, for
# small data (docs/proofs/lipschitz-extension.md). Integers in give exact integers out.


def inner_product_constant(n: int, d: int, Delta: float) -> float:
    """Return K(Delta), a Lipschitz constant of T on C(Delta); the printed 4 Delta is not one.

    K = max over k = 1..n of min(4 Delta + k d - [k odd] d/k, n Delta / k).

    Parameters
    ----------
    n, d : int
        Shape of the data.
    Delta : float
        Bound on ``|<x_j, S>|``, at least 0.

    Returns
    -------
    float
        Rounded up, never below the exact value.

    Examples
    --------
    >>> from dpstats.identity import inner_product_constant
    >>> inner_product_constant(12, 3, 4)
    22.0
    """
    n, d = check_integer("n", n, at_least=1), check_integer("d", d, at_least=1)
    Delta = check_real("Delta", Delta, at_least=0)

    def rising(k: int) -> Fraction:
        return 4 * bound + k * d - (Fraction(d, k) if k % 2 else 0)

    def falling(k: int) -> Fraction:
        return n * bound / k

    bound = Fraction(Delta)
    # Both are monotone in k: the maximum of the minimum is next to where they cross.
    low, high = 1, n
    while low < high:
        middle = (low + high) // 2
        if rising(middle) >= falling(middle):
            high = middle
        else:
            low = middle + 1
    exact = max(min(rising(k), falling(k)) for k in (max(low - 1, 1), low))
    rounded = float(exact)
    return rounded if Fraction(rounded) >= exact else math.nextafter(rounded, math.inf)


def inner_product_surrogate(X: Any, Delta: float, constant: float) -> float:
    """Return a computable number, ``constant``-Lipschitz, never above the exact extension.

    It is h = min over k >= q of sum_i max(|S_i| - 2k, m)^2 - n d + K k, with m = n mod 2. Here q is the smallest k with
    at most k rows that have |<x_j, S>| > Delta + 2dk.

    Parameters
    ----------
    X : array of shape (n, d)
        Entries -1 and 1.
    Delta, constant : float
        The same as in `exact_inner_product_extension`. The result is private for *any* constant.

    Returns
    -------
    float
        Equal to T if all |<x_j, S>| <= Delta and sum_i psi(|S_i|) <= constant.
    """
    X = check_sign_rows(X)
    n, d = X.shape
    Delta = check_real("Delta", Delta, at_least=0)
    constant = check_real("constant", constant, at_least=0)
    S = X.sum(axis=0)
    inner = np.sort(np.abs(X @ S))
    k = np.arange(n + 1)
    beyond = n - np.searchsorted(inner, Delta + 2.0 * d * k, side="right")
    q = int(np.argmax(beyond <= k))
    a = np.abs(S)
    # The cost is convex in k: beyond its own minimum it rises.
    k_best = max(q, int(first_stop(a[None], n % 2, 2, constant)[0]))
    return float(np.sum(shrunk(a, n % 2, 2 * k_best) ** 2) - n * d + constant * k_best)


def check_sign_rows(X: Any) -> NDArray[np.int64]:
    X = np.asarray(X)
    if X.ndim != 2 or X.size == 0 or X.dtype.kind not in "if" or not (np.abs(X) == 1).all():
        raise refuse_data("X", allowed="a non-empty two-dimensional array of -1 and 1")
    signs: NDArray[np.int64] = as_int64(X)
    return signs
