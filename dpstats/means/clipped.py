"""The clipped mean: bound every row, average, add noise (algorithm 9.2.1, made private).

Proof: docs/proofs/clipped-mean.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import (
    check_choice,
    check_columns,
    check_flag,
    check_integer,
    check_privacy_parameters,
    check_real,
)
from dpstats.data.rows import Rows
from dpstats.errors import refuse
from dpstats.inference.error_distributions import ErrorDistribution
from dpstats.inference.estimates import Estimates
from dpstats.inference.reports import SIMULATED
from dpstats.inference.results import SPREAD, about_missing, hidden_spreads_note, list_some, print_spreads, spread_of
from dpstats.lattice import BallLattice, BoxLattice, RowLattice
from dpstats.means.estimator import ColumnAnswers, ColumnEstimator, note_few_rows, observed_facts
from dpstats.means.moments import (
    MEAN,
    OUTSIDE,
    SQUARES,
    About,
    BallErrors,
    BoxErrors,
    Known,
    ObservedSums,
    Region,
    Score,
    Weights,
    calibrate_totals,
    finest,
    flat,
    frozen,
    mean_integers,
    public_numbers,
    squares_integers,
)
from dpstats.means.ratio import TOTALS, OneGroup, Ratio, RatioErrors, Totals
from dpstats.mechanisms.unknown_bounds import note_bounds, plan_with_bounds, wants_bounds
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import JointStage, Stage
from dpstats.release.additive import additive_stages, check_size, has_private_size, record_size
from dpstats.release.estimator import parameters
from dpstats.release.session import Released

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

_DROWNED = (
    "Warning: the standard deviation of the noise is more than 0.29 times the width of the bounds, so the estimate "
    "says little more than the bounds. Use more rows, a larger epsilon, fewer columns or tighter bounds."
)


@dataclass(frozen=True)
class ClippedMeanPlan(ReleasePlan):
    """The plan of a `ClippedMean`, with the public facts that the fit and its report use.

    ``std`` is the public standard deviation, where there is one. ``totals`` is set if the number of rows is private:
    the mean is then a ratio of these. The lattice is part of the plan, so that the clip that is applied is the one the
    noise was calibrated to.
    """

    lattice: RowLattice = field(repr=False, compare=False)
    region: Region = field(repr=False, compare=False)
    weights: Weights = field(repr=False)
    clip_norm: str
    calibration: str
    missing: str
    std: float | tuple[float, ...] | None = None
    totals: Totals | None = None

    @property
    def clip(self) -> Columns:
        """How far an entry (a row, of a ball) may be from the center."""
        return self.region.clip

    @property
    def estimates_std(self) -> bool:
        """Whether the standard deviation is released too."""
        return len(self.weights.powers) > 1

    def expected_error(self, std: float | NDArray[np.float64] | None = None) -> float:
        """Return the expected squared l2 error, exact where no row is clipped and no estimate cut to the box.

        Parameters
        ----------
        std : float or array of shape (n_features,), optional
            Standard deviation of the columns (default: the estimator's public ``std``).

        Returns
        -------
        float
            ``sum_j std_j^2/n + sum_j noise_std_j^2``: the error for the population mean. Without any
            ``std`` the first sum is left out: the error for the clipped sample mean. For rows
            bounded by R in d columns the second sum is 4 R^2 d^2 s^2/n^2, s the noise of a
            number of sensitivity one. With a private number of rows it is approximate, for means at
            the center and more rows than the noise of their number hides.
        """
        spread = check_columns("std", std, self.n_features, at_least=0) if std is not None else self.std
        n, noise = self.n_expected, _total(self.mean_noise**2, self.n_features)
        return noise + (0.0 if spread is None else _total(np.asarray(spread) ** 2, self.n_features) / n)

    @property
    def distribution(self) -> str:
        """Distribution of the noise: "laplace" or "gaussian"."""
        return self.noise(MEAN).law if self.totals is None else self.totals_stage.noise

    @property
    def totals_stage(self) -> JointStage:
        """The stage of a private number of rows."""
        (stage,) = self.stages
        assert isinstance(stage, JointStage)
        return stage

    @property
    def mean_noise(self) -> NDArray[np.float64]:
        """Standard deviation of the noise of the mean. Of a ratio: at the planned size, for a mean at the center."""
        if self.totals is None:
            return np.asarray(self.noise(MEAN).std)
        assert self.n_planned is not None
        return np.asarray(self.totals.noise(self.totals_stage).total / self.n_planned * np.asarray(self.clip))

    def notes(self) -> list[str]:
        """Return the notes that a reader of the plan needs, one line each."""
        if self.n_planned is None:
            return []
        # The standard deviation of a uniform distribution over the bounds.
        drowned = self.mean_noise > np.asarray(self.clip) / math.sqrt(3)
        if not drowned.any():
            return []
        return [_DROWNED]


def _total(values: NDArray[np.float64], count: int) -> float:
    return float(np.broadcast_to(values, (count,)).sum())


_COUNT_WEIGHT = {"gaussian": math.sqrt(0.1), "laplace": 0.05}
"""Weight of the count of clipped entries, which adds 1.2% and 2.5% to the noise of the mean."""


def _totals_noise(plan: ClippedMeanPlan) -> Any:
    """Return the noise of the total of all rows, in half-widths of the bounds."""
    assert plan.totals is not None
    return plan.totals.noise(plan.totals_stage).total


_ONE_GROUP = {
    "std": "private",
    "clip_norm": "linf",
    "clipped_share": False,
    "noise": "proportional",
    "calibration": "exact",
}
"""Options that a private number of rows allows: all rows are then one group."""


def _estimates_std(std: Any) -> bool:
    return isinstance(std, str) and std == "private"


def _check_std(std: Any, n_features: int) -> Columns | None:
    """Return the public standard deviations, or None if there are none."""
    if std is None or _estimates_std(std):
        return None
    if isinstance(std, str):
        raise refuse("std", given=std, allowed="None, 'private', or public numbers")
    return check_columns("std", std, n_features, above=0)


def _estimands(plan: ClippedMeanPlan) -> dict[str, str]:
    """Return the estimands that intervals can cover, each as text by its name."""
    if plan.std is None and not plan.estimates_std:
        return {"clipped": "the mean of these clipped rows (privacy noise only)"}
    if plan.region.hard:
        words = "the population mean (by the declared bounds no row is clipped)"
        return {"clipped": words, "population": words}
    clipped = {"clipped": "the mean of the population if it were clipped, E[clip(x)]"}
    if plan.estimates_std:
        return clipped
    return {**clipped, "population": "the population mean, for any rows with at most this standard deviation"}


def _find_errors(score: Any, plan: ClippedMeanPlan, estimand: str) -> ErrorDistribution:
    """Return the distribution of the errors of all columns."""
    widens, d = estimand == "population" and not plan.region.hard, plan.n_features
    center = np.broadcast_to(plan.lattice.center, (d,))
    if plan.clip_norm == "l2" and plan.std is not None:
        assert isinstance(score, Score)
        std = np.full(d, plan.std, dtype=np.float64)
        return BallErrors(score, center, std, float(plan.region.clip), widens)
    known = np.full(d, plan.std, dtype=np.float64) if widens else None
    return BoxErrors(score, center, *plan.region.ends(d), known)


@parameters
class ClippedMean(ColumnEstimator[ClippedMeanPlan]):
    """Private mean of rows clipped to public bounds.

    Use this estimator if you know tight bounds on every column without looking at the data: the noise is
    proportional to the width of the bounds. If you know only a loose range, use `AdaptiveMean`.

    Parameters
    ----------
    bounds : (low, high), array-like of shape (n_features, 2), "private" or UnknownBounds, optional
        Public bounds of every column, known without the data. Entries outside are moved to the nearer bound. A
        mapping ``{column: (low, high)}`` or a data frame with one row per column is matched to the columns of ``X``
        by name. Give either ``bounds`` or ``clip``. "private" chooses bounds from the rows for a fifth of epsilon;
        `UnknownBounds` has its options.
    bounds_are : {"clip", "hard"}, default="clip"
        Whether entries can lie outside the bounds:

        * "clip": they can. Intervals cover the mean of the clipped population.
        * "hard": they cannot, as for an age or a rating from 1 to 5. Intervals cover the population mean.
    clip : float or array-like of shape (n_features,), optional
        Alternative to ``bounds``: the largest allowed distance from ``center``, for every entry or, if
        ``clip_norm="l2"``, for every row. A pandas Series is matched to the columns of ``X`` by name, as are
        ``center`` and ``std``.
    clip_norm : {"linf", "l2"}, default="linf"
        "linf" clips every entry separately. "l2" projects every row onto the ball of radius ``clip`` around
        ``center``; ``clip`` must then be a single number.
    center : float or array-like of shape (n_features,), default=0.0
        Public center of the clipping region. Used with ``clip``.
    std : {"private"}, float, array-like of shape (n_features,) or None, default="private"
        Standard deviation of the columns, for the sampling error in intervals and tests:

        * "private": estimated from the squares of the clipped rows, which are released together with the sums. See
          ``std_share`` for the cost.
        * a number or array: a public upper bound on the standard deviation of the rows before clipping. Intervals can
          then cover the population mean.
        * None: no sampling error. Intervals cover the mean of the clipped sample.
    std_share : float, default=0.1
        Fraction of epsilon that pays for the squares if ``std="private"``, ``clip_norm="l2"`` and ``delta=0``. In
        all other cases the squares add no noise to the mean, and this parameter is unused.
    clipped_share : bool, default=False
        Whether to release the fraction of entries (of rows for "l2") outside the clipping region. The noise of the
        mean grows by 1.2% (Gaussian) or 2.5% (Laplace).
    noise : {"proportional", "isotropic"}, default="proportional"
        Noise of columns with different bounds: proportional to the width of each column's bounds, so that units do
        not matter, or equal in all columns. Under Gaussian noise both have the same expected total squared error.
    calibration : {"exact", "textbook"}, default="exact"
        "exact" computes the smallest sufficient Gaussian noise. "textbook" uses the formula of algorithm 9.2.1, and
        raises `NotPrivate` if that formula does not give the requested delta.
    missing : {"error", "drop", "center"}, default="error"
        Treatment of NaN and infinite entries:

        * "error": raise `InvalidData`. The error reveals that such an entry exists, which the guarantee does
          not cover.
        * "drop": leave out the row. The number of remaining rows is private. It is released together with the sums,
          without additional noise, and the estimate is a ratio of the two. It needs
          ``std="private"``.
        * "center": replace the entry with the center.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    neighbors : {"replace_one", "add_or_remove"}, default="replace_one"
        Neighboring datasets:

        * "replace_one": the number of rows is public, and one row is replaced.
        * "add_or_remove": one row is added or removed. The number of rows is private, and is released as ``n_``
          together with the sums. The estimate is a ratio of the two. It needs ``std="private"`` and
          ``clip_norm="linf"``.
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
    mean_ : ndarray of shape (n_features,)
        Private estimate in the units of the data, clipped to the bounds.
    released_mean_ : ndarray of shape (n_features,)
        Private estimate before it is clipped to the bounds. It is unbiased for E[clip(x)]: use it to average several
        releases. It is not available with ``missing="drop"`` or ``neighbors="add_or_remove"``: the estimate is then a
        ratio.
    rows_, rows_noise_std_ : float
        Noisy number of observed rows, and the standard deviation of its noise. Only with ``missing="drop"``.
    n_, n_noise_std_ : float
        Noisy number of rows that count, and the standard deviation of its noise. Only with
        ``neighbors="add_or_remove"``; ``n_interval()`` is its interval.
    noise_scale_ : float or ndarray of shape (n_features,)
        Standard deviation (Gaussian) or scale (Laplace) of the noise. A single number if all columns have the same
        noise.
    noise_std_ : ndarray of shape (n_features,)
        Standard deviation of the noise.
    std_ : ndarray of shape (n_features,) or None
        Standard deviation of the columns: the public value, or the private estimate for the clipped rows. The
        estimate is NaN if the noise of the variance exceeds 0.3 of it.
    std_noise_std_ : ndarray of shape (n_features,)
        Standard deviation of the noise of ``std_``. Only with ``std="private"``.
    clipped_share_ : ndarray of shape (n_features,) or (1,)
        Estimated fraction of the entries of each column (of the rows for "l2") outside the clipping region. Only if
        ``clipped_share=True``. Noise can make it negative.
    clipped_share_std_ : float
        Standard deviation of the noise in ``clipped_share_``.
    bounds_ : ndarray of shape (n_features, 2)
        The chosen bounds. Only with ``bounds="private"``.
    beyond_bounds_, beyond_bounds_std_ : ndarray of shape (n_features, 2)
        Noisy fraction of rows below and above the chosen bounds, and the standard deviation of its noise. Only with
        ``bounds="private"``.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : ReleasePlan
        The release plan: every released quantity and its noise.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has column names.

    See Also
    --------
    AdaptiveMean : Private mean that needs only a loose range.
    SparseMean : Private mean of many columns, few of them nonzero.

    Notes
    -----
    **Privacy.** Neighboring datasets have the same public number of rows and differ in one row. Let R_j be half the
    width of the bounds of column j. The sum of the clipped rows has l2 sensitivity 2||R||_2 and l1 sensitivity
    2||R||_1 for "linf", and l2 sensitivity 2R for "l2". Rows are rounded to a public lattice with spacing 2^-30 R_j
    and summed as integers, and the noise is drawn on the same lattice. The guarantee therefore holds in
    floating-point arithmetic.

    **Estimand.** By default, intervals cover E[clip(x)], the mean of the population after clipping. It equals the
    population mean if no entry lies outside the bounds. ``estimand="population"`` is available with a public ``std``,
    which bounds the clipping bias, and with ``bounds_are="hard"``. It is not available with ``std="private"``: clipped
    rows do not show how far outside the bounds an entry was.

    **Intervals.** Intervals and tests invert a score test. The test rejects a value m if the estimate is too
    far from m, given the variance that the rows would have if their mean were m. Rare events and skewed columns
    are therefore covered with fewer rows. Intervals include sampling error and noise. They assume independent rows,
    enough of them for the central limit theorem.

    **Limits.** Intervals of rare events undercover: where noise is small and fewer than about two events are expected,
    95% intervals cover 0.87 to 0.92. Use `PrivateProportion` for them. ``cov_params_`` has no sampling covariances.
    The clipped fraction is unknown unless ``clipped_share=True`` or the bounds are private.

    References
    ----------
    Cai, Wang and Zhang (2021), The cost of privacy, algorithm 2.1; algorithm 9.2.1 of the
    statistics chapter (docs/sources.md),
    whose printed noise is not private (docs/errata.md).

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import ClippedMean
    >>> X = np.random.default_rng(0).normal([1.0, -2.0], 1.0, size=(5000, 2))
    >>> mean = ClippedMean(epsilon=1.0, delta=1e-6, bounds=(-6, 6), random_state=0).fit(X)
    >>> mean.mean_.round(2)
    array([ 1.01, -1.99])
    >>> low, high = mean.confidence_interval()
    >>> (high - low).round(3)
    array([0.064, 0.065])
    >>> mean.test([1.0, 0.0]).pvalue.round(3)
    array([0.363, 0.   ])
    >>> print(mean.privacy_)
    (epsilon = 1, delta = 0), one row replaced [simulated noise, not a private release]
    """

    bounds: Any = None
    bounds_are: str = "clip"
    clip: Any = None
    clip_norm: str = "linf"
    center: Any = 0.0
    std: Any = "private"
    std_share: float = 0.1
    clipped_share: bool = False
    noise: str = "proportional"
    calibration: str = "exact"
    missing: str = "error"
    missing_codes: Any = None
    neighbors: Any = "replace_one"
    epsilon: float = 1.0
    delta: float = 0.0
    random_state: Any = None
    budget: Any = None

    _per_column = ("bounds", "clip", "center", "std")

    def plan(self, n_samples: int | None, n_features: int) -> ClippedMeanPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples : int
            Number of rows, at least 2; public. With ``neighbors="add_or_remove"`` it enters expected errors only, and
            may be None.
        n_features : int
            Number of columns; public.

        Returns
        -------
        ReleasePlan
            Its ``guarantee`` is the composed total; ``expected_error(std)`` is in closed form.

        Examples
        --------
        >>> from dpstats.means import ClippedMean
        >>> plan = ClippedMean(epsilon=0.5, delta=1e-6, bounds=(-1, 1)).plan(10_000, 5)
        >>> print(plan)
        Release plan for n = 10000, d = 5: (epsilon = 0.5, delta = 0), one row replaced
          clipped moments, together:
            clipped mean: 5 numbers, Laplace noise of scale 0.002
            second moment about the center: 5 numbers, Laplace noise of scale 0.004
          Noise chosen: Laplace, smaller than Gaussian noise at delta = 1e-06; the guarantee has delta = 0
        """
        if wants_bounds(self.bounds):
            chosen = plan_with_bounds(self, n_samples, n_features, noise=lambda plan: plan.mean_noise)
            return cast(ClippedMeanPlan, chosen)
        size = check_size(self, n_samples)
        d = check_integer("n_features", n_features, at_least=1)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        missing = self._policy("center")
        calibration = check_choice("calibration", self.calibration, ["exact", "textbook"])
        std = _check_std(self.std, d)
        share = check_real("std_share", self.std_share, above=0, below=1)
        counts = check_flag("clipped_share", self.clipped_share)
        region = Region.check(self.bounds, self.bounds_are, self.clip, self.center, d)
        if has_private_size(self):
            return self._smaller_noise(
                lambda delta: self._plan_totals(region, size, d, epsilon, delta, missing), delta, _totals_noise
            )
        assert size is not None
        n, estimates = size, _estimates_std(self.std)
        if missing == "drop" and not estimates:
            allowed = "'private' with missing='drop', because the interval of a ratio needs the squares of its rows"
            raise refuse("std", given=self.std, allowed=allowed, remedy="Leave std out.")
        if missing == "drop" and self.clip_norm == "l2" and delta == 0:
            allowed = "greater than 0 with missing='drop' and clip_norm='l2'"
            raise refuse("delta", given=delta, allowed=allowed, remedy="Set delta, or clip_norm='linf'.")

        def stages(delta: float, bits: int) -> tuple[RowLattice, Weights, tuple[Stage | JointStage, ...]]:
            law = "laplace" if delta == 0 else "gaussian"
            lattice = self._lattice(region, d, bits)
            free = lattice.free_squares("l1" if law == "laplace" else "l2")
            if estimates and free is None:
                # In a ball squares are not free at delta = 0: they are a separate stage.
                if counts:
                    allowed = "False with clip_norm='l2', std='private' and delta = 0"
                    remedy = "Set delta, clip_norm='linf' or a public std."
                    raise refuse("clipped_share", given=counts, allowed=allowed, remedy=remedy)
                both = [mean_integers(lattice, n, 1 - share), squares_integers(lattice, n, share)]
                return lattice, Weights((1.0, 1.0)), additive_stages(both, epsilon, 0.0)
            powers = (1.0, free) if estimates and free is not None else (1.0,)
            rows = lattice.free_count("l1" if law == "laplace" else "l2", powers) if missing == "drop" else 0.0
            weights = Weights(powers, _COUNT_WEIGHT[law] if counts else 0.0, rows)
            made = additive_stages([weights.integers(lattice, n, law)], epsilon, delta, calibration=calibration)
            return lattice, weights, made

        def make_plan(delta: float) -> ClippedMeanPlan:
            lattice, weights, plan_stages = finest(lambda bits: stages(delta, bits))
            return ClippedMeanPlan(
                plan_stages,
                PrivacyGuarantee(epsilon, delta),
                n,
                d,
                lattice=lattice,
                region=region,
                weights=weights,
                clip_norm=self.clip_norm,
                calibration=calibration,
                missing=missing,
                std=None if std is None else frozen(std),
            )

        if calibration == "textbook" or (missing == "drop" and self.clip_norm == "l2"):
            return make_plan(delta)  # Gaussian noise by name, or because Laplace noise has no such plan.
        return self._smaller_noise(make_plan, delta, lambda plan: plan.mean_noise)

    def _plan_totals(
        self, region: Region, n: int | None, d: int, epsilon: float, delta: float, missing: str
    ) -> ClippedMeanPlan:
        """Return the plan for a private number of rows: the totals of all rows, as one group."""
        for name, allowed in _ONE_GROUP.items():
            if not isinstance(given := getattr(self, name), type(allowed)) or given != allowed:
                words = f"{allowed!r} with neighbors='add_or_remove'"
                raise refuse(name, given=given, allowed=words, remedy=f"Leave {name} out.")
        neighbors = Neighbors.ADD_OR_REMOVE_ONE
        lattice, totals, stages = finest(lambda bits: calibrate_totals(region, 1, d, epsilon, delta, neighbors, bits))
        return ClippedMeanPlan(
            stages,
            PrivacyGuarantee(epsilon, delta, neighbors),
            n,
            d,
            lattice=lattice,
            region=region,
            weights=Weights((1.0, 1.0)),
            clip_norm="linf",
            calibration="exact",
            missing=missing,
            totals=totals,
        )

    def _lattice(self, region: Region, n_features: int, bits: int) -> RowLattice:
        noise = check_choice("noise", self.noise, ["proportional", "isotropic"])
        if check_choice("clip_norm", self.clip_norm, ["linf", "l2"]) == "linf":
            return BoxLattice.build(
                region.clip,
                region.center,
                n_features,
                common=noise == "isotropic",
                bits=bits,
                ends=(region.low, region.high),
            )
        if self.bounds is not None or region.hard:
            remedy = "Give the radius of the ball as clip."
            raise refuse("bounds", allowed="not be given with clip_norm='l2'", remedy=remedy)
        if not isinstance(region.clip, float):
            allowed = "a single number, the radius of the ball, with clip_norm='l2'"
            raise refuse("clip", given=self.clip, allowed=allowed)
        return BallLattice.build(region.clip, region.center, n_features, bits=bits)

    def _read(self, rows: Rows, plan: ClippedMeanPlan) -> Mapping[str, Any]:
        if plan.totals is not None:
            assert isinstance(plan.lattice, BoxLattice)
            return {TOTALS: rows.total(OneGroup(plan.lattice, plan.totals, plan.missing))}
        moments = plan.lattice.row_moments(
            rows, powers=len(plan.weights.powers), outside=plan.weights.outside > 0, missing=plan.missing
        )
        exact = plan.weights.exact(plan.lattice, moments)
        return exact if len(plan.stages) == 1 else next(iter(exact.values()))

    def _report(self, released: Released, plan: ClippedMeanPlan) -> None:
        values = flat(released)
        if plan.totals is not None:
            noise = plan.totals.noise(plan.totals_stage)
            self._report_ratio(plan.totals.ratio(values, noise)[0], plan)
        elif plan.missing == "drop":
            self._report_observed(values, plan)
        else:
            self._report_all(values, plan)

    def _report_ratio(self, ratio: Ratio, plan: ClippedMeanPlan) -> None:
        """Set the attributes of a ratio over a released number of rows."""
        clip, rows, noise = np.full(plan.n_features, plan.clip), float(np.ravel(ratio.N)[0]), ratio.noise
        self._score: ErrorDistribution = RatioErrors(ratio, 0.0, clip, -clip, clip)
        counted = max(rows, noise.count, 2.0)
        self._counted: float = counted
        if plan.missing == "drop":
            self.rows_, self.rows_noise_std_ = rows, noise.count
        if plan.has_private_size:
            record_size(self, rows, noise.rows)
        m = ratio.estimate
        shown, off = ratio.spread
        self.std_: NDArray[np.float64] | None = clip * shown
        self.std_noise_std_ = clip * off
        error = np.hypot(noise.total, m * noise.count) / counted
        self.noise_std_ = clip * error
        spread = (ratio.Q - 2 * m * ratio.T + m**2 * rows) / counted
        spread = (spread + error**2) * counted / (counted - 1)
        self._spread: NDArray[np.float64] | None = clip * np.sqrt(np.clip(spread, 0.0, 1.0))
        low, high = plan.region.ends(plan.n_features)
        self.mean_ = np.clip(plan.lattice.center + clip * m, low, high)

    def _report_observed(self, values: Mapping[str, NDArray[np.float64]], plan: ClippedMeanPlan) -> None:
        """Set the attributes of a ratio over the observed rows."""
        observed = ObservedSums.of(values, plan)
        self._report_ratio(observed.ratio(), plan)
        if OUTSIDE in values:
            self.clipped_share_ = plan.n_samples / self._counted * values[OUTSIDE]
            share = np.clip(self.clipped_share_, 0.0, 1.0) * observed.rows_std
            off = np.hypot(plan.n_samples * plan.noise(OUTSIDE).std, share) / self._counted
            self.clipped_share_std_ = float(np.max(off))

    def _report_all(self, values: Mapping[str, NDArray[np.float64]], plan: ClippedMeanPlan) -> None:
        """Set the attributes of an average over all rows."""
        d, n, noise = plan.n_features, plan.n_samples, plan.noise(MEAN)
        self._counted = n
        clip = np.full(d, plan.clip)
        self.noise_scale_ = noise.scale
        self.noise_std_ = np.broadcast_to(noise.std, (d,)).copy()
        self._spread = None if plan.std is None else np.full(d, plan.std)
        self.std_ = self._spread
        spread: Known | About = Known(np.zeros(d) if self._spread is None else self._spread, clip)
        if plan.estimates_std:
            first, second = values[MEAN], values[SQUARES]
            second_std = np.broadcast_to(plan.noise(SQUARES).std, (d,))
            spread = About(first, second, self.noise_std_, second_std, clip)
            # Unbiased but for the cut: the square of the noisy mean exceeds the squared mean by the noise's variance.
            variance = n / (n - 1) * (second - first**2 + self.noise_std_**2)
            self._spread = np.sqrt(np.clip(variance, 0.0, clip**2))
            off = n / (n - 1) * np.hypot(second_std, 2 * first * self.noise_std_)
            # A row moves an average of squares by at most the square of the clip, over n.
            self.std_, self.std_noise_std_ = spread_of(variance, off, clip**2 / n)
            self.std_ = np.minimum(self.std_, clip)
        rounding = np.asarray(plan.lattice.spacing) / 2
        self._score = Score(values[MEAN], noise, n, -clip, clip, spread, rounding)
        low, high = plan.region.ends(d)
        self.released_mean_ = plan.lattice.center + values[MEAN]
        self.mean_ = np.clip(self.released_mean_, low, high)
        if OUTSIDE in values:
            self.clipped_share_ = values[OUTSIDE]
            self.clipped_share_std_ = float(np.max(plan.noise(OUTSIDE).std))

    def _answers(self) -> ColumnAnswers:
        plan = self.plan_
        ball = f"the center of the ball ({public_numbers(plan.region.center)})"
        known = _estimands(plan)
        # Clipped rows do not show how large an entry was before it was clipped.
        remedy = "Set bounds_are='hard', or a public std of the rows before they are clipped."
        return ColumnAnswers(
            self.mean_,
            np.sqrt(self._sampling_std() ** 2 + self.noise_std_**2 + (np.asarray(plan.lattice.spacing) / 2) ** 2),
            known,
            about_missing(plan.missing, ball if plan.clip_norm == "l2" else plan.region.middle),
            partial(_find_errors, self._score, plan),
            widest=list(known)[-1],
            refused={"population": ("'clipped' without a public std or hard bounds", remedy)},
        )

    @property
    def cov_params_(self) -> NDArray[np.float64]:
        """Covariance matrix of ``mean_``: sampling variance (where ``std`` is known) plus noise variance.

        Sampling errors are assumed to be uncorrelated across columns, because only their standard deviations are
        known. The noise is independent across columns.
        """
        check_is_fitted(self)
        return np.diag(self._sampling_std() ** 2 + self.noise_std_**2)

    def _sampling_std(self) -> NDArray[np.float64]:
        # Standard errors stay finite where noise hides the standard deviation.
        if self._spread is None:
            return np.zeros(self.plan_.n_features)
        return self._spread / math.sqrt(self._counted)

    def _describe(self, found: Estimates, estimand: str, confidence_level: float | None) -> Estimates:
        plan, beside = self.plan_, {}
        if plan.estimates_std and self.std_ is not None:
            beside[SPREAD] = print_spreads(self.std_, self.std_noise_std_)
        if hasattr(self, "clipped_share_") and self.clipped_share_.size == plan.n_features:
            beside["clipped"] = [f"{100 * max(share, 0.0):.1f}%" for share in self.clipped_share_]
        law = {"exact": "exact curve", "textbook": "algorithm 9.2.1"}[plan.calibration]
        noise = f"Gaussian, {law}" if plan.distribution == "gaussian" else "Laplace"
        return replace(
            found,
            title="Private clipped mean",
            noise=self.noise_std_,
            beside=beside,
            facts=[*observed_facts(self), ("Noise", noise)],
            notes=self._notes(estimand),
        )

    def _notes(self, estimand: str) -> list[str]:
        plan = self.plan_
        notes = [*[SIMULATED] * self.privacy_.simulated, *plan.notes(), *note_few_rows(self)]
        if plan.std is None and not plan.estimates_std:
            notes.append(
                "The intervals exclude sampling error, because no standard deviation is known. For intervals about the "
                "population, set std='private' or give a public std."
            )
        if plan.estimates_std:
            notes.append(f"The column '{SPREAD}' has the private standard deviation of the clipped rows.")
            notes += hidden_spreads_note(self._column_names(), self.std_)
        notes += note_bounds(self)
        if not plan.region.hard:
            found = []
            if hasattr(self, "clipped_share_"):
                what = "entries" if plan.clip_norm == "linf" else "rows"
                share = float(np.max(self.clipped_share_))
                found.append(
                    f"Up to {100 * max(share, 0.0):.1f}% of the {what} of a column were clipped (noise sd "
                    f"{100 * self.clipped_share_std_:.2g}%)."
                )
            found += self._edge_note()
            notes += [_CLIPPED[estimand], *found, *[_CODES] * bool(found)]
        return notes

    def _edge_note(self) -> list[str]:
        """Return a note that lists the columns whose estimate is so close to a bound that clipping is likely."""
        plan = self.plan_
        if plan.clip_norm == "l2" or plan.located is not None:
            return []
        low, high = plan.region.ends(plan.n_features)
        spread = np.zeros(plan.n_features) if self._spread is None else self._spread
        near = np.maximum(np.maximum(spread, 2 * self.noise_std_), 0.05 * (high - low))
        edges = np.flatnonzero(np.minimum(self.mean_ - low, high - self.mean_) < near)
        if not edges.size or np.all(near >= (high - low) / 2):
            return []
        measure = "" if hasattr(self, "clipped_share_") else ", or set clipped_share=True to measure the clipping"
        return [
            f"{list_some(self._column_names(edges), 5)}: the estimate is close to a bound, so clipping may have "
            "biased it. If values cannot lie beyond this bound, set bounds_are='hard'. Otherwise widen the "
            f"bounds{measure}."
        ]


_CODES = "Entries at a bound may be codes of missing entries, such as -999. Declare all codes with missing_codes."
_CLIPPED = {
    "clipped": (
        "E[clip(x)] is the mean of the population with every entry beyond the bounds moved to the nearer bound. It "
        "equals the population mean if no entry is beyond the bounds. Otherwise the difference is unknown."
    ),
    "population": (
        "The intervals include the largest bias of clipping, for rows with at most the stated standard deviation."
    ),
}
