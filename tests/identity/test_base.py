"""The tests as estimators: fits, predictions, budgets, pipelines, bad parameters and bad data."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter
from dpstats.identity import FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest
from dpstats.identity import calibration as null
from dpstats.privacy import PrivacyBudget
from dpstats.release.estimator import PrivateEstimator
from dpstats.textbook import StagedInnerProductTest
from tests.identity.every_test import FAR_ROWS, FAST, KINDS, NULL_ROWS, PURE


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_reports(kind) -> None:
    test = kind(random_state=1, **FAST).fit(NULL_ROWS)
    assert 1 / 200 <= test.pvalue_ <= 1
    assert test.reject_ == (test.pvalue_ <= 0.05) == (test.statistic_ > test.threshold_)
    assert test.result_.statistic == test.statistic_ and test.result_.reject == test.reject_
    assert test.privacy_.epsilon <= 1.0 and test.privacy_.simulated
    text = str(test.summary())
    assert "simulated noise" in text and "p-value" in text and "199 simulated null datasets" in text
    assert "<table" in test.result_.summary()._repr_html_()


@pytest.mark.parametrize("kind", PURE)
def test_predict_is_a_release_of_its_own(kind) -> None:
    test = kind(epsilon=5.0, random_state=np.random.default_rng(5), **FAST).fit(NULL_ROWS)
    before = dict(vars(test))
    assert test.predict(FAR_ROWS) == 1 and test.predict(NULL_ROWS) in (0, 1)
    assert vars(test) == before
    assert kind(epsilon=5.0, random_state=5, **FAST).fit_predict(FAR_ROWS) == 1
    with pytest.raises(NotFittedError):
        kind().predict(NULL_ROWS)
    with pytest.raises(InvalidData, match="features"):
        test.predict(FAR_ROWS[:, :2])


def test_the_budget_is_checked_before_the_data_are_touched() -> None:
    budget = PrivacyBudget(0.5)
    test = RowDistanceTest(mean=[0.0, 0.0, 0.0], epsilon=0.4, budget=budget, **FAST).fit(NULL_ROWS)
    text = np.full((60, 3), "text")
    for refused in (clone(test).fit, test.predict):
        with pytest.raises(BudgetExceeded):
            refused(text)
    # Names and numbers of columns are public, and come first.
    with pytest.raises(InvalidData, match="features"):
        test.predict(NULL_ROWS[:, :2])
    budget = PrivacyBudget(2.0)
    test.set_params(budget=budget)
    for bad, message in ((text, "text"), (NULL_ROWS[:, :2], "features"), ([1.0, 2.0], "2-d")):
        with pytest.raises(InvalidData, match=message):
            test.predict(bad)
    assert budget.spent.epsilon == 0


def test_every_answer_is_charged() -> None:
    budget = PrivacyBudget(1.0)
    test = RowDistanceTest(epsilon=0.4, budget=budget, **FAST).fit(NULL_ROWS)
    assert not test.privacy_.simulated
    test.predict(NULL_ROWS)
    assert budget.spent.epsilon == pytest.approx(0.8)
    with pytest.raises(BudgetExceeded):
        clone(test).fit_predict(NULL_ROWS)
    assert budget.spent.epsilon == pytest.approx(0.8)
    # Planning, power and intervals cost nothing.
    test.power(1.0, 60, 3, n_simulations=20)
    test.distance_interval(n_simulations=40)
    assert budget.spent.epsilon == pytest.approx(0.8)


@pytest.mark.parametrize("kind", PURE)
def test_last_step_of_a_pipeline(kind) -> None:
    pipe = make_pipeline(
        FunctionTransformer(lambda X: X / 2), kind(epsilon=5.0, random_state=0, cov=np.eye(3) / 4, **FAST)
    )
    assert pipe.fit_predict(FAR_ROWS) == 1
    assert pipe.fit(NULL_ROWS).predict(FAR_ROWS) == 1


def test_frames_and_pickles() -> None:
    frame = pd.DataFrame(NULL_ROWS, columns=["a", "b", "c"])
    test = SpatialSignTest(random_state=0, **FAST).fit(frame)
    assert test.feature_names_in_.tolist() == ["a", "b", "c"]
    again = pickle.loads(pickle.dumps(test))
    assert again.result_ == test.result_ or np.isnan(test.pvalue_)


BAD = [
    ({"cov": np.eye(2)}, "cov"),
    ({"cov": np.zeros((3, 3))}, "positive definite"),
    ({"cov": [1.0, -1.0, 1.0]}, "positive definite"),
    ({"cov": np.array([[1.0, 2.0, 0], [2.0, 1.0, 0], [0, 0, 1.0]])}, "positive definite"),
    ({"cov": np.triu(np.ones((3, 3)))}, "symmetric"),
    ({"cov": np.full((3, 3), np.nan)}, "finite"),
    ({"cov": "identity"}, "cov"),
    ({"cov": [[1.0, 0.0, 0.0], [0.0, 1.0], [1.0]]}, "cov"),
    ({"cov": np.full((3, 3), 1e308)}, "positive definite"),
    ({"cov": np.eye(3) + 1e308 * (1 - np.eye(3))}, "positive definite"),
    ({"epsilon": 1e-300}, "epsilon"),
    ({"cache_dir": 5}, "cache_dir"),
    ({"cache_dir": "/proc/version/cache"}, "cache_dir"),
    ({"mean": [1.0, 2.0]}, "mean"),
    ({"mean": np.nan}, "mean"),
    ({"epsilon": 0}, "epsilon"),
    ({"level": 1.0}, "level"),
    ({"level": 1 / 3}, "level"),
    ({"n_calibration": 100}, "n_calibration"),
    ({"n_calibration": 9}, "n_calibration"),
    ({"calibration": "exact"}, "calibration"),
    ({"null": "poisson"}, "null"),
    ({"null": "product", "mean": 1.0}, "mean"),
    ({"null": "product", "cov": np.eye(3)}, "cov"),
    ({"missing": "zero"}, "missing"),
    *(({"n_jobs": jobs}, "n_jobs") for jobs in ("x", 0, -2, 1.0, True)),
    *(({"progress": flag}, "progress") for flag in ("x", 1, None)),
]


@pytest.mark.parametrize(("options", "named"), BAD)
@pytest.mark.parametrize("kind", PURE)
def test_bad_parameters_are_named_before_a_charge(kind, options, named) -> None:
    budget = PrivacyBudget(10.0)
    with pytest.raises(InvalidParameter, match=named):
        kind(budget=budget, **{**FAST, **options}).fit(NULL_ROWS)
    assert budget.spent.epsilon == 0


@pytest.mark.parametrize(
    ("test", "named"),
    [
        (RowDistanceTest(calibration="textbook"), "calibration"),
        (RowDistanceTest(rows="ranks"), "rows"),
        (RowDistanceTest(rows="sign", null="product", mean=0.5), "rows='whitened'"),
        (SpatialSignTest(radius=0), "radius"),
        (LipschitzExtensionTest(constraint="l2"), "constraint"),
        *((LipschitzExtensionTest(clip=clip), "clip") for clip in (-1.0, 1e3, 1e-200)),
        (LipschitzExtensionTest(radius=101), "radius"),
        (LipschitzExtensionTest(solver="no"), "solver"),
        (FilteringTest(delta=1e-50), "delta"),
        (FilteringTest(delta=5e-324), "delta"),
        (FilteringTest(epsilon=1e-12, calibration="textbook", distance=1.0), "epsilon"),
        (FilteringTest(epsilon=1e-15, calibration="textbook", distance=1.0), "epsilon"),
        (FilteringTest(calibration="textbook", distance=1e300), "distance"),
        (StagedInnerProductTest(constants=(1, 2)), "constants"),
        (StagedInnerProductTest(calibration="textbook"), "distance"),
        (FilteringTest(delta=0.0), "delta"),
        (FilteringTest(calibration="textbook"), "distance"),
        (FilteringTest(epsilon=400.0), "private"),
    ],
)
def test_bad_options(test, named) -> None:
    with pytest.raises(InvalidParameter, match=named):
        test.fit(NULL_ROWS)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_data(kind) -> None:
    budget = PrivacyBudget(10.0, 1e-3)
    test = kind(budget=budget, **FAST)
    for bad, message in [
        (np.where(NULL_ROWS > 2, np.nan, NULL_ROWS), "NaN"),
        (NULL_ROWS[:1], "rows"),
        (NULL_ROWS[:, :0], "0 feature"),
    ]:
        with pytest.raises(InvalidData, match=message):
            test.fit(bad)
    assert budget.spent.epsilon == 0
    with pytest.raises(InvalidParameter, match="n_samples"):
        test.plan(1, 3)
    with pytest.raises(InvalidParameter, match="n_features"):
        test.plan(10, 0)


@pytest.mark.parametrize("kind", PURE)
def test_missing_rows_count_as_the_null_mean(kind) -> None:
    holes, filled = FAR_ROWS.copy(), FAR_ROWS.copy()
    holes[3, 1], holes[5] = np.nan, np.inf
    filled[[3, 5]] = 0.5
    options = {"mean": 0.5, "missing": "center", "random_state": 2, **FAST}
    assert kind(**options).fit(holes).statistic_ == kind(**options).fit(filled).statistic_


@pytest.mark.parametrize(
    "kind",
    [
        *KINDS[3:],
        lambda **kw: RowDistanceTest(rows="sign", **kw),
        lambda **kw: LipschitzExtensionTest(rows="sign", **kw),
    ],
)
def test_signs_have_no_center(kind) -> None:
    budget = PrivacyBudget(10.0, 1e-3)
    with pytest.raises(InvalidParameter, match="missing must"):
        kind(missing="center", budget=budget, **FAST).fit(FAR_ROWS)
    assert budget.spent.epsilon == 0


def test_huge_rows_are_clipped_and_not_lost() -> None:
    rows, far, other = NULL_ROWS.copy(), NULL_ROWS.copy(), NULL_ROWS.copy()
    rows[0], far[0], other[0] = 1e308, 1e9, -1e308
    seen = []
    for kind in KINDS:
        # Whitened, the first row exceeds all floats; its sign, of which alone it is then a matter, counts.
        given = {"random_state": 0, "cov": 1e-300 * np.eye(3), "epsilon": 0.5, **FAST}
        huge, clipped, reversed_ = (kind(**given).fit(X).statistic_ for X in (rows, far, other))
        assert np.isfinite(huge) and huge == clipped
        seen.append(huge != reversed_)
    assert sum(seen) >= 2


def test_nothing_is_simulated_after_the_charge(monkeypatch) -> None:
    test = SpatialSignTest(random_state=0, epsilon=0.81, **FAST)
    calls = []
    fetch = SpatialSignTest._null_statistics
    monkeypatch.setattr(SpatialSignTest, "_null_statistics", lambda *a: calls.append(1) or fetch(*a))
    exact = SpatialSignTest._exact
    monkeypatch.setattr(SpatialSignTest, "_exact", lambda *a: null.forget() or exact(*a))
    assert np.isfinite(test.fit(NULL_ROWS).pvalue_) and len(calls) == 1
    # The null distribution travels with the plan, and nowhere else.
    hidden = [name for name in vars(test) if name.startswith("_")]
    assert test.plan_.null.size == 199 and hidden == ["_parameters", "_found_by_fit"]
    assert test.plan_.law == test.plan(60, 3).law and "null=" not in repr(test.plan_)


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_a_fit_is_the_frames_alone(kind) -> None:
    assert type(kind()).fit is PrivateEstimator.fit
    assert kind().plan(60, 3).null is None
