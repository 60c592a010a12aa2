"""From the values of blocks to an estimate: their location, clipped sums, and the distribution of the errors.

Values are whole steps of a public lattice of the box, and every comparison with a candidate is exact. Proofs:
docs/proofs/statistic.md, docs/intervals/statistic.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import gammainc, ndtr, poch

from dpstats.data.values import as_int64, quiet
from dpstats.inference.error_distributions import ErrorDistribution, Limits, Tail, least_tail
from dpstats.release.groups import Runs
from dpstats.statistic.isolation import LINKS

Integers = NDArray[np.int64]

VALUE_BITS = 40
"""The half-width of the box is 2^40 steps."""
SCALES = 50
"""Scales: the half-width of the box divided by 2^(j/2), for j = 0, ..., 49."""
UTILITY_RANGE = 2
"""A replaced value raises the utility of one candidate by at most 1, and lowers another's by at most 1."""

_WIDE = 2.0  # of the outer window, in scales
_NARROW = 0.6  # width of the inner windows, in scales
_OUTSIDE = 0.190  # of normal values: P(|z| <= 2) - P(|z| > 0.3)
_FULLEST = 0.8  # by which the fullest window exceeds that about the center, in square roots of the values
_TIED = 0.15  # of the values: up to this fraction of equal values count in a window
_INSIDE = 0.9545  # of normal values: P(|z| <= 2)
_PRIOR_BITS = 45
_WHOLE = 1 << VALUE_BITS


@dataclass(frozen=True)
class Box:
    """A public interval that holds the values, in whole steps from its origin.

    The origin is the number of the interval that is nearest to 0: values near it are expected a little more.
    """

    low: float
    high: float

    @property
    def origin(self) -> float:
        return min(max(0.0, self.low), self.high)

    @property
    def step(self) -> float:
        return (self.high / 2 - self.low / 2) / _WHOLE

    @property
    def ends(self) -> tuple[int, int]:
        """The bounds in steps."""
        low, high = self._steps(np.array([self.low, self.high])).tolist()
        return int(low), int(high)

    def in_steps(self, values: NDArray[np.float64]) -> Integers:
        """Return values as steps from the origin, those outside as the nearest end, and NaN as the origin."""
        return as_int64(np.clip(np.where(np.isnan(values), 0.0, self._steps(values)), *self.ends))

    def _steps(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        half = self.high / 2 - self.low / 2
        with quiet():
            return np.rint((values / 2 - self.origin / 2) / half * (2.0 * _WHOLE))


def spacing_of(line: NDArray[np.int64]) -> Integers:
    """Return the distance of neighboring centers on each line, in steps: half of the line's scale."""
    return _spacings()[line]


def n_candidates(ends: tuple[int, int]) -> int:
    """Return the number of (scale, center) pairs for values between these ends."""
    return sum(len(_places(line, ends)) for line in range(SCALES))


def locations(
    steps: Integers,  # (k,): result of `Box.in_steps`
    ends: tuple[int, int],  # the bounds in steps, `Box.ends`
) -> Runs:
    """Return all candidates, (scale, center) pairs, with their utility for these values.

    A candidate has a high utility under three conditions. Many values lie within two scales of its center. No window
    of 0.6 scales holds too many of them, where of equal values at most 15% of all count. About as many values
    lie below the center as above. One value changes each of the three counts, and so their minimum, by at most 1.
    """
    values = np.sort(steps)
    # Many equal values would fill a window of any width, and leave tiny scales with the same utility as the right one.
    untied = values[_count_ties(values) < max(1, round(_TIED * values.size))]
    lines = [_line(line, values, untied, ends) for line in range(SCALES)]
    number = np.repeat(np.arange(SCALES), [len(parts[0]) for parts in lines])
    low, high, utility, weight = (np.concatenate(column) for column in zip(*lines, strict=True))
    return Runs(number, low, high, utility, weight)


def _count_ties(values: Integers) -> Integers:
    """Return for each of some sorted values how many equal ones stand before it."""
    return as_int64(np.arange(values.size) - np.searchsorted(values, values))


def _line(
    line: int, values: Integers, untied: Integers, ends: tuple[int, int]
) -> tuple[Integers, Integers, Integers, Integers]:
    """Return the runs of a scale's centers: first and last place, utility and weight."""
    spacing = int(_spacings()[line])
    places = _places(line, ends)
    limits, weights = _prior(line, ends)
    k, half = values.size, (values.size + 1) // 2
    below, above = values // spacing, -((-values) // spacing)
    reach = round(2 * _WIDE)
    # The outer window holds a value from the place `first` to the place before `end`.
    first, end = above - reach, below + reach + 1
    starts: Integers = np.concatenate([first, end, below + 1, above, limits])
    # A few sorted parts: merging them is faster than hashing, which np.unique does.
    starts = np.sort(starts[(starts >= places.start) & (starts < places.stop)], kind="stable")
    starts = starts[np.append(True, starts[1:] != starts[:-1])]

    def count_up_to_starts(places: Integers) -> Integers:
        return as_int64(np.searchsorted(places, starts, side="right"))

    many = count_up_to_starts(first) - count_up_to_starts(end)
    # The fullest of all windows of this width begins at a value.
    width = int(2 * _NARROW * spacing)
    fullest = int((np.searchsorted(untied, untied + width, side="right") - np.arange(untied.size)).max())
    spread = k - fullest + round(_OUTSIDE * k + _FULLEST * math.sqrt(k))
    left, right = count_up_to_starts(below + 1), k - count_up_to_starts(above)
    uneven = np.maximum(np.maximum(left, right) - half, 0)
    balance = round(_INSIDE * k + 0.4 * math.sqrt(k)) - uneven
    utility = np.minimum(np.minimum(many, spread), balance)
    return (starts, np.append(starts[1:] - 1, places.stop - 1), utility, weights[count_up_to_starts(limits) - 1])


@lru_cache(maxsize=1)
def _spacings() -> Integers:
    found = as_int64(np.rint(2.0 ** (VALUE_BITS - 1 - 0.5 * np.arange(SCALES))))
    found.setflags(write=False)
    return found


def _places(line: int, ends: tuple[int, int]) -> range:
    """Return the places of the centers of a line: those between the ends."""
    spacing = int(_spacings()[line])
    return range(-(-ends[0] // spacing), ends[1] // spacing + 1)


@lru_cache(maxsize=4 * SCALES)
def _prior(line: int, ends: tuple[int, int]) -> tuple[Integers, Integers]:
    """Return the places of a line at which the weight changes, and the weight from each of them on.

    Half of a line's weight is uniform. The other half is uniform within 2^l places of the origin, for every l
    alike: a box that is ten times too wide costs little.
    """
    places = _places(line, ends)
    far = max(-places.start, places.stop - 1)
    reaches = [0]
    while reaches[-1] < far:
        reaches.append(min(max(1, 2 * reaches[-1]), far))
    near = [range(max(-reach, places.start), min(reach + 1, places.stop)) for reach in reaches]
    unit = 0.5 * (1 << _PRIOR_BITS) / SCALES
    limits = sorted({end for each in near for end in (each.start, each.stop)} - {places.stop})
    weights = [
        round(unit / len(places) + sum(unit / len(near) / len(each) for each in near if limit in each))
        for limit in limits
    ]
    return np.array(limits, dtype=np.int64), np.array(weights, dtype=np.int64)


Floats = NDArray[np.float64]
GRAINS = 1 << 20
"""Largest number of steps of a clipped value."""
BEND = 0.5
"""The size of a clipped value z is z^2 / (2 BEND) up to BEND, and |z| - BEND/2 beyond it: the function of Huber.

Squares give the standard deviation of values of any shape, also if many are equal and some are far from them. Absolute
values give the standard deviation of normal values, with less noise. Squares up to a half widen intervals by 1% in
the median cell of the study, and by 5% in the worst.
"""
LARGEST_SIZE = int((1 - BEND / 2) * GRAINS)
SIZE_UNIT = math.nextafter(1 / math.sqrt(3), 1.0)
"""Unit of sums of sizes relative to the other two under Gaussian noise, so that they get less noise."""

_LARGEST_MEAN, _LARGEST_ABSOLUTE = 0.9, 0.93
LEAST_STD = 0.05
"""Smallest standard deviation of the normal distribution that sums are solved for, in units of the clip."""
_LARGEST_STD = math.log(4.0)
_LEAST_EXCESS = 0.001  # of the mean size over the size of the mean
_ROUNDS = 60
_FURTHER_ROUNDS = 30  # for the location alone
_ONE_SIDED, _NOT_SMALL = 0.87, 0.1  # standard deviations of the center from the mean, and clips
_LARGEST_TAIL = 0.5 - 1e-9
_LARGEST_SHIFT = 30.0  # of a skewness and a bias, in standard errors
_LEAST_SKEWNESS = 0.01  # below it, the Edgeworth shift is exact enough


def sums(
    steps: Integers,  # (k,): values on the lattice of the box
    failed: NDArray[np.bool_],  # shape (k,)
    center: Integers,  # shape (draws,)
    reach: NDArray[Any],  # (draws,): distance from the center at which a value is clipped, in steps
) -> Integers:
    """Return the sum, the sum of sizes and the number of failures, in grains: of shape (draws, 3).

    A failed block counts as (0, the largest size, 1), so that a block moves the three together by at most 2.
    """
    ratio = (steps - center[:, None]) / reach[:, None]
    clipped = as_int64(np.rint(np.clip(ratio, -1.0, 1.0) * GRAINS))
    clipped[:, failed] = 0
    size = np.where(failed, LARGEST_SIZE, _sizes(clipped))
    count = np.full(center.size, int(failed.sum()) * GRAINS)
    return np.stack([clipped.sum(axis=1), size.sum(axis=1), count], axis=1)


def _sizes(clipped: Integers) -> Integers:
    """Return the sizes of values in grains.

    Two of them differ by at most as many grains as the absolute values, since each is rounded down.
    """
    absolute, bend = np.abs(clipped), int(BEND * GRAINS)
    return as_int64(np.where(absolute <= bend, absolute * absolute // (2 * bend), absolute - bend // 2))


_EDGES = np.array([[-1.0], [-BEND], [BEND], [1.0]])


class Parts(NamedTuple):
    """Parts of a distribution: its mass below -1 and above 1, and E x^j in the pieces between -1, -BEND, BEND and 1."""

    low: Floats
    high: Floats
    inside: list[Floats]  # for j = 0, 1, ..., of shape (3, draws)


class Means(NamedTuple):
    """E z and E g, for z = clip(x, -1, 1) and its size g(z), with their derivatives if x is normal.

    They are by the mean of x and by the logarithm of its standard deviation.
    """

    mean: Floats
    size: Floats
    mean_by_location: Floats
    mean_by_scale: Floats
    size_by_location: Floats
    size_by_scale: Floats


class Moments(NamedTuple):
    """E z^2, E g^2, E zg, and the derivatives of E z and E g by the skewness of x, by an Edgeworth expansion."""

    square: Floats
    size_square: Floats
    product: Floats
    mean_by_skewness: Floats
    size_by_skewness: Floats


def normal_parts(location: Floats, scale: Floats, powers: int = 2) -> Parts:
    """Return the parts of normal distributions, with moments up to this power."""
    u = (_EDGES - location) / scale
    below, density = ndtr(u), _density(u)
    standard = [np.diff(below, axis=0), -np.diff(density, axis=0)]
    for power in range(2, powers + 1):
        density = u * density
        standard.append((power - 1) * standard[power - 2] - np.diff(density, axis=0))
    inside = [
        sum((math.comb(j, i) * location ** (j - i) * scale**i * standard[i] for i in range(j + 1)), np.zeros(1))
        for j in range(powers + 1)
    ]
    return Parts(below[0], 1 - below[3], inside)


def means(parts: Parts, location: Floats) -> Means:
    """Return E z and E g of a distribution."""
    zero, one, two = parts.inside[:3]
    all_zero, all_one = zero.sum(axis=0), one.sum(axis=0)
    beyond = one[2] - one[0]
    by_location = one[1] / BEND + zero[2] - zero[0]
    return Means(
        all_one - parts.low + parts.high,
        LARGEST_SIZE / GRAINS * (parts.low + parts.high)
        + two[1] / (2 * BEND)
        + beyond
        - BEND / 2 * (zero[0] + zero[2]),
        all_zero,
        all_one - location * all_zero,
        by_location,
        two[1] / BEND + beyond - location * by_location,
    )


def moments(location: Floats, scale: Floats) -> Moments:
    """Return further moments of a normal distribution that is clipped to [-1, 1]."""
    low, high, inside = normal_parts(location, scale, 4)
    zero, one, two, three, four = inside
    half, largest = BEND / 2, LARGEST_SIZE / GRAINS
    far_zero, far_one, far_two = (power[0] + power[2] for power in (zero, one, two))
    sign_one, sign_two = one[2] - one[0], two[2] - two[0]

    def differentiate(slopes: Sequence[Floats]) -> Floats:
        flat, tilted, bent = slopes  # E g', E g'x and E g'x^2
        return np.asarray((bent - 2 * location * tilted + (location**2 - scale**2) * flat) / (6 * scale))

    return Moments(
        low + high + two.sum(axis=0),
        largest**2 * (low + high) + four[1] / (4 * BEND**2) + far_two - BEND * sign_one + half**2 * far_zero,
        largest * (high - low) + three[1] / (2 * BEND) + sign_two - half * far_one,
        differentiate([power.sum(axis=0) for power in inside[:3]]),
        differentiate([after[1] / BEND + power[2] - power[0] for power, after in itertools.pairwise(inside[:4])]),
    )


def _size(value: Any) -> Any:
    absolute = np.abs(value)
    return np.where(absolute <= BEND, absolute**2 / (2 * BEND), absolute - BEND / 2)


def _absolute(size: Floats) -> Floats:
    """Return the absolute value that has a size."""
    size = np.maximum(size, 0.0)
    return np.asarray(np.where(size <= BEND / 2, np.sqrt(2 * BEND * size), size + BEND / 2))


def solve(mean: Floats, size: Floats, least_std: float = LEAST_STD) -> tuple[Floats, Floats]:
    """Return the location and the scale of the normal distribution with E z and E g(z), by Newton's method.

    Means that no such distribution has are moved to the nearest ones that it can have. The scale is at least
    ``least_std``. If it is equal to it, E z alone gives the location.
    """
    mean = np.clip(mean, -_LARGEST_ABSOLUTE, _LARGEST_ABSOLUTE)
    size = np.clip(size, _size(mean) + _LEAST_EXCESS, _size(0.97))
    location, log_scale = mean.copy(), np.log(np.clip(_absolute(size), 0.1, 1.2))
    for _ in range(_ROUNDS):
        at = _normal_means(location, np.exp(log_scale))
        off_mean, off_size = mean - at.mean, size - at.size
        determinant = _determinant(at)
        step = (off_mean * at.size_by_scale - off_size * at.mean_by_scale) / determinant
        log_step = (at.mean_by_location * off_size - at.size_by_location * off_mean) / determinant
        location = np.clip(location + np.clip(step, -0.4, 0.4), -3, 3)
        log_scale = np.clip(log_scale + np.clip(log_step, -0.4, 0.4), math.log(least_std), _LARGEST_STD)
    for _ in range(_FURTHER_ROUNDS):
        # At the smallest scale the joint steps stop at a wrong location. Elsewhere these steps change nothing.
        at = _normal_means(location, np.exp(log_scale))
        step = (mean - at.mean) / np.maximum(at.mean_by_location, 0.05)
        location = np.clip(location + np.clip(step, -0.2, 0.2), -3, 3)
    return location, np.exp(log_scale)


class Noise(NamedTuple):
    """Noise of the sums, in units of the clip."""

    law: str  # one of "laplace", "gaussian"
    signed: float  # standard deviations
    sizes: float
    failures: float


class Located(NamedTuple):
    """Estimates from clipped sums of the blocks' values, in units of the clip around the released center."""

    mean: Floats  # mean and standard deviation of the values of blocks
    std: Floats
    variance: Floats  # variance of the error of ``mean``, and its excess kurtosis
    excess: Floats
    degrees: Floats  # degrees of freedom of the variance
    shift: Floats  # error of ``mean`` that a block skewness of 1 makes through the clip, in standard errors
    # Whether the center is near the values, and fewer than half of the blocks failed. If not, the sums are
    # not informative.
    found: NDArray[np.bool_]
    blocks: Floats  # approximate number of blocks that did not fail
    # Whether the standard deviation is the smallest allowed one, or nearly all of the sum has one sign. The
    # values of blocks may then be equal, or lie on one side of the center.
    one_sided: NDArray[np.bool_]

    @property
    def clipped_share(self) -> Floats:
        """Fraction of the values of blocks that the normal distribution has beyond the clip."""
        return np.asarray(ndtr((-1 - self.mean) / self.std) + ndtr((self.mean - 1) / self.std))


def located(released: Floats, n_blocks: int, noise: Noise, least_std: float = LEAST_STD) -> Located:
    """Estimate location and scale from the noisy sums of shape (draws, 3).

    The standard deviation of values is at least ``least_std``: sums of values on one side do not determine it.
    """
    failures = np.maximum(released[:, 2], 0.0)
    blocks = np.maximum(n_blocks - failures, n_blocks / 2)
    largest = LARGEST_SIZE / GRAINS
    mean, size = released[:, 0] / blocks, (released[:, 1] - largest * failures) / blocks
    location, scale = solve(mean, size, least_std)
    at, further = _normal_means(location, scale), moments(location, scale)
    determinant = _determinant(at)
    by_mean, by_size = at.size_by_scale / determinant, -at.mean_by_scale / determinant
    scale_by_mean, scale_by_size = (-at.size_by_location / determinant, at.mean_by_location / determinant)
    spread = (further.square - at.mean**2, further.size_square - at.size**2, further.product - at.mean * at.size)

    def sampling(first: Floats, second: Floats) -> Floats:
        return np.asarray((first**2 * spread[0] + 2 * first * second * spread[2] + second**2 * spread[1]) / blocks)

    # One failure more divides the sums by one block less, and is taken off the sum of sizes.
    of_failures = mean, size - largest

    def noises(first: Floats, second: Floats) -> list[Floats]:
        return [
            first * noise.signed / blocks,
            second * noise.sizes / blocks,
            (first * of_failures[0] + second * of_failures[1]) * noise.failures / blocks,
        ]

    own = sampling(by_mean, by_size)
    parts = noises(by_mean, by_size)
    variance = own + sum(part**2 for part in parts)
    # The fourth cumulant of Laplace noise is three times its squared variance.
    excess = sum(3 * part**4 for part in parts) / variance**2 if noise.law == "laplace" else 0 * variance
    of_scale = sampling(scale_by_mean, scale_by_size) + sum(part**2 for part in noises(scale_by_mean, scale_by_size))
    degrees = np.clip(2 / (4 * np.minimum(of_scale, 2) * (own / variance) ** 2), 3, 1e6)
    shift = by_mean * further.mean_by_skewness + by_size * further.size_by_skewness
    return Located(
        location,
        scale,
        variance,
        excess,
        degrees,
        np.abs(shift) / np.sqrt(variance),
        (np.abs(mean) <= _LARGEST_MEAN) & (size <= _size(_LARGEST_ABSOLUTE)) & (failures < n_blocks / 2),
        blocks,
        (scale <= least_std * (1 + 1e-9)) | ((np.abs(location) > _ONE_SIDED * scale) & (_absolute(size) > _NOT_SMALL)),
    )


def half_widths(at: Located, tail: Tail, skewness: float, bias: float = 0.0, *, one_sided: bool = False) -> Floats:
    """Return half of the width of an interval that leaves ``tail`` on either side, in units of the clip.

    Student's quantile accounts for the estimated variance, and a Cornish-Fisher term for the heavy tails of
    Laplace noise. The folded normal's quantile accounts for the largest shift that a block skewness of
    ``skewness`` causes, and a block bias of ``bias`` standard deviations of a value. An interval with one end must
    hold for a shift away from this end, so the whole shift counts.
    """
    tail = np.minimum(tail, _LARGEST_TAIL)
    z = stats.norm.isf(tail)
    quantile = np.maximum(stats.t.isf(tail, at.degrees) + (z**3 - 3 * z) / 24 * at.excess, 0)
    shift = np.minimum(_skewness_shift(at, skewness) + bias * at.std / np.sqrt(at.variance), _LARGEST_SHIFT)
    folded = np.sqrt(stats.ncx2.isf(2 * tail, 1, shift**2)) / z
    return np.asarray((quantile + shift if one_sided else quantile * folded) * np.sqrt(at.variance))


def _skewness_shift(at: Located, skewness: float) -> Floats:
    """Return the largest shift of the mean by a skewness of the values of blocks, in standard errors.

    The Edgeworth shift is 0 if the clip is far from the center. A gamma distribution of this skewness has values there,
    which the clip moves to one side, so the larger of the two shifts counts.
    """
    edgeworth = at.shift * skewness
    if skewness < _LEAST_SKEWNESS:
        return np.asarray(edgeworth)
    normal_ones = _normal_means(at.mean, at.std)
    determinant = _determinant(normal_ones)
    by_mean = normal_ones.size_by_scale / determinant
    by_size = -normal_ones.mean_by_scale / determinant
    shifts = [edgeworth]
    for sign in (1, -1):
        gamma = means(_gamma_parts(sign * at.mean, at.std, skewness), at.mean)
        mean, size = sign * gamma.mean, gamma.size
        off = by_mean * (mean - normal_ones.mean) + by_size * (size - normal_ones.size)
        shifts.append(np.abs(off) / np.sqrt(at.variance))
    return np.asarray(np.max(shifts, axis=0))


def _gamma_parts(location: Floats, scale: Floats, skewness: float) -> Parts:
    """Return the parts of gamma distributions with this mean, standard deviation and skewness."""
    shape = 4 / skewness**2
    unit = scale / math.sqrt(shape)
    start = location - shape * unit  # below all values
    u = np.maximum((_EDGES - start) / unit, 0.0)
    zero, one, two = (poch(shape, j) * gammainc(shape + j, u) for j in range(3))
    powers = zero, start * zero + unit * one, start**2 * zero + 2 * start * unit * one + unit**2 * two
    return Parts(zero[0], 1 - zero[3], [np.diff(below, axis=0) for below in powers])


def planned_half_width(
    n_blocks: int, clip: float, noise: Noise, tail: float, skewness: float, bias: float = 0.0
) -> float:
    """Return the half-width, in standard deviations of a value, that sums at their expectation have.

    The values are normal, and the released center and scale are their mean and standard deviation.
    """
    scale = np.array([1 / clip])
    expected = _normal_means(np.zeros(1), scale).size * n_blocks
    at = located(np.stack([np.zeros(1), expected, np.zeros(1)], axis=1), n_blocks, noise)
    return float(clip * half_widths(at, tail, skewness, bias)[0])


def _normal_means(location: Floats, scale: Floats) -> Means:
    return means(normal_parts(location, scale), location)


def _determinant(at: Means) -> Floats:
    found = at.mean_by_location * at.size_by_scale - at.mean_by_scale * at.size_by_location
    return np.asarray(np.where(np.abs(found) < 1e-6, 1e-6, found))


def _density(x: Floats) -> Floats:
    return np.asarray(np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))


@dataclass(frozen=True, eq=False)
class BlockErrors(ErrorDistribution):
    """Errors of the mean of the blocks' values."""

    located: Located  # of every output, in units of the clip
    unit: Floats  # (p,): the clip, on the scale of the link
    # Shape (p,). The estimates on that scale; NaN where the values were not located.
    center: Floats
    bounds: Floats  # (p, 2): of the values, on that scale
    link: str | None
    skewness: float  # largest skewness of a block's value
    bias: float = 0.0  # largest bias of a block's value, in its standard deviations

    def mapped(self, values: Floats) -> Floats:
        """Return numbers on the scale of the link as numbers of the statistic, without an axis for one output."""
        inverse = LINKS[self.link][1]
        found = np.array([inverse(value) for value in np.ravel(values)])
        return found.reshape(() if found.size == 1 else np.shape(values))

    @property
    def start(self) -> Floats:
        middle = self.bounds.mean(axis=1)
        return self.mapped(np.where(self.located.found, self.center, middle))

    @property
    def box(self) -> Limits:
        return self.mapped(self.bounds[:, 0]), self.mapped(self.bounds[:, 1])

    def limits(self, tail: Tail) -> Limits:
        return self._reach(tail, one_sided=True)

    def interval(self, tail: Tail) -> Limits:
        return self._reach(tail, one_sided=False)

    def two_sided(self, value: Floats) -> Floats:
        return two_sided(self, value)

    def _reach(self, tail: Tail, one_sided: bool) -> Limits:
        half = self.unit * half_widths(self.located, tail, self.skewness, self.bias, one_sided=one_sided)
        low, high = self.bounds.T
        found = self.located.found
        below = np.where(found, np.clip(self.center - half, low, high), low)
        above = np.where(found, np.clip(self.center + half, low, high), high)
        return self.mapped(below), self.mapped(above)


@dataclass(frozen=True, eq=False)
class DifferenceErrors(ErrorDistribution):
    """Errors of the difference of two independent statistics, by the limits of both (Zou and Donner 2008)."""

    first: BlockErrors
    second: BlockErrors

    @property
    def start(self) -> Floats:
        return np.asarray(self.first.start - self.second.start)

    @property
    def box(self) -> Limits:
        (low, high), (other_low, other_high) = self.first.box, self.second.box
        return np.asarray(low - other_high), np.asarray(high - other_low)

    def limits(self, tail: Tail) -> Limits:
        return self._combine(self.first.limits(tail), self.second.limits(tail))

    def interval(self, tail: Tail) -> Limits:
        return self._combine(self.first.interval(tail), self.second.interval(tail))

    def two_sided(self, value: Floats) -> Floats:
        return two_sided(self, value)

    def _combine(self, first: Limits, second: Limits) -> Limits:
        (low, high), (other_low, other_high) = first, second
        own, other = self.first.start, self.second.start
        below = np.hypot(own - low, other_high - other)
        above = np.hypot(high - own, other - other_low)
        return np.asarray(own - other - below), np.asarray(own - other + above)


def two_sided(errors: ErrorDistribution, value: Floats) -> Floats:
    """Return the p-values of two-sided tests: the least levels whose intervals exclude a value."""

    def excluded(tail: Floats) -> NDArray[np.bool_]:
        low, high = errors.interval(tail)
        return np.asarray((value < low) | (value > high))

    tail = least_tail(excluded, np.shape(value))
    return np.asarray(np.where(np.isnan(tail), 1.0, np.minimum(2 * tail, 1.0)))
