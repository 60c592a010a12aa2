"""The private log-rank test: a table in a first stage, sums of residuals about it in a second one.

Derivation: docs/intervals/survival.md. Proof: docs/proofs/survival.md. `Residuals` sees private rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from dpstats.data.parameters import check_flag, check_level, check_privacy_parameters, check_real
from dpstats.data.rows import LEFT_OUT, Rows, Table, empty_groups_note
from dpstats.data.values import as_int64
from dpstats.errors import refuse
from dpstats.inference.error_distributions import error_tails
from dpstats.inference.results import HasResult
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.stages import Stage
from dpstats.release.additive import Integers, additive_stages
from dpstats.release.estimator import fitted, parameters
from dpstats.release.session import Released, Session
from dpstats.survival.cells import (
    MOST_ROWS,
    TABLE,
    Cells,
    Floats,
    Steps,
    SurvivalEstimator,
    assumptions,
    checked_rows,
    crowding_notes,
    elapsed_share,
    levels_for,
    shape_notes,
    times_at_edges,
)
from dpstats.survival.hazard_ratios import Reference, expectation_gradient
from dpstats.survival.results import LogRankResult, check_weights, describe_weights
from dpstats.survival.table_plan import CellsPlan, check_cells, check_edges, finest_cells, noise_strength

# Residuals of a log-rank test: the contribution of a row, given the public reference of the first stage

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


# The plan and the estimator

FIRST_SHARE = 0.3
"""Budget fraction of the table."""
_BINS = 10
_FIRST_SIZE = 16  # of the search for a number of rows
_POSITION_SHARE, _LEAST_STRENGTH = 0.1, 50.0  # of the table, for the positions inside the bins
_FINER = 8  # additional bits of a residual, compared with a row of the table


@dataclass(frozen=True)
class LogRankPlan(CellsPlan):
    """The plan of a `LogRankTest`: a table, and then residuals.

    Attributes
    ----------
    cells : Cells
        The public bins and groups of the table.
    groups : tuple
        The declared groups.
    rho, gamma : float
        Parameters of the weights.
    """

    groups: tuple[Any, ...]
    rho: float
    gamma: float
    _pooled: ClassVar[bool] = True

    @property
    def residual_stage(self) -> Stage:
        """The stage that releases the sums of residuals."""
        stage = self.stage(RESIDUALS)
        assert isinstance(stage, Stage)
        return stage

    def reference(self, released: Any) -> Reference:
        """Return the public reference of one release of the first stage, or of several."""
        cells, positions = self.estimate_cells(np.atleast_2d(np.asarray(released)))
        # Rows of undeclared groups are in the table, whose total is public, and in no comparison.
        cells = cells[:, : len(self.groups)]
        return Reference(cells, self.least_squares, self.rho, self.gamma, positions, self.position_std)

    def residuals(self, reference: Reference) -> Residuals:
        """Return the summands of the second stage, given a reference."""
        stage = self.residual_stage
        edges, bits = np.asarray(self.cells.edges), self.cells.bits + _FINER
        return Residuals(reference, edges, bits, stage.noise == "laplace", self.cells.discrete, self.cells.others)

    def pvalues(self, reference: Reference, released: Floats) -> Floats:
        """Return the p-values of releases of both stages: shape (releases,)."""
        return outcome(self, reference, released).pvalue

    def facts(self) -> dict[str, Any]:
        """Return further facts of the plan, by name."""
        return {
            "groups": [str(group) for group in self.groups],
            "bins": self.cells.n_bins,
            "horizon": self.cells.edges[-1],
            "weights": f"S^{self.rho:g} (1 - S)^{self.gamma:g}",
        }

    def notes(self) -> list[str]:
        """Return the facts as sentences."""
        share = f"{100 * FIRST_SHARE:g}%"
        positions = ", with positions inside them" if self.cells.position_share else ""
        notes = [
            f"{len(self.groups)} groups, {self.cells.n_bins} bins up to {self.cells.edges[-1]:g}{positions}",
            f"the table gets {share} of the privacy, the residuals get the rest",
        ]
        if len(self.groups) == 2:
            rejected = (simulate_pvalues(self, 1.0, 0.5, 0.0, 0.5) <= 0.05).mean()
            notes.append(
                f"simulated level of a test at 0.05, if half of each group survive to the horizon: {rejected:.2f}"
            )
        return notes


class LogRankOutcome(NamedTuple):
    """What two stages say, for one release or several.

    Attributes
    ----------
    differences : array of shape (releases, groups)
        Observed less expected events, weighted.
    statistic : array of shape (releases,)
        With two groups as a normal variable, with more as chi-square.
    pvalue : array of shape (releases,)
    """

    differences: Floats
    statistic: Floats
    pvalue: Floats


def outcome(plan: LogRankPlan, reference: Reference, released: Floats) -> LogRankOutcome:
    """Return the outcome of the test, from the reference and the sums (releases, sums) of the second stage."""
    residuals, stage = plan.residuals(reference), plan.residual_stage
    sums = np.atleast_2d(released) * residuals.divisor[:, None]
    scale = float(np.asarray(stage.noise_scale)) * residuals.divisor
    std = float(np.asarray(stage.noise_std)) * residuals.divisor
    null = NullDistribution.compute(reference, std)
    nothing = ~(reference.information.sum(axis=1) > 0)
    if len(plan.groups) == 2:
        found = sums[:, 0]
        statistic = found / np.hypot(null.std, std)
        pvalue = null.pvalues_of_two(found, stage.noise, scale)
        differences = np.column_stack([found, -found])
    else:
        differences, statistic, pvalue = null.chi_square(sums, reference.mean_shares, std)
    return LogRankOutcome(differences, statistic, np.where(nothing, 1.0, pvalue))


class _Private(NamedTuple):
    """The cells of the first stage, and the rows that the second one reads again."""

    rows: Rows
    table: NDArray[np.int64]


@parameters
class LogRankTest(HasResult[LogRankResult], SurvivalEstimator[LogRankPlan]):
    """Private log-rank test: do the survival curves of two or more groups differ?

    A first stage releases the pooled hazard in a few bins, and a second stage the sums of the residuals from it. The
    test has a separate privacy cost, and far more power than `PrivateSurvival.log_rank`.

    Parameters
    ----------
    groups : sequence
        The labels of the groups: public, distinct and declared, two or more.
    by, time, event, unit, censored, entry
        As for `PrivateSurvival`.
    horizon : float
        The end of follow-up; public. Later times count as censored at the horizon.
    edges, bins
        As for `PrivateSurvival`; ten bins by default.
    rho, gamma : float, default=0
        Fleming and Harrington's weights S^rho (1 - S)^gamma. 0 and 0 is the log-rank test, rho = 1 weighs early and
        gamma = 1 late differences.
    discrete : bool, default=False
        As for `PrivateSurvival`: True if events happen at the edges only.
    unknown : {"drop", "error"}, default="drop"
        Treatment of rows with an undeclared label: they are left out of the comparison, or refused.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=0.0
        0 adds discrete Laplace noise. A value in (0, 1) adds Laplace or Gaussian noise, whichever is smaller. If it is
        Laplace noise, the guarantee has delta = 0. A budget with ``method="gdp"`` or "zcdp" keeps Gaussian noise.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    statistic_ : float
        With two groups a normal variable under the null hypothesis, nearly: positive where the first group has more
        events than expected. With more groups chi-square, with one degree of freedom less than groups.
    pvalue_ : float
        With two groups two-sided, from a normal variable plus the noise of the second stage.
    observed_minus_expected_ : ndarray of shape (n_groups,)
        Weighted observed less expected events, with noise.
    result_ : LogRankResult
        These numbers with their table, which `summary`, `to_frame` and `to_dict` give too.
    privacy_ : PrivacyGuarantee
        For neighbors that differ in one row; n is public, the sizes of groups are not.
    plan_ : LogRankPlan
    n_features_in_ : int
        Number of columns: 1.
    feature_names_in_ : ndarray of shape (1,)
        The name of the column of times, if X has names.

    Notes
    -----
    **Null hypothesis.** The groups have the same survival curve up to the horizon. Censoring may differ between groups,
    but must be independent of the event time in each group. Events are spread smoothly inside the bins: if they happen
    at the edges only (at scheduled visits, say), and rows are censored between, give ``discrete=True``.

    **Level.** It is measured, not proved: 0.01 to 0.07 at a stated level of 0.05, and lowest where noise is large.
    `power`
    with a hazard ratio of 1 simulates it.

    **Limits.** A test of crossing curves has little power, as without privacy. It has no estimate of the
    difference: use `PrivateSurvival`. Subjects who enter late are not covered: ``entry`` is refused.

    References
    ----------
    Mantel (1966), Evaluation of survival data and two new rank order statistics. Fleming and Harrington (1981), A class
    of hypothesis tests for one and two sample censored survival data.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.survival import LogRankTest
    >>> rng = np.random.default_rng(0)
    >>> arm = rng.integers(2, size=3000)
    >>> times, left = rng.exponential(3.0 + arm), rng.uniform(1.0, 8.0, 3000)
    >>> test = LogRankTest(groups=[0, 1], horizon=5.0, random_state=0)
    >>> test = test.fit(np.minimum(times, left), times <= left, y=arm)
    >>> test.pvalue_ < 0.001, bool(test.observed_minus_expected_[0] > 0)
    (True, True)
    """

    groups: Any = None
    by: Any = None
    time: Any = None
    event: Any = None
    horizon: Any = None
    edges: Any = None
    bins: Any = None
    rho: float = 0.0
    gamma: float = 0.0
    unit: Any = None
    censored: Any = 0
    entry: Any = None
    discrete: bool = False
    unknown: str = "drop"
    epsilon: float = 1.0
    delta: float = 0.0
    random_state: Any = None
    budget: Any = None
    statistic_: float = fitted()
    pvalue_: float = fitted()
    observed_minus_expected_: Floats = fitted()

    def plan(self, n_samples: int, n_features: int = 1) -> LogRankPlan:
        """Return the plan of a fit on data of this size: what it releases, and its cost.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes; times are one column.
        """
        n = self._size(n_samples, n_features)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        if self.groups is None:
            raise refuse("groups", allowed="given: the public labels of two groups or more")
        groups = self._categories().values
        if len(groups) < 2:
            raise refuse("groups", given=len(groups), allowed="two or more")
        self._event_kinds()
        rho, gamma = check_weights(self.rho, self.gamma)
        discrete = check_flag("discrete", self.discrete)
        edges = check_edges(self.horizon, self.edges, self.bins, _BINS, discrete)
        others = self._has_others()
        n_cells = len(groups) + others
        check_cells(len(edges) - 1, 1, n_cells)

        def make_plan(delta: float) -> LogRankPlan:
            strength = n * (FIRST_SHARE if delta == 0 else FIRST_SHARE**0.5) * noise_strength(epsilon, delta)
            fine = not discrete and strength >= _LEAST_STRENGTH * (len(edges) - 1)
            share = _POSITION_SHARE if fine else 0.0
            levels = levels_for(len(edges) - 1, 1, delta == 0, share, True)

            def build(cells: Cells) -> LogRankPlan:
                items = [
                    replace(levels.integers(cells), share=FIRST_SHARE),
                    residual_integers(len(groups), cells.bits + _FINER, 1 - FIRST_SHARE),
                ]
                stages = additive_stages(items, epsilon, delta)
                guarantee = PrivacyGuarantee(epsilon, delta)
                return LogRankPlan(stages, guarantee, n, 1, cells=cells, groups=groups, rho=rho, gamma=gamma)

            found: LogRankPlan = finest_cells(
                edges, 1, n_cells, build, discrete=discrete, position_share=share, others=others
            )
            return found

        return self._smaller_noise(make_plan, delta, lambda plan: plan.residual_stage.noise_std)

    def _read(self, rows: Rows, plan: LogRankPlan) -> _Private:
        # The first pass finds bad rows, before the charge.
        return _Private(rows, plan.levels.steps(rows.total(plan.cells)))

    def _release(self, private: _Private, plan: LogRankPlan, session: Session) -> None:
        residuals = self._residuals(plan, session.add(TABLE, private.table))
        sums = private.rows.total(residuals)[RESIDUALS]
        session.add(RESIDUALS, sums[0] if session.size is None else sums)

    def _residuals(self, plan: LogRankPlan, released: Floats) -> Residuals:
        """Return the summands of the second stage, given the release of the first one."""
        return plan.residuals(plan.reference(released))

    def _report(self, released: Released, plan: LogRankPlan) -> None:
        reference = plan.reference(released[TABLE])
        found = outcome(plan, reference, np.asarray(released[RESIDUALS]))
        self.statistic_ = float(found.statistic[0])
        self.pvalue_ = float(found.pvalue[0])
        self.observed_minus_expected_ = found.differences[0]
        self.result_ = self._build_result(plan, reference, found)

    def power(
        self,
        n_samples: int,
        hazard_ratio: float,
        *,
        survival: float = 0.5,
        censored: float = 0.0,
        share: float = 0.5,
        level: float = 0.05,
    ) -> float:
        """Return the power against proportional hazards, for two groups: the fraction of 1,000 simulated tests.

        It needs no data. Its Monte Carlo error is at most 0.016. A hazard ratio of 1 gives the actual level.

        Parameters
        ----------
        n_samples : int
        hazard_ratio : float
            Hazard of the second group over the hazard of the first.
        survival : float, default=0.5
            Survival of the first group at the horizon, for exponential times.
        censored : float, default=0.0
            Share of the subjects who would be censored before the horizon, at a constant rate.
        share : float, default=0.5
            Share of the first group in the rows.
        level : float, default=0.05

        Returns
        -------
        float

        Examples
        --------
        >>> from dpstats.survival import LogRankTest
        >>> test = LogRankTest(groups=["old", "new"], horizon=5.0)
        >>> round(test.power(2000, hazard_ratio=0.8), 1)
        0.9
        """
        plan = self.plan(n_samples)
        if len(plan.groups) != 2:
            raise refuse("groups", given=len(plan.groups), allowed="two for a power")
        pvalues = simulate_pvalues(
            plan,
            check_real("hazard_ratio", hazard_ratio, above=0),
            check_real("survival", survival, above=0, below=1),
            check_real("censored", censored, at_least=0, below=1),
            check_real("share", share, above=0, below=1),
        )
        return float((pvalues <= check_level("level", level)).mean())

    def required_samples(self, hazard_ratio: float, power: float = 0.8, **options: Any) -> int:
        """Return the smallest number of rows, to 1%, at which simulated tests have a power.

        Parameters
        ----------
        hazard_ratio : float
            Hazard of the second group over the hazard of the first.
        power : float, default=0.8
        **options
            ``survival``, ``censored``, ``share`` and ``level`` of `power`.

        Examples
        --------
        >>> from dpstats.survival import LogRankTest
        >>> test = LogRankTest(groups=["old", "new"], horizon=5.0, epsilon=1.0)
        >>> 1300 < test.required_samples(hazard_ratio=0.8) < 1700
        True
        """
        wanted = check_real("power", power, above=0, below=1)

        def enough(n: int) -> bool:
            return self.power(n, hazard_ratio, **options) >= wanted

        low, high = 1, _FIRST_SIZE
        while high < MOST_ROWS and not enough(high):
            low, high = high, 2 * high
        if high >= MOST_ROWS:
            raise refuse(
                "power", got=f"{wanted:g} at a hazard ratio of {hazard_ratio:g}", allowed="reached by at most 2^31 rows"
            )
        while high - low > max(0.01 * high, 1):
            middle = max(math.isqrt(low * high), low + 1)
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    def _build_result(self, plan: LogRankPlan, reference: Reference, found: LogRankOutcome) -> LogRankResult:
        """Return the result of a fit, from its two releases."""
        used, noise = reference.weights[0] > 0, float(np.sqrt(max(plan.least_squares.own.sum(), 1.0)))
        cells, last = reference.cells[0], int(used.nonzero()[0].max(initial=-1)) + 1
        ends, shares = np.asarray(plan.cells.edges)[1:], reference.shares
        noises = float(np.asarray(plan.residual_stage.noise_std)) * plan.residuals(reference).divisor[:, None]
        error = np.hypot(np.sqrt((shares * (1 - shares) * reference.information[:, None]).sum(axis=2)), noises)
        notes: tuple[str, ...] = (
            "N, observed and expected are of the first stage. The test and O - E are of the second one.",
            f"The level is measured and not proved. {LEFT_OUT}",
            *empty_groups_note([g for g, n in zip(plan.groups, cells.sum(axis=1), strict=True) if n < 2 * noise]),
            *crowding_notes(ends[reference.crowded[0]]),
            *shape_notes(ends[reference.find_shaped(error)[0] & (not plan.cells.discrete)], what="The comparison"),
            *assumptions(plan.cells),
        )
        if not reference.information.sum() > 0:
            few = "too few rows or too much noise for a test. The p-value is 1. Use more rows, or a larger epsilon."
            notes = (f"Warning: {few}", *notes)
        return LogRankResult(
            self.statistic_,
            self.pvalue_,
            len(plan.groups) - 1,
            tuple(map(str, plan.groups)),
            cells.sum(axis=1),
            reference.observed[0],
            reference.expected[0],
            found.differences[0],
            describe_weights(plan.rho, plan.gamma),
            self.privacy_.simulated,
            law="normal, plus noise" if len(plan.groups) == 2 else "",
            facts=(
                ("Rows", f"{plan.n_samples:,} (public)"),
                ("Follow-up", f"to {plan.cells.edges[last]:g} of {plan.cells.edges[-1]:g}"),
                ("Privacy", str(self.privacy_)),
            ),
            notes=notes,
            noise_std=noise,
        )
