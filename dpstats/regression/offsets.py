"""The working distribution of offsets: a beta distribution between their bounds, with the released mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dpstats.regression.passes import Floats

Nodes = tuple[Floats, Floats]
"""Values and their weights."""

_CONCENTRATIONS = np.exp2(np.arange(-6.0, 8.5, 0.5))
"""Concentrations that a fit chooses from: from two values at the ends to nearly one value."""
_NODES = 5
_FORM = 0.25
"""Relative error of the logarithm of the mean exposure over the geometric mean."""
_CLOSEST = 1e-4
"""Least distance of a mean from the end of the range, in half-widths."""


def combine(first: Nodes, second: Nodes) -> tuple[tuple[float, float], ...]:
    """Return the values and weights of the sum of two independent numbers."""
    values = np.add.outer(first[0], second[0]).ravel()
    return tuple(zip(values.tolist(), np.outer(first[1], second[1]).ravel().tolist(), strict=True))


@dataclass(frozen=True)
class Offsets:
    """The working distribution of the offsets of rows.

    Attributes
    ----------
    half : float
        Half-width of the range of the offsets: 0 if rows have none.
    mean, noise : float
        Their released mean about the middle of the range, and its noise, in half-widths.
    concentration : float
        Sum of the two parameters over the sum for which the smaller one is 1.
    """

    half: float = 0.0
    mean: float = 0.0
    noise: float = 0.0
    concentration: float = 1.0

    @cached_property
    def nodes(self) -> Nodes:
        """Nodes of the distribution about the released mean, and their weights."""
        if self.half == 0:
            return np.zeros(1), np.ones(1)
        # With the concentration 1 exposures from 0 on have a density that is a power, or offsets the mirror image.
        near = 1 - max(1 - abs(self.mean), min(self.noise, 1.0), _CLOSEST)
        at, weights = _gauss_jacobi((1 + near) / (1 - near) * self.concentration, self.concentration)
        return self.half * math.copysign(1.0, self.mean) * (at - weights @ at), weights

    @property
    def error(self) -> float:
        """Standard deviation of the error of the log mean outcome because the form of the distribution is not known."""
        at, weights = self.nodes
        most = float(at.max())
        return _FORM * (most + math.log(float(weights @ np.exp(at - most))))

    def fit(self, expect: Callable[[Offsets], float], seen: float, noise: float) -> Offsets:
        """Return the distribution that best fits a noisy mean over rows, which ``expect`` predicts."""
        each = [replace(self, concentration=float(size)) for size in _CONCENTRATIONS]
        off = (np.array([expect(part) for part in each]) - seen) / noise
        # The weak preference decides if the mean does not depend on offsets, as the curvature for amounts.
        return each[int(np.argmin(off**2 + np.log(_CONCENTRATIONS) ** 2))]


def _gauss_jacobi(a: float, b: float) -> Nodes:
    """Return nodes on [-1, 1] of the beta distribution with density proportional to (1 + u)^(a - 1) (1 - u)^(b - 1)."""
    # Golub and Welsch: eigenvalues of the recurrence of the orthogonal polynomials. The weights add up to 1.
    k, total = np.arange(1.0, _NODES), a + b
    at = 2 * k + total - 2
    own = np.append((a - b) / total, (a - b) * (total - 2) / (at * (at + 2)))
    beside = 4 * k * (k + a - 1) * (k + b - 1) / (at**2 * (at + 1))
    beside *= np.append(1.0, (k[1:] + total - 2) / (at[1:] - 1))
    values, vectors = np.linalg.eigh(np.diag(own) + np.diag(np.sqrt(beside), 1) + np.diag(np.sqrt(beside), -1))
    return values, vectors[0] ** 2
