"""Algorithm 9.3.3 as pure steps: its constants, and what each line computes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_integer, check_real
from dpstats.errors import NotPrivate
from dpstats.privacy.gaussian import gaussian_sigma
from dpstats.release.noise import MAX_SCALE, check_scale

# A test of Canonne, Kamath, McMillan, Ullman and Zakynthinou (2020), for sign rows. The order of its releases is
# `dpstats.identity.by_filtering`'s. Proof: docs/proofs/filtering.md.

_EXACT_FLOAT64 = 2**53
_SMALLEST_DELTA = 1e-280  # so that its logarithms are finite

PARTS, DELTA_PARTS = 4, 14
"""The printed algorithm with parameters (e, f) is (4e, 14f)-private: inside, a total is divided by these."""


@dataclass(frozen=True)
class FilteringConstants:
    """All constants of algorithm 9.3.3, from public facts. Line numbers refer to the text.

    Attributes
    ----------
    epsilon, delta : float
        Inside the algorithm: a quarter, and a fourteenth, of the total.
    largest_scale, largest_threshold : float
        Lines 2 and 3: Laplace scale 2/epsilon for max |S_i| (sensitivity 2), and its threshold.
    sum_sigma : float
        Line 4: standard deviation of the noise on every coordinate of S (l2 sensitivity 2 sqrt d).
    sum_margin : float
        (4d/epsilon) sqrt(log(5/(4 delta)) log(n/delta)): what that noise can do to one inner product.
    Delta : float
        Line 5.
    filter_threshold : float
        Lines 6 and 9: Delta + sum_margin.
    count_scale, count_threshold : float
        Lines 6 and 7: Laplace scale 1/epsilon for the number of rows beyond, and its threshold.
    statistic_sensitivity : int
        Line 13: 4 Delta + 12 sum_margin (printed as 4 Delta + 48d/epsilon ...), rounded up to an integer.
    statistic_scale : float
        statistic_sensitivity / epsilon.
    """

    epsilon: float
    delta: float
    largest_scale: float
    largest_threshold: float
    sum_sigma: float
    sum_margin: float
    Delta: float
    filter_threshold: float
    count_scale: float
    count_threshold: float
    statistic_sensitivity: int
    statistic_scale: float


def filtering_constants(
    n: int, d: int, epsilon: float, delta: float, calibration: str = "exact"
) -> FilteringConstants:
    """Return the constants of algorithm 9.3.3 for a *total* guarantee of (epsilon, delta).

    Parameters
    ----------
    n, d : int
        Shape of the data; n at least 2.
    epsilon, delta : float
        Total; inside, a quarter and a fourteenth are used.
    calibration : {"exact", "textbook"}
        Line 4's noise: the exact Gaussian curve, or as printed. The exact one is smaller wherever the
        printed one is private, and only there: the proof needs noise of at most the printed size.

    Raises
    ------
    NotPrivate
        If the printed noise of line 4 is not private, or if another condition of the proof fails.
    """
    n, d = check_integer("n", n, at_least=2), check_integer("d", d, at_least=1)
    e = check_real("epsilon", epsilon, above=0) / PARTS
    f = check_real("delta", delta, at_least=_SMALLEST_DELTA, below=1) / DELTA_PARTS
    check_scale(1 / e if e * MAX_SCALE > 1 else math.inf)
    log_f, log_nf, log_df = math.log(1 / f), math.log(n / f), math.log(d / f)
    log_gauss = math.log(1.25 / f)
    printed = math.sqrt(8 * d * log_gauss) / e
    exact = gaussian_sigma(e, f, 2 * math.sqrt(d))
    if exact > printed:
        raise NotPrivate(
            f"the printed noise of algorithm 9.3.3, line 4, is not private at epsilon = {epsilon:g}, "
            f"delta = {delta:g} in total: it needs a smaller epsilon"
        )
    # Two conditions of the proof: 4 sum_margin >= (16d/e) log(1/f) + 4d for kept rows, and the bound of line 5 for
    # redrawn rows.
    if (log_f + 0.25 * e) ** 2 > log_gauss * log_nf or log_f < 0.61 * e:
        raise NotPrivate(
            f"the proof of algorithm 9.3.3 does not cover epsilon = {epsilon:g}, delta = {delta:g}: "
            "it needs a smaller epsilon"
        )
    margin = 4 * d / e * math.sqrt(log_gauss * log_nf)
    bound = 16 * (
        d * log_df
        + d / (n * e**2) * log_f**2
        + math.sqrt(n * d) * math.sqrt(log_df * log_nf)
        + math.sqrt(d) / e * log_f * math.sqrt(log_nf)
    )
    sensitivity = math.ceil((4 * bound + 12 * margin) * (1 + 1e-12))
    return FilteringConstants(
        epsilon=e,
        delta=f,
        largest_scale=2 / e,
        largest_threshold=math.sqrt(2 * n * log_df) + 2 / e * log_f,
        sum_sigma=exact if calibration == "exact" else printed,
        sum_margin=margin,
        Delta=bound,
        filter_threshold=bound + margin,
        count_scale=1 / e,
        count_threshold=log_f / e,
        statistic_sensitivity=sensitivity,
        statistic_scale=sensitivity / e,
    )


def largest_coordinate(X: NDArray[Any]) -> int:
    """Return max_i |S_i| of sign rows, for line 2. Its sensitivity is 2."""
    return int(np.abs(X.sum(axis=0, dtype=np.int64)).max())


def rows_beyond(X: NDArray[Any], noisy_steps: NDArray[np.int64], threshold_steps: int) -> NDArray[np.bool_]:
    """Select the rows with |<x_j, noisy sum>| > threshold, both in lattice steps, for lines 6 and 9.

    With integers, the result for a row is exact: no other row can change the rounding of its product.
    """
    largest = max(abs(int(step)) for step in noisy_steps)
    exact = largest * X.shape[1] < _EXACT_FLOAT64
    # Every partial sum is an integer below 2^53; Python integers for noise beyond that.
    dtype = np.dtype(np.float64 if exact else object)
    inner = X.astype(dtype) @ noisy_steps.astype(dtype)
    return np.asarray(np.abs(inner) > threshold_steps, dtype=np.bool_)


def replace_rows(X: NDArray[Any], beyond: NDArray[np.bool_], signs: NDArray[Any]) -> NDArray[Any]:
    """Return the filtered data of lines 8 to 12: rows beyond the threshold get new uniform signs of shape (n, d)."""
    filtered: NDArray[Any] = np.where(beyond[..., None], signs, X)
    return filtered


def quadratic_statistic(X: NDArray[Any]) -> int:
    """Return T = ||S||^2 - n d of sign rows, exactly."""
    n, d = X.shape
    # In Python integers: n^2 d may leave 64 bits.
    sums: list[int] = X.sum(axis=0, dtype=np.int64).tolist()
    return sum(s * s for s in sums) - int(n) * int(d)
