"""Private proportion of rows with a property: one noisy count, or two, of known distribution.

Proofs: docs/proofs/proportion.md, docs/intervals/tables.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.opening import Tally
from dpstats.data.parameters import check_choice, check_integer, check_privacy_parameters, check_real
from dpstats.data.rows import Rows
from dpstats.data.schema import Categories, Schema
from dpstats.errors import refuse, refuse_data
from dpstats.inference.estimates import Estimates, HasEstimates
from dpstats.inference.figures import ESTIMATE, REFERENCE, new_figure
from dpstats.inference.noisy_counts import CountNoise, CountShare, NoisyShare, ShareErrors, uniform
from dpstats.inference.reports import picture_of
from dpstats.inference.results import about_missing, few_observed, observed_rows, with_missing
from dpstats.mechanisms.histogram import count_stage, count_steps
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.guarantee import PrivacyGuarantee, parse_neighbors
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import AnyStage, Coins
from dpstats.release.additive import check_size, has_private_size, record_size
from dpstats.release.estimator import PrivateEstimator, parameters
from dpstats.release.session import Released, Session

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Numbers = NDArray[np.float64]


COUNT, UNIFORM = "count", "uniform"
_BITS = 52  # bits of the uniform number: the precision of a float near one half
_ESTIMAND = "the proportion in the population that the rows are a sample of"
_COVER = {"conservative": "conservative: at least the level", "exact": "exact: the level itself, by a random number"}
_TAIL = 0.025
_REJECTED = "At 95% every proportion is rejected: noise has put the count far outside [0, n]."


@dataclass(frozen=True)
class ProportionPlan(ReleasePlan):
    """The plan of a `PrivateProportion`: a count, and the coin flips of the uniform number that its tests use.

    Attributes
    ----------
    missing : {"error", "drop"}
        "drop" counts the ones and the zeros separately. Stated errors assume that no row is missing.
    """

    missing: str = "error"

    @property
    def counts_zeros(self) -> bool:
        """Whether zeros are counted too, because the number of rows that count is private."""
        return self.missing == "drop" or self.has_private_size

    @property
    def count_noise(self) -> CountNoise:
        """Noise of a count."""
        noise = self.noise(COUNT)
        return CountNoise(noise.law, float(np.max(noise.scale)))

    def expected_error(self, std: float | NDArray[np.float64] | None = None) -> float:
        """Return the expected squared error of ``count_ / n``; ``std`` is at most 1/2, the root of p (1 - p).

        It is that before ``proportion_`` is moved into [0, 1]. With two counts it is approximate, for the count of ones
        divided by the sum of both, and more rows than noise hides.
        """
        spread = 0.5 if std is None else check_real("std", std, at_least=0, at_most=0.5)
        # Two counts have noise of variance (1 - p)^2 + p^2 = 1 - 2 p (1 - p).
        noise = self.count_noise.variance * (1 - 2 * spread**2 if self.counts_zeros else 1)
        return spread**2 / self.n_expected + noise / self.n_expected**2


@parameters
class PrivateProportion(HasEstimates, PrivateEstimator[ProportionPlan]):
    """Private proportion of rows that are 1, with the most powerful private test and exact intervals.

    Parameters
    ----------
    missing : {"error", "drop"}, default="error"
        Treatment of a missing entry. "error" raises `InvalidData`. "drop" leaves the row out. The proportion of the
        observed rows then uses noisy counts of ones and of zeros, each with twice the Laplace scale.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    neighbors : {"replace_one", "add_or_remove"}, default="replace_one"
        Neighboring datasets. "add_or_remove": one row is added or removed. The number of rows is then private, and the
        proportion uses noisy counts of ones and of zeros, each with Laplace scale 1/epsilon.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=0.0
        Privacy parameter, in [0, 1). 0 adds discrete Laplace noise of scale 1/epsilon to the count: the choice for a
        single proportion. A positive value allows Gaussian noise, which is added if it is smaller, or for a
        budget that composes many releases with ``method="gdp"`` or "zcdp". Otherwise the guarantee has delta = 0.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    proportion_ : float
        ``count_ / n``, clipped to [0, 1]. With two counts, the count of ones divided by the sum of both; NaN if neither
        is positive.
    count_ : float
        Noisy count of ones as released. It may be negative or larger than n. At delta = 0 it is a whole number.
    statistic_ : float
        Statistic of exact tests and intervals. At delta = 0 it is ``count_`` plus one uniform number in (-1/2, 1/2),
        drawn after the release independently of the data. Otherwise, and with two counts, it is ``count_``.
    rows_ : float
        Noisy number of observed rows, the sum of both counts. It may be negative. Only with ``missing="drop"``.
    n_, n_noise_std_ : float
        Noisy number of rows that count, and the standard deviation of its noise. Only with
        ``neighbors="add_or_remove"``; ``n_interval()`` is its interval.
    noise_std_ : float
        Standard deviation of the noise in ``proportion_``.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : ReleasePlan
        The release plan: every released quantity and its noise.
    n_features_in_ : int
        Number of columns, always 1.

    Notes
    -----
    Intervals and tests come in two forms. Choose one before you look at either:

    * "conservative", the default, uses the released count only. It has at least nominal coverage. Without noise it
      equals the Clopper-Pearson interval.
    * "exact" adds a uniform number, once. The distribution of a binomial count plus discrete Laplace and uniform noise
      is computed exactly (to 1e-17). Its one-sided tests are uniformly most powerful among all tests that are
      epsilon-private (Awan and Slavkovic 2018). Intervals are never longer than conservative ones and have exactly
      nominal coverage, but their endpoints vary with the uniform number.

    With two counts there is only "conservative": a score interval that includes the noise of both. Its coverage is
    approximate.

    Without missing rows, both are valid for every n, proportion and epsilon, if rows are independent. With Gaussian
    noise they are equal. Noise can put the count so far outside [0, n] that every proportion is rejected. The interval
    is then only the nearer of 0 and 1.

    **Limits.** With missing rows (``missing="drop"``) coverage is approximate. One column of yes/no rows only; with
    several levels use `ContingencyTable`.

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

    _one_column = True

    missing: str = "error"
    missing_codes: Any = None
    neighbors: Any = "replace_one"
    epsilon: float = 1.0
    delta: float = 0.0
    random_state: Any = None
    budget: PrivacyBudget | None = None

    _min_samples = 1

    def plan(self, n_samples: int | None, n_features: int = 1) -> ProportionPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples : int
            Public number of rows. With ``neighbors="add_or_remove"`` it enters expected errors only, and may be None.
        n_features : int
            Number of columns, which must be 1.
        """
        n = check_size(self, n_samples, at_most=2**31, at_least=1)
        if check_integer("n_features", n_features, at_least=1) != 1:
            raise refuse("n_features", given=n_features, allowed="1, because a proportion needs one column")
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        missing = self._policy()
        two = missing == "drop" or has_private_size(self)

        def make_plan(delta: float) -> ProportionPlan:
            guarantee = PrivacyGuarantee(epsilon, delta, parse_neighbors(self.neighbors))
            stages: list[AnyStage] = [count_stage(1 + two, guarantee, COUNT)]
            if delta == 0 and not two:
                stages.append(Coins(UNIFORM, (_BITS,), released=True))
            return ProportionPlan(tuple(stages), guarantee, n, 1, missing)

        return self._smaller_noise(make_plan, delta, lambda plan: plan.count_noise.std)

    def _schema(self) -> Schema:
        return Schema(levels=(Categories((0, 1, None)),), missing=self.missing)

    def _read(self, rows: Rows, plan: ProportionPlan) -> Mapping[str, Any]:
        zeros, ones, missing, others = Tally((3,)).of(rows)
        dropped = plan.missing == "drop"
        if others or (missing and not dropped):
            allowed = "0, 1, a boolean or missing" if dropped else "0 or 1 (or booleans)"
            missed = "" if dropped else "missing (missing='drop' leaves its row out) or "
            raise refuse_data("X", got=f"at least one entry that is {missed}another value", allowed=allowed)
        stage = plan.additive[0]
        return {COUNT: count_steps(stage, np.array([ones, zeros][: stage.size]), rows.shape[0])}

    def _release(self, private: Mapping[str, Any], plan: ProportionPlan, session: Session) -> None:
        session.add(COUNT, private[COUNT])
        if UNIFORM in [stage.name for stage in plan.stages]:
            # Draw the uniform number after the count. It does not depend on the count.
            session.coins(UNIFORM)

    def _report(self, released: Released, plan: ProportionPlan) -> None:
        self.count_ = float(released[COUNT][0])
        self.statistic_ = self.count_ + (float(uniform(released[UNIFORM])) if UNIFORM in released else 0.0)
        if plan.counts_zeros:
            self._zeros = float(released[COUNT][1])
            rows = self.count_ + self._zeros
            if plan.has_private_size:
                record_size(self, rows, plan.count_noise.of(2))
            if plan.missing == "drop":
                self.rows_ = rows
            self.proportion_ = self._share.estimate
            p = float(np.nan_to_num(self.proportion_, nan=0.5))
            self.noise_std_ = plan.count_noise.std * float(np.hypot(p, 1 - p)) / max(rows, 1.0)
            return
        self.proportion_ = min(max(self.count_ / plan.n_samples, 0.0), 1.0)
        self.noise_std_ = plan.count_noise.std / plan.n_samples

    @property
    def _share(self) -> NoisyShare:
        """Both counts, if there are two."""
        noise = self.plan_.count_noise
        return NoisyShare(self.count_, self._zeros, noise, noise)

    def estimates(self, *, interval: str = "conservative") -> Estimates:
        """Return the proportion with the exact distribution of its error, as a result that can be pickled alone.

        Parameters
        ----------
        interval : {"conservative", "exact"}, default="conservative"
            "conservative" has at least nominal coverage. "exact" has exactly nominal coverage, but its endpoints depend
            on the random number in ``statistic_``. At delta = 0 its one-sided tests are most powerful.
        """
        check_is_fitted(self)
        kind = check_choice("interval", interval, list(_COVER))
        plan, noise = self.plan_, self.plan_.count_noise
        two = plan.counts_zeros
        if two and kind == "exact":
            option = "missing='drop'" if plan.missing == "drop" else "neighbors='add_or_remove'"
            raise refuse("interval", given="exact", allowed=f"'conservative' with {option}")
        # A tail of a discrete count includes the count. With the uniform number, tails begin half a step away.
        middle, half = (self.statistic_, 0.0) if kind == "exact" else (self.count_, noise.half)
        share = self._share if two else CountShare(middle - half, middle + half, plan.n_samples, noise)
        errors = ShareErrors(np.array(self.proportion_), [share])
        rows_std = noise.std * 2**0.5
        rows = self.count_ + self._zeros if two else math.inf
        few = few_observed(rows, rows_std) if two else []
        return Estimates(
            errors.estimate[()],
            errors.standard_error[()],
            ("proportion",),
            with_missing(_ESTIMAND if two else f"{_ESTIMAND} ({_COVER[kind]})", about_missing(plan.missing)),
            errors,
            title="Private proportion",
            facts=(
                *self._public_facts(),
                *([("Rows observed", observed_rows(rows, rows_std))] if two and not plan.has_private_size else []),
                ("Noise", f"{noise.law.capitalize()} of scale {noise.scale:.4g} on {'each' if two else 'the'} count"),
            ),
            notes=[
                "The interval accounts for sampling error and noise, and assumes independent rows.",
                *few,
                *([_REJECTED] if not few and _excludes_all(errors) else []),
            ],
            simulated=self.privacy_.simulated,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags


def _excludes_all(errors: ShareErrors) -> bool:
    """Return whether an interval is one point: it holds an estimate strictly within [0, 1]."""
    return errors.estimate[()] in (0.0, 1.0) and bool(np.equal(*errors.limits(_TAIL)))


def plot_proportion(estimator: PrivateProportion, *, confidence_level: float = 0.95) -> Figure:
    """Draw the confidence curve of a private proportion: the two-sided p-value of every possible value.

    Parameters
    ----------
    estimator : PrivateProportion
        Fitted estimator.
    confidence_level : float, default=0.95
        Level of the marked interval.

    Returns
    -------
    matplotlib.figure.Figure
    """
    found = estimator.estimates()
    interval = found.confidence_interval(confidence_level)
    low, high = float(interval.low), float(interval.high)
    # Choose the range so that the curve is near 0 at both limits.
    wide = found.confidence_interval(1 - 1e-3)
    values = np.linspace(max(float(wide.low), 1e-9), min(float(wide.high), 1 - 1e-9), 301)
    pvalues = [found.test(value).pvalue for value in values]
    figure = new_figure(figsize=(4.8, 3.2))
    axis = figure.subplots()
    axis.plot(values, pvalues, color=ESTIMATE)
    axis.axvline(estimator.proportion_, color=ESTIMATE, lw=1, ls="--", label=f"{estimator.proportion_:.3g}")
    words = f"{100 * confidence_level:g}%: [{low:.3g}, {high:.3g}]"
    axis.hlines(1 - confidence_level, low, high, color=REFERENCE, lw=2, label=words)
    axis.set_xlabel("proportion")
    axis.set_ylabel("two-sided p-value")
    axis.set_ylim(0, 1.05)
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, frameon=False)
    return figure


@picture_of.register
def _of_proportion(estimator: PrivateProportion) -> tuple[str, Any]:
    words = "The two-sided p-value of every value that the proportion may have; the line is the 95% interval."
    return words, plot_proportion(estimator)
