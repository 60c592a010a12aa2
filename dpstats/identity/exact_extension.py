"""The exact extension of T from C(Delta), by enumeration or by integer programs: for small data."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.parameters import check_choice, check_real
from dpstats.errors import refuse
from dpstats.identity.inner_products import check_sign_rows

# The proof page docs/proofs/lipschitz-extension.md defines it and proves its privacy.

# Limit for the cost of the exact extension. The rule depends on the public (n, d) only.
MAX_COUNT_VECTORS = 300_000
MAX_SUMS = 2_000_000
MAX_PATTERNS = 64

_SUMS_AT_ONCE = 1 << 14  # times 64 patterns: eight megabytes


def exact_inner_product_extension(X: Any, Delta: float, constant: float, method: str = "auto") -> float:
    """Return min over Y in C(Delta) of T(Y) + constant * (number of rows in which X and Y differ).

    Parameters
    ----------
    X : array of shape (n, d)
        Entries -1 and 1.
    Delta : float
        The constraint ``|<y_j, sum of y>| <= Delta``.
    constant : float
        K(Delta) for an extension of T; any number gives something with that Lipschitz constant.
    method : {"auto", "enumerate", "milp"}
        All count vectors of the 2^d sign patterns, or best-first integer programs (HiGHS) over the sums.
        The default chooses by the public (n, d).

    Returns
    -------
    float
        Exact, if ``Delta`` and ``constant`` are integers below 2^31.

    Raises
    ------
    InvalidParameter
        If (n, d) is too large for the method, or no dataset of this shape lies in C(Delta).

    Examples
    --------
    >>> from dpstats.identity import exact_inner_product_extension
    >>> X = [[1, 1], [1, 1], [1, -1], [-1, 1]]
    >>> exact_inner_product_extension(X, Delta=8, constant=16)
    0.0
    >>> exact_inner_product_extension(X, Delta=2, constant=16)
    8.0
    """
    X = check_sign_rows(X)
    n, d = X.shape
    Delta = check_real("Delta", Delta, at_least=0)
    constant = check_real("constant", constant, at_least=0)
    method = check_choice("method", method, ["auto", "enumerate", "milp"])
    patterns = 2**d
    vectors = count_vectors(n, d)
    if method == "auto":
        method = "enumerate" if vectors <= MAX_COUNT_VECTORS else "milp"
    if method == "enumerate" and vectors > MAX_COUNT_VECTORS:
        raise refuse("method", given=method, allowed=f"'milp' for the many count vectors of n = {n}, d = {d}")
    if method == "milp" and (patterns > MAX_PATTERNS or (n + 1) ** d > MAX_SUMS):
        raise refuse(
            "X",
            got=f"n = {n}, d = {d}",
            allowed="small for the exact extension",
            remedy="Use inner_product_surrogate.",
        )
    P = _patterns(d)
    counts = as_int64(np.bincount((X > 0) @ (2 ** np.arange(d)[::-1]), minlength=patterns))
    if method == "enumerate":
        best = _by_enumeration(counts, d, Delta, constant)
    else:
        best = _by_programs(P, counts, Delta, constant)
    if not math.isfinite(best):
        raise refuse(
            "Delta", given=Delta, allowed=f"larger: no {n} x {d} sign dataset has all |<x_j, S>| <= Delta"
        )
    return float(best - n * d)


def count_vectors(n: int, d: int) -> float:
    """Return the number of unordered datasets of n sign rows. It is infinite for d > 6."""
    patterns = 2**d
    return math.comb(n + patterns - 1, patterns - 1) if patterns <= MAX_PATTERNS else math.inf


def check_solvable(n: int, d: int) -> None:
    """Raise an error for sizes that `exact_inner_product_extension` does not support."""
    if count_vectors(n, d) > MAX_COUNT_VECTORS and (2**d > MAX_PATTERNS or (n + 1) ** d > MAX_SUMS):
        raise refuse(
            "solver",
            given="exact",
            allowed=f"'surrogate' or 'auto' for data of n_samples = {n}, n_features = {d}",
            remedy="Only small data have an exact extension.",
        )


def _patterns(d: int) -> NDArray[np.int64]:
    return np.array(list(itertools.product((-1, 1), repeat=d)), dtype=np.int64)


@lru_cache(maxsize=2)
def _count_vectors(n: int, d: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the count vectors of all datasets, their ||S||^2, and the smallest Delta that has each in C(Delta)."""
    patterns, P = 2**d, _patterns(d)
    # A count vector is a choice of bars among stars.
    bars = np.array(list(itertools.combinations(range(n + patterns - 1), patterns - 1)), dtype=np.int64)
    edges = np.column_stack([np.full(len(bars), -1), bars, np.full(len(bars), n + patterns - 1)])
    Y = np.diff(edges, axis=1) - 1
    sums = Y @ P
    return Y, (sums**2).sum(axis=1), np.where(Y > 0, np.abs(sums @ P.T), 0).max(axis=1)


@lru_cache(maxsize=2)
def _feasible(n: int, d: int, Delta: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the count vectors of all datasets in C(Delta), and their ||S||^2."""
    Y, squares, least = _count_vectors(n, d)
    inside = least <= Delta
    return Y[inside], squares[inside]


def _by_enumeration(counts: NDArray[np.int64], d: int, Delta: float, constant: float) -> float:
    """Return min ||S_Y||^2 + constant * distance over all count vectors Y in C(Delta); inf if there is none."""
    n = int(counts.sum())
    Y, squares = _feasible(n, d, Delta)
    if not len(Y):
        return math.inf
    return float(np.min(squares + constant * (n - np.minimum(Y, counts).sum(axis=1))))


def _by_programs(P: NDArray[np.int64], counts: NDArray[np.int64], Delta: float, constant: float) -> float:
    """Return the same minimum by best-first search over the sums S. Given S, an integer program finds the nearest Y."""
    n, d = int(counts.sum()), P.shape[1]
    lower = np.empty((n + 1) ** d)
    for start in range(0, lower.size, _SUMS_AT_ONCE):
        piece = np.arange(start, min(start + _SUMS_AT_ONCE, lower.size))
        sums = _sums_at(piece, n, d)
        # Rows that must be replaced: rows outside the constraint of S, and half of the distance of S.
        must_go = (np.abs(sums @ P.T) > Delta) @ counts
        to_move = np.abs(sums - counts @ P).max(axis=1) // 2
        lower[piece] = (sums**2).sum(axis=1) + constant * np.maximum(must_go, to_move)
    best = math.inf
    for index in np.argsort(lower, kind="stable"):
        if lower[index] >= best:
            break
        S = _sums_at(index, n, d)
        allowed = np.abs(P @ S) <= Delta
        if allowed.any():
            best = min(best, float(S @ S + constant * _nearest(P[allowed], counts[allowed], S, n)))
    return best


def _sums_at(index: Any, n: int, d: int) -> NDArray[np.int64]:
    """Return the sums at some places of the list of all (n + 1)^d sums of n sign rows."""
    return 2 * as_int64(np.stack(np.unravel_index(index, (n + 1,) * d), axis=-1)) - n


def _nearest(P: NDArray[np.int64], counts: NDArray[np.int64], S: NDArray[np.int64], n: int) -> float:
    """Return the smallest number of rows to replace to reach sum S with patterns P; inf if impossible."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    size = len(P)
    # Variables: counts y of the patterns, and z <= min(y, counts), the rows that are kept.
    equal = np.block([[np.ones((1, size)), np.zeros((1, size))], [P.T, np.zeros((P.shape[1], size))]])
    kept = np.hstack([-np.eye(size), np.eye(size)])
    target = np.concatenate([[n], S])
    result = milp(
        np.concatenate([np.zeros(size), -np.ones(size)]),
        integrality=np.ones(2 * size),
        bounds=Bounds(0, np.concatenate([np.full(size, n), counts])),
        constraints=[LinearConstraint(equal, target, target), LinearConstraint(kept, -np.inf, 0)],
    )
    if result.status == 2:
        return math.inf
    if result.x is None:
        raise RuntimeError(f"the integer program failed: {result.message}")
    y = as_int64(np.rint(result.x[:size]))
    # Do not trust the floats of the solver: check the integers.
    if y.sum() != n or np.any(y < 0) or np.any(y @ P != S):
        raise RuntimeError("the integer program returned an infeasible point. This is a defect")
    return float(n - np.minimum(y, counts).sum())
