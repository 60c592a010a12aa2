"""The design of a sparse mean, chosen without data: which signals a selection finds, and the balls of the release.

Public facts in, public numbers out. Lengths are in units of a column's standard deviation. The design minimizes the
planned error, for signals of every size that data could show, on normal columns. It then clips the scores as wide as
these allow, because other columns need this. Reasons: docs/intervals/sparse-mean.md, "Detectable signals".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtr, ndtri

from dpstats.privacy.gaussian import gaussian_sigma, zcdp_rho

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


_GROWTH = (1.0, 1.5, 2.2, 3.0, 4.0, 6.0, 9.0, 14.0, 20.0)  # ratio of consecutive stages' privacy
_MAX_STAGES = 3
# Ratio of the radius of the last ball to the radius that normal rows need, if its bias must be bounded.
_WIDER = tuple(1.25**k for k in range(30))
_LONGER = 1.25  # an interval may be this much longer than the shortest, for a better estimate
_NORMAL_95 = 1.959964


@dataclass(frozen=True, slots=True)
class Balls:
    """The stages of a release on the support: each clips rows to a ball about the average so far."""

    radii: tuple[float, ...]
    # Part of mu^2 that each stage gets; they add up to just below 1.
    shares: tuple[float, ...]
    distances: tuple[float, ...]  # how far the mean is planned to be from the center of each
    precision: float  # inverse of the planned variance of the noise in a column of the estimate


@lru_cache(maxsize=256)
def release_balls(
    n: int, d: int, s: int, max_signal: float, mu: float, *, most_stages: int = _MAX_STAGES, intervals: bool = False
) -> Balls:
    """Return the balls that plan the least noise, or with ``intervals`` the shortest interval for any rows.

    A single ball about 0 is among the candidates. A row of unit variances lies within sqrt(s + r^2) + 2 of a center
    that is within r of its mean. The first center is 0, with r = max_signal sqrt(s). Later centers have two errors:
    noise, and sampling error. The latter is sqrt(2 log(d/s)) standard errors in columns selected for their sampling
    error.

    Intervals use the last stage. Its bias is at most about sqrt(s + r^2)/4R for any rows of these variances.
    """
    sampling = s * (1 + 2 * math.log(d / s)) / n
    largest = float(2 * gammaincinv(s / 2, 0.95))
    made: list[tuple[float, Balls]] = []
    for count in range(1, most_stages + 1):
        for growth in _GROWTH if count > 1 else _GROWTH[:1]:
            shares = growth ** np.arange(count)
            shares *= (1 - 1e-14) / shares.sum()
            distance, precision = max_signal * math.sqrt(s), 0.0
            radii, distances = [], []
            for share in shares.tolist():
                before = precision
                distances.append(distance)
                radii.append(math.sqrt(s + distance**2) + 2)
                precision += share * (n * mu / (2 * radii[-1])) ** 2
                distance = min(distance, math.sqrt(sampling + largest / precision))
            for wider in _WIDER if intervals else _WIDER[:1]:
                last = wider * radii[-1]
                own = shares[-1] * (n * mu / (2 * last)) ** 2
                bias = math.sqrt(s + distances[-1] ** 2) / (4 * last)
                length = _NORMAL_95 * math.sqrt(1 / n + 1 / own) + bias
                balls = Balls((*radii[:-1], last), tuple(shares.tolist()), tuple(distances), float(before + own))
                made.append((length, balls))
    if intervals:
        longest = _LONGER * min(length for length, _ in made)
        made = [(length, balls) for length, balls in made if length <= longest]
    chosen = made[0][1]
    for _, balls in made[1:]:
        # Every stage is a pass over the rows: another one has to be worth it.
        if balls.precision > chosen.precision * (1 + 1e-3):
            chosen = balls
    return chosen


def cross_radius(s: int, max_signal: float) -> float:
    """Return the l1 radius of a row on the support: its expectation for normal columns, s E|N(a, 1)|, and 2 sqrt(s)."""
    folded = math.sqrt(2 / math.pi) * math.exp(-(max_signal**2) / 2)
    return s * (folded + max_signal * (2 * float(ndtr(max_signal)) - 1)) + 2 * math.sqrt(s)


@lru_cache(maxsize=256)
def honest_cross_radius(n: int, s: int, max_signal: float, epsilon: float) -> float:
    """Return the l1 radius of the shortest interval for any rows, whose bias is at most about s(1 + m)/4R."""
    size = s * math.hypot(1.0, max_signal)
    radii = cross_radius(s, max_signal) * np.array(_WIDER)
    lengths = 3.0 * (2 * radii / (n * epsilon)) + _NORMAL_95 / math.sqrt(n) + size / (4 * radii)
    return float(radii[int(np.argmin(lengths))])


_SHARES = (0.5, 0.25, 0.75)
_CLIPS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
_DEARER = 0.05  # what wider scores may add to the logarithm of the error that is planned for normal columns
_SIGNALS = 7
# Every column is released only where few are left out: more of them cost more, and a sparse table is made dense.
_ALL_COLUMNS = 8
# Shares of a float can add up to one unit in the last place too much.
_SAFE = 1 - 2.0**-50


@dataclass(frozen=True, slots=True)
class Problem:
    """The public facts that a design is for.

    ``clip`` is the widest that scores may be clipped; ``share`` and ``wide`` are what the user has decided.
    """

    n_select: int
    n_release: int
    n_features: int
    n_nonzero: int
    max_signal: float
    epsilon: float
    delta: float
    split: bool
    clip: float
    share: float | None = None
    wide: float | None = None


@dataclass(frozen=True, slots=True)
class Design:
    """The decisions, and their consequences."""

    # Part of the privacy (of rho, or of epsilon) that goes to the selection; None releases every column.
    share: float | None
    clip: float  # clipping threshold of the scores
    each: float  # privacy cost of each selection, as a bounded range
    # Budget of the release: rho, or epsilon if delta = 0. With ``split``, the whole budget.
    rest: float


@lru_cache(maxsize=256)
def planned_design(problem: Problem) -> Design:
    """Return the design of the least planned error; among wider scores, the best for any columns."""
    narrow = min(problem.wide or _CLIPS[0], problem.clip)
    shares = (1.0,) if problem.split else _SHARES if problem.share is None else (problem.share,)
    designs = [_design(problem, share, narrow) for share in shares]
    everything = problem.n_features <= _ALL_COLUMNS * problem.n_nonzero
    if everything and problem.share is None and not problem.split:
        designs.append(_design(problem, None, narrow))
    errors = [planned_error(problem, design) for design in designs]
    best = designs[int(np.argmin(errors))]
    if problem.wide is not None or best.share is None:
        return best
    found = [(weakest(problem, best, "any"), best)]
    for clip in _CLIPS:
        wider = replace(best, clip=min(clip, problem.clip))
        if wider.clip <= best.clip:
            continue
        if planned_error(problem, wider) > min(errors) + _DEARER:
            break
        found.append((weakest(problem, wider, "any"), wider))
    return min(found, key=lambda pair: pair[0])[1]


def _design(problem: Problem, share: float | None, clip: float) -> Design:
    """Return the design whose selection uses this fraction of the privacy."""
    s, epsilon = problem.n_nonzero, problem.epsilon
    selected, rest = (1.0, 1.0) if problem.split else (share or 0.0, 1 - (share or 0.0))
    if problem.delta == 0:
        return Design(share, clip, selected * epsilon / s * _SAFE, rest * epsilon * (_SAFE if share else 1.0))
    rho = zcdp_rho(epsilon, problem.delta) * (1 - 1e-12)
    each = math.sqrt(8 * selected * rho / s) * _SAFE
    if problem.split:
        each = max(each, epsilon / s * _SAFE)  # few selections add up better as pure ones
    return Design(share, clip, each, rest * rho)


def plan_balls(problem: Problem, design: Design) -> Balls:
    """Return the balls that the release of a design, with Gaussian noise, is planned in."""
    # Gaussian noise alone, on its rows, has the exact curve.
    alone = problem.split or design.share is None
    mu = 1 / gaussian_sigma(problem.epsilon, problem.delta) if alone else math.sqrt(2 * design.rest)
    size = released(problem, design)
    return release_balls(problem.n_release, problem.n_features, size, problem.max_signal, mu, intervals=problem.split)


def plan_cross_radius(problem: Problem, design: Design) -> float:
    """Return the l1 radius that the release of a design, with Laplace noise, is planned in."""
    size = released(problem, design)
    if problem.split:
        return honest_cross_radius(problem.n_release, size, problem.max_signal, design.rest)
    return cross_radius(size, problem.max_signal)


def released(problem: Problem, design: Design) -> int:
    """Return the number of released columns."""
    return problem.n_features if design.share is None else problem.n_nonzero


def noise_variance(problem: Problem, design: Design) -> float:
    """Return the planned variance of the noise in a column of the estimate."""
    if problem.delta == 0:
        return 2 * (2 * plan_cross_radius(problem, design) / (problem.n_release * design.rest)) ** 2
    return 1 / plan_balls(problem, design).precision


def planned_error(problem: Problem, design: Design) -> float:
    """Return the mean logarithm of the squared error per signal, over signals that data could show, up to the largest.

    Signal sizes are unknown. They are spaced evenly on the log scale, from the size that sampling error alone gives
    one of d columns. All signals of a table are assumed to have the same size; columns are normal.
    """
    n, d, s = problem.n_release, problem.n_features, problem.n_nonzero
    weakest_shown = math.sqrt(2 * math.log(max(d / s, math.e)) / n)
    largest = max(problem.max_signal, 2 * weakest_shown)
    signals = np.geomspace(weakest_shown, largest, _SIGNALS)
    missed = 1 - found(problem, design, "normal", signals)
    return float(np.mean(np.log(1 / n + noise_variance(problem, design) + signals**2 * missed)))


def found(problem: Problem, design: Design, law: str, signals: Numbers) -> Numbers:
    """Return the fraction of signals that is found, if all have one of these sizes."""
    n, d, s = problem.n_select, problem.n_features, problem.n_nonzero
    if design.share is not None:
        # Twice the sensitivity of a mean, over what a selection costs.
        scale = 2 * (2 * design.clip / n) / design.each
        return selected_share(law, signals, design.clip, scale, n, d, s)
    bias = 0.0 if law == "normal" else release_bias(problem, design)
    null, given = mean_score(np.zeros(1), bias), mean_score(np.asarray(signals, dtype=float), bias)
    noise = "laplace" if problem.delta == 0 else "gaussian"
    scale = math.sqrt(noise_variance(problem, design) / (2 if noise == "laplace" else 1))
    return share_found(null, given, additive_tail(noise, scale), n, d, s)


def release_bias(problem: Problem, design: Design) -> float:
    """Return a bound on the clipping bias of a released mean, for any column of mean 0 and variance 1."""
    if problem.delta == 0:
        norm = problem.n_features + problem.n_nonzero * problem.max_signal
        return min(1.0, norm / (4 * plan_cross_radius(problem, design)))
    balls = plan_balls(problem, design)
    weights = np.array(balls.shares) / np.array(balls.radii) ** 2
    norms = np.hypot(math.sqrt(problem.n_features), balls.distances)
    return min(1.0, float(np.average(norms / (4 * np.array(balls.radii)), weights=weights)))


@lru_cache(maxsize=256)
def weakest(problem: Problem, design: Design, law: str) -> float:
    """Return the weakest signal that is found; 0 where every column is kept."""
    if problem.n_nonzero == problem.n_features:
        return 0.0
    return weakest_found(lambda signals: found(problem, design, law, signals))
