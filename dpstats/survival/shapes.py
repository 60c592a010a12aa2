"""Shapes of the events inside bins, from noisy sums of positions, and the numbers at risk that they imply.

A row that is censored inside a bin was at risk of a part of the bin's events only. The part depends on the positions of
the events. Let u and v be relative positions of events and of censored rows, X = sum(u - 1/2) and
Q = sum(v (1 - v)). With the event density 1 + b (2u - 1), the event probability of a bin is q = d/E' with

    E' = E - Q r,    r = (b + q (1 - b/2))/(1 - q (1/2 - b/4)) if b > 0, otherwise b + q/(1 - q/2).

Derivation: docs/intervals/survival.md. Arrays may have any leading axes, the bins are last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PRIOR_STD = 1.2
"""Standard deviation of slopes: noisy slopes are shrunk toward log(1 - q)/2, the slope of a constant hazard."""
MISFIT = 0.12
"""Error of a straight line as the shape of the events, as a fraction of its slope, with smooth censoring.

It is 0.1 to 0.15 for hazards t^-0.5 and for early peaks, if rows are censored at a rate of 1 a bin.
"""
LARGEST_SLOPE = 3.0  # of events that are all at one end of their bin
CROWDED = 1.5
"""Slope beyond which most events of a bin are near one end of it."""
_LARGEST_HAZARD = 0.95
_LEAST_EFFECTIVE = 0.3
_ROUNDS = 8


@dataclass(frozen=True, eq=False)
class Shapes:
    """Densities of events inside bins.

    Attributes
    ----------
    slopes : array
        b of the density 1 + b (2u - 1).
    known : array
        The weight of the positions in the slope, between 0 and 1. A shape that noise hides has the weight 0.
    effective : array
        E', the effective number at risk: q is d/E'.
    lost : array
        r, by which Q is multiplied in E'.
    per_event : array
        Derivative of the slope by X.
    """

    slopes: Floats
    known: Floats
    effective: Floats
    lost: Floats
    per_event: Floats

    @classmethod
    def fit(cls, events: Floats, at_risk: Floats, positions: Floats, noise_std: float) -> Shapes:
        """Return the shapes of events (..., bins) with positions (..., 2, bins). ``noise_std`` is of X.

        Iterations find the fixed point of slope and event probability, in turn.
        """
        at_risk = np.maximum(at_risk, 1.0)
        X, Q = positions[..., 0, :], limit_positions(positions[..., 1, :], at_risk)
        effective = at_risk
        for _ in range(_ROUNDS):
            hazard = np.clip(events / effective, 0.0, _LARGEST_HAZARD)
            found = np.maximum(hazard * at_risk, 1.0)
            known = PRIOR_STD**2 / (PRIOR_STD**2 + 36 * (noise_std**2 + found / 12) / found**2)
            # The late events of censored rows were not seen: the second summand is their share in the mean.
            slopes = 6 * X / found + 3 * Q / ((1 - hazard / 2) * at_risk)
            slopes = np.clip(slopes, -LARGEST_SLOPE, LARGEST_SLOPE)
            slopes = known * slopes + (1 - known) * np.log1p(-hazard) / 2
            lost = lost_exposure(slopes, hazard)
            least = np.maximum(_LEAST_EFFECTIVE * at_risk, events / _LARGEST_HAZARD)
            effective = np.maximum(at_risk - Q * lost, least)
        return cls(slopes, known, effective, lost, 6 * known / found)

    @property
    def hidden_std(self) -> Floats:
        """Standard deviation of the slope that noise hides."""
        return np.asarray(PRIOR_STD * np.sqrt(1 - self.known))

    @property
    def unknown_std(self) -> Floats:
        """Standard deviation of the slope that remains unknown, due to noise and shapes other than a straight line."""
        return np.hypot(self.hidden_std, MISFIT * self.slopes)


def lost_exposure(slopes: Floats, hazard: Floats) -> Floats:
    """Return r, by which Q is multiplied in E', for these slopes and hazards."""
    late = np.maximum(slopes, 0.0)
    lost = (late + hazard * (1 - late / 2)) / (1 - hazard * (0.5 - late / 4))
    return np.asarray(lost + np.minimum(slopes, 0.0))


def limit_positions(censored: Floats, at_risk: Floats) -> Floats:
    """Return sums of v (1 - v), limited to possible ones: E is at least the sum of v, and so three times the mean Q."""
    return np.clip(censored, 0.0, np.maximum(at_risk, 0.0) / 3)
