"""How far the answers are at most from the data's: the theorems of chapters 4 and 5, as printed and tightened.

Errors are shares of all rows, for all queries at once, but for probability beta. A bound of 1/2 or more is vacuous:
the answer 1/2 to every query is never further off, and needs no data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy.optimize import brentq

from dpstats.data.parameters import check_integer, check_privacy_parameters, check_real
from dpstats.queries.multisets import n_multisets, shattered_size

VACUOUS = 0.5


@dataclass(frozen=True, slots=True)
class AccuracyBound:
    """A bound on the largest error of all answers.

    Attributes
    ----------
    error : float
        As a share of all rows.
    beta : float
        The probability that it does not hold.
    source : str
        The theorem that says so.

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
        """Whether answering 1/2 to every query promises as much."""
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
        Of the small databases (proposition 4.4); None: the best there is (theorem 4.5).
    printed : bool, default=False
        Whether the numbers of databases is the printed size^(log(n_queries)/accuracy^2), or what there are.
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
        Within which one of them answers as the data do.
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

    Its constants are not printed: these are the ones of Vapnik and Chervonenkis (1971), and large.
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
    """Return how many queries can tell a hypothesis from the data by ``gap`` (theorem 4.10: 8 times as many)."""
    size = check_integer("size", size, at_least=1)
    gap = check_real("gap", gap, above=0)
    return whole((4 if printed else 0.5) * math.log(size) / gap**2)


def median_updates(n_databases: int) -> int:
    """Return how many queries can tell a net's median from the data (theorem 5.8, in logarithms of base 2)."""
    return check_integer("n_databases", n_databases, at_least=1).bit_length() - 1


def log_trivial_net(size: int, n_samples: int) -> float:
    """Return the logarithm of the size of a net that is exact: all databases of n rows (theorem 5.9)."""
    return n_samples * math.log(check_integer("size", size, at_least=1))


def perceptron_updates(size: int, gap: float, norm: float = 1.0, printed: bool = False) -> int:
    """Return the same for the perceptron (theorem 5.11); ``norm`` is the sum of the squared shares of the points."""
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
    """Return the printed error of online multiplicative weights: theorem 4.14 at delta = 0, else theorem 4.15.

    It is 3 alpha, where alpha is the error of `NumericSparseVector` on two questions for every query and the printed
    number of updates at alpha. `OnlineMultiplicativeWeights.plan` has the tightened one.
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

    Theorem 5.7 with the exponential mechanism: alpha = 16 log(2 n_queries T/beta)/(n epsilon_0) at T = T(alpha), where
    epsilon_0 is epsilon/(2T), or epsilon/(4 sqrt(T log(1/delta))).
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

    By theorem 5.7, whose rounds are n log(size); or as printed, a quarter of that, which does not follow
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

    By theorem 5.7, whose rounds are norm size/alpha^2; or as printed, with a quarter of the constant that follows
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
    """Return the largest whole number of updates that a bound allows, which rounding must not make smaller."""
    return math.floor(updates * (1 + 1e-12))


def _fixed_point(error: Callable[[float], float]) -> float:
    """Return the alpha at which a falling error is alpha."""
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
