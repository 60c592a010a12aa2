"""Expressions and columns with declared bounds or levels: their values row by row, and bounds of these values."""

from __future__ import annotations

import ast
import functools
import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.columns import frame_of, in_memory, series_of
from dpstats.data.opening import check_indexes
from dpstats.data.parameters import check_integer, check_real, column_names
from dpstats.data.rows import NO_CODES, MissingCodes, column_of, refuse_undeclared
from dpstats.data.schema import Categories
from dpstats.data.values import is_missing
from dpstats.errors import InvalidParameter, nearest, refuse, refuse_data, refuse_name, show, show_names
from dpstats.mechanisms.unknown_bounds import is_unknown

# Expressions, and intervals that contain their values

# To bound a function, evaluate it at the endpoints of its arguments' intervals and at their points nearest to zero.
# This is sufficient because every supported function is monotone in each argument on either side of zero. If it is
# infinite or undefined anywhere, it is so at one of these points. A truth value is the number 1 or 0, with an
# interval.


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
        case ast.Compare(left=left, ops=[comparison], comparators=[right]) if type(comparison) in _COMPARISONS:
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
        unknown = any(math.isinf(span.low) for span in spans)
        remedy = "A column with bounds='private' must be a separate term. Declare (low, high)." if unknown else ""
        raise refuse("formula", allowed=f"finite for all numbers within bounds, which {text} is not", remedy=remedy)
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
    elif name in ("factor", "as.factor"):
        column = ", ".join(map(ast.unparse, node.args)) if isinstance(node, ast.Call) else "x"
        remedy = f"Write C({column}), and declare its levels: levels={{'{column}': [...]}}."
        return refuse("formula", got=ast.unparse(node), allowed="name a factor as C(column)", remedy=remedy)
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
_ROUNDING = 1e-9


# Columns: public facts about each, and reading it row by row


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    """The bounds of numeric columns and the levels of factors, by column name.

    ``shares`` has the smallest fraction of the rows that is declared for a level, for factors with such fractions.
    ``requests`` has the columns whose bounds a fit chooses from the rows. Here they are infinite.
    ``names`` has the columns of the data, if there are data.
    """

    bounds: Mapping[str, tuple[float, float]]
    levels: Mapping[str, Categories]
    shares: Mapping[str, float] = field(default_factory=dict)
    requests: Mapping[str, Any] = field(default_factory=dict)
    names: Sequence[str] = ()

    def refuse(self, name: str, parameter: str) -> InvalidParameter:
        """Return the error for a column of the formula that the data have not, or that has no bounds or levels."""
        if self.names and name not in self.names:
            return refuse_name("formula", name, self.names, of="data")
        declared, remedy = [key for key in self.levels if not is_truth(self, key)], f"levels={{{show(name)}: [...]}}"
        got, allowed = f"levels of {self._show(declared)}", f"have the categories of {show(name)}"
        if parameter == "bounds":
            got, allowed = f"bounds of {self._show(self.bounds)} and {got}", f"have the (low, high) of {show(name)}"
            remedy = f"bounds={{{show(name)}: (low, high)}}, or if it has labels {remedy}"
        return refuse(parameter, got=got, allowed=allowed, remedy=f"Declare {remedy}.")

    def _show(self, keys: Iterable[str]) -> str:
        """Return keys of a mapping. Keys that name no column of the data may be entries that were given by mistake."""
        return show_names(key if not self.names or key in self.names else "another" for key in keys)


def is_truth(declared: Declared, name: str) -> bool:
    """Return whether the declared levels of a column are False and True, in any order."""
    return name in declared.levels and are_truths(declared.levels[name].values)


def are_truths(levels: Sequence[Any]) -> bool:
    """Return whether the levels of a factor are False and True, in any order."""
    return len(levels) == 2 and all(isinstance(level, bool) for level in levels)


def check_declared(bounds: Any, levels: Any, data: Any = None) -> Declared:
    """Return the declarations, or raise `InvalidParameter`.

    The boolean columns of a data frame have the levels False and True, unless ``levels`` declares others.
    """
    levels = {} if levels is None else levels
    for name, value in (("bounds", bounds), ("levels", levels)):
        if not isinstance(value, Mapping):
            example = "bounds={'age': (0, 100)}" if name == "bounds" else "levels={'arm': ['old', 'new']}"
            remedy = f"Name the column of each: {example}."
            raise refuse(name, given=value, allowed="a mapping by the names of columns", remedy=remedy)
        if not all(isinstance(key, str) for key in value):
            raise refuse(name, allowed="have the names of columns as keys, which are text")
    requests = {key: pair for key, pair in bounds.items() if is_unknown(pair)}
    pairs = {
        key: (-math.inf, math.inf)
        if key in requests
        else _check_pair(f"the entry of bounds at position {place}", pair, bounds)
        for place, (key, pair) in enumerate(bounds.items())
    }
    known, shares = {}, {}
    names, read = ([], None) if data is None else open_table(data)
    for place, (key, values) in enumerate(levels.items()):
        # A key that names no column may be an entry that was given by mistake.
        entry = f"levels[{key!r}]" if key in names else f"the entry of levels at position {place}"
        known[key] = Categories(list(values) if isinstance(values, Mapping) else values, entry)
        if len(known[key]) < 2:
            raise refuse(entry, given=len(known[key]), allowed="two levels or more")
        if isinstance(values, Mapping):
            shares[key] = _check_shares(entry, values)
    boolean = {name: Categories((False, True)) for name in names if read is not None and _is_boolean(read(name))}
    for key in requests:
        if key in known or key in boolean:
            allowed = "not be 'private' for a factor or a column of truth values, which has levels"
            raise refuse(f"bounds[{key!r}]" if key in names else "bounds", allowed=allowed)
    return Declared(pairs, boolean | known, shares, requests, tuple(names))


def _is_boolean(column: Any) -> bool:
    """Return whether a column has a boolean type. The types of columns are public, their entries are not read."""
    import narwhals as nw

    kind = getattr(series_of(column), "dtype", getattr(column, "dtype", None))
    return bool(kind == nw.Boolean or (isinstance(kind, np.dtype) and kind == np.bool_))


def _check_pair(name: str, pair: Any, bounds: Mapping[Any, Any]) -> tuple[float, float]:
    pair = pair.tolist() if isinstance(pair, np.ndarray) else pair
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise refuse(name, got=f"bounds as {show(bounds)}", allowed="a pair (low, high), or 'private'")
    low, high = (check_real(f"{name}, side {side}", end, of=pair) for side, end in enumerate(pair))
    if not low < high:
        raise refuse(name, given=pair, allowed="have low < high")
    return low, high


def _check_shares(name: str, shares: Mapping[Any, Any]) -> float:
    """Return the smallest of the declared fractions of the levels of a factor, or raise an error."""
    found = [check_real(f"{name}, share {place}", share, above=0) for place, share in enumerate(shares.values())]
    if sum(found) > 1 + _ROUNDING:
        allowed = "have fractions of the rows that add up to at most 1"
        raise refuse(name, got=f"{sum(found):g}", allowed=allowed)
    return min(found)


class DeclaredTable:
    """The declared columns of private data. Each column is read at its first use.

    A missing number is NaN. ``drop`` leaves such rows out, and rows with an undeclared truth value. ``labels`` leaves
    rows out that have an undeclared level, or none: their entry is NaN. Without it an undeclared level raises an error.
    Rows of a ``fit`` that neither leaves out raise an error.

    Raises
    ------
    InvalidData
        If the data are not a table, or if a column is missing, cannot be read, or has a different length.
    """

    def __init__(
        self,
        declared: Declared,
        data: Any,
        codes: MissingCodes = NO_CODES,
        drop: bool = False,
        labels: bool = False,
        fit: bool = False,
    ) -> None:
        self._declared, self._read, self._missing = declared, open_table(data)[1], codes
        self._drop, self._labels, self._whole = drop, labels, fit or drop or labels
        self._length: int | None = None
        self.number = functools.cache(self._number)
        self.codes = functools.cache(self._codes)

    def __len__(self) -> int:
        """Return the number of rows of the columns that were read."""
        return self._length or 0

    def _number(self, name: str) -> Span:
        """Return a column of numbers, with NaN for missing and infinite entries."""
        bounds = self._declared.bounds
        if is_truth(self._declared, name):
            codes = self.codes(name)
            return Span(0.0, 1.0, codes if self._declared.levels[name].values[1] else 1.0 - codes, truth=True)
        if name not in bounds:
            raise self._declared.refuse(name, "bounds")
        values = column_of(f"data[{name!r}]", self._read(name), self._missing)
        self._check_length(name, len(values))
        if self._whole and not self._drop and not np.isfinite(values).all():
            remedy = "Set missing='drop' to leave out such rows. Removing them yourself breaks the guarantee."
            got = "at least one missing or infinite entry"
            raise refuse_data(f"data[{name!r}]", got=got, allowed="finite", remedy=remedy)
        return Span(*bounds[name], np.where(np.isfinite(values), values, np.nan))

    def _codes(self, name: str) -> NDArray[np.float64]:
        """Return the position of each row's level, NaN for a missing one without its own level."""
        levels = self._declared.levels[name]
        known = levels if any(map(is_missing, levels.values)) else Categories([*levels.values, None])
        what = f"data[{name!r}]"
        codes = known.codes(self._missing.clear_entries(what, self._read(name)), what)
        self._check_length(name, len(codes))
        inside = (codes >= 0) & (codes < len(levels))
        # Truth values follow the rule of numbers.
        truth = is_truth(self._declared, name)
        kept = self._drop if truth else self._labels
        refused = ~inside if self._whole else codes < 0
        if not kept and refused.any():
            option = "missing='drop'" if truth else "unknown='drop'"
            raise refuse_undeclared(f"data[{show(name)}]", "levels", option)
        return np.where(inside, codes, np.nan)

    def _check_length(self, name: str, length: int) -> None:
        if self._length not in (None, length):
            got = f"{length} rows of {show(name)} beside {self._length}"
            raise refuse_data("data", got=got, allowed="have columns of one length")
        self._length = length


def empty_table(declared: Declared) -> DeclaredTable:
    """Return a table without rows, in which the bounds of expressions can be read."""
    return DeclaredTable(declared, dict.fromkeys([*declared.bounds, *declared.levels], ()))


def open_table(data: Any) -> tuple[Sequence[str], Callable[[str], Any]]:
    """Return the names of the columns of a table, and the function that reads one."""
    data = in_memory(data)
    if isinstance(data, Mapping):
        check_indexes({f"data[{name!r}]": column for name, column in data.items()})
    names = list(data) if isinstance(data, Mapping) else column_names(data) or []
    if len(set(names)) < len(names):
        raise refuse_data("data", got=show_names(names), allowed="have a different name for every column")
    frame = frame_of(data) if names and not isinstance(data, Mapping) else None
    if frame is None and not isinstance(data, Mapping):
        kind = type(data)
        module = kind.__module__.partition(".")[0]
        found = kind.__name__ if module in ("builtins", "numpy") else f"{module}.{kind.__name__}"
        allowed = "a data frame in memory or a mapping of names to columns"
        remedy = "Read the file first, with pandas.read_csv(path)." if kind is str else "Collect it first."
        raise refuse_data("data", got=found, allowed=allowed, remedy=remedy)
    if frame is None and any(isinstance(column, str) or not hasattr(column, "__len__") for column in data.values()):
        # The keys may then be entries, and are not shown as names of columns.
        raise refuse_data("data", got="one to single entries", allowed="a mapping of names to columns")

    def read(name: str) -> Any:
        if name not in names:
            allowed = f"have the column {show(name)} of the formula"
            raise refuse_data("data", got=show_names(names), allowed=allowed, remedy=nearest(name, names))
        return data[name] if frame is None else frame.get_column(name).to_native()

    return names, read


# B-splines with public knots: each basis function of a row depends on this row and public numbers only


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
        text, tuple(SplineColumn(f"{text}[{i}]", text, knots, degree, i) for i in range(1, len(knots) + degree + 1))
    )


def _public_number(name: str, node: ast.expr, text: str) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        raise refuse(name, got=f"{ast.unparse(node)} in {text}", allowed="public numbers") from None
