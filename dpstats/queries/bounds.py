"""Bounds on the error of all answers: the theorems of chapters 4 and 5, as printed and tightened."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy.optimize import brentq

from dpstats.data.parameters import check_integer, check_privacy_parameters, check_real
from dpstats.queries.multisets import n_multisets, shattered_size

# Errors are proportions of all rows. A bound holds for all queries simultaneously, except with probability beta. A
# bound of 1/2 or more is vacuous, because the answer 1/2 to every query has an error of at most 1/2 and needs no
# data.

VACUOUS = 0.5
VACUOUS_NOTE = "The error bound is vacuous: the answer 1/2 to every query is never further off."


@dataclass(frozen=True, slots=True)
class AccuracyBound:
    """A bound on the largest error of all answers.

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
    >>> from dpstats.queries.bounds import small_db_bound
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
            f"every answer is within {self.error:.3g} of the data's, but for probability {self.beta:g} "
            f"({self.source})"
        )
        return (
            f"{text}: vacuous, the answer 1/2 to every query is never further off" if self.vacuous else text
        )


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
    """
    n, count = _sizes(n_samples, n_databases)
    epsilon, beta = _privacy(epsilon, beta)
    net_error = check_real("net_error", net_error, at_least=0)
    error = net_error + 2 * (math.log(count) + math.log(1 / beta)) / (epsilon * n)
    return AccuracyBound(error, beta, "proposition 5.2")


def vc_bound(
    n_samples: int, *, size: int, vc_dimension: int, epsilon: float, beta: float = 0.05
) -> AccuracyBound:
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
    n_samples: int,
    *,
    size: int,
    n_queries: int,
    epsilon: float,
    delta: float = 0.0,
    beta: float = 0.05,
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
        math.exp(
            brentq(lambda u: math.log(error(math.exp(u))) - u, math.log(low), math.log(high), xtol=1e-12)
        )
    )


def _sizes(n_samples: int, count: int) -> tuple[int, int]:
    return check_integer("n_samples", n_samples, at_least=1), check_integer("n_queries", count, at_least=1)


def _privacy(epsilon: float, beta: float) -> tuple[float, float]:
    return check_real("epsilon", epsilon, above=0), check_real("beta", beta, above=0, below=1)
