"""Restricted mean survival times: areas under the curve, with their sampling error, noise and grid term."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.survival.curves import Curves, PlacedCurves, risk_sums
from dpstats.survival.incidences import Floats


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
        if isinstance(curves, PlacedCurves):
            return cls._compute_placed(curves, edges, until)
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

    @classmethod
    def _compute_placed(cls, curves: PlacedCurves, edges: Floats, until: float) -> Area:
        """Return the area under curves with positions, which needs a grid term in a part of a bin only."""
        # A bin of width h that begins at the survival S has the area h S (1 - q/2 + x), for any shape inside it.
        # Here x is q times the mean position of events less 1/2. Let c = 3 p^2 - 2 p^3. For a density on a straight
        # line, the area up to the part p of the bin is h S (p - q p^2/2 + c x).
        widths = np.diff(edges)
        part = np.clip((until - edges[:-1]) / widths, 0.0, 1.0)
        linear, shaped = part**2 / 2, 3 * part**2 - 2 * part**3
        shapes, usable, effective = curves.shapes, curves.usable, curves.effective
        hazard = curves.hazards.sum(axis=1)
        before = np.hstack([np.ones((len(hazard), 1)), curves.survival[:, :-1]])
        at_risk = np.where(usable, np.maximum(curves.at_risk, 1.0), 1.0)
        x = np.where(usable, hazard * shapes.slopes / 6, 0.0)
        height = widths * before
        pieces = height * (part - hazard * linear + shaped * x)
        later = np.cumsum(pieces[:, ::-1], axis=1)[:, ::-1] - pieces
        of_hazard = -later / (1 - hazard) - height * linear
        # Sampling error of the hazards at a given mean position of the events, and of that mean.
        of_number = of_hazard + height * shaped * shapes.slopes / 6
        sampling = hazard * (1 - hazard) / effective * of_number**2
        sampling = sampling + (height * shaped) ** 2 * hazard / (12 * effective)
        sampling = sampling + (height * shaped * hazard * shapes.hidden_std / 6) ** 2
        variance = np.maximum(np.where(usable, sampling, 0.0).sum(axis=1), 0.0)
        # By hazards d/E': through d and E', which is at risk in all earlier bins.
        per_at_risk = np.where(usable, -of_hazard * hazard / effective, 0.0)
        gradient = per_at_risk @ risk_sums(curves.n_bins, curves.n_causes)
        by_events = np.where(usable, of_hazard / effective, 0.0)
        gradient[:, : curves.n_causes * curves.n_bins] += np.tile(by_events, curves.n_causes)
        noise = ((gradient @ curves.noise) * gradient).sum(axis=1)
        positions = np.where(usable, height * shaped * shapes.known / at_risk, 0.0)
        noise = np.maximum(noise + curves.position_variance(per_at_risk, positions), 0.0)
        reached = curves.n_usable >= int(np.searchsorted(edges, until, side="left"))
        # A part of the last bin needs the shape, and only its mean is known.
        inside = (part > 0) & (part < 1)
        grid = (height * shaped * x * inside).sum(axis=1)
        return cls(pieces.sum(axis=1), variance + noise, grid, gradient, reached)


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
