"""Small databases: multisets of a given size, the size that represents any data, and nets built from them."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_real
from dpstats.errors import InvalidParameter, refuse
from dpstats.queries.linear import LinearQueries, Numbers

# Proof: docs/intervals/query-updates.md, "Small databases".

MOST_DATABASES = 200_000
"""Largest number of candidates. Exact sampling from this distribution requires a list of all candidates."""
_MOST_COMPARISONS = 5e9
"""Answers of two multisets that are compared for a smaller net, at most: about ten seconds."""


def n_multisets(size: int, m: int) -> int:
    """Return the number of multisets of m points in a universe."""
    return math.comb(size + m - 1, m)


def multisets(size: int, m: int) -> NDArray[np.int64]:
    """Return all multisets of m points as histograms: shape (n_multisets, size).

    Examples
    --------
    >>> from dpstats.queries.multisets import multisets
    >>> multisets(2, 3).tolist()
    [[3, 0], [2, 1], [1, 2], [0, 3]]
    """
    count = n_multisets(size, m)
    if count > MOST_DATABASES:
        shown = f"{count:,}" if count < 10**12 else f"10^{len(str(count)) - 1}"
        raise InvalidParameter(
            f"there are {shown} databases of {m} rows on {size:,} points, more than the {MOST_DATABASES:,} "
            "that can be written out; use IterativeConstruction(update='multiplicative_weights') or "
            "OnlineMultiplicativeWeights, which need none of them"
        )
    # Stars and bars: the positions of size - 1 bars among m stars, in decreasing order.
    bars = np.array(list(combinations(range(m + size - 1), size - 1)), dtype=np.int64).reshape(
        count, size - 1
    )
    edges = np.column_stack([np.full(count, -1), bars, np.full(count, m + size - 1)])
    return np.ascontiguousarray((np.diff(edges, axis=1) - 1)[::-1])


def sampled_size(accuracy: float, n_queries: int) -> int:
    """Return the size at which some sample of any data answers all queries within ``accuracy``.

    By Hoeffding's inequality, 2 n_queries e^(-2 m accuracy^2) < 1 is sufficient. Theorem 4.2 prints
    log(n_queries)/accuracy^2, which is up to twice this size and fails for one query.
    """
    return math.floor(math.log(2 * n_queries) / (2 * accuracy**2)) + 1


def rounded_size(accuracy: float, size: int) -> int:
    """Return the size at which rounding the proportions of any data answers all queries within ``accuracy``."""
    return max(1, math.ceil(size / (4 * accuracy) * (1 - 1e-15)))


def shattered_size(accuracy: float, vc_dimension: int) -> int:
    """Return the size at which some sample answers counting queries of a VC dimension within ``accuracy``.

    It is the smallest m with m accuracy^2 >= 2 and 4 sum_{i <= d} C(2m, i) e^(-m accuracy^2/8) < 1. The source is
    Vapnik and Chervonenkis (1971), with Sauer's lemma. Theorem 4.8 has an unspecified constant.
    """

    def fails(m: int) -> bool:
        log_growth = math.log(sum(math.comb(2 * m, i) for i in range(min(vc_dimension, 2 * m) + 1)))
        return m * accuracy**2 < 2 or math.log(4) + log_growth - m * accuracy**2 / 8 >= 0

    high = 1
    while fails(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fails(middle) else (low, middle)
    return high


def database_size(accuracy: float, queries: LinearQueries) -> int:
    """Return the smallest size that is known to suffice: by sampling, by rounding, or by the VC dimension."""
    accuracy = check_real("accuracy", accuracy, above=0, below=1)
    known = [sampled_size(accuracy, queries.n_queries), rounded_size(accuracy, queries.size)]
    if queries.is_counting and queries.vc_dimension is not None:
        known.append(shattered_size(accuracy, queries.vc_dimension))
    return min(known)


def net_accuracy(m: int, queries: LinearQueries) -> float:
    """Return the accuracy with which some database of m rows answers like any data, by sampling or by rounding."""
    return min(1.0, math.sqrt(math.log(2 * queries.n_queries) / (2 * m)), queries.size / (4 * m))


def build_net(queries: LinearQueries, accuracy: float) -> Numbers:
    """Return a net: for any data, one of its distributions answers all queries within ``accuracy``.

    This function is for small universes. The net starts with all multisets whose size suffices for a part of the
    accuracy. Among multisets that answer alike within the remaining accuracy, it keeps one, unless there are too many
    to compare.

    Parameters
    ----------
    queries : LinearQueries
        Public queries.
    accuracy : float
        Accuracy of the net, in (0, 1).

    Returns
    -------
    array of shape (n_databases, size)
        Distributions.

    Raises
    ------
    InvalidParameter
        If there are too many databases. The message has their number and an alternative.

    Examples
    --------
    >>> from dpstats.queries import LinearQueries
    >>> from dpstats.queries.multisets import build_net
    >>> build_net(LinearQueries.from_matrix([[1, 0]]), 0.25).tolist()
    [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    """
    accuracy = check_real("accuracy", accuracy, above=0, below=1)
    best: Numbers | None = None
    for share in (1.0, 0.75, 0.5):
        m = database_size(share * accuracy, queries)
        number = n_multisets(queries.size, m)
        kept = number if best is None else len(best)
        slow = number * kept * len(queries) > _MOST_COMPARISONS
        if best is not None and (number > MOST_DATABASES or slow):
            break
        databases = multisets(queries.size, m) / m
        if slow:
            return databases
        slack = max(accuracy - net_accuracy(m, queries), 0.0)
        thinned = _thinned(databases, np.array([queries.answers(y) for y in databases]), slack)
        best = thinned if best is None or len(thinned) < len(best) else best
    assert best is not None
    return best


def _thinned(databases: Numbers, answers: Numbers, slack: float) -> Numbers:
    """Return databases such that every other answers like one of them, within ``slack``."""
    kept: list[int] = []
    left = np.arange(len(databases))
    while left.size:
        first = left[0]
        kept.append(int(first))
        # Floating-point sums of equal numbers may differ in their last digits.
        far = np.abs(answers[left] - answers[first]).max(axis=1) > slack * (1 - 1e-12) + 1e-12
        far[0] = False
        left = left[far]
    return databases[kept]


def check_net(net: Any, size: int) -> Numbers:
    """Return a given net as distributions. Counts are divided by their sums."""
    try:
        array = np.array(net, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(0)
    if array.ndim != 2 or array.shape[1] != size or not len(array):
        raise refuse(
            "net",
            got=f"shape {array.shape}",
            allowed=f"databases on {size:,} points, of shape (n_databases, {size})",
        )
    if not np.isfinite(array).all() or (array < 0).any() or (array.sum(axis=1) <= 0).any():
        raise refuse("net", allowed="hold counts or shares, none negative, and not all of a row 0")
    if len(array) > MOST_DATABASES:
        raise refuse("net", got=f"{len(array):,}", allowed=f"have at most {MOST_DATABASES:,} databases")
    return np.asarray(array / array.sum(axis=1, keepdims=True))
