"""Exact epsilon and delta of a release with finitely many outcomes, from their probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.auditing.result import ExactAuditResult
from dpstats.data.parameters import check_real
from dpstats.errors import attempt, refuse

# How far from 1 a sum of probabilities may be.
_SUM = 1e-6


# The smallest delta at epsilon is the hockey-stick divergence, the sum of max(p - e^epsilon q, 0), the larger of
# both ways round. The smallest epsilon at delta is the largest log((P(S) - delta)/Q(S)) over events S; the best of
# each size are the outcomes with the largest p/q.
def exact_delta(p: Any, q: Any, epsilon: float) -> float:
    """Return the smallest delta at which two outcome distributions are (epsilon, delta)-indistinguishable.

    Parameters
    ----------
    p, q : array-like of shape (n_outcomes,), or mapping of outcome to probability
        On the two neighbors. An outcome that a mapping lacks has probability 0.
    epsilon : float

    Examples
    --------
    >>> from dpstats.auditing import exact_delta
    >>> exact_delta([0.75, 0.25], [0.25, 0.75], 0.0)  # the total variation
    0.5
    """
    epsilon = check_real("epsilon", epsilon, at_least=0)
    first, second = _align_outcomes(p, q)
    return max(_hockey_stick(first, second, epsilon), _hockey_stick(second, first, epsilon))


def exact_epsilon(p: Any, q: Any, delta: float = 0.0) -> float:
    """Return the smallest epsilon at which two outcome distributions are (epsilon, delta)-indistinguishable.

    Parameters
    ----------
    p, q : array-like of shape (n_outcomes,), or mapping of outcome to probability
        On the two neighbors. An outcome that a mapping lacks has probability 0.
    delta : float, default=0.0

    Returns
    -------
    float
        Infinite where more than ``delta`` of one falls where the other never does.

    Examples
    --------
    >>> from dpstats.auditing import exact_epsilon
    >>> round(exact_epsilon([0.75, 0.25], [0.25, 0.75]), 4)  # randomized response with two coins: log 3
    1.0986
    >>> exact_epsilon({"a": 1.0}, {"a": 0.9, "b": 0.1})
    inf
    """
    delta = check_real("delta", delta, at_least=0, below=1)
    return _epsilon(*_align_outcomes(p, q), delta)


def kl_divergence(p: Any, q: Any) -> float:
    """Return the Kullback-Leibler divergence: the mean privacy loss of an outcome drawn from ``p``.

    At most epsilon (e^epsilon - 1) if the two are epsilon-indistinguishable, and epsilon tanh(epsilon/2) at the worst.

    Parameters
    ----------
    p, q : array-like of shape (n_outcomes,), or mapping of outcome to probability
        On the two neighbors. An outcome that a mapping lacks has probability 0.

    Returns
    -------
    float
        Infinite where ``p`` has an outcome that ``q`` never has.

    Examples
    --------
    >>> from dpstats.auditing import kl_divergence
    >>> round(kl_divergence([0.75, 0.25], [0.25, 0.75]), 4)  # log(3)/2
    0.5493
    """
    first, second = _align_outcomes(p, q)
    possible = first > 0
    first, second = first[possible], second[possible]
    with np.errstate(divide="ignore"):
        losses = np.log(first) - np.log(second)
    return max(0.0, math.fsum((first * losses).tolist()))


def audit_probabilities(
    probabilities: Callable[[Any], Any],
    pairs: Iterable[tuple[Any, Any]],
    *,
    epsilon: float,
    delta: float = 0.0,
    tolerance: float = 1e-9,
) -> ExactAuditResult:
    """Check a claim against the exact outcome probabilities on pairs of neighbors.

    Parameters
    ----------
    probabilities : callable
        ``probabilities(dataset)`` returns the probability of every outcome: a vector, the same
        outcomes in the same places for both neighbors, or a mapping of outcome to probability.
    pairs : iterable of (dataset, neighbor)
        All pairs, for a proof by enumeration; otherwise the suspected pairs.
    epsilon, delta : float
        The claim.
    tolerance : float, default=1e-9
        For rounding, see Notes.

    Returns
    -------
    ExactAuditResult
        With the pair whose exact epsilon is largest.

    Notes
    -----
    A claim is violated if the exact epsilon at delta (1 + tolerance) exceeds epsilon + tolerance. A private
    release is never accused if the probabilities have a relative error of at most r = tolerance/2 - r^2.
    Then p(1 + r) - e^(epsilon + tolerance) q(1 - r) <= (1 + r)(p - e^epsilon q), and so for sums. Normalized
    weights in double precision are right to about (n + x) 2^-52 for n outcomes with exponents up to x: 1e-10
    for half a million. State a larger tolerance for probabilities from quadrature.

    Examples
    --------
    >>> from dpstats.auditing import audit_probabilities
    >>> from dpstats.mechanisms import RandomizedResponse
    >>> audit = audit_probabilities(RandomizedResponse(1.0).probabilities, [(0, 1)], epsilon=1.0)
    >>> round(audit.epsilon_lower, 9), audit.violated
    (1.0, False)
    """
    epsilon = check_real("epsilon", epsilon, at_least=0)
    delta = check_real("delta", delta, at_least=0, below=1)
    tolerance = check_real("tolerance", tolerance, at_least=0, below=1)
    if not callable(probabilities):
        raise refuse(
            "probabilities",
            given=probabilities,
            allowed="a function of a dataset, such as the method `probabilities` of a mechanism",
        )
    worst, worst_pair, number, violated = -1.0, None, 0, False
    for pair in pairs:
        first, second = _align_outcomes(*(probabilities(dataset) for dataset in pair))
        number += 1
        violated |= _epsilon(first, second, min(1.0, delta * (1 + tolerance))) > epsilon + tolerance
        exact = _epsilon(first, second, delta)
        if exact > worst:
            worst, worst_pair = exact, (pair[0], pair[1])
    if worst_pair is None:
        raise refuse("pairs", got="none", allowed="hold at least one pair of neighboring datasets")
    return ExactAuditResult(worst, epsilon, delta, violated, worst_pair, number)


def _align_outcomes(p: Any, q: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if isinstance(p, Mapping) != isinstance(q, Mapping):
        raise refuse("q", got="another kind", allowed="a vector or a mapping, as p is")
    if isinstance(p, Mapping):
        outcomes = [*p, *(outcome for outcome in q if outcome not in p)]
        p, q = ([law.get(outcome, 0.0) for outcome in outcomes] for law in (p, q))
    first, second = _check_distribution("p", p), _check_distribution("q", q)
    if first.size != second.size:
        raise refuse("q", got=f"{second.size}", allowed=f"have as many probabilities as p ({first.size})")
    return first, second


def _check_distribution(name: str, values: Any) -> NDArray[np.float64]:
    converted = attempt(lambda: np.asarray(values, dtype=np.float64), Exception)
    law = np.array(np.nan) if converted is None else converted
    if law.ndim != 1 or not np.all(law >= 0) or not abs(math.fsum(law.tolist()) - 1) <= _SUM:
        raise refuse(
            name, given=values, allowed=f"a vector of probabilities, at least 0 and with sum 1 (to {_SUM:g})"
        )
    return law


def _hockey_stick(p: NDArray[np.float64], q: NDArray[np.float64], epsilon: float) -> float:
    # e^epsilon overflows above 709; only outcomes that the other dataset never has still count there.
    with np.errstate(over="ignore", invalid="ignore"):
        excess = np.where(q > 0, p - np.exp(epsilon) * q, p)
    return math.fsum(np.maximum(excess, 0.0).tolist())


def _epsilon(p: NDArray[np.float64], q: NDArray[np.float64], delta: float) -> float:
    return max(0.0, _one_way(p, q, delta), _one_way(q, p, delta))


def _one_way(p: NDArray[np.float64], q: NDArray[np.float64], delta: float) -> float:
    possible = p > 0
    p, q = p[possible], q[possible]
    # By logarithms: a ratio of tiny probabilities may overflow, the logarithm of it does not.
    with np.errstate(divide="ignore"):
        order = np.argsort(-(np.log(p) - np.log(q)), kind="stable")
        inside, other = np.cumsum(p[order]) - delta, np.cumsum(q[order])
        useful = inside > 0
        if not useful.any():
            return 0.0
        return float(np.max(np.log(inside[useful]) - np.log(other[useful])))
