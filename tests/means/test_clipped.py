"""ClippedMean: numbers, intervals, conventions, and everything it must refuse."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpstats.data.rows import Table
from dpstats.errors import ChargedError, InvalidData, InvalidParameter, NotPrivate
from dpstats.means import ClippedMean
from dpstats.means.moments import MEAN, OUTSIDE, SQUARES, TOGETHER, flat
from dpstats.privacy import BudgetExceeded, PrivacyBudget, PrivacyGuarantee, gaussian_delta, gaussian_sigma
from dpstats.release.session import Session

RNG = np.random.default_rng(0)
X = RNG.normal(0.5, 1.0, size=(400, 3))


def test_gaussian_noise_is_the_exact_one() -> None:
    # l2 sensitivity 2 R sqrt(d)/n (algorithm 9.2.1), sigma from the exact curve.
    plan = ClippedMean(epsilon=1.0, delta=1e-6, clip=2.0, std=None).plan(1000, 9)
    assert plan.stages[0].sensitivity == pytest.approx(2 * 2.0 * 3 / 1000, rel=1e-9)
    assert plan.stages[0].noise_scale == pytest.approx(4.224679 * 2 * 2.0 * 3 / 1000, rel=1e-6)
    assert plan.guarantee == PrivacyGuarantee(1.0, 1e-6)


def test_the_squared_noise_of_the_mean_is_taken_off_the_spread() -> None:
    # The average squared spread of 4000 releases is that of the rows, within five of its standard errors; what the
    # noise of the mean adds to it is more than that.
    rows = np.tile([[0.7], [-0.7]], (15, 1))
    made = ClippedMean(epsilon=1.0, delta=0.1, bounds=(-1, 1))
    plan = made.plan(*rows.shape)
    exact = made._read(Table(rows), plan)
    with Session.simulated(plan, np.random.default_rng(1), 4000) as session:
        made._release(exact, plan, session)
    found = []
    for first, second in zip(*(flat(session.released)[name] for name in (MEAN, SQUARES)), strict=True):
        made._report({TOGETHER: {MEAN: first, SQUARES: second}}, plan)
        found.append(made._spread[0] ** 2)
    error = np.std(found) / math.sqrt(4000)
    assert plan.noise(MEAN).std ** 2 > 7 * error and min(found) > 0
    assert abs(np.mean(found) - rows.var(ddof=1)) < 5 * error


def test_laplace_noise_is_the_l1_one() -> None:
    # l1 sensitivity 2 R d/n; scale sensitivity/epsilon.
    plan = ClippedMean(epsilon=0.5, clip=2.0).plan(1000, 9)
    assert plan.noise(MEAN).scale == pytest.approx(2 * 2.0 * 9 / 1000 / 0.5, rel=1e-9)


def test_ball_noise_does_not_grow_with_dimension() -> None:
    # l2 sensitivity 2R/n; for Laplace noise l1 sensitivity 2R sqrt(d)/n.
    gaussian = ClippedMean(delta=1e-6, clip=2.0, clip_norm="l2", std=None).plan(1000, 100)
    assert gaussian.stages[0].sensitivity == pytest.approx(2 * 2.0 / 1000, rel=1e-9)
    laplace = ClippedMean(clip=2.0, clip_norm="l2", std=None).plan(1000, 100)
    assert laplace.stages[0].sensitivity == pytest.approx(2 * 2.0 * 10 / 1000, rel=1e-9)


def test_one_bound_per_column() -> None:
    bounds = np.array([1.0, 4.0, 0.25])
    sigma = gaussian_sigma(1.0, 0.1)
    proportional = ClippedMean(delta=0.1, clip=bounds).plan(100, 3)
    np.testing.assert_allclose(proportional.noise(MEAN).scale, 2 * bounds * math.sqrt(3) / 100 * sigma, rtol=1e-6)
    isotropic = ClippedMean(delta=0.1, clip=bounds, noise="isotropic").plan(100, 3)
    # 2 ||R||_2/n, the same for all columns.
    assert isotropic.noise(MEAN).scale == pytest.approx(2 * np.linalg.norm(bounds) / 100 * sigma, rel=1e-6)
    # Squares of every column at its bound over 1.665 of that.
    np.testing.assert_allclose(
        isotropic.noise(SQUARES).scale, isotropic.noise(MEAN).scale * bounds / 1.66493, rtol=1e-4
    )
    # The same expected squared error: docs/proofs/clipped-mean.md.
    assert proportional.expected_error() == pytest.approx(isotropic.expected_error(), rel=1e-8)


def test_proportional_noise_does_not_depend_on_units() -> None:
    units = np.array([1.0, 1000.0, 0.001])
    one = ClippedMean(delta=1e-6, clip=[3.0, 3.0, 3.0], random_state=5).fit(X)
    other = ClippedMean(delta=1e-6, clip=3.0 * units, random_state=5).fit(X * units)
    # The same seed: the same noise in steps; rows may round to neighboring steps.
    np.testing.assert_allclose(other.mean_ / units, one.mean_, atol=1e-8)


def test_expected_error_formula() -> None:
    # tr Sigma/n + 4 R^2 d^2 sigma^2/n^2 (algorithms.md, section 8).
    n, d, R = 500, 7, 1.5
    plan = ClippedMean(epsilon=0.3, delta=1e-5, clip=R, std=2.0).plan(n, d)
    noise = 4 * R**2 * d**2 * gaussian_sigma(0.3, 1e-5) ** 2 / n**2
    assert plan.expected_error() == pytest.approx(d * 4.0 / n + noise, rel=1e-6)
    assert plan.expected_error(std=1.0) == pytest.approx(d / n + noise, rel=1e-6)
    unknown = ClippedMean(epsilon=0.3, delta=1e-5, clip=R).plan(n, d)
    assert unknown.expected_error() == pytest.approx(noise, rel=1e-6)


def test_the_whole_guarantee_is_the_mean_s_and_the_squares_are_beside_it() -> None:
    plan = ClippedMean(epsilon=1.0, delta=1e-6, clip=1.0).plan(100, 20)
    (stage,) = plan.stages
    assert [block.name for block in stage.blocks] == [MEAN, SQUARES]
    assert gaussian_delta(1.0, 1 / stage.event.mu) == pytest.approx(1e-6, rel=3e-6)
    pure = ClippedMean(epsilon=1.0, clip=1.0).plan(100, 2)
    assert [event.pure_cost() for event in pure.events] == pytest.approx([1.0])


def test_in_a_ball_with_pure_privacy_two_releases_share_the_budget() -> None:
    pure = ClippedMean(epsilon=1.0, clip=1.0, clip_norm="l2", std_share=0.25).plan(100, 2)
    assert [stage.name for stage in pure.stages] == [MEAN, SQUARES]
    assert [stage.event.pure_cost() for stage in pure.stages] == pytest.approx([0.75, 0.25])
    with pytest.raises(InvalidParameter, match="clipped_share must"):
        ClippedMean(clip=1.0, clip_norm="l2", clipped_share=True).plan(100, 2)
    fitted = ClippedMean(epsilon=1e6, clip=9.0, clip_norm="l2", random_state=0).fit(X)
    np.testing.assert_allclose(fitted.std_, X.std(axis=0, ddof=1), rtol=1e-3)


def test_estimate_is_the_clipped_mean_plus_noise() -> None:
    # With epsilon = 1e6 the noise is below 1e-6: what is left is the clipped mean itself.
    for options, expected in (
        ({"clip": 1.0}, np.clip(X, -1, 1).mean(axis=0)),
        ({"clip": [1.0, 0.5, 2.0], "center": [0.5, 0.0, -1.0]}, None),
        ({"clip": 1.0, "clip_norm": "l2", "center": 0.3}, None),
    ):
        if expected is None:
            center = np.asarray(options["center"])
            shifted = X - center
            if options.get("clip_norm") == "l2":
                shifted = shifted * np.minimum(1, 1 / np.linalg.norm(shifted, axis=1))[:, None]
            else:
                shifted = np.clip(shifted, -np.asarray(options["clip"]), options["clip"])
            expected = center + shifted.mean(axis=0)
        fitted = ClippedMean(epsilon=1e6, random_state=1, **options).fit(X)
        np.testing.assert_allclose(fitted.mean_, expected, atol=1e-6)


def test_private_spread_is_the_spread() -> None:
    data = np.random.default_rng(1).normal([0.0, 1.0], [1.0, 0.5], size=(20_000, 2))
    fitted = ClippedMean(epsilon=50.0, delta=1e-6, clip=8.0, std="private", random_state=1).fit(data)
    np.testing.assert_allclose(fitted.std_, data.std(axis=0, ddof=1), rtol=0.01)


def test_interval_widths() -> None:
    fitted = ClippedMean(delta=0.01, clip=6.0, std=[1.0, 2.0, 3.0], random_state=0).fit(X)
    low, high = fitted.confidence_interval(0.9)
    spread = np.sqrt(np.array([1.0, 4.0, 9.0]) / 400 + fitted.noise_std_**2)
    np.testing.assert_allclose((high - low) / 2, stats.norm.isf(0.05) * spread, rtol=1e-9)
    np.testing.assert_allclose(np.diag(fitted.cov_params_), spread**2, rtol=1e-12)
    together = fitted.confidence_interval(0.9, simultaneous=True)
    # Sidak: each at 0.9^(1/3).
    each = stats.norm.isf((1 - 0.9 ** (1 / 3)) / 2)
    np.testing.assert_allclose((together.high - together.low) / 2, each * spread, rtol=1e-9)
    assert together.simultaneous


def test_interval_without_spread_is_the_noise_alone() -> None:
    fitted = ClippedMean(epsilon=1.0, clip=6.0, std=None, random_state=0).fit(X)
    low, high = fitted.confidence_interval()
    # Laplace: P(|Z| > b log 20) = 0.05.
    np.testing.assert_allclose((high - low) / 2, fitted.noise_scale_ * math.log(20))
    assert "privacy noise only" in fitted.confidence_interval().estimand
    assert "exclude sampling error" in str(fitted.summary())


def test_a_spread_that_noise_hides_is_no_number_and_no_trouble() -> None:
    # Little data and a wide clip: the noisy variance comes out negative in about half the fits.
    for seed in range(20):
        fitted = ClippedMean(epsilon=0.1, clip=50.0, random_state=seed).fit(X)
        assert not np.any(fitted.std_ == 0) and np.isnan(fitted.std_).any()
        assert np.isfinite(fitted.cov_params_).all() and np.isfinite(fitted.standard_error_).all()
        low, high = fitted.confidence_interval()
        assert np.all(high - low > 1.5 * fitted.noise_std_) and "noise hides" in str(fitted.summary())


def test_data_frames_and_names() -> None:
    frame = pd.DataFrame(X, columns=["age", "income", "visits"])
    fitted = ClippedMean(clip=2.0, random_state=0).fit(frame)
    assert list(fitted.feature_names_in_) == ["age", "income", "visits"]
    assert "income" in str(fitted.summary())
    same = ClippedMean(clip=2.0, random_state=0).fit(pl.DataFrame(X, schema=["age", "income", "visits"]))
    np.testing.assert_array_equal(fitted.mean_, same.mean_)
    assert list(same.feature_names_in_) == ["age", "income", "visits"]
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame[["income", "age", "visits"]])


def test_every_numeric_type_gives_the_same_answer() -> None:
    table = np.random.default_rng(3).integers(-5, 5, size=(50, 2))
    reference = ClippedMean(clip=3.0, random_state=0).fit(table.astype(float)).mean_
    for other in (table, table.astype(np.int8), table.astype(np.float32), table.astype(object), table.tolist()):
        np.testing.assert_array_equal(ClippedMean(clip=3.0, random_state=0).fit(other).mean_, reference)


def test_missing_entries_count_as_the_center() -> None:
    holes = X.copy()
    holes[::7, 1] = np.nan
    holes[3, 0] = np.inf
    filled = np.where(np.isfinite(holes), holes, 0.25)
    options = {"clip": 2.0, "center": 0.25, "random_state": 0}
    fitted = ClippedMean(missing="center", **options).fit(holes)
    np.testing.assert_array_equal(fitted.mean_, ClippedMean(**options).fit(filled).mean_)


def test_predict_returns_the_estimate_for_every_row() -> None:
    fitted = ClippedMean(clip=2.0, random_state=0).fit(X)
    np.testing.assert_array_equal(fitted.predict(X[:5]), np.tile(fitted.mean_, (5, 1)))
    with pytest.raises(NotFittedError):
        ClippedMean(clip=2.0).predict(X)


def test_the_arrays_given_are_not_changed() -> None:
    data, clip = X.copy(), np.array([1.0, 2.0, 3.0])
    fitted = ClippedMean(clip=clip, center=np.zeros(3), std=np.ones(3), random_state=0).fit(data)
    fitted.std_[0] = 99.0
    np.testing.assert_array_equal(data, X)
    np.testing.assert_array_equal(clip, [1.0, 2.0, 3.0])
    assert fitted.std[0] == 1.0


def test_pipeline_pickle_and_clone() -> None:
    pipeline = make_pipeline(FunctionTransformer(), ClippedMean(clip=2.0, random_state=0)).fit(X)
    again = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(again.predict(X[:2]), pipeline.predict(X[:2]))
    assert clone(pipeline[-1]).get_params() == pipeline[-1].get_params()


def test_exact_and_simulated_noise_say_which_they_are() -> None:
    exact = ClippedMean(clip=2.0).fit(X)
    assert not exact.privacy_.simulated
    assert "imulated" not in str(exact.summary()) + repr(exact) + str(exact.privacy_)
    simulated = ClippedMean(clip=2.0, random_state=np.random.default_rng(0)).fit(X)
    for text in (str(simulated.summary()), repr(simulated), str(simulated.privacy_)):
        assert "imulated noise, not a private release" in text
    # Two exact fits agree with probability below 1e-8 a column.
    assert not np.array_equal(exact.mean_, ClippedMean(clip=2.0).fit(X).mean_)
    same = ClippedMean(clip=2.0, random_state=7)
    np.testing.assert_array_equal(same.fit(X).mean_, same.fit(X).mean_)


def test_summary_as_text_and_html() -> None:
    frame = pd.DataFrame(X, columns=["a<b", "c", "d"])
    summary = ClippedMean(delta=1e-6, clip=4.0, std="private", random_state=0).fit(frame).summary()
    text, page = str(summary), summary._repr_html_()
    for part in (
        "epsilon = 1, delta = 0)",
        "smaller than Gaussian noise",
        "E[clip(x)]",
        "private standard deviation of the clipped rows",
        "400, 3 (public)",
    ):
        assert part in text
    assert "a&lt;b" in page and "a<b" not in page


# --- Bad input: one clear error each, nothing charged --------------------------------------------

BAD_PARAMETERS = [
    ({"epsilon": 0}, "epsilon must be a finite number greater than 0, got 0"),
    ({"epsilon": -1.0}, "epsilon must be a finite number greater than 0, got -1"),
    ({"epsilon": math.nan}, "epsilon must be a finite number greater than 0, got nan"),
    ({"epsilon": "1"}, "epsilon must be a finite number greater than 0, got '1'"),
    ({"epsilon": True}, "epsilon must be a finite number greater than 0, got True"),
    ({"delta": 1}, "delta must be a finite number at least 0 and less than 1, got 1"),
    ({"delta": -1e-9}, "delta must be"),
    ({"clip": 0}, "clip must be a finite number greater than 0, got 0"),
    ({"clip": None}, "bounds must"),
    ({"bounds": (0, 1)}, "clip must be None"),
    ({"clip": None, "bounds": (1, 0)}, r"bounds must have low < high, got \(1, 0\)"),
    ({"clip": None, "bounds": [(0, 1), (2, 2), (0, 1)]}, "bounds must have low < high for column 1"),
    ({"clip": None, "bounds": (0, math.inf)}, "bounds must be a pair .* all finite"),
    ({"clip": None, "bounds": 3.0}, r"bounds must be a pair \(low, high\) of numbers, or one pair per column"),
    ({"clip": None, "bounds": [(0, 1), (0, 1)]}, r"an array of shape \(3, 2\)"),
    ({"clip": None, "bounds": ("0", "1")}, "bounds must be a pair"),
    ({"clip": None, "bounds": {"a": (0, 1)}}, "bounds must have no labels where X has no column names"),
    ({"bounds_are": "soft"}, "bounds_are must be one of 'clip', 'hard', got 'soft'"),
    ({"clip": None, "bounds": (0, 1), "clip_norm": "l2"}, "bounds must not"),
    ({"clipped_share": 1}, "clipped_share must be True or False, got 1"),
    ({"clip": [1.0, 2.0]}, r"clip must be .* \(n_features=3\), got 2 numbers"),
    ({"clip": [1.0, 2.0, -1.0]}, "clip must be .* got another at position 2"),
    ({"clip": "wide"}, "clip must be"),
    ({"clip": [[1.0, 2.0, 3.0]]}, "clip must be"),
    ({"clip": [1.0, 1.0, 1.0], "clip_norm": "l2"}, "clip must be a single number"),
    ({"clip_norm": "l1"}, "clip_norm must be one of 'linf', 'l2', got 'l1'"),
    ({"center": [0.0]}, "center must be"),
    ({"center": math.inf}, "center must be a finite number"),
    ({"std": 0.0}, "std must be"),
    ({"std": "public"}, "std must be None, 'private', or public numbers, got 'public'"),
    ({"std": "private", "std_share": 1.0}, "std_share must be"),
    ({"noise": "white"}, "noise must be one of"),
    ({"missing": "mean"}, "missing must be one of"),
    ({"calibration": "best"}, "calibration must be one of"),
]


@pytest.mark.parametrize(("options", "message"), BAD_PARAMETERS, ids=[str(options) for options, _ in BAD_PARAMETERS])
def test_bad_parameters(options: dict, message: str) -> None:
    budget = PrivacyBudget(10.0, 1e-3)
    with pytest.raises(InvalidParameter, match=message):
        ClippedMean(**{"clip": 1.0, "budget": budget} | options).fit(X)
    assert budget.history() == ()


def test_seed_and_budget_exclude_each_other() -> None:
    budget = PrivacyBudget(1.0)
    with pytest.raises(InvalidParameter, match="random_state and budget cannot be given together"):
        ClippedMean(clip=1.0, random_state=0, budget=budget).fit(X)
    assert budget.history() == ()
    with pytest.raises(InvalidParameter, match="budget must"):
        ClippedMean(clip=1.0, budget=1.0).fit(X)
    for bad in (-1, 1.5, "0", True, np.random.RandomState(0)):
        with pytest.raises(InvalidParameter, match="random_state must be"):
            ClippedMean(clip=1.0, random_state=bad).fit(X)


SECRET = 123456.75
BAD_DATA = {
    "NaN": np.array([[SECRET, 1.0], [np.nan, 2.0]]),
    "infinity": np.array([[SECRET, 1.0], [np.inf, 2.0]]),
    "one row": np.array([[SECRET, 1.0]]),
    "3-d": np.full((2, 2, 2), SECRET),
    "no columns": np.empty((3, 0)),
    "text": np.array([[str(SECRET), "secret"], ["a", "b"]]),
    "text column": pd.DataFrame({"a": [SECRET, 1.0], "b": [f"x{SECRET}", "y"]}),
    "dates": pd.DataFrame({"a": pd.to_datetime(["2001-02-03", "2001-02-04"])}),
    "objects": np.array([[SECRET, {SECRET: 1}], [1, 2]], dtype=object),
    "complex": np.array([[SECRET + 1j, 1], [1, 2]]),
    "ragged": [[SECRET, 1.0], [2.0]],
    "scalar": SECRET,
    "string": f"{SECRET}",
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_is_refused_without_showing_it(name: str) -> None:
    budget = PrivacyBudget(10.0)
    with pytest.raises(InvalidData) as caught:
        ClippedMean(clip=1.0, budget=budget).fit(BAD_DATA[name])
    assert "123456" not in str(caught.value)
    assert "X" in str(caught.value) or "Found array" in str(caught.value)
    # No original exception, which may hold data, can be reached from ours.
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    assert budget.history() == ()


def test_textbook_noise_where_it_is_private_and_where_it_is_not() -> None:
    plan = ClippedMean(epsilon=0.1, delta=1e-3, clip=1.0, calibration="textbook").plan(100, 4)
    # sigma = 2R sqrt(d) sqrt(log(1/delta))/(n epsilon), algorithm 9.2.1; its actual delta is 0.053 of the claim.
    assert plan.noise(MEAN).scale == pytest.approx(2 * 2 * math.sqrt(math.log(1e3)) / (100 * 0.1), rel=1e-9)
    assert plan.guarantee.epsilon < 0.1
    budget = PrivacyBudget(10.0, 1e-3)
    with pytest.raises(NotPrivate, match=r"10\.6 times the one claimed"):
        ClippedMean(epsilon=1.0, delta=1e-6, clip=1.0, calibration="textbook", budget=budget).fit(X)
    assert budget.history() == ()


# --- The order of events ----------------------------------------------------------------------------


def test_budget_is_charged_once_and_shared_by_clones() -> None:
    budget = PrivacyBudget(1.0, 1e-5)
    estimator = ClippedMean(epsilon=0.4, delta=1e-6, clip=1.0, budget=budget)
    clone(estimator).fit(X)
    estimator.fit(X)
    assert [entry.label for entry in budget.history()] == ["ClippedMean", "ClippedMean"]
    assert budget.spent == PrivacyGuarantee(0.8)  # Laplace noise is smaller, and needs no delta
    with pytest.raises(BudgetExceeded, match=r"Requested .*epsilon = 0\.4.* fits is .*epsilon = 0\.2"):
        estimator.fit(X)
    assert budget.remaining.epsilon == 0.2


def test_budget_refuses_before_the_data_are_looked_at() -> None:
    budget = PrivacyBudget(0.5)
    holes = X.copy()
    holes[0, 0] = np.nan
    with pytest.raises(BudgetExceeded):
        ClippedMean(epsilon=1.0, clip=1.0, budget=budget).fit(holes)


def test_charge_comes_before_noise() -> None:
    budget = PrivacyBudget(1.0)

    class Fails(ClippedMean):
        def _release(self, *args: object) -> None:
            assert len(budget.history()) == 1
            raise RuntimeError("no entropy")

    with pytest.raises(ChargedError, match=r"RuntimeError in .*The charge stands"):
        Fails(clip=1.0, budget=budget).fit(X)
    # A fit that fails after the charge has spent it.
    assert budget.spent.epsilon == 1.0


def test_large_tables_and_tiny_ones() -> None:
    fitted = ClippedMean(clip=1.0, random_state=0).fit(np.zeros((2, 1)))
    assert fitted.mean_.shape == (1,)
    wide = ClippedMean(delta=1e-6, clip=1.0, random_state=0).fit(np.zeros((3, 20_000)))
    assert wide.mean_.shape == (20_000,)
    with pytest.raises(InvalidParameter, match="n_samples must be"):
        ClippedMean(clip=1.0).plan(1, 1)


def test_budget_refuses_before_text_is_found() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["secret", "text"]})
    with pytest.raises(BudgetExceeded):
        ClippedMean(epsilon=1.0, clip=1.0, budget=PrivacyBudget(0.5)).fit(frame)


def test_the_summary_tells_of_the_fit_and_not_of_later_parameters() -> None:
    fitted = ClippedMean(delta=1e-6, clip=4.0, std=1.0, random_state=0).fit(X)
    before = str(fitted.summary())
    fitted.set_params(calibration="textbook", clip=1e9, center=3e9, clip_norm="l2")
    assert str(fitted.summary()) == before


# --- Bounds, and what follows from them ------------------------------------------------------------


def test_bounds_are_a_center_and_a_clip() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    pairs = np.array([[-1.0, 1.0], [0.0, 3.0], [-2.0, 0.5]])
    expected = ClippedMean(clip=[1.0, 1.5, 1.25], center=[0.0, 1.5, -0.75], random_state=0).fit(frame)
    shuffled = [2, 0, 1]
    labels = ["c", "a", "b"]
    forms = {
        "array": pairs,
        "pairs": [tuple(pair) for pair in pairs],
        "frame": pd.DataFrame(pairs[shuffled], index=labels, columns=["low", "high"]),
        "frame, rows": pd.DataFrame(pairs[shuffled].T, columns=labels, index=["low", "high"]),
        "mapping": {name: tuple(pairs[i]) for name, i in zip(labels, shuffled, strict=True)},
        "unlabelled frame": pd.DataFrame(pairs),
    }
    for name, bounds in forms.items():
        found = ClippedMean(bounds=bounds, random_state=0).fit(frame)
        np.testing.assert_allclose(found.mean_, expected.mean_, atol=1e-8, err_msg=name)
    one = ClippedMean(bounds=(-1, 3), random_state=0).fit(X)
    np.testing.assert_array_equal(one.mean_, ClippedMean(clip=2.0, center=1.0, random_state=0).fit(X).mean_)
    with pytest.raises(InvalidParameter, match="bounds must have the columns of X as labels"):
        ClippedMean(bounds={"a": (0, 1), "b": (0, 1), "x": (0, 1)}).fit(frame)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_estimate_and_no_interval_leaves_the_bounds(delta: float) -> None:
    # Three rows of 0 to 100 once printed -123 [-245, -1].
    rows = np.array([[10.0], [50.0], [99.0]])
    for seed in range(40):
        for options in ({}, {"std": 30.0}, {"std": None}, {"bounds_are": "hard"}):
            made = ClippedMean(bounds=(0, 100), delta=delta, epsilon=0.5, random_state=seed, **options).fit(rows)
            for level in (0.5, 0.95, 0.999):
                low, high = made.confidence_interval(level)
                assert 0 <= low[0] <= made.mean_[0] <= high[0] <= 100
            assert high[0] > low[0]  # never a single point, however far the noise went
    assert any(note.startswith("Warning") for note in made.summary().notes)
    assert "Warning" in str(made.plan_) and "Warning" not in str(made.plan(10_000, 1))


def test_hard_bounds_give_the_population_mean_itself() -> None:
    rows = (np.random.default_rng(0).random((2000, 1)) < 0.03).astype(float)
    hard = ClippedMean(bounds=(0, 1), bounds_are="hard", epsilon=1.0, random_state=0).fit(rows)
    soft = ClippedMean(bounds=(0, 1), epsilon=1.0, random_state=0).fit(rows)
    ends = [hard.confidence_interval(estimand=name) for name in ("clipped", "population")]
    for interval in (*ends, soft.confidence_interval()):
        np.testing.assert_array_equal([interval.low, interval.high], [ends[0].low, ends[0].high])
        assert ("population mean" in interval.estimand) == (interval in ends)
    near = "the estimate is close to a bound"
    assert any(near in note and "or set clipped_share=True" in note for note in soft.summary().notes)
    measured = ClippedMean(bounds=(0, 1), clipped_share=True, epsilon=1.0, random_state=0).fit(rows)
    assert any(near in note and note.endswith("widen the bounds.") for note in measured.summary().notes)
    assert "near an end" not in str(hard.summary()) and "E[clip(x)]" not in str(hard.summary())


def test_the_population_interval_holds_where_the_clip_cuts_and_is_refused_where_nothing_follows() -> None:
    # The README's own mdvis at 0 to 5, and N(8, 1) clipped at 6: .38 and .5 were printed for .85 and 2.0.
    rng = np.random.default_rng(0)
    for rows, bounds, std, truth in (
        (rng.normal(8.0, 1.0, (5000, 1)), (-6, 6), 1.0, 8.0),
        (rng.lognormal(0.0, 2.0, (5000, 1)), (0, 6), math.sqrt(math.exp(4) * (math.exp(4) - 1)), math.exp(2)),
        (rng.exponential(1.0, (5000, 1)), (0, 2), 1.0, 1.0),
    ):
        made = ClippedMean(bounds=bounds, std=std, epsilon=1.0, random_state=0).fit(rows)
        low, high = made.confidence_interval(estimand="population")
        assert low[0] <= truth <= high[0]
        clipped = made.confidence_interval()
        assert low[0] <= clipped.low[0] and high[0] >= clipped.high[0]
        assert str(made.summary()).count("the population mean, for any rows") == 1  # the widest is the default
        assert made.test(truth, estimand="population").pvalue[0] > 0.05
    private = ClippedMean(bounds=(0, 2), random_state=0).fit(rows)
    with pytest.raises(InvalidParameter, match="estimand must"):
        private.confidence_interval(estimand="population")
    with pytest.raises(InvalidParameter, match="estimand must be one of 'clipped', got 'mean'"):
        private.confidence_interval(estimand="mean")
    with pytest.raises(InvalidParameter, match="estimand must be one of 'clipped', got an array of 2"):
        private.confidence_interval(estimand=np.zeros(2))


def test_the_share_of_clipped_entries_is_released_where_it_is_asked_for() -> None:
    rows = np.random.default_rng(0).normal(0.0, 1.0, (20_000, 2))
    made = ClippedMean(bounds=[(-1, 1), (-5, 5)], delta=0.1, clipped_share=True, random_state=0).fit(rows)
    np.testing.assert_allclose(made.clipped_share_, [0.3173, 0.0], atol=0.02)
    assert made.clipped_share_std_ == pytest.approx(float(np.max(made.plan_.noise(OUTSIDE).std)), rel=1e-12)
    assert "clipped" in str(made.summary()) and "were clipped" in str(made.summary())
    ball = ClippedMean(clip=1.0, clip_norm="l2", delta=1e-6, clipped_share=True, random_state=0).fit(rows)
    assert ball.clipped_share_ == pytest.approx([math.exp(-0.5)], abs=0.02)
    assert not hasattr(ClippedMean(bounds=(-1, 1), random_state=0).fit(rows), "clipped_share_")


# --- Is it this value? -----------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"delta": 1e-6}, {"std": 1.0}, {"std": None}, {"bounds_are": "hard"}])
def test_a_value_is_rejected_where_the_interval_excludes_it(options: dict) -> None:
    made = ClippedMean(bounds=(-6, 6), epsilon=1.0, random_state=0, **options).fit(X)
    for level in (0.5, 0.9, 0.99):
        two = made.test(0.45)
        low, high = made.confidence_interval(level)
        np.testing.assert_array_equal((low <= 0.45) & (high >= 0.45), two.pvalue >= 1 - level)
        np.testing.assert_array_equal(two.confidence_interval(level).low, low)
        for side, tail in (("less", 1), ("greater", 0)):
            one = made.test(0.45, side)
            end = one.confidence_interval(level)[tail]
            excluded = end < 0.45 if side == "less" else end > 0.45
            np.testing.assert_array_equal(excluded, one.pvalue < 1 - level)
            assert one.confidence_interval(level)[1 - tail] == pytest.approx(6 if tail == 0 else -6)
    np.testing.assert_allclose(
        two.pvalue, 2 * np.minimum(made.test(0.45, "less").pvalue, made.test(0.45, "greater").pvalue)
    )
    errors = np.sqrt(np.diag(made.cov_params_))
    np.testing.assert_allclose(two.statistic, (made.mean_ - 0.45) / errors)
    assert made.test(made.mean_).pvalue == pytest.approx(np.ones(3))


def test_a_test_costs_nothing_and_refuses_what_cannot_be() -> None:
    budget = PrivacyBudget(1.0)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    made = ClippedMean(bounds=(-6, 6), epsilon=1.0, budget=budget).fit(frame)
    found = made.test(pd.Series([0.1, 0.2, 0.3], index=["c", "a", "b"]))
    np.testing.assert_array_equal(found.value, [0.2, 0.3, 0.1])
    assert len(budget.history()) == 1 and "without additional privacy cost" in str(found.summary())
    assert list(found.names) == ["a", "b", "c"] and "<table" in found._repr_html_()
    for bad, message in (
        ((7.0,), "value must be between the bounds of the estimand, -6 and 6, got 7"),
        ((math.nan,), "value must be"),
        (([0.0, 1.0],), "value must be"),
        ((0.0, "bigger"), "alternative must be one of"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            made.test(*bad)
    with pytest.raises(NotFittedError):
        ClippedMean(bounds=(0, 1)).test()


@pytest.mark.parametrize(("law", "delta"), [("normal", 1e-6), ("binary", 0.0), ("exponential", 0.0)])
def test_the_level_of_the_test_is_at_most_the_stated_one(law: str, delta: float) -> None:
    # 400 columns of 200 rows at the noise of one: five standard errors of a rate of .05 are .054.
    rng = np.random.default_rng(0)
    draw = {"normal": rng.normal, "binary": lambda size: rng.random(size) < 0.1, "exponential": rng.exponential}[law]
    bounds, truth = {"normal": ((-5, 5), 0.0), "binary": ((0, 1), 0.1), "exponential": ((0, 30), 1.0)}[law]
    rejected = []
    for seed in range(400):
        made = ClippedMean(bounds=bounds, epsilon=4.0, delta=delta, random_state=seed)
        rejected.append(made.fit(np.asarray(draw(size=(200, 1)), dtype=float)).test(truth).pvalue[0] < 0.05)
    assert np.mean(rejected) < 0.05 + 0.054


def test_masked_arrays_are_refused() -> None:
    with pytest.raises(InvalidData, match="masked array"):
        ClippedMean(clip=1.0).fit(np.ma.masked_array(X, mask=X > 0))
