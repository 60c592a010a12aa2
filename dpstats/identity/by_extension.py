"""The Lipschitz-extension test: release T = ||S||^2 - n d v, extended from datasets on which one row moves it little.

S is the sum of the rows. Proof: docs/proofs/lipschitz-extension.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpstats.data.parameters import check_choice, check_integer, check_level, check_real
from dpstats.data.values import as_int64
from dpstats.errors import refuse, refuse_data
from dpstats.identity.base import PrivateTest
from dpstats.identity.calibration import IdentityPlan
from dpstats.identity.row_distance_statistic import round_to_steps
from dpstats.identity.whitening import Reference, check_signs, grid_law, norm_rate, signs_of
from dpstats.privacy.stages import Stage
from dpstats.release.additive import Integers, additive_stages
from dpstats.release.estimator import parameters
from dpstats.release.session import Released

# Extension from datasets with a small ||S||_1

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


# Extension from C(Delta) = {|<x_j, S>| <= Delta for all rows j}, for sign rows

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


# The exact extension from C(Delta), by enumeration or by integer programs


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
            "X", got=f"n = {n}, d = {d}", allowed="small for the exact extension", remedy="Use inner_product_surrogate."
        )
    P = _patterns(d)
    counts = as_int64(np.bincount((X > 0) @ (2 ** np.arange(d)[::-1]), minlength=patterns))
    if method == "enumerate":
        best = _by_enumeration(counts, d, Delta, constant)
    else:
        best = _by_programs(P, counts, Delta, constant)
    if not math.isfinite(best):
        raise refuse("Delta", given=Delta, allowed=f"larger: no {n} x {d} sign dataset has all |<x_j, S>| <= Delta")
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


# The test

_FINE_BITS = 20
_FINE_SCALE = 1e15  # steps; well inside what can be drawn

_STEPS_OF_CLIP = 8
_STEPS_OF_SIGNS = 1024  # for two-valued columns, whose null mean has to be zero on the grid

AUTOMATIC_COUNT_VECTORS = 60_000
"""solver='auto' is exact up to this number of unordered datasets of a size, for example 12 x 3 and 60 x 2."""

_LARGEST_SQUARE = 2**51  # extensions of T stay below 4 n^2 d, exact as floats


def fine_stage(name: str, spacing: float, sensitivity: int, largest: int, epsilon: float) -> Stage:
    """Return the stage of an integer of size at most ``largest``, on a lattice up to 2^20 times finer.

    Integer noise on an integer causes ties, which lower the level. The lattice is as fine as 62 bits and the scale of
    the noise allow.
    """
    room = math.floor(math.log2(_FINE_SCALE * min(epsilon, 1e9) / sensitivity))
    bits = max(0, min(_FINE_BITS, 61 - largest.bit_length(), room))
    steps = sensitivity * 2**bits
    return additive_stages([Integers(name, 1, spacing / 2**bits, steps, steps)], epsilon, 0.0)[0]


@dataclass(frozen=True)
class SumDesign:
    """The strategy of ``constraint="l1"``: an extension from datasets with a small ``||S||_1``, in closed form.

    Public constants: the grid, the sensitivities of the extension and of every column in steps, and n d E[y^2].
    ``widths`` is a single number if all columns have the same width.
    """

    signs: bool
    steps_per_unit: float
    largest: int
    price: int
    widths: int | tuple[int, ...]
    offset: float

    @classmethod
    def build(cls, n: int, d: int, radius: float, clip: float | None, reference: Reference) -> SumDesign:
        """Return the design for whitened rows. Without a clip it is 1 for normal rows, and for signs the largest."""
        if reference.largest is None:
            steps, largest = _STEPS_OF_CLIP / (1.0 if clip is None else clip), _STEPS_OF_CLIP
            points, weights = grid_law(steps, largest)
            variance = float(weights @ points**2)
            price = 4 * largest * l1_radius(radius, n, d, float(largest), variance)
            return cls(False, steps, largest, price, 2 * largest, n * d * variance / steps**2)
        steps, largest = _STEPS_OF_SIGNS / (reference.largest if clip is None else clip), _STEPS_OF_SIGNS
        high, low = reference.sign_steps(steps, largest)
        # A row changes a column from one of its two values to the other. This is often much less than twice the largest
        # value.
        widths = (high - low).tolist()
        price = max(1, math.ceil(radius * sum(expected_saving(n * steps**2, width) for width in widths)))
        return cls(False, steps, largest, price, tuple(widths), float(n * d))

    def plan_stages(self, n: int, d: int, epsilon: float) -> tuple[Stage, ...]:
        """Return the stages of the release, which is one."""
        largest = d * (n * self.largest) ** 2
        return (fine_stage("extension of T", self.steps_per_unit**-2, self.price, largest, epsilon),)

    def printed_threshold(self, n: int, d: int, level: float, epsilon: float) -> float:
        """Return line 4 of algorithm 9.3.1, with the constant of this extension instead of 4 Delta."""
        unit = (self.largest / self.steps_per_unit) ** 2
        K = self.price / self.steps_per_unit**2
        return 10 * n * math.sqrt(d) * unit + K * math.log(1 / level) / epsilon

    def seconds(self, n: int, d: int) -> float:
        """Return the approximate time of a simulated dataset."""
        return 1e-5 + 4e-6 * d

    def extend(self, X: NDArray[Any], plan: IdentityPlan) -> NDArray[Any]:
        """Return the exact integer of the stage, shape (1,)."""
        reference = plan.reference
        sums = np.zeros(plan.n_features, dtype=np.int64)
        for _, Z in reference.blocks(X, plan.missing):
            steps: NDArray[Any]
            if self.signs:
                steps = signs_of(Z)
            elif reference.signs_mean is not None:
                steps = reference.sign_rows(Z, self.steps_per_unit, self.largest)
            else:
                steps = round_to_steps(Z, Z, self.steps_per_unit, self.largest)
            sums += as_int64(steps.sum(axis=0))
        return self._extend_sums(sums[None], plan)

    def draw(self, plan: IdentityPlan, size: int, generator: np.random.Generator, shift: Any) -> NDArray[Any]:
        """Return the exact integers of simulated data. Sums have a known distribution, so no row is drawn."""
        n, reference = plan.n_samples, plan.reference
        if self.signs:
            sums = reference.sign_sums(n, size, generator, shift)
        else:
            sums = reference.sums(n, size, generator, shift, self.steps_per_unit, self.largest)
        return self._extend_sums(sums, plan)[:, None]

    def _extend_sums(self, sums: NDArray[np.int64], plan: IdentityPlan) -> NDArray[Any]:
        """Return the extension of T + ``offset`` of every sum, in the steps of the stage."""
        floor = plan.n_samples % 2 if self.signs else 0
        costs = extended_squares(sums, np.asarray(self.widths, dtype=np.int64), self.price, floor)
        return costs * (plan.additive[0].sensitivity_steps // self.price)


@dataclass(frozen=True)
class LipschitzStage:
    """One extension from ``{|<x_j, S>| <= Delta}``: its sensitivity, its privacy cost, and its printed threshold."""

    Delta: float
    sensitivity: float
    epsilon: float
    threshold: float


@dataclass(frozen=True)
class InnerProductDesign:
    """The strategy of ``constraint="inner_product"``: an extension from datasets with small ``|<x_j, S>|``.

    Public constants: whether the extension is the exact one, and its stages. Algorithm 9.3.1 has one.
    """

    exact: bool
    stages: tuple[LipschitzStage, ...]
    offset = 0.0
    signs = True

    def plan_stages(self, n: int, d: int, epsilon: float) -> tuple[Stage, ...]:
        """Return the stages of the release. T is an integer, and so is an extension with an integer constant."""
        return tuple(
            fine_stage(f"extension {t} of T", 1.0, math.ceil(stage.sensitivity), 4 * n * n * d, stage.epsilon)
            for t, stage in enumerate(self.stages, 1)
        )

    def printed_threshold(self, n: int, d: int, level: float, epsilon: float) -> float:
        """Return the threshold of the last stage."""
        return self.stages[-1].threshold

    def seconds(self, n: int, d: int) -> float:
        """Return the approximate time of a simulated dataset."""
        each = 1e-4 + 1e-7 * count_vectors(n, d) if self.exact else 1e-8 * n * d
        return 1e-4 + 2e-8 * n * d + len(self.stages) * each

    def extend(self, X: NDArray[Any], plan: IdentityPlan) -> NDArray[Any]:
        """Return the exact integers of all stages."""
        signs = np.concatenate([signs_of(Z) for _, Z in plan.reference.blocks(X, plan.missing)])
        return self._extend_signs(signs, plan)

    def draw(self, plan: IdentityPlan, size: int, generator: np.random.Generator, shift: Any) -> NDArray[Any]:
        """Return the exact integers of simulated rows."""
        rows = (plan.reference.sample_signs(plan.n_samples, generator, shift) for _ in range(size))
        return np.stack([self._extend_signs(X, plan) for X in rows])

    def _extend_signs(self, signs: NDArray[Any], plan: IdentityPlan) -> NDArray[np.int64]:
        """Return the extension of every stage, in steps: integers, because its constants are rounded up to integers."""
        solve = exact_inner_product_extension if self.exact else inner_product_surrogate
        constants = [math.ceil(stage.sensitivity) for stage in self.stages]
        values = [solve(signs, stage.Delta, K) for stage, K in zip(self.stages, constants, strict=True)]
        finer = [stage.sensitivity_steps // K for stage, K in zip(plan.additive, constants, strict=True)]
        return as_int64(np.array(values)) * np.array(finer, dtype=np.int64)


def chooses_exact(solver: Any, n: int, d: int, reference: Reference) -> bool:
    """Return whether to compute the exact extension from inner products, or its surrogate; refuse other sizes."""
    check_signs(reference, "constraint='l1'")
    solver = check_choice("solver", solver, ["auto", "exact", "surrogate"])
    if n * n * d >= _LARGEST_SQUARE:
        raise refuse(
            "n_samples^2 n_features",
            given=n * n * d,
            allowed="below 2^51 for extensions from inner products",
            remedy="Use LipschitzExtensionTest with constraint='l1'.",
        )
    if solver == "exact":
        check_solvable(n, d)
    return solver == "exact" or (solver == "auto" and count_vectors(n, d) <= AUTOMATIC_COUNT_VECTORS)


@parameters
class ExtensionTest(PrivateTest):
    """Base class of tests whose design is a strategy. Each design plans, computes and simulates its own stages."""

    _calibrations = ("monte_carlo", "textbook")

    def _on_signs(self, design: SumDesign | InnerProductDesign) -> bool:
        return design.signs

    def _stages(self, design: SumDesign | InnerProductDesign, n: int, d: int) -> tuple[Stage, ...]:
        return design.plan_stages(n, d, check_real("epsilon", self.epsilon, above=0))

    def _exact(self, X: NDArray[Any], plan: IdentityPlan) -> Mapping[str, NDArray[Any]]:
        values = plan.design.extend(X, plan)
        return {stage.name: values[[t]] for t, stage in enumerate(plan.stages)}

    def _draw(self, plan: IdentityPlan, size: int, generator: np.random.Generator, shift: Any) -> NDArray[Any]:
        return np.asarray(plan.design.draw(plan, size, generator, shift))

    def _printed_threshold(self, design: SumDesign | InnerProductDesign, n: int, d: int) -> float:
        return design.printed_threshold(n, d, check_level("level", self.level), self.epsilon)

    def _rate(self, distance: float, d: int) -> float:
        return norm_rate(distance, d, self.epsilon)

    def _seconds(self, n: int, d: int, design: SumDesign | InnerProductDesign) -> float:
        return design.seconds(n, d)


@parameters
class LipschitzExtensionTest(ExtensionTest):
    """Private test of a mean by T = ||S||^2 - n d v, extended from data on which it is stable.

    With ``constraint="l1"`` the statistic has a closed form and needs one pass over the rows. Use ``radius=0.4`` if
    only one or two columns may differ from the null. If all columns may differ, use `RowDistanceTest` or
    `SpatialSignTest`. With ``constraint="inner_product"`` this is the published algorithm 9.3.1 with a corrected
    constant, whose exact extension is for small data.

    Parameters
    ----------
    mean : float or array of shape (n_features,), default=0.0
        Public mean under the null hypothesis. Labels work as in `RowDistanceTest`.
    cov : None, array of shape (n_features,) or (n_features, n_features), default=None
        Public covariance matrix, or variances. None is the identity.
    null : {"normal", "product"}, default="normal"
        "product": independent signs with ``mean``, or 0/1 columns; see `RowDistanceTest`. "inner_product" then needs a
        ``mean`` of 0, the uniform distribution on the cube.
    clip : float, optional
        For whitened rows, from 0.001 to 20; None is 1 for normal rows and the largest coordinate for signs.
    constraint : {"l1", "inner_product"}, default="l1"
        Datasets on which T is stable. "l1": ``||S||_1`` is small; a closed form, in one pass. "inner_product": all
        ``|<x_j, S>|`` are small; the set of algorithm 9.3.1, for signs, with the corrected constant.
    rows : {"whitened", "sign"}, default="whitened"
        For "l1": coordinates clipped to ``clip`` and rounded to an eighth of it, or signs.
    radius : float, default=0.8
        Public radius, at most 100. T is unchanged if a quantity of the data is at most A. This number is A divided by
        the null mean of the quantity. Smaller values favor alternatives with few nonzero coordinates: 0.4 for one or
        two.
    solver : {"auto", "exact", "surrogate"}, default="auto"
        Method of "inner_product". "exact" enumerates all datasets, or solves integer programs (small sizes only, and
        slow). "surrogate" is a computable lower bound with the same privacy. "auto" decides by the public size.
    level : float, default=0.05
    calibration : {"monte_carlo", "textbook"}, default="monte_carlo"
        "textbook" uses the printed threshold: private, but with almost no power.
    n_calibration, cache_dir, n_jobs, progress, random_state, budget
        The same as in `RowDistanceTest`.
    missing : {"error", "drop", "center"}, default="error"
        As for `RowDistanceTest`; "center" only for ``rows="whitened"`` with ``constraint="l1"``. An entry at
        its mean has sign +1.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float, default=1.0

    Attributes
    ----------
    statistic_ : float
        The noisy extension of T.
    threshold_, pvalue_ : float
    reject_ : bool
    result_ : TestResult
    privacy_ : PrivacyGuarantee
        Pure guarantee for neighboring datasets that differ in one row; n is public.
    plan_ : IdentityPlan
    n_features_in_ : int

    Notes
    -----
    **Sensitivity.** With "l1", replacing a row changes the extension by at most 4 clip A (`l1_extension`). Under a
    product null, it changes a column by the distance of its two values, which may be far less than 2 clip.

    **Rate.** A distance a is detectable if n is of this order:
    sqrt(d)/a^2 + d^(2/3)/(a^(4/3) epsilon^(2/3)) + d^(1/2)/(a epsilon).

    **Errata.** The printed claim that T is 4 Delta-Lipschitz on ``{|<x_j, S>| <= Delta}`` is false (docs/errata.md): an
    extension with noise for 4 Delta is not private. `inner_product_constant` gives a constant that is.

    **Limits.** The null hypothesis is the whole distribution: skewed rows with the correct mean are often rejected.
    If many columns differ, `RowDistanceTest` detects smaller distances.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.identity import LipschitzExtensionTest
    >>> X = np.random.default_rng(0).normal(0.1, 1.0, size=(3000, 5))
    >>> LipschitzExtensionTest(epsilon=1.0, n_calibration=199, random_state=0).fit(X).reject_
    True
    """

    clip: float | None = None
    constraint: str = "l1"
    rows: str = "whitened"
    radius: float = 0.8
    solver: str = "auto"

    _title = "Lipschitz extension"

    def _design(self, n: int, d: int, reference: Reference) -> SumDesign | InnerProductDesign:
        constraint = check_choice("constraint", self.constraint, ["l1", "inner_product"])
        signs = check_choice("rows", self.rows, ["whitened", "sign"]) == "sign"
        check_choice("solver", self.solver, ["auto", "exact", "surrogate"])
        radius = check_real("radius", self.radius, above=0, at_most=100)
        clip = None if self.clip is None else check_real("clip", self.clip, at_least=1e-3, at_most=20)
        if constraint == "inner_product":
            return self._inner_products(n, d, radius, chooses_exact(self.solver, n, d, reference))
        if signs:
            check_signs(reference, "rows='whitened'")
            return SumDesign(True, 1.0, 1, 4 * l1_radius(radius, n, d, 1.0, 1.0), 2, float(n * d))
        return SumDesign.build(n, d, radius, clip, reference)

    def _inner_products(self, n: int, d: int, radius: float, exact: bool) -> InnerProductDesign:
        """Return the design with the single stage of algorithm 9.3.1."""
        epsilon = check_real("epsilon", self.epsilon, above=0)
        # About the null 0.99 quantile of the largest |<x_j, S>|: d + N(0, (n-1)d), n of them.
        Delta = min(n * d, math.ceil(d + math.sqrt((n - 1) * d) * float(ndtri(1 - 0.005 / n))))
        K = inner_product_constant(n, d, Delta) if exact else 4.0 * l1_radius(radius, n, d, 1.0, 1.0)
        # The second number bounds the sensitivity of T on all datasets.
        K = min(K, 4.0 * d * (n - 1))
        # A calibrated test does not use the printed threshold. Its distribution must not depend on the level.
        threshold = math.inf
        if self.calibration == "textbook":
            threshold = 10 * n * math.sqrt(d) + K * math.log(1 / check_level("level", self.level)) / epsilon
        return InnerProductDesign(exact, (LipschitzStage(Delta, K, epsilon, threshold),))

    def _combine(self, released: Released, plan: IdentityPlan) -> NDArray[np.float64]:
        return np.asarray(super()._combine(released, plan) - plan.design.offset)

    def _cheaper(self) -> str:
        if self.constraint == "l1":
            return "no test costs less: give a smaller n_calibration"
        return super()._cheaper()
