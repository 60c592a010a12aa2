"""What the estimators of ratios share: intervals and tests of means, in the units of the data."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.levels import Categories
from dpstats.errors import refuse
from dpstats.groups.plan import RatioPlan
from dpstats.inference import Estimates
from dpstats.means.base import OfColumns
from dpstats.means.ratio import Ratio, RatioErrors
from dpstats.release.estimator import PrivateEstimator
from dpstats.results import about_missing, list_some, with_missing

Floats = NDArray[np.float64]
Plan = TypeVar("Plan", bound=RatioPlan[Any])


class RatioEstimator(OfColumns, PrivateEstimator[Plan]):
    """Base of the estimators of means that are ratios of released sums; a fit sets ``_ratio``."""

    missing: str
    _ratio: Ratio
    _per_column = ("bounds",)

    @abstractmethod
    def _estimand(self) -> str:
        """Return the estimand if no entry is missing."""

    def _covered(self, estimand: str) -> str:
        """Return an estimand and what missing entries of the fit counted as."""
        return with_missing(estimand, about_missing(self.plan_.missing))

    @abstractmethod
    def _all_names(self) -> list[str]:
        """Return a name for each mean."""

    def estimates(self) -> Estimates:
        """Return the means with the distribution of their errors: they can be pickled without the estimator."""
        check_is_fitted(self)
        errors = self._errors()
        return Estimates(
            errors.start,
            None,
            tuple(self._all_names()),
            self._covered(self._estimand()),
            errors,
            title="Private means",
            header="mean",
            labels=self._labels(),
            simulated=self.privacy_.simulated,
        )

    def _errors(self) -> RatioErrors:
        plan = self.plan_
        return RatioErrors(self._ratio, plan.lattice.center, plan.half, *plan.region.ends(plan.n_features))

    def _labels(self) -> dict[str, list[Any]]:
        """Return the columns that label each mean in exports."""
        return {"column": self._column_names()}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def place_of_group(name: str, group: Any, groups: tuple[Any, ...]) -> int:
    """Return the position of a declared group, or raise `InvalidParameter`."""
    place = int(Categories(groups).codes([group])[0])
    if place < 0:
        raise refuse(name, given=group, allowed=f"a declared group ({list_some([*map(repr, groups)])})")
    return place
