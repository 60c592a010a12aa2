"""A mean that releases the covariance first: its plan, its estimate and its errors.

Proofs: docs/proofs/ball-products.md, docs/intervals/covariance.md, "Means".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_columns
from dpstats.means.ball_products import BallProducts, Extension
from dpstats.means.boxed_errors import DeclaredBox
from dpstats.means.ellipsoid_plan import EllipsoidPlan, Step, Walk
from dpstats.means.ellipsoids import LEAST_SIGNAL, ROUND_MEAN, WIDER, Ellipsoid
from dpstats.means.staging import stage_curves
from dpstats.privacy.gaussian import gaussian_sigma

Numbers = NDArray[np.float64]

STAGE = "mean of white rows"
ROUNDS_SHARE = 0.45
"""Fraction of the squared mu for all rounds together."""
_FEWEST, _MOST = 3, 12
_RANGE = 1e-8
"""Least eigenvalue that the rounds find, over the square of the half-widths."""
_LARGEST_FLOOR = 0.2
"""Least eigenvalue that a round finds, over the largest: above it, rounds cannot be relied upon to find a shape."""
_COUNT_WEIGHTS = (2.0, 1.0, 0.5, 0.2, 0.1, 0.05)
"""Squared weights that the count of clipped rows may have."""
_LONGER = 1.02
_QUANTILE = 1.959963984540054
_CENTER = 2.0
"""Error of the last center, in standard errors of the estimate."""

OWN_TAILS = (
    "the tails of the rows are at most as heavy as normal tails with the same covariance, in each column and in the "
    "distance from the mean"
)
SYMMETRIC = (
    "the rows are symmetric about the mean, and at least as concentrated as normal rows of this covariance"
)


@dataclass(frozen=True)
class Whitening:
    """How a covariance is released before a mean: a function of public sizes."""

    n_rounds: int
    floor: float  # least eigenvalue that a round finds, over the largest
    radius2: float  # squared radius of the last ball, for white rows of variance 1
    slope: float  # derivative of the mean of clipped normal rows in their mean
    noise: float  # standard deviation of the noise of a mean of white rows of variance 1
    # Weight of the count of clipped rows. 0 without it.
    count: float

    @property
    def pays(self) -> bool:
        """Whether the rounds find the shape of the rows."""
        return self.floor <= _LARGEST_FLOOR

    @property
    def share(self) -> float:
        """Fraction of the squared mu for a round."""
        return ROUNDS_SHARE / self.n_rounds


def plan_whitening(n: int, d: int, epsilon: float, delta: float, tails: str) -> Whitening:
    """Return the rounds and the last ball for public sizes.

    Examples
    --------
    >>> from dpstats.means.whitened_plan import plan_whitening
    >>> [plan_whitening(n, 10, 1.0, 1e-6, "symmetric").pays for n in (1000, 5000)]
    [False, True]
    """
    mu = 1 / gaussian_sigma(epsilon, delta)
    rounds, floor = _plan_rounds(n, d, mu)
    curves = stage_curves(d, tails)
    noise = np.sqrt(curves.q) * 2 / (mu * math.sqrt(1 - ROUNDS_SHARE) * n) / curves.slope

    def lengths(count2: float) -> Numbers:
        # The count moves with the products: sqrt(2) becomes sqrt(2 + count^2).
        random = np.hypot(curves.spread / math.sqrt(n), noise * math.sqrt(1 + count2 / 2))
        # Where the slope is not 1, part of the error of the last center remains.
        return np.asarray(_QUANTILE * random + curves.constant + _CENTER * curves.shift * random)

    best = int(np.argmin(lengths(0.0)))
    count2 = 0.0
    if tails == "subgaussian":
        most = _LONGER * lengths(0.0)[best]
        count2 = next((c for c in _COUNT_WEIGHTS if lengths(c)[best] <= most), _COUNT_WEIGHTS[-1])
    return Whitening(
        rounds,
        floor,
        float(curves.q[best]),
        float(curves.slope[best]),
        float(noise[best]) * math.sqrt(1 + count2 / 2),
        math.sqrt(count2),
    )


def _plan_rounds(n: int, d: int, mu: float) -> tuple[int, float]:
    """Return the fewest rounds that find small eigenvalues, and the floor of a round."""
    floor = math.inf
    for count in range(_FEWEST, _MOST + 1):
        noise = (1 + ROUND_MEAN**2) / (mu * math.sqrt(ROUNDS_SHARE / count) * n)
        floor = math.sqrt(2 * d) * noise * WIDER * LEAST_SIGNAL * d
        if floor**count <= _RANGE:
            return count, floor
    return _MOST, floor


class Whitened(NamedTuple):
    """Public: the ellipsoids of the rounds, the radius of the last ball, and the products of the rows in it."""

    ellipsoids: list[Ellipsoid]
    radius: Numbers
    products: BallProducts


@dataclass(frozen=True)
class WhitenedMeanPlan(DeclaredBox, EllipsoidPlan):
    """The plan of an `AdaptiveMean` that releases the covariance first. All of it is public."""

    whitening: Whitening
    # The declared box for the mean, and upper bounds on the standard deviations.
    middle: float | tuple[float, ...]
    bound: float | tuple[float, ...]
    hard: bool
    std: float | tuple[float, ...]
    private_std: bool
    tails: str  # one of "subgaussian", "symmetric"
    missing: str  # one of "error", "center"

    law: ClassVar[str] = "gaussian"

    @property
    def extension(self) -> Extension:
        """Extension of rows in the last stage."""
        return mean_extension(self.n_features, self.whitening, self.bits)

    def last_step(self, found: Ellipsoid) -> Step:
        """Return the step of the last stage, for the ellipsoid that the rounds found."""
        radius = np.sqrt(found.squared_radius(self.whitening.radius2 / self.n_features))
        return Step(STAGE, self.extension, found, radius)

    def walk(self, release: Walk) -> Whitened:
        found = self.find_all(release)
        step = self.last_step(found[-1])
        return Whitened(found, step.radius, release(step))

    @property
    def assumption(self) -> str:
        """Description of the assumption of ``tails`` about the rows."""
        return {"subgaussian": OWN_TAILS, "symmetric": SYMMETRIC}[self.tails]

    @property
    def noise_ratio(self) -> float:
        """Ratio of the noise of a mean to its sampling error, for normal rows that are well whitened."""
        return self.whitening.noise * math.sqrt(self.n_samples)

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {
            "route": "covariance",
            "tails": self.tails,
            "assumption": self.assumption,
            "noise_ratio": self.noise_ratio,
        }

    def notes(self) -> list[str]:
        """Return the facts as text, one line each."""
        return [
            f"releases the covariance first, in {self.n_rounds} rounds: the noise has the shape of the rows",
            f"for normal rows the noise of a mean is {self.noise_ratio:.2g} times its sampling error",
            f"assumes that {self.assumption}",
        ]

    def warnings(self) -> list[str]:
        """Return warnings before a release: none, because the rounds find the shape of the rows."""
        return []

    def expected_error(self, std: float | Numbers | None = None) -> float:
        """Return the expected squared l2 error for normal rows that are well whitened.

        Parameters
        ----------
        std : float or array of shape (n_features,), optional
            Actual standard deviation of the columns. Default: the public bound.
        """
        actual = self.stds if std is None else check_columns("std", std, self.n_features, at_least=0)
        squares = np.broadcast_to(np.asarray(actual) ** 2, (self.n_features,))
        error = squares * (1 / self.n_samples + self.whitening.noise**2)
        return float(np.sum(np.minimum(error, self.half**2 / 3)))


def mean_extension(d: int, whitening: Whitening, bits: int) -> Extension:
    """Return the extension of rows in the last stage: products add no cost."""
    return Extension(d, 1.0, 0.0, bits, count=whitening.count)
