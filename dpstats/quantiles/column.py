"""What the estimators of one column share: a 1-d array is as good as a table of one column."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import check_integer
from dpstats.data.rows import as_table, column_of
from dpstats.errors import InvalidData
from dpstats.release.estimator import Plan, PrivateEstimator
from dpstats.results import Summary


class OneColumn(PrivateEstimator[Plan], ABC):
    """Base of the estimators of one column of numbers."""

    @abstractmethod
    def summary(self) -> Summary:
        """Return a table; prints as text, shows as HTML in a notebook."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the estimate from the rows of ``X``.

        Bad parameters and bad data raise before anything is charged; the budget, if there is one, is charged before
        any noise is drawn. A fit that fails after that has spent the charge.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, 1)
            Private rows: an array, a list, a pandas or polars Series, or a data frame with one column. ``n_samples``
            and the column's name are public.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        InvalidParameter
            If a parameter is outside what is allowed.
        InvalidData
            If X is not one column of at least two finite numbers.
        BudgetExceeded
            If the budget cannot pay.
        """
        return super().fit(_as_table(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, False
        return tags

    @property
    def _name(self) -> str:
        """The column's name."""
        names = getattr(self, "feature_names_in_", None)
        return "x" if names is None else str(names[0])

    def _fitted(self) -> None:
        check_is_fitted(self, "plan_")

    def _first_facts(self) -> list[tuple[str, str]]:
        """Return the facts of a summary that hold for any fit."""
        return [
            ("Estimator", type(self).__name__),
            ("Column, rows", f"{self._name}, {self.plan_.n_samples:,} (public)"),
            ("Privacy", str(self.privacy_)),
        ]

    def _simulated_note(self) -> list[str]:
        simulated = "Simulated noise, not a private release: random_state was given."
        return [simulated] if self.privacy_.simulated else []


def check_sizes(n_samples: Any, n_features: Any) -> int:
    """Return the number of rows of one column."""
    n = check_integer("n_samples", n_samples, at_least=2)
    if check_integer("n_features", n_features, at_least=1) != 1:
        raise InvalidData(
            f"X must be one column: a 1-d array, or a table with one column, got one with {n_features}"
        )
    return n


def _as_table(X: Any) -> Any:
    """Return a table of one column for what has one dimension, and anything else as it is."""
    if isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind in "biuf" and not np.ma.isMaskedArray(X):
        return X[:, None]
    X = as_table(X)
    if len(getattr(X, "shape", ())) == 1:
        return column_of("X", X)[:, None]
    if isinstance(X, list | tuple) and X and not any(map(_is_container, X)):
        return column_of("X", X)[:, None]
    return X


def _is_container(item: Any) -> bool:
    return hasattr(item, "__len__") and not isinstance(item, str | bytes)
