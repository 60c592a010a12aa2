"""The columns of terms are those of statsmodels, where all levels are in the data.

They are those of formulaic too, except for truth values, which formulaic takes for numbers.
"""

import itertools
import random

import formulaic
import numpy as np
import pandas as pd
import patsy
import polars as pl
import pytest
import statsmodels.formula.api as smf

from dpstats.errors import InvalidParameter
from dpstats.regression.formula import Column, Factor, list_columns, parse, read_part
from dpstats.regression.formula_columns import check_declared

rng = np.random.default_rng(1)
LEVELS = {"a": ["a", "b"], "b": ["u", "v", "w"], "k": [1, 2, 3]}
BOUNDS = {"x": (0.5, 3), "z": (-2, 2), "the x": (1, 2), "y": (-9, 9)}
ROWS = pd.DataFrame(list(itertools.product(*LEVELS.values())) * 3, columns=list(LEVELS)).assign(
    **{name: lambda rows, ends=ends: rng.uniform(*ends, len(rows)) for name, ends in BOUNDS.items()}
)
ATOMS = ["a", "b", "C(k)", "x", "z", "log(x)", "I(z**2)", "`the x`", "C(k, contr.treatment(2))"]


def formulas(n: int, atoms: list[str] = ATOMS) -> list[str]:
    """Return formulas of up to three terms of up to three factors."""
    choose = random.Random(0)
    found = []
    for _ in range(n):
        terms = [choose.sample(atoms, choose.choice([1, 1, 2, 2, 3])) for _ in range(choose.choice([1, 2, 3]))]
        sides = " + ".join(choose.choice([":", "*"]).join(term) for term in terms)
        found.append(f"y ~ {sides}{choose.choice(['', ' - 1', ' + 0'])}")
    return found


def rank(X: np.ndarray) -> int:
    return int(np.linalg.matrix_rank(X))


def compare_with_formulaic(formula: str) -> None:
    expected = formulaic.model_matrix(formula, ROWS).rhs
    found = parse(formula, bounds=BOUNDS, levels=LEVELS)
    X, y = found.rows(ROWS)
    assert found.has_intercept == ("Intercept" in expected.columns)
    np.testing.assert_array_equal(y, ROWS["y"])
    low, high = found.x_bounds.T
    assert np.array_equal(X, np.clip(X, low, high))
    theirs = expected.drop(columns="Intercept", errors="ignore")
    if "C(k)" in formula and "C(k, " in formula:
        # They take these for two factors, and have the columns of one of them twice.
        X = np.column_stack([np.ones((len(X), int(found.has_intercept))), X])
        assert rank(X) == X.shape[1] == rank(np.column_stack([X, expected])) == rank(np.asarray(expected))
    else:
        assert list(found.names) == list(theirs.columns)
        np.testing.assert_allclose(X, theirs, rtol=1e-13)


@pytest.mark.parametrize("formula", formulas(150))
def test_the_design_is_that_of_formulaic(formula):
    compare_with_formulaic(formula)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x + C(a)",
        "y ~ x * C(b) + np.log(x)",
        "y ~ C(a):C(b) - 1",
        "y ~ C(b, Treatment('v')) * a + I(x**2)",
        "y ~ x:C(k)",
        "np.exp(z) ~ C(a):x:C(b) + x + z",
        "y ~ (x + a + z)**2 - x:z",
    ],
)
def test_the_design_is_that_of_statsmodels(formula):
    model = smf.ols(formula, ROWS)
    found = parse(formula, bounds=BOUNDS, levels=LEVELS)
    X, y = found.rows(ROWS)
    np.testing.assert_allclose(y, model.endog, rtol=1e-13)
    # In another order, where numbers are not first.
    theirs = pd.DataFrame(model.exog, columns=model.exog_names).drop(columns="Intercept", errors="ignore")
    assert sorted(found.names) == sorted(theirs.columns)
    np.testing.assert_allclose(X, theirs[list(found.names)], rtol=1e-13)


# A truth value of a boolean column, one by its levels, and conditions: factors of patsy, numbers of formulaic.
TRUTH_ATOMS = ["a", "b", "C(k)", "x", "z", "I(z**2)", "t", "`the t`", "I(x > 1.5)", "I((x > 1) & ~(z > 0))"]
TRUTH_ATOMS += ["I(t | (z > 1))", "C(z > 0.5)", "I((x > 1.2) * z)", "np.where(t, z > 0, x > 2)", "I(t * (x < 2))"]
TRUTH_ATOMS += ["C(z > 0.1, Treatment(True))", "np.abs(z == 0)", "I(2 * (z > 0.3) + x)"]
TRUTH_ROWS = pd.DataFrame(
    list(itertools.product(*LEVELS.values(), [False, True], [False, True])) * 8, columns=[*LEVELS, "t", "the t"]
).assign(**{name: lambda rows, ends=ends: rng.uniform(*ends, len(rows)).round(2) for name, ends in BOUNDS.items()})
TRUTH_ROWS.loc[::7, "z"] = 0


def compare_with_patsy(formula: str) -> None:
    quoted = formula.replace("`the t`", "Q('the t')")
    expected = patsy.dmatrix(quoted.partition("~")[2], TRUTH_ROWS)
    levels, data = {**LEVELS, "the t": [False, True]}, TRUTH_ROWS.astype({"the t": int})
    found = parse(quoted, bounds=BOUNDS, levels=levels, data=data)
    X, _ = found.rows(data)
    names = expected.design_info.column_names
    assert found.has_intercept == ("Intercept" in names)
    if found.has_intercept:
        X = np.column_stack([np.ones(len(X)), X])
    theirs = pd.DataFrame(np.asarray(expected), columns=names)
    assert sorted(theirs.columns) == sorted([*["Intercept"] * found.has_intercept, *found.names])
    assert rank(X) == rank(np.asarray(theirs)) == rank(np.column_stack([X, theirs]))
    inside = X[:, int(found.has_intercept) :]
    np.testing.assert_allclose(inside, theirs[list(found.names)], rtol=1e-13, atol=1e-13)
    low, high = found.x_bounds.T
    assert (inside >= low - 1e-12).all() and (inside <= high + 1e-12).all()


@pytest.mark.parametrize("formula", formulas(200, TRUTH_ATOMS))
def test_truth_values_and_conditions_are_factors_as_in_patsy(formula):
    compare_with_patsy(formula)


def test_conditions_as_numbers_would_be_noticed():
    # As formulaic has them: b:C(g) without the main effects of C(g).
    spanned = list(formulaic.model_matrix("y ~ t:C(k)", TRUTH_ROWS).rhs.columns)
    assert len(spanned) == 4 and len(parse("y ~ t:C(k)", bounds=BOUNDS, levels=LEVELS, data=TRUTH_ROWS).names) == 5


def test_declarations_and_types_decide_what_is_a_truth_value():
    def names(data=None, bounds=(), **levels):
        return parse("y ~ x:t", bounds={**BOUNDS, **dict(bounds)}, levels=levels, data=data).names

    factor, number = ("x:t[False]", "x:t[True]"), ("x:t",)
    limits = {"t": (0, 1)}
    # The values of a column do not decide.
    assert names({"t": [True, False]}, limits) == names({"t": [0, 1]}, limits) == names(bounds=limits) == number
    assert names(pd.DataFrame({"t": [True, None]}, dtype=object), limits) == number
    assert names(bounds=limits, t=[0, 1]) == number
    for data in (
        {"t": np.array([True])},
        {"t": pd.Series([True])},
        pd.DataFrame({"t": pd.array([True, None], dtype="boolean")}),
        pl.DataFrame({"t": [True, None]}),
        pl.DataFrame({"t": [True, None]}).to_arrow(),
    ):
        assert names(data) == names(data, limits) == factor
    assert names(t=[False, True]) == names(bounds=limits, t=[False, True]) == factor
    # Other declared levels than those of the type.
    assert names({"t": np.array([True])}, t=[True, False]) == factor[::-1]


@pytest.mark.parametrize("levels", [[False, True], [True, False]])
def test_truth_values_in_expressions_need_no_bounds(levels):
    found = parse("y ~ I(t * x) + I(~t & (x > 1))", bounds={"x": (0, 2), "y": (0, 1)}, levels={"t": levels})
    assert found.names == ("I(t * x)", "I(~t & (x > 1))[T.True]")
    assert found.x_bounds.tolist() == [[0, 2], [0, 1]]
    rows = {"t": [False, True, None, True], "x": [2, 2, 2, 1]}
    np.testing.assert_array_equal(found.predictors(rows), [[0, 1], [2, 0], [np.nan, np.nan], [1, 0]])


def test_a_truth_value_is_a_response_of_numbers():
    for left in ("t", "I(t)", "I(x > 1)"):
        found = parse(f"{left} ~ x", bounds={"x": (0, 2)}, data={"t": np.array([True, False])})
        assert found.y_bounds.tolist() == [0, 1]
        np.testing.assert_array_equal(found.rows({"t": [True, False], "x": [2, 1]})[1], [1, 0])


def test_the_sum_of_two_conditions_is_refused():
    # numpy takes it for "or", other programs for a count.
    with pytest.raises(InvalidParameter, match=r"must not add two conditions.*'or'"):
        parse("y ~ I((x > 1) + (z > 1))", bounds=BOUNDS)
    counted = parse("y ~ I(1 * (x > 1) + 1 * (z > 1))", bounds=BOUNDS)
    assert counted.x_bounds.tolist() == [[0, 2]]


def test_what_is_spanned_already_has_no_columns():
    def names(formula):
        return parse(formula, bounds=BOUNDS, levels=LEVELS).names

    assert names("y ~ x + x + x:x") == ("x",)
    assert names("y ~ x:z + z:x + x*z") == ("x", "z", "x:z")
    assert names("y ~ a + a + C(a) + C(a, contr.treatment('b'))") == ("a[T.b]",)
    assert names("y ~ a:C(a)") == ("C(a)[T.b]",)
    assert names("y ~ 0 + a + C(a)") == ("a[a]", "a[b]")
    assert names("y ~ a:b + a + b") == names("y ~ a * b")


@pytest.mark.parametrize("always", [True, False])
def test_another_coding_would_be_noticed(monkeypatch, always):
    # With all levels everywhere, or nowhere.
    right = Factor.indicators
    monkeypatch.setattr(Factor, "indicators", lambda factor, every: right(factor, always))
    for formula, same in [("y ~ a", not always), ("y ~ 0 + a", always), ("y ~ 0 + x:a + b", always)]:
        if same:
            compare_with_formulaic(formula)
        else:
            with pytest.raises(AssertionError):
                compare_with_formulaic(formula)


def test_levels_and_reference_are_the_declared_ones():
    def names(formula, **levels):
        return parse(formula, bounds=BOUNDS, levels=levels).names

    assert names("y ~ p", p=["c", "a", "b"]) == ("p[T.a]", "p[T.b]")
    assert names("y ~ C(p, contr.treatment('a'))", p=["c", "a"]) == ("C(p, contr.treatment('a'))[T.c]",)
    assert names("y ~ C(p, contr.treatment(base=2))", p=[1, 2.0]) == ("C(p, contr.treatment(base=2))[T.1]",)
    assert names("y ~ C(`p q`)", **{"p q": [True, None]}) == ("C(`p q`)[T.None]",)
    # With bounds too it is a number where it stands alone.
    both = parse("y ~ k + C(k)", bounds={**BOUNDS, "k": (1, 3)}, levels=LEVELS)
    assert both.names == ("k", "C(k)[T.2]", "C(k)[T.3]")
    np.testing.assert_array_equal(both.predictors({"k": [1, 3]}), [[1, 0, 0], [3, 0, 1]])


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("y ~ C(x)", r"levels must have the categories"),
        ("y ~ C(a, contr.treatment('z'))", r"contr.treatment\(level\) with one of the levels \['a', 'b'\], got"),
        ("y ~ C(a, contr.sum)", r"C\(\) must have the name of a column, and after it nothing or contr.treatment"),
        ("y ~ C(a, contr.sum())", "got contr.sum()"),
        ("y ~ C(a, contr.treatment(x))", "got contr.treatment"),
        ("y ~ C(a, contr.treatment())", "got contr.treatment"),
        ("y ~ C(a, levels=['a'])", "got C"),
        ("y ~ C(a + b)", "got C"),
        ("y ~ C()", "got C"),
        ("y ~ 2:x", "formula must have no numbers"),
        ("y ~ x + log(a)", r"bounds must have the"),
        ("y ~ x + nothing", r"bounds must have the"),
    ],
)
def test_what_is_no_column_is_refused(formula, words):
    with pytest.raises(InvalidParameter, match=words.replace("I()", r"I\(\)").replace("sum()", r"sum\(\)")):
        parse(formula, bounds=BOUNDS, levels=LEVELS)


def test_columns_of_terms_need_no_rows():
    declared = check_declared(BOUNDS, LEVELS)
    terms = list(formulaic.Formula("x:a"))
    columns = list_columns(terms, declared)
    assert all(isinstance(column, Column) for column in columns)
    assert [column.text for column in columns] == ["x:a[a]", "x:a[b]"]
    assert read_part(terms[-1].factors[0], declared).text == "x"
