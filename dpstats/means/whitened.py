"""A mean that releases the covariance first: its plan, its estimate and its errors.

Proofs: docs/proofs/ball-products.md, docs/intervals/covariance.md, "Means".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_columns
from dpstats.inference.error_distributions import Tail, normal_quantile
from dpstats.means.adaptive_estimate import ASSUMPTIONS, MUCH_SHORTER, SURPRISE
from dpstats.means.adaptive_radii import QUANTILE, WIDEST, stage_curves, unclipped
from dpstats.means.boxed_errors import BoxedErrors, DeclaredBox, Screen, biased_normal_quantile, mean_in_box
from dpstats.means.ellipsoids import (
    LEAST_SIGNAL,
    ROUND_MEAN,
    WIDER,
    BallProducts,
    Ellipsoid,
    EllipsoidPlan,
    Extension,
    Step,
    Walk,
)
from dpstats.means.ratio import RAISED
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
_CENTER = 2.0
"""Error of the last center, in standard errors of the estimate."""

OWN_TAILS = (
    "the tails of the rows are at most as heavy as normal tails with the same covariance, in each column and in the "
    "distance from the mean"
)
SYMMETRIC = "the rows are symmetric about the mean, and at least as concentrated as normal rows of this covariance"


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
    >>> from dpstats.means.whitened import plan_whitening
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
        return np.asarray(QUANTILE * random + curves.constant + _CENTER * curves.shift * random)

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
    """Return the extension of rows in the last stage. Products have no additional cost."""
    return Extension(d, 1.0, 0.0, bits, count=whitening.count)


_LIMIT = 2.33
"""Standard errors of upper limits."""


@dataclass(frozen=True, eq=False)
class WhitenedMean:
    """Public: estimate, errors and notes of a mean with a private covariance."""

    plan: WhitenedMeanPlan
    found: Whitened

    @cached_property
    def white(self) -> Numbers:
        """Matrix from white rows to the units of the data."""
        return np.asarray(self.plan.frame.half[:, None] * self.found.ellipsoids[-1].unwhitening)

    @cached_property
    def units(self) -> Numbers:
        """Matrix from rows of the unit ball to the units of the data."""
        return np.asarray(self.white * self.found.radius)

    @property
    def centers(self) -> Numbers:
        """Centers that the rounds found: shape (n_rounds, d)."""
        frame = self.plan.frame
        return np.stack([frame.center + frame.half * found.center for found in self.found.ellipsoids])

    @cached_property
    def shift(self) -> Numbers:
        """Estimate of the mean, less the last center."""
        return np.asarray(self.units @ self.found.products.mean / self.plan.whitening.slope)

    @property
    def estimate(self) -> Numbers:
        return np.asarray(self.centers[-1] + self.shift)

    @property
    def stage_means(self) -> Numbers:
        return np.vstack([self.centers, self.estimate])

    @property
    def mean(self) -> Numbers:
        """The reported estimate, in the box."""
        return mean_in_box(self.estimate, self.error, *self.plan.box)

    @cached_property
    def lengths(self) -> Numbers:
        """Norms of the rows of ``units``."""
        return np.asarray(np.sqrt((self.units**2).sum(axis=1)))

    @cached_property
    def covariance(self) -> Numbers:
        """Released covariance of the shrunk rows."""
        return np.asarray(self.units @ self.found.products.covariance @ self.units.T)

    @cached_property
    def spread_noise(self) -> Numbers:
        """Standard deviations of the noise of the variances in ``covariance``."""
        found = self.found.products
        # The square of the noisy mean adds to the noise of the second moment.
        mean = self.units @ found.mean / self.lengths
        own = 2 * found.products_std**2 + 4 * mean**2 * found.mean_std**2 + 2 * found.mean_std**4
        return np.asarray(np.sqrt(own) * self.lengths**2)

    @cached_property
    def std(self) -> Numbers:
        """Upper limits of the standard deviations of the shrunk rows."""
        variance = np.maximum(np.diagonal(self.covariance), 0.0) + RAISED * self.spread_noise
        return np.asarray(np.sqrt(variance))

    @property
    def noise_std(self) -> Numbers:
        return np.asarray(self.found.products.mean_std * self.lengths / self.plan.whitening.slope)

    @property
    def noise_scale(self) -> Numbers:
        return self.noise_std

    @cached_property
    def error(self) -> Numbers:
        """Standard errors of the estimate: sampling of the shrunk rows, and noise."""
        sampling = self.std / self.plan.whitening.slope / math.sqrt(self.plan.n_samples)
        return np.hypot(sampling, self.noise_std)

    @property
    def error_covariance(self) -> Numbers:
        """Covariance matrix of the error of the estimate."""
        plan, noise = self.plan, self.found.products.mean_std
        values, vectors = np.linalg.eigh(self.found.products.covariance)
        spread = (vectors * np.maximum(values, 0.0)) @ vectors.T
        inner = (spread / plan.n_samples + noise**2 * np.eye(plan.n_features)) / plan.whitening.slope**2
        return np.asarray(self.units @ inner @ self.units.T)

    @cached_property
    def offset(self) -> Numbers:
        """Upper limits of the distances of the mean from the last center, but for the bias."""
        return np.asarray(np.abs(self.shift) + _LIMIT * self.error)

    @cached_property
    def variance(self) -> float:
        """Upper limit of the variance of white rows with normal tails, on average over the directions."""
        found, d = self.found.products, self.plan.n_features
        square = float(self.found.radius) ** 2
        noise = math.sqrt(2 / d) * found.products_std * square
        clipped = max(float(np.trace(found.covariance)) / d * square, 0.0) + 2 * noise
        about = self.white_offset2
        top = square / d * (1 - 1e-9)
        return float(unclipped(min(clipped + about, top), square, d)) - about

    @property
    def white_offset2(self) -> float:
        """Mean square of a column of the white mean about the last center, without its noise."""
        found, d = self.found.products, self.plan.n_features
        square = float(found.mean @ found.mean) - d * found.mean_std**2
        return max(square, 0.0) * float(self.found.radius) ** 2 / d

    @cached_property
    def screen(self) -> Screen | None:
        """What the count of clipped rows is judged by, where there is one."""
        plan, found = self.plan, self.found.products
        if found.outside is None:
            return None
        radius = float(self.found.radius)
        error = self.white_offset2 + (radius * found.mean_std) ** 2 + 1 / plan.n_samples
        return Screen(plan.n_samples, plan.n_features, radius, error, "gaussian", found.outside_std)

    @property
    def clipped_rows(self) -> float | None:
        outside = self.found.products.outside
        return None if outside is None else float(np.clip(outside, 0.0, self.plan.n_samples))

    @property
    def refuted(self) -> bool:
        """Whether more rows were clipped than the assumption about tails allows."""
        outside = self.found.products.outside
        return self.screen is not None and float(outside or 0.0) > self.screen.most(self.variance)

    @cached_property
    def wider(self) -> NDArray[np.bool_]:
        """Whether the released standard deviation of a column refutes the stated value."""
        variance = np.diagonal(self.covariance)
        # Var (shrunk x)^2 is at most the variance times the squared length of the ellipsoid in this direction.
        sampling = self.lengths * self.std / math.sqrt(self.plan.n_samples)
        return np.asarray(variance - SURPRISE * np.hypot(self.spread_noise, sampling) > self.plan.stds**2)

    @cached_property
    def share(self) -> float:
        """Upper limit of the probability that a row is clipped."""
        outside = self.found.products.outside
        return 1.0 if self.screen is None else self.screen.share(float(outside or 0.0))

    @cached_property
    def safe_bias(self) -> Numbers:
        """Bound on the bias for all rows of at most the stated standard deviation, by the count of clipped rows."""
        plan = self.plan
        share, reach = self.share, self.offset
        stated = np.where(self.wider, self.std, plan.stds) ** 2
        bias = np.full(plan.n_features, np.inf)
        if share < 1:
            # |E(x - shrunk x)| <= sqrt(p E x^2), and E x^2 = variance + nu^2 with nu <= reach + sqrt(p E x^2).
            root = np.sqrt(share * reach**2 + share * stated * (1 - share))
            distance = (reach + root) / (1 - share)
            bias = np.sqrt(share * (stated + distance**2))
        if plan.hard:
            # A row in the box is no further from its clipped point than from the center.
            bias = np.minimum(bias, share * (plan.half + np.abs(self.centers[-1] - plan.middle)))
        return np.asarray(bias)

    @cached_property
    def assumed_bias(self) -> Numbers:
        """Bound on the bias under the assumption on tails."""
        plan, d = self.plan, self.plan.n_features
        curves = stage_curves(d, plan.tails, WIDEST)
        ratio = float(self.found.radius) ** 2 / (self.variance + self.white_offset2)
        place = int(np.searchsorted(curves.q, ratio, side="right")) - 1
        if place < 0:
            return np.full(d, np.inf)
        here = curves.at(place)
        if plan.tails == "symmetric":
            # The true slope is between the slope for normal rows and 1.
            slope = min(float(here.slope), plan.whitening.slope)
            return np.asarray((1 / slope - 1) / slope * np.hypot(self.shift, self.error))
        return np.asarray(here.constant * np.hypot(self.std, self.offset))

    def estimands(self) -> dict[str, str]:
        """Return the descriptions of the estimands by name. The first is the default."""
        plan, mean = self.plan, "the population mean, if it is in the box and "
        if plan.tails == "symmetric":
            return {"population": mean + plan.assumption}
        found = {
            "population": mean + ASSUMPTIONS["variance"],
            "clipped": (
                "the mean of rows shrunk into a released ellipsoid, which is the population mean if rows are symmetric"
            ),
        }
        if self.refuted or self.screen is None:
            return found
        # A number of clipped rows that stays unnoticed, and the bias that these can cause.
        rows, _ = self.screen.unnoticed_at(self.variance)
        shift = math.sqrt(rows / self.plan.n_samples)
        return found | {
            "tails": f"{mean}{plan.assumption}; fewer than {rows:,} clipped rows would not be noticed, and could move "
            f"it by up to {shift:.2g} sd"
        }

    def errors(self, estimand: str, mean: Numbers) -> WhitenedErrors:
        """Return the distribution of the errors for an estimand; intervals contain the reported ``mean``."""
        return WhitenedErrors(self.plan, self.estimate, self.error, self.bias(estimand), mean)

    def bias(self, estimand: str) -> Numbers:
        """Return the bound on the bias of the estimate for an estimand."""
        if estimand == "clipped":
            return np.zeros(self.plan.n_features)
        if estimand == "tails" or self.plan.tails == "symmetric":
            return self.assumed_bias
        return self.safe_bias

    def notes(self, estimand: str, shorter: float, beyond: Sequence[str], shrunk: bool) -> list[str]:
        """Return the notes of a summary: assumptions, clipped rows, and open intervals."""
        plan, notes = self.plan, []
        notes.append(
            f"The covariance was released first, in {plan.n_rounds} rounds. The estimate is the mean of rows shrunk "
            "into the ellipsoid that they found."
        )
        if self.screen is not None:
            counted = f"The last stage shrank about {self.clipped_rows or 0.0:,.0f} rows."
            if estimand == "population":
                counted += " Intervals include the largest bias of these rows, at the stated standard deviation."
            if self.refuted:
                counted += " Tails are heavier than normal, so no interval assumes normal tails."
            notes.append(counted)
        elif plan.tails == "symmetric":
            notes.append(
                f'tails="symmetric" assumes that {plan.assumption}. Otherwise coverage can be below the level; '
                "privacy is not affected."
            )
        if estimand == "population" and "tails" in self.estimands() and shorter < MUCH_SHORTER:
            notes.append(
                f'estimand="tails" gives intervals of {100 * shorter:.0f}% of this width. Intervals of "tails" '
                f"assume that {plan.assumption}."
            )
        if self.wider.any():
            notes.append(
                "REFUTED: the stated standard deviation of a column. The released one is used there. Raise std_bound."
            )
        if beyond:
            notes.append(
                f"At the edge of the box: {', '.join(beyond)}. The released mean is beyond it, so the interval is open "
                "there. Widen the box."
            )
        if shrunk:
            notes.append(
                "Noise is large, so estimates are shrunk towards the middle of the box. Intervals use the unshrunk "
                "estimates."
            )
        return notes


@dataclass(frozen=True, eq=False)
class WhitenedErrors(BoxedErrors):
    """Normal errors of a mean with a bound on its bias, cut to the box."""

    plan: WhitenedMeanPlan
    estimate: Numbers  # shape (d,)
    error: Numbers
    bias: Numbers
    mean: Numbers  # (d,): the reported estimate, which every interval holds

    @property
    def start(self) -> Numbers:
        return self.estimate

    @property
    def largest_bias(self) -> Numbers:
        return self.bias

    def reaches(self, tail: Tail) -> Numbers:
        return np.asarray(normal_quantile(tail) * self.error + self.bias)

    def half_widths(self, tail: Tail) -> Numbers:
        return np.asarray(self.error * biased_normal_quantile(tail, self.bias / self.error))
