"""Private proportion of rows with a property: one noisy count, whose distribution is known exactly.

Proof: docs/proofs/proportion.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.counts import Tally
from dpstats.data.levels import Categories
from dpstats.data.parameters import (
    check_choice,
    check_integer,
    check_privacy_parameters,
    check_real,
)
from dpstats.data.schema import Schema
from dpstats.data.tables import Rows
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.inference import Estimates, HasEstimates, Test
from dpstats.mechanisms.histogram import count_stage, count_steps
from dpstats.noisy_counts import CountNoise
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import AnyStage, Coins
from dpstats.release.estimator import PrivateEstimator
from dpstats.release.parameters import parameters
from dpstats.release.session import Released, Session
from dpstats.results import ConfidenceInterval
from dpstats.tables.shares import CountShare, ShareErrors

COUNT, UNIFORM = "count", "uniform"
_BITS = 52  # of the uniform: as many as a float keeps beside a half
_ESTIMAND = "the proportion in the population that the rows are a sample of"
_COVER = {
    "conservative": "conservative: at least the level",
    "exact": "exact: the level itself, by a random number",
}
_TAIL = 0.025
_REJECTED = "At 95% every proportion is rejected: noise has put the count far outside [0, n]."


@dataclass(frozen=True)
class ProportionPlan(ReleasePlan):
    """The plan of a `PrivateProportion`: a count, and the coins of the uniform that its tests need."""

    @property
    def count_noise(self) -> CountNoise:
        """The noise of the count."""
        noise = self.noise(COUNT)
        return CountNoise(noise.law, float(np.asarray(noise.scale)))

    def expected_error(self, std: float | NDArray[np.float64] | None = None) -> float:
        """Return the expected squared error of ``count_ / n``, ``std`` (at most 1/2) the root of share (1 - share)."""
        spread = 0.5 if std is None else check_real("std", std, at_least=0, at_most=0.5)
        return spread**2 / self.n_samples + self.count_noise.variance / self.n_samples**2


@parameters
class PrivateProportion(HasEstimates, PrivateEstimator[ProportionPlan]):
    """Private proportion of rows that are 1, with the most powerful private test and exact intervals.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy parameter, greater than 0.
    delta : float, default=0.0
        0 adds discrete Laplace noise of scale 1/epsilon to the count: the choice for one proportion. In (0, 1) Gaussian
        noise, which is larger, for budgets that add up many releases by ``method="gdp"`` or "zcdp".
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise: a release. Anything else is a simulation.
    budget : PrivacyBudget, optional
        Charged by every fit, before noise is drawn; shared by clones.

    Attributes
    ----------
    proportion_ : float
        ``count_ / n``, brought into [0, 1].
    count_ : float
        The noisy count, as released: a whole number at delta = 0; may be negative, or more than n.
    statistic_ : float
        What exact tests and intervals are from: ``count_``, at delta = 0 plus a uniform number in (-1/2, 1/2) that was
        drawn after the release, once. It does not depend on the data.
    noise_std_ : float
        Standard deviation of the noise in ``proportion_``.
    privacy_ : PrivacyGuarantee
        For neighbours that differ in one row; n is public.
    plan_ : ReleasePlan
    n_features_in_ : int
        1.

    Notes
    -----
    Intervals and tests come in two forms. Choose one before you look at either:

    * "conservative", the default, uses the released count alone. It covers with at least its level. Without noise it is
      the interval of Clopper and Pearson.
    * "exact" adds a uniform number, once. With X binomial, X + discrete Laplace + uniform has a distribution that is
      computed exactly (to 1e-17). Its one-sided tests are uniformly most powerful among all tests that are
      epsilon-private (Awan and Slavkovic 2018). Intervals are never longer than conservative ones and cover with the
      level itself, but their ends vary with the uniform number.

    Both hold for every n, proportion and epsilon, if rows are independent. With Gaussian noise they are the same. Where
    noise puts the count so far outside [0, n] that every proportion is rejected the interval is the nearer end alone.

    References
    ----------
    Awan and Slavkovic (2018), Differentially private uniformly most powerful tests for binomial data. Awan and
    Slavkovic (2020), Differentially private inference for binomial data.

    Examples
    --------
    >>> from dpstats.tables import PrivateProportion
    >>> answers = [1] * 130 + [0] * 70
    >>> share = PrivateProportion(epsilon=1.0, random_state=0).fit(answers)
    >>> share.proportion_, [round(float(end), 3) for end in share.confidence_interval()]
    (0.645, [0.573, 0.713])
    >>> share.test(0.5, alternative="greater").pvalue < 0.001
    True
    """

    epsilon: float = 1.0
    delta: float = 0.0
    random_state: Any = None
    budget: PrivacyBudget | None = None

    _min_samples = 1

    def plan(self, n_samples: int, n_features: int = 1) -> ProportionPlan:
        """Return what a fit on data of this size would release, and at which cost.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes; a proportion is of one column.
        """
        n = check_integer("n_samples", n_samples, at_least=1, at_most=2**31)
        if check_integer("n_features", n_features, at_least=1) != 1:
            raise InvalidParameter(f"n_features must be 1: a proportion is of one column, got {n_features}")
        guarantee = PrivacyGuarantee(*check_privacy_parameters(self.epsilon, self.delta))
        stages: list[AnyStage] = [count_stage(1, guarantee, COUNT)]
        if guarantee.delta == 0:
            stages.append(Coins(UNIFORM, (_BITS,), released=True))
        return ProportionPlan(tuple(stages), guarantee, n, 1)

    def _schema(self) -> Schema:
        return Schema(levels=(Categories((0, 1)),))

    def _read(self, rows: Rows, plan: ProportionPlan) -> Mapping[str, Any]:
        _, ones, others = Tally((2,)).of(rows)
        if others:
            raise InvalidData(
                "X must be 0 or 1 (or booleans), got at least one that is missing or something else"
            )
        return {COUNT: count_steps(plan.additive[0], np.array([ones]), plan.n_samples)}

    def _release(self, private: Mapping[str, Any], plan: ProportionPlan, session: Session) -> None:
        session.add(COUNT, private[COUNT])
        if plan.target.delta == 0:
            # After the count, on which it does not depend.
            session.coins(UNIFORM)

    def _report(self, released: Released, plan: ProportionPlan) -> None:
        self.count_ = float(released[COUNT][0])
        self.statistic_ = self.count_ + (float(uniform(released[UNIFORM])) if UNIFORM in released else 0.0)
        self.proportion_ = min(max(self.count_ / plan.n_samples, 0.0), 1.0)
        self.noise_std_ = plan.count_noise.std / plan.n_samples

    def estimates(self, *, interval: str = "conservative") -> Estimates:
        """Return the proportion with the exact distribution of its error: it can be pickled without the estimator.

        Parameters
        ----------
        interval : {"conservative", "exact"}, default="conservative"
            "conservative" covers with at least the level. "exact" covers with the level itself, but its ends depend on
            the random number in ``statistic_``. At delta = 0 its one-sided tests are the most powerful ones.
        """
        check_is_fitted(self)
        kind = check_choice("interval", interval, list(_COVER))
        plan, noise = self.plan_, self.plan_.count_noise
        # The tails of a whole number include it: with the uniform they begin half a step away.
        middle, half = (self.statistic_, 0.0) if kind == "exact" else (self.count_, noise.half)
        errors = ShareErrors(
            np.array(self.proportion_), [CountShare(middle - half, middle + half, plan.n_samples, noise)]
        )
        return Estimates(
            errors.estimate[()],
            errors.standard_error[()],
            ("proportion",),
            f"{_ESTIMAND} ({_COVER[kind]})",
            errors,
            title="Private proportion",
            facts=(
                ("Estimator", type(self).__name__),
                ("Rows", f"{plan.n_samples:,} (public)"),
                ("Privacy", str(self.privacy_)),
                ("Noise", f"{noise.law.capitalize()} of scale {noise.scale:.4g} on the count"),
            ),
            notes=[
                "The interval counts sampling error and noise, if rows are independent.",
                *([_REJECTED] if np.equal(*errors.limits(_TAIL)) else []),
            ],
            simulated=self.privacy_.simulated,
        )

    def confidence_interval(
        self,
        confidence_level: float | None = None,
        *,
        simultaneous: bool | None = None,
        alternative: str | None = None,
        interval: str = "conservative",
    ) -> ConfidenceInterval:
        """Return the proportions that neither one-sided test rejects; see `estimates` for ``interval``."""
        found = self.estimates(interval=interval)
        return found.confidence_interval(confidence_level, simultaneous=simultaneous, alternative=alternative)

    def test(
        self,
        value: Any = 0.0,
        alternative: str | None = None,
        *,
        simultaneous: bool | None = None,
        interval: str = "conservative",
    ) -> Test:
        """Test whether the proportion is ``value``; see `estimates` for ``interval``."""
        return self.estimates(interval=interval).test(value, alternative, simultaneous=simultaneous)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.one_d_array = False, True
        tags.input_tags.categorical = True
        return tags


def uniform(signs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return uniform numbers in (-1/2, 1/2) made of coins (..., bits); never at an end."""
    bits = (np.asarray(signs) + 1) // 2
    width = bits.shape[-1]
    return np.asarray(bits @ 2.0 ** -np.arange(1, width + 1) + 2.0 ** -(width + 1) - 0.5)
