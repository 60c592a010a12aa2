"""Formulas with public declarations: the columns of the design, and the design row of each table row.

formulaic parses a formula into terms. This package evaluates the terms itself. formulaic would take levels, means and
knots from the data, and would evaluate Python code in which a row may use other rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.missing import NO_CODES, MissingCodes
from dpstats.errors import DPStatsError, refuse, show, show_names
from dpstats.regression.formula.cells import FormulaCells, find_cells
from dpstats.regression.formula.coding import Column, Indicator, Number, list_columns, read_response
from dpstats.regression.formula.declared import (
    Declared,
    DeclaredTable,
    check_declared,
    empty_table,
    is_truth,
)


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """A formula with its declared columns. It turns each row of a table into a row of the design. Created by `parse`.

    Attributes
    ----------
    text : str
        The formula as it was given.
    response : str or None
        The left side, or None for a formula without one.
    names : tuple of str, length d
        Columns of the design without the intercept, with the names and the order of formulaic.
    x_bounds : array of shape (d, 2)
        Bounds of each column if the numbers it is built from are within their declared bounds.
    y_bounds : array of shape (2,) or None
        Bounds of the response. None without a response, and for a response without declared bounds, which is allowed
        for classification.
    has_intercept : bool
        Whether the design has an intercept in addition to these columns.

    Examples
    --------
    >>> from dpstats.regression.formula import parse
    >>> formula = parse("y ~ x + C(arm)", bounds={"y": (0, 10), "x": (0, 1)}, levels={"arm": ["control", "new"]})
    >>> formula.response, formula.names
    ('y', ('x', 'C(arm)[T.new]'))
    >>> formula.x_bounds.tolist(), formula.y_bounds.tolist()
    ([[0.0, 1.0], [0.0, 1.0]], [0.0, 10.0])
    """

    text: str
    response: str | None
    names: tuple[str, ...]
    x_bounds: NDArray[np.float64]
    y_bounds: NDArray[np.float64] | None
    has_intercept: bool
    _columns: tuple[Column, ...]
    _response: Number | None
    _declared: Declared

    def __repr__(self) -> str:
        return f"Formula({self.text!r}, {len(self.names)} columns)"

    @property
    def terms(self) -> dict[str, list[str]]:
        """The names of the columns of each term, such as the levels of a factor or the functions of a spline."""
        found: dict[str, list[str]] = {}
        for column in self._columns:
            found.setdefault(column.term, []).append(column.text)
        return found

    @property
    def two_valued(self) -> tuple[bool, ...]:
        """Whether each column is 0 or 1: an indicator of levels."""
        return tuple(all(isinstance(part, Indicator) for part in column.parts) for column in self._columns)

    def rows(
        self, data: Any, codes: MissingCodes = NO_CODES
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Return the design of a private table, and its response (None for a formula without one).

        Each row of the design depends on the same row of ``data`` only. An entry is NaN if it uses a missing or
        infinite number, or a missing category without a level. A number outside its declared bounds stays unchanged,
        alone and in interactions. Before a transform (``log(x)``, ``I(x**2)``) it is clipped to its bounds, so that the
        result is always defined.

        Parameters
        ----------
        data : data frame (pandas, polars, pyarrow), or mapping of str to 1-d sequence
            Private rows. Only the columns that the formula names are read.
        codes : MissingCodes, optional
            Codes of missing entries.

        Returns
        -------
        X : float64 array of shape (n, d)
        y : float64 array of shape (n,), or None

        Raises
        ------
        InvalidData
            If a column is missing or cannot be read, or if a row has an undeclared level of a factor. The error
            reveals that such a row exists, but not its value. To avoid it, declare every level that may occur.
        """
        table = DeclaredTable(self._declared, data, codes)
        y = None if self._response is None else self._response.of(table).values
        return _matrix(self._columns, table), y

    def predictors(self, data: Any, codes: MissingCodes = NO_CODES) -> NDArray[np.float64]:
        """Return the design as `rows` does, without the response. The table need not have a response column."""
        if not self._columns:
            first = next(iter(data.values()), ()) if isinstance(data, Mapping) else data
            return np.empty((len(first), 0))
        return _matrix(self._columns, DeclaredTable(self._declared, data, codes))

    def find_cells(self, most: int) -> FormulaCells | None:
        """Return the cells of the factors, or None if the design does not consist of factors and columns of numbers."""
        return find_cells(self._columns, self._declared, most)

    def split_rows(
        self, cells: FormulaCells, data: Any, codes: MissingCodes = NO_CODES
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, NDArray[np.int64]]:
        """Return the columns of numbers of a private table, its response, and the code of the cell of each row."""
        table = DeclaredTable(self._declared, data, codes)
        y = None if self._response is None else self._response.of(table).values
        numbers = [
            column for column, factor in zip(self._columns, cells.is_factor, strict=True) if not factor
        ]
        return _matrix(numbers, table), y, cells.codes(table)

    def smallest_share(self, names: Iterable[str], default: float) -> float:
        """Return the smallest declared fraction of a level of some factors, or a default if one is unknown."""
        shares = [self._declared.shares.get(name, default) for name in names]
        return min(shares, default=default)


def parse(
    formula: str,
    *,
    bounds: Mapping[str, tuple[float, float]],
    levels: Mapping[str, Sequence[Any]] | None = None,
    data: Any = None,
) -> Formula:
    """Parse a formula, using public declarations only.

    Parameters
    ----------
    formula : str
        ``response ~ terms`` with the operators of formulaic and R: ``+``, ``-``, ``:``, ``*``, ``/``, ``**``, and
        ``-1`` or ``+0`` for no intercept. Write a name that is not a Python identifier in backquotes, or as
        ``Q("name")``.

        A column in ``C()``, or with levels and no bounds, is a factor in treatment coding. The reference is its first
        level, or the level "b" in ``C(x, contr.treatment("b"))``. The reference gets its own column if no earlier
        column represents it, for example without an intercept.

        Transforms, also of the response: ``log``, ``log2``, ``log10``, ``log1p``, ``exp``, ``expm1``, ``sqrt``,
        ``square``, ``abs``, ``sign``, ``floor``, ``ceil``, ``minimum``, ``maximum`` (also ``np.log``). Their
        arguments, and ``I()``, may contain numbers, ``+ - * /`` and powers from 1 to 20.

        A condition is a factor with the levels False and True, as in patsy and statsmodels: ``I(x > 3)``, or
        ``I((x > 3) & ~(z == 1))`` with each comparison in brackets. A column with the levels False and True, or of
        a boolean type, is such a factor too, also with bounds. Inside an expression of numbers both are 1 or 0:
        ``I(1 * (x > 3))`` is a number. ``where(x > 3, z, 0)`` is one of two expressions; both must be finite within
        the bounds.

        ``bs(x, knots=[30, 50], degree=3)`` is a B-spline with public knots. Its outer knots are the bounds of x. Like
        patsy, it has a column for each basis function except the first.
    bounds : mapping of str to (low, high)
        Public bounds of every numeric column.
    levels : mapping of str to sequence, optional
        Public categories of every factor, at least two. As a mapping of categories to their expected fractions of the
        rows, it also tells a linear regression how rare they are.
    data : data frame, or mapping of columns, optional
        The table of the formula. Only its boolean types are used: they declare the levels False and True.

    Raises
    ------
    InvalidParameter
        If the formula cannot be parsed, or names a column without bounds or levels. Also if a function would compute
        columns from the data (``scale``, ``poly``, ``bs`` without knots), or if a column is constant or not finite
        within the bounds. Interval arithmetic decides this; it gives ``I(x - x)`` twice the width of x.
    DPStatsError
        If formulaic is not installed.

    Examples
    --------
    >>> from dpstats.regression.formula import parse
    >>> formula = parse(
    ...     "log1p(cost) ~ age * C(plan)",
    ...     bounds={"cost": (0, 1000), "age": (18, 65)},
    ...     levels={"plan": ["free", "paid"]},
    ... )
    >>> formula.names
    ('age', 'C(plan)[T.paid]', 'age:C(plan)[T.paid]')
    >>> formula.x_bounds.tolist(), formula.y_bounds.round(2).tolist(), formula.has_intercept
    ([[18.0, 65.0], [0.0, 1.0], [0.0, 65.0]], [0.0, 6.91], True)
    >>> X, y = formula.rows({"cost": [0, 5000], "age": [70, 30], "plan": ["free", "paid"]})
    >>> X.tolist(), y.round(2).tolist()  # the cost is clipped before its logarithm, the age is not
    ([[70.0, 0.0, 0.0], [30.0, 1.0, 30.0]], [0.0, 6.91])
    """
    left, right = _terms(formula)
    declared = check_declared(bounds, levels, data)
    columns = list_columns(right, declared)
    names = tuple(column.text for column in columns)
    has_intercept = any(term.degree == 0 for term in right)
    if not (names or (has_intercept and left is not None)) or len(set(names)) < len(names):
        got = f"{show(formula)}, which gives {show_names(names)}"
        raise refuse("formula", got=got, allowed="give columns with different names")
    empty = empty_table(declared)
    x_bounds = np.array([_bounds(column, empty) for column in columns]).reshape(len(columns), 2)
    response = None if left is None else _response(left, declared)
    y_bounds = None
    column = None if response is None else response.column
    if response is not None and (column is None or column in declared.bounds or is_truth(declared, column)):
        y_bounds = np.array(_bounds(response, empty))
    elif response is not None:
        unbounded = {str(column): (-math.inf, math.inf)}
        declared = replace(declared, bounds={**declared.bounds, **unbounded})
    return Formula(
        text=formula,
        response=None if response is None else response.column or response.text,
        names=names,
        x_bounds=x_bounds,
        y_bounds=y_bounds,
        has_intercept=has_intercept,
        _columns=tuple(columns),
        _response=response,
        _declared=declared,
    )


def _matrix(columns: Sequence[Column], table: DeclaredTable) -> NDArray[np.float64]:
    X = np.empty((len(columns[0].of(table).values) if columns else len(table), len(columns)))
    for j, column in enumerate(columns):
        X[:, j] = column.of(table).values
    return X


def _bounds(column: Column | Number, empty: DeclaredTable) -> tuple[float, float]:
    span = column.of(empty)
    if not 0 < span.high - span.low < math.inf:
        got = f"{show(column.text)} within [{span.low:g}, {span.high:g}]"
        raise refuse("formula", got=got, allowed="have columns that vary within finite bounds")
    return span.low, span.high


def _terms(formula: Any) -> tuple[list[Any] | None, list[Any]]:
    """Return formulaic's terms of the left side (None without one), and of the right side ordered by degree."""
    if not isinstance(formula, str):
        raise refuse("formula", given=formula, allowed="a str")
    try:
        from formulaic.parser import DefaultFormulaParser
    except ImportError:
        raise DPStatsError("formulas need formulaic: pip install 'dpstats[formula]'") from None
    try:
        sides = DefaultFormulaParser().get_terms(formula)
    except Exception as error:
        # The reason quotes the formula, which is not shown if it is long.
        shown = show(formula)
        why = f": {str(error).splitlines()[0].split('. ')[0]}" if shown[0] in "'\"" else ""
        raise refuse("formula", got=f"{shown}{why}", allowed="like 'y ~ x + C(plan)'") from None
    left = getattr(sides, "lhs", None)
    right = sides.root if left is None else sides.rhs
    if isinstance(left, tuple) or isinstance(right, tuple):
        raise refuse("formula", given=formula, allowed="like 'y ~ x + C(plan)', without |")
    return None if left is None else list(left), sorted(right, key=lambda term: term.degree)


def _response(terms: list[Any], declared: Declared) -> Number:
    factors = [factor for term in terms for factor in term.factors]
    one = len(factors) == 1 and factors[0].expr != "1"
    part = read_response(factors[0], declared) if one else None
    if part is None:
        written = " + ".join(map(str, terms))
        raise refuse("formula", given=written, allowed="have one number as its response")
    return part
