"""The tests as estimators: fits, predictions, budgets, pipelines, bad input, caches, power, intervals."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter, NotPrivate
from dpstats.identity import (
    FilteringTest,
    LipschitzExtensionTest,
    RowDistanceTest,
    SpatialSignTest,
    identity_test,
    null,
    sign_reduction,
)
from dpstats.identity.choice import automatic_test
from dpstats.privacy import PrivacyBudget

rng = np.random.default_rng(0)
NULL_ROWS = rng.standard_normal((60, 3))
FAR_ROWS = NULL_ROWS + 1.5
FAST = {"n_calibration": 199}
KINDS = [
    RowDistanceTest,
    SpatialSignTest,
    LipschitzExtensionTest,
    FilteringTest,
    lambda **kw: LipschitzExtensionTest(constraint="inner_product", **kw),
    lambda **kw: LipschitzExtensionTest(constraint="inner_product", staged=True, **kw),
]
PURE = KINDS[:3]


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


def test_an_empty_purse_is_told_before_the_data_are_touched() -> None:
    budget = PrivacyBudget(0.5)
    test = RowDistanceTest(mean=[0.0, 0.0, 0.0], epsilon=0.4, budget=budget, **FAST).fit(NULL_ROWS)
    text = np.full((60, 3), "text")
    for refused in (clone(test).fit, test.predict):
        with pytest.raises(BudgetExceeded):
            refused(text)
    with pytest.raises(BudgetExceeded):
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


def test_filtering_charges_its_total() -> None:
    budget = PrivacyBudget(1.0, 1e-6)
    test = FilteringTest(epsilon=1.0, delta=1e-6, budget=budget, **FAST).fit(NULL_ROWS)
    assert (test.privacy_.epsilon, test.privacy_.delta) == (1.0, 1e-6)
    assert (budget.spent.epsilon, budget.spent.delta) == (1.0, 1e-6)
    assert len(test.plan_.stages) == 4


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


@pytest.mark.parametrize("kind", KINDS)
def test_whitening_is_invariant(kind) -> None:
    """Other units, the same test: means and covariances that undo a change of coordinates."""
    mean = np.array([1.0, -2.0, 5.0])
    root = np.diag([2.0, 0.5, 3.0])
    plain = kind(random_state=3, **FAST).fit(NULL_ROWS + 0.5)
    moved = (NULL_ROWS + 0.5) @ root + mean
    for cov in (root @ root, np.diag(root) ** 2):
        other = kind(random_state=3, mean=mean, cov=cov, **FAST).fit(moved)
        assert other.statistic_ == pytest.approx(plain.statistic_, rel=1e-6)
        assert other.threshold_ == plain.threshold_


def test_uniformity_and_identity_of_product_distributions() -> None:
    signs = np.where(rng.random((400, 5)) < 0.5, 1, -1)
    biased = np.where(rng.random((400, 5)) < 0.7, 1, -1)
    for test in (
        RowDistanceTest(null="product", epsilon=2.0, random_state=0, **FAST),
        RowDistanceTest(rows="sign", epsilon=2.0, random_state=0, **FAST),
        SpatialSignTest(null="product", epsilon=2.0, random_state=0, **FAST),
        LipschitzExtensionTest(rows="sign", epsilon=2.0, random_state=0, **FAST),
    ):
        assert test.fit_predict(signs) == 0
        assert test.fit_predict(biased) == 1
    for kind in (RowDistanceTest, SpatialSignTest, LipschitzExtensionTest):
        test = kind(null="product", mean=0.4, epsilon=2.0, random_state=0, **FAST)
        assert test.fit_predict(biased) == 0
        assert test.fit_predict(signs) == 1


@pytest.mark.parametrize("mean", [0.0, 0.4])
def test_zero_one_rows_are_the_signs_they_stand_for(mean) -> None:
    ones = (rng.random((80, 4)) < (1 + mean) / 2).astype(int)
    tests = [
        kind(null="product", mean=mean, random_state=3, **FAST)
        for kind in (RowDistanceTest, SpatialSignTest, LipschitzExtensionTest)
    ]
    if mean == 0:
        tests += [
            RowDistanceTest(null="product", rows="sign", random_state=3, **FAST),
            FilteringTest(null="product", random_state=3, **FAST),
        ]
    for test in tests:
        signs = clone(test).fit(2 * ones - 1).statistic_
        assert clone(test).fit(ones).statistic_ == clone(test).fit(ones > 0).statistic_ == signs
    # For normal rows sgn 0 stays +1.
    assert sign_reduction([[0, 1], [-1, -0.0]]).tolist() == [[1, 1], [-1, 1]]


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


def test_a_known_calibration_checks_its_workers_too() -> None:
    test = SpatialSignTest(random_state=0, **FAST).fit(NULL_ROWS)
    for options, named in (({"n_jobs": "x"}, "n_jobs"), ({"progress": "x"}, "progress")):
        with pytest.raises(InvalidParameter, match=named):
            null.null_statistics("", 1, lambda size, generator: np.zeros(size), **options)
        with pytest.raises(InvalidParameter, match=named):
            clone(test).set_params(**options).power(1.0, 60, 3, n_simulations=1)
        fitted = clone(test).fit(NULL_ROWS).set_params(**options)
        with pytest.raises(InvalidParameter, match=named):
            fitted.distance_interval(n_simulations=1)


@pytest.mark.parametrize("kind", KINDS)
def test_levels_in_short_floats_are_their_shortest_decimals(kind) -> None:
    plain = kind(random_state=0, **FAST).fit(NULL_ROWS)
    for short in (np.float32(0.05), np.float16(0.05), np.longdouble("0.05")):
        test = kind(random_state=0, level=short, **FAST).fit(NULL_ROWS)
        assert (test.plan_.level, test.threshold_) == (0.05, plain.threshold_)
    assert kind(level=np.float32(1e-5)).plan(60, 3).n_calibration == 99_999


def test_early_stages_that_leave_no_level_are_refused_before_a_charge() -> None:
    """2 of 99 null data are rejected early: at level .02 the critical value would be infinite, and never exceeded."""
    budget = PrivacyBudget(10.0)
    options = {"constraint": "inner_product", "staged": True, "solver": "surrogate", "n_calibration": 99}
    test = LipschitzExtensionTest(
        **options, constants=(0.05, 0.1, 0.01), level=0.02, epsilon=5, budget=budget
    )
    rows = np.random.default_rng(0).normal(8, 1, (60, 2))
    refusal = r"constants must have a larger third number: the early stages reject a share of 0\.0202 .* level = 0\.02"
    with pytest.raises(InvalidParameter, match=refusal):
        test.fit(rows)
    with pytest.raises(InvalidParameter, match=refusal):
        test.power(1.0, 60, 2, n_simulations=10)
    with pytest.raises(InvalidParameter, match="larger third number"):
        clone(test).set_params(constants=(0.05, 0.1, 1e-9)).required_samples(1.0, 2, n_simulations=10)
    assert budget.spent.epsilon == 0
    # A larger level, or the constant that the message names, and early rejections are rejections.
    for better in ({"level": 0.05}, {"constants": (0.05, 0.1, 1.0)}):
        fitted = clone(test).set_params(random_state=0, budget=None, **better).fit(rows)
        assert fitted.statistic_ == np.inf > fitted.threshold_ and fitted.reject_
        assert fitted.pvalue_ <= fitted.plan_.level


def test_filtering_names_delta_where_its_early_lines_reject_too_often() -> None:
    # Lines 3 and 7 reject with probability of about delta/14 together: 6% at delta = .9.
    with pytest.raises(
        InvalidParameter, match="delta must be smaller, or level larger: the early stages reject"
    ):
        FilteringTest(epsilon=4.0, delta=0.9, level=0.01, n_calibration=999).power(
            1.0, 60, 3, n_simulations=1
        )


@pytest.mark.parametrize(
    ("test", "named"),
    [
        (RowDistanceTest(calibration="textbook"), "calibration"),
        (RowDistanceTest(rows="ranks"), "rows"),
        (RowDistanceTest(rows="sign", null="product", mean=0.5), "rows='whitened'"),
        (SpatialSignTest(radius=0), "radius"),
        (LipschitzExtensionTest(constraint="l2"), "constraint"),
        (LipschitzExtensionTest(staged=True), "staged"),
        *((LipschitzExtensionTest(clip=clip), "clip") for clip in (-1.0, 1e3, 1e-200)),
        (LipschitzExtensionTest(radius=101), "radius"),
        (LipschitzExtensionTest(staged="no"), "staged"),
        (LipschitzExtensionTest(constraint="inner_product", staged="no"), "staged"),
        (FilteringTest(delta=1e-50), "delta"),
        (FilteringTest(delta=5e-324), "delta"),
        (FilteringTest(epsilon=1e-12, calibration="textbook", distance=1.0), "epsilon"),
        (FilteringTest(epsilon=1e-15, calibration="textbook", distance=1.0), "epsilon"),
        (FilteringTest(calibration="textbook", distance=1e300), "distance"),
        (LipschitzExtensionTest(constraint="inner_product", staged=True, constants=(1, 2)), "constants"),
        (LipschitzExtensionTest(constraint="inner_product", staged=True, calibration="textbook"), "distance"),
        (FilteringTest(delta=0.0), "delta"),
        (FilteringTest(calibration="textbook"), "distance"),
        (FilteringTest(epsilon=400.0), "private"),
    ],
)
def test_bad_options(test, named) -> None:
    with pytest.raises(InvalidParameter, match=named):
        test.fit(NULL_ROWS)


def test_solver_is_refused_beyond_its_size() -> None:
    test = LipschitzExtensionTest(constraint="inner_product", solver="exact", budget=PrivacyBudget(1.0))
    with pytest.raises(InvalidParameter, match="solver='exact' is for small data, got n_samples = 60"):
        test.fit(np.hstack([NULL_ROWS] * 3))
    assert test.budget.spent.epsilon == 0
    assert test.plan(12, 3).design.exact
    assert not test.set_params(solver="auto").plan(60, 3).design.exact
    assert issubclass(NotPrivate, InvalidParameter)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_data(kind) -> None:
    budget = PrivacyBudget(10.0, 1e-3)
    test = kind(budget=budget, **FAST)
    for bad, message in [
        (np.where(NULL_ROWS > 2, np.nan, NULL_ROWS), "NaN"),
        (NULL_ROWS[:1], "rows"),
        (NULL_ROWS[:, :0], "0 feature"),
        (NULL_ROWS[0], "2-d"),
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
def test_signs_have_no_centre(kind) -> None:
    budget = PrivacyBudget(10.0, 1e-3)
    with pytest.raises(InvalidParameter, match="missing must be 'error' for a test on signs"):
        kind(missing="center", budget=budget, **FAST).fit(FAR_ROWS)
    assert budget.spent.epsilon == 0


def test_huge_rows_are_clipped_and_not_lost() -> None:
    rows = NULL_ROWS.copy()
    rows[0] = 1e308
    cov = 1e-300 * np.eye(3)
    for kind in KINDS:
        assert np.isfinite(kind(random_state=0, cov=cov, epsilon=0.5, **FAST).fit(rows).threshold_)


def test_calibrations_are_cached_in_memory_and_on_disk(tmp_path, monkeypatch) -> None:
    calls = []
    simulated = null._simulated
    monkeypatch.setattr(null, "_simulated", lambda *a: calls.append(1) or simulated(*a))
    test = SpatialSignTest(random_state=0, epsilon=0.77, cache_dir=tmp_path, **FAST)
    first = test.fit(NULL_ROWS).threshold_
    assert SpatialSignTest(random_state=9, epsilon=0.77, mean=5.0, **FAST).fit(NULL_ROWS).threshold_ == first
    assert len(calls) == 1 and len(list(tmp_path.iterdir())) == 1
    null._memory.clear()
    assert test.fit(NULL_ROWS).threshold_ == first and len(calls) == 1
    # A damaged file is simulated again, to the same numbers.
    null._memory.clear()
    file = next(tmp_path.iterdir())
    file.write_bytes(file.read_bytes()[:-8])
    assert test.fit(NULL_ROWS).threshold_ == first and len(calls) == 2
    assert np.load(file).shape == (199,)
    # Any public number that changes the law is part of the key.
    for other in ({"epsilon": 0.78}, {"radius": 1.0}, {"n_calibration": 399}):
        clone(test).set_params(**other).fit(NULL_ROWS)
    assert len(calls) == 5


def test_a_poisoned_file_serves_only_its_directory(tmp_path, monkeypatch) -> None:
    options = {"random_state": 0, "epsilon": 0.79, **FAST}
    plan = SpatialSignTest(**options).plan(60, 3)
    known = SpatialSignTest(cache_dir=tmp_path, **options)._null_statistics(plan)
    file = next(tmp_path.iterdir())
    for poison in (np.nan, np.inf, -np.inf):
        null._memory.clear()
        np.save(file, np.where(np.arange(199) == 7, poison, known))
        assert np.array_equal(SpatialSignTest(cache_dir=tmp_path, **options)._null_statistics(plan), known)
    null._memory.clear()
    np.save(file, known + 1e6)
    assert SpatialSignTest(cache_dir=tmp_path, **options)._null_statistics(plan)[0] > 1e5
    assert np.array_equal(SpatialSignTest(**options)._null_statistics(plan), known)


def test_nothing_is_simulated_after_the_charge(monkeypatch) -> None:
    test = SpatialSignTest(random_state=0, epsilon=0.81, **FAST)
    calls = []
    fetch = SpatialSignTest._null_statistics
    monkeypatch.setattr(SpatialSignTest, "_null_statistics", lambda *a: calls.append(1) or fetch(*a))
    exact = SpatialSignTest._exact
    monkeypatch.setattr(SpatialSignTest, "_exact", lambda *a: null._memory.clear() or exact(*a))
    assert np.isfinite(test.fit(NULL_ROWS).pvalue_) and len(calls) == 1
    assert "_null" not in vars(test)


def test_calibrations_do_not_depend_on_the_level() -> None:
    test = LipschitzExtensionTest(constraint="inner_product", n_calibration=99)
    assert test.plan(60, 3).law == test.set_params(level=0.01).plan(60, 3).law


def test_statistics_on_integers_do_not_tie() -> None:
    for test in (
        LipschitzExtensionTest(rows="sign", epsilon=5.0, **FAST),
        LipschitzExtensionTest(constraint="inner_product", solver="surrogate", epsilon=5.0, **FAST),
    ):
        plan = test.plan(6, 2)
        assert plan.stages[0].spacing == 2.0**-20
        assert np.unique(test._null_statistics(plan)).size == 199
    # Where the noise or the statistic leaves no room, the lattice is coarser, and nothing is refused.
    assert LipschitzExtensionTest(rows="sign", epsilon=1e-9).plan(10**6, 20).stages[0].spacing > 2.0**-20


def test_the_surrogate_pays_no_more_than_a_row_can_do() -> None:
    test = LipschitzExtensionTest(constraint="inner_product", solver="surrogate", radius=100)
    assert test.plan(50, 3).stages[0].sensitivity == 4 * 3 * 49


def test_layouts_give_the_same_statistic() -> None:
    cov = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 3.0]])
    test = RowDistanceTest(cov=cov)
    plan = test.plan(60, 3)
    Z, W = (plan.reference.whiten(X) for X in (NULL_ROWS, np.asfortranarray(NULL_ROWS)))
    # To the last bit, on any processor: it is a promise that how an entry is rounded depends on nothing else.
    assert np.array_equal(Z, W)
    # Units far out, by a power of two, which rounds nothing: the same whitened rows.
    huge = RowDistanceTest(cov=np.ldexp(cov, 1000)).plan(60, 3).reference
    assert np.array_equal(huge.whiten(np.ldexp(NULL_ROWS, 500)), Z)


def test_calibration_depends_on_neither_threads_nor_the_user_seed(capsys) -> None:
    thresholds = []
    for jobs, seed in [(None, 1), (2, None), (-1, 3)]:
        null._memory.clear()
        test = RowDistanceTest(n_jobs=jobs, random_state=seed, progress=jobs == 2, **FAST)
        thresholds.append(test.fit(NULL_ROWS).threshold_)
    assert len(set(thresholds)) == 1
    assert "null distribution" in capsys.readouterr().err


def test_sizes_of_calibrations() -> None:
    assert null.calibration_size(0.05, None, 1e-5) == 9999
    assert null.calibration_size(0.05, None, 10.0) == 999
    assert null.calibration_size(0.03, None, 1.0) == 999
    # (B + 1) level is an integer, whatever the level.
    assert (
        null.calibration_size(0.007, None, 10.0) == 999 and null.calibration_size(0.0007, None, 10.0) == 9999
    )
    assert null.calibration_size(0.05, 19, 1.0) == 19
    with pytest.raises(InvalidParameter, match="n_calibration"):
        null.calibration_size(0.05, 18, 1.0)


def test_pvalue_counts_ties_against_rejecting() -> None:
    known = np.array([1.0, 2.0, 2.0, 3.0])
    assert [null.pvalue(known, x) for x in (0.0, 2.0, 2.5, 3.0, 9.0)] == [1.0, 0.8, 0.4, 0.4, 0.2]
    assert null.critical_value(np.arange(19.0), 0.05) == 18.0
    assert null.critical_value(np.arange(19.0), 0.1) == 17.0


@pytest.mark.parametrize("kind", KINDS[:5])
def test_power_rises_with_distance_and_size(kind) -> None:
    test = kind(epsilon=5.0, **FAST)
    zero, near, far = (test.power(a, 100, 3, n_simulations=200) for a in (0.0, 0.3, 3.0))
    assert zero < 0.13  # level .05: 5 standard errors
    assert zero - 0.05 <= near <= far
    if kind in PURE:
        assert far == 1.0
        array = test.power(0.4, 100, 3, direction=[1.0, 1.0, 1.0], n_simulations=200)
        assert array == test.power(0.4, 100, 3, n_simulations=200)
    with pytest.raises(InvalidParameter, match="direction"):
        test.power(1.0, 100, 3, direction="up")
    for bad in (object(), ["1", "0", "0"], [[1.0], [1.0, 2.0]]):
        with pytest.raises(InvalidParameter, match="direction"):
            test.power(1.0, 100, 3, direction=bad)
    with pytest.raises(InvalidParameter, match="distance"):
        test.power(1e300, 100, 3)


def test_required_samples_reach_the_power() -> None:
    test = SpatialSignTest(epsilon=1.0, n_calibration=499)
    n = test.required_samples(0.5, 4, 0.8, n_simulations=400)
    assert 60 < n < 400
    assert test.power(0.5, n, 4, n_simulations=400) >= 0.8
    assert test.power(0.5, int(0.7 * n), 4, n_simulations=400) < 0.8


@pytest.mark.parametrize("kind", PURE)
def test_distance_intervals_cover(kind) -> None:
    """6 datasets at distance .8; at most four misses of a 90% interval: false alarm 6e-5 by the binomial."""
    generator = np.random.default_rng(8)
    missed = 0
    for _ in range(6):
        X = generator.standard_normal((40, 2)) + 0.8 / np.sqrt(2)
        test = kind(epsilon=2.0, random_state=generator, **FAST).fit(X)
        low, high = test.distance_interval(0.9, n_simulations=100)
        assert 0 <= low <= high
        missed += not low <= 0.8 <= high
    assert missed <= 4


def test_identity_test_chooses_by_public_facts() -> None:
    assert identity_test(NULL_ROWS, random_state=0, **FAST).test == "Row distance"
    many = np.zeros((10_001, 1))
    assert identity_test(many, random_state=0, **FAST).test == "Spatial sign"
    assert automatic_test(10_000, 1) is RowDistanceTest and automatic_test(10_000, 101) is SpatialSignTest
    with pytest.raises(InvalidData, match="table"):
        identity_test(np.zeros(3))


def test_printed_constants() -> None:
    # Algorithm 9.3.1, line 4: 10 n sqrt(d) + K log(1/beta)/epsilon, beta = level; algorithm 9.3.2's last line.
    n, d = 60, 3
    test = LipschitzExtensionTest(constraint="inner_product", calibration="textbook", random_state=0)
    test.fit(NULL_ROWS)
    K = test.plan_.stages[0].sensitivity
    assert test.threshold_ == pytest.approx(10 * n * np.sqrt(d) + K * np.log(20), rel=0.01)
    assert np.isnan(test.pvalue_) and test.plan_.n_calibration == 0
    staged = LipschitzExtensionTest(
        constraint="inner_product", staged=True, constants="textbook", calibration="textbook", distance=0.5
    )
    plan = staged.plan(n, d)
    assert plan.threshold == n * (n - 1) * 0.25 / 4
    # The printed constants leave one stage, which spends epsilon/M.
    assert len(plan.stages) == 1 and plan.guarantee.epsilon == pytest.approx(1 / 5)
    assert FilteringTest(calibration="textbook", distance=0.5).plan(n, d).threshold == plan.threshold
    assert "Printed constants" in str(test.summary())
