"""Hotelling's T-squared test of a released mean, or of the difference of two, and its public algebra.

Proof: docs/proofs/ball-products.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr, chdtrc, fdtrc, gammaln
from sklearn.utils.validation import check_is_fitted

from dpstats.data import Column, Schema
from dpstats.data.parameters import check_choice, check_columns
from dpstats.data.rows import LEFT_OUT, Rows, check_labels, drops_undeclared
from dpstats.data.schema import Categories
from dpstats.errors import refuse, show
from dpstats.inference.error_distributions import BONFERRONI, NormalErrors
from dpstats.inference.estimates import Estimates, HasEstimates, Test
from dpstats.lattice import check_finite_rows
from dpstats.means.adaptive_radii import stage_curves
from dpstats.means.ellipsoids import (
    LAST_SHARE,
    ROUND_SHARES,
    BallProducts,
    Ellipsoid,
    EllipsoidEstimator,
    EllipsoidPlan,
    Extension,
    Frame,
    PrivateRows,
    Step,
    Walk,
    plan_rounds,
)
from dpstats.privacy.gaussian import gaussian_sigma
from dpstats.release.estimator import parameters, plan_on_sample, state_missing
from dpstats.release.session import Released

Floats = NDArray[np.float64]

_FLOOR = 0.1
"""Least variance of a direction, over the average variance: noise can make a released one negative."""


@dataclass(frozen=True, eq=False)
class MeanErrors:
    """Released mean of white rows, or half the difference of two, with the variances of its error."""

    mean: Floats  # shape (d,)
    spread: Floats  # (d, d): covariance of the contribution of a row, with noise
    spread_std: float  # standard deviation of the noise of ``spread`` above the diagonal
    noise: Floats  # (d, d): covariance of the noise of ``mean``
    n: int

    @classmethod
    def from_rows(cls, found: BallProducts, null: Floats) -> MeanErrors:
        """Return the mean of all rows, less the mean under the null hypothesis."""
        noise = found.mean_std**2 * np.eye(len(found.mean))
        return cls(found.mean - null, found.covariance, found.products_std, noise, found.n)

    @classmethod
    def from_signs(cls, found: BallProducts, shrunk: bool) -> MeanErrors:
        """Return the covariance of rows and signs, which is 0 if both samples have one mean.

        What a row adds is (s - average of s)(u - average of u): samples may differ in size and in covariance, as in
        Welch's test. Rows that are ``shrunk`` towards a center off their mean keep less of the way if their sample is
        wider. The part of the common mean that this leaves in the difference is subtracted.
        """
        assert found.sign is not None and found.signed_mean is not None and found.signed_products is not None
        s, m, k = found.sign, found.mean, found.signed_mean
        part, unsure = _uneven_shrinking(found) if shrunk else (0.0, 0.0)
        value = k - s * m
        about = found.covariance
        crossed = np.outer(m, k) + np.outer(k, m)
        signed = found.signed_products - crossed + s * np.outer(m, m)
        # With t = s + part a row adds (signs - t)(u - average of u).
        t = s + part
        spread = (1 + t**2) * about - 2 * t * signed - np.outer(value, value)
        std = np.hypot((1 + t**2) * found.products_std, 2 * t * found.signed_products_std)
        own = found.signed_mean_std**2 + t**2 * found.mean_std**2 + found.sign_std**2 * found.mean_std**2
        noise = own * np.eye(len(m)) + (found.sign_std**2 + unsure**2) * np.outer(m, m)
        return cls(value - part * m, spread, float(std), noise, found.n)

    @property
    def _size(self) -> float:
        """The average variance of a direction, at least the noise of that average."""
        d = len(self.mean)
        return float(max(np.trace(self.spread) / d, self.spread_std * np.sqrt(2 / d)))

    @property
    def covariance(self) -> Floats:
        """Covariance of the error of ``mean``: sampling and noise."""
        values, vectors = np.linalg.eigh(self.spread)
        kept = np.maximum(values, _FLOOR * self._size)
        return np.asarray((vectors * kept) @ vectors.T / self.n + self.noise)

    @property
    def statistic(self) -> float:
        """Hotelling's statistic with the covariance of sampling and noise."""
        return float(self.mean @ np.linalg.solve(self.covariance, self.mean))

    @property
    def degrees(self) -> float:
        """Degrees of freedom of a covariance of normal rows with the same relative errors."""
        noise = float(np.trace(self.noise)) / len(self.mean)
        total = self._size / self.n + noise
        sampled, error = self._size / self.n / total, self.spread_std / self.n / total
        return float(1 / (sampled**2 / (self.n - 1) + error**2))

    @property
    def pvalue(self) -> float:
        """The p-value by the distribution of F; 1 if the covariance has too few degrees of freedom."""
        d, m = len(self.mean), self.degrees
        left = m - d + 1
        return float(fdtrc(d, left, self.statistic * left / (d * m))) if left >= 1 else 1.0


_RADII = np.geomspace(1e-3, 1e3, 400)
"""Squared radii of the ball, for white rows of variance 1, between which a fraction of a mean is looked up."""
_NOT_NORMAL = 0.5
"""Part of the correction for uneven shrinking that counts as its error: it is derived for normal rows."""
_LEAST_KEPT = 0.05


def _uneven_shrinking(found: BallProducts) -> tuple[float, float]:
    """Return the part of the average of s u that a common mean explains beyond s times the average of u, and its error.

    A sample whose rows have the mean v about the center has the shrunk mean h v, where h depends on the size of its
    shrunk rows. Let p and q be the fractions of the samples. The average of s u is (p h - q g) v, and the average of u
    is (p h + q g) v.
    """
    assert found.sign is not None and found.signed_products is not None
    s, d = float(np.clip(found.sign, -0.999, 0.999)), len(found.mean)
    total, signed = float(np.trace(found.products)), float(np.trace(found.signed_products))
    noise = math.sqrt(2 * d) * math.hypot(found.products_std, found.signed_products_std) / 2
    kept, off = [], []
    for fraction, square in (((1 + s) / 2, (total + signed) / 2), ((1 - s) / 2, (total - signed) / 2)):
        size, error = square / fraction, noise / fraction
        ends = [_kept_of_mean(size + move, d) for move in (-error, error)]
        kept.append(_kept_of_mean(size, d))
        off.append(abs(ends[1] - ends[0]) / 2)
    average = (1 + s) / 2 * kept[0] + (1 - s) / 2 * kept[1]
    slope = (1 - s**2) / 2 / average
    part = slope * (kept[0] - kept[1])
    return part, math.hypot(_NOT_NORMAL * part, slope * math.hypot(*off))


def _kept_of_mean(square: float, d: int) -> float:
    """Return the fraction of a small mean that shrinking into the unit ball leaves to normal rows.

    ``square`` is the average of their squared norms after it.
    """
    outside = chdtrc(d, _RADII)
    squares = d * chdtr(d + 2, _RADII) / _RADII + outside
    kept = 1 - outside
    if d > 1:
        # Outside, the mean moves the direction of a row, in the d - 1 dimensions across it.
        ratio = math.exp(gammaln((d - 1) / 2) - gammaln(d / 2)) / math.sqrt(2)
        kept = kept + (d - 1) / d * np.sqrt(_RADII) * ratio * chdtrc(d - 1, _RADII)
    return max(float(np.interp(square, squares[::-1], kept[::-1])), _LEAST_KEPT)


STAGE = "products of shrunk rows"
ASSUMED = ("symmetric", "mean")
_MOST_OUTSIDE = 0.3
"""Largest fraction of normal rows outside the last ellipsoid."""
_TWO_SAMPLES = math.sqrt(0.25), math.sqrt(0.8)
"""Constants of an extended row of two samples: the second is for samples of one size, both for unequal ones."""
_LEAST_SPLIT = 20.0
"""Least 1 - s^2 of two samples, in standard deviations of its noise, for intervals of a difference."""
_ROWS_PER_COLUMN = 50


@dataclass(frozen=True)
class HotellingPlan(EllipsoidPlan):
    """The release plan of a `HotellingTest`: rounds that find an ellipsoid, and one stage for the test."""

    # Shape (n_features,). The mean under the null hypothesis less the center, in half-widths.
    null: Floats = field(repr=False, compare=False)
    assume: str  # one of "symmetric", "mean"
    two_samples: bool
    # Squared radius of the last ball, for white rows of variance 1. Only for ``assume="symmetric"``.
    radius2: float

    @property
    def extension(self) -> Extension:
        """Extension of rows in the last stage."""
        return last_extension(self.n_features, self.two_samples, self.bits)

    @property
    def noise_ratio(self) -> float:
        """Ratio of the noise of a mean to its sampling error, for normal rows that are well whitened."""
        if self.assume == "mean":
            return math.nan
        noise = float(np.asarray(self.noise(f"{STAGE}, diagonal").std)) / math.sqrt(2)
        scale = self.extension.constants[-1] * self.extension.radius / 4.0**self.bits
        return noise / scale * math.sqrt(self.radius2 * self.n_samples)

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {} if math.isnan(self.noise_ratio) else {"noise_ratio": self.noise_ratio}

    def notes(self) -> list[str]:
        """Return the facts as text, one line each."""
        if math.isnan(self.noise_ratio):
            return []
        return [f"for normal rows the noise of a mean is {self.noise_ratio:.2g} times its sampling error"]

    def last_step(self, found: Ellipsoid) -> Step:
        """Return the step of the last stage, for the ellipsoid that the rounds found."""
        d = self.n_features
        if self.assume == "symmetric":
            radius = np.sqrt(found.squared_radius(self.radius2 / d))
            return Step(STAGE, self.extension, found, radius)
        # Only scales are used, so that the ellipsoid that holds the whole box is not much larger than the box.
        scale = np.sqrt((found.unwhitening**2).sum(axis=-1))
        ellipsoid = Ellipsoid(
            np.zeros_like(found.center), np.eye(d) / scale[..., None], np.eye(d) * scale[..., None], found.signal
        )
        return Step(STAGE, self.extension, ellipsoid, np.sqrt((1 / scale**2).sum(axis=-1)))

    def walk(self, release: Walk) -> _Found:
        step = self.last_step(self.find(release))
        return _Found(step.ellipsoid, step.radius, release(step))


class _Found(NamedTuple):
    """Public: the last ellipsoid, its radius, and the released products of the rows in it."""

    ellipsoid: Ellipsoid
    radius: Floats
    products: BallProducts

    def errors(self, plan: HotellingPlan) -> MeanErrors:
        """Return the mean that is tested and its errors, in units of the ball."""
        if plan.two_samples:
            return MeanErrors.from_signs(self.products, plan.assume == "symmetric")
        return MeanErrors.from_rows(self.products, self.ellipsoid.whitening @ plan.null / self.radius)

    def has_both(self, plan: HotellingPlan) -> bool:
        """Return whether two samples are large enough for a difference to have an interval."""
        sign = self.products.sign
        return sign is None or bool(1 - sign**2 > _LEAST_SPLIT * self.products.sign_std)

    def units(self, plan: HotellingPlan) -> Floats:
        """Return the matrix from the units of the ball to the units of the data."""
        units = plan.frame.half[:, None] * self.ellipsoid.unwhitening * self.radius
        sign = self.products.sign
        # The covariance of rows and signs is (1 - s^2)/2 times the difference.
        return np.asarray(units if sign is None or not self.has_both(plan) else units * 2 / (1 - sign**2))


def last_extension(d: int, two_samples: bool, bits: int) -> Extension:
    """Return the extension of rows of d columns in the last stage."""
    return Extension(d, *_TWO_SAMPLES, bits) if two_samples else Extension(d, 1.0, 0.0, bits)


@parameters
class HotellingTest(HasEstimates, EllipsoidEstimator[HotellingPlan]):
    """Private form of Hotelling's T-squared test of a mean vector, or of the difference of two.

    The release finds an ellipsoid around most rows, shrinks rows into it, and tests the mean of the shrunk rows. The
    covariance of the rows is private too. For one column, use `dpstats.means.ClippedMean`. If the whole distribution
    under the null hypothesis is known, use the tests of `dpstats.identity`.

    Parameters
    ----------
    mean : float or array of shape (n_features,), optional
        Mean under the null hypothesis, inside the bounds. Default: 0 for one sample. Leave it out for two samples. A
        pandas Series is matched to the columns of ``X`` by name.
    groups : pair of labels, optional
        Declared public labels of two samples. ``y`` then holds the label of each row, which is private. Default: one
        sample.
    bounds : (low, high), or array of shape (n_features, 2)
        Public bounds of every column, known without the data. With "symmetric" they set the scale of the first round
        only, and rows may lie outside. Labeled bounds choose columns by name.
    bounds_are : {"clip", "hard"}, default="clip"
        "hard" declares that rows lie inside the bounds by nature, so that clipping changes no row.
    assume : {"symmetric", "mean"}, default="symmetric"
        Assumption about the rows:

        * "symmetric": with one sample, rows are symmetric about ``mean`` under the null hypothesis. With two samples,
          rows have one distribution under it, or are symmetric about one mean, with any covariances. Rows are shrunk
          into an ellipsoid, which has little noise. Skewed rows with the right mean can be rejected.
        * "mean": none. The test is of the means of rows clipped to their bounds. The noise is larger.
    missing : {"error", "drop"}, default="error"
        Treatment of a row with a NaN or infinite entry. "error" raises `InvalidData`. "drop" leaves the row out: a
        part of epsilon counts the complete rows, and the release uses a random sample of them, of public size.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    unknown : {"drop", "error"}, default="drop"
        Treatment of a row with an undeclared label. "drop" leaves the row out: a part of epsilon counts the other rows,
        and the release uses a random sample of them, of public size. "error" raises `InvalidData`, and the count costs
        nothing. Only with ``groups``.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=1e-6
        Privacy parameter, in (0, 1).
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges. Clones share it.

    Attributes
    ----------
    result_ : Test
        The test of all columns together: ``statistic``, ``pvalue``, ``summary()``.
    statistic_ : float
        Hotelling's statistic, with the covariance of sampling error and noise.
    pvalue_ : float
        p-value, which accounts for the noise.
    difference_ : ndarray of shape (n_features,)
        Estimated mean of the shrunk rows less ``mean``, or difference of the means of both samples, the first less the
        second, in the units of the data.
    degrees_ : float
        Degrees of freedom of the released covariance.
    privacy_ : PrivacyGuarantee
        For neighbors that differ in one row, with its label; n is public.
    plan_ : HotellingPlan
        The release plan: every released quantity and its noise.
    rows_, rows_noise_std_, n_rows_ : float, float, int
        Noisy number of complete rows with a declared label, the standard deviation of its noise, and the number of
        rows that were used. Only if rows are left out.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has column names.

    Notes
    -----
    **Privacy.** A shrunk row u is extended by constants to v, of norm at most R. The sum of the matrices v v' moves by
    at most sqrt(2) R^2. It holds the sums and the products of u.

    **Test.** The statistic is m' V^{-1} m, where V adds the covariance of sampling and of noise. It is compared with
    Hotelling's distribution. The degrees of freedom follow from the relative error of the released covariance. Two
    samples may differ in covariance, as in Welch's test: the release has the covariance of each. Test and intervals
    use the same covariance V.

    **Assumptions.** Independent rows, and enough of them for means of shrunk rows to be nearly normal.

    **Limits.** The test and its intervals concern the mean of shrunk rows, which differs from the mean of skewed
    rows. Few rows for the number of columns and epsilon leave no power.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.covariance import HotellingTest
    >>> X = np.random.default_rng(0).multivariate_normal([0.1, 0], [[1, 0.6], [0.6, 1]], size=20_000)
    >>> test = HotellingTest(bounds=(-5, 5), random_state=0).fit(X)
    >>> bool(test.pvalue_ < 1e-6)
    True
    """

    mean: Any = None
    groups: Any = None
    bounds: Any = None
    bounds_are: str = "clip"
    assume: str = "symmetric"
    missing: str = "error"
    missing_codes: Any = None
    unknown: str = "drop"
    epsilon: float = 1.0
    delta: float = 1e-6
    random_state: Any = None
    budget: Any = None

    _per_column = ("bounds", "mean")

    def plan(self, n_samples: int, n_features: int) -> HotellingPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes.

        Examples
        --------
        >>> from dpstats.covariance import HotellingTest
        >>> plan = HotellingTest(bounds=(-5, 5)).plan(5_000, 10)
        >>> round(plan.noise_ratio, 2)  # noise over the sampling error of a mean
        0.44
        """
        n, d, guarantee = self._sizes(n_samples, n_features)
        assume = check_choice("assume", self.assume, ASSUMED)
        two = self._kinds() is not None
        frame, null = self._frame(d, assume, two)
        leaves_out = drops_undeclared(self.unknown) and two
        if self._policy() == "drop" or leaves_out:
            return plan_on_sample(self, n, d)
        first, second = _TWO_SAMPLES if two else (0.0, 1.0)
        noise = (1 + first**2 + second**2) / second
        noise *= gaussian_sigma(guarantee.epsilon, guarantee.delta) / math.sqrt(LAST_SHARE) / n
        # The radius with the least error of the mean of normal rows, sampling and noise.
        curves = stage_curves(d, "symmetric", _MOST_OUTSIDE)
        error = curves.spread**2 / n + noise**2 * curves.q / curves.slope**2
        radius2 = float(curves.q[np.argmin(error)])
        return plan_rounds(
            n,
            guarantee,
            ROUND_SHARES,
            lambda bits: [(STAGE, last_extension(d, two, bits), LAST_SHARE)],
            lambda stages, bits: HotellingPlan(
                stages,
                guarantee,
                n,
                d,
                frame=frame,
                bits=bits,
                null=null,
                assume=assume,
                two_samples=two,
                radius2=radius2,
            ),
        )

    def _frame(self, d: int, assume: str, two: bool) -> tuple[Frame, Floats]:
        """Return the frame of the rows, and the mean under the null hypothesis in it."""
        low, high, hard = self._region(d)
        center, half = low / 2 + high / 2, high / 2 - low / 2
        if two:
            if self.mean is not None:
                raise refuse("mean", given=self.mean, allowed="None with groups", remedy="Leave it out.")
            return Frame(center, half, assume == "mean", False, hard), np.zeros(d)
        mean = np.full(d, 0.0 if self.mean is None else check_columns("mean", self.mean, d))
        outside = np.flatnonzero((mean < low) | (mean > high))
        if outside.size:
            got = f"{show(self.mean)} at position {outside[0]}"
            raise refuse("mean", got=got, allowed="inside the bounds", remedy="Give other bounds, or another mean.")
        if assume == "mean":
            return Frame(center, half, True, False, hard), (mean - center) / half
        # Shrinking towards the mean keeps rows symmetric about it.
        return Frame(mean, np.maximum(high - mean, mean - low), False, True, hard), np.zeros(d)

    def _kinds(self) -> Categories | None:
        if self.groups is None:
            return None
        kinds = Categories(self.groups, "groups")
        if len(kinds) != 2:
            raise refuse("groups", got=f"{len(kinds)}", allowed="a pair of labels")
        return kinds

    def _schema(self) -> Schema:
        kinds = self._kinds()
        if kinds is None:
            return super()._schema()
        column = Column("groups", levels=kinds, meaning="the label of each row's sample")
        return replace(super()._schema(), beside=(column,))

    def _check_before_count(self, rows: Rows) -> None:
        if self._policy() == "error":
            check_finite_rows(rows)
        if self.groups is not None and not drops_undeclared(self.unknown):
            check_labels(rows)

    def _read(self, rows: Rows, plan: HotellingPlan) -> PrivateRows:
        if plan.two_samples:
            check_labels(rows)
        return super()._read(rows, plan)

    def _report(self, released: Released, plan: HotellingPlan) -> None:
        found = self._found = plan.walk(plan.reading(released))
        errors = found.errors(plan)
        self.statistic_, self.pvalue_, self.degrees_ = errors.statistic, errors.pvalue, errors.degrees
        nowhere = 0.0 if found.has_both(plan) else np.nan
        self.difference_ = found.units(plan) @ errors.mean + nowhere
        self.result_ = Test(
            self.statistic_, self.pvalue_, 0.0, "two-sided", self.estimates(), joint="all columns together"
        )

    def _conclusions(self) -> tuple[str, str]:
        """Return the estimand and the null hypothesis."""
        plan = self.plan_
        if plan.assume == "mean":
            rows = "rows" if plan.frame.hard else "rows clipped to the bounds"
        else:
            rows = "rows shrunk into a released ellipsoid"
        if plan.two_samples:
            what = f"the difference of the means of {rows}, the first sample less the second"
            if plan.assume == "symmetric":
                what += ", both shrunk alike"
        else:
            what = f"the mean of {rows}, less the mean of the null hypothesis"
        if plan.assume == "mean":
            return what, f"{what}, is 0 in every column"
        if plan.two_samples:
            return what, "rows of both samples have one distribution, or are symmetric about one mean"
        return what, "rows are symmetric about the mean of the null hypothesis"

    def estimates(self) -> Estimates:
        """Return the differences from the null hypothesis with the distribution of their errors: one per column."""
        check_is_fitted(self, "plan_")
        plan, found = self.plan_, self._found
        errors, units = found.errors(plan), found.units(plan)
        estimate = units @ errors.mean
        error = np.sqrt(np.diagonal(units @ errors.covariance @ units.T))
        if not found.has_both(plan):
            error = np.full(plan.n_features, np.inf)
        covered, null = self._conclusions()
        facts = [
            *self._table_facts(),
            ("Null hypothesis", null),
            ("T squared, p-value", f"{errors.statistic:.4g}, {errors.pvalue:.4g} (all columns together)"),
        ]
        return Estimates(
            estimate if found.has_both(plan) else np.full(plan.n_features, np.nan),
            error,
            tuple(self._column_names()),
            state_missing(plan, covered),
            NormalErrors(estimate, error),
            title="Private Hotelling test",
            header="difference",
            facts=facts,
            notes=self._notes(errors, found),
            together=BONFERRONI,
            simulated=self.privacy_.simulated,
        )

    def _notes(self, errors: MeanErrors, found: _Found) -> list[str]:
        plan = self.plan_
        notes = [LEFT_OUT] * (plan.counted is not None and "unknown" in plan.counted.left_out)
        # The smaller sample sets how close to normal a difference is.
        sign = found.products.sign
        rows = plan.n_samples * (1.0 if sign is None else 1 - abs(float(sign)))
        if rows < _ROWS_PER_COLUMN * plan.n_features:
            where = "" if sign is None else f" in both samples, or {_ROWS_PER_COLUMN // 2} in one"
            notes.append(
                f"Warning: below {_ROWS_PER_COLUMN} rows per column{where}, means may not be normal, and the level may "
                "be above the stated one."
            )
        if errors.degrees < plan.n_features:
            notes.append(
                "The released covariance has too few degrees of freedom for a test, so the p-value is 1. Use more "
                "rows, fewer columns or a larger epsilon."
            )
        if not found.has_both(plan):
            notes.append(
                "One sample may be empty: there are no estimates of the difference. Use more rows or a larger epsilon."
            )
        if plan.assume == "symmetric":
            skewed = "skewed rows of unequal spread" if plan.two_samples else "skewed rows"
            notes.append(
                f"The test may reject {skewed} with equal means. For a test of means alone, set assume='mean'."
            )
        return notes
