"""Cumulative incidences of competing causes, with Aalen's variance and the noise variance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.survival.curves import Curves

Floats = NDArray[np.float64]


def cumulative_incidence(curves: Curves, cause: int) -> tuple[Floats, Floats, Floats]:
    """Return the incidence of a cause after each bin, its sampling variance and its noise variance.

    Each has the shape (releases, bins). The incidence up to t has the derivative D by the hazard of bin j:
    S_{j-1} for the cause itself, less (F_t - F_j)/(1 - H_j) for each cause.
    """
    hazards = curves.hazards
    releases, n_causes, m = hazards.shape
    whole = np.minimum(hazards.sum(axis=1), 1 - 1e-9)
    before = np.hstack([np.ones((releases, 1)), curves.survival[:, :-1]])
    found = np.cumsum(before * hazards[:, cause], axis=1)
    at_risk = curves.effective
    sampling, noise = np.zeros_like(found), np.zeros_like(found)
    noisy = bool(curves.noise.any())
    for t in range(m):
        used = slice(0, t + 1)
        rest = (found[:, t, None] - found[:, used]) / (1 - whole[:, used])
        by_hazard = np.repeat(-rest[:, None], n_causes, axis=1)
        by_hazard[:, cause] += before[:, used]
        moved = (hazards[:, :, used] * by_hazard).sum(axis=1)
        spread = (hazards[:, :, used] * by_hazard**2).sum(axis=1) - moved**2
        sampling[:, t] = np.maximum((spread / at_risk[:, used] * curves.usable[:, used]).sum(axis=1), 0.0)
        if not noisy:
            continue
        # A cell that is at risk in the bins up to k takes moved/at_risk off in each of them.
        lost = np.zeros((releases, m))
        lost[:, used] = moved / at_risk[:, used] * curves.usable[:, used]
        of_positions = curves.position_variance(-lost)
        lost = np.cumsum(lost, axis=1)
        gained = np.zeros((releases, n_causes, m))
        gained[:, :, used] = by_hazard / at_risk[:, None, used] * curves.usable[:, None, used]
        of_events = (gained - lost[:, None]).reshape(releases, -1)
        gradient = np.hstack([of_events, np.zeros((releases, 1)), -lost])
        noise[:, t] = np.maximum(((gradient @ curves.noise) * gradient).sum(axis=1) + of_positions, 0.0)
    return found, sampling, noise
