"""From noisy counts of both tails to a clip: the bounds with the least expected log mean squared error.

Everything here is post-processing of released counts. The tails of a column are one of many public families. Each has a
posterior weight, given the noisy counts. The clip minimizes the average, over both tails' posteriors, of the logarithm
of the mean squared error of a clipped mean at the remaining epsilon. Proof: docs/proofs/private-bounds.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.values import as_int64

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

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
