"""Linear regressions: their common base, and the regression from sufficient statistics, released together once.

Proof: docs/proofs/sufficient-statistics.md.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin

from dpstats.data.parameters import check_choice, check_flag, check_integer, check_privacy_parameters
from dpstats.errors import refuse
from dpstats.inference.results import ConfidenceInterval, significant
from dpstats.regression.base import Regression, SomePlan
from dpstats.regression.blocks import Design
from dpstats.regression.coefficient_errors import ErrorLaw, NormalAndLaplace, Student
from dpstats.regression.engine import report_moments, score_variation
from dpstats.regression.linear_path import MomentsPlan, moments_plan
from dpstats.regression.passes import Floats
from dpstats.release.additive import smaller_noise
from dpstats.release.estimator import parameters
from dpstats.release.session import Released


@parameters
class LeastSquares(RegressorMixin, Regression[SomePlan]):
    """Base class of the linear regressions. The outcome is a number within public bounds.

    The fit releases the second moments of (1, x, y) once, with any additive noise, unless a subclass takes steps.
    """

    y_bounds: Any = None

    _fewest: ClassVar[int] = 1
    """Smallest number of columns of a model with an intercept."""

    def _declared(self, n_samples: int, n_features: int) -> tuple[int, Design]:
        """Return the public facts about the rows: their number, and the design."""
        n = check_integer("n_samples", n_samples, at_least=2)
        intercept = check_flag("fit_intercept", self.fit_intercept)
        d = check_integer("n_features", n_features, at_least=self._fewest if intercept else 1)
        if self.y_bounds is None:
            raise refuse("y_bounds", allowed="given: a pair (low, high)")
        return n, Design.check(self.x_bounds, self.y_bounds, d, intercept)

    @property
    def _law(self) -> ErrorLaw:
        plan: Any = self.plan_
        return (Student if plan.norm == "l2" else NormalAndLaplace)(self._degrees)

    def _plan_moments(self, design: Design, n: int, delta: float) -> MomentsPlan:
        """Return the plan of one release with the smaller noise that (epsilon, delta) allows."""
        epsilon, delta = check_privacy_parameters(self.epsilon, delta)

        def make_plan(own: float) -> MomentsPlan:
            return moments_plan(design, n, epsilon, own, self._policy())

        found: MomentsPlan = smaller_noise(make_plan, delta, attrgetter("noise_ratio"), self.budget)
        return found

    def _report(self, released: Released, plan: Any) -> None:
        report_moments(self, released, plan)

    def predict(self, X: Any) -> Floats:
        """Return the predicted outcomes of rows, of shape (n_samples,). Releases nothing new."""
        return self._linear_predictor(X)[1]

    def predict_interval(
        self, X: Any, confidence_level: float | None = None, *, of: str = "mean"
    ) -> ConfidenceInterval:
        """Return an interval for each row: for the mean outcome of such rows, or for one outcome.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict for.
        confidence_level : float, default=0.95
            Level of the individual (not simultaneous) intervals.
        of : {"mean", "outcome"}, default="mean"
            "outcome" adds the variance of a single outcome, and assumes normal residuals with equal variances.
        """
        what = check_choice("of", of, ["mean", "outcome"])
        found = self.get_prediction(X)
        if what == "outcome":
            errors = np.sqrt(found.error**2 + self.scale_**2)
            one = self._inferred(found.estimate, errors, found.names)
            found = replace(one, estimand="one outcome of such a row")
        return found.confidence_interval(confidence_level)

    def score(self, X: Any, y: Any, sample_weight: None = None) -> float:
        """Return a private R^2 on private rows. This is a separate release with the same privacy cost as the fit.

        Outcomes are clipped to ``y_bounds``, and residuals at twice the half-width of these bounds. The result is NaN
        if noise makes the variance of the outcomes 0 or negative. The budget is charged, so that a search over models
        pays for every fit and every score.
        """
        return score_variation(self, X, *self._score_rows(X, y, sample_weight))

    @abstractmethod
    def _method(self) -> list[tuple[str, str]]:
        """Return the methods for coefficients and covariance, as lines of a summary."""

    def _method_facts(self) -> list[tuple[str, str]]:
        *first, last = self._method()
        return [*first, ("Residual scale", significant(self.scale_, self.scale_ / 10)), *self._clipping.facts, last]

    @property
    def _excess(self) -> float:
        return float(self.scale_)


def describe_moments(model: LeastSquares[Any], method: str | None = None) -> list[tuple[str, str]]:
    """Return the methods for coefficients and covariance, as lines of a summary."""
    noise = "Gaussian" if model.plan_.norm == "l2" else "Laplace"
    return [
        ("Method", method or f"second moments of (1, x, y) with {noise} noise, released once; bounded rows"),
        ("Covariance", "nonrobust (residuals of one variance)"),
        ("Condition of the design", f"{model.condition_:.3g} (released)"),
    ]


@parameters
class SufficientStatisticsRegression(LeastSquares[MomentsPlan]):
    """Private least squares from one noisy matrix of second moments, with intervals that include the noise.

    This is the textbook method: one release of the full matrix of second moments. `PrivateLinearRegression` has less
    noise if columns are correlated or have different scales. Its standard errors also hold for heteroscedastic
    residuals.

    Parameters
    ----------
    x_bounds : (low, high), or array of shape (n_features, 2)
        Public bounds of the columns, in their units, known without the data. Rows outside are not clipped but
        downweighted, as are rows far from the middle in many columns at once. A mapping ``{column: (low, high)}`` or
        a data frame with one row per column is matched to the columns of ``X`` by name.
    y_bounds : (low, high)
        Public bounds of the outcome. Outcomes outside are clipped to the nearer bound, and the fraction of clipped
        outcomes is released.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    missing : {"error", "drop"}, default="error"
        Treatment of rows with a NaN or infinite entry or outcome. "error" raises `InvalidData`, which reveals that such
        a row exists. "drop" leaves the row out, without additional privacy cost; the number of used rows is then
        private.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=1e-6
        Privacy parameter, at least 0. The noise is Laplace noise at 0, and where it is the smaller one, as it can be
        for few columns. The guarantee then has delta = 0.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Slopes, in units of the outcome per unit of the column.
    intercept_ : float
        Intercept, or 0 without one.
    standard_errors_ : ndarray of shape (n_features,)
        Standard errors of ``coef_``. They include sampling error and noise, and assume homoscedastic residuals.
    intercept_standard_error_ : float
        Standard error of ``intercept_``.
    cov_params_ : ndarray of shape (n_features, n_features)
        Covariance of the errors of ``coef_``.
    params_, params_cov_ : ndarrays of shape (p,), (p, p)
        The same with the intercept first.
    identified_ : ndarray of bool, shape (n_features,)
        Whether each coefficient is identified: at least nine tenths of its divisor were released, and the remainder is
        a ridge that the noise requires. The others have no estimate and no limits.
    intercept_identified_ : bool
    privacy_share_ : ndarray of shape (n_features,)
        Fraction of the squared standard error that is due to privacy.
    intercept_privacy_share_ : float
    condition_ : float
        Condition number of the divisor of the coefficients: its largest eigenvalue over its smallest.
    scale_ : float
        Standard deviation of the residuals.
    clipped_share_ : float
        Noisy fraction of the outcomes outside ``y_bounds``.
    clipped_share_std_ : float
        Standard deviation of the noise in ``clipped_share_``.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row (x, y). The number of rows is public.
    plan_ : MomentsPlan
        The release plan: every released quantity and its noise.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has column names.

    Notes
    -----
    **Method.** The divisor is the noisy matrix plus a ridge of second order in the noise. The ridge removes the bias
    of the inverse to that order.

    **Standard errors** are of first order, given the release. They include the error due to the ridge. The noise is
    that at the worse endpoint of the interval. If most rows are scaled down, standard errors are somewhat too large.
    An example are columns that are all indicators.

    **Estimand.** If the model does not hold, coefficients describe the best fit to the weighted rows.

    **Limits.** Equal variances are assumed. The noise needs far more rows than the noise of
    `PrivateLinearRegression` for many or correlated columns. Intervals of rarely identified coefficients
    undercover.

    References
    ----------
    Dwork, Talwar, Thakurta and Zhang (2014), Analyze Gauss. Sheffet (2017), Differentially private ordinary least
    squares. Wang (2018), Revisiting differentially private linear regression. Fieller (1954), Some problems in interval
    estimation.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.regression import SufficientStatisticsRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2))
    >>> y = 1.0 + X @ [0.5, -0.5] + rng.normal(size=20_000)
    >>> model = SufficientStatisticsRegression(x_bounds=(-4, 4), y_bounds=(-6, 8), random_state=0).fit(X, y)
    >>> model.coef_.round(2), round(model.intercept_, 2)
    (array([ 0.51, -0.52]), 1.0)
    """

    delta: float = 1e-6

    _title = "Private linear regression from sufficient statistics"

    def plan(self, n_samples: int, n_features: int) -> MomentsPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes.
        """
        n, design = self._declared(n_samples, n_features)
        return self._plan_moments(design, n, self.delta)

    def _method(self) -> list[tuple[str, str]]:
        return describe_moments(self)
