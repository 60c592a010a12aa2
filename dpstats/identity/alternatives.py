"""Alternatives to the null hypothesis: the direction of the mean, and its largest possible distance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_choice
from dpstats.errors import refuse
from dpstats.identity.whitening import Reference

LARGEST_DISTANCE = 1e6


def unit_vector(direction: Any, n_features: int) -> NDArray[np.float64]:
    """Return the unit vector of a direction."""
    if isinstance(direction, str):
        if check_choice("direction", direction, ["dense", "sparse"]) == "dense":
            return np.full(n_features, 1 / math.sqrt(n_features))
        return np.asarray(np.eye(1, n_features)[0])
    try:
        vector = np.asarray(direction)
    except ValueError:
        vector = np.array(None)
    numbers = vector.shape == (n_features,) and vector.dtype.kind in "iuf"
    vector = vector.astype(np.float64) if numbers else np.zeros(1)
    if not np.isfinite(vector).all() or not vector.any():
        raise refuse(
            "direction",
            given=direction,
            allowed=f"'dense', 'sparse' or {n_features} finite numbers that are not all zero",
        )
    vector = vector / np.abs(vector).max()
    result: NDArray[np.float64] = vector / np.linalg.norm(vector)
    return result


def farthest_distance(reference: Reference, unit: NDArray[np.float64]) -> float:
    """Return the largest distance that rows can have from the null in the direction of a unit vector."""
    if reference.signs_mean is None or reference.whitener is None:
        return math.inf
    moving = unit != 0
    room = (1 - np.sign(unit) * reference.signs_mean) * reference.whitener
    return float(np.min(room[moving] / np.abs(unit[moving])))


def norm_rate(distance: float, d: int, epsilon: float) -> float:
    """Return the order of the number of rows at which a released norm of the sum detects a distance.

    The rate of the tests that release one number of sensitivity sqrt(d): validation/rates/identity_tests.py.
    """
    a, e = distance, epsilon
    return float(math.sqrt(d) / a**2 + (d / (a**2 * e)) ** (2 / 3) + math.sqrt(d) / (a * e))
