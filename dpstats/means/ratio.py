"""Which values a ratio of two noisy sums may have, by asking of every value whether what was released refutes it.

Fieller's way (1954): for a ratio m of the sums of s and c the sum of s - m c has mean 0, and how far T - m N is from it
is known without dividing by N. A count that noise has made small, or negative, refutes little, and intervals are
wide then, up to all that the bounds allow. No law of the rows is assumed. Proof: docs/proofs/group-means.md.

Everything goes element by element: arrays may have any shape, so that a study asks of many releases at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpstats.inference import Limits, ScoreErrors, Tail, normal_quantile
from dpstats.intervals import furthest, laplace_sum_tails
from dpstats.means.size_noise import RowsNoise

Floats = NDArray[np.float64]

_GRID = 48
_BITS = 28
"""Precision of the ends between two values of the grid."""
_RAISED = 1.0
"""By how many standard deviations of its noise a released spread is raised: it is as often too small as too large."""
_LEAST_TAIL = 1e-300


@dataclass(frozen=True)
class Noise:
    """The noise of released totals: standard deviations, in the units of the totals.

    Attributes
    ----------
    total, count, square, cross, spread : float
        Of T, N, Q, X and R (see `Ratio`); of T, Q and X perhaps one for each column.
    square_spread : float
        The covariance of Q's noise and R's.
    laplace : float
        0 where the noise is normal. Else T and N are made of Laplace variables of this scale: three a column, of which
        T is the third less the first and N the sum of all three, averaged over the columns.
    columns : int
        How many columns N is averaged over.
    """

    total: float | Floats
    count: float
    square: float | Floats
    cross: float | Floats
    spread: float
    square_spread: float
    laplace: float = 0.0
    columns: int = 1

    @property
    def rows(self) -> RowsNoise:
        """The noise of N."""
        d = self.columns
        return RowsNoise(self.count, (self.laplace / d,) * 3 * d if self.laplace else ())

    def scales(self, value: Floats) -> tuple[list[Floats], Floats]:
        """Return the scales of the Laplace variables in T - m N, and the variance of what is taken as normal.

        What N has of other columns is many small parts: taken as normal.
        """
        b, share = self.laplace, np.asarray(value) / self.columns
        rest = 3 * (self.columns - 1) * 2 * (b * share) ** 2
        return [b * np.abs(1 - share), b * np.abs(1 + share), b * np.abs(share)], rest


@dataclass(frozen=True)
class NoiseApart(Noise):
    """The same where T and N have noise of their own: under Laplace noise each is one variable.

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
    """What is known of ratios in [-1, 1]: noisy sums of s and c, |s| <= c <= 1, and of s^2, s c and c^2.

    Attributes
    ----------
    T, N : arrays
        Noisy sums of s and of c.
    Q, X, R : arrays
        Noisy sums of s^2, s c and c^2. Where c is 1 in every row, X is T and R is N.
    noise : Noise
    counts : bool
        Whether c is 1 in every row, so that N is a number of rows.
    """

    T: Floats
    N: Floats
    Q: Floats
    X: Floats
    R: Floats
    noise: Noise
    counts: bool = True

    def __getitem__(self, index: Any) -> Self:
        """Return the ratios at some places."""

        def at(part: Floats) -> Floats:
            found: Floats = np.broadcast_to(part, self.shape)[index]
            return found

        T, N, Q, X, R = (at(part) for part in (self.T, self.N, self.Q, self.X, self.R))
        return replace(self, T=T, N=N, Q=Q, X=X, R=R)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the ratios."""
        return np.broadcast_shapes(self.T.shape, self.N.shape)

    @property
    def estimate(self) -> Floats:
        """T/N inside the bounds; a count below its noise is taken to be as large as that, which draws towards 0."""
        return np.clip(self.T / np.maximum(self.N, self.noise.count), -1.0, 1.0)

    def score(self, value: Any) -> Floats:
        """Return how far T - m N is above 0 where the ratio is m, as a standard normal variable would be.

        Of a T beyond what N allows the nearest that is allowed: no further from any value in the bounds.
        """
        m, count = np.asarray(value, dtype=np.float64), self.N
        total = np.clip(self.T, -np.abs(count), np.abs(count))
        distance, sampling = total - m * count, self.sampling_variance(m)
        noise = self.noise
        if not noise.laplace:
            return distance / np.sqrt(sampling + noise.total**2 + m**2 * noise.count**2)
        scales, rest = noise.scales(m)
        tails = laplace_sum_tails(np.abs(distance), np.sqrt(sampling + rest), scales)
        return np.asarray(np.sign(distance) * -ndtri(np.maximum(tails, _LEAST_TAIL)))

    def sampling_variance(self, value: Any) -> Floats:
        """Return an upper estimate of the variance of the sum of s - m c over the rows.

        The sum of squares about m is straight from what was released, and raised by a standard deviation of its noise.
        Rows that are far from an end only rarely vary in proportion to how far their mean is from it, as counts do: it
        is raised so for values further from an end than the estimate is. Rows within the bounds cannot vary by more
        than (1 - m)(1 + m).
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
            # At an end nothing is known but that bound.
            raised = np.where(np.isfinite(further), found * np.maximum(further, 1.0), np.inf)
        return np.minimum(raised, most * (1 - m) * (1 + m))

    def ends(self, z: Any) -> tuple[Floats, Floats]:
        """Return the least and the largest value that a standard normal variable within z does not refute."""
        return hull(self, np.asarray(z, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class RatioErrors(ScoreErrors):
    """Errors of ratios in the units of the data.

    Attributes
    ----------
    ratio : Ratio
        In half-widths of the bounds about their middle.
    center, half : float or array
        The middle of the bounds, and their half-widths.
    low, high : array
        The bounds.
    """

    ratio: Ratio
    center: float | Floats
    half: float | Floats
    low: Floats
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
    """Return the ends of the values whose score is at most z in size, found on a grid, and then by division."""
    shape = np.broadcast_shapes(ratio.shape, z.shape)
    start = np.broadcast_to(ratio.estimate, shape)
    z = np.broadcast_to(z, shape)
    places = np.linspace(-1.0, 1.0, _GRID + 1).reshape(-1, *[1] * len(shape))
    grid = np.sort(np.concatenate([np.broadcast_to(places, (_GRID + 1, *shape)), start[None]]), axis=0)
    kept = np.abs(ratio.score(grid)) <= z
    # The estimate is inside, also where a count that is noise takes it to be somewhere else.
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
