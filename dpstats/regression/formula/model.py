"""Formulas: what they mean by public declarations alone, and the design that each row of a table becomes by itself.

formulaic parses a formula into terms. What these are made of is read here: formulaic would take levels, means and knots
from the data, and evaluate Python in which a row may look at others.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import DPStatsError, InvalidParameter
from dpstats.regression.formula.coding import Column, Number, columns_of, part_of
from dpstats.regression.formula.declared import Declared, Table, check_declared, listed


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """What is public about a formula, and how a row of a table becomes a row of its design; made by `parse`.

    Attributes
    ----------
    text : str
        The formula as it was given.
    response : str or None
        Its left side; None where there is none.
    names : tuple of str, length d
        The columns of the design without the intercept, named and ordered as formulaic does.
    x_bounds : array of shape (d, 2)
        Where each column is while the numbers it is made of are within their declared bounds.
    y_bounds : array of shape (2,) or None
        The same of the response; None without one, and for a column without declared bounds (a classification needs
        none).
    has_intercept : bool
        Whether there is an intercept beside these columns.

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

    def rows(self, data: Any) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Return the design of a private table, and its response (None for a formula without one).

        A row of them is made of the same row of ``data`` alone. It is NaN where it takes a number that is missing or
        infinite. A number outside its declared bounds stays what it is, alone and in interactions; before a transform
        (``log(x)``, ``I(x**2)``) it is clipped to them, so that nothing undefined comes out.

        Parameters
        ----------
        data : data frame (pandas, polars, pyarrow), or mapping of str to 1-d sequence
            Only the columns that the formula names are read.

        Returns
        -------
        X : float64 array of shape (n, d)
        y : float64 array of shape (n,), or None

        Raises
        ------
        InvalidData
            If a column is not there or cannot be read, or a row is in no declared level of a factor. That refusal
            itself tells that there is such a row, though not what it holds: declare whatever may occur, None for a
            missing category.
        """
        table = Table(self._declared, data)
        y = None if self._response is None else self._response.of(table).values
        return _matrix(self._columns, table), y

    def predictors(self, data: Any) -> NDArray[np.float64]:
        """Return the design alone, as `rows` does, of a table that need not have the response."""
        return _matrix(self._columns, Table(self._declared, data))


def parse(
    formula: str,
    *,
    bounds: Mapping[str, tuple[float, float]],
    levels: Mapping[str, Sequence[Any]] | None = None,
) -> Formula:
    """Return what a formula means, from public declarations alone.

    Parameters
    ----------
    formula : str
        ``response ~ terms`` with the operators of formulaic and R: ``+``, ``-``, ``:``, ``*``, ``/``, ``**``, and
        ``-1`` or ``+0`` for no intercept. A name that is none of Python's is in backquotes.

        A column in ``C()``, or with levels and no bounds, is a factor in treatment coding. Its reference is its first
        level, or that of ``C(x, contr.treatment("b"))``, and has a column too where nothing before it stands for it
        (without an intercept, say).

        Transforms, of the response too: ``log``, ``log1p``, ``exp``, ``sqrt``, ``square``, ``abs`` (also
        ``np.log``), and in them or in ``I()`` numbers, ``+ - * /`` and powers from 1 to 20.
    bounds : mapping of str to (low, high)
        The public bounds of every number.
    levels : mapping of str to sequence, optional
        The public categories of every factor, two at least.

    Raises
    ------
    InvalidParameter
        If the formula cannot be read, names a column without bounds or levels, would have its columns from the data
        (``scale``, ``bs``, ``poly``), or has a column that is constant or not finite between the bounds, by interval
        arithmetic (which gives ``I(x - x)`` the width of x twice).
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
    declared = check_declared(bounds, levels)
    columns = columns_of(right, declared)
    names = tuple(column.text for column in columns)
    if not names or len(set(names)) < len(names):
        raise InvalidParameter(
            f"formula must give columns with different names, got {formula!r}, which gives {listed(names)}"
        )
    # The bounds of a column are those that it has in a table without rows.
    empty = Table(declared, dict.fromkeys([*declared.bounds, *declared.levels], ()))
    x_bounds = np.array([_bounds(column, empty) for column in columns])
    response = None if left is None else _response(left, declared)
    y_bounds = None
    if response is not None and (not response.is_column or response.text in declared.bounds):
        y_bounds = np.array(_bounds(response, empty))
    elif response is not None:
        declared = Declared({**declared.bounds, response.text: (-math.inf, math.inf)}, declared.levels)
    return Formula(
        text=formula,
        response=None if response is None else response.text,
        names=names,
        x_bounds=x_bounds,
        y_bounds=y_bounds,
        has_intercept=any(term.degree == 0 for term in right),
        _columns=tuple(columns),
        _response=response,
        _declared=declared,
    )


def _matrix(columns: Sequence[Column], table: Table) -> NDArray[np.float64]:
    X = np.empty((len(columns[0].of(table).values), len(columns)))
    for j, column in enumerate(columns):
        X[:, j] = column.of(table).values
    return X


def _bounds(column: Column | Number, empty: Table) -> tuple[float, float]:
    span = column.of(empty)
    if not 0 < span.high - span.low < math.inf:
        raise InvalidParameter(
            f"formula must have columns that vary within finite bounds, got {column.text!r} within "
            f"[{span.low:g}, {span.high:g}]"
        )
    return span.low, span.high


def _terms(formula: Any) -> tuple[list[Any] | None, list[Any]]:
    """Return formulaic's terms of the left side, None without one, and of the right side by their degree."""
    if not isinstance(formula, str):
        raise InvalidParameter(f"formula must be a str, got {reprlib.repr(formula)}")
    try:
        from formulaic.parser import DefaultFormulaParser
    except ImportError:
        raise DPStatsError("formulas need formulaic: pip install 'dpstats[formula]'") from None
    try:
        sides = DefaultFormulaParser().get_terms(formula)
    except Exception as error:
        why = str(error).split("\n")[0].split(". ")[0]
        raise InvalidParameter(f"formula must be like 'y ~ x + C(plan)', got {formula!r}: {why}") from None
    left = getattr(sides, "lhs", None)
    right = sides.root if left is None else sides.rhs
    if isinstance(left, tuple) or isinstance(right, tuple):
        raise InvalidParameter(f"formula must be like 'y ~ x + C(plan)', without |, got {formula!r}")
    return None if left is None else list(left), sorted(right, key=lambda term: term.degree)


def _response(terms: list[Any], declared: Declared) -> Number:
    factors = [factor for term in terms for factor in term.factors]
    one = len(factors) == 1 and factors[0].expr != "1"
    part = part_of(factors[0], declared) if one else None
    if not isinstance(part, Number):
        written = " + ".join(map(str, terms))
        raise InvalidParameter(f"formula must have one number as its response, got {written!r}")
    return part
