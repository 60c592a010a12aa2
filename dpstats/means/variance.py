"""The private variance of each column: clipped moments, released together. Proof: docs/proofs/variance.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, gammaincinv, ndtri

from dpstats.data.parameters import check_choice, check_columns, check_integer, check_privacy_parameters
from dpstats.data.rows import Rows
from dpstats.errors import refuse
from dpstats.inference.error_distributions import BONFERRONI, ErrorDistribution, Limits, Tail
from dpstats.inference.estimates import Estimates
from dpstats.inference.results import NOISE_ONLY, SPREAD, about_missing, hide_noise, print_spreads, spread_of
from dpstats.lattice import BoxLattice, RowLattice
from dpstats.means.estimator import ColumnAnswers, ColumnEstimator, note_few_rows, observed_facts
from dpstats.means.moments import (
    CUBES,
    FOURTHS,
    MEAN,
    ROWS,
    SQUARES,
    ObservedSums,
    OfSquares,
    Region,
    Score,
    SquareErrors,
    Weights,
    finest,
    flat,
)
from dpstats.mechanisms.unknown_bounds import note_bounds, plan_with_bounds, wants_bounds
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee, parse_neighbors
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Added, JointStage, Stage
from dpstats.release.additive import additive_stages, check_size, record_size
from dpstats.release.estimator import parameters
from dpstats.release.session import Released

Numbers = NDArray[np.float64]

_FEW_ROWS = 10  # below them, intervals for normal rows cover less than stated
_SQUARES_WEIGHT = {"gaussian": 2.5, "laplace": 4.0}
"""Weight of the squares, relative to the sums: the least noise of the variance if the mean is close to the center."""
_ROWS_WEIGHT = {"gaussian": 1.5, "laplace": 2.0}
"""Weight of the number of rows if it is private, for little noise of the variance of columns well inside the bounds."""
_HIGHER_WEIGHT = 0.7
"""Weight of the third and fourth moments, which only widths need: about the shortest intervals in the study's cells."""


@dataclass(frozen=True)
class PrivateVariancePlan(ReleasePlan):
    """The plan of a `PrivateVariance`: second moments, and the other moments that its interval and estimate need."""

    lattice: RowLattice = field(repr=False, compare=False)
    region: Region = field(repr=False, compare=False)
    weights: Weights = field(repr=False)
    about: str
    interval: str
    missing: str

    def expected_error(
        self, std: float | NDArray[np.float64] | None = None, mean: float | NDArray[np.float64] | None = None
    ) -> float:
        """Return the expected squared l2 error of ``variance_``, for normal rows that are not clipped.

        The error is that before ``variance_`` is moved into its range. If noise exceeds the range, the actual error is
        smaller.

        Parameters
        ----------
        std : float or array of shape (n_features,), optional
            Standard deviation of the columns (default: the sampling error is left out).
        mean : float or array of shape (n_features,), optional
            Mean of the columns (default: the middle of the bounds). Near a bound the error is several times as large.
        """
        d, n = self.n_features, self.n_expected
        off = 0.0 if mean is None else check_columns("mean", mean, d) - np.asarray(self.region.center)
        spread = 0.0 if std is None else check_columns("std", std, d, at_least=0)
        divisor = n / self.divisor
        noise, counted = (np.asarray(self.noise(SQUARES).std) / divisor) ** 2, n
        if self.has_private_size or self.missing == "drop":
            # Squares are measured from the middle of their range.
            rows = np.asarray(self.noise(ROWS).std) / divisor
            above = off**2 if self.about == "mean" else -(off**2)
            noise = noise + ((np.asarray(self.region.clip) ** 2 / 2 - np.asarray(spread) ** 2 + above) * rows) ** 2
        if self.about == "mean":
            moved = (np.asarray(self.noise(MEAN).std) / divisor) ** 2
            noise, counted = noise + self.fourth * moved**2 + 4 * off**2 * moved, n - 1
        return float(np.broadcast_to(2 * np.asarray(spread) ** 4 / counted + noise, (d,)).sum())

    @property
    def fourth(self) -> float:
        """Variance of the square of the mean's noise, over the fourth power of its standard deviation."""
        return 2.0 if self.noise(SQUARES).law == "gaussian" else 5.0


@parameters
class PrivateVariance(ColumnEstimator[PrivateVariancePlan]):
    """Private variance of each column of rows clipped to public bounds.

    Use this estimator if you know bounds on every column without looking at the data: the noise is proportional to
    the square of their width.

    Parameters
    ----------
    bounds : (low, high), array-like of shape (n_features, 2), "private" or UnknownBounds, optional
        Public bounds of every column, known without the data. Entries outside are moved to the nearer bound. A
        mapping ``{column: (low, high)}`` or a data frame with one row per column is matched to the columns of ``X``
        by name. Give either ``bounds`` or ``clip``. "private" chooses bounds from the rows for a fifth of epsilon
        (`UnknownBounds`).
    bounds_are : {"clip", "hard"}, default="clip"
        Whether entries can lie outside the bounds:

        * "clip": they can. Intervals cover the variance of the clipped population.
        * "hard": they cannot. Intervals cover the variance of the population.
    clip : float or array-like of shape (n_features,), optional
        Alternative to ``bounds``: the largest allowed distance of an entry from ``center``. A pandas Series is matched
        to the columns of ``X`` by name, as is ``center``.
    center : float or array-like of shape (n_features,), default=0.0
        Public center of the bounds. The noise of the variance is smallest if it is close to the mean.
    about : {"mean", "center"}, default="mean"
        "mean" estimates the variance, and releases the mean too. "center" estimates the second moment about the public
        center, which is the variance if the center is the mean.
    interval : {"moments", "normal", "bounded"}, default="moments"
        Source of the sampling error in intervals:

        * "moments": the fourth moment, which is released too and raised by its own error. The noise of the variance
          grows by about 6% (Gaussian) or 28% (Laplace).
        * "bounded": the bounds only. Intervals are much wider.
        * "normal": the assumption of normal rows. Intervals of other rows undercover, regardless of
          the number of rows.
    missing : {"error", "drop", "center"}, default="error"
        Treatment of NaN and infinite entries:

        * "error": raise `InvalidData`. The error reveals that such an entry exists, which the guarantee does
          not cover.
        * "drop": leave out the row. The number of remaining rows is private. It is released together with the sums,
          without additional noise, and the estimate is a ratio of the two. Not available
          with ``interval="normal"``.
        * "center": replace the entry with the center.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    neighbors : {"replace_one", "add_or_remove"}, default="replace_one"
        Neighboring datasets. "add_or_remove": one row is added or removed. The number of rows is then private, and is
        released as ``n_`` together with the sums. Not available with ``interval="normal"``.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=0.0
        Privacy parameter, in [0, 1). Zero adds Laplace noise and gives pure differential privacy. A
        positive value adds Laplace or Gaussian noise, whichever is smaller. If it is Laplace noise, as for few columns,
        the guarantee has delta = 0. A budget with ``method="gdp"`` or "zcdp" keeps Gaussian noise.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise from the operating system's entropy source. Any other value simulates
        reproducible noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges. Clones share it.

    Attributes
    ----------
    variance_ : ndarray of shape (n_features,)
        Private estimate in squared units of the data, between 0 and the largest value that the bounds allow. NaN if
        it is below two standard deviations of its noise.
    std_, std_noise_std_ : ndarray of shape (n_features,)
        Square root of ``variance_``, and the standard deviation of its noise.
    noise_std_ : ndarray of shape (n_features,)
        Standard deviation of the noise in ``variance_`` before the estimate is truncated to its range. With
        ``about="mean"`` it is estimated from the released mean.
    rows_, rows_noise_std_ : float
        Noisy number of observed rows, and the standard deviation of its noise. Only with ``missing="drop"``.
    n_, n_noise_std_ : float
        Noisy number of rows that count, and the standard deviation of its noise. Only with
        ``neighbors="add_or_remove"``; ``n_interval()`` is its interval.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : ReleasePlan
        The release plan: every released quantity and its noise.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has column names.

    Notes
    -----
    **Privacy.** Squared distances from the center lie in [0, R^2] for entries within R of it. Replacing a row moves
    their sum by at most R^2 in each column.

    **Estimand.** Intervals cover the variance of the population after clipping. It equals the population
    variance if no entry lies outside the bounds. The estimate n/(n - 1) (m2 - m1^2 + s^2) is unbiased for it.
    Here m1 and m2 are the released moments about the center, and s is the standard deviation of the noise in
    m1.

    **Limits.** The noise grows with the squared width of the bounds, so wide bounds give long intervals.
    ``interval="normal"`` is wrong for any other distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import PrivateVariance
    >>> X = np.random.default_rng(0).normal([1.0, -2.0], [1.0, 1.5], size=(20_000, 2))
    >>> variance = PrivateVariance(epsilon=1.0, bounds=(-8, 8), random_state=0).fit(X)
    >>> variance.std_.round(2)
    array([1.  , 1.51])
    >>> low, high = variance.confidence_interval()
    >>> bool(np.all((low < [1, 2.25]) & (high > [1, 2.25])))
    True
    """

    bounds: Any = None
    bounds_are: str = "clip"
    clip: Any = None
    center: Any = 0.0
    about: str = "mean"
    interval: str = "moments"
    missing: str = "error"
    missing_codes: Any = None
    neighbors: Any = "replace_one"
    epsilon: float = 1.0
    delta: float = 0.0
    random_state: Any = None
    budget: Any = None

    _per_column = ("bounds", "clip", "center")

    def plan(self, n_samples: int | None, n_features: int) -> PrivateVariancePlan:
        """Return the release plan of a fit on data of this size.

        Examples
        --------
        >>> from dpstats.means import PrivateVariance
        >>> print(PrivateVariance(clip=2.0, delta=1e-6).plan(1000, 3))
        Release plan for n = 1000, d = 3: (epsilon = 1, delta = 0), one row replaced
          clipped moments, together:
            clipped mean: 3 numbers, Laplace noise of scale 0.0387825
            second moment about the center: 3 numbers, Laplace noise of scale 0.0193913
            third moment about the center: 3 numbers, Laplace noise of scale 0.221614
            fourth moment about the center: 3 numbers, Laplace noise of scale 0.443229
          Noise chosen: Laplace, smaller than Gaussian noise at delta = 1e-06; the guarantee has delta = 0
        """
        if wants_bounds(self.bounds):
            return cast(PrivateVariancePlan, plan_with_bounds(self, n_samples, n_features))
        n, neighbors = check_size(self, n_samples), parse_neighbors(self.neighbors)
        added = neighbors is Neighbors.ADD_OR_REMOVE_ONE
        d = check_integer("n_features", n_features, at_least=1)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        missing = self._policy("center")
        interval = check_choice("interval", self.interval, ["moments", "normal", "bounded"])
        about = check_choice("about", self.about, ["mean", "center"])
        region = Region.check(self.bounds, self.bounds_are, self.clip, self.center, d)
        if (missing == "drop" or added) and interval == "normal":
            option = "neighbors='add_or_remove'" if added else "missing='drop'"
            allowed = f"'moments' or 'bounded' with {option}, under which degrees of freedom are private"
            raise refuse("interval", given=interval, allowed=allowed, remedy="Set interval='moments'.")

        def stages(delta: float, bits: int) -> tuple[RowLattice, Weights, tuple[Stage | JointStage, ...]]:
            law = "laplace" if delta == 0 else "gaussian"
            powers: tuple[float, ...] = (1.0, _SQUARES_WEIGHT[law]) if about == "mean" else (0.0, 1.0)
            if interval == "moments":
                # About a center that is not the mean the third moment does not enter.
                powers += (_HIGHER_WEIGHT if about == "mean" else 0.0, _HIGHER_WEIGHT)
            lattice = BoxLattice.build(region.clip, region.center, d, common=False, bits=bits)
            norm, rows = "l1" if law == "laplace" else "l2", _ROWS_WEIGHT[law] if added else 0.0
            if missing == "drop" and not added:
                rows = lattice.free_count(norm, powers)
            weights = Weights(powers, rows=rows)
            items = [weights.integers(lattice, 1 if added or n is None else n, law, neighbors=neighbors)]
            return lattice, weights, additive_stages(items, epsilon, delta, neighbors=neighbors)

        def make_plan(delta: float) -> PrivateVariancePlan:
            lattice, weights, made = finest(lambda bits: stages(delta, bits))
            return PrivateVariancePlan(
                made,
                PrivacyGuarantee(epsilon, delta, neighbors),
                n,
                d,
                lattice=lattice,
                region=region,
                weights=weights,
                about=about,
                interval=interval,
                missing=missing,
            )

        return self._smaller_noise(make_plan, delta, lambda plan: plan.noise(SQUARES).std)

    def _read(self, rows: Rows, plan: PrivateVariancePlan) -> Mapping[str, Any]:
        moments = plan.lattice.row_moments(rows, powers=len(plan.weights.powers), missing=plan.missing)
        return plan.weights.exact(plan.lattice, moments)

    def _report(self, released: Released, plan: PrivateVariancePlan) -> None:
        values = flat(released)
        if plan.has_private_size or plan.missing == "drop":
            self._report_observed(values, plan)
        else:
            self._report_all(values, plan)
        # A row moves a variance by at most the square of the range, over the number of rows.
        one_row = (2 * np.full(plan.n_features, plan.region.clip)) ** 2 / self._counted
        self.variance_ = hide_noise(self._score.start, self.noise_std_, one_row)
        self.std_, self.std_noise_std_ = spread_of(self.variance_, self.noise_std_, one_row, NOISE_ONLY)

    def _report_observed(self, values: Mapping[str, Numbers], plan: PrivateVariancePlan) -> None:
        """Set the attributes of a ratio over the observed rows."""
        observed = ObservedSums.of(values, plan)
        rows = float(observed.rows[0])
        self._counted = float(np.max(observed.counted))
        if plan.missing == "drop":
            self.rows_, self.rows_noise_std_ = rows, observed.rows_std
        if plan.has_private_size:
            record_size(self, rows, observed.ratio().noise.rows)
        errors, self.noise_std_ = observed_errors(observed, plan)
        self._score: Score | SquareErrors = errors
        self._sampling = errors.sampling_std(errors.start)

    def _report_all(self, values: Mapping[str, Numbers], plan: PrivateVariancePlan) -> None:
        """Set the attributes of an average over all rows."""
        d, n = plan.n_features, plan.n_samples
        self._counted = float(n)
        variance = {name: np.broadcast_to(np.asarray(plan.noise(name).std) ** 2, (d,)) for name in values}
        clip, raw, noise, correction = np.full(d, plan.region.clip), values[SQUARES], variance[SQUARES], 1.0
        shift, of_mean, raised = np.zeros(d), np.zeros(d), noise
        if plan.about == "mean":
            correction, shift, of_mean = n / (n - 1), values[MEAN], variance[MEAN]
            # E (m1 + z)^2 exceeds m1^2 by the noise's variance.
            raw = correction * (raw - shift**2 + of_mean)
            own = noise + plan.fourth * of_mean**2
            noise = own + 4 * np.maximum(shift**2 - of_mean, 0.0) * of_mean
            # For intervals, at a mean that is further from the center, by the noise's deviation, than it seems.
            raised = own + 4 * np.minimum(np.abs(shift) + np.sqrt(of_mean), clip) ** 2 * of_mean
        self.noise_std_ = correction * np.sqrt(noise)
        raised_std = correction * np.sqrt(raised)
        # No column that stays within the clip has a larger second moment about any center inside it.
        largest = correction * clip**2
        # Bound on the squared distance of an entry from the point that squares are measured from.
        widest = (clip + np.minimum(np.abs(shift) + np.sqrt(of_mean), clip)) ** 2
        ratio = widest
        if plan.interval == "moments":
            ratio = np.minimum(widest, _ratio_of_moments(values, variance, raw, raised_std, widest, n))
        law = plan.noise(SQUARES).law
        scale = raised_std / (np.sqrt(2) if law == "laplace" else 1.0)
        # Squares of entries are rounded down, by up to a step each.
        rounding = largest * 2.0**-plan.lattice.bits
        free, added = n - (plan.about == "mean"), Added(law, scale, raised_std)
        score = Score(raw, added, free, np.zeros(d), largest, OfSquares(ratio), rounding)
        self._score = score
        self._sampling = np.sqrt(score.variance(score.start) / score.n)

    _predicted = "variance_"

    def _answers(self) -> ColumnAnswers:
        plan, score = self.plan_, self._score
        about = "variance" if plan.about == "mean" else "second moment about the public center"
        known = {"clipped": f"the {about} of the population if it were clipped"}
        if plan.region.hard:
            words = f"the population {about} (by the declared bounds no row is clipped)"
            known = {"clipped": words, "population": words}
        errors: ErrorDistribution = score
        if plan.interval == "normal" and isinstance(score, Score):
            errors = NormalSquares(score)
        return ColumnAnswers(
            self.variance_,
            np.hypot(self._sampling, self.noise_std_),
            known,
            about_missing(plan.missing, plan.region.middle),
            lambda _: errors,
            together=BONFERRONI,  # of any dependence
        )

    def _describe(self, found: Estimates, estimand: str, confidence_level: float | None) -> Estimates:
        plan = self.plan_
        assumption = {
            "moments": (
                "Intervals assume no distribution, but enough rows: their width uses the released fourth moment."
            ),
            "normal": "Intervals assume that the clipped rows are normal. For other rows, set interval='moments'.",
            "bounded": "Intervals hold for any rows within the bounds, if n is large enough for normal errors.",
        }[plan.interval]
        notes = [f"{assumption} The noise sd is for the variance, not for the standard deviation."]
        if plan.interval == "normal" and plan.n_samples < _FEW_ROWS:
            notes.append(f"With fewer than {_FEW_ROWS} rows, intervals cover less than their level.")
        if not plan.region.hard:
            notes.append("Every entry beyond the bounds is moved to the nearer bound, which lowers variances.")
        notes += note_bounds(self)
        return replace(
            found,
            title="Private variance",
            header="variance",
            noise=self.noise_std_,
            beside={SPREAD: print_spreads(self.std_, self.std_noise_std_)},
            facts=[*observed_facts(self), ("Noise", plan.noise(SQUARES).law.capitalize())],
            notes=[*notes, *note_few_rows(self)],
        )


def observed_errors(observed: ObservedSums, plan: PrivateVariancePlan) -> tuple[SquareErrors, Numbers]:
    """Return the errors of variances of observed rows, and the standard deviations of their noise."""
    n, (moments, variances) = observed.counted, observed.averages()
    unit = np.full(plan.n_features, plan.region.clip) ** 2
    m = error = np.zeros(np.shape(observed.sums[1]))
    correction = np.ones(np.shape(n))
    if plan.about == "mean":
        correction, m = n / (n - 1), observed.ratio().estimate
        error = np.hypot(observed.stds[0], m * observed.rows_std) / n
    shift = np.minimum(np.abs(m) + error, 1.0)
    widest = (1 + shift) ** 2
    errors = SquareErrors(observed, m, shift, n * error**2, correction, widest, unit)
    start = errors.start
    parts = sum(part**2 for part in errors.noise_scales(start, np.abs(m)))
    noise = correction * np.sqrt(parts + plan.fourth * errors.bias**2) / n
    if plan.interval == "moments":
        bound = _ratio_of_moments({**moments, MEAN: m}, variances, start / unit, noise, widest, n)
        errors = replace(errors, ratio=np.minimum(widest, bound))
    return errors, unit * noise


def _ratio_of_moments(
    values: Mapping[str, Numbers],
    variance: Mapping[str, Numbers],
    raw: Numbers,
    raw_std: Numbers,
    widest: Numbers,
    n: float | Numbers,
) -> Numbers:
    """Return an upper estimate of E(x - m)^4 over E(x - m)^2: the former raised, and the latter lowered, by its error.

    An error is one standard deviation of the noise. The error of the fourth moment also includes the largest standard
    deviation of sampling, for squares of up to ``widest``. The result is infinite if the second moment is not above
    its noise.
    """
    d = raw.size
    m1, m2, m3, m4 = (values.get(name, np.zeros(d)) for name in (MEAN, SQUARES, CUBES, FOURTHS))
    s1, s2, s3, s4 = (variance.get(name, np.zeros(d)) for name in (MEAN, SQUARES, CUBES, FOURTHS))
    fourth = m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4
    by_mean = -4 * m3 + 12 * m1 * m2 - 12 * m1**3
    noise = s4 + 16 * m1**2 * s3 + 36 * m1**4 * s2 + by_mean**2 * s1
    # Sampling: squares of squares lie in [0, widest^2]. If their mean is a, their variance is at most a widest^2.
    above = np.maximum(fourth, 0.0) + np.sqrt(noise)
    above = above + np.sqrt(above * widest**2 / n)
    second = raw - raw_std
    with np.errstate(all="ignore"):
        return np.where(second > 0, above / second, np.inf)


@dataclass(frozen=True, eq=False)
class NormalSquares(ErrorDistribution):
    """Errors of the variance of normal rows: chi-square, and noise, combined as MOVER does (Zou and Donner 2008)."""

    score: Score

    @property
    def start(self) -> Numbers:
        return self.score.start

    @property
    def box(self) -> Limits:
        return self.score.box

    def limits(self, tail: Tail) -> Limits:
        score = self.score
        raw, scale = score.estimate, np.asarray(score.noise.scale)
        noise = scale * (-ndtri(tail) if score.noise.law == "gaussian" else -np.log(2 * np.asarray(tail)))
        estimate = np.maximum(raw, 0.0)
        below = estimate * (1 - score.n / chdtri(score.n, tail))
        above = estimate * (score.n / (2 * gammaincinv(score.n / 2, tail)) - 1)
        low, high = raw - np.hypot(below, noise), raw + np.hypot(above, noise)
        return np.clip(low, *self.box), np.clip(high, *self.box)
