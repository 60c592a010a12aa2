"""Further columns of a regression: weights, offsets and exposures, with declared bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from dpstats.data.rows import column_of
from dpstats.data.schema import Column, Schema
from dpstats.errors import refuse, refuse_data
from dpstats.means.region import check_bounds
from dpstats.regression.base import Regression, SomePlan
from dpstats.regression.bins import Floats
from dpstats.regression.design import Design
from dpstats.release.parameters import parameters


@parameters
class RowColumns(Regression[SomePlan]):
    """Base class of the regressions whose rows may have weights, and offsets or exposures."""

    weights: Any = None
    weight_bounds: Any = None

    _roles: ClassVar[dict[str, str]] = {"weights": "weight"}
    """Roles of the further columns, by parameter. The bounds are ``{role}_bounds``."""

    def _ends(self, parameter: str) -> tuple[float, float] | None:
        """Return the declared bounds of a further column, or None if rows do not have it."""
        name = f"{self._roles[parameter]}_bounds"
        given = getattr(self, name)
        if given is None:
            if getattr(self, parameter) is not None:
                raise refuse(name, allowed=f"given with {parameter}: a pair (low, high)")
            return None
        low, high = (float(np.ravel(end)[0]) for end in check_bounds(name, given, 1))
        if parameter != "offset" and (low < 0 or (low == 0 and parameter == "exposure")):
            least = "greater than 0" if parameter == "exposure" else "at least 0"
            raise refuse(name, given=given, allowed=least)
        return low, high

    def _add_columns(self, design: Design) -> Design:
        """Return the design with the bounds of the further columns."""
        ends: dict[str, Any] = {role: self._ends(name) for name, role in self._roles.items()}
        return replace(design, **ends)

    def _schema(self) -> Schema:
        schema = super()._schema()
        further = tuple(
            Column(role, getattr(self, name), parameter=name, meaning=f"{_ARTICLES[role]} for each row")
            for name, role in self._roles.items()
            if getattr(self, f"{role}_bounds") is not None
        )
        return replace(schema, beside=(*schema.beside, *further))

    def _fit_columns(self, X: Any, y: Any, **given: Any) -> Self:
        """Fit with the further columns that are given. Others are named by the estimator, or rows lack them."""
        columns = []
        for parameter, role in self._roles.items():
            column = given.get(parameter)
            if column is None:
                continue
            if getattr(self, f"{role}_bounds") is None:
                raise refuse(f"{role}_bounds", allowed=f"given with {parameter}: a pair (low, high)")
            if getattr(self, parameter) is not None:
                raise refuse(parameter, allowed="not be given twice: the estimator names its column")
            columns.append(column)
        return super().fit(X, (y, *columns) if columns else y)


@parameters
class OffsetColumn(RowColumns[SomePlan]):
    """Base class of the regressions whose rows may have offsets: known terms of the linear predictor."""

    offset: Any = None
    offset_bounds: Any = None

    _roles: ClassVar[dict[str, str]] = {"offset": "offset", **RowColumns._roles}

    def fit(self, X: Any, y: Any = None, offset: Any = None, weights: Any = None) -> Self:
        """Release the coefficients from the rows of ``X``.

        Bad parameters and bad data raise before anything is charged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or container of rows
            Private rows, as for every estimator.
        y : sequence of length n_samples, or column name
            Private: the outcome of each row.
        offset : sequence of length n_samples, or column name, optional
            Private: a known term of the linear predictor of each row. It needs ``offset_bounds``. Not given if the
            estimator names a column of ``X`` by ``offset``.
        weights : sequence of length n_samples, or column name, optional
            Private: the weight of each row. It needs ``weight_bounds``. Not given if the estimator names a column of
            ``X`` by ``weights``.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameter
            If a parameter has a value that is not allowed.
        InvalidData
            If X, y, the offset or the weights cannot be read.
        BudgetExceeded
            If the budget cannot pay.
        """
        return self._fit_columns(X, y, offset=offset, weights=weights)


_ARTICLES = {"weight": "a weight", "offset": "an offset", "exposure": "an exposure"}


def check_offset(offset: Any, n: int) -> Floats | float:
    """Return the offsets of n rows to predict for, or 0 if there are none."""
    if offset is None:
        return 0.0
    found = column_of("offset", offset)
    if found.shape != (n,) or not np.isfinite(found).all():
        raise refuse_data("offset", allowed=f"{n} finite numbers, one for each row of X")
    return found
