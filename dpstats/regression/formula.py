"""Formulas with public declarations: their terms, the columns of the design, and the design row of each table row."""

from __future__ import annotations

import ast
import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.opening import stated_shape
from dpstats.data.parameters import unit_of
from dpstats.data.rows import NO_CODES, MissingCodes, Rows, Table
from dpstats.data.schema import Categories, Schema, Source
from dpstats.data.values import as_int64
from dpstats.errors import DPStatsError, InvalidParameter, refuse, refuse_data, show, show_names
from dpstats.mechanisms.unknown_bounds import is_unknown
from dpstats.regression.formula_columns import (
    Declared,
    DeclaredTable,
    Span,
    Spline,
    SplineColumn,
    applied,
    are_truths,
    check_declared,
    empty_table,
    evaluate,
    expression,
    is_truth,
    open_table,
    read_spline,
)

__all__ = ["Formula", "FormulaRows", "parse"]


# Columns of terms: products of numbers and of factors in treatment coding, with full rank


@dataclass(frozen=True, slots=True)
class Number:
    """A column of the table, or an expression of several."""

    text: str
    source: str

    @property
    def column(self) -> str | None:
        """The name of the column, or None for an expression."""
        tree = expression(self.source)
        return tree.id if isinstance(tree, ast.Name) else None

    def of(self, table: DeclaredTable) -> Span:
        return evaluate(expression(self.source), table.number)


@dataclass(frozen=True, slots=True)
class Indicator:
    """Indicator of one level of a factor: 1 for a row in the level, 0 for another level, NaN for a missing one."""

    text: str
    source: str
    code: int

    def of(self, table: DeclaredTable) -> Span:
        tree = _read_source(self.source)
        if isinstance(tree, ast.Name):
            codes, low, high = table.codes(tree.id), 0.0, 1.0
        else:
            condition = evaluate(tree, table.number)
            codes = condition.values
            # A condition that holds for all numbers within bounds, or for none, gives constants.
            low, high = sorted(float(end == self.code) for end in (condition.low, condition.high))
        return Span(low, high, np.where(np.isnan(codes), np.nan, codes == self.code))


def _read_source(source: str) -> ast.expr:
    """Return the expression of a factor: a name of a column of labels, or a condition."""
    return read_argument(expression(source))


@dataclass(frozen=True, slots=True)
class Factor:
    """A column of categories, or a condition with the levels False and True, in treatment coding.

    Factors of one ``name`` have the same values.
    """

    text: str
    name: str
    source: str
    levels: tuple[Any, ...]
    reference: int

    def indicators(self, every: bool) -> list[Indicator]:
        mark = "" if every else "T."
        return [
            Indicator(f"{self.text}[{mark}{level}]", self.source, code)
            for code, level in enumerate(self.levels)
            if every or code != self.reference
        ]


@dataclass(frozen=True, slots=True)
class Column:
    """A product of numbers, basis functions and indicators, of a term of the formula."""

    parts: tuple[Number | SplineColumn | Indicator, ...]
    term: str

    @property
    def text(self) -> str:
        return ":".join(part.text for part in self.parts)

    @property
    def single(self) -> str | None:
        """The name of the column of the table that it is, or None for another product."""
        return self.parts[0].column if len(self.parts) == 1 and isinstance(self.parts[0], Number) else None

    def of(self, table: DeclaredTable) -> Span:
        times = functools.partial(applied, self.text, np.multiply)
        return functools.reduce(times, [part.of(table) for part in self.parts])


def list_columns(terms: list[Any], declared: Declared) -> list[Column]:
    """Return the columns of the terms, without those that earlier columns span for any data.

    The indicators of a factor add up to 1. So a term spans one part for each subset of its factors: the interaction
    of the subset in treatment coding. A term keeps the parts that no earlier term has.
    """
    columns: list[Column] = []
    spanned: set[tuple[frozenset[str], frozenset[str]]] = set()
    for term in terms:
        parts = [read_part(factor, declared) for factor in term.factors if factor.expr != "1"]
        numbers = frozenset(part.text for part in parts if not isinstance(part, Factor))
        factors = {part.name: part for part in parts if isinstance(part, Factor)}
        subsets = [some for size in range(len(factors) + 1) for some in itertools.combinations(factors, size)]
        new = [subset for subset in subsets if (numbers, frozenset(subset)) not in spanned]
        spanned |= {(numbers, frozenset(subset)) for subset in new}
        for coding in _joined(new) if parts else []:
            choices: list[Sequence[Number | SplineColumn | Indicator]] = []
            for part in parts:
                match part:
                    case Factor(name=name) if name in coding and part is factors[name]:
                        choices.append(part.indicators(coding[name]))
                    case Spline():
                        choices.append(part.columns)
                    case Number():
                        choices.append([part])
            # The levels of the first factor change fastest.
            name = ":".join(part.text for part in parts)
            columns += [Column(choice[::-1], name) for choice in itertools.product(*reversed(choices))]
    return columns


def _joined(subsets: Iterable[tuple[str, ...]]) -> list[dict[str, bool]]:
    """Return fewer interactions with the same span. Each says, by factor, whether every level has a column."""
    codings = [dict.fromkeys(subset, False) for subset in subsets]
    while True:
        for short, long in itertools.permutations(codings, 2):
            more = dict(long.items() - short.items())
            if len(short) == len(long) - 1 and list(more.values()) == [False]:
                break
        else:
            return codings
        # Together these two have every level of one factor: the first lacks only its reference level.
        codings.remove(short)
        long |= dict.fromkeys(more, True)


def read_part(factor: Any, declared: Declared) -> Number | Spline | Factor:
    """Return a formulaic factor, that is anything multiplied in a term, as a number, a spline or a factor."""
    text, kind = factor.expr, factor.eval_method.value
    if kind == "literal":
        raise refuse("formula", got=text, allowed="have no numbers but 0 and 1 outside of I()")
    source = f"`{text}`" if kind == "lookup" else text
    tree, levels = expression(source), declared.levels
    coding: list[ast.expr] = []
    match tree:
        case ast.Call(func=ast.Name(id="bs")) as call:
            return read_spline(text, call)
        case ast.Name(id=name):
            if name not in levels or (name in declared.bounds and not is_truth(declared, name)):
                return Number(text, source)
        case ast.Call(func=ast.Name(id="C"), args=[ast.Name(id=name), *coding], keywords=[]):
            if name not in levels:
                raise declared.refuse(name, "levels")
        case ast.Call(func=ast.Name(id="C"), args=[condition, *coding], keywords=[]):
            if not _is_truth(condition, declared):
                return Number(text, source)
        case _ if not _is_truth(tree, declared):
            return Number(text, source)
    coded = read_argument(tree)
    categories = levels[coded.id] if isinstance(coded, ast.Name) else Categories((False, True))
    return Factor(text, ast.dump(coded), source, categories.values, _reference(coding, categories))


def read_response(factor: Any, declared: Declared) -> Number | None:
    """Return a formulaic factor as the number of each row, or None for a spline or a factor of categories."""
    part = read_part(factor, declared)
    if isinstance(part, Factor) and are_truths(part.levels):
        return Number(part.text, part.source)
    return part if isinstance(part, Number) else None


def read_argument(tree: ast.expr) -> ast.expr:
    """Return the column or the condition that C() and I() enclose."""
    while isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in ("C", "I") and tree.args:
        tree = tree.args[0]
    return tree


def _is_truth(tree: ast.expr, declared: Declared) -> bool:
    """Return whether an expression is a condition. The declarations decide."""
    try:
        return evaluate(tree, empty_table(declared).number).truth
    except InvalidParameter:  # raised again where the expression is evaluated as a number
        return False


def _reference(coding: list[ast.expr], levels: Categories) -> int:
    """Return the code of the level in ``contr.treatment(level)``. Without it, return the code of the first level."""
    code = -1 if coding else 0
    match coding:
        case [ast.Call(func=function, args=args, keywords=keywords)] if ast.unparse(function) in _CODINGS:
            base = [*args, *(keyword.value for keyword in keywords)]
            if len(base) == 1 and isinstance(base[0], ast.Constant):
                code = int(levels.codes([base[0].value])[0])
    if code < 0:
        raise refuse(
            "C()",
            got=", ".join(map(ast.unparse, coding)),
            allowed="have the name of a column, and after it nothing or contr.treatment(level) with one of the levels "
            f"{show_names(levels.values)}",
        )
    return code


_CODINGS = ("contr.treatment", "Treatment")


# Cells of factors: the columns that depend on factors only, and the cell of each row


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
            codes = table.codes(tree.id) if isinstance(tree, ast.Name) else evaluate(tree, table.number).values
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
        np.all([cells[name] == code for name, code in own.items()], axis=0).astype(np.float64) for own in codes.values()
    ]
    is_factor = np.array([column.text in codes for column in columns])
    return FormulaCells(factors, np.stack(values, axis=1), is_factor, trees)


# Formulas

# formulaic parses a formula into terms. This package evaluates the terms itself. formulaic would take levels, means and
# knots from the data, and would evaluate Python code in which a row may use other rows.


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
    x_bounds : array of shape (d, 2), or list
        Bounds of each column if the numbers it is built from are within their declared bounds. A list has a pair or
        "private" for each column, if a fit chooses some.
    y_bounds : array of shape (2,), "private" or None
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
    x_bounds: Any
    y_bounds: Any
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
    def has_labels(self) -> bool:
        """Whether a column depends on labels, so that a row may have an undeclared one."""
        sources = {part.source for column in self._columns for part in column.parts if isinstance(part, Indicator)}
        names = [tree.id for tree in map(_read_source, sources) if isinstance(tree, ast.Name)]
        return any(not is_truth(self._declared, name) for name in names)

    @property
    def two_valued(self) -> tuple[bool, ...]:
        """Whether each column is 0 or 1: an indicator of levels."""
        return tuple(all(isinstance(part, Indicator) for part in column.parts) for column in self._columns)

    def rows(
        self, data: Any, codes: MissingCodes = NO_CODES, drop: bool = False, labels: bool = False, fit: bool = False
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
        drop : bool, default=False
            Whether rows with a missing number are left out. A row without a declared level then raises an error, unless
            ``labels`` leaves it out too.
        labels : bool, default=False
            Whether rows without a declared level of a factor are left out. A missing number then raises an error,
            unless ``drop`` leaves it out too. Otherwise an undeclared level raises an error.
        fit : bool, default=False
            Whether missing entries of rows that are not left out raise an error.

        Returns
        -------
        X : float64 array of shape (n, d)
        y : float64 array of shape (n,), or None

        Raises
        ------
        InvalidData
            If a column is missing or cannot be read, or if a row has an undeclared level of a factor. The error
            reveals that such a row exists, but not its value. To avoid it, set ``labels``.
        """
        table = DeclaredTable(self._declared, data, codes, drop, labels, fit)
        y = None if self._response is None else self._response.of(table).values
        return _matrix(self._columns, table), y

    def predictors(
        self, data: Any, codes: MissingCodes = NO_CODES, drop: bool = False, labels: bool = False
    ) -> NDArray[np.float64]:
        """Return the design as `rows` does, without the response. The table need not have a response column."""
        if not self._columns:
            first = next(iter(data.values()), ()) if isinstance(data, Mapping) else data
            return np.empty((len(first), 0))
        return _matrix(self._columns, DeclaredTable(self._declared, data, codes, drop, labels))

    def find_cells(self, most: int) -> FormulaCells | None:
        """Return the cells of the factors, or None if the design does not consist of factors and columns of numbers."""
        return find_cells(self._columns, self._declared, most)

    def split_rows(
        self,
        cells: FormulaCells,
        data: Any,
        codes: MissingCodes = NO_CODES,
        drop: bool = False,
        labels: bool = False,
        fit: bool = False,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, NDArray[np.int64]]:
        """Return the columns of numbers of a private table, its response, and the code of the cell of each row."""
        table = DeclaredTable(self._declared, data, codes, drop, labels, fit)
        y = None if self._response is None else self._response.of(table).values
        numbers = [column for column, factor in zip(self._columns, cells.is_factor, strict=True) if not factor]
        return _matrix(numbers, table), y, cells.codes(table)

    def smallest_share(self, names: Iterable[str], default: float) -> float:
        """Return the smallest declared fraction of a level of some factors, or a default if one is unknown."""
        shares = [self._declared.shares.get(name, default) for name in names]
        return min(shares, default=default)


def parse(
    formula: str, *, bounds: Mapping[str, Any], levels: Mapping[str, Sequence[Any]] | None = None, data: Any = None
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
        Public bounds of every numeric column. "private" in place of a pair lets the fit choose them, for a column that
        is a separate term or the response.
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
    found = [_bounds(column, column.single, declared, empty) for column in columns]
    x_bounds = found if any(map(is_unknown, found)) else np.array(found).reshape(len(columns), 2)
    response = None if left is None else _response(left, declared)
    y_bounds = None
    column = None if response is None else response.column
    if response is not None and (column is None or column in declared.bounds or is_truth(declared, column)):
        y_bounds = _bounds(response, column, declared, empty)
        y_bounds = y_bounds if is_unknown(y_bounds) else np.array(y_bounds)
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


def _bounds(column: Column | Number, single: str | None, declared: Declared, empty: DeclaredTable) -> Any:
    """Return the bounds of a column, or the request for the bounds of a column that is a whole term."""
    if single is not None and single in declared.requests:
        return declared.requests[single]
    span = column.of(empty)
    if not 0 < span.high - span.low < math.inf:
        got = f"{show(column.text)} within [{span.low:g}, {span.high:g}]"
        raise refuse("formula", got=got, allowed="have columns that vary within finite bounds")
    return span.low, span.high


_REMEDIES = {
    "as.factor(": "Write C(x) for as.factor(x).",
    "`.` operator": "Name each column: 'y ~ x + z'.",
    "String literals": "Write names of columns without quotes, or as Q('a name').",
}
"""Remedies by a part of the formula, or of its parser's message."""


def _terms(formula: Any) -> tuple[list[Any] | None, list[Any]]:
    """Return formulaic's terms of the left side (None without one), and of the right side ordered by degree."""
    if not isinstance(formula, str):
        remedy = "The formula comes first: from_formula(formula, data)."
        raise refuse("formula", given=formula, allowed="a str", remedy=remedy)
    try:
        from formulaic.parser import DefaultFormulaParser
    except ImportError:
        raise DPStatsError("formulas need formulaic: pip install 'dpstats[formula]'") from None
    sides: Any = None
    reason = ""
    try:
        sides = DefaultFormulaParser().get_terms(formula)
    except Exception as error:
        reason = str(error).split("\n")[0].split(". ")[0].rstrip(".")
    if sides is None:
        # The reason quotes the formula, which is not shown if it is long: nor as the context of the error.
        shown = show(formula)
        why = f": {reason}" if shown[0] in "'\"" else ""
        remedy = next((words for sign, words in _REMEDIES.items() if sign in reason or sign in formula), "")
        raise refuse("formula", got=f"{shown}{why}", allowed="like 'y ~ x + C(plan)'", remedy=remedy)
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
        remedy = "Of a column of labels, take a condition: data['cured'] = data['state'] == 'cured'."
        raise refuse("formula", given=written, allowed="have one number as its response", remedy=remedy)
    return part


# Rows of a formula's design, as a source that reads no data before a fit requests them


class FormulaRows(Source):
    """Private rows of a table, as the design and the response of a formula.

    Parameters
    ----------
    formula : Formula
    data : data frame, or mapping of columns
    cells : FormulaCells, optional
        Read factors as the cell of each row, instead of as columns.
    labels : bool, default=False
        Leave out rows with an undeclared level. Otherwise they raise an error.

    Examples
    --------
    >>> from dpstats.data import Schema
    >>> from dpstats.regression.formula import FormulaRows, parse
    >>> formula = parse("y ~ x", bounds={"x": (0, 1), "y": (0, 2)})
    >>> FormulaRows(formula, {"x": [0.1, 0.2], "y": [1.0, 2.0]}).size(Schema())
    (2, 1)
    """

    def __init__(self, formula: Formula, data: Any, cells: FormulaCells | None = None, labels: bool = False) -> None:
        self._formula, self._data, self._cells, self._labels = formula, data, cells, labels
        self.unit = unit_of(data)
        self.about = f"{formula.text}: {list(formula.names)}"

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
        how = schema.codes, schema.missing == "drop", self._labels, True
        if self._cells is None:
            X, response = self._formula.rows(self._data, *how)
        else:
            X, response, groups = self._formula.split_rows(self._cells, self._data, *how)
            beside = {"groups": groups}
        beside |= {
            part.role: part.read(response if part.name is None else named(part.name), schema.missing, schema.codes)
            for part in schema.beside
        }
        return Table(X, **beside)
