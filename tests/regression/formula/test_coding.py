"""The columns of terms are those of formulaic, and of statsmodels, where all levels are in the data."""

import itertools
import random

import formulaic
import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from dpstats.errors import InvalidParameter
from dpstats.regression.formula import parse
from dpstats.regression.formula.coding import Column, Factor, list_columns, read_part
from dpstats.regression.formula.declared import check_declared

rng = np.random.default_rng(1)
LEVELS = {"a": ["a", "b"], "b": ["u", "v", "w"], "k": [1, 2, 3]}
BOUNDS = {"x": (0.5, 3), "z": (-2, 2), "the x": (1, 2), "y": (-9, 9)}
ROWS = pd.DataFrame(list(itertools.product(*LEVELS.values())) * 3, columns=list(LEVELS)).assign(
    **{name: lambda rows, ends=ends: rng.uniform(*ends, len(rows)) for name, ends in BOUNDS.items()}
)
ATOMS = ["a", "b", "C(k)", "x", "z", "log(x)", "I(z**2)", "`the x`", "C(k, contr.treatment(2))"]


def formulas(n: int) -> list[str]:
    """Return formulas of up to three terms of up to three factors."""
    choose = random.Random(0)
    found = []
    for _ in range(n):
        terms = [
            choose.sample(ATOMS, choose.choice([1, 1, 2, 2, 3])) for _ in range(choose.choice([1, 2, 3]))
        ]
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
        (
            "y ~ C(x)",
            r"levels must have the categories of 'x', got levels of \['a', 'b', 'k'\]. Declare levels={'x': ",
        ),
        (
            "y ~ C(a, contr.treatment('z'))",
            r"contr.treatment\(level\) with one of the levels \['a', 'b'\], got",
        ),
        (
            "y ~ C(a, contr.sum)",
            r"C\(\) must have the name of a column, and after it nothing or contr.treatment",
        ),
        ("y ~ C(a, contr.sum())", "got contr.sum()"),
        ("y ~ C(a, contr.treatment(x))", "got contr.treatment"),
        ("y ~ C(a, contr.treatment())", "got contr.treatment"),
        ("y ~ C(a, levels=['a'])", "got C"),
        ("y ~ C(a + b)", "got C"),
        ("y ~ C()", "got C"),
        ("y ~ 2:x", "formula must have no numbers but 0 and 1 outside of I(), got 2"),
        ("y ~ x + log(a)", r"bounds must have the \(low, high\) of 'a'"),
        ("y ~ x + nothing", r"bounds must have the \(low, high\) of 'nothing' \(or levels its categories"),
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
