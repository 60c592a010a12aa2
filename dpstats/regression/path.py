"""The path of a fit: from the releases to the next query, and from the last release to the estimate.

A path uses only released values, so it is public. The release and the report replay the same path, stage by stage.

The algorithm:

1. Center the rows, and whiten them by the directions of the centered rows.
2. Bound the rows in these coordinates.
3. Take a few noisy Newton steps. Each releases a gradient and, without additional privacy cost, the curvature.
4. Before the last step, whiten again with the curvature estimated so far.

The method is ours (docs/sources.md, "Methods of our own"). Proof: docs/proofs/regression.md.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.lattice.products import above_diagonal
from dpstats.regression.blocks import X_BITS, Design, Question
from dpstats.regression.coefficient_errors import Levels
from dpstats.regression.passes import Floats
from dpstats.regression.plan import (
    CENTER,
    DIRECTIONS,
    LAST_NORMS,
    LENGTHS,
    MOST_LEVERAGE,
    NORMS,
    OFFSETS,
    ROWS,
    SEEN,
    STEPS,
    WEIGHT,
    RegressionPlan,
    step_name,
    step_number,
)
from dpstats.regression.rows import (
    CURVATURE,
    Center,
    Directions,
    Norms,
    Observed,
    OutsideOffsets,
    TotalWeight,
    coordinates,
)

# The algebra of a noisy Newton step: pool and invert noisy curvatures, and compute the remaining error


_KNOWN = 0.02
"""Eigenvalues below this fraction of a typical one are too small to show the scale of a direction."""


@dataclass(frozen=True, eq=False)
class Curvature:
    """An estimate of a symmetric matrix, and the variance of its entries."""

    mean: Floats
    variance: Floats

    @classmethod
    def noisy(cls, mean: Floats, std: float) -> Curvature:
        """Return a curvature with noise of standard deviation ``std`` on the diagonal and std / sqrt(2) elsewhere."""
        return cls(mean, std**2 * (1 + np.eye(len(mean))) / 2)

    def no_larger_than(self, now: Curvature) -> Curvature:
        """Return the curvature, reduced to the size of a later one if the decrease exceeds the noise of both."""
        noise = 2 * math.sqrt(float(np.trace(self.variance + now.variance)))
        ratio = (float(np.trace(now.mean)) + noise) / max(float(np.trace(self.mean)), 1e-9)
        factor = min(max(ratio, 0.25), 1.0)
        return Curvature(self.mean * factor, self.variance * factor**2)

    def toward(self, likely: Floats) -> Curvature:
        """Return the curvature shrunk toward ``likely``: the more, the larger the noise is within the difference.

        The true differences are assumed to be normal, with one variance on the diagonal and another off it. Each
        variance is estimated from all its entries, plus one standard error.
        """
        rest, own = self.mean - likely, np.zeros_like(self.mean)
        diagonal = np.eye(len(rest), dtype=bool)
        for part, count in ((diagonal, len(rest)), (~diagonal, diagonal.sum() * (len(rest) - 1) / 2)):
            if count:
                seen = float((rest[part] ** 2).mean()) * (1 + math.sqrt(2 / count))
                own[part] = max(seen - float(self.variance[part].mean()), 0.0)
        gain = own / (own + self.variance)
        return Curvature(likely + gain * rest, gain * self.variance)

    def averaged(self, other: Curvature) -> Curvature:
        """Return the average with another curvature, of independent noise."""
        return Curvature((self.mean + other.mean) / 2, (self.variance + other.variance) / 4)

    def mistake(self, moved: Floats, change: Floats, noise: float) -> Floats:
        """Return the error of the curvature along a move, as a matrix of rank one. Zero if noise explains it.

        The move changed the gradient by ``change``. Its entries have noise of standard deviation ``noise``.
        """
        p, length = moved.size, float(np.linalg.norm(moved))
        off = change - self.mean @ moved
        size = float(off @ off)
        explained = p * noise**2 * (1 + math.sqrt(2 / p)) + (p + 1) * float(self.variance.mean()) * length**2
        beyond = math.sqrt(max(size - explained, 0.0) / max(size, 1e-300))
        return beyond * np.outer(off, moved) / max(length, 1e-150) ** 2

    def along(self, moved: Floats, change: Floats, noise: float) -> Curvature:
        """Return the curvature updated by a move that changed the gradient by ``change``.

        ``noise`` is the standard deviation of the noise in an entry of ``change``. The update gives the most likely
        symmetric matrix if the errors of the entries are independent with one variance. The stated variance stays.
        """
        p = moved.size
        own = float(self.variance.mean())
        spread = (own * float(moved @ moved) + noise**2) * np.eye(p) + own * np.outer(moved, moved)
        pull = np.outer(np.linalg.solve(spread, change - self.mean @ moved), moved) * own
        return Curvature(self.mean + pull + pull.T, self.variance)

    def inverted(self, least: float, common: float = 1.0) -> Inverse:
        """Return the divisor of a Newton step: the eigenvalues, raised by the amount that noise may have removed.

        ``common`` is the eigenvalue of a typical direction.
        """
        values, vectors = np.linalg.eigh(self.mean)
        known = np.maximum(values, 0.0)
        noise = math.sqrt(float(self.variance.mean()))
        raised = np.maximum(known + math.sqrt(2 * len(known)) / 2 * noise, least)
        return Inverse(known, raised, vectors, noise, common)


def pooled(parts: list[Curvature], doubts: list[float]) -> Curvature:
    """Return the average of several estimates, weighted entry by entry by noise variance and squared doubt."""
    weights = np.array([1 / (part.variance + doubt**2) for part, doubt in zip(parts, doubts, strict=True)])
    weights /= weights.sum(axis=0)
    mean = sum(weight * part.mean for weight, part in zip(weights, parts, strict=True))
    variance = sum(weight**2 * part.variance for weight, part in zip(weights, parts, strict=True))
    return Curvature(np.asarray(mean), np.asarray(variance))


@dataclass(frozen=True, eq=False)
class Inverse:
    """Inverse of a curvature in its eigenvectors: estimated and raised eigenvalues, and the noise of an entry.

    ``common`` is the eigenvalue of a typical direction.
    """

    known: Floats
    raised: Floats
    vectors: Floats
    noise: float
    common: float = 1.0

    def __call__(self, vector: Floats) -> Floats:
        """Return the Newton step of a gradient."""
        return (self.vectors / self.raised) @ (self.vectors.T @ vector)

    @property
    def matrix(self) -> Floats:
        """The inverse with raised eigenvalues, as a step applies it."""
        return (self.vectors / self.raised) @ self.vectors.T

    @property
    def of_sampling(self) -> Floats:
        """The inverse for the sampling error: without the raise, but with at least half of each raised eigenvalue.

        All steps use the same rows. Earlier steps already contain the sampling error that raised eigenvalues retain.
        """
        return (self.vectors / np.maximum(self.known, self.raised / 2)) @ self.vectors.T

    @property
    def remainder(self) -> Floats:
        """Fraction of the earlier error that remains after a step, I - h^{-1} e, for known eigenvalues e."""
        return (self.vectors * ((self.raised - self.known) / self.raised)) @ self.vectors.T

    def likely_meat(self, meat: Floats, std: float) -> tuple[Floats, Floats]:
        """Return a noisy meat matrix, pulled toward a multiple of the curvature where noise is large, and the multiple.

        ``std`` is the standard deviation of the noise on its diagonal.
        """
        p, size = len(meat), float(np.trace(meat))
        curvature = (self.vectors * self.known) @ self.vectors.T
        even = curvature * max(size, std * p) / max(float(self.known.sum()), 1e-9)
        doubt = 4 * (std * p / max(size, 1e-12)) ** 2
        return (meat + doubt * even) / (1 + doubt), even

    def unknown(self, spread: float) -> Floats:
        """Return the covariance of unknown coefficients whose linear predictor has this standard deviation."""
        size = spread**2 / len(self.known) / np.maximum(self.known, _KNOWN * self.common)
        return (self.vectors * size) @ self.vectors.T

    def error_after(
        self, before: Floats, noise: float, again: float = 1.0, mistake: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Return the covariance of the error after a step, in two parts: remaining earlier error, and gradient noise.

        The remaining error has two sources: the raised eigenvalues, and the noise of the curvature. An error in a
        direction of curvature e moves the gradient by at most e, which limits the effect of the noise. If steps
        repeat the same curvature error, its effect is multiplied by ``again``. A known ``mistake`` is added.
        """
        old = self.vectors.T @ before @ self.vectors
        kept = (self.raised - self.known) / self.raised
        pull = self.known + self.noise / 2
        mistaken = np.minimum(again * self.noise**2 * (1 + np.eye(len(pull))) / 2, np.outer(pull, pull)) @ np.diagonal(
            old
        )
        left = kept[:, None] * old * kept + np.diag(mistaken / self.raised**2)
        if mistake is not None:
            turned = (self.vectors.T @ mistake @ self.vectors) / self.raised[:, None]
            left += turned @ old @ turned.T
        size = np.maximum(self.known, _KNOWN * self.common)
        most, now = size @ np.diagonal(old), size @ np.diagonal(left)
        if now > most:
            left *= most / now
        after = self.vectors @ left @ self.vectors.T
        return after, (self.vectors * (noise / self.raised) ** 2) @ self.vectors.T


def symmetric(diagonal: Floats, above: Floats) -> Floats:
    """Return the symmetric matrix with this diagonal and these entries above it."""
    p = diagonal.size
    matrix = np.zeros((p, p))
    matrix[above_diagonal(p)] = above
    return matrix + matrix.T + np.diag(diagonal)


def positive(matrix: Floats) -> Floats:
    """Return the nearest matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


# The path


QUANTILE = 0.75
"""Level of the quantile of the row norms that is a typical norm."""
_SHAPE = 5.0
"""Required ratio of the shape of the rows to the noise of their directions."""
_LEVERAGES = np.geomspace(1.0, MOST_LEVERAGE, 121)
_ROUNDING = 1e-12
"""Rounding error of a variance, over the largest variance of all coefficients in half-widths."""
_FAR, WIDEST = 3.0, 12.0
"""A threshold is this many standard deviations of the error of a far row, if noise permits, up to the widest one."""
_LEARNED = 0.1
"""A slope is not identified if its error variance is above this fraction of the variance unknown before the fit."""
NEGLIGIBLE = 0.03
"""Planned noise over the standard error, below which rows and residuals need not be cut."""
_CATALAN = (1, 1, 2, 5, 14)
"""Even moments of a random symmetric matrix. Repeated steps with the same curvature error accumulate like these."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """Result of a fit in the units of the data. The intercept comes first, if there is one.

    Attributes
    ----------
    params : array of shape (p,)
        Coefficients.
    robust, model : array of shape (p, p)
        Covariance of the errors, including privacy noise. ``robust`` uses the released meat of the sandwich estimator.
        ``model`` assumes equal residual variances, or the logistic likelihood.
    privacy : array of shape (p, p)
        The part of both that is due to privacy.
    left : array of shape (p, p)
        The part of ``privacy`` that is the remaining error of the Newton steps.
    unknown : array of shape (p, p)
        Covariance of the coefficients before the first step. 0 for logistic and log-linear regressions without levels.
    stretched : array of shape (p,), or 1
        Factors of the variances in ``left`` for slopes that are larger than ``unknown`` expects.
    condition : float
        Condition number of the curvature in the last coordinates, after its eigenvalues are raised.
    scale : float
        Standard deviation of the residuals. NaN for logistic regression.
    outside : float
        Fraction of the outcomes outside their bounds. NaN if it was not released.
    rows : float
        Number of rows that the estimate uses: the noisy number of observed rows, but at least the detectable number.
    effective : float
        Number of rows of equal weight whose mean has the same variance.
    separated : bool
        Whether the coefficients of a logistic regression diverged.
    uneven : bool
        Whether the mean of the clipped residuals differs from the mean of all residuals.
    peaked : bool
        Whether a few residuals of a linear regression are far larger than the others, perhaps beyond their clipping
        threshold.
    hidden : float
        The largest bias of a slope by clipped residuals that the noise can hide, in standard errors.
    hidden_level : float
        The largest bias of the intercept of a linear regression by clipped residuals that the noise can hide, if
        residuals are as skewed as lognormal ones, in standard errors.
    settled : array of bool of shape (d,), optional
        Whether each slope of a logistic or log-linear regression had settled at the last step.
    levels : tuple of Levels
        Both levels of each column with two values. Only for logistic and log-linear regressions.
    long_tailed : bool
        Whether outcomes of a log-linear regression exceed what its working distribution expects.
    dispersion : (float, float)
        phi and alpha of the variance phi mu + alpha mu^2 of a log-linear regression.
    width : float
        Clipping threshold of the residuals in the last step, in standard deviations. Only for a log-linear regression.
    typical : float
        Mean outcome over rows. Only for a log-linear regression.
    offset_outside, weight_outside : float
        Fraction of the offsets or exposures, and of the weights, outside their bounds. NaN if rows have none.
    """

    params: Floats
    robust: Floats
    model: Floats
    privacy: Floats
    left: Floats
    unknown: Floats
    condition: float
    scale: float
    outside: float
    rows: float
    effective: float
    separated: bool = False
    uneven: bool = False
    peaked: bool = False
    hidden: float = 0.0
    hidden_level: float = 0.0
    settled: NDArray[np.bool_] | None = None
    levels: tuple[Levels, ...] = ()
    long_tailed: bool = False
    dispersion: tuple[float, float] = (math.nan, math.nan)
    width: float = math.nan
    typical: float = math.nan
    stretched: Floats | float = 1.0
    offset_outside: float = math.nan
    weight_outside: float = math.nan

    @property
    def unsettled(self) -> bool:
        """Whether some slope had not settled at the last step."""
        return self.settled is not None and not self.settled.all()


@dataclass(frozen=True, eq=False)
class Seen:
    """Coefficients of a step, its gradient with the noise of an entry, and its curvature."""

    b: Floats
    gradient: Floats
    noise: float
    curvature: Curvature

    def rotate(self, back: Floats, turned: Floats, even: float) -> Seen:
        """Return the same in other coordinates."""
        curvature = Curvature(turned @ self.curvature.mean @ turned.T, even**4 * self.curvature.variance)
        return Seen(back @ self.b, turned @ self.gradient, even * self.noise, curvature)


class Path(ABC):
    """Everything that a fit has learned from its releases so far."""

    _centers_outcome = False
    _averaged = STEPS
    """The first step whose coefficients are averaged with those before it."""
    _changes = 0.0
    _model_off = 0.1
    _model_error = 0.02
    """Assumed misspecification, in residual standard deviations. It limits how many rows the radius may shorten."""

    def __init__(self, plan: RegressionPlan) -> None:
        self.plan = plan
        self.p, self.d = plan.size, plan.n_features
        self.n: float = plan.n_samples
        self.each = 1.0  # number of rows over number of observed rows
        self.unequal = 1.0  # sum of squared weights over sum of weights
        self.offset_outside = self.weight_outside = math.nan
        self.shift = np.zeros(self.d)  # in half-widths
        self.whitening = np.eye(self.p)
        self.radius = self.leverage = self.longest = 1.0
        self.least = 0.0  # length, in half-widths, from which rows have weight 1 in the directions
        self.b = np.zeros(self.p)
        self.unknown = np.zeros((self.p, self.p))  # before the first step; of linear regressions
        self.left = np.zeros((self.p, self.p))
        self.noise = np.zeros((self.p, self.p))
        self.shape = np.eye(self.p)  # expected curvature, up to a factor
        self.found: list[Curvature] = []
        self.even = 1.0  # curvature of all directions before the last step, in its coordinates
        self.earlier = np.zeros((self.p, self.p))  # sampling error that only the steps before the last one have
        self.inverse: Inverse | None = None
        self.seen: list[Seen] = []

    # Queries

    def question(self, name: str) -> Question:
        """Return the query that a stage of the plan answers."""
        shift = np.rint(self.shift * 2.0**X_BITS)
        if name == ROWS:
            return Observed(name)
        if name == WEIGHT:
            return TotalWeight(name)
        if name == OFFSETS:
            return OutsideOffsets(name)
        if name == CENTER:
            outcome = self._centers_outcome
            return Center(name, outcome, None if outcome else self.plan.design.offsets)
        if name == DIRECTIONS:
            return Directions(shift, max(np.rint(self.least * 2.0**X_BITS), 1.0), self.plan.bits)
        if name == LENGTHS:
            return Norms(name, shift, False, None, self.plan.norm_ends)
        if name == NORMS:
            first = int(self.plan.design.intercept)
            return Norms(name, shift, False, coordinates(self.whitening[first:, first:], self.d), self.plan.norm_ends)
        if name == LAST_NORMS:
            white = coordinates(self.whitening, self.p)
            return Norms(name, shift, self.plan.design.intercept, white, self.plan.norm_ends)
        return self._own_question(name)

    @property
    def effective(self) -> float:
        """Number of rows of equal weight whose mean has the same variance (Kish)."""
        return self.n / self.unequal

    @property
    def _spare(self) -> float:
        """Number of rows that a robust covariance is divided by, as HC1 has it."""
        return self.n * max(1 - self.p / self.effective, 1 / self.n)

    def _row_variance(self, inverse: Inverse) -> float:
        """Return the sampling variance of a coefficient for one row whose curvature is 1."""
        return 1.0

    @property
    def _least_size(self) -> float:
        """Smallest eigenvalue of the curvature that a step may divide by."""
        return 0.1

    @property
    def _common_size(self) -> float:
        """Eigenvalue of the curvature in a typical direction."""
        return 1.0

    @property
    def center_noise(self) -> float:
        """Standard deviation of the noise in the center of the rows, in half-widths."""
        return self._stage_std(CENTER)

    @abstractmethod
    def _own_question(self, name: str) -> Question: ...

    def _model(self) -> tuple[Floats, bool, Floats]:
        theta = coordinates(self.whitening.T @ self.b, self.p)
        return np.rint(self.shift * 2.0**X_BITS), self.plan.design.intercept, theta

    # Updates

    def take(self, name: str, released: Any) -> None:
        """Update the path with the release of a stage: averages over all rows, in which missing rows count as 0."""
        if name in (ROWS, WEIGHT):
            self._take_rows(name, *released)
            return
        released = self._rescale(released)
        if name == OFFSETS:
            self.offset_outside = float(released[0])
        elif name == CENTER:
            inside = np.clip(released, -1.0, 1.0)
            self.shift = inside[: self.d]
            # Start the intercept at the mean outcome, so that the initial error of the slopes has the size of the
            # slopes. Shrink the start, to zero below two standard deviations of its noise.
            start, seen = inside[self.d :], 2 * self._stage_std(CENTER)
            self.b[: start.size] = start * (1 - (seen / np.maximum(np.abs(start), seen)) ** 2)
        elif name == LENGTHS:
            self._take_lengths(released)
        elif name == DIRECTIONS:
            self._take_directions(name, released)
        elif name == NORMS:
            # Scale rows to a typical length, and choose their bound.
            first = int(self.plan.design.intercept)
            self.whitening[first:, first:] *= math.sqrt(self.d) / self._typical(released, NORMS)
            self._round_whitening()
            self._bound(released, NORMS)
        elif name == LAST_NORMS:
            self._bound(released, name)
            if self._noise_is_negligible:
                # Raise the bound of the rows to the end of a bin of norms, so that no row of the bin is shortened.
                wider = math.sqrt(self.plan.norm_ends[1] / self.plan.norm_ends[0])
                self.radius, self.leverage = wider * self.radius, wider * self.leverage
                self.longest = max(self.longest, self.radius)
        else:
            self._take_own(name, released)

    @abstractmethod
    def _take_own(self, name: str, released: Any) -> None: ...

    def _take_rows(self, name: str, share: float, squares: float = math.nan, signed: float = math.nan) -> None:
        """Scale all later releases per observed row. An error in this number cancels in coefficients and errors."""
        # With weights, the number of rows is the total weight, in units of the largest weight.
        plan = self.plan
        noise = float(np.max(plan.noise(name).std))
        self.n = plan.n_samples * min(max(share, 2 * noise, (self.p + 2) / plan.n_samples), 1.0)
        self.each = plan.n_samples / self.n
        if name == WEIGHT:
            self.unequal = float(np.clip((squares + noise) * self.each, 1 / self.each, 1.0))
            self.weight_outside = (signed + share / 2) * self.each

    def _rescale(self, released: Any) -> Any:
        if self.each == 1.0:
            return released
        if isinstance(released, Mapping):
            return {name: self.each * values for name, values in released.items()}
        return self.each * released

    def _stage_std(self, name: str) -> float:
        """Return the standard deviation of the noise of a stage, or of a block, per observed row."""
        return self.each * float(np.max(self.plan.noise(name).std))

    def _take_lengths(self, counts: Floats) -> None:
        """Choose the length from which rows have weight 1 in the directions: the largest that noise permits."""
        # Ideally all rows whose direction counts have one length. Directions alone are misleading if most rows are
        # nearly equal, for example with rare indicators. Their small differences would then count as much as the large
        # differences of the other rows.
        ends = self.plan.norm_ends
        seen = np.where(counts > SEEN * self._stage_std(LENGTHS), counts, 0.0)
        middles = np.append(ends[0], ends) * (ends[1] / ends[0]) ** np.append(0.0, np.full(ends.size, 0.5))
        noise = self._std(DIRECTIONS, f"{CURVATURE}, diagonal") * math.sqrt(2 * self.d) * self.d
        longest = float(np.max(middles[seen > 0], initial=0.0))
        for end in ends[ends < 2 * longest][::-1]:
            if float(seen @ np.minimum((middles / end) ** 2, 1.0)) >= _SHAPE * noise:
                self.least = float(end)
                return

    def _take_directions(self, name: str, released: Mapping[str, Floats]) -> None:
        seen = Curvature.noisy(*self._matrix(name, CURVATURE, released, self.d))
        likely = seen.toward(float(np.trace(seen.mean)) / self.d * np.eye(self.d))
        values, vectors = np.linalg.eigh(likely.mean)
        known = np.maximum(values, 0.0)
        std = math.sqrt(float(np.diagonal(likely.variance).mean()))
        raised = np.maximum(known + math.sqrt(2 * self.d) * std, math.sqrt(float(np.diagonal(seen.variance).mean())))
        first = int(self.plan.design.intercept)
        self.whitening = np.eye(self.p)
        self.whitening[first:, first:] = (vectors / np.sqrt(raised)).T
        self.shape = np.eye(self.p)
        self.shape[first:, first:] = np.diag(known / raised)

    def _typical(self, counts: Floats, name: str) -> float:
        """Return the upper quartile of the row norms, or their root mean square if that is larger."""
        return max(self._quantile(counts), self._root_mean_square(counts, name))

    def _root_mean_square(self, counts: Floats, name: str) -> float:
        """Return the root mean square of the row norms."""
        ends = self.plan.norm_ends
        seen = np.where(counts > SEEN * self._stage_std(name), counts, 0.0)
        middles = np.append(ends[0], ends * math.sqrt(ends[1] / ends[0]))
        return math.sqrt(float(seen @ middles**2) / max(float(seen.sum()), 0.5))

    def _quantile(self, counts: Floats) -> float:
        """Return the upper quartile of the row norms."""
        ends = self.plan.norm_ends
        # Fractions add up to 1, so the total corrects the noise that accumulates from below.
        part = np.arange(1, counts.size + 1) / counts.size
        reached = np.cumsum(counts) + part * (1 - counts.sum())
        beyond = np.flatnonzero(reached >= QUANTILE)
        at = int(beyond[0]) if beyond.size else ends.size
        if at == 0 or at == ends.size:
            return float(ends[min(at, ends.size - 1)])
        inside = (QUANTILE - reached[at - 1]) / max(reached[at] - reached[at - 1], 1e-12)
        return float(ends[at - 1] * (ends[at] / ends[at - 1]) ** np.clip(inside, 0.0, 1.0))

    def _bound(self, counts: Floats, name: str) -> None:
        """Choose the bound of the row norms, as a multiple of a typical norm, because noise grows with the bound."""
        # Shortening long rows changes the coefficients if the model is misspecified. The assumed misspecification
        # bounds the change, and the worst case is a common direction for all long rows. Counts that noise can explain
        # are treated as zero. Rows beyond the largest multiple are shortened for every choice.
        plan, typical = self.plan, self._typical(counts, name)
        ends = self.plan.norm_ends / typical
        middles = np.append(ends[0], ends * math.sqrt(ends[1] / ends[0]))
        noise = self._stage_std(name)
        # A bound below the upper quartile would remove most of the information.
        shortest = self._quantile(counts) / typical
        factors = shortest * _LEVERAGES
        looked_at = (middles > 0.8 * shortest) & (middles < factors[-1])
        seen = np.where((counts > SEEN * noise) & looked_at, counts, 0.0)
        # Most counts are zero.
        here = np.flatnonzero(seen)
        cut = np.maximum(middles[here] ** 2 - factors[:, None] ** 2, 0.0) @ seen[here]
        information = self.n * plan.mu**2 * plan.share(step_name(STEPS))
        costs = self.p * (16 * factors**2 / information + self.n * (self._model_error * cut) ** 2)
        self.leverage = float(factors[np.argmin(costs)])
        unit = math.sqrt(self.p) if name == NORMS else typical
        self.radius = self.leverage * unit
        # A row keeps its residual when it is shortened.
        self.longest = max(float(np.max(middles[counts > SEEN * noise], initial=0.0)) * unit, self.radius)

    @property
    def _noise_is_negligible(self) -> bool:
        """Whether the last step need not shorten rows."""
        return self.plan.noise_ratio * self.leverage < NEGLIGIBLE

    def _far_threshold(self, scale: float, noise: float, widest: float = WIDEST) -> float:
        """Return the clipping threshold that far rows need in a step, in scales of the residuals."""
        # A clipped residual does not show how wrong the coefficients are. So the threshold grows with the error of the
        # linear predictor of a far row, which is 0 as long as no step was taken. Noise grows too. At a threshold of one
        # scale a coefficient has noise of standard deviation `noise`. The sum of the noise, and of the largest error
        # that clipping leaves, is smallest.
        worst = float(np.linalg.eigvalsh(self.left + self.noise)[-1])
        if worst <= 0:
            return 0.0
        far = _FAR * self.longest * math.sqrt(worst) / scale
        return min(far / (1 + self.p * (noise * far) ** 2 / worst), widest)

    def _round_whitening(self) -> None:
        """Replace the coordinates with their rounded values, in which the rows are computed."""
        self.whitening = coordinates(self.whitening, self.p) * 2.0**X_BITS

    def _matrix(self, stage: str, name: str, released: Mapping[str, Floats], p: int) -> tuple[Floats, float]:
        """Return a released Gram matrix, and the standard deviation of the noise on its diagonal."""
        diagonal = f"{name}, diagonal"
        matrix = symmetric(released[diagonal], released.get(f"{name}, above the diagonal", np.zeros(0)))
        return matrix, self._std(stage, diagonal)

    def _std(self, stage: str, block: str) -> float:
        return self.each * self.plan.noise_of[stage, block]

    def _estimate_curvature(self) -> Curvature:
        """Return the estimated curvature, from the steps and from the expected shape scaled to their size."""
        # If the curvature changes with the coefficients, earlier estimates have lower weight.
        late = range(len(self.found) - 1, -1, -1)
        doubts = [
            self._changes * age * float(np.trace(part.mean)) / self.p
            for age, part in zip(late, self.found, strict=True)
        ]
        steps = pooled([self._resize(part, self.found[-1]) for part in self.found], doubts)
        size = float(np.clip(np.trace(steps.mean) / max(float(np.trace(self.shape)), 1e-9), self._least_size, 1.5))
        likely = steps.toward(size * self.shape)
        return self._correct(likely)

    def _correct(self, likely: Curvature) -> Curvature:
        """Return the curvature, corrected by the change of the gradient along the moves so far."""
        for before, after in itertools.pairwise(self.seen):
            likely = likely.along(*self._change(likely, before, after))
        return likely

    def _change(self, likely: Curvature, before: Seen, after: Seen) -> tuple[Floats, Floats, float]:
        """Return a move, the change of the gradient along it, and the noise of the change including model error."""
        moved = after.b - before.b
        blur = self._model_off * float(np.linalg.norm(likely.mean @ moved)) / math.sqrt(self.p)
        return moved, before.gradient - after.gradient, math.hypot(before.noise, after.noise, blur)

    def _mistake(self) -> Floats:
        """Return the error of the curvature that the last move shows: zero where noise explains it."""
        # The curvature of a move is the average of the curvatures at its two endpoints.
        if len(self.seen) < 2:
            return np.zeros((self.p, self.p))
        before, after = self.seen[-2:]
        average = before.curvature.averaged(after.curvature)
        return average.mistake(*self._change(average, before, after))

    def _bent(self, before: Floats) -> Floats:
        """Return the covariance of the error that remains because the curvature changes within the error ``before``."""
        return np.zeros_like(before)

    def _resize(self, part: Curvature, now: Curvature) -> Curvature:
        """Return an earlier curvature rescaled to its present size, if the size changes."""
        return part

    def _inverse(self) -> Inverse:
        """Return the inverse that the next step applies."""
        return self._estimate_curvature().inverted(self._least_size, self._common_size)

    def _whiten_again(self) -> None:
        """Change to coordinates in which the estimated curvature is close to a multiple of the identity."""
        # The multiple keeps the length of typical rows approximately unchanged.
        inverse = self._inverse()
        size = float(inverse.raised.mean())
        old, self.whitening = (self.whitening, (inverse.vectors * np.sqrt(size / inverse.raised)).T @ self.whitening)
        self._round_whitening()
        back = np.linalg.solve(self.whitening.T, old.T)
        turned = np.linalg.inv(back).T
        even = float(np.linalg.norm(turned)) / math.sqrt(self.p)
        self.seen = [seen.rotate(np.asarray(back), np.asarray(turned), even) for seen in self.seen]
        self.b = back @ self.b
        self.left, self.noise = back @ self.left @ back.T, back @ self.noise @ back.T
        self.unknown = back @ self.unknown @ back.T
        self.shape, self.found, self.even = size * np.diag(inverse.known / inverse.raised), [], size

    def _step(self, name: str, gradient: Floats, noise: float, inverse: Inverse) -> None:
        """Take a Newton step. ``gradient`` has noise of standard deviation ``noise``."""
        before = self.left + self.noise
        t = step_number(name)
        left, own = inverse.error_after(before, noise, _CATALAN[t] / _CATALAN[t - 1], self._mistake())
        bent = self._bent(before)
        left = left + bent
        stepped = self.b + inverse(gradient)
        if t < self._averaged:
            self.b, self.left, self.noise = stepped, left, own
        else:
            # Before the last step the bound of the rows changes. If far rows counted less, earlier coefficients have a
            # larger sampling error. The estimate with more of the rows is efficient, so the errors differ by the
            # difference of their variances (Hausman). A difference that noise explains is none.
            if t == STEPS:
                excess = positive(np.eye(self.p) / self.even - inverse.of_sampling)
                self.earlier = self._row_variance(inverse) / self.effective * excess
            self._average(stepped, left, own, inverse, inverse.error_after(before, noise)[0] + bent)
        self.inverse = inverse
        if t == STEPS - 1:
            self._whiten_again()

    def _average(self, stepped: Floats, left: Floats, own: Floats, inverse: Inverse, expected: Floats) -> None:
        """Average the coefficients before and after a step, whose noises are independent."""
        # They share the earlier error that the step did not remove. The weight uses its `expected` covariance, and the
        # stated error uses the conservative `left`. There is one weight for all directions, but for those in which far
        # rows counted less before.
        before = self.left + self.noise
        across = inverse.remainder @ before
        across = (across + across.T) / 2
        parts = before, expected + own, across
        more, vectors = np.linalg.eigh(self.earlier)
        each = (np.einsum("ij,ij->j", vectors, part @ vectors) for part in parts)
        a, b, c = (np.where(more > 0, of, np.trace(part) / self.p) for of, part in zip(each, parts, strict=True))
        a = a + np.maximum(more, 0.0)
        after = (vectors * np.clip((a - c) / np.maximum(a + b - 2 * c, 1e-300), 0.0, 1.0)) @ vectors.T
        first = np.eye(self.p) - after
        shared = after @ across @ first
        self.left = positive(after @ left @ after + first @ self.left @ first + shared + shared.T)
        self.noise = after @ own @ after + first @ self.noise @ first
        self.earlier = first @ self.earlier @ first
        self.b = after @ stepped + first @ self.b

    # Estimate

    @abstractmethod
    def estimate(self) -> Estimate:
        """Return the estimate after all stages."""

    @property
    def _units(self) -> Design:
        """The design that maps coefficients to the units of the data."""
        return self.plan.design

    @property
    def inverse_curvature(self) -> Floats:
        """The inverse of the mean curvature of the rows, in the units of the covariance of the coefficients."""
        assert self.inverse is not None
        matrix, _ = self._units.to_units(self.shift)
        turned: Floats = matrix @ self.whitening.T
        return turned @ self.inverse.of_sampling @ turned.T

    def _in_units(
        self, b: Floats, covariances: list[Floats], scale: float = math.nan, outside: float = math.nan
    ) -> Estimate:
        """Return an estimate in the units of the data, of covariances (robust, model, privacy, left)."""
        inverse = self.inverse
        assert inverse is not None
        matrix, offset = self._units.to_units(np.rint(self.shift * 2.0**X_BITS) * 2.0**-X_BITS)
        params = matrix @ b + offset
        unknown = self.whitening.T @ self.unknown @ self.whitening
        units = []
        for cov in (*covariances, unknown):
            found = matrix @ cov @ matrix.T
            # A variance is at least its rounding error.
            least = _ROUNDING * np.abs(cov).max(initial=0.0) * np.abs(matrix).sum(axis=1) ** 2
            np.fill_diagonal(found, np.maximum(np.diagonal(found), least))
            units.append(found)
        robust, model, privacy, left, unknown = units
        return Estimate(
            params,
            robust,
            model,
            privacy,
            left,
            unknown,
            condition=float(inverse.raised.max() / inverse.raised.min()),
            scale=scale,
            outside=outside,
            rows=self.n,
            effective=self.effective,
            offset_outside=self.offset_outside,
            weight_outside=self.weight_outside,
        )


def find_identified(found: Estimate, cov: NDArray[np.float64], plan: RegressionPlan) -> NDArray[np.bool_]:
    """Return whether each slope is identified, if ``cov`` is the covariance of the errors.

    It is not if most of its error variance remains uncorrected, for a slope of the expected size. In a linear
    regression the error variance must also be a part of the variance that was unknown before the first step. The
    curvature of the other models changes with the coefficients, so their remaining error is known less well.
    """
    left, error, unknown = (np.diagonal(part) for part in (found.left, cov, found.unknown))
    expected = left / found.stretched
    hidden = (2 * expected > error - left + expected) & (error > _LEARNED * unknown)
    return ~hidden[int(plan.design.intercept) :] & (not plan.is_lost(found.rows))
