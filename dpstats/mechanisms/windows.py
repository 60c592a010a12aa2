"""From a column to bounds: one exact selection of a window among the floats, and the clip by counts in both tails.

Proof: docs/proofs/private-bounds.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.values import as_int64
from dpstats.release.groups import Runs

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

FINEST = 1 << 20
"""No window is finer than a 2^-20th of its distance from 0."""
SMALLEST, LARGEST = -900, 900
"""Widths are powers of 2 with these exponents: their centers, and clips around them, are floats."""
UTILITY_RANGE = 2
"""A replaced row raises the utility of one candidate by at most 1, and lowers another's by at most 1."""
NOT_FOUND = -1
"""The line of the candidate "not found"."""

_MOST = (11, 20)  # of the rows: a good window holds more, and no window an eighth as wide does
_EIGHTH = 3  # halvings from a window to an inner window
_LEAST = 32  # windows with fewer than this part of the rows count as having it
_ADVANTAGE = 8  # over epsilon: rows by which "not found" exceeds an empty window
_ATOMS = 3  # widths at which zeros count too, with a declared step
_PRIOR = 1 << 61
_NOT_FOUND_WEIGHT = 1 << 60


@dataclass(frozen=True)
class Candidates:
    """The public candidates: windows of width 2^k around j 2^(k-1), by k and j, and "not found".

    A line has the windows of one width. The last `_ATOMS` lines, with a step, count zeros too.

    Attributes
    ----------
    step : float, optional
        Spacing of the data. No window is narrower.
    low, high : float
        Rows are moved to this interval, and windows outside it are left out.
    """

    step: float | None = None
    low: float = -math.inf
    high: float = math.inf

    @property
    def finest(self) -> int:
        """Exponent of the narrowest windows."""
        return SMALLEST if self.step is None else round(math.log2(self.step))

    @cached_property
    def exponents(self) -> Integers:
        """Exponents of the widths of all lines."""
        widest = LARGEST
        if math.isfinite(self.high - self.low):
            # Wider windows hold the same rows.
            widest = min(math.ceil(math.log2(self.high - self.low)) + 2, LARGEST)
        lines = np.arange(self.finest, max(widest, self.finest + _EIGHTH) + 1)
        return as_int64(lines if self.step is None else np.append(lines, self.finest + np.arange(_ATOMS)))

    @property
    def atoms(self) -> int:
        """The first of the lines that count zeros too."""
        return self.exponents.size - (0 if self.step is None else _ATOMS)

    @cached_property
    def runs(self) -> tuple[Integers, Integers, Integers, Integers]:
        """Runs of windows with one prior weight: line, first and last place, and weight of each window."""
        return _public_runs(self)

    @property
    def count(self) -> int:
        """Number of candidates."""
        _, low, high, _ = self.runs
        return int((high - low + 1).sum()) + 1

    def window(self, line: int, place: int) -> tuple[float, float]:
        """Return the center and the width of a window."""
        k = int(self.exponents[line])
        return math.ldexp(place, k - 1), math.ldexp(1.0, k)

    def move(self, x: Floats) -> Floats:
        """Return rows moved to the public interval."""
        return np.asarray(np.clip(x, self.low, self.high))


def _public_runs(candidates: Candidates) -> tuple[Integers, Integers, Integers, Integers]:
    # Weights are constant between powers of 2, so that a line has few runs.
    edges: Integers = as_int64(1 << np.arange(FINEST.bit_length()))
    starts: Integers = np.concatenate([[-FINEST], -np.flip(2 * edges[:-1]) + 1, [-1], [0], edges])
    ends: Integers = np.append(starts[1:] - 1, FINEST)
    size = np.maximum(np.abs(starts), np.abs(ends)).tolist()
    place = np.array([_prior_place(one) for one in size])
    parts = []
    for number, k in enumerate(candidates.exponents.tolist()):
        weight = as_int64(np.maximum(np.floor(_PRIOR * _prior_scale(k, candidates) * place), 1))
        low, high = starts, ends
        if candidates.low > -math.inf:
            low = np.maximum(low, _bin(candidates.low, k - 1))
        if candidates.high < math.inf:
            high = np.minimum(high, _bin(candidates.high, k - 1) + 1)
        some = low <= high
        parts.append((np.full(int(some.sum()), number), low[some], high[some], weight[some]))
    line, low, high, weight = (as_int64(np.concatenate(column)) for column in zip(*parts, strict=True))
    return line, low, high, weight


def _prior_scale(k: int, candidates: Candidates) -> float:
    """Return the prior weight of a width: widths near 1, or near the step, are expected a little more."""
    if candidates.step is None:
        return 1 / (17 * (1 + abs(k) / 8) ** 2)
    return 1 / (3.5 * (1 + (k - candidates.finest) / 2) ** 2)


def _prior_place(size: int) -> float:
    """Return the prior weight of a place: windows near 0 are expected a little more."""
    if size == 0:
        return 1 / 6
    block = size.bit_length() - 1
    depth = block + 1.6
    return 1 / (9 * 2.0**block * depth * math.sqrt(depth))


def _bin(value: float, k: int) -> int:
    """Return the place of a number among bins of width 2^k, within the places of windows."""
    return int(_bins(np.array([value]), k)[0])


def _bins(x: Floats, k: int) -> Integers:
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.floor(np.ldexp(x, -k))
    # A negative number that underflows is still below 0.
    scaled = np.where(x < 0, np.minimum(scaled, -1.0), scaled)
    # Bins further away are in no window.
    return as_int64(np.clip(scaled, -2.0 * FINEST, 2.0 * FINEST))


class _Line(NamedTuple):
    """The windows of a line with more than the least number of rows, in order."""

    places: Integers
    counts: Integers


_EMPTY = _Line(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def window_utilities(x: Floats, candidates: Candidates, epsilon: float) -> Runs:
    """Return all candidates with their utility for the rows of a column: private.

    A good window holds more than 11/20 of the rows that are not 0, and no window an eighth as wide does. A
    replaced row changes either number of rows by at most 1.

    Parameters
    ----------
    x : array of shape (n,)
        Finite rows.
    candidates : Candidates
    epsilon : float
        Privacy parameter of the choice, which sets the utility of "not found".
    """
    x = candidates.move(np.asarray(x, dtype=np.float64))
    every = np.sort(x)
    other = every[every != 0]
    line, low, high, weight = candidates.runs
    most, least = _parts(other.size)
    heavy = _heavy_windows(other, candidates.exponents[: candidates.atoms], least)
    # Utilities of windows without many rows: by line.
    base = np.empty(candidates.exponents.size, dtype=np.int64)
    found: dict[int, _Line] = {}
    for place in range(candidates.atoms):
        windows = heavy.get(place, _EMPTY)
        inner = heavy.get(place - _EIGHTH, _EMPTY).counts
        # Without windows an eighth as wide, there is none that holds many rows.
        fullest = int(inner.max(initial=least)) if place >= _EIGHTH else 0
        base[place] = min(least - most, most - fullest)
        if windows.places.size:
            found[place] = _Line(windows.places, np.minimum(windows.counts - most, most - fullest))
    if candidates.step is not None:
        most_all, least_all = _parts(every.size)
        ties = _heavy_windows(every, candidates.exponents[candidates.atoms :], least_all)
        for place in range(_ATOMS):
            base[candidates.atoms + place] = least_all - most_all
            windows = ties.get(place, _EMPTY)
            found[candidates.atoms + place] = _Line(windows.places, np.minimum(windows.counts - most_all, most_all))
    utility = base[line]
    parts = [_split_runs(line, low, high, weight, utility, place, own) for place, own in sorted(found.items())]
    untouched = ~np.isin(line, list(found))
    parts.append(tuple(column[untouched] for column in (line, low, high, weight, utility)))
    nowhere = least - most + math.ceil(_ADVANTAGE / epsilon)
    parts.append(tuple(np.array([one]) for one in (NOT_FOUND, 0, 0, _NOT_FOUND_WEIGHT, nowhere)))
    line, low, high, weight, utility = (as_int64(np.concatenate(column)) for column in zip(*parts, strict=True))
    return Runs(line, low, high, utility, weight)


def _parts(rows: int) -> tuple[int, int]:
    """Return the number of rows that most rows are, and the least number that a window counts as having."""
    return _MOST[0] * rows // _MOST[1], rows // _LEAST


def _heavy_windows(x: Floats, exponents: Integers, least: int) -> dict[int, _Line]:
    """Return the windows with more than the least number of sorted rows, by line."""
    found: dict[int, _Line] = {}
    if not x.size:
        return found
    size = np.sort(np.abs(x))
    # Bins of narrower windows are too far out for most rows, and wider bins are on either side of 0.
    enough = float(size[min(least, size.size - 1)])
    smallest = math.frexp(enough)[1] - FINEST.bit_length() - 1 if enough else -math.inf
    largest = math.frexp(size[-1])[1] + 1
    both: _Line | None = None
    for place, k in enumerate(exponents.tolist()):
        if k < smallest:
            continue
        if both is None:
            line = _count_windows(_bins(x, k - 1), least)
            both = line if k - 1 > largest else None
        else:
            line = both
        if line.places.size:
            found[place] = line
    return found


def _count_windows(bins: Integers, least: int) -> _Line:
    """Return the windows of two neighboring bins, of sorted rows, that hold more than the least number."""
    first = np.flatnonzero(np.diff(bins, prepend=bins[0] - 1))
    value, count = bins[first], np.diff(np.append(first, bins.size))
    places, inverse = np.unique(np.concatenate([value, value + 1]), return_inverse=True)
    counts = as_int64(np.bincount(inverse, np.concatenate([count, count]), places.size))
    some = (counts > least) & (np.abs(places) <= FINEST)
    return _Line(places[some], counts[some])


def _split_runs(
    line: Integers, low: Integers, high: Integers, weight: Integers, utility: Integers, number: int, own: _Line
) -> tuple[Integers, ...]:
    """Return the runs of a line, split at the windows with many rows."""
    some = slice(*np.searchsorted(line, [number, number + 1]))
    starts, ends = low[some], high[some]
    if not starts.size:
        return tuple(column[some] for column in (line, low, high, weight, utility))
    inside = (own.places >= starts[0]) & (own.places <= ends[-1])
    places, values = own.places[inside], own.counts[inside]
    cuts = np.unique(np.concatenate([starts, places, places + 1]))
    cuts = cuts[cuts <= ends[-1]]
    utilities = np.full(cuts.size, utility[some][0])
    utilities[np.searchsorted(cuts, places)] = values
    weights = weight[some][np.searchsorted(starts, cuts, side="right") - 1]
    return np.full(cuts.size, number), cuts, np.append(cuts[1:] - 1, ends[-1]), weights, utilities


@lru_cache(maxsize=32)
def find_candidates(step: float | None, within: tuple[float, float] | None) -> Candidates:
    """Return the candidates of a step and a public interval, which are computed once."""
    low, high = (-math.inf, math.inf) if within is None else within
    return Candidates(step, low, high)


# From noisy counts of both tails to a clip: the bounds with the least expected log mean squared error.
# Everything here is post-processing of released counts. The tails of a column are one of many public families. Each has
# a posterior weight, given the noisy counts. The clip minimizes the average, over both tails' posteriors, of the
# logarithm of the mean squared error of a clipped mean at the remaining epsilon.


EDGES: Floats = 2.0 ** (np.arange(-8, 13) / 2)
"""Lower edges of the bins on each side, in widths of the window from its center. The last bin is open."""
REACH = 64.0
"""The furthest bound, in widths of the window from its center."""
BINS = 2 * EDGES.size + 1
"""Bins of a column: both sides, and one for exact zeros."""

_CLIPS: Floats = 2.0 ** (np.arange(-24, 49) / 8)  # candidate distances of a bound from the center
_DRAWS = 64  # from each posterior
_PAIRING = 37  # without a common factor with the draws: pairs of both tails
_MISFIT = 0.2  # relative error of the families, which are only roughly true
_HUBER = 1.4
_LUMPED = 0.02
"""Prior probability that a bin has a lump of further rows, such as outliers or a second cluster."""
_SIZES = 12  # of such a lump, from one row to all, equally spaced on a log scale
_LUMP_MISFIT = 0.4  # relative width of each of these sizes
_LUMP_AT: Floats = 2.0 ** (np.arange(1, 10, 2) / 20)  # places of its rows in the bin, over the lower edge
_FEW = 1e-4  # least variance of clipped rows, in squared widths
_ZEROS = 3 * math.sqrt(2)  # noisy zeros below this many scales of the noise are noise


def count_tails(x: Floats, center: float, width: float, *, whole: bool = False) -> Integers:
    """Return the rows above and below the center by their distance, and exact zeros: private.

    A row is in one bin or in none, and its bin depends on this row alone. ``whole`` adds a bin of all other rows.
    """
    with np.errstate(over="ignore"):
        t = (x - center) / width
    zero = x == 0
    other = t[~zero]
    # Rows within the first edge are in bin 0, which is not counted.
    up, down = (
        np.bincount(np.searchsorted(EDGES, side, side="right"), minlength=EDGES.size + 1)[1:]
        for side in (other, -other)
    )
    counts = np.concatenate([up, down, [np.count_nonzero(zero)]])
    return as_int64(np.append(counts, x.size - counts.sum()) if whole else counts)


class Clip(NamedTuple):
    """A chosen clip.

    Attributes
    ----------
    low, high : float
    below, above : float
        Noisy numbers of rows below ``low`` and above ``high``, in whole bins. NaN at a public limit.
    below_std, above_std : float
        Standard deviations of their noise.
    """

    low: float
    high: float
    below: float
    above: float
    below_std: float
    above_std: float


class _Families(NamedTuple):
    """Public families of tails, one per row: P(T > t), and its integrals.

    Attributes
    ----------
    bins : array of shape (families, bins)
        Probability of every bin.
    first, second : arrays of shape (families, clips)
        The part of the mean, and of the second moment, of a tail that is clipped at each distance.
    bias : array of shape (families, clips)
        The part of the mean that clipping takes away.
    log_prior : array of shape (families,)
    """

    bins: Floats
    first: Floats
    second: Floats
    bias: Floats
    log_prior: Floats


_GRID: Floats = np.concatenate([[0.0], np.geomspace(0.01, 3000, 1500)])
_SHAPES = ((0.5, 0.12), (0.7, 0.15), (1.0, 0.2), (1.4, 0.15), (2.0, 0.25), (3.0, 0.08), (7.0, 0.05))
_SCALES: Floats = 2.0 ** (np.arange(-10, 5) / 2)
_PARTS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def _list_families() -> Iterator[tuple[Floats, float]]:
    """Yield P(T > t) on the grid of every family, and its prior weight."""
    for shape, weight in _SHAPES:
        for scale in _SCALES.tolist():
            if shape < 1 and scale > 0.5:
                continue
            survival = np.exp(-((_GRID / scale) ** shape))
            for part in _PARTS:
                yield part * survival, weight / _SCALES.size / len(_PARTS)
    yield 0 * _GRID, 0.1
    yield (_GRID < 0.01).astype(np.float64), 0.02


@lru_cache(maxsize=1)
def _families() -> _Families:
    bins, first, second, bias, log_prior = [], [], [], [], []
    step, middle = np.diff(_GRID), (_GRID[1:] + _GRID[:-1]) / 2
    for survival, prior in _list_families():
        between = (survival[1:] + survival[:-1]) / 2
        mean = np.append(0.0, np.cumsum(between * step))
        at_edges = np.interp(EDGES, _GRID, survival)
        bins.append(np.append(at_edges[:-1] - at_edges[1:], at_edges[-1]))
        first.append(np.interp(_CLIPS, _GRID, mean))
        second.append(np.interp(_CLIPS, _GRID, np.append(0.0, np.cumsum(2 * middle * between * step))))
        bias.append(mean[-1] - first[-1])
        log_prior.append(math.log(prior))
    return _Families(*map(np.array, (bins, first, second, bias, log_prior)))


class _Tails(NamedTuple):
    """Draws of a tail from its posterior, as parts of the moments at every distance of a bound: see `_Families`."""

    first: Floats
    second: Floats
    bias: Floats


def _kernel(distance: Floats, spread: Floats) -> Floats:
    """Return a pseudo-Huber likelihood, up to a constant: the families are only roughly true."""
    return np.asarray(np.exp(-_HUBER * (np.sqrt(1 + (distance / spread) ** 2) - 1)) / spread)


def _draw_tails(noisy: Floats, n: float, scale: float, uniform: Floats) -> _Tails:
    """Return draws of a tail: a family at equally spaced quantiles of the posterior, and lumps in bins.

    Every bin has, with a small prior probability, further rows of any number. A second cluster, outliers and values
    that many rows share are in no family.
    """
    families = _families()
    expected = families.bins * n
    variance = 2 * scale**2 + expected + (_MISFIT * expected) ** 2
    sizes = np.exp(np.linspace(0.0, math.log(max(n, 2.0)), _SIZES))
    # Without a lump, and with one of each size: shape (families, bins, 1 + sizes).
    sizes = np.append(0.0, sizes)
    prior = np.append(1 - _LUMPED, np.full(_SIZES, _LUMPED / _SIZES))
    spread = np.sqrt(variance[:, :, None] + sizes + (_LUMP_MISFIT * sizes) ** 2)
    likelihood = prior * _kernel((noisy - expected)[:, :, None] - sizes, spread)
    of_bin = likelihood.sum(axis=2)
    total = np.log(of_bin).sum(axis=1) + families.log_prior
    cumulative = np.cumsum(np.exp(total - total.max()))
    places = (np.arange(_DRAWS) + 0.5) / _DRAWS * cumulative[-1]
    drawn = np.minimum(np.searchsorted(cumulative, places), total.size - 1)
    shares = np.cumsum(likelihood[drawn] / of_bin[drawn][:, :, None], axis=2)
    which = np.minimum((shares < uniform[:, :, None]).sum(axis=2), _SIZES)
    lumps = sizes[which] / n
    at = EDGES[:, None, None] * _LUMP_AT[:, None]
    inside = np.minimum(at, _CLIPS)
    return _Tails(
        families.first[drawn] + lumps @ inside.mean(axis=1),
        families.second[drawn] + lumps @ (inside**2).mean(axis=1),
        families.bias[drawn] + lumps @ (at - inside).mean(axis=1),
    )


@lru_cache(maxsize=1)
def _uniforms() -> tuple[Floats, Floats]:
    """Return fixed numbers that choose lumps, the same in every fit: the clip is a function of the releases."""
    below, above = np.random.default_rng(0).random((2, _DRAWS, EDGES.size))
    return below, above


def choose_clip(
    noisy: Floats,
    center: float,
    width: float,
    n: int,
    scale: float,
    later: float,
    ends: tuple[float, float] = (-math.inf, math.inf),
) -> Clip:
    """Return the clip for released counts of both tails.

    Parameters
    ----------
    noisy : array of shape (BINS,)
        Released counts of `count_tails`.
    center, width : float
        The chosen window.
    n : int
        Public number of rows.
    scale : float
        Scale of the Laplace noise of each count.
    later : float
        Standard deviation of the noise of a later mean, for a clip of width 1.
    ends : (float, float)
        Public limits of the clip.
    """
    size = EDGES.size
    zeros = float(noisy[-1])
    many_zeros = zeros > _ZEROS * scale
    rows = n - (zeros if many_zeros else 0.0)
    uniform = _uniforms()
    up = _draw_tails(noisy[:size], rows, scale, uniform[0])
    down = _draw_tails(noisy[size : 2 * size], rows, scale, uniform[1])
    order = np.arange(_DRAWS) * _PAIRING % _DRAWS
    down = _Tails(*(part[order] for part in down))
    bias = up.bias[:, :, None] + down.bias[:, None, :]
    mean = up.first[:, :, None] - down.first[:, None, :]
    variance = up.second[:, :, None] + down.second[:, None, :] - mean**2
    noise = (later * (_CLIPS[:, None] + _CLIPS[None, :])) ** 2
    # The logarithm: an average of the error itself would follow the widest posterior tail.
    loss = np.log(bias**2 + np.maximum(variance, _FEW) / n + noise).mean(axis=0)
    above, below = (int(k) for k in np.unravel_index(np.argmin(loss), loss.shape))
    low, high = center - float(_CLIPS[below]) * width, center + float(_CLIPS[above]) * width
    if many_zeros:
        low_zero, high_zero = min(low, 0.0), max(high, 0.0)
        # The further away 0 is, the surer it must be.
        if zeros > scale * (3 + 2 * math.log((high_zero - low_zero) / (high - low))):
            low, high = low_zero, high_zero
    low, high = max(low, ends[0]), min(high, ends[1])
    beyond = [
        add_far_bins(counts, distance / width, scale)
        for counts, distance in ((noisy[size : 2 * size], center - low), (noisy[:size], high - center))
    ]
    # No row is beyond a public limit, because rows are moved to it.
    (fewer, fewer_std), (more, more_std) = (
        (math.nan, math.nan) if bound == limit else pair
        for bound, limit, pair in zip((low, high), ends, beyond, strict=True)
    )
    return Clip(low, high, fewer, more, fewer_std, more_std)


def add_far_bins(counts: Floats, distance: float, scale: float) -> tuple[float, float]:
    """Return the noisy number of rows in the bins beyond a bound, and the standard deviation of its noise."""
    some = distance * (1 - 1e-9) <= EDGES
    if not some.any():
        return 0.0, 0.0
    return float(counts[some].sum()), math.sqrt(2 * int(some.sum())) * scale
