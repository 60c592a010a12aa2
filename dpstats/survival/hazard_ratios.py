"""Hazard ratios of two groups of a released table: the score of Cox's model for grouped data, and its limits.

Derivation: docs/intervals/survival.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpstats.survival.curves import LEAST_IN_NOISE, risk_sums
from dpstats.survival.reference import LARGEST_HAZARD, Floats, Reference
from dpstats.survival.shapes import limit_positions, lost_exposure

LARGEST_LOG_RATIO = 3.0
"""Limits beyond a hazard ratio of 20, or of 1/20, are infinite, or 0."""
_GRID = np.linspace(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO, 121)
_LEAST_AT_RISK = 1.0  # few rows have little weight in the score, so curves need more
_MOST_NOISE = 0.5  # relative variance of the weights
_MOST_GROUPED = 1.0  # cumulative hazard of a bin; few rows remain after a larger one
_HALVINGS = 40


@dataclass(frozen=True, eq=False)
class _Stratum:
    """Two groups of one stratum: their bins that are usable in both."""

    reference: Reference

    @cached_property
    def _number_std(self) -> Floats:
        sums = risk_sums(self.reference.n_bins, 1)
        variance = ((sums @ self.reference.noise.own) * sums).sum(axis=1)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))

    @cached_property
    def usable(self) -> NDArray[np.bool_]:
        at_risk, effective = self.reference.at_risk[0], self.reference.effective[0]
        least = np.maximum(LEAST_IN_NOISE * self._number_std, _LEAST_AT_RISK)
        enough = (np.minimum(at_risk, effective) > least) & (effective > self.events)
        return np.asarray(np.logical_and.accumulate(enough.all(axis=0)))

    @cached_property
    def events(self) -> Floats:
        return self.reference.cells[0, :, : self.reference.n_bins]

    def _numbers(self, log_ratio: Floats) -> Floats:
        """Return the effective numbers at risk (ratios, groups, bins) at log ratios, 1 beyond the usable range."""
        # Both groups have the shape of all events. But the later events of a bin are fewer where its hazard is
        # larger.
        reference, used = self.reference, self.usable
        number = np.where(used, reference.effective[0], 1.0)
        shapes, positions = reference.shapes, reference.positions
        if shapes is None or positions is None:
            return np.repeat(number[None], len(log_ratio), axis=0)
        pooled = reference.pooled_hazards[0]
        ratios = np.exp(log_ratio)[:, None] ** np.array([0.0, 1.0])
        middle = (ratios[..., None] * number).sum(axis=1, keepdims=True) / number.sum(axis=0)
        increments = -np.log1p(-pooled) * ratios[..., None] / middle
        hazards = np.minimum(-np.expm1(-increments), LARGEST_HAZARD)
        slopes = shapes.slopes[0] - (increments + np.log1p(-pooled)) / 2
        lost = lost_exposure(slopes, hazards) - shapes.lost[0]
        return np.where(used, np.maximum(number - positions[0, :, 1] * lost, 1.0), 1.0)

    def moments(self, log_ratio: Floats) -> tuple[Floats, Floats, Floats]:
        """Return score, variance and common part of the noise at log ratios: each of shape (ratios,).

        The variance leaves out what the public number of rows takes off: the square of the common part.
        """
        m, used, noise = self.reference.n_bins, self.usable, self.reference.noise
        ratio = np.exp(log_ratio)[:, None]
        events = np.where(used, self.events, 0.0)
        number = self._numbers(log_ratio)
        share = events / number
        hazards = -np.log1p(-np.clip(share, -0.5, LARGEST_HAZARD))
        share = np.clip(share, 0.0, LARGEST_HAZARD)
        first, second = np.moveaxis(number * (1 - share / 2), 1, 0)
        weights = np.where(used, first * second / (first + ratio * second), 0.0)
        score = (weights * (hazards[:, 1] - ratio * hazards[:, 0])).sum(axis=1)
        # Sampling at a common hazard, with the noise of the weights to second order.
        common = np.maximum(events.sum(axis=0), 0.0) / (first + ratio * second)
        relative = ((self._number_std / number) ** 2).sum(axis=1)
        spread = ratio * common * _grouping_factor(ratio * common) / second
        spread += ratio**2 * common * _grouping_factor(common) / first
        variance = (weights**2 * (1 + np.minimum(relative, _MOST_NOISE)) * spread).sum(axis=1)
        # Noise, at fixed weights: by events, and by numbers at risk.
        signs = np.stack([-ratio * np.ones(m), np.ones((len(ratio), m))], axis=1)
        by_events = signs * weights[:, None] / (number * (1 - share))
        expected = -np.expm1(-np.stack([common, ratio * common], axis=1))
        per_number = -by_events * expected
        gradients = per_number @ risk_sums(m, 1)
        gradients[:, :, :m] += by_events
        own = noise.own + np.outer(noise.shared, noise.shared)
        variance = variance + ((gradients @ own) * gradients).sum(axis=(1, 2))
        return score, variance + self._position_variance(per_number), (gradients @ noise.shared).sum(axis=1)

    def _position_variance(self, per_number: Floats) -> Floats | float:
        """Return the variance due to noise in positions, and to shapes that remain unknown."""
        shapes, positions, std = (
            self.reference.shapes,
            self.reference.positions,
            self.reference.position_std,
        )
        if shapes is None or positions is None or std is None:
            return 0.0
        censored = limit_positions(positions[0, :, 1], self.reference.at_risk[0])
        per_slope = (per_number * censored).sum(axis=1)
        of_slopes = 2 * (shapes.per_event[0] * std[0]) ** 2 + shapes.unknown_std[0] ** 2
        of_censored = (per_number * shapes.lost[0] * std[1]) ** 2
        return np.asarray((per_slope**2 * of_slopes).sum(axis=1) + of_censored.sum(axis=(1, 2)))


def _grouping_factor(increments: Floats) -> Floats:
    """Return sinh(L)/L, the factor of L/M in the variance q/(E (1 - q)) = sinh(L)/M of a large hazard L of a bin."""
    increments = np.clip(increments, 1e-6, _MOST_GROUPED)
    return np.asarray(np.sinh(increments) / increments)


@dataclass(frozen=True, eq=False)
class HazardRatio:
    """The log hazard ratio of the second to the first of two groups, in one stratum or several.

    Attributes
    ----------
    references : sequence of Reference
        Of two groups each, one for each stratum.
    """

    references: Sequence[Reference]

    @cached_property
    def _strata(self) -> list[_Stratum]:
        return [_Stratum(reference) for reference in self.references]

    @property
    def n_usable(self) -> int:
        """Number of bins that are usable in both groups, of all strata."""
        return sum(int(stratum.usable.sum()) for stratum in self._strata)

    def standardize(self, log_ratio: Floats) -> Floats:
        """Return the score in units of its standard deviation, if these were the log ratios.

        At the true log ratio it is nearly standard normal. It decreases in the log ratio.
        """
        log_ratio = np.atleast_1d(np.asarray(log_ratio, dtype=np.float64))
        score, variance, common = (
            np.sum(parts, axis=0)
            for parts in zip(*(stratum.moments(log_ratio) for stratum in self._strata), strict=True)
        )
        std = np.sqrt(np.maximum(variance - common**2, 0.0))
        return np.where(std > 0, score / np.where(std > 0, std, 1.0), 0.0)

    @cached_property
    def _on_grid(self) -> Floats:
        return self.standardize(_GRID)

    @cached_property
    def estimate(self) -> float:
        """The log ratio at which the score is 0; NaN without usable bins, infinite beyond the largest one."""
        if not self.n_usable:
            return float("nan")
        nearest = int(np.argmin(np.abs(self._on_grid)))
        return self._crossing(nearest, 0.0, 1 if self._on_grid[nearest] > 0 else -1)

    def limits(self, tail: float) -> tuple[float, float]:
        """Return lower and upper limits, each wrong with this probability."""
        critical = float(np.clip(-ndtri(tail), 0.0, 40.0))
        nearest = int(np.argmin(np.abs(self._on_grid)))
        return self._crossing(nearest, critical, -1), self._crossing(nearest, -critical, 1)

    def _crossing(self, start: int, value: float, step: int) -> float:
        """Return the first log ratio at which the score crosses a value, from ``start`` in one direction."""
        if not self.n_usable:
            return step * np.inf
        beyond = (self._on_grid - value) * step <= 0
        places = np.arange(start, len(_GRID)) if step > 0 else np.arange(start, -1, -1)
        found = places[beyond[places]]
        if not found.size:
            return step * np.inf
        outside = float(_GRID[found[0]])
        inside = outside - step * float(_GRID[1] - _GRID[0])
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            past = (float(self.standardize(np.array([middle]))[0]) - value) * step <= 0
            inside, outside = (inside, middle) if past else (middle, outside)
        return outside
