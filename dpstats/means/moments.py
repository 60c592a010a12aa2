"""The declared region of a mean, released moments of clipped rows, the limits that follow, and what clipping may hide.

Proofs: docs/proofs/free-squares.md, docs/proofs/observed-rows.md, docs/intervals/clipped-mean.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpstats.data.parameters import check_choice, check_columns
from dpstats.errors import ScaleOutOfRange, attempt, refuse
from dpstats.inference.error_distributions import (
    ErrorDistribution,
    Limits,
    Tail,
    error_tails,
    half_widths,
    laplace_sum_tails,
)
from dpstats.lattice import BITS, BoxLattice, Moments, RowLattice
from dpstats.means.ratio import RAISED, GaussianTotals, LaplaceTotals, NoiseApart, Ratio, Totals
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.stages import Added, Block, JointStage, Stage
from dpstats.release.additive import Integers, JointIntegers, additive_stages

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

_SHOWN = 6


@dataclass(frozen=True, eq=False)
class Region:
    """The public box |x_j - center_j| <= clip_j: its bounds as declared, and their meaning."""

    center: Columns
    clip: Columns
    low: Columns
    high: Columns
    hard: bool  # whether rows cannot lie outside, such as a fraction or an age, so that clipping changes none

    @property
    def middle(self) -> str:
        """The center of the bounds, as text."""
        return f"the center of the bounds ({public_numbers(self.center)})"

    @classmethod
    def check(cls, bounds: Any, bounds_are: Any, clip: Any, center: Any, d: int) -> Region:
        """Return the region that either ``bounds``, or ``clip`` and ``center``, describe, or refuse them."""
        hard = check_choice("bounds_are", bounds_are, ["clip", "hard"]) == "hard"
        if bounds is None:
            if clip is None:
                raise refuse("bounds", allowed="given", remedy="Set bounds=(low, high), or clip and center.")
            size, middle = check_columns("clip", clip, d, above=0), check_columns("center", center, d)
            return cls(middle, size, middle - size, middle + size, hard)
        if clip is not None:
            raise refuse("clip", given=clip, allowed="None with bounds, which say the same", remedy="Leave one out.")
        if isinstance(center, bool) or not isinstance(center, Real) or center != 0:
            allowed = "not be given with bounds, whose middle is the center"
            raise refuse("center", given=center, allowed=allowed)
        low, high = check_bounds("bounds", bounds, d)
        return cls(low / 2 + high / 2, high / 2 - low / 2, low, high, hard)

    def ends(self, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ends as arrays of shape (n_features,)."""
        return np.full(d, self.low, dtype=np.float64), np.full(d, self.high, dtype=np.float64)


def public_numbers(values: Columns) -> str:
    """Return public numbers as text: one if all are equal, and otherwise at most the first few."""
    distinct = np.atleast_1d(values)
    if np.all(distinct == distinct[0]):
        return f"{distinct[0]:g}"
    more = ", ..." if distinct.size > _SHOWN else ""
    return ", ".join(f"{value:g}" for value in distinct[:_SHOWN]) + more


def check_bounds(name: str, bounds: Any, d: int) -> tuple[Columns, Columns]:
    """Return public bounds, low below high: one pair, or one per column in an array of shape (n_features, 2).

    The pairs of a mapping {column: (low, high)} are used in their order: a fit has sorted them like the columns, and a
    plan has no column names.
    """
    allowed = f"a pair (low, high) of numbers, or one pair per column: an array of shape ({d}, 2)"
    converted = attempt(lambda: np.asarray([*bounds.values()] if isinstance(bounds, Mapping) else bounds), Exception)
    array = np.array(None) if converted is None else converted
    if np.ma.isMaskedArray(bounds) or array.dtype.kind not in "fiu" or array.shape not in ((2,), (d, 2)):
        raise refuse(name, given=bounds, allowed=allowed)
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise refuse(name, given=bounds, allowed=f"{allowed}, all finite")
    low, high = array[..., 0], array[..., 1]
    if not np.all(low < high):
        where = "" if array.ndim == 1 else f" for column {int(np.argmax(low >= high))}"
        raise refuse(name, given=bounds, allowed=f"have low < high{where}")
    return (float(low), float(high)) if array.ndim == 1 else (low.copy(), high.copy())


MEAN = "clipped mean"
SQUARES = "second moment about the center"
CUBES = "third moment about the center"
FOURTHS = "fourth moment about the center"
OUTSIDE = "share outside the clip"
ROWS = "share of rows that are observed"
TOGETHER = "clipped moments"
"""The name of a stage that releases several of these."""

POWERS = (MEAN, SQUARES, CUBES, FOURTHS)

Made = TypeVar("Made")

_COARSEST = 8


@dataclass(frozen=True)
class Weights:
    """Moments that are released together, and their precision: each has the common noise divided by its weight."""

    # Weights of the mean, the second moment, and so on. A moment of weight 0 is not released.
    powers: tuple[float, ...] = (1.0,)
    # Weight of the fraction of entries (for a ball: of rows) outside the clip, each as large as the clip.
    outside: float = 0.0
    # Weight of the fraction of observed rows, each as large as the clip: 0 if all are observed.
    rows: float = 0.0

    def integers(
        self, lattice: RowLattice, n: int, noise: str, share: float = 1.0, neighbors: Neighbors = Neighbors.REPLACE_ONE
    ) -> Integers | JointIntegers:
        """Return the integers of a stage that releases these moments of n rows."""
        if not self.outside and not self.rows and sum(weight > 0 for weight in self.powers) == 1:
            return squares_integers(lattice, n, share) if self.powers[0] == 0 else mean_integers(lattice, n, share)
        blocks = [
            Block(name, lattice.n_features, frozen(lattice.power_spacing(b) / n), 1 / weight)
            for b, (name, weight) in enumerate(zip(POWERS, self.powers, strict=False), 1)
            if weight
        ]
        if self.outside:
            # One entry counts 2^bits steps, which leaves the noise of a count as many to be drawn from.
            sizes = np.asarray(lattice.largest) * 2.0**-lattice.bits
            unit = 1 / (self.outside * float(np.sqrt(np.mean(sizes**2))))
            blocks.append(Block(OUTSIDE, lattice.n_counts, 2.0**-lattice.bits / n, unit))
        norm = "l1" if noise == "laplace" else "l2"
        if self.rows:
            unit = 2.0**lattice.bits / (self.rows * lattice.row_size(norm))
            blocks.append(Block(ROWS, 1, 2.0**-lattice.bits / n, unit))
        if neighbors is Neighbors.REPLACE_ONE:
            moved = lattice.joint_sensitivity(norm, self.powers, self.outside, self.rows)
        else:
            moved = lattice.added_sensitivity(norm, self.powers, self.rows)
        return JointIntegers(TOGETHER, tuple(blocks), moved, moved, share)

    def exact(self, lattice: RowLattice, moments: Moments) -> dict[str, Any]:
        """Return the exact integers of the stage, or of its blocks, by name."""
        # If rows may be missing, even powers are measured from a point between their bounds.
        none = (0, lattice.even_center if self.rows else 0) * 2
        found = {
            name: sums - moments.rows * center
            for name, sums, weight, center in zip(POWERS, moments.powers, self.powers, none, strict=False)
            if weight
        }
        if self.rows:
            found[ROWS] = moments.rows << lattice.bits
        if self.outside:
            found[OUTSIDE] = moments.outside << lattice.bits
        return found if len(found) == 1 else {TOGETHER: found}


def flat(released: Mapping[str, Any]) -> dict[str, NDArray[np.float64]]:
    """Return the released values by name: of a stage, or of a block in a stage with several."""
    return {
        name: values
        for stage, item in released.items()
        for name, values in (item.items() if isinstance(item, Mapping) else [(stage, item)])
    }


def sum_integers(name: str, lattice: RowLattice, step: Columns, share: float = 1.0) -> Integers:
    """Return the integers of a stage that releases the sum of the rows; ``step`` is a lattice step in its units."""
    l1, l2 = lattice.sensitivity("l1"), lattice.sensitivity("l2")
    return Integers(name, lattice.n_features, frozen(step), l1, l2, share)


def mean_integers(lattice: RowLattice, n: int, share: float = 1.0) -> Integers:
    """Return the integers of a stage that releases the mean of n rows."""
    return sum_integers(MEAN, lattice, lattice.spacing / n, share)


def squares_integers(lattice: RowLattice, n: int, share: float = 1.0) -> Integers:
    """Return the integers of a stage that releases the mean square of n rows about the center."""
    l1, l2 = lattice.square_sensitivity("l1"), lattice.square_sensitivity("l2")
    return Integers(SQUARES, lattice.n_features, frozen(lattice.square_spacing / n), l1, l2, share)


def finest(made: Callable[[int], Made]) -> Made:
    """Build an object with the most bits for which noise can be drawn: a public choice."""
    for bits in range(BITS, _COARSEST, -4):
        try:
            return made(bits)
        except ScaleOutOfRange:
            continue
    return made(_COARSEST)


def frozen(numbers: Columns) -> float | tuple[float, ...]:
    """Return a number, or numbers per column, as a plan holds them."""
    return float(numbers) if np.ndim(numbers) == 0 else tuple(np.asarray(numbers).tolist())


Numbers = NDArray[np.float64]


def population_ends(low: Numbers, high: Numbers, std: Numbers, a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
    """Return limits of the population mean, if the mean of rows clipped to [a, b] lies in [low, high].

    ``std`` is an upper bound on the standard deviation of the rows before they are clipped. A limit is infinite if
    the clipped mean may equal the bound a or b on its side.

    >>> import numpy as np
    >>> one = np.ones(1)
    >>> low, high = population_ends(0 * one, 5.9 * one, one, -6 * one, 6 * one)
    >>> high.round(2)  # at the end of the clip nothing is known of what is beyond it
    array([8.4])
    """
    return -_upper(-low, std, -b, -a), _upper(high, std, a, b)


def _upper(high: Numbers, std: Numbers, a: Numbers, b: Numbers) -> Numbers:
    # A rounding error may put ``high`` outside [a, b].
    room, above = b - high, np.maximum(high - a, 0.0)
    with np.errstate(all="ignore"):
        near = high + std**2 / (4 * room)
        far = a + std * np.sqrt(above / room)
        return np.where(room > 0, np.where(std**2 <= 4 * room * above, near, far), np.inf)


def population_bias_in_ball(
    distance: float,  # upper limit of how far the mean of the clipped rows is from the center
    offset: Numbers,  # (n_features,): the same in each column
    # Shape (n_features,). Upper bounds on the standard deviations of the rows before they are clipped.
    std: Numbers,
    radius: float,
) -> Numbers:
    """Return the largest distance of each column's mean from the mean of rows clipped to a ball.

    Returns
    -------
    array of shape (n_features,)
        Infinite if no bound exists.
    """
    _, kappa = _population_norm(distance, std, radius)
    if kappa >= 1:
        return np.full(offset.shape, np.inf)
    nu = _population_offset(kappa, offset, std)
    result: Numbers = kappa * np.sqrt(std**2 + nu**2)
    return result


def clipped_variance_in_ball(distance: float, offset: Numbers, std: Numbers, radius: float) -> Numbers:
    """Return bounds on the variances of the columns of rows clipped to a ball.

    Clipping can raise the variance of a column: it moves an entry if another entry of its row is large. Parameters
    are as in `population_bias_in_ball`.

    >>> import numpy as np
    >>> std = np.array([0.1, 5.0])
    >>> near, far = np.array([0.2, 0.2]), np.array([6.0, 0.2])
    >>> clipped_variance_in_ball(0.3, near, std, 10.0).round(3)  # the rows of the first column are near the center
    array([1.200e-02, 2.501e+01])
    >>> clipped_variance_in_ball(6.0, far, std, 10.0).round(1)
    array([ 8.9, 25. ])
    """
    total = float(np.sum(std**2))
    far, kappa = _population_norm(distance, std, radius)
    if kappa >= 1:
        return np.full(offset.shape, total)
    # (1 - R/t)+ <= 4 t^2/27 R^2, tangent at t = 3R/2.
    share = min(1.0, 4 * (total + far**2) / (27 * radius**2))
    nu = _population_offset(kappa, offset, std)
    return np.minimum(total, std**2 + share * nu**2)


def _population_norm(distance: float, std: Numbers, radius: float) -> tuple[float, float]:
    """Return a bound on the norm of the population mean, and kappa, which is at least 1 if no bound exists."""
    room, spread = radius - distance, float(np.sum(std**2))
    if room <= 0:
        return math.inf, math.inf
    inner = 4 * radius * room - spread
    r = 2 * radius - math.sqrt(inner) if inner >= 0 else math.inf
    if not spread + r**2 <= 4 * radius**2:
        r = (spread - room**2) / (2 * room)
    return r, math.sqrt(spread + r**2) / (4 * radius)


def _population_offset(kappa: float, offset: Numbers, std: Numbers) -> Numbers:
    """Return bounds on the population means of the columns: |mu| <= offset + kappa sqrt(std^2 + mu^2)."""
    result: Numbers = (offset + kappa * np.sqrt(offset**2 + std**2 * (1 - kappa**2))) / (1 - kappa**2)
    return result


@dataclass(frozen=True, eq=False)
class Score(ErrorDistribution):
    """Score tests of the means of some columns, each between public bounds."""

    estimate: Numbers  # (d,): the noisy mean, unbiased
    noise: Added  # its noise
    # Number of rows that the estimate averages: degrees of freedom.
    n: int
    low: Numbers  # (d,): public bounds of the means
    high: Numbers
    # Bound on the variance of a row, given its mean: `Known`, `About` or `OfSquares`.
    variance: Callable[[Numbers], Numbers]
    # Largest bias of the estimate by rounding of entries, which counts like sampling error.
    rounding: Numbers | float = 0.0

    @property
    def start(self) -> Numbers:
        """The estimate, moved into the box.

        The move increases no distance to a value in the box. So it adds no rejected values, and the nearest bound is
        never rejected.
        """
        return np.clip(self.estimate, self.low, self.high)

    @property
    def box(self) -> Limits:
        return self.low, self.high

    def tails(self, value: Numbers) -> Limits:
        """Return the probabilities of an estimate this small, and of one this large, where the mean is ``value``."""
        return self._tails(value - self.start, value), self._tails(self.start - value, value)

    def _tails(self, distance: Numbers, value: Numbers) -> Numbers:
        spread = np.sqrt(self.variance(value) / self.n + self.rounding**2)
        return error_tails(distance, spread, self.noise.law, np.asarray(self.noise.scale))


@dataclass(frozen=True)
class Known:
    """The variance where the standard deviation is bounded by public numbers."""

    std: Numbers
    clip: Numbers

    def __call__(self, value: Numbers) -> Numbers:
        return np.clip(self.std**2, 0, (self.clip - value) * (self.clip + value))


@dataclass(frozen=True)
class About:
    """The variance from noisy first and second moments, and the standard deviations of their noise.

    The second moment about m is Q - 2mT + m^2, computed from the release. If most rows are at a bound, their variance
    is proportional to the distance of their mean from it, as for rare counts. The variance is therefore raised in
    proportion for values further from a bound than the estimate is. Entries within the clip have a variance of at
    most (clip - m)(clip + m).
    """

    first: Numbers
    second: Numbers
    first_std: Numbers
    second_std: Numbers
    clip: Numbers

    def __call__(self, value: Numbers) -> Numbers:
        clip = self.clip
        start = np.clip(self.first, -clip, clip)
        noise = np.hypot(self.second_std, 2 * value * self.first_std)
        found = np.maximum(self.second - 2 * value * self.first + value**2 + RAISED * noise, 0.0)
        largest = np.maximum((clip - value) * (clip + value), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            further = np.maximum((value + clip) / (start + clip), (clip - value) / (clip - start))
            # At a bound of the mean, only the largest variance applies.
            return np.where(np.isfinite(further), np.minimum(found * np.maximum(further, 1.0), largest), largest)


@dataclass(frozen=True)
class OfSquares:
    """The variance of squares whose own mean square is at most ``ratio`` times their mean."""

    ratio: Numbers

    def __call__(self, value: Numbers) -> Numbers:
        return np.maximum(value * (self.ratio - value), 0.0)


_FOR_DISTANCE = 0.1
"""Part of the error probability that is for the distance of the clipped mean from the center of the ball."""


@dataclass(frozen=True, eq=False)
class BoxErrors(ErrorDistribution):
    """Errors of the mean of rows that are clipped entry by entry, or of the clipped rows themselves."""

    score: ErrorDistribution  # about the center
    center: Numbers  # shape (d,)
    low: Numbers  # (d,): clipping bounds
    high: Numbers
    # Shape (d,). Bounds on the standard deviations of the rows before they are clipped. With it the limits
    # are of the population mean.
    std: Numbers | None

    @property
    def start(self) -> Numbers:
        return self.center + self.score.start

    @property
    def box(self) -> Limits:
        return (self.low, self.high) if self.std is None else super().box

    def limits(self, tail: Tail) -> Limits:
        low, high = self.score.limits(tail)
        low, high = np.maximum(self.center + low, self.low), np.minimum(self.center + high, self.high)
        if self.std is None:
            return low, high
        return population_ends(low, high, self.std, self.low, self.high)

    def tails(self, value: Numbers) -> Limits:
        return self.score.tails(value - self.center) if self.std is None else super().tails(value)


@dataclass(frozen=True, eq=False)
class BallErrors(ErrorDistribution):
    """Errors of the mean of rows clipped to a ball, from upper bounds on their standard deviations."""

    score: Score  # about the center
    center: Numbers  # shape (d,)
    std: Numbers  # (d,): bounds on the standard deviations of the rows before they are clipped
    radius: float
    population: bool  # whether the limits are for the population mean, or for the mean of the clipped rows

    @property
    def start(self) -> Numbers:
        return self.center + self.score.start

    @property
    def box(self) -> Limits:
        if self.population:
            return super().box
        return self.center + self.score.low, self.center + self.score.high

    def limits(self, tail: Tail) -> Limits:
        distance, offset = self._away(_FOR_DISTANCE * float(np.min(tail)))
        variance = clipped_variance_in_ball(distance, offset, self.std, self.radius)
        score = replace(self.score, variance=Known(np.sqrt(variance), self.score.high))
        low, high = score.limits((1 - _FOR_DISTANCE) * tail)
        if not self.population:
            return self.center + low, self.center + high
        offset = np.maximum(np.abs(low), np.abs(high))
        bias = population_bias_in_ball(distance, offset, self.std, self.radius)
        return self.center + low - bias, self.center + high + bias

    def _away(self, tail: float) -> tuple[float, Numbers]:
        """Return limits of how far the mean of the clipped rows is from the center, in norm and in each column.

        They hold together with probability 1 - 2 tail: a third of it each for the norms of the sampling error and of
        the noise, and for one column.
        """
        score, d = self.score, self.std.size
        # Projection brings no two rows further apart: the variances of the columns add up to no more than before.
        spread = math.sqrt(float(np.sum(self.std**2)) / score.n)
        scale = np.full(d, score.noise.scale)
        # Of normal vectors whose variances add up to the same, one on a line is most often this far out.
        sampling = -float(ndtri(tail / 3)) * spread
        noise = half_widths(tail / (3 * d), np.zeros(d), score.noise.law, scale)
        one = half_widths(tail / 3, np.full(d, spread), score.noise.law, scale)
        distance = float(np.linalg.norm(score.estimate)) + sampling + float(np.linalg.norm(noise))
        return distance, np.minimum(np.abs(score.estimate) + one, distance)


_LEAST_TAIL = 1e-300


@dataclass(frozen=True, eq=False)
class ObservedSums:
    """Released sums over observed rows, in half-widths of the clip about its center."""

    rows: Numbers  # (1,): how many rows are observed, with noise
    rows_std: float  # the standard deviation of that noise
    # Shape (d,). Noisy sums of the powers 1 to 4; zeros for a power that is not released.
    sums: tuple[Numbers, ...]
    # Shape (d,). Standard deviations of their noise, without the part that is the noise of ``rows``.
    stds: tuple[Numbers, ...]
    # Factor of the noise of ``rows`` in each sum: the center that is subtracted from the power of a row.
    centers: tuple[float, ...]
    law: str  # one of "gaussian", "laplace"
    half_step: float  # largest rounding of an entry

    @classmethod
    def of(cls, values: Mapping[str, Numbers], plan: Any) -> ObservedSums:
        """Collect the releases of a plan with a clip, a lattice and a stage for the number of rows."""
        n, d, lattice = plan.divisor, plan.n_features, plan.lattice
        clip = np.full(d, plan.region.clip, dtype=np.float64)
        rows, rows_std = n * values[ROWS], n * float(np.max(plan.noise(ROWS).std))
        even = float(np.max(np.asarray(lattice.even_center) / np.asarray(lattice.largest)))
        centers, sums, stds = (0.0, even, 0.0, even), [], []
        for power, name in enumerate(POWERS):
            there, size = name in values, n / clip ** (power + 1)
            sums.append(size * values[name] + centers[power] * rows if there else np.zeros(d))
            stds.append(size * np.asarray(plan.noise(name).std) if there else np.zeros(d))
        half_step = float(np.max(0.5 / np.asarray(lattice.largest)))
        return cls(rows, rows_std, tuple(sums), tuple(stds), centers, plan.noise(ROWS).law, half_step)

    @property
    def counted(self) -> Numbers:
        """The number of rows that averages are over: at least the standard deviation of its noise."""
        return np.maximum(self.rows, max(self.rows_std, 2.0))

    def ratio(self) -> Ratio:
        """Return the ratios that estimate the means."""
        (T, Q, *_), (total, square, *_), N = self.sums, self.stds, self.rows
        center, count = self.centers[1], self.rows_std
        noise = NoiseApart(
            total,
            count,
            np.hypot(square, center * count),
            total,
            count,
            center * count**2,
            laplace=float(np.max(total)) if self.law == "laplace" else 0.0,
        )
        return Ratio(T, N, Q, T, N, noise, bias=self.half_step)

    def averages(self) -> tuple[dict[str, Numbers], dict[str, Numbers]]:
        """Return the average of every power, and the variance of its noise."""
        n = self.counted
        values = {name: total / n for name, total in zip(POWERS, self.sums, strict=True)}
        variances = {
            name: (std**2 + ((center - values[name]) * self.rows_std) ** 2) / n**2
            for name, std, center in zip(POWERS, self.stds, self.centers, strict=True)
        }
        return values, variances


@dataclass(frozen=True, eq=False)
class SquareErrors(ErrorDistribution):
    """Errors of mean squares of observed rows about their mean, or about the center, in squared half-widths.

    A value v is refuted by the noisy sum of (x - m)^2 - v over observed rows, whose mean is 0 if v is right.
    """

    released: ObservedSums
    mean: Numbers  # (d,): the points that squares are measured from
    shift: Numbers  # (d,): how far from the center that may be, for the noise
    bias: Numbers  # (d,): amount by which the noise of ``mean`` lowers a sum of squares
    correction: Numbers  # (1,): the factor of an average of squares
    ratio: Numbers  # (d,): bound on the mean fourth power over the mean square
    unit: Numbers  # (d,): the squared half-widths in the units of the data

    @property
    def start(self) -> Numbers:
        average = np.clip((self._total + self.bias) / self.released.counted, 0.0, 1.0)
        return self.unit * self.correction * average

    @property
    def box(self) -> Limits:
        # No column that stays within the clip has a larger second moment about any center inside it.
        return np.zeros(self.unit.shape), self.unit * self.correction

    @property
    def _total(self) -> Numbers:
        (T, Q, *_), N = self.released.sums, self.released.rows
        return np.asarray(Q - 2 * self.mean * T + self.mean**2 * N)

    def variance(self, value: Numbers) -> Numbers:
        """Return a bound on the variance of a squared deviation, in half-widths, if ``value`` is right."""
        average = value / (self.unit * self.correction)
        return np.asarray(np.maximum(average * (self.ratio - average), 0.0))

    def sampling_std(self, value: Numbers) -> Numbers:
        """Return the standard deviation of the sampling error, in the units of the data, if ``value`` is right."""
        return np.asarray(self.unit * self.correction * np.sqrt(self.variance(value) / self.released.counted))

    def noise_scales(self, value: Numbers, shift: Numbers) -> list[Numbers]:
        """Return the standard deviations of the parts of the noise in the statistic of ``value``."""
        average = value / (self.unit * self.correction)
        (total, square, *_), center = self.released.stds, self.released.centers[1]
        count = np.abs(center + shift**2 - average) * self.released.rows_std
        return [np.broadcast_to(part, average.shape) for part in (2 * np.abs(shift) * total, square, count)]

    def tails(self, value: Numbers) -> Limits:
        released, average = self.released, value / (self.unit * self.correction)
        distance = self._total + self.bias - average * released.rows
        most = np.maximum(released.rows + RAISED * released.rows_std, 0.0)
        curved = (2.0 if released.law == "gaussian" else 5.0) * self.bias**2
        sampling = most * self.variance(value) + curved
        parts = [
            np.maximum(near, far)
            for near, far in zip(
                self.noise_scales(value, np.abs(self.mean)), self.noise_scales(value, self.shift), strict=True
            )
        ]
        if released.law == "gaussian":
            std = np.sqrt(sampling + sum(part**2 for part in parts))
            z = distance / np.maximum(std, _LEAST_TAIL)
            return ndtr(z), ndtr(-z)
        tail = laplace_sum_tails(np.abs(distance), np.sqrt(sampling), [part / math.sqrt(2) for part in parts])
        tail = np.maximum(tail, _LEAST_TAIL)
        return np.where(distance < 0, tail, 1 - tail), np.where(distance > 0, tail, 1 - tail)


def calibrate_totals(
    region: Region, n_groups: int, d: int, epsilon: float, delta: float, neighbors: Neighbors, bits: int
) -> tuple[BoxLattice, Totals, tuple[Stage | JointStage, ...]]:
    """Return the lattice of the columns, the totals of groups on it, and the stages that release them."""
    lattice = BoxLattice.build(region.clip, region.center, d, common=False, bits=bits, ends=(region.low, region.high))
    totals = (GaussianTotals if delta else LaplaceTotals)(n_groups, d, bits, neighbors)
    return lattice, totals, additive_stages([totals.integers()], epsilon, delta, neighbors=neighbors)
