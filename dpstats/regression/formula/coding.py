"""The columns of terms: products of numbers and of factors in treatment coding, with full rank."""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats.data.levels import Categories
from dpstats.errors import InvalidParameter, refuse, show, show_names
from dpstats.regression.formula.declared import (
    Declared,
    DeclaredTable,
    are_truths,
    empty_table,
    is_truth,
)
from dpstats.regression.formula.expressions import Span, applied, evaluate, expression
from dpstats.regression.formula.splines import Spline, SplineColumn, read_spline


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
        tree = read_argument(expression(self.source))
        if isinstance(tree, ast.Name):
            codes, low, high = table.codes(tree.id), 0.0, 1.0
        else:
            condition = evaluate(tree, table.number)
            codes = condition.values
            # A condition that holds for all numbers within bounds, or for none, gives constants.
            low, high = sorted(float(end == self.code) for end in (condition.low, condition.high))
        return Span(low, high, np.where(np.isnan(codes), np.nan, codes == self.code))


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
                raise refuse(
                    "levels",
                    got=f"levels of {show_names(levels)}",
                    allowed=f"have the categories of {show(name)}",
                    remedy=f"Declare levels={{{show(name)}: [...]}}",
                )
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
    while (
        isinstance(tree, ast.Call)
        and isinstance(tree.func, ast.Name)
        and tree.func.id in ("C", "I")
        and tree.args
    ):
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
