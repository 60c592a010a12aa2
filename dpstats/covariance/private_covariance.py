"""Private covariance matrix of bounded columns, with intervals. Proof: docs/proofs/covariance.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.covariance.moments import (
    STAGE,
    BoundedErrors,
    CentralMoments,
    CorrelationErrors,
    CovariancePlan,
    coarse_bits,
    correlation_estimates,
    fine_bits,
    laplace_coarse_bits,
    moment_integers,
    read_moments,
    unidentified_note,
)
from dpstats.data.parameters import check_integer, check_privacy_parameters
from dpstats.data.rows import Rows
from dpstats.errors import refuse
from dpstats.inference.error_distributions import BONFERRONI
from dpstats.inference.estimates import Estimates, HasEstimates
from dpstats.inference.figures import new_figure, plain
from dpstats.inference.results import hide_noise, significant
from dpstats.lattice import check_finite_rows
from dpstats.lattice.products import finest
from dpstats.means.ellipsoids import check_box
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.release.additive import additive_stages
from dpstats.release.estimator import PrivateEstimator, parameters, plan_on_sample, state_missing
from dpstats.release.session import Released

Floats = NDArray[np.float64]

_FEW_ROWS = 50


@parameters
class PrivateCovariance(HasEstimates, PrivateEstimator[CovariancePlan]):
    """Private covariance matrix of columns that are clipped to public bounds.

    One release gives all covariances, variances and means, the correlations (`correlation`), and the moments of higher
    order that intervals need. The noise of a correlation is proportional to the number of columns, and to the product
    of both columns' ratios of half-width to standard deviation.

    Parameters
    ----------
    bounds : (low, high), or array of shape (n_features, 2)
        Public bounds of every column, known without the data. With labels (a mapping {column: (low, high)}, or a data
        frame with a row per column) a fit takes them by the names of a data frame's columns.
    bounds_are : {"clip", "hard"}, default="clip"
        "clip": entries outside the bounds are moved to them. "hard": rows lie inside the bounds by nature, so that
        clipping changes no row.
    missing : {"error", "drop"}, default="error"
        Treatment of a row with a NaN or infinite entry. "error" raises `InvalidData`. "drop" leaves the row out: a
        part of epsilon counts the complete rows, and the release uses a random sample of them, of public size.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=1e-6
        Privacy parameter, in [0, 1). Zero adds Laplace noise (pure privacy), which grows with the squared number of
        columns. A positive value adds Laplace or Gaussian noise, whichever is smaller. If it is Laplace noise, as for
        up to two columns at epsilon = 1, the guarantee has delta = 0. A budget with ``method="gdp"`` or "zcdp" keeps
        Gaussian noise.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges. Clones share it.

    Attributes
    ----------
    covariance_ : ndarray of shape (n_features, n_features)
        Unbiased estimate of the covariance of the clipped rows, in the units of the data. Noise can give it negative
        eigenvalues, or negative variances.
    location_ : ndarray of shape (n_features,)
        Means of the clipped rows, with noise.
    noise_std_ : ndarray of shape (n_features, n_features)
        Standard deviations of the noise in ``covariance_``.
    identified_ : ndarray of bool, shape (n_features, n_features)
        Whether the noise of both variances is at most 0.3 of them, so that there is an interval of the correlation.
    privacy_ : PrivacyGuarantee
        For neighbors that differ in one row; n is public.
    plan_ : CovariancePlan
        The release plan: every released quantity and its noise.
    rows_, rows_noise_std_, n_rows_ : float, float, int
        Noisy number of complete rows, the standard deviation of its noise, and the number of rows that were used. Only
        with ``missing="drop"``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has column names.

    Notes
    -----
    **Privacy.** In half-widths a row lies in the box [-1, 1]^d. Its values, their products and the squares of these
    products move together by at most sqrt(2) (w^2 + d) in l2, which the products alone nearly need. Under Gaussian
    noise the squares cost nothing in addition.

    **Estimand.** The covariance of the population if its rows were clipped to the bounds. If no row is clipped, it is
    the covariance of the population.

    **Assumptions.** Intervals assume independent rows, and enough of them for averages of products to be nearly normal.
    They assume no distribution. The sampling errors follow from the released fourth moments.

    **Limits.** The noise grows with the squared width of the bounds and with the number of columns. Rows beyond the
    bounds bias covariances.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.covariance import PrivateCovariance
    >>> X = np.random.default_rng(0).multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], size=20_000)
    >>> covariance = PrivateCovariance(bounds=(-4, 4), random_state=0).fit(X)
    >>> covariance.covariance_.shape
    (2, 2)
    >>> low, high = covariance.correlation().confidence_interval()
    >>> bool(low[0] < 0.6 < high[0])
    True
    """

    bounds: Any = None
    bounds_are: str = "clip"
    missing: str = "error"
    missing_codes: Any = None
    epsilon: float = 1.0
    delta: float = 1e-6
    random_state: Any = None
    budget: Any = None

    _per_column = ("bounds",)

    def plan(self, n_samples: int, n_features: int) -> CovariancePlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes.

        Examples
        --------
        >>> from dpstats.covariance import PrivateCovariance
        >>> plan = PrivateCovariance(bounds=(-4, 4)).plan(20_000, 2)
        >>> plan.least_std(0.3).round(2)  # of columns whose correlations are identified
        array([0.19, 0.19])
        """
        n = check_integer("n_samples", n_samples, at_least=2)
        d = check_integer("n_features", n_features, at_least=1)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        low, high, hard = check_box(self.bounds, self.bounds_are, d)
        if self._policy() == "drop":
            return plan_on_sample(self, n, d)
        center, half = low / 2 + high / 2, high / 2 - low / 2

        def calibrate(delta: float, bits: int) -> CovariancePlan:
            coarse = coarse_bits(n) if delta else laplace_coarse_bits(d, n, epsilon)
            integers = moment_integers(d, n, bits, coarse, "gaussian" if delta else "laplace")
            return CovariancePlan(
                additive_stages([integers], epsilon, delta),
                PrivacyGuarantee(epsilon, delta),
                n,
                d,
                center=center,
                half=half,
                hard=hard,
                bits=bits,
                coarse=coarse,
            )

        return self._smaller_noise(
            lambda delta: finest(lambda bits: calibrate(delta, bits), fine_bits(n)),
            delta,
            lambda plan: plan.products_std,
        )

    def _fill(self, d: int) -> Any:
        low, high, _ = check_box(self.bounds, self.bounds_are, d)
        return low / 2 + high / 2

    def _read(self, rows: Rows, plan: CovariancePlan) -> Mapping[str, Any]:
        check_finite_rows(rows)
        return {STAGE: read_moments(rows, plan)}

    def _report(self, released: Released, plan: CovariancePlan) -> None:
        self._sums = dict(released[STAGE])
        moments = CentralMoments.from_release(self._sums, plan)
        units = np.outer(plan.half, plan.half)
        self.covariance_ = moments.covariance * units
        self.location_ = plan.center + plan.half * moments.mean
        self.noise_std_ = np.sqrt(moments.noise_variance) * units
        self.identified_ = moments.identified[:, None] & moments.identified

    def _covered(self, what: str) -> str:
        clipped = (
            "(by the declared bounds no row is clipped)" if self.plan_.hard else "if it were clipped to the bounds"
        )
        return state_missing(self.plan_, f"the {what} of the population {clipped}")

    def _notes(self) -> list[str]:
        if self.plan_.n_samples >= _FEW_ROWS:
            return []
        return [
            f"Warning: below {_FEW_ROWS} rows, averages may not be normal, and intervals may cover less than stated."
        ]

    def estimates(self) -> Estimates:
        """Return the variances and covariances with the distribution of their errors: a row for each pair.

        A variance that noise hides is NaN, and an impossible value of ``covariance_`` is moved to the nearest possible
        one.
        """
        check_is_fitted(self)
        plan = self.plan_
        moments = CentralMoments.from_release(self._sums, plan)
        i, j = np.triu_indices(plan.n_features)
        names, same = self._column_names(), i == j
        unit = plan.half[i] * plan.half[j]
        error = np.sqrt(moments.sampling_variance + moments.noise_variance)[i, j] * unit
        noise = self.noise_std_[i, j] if plan.distribution == "laplace" else 0.0
        errors = BoundedErrors(self.covariance_[i, j], error, np.where(same, 0.0, -unit), unit, noise)
        labels = tuple(names[a] if a == b else f"{names[a]}, {names[b]}" for a, b in zip(i, j, strict=True))
        # A variance is not known where noise leaves nothing of it; a covariance, where its interval holds everything.
        variance = hide_noise(errors.start, self.noise_std_[i, j], 4 * unit / plan.n_samples)
        return Estimates(
            np.where(same, variance, errors.start),
            error,
            labels,
            self._covered("covariance"),
            errors,
            title="Private covariances",
            header="covariance",
            facts=self._table_facts(),
            notes=["A single name is a variance.", *self._notes()],
            together=BONFERRONI,
            labels={"first": [names[a] for a in i], "second": [names[b] for b in j]},
            simulated=self.privacy_.simulated,
        )

    def correlation(self) -> Estimates:
        """Return Pearson's correlations with the distribution of their errors: a row for each pair of columns.

        It costs no privacy. A pair has the interval [-1, 1] if the noise hides the variance of a column.

        Examples
        --------
        >>> import numpy as np
        >>> from dpstats.covariance import PrivateCovariance
        >>> x = np.random.default_rng(0).normal(size=50_000)
        >>> made = PrivateCovariance(bounds=(-4, 4), random_state=0).fit(np.column_stack([x, -x]))
        >>> test = made.correlation().test(0.0)
        >>> bool(test.pvalue[0] < 1e-6)
        True
        """
        check_is_fitted(self)
        d = self.plan_.n_features
        if d < 2:
            remedy = "Fit with more columns."
            raise refuse("n_features", given=d, allowed="at least 2 for a correlation", remedy=remedy)
        moments = CentralMoments.from_release(self._sums, self.plan_)
        i, j = np.triu_indices(d, 1)
        names = self._column_names()
        noise = np.sqrt(moments.correlation_noise[i, j]) if self.plan_.distribution == "laplace" else 0.0
        errors = CorrelationErrors(moments.correlation[i, j], np.sqrt(moments.correlation_variance[i, j]), noise)
        return correlation_estimates(
            names,
            errors,
            self._covered("correlation"),
            facts=self._table_facts(),
            notes=self._notes(),
            unknown=unidentified_note(names, moments.identified),
            simulated=self.privacy_.simulated,
        )

    def heat_map(self, ax: Any = None, confidence_level: float | None = None) -> Any:
        """Draw the correlation matrix with its intervals, and return the Axes.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: one of a new figure.
        confidence_level : float, optional
            Default: 0.95.
        """
        found = self.correlation()
        interval = found.confidence_interval(confidence_level)
        names, d = [plain(name) for name in self._column_names()], self.plan_.n_features
        i, j = np.triu_indices(d, 1)
        matrix = np.eye(d)
        matrix[i, j] = matrix[j, i] = found.estimate
        if ax is None:
            ax = new_figure(figsize=(1.6 + 0.9 * d, 1.2 + 0.8 * d)).add_subplot()
        ax.imshow(matrix, vmin=-1, vmax=1, cmap="RdBu_r")
        ends = zip(i, j, found.estimate, np.ravel(interval.low), np.ravel(interval.high), strict=True)
        for a, b, r, least, most in ends:
            ax.text(a, b, f"{significant(r, 0.1)}\n[{least:.2f}, {most:.2f}]", ha="center", va="center", fontsize=7)
        ax.set_xticks(range(d), names, rotation=45, ha="right")
        ax.set_yticks(range(d), names)
        return ax
