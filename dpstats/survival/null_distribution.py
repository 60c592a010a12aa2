"""The residuals of a log-rank test in integers, the null distribution of its statistic, and its power.

Proof: docs/proofs/survival.md. Arrays have the releases first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from dpstats.data.rows import Table
from dpstats.data.values import as_int64
from dpstats.inference.error_distributions import error_tails
from dpstats.release.additive import Integers
from dpstats.survival.cells import TABLE, Floats, Steps, checked_rows, elapsed_share, times_at_edges
from dpstats.survival.hazard_ratios import Reference, expectation_gradient

# Residuals: the contribution of a row, given the public reference of the first stage

RESIDUALS = "residuals"
_ROWS = 1 << 16  # of a block
_LEAST_RANGE = 0.05


def residual_integers(n_groups: int, bits: int, share: float) -> Integers:
    """Return the stage parameters of the sums. In units of their sensitivity, a change has 2^bits steps."""
    size = 1 if n_groups == 2 else n_groups
    return Integers(RESIDUALS, size, 2.0**-bits, 1 << bits, 1 << bits, share)


# With two groups the statistic is a single number. Let r be the residual of a row, and p the proportion of the
# first group. A row adds (1 - p) r in the first group, and -p r in the second. With more groups, each has a sum of
# residuals.
@dataclass(frozen=True, eq=False)
class Residuals:
    """Sums of residuals over rows, for one release of the first stage or for several.

    Attributes
    ----------
    reference : Reference
    edges : array of shape (bins + 1,)
    bits : int
    pure : bool
        Whether the sensitivity is in l1, or in l2.
    discrete : bool
        Whether times are moved to edges, as by `Cells`.
    others : bool
        Whether rows of undeclared groups add nothing. They are refused otherwise.
    """

    reference: Reference
    edges: Floats
    bits: int
    pure: bool
    discrete: bool = False
    others: bool = False

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """The least and the largest number that a row adds to a sum: each of shape (releases,)."""
        heights, weights = self.reference.heights, self.reference.weights
        total = heights[:, -1]
        # An event is at risk in its whole bin. A small least value keeps a table without usable bins divisible.
        largest = np.maximum((weights - heights[:, 1:]).max(axis=1), _LEAST_RANGE)
        if self.reference.n_groups > 2:
            return -total, largest
        share = self.reference.mean_shares[:, 0]
        return np.minimum(-(1 - share) * total, -share * largest), np.maximum((1 - share) * largest, share * total)

    @cached_property
    def divisor(self) -> Floats:
        """What sums are divided by, so that their sensitivity is 1: shape (releases,)."""
        low, high = self.bounds
        if self.reference.n_groups == 2:
            return high - low
        largest = np.maximum(-low, high)
        return 2 * largest if self.pure else np.maximum(np.sqrt(2.0) * largest, high - low)

    def sums(self, times: Floats, codes: Steps, groups: Steps) -> Steps:
        """Return the sums of rows in steps: shape (releases, 1), or (releases, groups) of more than two groups."""
        size = 1 if self.reference.n_groups == 2 else self.reference.n_groups
        found = np.zeros((len(self.divisor), size), dtype=np.int64)
        for start in range(0, len(times), _ROWS):
            part = slice(start, start + _ROWS)
            found += self._part(times[part], codes[part], groups[part])
        return found

    def _part(self, times: Floats, codes: Steps, groups: Steps) -> Steps:
        edges, K = self.edges, self.reference.n_groups
        if self.discrete:
            times = times_at_edges(times, codes, edges)
        bins = np.clip(np.searchsorted(edges, times, side="left"), 1, len(edges) - 1) - 1
        share = elapsed_share(times, edges[bins], edges[bins + 1])
        heights, weights = self.reference.heights, self.reference.weights
        event = (codes > 0) & (times <= edges[-1])
        share = self.elapsed_hazard(bins, share)
        share = np.where(event, 1.0, share)  # at risk in the whole bin
        expected = heights[:, bins] + share * (heights[:, bins + 1] - heights[:, bins])
        values = np.where(event, weights[:, bins], 0.0) - expected
        one = 1 << self.bits
        low, high = (end / self.divisor * one for end in self.bounds)
        if K == 2:
            first = self.reference.mean_shares[:, :1]
            # 0 is inside the range of both groups: rows of other groups add it.
            values = np.where(groups == 0, 1 - first, np.where(groups == 1, -first, 0.0)) * values
            least = np.floor(low)
            most = least + one
        else:
            # A part in 10^12 is more than the rounding of the bounds.
            least, most = (np.trunc(end * (1 - 1e-12)) for end in (low, high))
        steps = np.rint(values / self.divisor[:, None] * one)
        steps = as_int64(np.clip(steps, least[:, None], most[:, None]))
        if K == 2:
            return np.asarray(steps.sum(axis=1, keepdims=True))
        return np.stack([np.where(groups == group, steps, 0).sum(axis=1) for group in range(K)], axis=1)

    def elapsed_hazard(self, bins: Steps, u: Floats) -> Floats:
        """Return the part of its bin's hazard that a row has passed at the part u of the bin, between 0 and 1.

        It is u without positions: then events are spread evenly.
        """
        shapes = self.reference.shapes
        if shapes is None:
            return u
        # The effective number at risk of the pooled hazard is the sum of these exposures.
        return np.clip(u - shapes.lost[:, bins] * (u * (1 - u)), 0.0, 1.0)

    def __call__(self, table: Table) -> dict[str, NDArray[np.int64]]:
        """Return the sums of some rows."""
        rows = checked_rows(table, self.reference.n_groups if self.others else None)
        return {RESIDUALS: self.sums(*rows)}


# The statistic without differences: sampling, the noise of both stages, second order

_CRITICAL = 1.96
"""The critical value at which the error of the stated variance is counted: tests are mostly at the level 0.05."""


@dataclass(frozen=True, eq=False)
class NullDistribution:
    """Covariance of O - E under the null hypothesis, apart from the noise of the second stage.

    Attributes
    ----------
    covariance : array of shape (releases, groups, groups)
    """

    covariance: Floats

    @classmethod
    def compute(cls, reference: Reference, released_std: Floats) -> NullDistribution:
        """Return the distribution that a reference implies, given the noise of the second stage: shape (releases,).

        First order: the hypergeometric variance and the noise of the first stage, which enters by (p_gj - p_g) w_j.
        Second order: the noise of the mean shares p_g multiplies the number of events and its noise. Without it, tests
        of few rows reject far too often. The noise of p_g also moves the stated variance, most for a small group.
        """
        K = reference.n_groups
        noise, pooled = reference.noise, reference.pooled_noise
        weights, hazards = reference.weights, reference.pooled_hazards
        information, mean = reference.information, reference.mean_shares
        total = np.maximum(information.sum(axis=1), 1e-9)
        # Standard deviation of the noise in the number of events.
        of_events = np.zeros((len(total), reference.cells.shape[2]))
        of_events[:, : reference.n_bins] = weights**2
        events_std = np.sqrt(_quadratic(of_events, pooled))
        # Variance of the noise in the mean shares.
        expected = np.cumsum(weights**2 * hazards * (1 - hazards), axis=1)
        gradient = np.hstack([expected, np.zeros((len(total), 1)), expected])
        own = _quadratic(gradient, noise.own)
        across = -((gradient @ noise.shared) ** 2)
        spread = (
            (1 - mean) ** 2 * own[:, None]
            + mean**2 * ((K - 1) * own + (K - 1) * (K - 2) * across)[:, None]
            - 2 * (1 - mean) * mean * ((K - 1) * across)[:, None]
        )
        of_shares = spread / (np.maximum(total, np.maximum(events_std, 1.0)) ** 2)[:, None]
        of_shares = np.clip(of_shares, 0.0, 0.25)
        residual = _quadratic(expectation_gradient(weights, hazards), pooled)
        more_events = total + events_std
        more = (more_events / total)[:, None, None]
        shares = reference.shares
        moved = (shares - mean[:, :, None]) * weights[:, None]
        gradients = expectation_gradient(moved, hazards[:, None])
        covariance = np.einsum("rac,cd,rbd->rab", gradients, pooled, gradients)
        between = np.einsum("raj,rbj,rj->rab", shares, shares, information)
        alone = np.einsum("raj,rj->ra", shares, information)
        sampling = (alone[:, :, None] * np.eye(K) - between) * more
        if K == 2:
            # Both groups move together, by p (1 - p), which is at most 1/4.
            base = np.einsum("rj,rj,rj->r", shares[:, 0], shares[:, 1], information) / total
            variance = more_events * np.minimum(0.25, base + of_shares[:, 0])
            sampling = variance[:, None, None] * np.array([[1.0, -1.0], [-1.0, 1.0]])
            second = (of_shares[:, 0] * residual)[:, None, None] * np.array([[1.0, -1.0], [-1.0, 1.0]])
        else:
            second = (of_shares * (more_events + residual)[:, None])[:, :, None] * np.eye(K)
        whole = covariance + sampling + second + reference.slope_covariance
        variance = np.diagonal(whole, axis1=1, axis2=2) + released_std[:, None] ** 2
        factor = _variance_error_factor(variance, more_events[:, None] * (1 - 2 * mean), of_shares)
        return cls(factor[:, :, None] * whole * factor[:, None, :])

    @property
    def std(self) -> Floats:
        """Standard deviation of O - E of the first group: shape (releases,)."""
        return np.sqrt(np.maximum(self.covariance[:, 0, 0], 1e-6))

    def pvalues_of_two(self, difference: Floats, noise: str, scale: Floats) -> Floats:
        """Return the p-values of O - E of two groups: a normal error plus the noise of the second stage."""
        return np.asarray(np.minimum(1.0, 2 * error_tails(np.abs(difference), self.std, noise, scale)))

    def chi_square(self, sums: Floats, mean: Floats, noise_std: Floats) -> tuple[Floats, Floats, Floats]:
        """Return O - E of each group, the chi-square statistic and its p-values, from noisy sums of residuals."""
        K = sums.shape[1]
        centering = np.eye(K) - mean[:, :, None] * np.ones((1, 1, K))
        differences = np.einsum("rab,rb->ra", centering, sums)
        of_noise = noise_std[:, None, None] ** 2 * (centering @ centering.transpose(0, 2, 1))
        covariance = (self.covariance + of_noise)[:, :-1, :-1]
        solved = np.linalg.solve(covariance, differences[:, :-1, None])[:, :, 0]
        statistic = np.maximum((differences[:, :-1] * solved).sum(axis=1), 0.0)
        return differences, statistic, np.asarray(gammaincc((K - 1) / 2, statistic / 2))


def _variance_error_factor(variance: Floats, slope: Floats, of_shares: Floats) -> Floats:
    """Return the factors on standard deviations that keep the level although noise moves the stated variance."""
    # A stated variance V (1 + e) with Var(e) = v is too small as often as too large, but rejects more where it is
    # too small. The level is kept to second order by V (1 + v (z^2 + 1)/4), which is the first term of Student's
    # quantile with 2/v degrees of freedom.
    relative = np.minimum(slope**2 * of_shares / np.maximum(variance, 1e-9) ** 2, 1.0)
    return np.asarray(np.sqrt(1 + relative * (_CRITICAL**2 + 1) / 4))


def _quadratic(vectors: Floats, matrix: Floats) -> Floats:
    return np.asarray(np.maximum(((vectors @ matrix) * vectors).sum(axis=-1), 0.0))


# Power, by simulating both stages from public parameters

DRAWS = 1000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


# A dataset is drawn as the counts of its rows by arm, bin and fate, so that the time does not depend on the number
# of rows. Each simulated table has its critical value, which is larger than for expected cells, because noise moves
# it.
def simulate_pvalues(
    plan: Any, hazard_ratio: float, survival: float, censored: float, share: float, draws: int = DRAWS, seed: int = 0
) -> Floats:
    """Return the p-values of tests of simulated datasets with exponential times: shape (draws,).

    Parameters
    ----------
    plan : LogRankPlan
        A plan for two groups.
    hazard_ratio, survival, censored, share : float
        See `LogRankTest.power`.
    """
    rng, cells = np.random.default_rng(seed), plan.cells
    m, edges = cells.n_bins, np.asarray(cells.edges)
    elapsed = edges / edges[-1]
    probabilities, loss = _row_probabilities(elapsed, hazard_ratio, survival, censored, share)
    drawn = rng.multinomial(plan.n_samples, probabilities.ravel(), size=draws)
    counts = drawn.reshape(draws, 2, 2 * m + 1).astype(np.float64)
    events, left, beyond = counts[..., :m], counts[..., m : 2 * m], counts[..., 2 * m]
    # Released table: censored rows are in the middle of their bins on average, or at the earlier edge.
    earlier = 1.0 if cells.discrete else 0.5
    exact = np.zeros((draws, cells.n_groups, cells.size))
    exact[:, :2, :m] = events
    exact[:, :2, m : 2 * m] = earlier * left
    exact[:, :2, m + 1 :] += (1 - earlier) * left
    exact[:, :2, 2 * m] += beyond
    released = (exact @ plan.levels.sums.T).reshape(draws, -1)
    if cells.position_share:
        found = events.sum(axis=1)
        # The mean event is a little before the middle of its bin, because the number at risk decreases.
        spread = np.sqrt(found / 12) * rng.normal(size=found.shape)
        early = (events * loss * np.diff(elapsed)).sum(axis=1) / 12
        released = np.hstack([released, spread - early, left.sum(axis=1) / 6])
    reference = plan.reference(released + _noise(plan, TABLE, rng, released.shape))
    # Sums of residuals of the same rows, given the noisy table.
    residuals = plan.residuals(reference)
    heights, weights = reference.heights, reference.weights
    passed = np.zeros((draws, m))
    if not cells.discrete:
        for node, weight in zip((_NODES + 1) / 2, _WEIGHTS / 2, strict=True):
            passed += weight * residuals.elapsed_hazard(np.arange(m), np.full(m, node))
    of_event = weights - heights[:, 1:]
    of_left = -(heights[:, :-1] + passed * np.diff(heights, axis=1))
    sums = (events * of_event[:, None]).sum(axis=2) + (left * of_left[:, None]).sum(axis=2)
    sums -= beyond * heights[:, -1:]
    first = reference.mean_shares[:, 0]
    total = ((1 - first) * sums[:, 0] - first * sums[:, 1]) / residuals.divisor
    noisy = total[:, None] + _noise(plan, RESIDUALS, rng, (draws, 1))
    return np.asarray(plan.pvalues(reference, noisy))


def _noise(plan: Any, name: str, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    stage = plan.table_stage if name == TABLE else plan.residual_stage
    drawn = rng.laplace(size=shape) if stage.noise == "laplace" else rng.normal(size=shape)
    return np.asarray(drawn * np.asarray(stage.noise_scale))


def _row_probabilities(
    elapsed: Floats, hazard_ratio: float, survival: float, censored: float, share: float
) -> tuple[Floats, Floats]:
    """Return the probabilities (2, 2 bins + 1) of a row, and the rates (2, 1) at which rows leave."""
    # A row has an event in a bin, is censored in a bin, or passes the horizon.
    speeds = np.array([[1.0], [hazard_ratio]])
    event_rate, left_rate = -speeds * np.log(survival), -np.log1p(-censored)
    rate = event_rate + left_rate
    staying = np.exp(-rate * elapsed)
    leaving = staying[:, :-1] - staying[:, 1:]
    events = leaving * event_rate / rate
    found = np.hstack([events, leaving - events, staying[:, -1:]])
    found = np.maximum(found, 0.0) * np.array([[share], [1 - share]])
    return found / found.sum(), rate
