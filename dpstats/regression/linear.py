"""Private linear regression: least squares by noisy Newton steps in whitened coordinates.

Rows may have labels of declared factors.

Proof: docs/proofs/regression.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import check_choice, check_privacy_parameters
from dpstats.data.rows import LEFT_OUT
from dpstats.data.schema import Categories, Schema
from dpstats.data.values import quiet
from dpstats.errors import InvalidParameter, attempt, refuse, show_names
from dpstats.inference.error_distributions import Limits, ScoreErrors, Tail
from dpstats.inference.estimates import ALTERNATIVES, Estimates
from dpstats.inference.results import FREE
from dpstats.lattice import check_finite
from dpstats.means.ratio import DifferenceErrors
from dpstats.mechanisms.unknown_bounds import plan_with_bounds, wants_bounds
from dpstats.privacy.gaussian import gaussian_sigma
from dpstats.regression.base import INTERCEPT
from dpstats.regression.coefficient_errors import ErrorLaw, Robust, Student
from dpstats.regression.engine import (
    add_columns,
    check_offset,
    report_clipped,
    report_counts,
    report_steps,
    score_variation,
    walked,
)
from dpstats.regression.levels import LevelsEstimate, find_coefficients
from dpstats.regression.levels_plan import (
    MOST_CELLS,
    Coding,
    FactorsPlan,
    cell_codes,
    check_factors,
    check_shares,
    factors_plan,
    label_columns,
)
from dpstats.regression.linear_path import MEAT_KURTOSIS, MomentsPlan, is_few
from dpstats.regression.passes import Floats
from dpstats.regression.path import find_identified
from dpstats.regression.plan import RegressionPlan, regression_plan
from dpstats.regression.sufficient import LeastSquares, describe_moments
from dpstats.release.estimator import parameters, read_again
from dpstats.release.session import Released

RARE = 0.01
"""Fraction of the rows that a level of a formula may have if none is declared."""
_SHOWN = 6


@dataclass(frozen=True, eq=False)
class _Column(ScoreErrors):
    """Errors of differences with one column, as a vector."""

    errors: DifferenceErrors

    @property
    def start(self) -> Floats:
        return self.errors.start[:, 0]

    @property
    def box(self) -> Limits:
        low, high = self.errors.box
        return low[:, 0], high[:, 0]

    @property
    def standard_error(self) -> Floats:
        """Half the width of the intervals of one standard deviation."""
        return self.errors.standard_error[:, 0]

    def limits(self, tail: Tail) -> Limits:
        low, high = self.errors.limits(tail)
        return low[:, 0], high[:, 0]

    def score(self, value: Floats) -> Floats:
        return self.errors.score(np.reshape(value, (-1, 1)))[:, 0]


def _check_factor(factor: Any, coding: Coding) -> Any:
    """Return the name of a factor: the only one by default."""
    names = list(coding.factors)
    if factor is None and len(names) == 1:
        return names[0]
    if factor not in names:
        allowed = f"the name of a factor ({show_names(names)})"
        raise refuse("factor", given=factor, allowed=allowed, remedy="There is more than one." * (factor is None))
    return factor


def _find_level(label: Any, levels: Categories, which: str) -> int:
    code = int(levels.codes([label], which)[0])
    if code < 0:
        raise refuse(which, given=label, allowed=f"a declared level ({show_names(levels.values)})")
    return code


_ONE_VARIANCE = "Standard errors assume residuals of one variance: one release of second moments has no robust ones."
_HIDDEN, _HIDDEN_LEVEL = 1.0, 0.7
"""Bias of a slope and of the intercept, in standard errors, that a summary names: intervals of level 0.95 then cover
0.83 and 0.89."""


@parameters
class PrivateLinearRegression(LeastSquares[RegressionPlan]):
    """Private least squares, with intervals that include sampling error and privacy noise.

    A positive delta has far less noise. At delta = 0, and with few rows, the fit is one release of second moments:
    standard errors then assume residuals of one variance.

    Parameters
    ----------
    x_bounds : (low, high), array of shape (n_features, 2), "private" or UnknownBounds
        Public bounds of the columns, in their units, known without the data. Rows outside are not clipped but
        downweighted, as are all rows far from the others. A row more than four half-widths from the middle of the
        bounds in any column has weight 0. A mapping ``{column: (low, high)}`` or a data frame with one row per column
        is matched to the columns of ``X`` by name. "private" chooses them from the rows: see the notes. It may also
        replace the pairs of some columns.
    y_bounds : (low, high), "private" or UnknownBounds
        Public bounds of the outcome. Outcomes outside are clipped to the nearer bound, and the fraction of clipped
        outcomes is released. "private" chooses them from the rows.
    weights : column name, optional
        The column of a data frame that has the weight of each row. Weights can also be given to ``fit``.
    weight_bounds : (low, high), optional
        Public bounds of the weights, at least 0. Weights outside are clipped to the nearer bound. Required if rows have
        weights. A row counts with its weight over ``high``, so the noise is proportional to ``high`` over the mean
        weight.
    offset : column name, optional
        The column of a data frame that has the offset of each row: a known part of the outcome, which is
        subtracted. Offsets can also be given to ``fit``.
    offset_bounds : (low, high), optional
        Public bounds of the offsets. Offsets outside are clipped to the nearer bound, and the fraction of clipped
        offsets is released. Required if rows have offsets.
    factors : mapping {column name: levels}, optional
        Columns of ``X`` with labels, and their public levels, such as ``{"arm": ["control", "a", "b"]}``. The first
        level is the reference. A column of yes and no has the levels ``[False, True]`` or ``[0, 1]``. Levels may be
        rare: see the notes. Several factors may have at most 16 combinations of levels. ``X`` must be a data frame, a
        file or a relation, and have at least one column of numbers. A row with an undeclared or missing label adds
        nothing to the fit.
    fit_intercept : bool, default=True
        Whether the model has an intercept. Without one, slopes must be right for skewed residuals too, and have
        larger errors.
    cov_type : {"HC", "nonrobust"}, default="HC"
        Covariance that standard errors use:

        * "HC": robust, for residuals with any variances. Few rows and delta = 0 have no robust covariance.
        * "nonrobust": shrinks the released covariance toward the covariance under equal residual variances, to the
          extent that noise explains the difference. Not with factors.

        Both divide by n - p rows, as "HC1" does. Intervals use Student's t with n - p degrees of freedom, or with two
        fifths of them where a robust covariance is estimated. Joint tests then use Hotelling's T^2.
    missing : {"error", "drop"}, default="error"
        Treatment of rows with a NaN or infinite entry, or with a missing outcome. "error" raises `InvalidData`, which
        reveals that such a row exists. "drop" leaves the row out, and spends one hundredth of the squared privacy
        parameter mu on the number of observed rows. Few rows and delta = 0 spend nothing on it.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=1e-6
        Privacy parameter, at least 0. It must be positive with factors, weights or an offset. With few rows the noise
        is Laplace noise where this is the smaller one, and the guarantee then has delta = 0.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges for all stages together, before the first. Clones share it.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Slopes, in units of the outcome per unit of the column. With ``factors``, then the difference of each level from
        the first of its factor, named such as "arm[T.b]".
    intercept_ : float
        Intercept, or 0 without one.
    standard_errors_ : ndarray of shape (n_features,)
        Standard errors of ``coef_``. They include sampling error and noise.
    intercept_standard_error_ : float
        Standard error of ``intercept_``.
    cov_params_ : ndarray of shape (n_features, n_features)
        Covariance of the errors of ``coef_``.
    params_, params_cov_ : ndarrays of shape (p,), (p, p)
        The same with the intercept first.
    identified_ : ndarray of bool, shape (n_features,)
        Whether each coefficient is identified. Noise hides the variation of the other columns. Their coefficients have
        no estimate and no limits, ``coef_`` is near 0 for predictions, and the identified ones are not fully adjusted
        for them. A level of a factor is identified if its released count and the count of the first level are at least
        five times their noise. The interval of another level reflects the range of the outcome.
    intercept_identified_ : bool
        Whether the intercept is. Only with few rows or delta = 0.
    levels_ : dict
        For each level, or for each combination of levels of several factors: the noisy number of rows, the mean outcome
        at the mean of the columns, and its standard error. Only with ``factors``.
    counts_noise_std_ : float
        Standard deviation of the noise of these numbers. Only with ``factors``.
    privacy_share_ : ndarray of shape (n_features,)
        Fraction of the squared standard error that is due to privacy: the noise, and the errors that it leaves
        uncorrected.
    intercept_privacy_share_ : float
    uneven_ : bool
        Whether residuals beyond the clipping threshold do not balance by more than the noise. They are skewed, or
        some rows were far from the line after the first step. If they are skewed and the skewness depends on the row,
        slopes may be biased by more than their intervals show.
    peaked_ : bool
        Whether a few residuals are far larger than the others, for example where a yes is rare. The intercept, or the
        slopes of a model without one, count each of them up to a threshold only.
    hidden_bias_ : float
        The largest bias of a slope that the noise can hide, in standard errors. Skewed residuals cause it, if their
        skewness depends on the row or the model has no intercept. A line of the summary names it if it is above 1
        and ``uneven_`` is False.
    condition_ : float
        Condition number of the released curvature, corrected for noise.
    scale_ : float
        Standard deviation of the residuals.
    x_bounds_, y_bounds_ : ndarrays of shape (n_features, 2), (2,)
        The bounds that the fit used. Only with "private".
    beyond_bounds_, beyond_bounds_std_ : ndarrays of shape (n_columns, 2)
        Noisy fraction of rows below and above each chosen bound, the outcome last, and its noise. Only with "private".
    clipped_share_ : float
        Noisy fraction of the outcomes outside ``y_bounds``.
    clipped_share_std_ : float
        Standard deviation of the noise in ``clipped_share_``.
    clipped_offset_share_, clipped_offset_share_std_ : float
        Noisy fraction of the offsets outside ``offset_bounds``, and the standard deviation of its noise. Only with
        offsets.
    rows_, rows_noise_std_ : float
        Noisy number of observed rows, and the standard deviation of its noise. Only with ``missing="drop"``, or with
        ``factors``, where rows of undeclared levels do not count. Not with few rows or delta = 0.
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
    plan_ : RegressionPlan, or MomentsPlan with few rows or delta = 0
        The release plan: every released quantity and its noise.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has column names.

    Notes
    -----
    **Method.** Rows are centered, whitened by the directions of the centered rows, and bounded in these
    coordinates. This downweights high-leverage rows, and causes no bias if the model holds. Residuals are
    clipped. If they are independent of the row, clipping biases only the intercept, and a last stage corrects
    it. Every step releases the Gram matrix of the bounded rows together with the gradient, without additional
    noise.

    **Factors.** A row has one level, so sums by level cost the noise of one sum, also for rare levels. A column of 0
    and 1 instead needs about 134/mu rows with a 1. ``smallest_share`` of a plan is their fraction. mu is the parameter
    of Gaussian differential privacy, 0.237 for the default epsilon and delta. Several factors are cross-classified, and
    coefficients are the least-squares fit to the means of the cells.

    Residuals are assumed to be about as skewed in each level as in all rows. The intercept and the means of levels are
    moved to the mean of all outcomes if it shows that clipped residuals moved them. With weights that vary, the
    standard errors of levels are conservative.

    **Formulas.** `from_formula` fits factors by levels if a level may be too rare for a column of 0 and 1. All other
    columns must be numbers, without interactions with factors. Unless ``levels`` declares fractions of the rows, as in
    ``{"arm": {"a": 0.5, "b": 0.5}}``, a level may have 1% of them. The choice is public.

    **Few rows.** For one column without factors, and fewer than 80/mu rows, the fit takes the single release of
    `SufficientStatisticsRegression`, because noise hides what the steps would learn. The plan names it. Standard errors
    then assume homoscedastic residuals, and ``rows_`` is not set. Fits with weights or offsets always take steps.

    **Estimand.** If the model does not hold, coefficients describe the best fit to the weighted rows.

    **Weights.** Standard errors of type "HC" hold for sampling weights (inverse probabilities of selection) and for
    weights of precision. Type "nonrobust" assumes that the residual variance is inversely proportional to the
    weight. Weights are not frequencies: a weight of 2 is one row, not two.

    **Bounds from the rows.** The fit first chooses bounds, for a fifth of epsilon, and then releases coefficients. Both
    are one charge. `dpstats.means.UnknownBounds` has options. Columns that are mostly 0 need a step. Coefficients
    describe clipped outcomes, and rows that are not far beyond the bounds of a column. Intervals do not cover others.

    **Limits.** Slopes are biased if the skewness of the residuals depends on the row, or if ``y_bounds`` clips
    outcomes; notes report both if noise permits. Rare residuals that are far are clipped, and bias the
    intercept and predictions if noise hides them. Just above the limit of few rows, intervals of wide bounds
    undercover. Rare 0/1 columns that are not factors have long intervals.

    References
    ----------
    Sheffet (2017), Differentially private ordinary least squares. Wang (2018), Revisiting differentially
    private linear regression. Huber (1981), Robust Statistics, chapter 7.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.regression import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2))
    >>> y = 1.0 + X @ [0.5, -0.5] + rng.normal(size=20_000)
    >>> model = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-6, 8), random_state=0).fit(X, y)
    >>> model.coef_.round(1), round(model.intercept_, 1)
    (array([ 0.5, -0.5]), 1.0)
    """

    weights: Any = None
    weight_bounds: Any = None
    offset: Any = None
    offset_bounds: Any = None
    factors: Any = None
    cov_type: str = "HC"
    delta: float = 1e-6

    _title = "Private linear regression"
    _fewest = 0

    @property
    def _law(self) -> ErrorLaw:
        if isinstance(self.plan_, MomentsPlan):
            return super()._law
        if not self._robust:
            return Student(self._degrees)
        return Robust(2 * self._degrees / MEAT_KURTOSIS)

    def plan(self, n_samples: int, n_features: int, shares: Mapping[Any, float] | None = None) -> Any:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes. Columns of factors do not count.
        shares : mapping, optional
            Fractions of the rows that have the rarer value of a yes/no column, by the name or position of the column,
            such as ``{"smoker": 0.02}``. For a factor, give the fraction of each level: ``{"arm": {"a": 0.02}}``. The
            plan states the noise of these coefficients in `noise_ratios` and its notes. Nothing else depends on
            ``shares``. Give public knowledge, not fractions of the data.
        """
        plan = self._plan(n_samples, n_features)
        if shares is None:
            return plan
        # The columns have the names of their bounds, or of the data or the formula of a fit.
        columns = list(self.x_bounds) if isinstance(self.x_bounds, Mapping) else None
        named = any(getattr(self, name, None) is not None for name in ("feature_names_in_", "formula_"))
        if columns is None and named and "plan_" in self.__dict__:
            columns = self._names()[self._first :]
        return replace(plan, shares=check_shares(shares, plan, columns))

    def _list_slots(self, d: int) -> dict[str, int]:
        return {**super()._list_slots(d), "y_bounds": 1}

    def _list_columns(self, rows: Any) -> dict[str, Any]:
        return {**super()._list_columns(rows), "y_bounds": rows.y[:, None]}

    def _plan(self, n_samples: int, n_features: int) -> Any:
        if wants_bounds(self.x_bounds, "x_bounds") or wants_bounds(self.y_bounds, "y_bounds"):
            return plan_with_bounds(self, n_samples, n_features)
        n, design = self._declared(n_samples, n_features)
        design = add_columns(self, design)
        if design.offset is not None:
            design = design.subtracting(design.offset)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        check_choice("cov_type", self.cov_type, ["HC", "nonrobust"])
        # A formula has coded its factors.
        coding = getattr(self, "_coding", None)
        if coding is None and (factors := check_factors(self.factors)):
            coding = Coding.code_main_effects(factors)
        if coding is not None:
            if self.cov_type != "HC":
                raise refuse("cov_type", given=self.cov_type, allowed="'HC' with factors")
            return factors_plan(design, coding, n, epsilon, delta, self._policy())
        plain = design.offset is None and design.weight is None
        if delta == 0 and not plain:
            allowed = "greater than 0 with weights or an offset"
            raise refuse("delta", got="0", allowed=allowed, remedy="Give delta=1e-6 for example.")
        if delta == 0 or (plain and is_few(n, n_features, 1 / gaussian_sigma(epsilon, delta))):
            return replace(self._plan_moments(design, n, delta), few_rows=delta > 0)
        return regression_plan("linear", design, n, epsilon, delta, self._policy())

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

    def predict(self, X: Any, offset: Any = None) -> Floats:
        """Return the predicted outcomes of rows, of shape (n_samples,). Releases nothing new.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict for. With factors, a data frame with their columns too. The prediction is NaN for a row of
            an undeclared level.
        offset : sequence of length n_samples, optional
            Offsets of the rows. The default is 0 for each.
        """
        found = super().predict(X)
        return found + check_offset(offset, found.size)

    def score(self, X: Any, y: Any, sample_weight: None = None, offset: Any = None) -> float:
        """Return a private R^2 on private rows. This is a separate release with the same privacy cost as the fit.

        Outcomes are clipped to ``y_bounds``, and residuals at twice the half-width of these bounds. The result is NaN
        if noise makes the variance of the outcomes 0 or negative. ``offset`` has the offsets of the rows. The default
        is 0 for each.
        """
        fitted, outcomes = self._score_rows(X, y, sample_weight)
        return score_variation(self, X, fitted + check_offset(offset, fitted.size), outcomes)

    def _notes(self) -> list[str]:
        notes = [*super()._notes(), *self._factor_notes()]
        if isinstance(self.plan_, MomentsPlan):
            notes.append(_ONE_VARIANCE)
        if self.peaked_:
            counted = "The intercept counts" if self._first else "Without an intercept, slopes count"
            notes.append(
                f"A few residuals are far larger than the others. {counted} each of them up to a threshold, and may be "
                "biased by more than intervals show. Check the rows with rare outcomes."
            )
        elif self.uneven_ and self._first and self._hidden_level > _HIDDEN_LEVEL:
            notes.append(
                "The intercept assumes residuals that are no more skewed than exponential ones. Longer tails could "
                f"bias it by {self._hidden_level:.1f} standard errors, which the noise can hide. Use more rows or a "
                "larger epsilon to check it, or transform the outcome."
            )
        if self.uneven_:
            notes.append(
                "Residuals beyond the clipping threshold do not balance. They are skewed, or some rows were far from "
                "the line after the first step. If they are skewed, slopes may be biased by more than their intervals "
                "show. Consider transforming the outcome."
            )
        return notes

    def _report(self, released: Released, plan: Any) -> None:
        self._robust = self.cov_type == "HC"
        if isinstance(plan, MomentsPlan):
            super()._report(released, plan)
            # No residual is clipped.
            self.uneven_ = self.peaked_ = False
            self.hidden_bias_ = self._hidden_level = 0.0
            return
        if isinstance(plan, FactorsPlan):
            levels = walked(released, plan).estimate()
            self._report_factors(levels, plan)
            fit, estimate = levels.path.fit, levels.path.fit.found
            report_counts(self, released, plan.inner, estimate)
            self.scale_ = plan.design.y_half * fit.scale
        else:
            estimate = report_steps(self, released, plan, "robust" if self._robust else "model")
            self.identified_ = find_identified(estimate, estimate.robust, plan)
            self.scale_ = estimate.scale
        report_clipped(self, estimate.outside, estimate.rows)
        self.uneven_, self.peaked_ = estimate.uneven, estimate.peaked
        self.hidden_bias_ = estimate.hidden
        self._hidden_level = estimate.hidden_level
        if isinstance(plan, FactorsPlan):
            self._hidden_level = levels.hidden_bias * plan.design.y_half / self.intercept_standard_error_

    def _method(self) -> list[tuple[str, str]]:
        if isinstance(self.plan_, MomentsPlan):
            found = describe_moments(self)
            return [(name, words + " (few rows)" * (self.plan_.few_rows and name == "Method")) for name, words in found]
        by_levels = "factors by levels; " * (self._fitted_coding is not None)
        return [
            ("Method", f"{by_levels}noisy Newton steps, whitened; bounded rows, clipped residuals"),
            ("Covariance", "robust (HC)" if self._robust else "nonrobust (residuals of one variance)"),
            *self._assumptions(),
            ("Condition of the design", f"{self.condition_:.3g} (released, whitened)"),
        ]

    def _assumptions(self) -> list[tuple[str, str]]:
        """Return the lines of a summary about residuals that the release cannot check in most fits."""
        if self.uneven_:
            return []
        found, unseen = [], "noise can hide a bias of"
        if self.hidden_bias_ > _HIDDEN:
            skewed = "no more skewed for some rows than others" if self._first else "hardly skewed"
            found += [("Slopes assume", f"residuals {skewed} ({unseen} {self.hidden_bias_:.1f} se)")]
        if self._first and not self.peaked_ and self._hidden_level > _HIDDEN_LEVEL:
            skewed = "no more skewed than exponential ones"
            found += [("Intercept assumes", f"residuals {skewed} ({unseen} {self._hidden_level:.1f} se)")]
        return found

    # Factors

    @property
    def _level_places(self) -> NDArray[np.bool_]:
        found, coding = super()._level_places, self._fitted_coding
        if coding is not None:
            found[1 + coding.find_places(self.plan_.design.center.size)[1]] = True
        return found

    @property
    def _fitted_coding(self) -> Coding | None:
        """The coding of the fit, or None if it had no factors."""
        plan: Any = self.plan_
        return plan.coding if isinstance(plan, FactorsPlan) else None

    # Reading rows

    def _schema(self) -> Schema:
        schema = super()._schema()
        if hasattr(self, "_coding"):
            # A formula reads its own labels.
            return schema
        # Wrong factors are refused by the plan. Rows to predict for have the factors of the fit.
        factors = attempt(lambda: check_factors(self.factors), InvalidParameter) or {}
        return replace(schema, beside=(*schema.beside, *label_columns(factors)))

    def _linear_predictor(self, X: Any) -> tuple[Floats, Floats]:
        check_is_fitted(self)
        coding = self._fitted_coding
        if coding is None or hasattr(self, "formula_"):
            return super()._linear_predictor(X)
        table = read_again(self, X, label_columns(coding.factors)).whole()
        if self.missing == "error":
            check_finite(table.X)
        assert table.groups is not None
        numbers, places = coding.find_places(table.X.shape[1])
        rows = np.ones((len(table.X), 1 + len(numbers) + len(places)))
        rows[:, 1 + numbers] = table.X
        # The last row is for an undeclared label, whose code is -1.
        columns = np.vstack([coding.columns, np.full(len(places), np.nan)])
        rows[:, 1 + places] = columns[table.groups]
        with quiet():
            return rows, rows @ self.params_

    # Formulas

    def _fit_formula(self, described: Any, data: Any) -> Self:
        """Fit a formula: its factors by levels, if it consists of factors and numbers and has rare levels."""
        # The choice depends on public facts only: sizes, epsilon and delta, and the declared fractions of levels.
        from dpstats.regression.formula import FormulaRows

        if self.factors is not None:
            allowed = "not be given with a formula"
            raise refuse("factors", allowed=allowed, remedy="Name them in it, with their levels.")
        levels = described.has_intercept and self.cov_type == "HC"
        cells = described.find_cells(MOST_CELLS) if levels else None
        size = None if cells is None else FormulaRows(described, data, cells).size(Schema())
        if cells is None or size is None:
            return super()._fit_formula(described, data)
        # Levels take sums of their own if noise may hide one of them as a column of 0 and 1.
        columns = attempt(lambda: self.plan(size[0], len(described.names)), InvalidParameter)
        if described.smallest_share(cells.factors, RARE) >= getattr(columns, "smallest_share", 0.0):
            return super()._fit_formula(described, data)
        names = tuple(name for name, own in zip(described.names, cells.is_factor, strict=True) if own)
        terms = {term: own for term, own in described.terms.items() if own[0] in names}
        given, places = self.x_bounds, np.flatnonzero(cells.is_factor)
        self._coding = Coding(cells.factors, cells.columns, names, terms, places)
        self.x_bounds = [pair for pair, own in zip(described.x_bounds, cells.is_factor, strict=True) if not own]
        try:
            possible = attempt(lambda: self.plan(*size), InvalidParameter) is not None
            if possible:
                self.fit(FormulaRows(described, data, cells, self._leaves_out_levels))
        finally:
            self.x_bounds = given
            del self._coding
        if not possible:
            return super()._fit_formula(described, data)
        # Rows to predict for have the columns of the formula.
        self.n_features_in_ = len(described.names)
        return self

    # Results

    def _names(self) -> list[str]:
        coding = self._fitted_coding
        if coding is None or hasattr(self, "formula_"):
            return super()._names()
        return [INTERCEPT, *self._column_names(range(self.plan_.n_features)), *coding.names]

    def _terms(self) -> Mapping[str, Sequence[str]] | None:
        coding = self._fitted_coding
        if coding is None or hasattr(self, "formula_"):
            return super()._terms()
        return {**{name: [name] for name in self._column_names()}, **coding.terms}

    def _report_factors(self, found: LevelsEstimate, plan: FactorsPlan) -> None:
        """Set the attributes of a fit with factors."""
        coding = plan.coding
        said = find_coefficients(found, coding)
        self._set_params(said.params, said.cov, said.privacy)
        self.identified_, self._found = said.identified, found
        self.counts_noise_std_ = found.counts_noise
        self.levels_ = {
            cell: {"count": count, "mean": mean, "standard_error": error}
            for cell, count, mean, error in zip(
                coding.cells, found.counts.tolist(), said.means.tolist(), said.mean_errors.tolist(), strict=True
            )
        }

    def _facts(self) -> list[tuple[str, str]]:
        facts, coding = super()._facts(), self._fitted_coding
        if coding is None:
            return facts
        factors = [f"{name} ({len(levels)} levels)" for name, levels in coding.factors.items()]
        return [*facts, ("Factors", ", ".join(factors))]

    def difference(self, a: Any, b: Any, factor: Any = None, alternative: str = "two-sided") -> Estimates:
        """Compare two levels of a factor at equal other columns, without additional privacy cost.

        With a single factor, the interval has the method of `dpstats.groups.GroupMeans`. It does not divide by a noisy
        count, so it also holds for a level that noise hides.

        Parameters
        ----------
        a, b : labels of declared levels
        factor : column name, optional
            The factor. Not needed if there is only one.
        alternative : {"two-sided", "less", "greater"}, default="two-sided"
            Alternative hypothesis: the mean of a minus the mean of b is not, is less than, or is greater than 0.

        Returns
        -------
        Estimates
            ``estimate``, ``statistic`` and ``pvalue`` of shape (1,), and ``confidence_interval()``.
        """
        check_is_fitted(self)
        side, coding = check_choice("alternative", alternative, ALTERNATIVES), self._fitted_coding
        if coding is None:
            allowed = "declared for difference, or be part of the formula"
            raise refuse("factors", allowed=allowed, remedy="For columns of X, use t_test.")
        name = _check_factor(factor, coding)
        levels = coding.factors[name]
        first, second = (_find_level(label, levels, which) for label, which in ((a, "a"), (b, "b")))
        if first == second:
            raise refuse("b", given=b, allowed="another level than a")
        shown = (f"{levels.values[first]} - {levels.values[second]}",)
        codes = cell_codes(coding.factors)[name]
        if len(coding.factors) == 1:
            half = self._found.plan.design.y_half
            errors = DifferenceErrors(*self._found.compare([first], [second]), half)
            found = Estimates(
                errors.start[:, 0], None, shown, self._estimand, _Column(errors), simulated=self.privacy_.simulated
            )
        else:
            # The average over the cells of the other factors. Without interactions each cell has the same difference.
            weights = np.zeros((1, self.params_.size))
            average = coding.columns[codes == first].mean(axis=0) - coding.columns[codes == second].mean(axis=0)
            weights[0, 1 + coding.find_places(self.plan_.n_features)[1]] = average
            found = self._combine(weights, shown)
        words = "the difference of the mean outcomes of two levels, at equal other columns"
        return replace(
            found,
            estimand=words,
            header="difference",
            null=0.0,
            alternative=side,
            title="Private difference of two levels",
            facts=(("Factor", str(name)), ("Alternative", side)),
            notes=(FREE, *self._factor_notes()),
        )

    def _factor_notes(self) -> list[str]:
        """Return the assumptions about factors."""
        coding = self._fitted_coding
        if coding is None:
            return []
        notes = [LEFT_OUT] * (getattr(self, "formula_", None) is None)
        fit, cells = self._found.path.fit, coding.shown
        clips = ", ".join(
            f"{cell} {clip / fit.scale:.1f}" for cell, clip in zip(cells[:_SHOWN], fit.clip.tolist(), strict=False)
        )
        return [
            *notes,
            "Coefficients of factors assume residuals that are about as skewed in each level as in all rows. They are "
            f"clipped at these multiples of their standard deviation: {clips}{', ...' * (len(cells) > _SHOWN)}.",
        ]
