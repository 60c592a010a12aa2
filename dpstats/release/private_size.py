from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

from sklearn.utils.validation import check_is_fitted

from dpstats.data.schema import Schema
from dpstats.error_distributions import usual_level
from dpstats.errors import InvalidParameter, refuse, refuse_data
from dpstats.privacy.guarantee import Neighbors, parse_neighbors
from dpstats.results import ConfidenceInterval, observed_rows

# Private numbers of rows


class SizeNoise(Protocol):
    """Noise of a released number of rows."""

    @property
    def std(self) -> float:
        """Standard deviation."""

    def quantile(self, tail: float) -> float:
        """Return the smallest distance that the noise exceeds with at most this probability, on one side."""


@dataclass(frozen=True)
class ReleasedSize:
    """A released number of rows and its noise."""

    rows: float
    noise: SizeNoise

    @property
    def words(self) -> str:
        """The number of rows as a summary states it."""
        return f"{observed_rows(self.rows, self.noise.std)}, private"

    def interval(self, confidence_level: float | None = None) -> ConfidenceInterval:
        """Return an interval for the number of rows that count in these data."""
        level = usual_level(confidence_level)
        half = self.noise.quantile((1 - level) / 2)
        low, high = (max(self.rows + side * half, 0.0) for side in (-1, 1))
        return ConfidenceInterval(low, high, level, "the number of rows that count in these data")


@dataclass(frozen=True)
class HiddenSize:
    """A private number of rows that no release contains."""

    advice: str
    words: str = "private, not released"

    def interval(self, confidence_level: float | None = None) -> ConfidenceInterval:
        """Raise an error."""
        raise InvalidParameter(f"n_interval needs a number of rows that was released. {self.advice}")


def has_private_size(estimator: Any) -> bool:
    """Return whether an estimator, or a mechanism, treats the number of rows as private."""
    neighbors = getattr(estimator, "neighbors", Neighbors.REPLACE_ONE)
    return parse_neighbors(neighbors) is Neighbors.ADD_OR_REMOVE_ONE


def check_container(X: Any, schema: Schema) -> Schema:
    """Return the schema of a private number of rows, or refuse a container that has no columns without rows."""
    if schema.levels is None and isinstance(X, list | tuple):
        raise refuse_data(
            "X",
            got=f"a {type(X).__name__}",
            allowed="an array, a data frame, a file or a relation with neighbors='add_or_remove'",
            remedy="Convert it with numpy.array, because a list without rows has no columns.",
        )
    return replace(schema, private_size=True)


class PrivateSize:
    """Base of the estimators that have the parameter ``neighbors``."""

    neighbors: Any
    n_: float
    n_noise_std_: float
    _released_size: ReleasedSize | HiddenSize

    @property
    def _relation(self) -> Neighbors:
        return parse_neighbors(self.neighbors)

    def _record_size(self, rows: float, noise: SizeNoise) -> None:
        """Set the released number of rows."""
        self._released_size = ReleasedSize(rows, noise)
        self.n_, self.n_noise_std_ = rows, noise.std

    def _hide_size(self, advice: str) -> None:
        """State that the private number of rows is not released."""
        self._released_size = HiddenSize(advice)

    def n_interval(self, confidence_level: float | None = None) -> ConfidenceInterval:
        """Return an interval for the number of rows that count in these data.

        Parameters
        ----------
        confidence_level : float, default=0.95

        Raises
        ------
        InvalidParameter
            If the number of rows is public: ``neighbors="replace_one"``; or if it is not released, as with "discover".
        """
        check_is_fitted(self)
        if self._relation is Neighbors.REPLACE_ONE:
            raise refuse(
                "neighbors",
                given="replace_one",
                allowed="'add_or_remove' for n_interval",
                remedy="The number of rows is public: plan_.n_samples.",
            )
        return self._released_size.interval(confidence_level)
