"""Confidence limits of survival curves: pointwise, simultaneous, and of the times that they cross."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpstats.survival.curves import Curves

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]

N_DRAWS = 4000
BAND_FACTOR = 1.02
"""The factor on the simulated critical value of a band. Without it the coverage is 0.936 to 0.956."""


def score_limits(estimate: Floats, size: Floats, noise_variance: Floats, critical: Floats) -> Pair:
    """Return the limits of {s: (estimate - s)^2 <= z^2 (s (1 - s)/size + noise variance)} in [0, 1]."""
    squared = critical**2
    q = squared / size
    curvature, half, constant = 1 + q, estimate + q / 2, estimate**2 - squared * noise_variance
    root = np.sqrt(np.maximum(half**2 - curvature * constant, 0.0))
    return np.clip((half - root) / curvature, 0.0, 1.0), np.clip((half + root) / curvature, 0.0, 1.0)


def limits(curves: Curves, critical: Floats) -> Pair:
    """Return limits at the end of each bin; beyond the usable range 0 and its last upper limit."""
    estimate = np.clip(curves.survival, 0.0, 1.0)
    low, high = score_limits(estimate, curves.effective_size, curves.noise_variance, critical)
    last = np.maximum(curves.n_usable - 1, 0)[:, None]
    carried = np.where(curves.n_usable[:, None] > 0, np.take_along_axis(high, last, axis=1), 1.0)
    return np.where(curves.usable, low, 0.0), np.where(curves.usable, high, carried)


def normal_critical(level: float) -> float:
    """Return the two-sided critical value of a normal variable."""
    return float(-ndtri((1 - level) / 2))


def simulated_errors(curves: Curves, release: int, cell_noise: Floats, normals: Floats) -> Floats:
    """Return draws of the standardized error of a curve on its usable bins: shape (draws, bins).

    The sampling error is a Brownian motion in the time of Greenwood's sum, scaled to the variance that the limits use.
    The noise goes through the gradient.
    """
    last = int(curves.n_usable[release])
    sampling = curves.sampling_variance[release, :last]
    noise_variance = curves.noise_variance[release, :last]
    greenwood = curves.greenwood[release, :last]
    motion = np.cumsum(normals[:, :last] * np.sqrt(np.diff(greenwood, prepend=0.0)), axis=1)
    spread = np.sqrt(np.where(greenwood > 0, greenwood, 1.0))
    errors = motion / spread * np.sqrt(sampling)
    if noise_variance.any():
        survival = np.clip(curves.survival[release, :last], 0.0, 1.0)
        errors = errors + (cell_noise @ curves.gradients[release, :last].T) * survival
    total = np.sqrt(sampling + noise_variance)
    return np.asarray(errors / np.where(total > 0, total, 1.0))


def critical_values(curves: Curves, cell_noise: Floats, level: float, seed: int = 0) -> Pair:
    """Return the critical values of pointwise limits (releases, bins) and of the band (releases, 1).

    A pointwise one is the larger of the normal one and the simulated one. Draws are public and have a fixed seed.
    """
    normal = normal_critical(level)
    pointwise = np.full(curves.survival.shape, normal)
    band = np.full((len(pointwise), 1), normal)
    draws = len(cell_noise)
    normals = np.random.default_rng(seed).normal(size=(draws, curves.n_bins))
    place = min(math.ceil(level * (draws + 1)), draws) - 1
    for release, last in enumerate(curves.n_usable.tolist()):
        if not last:
            continue
        errors = np.abs(simulated_errors(curves, release, cell_noise, normals))
        each = np.partition(errors, place, axis=0)[place]
        pointwise[release, :last] = np.maximum(each, normal)
        largest = float(np.partition(errors.max(axis=1), place)[place])
        band[release] = BAND_FACTOR * max(largest, normal)
    return pointwise, band


def monotone(low: Floats, high: Floats) -> Pair:
    """Return the limits of a band made monotone, as the curve is: this loses no coverage."""
    return (
        np.maximum.accumulate(low[:, ::-1], axis=1)[:, ::-1],
        np.minimum.accumulate(high, axis=1),
    )


def crossing_times(limit: Floats, edges: Floats, share: float, *, discrete: bool) -> Floats:
    """Return when a limit (releases, bins) first falls to ``share``; infinite where it does not.

    Between two edges the limit is a straight line. Discrete times are edges.
    """
    heights = np.minimum.accumulate(np.hstack([np.ones((len(limit), 1)), limit]), axis=1)
    below = heights <= share
    place = np.maximum(np.argmax(below, axis=1), 1)
    row = np.arange(len(limit))
    before, after = heights[row, place - 1], heights[row, place]
    drop = before - after
    part = np.where(drop > 0, (before - share) / np.where(drop > 0, drop, 1.0), 0.0)
    start, end = edges[place - 1], edges[place]
    times = end if discrete else start + (end - start) * np.clip(part, 0.0, 1.0)
    return np.where(below.any(axis=1), times, np.inf)


def time_limits(curves: Curves, low: Floats, high: Floats, edges: Floats, q: float, discrete: bool) -> Pair:
    """Return limits of the q-quantile of the time to the event, from pointwise limits of the survival."""
    share = 1 - q
    first = crossing_times(low, edges, share, discrete=discrete)
    # The release says nothing beyond the usable range: a lower limit is at most its last edge.
    first = np.minimum(first, edges[curves.n_usable])
    return first, crossing_times(high, edges, share, discrete=discrete)
