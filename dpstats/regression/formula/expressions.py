"""Expressions of columns with declared bounds: their values row by row, and an interval that contains these values.

To bound a function, evaluate it at the endpoints of its arguments' intervals and at their points nearest to zero.
This is sufficient because every supported function is monotone in each argument on either side of zero. If it is
infinite or undefined anywhere, it is so at one of these points. A truth value is the number 1 or 0, with an interval.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_integer, check_real
from dpstats.errors import InvalidParameter, refuse


@dataclass(frozen=True, slots=True)
class Span:
    """A number for each row, and the interval that contains it if the columns it is built from are within bounds.

    ``truth`` says whether the numbers are the truth values of a condition or of a declared column.
    """

    low: float
    high: float
    values: NDArray[np.float64]
    truth: bool = False

    def clipped(self) -> Span:
        """Return the span with every number clipped to the interval. NaN stays."""
        return replace(self, values=np.clip(self.values, self.low, self.high))


def expression(source: str) -> ast.expr:
    """Parse a Python expression in which backquotes, or ``Q("...")``, may enclose the name of a column."""
    stand_in = "name"
    while stand_in in source:
        stand_in += "_"
    names: dict[str, str] = {}

    def hide(match: re.Match[str]) -> str:
        if match[1] is None:  # text in quotes
            return match[0]
        return names.setdefault(match[1], f"{stand_in}{len(names)}")

    tree = ast.parse(re.sub(r"'[^']*'|\"[^\"]*\"|`([^`]*)`", hide, source).strip(), mode="eval").body
    quoted = {hidden: name for name, hidden in names.items()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = quoted.get(node.id, node.id)
    return _Quotes().visit(tree)  # type: ignore[no-any-return]


class _Quotes(ast.NodeTransformer):
    """Replace ``Q("name")`` by the column of this name."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        match self.generic_visit(node):
            case ast.Call(func=ast.Name(id="Q"), args=[ast.Constant(value=str(name))], keywords=[]):
                return ast.Name(name)
        return node


def evaluate(tree: ast.expr, column: Callable[[str], Span]) -> Span:
    """Return the values of an expression. Columns are clipped to their bounds before any operation.

    Raises
    ------
    InvalidParameter
        If the expression contains anything except numbers, columns, operations and functions of single rows. Also if
        it is not finite for all values within the bounds.
    """
    return column(tree.id) if isinstance(tree, ast.Name) else _evaluate(tree, column)


def _evaluate(node: ast.expr, column: Callable[[str], Span]) -> Span:
    function: Callable[..., Any]
    match node:
        case ast.Name(id=name):
            return column(name).clipped()
        case ast.Constant(value=int() | float() as value):
            value = check_real("a number in formula", value)
            return Span(value, value, np.array(value))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            function, arguments = np.negative, [operand]
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            function, arguments = _negate, [operand]
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _LOGICAL:
            function, arguments = _LOGICAL[type(operation)], [left, right]
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as comparison], comparators=[right]):
            both = [ast.Compare(left, [one], [right]) for one in (ast.LtE(), ast.GtE())]
            equal = applied(ast.unparse(node), np.minimum, *(_evaluate(one, column) for one in both))
            equal = equal if isinstance(comparison, ast.Eq) else applied(ast.unparse(node), _negate, equal)
            return replace(equal, truth=True)
        case ast.Compare(left=left, ops=[comparison], comparators=[right]) if (
            type(comparison) in _COMPARISONS
        ):
            function, arguments = _COMPARISONS[type(comparison)], [left, right]
        case ast.BinOp(left=base, op=ast.Pow(), right=ast.Constant(value=exponent)):
            power = check_integer("a power in formula", exponent, at_least=1, at_most=20)
            # Multiply repeatedly: products round in one way only, and no library's pow promises this.
            function, arguments = lambda x: functools.reduce(np.multiply, [x] * power), [base]
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATIONS:
            function, arguments = _OPERATIONS[type(operation)], [left, right]
        case ast.Call(func=called, args=[argument], keywords=[]) if _name(called) in _FUNCTIONS:
            function, arguments = _FUNCTIONS[_name(called)], [argument]
        case ast.Call(func=called, args=[left, right], keywords=[]) if _name(called) in _FUNCTIONS_OF_TWO:
            function, arguments = _FUNCTIONS_OF_TWO[_name(called)], [left, right]
        case ast.Call(func=called, args=[condition, yes, no], keywords=[]) if _name(called) == "where":
            function, arguments = _choose, [condition, yes, no]
        case _:
            raise _refuse_expression(node)
    spans = [_evaluate(one, column) for one in arguments]
    truth = _is_truth(node, function, [span.truth for span in spans])
    # Clip the result, because exp and log may round a number out of the interval.
    return replace(applied(ast.unparse(node), function, *spans), truth=truth).clipped()


def applied(text: str, function: Callable[..., Any], *spans: Span) -> Span:
    """Return a function of spans. Messages call it ``text``.

    Numbers outside the intervals stay outside, and finite numbers stay finite.
    """
    points = [(span.low, min(max(span.low, 0.0), span.high), span.high) for span in spans]
    with np.errstate(all="ignore"):
        ends = [float(function(*map(np.float64, point))) for point in itertools.product(*points)]
        values = function(*(span.values for span in spans))
    if not all(map(math.isfinite, ends)):
        raise refuse("formula", allowed=f"finite for all numbers within bounds, which {text} is not")
    return Span(min(ends) + 0.0, max(ends) + 0.0, np.clip(values, -_LARGEST, _LARGEST))


def _is_truth(node: ast.expr, function: Callable[..., Any], truths: list[bool]) -> bool:
    """Return whether numpy's result is a truth value, by the arguments that are. Refuse arguments of another kind."""
    conditions = truths[:1] if function is _choose else truths
    if function in _OF_CONDITIONS and not all(conditions):
        raise _refuse_expression(node)
    if function is np.add and all(truths):
        raise refuse(
            "formula",
            got=ast.unparse(node),
            allowed="not add two conditions: numpy and statsmodels take their sum for 'or'. Write | for 'or', and "
            "(1 * condition + 1 * condition) for the number of those that hold",
        )
    if function is _choose:
        return all(truths[1:])
    return function in _COMPARISONS.values() or (function in _KEEP_TRUTH and all(truths))


def _compare(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a comparison as a number: 1 if it holds, 0 if not, NaN if a side is missing."""
    return lambda left, right: np.where(np.isnan(left) | np.isnan(right), np.nan, function(left, right))


def _choose(condition: Any, where_true: Any, where_false: Any) -> Any:
    return np.where(np.isnan(condition), np.nan, np.where(condition != 0, where_true, where_false))


def _negate(condition: Any) -> Any:
    return 1.0 - condition


def _name(function: ast.expr) -> str:
    return ast.unparse(function).removeprefix("np.")


def _refuse_expression(node: ast.expr) -> InvalidParameter:
    name = _name(node.func) if isinstance(node, ast.Call) else ""
    if name in _OF_ALL_ROWS:
        allowed = (
            f"not have {name}(), which would be made of all rows, which are private: write it with public numbers, as "
            "I((x - 40) / 10) or bs(x, knots=[30, 50])"
        )
    elif name == "bs":
        allowed = "have bs() as a term or a part of an interaction, not in an expression"
    else:
        allowed = (
            "have only numbers, columns (`in backquotes` or Q('in quotes') if need be), + - * /, powers, conditions "
            "like (x > 1) & (z <= 2) with each comparison in brackets, where(condition, x, z), of two arguments "
            f"{', '.join(_FUNCTIONS_OF_TWO)}, and of one argument {', '.join(_FUNCTIONS)} in its expressions"
        )
    return refuse("formula", got=ast.unparse(node), allowed=allowed)


_LARGEST = float(np.finfo(np.float64).max)
_OF_ALL_ROWS = ("center", "scale", "standardize", "poly", "cs", "cr", "cc", "te", "ns", "lag", "rank")
_OPERATIONS: dict[type[ast.operator], Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[..., Any]] = {
    ast.Gt: _compare(np.greater),
    ast.GtE: _compare(np.greater_equal),
    ast.Lt: _compare(np.less),
    ast.LtE: _compare(np.less_equal),
}
_LOGICAL: dict[type[ast.operator], Callable[..., Any]] = {
    ast.BitAnd: lambda left, right: np.minimum(left, right),  # other functions than minimum(x, z) of numbers
    ast.BitOr: lambda left, right: np.maximum(left, right),
}
_OF_CONDITIONS = (_negate, _choose, *_LOGICAL.values())
_KEEP_TRUTH = (_negate, *_LOGICAL.values(), np.minimum, np.maximum, np.multiply, np.positive, np.abs)
"""Functions whose result is a truth value if all their arguments are: numpy decides."""
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "I": np.positive,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "exp": np.exp,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "square": np.square,
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
}
_FUNCTIONS_OF_TWO: dict[str, Callable[..., Any]] = {"minimum": np.minimum, "maximum": np.maximum}
