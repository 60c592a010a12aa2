"""Restricted mean survival times: areas under the curve, with their sampling error, noise and grid term."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.survival.curves import Curves

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Area:
    """The area under the curves of one group up to a time.

    Attributes
    ----------
    estimate : array of shape (releases,)
    variance : array of shape (releases,)
        Variance of the sampling error and the noise together.
    grid : array of shape (releases,)
        The area less the one on every second edge. It exceeds the error of the grid wherever the survival falls like a
        power of time: at 1 - c t^k it is 2^(1 + k) - 1 times that error.
    gradient : array of shape (releases, cells)
    reached : array of shape (releases,)
        Whether the curve is usable up to the time.
    """

    estimate: Floats
    variance: Floats
    grid: Floats
    gradient: Floats
    reached: NDArray[np.bool_]

    @classmethod
    def compute(cls, curves: Curves, edges: Floats, until: float, *, discrete: bool) -> Area:
        """Return the area up to ``until``, which is inside the horizon."""
        start, weights = area_weights(edges, until, discrete=discrete)
        heights = curves.survival
        estimate = start + heights @ weights
        grid = np.zeros(len(heights))
        if not discrete:
            full = np.hstack([np.ones((len(heights), 1)), heights])
            kept = np.unique([*range(0, len(edges), 2), len(edges) - 1])
            coarse = np.array([np.interp(edges, edges[kept], row[kept]) for row in full])
            grid = estimate - (start + coarse[:, 1:] @ weights)
        later = np.cumsum((weights * heights)[:, ::-1], axis=1)[:, ::-1]
        sampling = np.maximum((curves.increments * later**2).sum(axis=1), 0.0)
        gradient = np.einsum("rb,rbc->rc", weights * heights, curves.gradients)
        noise = np.maximum(((gradient @ curves.noise) * gradient).sum(axis=1), 0.0)
        needed = int(np.searchsorted(edges, until, side="right" if discrete else "left"))
        needed = min(needed - 1 if discrete else needed, curves.n_bins)
        return cls(estimate, sampling + noise, grid, gradient, curves.n_usable >= needed)


def area_weights(edges: Floats, until: float, *, discrete: bool) -> tuple[float, Floats]:
    """Return the weight of the survival at 0, and of that at the end of each bin, in the area up to ``until``.

    Between two edges the curve is a straight line; for discrete times it is a step.
    """
    widths = np.clip(until - edges[:-1], 0.0, np.diff(edges))
    if discrete:
        left, right = widths, np.zeros_like(widths)
    else:
        part = widths / np.diff(edges)
        left, right = widths * (2 - part) / 2, widths * part / 2
    weights = right.copy()
    weights[:-1] += left[1:]
    return float(left[0]), weights


def band_areas(low: Floats, high: Floats, edges: Floats, until: float) -> tuple[Floats, Floats]:
    """Return the areas under the limits (releases, bins) of a band, where the curve is not usable."""
    widths = np.clip(until - edges[:-1], 0.0, np.diff(edges))
    before = np.hstack([np.ones((len(high), 1)), high[:, :-1]])
    return low @ widths, before @ widths
