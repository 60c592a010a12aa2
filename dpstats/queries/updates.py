"""Hypotheses that learn from queries: each query that tells them from the data brings them nearer, by a stated amount.

So there are few such queries: the number is what `most_updates` returns, and a mechanism has to pay for no more.

Proof: docs/proofs/query-updates.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.queries.linear import LinearQueries

Numbers = NDArray[np.float64]

_BLOCK = 1 << 15  # points that stay in cache
_ROUNDED = 1e3  # a factor whose difference to another has lost digits


class UpdateRule(ABC):
    """How a hypothesis learns.

    An update is from one query with values ``f``, the hypothesis' own answer ``predicted`` and a noisy ``answer`` of
    the data that is right within ``error``, which is less than what the two differ by. All are shares of rows.
    """

    @abstractmethod
    def start(self) -> NDArray[Any]:
        """Return the hypothesis before any query."""

    @abstractmethod
    def most_updates(self, gap: float) -> float:
        """Return how many updates there can be by queries whose true answers differ by ``gap`` or more."""

    @abstractmethod
    def updated(
        self, hypothesis: NDArray[Any], f: Numbers, predicted: float, answer: float, error: float
    ) -> NDArray[Any]:
        """Return the hypothesis after a query; the array that was given may be used for it."""

    def refined(
        self, hypothesis: NDArray[Any], f: Numbers, predicted: float, answer: float, error: float
    ) -> NDArray[Any]:
        """Return the hypothesis after a query that may be nearer than noise is: it learns the noisy answer as it is.

        What is promised was reached before, so that nothing rests on it.
        """
        return self.updated(hypothesis, f, predicted, answer, 0.0)

    def answers(self, queries: LinearQueries, hypothesis: NDArray[Any]) -> Numbers:
        """Return the answers of the hypothesis, as shares of rows."""
        return np.asarray(queries.answers(hypothesis), dtype=np.float64)

    def answer(self, f: Numbers, hypothesis: NDArray[Any]) -> float:
        """Return the answer of the hypothesis to one query."""
        return float(f @ hypothesis)

    def distribution(self, hypothesis: NDArray[Any]) -> Numbers:
        """Return the hypothesis as a distribution on the universe."""
        return np.asarray(hypothesis, dtype=np.float64)


class MultiplicativeWeights(UpdateRule):
    """A distribution whose points are reweighted until it would answer the query as the data do.

    With probability p of the query before, points where it is 1 are taken ``odds`` times as often: at odds
    t(1 - p)/(p(1 - t)) a counting query has the answer t. The relative entropy to the data falls by at least
    2 gap^2, so that there are at most log(size)/(2 gap^2) updates.

    Parameters
    ----------
    size : int
        Of the universe.
    rate : float, optional
        The printed rule instead: weights fall by e^(-rate r), r the query or 1 less it (algorithm 5).
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

    def updated(
        self, hypothesis: NDArray[Any], f: Numbers, predicted: float, answer: float, error: float
    ) -> Numbers:
        if self.rate is not None:
            weights = hypothesis * np.exp((-self.rate if answer < predicted else self.rate) * f)
            return np.asarray(weights / weights.sum())
        target = nearer(predicted, answer, error)
        p = min(max(predicted, 1e-12), 1 - 1e-12)
        # Neither 0 nor all: a distribution that excludes what the data may have could not come back.
        target = min(max(target, p / 1024), 1 - (1 - p) / 1024)
        return reweighted(hypothesis, f, predicted, target * (1 - p) / (p * (1 - target)))


def nearer(predicted: float, answer: float, error: float) -> float:
    """Return the answer that is nearest to the predicted one among those that the noise leaves."""
    return min(max(predicted, answer - error), answer + error)


def reweighted(weights: Numbers, f: Numbers, share: float, odds: float) -> Numbers:
    """Multiply weights by 1 + (odds - 1) f, in place, and divide by their new sum: f has ``share`` of the old one.

    Linear in f and not a power: on 0/1 values the same, in between a step that falls as much (the proof page), and
    the sum is known beforehand, so that a million points are read and written once.
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
    """A distribution that moves along the query, and back to the nearest distribution where it left them.

    The query less its mean is what is added, as much as the gap asks for. The squared distance to the data falls by at
    least 4 gap^2/size, so that there are at most (norm size - 1)/(4 gap^2) updates: few where rows are spread widely.

    Parameters
    ----------
    size : int
        Of the universe.
    norm : float, default=1.0
        A public bound on the sum of the squared shares of the points, which 1 always is.
    step : float, optional
        The printed rule instead: from 0, ``step`` times the query itself each time; it may leave the distributions.
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

    def updated(
        self, hypothesis: NDArray[Any], f: Numbers, predicted: float, answer: float, error: float
    ) -> Numbers:
        if self.step is not None:
            return np.asarray(hypothesis + (-self.step if answer < predicted else self.step) * f)
        centred = f - f.mean()
        length = float(centred @ centred)
        if length == 0:
            return hypothesis  # the same answer on every distribution: there is nothing to learn
        return on_simplex(hypothesis + (nearer(predicted, answer, error) - predicted) / length * centred)

    def distribution(self, hypothesis: NDArray[Any]) -> Numbers:
        return on_simplex(np.asarray(hypothesis, dtype=np.float64))


def on_simplex(x: Numbers) -> Numbers:
    """Return the distribution that is nearest to a vector, in Euclidean distance."""
    if x.min() >= 0 and abs(x.sum() - 1) <= 1e-12:
        return x
    # Nearest is max(x - level, 0) for the level at which it adds up to 1 (Held, Wolfe and Crowder 1974).
    falling = np.sort(x)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, x.size + 1)
    level = excess[np.flatnonzero(falling > excess)[-1]]
    return np.asarray(np.maximum(x - level, 0.0))


class Median(UpdateRule):
    """The databases of a net that agree with all answers so far; queries are answered by their median.

    Every update leaves at most half of them, and the one that is near the data, so that there are at most log2 of
    their number.

    Parameters
    ----------
    net : array of shape (n_databases, size)
        Distributions. One of them must answer every query within ``net_error`` of the data.
    net_error : float
    halving : bool, default=False
        The printed rule: leave those on the right side of the median, and not all that the answer excludes.
    """

    def __init__(self, net: Numbers, net_error: float, halving: bool = False) -> None:
        self.net, self.net_error, self.halving = net, net_error, halving

    def start(self) -> NDArray[np.bool_]:
        return np.ones(len(self.net), dtype=bool)

    def most_updates(self, gap: float) -> float:
        # At a smaller gap the database that is near the data need not be on the right side of the median.
        return math.log2(len(self.net)) if gap > self.net_error else math.inf

    def updated(
        self, hypothesis: NDArray[Any], f: Numbers, predicted: float, answer: float, error: float
    ) -> NDArray[np.bool_]:
        found = self.net @ f
        if self.halving:
            kept = found < predicted if answer < predicted else found > predicted
        else:
            # Rounding of float sums must not exclude the one that is near.
            kept = np.abs(found - answer) <= error + self.net_error + 1e-9
        left = hypothesis & kept
        # None is left only where noise was larger than stated, which a bound allows for.
        return left if left.any() else hypothesis

    def refined(
        self, hypothesis: NDArray[Any], f: Numbers, predicted: float, answer: float, error: float
    ) -> NDArray[np.bool_]:
        # What noise leaves excludes none that is near; the side of a median may.
        return hypothesis if self.halving else self.updated(hypothesis, f, predicted, answer, error)

    def answers(self, queries: LinearQueries, hypothesis: NDArray[Any]) -> Numbers:
        found = np.array([queries.answers(y) for y in self.net[hypothesis]])
        return np.asarray(np.median(found, axis=0), dtype=np.float64)

    def answer(self, f: Numbers, hypothesis: NDArray[Any]) -> float:
        return float(np.median(self.net[hypothesis] @ f))

    def distribution(self, hypothesis: NDArray[Any]) -> Numbers:
        return np.asarray(self.net[hypothesis].mean(axis=0))
