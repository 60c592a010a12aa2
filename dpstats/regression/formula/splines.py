"""B-splines with public knots: each basis function of a row depends on this row and public numbers only."""

from __future__ import annotations

import ast
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_integer, check_real
from dpstats.errors import refuse, show
from dpstats.regression.formula.declared import DeclaredTable
from dpstats.regression.formula.expressions import Span, evaluate, expression


@dataclass(frozen=True, slots=True)
class SplineColumn:
    """One basis function of a B-spline. The bounds of its argument are the outer knots."""

    text: str
    source: str
    knots: tuple[float, ...]
    degree: int
    position: int

    def of(self, table: DeclaredTable) -> Span:
        call = expression(self.source)
        assert isinstance(call, ast.Call)
        x = evaluate(call.args[0], table.number).clipped()
        if not 0 < x.high - x.low < math.inf:
            raise refuse(
                "formula",
                got=f"{show(self.text)} of an argument within [{x.low:g}, {x.high:g}]",
                allowed="have splines of arguments with finite bounds",
            )
        if not all(x.low < knot < x.high for knot in self.knots):
            allowed = f"between the bounds of the argument, [{x.low:g}, {x.high:g}]"
            raise refuse("knots", got=f"others in {self.source}", allowed=allowed)
        outer = self.degree + 1
        every = (*[x.low] * outer, *self.knots, *[x.high] * outer)
        used = every[self.position : self.position + self.degree + 2]
        # Basis functions are nonnegative and add up to 1.
        return Span(0.0, 1.0, np.clip(basis_function(x.values, used, x.high), 0.0, 1.0))


@dataclass(frozen=True, slots=True)
class Spline:
    """All basis functions of a B-spline except the first, which the intercept makes redundant."""

    text: str
    columns: tuple[SplineColumn, ...]


def basis_function(x: NDArray[np.float64], knots: tuple[float, ...], last: float) -> NDArray[np.float64]:
    """Return the B-spline of these knots by the recursion of Cox and de Boor.

    Parameters
    ----------
    x : array
        Values up to ``last``. NaN stays.
    knots : tuple of float, length degree + 2
        Its knots in ascending order, at least two of them different.
    last : float
        The upper outer knot. The last interval includes it.
    """
    values: list[Any] = [
        ((low <= x) & ((x < high) | ((x == high) & (high == last) & (low < high)))).astype(np.float64)
        for low, high in itertools.pairwise(knots)
    ]
    for width in range(1, len(knots) - 1):
        values = [
            _fraction(x, knots[i], knots[i + width]) * values[i]
            + _fraction(x, knots[i + width + 1], knots[i + 1]) * values[i + 1]
            for i in range(len(values) - 1)
        ]
    return np.asarray(values[0], dtype=np.float64)


def _fraction(x: NDArray[np.float64], zero: float, one: float) -> Any:
    """Return the line that is 0 at one knot and 1 at another, or 0 if these are equal."""
    return 0.0 if zero == one else (x - zero) / (one - zero)


def read_spline(text: str, call: ast.Call) -> Spline:
    """Return the spline of ``bs(x, knots=[...], degree=3)``, or raise `InvalidParameter`."""
    options = {keyword.arg: keyword.value for keyword in call.keywords}
    if len(call.args) != 1 or "knots" not in options or not options.keys() <= {"knots", "degree"}:
        raise refuse(
            "bs()",
            got=text,
            allowed="have one argument, public knots, and maybe a degree, as bs(x, knots=[30, 50], degree=3)",
            remedy="Without knots, or with df, the knots would be made of all rows, which are private",
        )
    knots = _public_number("knots", options["knots"], text)
    if not isinstance(knots, list | tuple):
        raise refuse("knots", got=f"{show(knots)} in {text}", allowed="a list of numbers")
    knots = tuple(check_real(f"knots[{i}] in {text}", knot, of=knots) for i, knot in enumerate(knots))
    if any(low >= high for low, high in itertools.pairwise(knots)):
        raise refuse("knots", got=f"{list(knots)} in {text}", allowed="in ascending order, without ties")
    degree = _public_number("degree", options["degree"], text) if "degree" in options else 3
    degree = check_integer(f"degree in {text}", degree, at_least=1, at_most=5)
    return Spline(
        text,
        tuple(
            SplineColumn(f"{text}[{i}]", text, knots, degree, i) for i in range(1, len(knots) + degree + 1)
        ),
    )


def _public_number(name: str, node: ast.expr, text: str) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        raise refuse(name, got=f"{ast.unparse(node)} in {text}", allowed="public numbers") from None
