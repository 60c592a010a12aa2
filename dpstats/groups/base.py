"""What the estimators of ratios share: intervals and tests of means, in the units of the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from sklearn.utils.validation import check_is_fitted

from dpstats.data.labels import by_name
from dpstats.data.parameters import check_choice, check_columns, check_flag, check_level
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.groups.plan import RatioPlan
from dpstats.intervals import simultaneous_level
from dpstats.lattice.finite import all_finite
from dpstats.means.ratio import Ratio
from dpstats.release.estimator import PrivateEstimator
from dpstats.results import ConfidenceInterval, ValueTest, about_missing, with_missing

Floats = NDArray[np.float64]
Plan = TypeVar("Plan", bound=RatioPlan[Any])

ALTERNATIVES = ["two-sided", "less", "greater"]


class RatioEstimator(PrivateEstimator[Plan], ABC):
    """Base of the estimators of means that are ratios of released sums; a fit sets ``_ratio``."""

    missing: str
    _ratio: Ratio
    _per_column = ("bounds",)

    @property
    def estimand_(self) -> str:
        """In words, what intervals cover."""
        check_is_fitted(self)
        return self._covered(self._estimand())

    @abstractmethod
    def _estimand(self) -> str:
        """Return what intervals cover, if no entry is missing."""

    def _covered(self, estimand: str) -> str:
        """Return an estimand and what missing entries of the fit counted as."""
        return with_missing(estimand, about_missing(self.plan_.missing))

    @abstractmethod
    def _all_names(self) -> list[str]:
        """Return a name for each mean."""

    def confidence_interval(
        self, confidence_level: float = 0.95, simultaneous: bool = False
    ) -> ConfidenceInterval:
        """Return an interval for each mean, counting sampling error and privacy noise.

        Parameters
        ----------
        confidence_level : float, default=0.95
        simultaneous : bool, default=False
            Make all means covered together at this level.

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high``, of the shape of the means.
        """
        check_is_fitted(self)
        level, together = (
            check_level("confidence_level", confidence_level),
            check_flag("simultaneous", simultaneous),
        )
        each = simultaneous_level(level, int(np.prod(self._ratio.shape))) if together else level
        low, high = self._ratio.ends(normal_quantile((1 - each) / 2))
        return ConfidenceInterval(self._in_units(low), self._in_units(high), level, self.estimand_, together)

    def test(self, value: Any = 0.0, alternative: str = "two-sided") -> ValueTest:
        """Test whether each mean is ``value``, from what was released: it costs no privacy.

        Parameters
        ----------
        value : float or array of shape (n_features,), default=0.0
            Inside the bounds. With labels it goes by the names of the columns.
        alternative : {"two-sided", "less", "greater"}, default="two-sided"
            What speaks against it: that the mean is not, is less than, or is greater than the value.

        Returns
        -------
        ValueTest
            ``statistic`` (as a standard normal variable) and ``pvalue``, of the shape of the means, and
            ``confidence_interval()``.
        """
        check_is_fitted(self)
        side, d = check_choice("alternative", alternative, ALTERNATIVES), self.plan_.n_features
        names = getattr(self, "feature_names_in_", None)
        given = check_columns("value", by_name("value", value, None if names is None else list(names)), d)
        at = np.full(d, given, dtype=np.float64)
        low, high = self.plan_.region.ends(d)
        outside = (at < low) | (at > high)
        if outside.any():
            j = int(np.argmax(outside))
            raise InvalidParameter(
                f"value must lie inside the declared bounds, outside which no mean can be, got {at[j]:g} for a column "
                f"between {low[j]:g} and {high[j]:g}"
            )
        z = self._ratio.score(np.clip((at - self.plan_.lattice.center) / self.plan_.half, -1.0, 1.0))

        def interval(confidence_level: float = 0.95) -> ConfidenceInterval:
            level = check_level("confidence_level", confidence_level)
            ends = self._ratio.ends(normal_quantile(tail_of(level, side)))
            least, most = self._in_units(ends[0]), self._in_units(ends[1])
            if side != "two-sided":
                least, most = (
                    (np.full(z.shape, low), most) if side == "less" else (least, np.full(z.shape, high))
                )
            return ConfidenceInterval(least, most, level, self.estimand_)

        values = np.full(z.shape, at)
        return ValueTest(
            z,
            pvalue_of(z, side),
            values,
            side,
            self.estimand_,
            self._all_names(),
            interval,
            simulated=self.privacy_.simulated,
        )

    def _in_units(self, values: Floats) -> Floats:
        """Return values in half-widths about the middle of the bounds in units of the data, inside the bounds."""
        low, high = self.plan_.region.ends(self.plan_.n_features)
        return np.clip(self.plan_.lattice.center + self.plan_.half * values, low, high)

    def _names(self) -> list[str]:
        """Return the names of the columns, or x0, x1, ... where they have none."""
        names = getattr(self, "feature_names_in_", None)
        return [f"x{j}" if names is None else str(names[j]) for j in range(self.plan_.n_features)]

    def _simulated_note(self) -> list[str]:
        simulated = "Simulated noise, not a private release: random_state was given."
        return [simulated] if self.privacy_.simulated else []

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = self.missing == "drop"
        return tags


def rows_that_count(X: NDArray[Any], missing: str) -> NDArray[np.bool_]:
    """Return which rows have no NaN or infinite entry, or refuse the data where one has."""
    with np.errstate(all="ignore"):
        if all_finite(X):
            return np.ones(len(X), dtype=bool)
        if missing == "error":
            raise InvalidData(
                "Input X contains NaN or infinity. Remove or impute such rows first, or declare missing='drop' to let "
                "them count nowhere."
            )
        finite: NDArray[np.bool_] = np.isfinite(X).all(axis=1)
    return finite


def normal_quantile(tail: float) -> float:
    """Return z with P(N > z) = tail, for a tail of at most one half."""
    return max(float(-ndtri(tail)), 0.0)


def tail_of(level: float, side: str) -> float:
    """Return the probability of an end of an interval, or of a one-sided limit, that misses."""
    return min((1 - level) / 2 if side == "two-sided" else 1 - level, 0.5)


def pvalue_of(z: Floats, side: str) -> Floats:
    """Return the p-value of a statistic that is standard normal under the null hypothesis."""
    return np.asarray(2 * ndtr(-np.abs(z)) if side == "two-sided" else ndtr(z if side == "less" else -z))
