"""Private log-linear regressions: the mean outcome is exp(linear predictor), times an exposure.

Counts have Poisson, quasi-Poisson and negative binomial models, and positive amounts the gamma model.

Proof: docs/proofs/log-linear.md.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from dpstats.data.parameters import check_flag, check_integer, check_privacy_parameters, check_real
from dpstats.data.rows import column_of
from dpstats.errors import refuse, refuse_data
from dpstats.inference.results import ConfidenceInterval, significant
from dpstats.mechanisms.unknown_bounds import plan_with_bounds, wants_bounds
from dpstats.regression.base import Link, exponentiate
from dpstats.regression.blocks import Design
from dpstats.regression.engine import add_columns, report_clipped, score_variation
from dpstats.regression.log_linear_plan import COUNTS, GAMMA, LogLinearPlan, log_linear_plan
from dpstats.regression.logistic import CurvedRegression
from dpstats.regression.passes import Floats
from dpstats.regression.plan import RegressionPlan
from dpstats.release.estimator import parameters
from dpstats.release.session import Released


@parameters
class LogLinearRegression(RegressorMixin, CurvedRegression):
    """Base class of the regressions with a logarithmic link."""

    y_bounds: Any = None
    exposure: Any = None
    exposure_bounds: Any = None

    _unknown_level = "events cannot be distinguished from none"
    _link = Link("the mean outcome of such rows, per unit of exposure", "mean", np.exp, np.log, np.exp)

    @abstractmethod
    def _family(self) -> tuple[str, float]:
        """Return the name of the family, and the overdispersion in its weights."""

    @abstractmethod
    def _set_dispersion(self, linear: float, quadratic: float) -> None:
        """Set ``dispersion_`` from the coefficients of the variance: linear mu + quadratic mu^2."""

    @abstractmethod
    def _variance(self) -> str:
        """Return the fitted variance of the outcome as text."""

    def plan(self, n_samples: int, n_features: int) -> LogLinearPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes.
        """
        if wants_bounds(self.x_bounds, "x_bounds"):
            return cast(LogLinearPlan, plan_with_bounds(self, n_samples, n_features))
        n = check_integer("n_samples", n_samples, at_least=2)
        d = check_integer("n_features", n_features, at_least=0)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        design = self._design(d)
        return log_linear_plan(*self._family(), design, n, epsilon, delta, self._policy())

    def _design(self, d: int) -> Design:
        if not check_flag("fit_intercept", self.fit_intercept):
            allowed = f"True for {type(self).__name__}: the level of the outcome is not known"
            raise refuse("fit_intercept", allowed=allowed)
        if self.y_bounds is None:
            raise refuse("y_bounds", allowed="given: a pair (0, high)")
        design = Design.check(self.x_bounds, self.y_bounds, d, True)
        if design.y_center != design.y_half:
            remedy = "Of a formula, they are the bounds of the response: an outcome is 0 or more."
            raise refuse("y_bounds", given=self.y_bounds, allowed="a pair (0, high)", remedy=remedy)
        return add_columns(self, design)

    # Reading rows

    def fit(self, X: Any, y: Any = None, exposure: Any = None, weights: Any = None) -> Self:
        """Release the coefficients from the rows of ``X``.

        Bad parameters and bad data raise before anything is charged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or container of rows
            Private rows, as for every estimator.
        y : sequence of length n_samples, or column name
            Private: the outcome of each row.
        exposure : sequence of length n_samples, or column name, optional
            Private: the exposure of each row, such as a time or a population. The mean outcome is proportional to it.
            It needs ``exposure_bounds``. Not given if the estimator names a column of ``X`` by ``exposure``.
        weights : sequence of length n_samples, or column name, optional
            Private: the weight of each row. It needs ``weight_bounds``. Not given if the estimator names a column of
            ``X`` by ``weights``.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameter
            If a parameter has a value that is not allowed.
        InvalidData
            If X, y, the exposure or the weights cannot be read.
        BudgetExceeded
            If the budget cannot pay.
        """
        return self._fit_columns(X, y, exposure=exposure, weights=weights)

    # Results

    def _report(self, released: Released, plan: RegressionPlan) -> None:
        found = self._report_estimate(released, plan, "robust")
        report_clipped(self, found.outside, found.rows)
        self._set_dispersion(*found.dispersion)
        self._dispersion_of_mean = found.dispersion
        self.clip_width_, self.mean_ = found.width, found.typical
        self._long_tailed = found.long_tailed

    def predict(self, X: Any, exposure: Any = None) -> Floats:
        """Return the predicted mean outcomes of rows, of shape (n_samples,). Releases nothing new.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict for.
        exposure : sequence of length n_samples, optional
            Exposures of the rows. The default is 1 for each.
        """
        means = exponentiate(self._linear_predictor(X)[1])
        return means if exposure is None else means * self._exposures(exposure, means.size)

    def _exposures(self, exposure: Any, n: int) -> Floats:
        found = column_of("exposure", exposure)
        if found.shape != (n,) or not (np.isfinite(found) & (found > 0)).all():
            raise refuse_data("exposure", allowed=f"{n} numbers greater than 0, one for each row of X")
        return found

    def score(self, X: Any, y: Any, sample_weight: None = None, exposure: Any = None) -> float:
        """Return a private R^2 on private rows. This is a separate release with the same privacy cost as the fit.

        Outcomes are clipped to ``y_bounds``, and residuals at twice the half-width of these bounds. The result is NaN
        if noise makes the variance of the outcomes 0 or negative. ``exposure`` has the exposures of the rows.
        """
        linear, outcomes = self._score_rows(X, y, sample_weight)
        fitted = exponentiate(linear)
        if exposure is not None:
            fitted = fitted * self._exposures(exposure, fitted.size)
        return score_variation(self, X, fitted, outcomes)

    @property
    def rate_ratios_(self) -> Floats:
        """Factor by which the mean outcome changes if a column increases by one unit, ``exp(coef_)``."""
        return exponentiate(self.coef_)

    def rate_ratio_interval(
        self, confidence_level: float | None = None, *, simultaneous: bool = False
    ) -> ConfidenceInterval:
        """Return an interval for each of ``rate_ratios_``."""
        return self._ratios(f"{self._ratio}s", confidence_level, simultaneous)

    def _notes(self) -> list[str]:
        notes = super()._notes()
        notes.append(
            "Coefficients describe a weighted fit with bounded rows and clipped residuals. If the model does not "
            "hold for the largest outcomes, they describe the other rows."
        )
        if self._long_tailed:
            notes.append(
                "The largest outcomes are larger than the working distribution expects. Coefficients count those "
                "within its reach. If larger ones matter, the intercept is too small, and intervals of slopes may miss."
            )
        return notes

    @property
    def _excess(self) -> float:
        linear, quadratic = self._dispersion_of_mean
        return float(linear / max(self.mean_, 1e-300) + quadratic)

    def _method_facts(self) -> list[tuple[str, str]]:
        width = significant(self.clip_width_, self.clip_width_ / 10)
        return [
            ("Link, covariance", "log; robust (HC)"),
            ("Method", f"noisy Newton steps; residuals clipped at {width} standard deviations"),
            ("Variance of the outcome", self._variance()),
            *self._clipping.facts,
            ("Condition of the Hessian", f"{self.condition_:.3g} (released, whitened)"),
        ]


_RARE = 0.25
"""Mean count below which most positive counts are 1."""


_LARGEST = 1e100
"""Limit for the overdispersion. Within it, inverse squares of weights are finite."""


@parameters
class PrivateCountRegression(LogLinearRegression):
    """Private regression of counts with a logarithmic link, with intervals that include sampling error and noise.

    Use this estimator for visits, events, claims or other counts: Poisson, quasi-Poisson and negative binomial models.
    Standard errors are robust, so that the variance of the outcome need not follow a model.

    Parameters
    ----------
    x_bounds : (low, high), array of shape (n_features, 2), "private" or UnknownBounds
        Public bounds of the columns, in their units, known without the data. Rows outside are not clipped but
        downweighted. A row more than four half-widths from the middle of the bounds has weight 0. A mapping
        ``{column: (low, high)}`` or a data frame with a row per column is matched to the columns of ``X`` by name.

        "private" chooses bounds from the rows for a fifth of epsilon; `dpstats.means.UnknownBounds` has options.
        It may also replace the pairs of some columns. Columns that are mostly 0 need a step.
    y_bounds : (0, high)
        Public bounds of the count. Larger counts are clipped, and the fraction of clipped counts is released.
    weights : column name, optional
        The column of a data frame that has the weight of each row. Weights can also be given to ``fit``.
    weight_bounds : (low, high), optional
        Public bounds of the weights, at least 0. Weights outside are clipped to the nearer bound. Required if rows have
        weights. A row counts with its weight over ``high``, so the noise is proportional to ``high`` over the mean
        weight.
    exposure : column name, optional
        The column of a data frame that has the exposure of each row, such as a time or a population.
    exposure_bounds : (low, high), optional
        Public bounds of the exposure, greater than 0. Exposures outside are clipped to the nearer bound, and the
        fraction of clipped exposures is released. Required if rows have exposures.
    fit_intercept : bool, default=True
        Must be True.
    overdispersion : float, default=1.0
        Public constant alpha in the weights 1 / (1 + alpha mu) of rows with mean mu. 0 gives the weights of Poisson
        regression. 1 gives less noise for nearly all counts, because large counts have less influence.
    missing : {"error", "drop"}, default="error"
        Treatment of rows with a NaN or infinite entry, or with a missing outcome or exposure. "error" raises
        `InvalidData`, which reveals that such a row exists. "drop" leaves the row out, and spends one hundredth of the
        squared privacy parameter mu on the number of observed rows.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=1e-6
        Privacy parameter, in (0, 1).
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges for all stages together, before the first. Clones share it.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Log rate ratios, per unit of the column.
    intercept_ : float
        Logarithm of the mean count if all columns are 0, per unit of exposure.
    rate_ratios_ : ndarray of shape (n_features,)
        ``exp(coef_)``.
    dispersion_ : ndarray of shape (2,)
        phi and alpha of the variance phi mu + alpha mu^2 that fits the released sizes of residuals.
    standard_errors_, intercept_standard_error_, cov_params_, params_, params_cov_ : ndarrays
        The same as in `PrivateLinearRegression`.
    identified_, privacy_share_, intercept_privacy_share_, condition_ : ndarrays
        The same as in `PrivateLinearRegression`.
    mean_ : float
        Mean count over rows, from the released coefficients.
    clip_width_ : float
        Clipping threshold of the residuals in the last step, in standard deviations of the outcome.
    settled_ : ndarray of bool of shape (n_features,)
        Whether the last step agrees with each slope and its error. Intervals of other slopes may miss.
    unsettled_ : bool
        Whether some slope has not settled.
    one_sided_ : ndarray of int of shape (n_features,)
        -1 if a slope has an upper limit only, because the group with the value of a yes/no column may have no events.
        1 if it has a lower limit only, because the other group may have none. 0 otherwise.
    clipped_share_, clipped_share_std_ : float
        Noisy fraction of the counts outside ``y_bounds``, and the standard deviation of its noise.
    clipped_exposure_share_, clipped_exposure_share_std_ : float
        Noisy fraction of the exposures outside ``exposure_bounds``, and the standard deviation of its noise. Only with
        exposures.
    rows_, rows_noise_std_, total_weight_, total_weight_noise_std_, effective_rows_ : float
    clipped_weight_share_, clipped_weight_share_std_ : float
        The same as in `PrivateLinearRegression`.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row. The number of rows is public.
    plan_ : LogLinearPlan
        The release plan: every released quantity and its noise.

    Notes
    -----
    **Method.** Rows are centered, whitened and bounded, as in `PrivateLinearRegression`. Residuals are clipped at a
    multiple of the standard deviation of the outcome, and the expected clipped residual of a negative binomial
    distribution is subtracted. Every step releases the Hessian together with the gradient. A last release measures the
    residuals beyond the threshold, and corrects the level and the slope of the linear predictor. If the released
    fraction shows that ``y_bounds`` clips counts, the steps allow for it as that distribution does.

    **Yes/no columns.** A fit recognizes a column whose only values are its bounds, such as 0 and 1 with the bounds (0,
    1). A factor of a formula is known to be one. Its interval combines two rates. A limit is infinite if a
    group may have no events, and p-values invert the interval. ``coef_`` stays finite.

    **Estimand.** If the model does not hold, coefficients describe a weighted fit. Large counts have less weight than
    in Poisson regression.

    **Limits.** Intercepts undercover at means below 0.25, and with very long tails slopes do too. Interactions with
    a group of few events, and strong effects of undeclared yes/no columns in few rows, undercover without a note.
    Rare yes/no columns have long intervals. Clipped counts with longer tails bias coefficients; a note or a line of the
    summary states how far.

    References
    ----------
    McCullagh and Nelder (1989), Generalized Linear Models. Cameron and Trivedi (2013), Regression Analysis of Count
    Data. Cantoni and Ronchetti (2001), Robust inference for generalized linear models.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.regression import PrivateCountRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2))
    >>> y = rng.poisson(np.exp(0.5 + X @ [0.3, -0.3]))
    >>> model = PrivateCountRegression(x_bounds=(-4, 4), y_bounds=(0, 100), random_state=0).fit(X, y)
    >>> model.coef_.round(1), round(model.intercept_, 1)
    (array([ 0.3, -0.3]), 0.5)
    """

    overdispersion: float = 1.0

    _title = "Private regression of counts"
    _ratio = "rate ratio"

    def _family(self) -> tuple[str, float]:
        return COUNTS, check_real("overdispersion", self.overdispersion, at_least=0, at_most=_LARGEST)

    def _set_dispersion(self, linear: float, quadratic: float) -> None:
        self.dispersion_: NDArray[np.float64] = np.array([linear, quadratic])

    def _notes(self) -> list[str]:
        notes = super()._notes()
        if self.mean_ < _RARE:
            notes.append(
                f"Counts are rare (mean {self.mean_:.2g}). The intercept depends on how often counts exceed 1, which "
                "clipping hides, and its interval may cover less often than stated. Slopes are not affected."
            )
        return notes

    def _variance(self) -> str:
        return f"about {self.dispersion_[0]:.2g} mean + {self.dispersion_[1]:.2g} mean^2"


@parameters
class PrivateGammaRegression(LogLinearRegression):
    """Private regression of positive amounts with a logarithmic link, with intervals that include noise.

    Use this estimator for costs, durations or other amounts whose standard deviation grows with their mean. Amounts of
    0 are allowed. Standard errors are robust, so that the amounts need not have a gamma distribution.

    Parameters
    ----------
    x_bounds, epsilon, fit_intercept, delta, exposure, exposure_bounds, weights, weight_bounds, missing, missing_codes
        The same as in `PrivateCountRegression`.
    y_bounds : (0, high)
        Public bounds of the amount. Larger amounts are clipped, and the fraction of clipped amounts is released.
    random_state, budget
        The same as in `PrivateCountRegression`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Logarithms of ratios of means, per unit of the column.
    intercept_ : float
        Logarithm of the mean amount if all columns are 0, per unit of exposure.
    rate_ratios_ : ndarray of shape (n_features,)
        ``exp(coef_)``.
    dispersion_ : float
        alpha of the variance alpha mu^2 that fits the released sizes of residuals.
    standard_errors_, intercept_standard_error_, cov_params_, params_, params_cov_ : ndarrays
        The same as in `PrivateLinearRegression`.
    identified_, privacy_share_, intercept_privacy_share_, condition_ : ndarrays
        The same as in `PrivateLinearRegression`.
    mean_, clip_width_, settled_, unsettled_, one_sided_, clipped_share_, clipped_share_std_, rows_, rows_noise_std_
        The same as in `PrivateCountRegression`.
    clipped_exposure_share_, clipped_exposure_share_std_ : float
        Noisy fraction of the exposures outside ``exposure_bounds``, and the standard deviation of its noise.
    total_weight_, total_weight_noise_std_, effective_rows_
    clipped_weight_share_, clipped_weight_share_std_
        The same as in `PrivateCountRegression`.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row. The number of rows is public.
    plan_ : LogLinearPlan
        The release plan: every released quantity and its noise.

    Notes
    -----
    **Method.** The same as in `PrivateCountRegression`, with weights 1 / mu and a gamma distribution.

    **Estimand.** If the model does not hold, coefficients describe a weighted fit. With very long tails (a Pareto
    distribution), the intercept is too small.

    **Limits.** With very long tails (lognormal factors with a standard deviation of 1.5) intercepts undercover. At
    small epsilon the steps may not settle. A warning states it, and intervals are long. Clipped amounts with longer
    tails bias coefficients; a note or a line of the summary states how far.

    References
    ----------
    McCullagh and Nelder (1989), Generalized Linear Models, chapter 8. Manning and Mullahy (2001), Estimating log
    models: to transform or not to transform?

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.regression import PrivateGammaRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2))
    >>> y = rng.gamma(2.0, np.exp(6 + X @ [0.3, -0.3]) / 2)
    >>> model = PrivateGammaRegression(x_bounds=(-4, 4), y_bounds=(0, 20_000), random_state=0).fit(X, y)
    >>> model.coef_.round(1), round(model.intercept_, 1)
    (array([ 0.3, -0.3]), 6.0)
    """

    _title = "Private regression of amounts"
    _ratio = "mean ratio"
    _unknown_level = "the mean cannot be distinguished from 0"

    def _family(self) -> tuple[str, float]:
        return GAMMA, 1.0

    def _set_dispersion(self, linear: float, quadratic: float) -> None:
        self.dispersion_ = quadratic

    def _variance(self) -> str:
        return f"about {self.dispersion_:.2g} mean^2"
