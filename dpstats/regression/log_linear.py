"""Base class of the log-linear regressions: the mean outcome is exp(linear predictor), times an exposure.

Proof: docs/proofs/log-linear.md.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from dpstats.data.parameters import check_flag, check_integer, check_privacy_parameters
from dpstats.data.rows import column_of
from dpstats.errors import refuse, refuse_data
from dpstats.regression.base import Link, exponentiate
from dpstats.regression.bins import Floats
from dpstats.regression.bounded_outcome import BoundedOutcome
from dpstats.regression.curved import CurvedRegression
from dpstats.regression.design import Design
from dpstats.regression.log_linear_plan import LogLinearPlan, log_linear_plan
from dpstats.regression.plan import RegressionPlan
from dpstats.release.parameters import parameters
from dpstats.release.session import Released
from dpstats.results import ConfidenceInterval, significant

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
