"""What the estimators of a number per column share: predictions, and the frame of a summary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.tables import check_rows
from dpstats.lattice import check_finite
from dpstats.release.estimator import Plan, PrivateEstimator
from dpstats.results import ConfidenceInterval, Summary, significant

Numbers = NDArray[np.float64]


class ColumnEstimator(PrivateEstimator[Plan], ABC):
    """Base of the estimators that report a number for each column.

    Subclasses have the parameter ``missing`` beside those of a `PrivateEstimator`.
    """

    missing: str

    @abstractmethod
    def summary(self, confidence_level: float = 0.95) -> Summary:
        """Return a table of estimates, noise and intervals; prints as text, shows as HTML in a notebook."""

    def predict(self, X: Any) -> Numbers:
        """Return the estimate for every row: shape (n_samples, n_features). Releases nothing new."""
        return self._for_every_row("mean_", X)

    def _for_every_row(self, attribute: str, X: Any) -> Numbers:
        rows = self._checked(X)
        return np.tile(getattr(self, attribute), (rows.shape[0], 1))

    def _checked(self, X: Any) -> NDArray[Any]:
        """Return rows to predict for: what a fit takes, of as many columns."""
        check_is_fitted(self)
        rows: NDArray[Any] = check_rows(self, X, reset=False)
        if self.missing != "center":
            check_finite(rows)
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "center"
        return tags

    # The parts of a summary.

    def _framed(
        self,
        title: str,
        facts: Sequence[tuple[str, str]],
        table: Mapping[str, Sequence[str]],
        notes: Sequence[str],
    ) -> Summary:
        """Return a summary of a table, its columns by their headers, below the facts of any fit and those given."""
        of_any = [
            ("Estimator", type(self).__name__),
            ("Rows, columns", f"{self.plan_.n_samples:,}, {self.plan_.n_features:,} (public)"),
            ("Privacy", str(self.privacy_)),
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
    """Return the columns of a table for the ends of intervals."""
    percent = f"{100 * interval.confidence_level:g}%"
    headers = f"[{percent} low", f"{percent} high]"
    return {
        header: rounded(np.atleast_1d(end), errors) for header, end in zip(headers, interval, strict=True)
    }


def rounded(values: Numbers, errors: Numbers) -> list[str]:
    """Return numbers to about two significant digits of their errors."""
    return [significant(*pair) for pair in zip(values, errors, strict=True)]
