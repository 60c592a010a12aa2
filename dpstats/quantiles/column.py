"""Base class of the estimators of one column. They accept a 1-d array or a table with one column."""

from __future__ import annotations

from typing import Any, TypeVar

from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import check_integer
from dpstats.errors import refuse_data
from dpstats.inference import HasEstimates
from dpstats.quantiles.grid import GridPlan
from dpstats.release.estimator import PrivateEstimator
from dpstats.results import about_missing, observed_rows, with_missing

Plan = TypeVar("Plan", bound=GridPlan)


class OneColumn(HasEstimates, PrivateEstimator[Plan]):
    """Base class of the estimators of one column of numbers."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.one_d_array = False, True
        return tags

    @property
    def _name(self) -> str:
        """Name of the column."""
        names = getattr(self, "feature_names_in_", None)
        return "x" if names is None else str(names[0])

    def _fitted(self) -> None:
        check_is_fitted(self, "plan_")

    def _add_policy(self, estimand: str) -> str:
        """Return an estimand with the policy for missing rows."""
        return with_missing(estimand, about_missing(self.plan_.missing))

    def _add_bounds(self, estimand: str) -> str:
        """Return an estimand within the bounds of the grid, with the policy for missing rows."""
        return self._add_policy(self.plan_.grid.add_bounds(estimand))

    def _first_facts(self) -> list[tuple[str, str]]:
        """Return the facts of a summary that hold for any fit."""
        plan = self.plan_
        return [
            ("Estimator", type(self).__name__),
            ("Column, rows", f"{self._name}, {plan.n_samples:,} (public)"),
            ("Privacy", str(self.privacy_)),
            *([("Rows observed", observed_rows(self.rows_, plan.rows_std))] if plan.dropped else []),
            ("Bounds", f"{plan.grid.low:g} to {plan.grid.high:g} (public)"),
        ]


def check_sizes(n_samples: Any, n_features: Any) -> int:
    """Return the number of rows of one column."""
    n = check_integer("n_samples", n_samples, at_least=2)
    if check_integer("n_features", n_features, at_least=1) != 1:
        raise refuse_data(
            "X", got=f"{n_features} columns", allowed="one column: a 1-d array, or a table with one column"
        )
    return n
