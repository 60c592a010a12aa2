"""Hypotheses in words are the matrices of statsmodels, and what is none of them is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from dpstats.errors import InvalidParameter
from dpstats.regression.hypotheses import Hypotheses, unquote

NAMES = ["Intercept", "x", "x2", "dose mg", "C(plan)[T.b]", "C(plan)[T.c, d]", "C(plan)[T.b]:x"]
WEIGHTS = [0, 1, -1, 0, 0, 0, 0]


def parse(asked: object, first: int = 1) -> Hypotheses:
    return Hypotheses.parse(asked, NAMES, first, "names")


def test_statsmodels_reads_the_same() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["y", "x1", "x2"])
    frame["plan"] = rng.choice(list("abc"), 60)
    fitted = smf.ols("y ~ x1 + x2 + C(plan)", frame).fit()
    names = list(fitted.params.index)
    for text in (
        "x1 = x2",
        "x1 = x2 = 0",
        "x1 + 2*x2 = 1",
        "x1 - x2/2, Intercept = -.5",
        "-x1 + (x2 - 3) * 2 = 0",
        "C(plan)[T.b] = C(plan)[T.c], x1 = 1e-1",
    ):
        mine, theirs = Hypotheses.parse(text, names, 1, "names"), fitted.t_test(text)
        off = mine.matrix @ fitted.params.to_numpy() - mine.values
        cov = mine.matrix @ fitted.cov_params().to_numpy() @ mine.matrix.T
        np.testing.assert_allclose(off / np.sqrt(np.diagonal(cov)), np.ravel(theirs.tvalue), atol=1e-9)
        f = off @ np.linalg.solve(cov, off) / len(off)
        assert f == pytest.approx(float(np.squeeze(fitted.f_test(text).fvalue)))


def test_a_factor_is_its_levels_without_interactions() -> None:
    assert parse("C(plan)").names == ("C(plan)[T.b]", "C(plan)[T.c, d]")
    assert parse("C(plan) = 0").matrix.tolist() == parse("C(plan)").matrix.tolist()
    assert parse("C(plan) = 0").names == ("C(plan)[T.b] = 0", "C(plan)[T.c, d] = 0")
    assert parse(["C(plan)", "x"]).matrix.shape == (3, 7)


def test_names_are_taken_whole() -> None:
    assert parse("x2").names == ("x2",) and parse("dose mg = 1").values.tolist() == [1.0]
    assert parse("C(plan)[T.b]:x = x").names == ("-x + C(plan)[T.b]:x = 0",)
    assert parse("C(plan)[T.c, d] = 0, x = 0").matrix.shape == (2, 7)
    assert parse("x = -0").names == ("x = 0",)


def test_positions_are_of_slopes_and_matrices_of_all() -> None:
    assert parse(0).names == parse([-6]).names == ("x",)
    assert parse(range(6)).matrix[:, 0].tolist() == [0.0] * 6
    assert parse(np.eye(7)[:2]).names == ("c0", "c1")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("height", "names must be sums of coefficients"),
        ("x = ", "with = between them, got 'x = '"),
        ("x * x2 = 1", "sums of coefficients"),
        ("x / 0", "sums of coefficients"),
        ("1 / x", "sums of coefficients"),
        ("(x + x2", "sums of coefficients"),
        ("x x2", "sums of coefficients"),
        ("x y", "sums of coefficients"),
        ("", "sums of coefficients"),
        ("C(plan)[T.z]", "sums of coefficients"),
        ("1 = 1", "linearly independent"),
        ("x = 1, x = 2", "linearly independent"),
        ([], "at least one hypothesis"),
        (1.5, "got float"),
        (True, "got bool"),
        (6, "positions in coef_ \\(n_features = 6\\), got 6"),
        (np.eye(3), "a column for each coefficient, the intercept first \\(7\\), got 3"),
    ],
)
def test_what_is_no_hypothesis_is_refused(asked: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        parse(asked)


def test_whole_terms_are_those_of_statsmodels() -> None:
    from dpstats.regression import PrivateLinearRegression

    rng = np.random.default_rng(0)
    n = 4000
    frame = pd.DataFrame({"age": rng.uniform(20, 70, n), "plan": rng.choice(list("abc"), n)})
    frame["y"] = frame.age / 20 + 0.1 * (frame.plan == "b") + rng.normal(size=n)
    spline, step = "bs(age, knots=[40, 55], degree=2)", "C(plan):I(age > 50)"
    made = PrivateLinearRegression.from_formula(
        f"y ~ C(plan) + {spline} + {step}",
        frame,
        bounds={"age": (20, 70), "y": (-5, 12)},
        levels={"plan": list("abc")},
        epsilon=1e6,
        random_state=0,
    )
    found = made.wald_test_terms()
    assert found.names == ("Intercept", "C(plan)", spline, step)
    assert found.df_constraint.tolist() == [1, 2, 4, 3] and found.df_denom == made._degrees
    outer = "bs(age, knots=[40, 55], degree=2, lower_bound=20, upper_bound=70)"
    plain = smf.ols(f"y ~ C(plan) + {outer} + C(plan):I((age > 50) * 1.0)", frame).fit(cov_type="HC1")
    theirs = plain.wald_test_terms(scalar=True).table.statistic.to_numpy(dtype=float)
    assert np.allclose(found.statistic * found.df_constraint, theirs, rtol=0.1, atol=0.3)
    for term in (spline, step):
        assert made.f_test(term).statistic == found.statistic[found.names.index(term)]
    assert list(found.to_frame().columns) == ["statistic", "pvalue", "df_constraint"]
    assert "df constraint" in str(found.summary())


def test_names_may_begin_with_blanks_and_signs() -> None:
    for name in (" x", "-x", "+x", "(x)", "x = 1", "3", "a, b"):
        names = ["Intercept", "z", name]
        for text, row in ((name, [0, 0, 1]), (f"z + {name}", [0, 1, 1]), (f"2 * {name} - z", [0, -1, 2])):
            (found,) = Hypotheses.parse(text, names, 1, "names").matrix
            assert found.tolist() == row, (name, text)


ODD = (
    "a b", "-x", "+x", " x", "x ", "x-1", "x = 1", "x=2", "3", "1e3", "(x)", "a, b", "a+b", "x*2", "x/2", "a.b",
    "été", "x\ny", "=", "\t",
)  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_names_in_backticks_are_those_of_formulas(name: str) -> None:
    names = ["Intercept", "x", "z", name]
    for text, row in (
        (f"`{name}`", [0, 0, 0, 1]),
        (f"z = `{name}`", [0, 0, 1, -1]),
        (f"-`{name}` + 2*`z`", [0, 0, 2, -1]),
        (f"`{name}`=`x`=0", [[0, -1, 0, 1], [0, 1, 0, 0]]),
    ):
        found = Hypotheses.parse(text, names, 1, "names")
        assert found.matrix.tolist() == np.atleast_2d(row).tolist(), text
    assert unquote(f"`{name}`", names) == unquote(name, names) == name


def test_parts_of_an_interaction_may_be_in_backticks() -> None:
    names = ["Intercept", "a b", "a b:-x", "`q`", "C(my plan)[T.b]", "C(my plan)[T.c]"]
    for text, row in (("`a b`:`-x`", 2), ("`a b:-x`", 2), ("`a b` = 0", 1), ("`q`", 3)):
        (found,) = Hypotheses.parse(text, names, 1, "names").matrix
        assert np.flatnonzero(found).tolist() == [row], text
    assert len(Hypotheses.parse("`C(my plan)`", names, 1, "names").matrix) == 2
    # A name that has backticks is itself first.
    assert Hypotheses.parse("`q`", ["q", "`q`"], 0, "names").matrix.tolist() == [[0, 1]]
    with pytest.raises(InvalidParameter, match=r"coefficients \(a b, z\) .* got '`a c` = 0'"):
        Hypotheses.parse("`a c` = 0", ["a b", "z"], 0, "names")


@pytest.mark.parametrize("rows", [[WEIGHTS], (WEIGHTS,), [np.array(WEIGHTS)]])
def test_rows_of_weights_may_be_lists(rows: Any) -> None:
    assert parse(rows).matrix.tolist() == [WEIGHTS]


@pytest.mark.parametrize("bad", ["b", None, np.nan, np.inf, [1.0]])
def test_weights_are_finite_numbers(bad: Any) -> None:
    with pytest.raises(InvalidParameter, match="must have finite"):
        parse([[*WEIGHTS[:-1], bad]])


def test_rows_of_weights_have_one_width() -> None:
    with pytest.raises(InvalidParameter, match=r"\(7\), got 1 or 2"):
        parse([[1], [0, 1]])
