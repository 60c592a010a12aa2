"""Hypotheses that learn from queries. A query with a large error moves them toward the data by a stated amount."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.queries.linear import LinearQueries, Numbers

# So there are few such queries. `most_updates` bounds their number, and a mechanism pays for at most this number.
#
# Proof: docs/intervals/query-updates.md.

_BLOCK = 1 << 15  # number of points that fit into the cache
_ROUNDED = 1e3  # a factor above which a difference has lost digits


class UpdateRule(ABC):
    """Learning rule of a hypothesis.

    An update uses one query with values ``f``, the answer ``predicted`` of the hypothesis, and a noisy ``answer`` of
    the data. The noise is at most ``error``, which is less than the difference between the two answers. All are
    proportions of rows.
    """

    @abstractmethod
    def start(self) -> NDArray[Any]:
        """Return the hypothesis before any query."""

    @abstractmethod
    def most_updates(self, gap: float) -> float:
        """Return the maximal number of updates by queries with true answers that differ by ``gap`` or more."""

    @abstractmethod
    def updated(
        self, hypothesis: NDArray[Any], f: Numbers, predicted: float, answer: float, error: float
    ) -> NDArray[Any]:
        """Return the hypothesis after a query. It may reuse the given array."""

    def refined(
        self, hypothesis: NDArray[Any], f: Numbers, predicted: float, answer: float, error: float
    ) -> NDArray[Any]:
        """Return the hypothesis after a query with an error that noise may explain. It learns the noisy answer.

        The error bound was reached before, so it does not depend on this step.
        """
        return self.updated(hypothesis, f, predicted, answer, 0.0)

    def answers(self, queries: LinearQueries, hypothesis: NDArray[Any]) -> Numbers:
        """Return the answers of the hypothesis, as proportions of rows."""
        return np.asarray(queries.answers(hypothesis), dtype=np.float64)

    def answer(self, f: Numbers, hypothesis: NDArray[Any]) -> float:
        """Return the answer of the hypothesis to one query."""
        return float(f @ hypothesis)

    def distribution(self, hypothesis: NDArray[Any]) -> Numbers:
        """Return the hypothesis as a distribution on the universe."""
        return np.asarray(hypothesis, dtype=np.float64)


class MultiplicativeWeights(UpdateRule):
    """A distribution whose points are reweighted until it answers the query like the data.

    Let p be the previous answer. Points at which the query is 1 are multiplied by ``odds``. With odds
    t(1 - p)/(p(1 - t)), a counting query has the answer t. The relative entropy to the data falls by at least 2 gap^2,
    so there are at most log(size)/(2 gap^2) updates.

    Parameters
    ----------
    size : int
        Size of the universe.
    rate : float, optional
        Use the printed rule instead: weights fall by e^(-rate r), where r is the query or 1 minus the query
        (algorithm 5).
    """

    def __init__(self, size: int, rate: float | None = None) -> None:
        self.size, self.rate = size, rate

    def start(self) -> Numbers:
        return np.full(self.size, 1 / self.size)

    def most_updates(self, gap: float) -> float:
        if self.rate is not None:
            drop = self.rate * gap - self.rate**2
            return math.log(self.size) / drop if drop > 0 else math.inf
        return math.log(self.size) / (2 * gap**2)

    def updated(self, hypothesis: NDArray[Any], f: Numbers, predicted: float, answer: float, error: float) -> Numbers:
        if self.rate is not None:
            weights = hypothesis * np.exp((-self.rate if answer < predicted else self.rate) * f)
            return np.asarray(weights / weights.sum())
        target = nearer(predicted, answer, error)
        p = min(max(predicted, 1e-12), 1 - 1e-12)
        # Avoid answers of 0 and 1, because a point with probability 0 can never regain weight.
        target = min(max(target, p / 1024), 1 - (1 - p) / 1024)
        return reweighted(hypothesis, f, predicted, target * (1 - p) / (p * (1 - target)))


def nearer(predicted: float, answer: float, error: float) -> float:
    """Return the answer closest to the predicted one among all answers that are possible given the noise."""
    return min(max(predicted, answer - error), answer + error)


def reweighted(weights: Numbers, f: Numbers, share: float, odds: float) -> Numbers:
    """Multiply weights by 1 + (odds - 1) f in place, and divide by their new sum. ``share`` is the old answer of f.

    The factor is linear in f instead of a power. On 0/1 values both are equal. On other values the relative entropy
    falls by the same amount (see the proof page). The new sum is known in advance, so one pass suffices.
    """
    rest = 1 / (1 + (odds - 1) * share)
    slope = (odds - 1) * rest
    buffer = np.empty(min(_BLOCK, weights.size))
    for start in range(0, weights.size, _BLOCK):
        block = weights[start : start + _BLOCK]
        factor = buffer[: block.size]
        np.multiply(f[start : start + _BLOCK], slope, out=factor)
        factor += rest
        block *= factor
    if rest > _ROUNDED:
        weights /= weights.sum()
    return weights


class Perceptron(UpdateRule):
    """A distribution that moves along the query, and is projected back onto the distributions.

    An update adds a multiple of the query minus its mean, as large as the gap requires. The squared distance to the
    data falls by at least 4 gap^2/size. So there are at most (norm size - 1)/(4 gap^2) updates, which is a small number
    if rows are spread widely.

    Parameters
    ----------
    size : int
        Size of the universe.
    norm : float, default=1.0
        Public bound on the sum of the squared proportions of the points. 1 is always valid.
    step : float, optional
        Use the printed rule instead: start at 0, and add ``step`` times the query. The sum need not be a distribution.
    """

    def __init__(self, size: int, norm: float = 1.0, step: float | None = None) -> None:
        self.size, self.norm, self.step = size, norm, step

    def start(self) -> Numbers:
        return np.zeros(self.size) if self.step is not None else np.full(self.size, 1 / self.size)

    def most_updates(self, gap: float) -> float:
        if self.step is not None:
            drop = 2 * self.step * gap - self.step**2 * self.size
            return self.norm / drop if drop > 0 else math.inf
        return max(self.norm * self.size - 1, 0.0) / (4 * gap**2)

    def updated(self, hypothesis: NDArray[Any], f: Numbers, predicted: float, answer: float, error: float) -> Numbers:
        if self.step is not None:
            return np.asarray(hypothesis + (-self.step if answer < predicted else self.step) * f)
        centered = f - f.mean()
        length = float(centered @ centered)
        if length == 0:
            return hypothesis  # all distributions have the same answer
        return on_simplex(hypothesis + (nearer(predicted, answer, error) - predicted) / length * centered)

    def distribution(self, hypothesis: NDArray[Any]) -> Numbers:
        return on_simplex(np.asarray(hypothesis, dtype=np.float64))


def on_simplex(x: Numbers) -> Numbers:
    """Return the distribution closest to a vector in Euclidean distance."""
    if x.min() >= 0 and abs(x.sum() - 1) <= 1e-12:
        return x
    # The projection is max(x - level, 0), for the level at which it adds up to 1 (Held, Wolfe and Crowder 1974).
    falling = np.sort(x)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, x.size + 1)
    level = excess[np.flatnonzero(falling > excess)[-1]]
    return np.asarray(np.maximum(x - level, 0.0))


class Median(UpdateRule):
    """The databases of a net that are consistent with all answers so far. Their median answers queries.

    Every update keeps at most half of the databases, including a database close to the data. So the number of updates
    is at most log2 of the number of databases.

    Parameters
    ----------
    net : array of shape (n_databases, size)
        Distributions. One of them must answer every query within ``net_error`` of the data.
    net_error : float
        Error of the net.
    halving : bool, default=False
        Use the printed rule: keep the databases on the correct side of the median, instead of all databases that are
        consistent with the answer.
    """

    def __init__(self, net: Numbers, net_error: float, halving: bool = False) -> None:
        self.net, self.net_error, self.halving = net, net_error, halving

    def start(self) -> NDArray[np.bool_]:
        return np.ones(len(self.net), dtype=bool)

    def most_updates(self, gap: float) -> float:
        # With a smaller gap, the database close to the data need not be on the correct side of the median.
        return math.log2(len(self.net)) if gap > self.net_error else math.inf

    def updated(
        self, hypothesis: NDArray[Any], f: Numbers, predicted: float, answer: float, error: float
    ) -> NDArray[np.bool_]:
        found = self.net @ f
        if self.halving:
            kept = found < predicted if answer < predicted else found > predicted
        else:
            # Tolerance for floating-point error: keep the candidate that is close enough.
            kept = np.abs(found - answer) <= error + self.net_error + 1e-9
        left = hypothesis & kept
        # No database remains only if the noise exceeds its bound. The error probability beta includes this event.
        return left if left.any() else hypothesis

    def refined(
        self, hypothesis: NDArray[Any], f: Numbers, predicted: float, answer: float, error: float
    ) -> NDArray[np.bool_]:
        # The interval of possible answers never excludes a close database, but the side of a median may.
        return hypothesis if self.halving else self.updated(hypothesis, f, predicted, answer, error)

    def answers(self, queries: LinearQueries, hypothesis: NDArray[Any]) -> Numbers:
        found = np.array([queries.answers(y) for y in self.net[hypothesis]])
        return np.asarray(np.median(found, axis=0), dtype=np.float64)

    def answer(self, f: Numbers, hypothesis: NDArray[Any]) -> float:
        return float(np.median(self.net[hypothesis] @ f))

    def distribution(self, hypothesis: NDArray[Any]) -> Numbers:
        return np.asarray(self.net[hypothesis].mean(axis=0))
