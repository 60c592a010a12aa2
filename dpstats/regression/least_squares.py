"""Base class of the linear regressions: declaration, prediction, score and summary."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_choice, check_flag, check_integer
from dpstats.errors import refuse
from dpstats.regression.base import SomePlan
from dpstats.regression.bins import Floats
from dpstats.regression.bounded_outcome import BoundedOutcome
from dpstats.regression.design import Design
from dpstats.release.parameters import parameters
from dpstats.results import ConfidenceInterval, significant


@parameters
class LeastSquares(BoundedOutcome[SomePlan]):
    """Base class of the linear regressions. The outcome is a number within public bounds."""

    y_bounds: Any = None

    _fewest: ClassVar[int] = 1
    """Smallest number of columns of a model with an intercept."""

    @property
    def _identified(self) -> NDArray[np.bool_]:
        found = super()._identified
        if self._first and hasattr(self, "intercept_identified_"):
            found[0] = self.intercept_identified_
        return found

    def _declared(self, n_samples: int, n_features: int) -> tuple[int, Design]:
        """Return the public facts about the rows: their number, and the design."""
        n = check_integer("n_samples", n_samples, at_least=2)
        intercept = check_flag("fit_intercept", self.fit_intercept)
        d = check_integer("n_features", n_features, at_least=self._fewest if intercept else 1)
        if self.y_bounds is None:
            raise refuse("y_bounds", allowed="given: a pair (low, high)")
        return n, Design.check(self.x_bounds, self.y_bounds, d, intercept)

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
        return self._determination(X, *self._score_rows(X, y, sample_weight))

    def _noise_only(self) -> bool:
        return self.plan_.noise_only

    @abstractmethod
    def _method(self) -> list[tuple[str, str]]:
        """Return the methods for coefficients and covariance, as lines of a summary."""

    def _method_facts(self) -> list[tuple[str, str]]:
        *first, last = self._method()
        return [
            *first,
            ("Residual scale", significant(self.scale_, self.scale_ / 10)),
            ("Outcomes outside bounds", self._in_percent(self.clipped_share_, self.clipped_share_std_)),
            last,
        ]
