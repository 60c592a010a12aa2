"""Private logistic, count and gamma regressions, by noisy Newton steps in whitened coordinates.

Proofs: docs/proofs/regression.md, docs/proofs/log-linear.md.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.base import ClassifierMixin

from dpstats.data.parameters import check_flag, check_integer, check_privacy_parameters, check_real
from dpstats.data.rows import column_of
from dpstats.data.schema import Categories, Column
from dpstats.data.values import as_int64
from dpstats.errors import refuse, refuse_data
from dpstats.inference.results import ConfidenceInterval, significant
from dpstats.regression.base import Link, exponentiate
from dpstats.regression.blocks import Design
from dpstats.regression.engine import (
    CORRECT,
    BoundedOutcome,
    CurvedRegression,
    OffsetColumn,
    accuracy_plan,
    check_offset,
    release_accuracy,
)
from dpstats.regression.log_linear_plan import COUNTS, GAMMA, LogLinearPlan, log_linear_plan
from dpstats.regression.passes import Floats
from dpstats.regression.plan import RATE, RegressionPlan, regression_plan
from dpstats.regression.two_valued import derivative
from dpstats.release.charges import state_charges
from dpstats.release.estimator import parameters
from dpstats.release.session import Released

# Logistic regression

_SEPARATED = (
    "Warning: coefficients still grew at the last step, and their intervals may miss. The rows may be nearly "
    "separated, or the outcome constant: the likelihood may have no maximum. Drop columns that decide the outcome."
)
_EVENTS = 10  # rows with the rarer outcome per coefficient, the usual rule of thumb


@parameters
class PrivateLogisticRegression(ClassifierMixin, CurvedRegression, OffsetColumn[RegressionPlan]):
    """Private logistic regression of a binary outcome, with intervals that include sampling error and privacy noise.

    Parameters
    ----------
    classes : pair, default=(0, 1)
        The two values of the outcome, declared and not read from the data. Coefficients model the odds of the second.
    x_bounds : (low, high), or array of shape (n_features, 2)
        Public bounds of the columns, in their units, known without the data. Rows outside are not clipped but
        downweighted. A row more than four half-widths from the middle of the bounds in any column has weight 0. A
        mapping ``{column: (low, high)}`` or a data frame with one row per column is matched to the columns of ``X`` by
        name.
    weights : column name, optional
        The column of a data frame that has the weight of each row. Weights can also be given to ``fit``.
    weight_bounds : (low, high), optional
        Public bounds of the weights, at least 0. Weights outside are clipped to the nearer bound. Required if rows have
        weights. A row counts with its weight over ``high``, so the noise is proportional to ``high`` over the mean
        weight.
    offset : column name, optional
        The column of a data frame that has the offset of each row: a known term of the log odds. Offsets can
        also be given to ``fit``.
    offset_bounds : (low, high), optional
        Public bounds of the offsets. Offsets outside are clipped to the nearer bound, and the fraction of clipped
        offsets is released. Required if rows have offsets.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    missing : {"error", "drop"}, default="error"
        Treatment of rows with a NaN or infinite entry, or with a missing outcome. "error" raises `InvalidData`, which
        reveals that such a row exists. "drop" leaves the row out, and spends one hundredth of the squared privacy
        parameter mu on the number of observed rows.
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
        Log odds ratios, per unit of the column.
    intercept_ : float
        Log odds of the second class if all columns are 0. It is 0 without an intercept.
    standard_errors_, intercept_standard_error_, cov_params_, params_, params_cov_ : ndarrays
        The same as in `PrivateLinearRegression`.
    identified_, privacy_share_, intercept_privacy_share_, condition_ : ndarrays
        The same as in `PrivateLinearRegression`.
    outcome_rate_ : float
        Released fraction of outcomes in the second class. NaN without an intercept.
    classes_ : ndarray of shape (2,)
        The declared values of the outcome.
    separated_ : bool
        Whether coefficients still grew at the last step, or a slope has one limit only. The rows may be nearly
        separated, or the outcome constant. If coefficients grew, only slopes with one limit are identified.
    settled_ : ndarray of bool of shape (n_features,)
        Whether the last step agrees with each slope and its error. Intervals of other slopes may miss.
    unsettled_ : bool
        Whether some slope has not settled.
    one_sided_ : ndarray of int of shape (n_features,)
        -1 if a slope has an upper limit only, and 1 if it has a lower limit only. 0 otherwise. A limit is missing if
        all or none of a group may have the outcome.
    clipped_offset_share_, clipped_offset_share_std_ : float
        The same as in `PrivateLinearRegression`.
    rows_, rows_noise_std_ : float
        The same as in `PrivateLinearRegression`.
    clipped_weight_share_, clipped_weight_share_std_ : float
        Noisy fraction of the total weight that is of rows with a weight outside ``weight_bounds``, and the standard
        deviation of its noise. Only with weights.
    total_weight_, total_weight_noise_std_ : float
        Noisy sum of the weights, and the standard deviation of its noise. Only with weights.
    effective_rows_ : float
        Number of rows of equal weight whose mean has the same sampling variance. Only with weights.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row: x, y, its offset and its weight. The
        number of rows is public.
    plan_ : RegressionPlan
        The release plan: every released quantity and its noise.

    Notes
    -----
    **Method.** The method is the same as in `PrivateLinearRegression`, but residuals are not clipped. The gradient of
    a bounded row is at most its norm, for any outcome. The Hessian is released together with the gradient, without
    additional noise.

    **Yes/no columns.** As in `PrivateCountRegression`, the interval combines two rates, and may have one limit.

    **Weights.** Without weights, standard errors assume the model. With weights they are robust, for sampling weights:
    the last step also releases the matrix of squared gradients.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.regression import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2))
    >>> y = rng.random(20_000) < 1 / (1 + np.exp(-(X @ [1.0, -1.0])))
    >>> model = PrivateLogisticRegression(x_bounds=(-4, 4), random_state=0).fit(X, y)
    >>> model.coef_.round(1)
    array([ 1., -1.])
    """

    classes: Any = (0, 1)

    _title = "Private logistic regression"
    _unknown_level = "outcomes cannot be distinguished from all or none"
    _ratio = "odds ratio"
    _link = Link("the probability of the second class for such rows", "probability", expit, logit, derivative)

    def plan(self, n_samples: int, n_features: int) -> RegressionPlan:
        """Return the release plan of a fit on data of this size."""
        n = check_integer("n_samples", n_samples, at_least=2)
        intercept = check_flag("fit_intercept", self.fit_intercept)
        d = check_integer("n_features", n_features, at_least=0 if intercept else 1)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        self._categories()
        design = Design.check(self.x_bounds, None, d, intercept)
        design = self._add_columns(design)
        return regression_plan("logistic", design, n, epsilon, delta, self._policy())

    def _categories(self) -> Categories:
        """Return the declared values of the outcome."""
        found = Categories(self.classes, "classes")
        if len(found) != 2:
            raise refuse("classes", got=str(len(found)), allowed="two different values")
        return found

    def _outcome_column(self) -> Column:
        categories = self._categories()
        # Truth values are levels, so that words such as TRUE match them.
        if list(self.classes) == [0, 1] and not any(
            isinstance(each, bool | np.bool_) for each in self.classes
        ):
            return Column("y", convert=_check_binary)
        if self.missing == "drop" and None not in self.classes:
            categories = Categories((*self.classes, None), "classes")
        return Column("y", levels=categories, convert=_check_declared)

    def _report(self, released: Released, plan: RegressionPlan) -> None:
        estimate = self._report_estimate(released, plan, "model")
        each = plan.n_samples / estimate.rows
        self.outcome_rate_ = each * float(released[RATE][0]) if plan.design.intercept else float("nan")
        self._diverged = estimate.separated
        self.separated_ = estimate.separated or bool(self.one_sided_.any())
        self.classes_ = np.array(list(self.classes))

    def decision_function(self, X: Any, offset: Any = None) -> Floats:
        """Return the log odds of the second class for each row, of shape (n_samples,). Releases nothing new.

        ``offset`` has the offsets of the rows. The default is 0 for each.
        """
        found = self._linear_predictor(X)[1]
        return found + check_offset(offset, found.size)

    def predict_proba(self, X: Any, offset: Any = None) -> Floats:
        """Return the probabilities of both classes for each row, of shape (n_samples, 2). Releases nothing new.

        ``offset`` has the offsets of the rows. The default is 0 for each.
        """
        p = expit(self.decision_function(X, offset))
        return np.stack([1 - p, p], axis=1)

    def predict(self, X: Any, offset: Any = None) -> NDArray[Any]:
        """Return the more likely outcome of each row, of shape (n_samples,). Releases nothing new.

        ``offset`` has the offsets of the rows. The default is 0 for each.
        """
        likelier = as_int64(self.decision_function(X, offset) > 0)
        return self.classes_[likelier]

    @state_charges
    def score(self, X: Any, y: Any, sample_weight: None = None, offset: Any = None) -> float:
        """Return the private fraction of rows that `predict` classifies correctly: a separate, charged release.

        ``offset`` has the offsets of the rows. The default is 0 for each.
        """
        fitted, outcomes = self._score_rows(X, y, sample_weight)
        fitted = fitted + check_offset(offset, fitted.size)
        plan = accuracy_plan(fitted.size, self.epsilon, self.delta)
        session = self._session(plan, f"{type(self).__name__} score", X)
        with session:
            release_accuracy(plan, session, (fitted > 0) == (outcomes > 0))
        return float(np.clip(session.released[CORRECT][0], 0.0, 1.0))

    def _notes(self) -> list[str]:
        rarer = min(self.outcome_rate_, 1 - self.outcome_rate_) * self.nobs  # NaN without an intercept
        if self.coef_.size == 0:
            # The log odds tell more than the noisy count.
            farthest = abs(self.intercept_) + 2 * self.intercept_standard_error_
            rarer = min(rarer, self.nobs * float(expit(-farthest)))
        notes = super()._notes()
        if self._diverged:
            notes[: int(self.unsettled_)] = [_SEPARATED]  # it says more than that steps did not settle
        if rarer < _EVENTS * self.params_.size:
            notes.append(
                f"Few rows ({max(rarer, 0.0):.0f}, with noise) have the rarer outcome, fewer than {_EVENTS} for each "
                "coefficient. The likelihood is far from normal, so coverage may be below the nominal level, "
                "especially for the intercept."
            )
        return notes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @property
    def odds_ratios_(self) -> Floats:
        """Factor by which the odds change if a column increases by one unit, ``exp(coef_)``."""
        return exponentiate(self.coef_)

    def odds_ratio_interval(
        self, confidence_level: float | None = None, *, simultaneous: bool = False
    ) -> ConfidenceInterval:
        """Return an interval for each of ``odds_ratios_``."""
        return self._ratios("odds ratios", confidence_level, simultaneous)

    def _method_facts(self) -> list[tuple[str, str]]:
        facts = [("Method", "noisy Newton steps, whitened; bounded rows")]
        if not np.isnan(self.outcome_rate_):
            noise = float(np.max(self.plan_.noise(RATE).std)) * self.plan_.n_samples / self.nobs
            facts.append(("Outcome rate", self._in_percent(self.outcome_rate_, noise)))
        return [*facts, ("Condition of the Hessian", f"{self.condition_:.3g} (released, whitened)")]


def _check_binary(y: Floats) -> Floats:
    # A missing outcome is allowed here: its row will be dropped.
    if not (np.isin(y, (0.0, 1.0)) | ~np.isfinite(y)).all():
        allowed = "0 or 1 (or False and True) for every row"
        raise refuse_data("y", got="at least one other outcome", allowed=allowed)
    return y


def _check_declared(codes: NDArray[np.int64]) -> Floats:
    if (codes < 0).any():
        allowed = "one of the declared classes for every row"
        raise refuse_data("y", got="at least one other outcome", allowed=allowed)
    return np.where(codes > 1, np.nan, codes)


# Log-linear regressions: the mean outcome is exp(linear predictor), times an exposure

_CUT = 0.7
"""Move of the intercept by outcomes outside their bounds, in standard errors, of which a note tells."""


@parameters
class LogLinearRegression(BoundedOutcome[RegressionPlan], CurvedRegression):
    """Base class of the regressions with a logarithmic link."""

    _roles: ClassVar[dict[str, str]] = {"exposure": "exposure", **CurvedRegression._roles}

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
            raise refuse("y_bounds", given=self.y_bounds, allowed="a pair (0, high)")
        return self._add_columns(design)

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
        self._set_outside(found.outside, found.rows)
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
        return self._determination(X, fitted, outcomes)

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
        most, moved = self._cut_outcomes()
        if moved > _CUT:
            notes.append(
                f"The intercept assumes that few outcomes lie outside y_bounds. By the released fraction, up to "
                f"{100 * most:.2g}% may, which would lower it by {moved:.1f} standard errors. Widen y_bounds."
            )
        if self._long_tailed:
            notes.append(
                "The largest outcomes are larger than the working distribution expects. The intercept counts those "
                "within its reach, and is too small if larger ones matter."
            )
        return notes

    def _cut_outcomes(self) -> tuple[float, float]:
        """Return how many outcomes may lie outside their bounds, and what these move the intercept by at most.

        The move is in standard errors, for an excess beyond the bound as of a Poisson or an exponential outcome.
        """
        most = max(self.clipped_share_, 0.0) + 2 * self.clipped_share_std_
        # Without any outside, the release would hardly be this large.
        if self.clipped_share_ < self.clipped_share_std_:
            return most, 0.0
        linear, quadratic = self._dispersion_of_mean
        excess = linear + quadratic * self.mean_
        return most, most * excess / max(self.mean_, 1e-300) / max(self.intercept_standard_error_, 1e-300)

    def _method_facts(self) -> list[tuple[str, str]]:
        width = significant(self.clip_width_, self.clip_width_ / 10)
        return [
            ("Link, covariance", "log; robust (HC)"),
            ("Method", f"noisy Newton steps; residuals clipped at {width} standard deviations"),
            ("Variance of the outcome", self._variance()),
            ("Outcomes outside bounds", self._in_percent(self.clipped_share_, self.clipped_share_std_)),
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
    x_bounds : (low, high), or array of shape (n_features, 2)
        Public bounds of the columns, in their units, known without the data. Rows outside are not clipped but
        downweighted. A row more than four half-widths from the middle of the bounds in any column has weight 0. A
        mapping ``{column: (low, high)}`` or a data frame with one row per column is matched to the columns of ``X`` by
        name.
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
