from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpstats.error_distributions import Limits, ScoreErrors, Tail, normal_quantile
from dpstats.intervals import furthest, laplace_sum_tails
from dpstats.means.size_noise import RowsNoise

Floats = NDArray[np.float64]

_GRID = 48
_BITS = 28
"""Precision of the limits between two values of the grid."""
_RAISED = 1.0
"""Standard deviations of its noise by which a released variance is raised: it is too small half of the time."""
_LEAST_TAIL = 1e-300


@dataclass(frozen=True)
class Noise:
    """The noise of released totals: standard deviations, in the units of the totals."""

    # Of T, N, Q, X and R (see `Ratio`); of T, Q and X perhaps one for each column.
    total: float | Floats
    count: float
    square: float | Floats
    cross: float | Floats
    spread: float
    square_spread: float  # the covariance of Q's noise and R's
    # 0 if the noise is normal. Otherwise T and N consist of Laplace variables of this scale, three per
    # column. T is the third minus the first. N is the sum of all three, averaged over the columns.
    laplace: float = 0.0
    columns: int = 1  # how many columns N is averaged over

    @property
    def rows(self) -> RowsNoise:
        """The noise of N."""
        d = self.columns
        return RowsNoise(self.count, (self.laplace / d,) * 3 * d if self.laplace else ())

    def scales(self, value: Floats) -> tuple[list[Floats], Floats]:
        """Return the scales of the Laplace variables in T - m N, and the variance of the normal remainder.

        The noise in N from other columns has many small parts: it is approximated as normal.
        """
        b, share = self.laplace, np.asarray(value) / self.columns
        rest = 3 * (self.columns - 1) * 2 * (b * share) ** 2
        return [b * np.abs(1 - share), b * np.abs(1 + share), b * np.abs(share)], rest


@dataclass(frozen=True)
class NoiseApart(Noise):
    """The same if T and N have separate noise: under Laplace noise each is one variable.

    ``laplace`` is then the scale of T's noise, or the largest of several columns.
    """

    @property
    def rows(self) -> RowsNoise:
        return RowsNoise(self.count, (self.count / math.sqrt(2),) if self.laplace else ())

    def scales(self, value: Floats) -> tuple[list[Floats], Floats]:
        one = np.ones(np.shape(value)) / np.sqrt(2)
        return [self.total * one, np.abs(value) * self.count * one], 0.0 * one


@dataclass(frozen=True, eq=False)
class Ratio:
    """Ratios in [-1, 1] from noisy sums: of s and c, |s| <= c <= 1, and of s^2, s c and c^2."""

    T: Floats  # noisy sums of s and of c
    N: Floats
    # Noisy sums of s^2, s c and c^2. Where c is 1 in every row, X is T and R is N.
    Q: Floats
    X: Floats
    R: Floats
    noise: Noise
    counts: bool = True  # whether c is 1 in every row, so that N is a number of rows

    def __getitem__(self, index: Any) -> Self:
        """Return the ratios at some places."""

        def select(part: Floats) -> Floats:
            found: Floats = np.broadcast_to(part, self.shape)[index]
            return found

        T, N, Q, X, R = (select(part) for part in (self.T, self.N, self.Q, self.X, self.R))
        return replace(self, T=T, N=N, Q=Q, X=X, R=R)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the ratios."""
        return np.broadcast_shapes(self.T.shape, self.N.shape)

    @property
    def estimate(self) -> Floats:
        """T/N inside the bounds; a count below its noise is raised to the noise, which draws the ratio towards 0."""
        return np.clip(self.T / np.maximum(self.N, self.noise.count), -1.0, 1.0)

    def score(self, value: Any) -> Floats:
        """Return T - m N as the value of a standard normal variable, if the ratio is m.

        A T outside the range that N allows is moved to the nearest allowed value: no further from any value in the
        bounds.
        """
        return self._score(value, np.clip(self.T, -np.abs(self.N), np.abs(self.N)))

    def free_score(self, value: Any) -> Floats:
        """Return the score without the move of T into the range that N allows: also beyond a value at a bound."""
        return self._score(value, self.T)

    def _score(self, value: Any, total: Floats) -> Floats:
        m, count = np.asarray(value, dtype=np.float64), self.N
        distance, sampling = total - m * count, self.sampling_variance(m)
        noise = self.noise
        if not noise.laplace:
            return distance / np.sqrt(sampling + noise.total**2 + m**2 * noise.count**2)
        scales, rest = noise.scales(m)
        tails = laplace_sum_tails(np.abs(distance), np.sqrt(sampling + rest), scales)
        return np.asarray(np.sign(distance) * -ndtri(np.maximum(tails, _LEAST_TAIL)))

    def sampling_variance(self, value: Any) -> Floats:
        """Return an upper estimate of the variance of the sum of s - m c over the rows.

        The sum of squares about m is computed from the release, and raised by one standard deviation of its noise.
        If most rows are at a bound, their variance is proportional to the distance of their mean from it, as for rare
        counts. The sum is therefore raised in proportion for values further from a bound than the estimate is. Rows
        within the bounds have a variance of at most (1 - m)(1 + m).
        """
        m, noise = np.asarray(value, dtype=np.float64), self.noise
        about = self.Q - 2 * m * self.X + m**2 * self.R
        off = (
            noise.square**2
            + 4 * m**2 * noise.cross**2
            + m**4 * noise.spread**2
            + 2 * m**2 * noise.square_spread
        )
        found = np.maximum(about + _RAISED * np.sqrt(off), 0.0)
        most = np.maximum(self.N + _RAISED * noise.count, 0.0)
        if not self.counts:
            return np.asarray(np.minimum(found, most * (1 + np.abs(m)) ** 2))
        start = self.estimate
        with np.errstate(divide="ignore", invalid="ignore"):
            further = np.maximum((1 + m) / (1 + start), (1 - m) / (1 - start))
            # At a bound of the ratio, only the largest variance applies.
            raised = np.where(np.isfinite(further), found * np.maximum(further, 1.0), np.inf)
        return np.minimum(raised, most * (1 - m) * (1 + m))

    def ends(self, z: Any) -> tuple[Floats, Floats]:
        """Return the least and the largest value that a standard normal variable within z does not refute."""
        return hull(self, np.asarray(z, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class RatioErrors(ScoreErrors):
    """Errors of ratios in the units of the data."""

    ratio: Ratio  # in half-widths of the bounds about their middle
    center: float | Floats  # the middle of the bounds, and their half-widths
    half: float | Floats
    low: Floats  # the bounds
    high: Floats

    @property
    def start(self) -> Floats:
        return self.in_units(self.ratio.estimate)

    @property
    def box(self) -> Limits:
        shape = self.ratio.shape
        return np.broadcast_to(self.low, shape), np.broadcast_to(self.high, shape)

    @property
    def standard_error(self) -> Floats:
        """Half the width of the intervals of one standard deviation."""
        low, high = self.ratio.ends(1.0)
        return np.asarray(self.half * (high - low) / 2)

    def limits(self, tail: Tail) -> Limits:
        low, high = self.ratio.ends(normal_quantile(tail))
        return self.in_units(low), self.in_units(high)

    def score(self, value: Floats) -> Floats:
        return self.ratio.score(np.clip((value - self.center) / self.half, -1.0, 1.0))

    def in_units(self, values: Floats) -> Floats:
        """Return values in the units of the data, inside the bounds."""
        return np.clip(self.center + self.half * values, self.low, self.high)


def hull(ratio: Ratio, z: Floats) -> tuple[Floats, Floats]:
    """Return the limits of the values whose absolute score is at most z, found on a grid, and then by bisection."""
    shape = np.broadcast_shapes(ratio.shape, z.shape)
    start = np.broadcast_to(ratio.estimate, shape)
    z = np.broadcast_to(z, shape)
    places = np.linspace(-1.0, 1.0, _GRID + 1).reshape(-1, *[1] * len(shape))
    grid = np.sort(np.concatenate([np.broadcast_to(places, (_GRID + 1, *shape)), start[None]]), axis=0)
    kept = np.abs(ratio.score(grid)) <= z
    # The estimate is inside, even if a count that is mostly noise moves the accepted values elsewhere.
    kept |= grid == start
    first = np.argmax(kept, axis=0)
    last = len(grid) - 1 - np.argmax(kept[::-1], axis=0)
    inside = np.take_along_axis(grid, np.stack([first, last]), axis=0)
    beyond = np.stack([np.maximum(first - 1, 0), np.minimum(last + 1, len(grid) - 1)])
    outside = np.take_along_axis(grid, beyond, axis=0)

    def keep(values: Floats) -> NDArray[np.bool_]:
        return np.reshape(np.abs(ratio.score(values.reshape(len(values), *inside.shape))) <= z, values.shape)

    low, high = furthest(inside.ravel(), outside.ravel(), keep, _BITS).reshape(inside.shape)
    return low, high
