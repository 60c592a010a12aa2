"""Expressions: every number of a declared box lands in the interval, and in the same place whatever is beside it."""

import ast
import itertools

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.regression.formula_columns import Span, evaluate, expression

BOX = {"x": (-2.0, 3.0), "z": (0.5, 4.0), "the z": (0.5, 4.0), "w": (-0.9, -0.1)}


def spans(rows: dict[str, np.ndarray]) -> dict[str, Span]:
    return {name: Span(*BOX[name], values) for name, values in rows.items()}


def interval(source: str) -> tuple[float, float]:
    span = evaluate(expression(source), spans({name: np.empty(0) for name in BOX}).__getitem__)
    return span.low, span.high


def grid(n: int) -> dict[str, np.ndarray]:
    """Return all rows of n places of every column, its ends among them, and 0 and 1 where they are in its bounds."""
    places = [np.union1d(np.linspace(*ends, n), np.clip([0.0, 1.0], *ends)) for ends in BOX.values()]
    return dict(zip(BOX, map(np.array, zip(*itertools.product(*places), strict=True)), strict=True))


GRID = grid(7)
NUMPY = {"np": np, "log": np.log, "log1p": np.log1p, "exp": np.exp, "sqrt": np.sqrt, "square": np.square}
NUMPY |= {"where": np.where, "maximum": np.maximum, "minimum": np.minimum}
SOURCES = [
    "I(x)",
    "I(x + z - 2)",
    "I(x * z)",
    "I(x * w)",
    "I(x / z)",
    "I(x / w - z / w)",
    "I(x**2)",
    "I(x**3)",
    "x**20",
    "abs(x)",
    "abs(w)",
    "square(x - 1)",
    "log(z)",
    "log1p(w)",
    "exp(-x)",
    "sqrt(z * 2.5)",
    "np.log(exp(x) + z)",
    "I((x - 1)**2 * w)",
    "I(-x)",
    "I(1 / (1 + x**2))",
    "np.log10(z)",
    "np.log2(z + 1)",
    "np.expm1(w)",
    "np.floor(x)",
    "np.ceil(x / 2)",
    "np.sign(x)",
    "maximum(x, 0.5)",
    "np.minimum(x - 1, w)",
    "I(x > 0)",
    "I(x >= -2)",
    "I(x < z)",
    "I(x <= -2)",
    "I(x == 0)",
    "I(x != 0)",
    "I(x == 7)",
    "I((x > 0) & ~(z < 1))",
    "I((x > 2) | (w == -0.5))",
    "I((x > 0) * z)",
    "where(x > 0, z, w)",
    "np.where((x > 0) | (z > 1), z - 1, -2.5)",
    "where(x > 5, z, w)",
]


def holds(source: str, low: float, high: float, exact: bool) -> bool:
    """Return whether the interval holds what numpy makes of the grid, and no more where it is exact."""
    found = np.asarray(eval(source, {**NUMPY, "I": np.asarray, "abs": np.abs}, GRID), dtype=float)
    slack = 1e-12 * (high - low)
    inside = found.min() >= low - slack and found.max() <= high + slack
    return bool(inside and (not exact or (found.min() <= low + slack and found.max() >= high - slack)))


@pytest.mark.parametrize("source", SOURCES)
def test_the_interval_holds_every_number(source):
    low, high = interval(source)
    # In all but one each column is there once: the numbers fill the interval.
    assert holds(source, low, high, exact=source != "I(x / w - z / w)")
    values = evaluate(expression(source), spans(GRID).__getitem__).values
    expected = eval(source, {**NUMPY, "I": np.asarray, "abs": np.abs}, GRID)
    np.testing.assert_allclose(values, expected, rtol=1e-13, atol=1e-12)
    assert values.min() >= low and values.max() <= high


def test_an_interval_of_the_ends_alone_would_be_noticed():
    # Without the point nearest to zero: squares between 4 and 9.
    assert interval("I(x**2)") == (0.0, 9.0)
    assert not holds("I(x**2)", 4.0, 9.0, exact=False)
    assert not holds("abs(x)", 2.0, 3.0, exact=False)
    assert not holds("I(x * z)", -8.0, 13.0, exact=True)


def test_known_intervals():
    assert interval("I(x - x)") == (-5.0, 5.0)  # of interval arithmetic
    assert interval("I(x**3)") == (-8.0, 27.0)
    assert interval("I(z / 2 + 1)") == (1.25, 3.0)
    assert interval("log(`the z`)") == (np.log(0.5), np.log(4.0))
    assert interval("x") == (-2.0, 3.0)
    # A condition that always holds, or never, is a constant.
    assert interval("I(z > 0.25)") == interval("I(z >= 0.5)") == interval("I(x != 4)") == (1.0, 1.0)
    assert interval("I(z > 4)") == interval("I(z < 0.5)") == interval("I(x == 4)") == (0.0, 0.0)
    assert interval("I(2 == 2)") == (1.0, 1.0)
    assert interval("where(z > 0, x, 100)") == (-2.0, 3.0)
    assert interval("where(x > 0, z, 100)") == (0.5, 100.0)
    assert interval("log(maximum(x, 1))") == (0.0, np.log(3.0))


def test_a_condition_on_a_missing_number_is_missing():
    nan = np.nan
    read = spans({"x": np.array([nan, 1.0, 1.0, -1.0]), "z": np.array([1.0, nan, 2.0, nan])}).__getitem__

    def found(source):
        return evaluate(expression(source), read).values

    for source in ["I(x > z)", "I(x == z)", "I(x != z)", "I(~(x > z))", "I((x > 0) | (z > 0))"]:
        np.testing.assert_array_equal(np.isnan(found(source)), [True, True, False, True])
    # where() uses the chosen side only.
    np.testing.assert_array_equal(found("where(x > 0, z, 4)"), [nan, nan, 2, 4])
    np.testing.assert_array_equal(found("I(x > 0)"), [nan, 1, 1, 0])


def test_numbers_outside_are_clipped_before_anything_is_done_with_them():
    rows = {"x": np.array([-9.0, 9.0, np.nan, 1.0]), "z": np.array([-1.0, 0.0, 1.0, 9.0])}
    read = spans(rows).__getitem__
    np.testing.assert_array_equal(evaluate(expression("I(x**2)"), read).values, [4.0, 9.0, np.nan, 1.0])
    np.testing.assert_array_equal(evaluate(expression("log(z)"), read).values, np.log([0.5, 0.5, 1.0, 4.0]))
    # A column alone is no transform.
    np.testing.assert_array_equal(evaluate(expression("x"), read).values, rows["x"])


@pytest.mark.parametrize(
    "source",
    [
        "log(z)",
        "log1p(w)",
        "exp(x)",
        "sqrt(z)",
        "x**5",
        "I(x / z)",
        "log2(z)",
        "log10(z)",
        "expm1(x)",
        "where(x > z, x, z)",
    ],
)
def test_a_number_is_the_same_bit_for_bit_wherever_it_stands(source):
    rng = np.random.default_rng(0)
    rows = {name: rng.uniform(*ends, 203) for name, ends in BOX.items()}
    together = evaluate(expression(source), spans(rows).__getitem__).values
    for some in [slice(0, 1), slice(1, None), slice(3, 8), slice(None, None, -1), slice(None, None, 7)]:
        part = {name: values[some] for name, values in rows.items()}
        found = evaluate(expression(source), spans(part).__getitem__).values
        assert found.tobytes() == together[some].tobytes()


@pytest.mark.parametrize(
    "source",
    [
        "log(x)",
        "log(abs(x))",
        "I(1 / x)",
        "I(z / x)",
        "sqrt(x)",
        "log1p(x)",
        "exp(1000 * z)",
        "log(w)",
        "x**2 / x",
        "log10(x)",
        "log2(x)",
        "expm1(1000 * z)",
        "where(x > 0, log(x), 0)",
        "I(z / (x > 0))",
    ],
)
def test_what_is_undefined_somewhere_within_bounds_is_refused(source):
    with pytest.raises(InvalidParameter, match="formula must be finite"):
        interval(source)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("center(x)", r"formula must not have"),
        ("I(x - scale(x))", r"formula must not have"),
        ("I(bs(x, knots=[1]))", r"formula must have"),
        ("poly(x, 2)", r"formula must not have"),
        ("cr(x, df=3)", r"formula must not have cr\(\)"),
        ("np.mean(x)", r"got np\.mean\(x\)"),
        ("I(x - x.mean())", r"got x\.mean\(\)"),
        ("Q(x)", r"`in backquotes` or Q\('in quotes'\) if need be"),
        ("I(x > 0 & z > 1)", "each comparison in brackets"),
        ("I(0 < x < 1)", "each comparison in brackets"),
        ("I((x > 0) & z)", "each comparison in brackets"),
        ("I(~x)", "each comparison in brackets"),
        ("I(x > 0 and z > 1)", "each comparison in brackets"),
        ("where(x, z, w)", r"where\(condition, x, z\)"),
        ("where(x > 0)", r"where\(condition, x, z\)"),
        ("where(x > 0, z)", r"where\(condition, x, z\)"),
        ("I(x in [1, 2])", "formula must have only"),
        ("maximum(x)", "of two arguments minimum, maximum"),
        ("x[0]", "formula must have only"),
        ("log(x, 2)", "formula must have only"),
        ("I(x) if x else z", "formula must have only"),
        ("__import__('os').system('true')", "formula must have only"),
        ("(lambda: 1)()", "formula must have only"),
        ("x ** z", "formula must have only"),
        ("x ** 0.5", "a power in formula must be an integer at least 1 and at most 20, got 0.5"),
        ("x ** 0", "a power in formula"),
        ("x ** 10000", "a power in formula"),
        ("x + 1e999", "a number in formula must be a finite number, got inf"),
        ("x + True", "a number in formula"),
        ("x + 1j", "formula must have only"),
        ("x @ z", "formula must have only"),
    ],
)
def test_what_is_no_expression_of_single_rows_is_refused(source, words):
    with pytest.raises(InvalidParameter, match=words):
        interval(source)


def test_names_in_backquotes():
    assert ast.unparse(expression("I(`a b` + name + `a b`)")) == "I(a b + name + a b)"
    assert ast.unparse(expression("C(`p q`, contr.treatment('`a`'))")) == "C(p q, contr.treatment('`a`'))"


def test_names_in_quotes():
    assert interval("Q('the z')") == (0.5, 4.0)
    assert interval('log(Q("the z")) + x') == (np.log(0.5) - 2, np.log(4.0) + 3)
    assert ast.unparse(expression("C(Q('p q'))")) == "C(p q)"
