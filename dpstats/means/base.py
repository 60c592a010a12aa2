"""What the estimators of a number per column share: intervals, tests, predictions, and the frame of a summary."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.labels import by_name
from dpstats.data.parameters import check_choice, check_columns
from dpstats.data.tables import Rows
from dpstats.inference import SIDAK, ErrorDistribution, Estimates, HasEstimates, Limits, Test, Together
from dpstats.lattice import check_finite_rows
from dpstats.release.estimator import Plan, PrivateEstimator
from dpstats.results import ConfidenceInterval, Summary, observed_rows, significant, with_missing

Numbers = NDArray[np.float64]


class ColumnEstimator(HasEstimates, PrivateEstimator[Plan]):
    """Base of the estimators that report a number for each column.

    Subclasses have the parameters of a `PrivateEstimator` and ``missing``. They report one number per column, for some
    columns, and `_distribution` is the distribution of the errors of these numbers.
    """

    missing: str

    _together: ClassVar[Together] = SIDAK
    """How the intervals of several columns cover together."""

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

    @property
    def estimand_(self) -> str:
        """The estimand of intervals by default, as text."""
        check_is_fitted(self)
        return self._covered(next(iter(self._estimands())))

    def _covered(self, name: str) -> str:
        """Return the text of an estimand, given the treatment of missing entries."""
        return with_missing(self._estimands()[name], self._about_missing())

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
            self._covered(name),
            self._distribution(name),
            together=self._together,
            simulated=self.plan_.guarantee.simulated,
        )

    def confidence_interval(
        self,
        confidence_level: float | None = None,
        *,
        simultaneous: bool | None = None,
        alternative: str | None = None,
        estimand: str | None = None,
    ) -> ConfidenceInterval:
        """Return an interval for each column; it counts sampling error and noise.

        Parameters
        ----------
        confidence_level : float, default=0.95
        simultaneous : bool, default=False
            Make all columns covered together at this level.
        alternative : {"two-sided", "less", "greater"}, default="two-sided"
            One-sided: the values that a test for this alternative does not reject.
        estimand : str, optional
            The estimand to cover; see the estimator.

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high``, one number per column, and the ``estimand`` as text.
        """
        found = self.estimates(estimand=estimand)
        return found.confidence_interval(confidence_level, simultaneous=simultaneous, alternative=alternative)

    def test(
        self,
        value: Any = 0.0,
        alternative: str | None = None,
        *,
        simultaneous: bool | None = None,
        estimand: str | None = None,
    ) -> Test:
        """Test whether each column's estimand is ``value``, from the release: without additional privacy cost.

        It rejects at level a where the interval of level 1 - a excludes the value. For pairs of measurements, fit
        their differences.

        Parameters
        ----------
        value : float or array of shape (n_features,), default=0.0
            A labeled value is matched to the columns by name.
        alternative : {"two-sided", "less", "greater"}, default="two-sided"
            What speaks against the null hypothesis: that the estimand is not, is less than, or is greater than the
            value.
        simultaneous : bool, default=False
            Adjust the p-values for all columns together.
        estimand : str, optional
            The estimand to test; see `confidence_interval`.

        Returns
        -------
        Test
            ``statistic`` and ``pvalue``, one number per column, and ``confidence_interval()``.
        """
        found = self.estimates(estimand=estimand)
        names = getattr(self, "feature_names_in_", None)
        given = by_name("value", value, None if names is None else list(names))
        checked = check_columns("value", given, found.estimate.size)
        return found.test(checked, alternative, simultaneous=simultaneous)

    def _observed_facts(self) -> list[tuple[str, str]]:
        """Return the fact of a summary on the released number of observed rows, if n is public."""
        if self.missing != "drop" or self.plan_.has_private_size:
            return []
        return [("Rows observed", observed_rows(self.rows_, self.rows_noise_std_))]

    def _names_of_all(self) -> list[str]:
        """Return the names of the columns that are reported."""
        return self._names(range(self._estimates()[0].size))

    def predict(self, X: Any) -> Numbers:
        """Return the estimate for every row: shape (n_samples, n_features). Releases nothing new."""
        return self._for_every_row("mean_", X)

    def _for_every_row(self, attribute: str, X: Any) -> Numbers:
        rows = self._checked(X)
        return np.tile(getattr(self, attribute), (rows.shape[0], 1))

    def _checked(self, X: Any) -> Rows:
        """Return rows to predict for: what a fit takes, of as many columns."""
        check_is_fitted(self)
        rows = self._again(X)
        if self.missing == "error":
            check_finite_rows(rows)
        return rows

    # The parts of a summary.

    def _build_summary(
        self,
        title: str,
        facts: Sequence[tuple[str, str]],
        table: Mapping[str, Sequence[str]],
        notes: Sequence[str],
    ) -> Summary:
        """Return a summary of a table, its columns by their headers, below the facts of any fit and those given."""
        of_any = [
            ("Estimator", type(self).__name__),
            *self._count_rows(),
            *self.privacy_.facts(),
        ]
        return Summary(title, [*of_any, *facts], list(table), list(zip(*table.values(), strict=True)), notes)

    def _names(self, columns: Iterable[int]) -> list[str]:
        """Return the names of columns of the data, or x0, x1, ... where they have none."""
        names = getattr(self, "feature_names_in_", None)
        return [f"x{j}" if names is None else str(names[j]) for j in columns]

    def _simulated_note(self) -> list[str]:
        simulated = "Simulated noise, not a private release: random_state was given."
        return [simulated] if self.privacy_.simulated else []


def with_noise(header: str, values: Numbers, errors: Numbers) -> dict[str, list[str]]:
    """Return the columns of a table for estimates, to the digits that their noise leaves, and for the noise."""
    return {header: rounded(values, errors), "noise sd": rounded(errors, errors)}


def of_interval(interval: ConfidenceInterval, errors: Numbers) -> dict[str, list[str]]:
    """Return the columns of a table for the endpoints of intervals."""
    percent = f"{100 * interval.confidence_level:g}%"
    headers = f"[{percent} low", f"{percent} high]"
    return {
        header: rounded(np.atleast_1d(end), errors) for header, end in zip(headers, interval, strict=True)
    }


def rounded(values: Numbers, errors: Numbers) -> list[str]:
    """Return numbers to about two significant digits of their errors."""
    return [significant(*pair) for pair in zip(values, errors, strict=True)]
