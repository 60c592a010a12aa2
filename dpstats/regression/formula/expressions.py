"""Expressions of columns with declared bounds: their values row by row, and an interval that contains these values.

To bound a function, evaluate it at the endpoints of its arguments' intervals and at their points nearest to zero.
This is sufficient because every supported function is monotone on either side of zero. If it is infinite or undefined
anywhere, it is so at one of these points.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_integer, check_real
from dpstats.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class Span:
    """A number for each row, and the interval that contains it if the columns it is built from are within bounds."""

    low: float
    high: float
    values: NDArray[np.float64]

    def clipped(self) -> Span:
        """Return the span with every number clipped to the interval. NaN stays."""
        return Span(self.low, self.high, np.clip(self.values, self.low, self.high))


def expression(source: str) -> ast.expr:
    """Parse a Python expression in which backquotes may enclose the name of a column."""
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
    return tree


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
        case ast.BinOp(left=base, op=ast.Pow(), right=ast.Constant(value=exponent)):
            power = check_integer("a power in formula", exponent, at_least=1, at_most=20)
            # Multiply repeatedly: products round in one way only, and no library's pow promises this.
            function, arguments = lambda x: functools.reduce(np.multiply, [x] * power), [base]
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATIONS:
            function, arguments = _OPERATIONS[type(operation)], [left, right]
        case ast.Call(func=called, args=[argument], keywords=[]) if _name(called) in _FUNCTIONS:
            function, arguments = _FUNCTIONS[_name(called)], [argument]
        case _:
            raise InvalidParameter(_refusal(node))
    # Clip the result, because exp and log may round a number out of the interval.
    return applied(ast.unparse(node), function, *(_evaluate(one, column) for one in arguments)).clipped()


def applied(text: str, function: Callable[..., Any], *spans: Span) -> Span:
    """Return a function of spans. Messages call it ``text``.

    Numbers outside the intervals stay outside, and finite numbers stay finite.
    """
    points = [(span.low, min(max(span.low, 0.0), span.high), span.high) for span in spans]
    with np.errstate(all="ignore"):
        ends = [float(function(*map(np.float64, point))) for point in itertools.product(*points)]
        values = function(*(span.values for span in spans))
    if not all(map(math.isfinite, ends)):
        raise InvalidParameter(f"formula must be finite for all numbers within bounds, which {text} is not")
    return Span(min(ends) + 0.0, max(ends) + 0.0, np.clip(values, -_LARGEST, _LARGEST))


def _name(function: ast.expr) -> str:
    return ast.unparse(function).removeprefix("np.")


def _refusal(node: ast.expr) -> str:
    text, name = ast.unparse(node), _name(node.func) if isinstance(node, ast.Call) else ""
    if name in _OF_ALL_ROWS:
        return (
            f"formula must not have {name}(), which would be made of all rows, which are private: write it with "
            f"public numbers, as I((x - 40) / 10), got {text}"
        )
    return (
        "formula may have numbers, columns (`in backquotes` if need be), + - * /, powers and, of one argument, "
        f"{', '.join(_FUNCTIONS)} in its expressions, got {text}"
    )


_LARGEST = float(np.finfo(np.float64).max)
_OF_ALL_ROWS = ("center", "scale", "standardize", "poly", "bs", "cs", "cr", "cc", "te", "ns", "lag", "rank")
_OPERATIONS: dict[type[ast.operator], Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "I": np.positive,
    "log": np.log,
    "log1p": np.log1p,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "square": np.square,
    "abs": np.abs,
}
