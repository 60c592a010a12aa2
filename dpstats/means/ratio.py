"""Means of rows whose number is private: ratios of noisy sums in a declared region, and their differences.

Fieller's method (1954): for a ratio m of the sums of s and c, the sum of s - m c has mean 0. The distance of T - m N
from 0 is tested without a division by N. A count that noise has made small, or negative, rejects few values. Intervals
are then wide, up to the bounds. Computations are elementwise, so that a study evaluates many releases at once.

Proofs: docs/intervals/groups.md, docs/proofs/private-size.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import ndtr, ndtri

from dpstats.data.rows import Table
from dpstats.inference.error_distributions import (
    Limits,
    ScoreErrors,
    Tail,
    Together,
    furthest,
    laplace_sum_tails,
    normal_quantile,
)
from dpstats.inference.results import spread_of
from dpstats.lattice import BoxLattice
from dpstats.lattice.base import box_movement
from dpstats.lattice.sums import end_shares
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.stages import Block, JointStage
from dpstats.release.additive import JointIntegers

# The normal part is raised to this part of the largest Laplace scale, which bounds the work. It is never
# narrower: more normal noise spreads a symmetric unimodal law (Anderson 1955).
_LEAST_NORMAL = 1e-3

_SMALLEST_TAIL = 1e-9  # below it, rounding hides the computed tail: use the exponential bound, which is larger


def laplace_sum_quantile(
    tail: float,
    std: float,  # standard deviation of the normal variable N
    scales: NDArray[np.float64],  # (m,): scales of the independent Laplace variables
    bias: float = 0.0,
) -> float:
    """Return x with P(|N + sum_k L_k + bias| > x) = 2 tail, for a tail of at most one half.

    Without a bias that is P(N + sum_k L_k > x) = tail.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means.ratio import laplace_sum_quantile
    >>> round(laplace_sum_quantile(0.025, 0.01, np.array([1.0])), 3)  # close to log(20)
    2.996
    """
    largest = float(scales.max())
    std = max(std, _LEAST_NORMAL * largest)
    # Use the largest part as the unit.
    unit = max(std, largest)
    s, b, shift = std / unit, scales / unit, abs(bias) / unit
    high = _chernoff(tail, s, b) + shift
    if tail < _SMALLEST_TAIL:
        return unit * high
    # A sum with this step also counts copies of the distribution, 2 pi/step apart: move them beyond its mass.
    step = 2 * math.pi / (high + shift + _chernoff(1e-10 * tail, s, b))
    end = 1.0
    while _log_phi(np.array([end]), s, b)[0] > math.log(tail) - 25:
        end *= 1.5
    t = step * np.arange(1, math.ceil(end / step) + 1)
    weights = np.exp(_log_phi(t, s, b)) / t

    def tail_above(x: float) -> float:
        return 0.5 - step / math.pi * (x / 2 + float(np.sin(t * x) @ weights))

    def excess(x: float) -> float:
        return (tail_above(x - shift) + tail_above(x + shift)) / 2 - tail

    if excess(0.0) <= 0:
        return 0.0  # a tail of one half, up to rounding
    return unit * float(optimize.brentq(excess, 0.0, high, xtol=1e-13, rtol=1e-12))


def _log_phi(t: NDArray[Any], std: float, scales: NDArray[Any]) -> NDArray[np.float64]:
    total: NDArray[np.float64] = -0.5 * (std * t) ** 2
    for scale in scales:
        total = total - np.log1p((scale * t) ** 2)
    return total


def _chernoff(tail: float, std: float, scales: NDArray[Any]) -> float:
    """Return x with P(S > x) <= tail: the best exponential bound on a grid of rates."""
    rates = np.concatenate([np.linspace(0.01, 0.99, 99) / scales.max(), np.linspace(0.1, 20, 100) / std])
    rates = rates[rates < 0.995 / scales.max()]
    log_moment = 0.5 * (std * rates) ** 2
    for scale in scales:
        log_moment -= np.log1p(-((scale * rates) ** 2))
    return float(np.min((log_moment + math.log(1 / tail)) / rates))


@dataclass(frozen=True)
class RowsNoise:
    """Noise of a released number of rows.

    Examples
    --------
    >>> from dpstats.means.ratio import RowsNoise
    >>> round(RowsNoise(2.0).quantile(0.025), 2), round(RowsNoise(2.0, (2**0.5,)).quantile(0.025), 2)
    (3.92, 4.24)
    """

    std: float  # standard deviation
    # Scales of the Laplace variables that it is the sum of. Empty for normal noise.
    scales: tuple[float, ...] = ()

    def scale(self, factor: float) -> RowsNoise:
        """Return the noise of a multiple."""
        return RowsNoise(self.std * factor, tuple(factor * scale for scale in self.scales))

    def sum(self, times: int) -> RowsNoise:
        """Return the noise of a sum of several such numbers with independent noise."""
        return RowsNoise(self.std * math.sqrt(times), self.scales * times)

    def quantile(self, tail: float) -> float:
        """Return the distance that the noise exceeds with this probability, on one side."""
        if not self.scales:
            return self.std * float(normal_quantile(tail))
        return laplace_sum_quantile(tail, 0.0, np.array(self.scales))


Floats = NDArray[np.float64]

_GRID = 48
_BITS = 28
"""Precision of the limits between two values of the grid."""
RAISED = 1.0
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
    # 0 if the noise is normal. Otherwise T and N consist of Laplace variables of this scale, an odd number per column.
    # As many are at either end, and one is between. T is the last ones minus the first ones. N is the sum of all,
    # averaged over the columns.
    laplace: float = 0.0
    columns: int = 1  # how many columns N is averaged over
    parts: int = 3  # how many Laplace variables a column has

    @property
    def rows(self) -> RowsNoise:
        """The noise of N."""
        d = self.columns
        return RowsNoise(self.count, (self.laplace / d,) * self.parts * d if self.laplace else ())

    def scales(self, value: Floats) -> tuple[list[Floats], Floats]:
        """Return the scales of the Laplace variables in T - m N, and the variance of the normal remainder.

        The noise in N from other columns has many small parts: it is approximated as normal.
        """
        b, share = self.laplace, np.asarray(value) / self.columns
        rest = self.parts * (self.columns - 1) * 2 * (b * share) ** 2
        ends = [b * np.abs(1 - share), b * np.abs(1 + share)]
        return [*ends * (self.parts // 2), b * np.abs(share)], rest


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
    # Largest bias of a ratio, or its standard deviation: by rounding of entries, and by clipped residuals. It counts
    # like sampling error.
    bias: Floats | float = 0.0

    def __getitem__(self, index: Any) -> Self:
        """Return the ratios at some places."""

        def select(part: Any) -> Floats:
            found: Floats = np.broadcast_to(part, self.shape)[index]
            return found

        T, N, Q, X, R, bias = (select(part) for part in (self.T, self.N, self.Q, self.X, self.R, self.bias))
        return replace(self, T=T, N=N, Q=Q, X=X, R=R, bias=bias)

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
        """Return an upper estimate of the variance of the sum of s - m c over the rows, and of its squared bias.

        The sum of squares about m is computed from the release, and raised by one standard deviation of its noise.
        If most rows are at a bound, their variance is proportional to the distance of their mean from it, as for rare
        counts. The sum is therefore raised in proportion for values further from a bound than the estimate is. Rows
        within the bounds have a variance of at most (1 - m)(1 + m).
        """
        m, noise = np.asarray(value, dtype=np.float64), self.noise
        about, off = self.squares_about(m)
        found = np.maximum(about + RAISED * off, 0.0)
        most = np.maximum(self.N + RAISED * noise.count, 0.0)
        bias = (np.maximum(self.N, noise.count) * self.bias) ** 2
        if not self.counts:
            return np.asarray(np.minimum(found, most * (1 + np.abs(m)) ** 2) + bias)
        start = self.estimate
        with np.errstate(divide="ignore", invalid="ignore"):
            further = np.maximum((1 + m) / (1 + start), (1 - m) / (1 - start))
            # At a bound of the ratio, only the largest variance applies.
            raised = np.where(np.isfinite(further), found * np.maximum(further, 1.0), np.inf)
        return np.minimum(raised, most * (1 - m) * (1 + m)) + bias

    def squares_about(self, value: Floats) -> tuple[Floats, Floats]:
        """Return the noisy sum of squares of s - m c, and the standard deviation of its noise."""
        m, noise = value, self.noise
        off = noise.square**2 + 4 * m**2 * noise.cross**2 + m**4 * noise.spread**2 + 2 * m**2 * noise.square_spread
        return self.Q - 2 * m * self.X + m**2 * self.R, np.sqrt(off)

    @property
    def spread(self) -> tuple[Floats, Floats]:
        """Standard deviations of the rows about their means, and of the noise in them: NaN where noise hides them."""
        m = self.estimate
        squares, off = self.squares_about(m)
        rows = np.maximum(self.N, self.noise.count)
        # The number of rows has noise too. A row moves the sum of squares by at most (1 + |m|)^2.
        off = np.hypot(off, squares / rows * self.noise.count)
        std, noise = spread_of(squares / rows, off / rows, (1 + np.abs(m)) ** 2 / rows)
        most = np.sqrt((1 - m) * (1 + m))
        return np.minimum(std, most), noise

    @property
    def noise_covariance(self) -> Floats:
        """Covariance of the noise of a ratio and of the variance of rows about it, where c is 1 in every row."""
        m, noise = self.estimate, self.noise
        rows = np.maximum(self.N, noise.count)
        variance = self.squares_about(m)[0] / rows
        moved = 2 * noise.total**2 + noise.square_spread + (m**2 - variance) * noise.count**2
        return np.asarray(-m * moved / rows**2)

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


Steps = NDArray[np.int64]

TOTALS = "totals of the groups"
COUNTS, SUMS, SQUARES = "rows", "sums about the middle", "squares about the middle"
FIRST, MIDDLE, LAST = "shares of the lower end", "shares between", "shares of the upper end"

COUNT_WEIGHT, SQUARE_WEIGHT, CENTER = 0.95, 1.35, 0.77
"""Free: a^2 + w^2 (1 - c)^2 <= 1, a^2 + w^2 c^2 <= 2 and w <= phi^(5/2)/2."""

ADDED_COUNT_WEIGHT, ADDED_SQUARE_WEIGHT, ADDED_CENTER = 0.8, 1.0, 1.0
"""The same for an added row: z^2 + w^2 (z^2 - 1)^2 <= 1, so that squares are free."""

_SAFE = 1 + 1e-12


@dataclass(frozen=True)
class GaussianTotals:
    """Counts, sums and squares about a public center, under Gaussian noise; d columns of 2^bits steps each."""

    n_groups: int
    n_features: int
    bits: int
    neighbors: Neighbors = Neighbors.REPLACE_ONE

    @property
    def center(self) -> int:
        """The number of steps that is subtracted from a square."""
        added = self.neighbors is Neighbors.ADD_OR_REMOVE_ONE
        return round((ADDED_CENTER if added else CENTER) * float(2**self.bits))

    def integers(self) -> JointIntegers:
        """Return the integers of their stage, in half-widths of the bounds."""
        if self.neighbors is Neighbors.ADD_OR_REMOVE_ONE:
            # Rounding down a square leaves it less than a step further from the center.
            moved = ADDED_COUNT_WEIGHT**2 * 4.0**self.bits + (2.0**self.bits + 1) ** 2
            return self._build_integers(ADDED_COUNT_WEIGHT, ADDED_SQUARE_WEIGHT, moved)
        steps = 2.0**self.bits
        # Of a column: two values in one group, or in two; a row in none is nearer to all of them.
        K, center = steps, float(self.center)
        at_end = (COUNT_WEIGHT**2 + 1) * K**2 + (SQUARE_WEIGHT * (K - center)) ** 2
        in_middle = COUNT_WEIGHT**2 * K**2 + K + (SQUARE_WEIGHT * center) ** 2
        moved = max(box_movement((1.0, SQUARE_WEIGHT), 2**self.bits, "l2"), 2 * max(at_end, in_middle))
        return self._build_integers(COUNT_WEIGHT, SQUARE_WEIGHT, moved)

    def _build_integers(self, count: float, square: float, moved: float) -> JointIntegers:
        """Return the integers with these weights, whose squared movement in a column is ``moved``."""
        spacing, size = 2.0**-self.bits, self.n_groups * self.n_features
        blocks = (
            Block(COUNTS, self.n_groups, spacing, 1 / (count * math.sqrt(self.n_features))),
            Block(SUMS, size, spacing, 1.0),
            Block(SQUARES, size, spacing, 1 / square),
        )
        return JointIntegers(TOTALS, blocks, math.inf, math.sqrt(self.n_features * moved) * _SAFE)

    def rows(self, steps: Steps) -> dict[str, Steps]:
        """Return the contributions of rows of lattice points, each a function of the row alone."""
        return self.of(np.ones((len(steps), 1), dtype=np.int64), steps, steps * steps >> self.bits)

    def of(self, rows: Steps, sums: Steps, squares: Steps) -> dict[str, Steps]:
        """Return the totals of groups from their rows, and the sums of their steps and squares."""
        return {COUNTS: rows << self.bits, SUMS: sums, SQUARES: squares - self.center * rows}

    def noise(self, stage: JointStage) -> Noise:
        """Return the noise of T, N and Q, in half-widths."""
        count, total, about = (float(np.max(stage.noise_std(block))) for block in stage.blocks)
        c = self.center * 2.0**-self.bits
        return Noise(total, count, math.hypot(about, c * count), total, count, c * count**2)

    def ratio(self, released: dict[str, Floats], noise: Noise) -> Ratio:
        """Return the ratios of released totals, of shape (..., n_groups, n_features)."""
        N = released[COUNTS][..., None]
        T, about = (self._reshape(released[name]) for name in (SUMS, SQUARES))
        about = about + self.center * 2.0**-self.bits * N
        return Ratio(T, N, about, T, N, noise, bias=2.0 ** -(self.bits + 1))

    def _reshape(self, values: Floats) -> Floats:
        return values.reshape(*values.shape[:-1], self.n_groups, self.n_features)


@dataclass(frozen=True)
class LaplaceTotals:
    """The three shares of every entry, which add up to one, under Laplace noise; d columns of 2^bits steps each."""

    n_groups: int
    n_features: int
    bits: int
    neighbors: Neighbors = Neighbors.REPLACE_ONE

    def integers(self) -> JointIntegers:
        """Return the integers of their stage. A replaced row moves two entries of a column, an added row one."""
        size, spacing = self.n_groups * self.n_features, 2.0**-self.bits
        blocks = tuple(Block(name, size, spacing, 1.0) for name in (FIRST, MIDDLE, LAST))
        rows = 2.0 if self.neighbors is Neighbors.REPLACE_ONE else 1.0
        return JointIntegers(TOTALS, blocks, rows * self.n_features * 2**self.bits, math.inf)

    def rows(self, steps: Steps) -> dict[str, Steps]:
        """Return the contributions of rows of lattice points, each a function of the row alone."""
        return self.of(np.ones((len(steps), 1), dtype=np.int64), *end_shares(steps, self.bits))

    def of(self, rows: Steps, first: Steps, last: Steps) -> dict[str, Steps]:
        """Return the totals of groups from their rows, and the sums of their shares of both bounds."""
        # The difference, so that the three add up to exactly one row.
        return {FIRST: first, MIDDLE: (rows << self.bits) - first - last, LAST: last}

    def noise(self, stage: JointStage) -> Noise:
        """Return the noise of T, N and Q, in half-widths: each of the three shares has the same."""
        (share,) = (block for block in stage.blocks if block.name == FIRST)
        scale = float(np.max(stage.noise_scale(share)))
        one, d = 2 * scale**2, self.n_features
        count = math.sqrt(3 * one / d)
        return Noise(math.sqrt(2 * one), count, math.sqrt(3 * one), math.sqrt(2 * one), count, one / d, scale, d)

    def ratio(self, released: dict[str, Floats], noise: Noise) -> Ratio:
        """Return the ratios of released totals, of shape (..., n_groups, n_features)."""
        first, middle, last = (
            released[name].reshape(*released[name].shape[:-1], self.n_groups, self.n_features)
            for name in (FIRST, MIDDLE, LAST)
        )
        # Every column counts the same rows.
        N = (first + middle + last).mean(axis=-1, keepdims=True)
        T = last - first
        return Ratio(T, N, first - middle + last, T, N, noise, bias=2.0 ** -(self.bits + 1))


Totals = GaussianTotals | LaplaceTotals


@dataclass(frozen=True, eq=False)
class OneGroup:
    """The exact totals of all rows, as one group."""

    lattice: BoxLattice
    totals: Totals
    missing: str

    def __call__(self, table: Table) -> dict[str, Steps]:
        return group_sums(table.X, None, self.lattice, self.totals, self.missing)


def group_sums(
    X: NDArray[np.generic], codes: Steps | None, lattice: BoxLattice, totals: Totals, missing: str = "error"
) -> dict[str, Steps]:
    """Return the exact totals of every group; a row whose code is -1 adds nothing, and no codes are one group."""
    groups = None if codes is None else (codes, totals.n_groups)
    found = lattice.sum_groups(X, groups, missing=missing, shares=isinstance(totals, LaplaceTotals))
    return {name: sums.ravel() for name, sums in totals.of(found.rows, *found.powers).items()}


_ANGLES = 17
_SEARCH_GRID, _ROUNDS = 48, 6
_MOST = 1024
_NODES = 400
_FAR = 1e-10
_EDGE, _NEAR = 1e-9, 1e-3


@dataclass(frozen=True, eq=False)
class DifferenceErrors(ScoreErrors):
    """Errors of the differences between the means of some groups and of others."""

    first: Ratio  # the ratios of the groups, in half-widths of the bounds
    second: Ratio
    half: float | Floats  # these half-widths

    @property
    def start(self) -> Floats:
        return np.asarray(self.half * (self.first.estimate - self.second.estimate))

    @property
    def box(self) -> Limits:
        far = np.broadcast_to(2 * np.asarray(self.half), self.start.shape)
        return -far, far

    @property
    def standard_error(self) -> Floats:
        """Half the width of the intervals of one standard deviation."""
        low, high = apart(self.first, self.second, 1.0)
        return np.asarray(self.half * (high - low) / 2)

    def limits(self, tail: Tail) -> Limits:
        z = normal_quantile(tail)
        low, high = apart(self.first, self.second, z)
        if isinstance(self.first, Ratio):
            # Where both means are at their bounds, errors have one direction each: see `difference_score`.
            least, most = (
                np.abs(difference_score(self.first, self.second, np.full(low.shape, end))) <= z for end in (-2.0, 2.0)
            )
            low, high = np.where(least, -2.0, low), np.where(most, 2.0, high)
        return self.half * low, self.half * high

    def score(self, value: Floats) -> Floats:
        return difference_score(self.first, self.second, value / self.half)


@dataclass(frozen=True)
class Tukey(Together):
    """Tukey's range of all groups: conservative for groups of different precision."""

    groups: int
    words = "Tukey's range"

    def each(self, level: float, count: int) -> float:
        return 1 - 2 * float(ndtr(-range_quantile(1 - level, self.groups) / math.sqrt(2)))

    def adjust(self, pvalues: Floats) -> Floats:
        return range_tail(-math.sqrt(2) * ndtri(pvalues / 2), self.groups)


def apart(first: Ratio, second: Ratio, z: float | Floats) -> tuple[Floats, Floats]:
    """Return the least and the largest difference of two ratios that are within z, both together."""
    shape = np.broadcast_shapes(first.shape, second.shape)
    if shape[0] > _MOST:
        ends = [
            apart(first[part], second[part], z if np.ndim(z) == 0 else np.broadcast_to(z, shape)[part])
            for part in _parts(shape[0])
        ]
        low, high = (np.concatenate(parts) for parts in zip(*ends, strict=True))
        return low, high
    angles = np.linspace(0.0, math.pi / 2, _ANGLES).reshape(-1, *[1] * len(shape))
    a, b = first.ends(z * np.sin(angles)), second.ends(z * np.cos(angles))
    return (a[0] - b[1]).min(axis=0), (a[1] - b[0]).max(axis=0)


def difference_score(first: Ratio, second: Ratio, difference: float | Floats = 0.0) -> Floats:
    """Return the least z that lets two ratios differ by ``difference``, as a standard normal variable.

    Its sign is the sign of the difference of the estimates less ``difference``. Two means at opposite bounds have
    no other values. Then both scores count in proportion to the errors: their sum of squares would have two degrees of
    freedom.
    """
    a, b, by = np.broadcast_arrays(first.estimate, second.estimate, difference)
    if len(a) > _MOST:
        parts = [difference_score(first[part], second[part], by[part]) for part in _parts(len(a))]
        return np.concatenate(parts)
    # Where the second ratio may be if both are in the bounds.
    ends = np.maximum(-1.0, -1.0 - by), np.minimum(1.0, 1.0 - by)
    low, high = (np.clip(end, *ends) for end in (np.minimum(a - by, b), np.maximum(a - by, b)))
    best, place = np.full(a.shape, np.inf), np.zeros(a.shape)
    # Between the estimates both are further off in one direction; what noise has made of small groups may be anywhere.
    for left, right in (ends, (low, high)):
        for _ in range(_ROUNDS):
            grid = np.linspace(left, right, _SEARCH_GRID + 1)
            both = first.score(grid + by) ** 2 + second.score(grid) ** 2
            least = np.argmin(both, axis=0)
            found, where = (np.take_along_axis(each, least[None], axis=0)[0] for each in (both, grid))
            best, place = np.minimum(best, found), np.where(found < best, where, place)
            left = np.take_along_axis(grid, np.maximum(least - 1, 0)[None], axis=0)[0]
            right = np.take_along_axis(grid, np.minimum(least + 1, _SEARCH_GRID)[None], axis=0)[0]
    size = np.sqrt(best)
    if (forced := (np.minimum(np.abs(place - ends[0]), np.abs(place - ends[1])) < _EDGE)).any():
        sign = np.where(a - by < b, -1.0, 1.0)
        projected = np.maximum(sign * _project(first, second, place + by, place), 0.0)
        size = np.where(forced, np.minimum(size, projected), size)
    return np.asarray(np.where(a - by < b, -1.0, 1.0) * size)


def _project(first: Ratio, second: Ratio, one: Floats, other: Floats) -> Floats:
    """Return the score of the difference of two values, from the scores of both and their errors near the values."""
    scores, errors = [], []
    for ratio, value in ((first, one), (second, other)):
        score = getattr(ratio, "free_score", ratio.score)
        inside = np.where(value > 0, value - _NEAR, value + _NEAR)
        scores.append(score(value))
        with np.errstate(divide="ignore"):
            errors.append(_NEAR / np.abs(score(inside) - scores[-1]))
    with np.errstate(invalid="ignore"):
        found = (errors[0] * scores[0] - errors[1] * scores[1]) / np.hypot(*errors)
    return np.asarray(np.where(np.isfinite(found), found, np.sign(found) * np.inf))


def _parts(count: int) -> list[slice]:
    """Cut many pairs into parts that fit in memory with their grids."""
    return [slice(start, start + _MOST) for start in range(0, count, _MOST)]


@cache
def _quadrature() -> tuple[Floats, Floats]:
    """Return the nodes and weights of Gauss's quadrature on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights


def range_tail(distance: Floats, count: int) -> Floats:
    """Return P(max - min > x) for ``count`` independent standard normal variables (Tukey's studentized range)."""
    x = np.asarray(distance, dtype=np.float64)
    nodes, weights = _quadrature()
    # The largest is where it is, and all others within x below it.
    largest, density = 8.5 * nodes, 8.5 * weights * np.exp(-((8.5 * nodes) ** 2) / 2) / math.sqrt(2 * math.pi)
    within = ndtr(largest) - ndtr(largest - x[..., None])
    inside = (count * density * within ** (count - 1)).sum(axis=-1)
    # Far out the union over pairs, which is next to exact where the difference from 1 is rounded away.
    union = count * (count - 1) * ndtr(-x / math.sqrt(2))
    return np.asarray(np.where(inside > 1 - _FAR, union, np.maximum(1 - inside, 0.0)))


def range_quantile(tail: float, count: int) -> float:
    """Return x with P(max - min > x) = tail."""
    # At most the union over pairs of normal variables of variance 2.
    most = math.sqrt(2) * -float(ndtri(tail / (count * (count - 1)))) + 1e-6
    return float(optimize.brentq(lambda x: float(range_tail(np.array(x), count)) - tail, 0.0, most, xtol=1e-10))
