"""Declared factors of a linear regression: coefficients, what the class answers, and what a row adds."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from sklearn.base import clone

from dpstats.data.rows import LEFT_OUT
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.regression import PrivateLinearRegression, blocks
from dpstats.regression.blocks import Block
from dpstats.regression.levels_plan import (
    COVARIATES,
    LEVELS,
    Coding,
    CovariateSums,
    FactorsPlan,
    OutcomeTotals,
    check_factors,
)

BOUNDS = {"x": (-4, 4), "z": (0, 1)}
GIVEN: dict[str, Any] = {"x_bounds": BOUNDS, "y_bounds": (-6, 10), "random_state": 0}
ARMS = {"arm": ["a", "b", "c"]}
BOTH = {**ARMS, "g": [False, True]}


def make_rows(n: int = 20_000, share: float = 0.02, seed: int = 0) -> pd.DataFrame:
    """Return rows whose rare level "c" has larger x."""
    rng = np.random.default_rng(seed)
    k = rng.choice(3, n, p=[0.5, 0.5 - share, share])
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=n) + 0.5 * (k == 2),
            "z": rng.uniform(size=n),
            "arm": np.array(["a", "b", "c"])[k],
            "g": rng.random(n) < 0.4,
        }
    )
    line = 1 + frame["x"] + 0.2 * frame["z"] + np.array([0, 0.5, 2])[k] + 0.3 * frame["g"]
    return frame.assign(y=line + rng.normal(size=n))


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return make_rows()


@pytest.fixture(scope="module")
def model(rows: pd.DataFrame) -> PrivateLinearRegression:
    return PrivateLinearRegression(factors=ARMS, **GIVEN).fit(rows, rows["y"])


@pytest.fixture(scope="module")
def both(rows: pd.DataFrame) -> PrivateLinearRegression:
    return PrivateLinearRegression(factors=BOTH, **GIVEN).fit(rows, rows["y"])


def test_without_noise_coefficients_are_those_of_least_squares(rows: pd.DataFrame) -> None:
    ols = smf.ols("y ~ x + z + arm + g", rows).fit(cov_type="HC1")
    given = GIVEN | {"epsilon": 1e6}
    found = PrivateLinearRegression(factors=BOTH, **given).fit(rows, rows["y"])
    assert list(found.params.index) == ["Intercept", "x", "z", "arm[T.b]", "arm[T.c]", "g[T.True]"]
    expected = ols.params[found.params.index]
    assert ((found.params - expected) / ols.bse[found.params.index]).abs().max() < 0.15
    assert (found.bse / ols.bse[found.params.index]).between(0.95, 1.1).all()


def test_the_interval_of_a_rare_level_is_short() -> None:
    rows = make_rows(share=0.01)
    model = PrivateLinearRegression(factors=ARMS, **GIVEN).fit(rows, rows["y"])
    columns = pd.get_dummies(rows[["x", "z", "arm"]], drop_first=True).astype(float)
    today = PrivateLinearRegression(
        x_bounds={**BOUNDS, "arm_b": (0, 1), "arm_c": (0, 1)}, y_bounds=(-6, 10), random_state=0
    ).fit(columns, rows["y"])
    assert model.bse["arm[T.c]"] < 0.5 * today.bse["arm_c"]
    assert abs(model.params["arm[T.c]"] - 2) < 3 * model.bse["arm[T.c]"]
    assert model.identified_.all()


def test_the_summary_names_levels_and_assumptions(model: PrivateLinearRegression) -> None:
    text = str(model.summary())
    assert all(name in text for name in ("Intercept", "x", "z", "arm[T.b]", "arm[T.c]"))
    assert "undeclared" in text and "skewed in each level" in text
    assert "factors ['arm']" in str(model.plan_)
    assert list(model.levels_) == ["a", "b", "c"]
    assert model.levels_["c"]["count"] == pytest.approx(400, abs=6 * model.counts_noise_std_ + 60)
    assert model.to_frame().shape[0] == 5
    assert "factors" in model.methods_text()


def test_rare_far_residuals_move_the_intercept_or_are_named() -> None:
    # Clipped at 3 or 4 standard deviations, they would move it by up to 2. The mean of all outcomes counts them.
    rows, far = make_rows(9000), np.random.default_rng(9).random(9000) < 0.01
    wide = {"x_bounds": BOUNDS, "y_bounds": (-150, 350), "factors": ARMS, "random_state": 0}
    for epsilon, seen in ((6.0, True), (0.7, False)):
        model = PrivateLinearRegression(**wide, epsilon=epsilon).fit(rows, rows["y"] + 200 * far)
        assumed = dict(model.summary().facts).get("Intercept assumes", "")
        hidden = 0.0 if seen else float(assumed.split("bias of ")[1].split(" se")[0])
        assert abs(model.intercept_ - 3.12) < (hidden + 3) * model.intercept_standard_error_
        assert bool(assumed) != seen
        assert abs(model.params["arm[T.b]"] - 0.5) < 3 * model.bse["arm[T.b]"]


def test_covariates_away_from_the_middle_of_their_bounds_do_not_move_the_intercept() -> None:
    rows = make_rows(9000)
    bounds = {"x": (-40, 4), "z": (0, 9)}
    model = PrivateLinearRegression(**GIVEN | {"x_bounds": bounds, "y_bounds": (-60, 60)}, factors=ARMS, epsilon=2.0)
    model = model.fit(rows.assign(z=rows["z"] + 7), rows["y"])
    assert abs(model.intercept_ - (1.12 - 7 * 0.2)) < 4 * model.intercept_standard_error_


def test_all_questions_are_answered(rows: pd.DataFrame, both: PrivateLinearRegression) -> None:
    new = rows.head(5).drop(columns="y")
    expected = 1 + new["x"] + 0.2 * new["z"] + new["arm"].map({"a": 0, "b": 0.5, "c": 2}) + 0.3 * new["g"]
    assert both.predict(new) == pytest.approx(expected.to_numpy(), abs=0.5)
    assert both.get_prediction(new).estimate == pytest.approx(both.predict(new))
    low, high = both.predict_interval(new)
    assert ((low < both.predict(new)) & (both.predict(new) < high)).all()
    assert both.f_test("arm").df_num == 2
    assert both.wald_test_terms().names == ("Intercept", "x", "z", "arm", "g")
    assert both.t_test("arm[T.c] - arm[T.b]").estimate[0] == pytest.approx(1.5, abs=0.8)
    assert both.test("g[T.True]").pvalue[0] < 0.01
    assert 0.3 < both.score(rows.drop(columns="y"), rows["y"]) < 0.8
    assert both.plot() is not None


def test_differences_of_levels(model: PrivateLinearRegression, both: PrivateLinearRegression) -> None:
    one = model.difference("c", "b")
    low, high = one.confidence_interval()
    assert low[0] < 1.5 < high[0] and one.test().pvalue < 0.01
    assert one.estimate[0] == pytest.approx(model.coef_[3] - model.coef_[2], abs=0.1 * (high - low)[0])
    several = both.difference("c", "b", "arm", alternative="greater")
    assert several.estimate[0] == pytest.approx(both.coef_[3] - both.coef_[2])
    assert several.test().alternative == "greater"
    assert "c - b" in str(one.summary()) and "Factor" in str(one.summary())
    with pytest.raises(InvalidParameter, match="factor must"):
        both.difference("c", "b")
    with pytest.raises(InvalidParameter, match="a must"):
        model.difference("nobody", "b")
    with pytest.raises(InvalidParameter, match="b must"):
        model.difference("b", "b")
    X = np.random.default_rng(0).normal(size=(3000, 1))
    plain = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-4, 4), random_state=0).fit(X, X[:, 0])
    with pytest.raises(InvalidParameter, match="factors must"):
        plain.difference(0, 1)


def test_a_fit_can_be_stored_and_repeated(rows: pd.DataFrame, model: PrivateLinearRegression) -> None:
    new = rows.head(3)
    stored = pickle.loads(pickle.dumps(model))
    assert (stored.predict(new) == model.predict(new)).all()
    assert stored.difference("c", "a").estimate == model.difference("c", "a").estimate
    again = clone(model).fit(rows, rows["y"])
    assert (again.params_ == model.params_).all()
    assert model.get_params()["factors"] == ARMS


def test_a_level_that_noise_hides_is_not_identified() -> None:
    frame = make_rows(5000, share=0.002)
    found = PrivateLinearRegression(factors=ARMS, **GIVEN).fit(frame, frame["y"])
    assert found.identified_.tolist() == [True, True, True, False]
    assert np.isnan(found.pvalues["arm[T.c]"])
    low, high = found.difference("c", "a").confidence_interval()
    assert low[0] < 2 < high[0] and high[0] - low[0] > 5
    assert found.conf_int().loc["arm[T.c]"].tolist()[0] < 2 < found.conf_int().loc["arm[T.c]"].tolist()[1]
    # A hidden reference level hides all comparisons with it.
    found = PrivateLinearRegression(factors={"arm": ["c", "a", "b"]}, **GIVEN).fit(frame, frame["y"])
    assert found.identified_.tolist() == [True, True, False, False]


def test_rows_without_a_declared_label_add_nothing(rows: pd.DataFrame) -> None:
    changed = rows.copy()
    changed.loc[:4999, "arm"] = np.where(np.arange(5000) % 2, "nobody", None)
    changed.loc[:4999, "y"] = 9.0
    found = PrivateLinearRegression(factors=ARMS, **GIVEN, epsilon=20).fit(changed, changed["y"])
    rest = smf.ols("y ~ x + z + arm", changed.iloc[5000:]).fit(cov_type="HC1")
    assert ((found.params - rest.params[found.params.index]) / found.bse).abs().max() < 2
    assert found.rows_ == pytest.approx(15_000, abs=6 * found.rows_noise_std_)
    assert np.isnan(found.predict(changed.head(2))).all()
    with pytest.raises(InvalidData):
        found.score(changed, changed["y"])


def test_missing_entries_are_refused_or_left_out(rows: pd.DataFrame) -> None:
    changed = rows.copy()
    changed.loc[:1999, "x"] = np.nan
    with pytest.raises(InvalidData):
        PrivateLinearRegression(factors=ARMS, **GIVEN).fit(changed, changed["y"])
    found = PrivateLinearRegression(factors=ARMS, missing="drop", **GIVEN).fit(changed, changed["y"])
    assert found.rows_ == pytest.approx(18_000, abs=6 * found.rows_noise_std_)


def test_offsets_and_weights() -> None:
    frame = make_rows(40_000)
    rng = np.random.default_rng(1)
    frame["w"], frame["known"] = rng.uniform(0, 2, len(frame)), rng.uniform(-1, 1, len(frame))
    frame["y"] += frame["known"]
    given = GIVEN | {"epsilon": 1e4, "offset_bounds": (-1, 1), "weight_bounds": (0, 2)}
    found = PrivateLinearRegression(factors=ARMS, offset="known", weights="w", **given).fit(frame, frame["y"])
    wls = smf.wls("I(y - known) ~ x + z + arm", frame, weights=frame["w"]).fit(cov_type="HC1")
    errors = wls.bse[found.params.index]
    assert ((found.params - wls.params[found.params.index]) / errors).abs().max() < 0.3
    # Standard errors of levels count a row of weight w like w rows of weight 1: at most too large.
    assert (found.bse / errors).between(0.95, 1.4).all()
    assert found.total_weight_ == pytest.approx(frame["w"].sum(), rel=0.02)
    assert found.clipped_offset_share_ == pytest.approx(0, abs=0.02)


def test_a_weighted_row_moves_totals_by_at_most_the_sensitivity() -> None:
    model = PrivateLinearRegression(factors=ARMS, weight_bounds=(0, 1), epsilon=1.0, **GIVEN)
    plan, rng = model.plan(2000, 2), np.random.default_rng(0)
    (totals,) = (stage for stage in plan.stages if stage.name == LEVELS)
    (sums,) = (stage for stage in plan.stages if stage.name == COVARIATES)
    outcome, covariates = OutcomeTotals(plan.totals(LEVELS), 0.0, 1.0), CovariateSums(3)

    def ask(y: float, x: Any, weight: float, label: int) -> tuple[Any, Any]:
        points = np.append(np.rint(np.array(x) * 2.0**18), 1.0).astype(np.float32)[None]
        no = np.zeros(1, dtype=bool)
        code = np.array([label])
        block = Block(points, np.array([y]), no, no, weight=np.array([weight]), groups=code)

        def answer(question: Any, stage: Any) -> Any:
            found = question.sum_rows(block)
            return np.concatenate([found[each.name] / each.unit_steps for each in stage.blocks])

        return answer(outcome, totals), answer(covariates, sums)

    ends = (-1.0, 0.0, 1.0)
    grid = [
        ask(y, (x, -x), weight, label)
        for y in (*ends, rng.uniform(-1, 1))
        for x in (-2.0, -1.0, rng.uniform(-2, 2), 2.0)
        for weight in (0.0, 1.0, rng.uniform(), rng.uniform())
        for label in (0, 1)
    ]
    moved = [max(np.linalg.norm(a[i] - b[i]) for a in grid for b in grid) for i in (0, 1)]
    most = totals.sensitivity, sums.sensitivity
    assert all(0.98 * bound < found <= bound for found, bound in zip(moved, most, strict=True))


def test_declarations_are_checked(rows: pd.DataFrame) -> None:
    for factors, words in (
        (["arm"], "must be a mapping"),
        ({"arm": ["a"]}, "at least two levels"),
        ({"arm": "abc"}, "sequence of distinct values"),
        ({"arm": range(9), "g": [0, 1]}, "at most 16 combinations of levels, got 18"),
    ):
        with pytest.raises(InvalidParameter, match=words):
            PrivateLinearRegression(factors=factors, **GIVEN).fit(rows, rows["y"])
    with pytest.raises(InvalidParameter, match="fit_intercept must"):
        PrivateLinearRegression(factors=ARMS, fit_intercept=False, **GIVEN).fit(rows, rows["y"])
    with pytest.raises(InvalidParameter, match="cov_type must"):
        PrivateLinearRegression(factors=ARMS, cov_type="nonrobust", **GIVEN).fit(rows, rows["y"])
    with pytest.raises(InvalidParameter, match="factors must"):
        PrivateLinearRegression(factors={"site": [1, 2]}, **GIVEN).fit(rows, rows["y"])
    with pytest.raises(InvalidData, match="column that factors names"):
        PrivateLinearRegression(factors={1: [1, 2]}, x_bounds=(0, 1), y_bounds=(0, 1)).fit(
            np.zeros((9, 2)), np.zeros(9)
        )
    assert check_factors(None) == {}


def test_noise_that_hides_the_slopes_is_refused_before_the_charge(rows: pd.DataFrame) -> None:
    budget = PrivacyBudget(epsilon=1, delta=1e-6)
    few = PrivateLinearRegression(factors=ARMS, epsilon=0.1, budget=budget, x_bounds=BOUNDS, y_bounds=(-6, 10))
    with pytest.raises(InvalidParameter, match="epsilon must"):
        few.fit(rows.head(200), rows["y"].head(200))
    assert budget.spent.epsilon == 0


def test_cells_are_coded_in_order() -> None:
    coding = Coding.code_main_effects(check_factors(BOTH))
    assert coding.cells == tuple((arm, g) for arm in "abc" for g in (False, True))
    assert coding.names == ("arm[T.b]", "arm[T.c]", "g[T.True]")
    assert coding.columns.tolist()[3] == [1.0, 0.0, 1.0]
    numbers, places = coding.find_places(2)
    assert numbers.tolist() == [0, 1] and places.tolist() == [2, 3, 4]


def test_rows_in_files_and_relations_give_the_same_fit(rows: pd.DataFrame, tmp_path: Any) -> None:
    pytest.importorskip("duckdb")
    frame = rows.drop(columns="g").assign(g=rows["g"].astype(int))
    factors = {**ARMS, "g": [0, 1]}
    expected = PrivateLinearRegression(factors=factors, **GIVEN).fit(frame, frame["y"])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    found = PrivateLinearRegression(factors=factors, **GIVEN).fit(tmp_path / "rows.csv", "y")
    assert found.params_ == pytest.approx(expected.params_, rel=1e-6)


def test_a_formula_with_rare_levels_is_fitted_by_levels(rows: pd.DataFrame) -> None:
    given = {"bounds": {**BOUNDS, "y": (-6, 10)}, "random_state": 0}
    formula, levels = "y ~ C(arm) + x*z + arm:g", {"arm": ["a", "b", "c"]}
    found = PrivateLinearRegression.from_formula(formula, rows, levels=levels, **given)
    assert isinstance(found.plan_, FactorsPlan)
    assert list(found.params.index) == ["Intercept", *found.formula_.names]
    assert found.predict(rows.head(3)).shape == (3,)
    assert "C(arm)" in found.wald_test_terms().names
    assert found.difference("c", "a", "arm").estimate.shape == (1,)
    assert found.factors is None and len(found.x_bounds) == len(found.formula_.names)
    # A declaration says that no level is rare, so that columns of 0 and 1 are shorter.
    levels = {"arm": {"a": 0.4, "b": 0.4, "c": 0.2}}
    found = PrivateLinearRegression.from_formula("y ~ C(arm) + x", rows, levels=levels, **given)
    assert not isinstance(found.plan_, FactorsPlan)


@pytest.mark.parametrize("formula", ["y ~ x * C(arm)", "y ~ C(arm)", "y ~ C(arm) + x - 1", "y ~ x + z"])
def test_other_formulas_are_fitted_by_columns(rows: pd.DataFrame, formula: str) -> None:
    found = PrivateLinearRegression.from_formula(
        formula, rows, bounds={**BOUNDS, "y": (-6, 10)}, levels=ARMS, random_state=0
    )
    assert not isinstance(found.plan_, FactorsPlan)


def test_a_missing_category_of_a_formula(rows: pd.DataFrame) -> None:
    changed = rows.copy()
    changed.loc[:999, "arm"] = None
    given = {"bounds": {**BOUNDS, "y": (-6, 10)}, "levels": ARMS, "random_state": 0}
    with pytest.raises(InvalidData, match=r"data\['arm'\] must hold declared levels only"):
        PrivateLinearRegression.from_formula("y ~ x + arm", changed, unknown="error", **given)
    for missing in ("error", "drop"):
        found = PrivateLinearRegression.from_formula("y ~ x + arm", changed, missing=missing, **given)
        assert found.rows_ == pytest.approx(19_000, abs=6 * found.rows_noise_std_)
        assert LEFT_OUT in " ".join(found.summary().notes)


def test_the_number_of_rows_is_public_if_none_is_left_out(rows: pd.DataFrame) -> None:
    given = {"bounds": {**BOUNDS, "y": (-6, 10)}, "levels": ARMS, "random_state": 0}
    found = PrivateLinearRegression.from_formula("y ~ x + arm", rows, unknown="error", **given)
    assert isinstance(found.plan_, FactorsPlan) and found.nobs == len(rows)


def test_weights_of_a_formula(rows: pd.DataFrame) -> None:
    frame = rows.assign(w=1.0)
    found = PrivateLinearRegression.from_formula(
        "y ~ x + arm",
        frame,
        bounds={**BOUNDS, "y": (-6, 10)},
        levels=ARMS,
        random_state=0,
        weights="w",
        weight_bounds=(0, 1),
    )
    assert isinstance(found.plan_, FactorsPlan)
    assert found.total_weight_ == pytest.approx(20_000, rel=0.05)


def test_intervals_cover(rows: pd.DataFrame) -> None:
    truth = np.array([1.0, 1.0, 0.2, 0.5, 2.0, 0.3])
    inside, widths = [], []
    for seed in range(25):
        frame = make_rows(8000, share=0.03, seed=seed)
        found = PrivateLinearRegression(factors=BOTH, **GIVEN | {"random_state": seed, "epsilon": 3.0}).fit(
            frame, frame["y"]
        )
        low, high = found.conf_int().to_numpy().T
        inside.append((low <= truth) & (truth <= high))
        widths.append(high - low)
    assert np.mean(inside) > 0.9 and (np.mean(inside, axis=0) > 0.75).all()
    assert math.isfinite(np.max(widths))


def test_factors_are_part_of_a_formula(rows: pd.DataFrame) -> None:
    with pytest.raises(InvalidParameter, match="factors must"):
        PrivateLinearRegression.from_formula(
            "y ~ x + arm", rows, bounds={**BOUNDS, "y": (-6, 10)}, levels=ARMS, factors=ARMS
        )


def test_outcomes_without_spread_have_coefficients() -> None:
    rows = pd.DataFrame({"x": np.ones(200), "a": np.arange(200) % 3})
    made = PrivateLinearRegression(
        x_bounds={"x": (-3, 3)}, y_bounds=(-1, 1), factors={"a": [0, 1, 2]}, epsilon=1e6, random_state=0
    ).fit(rows, np.full(200, 0.25))
    assert np.isfinite(made.params_).all()


def test_plans_that_know_shares_state_the_noise_of_levels() -> None:
    made = PrivateLinearRegression(
        x_bounds={"age": (0, 100)}, y_bounds=(0, 1), factors={"arm": ["a", "b"], "site": [1, 2]}
    )
    found = made.plan(20_000, 1, shares={"arm": {"b": 0.01}, "age": 0.2})
    assert found.noise_ratios["arm[b]"] == pytest.approx(math.sqrt(found.smallest_share / 0.01))
    assert found.noise_ratios["age"] == found.inner.noise_ratio_of_share(0.2)
    assert [note for note in found.notes() if note.startswith("arm[b] at 1% of the rows: noise about")]
    for given in ({"arm": 0.1}, {"arm": {"c": 0.1}}, {"arm": {"b": 1.2}}):
        with pytest.raises(InvalidParameter, match="share"):
            made.plan(20_000, 1, shares=given)


def test_a_missing_number_is_refused_in_a_row_of_an_undeclared_level_too(
    rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = rows.iloc[:5000].copy()
    changed.loc[0, ["x", "arm"]] = np.nan, "nobody"
    for kept in (blocks.MOST_KEPT, 1):
        monkeypatch.setattr(blocks, "MOST_KEPT", kept)
        with pytest.raises(InvalidData, match="NaN"):
            PrivateLinearRegression(factors=ARMS, **GIVEN).fit(changed, changed["y"])


def test_pure_privacy_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="delta must be greater than 0"):
        PrivateLinearRegression(factors=ARMS, delta=0, **GIVEN).plan(5000, 2)
