"""Rates of the statistics chapter (docs/sources.md), up to constants, with the term that dominates."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpstats.data.parameters import check_integer, check_real

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
