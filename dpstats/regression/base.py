"""Base classes of the private regressions: how they fit, and what they report about coefficients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.columns import in_memory
from dpstats.data.parameters import check_flag, check_level, check_real
from dpstats.data.rows import ABOUT_THE_OTHERS, LEFT_OUT, Rows, check_codes, drops_undeclared
from dpstats.data.schema import Column, Schema
from dpstats.data.values import quiet
from dpstats.errors import InvalidParameter, refuse, refuse_data, state_charges
from dpstats.inference.error_distributions import BONFERRONI, ErrorDistribution
from dpstats.inference.estimates import Estimates, HasEstimates, Test
from dpstats.inference.figures import forest
from dpstats.inference.reports import SIMULATED, Records, picture_of
from dpstats.inference.results import (
    ConfidenceInterval,
    JointTest,
    Summary,
    TermTests,
    about_missing,
    in_percent,
    list_some,
    observed_rows,
    print_rounded,
    significant,
    with_missing,
)
from dpstats.lattice import check_finite
from dpstats.regression.coefficient_errors import NORMAL, ClippingBias, ErrorLaw, MappedErrors, ScaledErrors
from dpstats.regression.engine import EFFECTS, ROLES, join_columns, list_columns, read, read_moments, release
from dpstats.regression.hypotheses import Hypotheses, unquote
from dpstats.regression.linear_path import STAGE, MomentsPlan
from dpstats.regression.passes import Floats
from dpstats.regression.plan import DesignPlan
from dpstats.release.estimator import PrivateEstimator, parameters, read_again
from dpstats.release.session import Session

Transform = Callable[[Any], Any]
SomePlan = TypeVar("SomePlan", bound=DesignPlan)
INTERCEPT = "Intercept"
_MANY_OBSERVED = 15.0
"""Standard deviations of its noise from which the number of observed rows is large enough for intervals to hold."""
NOT_TESTED = "A dash: not tested, because a coefficient is not identified."
_SOME_OBSERVED = 2.5
"""The same from which noise does not explain all of them. A fit uses the number of two standard deviations at least."""
MANY_OUTSIDE = 0.02
"""Fraction of clipped weights, offsets or exposures above which a summary warns of clipping."""


class Link(NamedTuple):
    """The mean outcome as an increasing function of the linear predictor, with its inverse and derivative.

    Without functions it is the linear predictor itself.
    """

    words: str
    header: str
    forward: Transform | None = None
    backward: Transform = np.asarray
    slope: Transform = np.ones_like


def exponentiate(values: Any) -> Floats:
    """Return the exponentials of numbers, infinite beyond the largest float."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(values))


@parameters
class Regression(HasEstimates, PrivateEstimator[SomePlan], ABC):
    """Base class of the regressions that report estimates and the covariance of their errors.

    A fit sets ``params_`` and ``params_cov_``, the intercept first if there is one. All results derive from them.
    """

    x_bounds: Any = None
    fit_intercept: bool = True
    missing: str = "error"
    missing_codes: Any = None
    epsilon: float = 1.0
    random_state: Any = None
    budget: Any = None

    if TYPE_CHECKING:  # set by the fit of a subclass, and no parameters
        identified_: NDArray[np.bool_]
        rows_: float
        rows_noise_std_: float
        total_weight_: float
        total_weight_noise_std_: float
        effective_rows_: float
        intercept_identified_: bool
        clipped_share_: float
        clipped_share_std_: float

    _per_column = ("x_bounds",)
    _leaves_out_levels = False
    """Whether the rows of a formula with an undeclared level are left out."""
    _title: ClassVar[str]
    _ratio: ClassVar[str] = ""
    """Name of the exponential of a coefficient. Empty if the summary does not show it."""
    _link: ClassVar[Link] = Link("the mean outcome of such rows", "mean")

    @property
    def _law(self) -> ErrorLaw:
        """The distribution of a coefficient's error, in standard errors."""
        return NORMAL

    # Fitted attributes

    @property
    def _first(self) -> int:
        """The position of the first slope among the parameters: 1 if the fit had an intercept, otherwise 0."""
        return int(self.plan_.design.intercept)

    def _set_params(self, params: Floats, cov: Floats | None, privacy: Floats | None = None) -> None:
        """Set the estimates, the covariance of their errors, and the part of it that is due to noise."""
        for name in ("formula_", "_counted"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self.params_, self.params_cov_ = params, cov
        first = self._first
        self.coef_ = params[first:]
        self.intercept_ = float(params[0]) if first else 0.0
        if cov is None:
            return
        errors = np.sqrt(np.diagonal(cov))
        self.standard_errors_ = errors[first:]
        self.intercept_standard_error_ = float(errors[0]) if first else 0.0
        self.cov_params_ = cov[first:, first:]
        if privacy is not None:
            variance = np.maximum(np.diagonal(cov), 1e-300)
            shares = np.clip(np.diagonal(privacy) / variance, 0.0, 1.0)
            self.privacy_share_ = shares[first:]
            self.intercept_privacy_share_ = float(shares[0]) if first else 0.0

    @property
    def _identified(self) -> NDArray[np.bool_]:
        """Which parameters are identified, intercept first. The intercept is, unless noise hides all rows."""
        hidden = hasattr(self, "rows_") and self.rows_ < _SOME_OBSERVED * self.rows_noise_std_
        first = getattr(self, "intercept_identified_", not hidden)
        return np.append(np.full(self._first, first), self.identified_)

    @property
    def _hidden(self) -> NDArray[np.bool_]:
        """Which parameters noise hides, intercept first."""
        return ~self._identified

    @property
    def _level_places(self) -> NDArray[np.bool_]:
        """Which parameters compare means of levels, intercept first. The range of the outcome limits them."""
        return np.zeros(self.params_.size, dtype=np.bool_)

    @property
    def _boundless(self) -> NDArray[np.bool_]:
        """Which parameters have no limits: a column that varies less than the noise shows may have any slope."""
        return ~self._identified & ~self._level_places

    # Reading rows

    @property
    def _roles(self) -> dict[str, str]:
        """Roles of the further columns that rows may have, by parameter, as the parameters of the class are."""
        return {name: role for name, role in ROLES.items() if hasattr(self, f"{role}_bounds")}

    def _schema(self) -> Schema:
        return replace(super()._schema(), beside=(self._outcome_column(), *list_columns(self)))

    def _fit_columns(self, X: Any, y: Any, **given: Any) -> Self:
        """Fit with the further columns that are given."""
        return super().fit(X, join_columns(self, y, given))

    def _read(self, rows: Rows, plan: Any) -> Any:
        return read_moments(rows, plan) if isinstance(plan, MomentsPlan) else read(rows, plan, keep=True)

    def _release(self, private: Any, plan: Any, session: Session) -> None:
        if isinstance(plan, MomentsPlan):
            session.add(STAGE, private[STAGE])
        else:
            release(private, plan, session)

    def _list_slots(self, d: int) -> dict[str, int]:
        return {"x_bounds": d}

    def _list_columns(self, rows: Any) -> dict[str, Any]:
        return {"x_bounds": rows.X}

    def _outcome_column(self) -> Column:
        """Return the column of the outcome, which says how it is read."""
        return Column("y")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _sort_parameters(self, names: list[Any] | None) -> Self:
        self._check_columns(names)
        return super()._sort_parameters(names)

    def _check_columns(self, names: Sequence[Any] | None) -> None:
        """Refuse a column that has the name of the intercept."""
        if check_flag("fit_intercept", self.fit_intercept) and INTERCEPT in (names or ()):
            raise refuse_data(
                "X",
                allowed=f"have no column named {INTERCEPT!r}, the name of the constant term",
                remedy="Rename or drop the column, or set fit_intercept=False.",
            )

    # Public results

    def _names(self) -> list[str]:
        """Return the names of the parameters, intercept first."""
        formula = getattr(self, "formula_", None)
        given = getattr(self, "feature_names_in_", None) if formula is None else formula.names
        d = self.coef_.size
        names = [f"x{j}" for j in range(d)] if given is None else [str(name) for name in given]
        return [INTERCEPT] * self._first + names

    def _column_names(self, columns: Iterable[int] | None = None) -> list[str]:
        if getattr(self, "formula_", None) is None:
            return super()._column_names(columns)
        first = self._first
        names = np.array(self._names()[first:], dtype=object)[~self._level_places[first:]]
        return [str(name) for name in (names if columns is None else names[list(columns)])]

    def _place(self, coefficient: Any, of: Any) -> int:
        """Return the index among all parameters of a coefficient given by name, or by position in ``coef_``."""
        names, first = self._names(), self._first
        if isinstance(coefficient, str):
            if (coefficient := unquote(coefficient, names)) not in names:
                known = f"{', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
                raise refuse("coefficient", given=of, allowed=f"the name of one ({known})")
            return names.index(coefficient)
        if isinstance(coefficient, bool) or not isinstance(coefficient, int | np.integer):
            raise refuse("coefficient", got=type(coefficient).__name__, allowed="a name or a position in coef_")
        if not -self.coef_.size <= coefficient < self.coef_.size:
            raise refuse("coefficient", given=of, allowed=f"a position in coef_ (n_features = {self.coef_.size})")
        return first + int(coefficient) % self.coef_.size

    def _errors(self) -> Floats:
        check_is_fitted(self)
        if self.params_cov_ is None:
            raise InvalidParameter(
                f"{type(self).__name__} has no standard errors: its release does not contain the sampling error"
            )
        return np.sqrt(np.diagonal(self.params_cov_))

    @property
    def _degrees(self) -> int:
        """Degrees of freedom of the residuals."""
        return max(int(getattr(self, "effective_rows_", self.nobs)) - self.params_.size, 1)

    @property
    def _estimand(self) -> str:
        words = "the coefficients of the model, at its assumptions"
        return with_missing(words, self._describe_rows())

    def _describe_rows(self) -> str:
        """Return the rule for rows that are left out, as text; "" if all rows count."""
        if self.plan_.missing == "drop" and self.missing == "error":
            return ABOUT_THE_OTHERS
        return about_missing(self.plan_.missing)

    def estimates(self, coefficient: Any = None) -> Estimates:
        """Return coefficients with the distribution of their errors. The result can be pickled without the estimator.

        Parameters
        ----------
        coefficient : str, int, sequence of these, or None, default=None
            The name of a column ("Intercept" for the intercept), or a position in ``coef_``; None is each of ``coef_``.
        """
        self._errors()
        several = isinstance(coefficient, Sequence) and not isinstance(coefficient, str)
        asked = range(self.coef_.size) if coefficient is None else coefficient if several else [coefficient]
        return self._estimates_at([self._place(each, coefficient) for each in asked])

    def _estimates_at(self, places: Sequence[int]) -> Estimates:
        at, names = list(places), self._names()
        weights = np.eye(self.params_.size)[at]
        found = self._inferred(self.params_[at], self._errors()[at], [names[place] for place in at], weights)
        return replace(found, null=0.0, title="Private coefficients", tested=self._identified[at])

    def _combine(self, weights: Floats, names: Sequence[str]) -> Estimates:
        """Return linear combinations of the parameters."""
        self._errors()
        with quiet():
            estimates = weights @ self.params_
            variances = np.einsum("ij,jk,ik->i", weights, np.asarray(self.params_cov_), weights)
        return self._inferred(estimates, np.sqrt(variances), names, weights)

    def _build_errors(self, estimates: Floats, errors: Floats, weights: Floats | None) -> ErrorDistribution:
        """Return the distribution of the errors of estimates: linear combinations of the parameters, with weights."""
        return ScaledErrors(estimates, errors, self._law)

    def _inferred(
        self, estimates: Floats, errors: Floats, names: Sequence[str], weights: Floats | None = None
    ) -> Estimates:
        """Return estimates, errors and names as `Estimates` with the error distribution of this estimator."""
        boundless = np.isnan(estimates) if weights is None else weights[:, self._boundless].any(axis=1)
        known = np.where(boundless, 0.0, estimates), np.where(boundless, np.inf, errors)
        return Estimates(
            np.where(boundless, np.nan, estimates),
            np.where(boundless, np.nan, errors),
            tuple(names),
            self._estimand,
            self._build_errors(*known, weights),
            header="coef",
            together=BONFERRONI,
            simulated=self.privacy_.simulated,
        )

    def intercept_confidence_interval(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return an interval for ``intercept_``."""
        words = "the intercept of the model"
        self._errors()
        if not self._first:
            level = check_level("confidence_level", confidence_level)
            return ConfidenceInterval.around(self.intercept_, 0.0, level, words)
        found = self._estimates_at([0]).confidence_interval(confidence_level)
        low, high = (float(np.ravel(end)[0]) for end in found)
        return replace(found, low=low, high=high, estimand=words)

    def summary(self, confidence_level: float | None = None) -> Summary:
        """Return a table of coefficients in the layout of statsmodels, with a privacy block and the assumptions."""
        table = self._table_of(confidence_level)
        found = self._all_estimates()
        if self._ratio:
            ratios = exponentiate(found.estimate)
            with np.errstate(over="ignore"):
                table[self._ratio] = print_rounded(ratios, ratios * found.error)
        shares = np.append([self.intercept_privacy_share_] * self._first, self.privacy_share_)
        shares[self._boundless] = np.nan
        table["privacy"] = ["" if np.isnan(share) else f"{100 * share:.0f}%" for share in shares]
        return Summary(
            self._title,
            [*self._facts(), *self._method_facts()],
            list(table),
            list(zip(*table.values(), strict=True)),
            [*self._notes(), *[SIMULATED] * self.privacy_.simulated],
        )

    @abstractmethod
    def _method_facts(self) -> list[tuple[str, str]]:
        """Return the methods and diagnostics of the fit, as lines of the summary."""

    def test(  # type: ignore[override]
        self,
        coefficient: Any = None,
        value: float = 0.0,
        alternative: str = "two-sided",
        *,
        simultaneous: bool | None = None,
    ) -> Test:
        """Test whether a coefficient equals ``value``. The test uses the release only, without additional privacy cost.

        Parameters
        ----------
        coefficient : str, int or None, default=None
            Name of a column ("Intercept" for the intercept), or position in ``coef_``. None tests each of ``coef_``.
        value : float, default=0.0
            Value of the coefficient under the null hypothesis.
        alternative : {"two-sided", "less", "greater"}, default="two-sided"
            Alternative hypothesis: the coefficient differs from, is less than, or is greater than the value.
        simultaneous : bool, optional
            Whether p-values are adjusted for testing several coefficients.

        Returns
        -------
        Test
            ``statistic`` (z) and ``pvalue``, of shape (1,) or (n_features,), and ``confidence_interval()``.
        """
        found = self.estimates(coefficient)
        return found.test(check_real("value", value), alternative, simultaneous=simultaneous)

    def t_test(self, hypotheses: Any) -> Estimates:
        """Estimate and test linear combinations of coefficients, one at a time, without additional privacy cost.

        Parameters
        ----------
        hypotheses : str, sequence of str or int, or array of shape (n_hypotheses, n_parameters)
            Text such as "x1 = x2", "x1 + 2 * x2 = 1" or "x1 = 0, x2 = 0". Alternatively positions in ``coef_``, or
            rows of weights for all parameters, the intercept first. "C(plan)" tests each coefficient of a term. Names
            may be in backticks, as in "`a b` = `-x`".

        Returns
        -------
        Estimates
            ``estimate``, ``statistic`` and ``pvalue``, of shape (n_hypotheses,), and ``confidence_interval()``.
        """
        asked = self._hypotheses("hypotheses", hypotheses)
        found, words = self._combine(asked.matrix, asked.names), "linear combinations of the coefficients"
        return replace(found, null=asked.values, title="Private tests of coefficients", estimand=words)

    def _hypotheses(self, parameter: str, asked: Any) -> Hypotheses:
        self._errors()
        first = self._first
        everything = range(len(self.coef_)) if asked is None else asked
        return Hypotheses.parse(everything, self._names(), first, parameter, self._terms())

    def _terms(self) -> Mapping[str, Sequence[str]] | None:
        """Return the names of the coefficients of each term, or None if every column is a term."""
        formula = getattr(self, "formula_", None)
        return None if formula is None else formula.terms

    def f_test(self, names: Any = None) -> JointTest:
        """Test whether several coefficients are all 0, or several hypotheses all hold, without additional privacy cost.

        Parameters
        ----------
        names : str, sequence of str or int, or array of shape (n_hypotheses, n_parameters), optional
            Names of columns, positions in ``coef_``, whole terms of a formula such as "C(plan)" or "C(plan):age", or
            hypotheses such as "x1 = x2, x3 = x4 = 0". None tests all of ``coef_``.

        Returns
        -------
        JointTest
            ``statistic`` (F, the Wald statistic over the number of hypotheses), ``pvalue`` and degrees of freedom.
        """
        return self._test_jointly(self._hypotheses("names", names))

    def _test_jointly(self, hypotheses: Hypotheses) -> JointTest:
        off = hypotheses.matrix @ self.params_ - hypotheses.values
        cov = hypotheses.matrix @ np.asarray(self.params_cov_) @ hypotheses.matrix.T
        q, left = len(off), self._degrees
        statistic = float(off @ np.linalg.lstsq(cov, off, rcond=None)[0]) / q
        pvalue = self._law.joint_tail(statistic, q, left)
        simulated, remarks = self.privacy_.simulated, self._law.remarks
        if hypotheses.matrix[:, self._boundless].any():
            statistic = pvalue = np.nan
            remarks = (NOT_TESTED,)
        return JointTest(statistic, pvalue, q, left, hypotheses.names, simulated=simulated, remarks=remarks)

    def wald_test(self, hypotheses: Any) -> JointTest:
        """Test whether all hypotheses hold. The same as `f_test`."""
        return self.f_test(hypotheses)

    def wald_test_terms(self) -> TermTests:
        """Test for each term of the model whether its coefficients are all 0, without additional privacy cost.

        A term is a column, or of a formula a whole factor, spline or interaction. The intercept is a term.

        Returns
        -------
        TermTests
            ``statistic`` (F), ``pvalue`` and ``df_constraint`` of each term, and ``df_denom``.
        """
        names, own_terms = self._names(), self._terms()
        # By position: a name may have characters that mean something in the text of a hypothesis.
        terms = [(name, [place]) for place, name in enumerate(names)]
        if own_terms is not None:
            factors = [(term, [names.index(name) for name in own]) for term, own in own_terms.items()]
            terms = [*terms[: self._first], *factors]
        self._errors()
        rows = np.eye(len(names))
        found = [
            self._test_jointly(Hypotheses(rows[own], np.zeros(len(own)), tuple(names[place] for place in own)))
            for _, own in terms
        ]
        return TermTests(
            np.array([test.statistic for test in found]),
            np.array([test.pvalue for test in found]),
            np.array([test.df_num for test in found]),
            self._degrees,
            tuple(term for term, _ in terms),
            simulated=self.privacy_.simulated,
            remarks=(*self._law.remarks, *[NOT_TESTED] * bool(self._boundless.any())),
        )

    # Names that statsmodels uses

    @property
    def nobs(self) -> int:
        """The public number of rows, or the noisy number of observed rows if rows are left out.

        With weights it is the noisy total weight, in units of the largest weight. For `SufficientStatisticsRegression`
        and `FunctionalMechanismRegression` it is smaller than the number of observed rows, because a row that is scaled
        into the ball counts with its squared factor.
        """
        check_is_fitted(self)
        return int(getattr(self, "_counted", self.plan_.n_samples))

    @property
    def params(self) -> Any:
        """All parameters, the intercept first: NaN for a slope without limits. A Series if the columns have names."""
        check_is_fitted(self)
        hidden = self._boundless if hasattr(self, "identified_") else False
        return self._label_values(np.where(hidden, np.nan, self.params_))

    @property
    def bse(self) -> Any:
        """Standard errors of `params`. They include sampling error and privacy noise."""
        return self._label_values(self._all_estimates().error)

    @property
    def tvalues(self) -> Any:
        """Estimates divided by their standard errors. NaN for a coefficient that is not identified."""
        return self._label_values(self._all_estimates().statistic)

    @property
    def pvalues(self) -> Any:
        """Two-sided p-values of the null hypothesis 0. NaN for a coefficient that is not identified."""
        return self._label_values(self._all_estimates().pvalue)

    def conf_int(self, alpha: float = 0.05) -> Any:
        """Return intervals of level ``1 - alpha`` for all parameters, of shape (n_parameters, 2)."""
        found = self._all_estimates().confidence_interval(1 - check_level("alpha", alpha))
        return self._label_values(np.stack([np.asarray(end) for end in found], axis=1))

    def cov_params(self) -> Any:
        """Return the covariance of the errors of all parameters, the intercept first."""
        self._errors()
        return self._label_values(np.asarray(self.params_cov_), square=True)

    def _all_estimates(self) -> Estimates:
        self._errors()
        return self._estimates_at(range(self.params_.size))

    def _records(self, confidence_level: float | None = None) -> Records:
        # The rows of the summary: frames of statsmodels have the intercept too.
        return self._all_estimates()._records(confidence_level)

    def _label_values(self, values: Floats, *, square: bool = False) -> Any:
        """Return an array or Series with a number per parameter, labeled if the columns of the fit had names."""
        if getattr(self, "feature_names_in_", None) is None and getattr(self, "formula_", None) is None:
            return np.array(values)
        import pandas as pd

        names = self._names()
        if values.ndim == 1:
            return pd.Series(values, index=names)
        return pd.DataFrame(values, index=names, columns=names if square else None)

    def get_prediction(self, X: Any) -> Estimates:
        """Return the predicted mean outcome of each row with intervals, without additional privacy cost.

        For logistic regression it is the probability of the second class, and for counts and amounts the mean per unit
        of exposure.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict for, in the units of the data.

        Returns
        -------
        Estimates
            One estimate per row. If ``X`` is a data frame, estimates carry its index, which ``to_frame()`` keeps.
            Intervals are computed for the linear predictor, and transformed by the inverse link.
        """
        rows, link = self._linear_predictor(X)[0], self._link
        index = X.index if hasattr(X, "iloc") else range(len(rows))
        found = self._combine(rows, [str(label) for label in index])
        if link.forward is not None:
            with quiet():
                found = replace(
                    found,
                    estimate=np.asarray(link.forward(found.estimate)),
                    error=np.asarray(link.slope(found.estimate)) * found.error,
                    distribution=MappedErrors(found.distribution, link.forward, link.backward),
                )
        return replace(found, estimand=link.words, title="Private predictions", header=link.header, index=list(index))

    def _ratios(self, words: str, confidence_level: float | None, simultaneous: bool) -> ConfidenceInterval:
        """Return an interval for the exponential of each of ``coef_``."""
        found = self.confidence_interval(confidence_level, simultaneous=simultaneous)
        low, high = exponentiate(found.low), exponentiate(found.high)
        return ConfidenceInterval(low, high, found.confidence_level, words, found.simultaneous)

    def _linear_predictor(self, X: Any) -> tuple[Floats, Floats]:
        """Return the checked rows with the constant column, and their linear predictor."""
        check_is_fitted(self)
        formula, read = getattr(self, "formula_", None), False
        if formula is not None and not isinstance(X, np.ndarray):
            drop, labels = self.missing == "drop", self._leaves_out_levels
            X = formula.predictors(X, check_codes(self.missing_codes), drop, labels)
            read = labels
        # A model without columns needs the number of rows only.
        rows = read_again(self, X).whole().X if self.coef_.size else np.empty((len(X), 0))
        if self.missing == "error" and not read:
            check_finite(rows)
        if self._first:
            rows = np.concatenate([np.ones((rows.shape[0], 1)), rows], axis=1)
        with quiet():
            return rows, rows @ self.params_

    def _score_rows(self, X: Any, y: Any, sample_weight: None) -> tuple[Floats, Floats]:
        """Return the linear predictor of private rows, and their outcomes."""
        if sample_weight is not None:
            raise refuse("sample_weight", allowed="None: rows have one weight")
        if y is None:
            raise refuse_data("y", allowed="given: an outcome for each row of X")
        rows, fitted = self._linear_predictor(X)
        check_finite(rows)
        outcomes = self._outcome_column().read(y)
        if outcomes.shape != fitted.shape:
            allowed = f"have an entry for each row of X (n_samples = {fitted.size})"
            raise refuse_data("y", got=str(outcomes.size), allowed=allowed)
        return fitted, outcomes

    # Parts of the summary

    def _table_of(self, confidence_level: float | None) -> dict[str, list[str]]:
        """Return the columns of the coefficient table, in the layout of statsmodels."""
        found = self._all_estimates()
        interval = found.confidence_interval(confidence_level)
        tail, errors = (1 - interval.confidence_level) / 2, found.error
        low, high = (np.asarray(end) for end in interval)

        def tested(values: Floats) -> list[str]:
            return ["" if np.isnan(value) else f"{value:.3f}" for value in values]

        return {
            "": list(found.names),
            "coef": print_rounded(found.estimate, errors),
            "std err": print_rounded(errors, errors),
            "z": tested(found.statistic),
            "P>|z|": tested(found.pvalue),
            f"[{tail:.3g}": print_rounded(low, errors),
            f"{1 - tail:.3g}]": print_rounded(high, errors),
        }

    def _facts(self) -> list[tuple[str, str]]:
        facts = list(self._table_facts())
        if hasattr(self, "rows_"):
            facts.append(("Rows observed", observed_rows(self.rows_, self.rows_noise_std_)))
        if hasattr(self, "total_weight_"):
            total, noise = self.total_weight_, self.total_weight_noise_std_
            words = f"{significant(total, noise)} (noise sd {significant(noise, noise / 10)})"
            facts.append(("Total weight", f"{words}, as {self.effective_rows_:,.0f} equal rows"))
        outside = [
            (f"{role.capitalize()}s outside bounds", in_percent(share, std))
            for role, share, std in self._clipped_columns()
        ]
        return [*facts, *outside]

    def _clipped_columns(self) -> list[tuple[str, float, float]]:
        """Return the role of each further column, the fraction outside its bounds and its noise."""
        return [
            (role, share, getattr(self, f"clipped_{role}_share_std_"))
            for role in EFFECTS
            if (share := getattr(self, f"clipped_{role}_share_", None)) is not None
        ]

    @property
    def _clipping(self) -> ClippingBias:
        """The bias that clipped outcomes may cause."""
        known, level = np.asarray(self.identified_), self._excess if self._first else 0.0
        errors = np.append(self.intercept_standard_error_ if self._first else 1.0, self.standard_errors_[known])
        sizes = np.append(level, np.abs(self.coef_[known])) / np.maximum(errors, 1e-300)
        return ClippingBias(self.clipped_share_, self.clipped_share_std_, float(np.nanmax(sizes, initial=0.0)))

    @property
    def _excess(self) -> float:
        """Mean distance of clipped outcomes from their bound for an exponential tail, in units of the intercept."""
        return 0.0

    def _notes(self) -> list[str]:
        """Return the assumptions of the coefficients, and advice if noise hides some of them."""
        notes = [
            "z and intervals include sampling error and privacy noise. The last column is the privacy fraction of the "
            "squared standard error: the noise, and what the noise leaves uncorrected."
        ]
        if sentence := self._describe_rows():
            notes.append(sentence)
        # Levels are declared by a formula. An estimator that has them as ``factors`` has its own note.
        notes += [LEFT_OUT] * (self._leaves_out_levels and LEFT_OUT not in sentence)
        located: Any = self.plan_.located
        if located is not None:
            effects = ["outcomes beyond the bounds are clipped"] * hasattr(self, "y_bounds_")
            effects += ["rows far beyond the bounds of a column have weight 0"] * hasattr(self, "x_bounds_")
            notes.append(
                f"Bounds were chosen from the rows: {', and '.join(effects)}. Coefficients of unclipped rows are not "
                f"covered. Up to {located.plan.unnoticed:,.0f} rows beyond a bound would not be noticed."
            )
        names = np.array(self._names(), dtype=object)
        slopes, levels = (
            list(names[self._hidden & ~self._level_places]),
            list(names[self._hidden & self._level_places]),
        )
        if self.plan_.is_lost(getattr(self, "_counted", self.plan_.n_samples)):
            notes.append("Noise only: at this n and epsilon, coverage may be below the nominal level (see the plan).")
        elif hasattr(self, "total_weight_") and self.total_weight_ < _MANY_OBSERVED * self.total_weight_noise_std_:
            notes.append(
                "The total weight is small at this epsilon, in units of the largest weight. Intervals may cover less "
                "often than stated. Use a smaller bound of the weights, a larger epsilon or fewer columns."
            )
        elif hasattr(self, "rows_") and self.rows_ < _MANY_OBSERVED * self.rows_noise_std_:
            notes.append(
                f"Few of {self.plan_.n_samples:,} rows are observed at this epsilon. Intervals may cover less often "
                "than stated. Use a larger epsilon or fewer columns."
            )
        remedy = "Use more rows, a larger epsilon, fewer columns or tighter bounds."
        if slopes:
            known = "the intercept and the others" if self._first and "Intercept" not in slopes else "the others"
            notes.append(
                f"Not identified at this n and epsilon: {list_some(slopes)}. Noise hides the variation of these "
                f"columns, so their coefficients can have any value, and {known} are not fully adjusted for them. "
                f"{remedy}"
            )
        if levels:
            notes.append(
                f"Not identified at this n and epsilon: {list_some(levels)}. Noise hides which rows have these levels, "
                f"so intervals reflect only the range of the outcome. {remedy}"
            )
        if hasattr(self, "clipped_share_"):
            notes += self._clipping.notes
        notes += [
            f"More than {100 * MANY_OUTSIDE:.0f}% of the {role}s lie outside {role}_bounds. They are clipped to "
            f"the nearer bound, so {EFFECTS[role]}. Widen {role}_bounds."
            for role, share, std in self._clipped_columns()
            if share - 2 * std > MANY_OUTSIDE
        ]
        return notes

    # Construction from a formula

    @classmethod
    @state_charges
    def from_formula(
        cls, formula: str, data: Any, *, bounds: Any, levels: Any = None, unknown: str = "drop", **given: Any
    ) -> Self:
        """Fit the model that a formula describes, and return the fitted estimator.

        Parameters
        ----------
        formula : str
            For example "y ~ x1 + C(plan)". See `dpstats.regression.formula`.
        data : data frame, or mapping of columns
            Private rows.
        bounds : mapping {column: (low, high)}
            Public bounds of every numeric column, in its units. "private" in place of a pair chooses them from the
            rows, for a column that is a separate term or the response. A column of a boolean type needs none: it is a
            factor with the levels False and True.
        levels : mapping {column: levels}, optional
            Public levels of every factor. The first is the reference level.
        unknown : {"drop", "error"}, default="drop"
            Treatment of a row with an undeclared level, or without one unless None is a level. "drop" leaves the row
            out, and the fit counts the other rows, as with ``missing="drop"``. "error" raises `InvalidData`.
        **given
            Further parameters of the estimator.
        """
        from dpstats.regression.formula import parse

        data = in_memory(data)  # a lazy frame is read once, and its number of rows is known to the plan
        described = parse(formula, bounds=bounds, levels=levels, data=data)
        if hasattr(cls, "y_bounds"):
            given = {"y_bounds": described.y_bounds, **given}
        made = cls(x_bounds=described.x_bounds, fit_intercept=described.has_intercept, **given)
        made._check_columns(described.names)
        made.leave_out_levels(described, unknown)
        fitted = made._fit_formula(described, data)
        if fitted._policy() == "error" and not fitted._leaves_out_levels and getattr(fitted, "weights", None) is None:
            fitted.__dict__.pop("_counted", None)  # no row was left out, so their number is public
        fitted.formula_ = described
        return fitted

    def leave_out_levels(self, formula: Any, unknown: str) -> None:
        """Count the rows with declared levels only, where a formula has factors and ``unknown`` is "drop"."""
        self._leaves_out_levels = drops_undeclared(unknown) and formula.has_labels

    def _fit_formula(self, described: Any, data: Any) -> Self:
        """Fit the design of a formula."""
        from dpstats.regression.formula import FormulaRows

        return self.fit(FormulaRows(described, data, labels=self._leaves_out_levels))

    def _policy(self, *others: str) -> str:
        found = super()._policy(*others)
        # The fit counts the rows that it uses. Factors by levels have counts of their own.
        counts = self._leaves_out_levels and not hasattr(self, "_coding")
        return "drop" if found == "error" and counts else found


# The picture: coefficients with intervals

_MOST_COEFFICIENTS = 40


@picture_of.register(Regression)
def _of_regression(fitted: Regression[Any]) -> tuple[str, Any] | None:
    coefficients = np.atleast_1d(fitted.coef_).ravel()
    interval = fitted.confidence_interval()
    low, high = np.ravel(interval.low), np.ravel(interval.high)
    # The intercept is the first row, where there is one.
    names = [row[0] for row in fitted.summary().rows][-coefficients.size :]
    shown = np.isfinite(low) | np.isfinite(high)
    if low.shape != coefficients.shape or not 0 < shown.sum() <= _MOST_COEFFICIENTS:
        return None
    labels = [name for name, kept in zip(names, shown, strict=True) if kept]
    ends = ConfidenceInterval(low[shown, None], high[shown, None], interval.confidence_level)
    drawn = forest(labels, ["coefficient"], coefficients[shown, None], ends).figure
    return "The coefficients with their 95% intervals; the intercept is in the table.", drawn
