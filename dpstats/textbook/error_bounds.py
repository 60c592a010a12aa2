"""What theorems bound: errors of all answers by small databases (chapters 4 and 5), and rates of statistics.

Proof: docs/intervals/query-updates.md, "Small databases".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from dpstats.data.parameters import check_integer, check_privacy_parameters, check_real
from dpstats.errors import InvalidParameter, refuse
from dpstats.queries.linear import LinearQueries, Numbers

# Small databases: multisets of a given size, the size that represents any data, and nets

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
    >>> from dpstats.textbook.error_bounds import multisets
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
    bars = np.array(list(combinations(range(m + size - 1), size - 1)), dtype=np.int64).reshape(count, size - 1)
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


FEW_DATABASES = 20_000
"""Databases of a net that nobody asked for, at most: a round with the median of these takes a second."""


def default_net(queries: LinearQueries, accuracy: float) -> tuple[Numbers, float]:
    """Return a net and its accuracy: the given one if few databases have it, and otherwise the best one of few."""
    if n_multisets(queries.size, database_size(accuracy, queries)) <= FEW_DATABASES:
        return build_net(queries, accuracy), accuracy
    m = 1
    while n_multisets(queries.size, m + 1) <= FEW_DATABASES:
        m += 1
    possible = net_accuracy(m, queries)
    if possible >= VACUOUS:
        # Answering 1/2 to every query is as good as such a net. The refusal says how many databases are missing.
        return build_net(queries, accuracy), accuracy
    return multisets(queries.size, m) / m, possible


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
    >>> from dpstats.textbook import build_net
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
            "net", got=f"shape {array.shape}", allowed=f"databases on {size:,} points, of shape (n_databases, {size})"
        )
    if not np.isfinite(array).all() or (array < 0).any() or (array.sum(axis=1) <= 0).any():
        raise refuse("net", allowed="hold counts or shares, none negative, and not all of a row 0")
    if len(array) > MOST_DATABASES:
        raise refuse("net", got=f"{len(array):,}", allowed=f"have at most {MOST_DATABASES:,} databases")
    return np.asarray(array / array.sum(axis=1, keepdims=True))


# Bounds, as printed and tightened

# Errors are proportions of all rows. A bound holds for all queries simultaneously, except with probability beta. A
# bound of 1/2 or more is vacuous, because the answer 1/2 to every query has an error of at most 1/2 and needs no
# data.

VACUOUS = 0.5
VACUOUS_NOTE = "The error bound is vacuous: the answer 1/2 to every query is never further off."


@dataclass(frozen=True, slots=True)
class AccuracyBound:
    """A bound on the largest error of all answers, with the theorem that proves it (docs/sources.md).

    Attributes
    ----------
    error : float
        Largest error, as a proportion of all rows.
    beta : float
        Probability that the bound does not hold.
    source : str
        Theorem that proves the bound.

    Examples
    --------
    >>> from dpstats.textbook import small_db_bound
    >>> print(small_db_bound(10_000, size=16, n_queries=20, epsilon=1.0))
    every answer is within 0.0201 of the data's, but for probability 0.05 (theorem 4.5, tightened)
    """

    error: float
    beta: float
    source: str

    @property
    def vacuous(self) -> bool:
        """Whether the constant answer 1/2 to every query has an equal or better bound."""
        return self.error >= VACUOUS

    def __float__(self) -> float:
        return self.error

    def __str__(self) -> str:
        text = (
            f"every answer is within {self.error:.3g} of the data's, but for probability {self.beta:g} ({self.source})"
        )
        return f"{text}: vacuous, the answer 1/2 to every query is never further off" if self.vacuous else text


def small_db_bound(
    n_samples: int,
    *,
    size: int,
    n_queries: int,
    epsilon: float,
    beta: float = 0.05,
    accuracy: float | None = None,
    printed: bool = False,
) -> AccuracyBound:
    """Return the error of the exponential mechanism over small databases.

    Parameters
    ----------
    n_samples, size, n_queries : int
        Rows, points of the universe, queries.
    epsilon, beta : float
    accuracy : float, optional
        Accuracy of the small databases (proposition 4.4). None: the best accuracy (theorem 4.5).
    printed : bool, default=False
        Whether to use the printed number of databases, size^(log(n_queries)/accuracy^2), or their true number.
    """
    n, k = _sizes(n_samples, n_queries)
    size = check_integer("size", size, at_least=1)
    epsilon, beta = _privacy(epsilon, beta)
    if printed and accuracy is None:
        root = (16 * math.log(size) * math.log(k) + 4 * math.log(1 / beta)) / (epsilon * n)
        return AccuracyBound(root ** (1 / 3), beta, "theorem 4.5")

    def at(alpha: float) -> float:
        if printed:
            log_count = math.log(size) * math.log(k) / alpha**2
        else:
            m = min(math.floor(math.log(2 * k) / (2 * alpha**2)) + 1, max(1, math.ceil(size / (4 * alpha))))
            log_count = _log_multisets(size, m)
        return alpha + 2 * (log_count + math.log(1 / beta)) / (epsilon * n)

    grid = [0.005 * 1.05**i for i in range(108)] if accuracy is None else [accuracy]
    source = "theorem 4.5, tightened" if accuracy is None else "proposition 4.4"
    return AccuracyBound(min(map(at, grid)), beta, source)


def _log_multisets(size: int, m: int) -> float:
    if size * m < 10**6:
        return math.log(n_multisets(size, m))
    return math.lgamma(size + m) - math.lgamma(m + 1) - math.lgamma(size)


def net_bound(
    n_samples: int, *, n_databases: int, net_error: float, epsilon: float, beta: float = 0.05
) -> AccuracyBound:
    """Return the error of the exponential mechanism over a net (proposition 5.2).

    Parameters
    ----------
    n_samples, n_databases : int
        Rows, and databases of the net.
    net_error : float
        Largest distance between the answers of the data and the answers of the best database in the net.
    epsilon, beta : float
        Privacy parameter, and the probability that the bound does not hold.
    """
    n, count = _sizes(n_samples, n_databases)
    epsilon, beta = _privacy(epsilon, beta)
    net_error = check_real("net_error", net_error, at_least=0)
    error = net_error + 2 * (math.log(count) + math.log(1 / beta)) / (epsilon * n)
    return AccuracyBound(error, beta, "proposition 5.2")


def vc_bound(n_samples: int, *, size: int, vc_dimension: int, epsilon: float, beta: float = 0.05) -> AccuracyBound:
    """Return the error over small databases that are large enough for a VC dimension (theorem 4.9).

    The theorem has unspecified constants. This function uses the constants of Vapnik and Chervonenkis (1971), which are
    large.
    """
    n, d = _sizes(n_samples, max(vc_dimension, 1))
    epsilon, beta = _privacy(epsilon, beta)
    log_beta = math.log(1 / beta)
    errors = [
        alpha + 2 * (_log_multisets(size, shattered_size(alpha, d)) + log_beta) / (epsilon * n)
        for alpha in (0.02 * 1.1**i for i in range(40))
    ]
    return AccuracyBound(min(errors), beta, "theorem 4.9")


def multiplicative_weights_updates(size: int, gap: float, printed: bool = False) -> int:
    """Return the maximum number of queries that differ by ``gap`` or more (theorem 4.10 has 8 times this number)."""
    size = check_integer("size", size, at_least=1)
    gap = check_real("gap", gap, above=0)
    return whole((4 if printed else 0.5) * math.log(size) / gap**2)


def median_updates(n_databases: int) -> int:
    """Return the maximum number of queries for which a median differs from the data (theorem 5.8, logarithm base 2)."""
    return check_integer("n_databases", n_databases, at_least=1).bit_length() - 1


def log_trivial_net(size: int, n_samples: int) -> float:
    """Return the logarithm of the size of an exact net: all databases of n rows (theorem 5.9)."""
    return n_samples * math.log(check_integer("size", size, at_least=1))


def perceptron_updates(size: int, gap: float, norm: float = 1.0, printed: bool = False) -> int:
    """Return the number for the perceptron (theorem 5.11); ``norm`` is the sum of the squared proportions of points."""
    size = check_integer("size", size, at_least=1)
    gap = check_real("gap", gap, above=0)
    norm = check_real("norm", norm, above=0, at_most=1)
    return whole(norm * size / gap**2 if printed else max(norm * size - 1, 0.0) / (4 * gap**2))


def online_bound(
    n_samples: int, *, size: int, n_queries: int, epsilon: float, delta: float = 0.0, beta: float = 0.05
) -> AccuracyBound:
    """Return the printed error of online multiplicative weights: theorem 4.14 if delta = 0, otherwise theorem 4.15.

    It is 3 alpha. Here alpha is the error of `NumericSparseVector` with two comparisons per query and the printed
    number of updates at alpha. `OnlineMultiplicativeWeights.plan` has the tightened error.
    """
    n, k = _sizes(n_samples, n_queries)
    epsilon, delta = check_privacy_parameters(epsilon, delta)
    _, beta = _privacy(epsilon, beta)
    size = check_integer("size", size, at_least=2)
    log_size = math.log(size)

    def sparse_error(alpha: float) -> float:
        c = 4 * log_size / alpha**2
        logs = max(math.log(2 * k) + math.log(4 * c / beta), 1e-9)
        if delta == 0:
            return 9 * c * logs / (epsilon * n)
        return (2 + 32 * math.sqrt(2)) * math.sqrt(c * math.log(2 / delta)) * logs / (epsilon * n)

    source = "theorem 4.14" if delta == 0 else "theorem 4.15"
    return AccuracyBound(3 * _fixed_point(sparse_error), beta, source)


def construction_bound(
    n_samples: int,
    *,
    updates: Callable[[float], float],
    n_queries: int,
    epsilon: float,
    delta: float = 0.0,
    beta: float = 0.05,
) -> AccuracyBound:
    """Return the printed error of the iterative construction, for a rule with ``updates(alpha)`` updates.

    Theorem 5.7 with the exponential mechanism has alpha = 16 log(2 n_queries T/beta)/(n epsilon_0) at T = T(alpha).
    Here epsilon_0 is epsilon/(2T), or epsilon/(4 sqrt(T log(1/delta))).
    """
    n, k = _sizes(n_samples, n_queries)
    epsilon, delta = check_privacy_parameters(epsilon, delta)
    _, beta = _privacy(epsilon, beta)

    def needed(alpha: float) -> float:
        rounds = max(updates(alpha), 1.0)
        each = epsilon / (4 * math.sqrt(rounds * math.log(1 / delta)) if delta else 2 * rounds)
        return 16 * math.log(2 * k * rounds / beta) / (n * each)

    return AccuracyBound(_fixed_point(needed), beta, "theorem 5.7")


def median_bound(
    n_samples: int,
    *,
    size: int,
    n_queries: int,
    epsilon: float,
    delta: float,
    beta: float = 0.05,
    printed: bool = False,
) -> AccuracyBound:
    """Return the error of the median mechanism over all databases of n rows (theorem 5.10).

    It uses theorem 5.7 with n log(size) rounds. The printed bound is a quarter of this error, which does not follow
    (docs/errata.md).
    """
    n, k = _sizes(n_samples, n_queries)
    epsilon, beta = _privacy(epsilon, beta)
    delta = check_real("delta", delta, above=0, below=1)
    log_size = math.log(check_integer("size", size, at_least=2))
    if not printed:
        found = construction_bound(
            n, updates=lambda _: n * log_size, n_queries=k, epsilon=epsilon, delta=delta, beta=beta
        )
        return AccuracyBound(found.error, beta, "theorem 5.10, corrected")
    root = 16 * math.sqrt(log_size * math.log(1 / delta)) / (math.sqrt(n) * epsilon)
    return AccuracyBound(root * math.log(2 * k * n * log_size / beta), beta, "theorem 5.10, as printed")


def perceptron_bound(
    n_samples: int,
    *,
    size: int,
    n_queries: int,
    epsilon: float,
    delta: float,
    beta: float = 0.05,
    norm: float = 1.0,
    printed: bool = False,
) -> AccuracyBound:
    """Return the error with the perceptron (theorem 5.12); ``norm`` is (||x||_2/||x||_1)^2.

    It uses theorem 5.7 with norm size/alpha^2 rounds. The printed bound has a quarter of the constant that follows
    (docs/errata.md).
    """
    n, k = _sizes(n_samples, n_queries)
    epsilon, beta = _privacy(epsilon, beta)
    delta = check_real("delta", delta, above=0, below=1)
    size = check_integer("size", size, at_least=2)
    norm = check_real("norm", norm, above=0, at_most=1)
    if not printed:
        found = construction_bound(
            n, updates=lambda a: norm * size / a**2, n_queries=k, epsilon=epsilon, delta=delta, beta=beta
        )
        return AccuracyBound(found.error, beta, "theorem 5.12, corrected")
    length = math.sqrt(norm) * n  # ||x||_2
    roots = 4**0.25 * math.sqrt(length) * (4 * size * math.log(1 / delta)) ** 0.25
    logs = max(math.log(2 * k * size * length**2 / beta), 0.0)
    return AccuracyBound(roots * math.sqrt(logs / epsilon) / n, beta, "theorem 5.12, as printed")


def whole(updates: float) -> int:
    """Return the largest whole number of updates that a bound allows. Rounding errors never make it smaller."""
    return math.floor(updates * (1 + 1e-12))


def _fixed_point(error: Callable[[float], float]) -> float:
    """Return the fixed point alpha of a decreasing error."""
    low, high = 1e-9, 1e6
    return float(
        math.exp(optimize.brentq(lambda u: math.log(error(math.exp(u))) - u, math.log(low), math.log(high), xtol=1e-12))
    )


def _sizes(n_samples: int, count: int) -> tuple[int, int]:
    return check_integer("n_samples", n_samples, at_least=1), check_integer("n_queries", count, at_least=1)


def _privacy(epsilon: float, beta: float) -> tuple[float, float]:
    return check_real("epsilon", epsilon, above=0), check_real("beta", beta, above=0, below=1)


# Rates of the statistics chapter (docs/sources.md), up to constants, with the term that dominates.


# The theorems have unspecified constants, so these numbers compare designs and say which term dominates.
# `required_samples` computes sample sizes. The studies of validation/results/rates.md estimate the constants.


@dataclass(frozen=True, slots=True)
class Rate:
    """The terms of a rate, each without its constant (docs/sources.md).

    Attributes
    ----------
    terms : dict of str to float
        Terms by name: "sampling" has no epsilon, and "privacy" has the highest power of 1/epsilon.
    source : str
        Theorem that proves the rate.

    Examples
    --------
    >>> from dpstats.textbook import identity_lower_bound
    >>> rate = identity_lower_bound(100, distance=0.5, epsilon=0.1)
    >>> rate.regime, round(float(rate), 1)
    ('mixed', 114.3)
    """

    terms: dict[str, float]
    source: str

    @property
    def regime(self) -> str:
        """Name of the largest term."""
        return max(self.terms, key=lambda name: self.terms[name])

    def __float__(self) -> float:
        return math.fsum(self.terms.values())

    def __str__(self) -> str:
        terms = ", ".join(f"{name} {value:.3g}" for name, value in self.terms.items())
        return f"{float(self):.3g} up to a constant ({terms}; {self.source}): {self.regime} dominates"


def mean_lower_bound(n_samples: int, d: int, *, epsilon: float, delta: float, sigma: float = 1.0) -> Rate:
    """Return the squared error that no private mean of sub-Gaussian rows can beat, up to a constant (theorem 9.2.1).

    sigma^2 (d/n + d^2 log(1/delta)/(n^2 epsilon^2)).

    Parameters
    ----------
    n_samples, d : int
        Rows and columns.
    epsilon, delta : float
        The theorem needs epsilon < 1 and a delta below 1/n.
    sigma : float, default=1.0
        Sub-Gaussian parameter.

    Examples
    --------
    >>> from dpstats.textbook import mean_lower_bound
    >>> print(mean_lower_bound(10_000, 10, epsilon=0.5, delta=1e-6))
    0.00106 up to a constant (sampling 0.001, privacy 5.53e-05; theorem 9.2.1): sampling dominates
    """
    n, d = check_integer("n_samples", n_samples, at_least=1), check_integer("d", d, at_least=1)
    epsilon = check_real("epsilon", epsilon, above=0)
    log_delta = -math.log(check_real("delta", delta, above=0, below=1))
    variance = check_real("sigma", sigma, above=0) ** 2
    terms = {"sampling": variance * d / n, "privacy": variance * d**2 * log_delta / (n * epsilon) ** 2}
    return Rate(terms, "theorem 9.2.1")


def sparse_mean_lower_bound(n_samples: int, d: int, *, n_nonzero: int, epsilon: float, sigma: float = 1.0) -> Rate:
    """Return the squared error that no private sparse mean can beat, up to a constant (theorem 9.2.3).

    sigma^2 (s log(d)/n + (s log d)^2/(n^2 epsilon^2)), for s nonzero means.

    Examples
    --------
    >>> from dpstats.textbook import sparse_mean_lower_bound
    >>> print(sparse_mean_lower_bound(10_000, 1_000, n_nonzero=10, epsilon=0.5))
    0.0071 up to a constant (sampling 0.00691, privacy 0.000191; theorem 9.2.3): sampling dominates
    """
    n, d = check_integer("n_samples", n_samples, at_least=1), check_integer("d", d, at_least=2)
    s = check_integer("n_nonzero", n_nonzero, at_least=1, at_most=d)
    epsilon = check_real("epsilon", epsilon, above=0)
    variance = check_real("sigma", sigma, above=0) ** 2
    log_d = s * math.log(d)
    terms = {"sampling": variance * log_d / n, "privacy": variance * (log_d / (n * epsilon)) ** 2}
    return Rate(terms, "theorem 9.2.3")


def identity_lower_bound(d: int, *, distance: float, epsilon: float) -> Rate:
    """Return the number of rows that a private test of a mean needs, up to a constant (theorem 9.3.3).

    sqrt(d)/distance^2 + d^(1/3)/(distance^(4/3) epsilon^(2/3)) + 1/(distance epsilon). The middle term dominates for
    distance/d < epsilon < distance/d^(1/4), sampling above, and privacy below.

    Parameters
    ----------
    d : int
        Number of columns.
    distance : float
        Mahalanobis distance of the alternative.
    epsilon : float
        Privacy parameter. The bound also holds for (0, epsilon)-privacy.

    Examples
    --------
    >>> from dpstats.textbook import identity_lower_bound
    >>> [identity_lower_bound(16, distance=0.4, epsilon=e).regime for e in (1.0, 0.1, 0.01)]
    ['sampling', 'mixed', 'privacy']
    """
    d, a, e = _test_size(d, distance, epsilon)
    terms = {
        "sampling": math.sqrt(d) / a**2,
        "mixed": d ** (1 / 3) / (a ** (4 / 3) * e ** (2 / 3)),
        "privacy": 1 / (a * e),
    }
    return Rate(terms, "theorem 9.3.3")


def identity_upper_bound(d: int, *, distance: float, epsilon: float) -> Rate:
    """Return the number of rows at which an efficient private test suffices, up to logarithms (theorem 9.3.4).

    sqrt(d)/distance^2 + d^(1/4)/(distance epsilon). Privacy dominates for epsilon < distance/d^(1/4).

    Examples
    --------
    >>> from dpstats.textbook import identity_upper_bound
    >>> print(identity_upper_bound(16, distance=0.4, epsilon=0.1))
    75 up to a constant (sampling 25, privacy 50; theorem 9.3.4): privacy dominates
    """
    d, a, e = _test_size(d, distance, epsilon)
    terms = {"sampling": math.sqrt(d) / a**2, "privacy": d**0.25 / (a * e)}
    return Rate(terms, "theorem 9.3.4")


def _test_size(d: int, distance: float, epsilon: float) -> tuple[int, float, float]:
    return (
        check_integer("d", d, at_least=1),
        check_real("distance", distance, above=0),
        check_real("epsilon", epsilon, above=0),
    )
