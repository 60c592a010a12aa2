"""The rows of a formula's design as a source. It reads no data before a fit requests them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpstats.data.labels import unit_of
from dpstats.data.memory import stated_shape
from dpstats.data.schema import Schema
from dpstats.data.source import Source
from dpstats.data.tables import Rows, Table
from dpstats.errors import refuse, refuse_data
from dpstats.regression.formula.cells import FormulaCells
from dpstats.regression.formula.declared import open_table
from dpstats.regression.formula.model import Formula


class FormulaRows(Source):
    """Private rows of a table, as the design and the response of a formula.

    Parameters
    ----------
    formula : Formula
    data : data frame, or mapping of columns
    cells : FormulaCells, optional
        Read factors as the cell of each row, instead of as columns.

    Examples
    --------
    >>> from dpstats.data import Schema
    >>> from dpstats.regression.formula import FormulaRows, parse
    >>> formula = parse("y ~ x", bounds={"x": (0, 1), "y": (0, 2)})
    >>> FormulaRows(formula, {"x": [0.1, 0.2], "y": [1.0, 2.0]}).size(Schema())
    (2, 1)
    """

    def __init__(self, formula: Formula, data: Any, cells: FormulaCells | None = None) -> None:
        self._formula, self._data, self._cells = formula, data, cells
        self.unit = unit_of(data)

    def size(self, schema: Schema) -> tuple[int, int] | None:
        data = self._data
        column = next(iter(data.values()), None) if isinstance(data, Mapping) else data
        shape = stated_shape(column)
        names, cells = self._formula.names, self._cells
        d = len(names) if cells is None else int(np.count_nonzero(~cells.is_factor))
        return None if shape is None else (shape[0], d)

    def resolve(self, schema: Schema, y: Any) -> tuple[Schema, dict[str, Any]]:
        if self._formula.response is None:
            raise refuse_data("y", allowed="given: the formula must have a response on its left side")
        if y is not None:
            raise refuse("y", allowed="not be given with a formula: the response is its left side")
        return schema, {}

    def read(self, schema: Schema, given: Mapping[str, Any] | None = None) -> Rows:
        _, named = open_table(self._data)
        beside: dict[str, Any] = {}
        if self._cells is None:
            X, response = self._formula.rows(self._data, schema.codes)
        else:
            X, response, groups = self._formula.split_rows(self._cells, self._data, schema.codes)
            if schema.missing == "error" and (groups < 0).any():
                raise refuse_data(
                    "data",
                    got="at least one missing category",
                    allowed="have a level of every factor in each row",
                    remedy="Declare None as a level, or set missing='drop'.",
                )
            beside = {"groups": groups}
        beside |= {
            part.role: part.read(
                response if part.name is None else named(part.name), schema.missing, schema.codes
            )
            for part in schema.beside
        }
        return Table(X, **beside)
