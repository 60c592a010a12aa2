"""Base of the estimators of a number per column, choices before a release, and complete cases.

Proof: docs/proofs/complete-cases.md.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.labels import by_name
from dpstats.data.parameters import check_choice, check_columns
from dpstats.data.tables import Rows
from dpstats.error_distributions import ErrorDistribution, Limits
from dpstats.inference import Estimates, HasEstimates, Test
from dpstats.lattice import check_finite_rows
from dpstats.release.estimator import Plan, PrivateEstimator
from dpstats.results import Summary, few_observed, observed_rows, with_missing
from dpstats.together import SIDAK, Together

Numbers = NDArray[np.float64]


class OfColumns(HasEstimates):
    """Base of the estimators of numbers of columns: values under a null hypothesis are matched to columns by name."""

    def _test(self, found: Estimates, value: Any, alternative: str | None, simultaneous: bool | None) -> Test:
        if value is None:
            return found.test(None, alternative, simultaneous=simultaneous)
        names = getattr(self, "feature_names_in_", None)
        given = by_name("value", value, None if names is None else list(names))
        checked = check_columns("value", given, found.estimate.shape[-1])
        return found.test(checked, alternative, simultaneous=simultaneous)


class ColumnEstimator(OfColumns, PrivateEstimator[Plan]):
    """Base of the estimators that report a number for each column.

    Subclasses have the parameters of a `PrivateEstimator` and ``missing``. They report one number per column, for some
    columns, and `_distribution` is the distribution of the errors of these numbers.
    """

    missing: str

    _together: ClassVar[Together] = SIDAK
    """How the intervals of several columns cover together."""
    _predicted: ClassVar[str] = "mean_"

    # Estimand and errors

    @abstractmethod
    def _estimands(self) -> dict[str, str]:
        """Return the estimands that intervals can cover, each as text by its name; the first is the default."""

    @abstractmethod
    def _about_missing(self) -> str:
        """Return the treatment of missing entries in the fit, as `about_missing` describes it."""

    @abstractmethod
    def _distribution(self, estimand: str) -> ErrorDistribution:
        """Return the distribution of the errors of all columns."""

    @abstractmethod
    def _estimates(self) -> Limits:
        """Return the estimates that intervals are about, and their standard errors."""

    # Queries

    def _estimand(self, name: Any) -> str:
        known = self._estimands()
        if name is None:
            return next(iter(known))
        return check_choice("estimand", name, list(known))

    def estimates(self, *, estimand: str | None = None) -> Estimates:
        """Return the estimates with the distribution of their errors: they can be pickled without the estimator.

        Parameters
        ----------
        estimand : str, optional
            The estimand of the intervals; see the estimator.
        """
        check_is_fitted(self)
        name = self._estimand(estimand)
        estimate, error = self._estimates()
        return Estimates(
            estimate,
            error,
            tuple(self._names_of_all()),
            with_missing(self._estimands()[name], self._about_missing()),
            self._distribution(name),
            together=self._together,
            simulated=self.plan_.guarantee.simulated,
        )

    def summary(self, confidence_level: float | None = None, *, estimand: str | None = None) -> Summary:
        """Return a table of estimates, noise and intervals; prints as text, shows as HTML in a notebook.

        Without ``estimand``, intervals are of the widest one: the population mean, if ``std`` is public.
        """
        check_is_fitted(self)
        name = self._estimand(self._widest() if estimand is None else estimand)
        found = self._describe(self.estimates(estimand=name), name, confidence_level)
        return replace(found, facts=[*self._table_facts(), *found.facts]).summary(confidence_level)

    @abstractmethod
    def _describe(self, found: Estimates, estimand: str, confidence_level: float | None) -> Estimates:
        """Return the estimates with the title, columns, facts and notes of their summary."""

    def _widest(self) -> str | None:
        """Return the estimand of intervals of the summary, None for the default one."""
        return None

    def _observed_facts(self) -> list[tuple[str, str]]:
        """Return the fact of a summary on the released number of observed rows, if n is public."""
        if self.missing != "drop" or self.plan_.has_private_size:
            return []
        return [("Rows observed", observed_rows(self.rows_, self.rows_noise_std_))]

    def _few_rows(self) -> list[str]:
        """Return a note if the released number of rows, or of observed rows, is noise alone."""
        if self.plan_.has_private_size:
            return few_observed(self.n_, self.n_noise_std_)
        return few_observed(self.rows_, self.rows_noise_std_) if self.missing == "drop" else []

    def _names_of_all(self) -> list[str]:
        """Return the names of the columns that are reported."""
        return self._column_names()

    def predict(self, X: Any) -> Numbers:
        """Return the estimate for every row: shape (n_samples, n_features). Releases nothing new."""
        rows = self._checked(X)
        return np.tile(getattr(self, self._predicted), (rows.shape[0], 1))

    def _checked(self, X: Any) -> Rows:
        """Return rows to predict for: what a fit takes, of as many columns."""
        check_is_fitted(self)
        rows = self._again(X)
        if self.missing == "error":
            check_finite_rows(rows)
        return rows
