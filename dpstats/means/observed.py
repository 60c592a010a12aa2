from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from dpstats.error_distributions import ErrorDistribution, Limits
from dpstats.intervals import laplace_sum_tails
from dpstats.means.moments import POWERS, ROWS
from dpstats.means.population import Numbers
from dpstats.means.ratio import NoiseApart, Ratio
from dpstats.means.score import RAISED

_LEAST_TAIL = 1e-300


@dataclass(frozen=True, eq=False)
class ObservedSums:
    """Released sums over observed rows, in half-widths of the clip about its center."""

    rows: Numbers  # (1,): how many rows are observed, with noise
    rows_std: float  # the standard deviation of that noise
    # Shape (d,). Noisy sums of the powers 1 to 4; zeros for a power that is not released.
    sums: tuple[Numbers, ...]
    # Shape (d,). Standard deviations of their noise, without the part that is the noise of ``rows``.
    stds: tuple[Numbers, ...]
    # Factor of the noise of ``rows`` in each sum: the center that is subtracted from the power of a row.
    centers: tuple[float, ...]
    law: str  # one of "gaussian", "laplace"

    @classmethod
    def of(cls, values: Mapping[str, Numbers], plan: Any) -> ObservedSums:
        """Collect the releases of a plan with a clip, a lattice and a stage for the number of rows."""
        n, d, lattice = plan.divisor, plan.n_features, plan.lattice
        clip = np.full(d, plan.region.clip, dtype=np.float64)
        rows, rows_std = n * values[ROWS], n * float(np.max(plan.noise(ROWS).std))
        even = float(np.max(np.asarray(lattice.even_center) / np.asarray(lattice.largest)))
        centers, sums, stds = (0.0, even, 0.0, even), [], []
        for power, name in enumerate(POWERS):
            there, size = name in values, n / clip ** (power + 1)
            sums.append(size * values[name] + centers[power] * rows if there else np.zeros(d))
            stds.append(size * np.asarray(plan.noise(name).std) if there else np.zeros(d))
        return cls(rows, rows_std, tuple(sums), tuple(stds), centers, plan.noise(ROWS).law)

    @property
    def counted(self) -> Numbers:
        """The number of rows that averages are over: at least the standard deviation of its noise."""
        return np.maximum(self.rows, max(self.rows_std, 2.0))

    def ratio(self) -> Ratio:
        """Return the ratios that estimate the means."""
        (T, Q, *_), (total, square, *_), N = self.sums, self.stds, self.rows
        center, count = self.centers[1], self.rows_std
        noise = NoiseApart(
            total,
            count,
            np.hypot(square, center * count),
            total,
            count,
            center * count**2,
            laplace=float(np.max(total)) if self.law == "laplace" else 0.0,
        )
        return Ratio(T, N, Q, T, N, noise)

    def averages(self) -> tuple[dict[str, Numbers], dict[str, Numbers]]:
        """Return the average of every power, and the variance of its noise."""
        n = self.counted
        values = {name: total / n for name, total in zip(POWERS, self.sums, strict=True)}
        variances = {
            name: (std**2 + ((center - values[name]) * self.rows_std) ** 2) / n**2
            for name, std, center in zip(POWERS, self.stds, self.centers, strict=True)
        }
        return values, variances


@dataclass(frozen=True, eq=False)
class SquareErrors(ErrorDistribution):
    """Errors of mean squares of observed rows about their mean, or about the center, in squared half-widths.

    A value v is refuted by the noisy sum of (x - m)^2 - v over observed rows, whose mean is 0 if v is right.
    """

    released: ObservedSums
    mean: Numbers  # (d,): the points that squares are measured from
    shift: Numbers  # (d,): how far from the center that may be, for the noise
    bias: Numbers  # (d,): amount by which the noise of ``mean`` lowers a sum of squares
    correction: Numbers  # (1,): the factor of an average of squares
    ratio: Numbers  # (d,): bound on the mean fourth power over the mean square
    unit: Numbers  # (d,): the squared half-widths in the units of the data

    @property
    def start(self) -> Numbers:
        average = np.clip((self._total + self.bias) / self.released.counted, 0.0, 1.0)
        return self.unit * self.correction * average

    @property
    def box(self) -> Limits:
        # No column that stays within the clip has a larger second moment about any center inside it.
        return np.zeros(self.unit.shape), self.unit * self.correction

    @property
    def _total(self) -> Numbers:
        (T, Q, *_), N = self.released.sums, self.released.rows
        return np.asarray(Q - 2 * self.mean * T + self.mean**2 * N)

    def variance(self, value: Numbers) -> Numbers:
        """Return a bound on the variance of a squared deviation, in half-widths, if ``value`` is right."""
        average = value / (self.unit * self.correction)
        return np.asarray(np.maximum(average * (self.ratio - average), 0.0))

    def sampling_std(self, value: Numbers) -> Numbers:
        """Return the standard deviation of the sampling error, in the units of the data, if ``value`` is right."""
        return np.asarray(self.unit * self.correction * np.sqrt(self.variance(value) / self.released.counted))

    def noise_scales(self, value: Numbers, shift: Numbers) -> list[Numbers]:
        """Return the standard deviations of the parts of the noise in the statistic of ``value``."""
        average = value / (self.unit * self.correction)
        (total, square, *_), center = self.released.stds, self.released.centers[1]
        count = np.abs(center + shift**2 - average) * self.released.rows_std
        return [np.broadcast_to(part, average.shape) for part in (2 * np.abs(shift) * total, square, count)]

    def tails(self, value: Numbers) -> Limits:
        released, average = self.released, value / (self.unit * self.correction)
        distance = self._total + self.bias - average * released.rows
        most = np.maximum(released.rows + RAISED * released.rows_std, 0.0)
        curved = (2.0 if released.law == "gaussian" else 5.0) * self.bias**2
        sampling = most * self.variance(value) + curved
        parts = [
            np.maximum(near, far)
            for near, far in zip(
                self.noise_scales(value, np.abs(self.mean)), self.noise_scales(value, self.shift), strict=True
            )
        ]
        if released.law == "gaussian":
            std = np.sqrt(sampling + sum(part**2 for part in parts))
            z = distance / np.maximum(std, _LEAST_TAIL)
            return ndtr(z), ndtr(-z)
        tail = laplace_sum_tails(np.abs(distance), np.sqrt(sampling), [part / math.sqrt(2) for part in parts])
        tail = np.maximum(tail, _LEAST_TAIL)
        return np.where(distance < 0, tail, 1 - tail), np.where(distance > 0, tail, 1 - tail)
