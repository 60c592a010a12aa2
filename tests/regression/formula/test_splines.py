"""Splines: the basis is that of patsy and formulaic for the same knots, and a row is coded by itself."""

import pickle

import formulaic
import numpy as np
import pandas as pd
import patsy
import pytest

from dpstats.errors import InvalidParameter
from dpstats.regression.formula import parse
from dpstats.regression.formula_columns import basis_function

BOUNDS = {"x": (-2, 3), "the x": (1, 2), "y": (0, 1)}
LEVELS = {"a": ["u", "v"]}
X = np.r_[-2.0, -1, 0, 0.5, 3, np.random.default_rng(0).uniform(-2, 3, 60)]
ROWS = pd.DataFrame({"x": X, "the x": (X + 7) / 5, "y": 0.5, "a": ["u", "v", "u", "v", "u"] * 13})


def design(term, rows=ROWS):
    formula = parse(f"y ~ {term}", bounds=BOUNDS, levels=LEVELS)
    return formula, formula.predictors(rows)


@pytest.mark.parametrize("degree", [1, 2, 3, 5])
@pytest.mark.parametrize("knots", [[], [0], [-1.5, 0, 0.5], [-1.999, 2.999]])
def test_the_basis_is_that_of_patsy(degree, knots):
    formula, found = design(f"bs(x, knots={knots}, degree={degree})")
    text = f"bs(x, knots={knots}, degree={degree}, lower_bound=-2, upper_bound=3)"
    expected = np.asarray(patsy.dmatrix(f"{text} - 1", ROWS))
    np.testing.assert_allclose(found, expected, atol=1e-13)
    assert formula.x_bounds.tolist() == [[0, 1]] * (len(knots) + degree)
    assert found.min() >= 0 and found.max() <= 1


@pytest.mark.parametrize("term", ["bs(x, knots=[0, 1]) * a", "bs(x, knots=[0]):a - 1", "x:bs(x, knots=(0,))"])
def test_names_and_interactions_are_those_of_formulaic(term):
    formula, found = design(term)
    theirs = formulaic.model_matrix(term, ROWS).drop(columns="Intercept", errors="ignore")
    assert list(formula.names) == list(theirs.columns)
    np.testing.assert_allclose(found, theirs, atol=1e-13)


def test_the_argument_is_an_expression_with_bounds():
    _, found = design("bs(log(`the x`), knots=[0.3])")
    text = f"bs(np.log(Q('the x')), knots=[0.3], lower_bound=0, upper_bound={np.log(2)!r}) - 1"
    np.testing.assert_allclose(found, np.asarray(patsy.dmatrix(text, ROWS)), atol=1e-13)
    np.testing.assert_array_equal(design("bs(Q('the x'), knots=[1.3])")[1], design("bs(`the x`, knots=[1.3])")[1])


def test_a_row_is_coded_by_itself():
    term = "bs(x, knots=[-1, 0.5]) + bs(x, knots=[0], degree=1):a"
    formula, together = design(term)
    for i in range(len(ROWS)):
        assert formula.predictors(ROWS[i : i + 1]).tobytes() == together[i].tobytes()
    # Quantiles of the rows as knots would fail here.
    theirs = [formulaic.model_matrix("bs(x, df=5)", rows) for rows in (ROWS, ROWS[:50])]
    assert not np.allclose(theirs[0][:50], theirs[1])
    assert pickle.loads(pickle.dumps(formula)).predictors(ROWS).tobytes() == together.tobytes()


def test_outside_of_bounds_and_missing():
    _, found = design("bs(x, knots=[0])", {"x": [-9, -2, 3, 1e308, np.nan, np.inf], "a": list("uuuuuu")})
    assert found[0].tolist() == found[1].tolist() == [0, 0, 0, 0]
    assert found[2].tolist() == found[3].tolist() == [0, 0, 0, 1]
    assert np.isnan(found[4:]).all()


def test_all_basis_functions_add_up_to_one():
    knots = (*[-2.0] * 4, -1.0, 0.25, *[3.0] * 4)
    total = sum(basis_function(X, knots[i : i + 5], 3.0) for i in range(6))
    np.testing.assert_allclose(total, 1, rtol=1e-14)
    # With an open last interval, the upper bound would be in no interval.
    assert sum(basis_function(np.array([3.0]), knots[i : i + 5], 4.0) for i in range(6)) == 0


@pytest.mark.parametrize(
    ("term", "words"),
    [
        ("bs(x)", r"bs\(\) must have one argument, public knots, and maybe a degree, as .* got bs\(x\)"),
        ("bs(x, 4)", "the knots would be made of all rows, which are private"),
        ("bs(x, df=4, knots=[1])", "must have one argument, public knots"),
        ("bs(x, knots=[1], include_intercept=True)", "must have one argument, public knots"),
        ("bs(x, knots=y)", r"knots must be public"),
        ("bs(x, knots=[y])", "knots must be public numbers"),
        ("bs(x, knots={[1]: 2})", "knots must be public numbers"),
        ("bs(x, knots=1)", "knots must be a list"),
        ("bs(x, knots=['1'])", r"knots\[0\] in bs"),
        ("bs(x, knots=[1, 0])", "knots must be in ascending order"),
        ("bs(x, knots=[1, 1])", "knots must be in ascending order"),
        ("bs(x, knots=[3])", r"knots must be between the"),
        ("bs(x, knots=[-7, 1])", "knots must be between the bounds"),
        ("bs(x, knots=[1], degree=0)", "degree in bs.* must be an integer at least 1 and at most 5, got 0"),
        ("bs(x, knots=[1], degree=y)", "degree must be public numbers"),
        ("bs(z, knots=[1])", "bounds must have the"),
        ("bs(3, knots=[])", "formula must have splines"),
        ("bs(log(x), knots=[1])", r"finite for all numbers within bounds, which log\(x\) is not"),
        ("ns(x, knots=[1])", r"formula must not have ns\(\)"),
    ],
)
def test_refused_splines(term, words):
    with pytest.raises(InvalidParameter, match=words):
        design(term)
