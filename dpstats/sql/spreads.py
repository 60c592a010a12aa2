"""Errors of variances and standard deviations, from noisy counts, sums and sums of squares.

Proof: docs/proofs/several-aggregates.md, "Shares of squares".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtr

from dpstats.error_distributions import ErrorDistribution, Limits, Tail, normal_quantile
from dpstats.means.ratio import Ratio, hull
from dpstats.sql.answers import Numbers
from dpstats.sql.noise import ShareRatio

_MEAN_SHARE = 0.1
"""Part of the error probability for the mean: the variance depends on its square only."""
_NODES = np.linspace(0.0, 1.0, 5)[:, None]


@dataclass(frozen=True, eq=False)
class SquareRatio(Ratio):
    """Sums of squares about fixed means, over numbers of rows: mapped from [0, ``most``] to [-1, 1].

    Attributes
    ----------
    mean : ShareRatio
    about : array
        The means, in half-widths.
    in_squares : tuple of float
        The weights of the released numbers in the sum of squares about the middle.
    one_less : int
        The number to subtract from a number of rows.
    """

    mean: ShareRatio = field(kw_only=True)
    about: Numbers = field(kw_only=True)
    in_squares: tuple[float, ...] = field(kw_only=True)
    one_less: int = field(kw_only=True)

    @property
    def most(self) -> int:
        """The largest variance, in squared half-widths: with two rows, of a sample."""
        return 1 + self.one_less

    @property
    def estimate(self) -> Numbers:
        least = np.maximum(self.N - self.one_less, self.noise.count)
        return np.asarray(np.clip(2 * self.T / (self.most * least) - 1, -1.0, 1.0))

    def score(self, value: Any) -> Numbers:
        v, m = self.most * (np.asarray(value, dtype=np.float64) + 1) / 2, self.about
        count = self.N - self.one_less
        ends = np.minimum(self.most * count, 0.0), np.maximum(self.most * count, 0.0)
        distance = np.clip(self.T, *ends) - v * count
        weights = [
            q - 2 * m * t + (m**2 - v) * n
            for q, (t, n) in zip(self.in_squares, self.mean.weights, strict=True)
        ]
        return self.mean.shaken.score(distance, weights)


@dataclass(frozen=True, eq=False)
class SpreadErrors(ErrorDistribution):
    """Errors of variances, or of standard deviations.

    Attributes
    ----------
    mean : ShareRatio
        The means of the same values.
    squares : array of shape (n_cells,)
        Sums of squares about the middle, in squared half-widths.
    in_squares : tuple of float
        The weights of the released numbers in them.
    half : float
        Half the width of the bounds.
    sample : bool
        Whether sums are divided by the number of rows less one.
    root : bool
        Whether these are standard deviations.
    rounding : float
        Half a step of the values, in the units of the data.
    whole : int
        The whole that shares are parts of.
    """

    mean: ShareRatio
    squares: Numbers
    in_squares: tuple[float, ...]
    half: float
    sample: bool
    root: bool
    rounding: float
    whole: int

    @property
    def start(self) -> Numbers:
        ratio = self._center(self.mean.estimate)
        return self._in_units(np.sqrt(ratio.most * (ratio.estimate + 1) / 2))

    @property
    def box(self) -> Limits:
        most = np.full(self.squares.shape, np.sqrt(1.0 + self.sample))
        return np.zeros(self.squares.shape), self._in_units(most)

    @property
    def standard_error(self) -> Numbers:
        """Half the width of the intervals of one standard deviation."""
        low, high = self.limits(float(ndtr(-1.0)))
        return np.asarray((high - low) / 2)

    def limits(self, tail: Tail) -> Limits:
        # The right mean is among some, and for each of these the variance is inside its limits.
        low, high = self.mean.ends(normal_quantile(_MEAN_SHARE / 2 * np.asarray(tail)))
        middle = self.mean.estimate
        ratio = self._center(np.concatenate([middle + (end - middle) * _NODES for end in (low, high)]))
        z = normal_quantile((1 - _MEAN_SHARE) * np.asarray(tail))
        ends = hull(ratio, np.asarray(z, dtype=np.float64))
        least, most = (ratio.most * (end + 1) / 2 for end in (ends[0].min(axis=0), ends[1].max(axis=0)))
        # Two of three shares are rounded down, and values are rounded to steps.
        most = most + 4 * ratio.most / self.whole
        off = self.rounding / self.half * np.sqrt(ratio.most)
        inside = np.maximum(np.sqrt(least) - off, 0.0), np.minimum(np.sqrt(most) + off, np.sqrt(ratio.most))
        return self._in_units(inside[0]), self._in_units(inside[1])

    def _center(self, about: Numbers) -> SquareRatio:
        mean = self.mean
        squares = self.squares - 2 * about * mean.T + about**2 * mean.N
        return SquareRatio(
            squares,
            mean.N,
            squares,
            squares,
            mean.N,
            mean.noise,
            mean=mean,
            about=about,
            in_squares=self.in_squares,
            one_less=int(self.sample),
        )

    def _in_units(self, deviation: Numbers) -> Numbers:
        found = self.half * deviation
        return np.asarray(found if self.root else found**2)
