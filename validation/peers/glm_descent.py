"""Noisy gradient descent for log-linear models, with everything that it needs to know about the rows.

Full batches and clipped gradients of rows, as in Bassily, Smith and Thakurta (2014) and Abadi et al. (2016), with
momentum. It releases coefficients without standard errors. It is given what a user does not have: standardized columns,
the logarithm of the mean outcome as its start, and the step size and the clip that are best for the true coefficients.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEPS, AVERAGED, MOMENTUM = 40, 10, 0.7
STEP_SIZES = (0.05, 0.1, 0.2, 0.4, 0.8)
CLIPS = (0.75, 1.5, 3.0, 6.0)
"""Relative to the root mean square of the gradients of rows at the start, the most favourable unit."""


def descend(
    X: Floats,
    y: Floats,
    offset: Floats | float,
    weight: Callable[[Floats], Floats],
    mu: float,
    rng: np.random.Generator,
    step: float,
    clip: float,
) -> Floats:
    """Return parameters, intercept first, after `STEPS` steps that together are mu-GDP."""
    center, scale = X.mean(axis=0), X.std(axis=0)
    rows = np.column_stack([np.ones(len(X)), (X - center) / scale])
    n, p = rows.shape
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    theta, velocity, total = np.zeros((3, p))
    theta[0] = math.log(y.sum() / np.exp(offset * np.ones(n)).sum())
    bound = clip * _typical(rows, y, theta, offset, weight)
    noise = 2 * bound * math.sqrt(STEPS) / (n * mu)
    for t in range(STEPS):
        mean = np.exp(np.clip(rows @ theta + offset, -30, 30))
        residual = weight(mean) * (y - mean)
        np.clip(residual, -bound / lengths, bound / lengths, out=residual)
        gradient = rows.T @ residual / n + noise * rng.standard_normal(p)
        velocity = MOMENTUM * velocity + gradient
        theta = theta + step * velocity / np.mean(weight(mean) * mean)
        if t >= STEPS - AVERAGED:
            total += theta
    found = total / AVERAGED
    slopes = found[1:] / scale
    return np.append(found[0] - center @ slopes, slopes)


def _typical(rows: Floats, y: Floats, theta: Floats, offset: Floats | float, weight: Callable) -> float:
    mean = np.exp(rows @ theta + offset)
    return float(np.sqrt(np.mean((weight(mean) * (y - mean)) ** 2) * rows.shape[1]))


def settings() -> Iterator[tuple[float, float]]:
    """Return the step sizes and clips that are tried."""
    return itertools.product(STEP_SIZES, CLIPS)
