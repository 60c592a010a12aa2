"""Private linear regression: intervals that hold, bad input, and what is said of it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpstats.errors import InvalidParameter
from dpstats.inference.results import in_percent
from dpstats.privacy import BudgetExceeded, PrivacyBudget
from dpstats.regression import PrivateLinearRegression, PrivateLogisticRegression, SufficientStatisticsRegression
from dpstats.regression.plan import RegressionPlan
from dpstats.textbook import FunctionalMechanismRegression


def rows(n: int, d: int, rng: np.random.Generator, errors: str = "normal", scales: Any = 1.0) -> tuple[Any, Any, Any]:
    X = rng.normal(size=(n, d)) * scales
    beta = np.where(np.arange(d) % 2, -0.5, 0.5)
    e = {
        "normal": lambda: rng.normal(size=n),
        "exponential": lambda: rng.exponential(size=n) - 1,
        "t3": lambda: rng.standard_t(3, size=n) / np.sqrt(3),
        "heteroskedastic": lambda: rng.normal(size=n) * np.sqrt((0.2 + X[:, 0] ** 2) / 1.2),
    }[errors]()
    return X, 1 + X @ beta + e, beta


def covered(n: int, d: int, fits: int, seed: int, epsilon: float = 1.0, **options: Any) -> tuple[int, int, float]:
    """Return how many coefficients their intervals cover, of how many, and the median width over least squares'."""
    rng, hits, widths = np.random.default_rng(seed), 0, []
    for _ in range(fits):
        X, y, beta = rows(n, d, rng, **options)
        made = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-8, 10), epsilon=epsilon, random_state=rng).fit(X, y)
        low, high = made.confidence_interval()
        hits += int(((low <= beta) & (beta <= high)).sum())
        Z = np.column_stack([np.ones(n), X])
        left = y - Z @ np.linalg.lstsq(Z, y, rcond=None)[0]
        inverse = np.linalg.inv(Z.T @ Z)
        errors = np.sqrt(np.diag(inverse @ (Z.T @ (Z * left[:, None] ** 2)) @ inverse))[1:]
        widths.append(np.median((np.asarray(high) - np.asarray(low)) / 2 / 1.96 / errors))
    return hits, fits * d, float(np.median(widths))


@pytest.mark.parametrize(
    ("n", "d", "widest", "options"),
    [
        (5000, 3, 1.5, {}),
        (5000, 3, 1.5, {"errors": "exponential"}),
        (5000, 3, 1.5, {"errors": "t3"}),
        (5000, 3, 1.5, {"errors": "heteroskedastic"}),
        (5000, 5, 1.8, {"scales": np.geomspace(1, 0.2, 5)}),
        (2000, 3, 2.2, {}),
    ],
)
def test_intervals_cover_and_are_short(n: int, d: int, widest: float, options: dict[str, Any]) -> None:
    fits = 120
    hits, of, width = covered(n, d, fits, seed=n + d, **options)
    # Coefficients of a fit are nearly independent given x; at coverage .93 so few are seen once in 10^4.
    assert stats.binom.cdf(hits, of, 0.93) > 1e-4
    assert width < widest


def test_few_rows_have_students_intervals() -> None:
    # Without n / (n - p) and the t quantile 0.878 were covered.
    hits, of, _ = covered(20, 3, 200, seed=1, epsilon=1e6)
    assert stats.binom.cdf(hits, of, 0.9) > 1e-3


def test_standard_errors_beside_a_rare_indicator_are_least_squares() -> None:
    # Those of nonrobust fits were 0.92 and 4.3 times as large: bounded rows weigh in the meat once more.
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=30_000), rng.random(30_000) < 0.02]).astype(float)
    y = X @ [0.5, 0.3] + rng.normal(size=30_000)
    Z = np.column_stack([np.ones(30_000), X])
    errors = np.sqrt(np.diag(np.linalg.inv(Z.T @ Z)))[1:]
    for kind in ("HC", "nonrobust"):
        made = PrivateLinearRegression(
            x_bounds=[(-4, 4), (0, 1)], y_bounds=(-8, 8), epsilon=1e4, cov_type=kind, random_state=0
        ).fit(X, y)
        assert made.standard_errors_ / errors == pytest.approx(1, abs=0.07)


def test_undercoverage_would_be_seen() -> None:
    assert stats.binom.cdf(int(0.87 * 360), 360, 0.93) < 1e-4


def test_where_in_its_bounds_the_outcome_lies_does_not_matter() -> None:
    # Beside a rare indicator, whose direction is known worst: with an intercept that started at the middle of the
    # bounds, what was unknown of it went to that direction, and the sum of the squares below was 1056.
    squares = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.random((20_000, 8)) < 0.3, rng.random(20_000) < 0.015]).astype(float)
        y = 18 + X @ np.full(9, 0.1) + rng.normal(size=20_000)
        made = PrivateLinearRegression(x_bounds=(0, 1), y_bounds=(-20, 24), random_state=seed).fit(X, y)
        squares.append(((made.coef_[8] - 0.1) / made.standard_errors_[8]) ** 2)
    assert stats.chi2.sf(sum(squares), 20) > 1e-6


@pytest.mark.parametrize("beside", [True, False])
def test_rare_indicators_are_as_precise_as_other_columns(beside: bool) -> None:
    # Widths were 200 and 2000 times least squares': most rows have all indicators 0, and what sets them apart from each
    # other counted as much as the indicators.
    hits, widths = 0, []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        group = rng.choice(4, size=60_000, p=[0.97, 0.01, 0.01, 0.01])
        X = (group[:, None] == np.arange(1, 4)).astype(float)
        X = np.column_stack([rng.normal(size=60_000) / 4, X]) if beside else X
        y = X.sum(axis=1) * 0.3 + rng.normal(size=60_000)
        made = PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-8, 8), epsilon=2.0, random_state=seed).fit(X, y)
        Z = np.column_stack([np.ones(60_000), X])
        widths.append(made.standard_errors_ / np.sqrt(np.diag(np.linalg.inv(Z.T @ Z)))[1:])
        hits += int((np.abs(made.coef_ - 0.3) < 1.96 * made.standard_errors_).sum())
        assert made.identified_.all()
    assert np.median(widths) < 1.4
    assert stats.binom.cdf(hits, 10 * X.shape[1], 0.93) > 1e-4


def test_more_rows_leave_little_of_the_noise() -> None:
    rng = np.random.default_rng(0)
    X, y, beta = rows(200_000, 3, rng)
    made = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-8, 10), random_state=1).fit(X, y)
    assert (made.privacy_share_ < 0.1).all()
    assert np.abs((made.coef_ - beta) / made.standard_errors_).max() < 4
    assert made.intercept_ == pytest.approx(1, abs=5 * made.intercept_standard_error_)
    assert made.scale_ == pytest.approx(1, abs=0.1)


def test_the_intercept_of_skewed_outcomes_is_a_mean() -> None:
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(60):
        X, y, _ = rows(20_000, 2, rng, "exponential")
        made = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-8, 10), random_state=rng).fit(X, y)
        low, high = made.intercept_confidence_interval()
        hits += low <= 1 <= high
    assert stats.binom.cdf(hits, 60, 0.93) > 1e-4


def test_without_an_intercept() -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform(0, 2, (20_000, 2))
    y = X @ [1.0, -0.5] + rng.normal(size=20_000)
    made = PrivateLinearRegression(x_bounds=(0, 2), y_bounds=(-5, 5), fit_intercept=False, random_state=0).fit(X, y)
    assert made.intercept_ == 0.0
    assert made.params_.shape == (2,)
    assert np.abs((made.coef_ - [1.0, -0.5]) / made.standard_errors_).max() < 4
    assert "Intercept" not in str(made.summary())


def test_rows_beyond_their_bounds_weigh_less_and_bend_nothing() -> None:
    rng = np.random.default_rng(5)
    X, y, beta = rows(20_000, 2, rng)
    narrow = PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-8, 10), random_state=0).fit(X, y)
    assert np.abs((narrow.coef_ - beta) / narrow.standard_errors_).max() < 4
    assert narrow.standard_errors_.max() < 1.5 / np.sqrt(20_000)


def test_outcomes_beyond_their_bounds_are_counted() -> None:
    rng = np.random.default_rng(6)
    X, y, _ = rows(50_000, 2, rng)
    made = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-0.5, 2.5), random_state=0).fit(X, y)
    share = np.mean((y < -0.5) | (y > 2.5))
    assert made.clipped_share_ == pytest.approx(share, abs=5 * made.clipped_share_std_)
    summary = str(made.summary())
    assert "Outcomes outside bounds" in summary
    assert "Widen y_bounds" in summary
    wide = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-8, 10), random_state=0).fit(X, y)
    assert "Widen y_bounds" not in str(wide.summary())


def test_noise_of_a_share_is_printed_without_an_exponent() -> None:
    assert in_percent(1.7, 0.4) == "100.0% (noise sd 40%)"
    assert in_percent(1.7, 0.9) == "– (noise sd 90%)"
    assert in_percent(-0.1, 0.0004) == "0.0% (noise sd 0.04%)"


@pytest.mark.parametrize("case", ["constant column", "collinear", "n < d", "constant outcome", "one value"])
def test_degenerate_designs_end_in_wide_intervals(case: str) -> None:
    rng = np.random.default_rng(7)
    X, y, _ = rows(3000, 3, rng)
    if case == "constant column":
        X[:, 2] = 1.5
    elif case == "collinear":
        X[:, 2] = X[:, 0] + X[:, 1]
    elif case == "n < d":
        X, y, _ = rows(5, 8, rng)
    elif case == "constant outcome":
        y = np.full(3000, 2.0)
    else:
        X[:] = 0.0
    made = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-8, 10), random_state=0).fit(X, y)
    assert np.isfinite(made.params_).all()
    assert np.isfinite(made.params_cov_).all()
    assert (made.standard_errors_ > 0).all()
    if case == "constant column":
        assert not made.identified_[2]
        assert "Not identified" in str(made.summary())
    if case in ("n < d", "one value"):
        assert not made.identified_.any()
    if case == "constant outcome":
        assert np.abs(made.coef_ / made.standard_errors_).max() < 4


def test_prediction_intervals() -> None:
    rng = np.random.default_rng(8)
    X, y, beta = rows(20_000, 3, rng)
    made = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-8, 10), random_state=0).fit(X, y)
    new, outcomes, _ = rows(4000, 3, rng)
    low, high = made.predict_interval(new, of="outcome")
    inside = np.mean((low <= outcomes) & (outcomes <= high))
    assert inside == pytest.approx(0.95, abs=0.02)
    low, high = made.predict_interval(new)
    truth = 1 + new @ beta
    assert np.mean((low <= truth) & (truth <= high)) > 0.7  # of one fit: rows share its error
    assert np.allclose(made.predict(new), made.intercept_ + new @ made.coef_)
    with pytest.raises(InvalidParameter, match="of must"):
        made.predict_interval(new, of="row")


def test_robust_and_model_errors_differ_where_noise_hides_the_meat() -> None:
    rng = np.random.default_rng(9)
    X, y, _ = rows(4000, 2, rng, "heteroskedastic")
    ratios = []
    for seed in range(12):
        options = {"x_bounds": (-4, 4), "y_bounds": (-8, 10), "random_state": seed}
        robust = PrivateLinearRegression(**options).fit(X, y)
        model = PrivateLinearRegression(cov_type="nonrobust", **options).fit(X, y)
        assert np.array_equal(robust.coef_, model.coef_)
        ratios.append(robust.standard_errors_[0] / model.standard_errors_[0])
    assert np.mean(ratios) > 1.004
    assert "robust" in str(robust.summary())
    assert "nonrobust" in str(model.summary())


def test_the_budget_is_charged_once_and_before_anything() -> None:
    rng = np.random.default_rng(10)
    X, y, _ = rows(500, 2, rng)
    budget = PrivacyBudget(1.0, 1e-6)
    made = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-8, 10), budget=budget)
    made.fit(X, y)
    assert budget.spent.epsilon == pytest.approx(1.0)
    with pytest.raises(BudgetExceeded):
        clone(made).fit(X, y)
    other = PrivacyBudget(1.0, 1e-6)
    with pytest.raises(InvalidParameter, match="y_bounds must"):
        PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(1, 0), budget=other).fit(X, y)
    assert other.spent.epsilon == 0


def test_works_in_a_pipeline_and_survives_pickle() -> None:
    rng = np.random.default_rng(11)
    X, y, _ = rows(2000, 2, rng)
    steps = make_pipeline(
        FunctionTransformer(np.tanh), PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-8, 10), random_state=0)
    ).fit(X, y)
    again = pickle.loads(pickle.dumps(steps))
    assert np.array_equal(again.predict(X), steps.predict(X))
    assert str(again[-1].summary()) == str(steps[-1].summary())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"x_bounds": None}, "x_bounds must be given"),
        ({"y_bounds": None}, "y_bounds must be given"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"fit_intercept": "yes"}, "fit_intercept must be True or False"),
        ({"fit_intercept": np.zeros(2)}, "fit_intercept must be True or False"),
        ({"cov_type": "HC9"}, "cov_type must be one of"),
    ],
)
def test_bad_parameters_are_refused(options: dict[str, Any], words: str) -> None:
    given = {"x_bounds": (-1, 1), "y_bounds": (-1, 1), **options}
    with pytest.raises(InvalidParameter, match=words):
        PrivateLinearRegression(**given).fit(np.zeros((10, 2)), np.zeros(10))


@pytest.mark.parametrize("kind", [PrivateLinearRegression, PrivateLogisticRegression])
def test_observed_rows_have_the_fit_of_complete_cases(kind: type) -> None:
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(40_000, 3)), rng.logistic(size=40_000)
    y = 1 + X @ [0.5, -0.5, 0.0] + noise
    y = (y > 0).astype(float) if kind is PrivateLogisticRegression else y
    options = {"x_bounds": (-4, 4), "epsilon": 50.0, "random_state": 0}
    if kind is PrivateLinearRegression:
        options["y_bounds"] = (-9, 11)
    whole = kind(**options).fit(X, y)
    holes, outcomes = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    holes[0::4, 1], holes[2::8, 0], outcomes[6::8] = np.nan, np.inf, np.nan
    made = kind(missing="drop", **options).fit(holes, outcomes)
    np.testing.assert_allclose(made.params_, whole.params_, atol=0.005)
    np.testing.assert_allclose(made.params_cov_, whole.params_cov_, rtol=0.1, atol=2e-6)
    assert made.rows_ == pytest.approx(40_000, abs=20) and made.nobs == pytest.approx(40_000, abs=20)
    assert "left out" in str(made.summary()) and "Rows observed" in str(made.summary())
    assert "left out" in made.confidence_interval().estimand
    assert not hasattr(made.set_params(missing="error").fit(X, y), "rows_")


@pytest.mark.parametrize(
    ("kind", "n", "share"),
    [
        (PrivateLinearRegression, 4000, 0.5),
        (PrivateLinearRegression, 20_000, 0.9),
        (PrivateLogisticRegression, 7000, 0.3),
    ],
)
def test_intervals_cover_where_rows_are_missing(kind: type, n: int, share: float) -> None:
    # 60 datasets of 3 slopes: a coverage of .95 is seen as less than .88 once in 10,000 times.
    covered = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 3))
        index = X @ [0.5, -0.5, 0.25]
        logistic = kind is PrivateLogisticRegression
        y = (rng.random(n) < expit(index)).astype(float) if logistic else index + rng.normal(size=n)
        # Whether a row is missing depends on its first column.
        X[rng.random(n) < share * (0.5 + (X[:, 0] > 0)), 1] = np.nan
        options = {} if logistic else {"y_bounds": (-6, 6)}
        made = kind(x_bounds=(-4, 4), epsilon=1.0, missing="drop", random_state=seed, **options).fit(X, y)
        low, high = made.confidence_interval()
        covered.append((low <= [0.5, -0.5, 0.25]) & (high >= [0.5, -0.5, 0.25]))
    assert np.mean(covered) >= 0.88


def test_of_no_observed_row_the_fit_says_that_noise_is_all() -> None:
    made = PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-1, 1), missing="drop", random_state=0)
    made.fit(np.full((500, 2), np.nan), np.zeros(500))
    assert not made.identified_.any() and "Noise only" in str(made.summary())


def test_few_observed_rows_are_named() -> None:
    # Slopes of 200 uniform rows out of 2,000 are covered in .85 of fits; with 2,000 rows and none missing in .96.
    for share, named in ((0.9, True), (0.0, False)):
        for seed in range(10):
            rng = np.random.default_rng(seed)
            X = rng.uniform(-1, 1, (2000, 2))
            y = np.where(rng.random(2000) < share, np.nan, X @ [1.0, -1.0] + rng.normal(size=2000) / 3)
            made = PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-3, 3), missing="drop", random_state=seed)
            notes = " ".join(made.fit(X, y).summary().notes)
            assert ("rows are observed at this epsilon" in notes or "Noise only" in notes) == named


def test_few_rows_of_one_column_take_one_release() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    y = X[:, 0] + rng.normal(size=300)
    given = {"x_bounds": (-4, 4), "y_bounds": (-6, 6), "random_state": 1}
    few, moments = (kind(**given).fit(X, y) for kind in (PrivateLinearRegression, SufficientStatisticsRegression))
    assert np.array_equal(few.params_, moments.params_) and np.array_equal(few.params_cov_, moments.params_cov_)
    assert few.plan_.few_rows and "few rows" in str(few.plan_) and "few rows" in str(few.summary())
    assert few.privacy_.delta == 0 and "Noise chosen" in str(few.summary())
    assert "few rows" not in str(moments.plan_)
    assert few.identified_.all() and not few.uneven_ and few.hidden_bias_ == 0
    # An intercept that noise hides is named.
    assert few.intercept_identified_ and few._identified.all()
    observed = PrivateLinearRegression(**given, missing="drop").fit(X, np.where(X[:, 0] > 0.5, np.nan, y))
    assert observed.nobs < 300 and not hasattr(observed, "rows_")
    # A fit of more rows forgets what only few rows say.
    assert not hasattr(few.fit(np.tile(X, (9, 1)), np.tile(y, 9)), "intercept_identified_")


@pytest.mark.parametrize(
    ("n", "d", "options"),
    [(400, 1, {}), (300, 2, {}), (300, 1, {"weight_bounds": (0, 1)}), (300, 1, {"offset_bounds": (0, 1)})],
)
def test_other_rows_take_steps(n: int, d: int, options: dict[str, Any]) -> None:
    model = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-6, 6), **options)
    assert isinstance(model.plan(n, d), RegressionPlan)


def test_slopes_of_few_rows_are_covered() -> None:
    rng, hits, fits = np.random.default_rng(5), 0, 0
    for n, epsilon, slope, scale in ((250, 1.0, 1.0, 1.0), (300, 1.0, 3.0, 0.3), (150, 2.0, 1.0, 1.0)):
        for _ in range(60):
            X = rng.normal(size=(n, 1))
            y = slope * X[:, 0] + scale * rng.normal(size=n)
            made = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-6, 6), epsilon=epsilon, random_state=rng).fit(
                X, y
            )
            low, high = made.confidence_interval()
            hits += int((low[0] <= slope <= high[0]) & made.identified_[0])
            fits += int(made.identified_[0])
    assert fits > 140 and stats.binom.cdf(hits, fits, 0.95) > 1e-3


def test_a_formula_without_columns_is_a_mean() -> None:
    hits = 0
    for seed in range(40):
        y = np.random.default_rng(seed).exponential(size=4000)
        made = PrivateLinearRegression.from_formula(
            "y ~ 1", pd.DataFrame({"y": y}), bounds={}, y_bounds=(0, 10), random_state=seed
        )
        low, high = made.estimates("Intercept").confidence_interval()
        hits += low[0] <= 1 <= high[0]
        assert high[0] - low[0] < 1.7 * 3.92 / np.sqrt(4000)
    assert hits >= 33
    assert made.coef_.size == 0 and "Intercept" in str(made.summary())
    assert made.predict(pd.DataFrame({"y": y[:3]})) == pytest.approx(made.intercept_)


def test_without_columns_a_model_needs_an_intercept() -> None:
    for options in ({"fit_intercept": False}, {"factors": {"arm": ["a", "b"]}}):
        with pytest.raises(InvalidParameter, match="n_features"):
            PrivateLinearRegression(x_bounds=(0, 1), y_bounds=(0, 1), **options).plan(1000, 0)


def test_pure_privacy_takes_one_release() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2))
    y = X @ [1.0, -1.0] + rng.normal(size=20_000)
    given = {"x_bounds": (-4, 4), "y_bounds": (-6, 6), "random_state": 1}
    pure = PrivateLinearRegression(delta=0, **given).fit(X, y)
    assert pure.privacy_.delta == 0 and not pure.plan_.few_rows
    assert "assume residuals of one variance" in str(pure.summary()) and "one variance" in pure.methods_text()
    assert np.array_equal(pure.params_, FunctionalMechanismRegression(**given).fit(X, y).params_)
    low, high = pure.confidence_interval(0.999)
    assert (low < [1, -1]).all() and (high > [1, -1]).all()
    with pytest.raises(InvalidParameter, match="delta must be greater than 0 with weights"):
        PrivateLinearRegression(delta=0, **given, weight_bounds=(0, 1)).plan(100, 2)


@pytest.mark.parametrize(
    ("share", "far", "n", "epsilon", "said"), [(0.008, 100.0, 8000, 0.5, True), (0.0, 5.0, 50_000, 1.0, False)]
)
def test_a_few_residuals_at_the_far_bound_are_named_where_noise_hides_them(share, far, n, epsilon, said):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 2))
    y = X @ [1.0, -1.0] + rng.normal(size=n) + far * (rng.random(n) < share)
    fit = PrivateLinearRegression(x_bounds=(-5, 5), y_bounds=(-5, 5 + far * said), epsilon=epsilon, random_state=0)
    assert ("Intercept assumes" in dict(fit.fit(X, y).summary().facts)) == said


def clipped_fit(high: float, seed: int = 0) -> PrivateLinearRegression:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20_000, 1))
    y = X[:, 0] + rng.normal(size=20_000)
    return PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-high, high), random_state=seed).fit(X, y)


def test_a_bias_by_clipped_outcomes_is_noted_in_its_size() -> None:
    # Bounds clip 1.6% of the outcomes, and slopes are too small by two of their standard errors.
    stated, errors = [], []
    for seed in range(5):
        model = clipped_fit(3.4, seed)
        (note,) = (note for note in model.summary().notes if note.startswith("Clipped outcomes may bias"))
        stated.append(float(note.split("coefficients by ")[1].split()[0]))
        errors.append((1 - model.coef_[0]) / model.standard_errors_[0])
    assert np.mean(errors) > 1 and 0.5 * np.mean(errors) < np.mean(stated) < 2 * np.mean(errors)


def test_a_bias_that_noise_may_hide_is_a_line() -> None:
    summary = clipped_fit(9.0).summary()
    assert "Coefficients assume" in dict(summary.facts)
    assert not any("outcomes may bias" in note for note in summary.notes)
