from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammaincinv, ndtr

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
    n: int,
    d: int,
    s: int,
    max_signal: float,
    mu: float,
    *,
    most_stages: int = _MAX_STAGES,
    intervals: bool = False,
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
                balls = Balls(
                    (*radii[:-1], last), tuple(shares.tolist()), tuple(distances), float(before + own)
                )
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
