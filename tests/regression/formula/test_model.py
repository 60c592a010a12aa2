"""A formula is what is declared: no row adds, removes or moves a column of another."""

import builtins
import pickle

import formulaic
import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.errors import DPStatsError, InvalidData, InvalidParameter
from dpstats.regression.formula import parse
from tests.data.awkward import beside

BOUNDS = {"y": (0, 5), "x": (-4, 4), "z": (0.1, 2)}
LEVELS = {"plan": ["a", "b", "c"]}
FORMULA = parse("log1p(y) ~ x * C(plan) + x:z + I(x / z) + sqrt(z)", bounds=BOUNDS, levels=LEVELS)
ROWS = pd.DataFrame(
    {
        "y": [0.5, 9, np.nan, 3, 4, 1],
        "x": [1, -9, 3.5, np.inf, 1e308, 0],
        "z": [1, 0, -5, 0.5, np.nan, 1e308],
        "plan": list("aabbbc"),
    }
)


def test_public_facts():
    formula = parse("y ~ x1 + C(plan)", bounds={"y": (0, 5), "x1": (-4, 4)}, levels=LEVELS)
    assert formula.text == "y ~ x1 + C(plan)" and formula.response == "y" and formula.has_intercept
    assert formula.names == ("x1", "C(plan)[T.b]", "C(plan)[T.c]")
    assert formula.x_bounds.tolist() == [[-4, 4], [0, 1], [0, 1]]
    assert formula.y_bounds.tolist() == [0, 5]
    assert repr(formula) == "Formula('y ~ x1 + C(plan)', 3 columns)"


def test_a_row_of_the_design_is_made_of_that_row_alone():
    rows = ROWS.to_dict("records")
    kinds = [
        pd.DataFrame,
        lambda some: pd.DataFrame(some).astype({"plan": "category"}),
        pl.DataFrame,
        lambda some: pl.LazyFrame(some),
        lambda some: {name: [row[name] for row in some] for name in ROWS},
    ]
    alone = [[part.tobytes() for part in FORMULA.rows(pd.DataFrame([row]))] for row in rows]
    for places in beside(list(range(len(rows)))):
        for kind in kinds:
            X, y = FORMULA.rows(kind([rows[place] for place in places]))
            assert [[X[i].tobytes(), y[i].tobytes()] for i in range(len(y))] == [alone[i] for i in places]


def test_a_level_of_one_row_alone_is_no_matter():
    # The last row alone is in level c: formulaic has a column less without it.
    X, _ = FORMULA.rows(ROWS)
    without, _ = FORMULA.rows(ROWS[:-1])
    assert X[:-1].tobytes() == without.tobytes()
    theirs = [formulaic.model_matrix("C(plan)", rows).shape[1] for rows in (ROWS, ROWS[:-1])]
    assert theirs == [3, 2]
    # And with another order of a categorical type it has another reference.
    ordered = ROWS.assign(plan=pd.Categorical(ROWS["plan"], categories=["c", "b", "a", "d"]))
    assert FORMULA.rows(ordered)[0].tobytes() == X.tobytes()
    assert list(formulaic.model_matrix("plan", ordered)) != list(formulaic.model_matrix("plan", ROWS))


def test_outside_of_bounds():
    X, y = FORMULA.rows(ROWS)
    column = dict(zip(FORMULA.names, X.T, strict=True))
    nan, largest = np.nan, np.finfo(float).max
    # What is alone, or in an interaction, stays; infinite is missing; no product of finite numbers is infinite.
    np.testing.assert_array_equal(column["x"], [1, -9, 3.5, nan, 1e308, 0])
    np.testing.assert_array_equal(column["x:C(plan)[T.b]"], [0, 0, 3.5, nan, 1e308, 0])
    np.testing.assert_array_equal(column["x:z"], [1, 0, -17.5, nan, nan, 0])
    np.testing.assert_array_equal(column["I(x / z)"], [1, -40, 35, nan, nan, 0])
    np.testing.assert_array_equal(column["sqrt(z)"], np.sqrt([1, 0.1, 0.1, 0.5, nan, 2]))
    np.testing.assert_array_equal(y, np.log1p([0.5, 5, nan, 3, 4, 1]))
    huge = parse("~ x:z:C(plan) + x:z", bounds=BOUNDS, levels=LEVELS)
    found = huge.predictors({"x": [1e200], "z": [1e200], "plan": ["a"]})
    assert found.tolist() == [[largest, 0.0, 0.0]]
    assert np.abs(FORMULA.x_bounds).max() == 40


def test_a_row_in_no_declared_level_is_refused_and_not_shown():
    with pytest.raises(InvalidData, match=r"data\['plan'\] must") as caught:
        FORMULA.rows(ROWS.assign(plan=[*"aabbb", "hush"]))
    assert "hush" not in str(caught.value)


def test_a_missing_category_is_a_missing_entry_or_a_level() -> None:
    X, _ = FORMULA.rows(ROWS.assign(plan=[*"aabbb", None]))
    of_plan = ["C(plan)" in name for name in FORMULA.names]
    assert np.isnan(X[5]).tolist() == of_plan and not np.isnan(X[0]).any()
    with_none = parse("~ C(plan)", bounds={}, levels={"plan": ["a", None]})
    assert with_none.predictors({"plan": ["a", None, np.nan]}).tolist() == [[0], [1], [1]]


def test_responses():
    def response(left, **more):
        formula = parse(f"{left} ~ x", bounds=BOUNDS, **more)
        return (formula.response, formula.y_bounds, formula.rows({"y": [2, 9], "x": [0, 1], "u v": [True, None]})[1])

    name, ends, values = response("y")
    assert (name, ends.tolist(), values.tolist()) == ("y", [0, 5], [2, 9])  # the estimator clips it
    name, ends, values = response("I(y * 2)")
    assert (name, ends.tolist(), values.tolist()) == ("I(y * 2)", [0, 10], [4, 10])
    name, ends, values = response("`u v`")
    assert name == "u v" and ends is None
    assert response("Q('u v')")[:2] == ("u v", None)
    np.testing.assert_array_equal(response("Q('u v')")[2], values)
    np.testing.assert_array_equal(values, [1, np.nan])
    assert response("") == (None, None, None)
    # To predict, no response is needed.
    assert parse("y ~ x", bounds=BOUNDS).predictors({"x": [3]}).tolist() == [[3]]
    with pytest.raises(InvalidData, match="data must"):
        parse("y ~ x", bounds=BOUNDS).rows({"x": [3]})


def test_other_columns_are_not_read():
    class Named(dict):
        def __getitem__(self, name):
            assert name != "name"
            return super().__getitem__(name)

    assert parse("y ~ x", bounds=BOUNDS).predictors(Named(x=[1.0], y=["text"], name=["who"])).tolist() == [[1.0]]


def test_it_is_pickled_without_formulaic_and_no_later_change_of_a_declaration_reaches_it():
    bounds, levels = {"y": [0, 5], "z": [1, 2]}, {"plan": ["a", "b"]}
    formula = parse("y ~ log(z) + C(plan)", bounds=bounds, levels=levels)
    before = formula.rows({"y": [1], "z": [9], "plan": ["b"]})
    bounds["z"][1], levels["plan"][1] = 9, "c"
    del bounds["y"]
    after = pickle.loads(pickle.dumps(formula)).rows({"y": [1], "z": [9], "plan": ["b"]})
    assert [part.tolist() for part in before] == [part.tolist() for part in after] == [[[np.log(2), 1]], [1]]


def test_rows_are_copies():
    y = np.array([1.0, 2.0])
    X, found = parse("y ~ x", bounds=BOUNDS).rows({"x": y, "y": y})
    X[:], found[:] = 0, 0
    assert y.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        (3, "formula must be a"),
        ("y ~ x x", "formula must be like"),
        ("y ~ .", "formula must be like"),
        ("y ~ 'x'", "String literals are not valid in formulae"),
        ("y ~ `x", "formula must be like"),
        ("y ~ I(x", "formula must be like"),
        ("y ~ I(x; z)", "formula must be like"),
        ("y ~ x | z", "without |, got 'y ~ x | z'"),
        ("y ~ 0", "formula must give columns with"),
        ("y ~ x - x - 1", "which gives []"),
        ("", "which gives []"),
        ("y + x ~ z", "formula must have one number"),
        ("1 ~ x", "formula must have one number"),
        ("y:x ~ z", "formula must have one number"),
        ("plan ~ z", "formula must have one number"),
        ("C(plan) ~ z", "formula must have one number"),
        ("w ~ w", "bounds must have the"),
        ("log(w) ~ x", "bounds must have the"),
        ("log(y) ~ x", "formula must be finite for"),
        ("I(3) ~ x", "formula must have columns that"),
        ("y ~ x + I(0 * z)", "got 'I(0 * z)' within [0, 0]"),
        ("y ~ scale(x)", "formula must not have scale()"),
        ("y ~ bs(x, df=3)", "bs() must have one argument, public knots, and maybe a degree"),
        ("bs(y, knots=[1]) ~ x", "formula must have one number"),
        ("y ~ I(x > 9)", "formula must have columns that"),
        ("y ~ `a:b` + a:b", "formula must give columns with"),
        ("y ~ huge", "formula must have columns that"),
        ("y ~ big:big2", "formula must be finite for"),
    ],
)
def test_bad_formulas_are_refused_before_any_data(formula, words):
    bounds = {**BOUNDS, "a": (0, 1), "b": (0, 1), "a:b": (0, 1), "huge": (-1e308, 1e308), "big": (0, 1e200)}
    with pytest.raises(InvalidParameter) as caught:
        parse(formula, bounds={**bounds, "big2": (0, 1e200)}, levels=LEVELS)
    assert words in str(caught.value)


def test_without_formulaic_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("formulaic"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DPStatsError, match=r"formulas need formulaic: pip install 'dpstats\[formula\]'"):
        parse("y ~ x", bounds=BOUNDS)
