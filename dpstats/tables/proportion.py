"""Private proportion of rows with a property, and shares of a table: one noisy count, or two, of known distribution.

Proofs: docs/proofs/proportion.md, docs/intervals/tables.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincc
from sklearn.utils.validation import check_is_fitted

from dpstats.data.opening import Tally
from dpstats.data.parameters import check_choice, check_integer, check_privacy_parameters, check_real
from dpstats.data.rows import Rows
from dpstats.data.schema import Categories, Schema
from dpstats.errors import refuse, refuse_data
from dpstats.inference.error_distributions import ErrorDistribution, Limits, Tail, error_tails, furthest
from dpstats.inference.estimates import Estimates, HasEstimates
from dpstats.inference.figures import ESTIMATE, REFERENCE, new_figure
from dpstats.inference.noisy_counts import CountNoise, at_least, at_most, limits, uniform
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


# Proportions: the values that the counts do not reject

Numbers = NDArray[np.float64]
_RAISED = 1.0
"""Number of noise standard deviations that are added to the size of a group to compute sampling errors."""
_CONTINUITY = 0.5
"""Half a step. Counts are whole numbers, and a tail includes the observed count."""
_STEPS = 400
_NO_NOISE = 1e-5
"""Noise of this variance is 0, but with at most this probability."""


# If the number of rows is public, the release has one count. A group has a private size, and the release has noisy
# counts of its rows with and without the property. For a proportion t the statistic (1 - t) * with - t * without
# has mean 0 for any size of the group. So no step divides by a noisy number.
@dataclass(frozen=True)
class CountShare:
    """A noisy count among a public number of rows. Its upper tail begins at ``low`` and its lower tail at ``high``."""

    low: float
    high: float
    n: int
    noise: CountNoise

    def pvalues(self, shares: Numbers) -> Limits:
        """Return P(count at most the observed) and P(count at least the observed) for each proportion."""
        below = [at_most(self.high, self.n, float(share), self.noise) for share in np.ravel(shares)]
        above = [at_least(self.low, self.n, float(share), self.noise) for share in np.ravel(shares)]
        return np.reshape(below, np.shape(shares)), np.reshape(above, np.shape(shares))

    def limits(self, tail: float) -> tuple[float, float]:
        """Return the smallest and the largest proportion that are not rejected."""
        return limits(self.low, self.high, self.n, self.noise, tail)

    def error(self, share: float) -> float:
        """Return the standard deviation of the error of an estimate."""
        return float(np.sqrt(share * (1 - share) / self.n + self.noise.variance / self.n**2))


@dataclass(frozen=True)
class NoisyShare:
    """Two noisy counts: of the rows of a group with a property, and without it."""

    having: float
    lacking: float
    having_noise: CountNoise
    lacking_noise: CountNoise

    @property
    def estimate(self) -> float:
        """The proportion, between 0 and 1. NaN if neither count is positive."""
        having, lacking = max(self.having, 0.0), max(self.lacking, 0.0)
        return having / (having + lacking) if having + lacking > 0 else float("nan")

    @property
    def size(self) -> float:
        """Upper estimate of the number of rows, by the standard deviation of the noise, at least 1."""
        spread = np.sqrt(self.having_noise.variance + self.lacking_noise.variance)
        return float(max(self.having + self.lacking + _RAISED * spread, 1.0))

    def error(self, share: float) -> float:
        """Return the standard deviation of the error of an estimate, to first order in the noise."""
        size = max(self.having + self.lacking, 1.0)
        noise = (1 - share) ** 2 * self.having_noise.variance + share**2 * self.lacking_noise.variance
        return float(np.sqrt(size * share * (1 - share) + noise) / size)

    @cached_property
    def _alone(self) -> NoisyShares:
        return NoisyShares.stack([self])

    def pvalues(self, shares: Numbers) -> Limits:
        """Return P(statistic at most the observed) and P(statistic at least the observed) for each proportion."""
        below, above = self._alone.pvalues(np.asarray(shares, dtype=np.float64)[..., None])
        return below[..., 0], above[..., 0]

    def limits(self, tail: float) -> tuple[float, float]:
        """Return the smallest and largest proportion not rejected. If all are, return the least rejected one."""
        low, high = self._alone.limits(np.array([tail]))
        return float(low[0]), float(high[0])


@dataclass(frozen=True)
class NoisyShares:
    """Several noisy shares in arrays of shape (k,). Their limits are found together, in a few calls."""

    having: Numbers
    lacking: Numbers
    size: Numbers
    having_variance: Numbers
    lacking_variance: Numbers
    having_fourth: Numbers
    lacking_fourth: Numbers

    @classmethod
    def stack(cls, shares: Sequence[NoisyShare]) -> NoisyShares:
        """Return the proportions as arrays."""
        rows = [
            (
                *(share.having, share.lacking, share.size),
                *(share.having_noise.variance, share.lacking_noise.variance),
                *(share.having_noise.fourth, share.lacking_noise.fourth),
            )
            for share in shares
        ]
        return cls(*np.array(rows, dtype=np.float64).T)

    def pvalues(self, shares: Numbers) -> Limits:
        """Return P(statistic at most the observed) and P(statistic at least the observed): arrays of shape (..., k).

        The statistic is a binomial deviation plus Laplace or Gaussian noise. The tails use the skewness of the first
        and two cumulants of the second. If there is no noise, the tails are binomial.
        """
        below, above = self._noisy_pvalues(shares)
        exact = self.having_variance + self.lacking_variance < _NO_NOISE
        if exact.any():
            having, lacking = (np.maximum(np.rint(count), 0.0) for count in (self.having, self.lacking))
            fewer = np.where(lacking > 0, betaincc(having + 1, np.maximum(lacking, 1.0), shares), 1.0)
            more = np.where(having > 0, betainc(np.maximum(having, 1.0), lacking + 1, shares), 1.0)
            below, above = np.where(exact, fewer, below), np.where(exact, more, above)
        return below, above

    def _noisy_pvalues(self, t: Numbers) -> Limits:
        away = (1 - t) * self.having - t * self.lacking
        sampling = self.size * t * (1 - t)
        noise = (1 - t) ** 2 * self.having_variance + t**2 * self.lacking_variance
        fourth = (1 - t) ** 4 * self.having_fourth + t**4 * self.lacking_fourth
        with np.errstate(divide="ignore", invalid="ignore"):
            # On the longer side of the binomial, use the larger variance of Bernstein's inequality.
            skew = sampling / (sampling + noise) * np.maximum(np.sign(away) * (1 - 2 * t), 0.0) / 3
            variance = sampling + noise + np.abs(away) * np.nan_to_num(skew)
            # A Laplace variable with this part of the variance has the same fourth cumulant: 12 b^4 = 3 (2 b^2)^2.
            heavy = np.minimum(np.sqrt(fourth / 3), variance)
            std = np.sqrt(np.maximum(variance - heavy, 0.0))
        scale = np.sqrt(heavy / 2)
        below, above = (error_tails(side * away - _CONTINUITY, std, "laplace", scale) for side in (-1, 1))
        return below, above

    def limits(self, tail: Numbers) -> Limits:
        """Return the smallest and largest proportions not rejected. If all are, return the least rejected ones."""
        grid = self._grid()
        least = np.minimum(*self.pvalues(grid))
        kept, place = least >= tail, np.arange(len(self.size))
        some = kept.any(axis=0)
        first = np.where(some, kept.argmax(axis=0), least.argmax(axis=0))
        last = np.where(some, len(grid) - 1 - kept[::-1].argmax(axis=0), first)
        beyond = np.where(some, np.maximum(first - 1, 0), first), np.where(some, last + 1, last)
        inside, outside = (
            np.concatenate([grid[low, place], grid[np.minimum(high, len(grid) - 1), place]])
            for low, high in ((first, last), beyond)
        )

        def is_kept(values: Numbers) -> NDArray[np.bool_]:
            pairs = self.pvalues(values.reshape(-1, 2, len(self.size)))
            return np.asarray(np.minimum(*pairs) >= tail).reshape(values.shape)

        low, high = furthest(inside, outside, is_kept).reshape(2, -1)
        return low, high

    def _grid(self) -> Numbers:
        """Return proportions in increasing order, among which limits are found: shape (count, k)."""
        even = np.repeat(np.linspace(0.0, 1.0, _STEPS + 1)[:, None], len(self.size), axis=1)
        # Near 0 and 1 the grid is as fine as the resolution of counts in a group of this size.
        fine = np.where(self.size > 1, np.geomspace(0.01 / self.size, 0.5, _STEPS // 4), 0.0)
        # In a large group, proportions one grid step away may be rejected. Add the observed proportion, which is not.
        rows = self.having + self.lacking
        with np.errstate(divide="ignore", invalid="ignore"):
            observed = np.clip(np.where(rows > 0, self.having / rows, 0.0), 0.0, 1.0)
        return np.sort(np.concatenate([even, fine, 1 - fine, observed[None]]), axis=0)


@dataclass(frozen=True, eq=False)
class ShareErrors(ErrorDistribution):
    """Errors of several proportions.

    Attributes
    ----------
    estimate : array
        Estimated proportions. NaN for a group without a positive count.
    shares : sequence of CountShare or NoisyShare
        Counts of the estimates, in the order of ``numpy.ravel``.
    """

    estimate: Numbers
    shares: Sequence[CountShare | NoisyShare]

    @property
    def start(self) -> Numbers:
        return np.nan_to_num(self.estimate, nan=0.5)

    @property
    def box(self) -> Limits:
        return np.zeros(self.estimate.shape), np.ones(self.estimate.shape)

    @property
    def standard_error(self) -> Numbers:
        """Standard deviations of the errors."""
        errors = [share.error(each) for share, each in zip(self.shares, np.ravel(self.estimate), strict=True)]
        return np.reshape(errors, self.estimate.shape)

    def limits(self, tail: Tail) -> Limits:
        tails = np.broadcast_to(tail, self.estimate.shape).ravel()
        ends = np.empty((2, tails.size))
        noisy = np.array([isinstance(share, NoisyShare) for share in self.shares], dtype=bool)
        if noisy.any():
            together = NoisyShares.stack([share for share in self.shares if isinstance(share, NoisyShare)])
            ends[:, noisy] = together.limits(tails[noisy])
        for place in np.flatnonzero(~noisy).tolist():
            ends[:, place] = self.shares[place].limits(float(tails[place]))
        low, high = ends.reshape(2, *self.estimate.shape)
        return low, high

    def tails(self, value: Numbers) -> Limits:
        pairs = [share.pvalues(each) for share, each in zip(self.shares, value.reshape(-1, 1), strict=True)]
        less, greater = np.reshape(pairs, (*self.estimate.shape, 2)).T
        return less.T, greater.T


# The private proportion


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
