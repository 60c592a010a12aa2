"""The private log-rank test: a table in a first stage, sums of residuals about it in a second one.

Proof: docs/proofs/survival.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_flag, check_level, check_privacy_parameters, check_real
from dpstats.data.rows import LEFT_OUT, Rows, empty_groups_note
from dpstats.errors import refuse
from dpstats.inference.results import HasResult
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.stages import Stage
from dpstats.release.additive import additive_stages
from dpstats.release.estimator import fitted, parameters
from dpstats.release.session import Released, Session
from dpstats.survival.cells import (
    MOST_ROWS,
    TABLE,
    Cells,
    SurvivalEstimator,
    assumptions,
    crowding_notes,
    levels_for,
    shape_notes,
)
from dpstats.survival.hazard_ratios import (
    RESIDUALS,
    NullDistribution,
    Reference,
    Residuals,
    residual_integers,
    simulate_pvalues,
)
from dpstats.survival.results import LogRankResult, check_weights, describe_weights
from dpstats.survival.table_plan import CellsPlan, check_cells, check_edges, finest_cells, noise_strength

Floats = NDArray[np.float64]

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
