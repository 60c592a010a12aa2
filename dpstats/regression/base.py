"""What private regressions share: how they are fitted, and what they report of coefficients."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.arithmetic import quiet
from dpstats.data.parameters import check_choice, check_level, check_real
from dpstats.data.schema import Column, Schema
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.lattice import check_finite
from dpstats.regression.error_laws import NORMAL, ErrorLaw
from dpstats.release.estimator import Plan, PrivateEstimator
from dpstats.release.parameters import parameters
from dpstats.results import ConfidenceInterval, JointTest, Summary, ValueTest, significant

Floats = NDArray[np.float64]

INTERCEPT = "Intercept"


class _Fitted(PrivateEstimator[Plan], ABC):
    """What a fit of a regression sets: attributes, and no parameters."""

    params_: Floats
    params_cov_: Floats | None
    coef_: Floats
    intercept_: float
    standard_errors_: Floats
    intercept_standard_error_: float
    cov_params_: Floats
    privacy_share_: Floats
    identified_: NDArray[np.bool_]
    condition_: float
    scale_: float
    clipped_share_: float
    clipped_share_std_: float
    formula_: Any
    intercept_privacy_share_: float


@parameters
class Regression(_Fitted[Plan]):
    """Base of the regressions: of coefficients it knows estimates, and the covariance of their errors.

    A fit sets ``params_`` and ``params_cov_``, the intercept first if there is one, and from these what is below.
    """

    x_bounds: Any = None
    epsilon: float = 1.0
    fit_intercept: bool = True
    random_state: Any = None
    budget: Any = None

    _per_column = ("x_bounds",)

    @property
    def _law(self) -> ErrorLaw:
        """The law of a coefficient's error, in standard errors."""
        return NORMAL

    # What a fit has set.

    def _set_params(self, params: Floats, cov: Floats | None, privacy: Floats | None = None) -> None:
        """Set the fitted attributes of coefficients: estimates, error covariance, and the part of it that is noise."""
        self.__dict__.pop("formula_", None)  # of a fit before
        self.params_, self.params_cov_ = params, cov
        first = int(self.fit_intercept)
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
        """Which of the parameters are more than noise, intercept first."""
        return np.append(np.ones(int(self.fit_intercept), dtype=bool), self.identified_)

    # Reading.

    def _schema(self) -> Schema:
        return replace(super()._schema(), beside=(self._outcome_column(),))

    def _outcome_column(self) -> Column:
        """Return the outcome, and how it is read."""
        return Column("y")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    # What a user asks.

    def _names(self) -> list[str]:
        """Return the names of the parameters, intercept first."""
        formula = getattr(self, "formula_", None)
        given = getattr(self, "feature_names_in_", None) if formula is None else formula.names
        d = self.coef_.size
        names = [f"x{j}" for j in range(d)] if given is None else [str(name) for name in given]
        return [INTERCEPT] * int(self.fit_intercept) + names

    def _place(self, coefficient: Any) -> int:
        """Return the place of a coefficient among the parameters: given by name, or by position in ``coef_``."""
        names, first = self._names(), int(self.fit_intercept)
        if isinstance(coefficient, str):
            if coefficient not in names:
                raise InvalidParameter(
                    f"coefficient must be the name of one ({', '.join(names[:8])}{', ...' if len(names) > 8 else ''}), "
                    f"got {coefficient!r}"
                )
            return names.index(coefficient)
        if isinstance(coefficient, bool) or not isinstance(coefficient, int | np.integer):
            raise InvalidParameter(
                f"coefficient must be a name or a position in coef_, got {type(coefficient).__name__}"
            )
        if not -self.coef_.size <= coefficient < self.coef_.size:
            raise InvalidParameter(
                f"coefficient must be a position in coef_ (n_features = {self.coef_.size}), got {coefficient}"
            )
        return first + int(coefficient) % self.coef_.size

    def _errors(self) -> Floats:
        check_is_fitted(self)
        if self.params_cov_ is None:
            raise InvalidParameter(
                f"{type(self).__name__} has no standard errors: what it releases does not tell of sampling error"
            )
        return np.sqrt(np.diagonal(self.params_cov_))

    @property
    def _degrees(self) -> int:
        """Degrees of freedom of the residuals."""
        return self.plan_.n_samples - self.params_.size

    @property
    def _estimand(self) -> str:
        return "the coefficients of the model, at its assumptions"

    def confidence_interval(
        self, confidence_level: float = 0.95, *, simultaneous: bool = False
    ) -> ConfidenceInterval:
        """Return an interval for each of ``coef_``, counting sampling error and privacy noise.

        Parameters
        ----------
        confidence_level : float, default=0.95
        simultaneous : bool, default=False
            Make all coefficients covered together at this level (Bonferroni's inequality).

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high``, of shape (n_features,).
        """
        errors, first = self._errors(), int(self.fit_intercept)
        level = check_level("confidence_level", confidence_level)
        tail = (1 - level) / 2 / (self.coef_.size if simultaneous else 1)
        half = self._law.reach(tail) * errors[first:]
        return ConfidenceInterval.around(self.coef_, half, level, self._estimand, bool(simultaneous))

    def intercept_confidence_interval(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return an interval for ``intercept_``."""
        level = check_level("confidence_level", confidence_level)
        half = self._law.reach((1 - level) / 2) * self._errors()[0] if self.fit_intercept else 0.0
        return ConfidenceInterval.around(self.intercept_, half, level, "the intercept of the model")

    def test(self, coefficient: Any = None, value: float = 0.0, alternative: str = "two-sided") -> ValueTest:
        """Test whether a coefficient is ``value``, from what was released: it costs no privacy.

        Parameters
        ----------
        coefficient : str, int or None, default=None
            The name of a column ("Intercept" for the intercept), or a position in ``coef_``; None is each of ``coef_``.
        value : float, default=0.0
            Under the null hypothesis.
        alternative : {"two-sided", "less", "greater"}, default="two-sided"
            What speaks against it: that the coefficient is not, is less than, or is greater than the value.

        Returns
        -------
        ValueTest
            ``statistic`` (z) and ``pvalue``, of shape (1,) or (n_features,), and ``confidence_interval()``.
        """
        errors, first = self._errors(), int(self.fit_intercept)
        at = check_real("value", value)
        side = check_choice("alternative", alternative, ["two-sided", "less", "greater"])
        places = (
            np.arange(first, self.params_.size)
            if coefficient is None
            else np.array([self._place(coefficient)])
        )
        estimates, spread = self.params_[places], errors[places]
        z, law = (estimates - at) / spread, self._law
        pvalues = {"less": law.tail(-z), "greater": law.tail(z), "two-sided": 2 * law.tail(np.abs(z))}

        def interval(confidence_level: float = 0.95) -> ConfidenceInterval:
            level = check_level("confidence_level", confidence_level)
            if side == "two-sided":
                return ConfidenceInterval.around(
                    estimates, law.reach((1 - level) / 2) * spread, level, self._estimand
                )
            half, far = law.reach(1 - level) * spread, np.full(spread.shape, math.inf)
            low, high = (-far, estimates + half) if side == "less" else (estimates - half, far)
            return ConfidenceInterval(low, high, level, self._estimand)

        names = [self._names()[place] for place in places]
        return ValueTest(
            z, pvalues[side], at, side, self._estimand, names, interval, simulated=self.privacy_.simulated
        )

    def f_test(self, names: str | int | Sequence[Any] | None = None) -> JointTest:
        """Test whether several coefficients are all 0, from what was released: it costs no privacy.

        Parameters
        ----------
        names : sequence of str or int, optional
            Names of columns, or positions in ``coef_``; None is all of ``coef_``.

        Returns
        -------
        JointTest
            ``statistic`` (F: Wald's statistic over the number of coefficients), ``pvalue`` and degrees of freedom.
        """
        self._errors()
        first = int(self.fit_intercept)
        if names is None:
            places = list(range(first, self.params_.size))
        else:
            single = isinstance(names, str) or not isinstance(names, Iterable)
            places = [self._place(name) for name in ([names] if single else names)]  # type: ignore[union-attr]
        if not places or len(set(places)) < len(places):
            raise InvalidParameter(f"names must be different coefficients, at least one, got {len(places)}")
        b, cov = self.params_[places], np.asarray(self.params_cov_)[np.ix_(places, places)]
        q, left = len(places), self._degrees
        statistic = float(b @ np.linalg.lstsq(cov, b, rcond=None)[0]) / q
        pvalue = self._law.joint_tail(statistic, q, left)
        return JointTest(
            statistic,
            pvalue,
            q,
            max(left, 1),
            tuple(self._names()[place] for place in places),
            simulated=self.privacy_.simulated,
        )

    def _linear_predictor(self, X: Any) -> tuple[Floats, Floats]:
        """Return checked rows, with the constant, and what the model says of them."""
        check_is_fitted(self)
        formula = getattr(self, "formula_", None)
        if formula is not None and not isinstance(X, np.ndarray):
            X = formula.predictors(X)
        rows = self._again(X).whole().X
        if getattr(self, "missing", "error") == "error":
            check_finite(rows)
        if self.fit_intercept:
            rows = np.concatenate([np.ones((rows.shape[0], 1)), rows], axis=1)
        with quiet():
            return rows, rows @ self.params_

    def _scored(self, X: Any, y: Any) -> tuple[Floats, Floats]:
        """Return what the model says of private rows, and their outcomes."""
        if y is None:
            raise InvalidData("y must be given: an outcome for each row of X")
        rows, fitted = self._linear_predictor(X)
        check_finite(rows)
        outcomes = self._outcome_column().read(y)
        if outcomes.shape != fitted.shape:
            raise InvalidData(
                f"y must have an entry for each row of X (n_samples = {fitted.size}), got {outcomes.size}"
            )
        return fitted, outcomes

    # The parts of a summary.

    @staticmethod
    def _in_percent(share: float, std: float) -> str:
        """Return a released share, with the standard deviation of its noise."""
        noise = f"{100 * std:.1g}" if std < 0.01 else f"{100 * std:.0f}"
        return f"{100 * min(max(share, 0.0), 1.0):.1f}% (noise sd {noise}%)"

    @abstractmethod
    def summary(self, confidence_level: float = 0.95) -> Summary:
        """Return a table of coefficients; prints as text, shows as HTML in a notebook."""

    def _table_of(self, confidence_level: float) -> dict[str, list[str]]:
        """Return the columns of the table of coefficients, as statsmodels has them."""
        errors = self._errors()
        level = check_level("confidence_level", confidence_level)
        z = self.params_ / errors
        tail = (1 - level) / 2
        half = self._law.reach(tail) * errors
        return {
            "": self._names(),
            "coef": [significant(*pair) for pair in zip(self.params_, errors, strict=True)],
            "std err": [significant(*pair) for pair in zip(errors, errors, strict=True)],
            "z": [f"{value:.3f}" for value in z],
            "P>|z|": [f"{value:.3f}" for value in 2 * self._law.tail(np.abs(z))],
            f"[{tail:.3g}": [significant(*pair) for pair in zip(self.params_ - half, errors, strict=True)],
            f"{1 - tail:.3g}]": [
                significant(*pair) for pair in zip(self.params_ + half, errors, strict=True)
            ],
        }

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("Estimator", type(self).__name__),
            ("Rows, columns", f"{self.plan_.n_samples:,}, {self.plan_.n_features:,} (public)"),
            ("Privacy", str(self.privacy_)),
        ]

    def _all_shares(self) -> Floats:
        """Return the part of each parameter's squared standard error that is privacy's, intercept first."""
        intercept = [self.intercept_privacy_share_] * int(self.fit_intercept)
        return np.append(intercept, self.privacy_share_)

    def _notes(self) -> list[str]:
        """Return what coefficients assume, and advice where noise leaves little of them."""
        notes = [
            "z and intervals count sampling error and privacy noise. The last column is the share of privacy in the "
            "squared standard error: the noise, and what the noise leaves uncorrected."
        ]
        unknown = [name for name, known in zip(self._names(), self._identified, strict=True) if not known]
        if self._noise_only():
            notes.append(
                "Noise only: at this n and epsilon intervals may miss more often than they say (see the plan)."
            )
        if unknown:
            shown = ", ".join(unknown[:6]) + (", ..." if len(unknown) > 6 else "")
            notes.append(
                f"Not identified at this n and epsilon: {shown}. The columns' variation there cannot be told from "
                "noise, and the interval rests on what the outcome's spread allows. More rows, a larger epsilon, fewer "
                "columns or tighter bounds help."
            )
        return notes

    def _noise_only(self) -> bool:
        """Say whether the plan has warned that noise is all there will be."""
        return False

    def _simulated_note(self) -> list[str]:
        simulated = "Simulated noise, not a private release: random_state was given."
        return [simulated] if self.privacy_.simulated else []

    # A way in.

    @classmethod
    def from_formula(cls, formula: str, data: Any, *, bounds: Any, levels: Any = None, **given: Any) -> Self:
        """Return a fit of a model that a formula describes.

        Parameters
        ----------
        formula : str
            As "y ~ x1 + C(plan)"; see `dpstats.regression.formula`.
        data : data frame, or mapping of columns
            Private rows.
        bounds : mapping {column: (low, high)}
            Public bounds of every column of numbers.
        levels : mapping {column: levels}, optional
            Public levels of every factor; the first is what others are compared with.
        **given
            Parameters of the estimator.
        """
        from dpstats.regression.formula import FormulaRows, parse

        described = parse(formula, bounds=bounds, levels=levels)
        fitted = cls._of_formula(described, given).fit(FormulaRows(described, data))
        fitted.formula_ = described
        return fitted

    @classmethod
    def _of_formula(cls, described: Any, given: dict[str, Any]) -> Self:
        return cls(x_bounds=described.x_bounds, fit_intercept=described.has_intercept, **given)
