from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpstats.error_distributions import Tail, normal_quantile
from dpstats.means.adaptive_plan import ASSUMPTIONS
from dpstats.means.bias_aware import biased_normal_quantile
from dpstats.means.box_mean import mean_in_box
from dpstats.means.boxed_errors import BoxedErrors
from dpstats.means.following import unclipped
from dpstats.means.screen import Screen
from dpstats.means.staging import stage_curves
from dpstats.means.whitened_plan import Numbers, Whitened, WhitenedMeanPlan

_SURPRISE, _LIMIT = 2.6, 2.33
"""Standard errors by which a variance refutes the stated one, and standard errors of upper limits."""
_RAISED = 1.0
"""Deviations of noise that released variances are raised by."""
_WIDEST = 0.999
_MUCH_SHORTER = 0.8


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
        variance = np.maximum(np.diagonal(self.covariance), 0.0) + _RAISED * self.spread_noise
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
        return np.asarray(variance - _SURPRISE * np.hypot(self.spread_noise, sampling) > self.plan.stds**2)

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
        curves = stage_curves(d, plan.tails, _WIDEST)
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
                counted += (
                    " Intervals include the largest bias of these rows, at the stated standard deviation."
                )
            if self.refuted:
                counted += " Tails are heavier than normal, so no interval assumes normal tails."
            notes.append(counted)
        elif plan.tails == "symmetric":
            notes.append(
                f'tails="symmetric" assumes that {plan.assumption}. Otherwise coverage can be below the level; '
                "privacy is not affected."
            )
        if estimand == "population" and "tails" in self.estimands() and shorter < _MUCH_SHORTER:
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
