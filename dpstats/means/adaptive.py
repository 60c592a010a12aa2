"""The adaptive mean: clip about a center that earlier releases have found. Proof: docs/proofs/adaptive-mean.md."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import check_choice, check_columns, check_integer, check_privacy_parameters
from dpstats.data.rows import Rows
from dpstats.errors import refuse, show
from dpstats.inference.error_distributions import BONFERRONI, usual_level
from dpstats.inference.estimates import Estimates
from dpstats.inference.reports import SIMULATED
from dpstats.inference.results import about_missing
from dpstats.lattice import BallLattice, NormedLattice, NormSums
from dpstats.means.adaptive_estimate import OUTSIDE, SQUARED_NORMS, SUMS, AdaptiveMeanPlan, Found, Trail, locate
from dpstats.means.adaptive_radii import TAILS, Staging, plan_following, plan_stages
from dpstats.means.boxed_errors import Shape, biased_normal_quantile, in_range
from dpstats.means.ellipsoids import Frame, PrivateRows, plan_rounds, read_rows, release_rows
from dpstats.means.estimator import ColumnAnswers, ColumnEstimator
from dpstats.means.moments import check_bounds, finest, frozen, sum_integers
from dpstats.means.whitened import STAGE, WhitenedMean, WhitenedMeanPlan, mean_extension, plan_whitening
from dpstats.privacy.guarantee import PrivacyGuarantee, up
from dpstats.privacy.stages import Block, JointStage, Stage
from dpstats.release.additive import Integers, JointIntegers, additive_stages
from dpstats.release.estimator import parameters, plan_on_sample
from dpstats.release.session import Released, Session

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

Numbers = NDArray[np.float64]

# Shares of the last stage that the count of clipped rows may take, and how much wider it may make the interval.
_COUNT_SHARES = (0.4, 0.3, 0.25, 0.2, 0.15, 0.12, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01)
_WIDER = 1.02
_CHUNK = 1 << 20  # entries of the shifted rows that a batch of releases holds at once


class _Rows(NamedTuple):
    """Private: the checked rows, and what the first stage releases of them, about a public center."""

    rows: Rows
    first: Any


def _interval_reach(plan: Any) -> float:
    """Return the reach of intervals by noise and bias, in a plan without a covariance."""
    return float(plan.interval_reach)


@parameters
class AdaptiveMean(ColumnEstimator[AdaptiveMeanPlan | WhitenedMeanPlan]):
    """Private mean of rows whose location is known only roughly.

    Use this estimator if you know a wide range for the mean and an upper bound on the standard deviation. The release
    locates the rows in stages. Its error depends on the logarithm of the range only, and is close to the error of a
    clipped mean whose center is the true mean. If you know tight bounds on the rows, use `ClippedMean`.

    Parameters
    ----------
    cov : {"private"} or array-like of shape (n_features, n_features), optional
        Public upper bound on the covariance of the rows (times ``std**2``). It must be positive definite. Rows are
        whitened with it, so that the noise has the shape of the rows.

        With "private", the release finds the covariance in rounds, and then the mean of whitened rows. Use it for
        correlated columns, or if ``std`` or ``std_bound`` may be much too large. ``plan`` says which route a fit
        takes. One column, ``delta=0``, ``tails="variance"`` and too few rows keep the route without a covariance.
    bounds : (low, high) or array-like of shape (n_features, 2), optional
        Public bounds of the *mean* of each column. Rows can lie anywhere. Half the width must be at least the standard
        deviation. A mapping or a data frame is matched to the columns of ``X`` by name.
    bounds_are : {"clip", "hard"}, default="clip"
        "hard" declares that the rows lie between the bounds too, as for an age.
    bound : float or array-like of shape (n_features,), optional
        Alternative to ``bounds``: ``|mean_j| <= bound_j``. A pandas Series is matched to the columns of ``X`` by name,
        as are ``std`` and ``cov``.
    std : {"private"}, float or array-like of shape (n_features,), optional
        Public upper bound on the standard deviation of the columns. With ``cov``, None or a single number that
        scales it. With "private", every stage releases the standard deviation without additional privacy cost,
        and the next ball follows it (unless ``tails="variance"``). All columns are then assumed to have the
        same standard deviation, in units of ``std_bound``.
    std_bound : float or array-like of shape (n_features,), optional
        Public upper bound on ``std`` for ``std="private"``. A bound ten times too large costs about a tenth of the
        error. Default if bounds are hard: half their width.
    tails : {"subgaussian", "symmetric", "variance"}, default="subgaussian"
        Assumption about the whitened rows Y = (row - mean)/std, for which the balls are planned. Privacy does
        not depend on it. Intervals under "symmetric" and "variance" do:

        * "subgaussian": in each column (with ``cov``: in every direction), ``|Y_j|`` is stochastically no larger than
          ``|N(0, 1)|``. Likewise, ``||Y||^2`` is no larger than a chi-square with n_features degrees of freedom. The
          last stage counts the rows that it clips. By that count, default intervals assume the public standard
          deviation only. Shorter intervals, by ``estimand="tails"``, assume these tails unless the count refutes them.

        * "symmetric": Y and -Y have the same distribution, and the mean of clipped rows follows the center at least as
          it does for normal rows. The error is smallest, and heavy tails are allowed.
        * "variance": the standard deviations (with ``cov``: the covariance) are upper bounds. Intervals are wide and
          safe.
    missing : {"error", "drop", "center"}, default="error"
        Treatment of NaN and infinite entries. With "error", the fit raises `InvalidData`; the error reveals that such
        an entry exists, which the guarantee does not cover. With "drop", it leaves out rows with such an entry: a part
        of epsilon counts the complete rows, and the estimate uses a random sample of them, of public size. With
        "center", it replaces entries with the center of the stage, which pulls the estimate towards earlier stages.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=1e-6
        Privacy parameter, in [0, 1). Zero adds Laplace noise and gives pure differential privacy, at a much
        higher cost in many columns. A positive value adds Laplace or Gaussian noise, whichever gives the shorter
        interval. If it is Laplace noise, as in few columns, the guarantee has delta = 0. A private standard deviation
        (except for ``tails="variance"``) and a budget with ``method="gdp"`` or "zcdp" keep Gaussian noise.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise from the operating system's entropy source. Any other value simulates
        reproducible noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges. Clones share it.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Private estimate in the units of the data, inside the bounds: the posterior mean under a uniform prior on the
        box. It is the average of the stages unless noise dominates.
    noise_scale_ : float or ndarray of shape (n_features,)
        Standard deviation of the noise in the average of the stages. A single number unless ``std`` is an array or
        ``cov`` is given.
    noise_std_ : ndarray of shape (n_features,)
        Standard deviation of the noise in each column.
    std_ : ndarray of shape (n_features,)
        Standard deviation used for the sampling error: the public value, or an upper limit of the released one.
    clipped_rows_ : float or None
        Noisy number of rows that the last stage clipped. None unless ``tails="subgaussian"``.
    covariance_ : ndarray of shape (n_features, n_features)
        Released covariance of the shrunk rows. Only if ``cov="private"`` releases it.
    assumption_refuted_ : bool
        Whether more rows were clipped than ``tails`` allows. No interval then assumes it.
    rows_, rows_noise_std_ : float
        Noisy number of complete rows, and the standard deviation of its noise. Only with ``missing="drop"``.
    n_rows_ : int
        Number of complete rows that the estimate uses. Only with ``missing="drop"``.
    stage_means_ : ndarray of shape (n_stages, n_features)
        Released estimate of each stage. Where the covariance is released, the last one is the estimate.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : ReleasePlan
        The release plan: every released quantity and its noise. If balls follow the private standard
        deviation, its radii and noise are the largest possible.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has column names.

    See Also
    --------
    ClippedMean : Private mean of rows clipped to public bounds.

    Notes
    -----
    **Privacy.** Neighboring datasets have the same public number of rows and differ in one row. Stage t
    projects the rows onto a ball of radius B_t about c_t and releases their mean, of l2 sensitivity 2 B_t/n.
    The center c_t is a function of earlier releases; the plan fixes radii and noise. Gaussian stages compose
    exactly: mu^2 adds up.

    The last stage also releases the mean squared distance from its center, which adds no
    cost. It counts the rows that it clips, for a part of its privacy that widens intervals by at most 2%.

    **Estimand.** Default intervals (``estimand="population"``) use the last stage. They hold for all rows of at
    most the public standard deviation, and include the largest bias that the clipped rows allow.

    Intervals for ``estimand="tails"`` use the average of the stages and are two to four times as short. They
    can undercover if fewer rows have heavier tails than the noise of the count can detect; the estimand reports
    this number. With ``std="private"`` the tails are compared with normal tails of the estimated standard
    deviation. Critical values account for bounded bias (Armstrong and Kolesar 2018).

    With ``cov="private"`` intervals are normal, and about the last stage. They account for its released covariance.
    ``estimand="clipped"`` gives intervals for the mean of the shrunk rows, which assume no distribution. They
    cover the population mean only if rows are symmetric. ``estimand="tails"`` assumes that tails are at most as heavy
    as the tails of normal rows with the released covariance.

    **Limits.** Intervals assume independent rows and the public standard deviation. Default intervals are two to
    four times as long as with ``estimand="tails"``, which can undercover. ``tails="symmetric"`` and
    ``std="private"`` are not checked: for rare yes/no rows, coverage is far below the level. If noise dominates,
    ``mean_`` is shrunk toward the middle of the range.

    References
    ----------
    Biswas, Dong, Kamath and Ullman (2020), CoinPress, whose idea of shrinking balls this is.
    Armstrong and Kolesar (2018), Optimal inference in a class of regression models. Econometrica 86.
    Hartigan (2004), Uniform priors on convex sets improve risk. Statistics and Probability Letters 67.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import AdaptiveMean
    >>> X = np.random.default_rng(0).normal([31.0, -12.0], 1.0, size=(5000, 2))
    >>> mean = AdaptiveMean(epsilon=1.0, delta=1e-6, bound=100.0, std=1.0, random_state=0).fit(X)
    >>> mean.mean_.round(2)
    array([ 31.02, -11.99])
    >>> low, high = mean.confidence_interval(estimand="tails")
    >>> (high - low).round(3)
    array([0.063, 0.063])
    >>> low, high = mean.confidence_interval()
    >>> (high - low).round(2)
    array([0.15, 0.15])
    >>> print(mean.privacy_)
    (epsilon = 1, delta = 1e-06), one row replaced [simulated noise, not a private release]
    """

    cov: Any = None
    bounds: Any = None
    bounds_are: str = "clip"
    bound: Any = None
    std: Any = None
    std_bound: Any = None
    tails: str = "subgaussian"
    missing: str = "error"
    missing_codes: Any = None
    epsilon: float = 1.0
    delta: float = 1e-6
    random_state: Any = None
    budget: Any = None

    _per_column = ("bounds", "bound", "std", "std_bound", "cov")

    def plan(self, n_samples: int, n_features: int) -> AdaptiveMeanPlan | WhitenedMeanPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples : int
            Number of rows, at least 2; public.
        n_features : int
            Number of columns; public.

        Returns
        -------
        ReleasePlan
            Its ``guarantee`` is the composed total; ``expected_error()`` bounds the squared l2 error. With
            ``cov="private"``, ``facts()["route"]`` is "covariance" or "columns".

        Examples
        --------
        >>> from dpstats.means import AdaptiveMean
        >>> plan = AdaptiveMean(epsilon=1.0, delta=1e-6, bound=100.0, std=1.0).plan(10_000, 5)
        >>> print(plan)
        Release plan for n = 10000, d = 5: (epsilon = 1, delta = 1e-06), one row replaced
          stage 1: 5 numbers, Gaussian noise of scale 4.93113
          stage 2: 5 numbers, Gaussian noise of scale 0.0969113
          stage 3, together:
            mean: 5 numbers, Gaussian noise of scale 0.00461683
            squared norm: 1 number, Gaussian noise of scale 0.0134867
            clipped rows: 1 number, Gaussian noise of scale 11.298
          assumes that the tails of the rows are at most as heavy as normal ones of the stated standard deviation, in
          each column and in the distance from the mean
          root mean squared error of a column: at most about 0.011 stated sd; half-width of a 95% interval that makes
          this assumption: about 0.022
          counts the rows that its last stage clips: fewer than 59 would not be noticed, and could move a mean by up to
          0.064 sd
        """
        n = check_integer("n_samples", n_samples, at_least=2)
        d = check_integer("n_features", n_features, at_least=1)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        tails = check_choice("tails", self.tails, TAILS)
        missing = self._policy("center")
        if missing == "drop":
            return plan_on_sample(self, n, d)
        private_cov = isinstance(self.cov, str) and self.cov == "private"
        cov = None if private_cov else self.cov
        middle, bound, hard = self._declared(d)
        private_std = isinstance(self.std, str)
        if private_std:
            check_choice("std", self.std, ["private"])
        elif self.std_bound is not None:
            allowed = 'None unless std="private"'
            raise refuse("std_bound", given=self.std_bound, allowed=allowed, remedy="Give std alone.")
        std = self.std
        if private_std:
            # The largest deviation that rows between two ends can have.
            std = bound if hard and self.std_bound is None and cov is None else self.std_bound
        shape = Shape.check(std, cov, d, "std_bound" if private_std else "std")
        reach = np.full(d, bound) / shape.std
        if np.any(reach < 1):
            j = int(np.argmin(reach))
            name = "bound" if self.bounds is None else "half the distance of bounds"
            got = f"{show(self.bound if self.bounds is None else self.bounds)} at position {j}"
            raise refuse(name, got=got, allowed="at least the standard deviation of its column")
        fallback = self._keeps_columns(n, d) if private_cov else ""
        if private_cov and not fallback:
            return self._plan_whitened(n, d, shape)
        norm2, reach2 = shape.largest_norm2(bound, d), float(np.max(reach)) ** 2

        def plan_bits(
            delta: float, bits: int
        ) -> tuple[Staging, tuple[NormedLattice, ...], tuple[Stage | JointStage, ...]]:
            law, exponent = ("gaussian", 1) if delta > 0 else ("laplace", 2)
            # The stages' shares divide the whole budget: compute its noise on a ball of radius 1.
            ball = BallLattice.build(1.0, 0.0, d, bits=bits)
            (whole,) = additive_stages([sum_integers("", ball, ball.spacing / n)], epsilon, delta)
            noise = float(whole.noise_std) ** 2
            numbers = (n, d, tails, norm2, reach2, noise, exponent)
            # Under "variance", only the stated standard deviation bounds the effect of rows outside a ball.
            if private_std and tails != "variance":
                staging = plan_following(*numbers, ball.free_weight("l2" if delta > 0 else "l1"))
            else:
                staging = plan_stages(*numbers)
            lattices = tuple(shape.lattice(radius, d, bits) for radius in staging.radii)
            # Only under "subgaussian" does the assumption say how many rows are clipped.
            counted = count_share(staging, noise, exponent, n) if tails == "subgaussian" else 0.0
            integers: list[Integers | JointIntegers] = []
            for t, lattice in enumerate(lattices):
                name, step, share = f"stage {t + 1}", shape.step(lattice) / n, staging.shares[t]
                last = t == len(lattices) - 1
                if not last and not staging.points:
                    integers.append(sum_integers(name, lattice, step, share))
                    continue
                radius, count = staging.radii[t], counted if last else 0.0
                integers.append(joint_integers(name, lattice, radius, step, n, share, count, law))
            return staging, lattices, additive_stages(integers, epsilon, delta)

        def make_plan(delta: float) -> AdaptiveMeanPlan:
            staging, lattices, stages = finest(lambda bits: plan_bits(delta, bits))
            return AdaptiveMeanPlan(
                stages,
                PrivacyGuarantee(epsilon, delta),
                n,
                d,
                lattices=lattices,
                staging=staging,
                prior=1 / norm2,
                middle=frozen(middle),
                bound=frozen(bound),
                hard=hard,
                std=frozen(shape.std),
                private_std=private_std,
                shape=shape,
                tails=tails,
                missing=missing,
                fallback=fallback,
            )

        if private_std and tails != "variance":
            # Balls follow the released standard deviation, which has more noise under Laplace noise than the mean.
            return make_plan(delta)
        # The interval decides, because balls are larger under Laplace noise and clipped rows are counted less exactly.
        return self._smaller_noise(make_plan, delta, _interval_reach)

    def _keeps_columns(self, n: int, d: int) -> str:
        """Return a reason not to release the covariance, from public facts; empty if there is none."""
        kept = "keeps the route without a covariance: "
        if d == 1:
            return kept + "one column has only a variance"
        if self.delta == 0:
            return kept + "a covariance needs Gaussian noise, so delta > 0"
        if self.tails == "variance":
            return kept + 'intervals for tails="variance" need a public standard deviation'
        if not plan_whitening(n, d, self.epsilon, self.delta, self.tails).pays:
            return kept + f"{n:,} rows are too few for a covariance of {d} columns at this epsilon"
        return ""

    def _plan_whitened(self, n: int, d: int, shape: Shape) -> WhitenedMeanPlan:
        """Return the plan of a release that finds the covariance first."""
        middle, bound, hard = self._declared(d)
        guarantee = PrivacyGuarantee(self.epsilon, self.delta)
        whitening = plan_whitening(n, d, self.epsilon, self.delta, self.tails)
        # Rows lie around a mean in the box. The first ball only sets the scale of the rounds.
        half = np.full(d, bound) + (0.0 if hard else 2.0) * np.full(d, shape.std)
        frame = Frame(np.full(d, middle), half, hard, False, hard, filled=self.missing == "center")
        shares = (whitening.share,) * whitening.n_rounds
        return plan_rounds(
            n,
            guarantee,
            shares,
            lambda bits: [(STAGE, mean_extension(d, whitening, bits), 1 - sum(shares))],
            lambda stages, bits: WhitenedMeanPlan(
                stages,
                guarantee,
                n,
                d,
                frame=frame,
                bits=bits,
                n_rounds=whitening.n_rounds,
                whitening=whitening,
                middle=frozen(middle),
                bound=frozen(bound),
                hard=hard,
                std=frozen(shape.std),
                private_std=isinstance(self.std, str),
                tails=self.tails,
                missing=self.missing,
            ),
        )

    def _declared(self, d: int) -> tuple[Columns, Columns, bool]:
        """Return the center of the box for the mean, its half-width, and whether the rows lie in it too."""
        hard = check_choice("bounds_are", self.bounds_are, ["clip", "hard"]) == "hard"
        if self.bounds is None:
            if self.bound is None:
                remedy = "Set bounds=(low, high) of the mean, or bound, its largest size."
                raise refuse("bounds", allowed="given", remedy=remedy)
            return 0.0, in_range("bound", check_columns("bound", self.bound, d, above=0)), hard
        if self.bound is not None:
            allowed = "None with bounds, which say the same"
            raise refuse("bound", given=self.bound, allowed=allowed, remedy="Leave one out.")
        low, high = check_bounds("bounds", self.bounds, d)
        return low / 2 + high / 2, in_range("bounds", high / 2 - low / 2), hard

    def _fill(self, d: int) -> Columns:
        return self._declared(d)[0]

    def _read(self, rows: Rows, plan: AdaptiveMeanPlan | WhitenedMeanPlan) -> _Rows | PrivateRows:
        if isinstance(plan, WhitenedMeanPlan):
            return read_rows(rows, plan)
        # The first center is public, so its pass can find bad data before anything is charged.
        return _Rows(rows, self._steps(rows, plan, 0, plan.center([]), missing=plan.missing))

    def _release(self, private: Any, plan: AdaptiveMeanPlan | WhitenedMeanPlan, session: Session) -> None:
        """Run the stages, each about a center that earlier ones released."""
        if isinstance(plan, WhitenedMeanPlan):
            return release_rows(private, plan, session)
        trail = Trail(plan)
        for t, stage in enumerate(plan.stages):
            center, scale = trail.ahead()
            steps = self._steps(private.rows, plan, t, center, scale=scale) if t else private.first
            trail.add(session.add(stage.name, steps))

    def _steps(
        self, rows: Rows, plan: AdaptiveMeanPlan, t: int, center: Numbers, missing: str = "center", scale: Any = 1.0
    ) -> Any:
        """Return the exact sums of stage t about a center, or about each of a batch of centers.

        The ball has ``scale`` times the planned radius. Missing entries are rejected only before the charge, and never
        after it, even if the memory has changed since.
        """
        lattice, stage = plan.lattices[t], plan.stages[t]
        joint = isinstance(stage, JointStage)
        if center.ndim == 1:
            lattice = plan.shape.resized(replace(lattice, center=center), scale)
            if not isinstance(stage, JointStage):
                return lattice.row_moments(rows, missing=missing).powers[0]
            return joint_steps(lattice.row_norm_sums(rows, missing=missing), stage)
        # For batches: the rows less each center, through the lattice about 0, in parts of each radius.
        X = rows.whole().X
        finite = np.isfinite(X)
        step = max(1, _CHUNK // X.size)
        d = plan.n_features
        factors = np.broadcast_to(scale, len(center))[:, None, None]
        sums = np.empty((len(center), d + 2 * joint), dtype=np.int64)
        for start in range(0, len(center), step):
            some = slice(start, start + step)
            shifted = np.where(finite, X - center[some][:, None, :], 0.0)
            if plan.follows:
                shifted /= factors[some]
            flat = shifted.reshape(-1, d)
            rounded = lattice.norm_rows(flat) if joint else lattice.round_rows(flat)
            sums[some] = rounded.reshape(*shifted.shape[:2], -1).sum(axis=1)
        if not isinstance(stage, JointStage):
            return sums
        return joint_steps(NormSums(sums[:, :d], sums[:, d : d + 1], sums[:, d + 1 :]), stage)

    def _report(self, released: Released, plan: AdaptiveMeanPlan | WhitenedMeanPlan) -> None:
        # Report every release, even if the caller has set numpy to raise errors.
        with np.errstate(all="ignore"):
            found: Found | WhitenedMean
            if isinstance(plan, WhitenedMeanPlan):
                found = WhitenedMean(plan, plan.walk(plan.reading(released)))
                self.covariance_ = found.covariance
            else:
                found = locate(plan, released)
            self._found: Found | WhitenedMean = found
            self.stage_means_, self.std_ = found.stage_means, found.std
            self.assumption_refuted_, self.clipped_rows_ = found.refuted, found.clipped_rows
            self.mean_, self.noise_std_ = found.mean, found.noise_std
            self.noise_scale_: float | Numbers = found.noise_scale

    @property
    def cov_params_(self) -> Numbers:
        """Covariance matrix of the average of the stages: a bound on its sampling part, plus the noise.

        Without ``cov``, sampling errors are assumed to be uncorrelated across columns.
        """
        check_is_fitted(self)
        return self._found.error_covariance

    def _answers(self) -> ColumnAnswers:
        found = self._found
        why = (
            "because the released count of clipped rows refutes what tails assumes"
            if self.assumption_refuted_
            else f"because all intervals make the assumption of tails={self.plan_.tails!r}"
        )
        return ColumnAnswers(
            found.estimate,
            found.error,
            found.estimands(),
            about_missing(
                self.plan_.missing,
                "the center of each stage, first the middle of the box and then an earlier private estimate",
            ),
            lambda estimand: found.errors(estimand, self.mean_),
            together=BONFERRONI,  # Sidak's inequality is for errors without bias
            refused={"tails": (f"'population', {why}", "Leave estimand out.")},
        )

    def _describe(self, found: Estimates, estimand: str, confidence_level: float | None) -> Estimates:
        bias = self._found.errors(estimand, self.mean_).largest_bias
        return replace(
            found,
            estimate=self.mean_,
            title="Private adaptive mean",
            noise=self.noise_std_,
            beside={"bias <=": [f"{value:.2g}" for value in bias]},
            facts=[("Stages", f"{len(self.plan_.stages)}, {self.plan_.law.capitalize()} noise")],
            notes=self._notes(usual_level(confidence_level), estimand),
        )

    def _notes(self, confidence_level: float, estimand: str) -> list[str]:
        found = self._found
        errors = found.errors(estimand, self.mean_)
        tail, box, shorter = (1 - confidence_level) / 2, found.plan.box, 1.0
        beyond = np.flatnonzero(np.logical_or(*errors.find_open(tail)))
        moved = np.abs(self.mean_ - np.clip(found.estimate, *box)) > 0.1 * found.plan.half
        if estimand == "population" and "tails" in found.estimands():
            # The median ratio of the widths of the intervals that assume tails to the widths of these.
            pairs = (each.limits(tail) for each in (found.errors("tails", self.mean_), errors))
            assuming, usual = (high - low for low, high in pairs)
            # Tails cannot make an interval shorter that has no width, or no end.
            known = (usual > 0) & np.isfinite(usual)
            shorter = float(np.median(assuming[known] / usual[known])) if known.any() else 1.0
        notes = found.notes(estimand, shorter, self._column_names(beyond), bool(np.any(moved)))
        return [*[SIMULATED] * self.privacy_.simulated, *notes]


def joint_integers(
    name: str,
    lattice: NormedLattice,
    # Of the ball, whitened: squared norms are released in these units.
    radius: float,
    step: Any,  # a step of the sums, over n
    n: int,
    # The stage's part of the privacy, and the count's part of the stage; 0 releases no count.
    share: float,
    count_share: float,
    noise: str,
) -> JointIntegers:
    """Return the integers of a joint stage: the mean, squared norms without additional cost, and clipped rows."""
    norm = "l1" if noise == "laplace" else "l2"
    weight = lattice.free_weight(norm)
    fine = 2.0**-lattice.bits
    blocks = [
        Block(SUMS, lattice.n_features, frozen(step), 1.0),
        Block(SQUARED_NORMS, 1, radius**2 * fine / n, up(1 / Fraction(weight))),
    ]
    odds, count_weight = count_share / (1 - count_share), 0.0
    if count_share:
        # The noise of everything else grows by 1/sqrt(1 - share), or 1/(1 - share).
        count_weight = 2 * math.sqrt(lattice.n_features) * odds if noise == "laplace" else 2 * math.sqrt(odds)
        blocks.append(Block(OUTSIDE, 1, fine, up(1 / Fraction(count_weight))))
    moved = lattice.norm_sensitivity(norm, weight, count_weight)
    l1, l2 = (moved, math.inf) if norm == "l1" else (math.inf, moved)
    return JointIntegers(name, tuple(blocks), l1, l2, share)


def joint_steps(sums: NormSums, stage: JointStage) -> dict[str, NDArray[np.int64]]:
    """Return the sums that a joint stage releases, by the names of its blocks."""
    found = {SUMS: sums.steps, SQUARED_NORMS: sums.squared_norms, OUTSIDE: sums.outside}
    return {block.name: found[block.name] for block in stage.blocks}


@lru_cache(maxsize=256)
def count_share(staging: Staging, noise: float, exponent: int, n: int) -> float:
    """Return the part of the last stage for the count: the largest that widens the planned interval by 2% at most.

    A stage of share s and radius B has noise of variance ``noise * B^2 / s^exponent`` in each column.
    """
    shares, radii, slopes = (np.array(part) for part in (staging.shares, staging.radii, staging.slopes))

    def planned(part: float) -> tuple[float, float]:
        left = shares.copy()
        left[-1] *= 1 - part
        precisions = slopes**2 * left**exponent / (noise * radii**2)
        weights = precisions / precisions.sum()
        error = math.hypot(float(weights @ staging.spreads) / math.sqrt(n), precisions.sum() ** -0.5)
        return error, float(weights @ staging.biases) / error

    errors, biases = np.array([planned(part) for part in (0.0, *_COUNT_SHARES)]).T
    # Intervals that are mostly bias hide what the error costs.
    half = errors * np.where(biases < 0.4, biased_normal_quantile(0.025, biases), 1.0)
    fitting = np.flatnonzero(half[1:] <= _WIDER * half[0])
    return _COUNT_SHARES[fitting[0] if fitting.size else -1]
