"""Cells of a formula's factors: the columns that depend on factors only, and the cell of each row."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.levels import Categories
from dpstats.regression.formula.coding import Column, Indicator, read_argument
from dpstats.regression.formula.declared import Declared, DeclaredTable
from dpstats.regression.formula.expressions import evaluate, expression


@dataclass(frozen=True, slots=True, eq=False)
class FormulaCells:
    """The split of a formula's columns: products of indicators of factors, and columns of numbers.

    Attributes
    ----------
    factors : dict of str to Categories
        Levels of each factor, by its column or its condition. Cells are all their combinations. Levels of the last
        factor change fastest.
    columns : array of shape (n_cells, q)
        Values of the columns of factors in each cell.
    is_factor : array of bool, shape (d,)
        Whether each column of the formula is one of them.
    """

    factors: dict[str, Categories]
    columns: NDArray[np.float64]
    is_factor: NDArray[np.bool_]
    _trees: dict[str, ast.expr]

    def codes(self, table: DeclaredTable) -> NDArray[np.int64]:
        """Return the code of the cell of each row, or -1 for a row with a missing category."""
        found: Any = 0
        missing: Any = False
        for name, levels in self.factors.items():
            tree = self._trees[name]
            codes = (
                table.codes(tree.id) if isinstance(tree, ast.Name) else evaluate(tree, table.number).values
            )
            missing = missing | np.isnan(codes)
            found = found * len(levels) + as_int64(np.where(np.isnan(codes), 0.0, codes))
        return np.where(missing, -1, found)


def find_cells(columns: Sequence[Column], declared: Declared, most: int) -> FormulaCells | None:
    """Return the cells of the factors of a design.

    None if it has no factor, no column of numbers, an interaction of a factor with a number, or more than ``most``
    cells.
    """
    trees: dict[str, ast.expr] = {}
    codes: dict[str, dict[str, int]] = {}
    for column in columns:
        indicators = [part for part in column.parts if isinstance(part, Indicator)]
        if indicators and len(indicators) < len(column.parts):
            return None
        for part in indicators:
            tree = read_argument(expression(part.source))
            name = tree.id if isinstance(tree, ast.Name) else ast.unparse(tree)
            trees[name] = tree
            codes.setdefault(column.text, {})[name] = part.code
    factors = {
        name: declared.levels[name] if isinstance(tree, ast.Name) else Categories((False, True))
        for name, tree in trees.items()
    }
    sizes = [len(levels) for levels in factors.values()]
    if not factors or len(codes) == len(columns) or math.prod(sizes) > most:
        return None
    cells = dict(zip(factors, np.indices(sizes).reshape(len(sizes), -1), strict=True))
    values = [
        np.all([cells[name] == code for name, code in own.items()], axis=0).astype(np.float64)
        for own in codes.values()
    ]
    is_factor = np.array([column.text in codes for column in columns])
    return FormulaCells(factors, np.stack(values, axis=1), is_factor, trees)
