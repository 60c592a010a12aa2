"""Private principal components, and the eigenvalues of a population along directions that noise has turned.

Proofs: docs/proofs/ball-products.md, docs/intervals/covariance.md, "Eigenvalues".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr, chdtrc

Floats = NDArray[np.float64]

_MOST_TURNED = 0.25
"""Expected squared sine of the angle of a direction, above which its eigenvalue is not identified."""


def find_eigenvalues(
    variance: Floats,  # (k,): variances along the released directions, and their standard errors
    error: Floats,
    values: Floats,  # (d,): released eigenvalues, in decreasing order
    entry_std: float,  # standard deviation of the noise of the released matrix, above the diagonal
    n: int,  # number of rows
) -> tuple[Floats, Floats]:
    """Return estimates of the leading eigenvalues, and their standard errors: infinite if they are not identified."""
    d, k = len(values), len(variance)
    others = ~np.eye(k, d, dtype=bool)
    size = np.maximum(values, 0.0)
    gap = np.where(others, values[:k, None] - values, 1.0)
    sampling, noise = size[:k, None] * size / n, entry_std**2
    turned = noise + sampling

    def add(parts: Floats) -> Floats:
        return np.asarray(np.where(others, parts, 0.0).sum(axis=1))

    with np.errstate(divide="ignore", invalid="ignore"):
        # Noise turns a direction away from the largest variance. The sample's own direction has more than the
        # population's.
        lost = add(noise * gap / (gap**2 + 2 * noise))
        gained = add(sampling * gap / (gap**2 + 2 * turned))
        unsure = add(turned / np.sqrt(gap**2 + turned)) / 2
        angle = add(turned / (gap**2 + 2 * turned))
    known = (angle <= _MOST_TURNED) & (values[:k] > np.sqrt(2 * d) * entry_std)
    return variance + lost - gained, np.where(known, np.hypot(error, unsure), np.inf)


def shrunk_share(k: int, radius2: float) -> float:
    """Return the variance of normal scores that are shrunk into a ball, over their own."""
    return float(chdtr(k + 2, radius2) + radius2 / k * chdtrc(k, radius2))
