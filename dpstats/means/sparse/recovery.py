"""The design of a sparse mean, chosen without data: which signals a selection finds, and the balls of the release.

Public facts in, public numbers out. Lengths are in units of a column's standard deviation. The design minimizes the
planned error, for signals of every size that data could show, on normal columns. It then clips the scores as wide as
these allow, because other columns need this. Reasons: docs/intervals/sparse-mean.md, "Detectable signals".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Numbers = NDArray[np.float64]
Tail = Callable[[Numbers, Numbers], Numbers]
"""The probability that a score, of these sizes without noise, is above a level with it."""

SURE = 0.95
"""Smallest fraction of found signals at which signals of that size count as found."""

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(25)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_NORMAL = ndtri((np.arange(1000) + 0.5) / 1000)
_LARGEST = 1e9


class Score(NamedTuple):
    """The mean of a clipped column: its expectation, and the standard deviation of a row."""

    center: Numbers
    std: Numbers


def normal_score(signal: Numbers, clip: float) -> Score:
    """Return the score of normal columns of variance 1 and this mean, clipped at -clip and clip."""
    clipped = np.clip(np.add.outer(signal, _NORMAL), -clip, clip)
    return Score(clipped.mean(axis=-1), clipped.std(axis=-1))


def worst_score(signal: Numbers, clip: float) -> Score:
    """Return the least that the score of any column of variance 1 and this mean can be; the largest at a mean of 0.

    Clipping lowers a mean by at most E(x - clip)_+. This is at most (sqrt(1 + r^2) - r)/2 for r = clip - mean
    (Scarf 1958). Clipping raises a mean by at most this bound at a mean of 0. It does not raise the variance.
    """
    room = clip - signal
    lost = (np.hypot(1.0, room) - room) / 2
    return Score(np.where(signal > 0, np.maximum(signal - lost, 0.0), lost), np.ones(np.shape(signal)))


def mean_score(signal: Numbers, bias: float) -> Score:
    """Return the worst score of a mean that is released with at most this bias for a column of mean and spread 1.

    In a column of mean m the bias is at most ``bias`` times sqrt(1 + m^2).
    """
    lost = bias * np.hypot(1.0, signal)
    return Score(np.where(signal > 0, np.maximum(signal - lost, 0.0), lost), np.ones(np.shape(signal)))


LAWS = ("normal", "any")
"""Distributions of columns of variance 1 that statements cover: normal ones, or the worst case."""

_SCORES = {"normal": normal_score, "any": worst_score}


def gumbel_tail(scale: float) -> Tail:
    """Return the tail probability of scores with Gumbel noise, which is added to sizes."""

    def tail(level: Numbers, size: Numbers) -> Numbers:
        return -np.expm1(-np.exp(-np.maximum((level - size) / scale, -30.0)))

    return tail


def additive_tail(noise: str, scale: float) -> Tail:
    """Return the tail probability of scores with normal or Laplace noise, added to the means themselves."""

    def upper(x: Numbers) -> Numbers:
        if noise == "gaussian":
            return np.asarray(ndtr(-x))
        return np.where(x > 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2)

    def tail(level: Numbers, size: Numbers) -> Numbers:
        return np.where(level > 0, upper((level - size) / scale) + upper((level + size) / scale), 1.0)

    return tail


def share_found(null: Score, signal: Score, tail: Tail, n: int, d: int, s: int) -> Numbers:
    """Return the fraction of s signals among the s largest noisy scores, if all signals have one of these scores.

    At the level t, s columns are expected above: (d - s) P(null > t) + s P(signal > t) = s. The fraction is then
    P(signal > t).
    """

    def above(score: Score, level: Numbers) -> Numbers:
        sizes = np.abs(score.center[:, None] + score.std[:, None] / math.sqrt(n) * _NODES)
        return tail(level[:, None], sizes) @ _WEIGHTS

    def many(level: Numbers) -> NDArray[np.bool_]:
        return (d - s) * above(null, level) + s * above(signal, level) > s

    high = np.ones(signal.center.shape)
    while np.any(many(high)):
        high *= 2
    low = -high
    for _ in range(40):
        middle = (low + high) / 2
        more = many(middle)
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return above(signal, high)


def weakest_found(found: Callable[[Numbers], Numbers]) -> float:
    """Return the weakest signal size with a fraction found of at least `SURE`; infinity if no size suffices."""
    low, high = 1e-9, _LARGEST
    if found(np.array([high]))[0] < SURE:
        return math.inf
    for _ in range(4):
        grid = np.geomspace(low, high, 17)
        first = int(np.argmax(found(grid) >= SURE))
        if first == 0:
            return 0.0
        low, high = grid[first - 1], grid[first]
    return float(high)


def selected_share(law: str, signals: Numbers, clip: float, scale: float, n: int, d: int, s: int) -> Numbers:
    """Return the fraction of signals selected by the means of clipped columns with noise of scale ``scale``.

    The noise is Gumbel. Laplace noise of that scale, sampled again for each selected column, selects about as many
    signals, because its upper tail is the same.
    """
    null, given = (_SCORES[law](np.asarray(m, dtype=float), clip) for m in (np.zeros(1), signals))
    return share_found(null, given, gumbel_tail(scale), n, d, s)


@lru_cache(maxsize=256)
def weakest_selected(law: str, clip: float, scale: float, n: int, d: int, s: int) -> float:
    """Return the weakest signal that a selection finds; 0 where every column is selected."""
    if d == s:
        return 0.0
    return weakest_found(lambda signals: selected_share(law, signals, clip, scale, n, d, s))
