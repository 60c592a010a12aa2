"""What regressions report of coefficients: names, intervals, tests, summaries."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.regression import PrivateLinearRegression
from dpstats.regression.linear_path import MEAT_KURTOSIS

DEGREES = 2 * 4996 / MEAT_KURTOSIS
"""Of the robust covariance of 5,000 rows and four coefficients."""


def rows() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(5000, 3)), columns=["age", "dose", "weight"])
    return X, 1 + X.to_numpy() @ [0.5, -0.5, 0.0] + rng.normal(size=5000)


@pytest.fixture(scope="module")
def model() -> PrivateLinearRegression:
    bounds = {"weight": (-4, 4), "age": (-4, 4), "dose": (-5, 5)}
    return PrivateLinearRegression(x_bounds=bounds, y_bounds=(-6, 8), random_state=1).fit(*rows())


def test_everything_is_about_the_same_coefficients(model: PrivateLinearRegression) -> None:
    assert model.coef_.shape == model.standard_errors_.shape == model.identified_.shape == (3,)
    assert np.allclose(np.sqrt(np.diag(model.cov_params_)), model.standard_errors_)
    assert model.params_[0] == model.intercept_
    assert np.allclose(model.params_[1:], model.coef_)
    low, high = model.confidence_interval()
    assert np.allclose((low + high) / 2, model.coef_)
    assert np.allclose((high - low) / 2, stats.t.ppf(0.975, DEGREES) * model.standard_errors_)
    one = model.confidence_interval(coefficient="dose")
    assert (one.low[0], one.high[0], one.names) == (low[1], high[1], ("dose",))
    all_low, all_high = model.confidence_interval(simultaneous=True)
    assert (all_low < low).all()
    assert (all_high > high).all()


def test_a_test_agrees_with_its_interval(model: PrivateLinearRegression) -> None:
    one = model.test("dose", value=-0.5)
    z = (model.coef_[1] + 0.5) / model.standard_errors_[1]
    assert one.statistic == pytest.approx([z])
    assert one.pvalue == pytest.approx([2 * stats.t.sf(abs(z), DEGREES)])
    assert model.test(1, -0.5).pvalue == one.pvalue
    assert model.test("Intercept").statistic[0] == pytest.approx(model.intercept_ / model.intercept_standard_error_)
    less, greater = (model.test("dose", -0.5, side).pvalue[0] for side in ("less", "greater"))
    assert less + greater == pytest.approx(1)
    assert model.test("dose", -0.5, "less").confidence_interval().low[0] == -np.inf
    all_at_once = model.test()
    assert all_at_once.pvalue.shape == (3,)
    assert "dose" in str(all_at_once.summary())


def test_an_f_test_of_one_is_the_square_of_its_test(model: PrivateLinearRegression) -> None:
    one = model.f_test("dose")
    assert one.statistic == pytest.approx(model.test("dose").statistic[0] ** 2)
    assert (one.df_num, one.df_denom) == (1, 4996)
    several = model.f_test(["age", 1])
    assert several.pvalue < 1e-10
    assert several.names == ("age", "dose")
    assert model.f_test().df_num == 3
    hotelling = stats.f.sf(several.statistic * (DEGREES - 1) / DEGREES, 2, DEGREES - 1)
    assert several.pvalue == pytest.approx(hotelling) and len(several.remarks) == 1
    plain = clone(model).set_params(cov_type="nonrobust").fit(*rows())
    assert plain.f_test().remarks == ()
    assert "age, dose" in str(several.summary())
    assert "<table" in several._repr_html_()


def test_the_names_of_statsmodels(model: PrivateLinearRegression) -> None:
    names = ["Intercept", "age", "dose", "weight"]
    assert list(model.params.index) == list(model.bse.index) == list(model.pvalues.index) == names
    assert model.params["dose"] == model.coef_[1] and model.nobs == 5000
    assert np.allclose(model.tvalues, model.params / model.bse)
    assert np.allclose(model.pvalues, 2 * stats.t.sf(np.abs(model.tvalues), DEGREES))
    assert np.allclose(np.sqrt(np.diag(model.cov_params())), model.bse)
    low, high = model.confidence_interval(0.9)
    assert np.allclose(model.conf_int(0.1).loc[names[1:]], np.stack([low, high], axis=1))
    assert list(model.cov_params().columns) == names
    plain = PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-1, 1), random_state=0)
    plain.fit(np.linspace(-1, 1, 500)[:, None], np.linspace(-1, 1, 500))
    assert isinstance(plain.params, np.ndarray) and plain.conf_int().shape == (2, 2)
    for made in (model, plain):
        frame, interval = made.to_frame(0.9), np.asarray(made.conf_int(0.1))
        assert frame.index.tolist() == [row[0] for row in made.summary().rows]
        assert np.allclose(frame["estimate"], made.params) and np.allclose(frame[["low", "high"]], interval)
    with pytest.raises(NotFittedError):
        PrivateLinearRegression().params  # noqa: B018


def test_combinations_are_tested_one_by_one_and_together(model: PrivateLinearRegression) -> None:
    found = model.t_test("age + dose = 0, weight = 0.1")
    variance = model.cov_params_[0, 0] + model.cov_params_[1, 1] + 2 * model.cov_params_[0, 1]
    assert found.estimate[0] == pytest.approx(model.coef_[0] + model.coef_[1])
    assert found.error[0] == pytest.approx(np.sqrt(variance))
    assert found.pvalue[1] == pytest.approx(model.test("weight", 0.1).pvalue[0])
    assert "age + dose = 0" in str(found.summary())
    assert model.f_test("age = -dose").pvalue == pytest.approx(found.pvalue[0])
    both = model.wald_test("age = dose = 0")
    assert both.statistic > 100 and "age - dose = 0, dose = 0" in str(both.summary())
    assert both.to_dict()["rows"][0]["df_num"] == 2
    # Limits are tested at the level of their interval.
    ends = found.confidence_interval(0.95)
    for end in ends:
        assert found.test(end).pvalue == pytest.approx([0.05, 0.05])


def test_predictions_keep_the_index(model: PrivateLinearRegression) -> None:
    rows = pd.DataFrame(np.eye(3), columns=["age", "dose", "weight"], index=[7, 3, 9])
    found = model.get_prediction(rows)
    frame = found.to_frame(0.9)
    assert frame.index.tolist() == [7, 3, 9] and np.allclose(frame["estimate"], model.predict(rows))
    low, high = model.predict_interval(rows, 0.9)
    assert np.allclose(frame["low"], low) and np.allclose(frame["high"], high)
    made = PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-1, 1), random_state=0)
    made.fit(np.linspace(-1, 1, 500)[:, None], np.linspace(-1, 1, 500))
    assert made.get_prediction([[0.0], [1.0]]).names == ("0", "1")


def test_what_is_not_identified_has_no_z_and_no_pvalue() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 3)), columns=["a", "b", "c"])
    X["c"] = X["a"] + 1e-3 * rng.normal(size=400)
    made = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-6, 8), random_state=0).fit(X, X["a"])
    flagged = [name for name, known in zip("abc", made.identified_, strict=True) if not known]
    assert flagged
    table = {row[0]: row for row in made.summary().rows}
    for name in "abc":
        shown = name not in flagged
        assert (table[name][3] != "") == (table[name][4] != "") == shown
        assert np.isfinite(made.pvalues[name]) == np.isfinite(made.to_frame()["pvalue"][name]) == shown
    assert json.loads(json.dumps(made.to_dict()))["rows"][1 + list("abc").index(flagged[0])]["pvalue"] is None


def test_results_are_pickled_without_the_estimator(model: PrivateLinearRegression) -> None:
    for result in (model.estimates(), model.test("age"), model.f_test(), model.t_test("age = dose")):
        text = pickle.dumps(result)
        assert b"PrivateLinearRegression" not in text
        assert pickle.loads(text).to_dict() == result.to_dict()


@pytest.mark.parametrize("names", [[], ["age", "age"], ["height"], [7], [1.5], True])
def test_wrong_coefficients_are_refused(model: PrivateLinearRegression, names: object) -> None:
    with pytest.raises(InvalidParameter):
        model.f_test(names)  # type: ignore[arg-type]


def test_the_summary_is_laid_out_as_statsmodels_is(model: PrivateLinearRegression) -> None:
    text = str(model.summary(0.9))
    for word in ("coef", "std err", "P>|z|", "[0.05", "0.95]", "Intercept", "dose", "privacy", "Privacy:"):
        assert word in text
    assert "Simulated noise" in text
    assert "<table" in model.summary()._repr_html_()


def test_an_outcome_is_needed_and_of_the_right_length(model: PrivateLinearRegression) -> None:
    X = np.zeros((10, 2))
    made = PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-1, 1), random_state=0)
    with pytest.raises(InvalidData, match="requires y"):
        made.fit(X)
    with pytest.raises(InvalidData):
        made.fit(X, np.zeros(9))
    with pytest.raises(InvalidData, match="y must"):
        made.fit(X, np.full(10, np.nan))
    with pytest.raises(InvalidData, match="NaN or infinity"):
        made.fit(np.full((10, 2), np.inf), np.zeros(10))


def test_labels_of_bounds_have_to_be_those_of_the_columns() -> None:
    X = pd.DataFrame(np.zeros((10, 2)), columns=["a", "b"])
    made = PrivateLinearRegression(x_bounds={"a": (0, 1), "c": (0, 1)}, y_bounds=(0, 1), random_state=0)
    with pytest.raises(InvalidParameter, match="x_bounds"):
        made.fit(X, np.zeros(10))


def test_a_formula_gives_names_and_predictions() -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {"y": rng.normal(size=3000), "x": rng.normal(size=3000), "plan": rng.choice(list("abc"), 3000)}
    )
    made = PrivateLinearRegression.from_formula(
        "y ~ x + C(plan)", frame, bounds={"y": (-5, 5), "x": (-4, 4)}, levels={"plan": ["a", "b", "c"]}, random_state=0
    )
    assert made._names() == ["Intercept", "x", "C(plan)[T.b]", "C(plan)[T.c]"] or len(made.coef_) == 3
    assert made.predict(frame.drop(columns="y")).shape == (3000,)
    refitted = made.set_params(x_bounds=(-4, 4)).fit(np.zeros((50, 2)), np.zeros(50))
    assert refitted._names() == ["Intercept", "x0", "x1"]


def test_rows_far_away_give_no_warning(model: PrivateLinearRegression) -> None:
    # A warning would tell that such a row is there; warnings are errors here.
    far = pd.DataFrame([[1.7e308] * 3] * 2, columns=["age", "dose", "weight"])
    assert model.predict(far * np.sign(model.coef_)).shape == (2,)
    X = np.random.default_rng(0).uniform(-1, 1, size=(2000, 1))
    steep = PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-40, 40), random_state=0).fit(X, 30 * X[:, 0])
    assert steep.predict([[1.7e308], [0.0]])[0] == np.inf
    assert np.isfinite(steep.score([[1.7e308]] * 30, [0.0] * 30))


def test_settings_of_the_caller_cannot_fail_a_report() -> None:
    # The budget has paid for it.
    few = pd.DataFrame({"x": [0.1, 0.7, -0.4, 0.2, -0.9], "u": list("ababa"), "y": [0.0, 1.0, 1.0, 0.0, 1.0]})
    own: dict[str, Any] = {"levels": {"u": ["a", "b"]}, "bounds": {"x": (-1, 1), "y": (0, 2)}}
    own |= {"epsilon": 100.0, "delta": 1e-2, "random_state": 1}
    with np.errstate(all="raise"):
        loud = PrivateLinearRegression.from_formula("y ~ x + C(u)", few, **own)
    quiet = PrivateLinearRegression.from_formula("y ~ x + C(u)", few, **own)
    assert loud.params_cov_.tobytes() == quiet.params_cov_.tobytes()


def test_a_column_cannot_have_the_name_of_the_intercept() -> None:
    frame = pd.DataFrame({"Intercept": np.linspace(-1, 1, 200)})
    given = {"x_bounds": (-1, 1), "y_bounds": (-1, 1), "random_state": 0}
    with pytest.raises(InvalidData, match="X must"):
        PrivateLinearRegression(**given).fit(frame, frame["Intercept"])
    with pytest.raises(InvalidData, match="X must"):
        PrivateLinearRegression.from_formula(
            "y ~ Intercept", frame.assign(y=0.0), bounds={"Intercept": (-1, 1), "y": (-1, 1)}
        )
    through_zero = PrivateLinearRegression(fit_intercept=False, **given).fit(frame, frame["Intercept"])
    assert through_zero.test("Intercept").pvalue.shape == (1,)
