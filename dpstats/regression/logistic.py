"""Private logistic regression: maximum likelihood by noisy Newton steps in whitened coordinates.

The base class of the regressions whose mean is a curve of the linear predictor has their results for strong levels.

Proof: docs/proofs/regression.md.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.base import ClassifierMixin

from dpstats.data.parameters import check_flag, check_integer, check_privacy_parameters
from dpstats.data.schema import Categories, Column
from dpstats.data.values import as_int64
from dpstats.errors import refuse, refuse_data, state_charges
from dpstats.inference.error_distributions import ErrorDistribution
from dpstats.inference.results import ConfidenceInterval, in_percent, list_some
from dpstats.mechanisms.unknown_bounds import plan_with_bounds, wants_bounds
from dpstats.regression.base import Link, Regression, exponentiate
from dpstats.regression.blocks import Design
from dpstats.regression.coefficient_errors import LevelErrors, find_one_sided
from dpstats.regression.engine import CORRECT, accuracy_plan, add_columns, check_offset, release_accuracy, report_steps
from dpstats.regression.passes import Floats
from dpstats.regression.path import Estimate, find_identified
from dpstats.regression.plan import RATE, RegressionPlan, regression_plan
from dpstats.regression.two_valued import derivative
from dpstats.release.estimator import parameters
from dpstats.release.session import Released

_SEPARATED = (
    "Warning: coefficients still grew at the last step, and their intervals may miss. The rows may be nearly "
    "separated, or the outcome constant: the likelihood may have no maximum. Drop columns that decide the outcome."
)
_EVENTS = 10  # rows with the rarer outcome per coefficient, the usual rule of thumb


@parameters
class CurvedRegression(Regression[RegressionPlan]):
    """Base class of logistic and log-linear regressions. Slopes of columns with two values have intervals by levels."""

    weights: Any = None
    weight_bounds: Any = None
    delta: float = 1e-6

    _unknown_level: ClassVar[str]
    """Statement about a level without a limit."""

    def _fit_formula(self, described: Any, data: Any) -> Self:
        self._two_valued = described.two_valued
        return super()._fit_formula(described, data)

    def _report_estimate(self, released: Released, plan: RegressionPlan, cov: str) -> Estimate:
        """Set the attributes that these regressions share, and return the estimate; ``cov`` names its covariance."""
        found = report_steps(self, released, plan, cov)
        self.__dict__.pop("_two_valued", None)
        assert found.settled is not None
        self._levels = found.levels
        self.one_sided_, unlimited = find_one_sided(found.levels, self.coef_.size)
        # A level without limits may be anywhere. Predictions take it for the other level.
        self.coef_[unlimited] = 0.0
        known = find_identified(found, getattr(found, cov), plan) & ~unlimited
        open_ended = self.one_sided_ != 0
        self.settled_ = found.settled | open_ended
        self.unsettled_ = not self.settled_.all()
        # An interval with one limit holds, although the likelihood may have no maximum.
        self.identified_ = open_ended | (known & (not found.separated))
        self._noise_hides = ~(open_ended | known | found.separated)
        return found

    def _build_errors(self, estimates: Floats, errors: Floats, weights: Floats | None) -> ErrorDistribution:
        if not self._levels or weights is None:
            return super()._build_errors(estimates, errors, weights)
        cov = np.asarray(self.params_cov_)
        return LevelErrors(estimates, errors, self._law, weights, cov, self._levels, self._first)

    @property
    def _hidden(self) -> NDArray[np.bool_]:
        hidden = super()._hidden
        return np.append(hidden[: self._first], self._noise_hides)

    def _notes(self) -> list[str]:
        notes, names = super()._notes(), self._names()[self._first :]
        for sign, limit in ((-1, "an upper"), (1, "a lower")):
            levels = [
                f"{names[each.place]} = {value:g}"
                for each in self._levels
                for value, _ in each.list_unlimited()
                if self.one_sided_[each.place] == sign
            ]
            if levels:
                words = f"{self._unknown_level}: only {limit} limit of the coefficient is known."
                notes.insert(0, f"In [{list_some(levels)}] {words}")
        if self.unsettled_:
            some = [name for name, settled in zip(names, self.settled_, strict=True) if not settled]
            notes.insert(
                0,
                f"Warning: the steps did not settle for {list_some(some)}, and their intervals may miss. "
                "Use tighter bounds, more rows, fewer columns or a larger epsilon.",
            )
        return notes


@parameters
class PrivateLogisticRegression(ClassifierMixin, CurvedRegression):
    """Private logistic regression of a binary outcome, with intervals that include sampling error and privacy noise.

    Parameters
    ----------
    classes : pair, default=(0, 1)
        The two values of the outcome, declared and not read from the data. Coefficients model the odds of the second.
    x_bounds : (low, high), array of shape (n_features, 2), "private" or UnknownBounds
        Public bounds of the columns, in their units, known without the data. Rows outside are not clipped but
        downweighted. A row more than four half-widths from the middle of the bounds has weight 0. A mapping
        ``{column: (low, high)}`` or a data frame with a row per column is matched to the columns of ``X`` by name.

        "private" chooses bounds from the rows for a fifth of epsilon; `dpstats.means.UnknownBounds` has options.
        It may also replace the pairs of some columns. Columns that are mostly 0 need a step.
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

    **Limits.** Models close to separation by a column with many values undercover, and so do rare outcomes, with
    fewer than ten rows for each coefficient. A warning names both. Rare yes/no columns have long intervals.

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
    offset: Any = None
    offset_bounds: Any = None

    _title = "Private logistic regression"
    _unknown_level = "outcomes cannot be distinguished from all or none"
    _ratio = "odds ratio"
    _link = Link("the probability of the second class for such rows", "probability", expit, logit, derivative)

    def plan(self, n_samples: int, n_features: int) -> RegressionPlan:
        """Return the release plan of a fit on data of this size."""
        if wants_bounds(self.x_bounds, "x_bounds"):
            return cast(RegressionPlan, plan_with_bounds(self, n_samples, n_features))
        n = check_integer("n_samples", n_samples, at_least=2)
        intercept = check_flag("fit_intercept", self.fit_intercept)
        d = check_integer("n_features", n_features, at_least=0 if intercept else 1)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        self._categories()
        design = Design.check(self.x_bounds, None, d, intercept)
        design = add_columns(self, design)
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
        if list(self.classes) == [0, 1] and not any(isinstance(each, bool | np.bool_) for each in self.classes):
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

    def fit(self, X: Any, y: Any = None, offset: Any = None, weights: Any = None) -> Self:
        """Release the coefficients from the rows of ``X``.

        Bad parameters and bad data raise before anything is charged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or container of rows
            Private rows, as for every estimator.
        y : sequence of length n_samples, or column name
            Private: the outcome of each row.
        offset : sequence of length n_samples, or column name, optional
            Private: a known term of the linear predictor of each row. It needs ``offset_bounds``. Not given if the
            estimator names a column of ``X`` by ``offset``.
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
            If X, y, the offset or the weights cannot be read.
        BudgetExceeded
            If the budget cannot pay.
        """
        return self._fit_columns(X, y, offset=offset, weights=weights)

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
        log_odds = self.decision_function(X, offset)
        if np.isnan(log_odds).any():
            raise refuse_data(
                "X",
                got="at least one row with a missing entry or an undeclared level",
                allowed="complete to predict classes",
                remedy="predict_proba is NaN in such rows.",
            )
        return self.classes_[as_int64(log_odds > 0)]

    @state_charges
    def score(self, X: Any, y: Any, sample_weight: None = None, offset: Any = None) -> float:
        """Return the private fraction of rows that `predict` classifies correctly: a separate, charged release.

        ``offset`` has the offsets of the rows. The default is 0 for each.
        """
        fitted, outcomes = self._score_rows(X, y, sample_weight)
        fitted = fitted + check_offset(offset, fitted.size)
        make_plan: Any = partial(accuracy_plan, fitted.size, self.epsilon)
        plan = self._smaller_noise(make_plan, self.delta, lambda plan: plan.noise(CORRECT).std)
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
            facts.append(("Outcome rate", in_percent(self.outcome_rate_, noise)))
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
