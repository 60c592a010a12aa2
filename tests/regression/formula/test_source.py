"""A formula's rows are a source: sized and paid for before they are read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter
from dpstats.groups import one_row_per_unit
from dpstats.privacy import PrivacyBudget
from dpstats.regression import PrivateLinearRegression
from dpstats.regression.formula import FormulaRows, parse

BOUNDS = {"x": (-2, 2), "y": (-4, 4)}


def test_a_budget_that_cannot_pay_refuses_before_the_rows_are_read() -> None:
    for data in ({"x": ["unread"] * 9, "y": ["unread"] * 9}, pd.DataFrame({"x": ["unread"] * 9, "y": 1})):
        with pytest.raises(BudgetExceeded):
            PrivateLinearRegression.from_formula("y ~ x", data, bounds=BOUNDS, budget=PrivacyBudget(0.1, 1e-5))


def test_the_unit_of_a_frame_is_that_of_the_fit() -> None:
    x = np.random.default_rng(0).normal(size=200)
    frame = pd.DataFrame({"p": np.arange(200) // 2, "x": x, "y": 2 * x})
    people = one_row_per_unit(frame, "p", {"x": "mean", "y": "mean"}, called="person")
    made = PrivateLinearRegression.from_formula("y ~ x", people, bounds=BOUNDS, random_state=0)
    assert made.privacy_.unit == "person" and made.n_features_in_ == 1


def test_the_response_is_in_the_formula() -> None:
    data = {"x": [0.5, 1.0], "y": [1.0, 2.0]}
    fit = PrivateLinearRegression(x_bounds=(-2, 2), y_bounds=(-4, 4), random_state=0).fit
    with pytest.raises(InvalidParameter, match="y must"):
        fit(FormulaRows(parse("y ~ x", bounds=BOUNDS), data), [1.0, 2.0])
    with pytest.raises(InvalidData, match="y must be given"):
        fit(FormulaRows(parse("~ x", bounds=BOUNDS), data))


def test_a_lazy_frame_has_the_fit_of_its_rows_in_memory() -> None:
    # Its number of rows decides whether factors are fitted by levels, and it is read once.
    polars, rng = pytest.importorskip("polars"), np.random.default_rng(0)
    x, u = rng.normal(size=500), np.resize(list("aaab"), 500)
    frame, reads = polars.DataFrame({"x": x, "u": u, "y": x}), []
    lazy = frame.lazy().map_batches(lambda rows: reads.append(len(rows)) or rows)
    made = [
        PrivateLinearRegression.from_formula(
            "y ~ x + C(u)", data, bounds=BOUNDS, levels={"u": ["a", "b"]}, random_state=0
        )
        for data in (frame, lazy)
    ]
    assert reads == [500] and type(made[0].plan_) is type(made[1].plan_)
    assert made[0].params_.tobytes() == made[1].params_.tobytes()
