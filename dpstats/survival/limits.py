"""Confidence limits of survival curves: pointwise, simultaneous, and of the times that they cross."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from dpstats.data.arithmetic import as_int64
from dpstats.survival.curves import Curves, PlacedCurves
from dpstats.survival.shapes import Floats

Pair = tuple[Floats, Floats]

N_DRAWS = 4000
_FEW_DRAWS = 10  # beyond which quantiles are extrapolated
_TAIL_DRAWS = 200  # whose mean excess gives the rate
_SMALLEST_TAIL = 1e-300
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
    """Return the two-sided critical value of a normal variable, at most 40."""
    return float(_normal(level))


def _normal(level: Floats | float) -> Floats:
    return np.asarray(np.clip(-ndtri((1 - np.asarray(level)) / 2), 0.0, 40.0))


@dataclass(frozen=True, eq=False)
class SimulatedErrors:
    """Sorted absolute errors of one curve, from which critical values of any level are read.

    Attributes
    ----------
    each : array of shape (draws, bins)
        Values in each usable bin.
    largest : array of shape (draws,)
        The largest over the usable bins.
    """

    each: Floats
    largest: Floats

    @classmethod
    def draw(cls, curves: Curves, release: int, cell_noise: Floats, seed: int = 0) -> SimulatedErrors:
        """Return the standardized errors of a curve; draws are public and have a fixed seed."""
        normals = np.random.default_rng(seed).normal(size=(len(cell_noise), curves.n_bins))
        last = int(curves.n_usable[release])
        sampling = curves.sampling_variance[release, :last]
        noise_variance = curves.noise_variance[release, :last]
        # The sampling error is a Brownian motion in the time of Greenwood's sum, scaled to the variance of the limits.
        greenwood = curves.greenwood[release, :last]
        motion = np.cumsum(normals[:, :last] * np.sqrt(np.diff(greenwood, prepend=0.0)), axis=1)
        spread = np.sqrt(np.where(greenwood > 0, greenwood, 1.0))
        errors = motion / spread * np.sqrt(sampling)
        if noise_variance.any():
            # The noise goes through the gradient.
            survival = np.clip(curves.survival[release, :last], 0.0, 1.0)
            errors = errors + curves.noise_errors(release, cell_noise)[:, :last] * survival
        total = np.sqrt(sampling + noise_variance)
        errors = np.abs(errors / np.where(total > 0, total, 1.0))
        return cls(np.sort(errors, axis=0), np.sort(errors.max(axis=1, initial=0.0)))

    def critical(self, level: Floats | float, n_bins: int) -> tuple[Floats, Floats]:
        """Return the critical values of pointwise limits (..., bins), and of the band (...), at levels.

        A pointwise one is the larger of the normal one and the simulated one.
        """
        levels = np.asarray(level, dtype=np.float64)
        normal = _normal(levels)
        pointwise = np.repeat(normal[..., None], n_bins, axis=-1)
        last = self.each.shape[1]
        pointwise[..., :last] = np.maximum(pointwise[..., :last], _quantiles(self.each, levels))
        # Bonferroni's inequality where the level has no draws beyond it.
        beyond = levels * (len(self.largest) + 1) > len(self.largest)
        many = np.where(beyond, _normal(1 - (1 - levels) / max(last, 1)), normal)
        return pointwise, BAND_FACTOR * np.maximum(_quantiles(self.largest, levels), many)


def _quantiles(ordered: Floats, levels: Floats) -> Floats:
    """Return the quantiles of sorted draws, on straight lines between them: shape (levels..., ordered[0]...)."""
    # At the highest levels there are few draws. There the tail falls exponentially, at the rate of the largest
    # draws. This is conservative: normal and Laplace errors and their sums have log-concave densities, with tails
    # that fall at least as fast.
    draws = len(ordered)
    last = draws + 1 - _FEW_DRAWS
    place = np.clip(levels * (draws + 1), 1, last)
    before = np.minimum(as_int64(place), draws - 1)
    shape = place.shape + (1,) * (ordered.ndim - 1)
    part = (place - before).reshape(shape)
    excess = ordered[-_TAIL_DRAWS:].mean(axis=0) - ordered[-_TAIL_DRAWS]
    tail = np.maximum(1 - levels, _SMALLEST_TAIL) * (draws + 1) / _FEW_DRAWS
    beyond = np.maximum(-np.log(tail), 0.0).reshape(shape)
    return np.asarray(ordered[before - 1] + part * (ordered[before] - ordered[before - 1]) + beyond * excess)


def critical_values(curves: Curves, cell_noise: Floats, level: float) -> Pair:
    """Return the critical values of pointwise limits (releases, bins) and of the band (releases, 1)."""
    found = [
        SimulatedErrors.draw(curves, release, cell_noise).critical(level, curves.n_bins)
        for release in range(len(curves.cells))
    ]
    pointwise, band = zip(*found, strict=True)
    return np.array(pointwise), np.array(band)[:, None]


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


class Crossing(NamedTuple):
    """When a limit of a curve of known shapes falls to a value.

    Attributes
    ----------
    time, earliest, latest : float
        For the estimated shape, and for the shapes of the events that the positions allow; infinite if not reached.
    """

    time: float
    earliest: float
    latest: float


_STEEP = 0.15
"""Hazard of a bin beyond which the mean position of events does not determine a quantile inside it well enough."""
_MEANS = (0.02, 0.98)


def shaped_crossing(
    curves: PlacedCurves, limit: Floats, edges: Floats, share: float, critical: float = 0.0
) -> Crossing:
    """Return when a limit (bins,) first falls to ``share``, for slopes within this many of their standard deviations.

    Inside a bin, events are spread as a power of the position or as a quadratic, of the same mean position.
    """
    heights = np.minimum.accumulate(np.append(1.0, limit))
    below = heights <= share
    if not below.any():
        return Crossing(np.inf, np.inf, np.inf)
    place = max(int(np.argmax(below)), 1) - 1
    start, end = float(edges[place]), float(edges[place + 1])
    if not curves.usable[0, place]:
        return Crossing(end, end, end)
    drop = heights[place] - heights[place + 1]
    part = float(np.clip((heights[place] - share) / drop, 0.0, 1.0)) if drop > 0 else 0.0
    slope, std = (float(each[0, place]) for each in (curves.shapes.slopes, curves.shapes.unknown_std))
    slopes = slope + critical * std * np.array([-1.0, 0.0, 1.0])
    means = np.clip(0.5 + slopes / 6, *_MEANS)
    # u^power has the mean power/(1 + power); late events are the mirror image.
    near = np.minimum(means, 1 - means)
    power = (1 - near) / near
    by_power = np.where(means <= 0.5, part**power, 1 - (1 - part) ** power)
    grid = np.linspace(0.0, 1.0, 201)
    by_line = [np.interp(part, grid - np.clip(each, -1, 1) * grid * (1 - grid), grid) for each in slopes]
    parts = np.array([by_power, by_line])
    times = start + (end - start) * parts
    middle = float(times[:, 1].mean())
    if curves.hazards[0, :, place].sum() > _STEEP:
        return Crossing(middle, start, end)
    return Crossing(middle, float(times.min()), float(times.max()))


def shaped_time_limits(
    curves: PlacedCurves, low: Floats, high: Floats, edges: Floats, share: float, level: float
) -> tuple[float, float]:
    """Return limits of the time at which a curve falls to ``share``, from pointwise limits of the survival (bins,).

    The unknown part of the shape inside a bin adds to the width in quadrature.
    """
    critical, end = normal_critical(level), float(edges[curves.n_usable[0]])
    first, last = (shaped_crossing(curves, limit, edges, share, critical) for limit in (low, high))
    estimate = np.where(curves.usable[0], np.clip(curves.survival[0], 0.0, 1.0), high)
    middle = shaped_crossing(curves, estimate, edges, share, critical)
    if not np.isfinite(middle.time):
        return min(first.earliest, end), last.latest
    before = max(first.time - first.earliest, middle.time - middle.earliest)
    after = middle.latest - middle.time
    if np.isfinite(last.latest):
        after = max(after, last.latest - last.time)
    below = middle.time - float(np.hypot(max(middle.time - first.time, 0.0), before))
    above = middle.time + float(np.hypot(max(last.time - middle.time, 0.0), after))
    return min(max(below, 0.0), end), above
