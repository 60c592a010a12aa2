"""What the estimators of survival share: their columns, and how a fit takes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self, TypeVar

import numpy as np

from dpstats.data.levels import Categories
from dpstats.data.parameters import check_integer
from dpstats.data.schema import Column, Schema, unit_codes
from dpstats.errors import refuse, refuse_data
from dpstats.privacy.plan import ReleasePlan
from dpstats.release.estimator import PrivateEstimator
from dpstats.survival.cells import Cells

Plan = TypeVar("Plan", bound=ReleasePlan)

MOST_ROWS = 2**31


class SurvivalEstimator(PrivateEstimator[Plan], ABC):
    """Base of the estimators whose rows are a time, an event and perhaps a group."""

    time: Any
    event: Any
    by: Any
    unit: Any
    groups: Any
    censored: Any
    entry: Any

    _min_samples = 1

    @abstractmethod
    def plan(self, n_samples: int, n_features: int = 1) -> Plan:
        """Return the plan of a fit on data of this size."""

    # The event is the second argument, as in other survival packages, where other estimators take y.
    def fit(self, X: Any, event: Any = None, y: Any = None) -> Self:  # type: ignore[override]
        """Release the table from rows of one subject each.

        Bad parameters and bad data raise before anything is charged.

        Parameters
        ----------
        X : sequence of times of length n_samples, or a container of rows
            Private: the time of the event or of censoring. Or a data frame, a DuckDB relation, the path of a file or a
            Dask frame with the columns that the estimator names by ``time``, ``event`` and ``by``.
        event : sequence of length n_samples, or column name, optional
            Private: 1 for an event and 0 for a censored time, or as declared by ``causes`` and ``censored``. Not given
            where the estimator names the column.
        y : sequence of length n_samples, or column name, optional
            Private: the group of each row. Not given without groups, or where the estimator names the column by ``by``.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameter
            If a parameter is outside its allowed range.
        InvalidData
            If a time is negative or missing, an event or a group is not declared, or a subject has several rows.
        BudgetExceeded
            If the budget cannot pay.
        """
        given = [part for part in (event, y) if part is not None]
        if y is not None and self.groups is None:
            raise refuse(
                "y", allowed="not be given without groups", remedy="Declare the labels of the groups."
            )
        if self.event is not None and event is not None and (y is not None or self.groups is None):
            raise refuse("event", allowed="not be given twice", remedy="The estimator names its column.")
        return super().fit(X, None if not given else given[0] if len(given) == 1 else tuple(given))

    def _schema(self) -> Schema:
        meaning = "an event indicator for each row, 1 for an event and 0 for a censored time"
        columns = [Column("event", self.event, self._event_kinds(), "event", meaning=meaning)]
        if self.groups is not None:
            labels = "y" if self.by is None else "by"
            means = "the group of each row"
            columns.append(Column("groups", self.by, self._categories(), labels, meaning=means))
        elif self.by is not None:
            raise refuse("groups", allowed="given with by", remedy="Declare the labels of the groups.")
        if self.unit is not None:
            columns.append(Column("units", self.unit, None, "unit", distinct_units))
        return Schema(None if self.time is None else (self.time,), tuple(columns))

    def _event_kinds(self) -> Categories:
        """Return the declared values of an event: censored first, then the causes."""
        return Categories((self.censored, *self._causes()), "censored and causes")

    def _causes(self) -> tuple[Any, ...]:
        """Return the declared causes of an event."""
        return (1,)

    def _categories(self) -> Categories:
        return Categories(self.groups, "groups")

    def _size(self, n_samples: Any, n_features: Any) -> int:
        """Return the public number of rows, of one column of times each."""
        if self.entry is not None:
            raise refuse(
                "entry",
                given=self.entry,
                allowed="None, because late entry (left truncation) is not available",
                remedy="Give times since entry, or use PrivateStatistic with a function that takes entry times.",
            )
        if check_integer("n_features", n_features, at_least=1) != 1:
            raise refuse(
                "n_features",
                given=n_features,
                allowed="1, because times are one column",
                remedy="Name it by time, or give it alone as X.",
            )
        return check_integer("n_samples", n_samples, at_least=1, at_most=MOST_ROWS)

    def _row_is(self, unit: str) -> str:
        return str(self.unit) if self.unit is not None and unit == "row" else unit

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        return tags


def assumptions(cells: Cells) -> list[str]:
    """Return the assumptions of curves and tests, as notes of their summaries."""
    censoring = (
        "Censoring is assumed to be independent of the event time in each group. The data cannot show that."
    )
    smooth = (
        "Events are assumed to be spread smoothly inside the bins. If they happen at the edges only, at scheduled "
        "visits say, give discrete=True."
    )
    if bool((np.diff(cells.edges) == 1).all()):
        smooth += " Bins of one unit are such a case if times are whole numbers."
    return [censoring] if cells.discrete else [censoring, smooth]


def crowding_notes(ends: Any, who: str = "") -> list[str]:
    """Return a warning of bins with these ends, whose events are near one end of them."""
    if not len(ends):
        return []
    bins, them = ("bins that end at", "them") if len(ends) > 1 else ("bin that ends at", "it")
    named = ", ".join(f"{end:g}" for end in ends[:4]) + (", ..." if len(ends) > 4 else "")
    return [
        f"Warning: most events{who} in the {bins} {named} are near one end of {them}. Rows that are censored there "
        "cannot be placed before or after them. Use finer edges, or discrete=True if events happen at the edges only."
    ]


def distinct_units(units: Any) -> Any:
    """Return the codes of units that have one row each, or refuse units that are repeated."""
    codes = unit_codes(units)
    if len(codes) and int(codes.max()) + 1 < len(codes):
        raise refuse_data(
            "unit",
            got="at least one that is repeated",
            allowed="have one row for each subject",
            remedy="Combine the rows of a subject into one, with its time and its event.",
        )
    return codes
