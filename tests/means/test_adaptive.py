"""AdaptiveMean: the plan, the stages, the intervals, conventions, and everything it must refuse."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from dpstats.data.rows import Table
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.means import AdaptiveMean
from dpstats.means.boxed_errors import biased_normal_quantile
from dpstats.privacy import BudgetExceeded, PrivacyBudget, PrivacyGuarantee, gaussian_sigma
from dpstats.release.session import Session

RNG = np.random.default_rng(0)
SQUARES_ADDED = PrivacyBudget(1.0, 1e-5, method="gdp")
"""A budget for which Gaussian noise is kept, whatever the number of columns."""
X = RNG.normal([3.0, -4.0, 0.5], 1.0, size=(400, 3))
OPTIONS: dict[str, Any] = {"bound": 10.0, "std": 1.0}
COV = np.array([[1.0, 0.8, 0.0], [0.8, 2.0, -0.5], [0.0, -0.5, 1.5]])
SHAPES: dict[str, dict[str, Any]] = {
    "one std": OPTIONS,
    "std per column": {"bound": [10.0, 20.0, 5.0], "std": [1.0, 2.0, 0.5]},
    "cov": {"bound": 10.0, "cov": COV},
}
shapes = pytest.mark.parametrize("options", SHAPES.values(), ids=SHAPES)


# --- The plan ------------------------------------------------------------------------------------


@shapes
@pytest.mark.parametrize("tails", ["subgaussian", "symmetric", "variance"])
def test_stages_share_the_budget_exactly(options: dict, tails: str) -> None:
    plan = AdaptiveMean(epsilon=0.7, delta=1e-5, tails=tails, budget=SQUARES_ADDED, **options).plan(1000, 3)
    total = math.fsum(event.mu**2 for event in plan.events)
    # mu_tot = 1/sigma(epsilon, delta), less the millionth of delta that is set aside.
    assert math.sqrt(total) * gaussian_sigma(0.7, 1e-5) == pytest.approx(1, rel=1e-6)
    assert plan.guarantee == PrivacyGuarantee(0.7, 1e-5)
    pure = AdaptiveMean(epsilon=0.7, delta=0.0, tails=tails, **options).plan(1000, 3)
    assert math.fsum(event.pure_cost() for event in pure.events) == pytest.approx(0.7, rel=1e-12)
    assert pure.guarantee == PrivacyGuarantee(0.7)


def test_sensitivity_is_twice_the_radius() -> None:
    plan = AdaptiveMean(bound=100.0, std=2.0).plan(1000, 4)
    for stage, radius in zip(plan.additive, plan.staging.radii, strict=False):
        assert stage.sensitivity == pytest.approx(2 * 2.0 * radius / 1000)
    pure = AdaptiveMean(bound=100.0, std=2.0, delta=0.0).plan(1000, 4)
    for stage, radius in zip(pure.additive, pure.staging.radii, strict=False):
        # l1: sqrt(d) times as much.
        assert stage.sensitivity == pytest.approx(2 * 2 * 2.0 * radius / 1000)


@shapes
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_noise_of_the_average(options: dict, delta: float) -> None:
    fitted = AdaptiveMean(delta=delta, random_state=0, **options).fit(X)
    plan = fitted.plan_
    assert plan.weights.sum() == pytest.approx(1)
    if "cov" not in options:
        noises = [np.broadcast_to(plan.noise(stage.name).std, (3,)) for stage in plan.additive]
        noises = np.array([*noises, np.broadcast_to(plan.noise("mean").std, (3,))])
        of_average = np.sqrt(np.sum((plan.weights[:, None] * noises) ** 2, axis=0))
        np.testing.assert_allclose(fitted.noise_std_, of_average, rtol=1e-9)
    average = plan.weights @ fitted.stage_means_
    # Far inside the box nothing is shrunk.
    np.testing.assert_allclose(fitted.mean_, average, rtol=1e-9)


def test_extreme_parameters_have_plans_that_can_be_drawn() -> None:
    for epsilon, delta in ((1e-5, 1e-12), (50.0, 1e-6), (1000.0, 1e-3), (1e-4, 0.0), (100.0, 0.0)):
        plan = AdaptiveMean(epsilon=epsilon, delta=delta, bound=1e6, std=1.0).plan(10_000, 20)
        assert plan.guarantee.epsilon <= epsilon
        assert math.isfinite(plan.expected_error())
    assert len(AdaptiveMean(bound=1.0, std=1.0).plan(2, 1).stages) >= 1


def test_units_do_not_matter() -> None:
    units = np.array([1.0, 1000.0, 1e-4])
    one = AdaptiveMean(random_state=3, bound=[10.0] * 3, std=[1.0] * 3).fit(X)
    other = AdaptiveMean(random_state=3, bound=10 * units, std=units).fit(X * units)
    np.testing.assert_allclose(other.mean_ / units, one.mean_, atol=1e-6)
    scalar = AdaptiveMean(random_state=3, **OPTIONS).fit(X)
    np.testing.assert_allclose(one.mean_, scalar.mean_, atol=1e-6)
    diagonal = AdaptiveMean(random_state=3, bound=10.0, cov=np.eye(3)).fit(X)
    np.testing.assert_allclose(diagonal.noise_std_, scalar.noise_std_, rtol=1e-6)
    scaled = AdaptiveMean(random_state=3, bound=10.0, std=2.0, cov=np.eye(3) / 4).fit(X)
    np.testing.assert_allclose(scaled.mean_, diagonal.mean_, atol=1e-9)


@shapes
def test_little_noise_leaves_the_sample_mean(options: dict) -> None:
    fitted = AdaptiveMean(epsilon=1e5, random_state=0, **options).fit(X)
    np.testing.assert_allclose(fitted.mean_, X.mean(axis=0), atol=5e-3)


@shapes
@pytest.mark.parametrize("missing", ["error", "center"])
def test_batches_run_the_same_stages_as_one_fit(options: dict, missing: str) -> None:
    rows = X.copy()
    if missing == "center":
        rows[::50, 1] = np.nan
    rows[3] = 1e200
    estimator = AdaptiveMean(missing=missing, **options)
    plan = estimator.plan(*rows.shape)
    centers = RNG.normal(scale=5.0, size=(4, 3))
    for t in range(len(plan.stages)):
        batch = named(estimator._steps(Table(rows), plan, t, centers))
        for i, center in enumerate(centers):
            # A matrix product may round a row differently in tables of different lengths.
            for name, steps in named(estimator._steps(Table(rows), plan, t, center)).items():
                difference = np.abs(steps - batch[name][i]).max()
                assert difference <= (len(rows) if "cov" in options else 0)
    with Session.simulated(plan, np.random.default_rng(1), 5) as session:
        estimator._release(estimator._read(Table(rows), plan), plan, session)
    *early, last = session.released.values()
    assert [values.shape for values in early] == [(5, 3)] * (len(plan.stages) - 1)
    assert {name: values.shape for name, values in last.items()} == {
        "mean": (5, 3),
        "squared norm": (5, 1),
        "clipped rows": (5, 1),
    }


def named(steps: Any) -> Any:
    return steps if isinstance(steps, dict) else {"sums": steps}


def test_expected_error_is_what_is_measured() -> None:
    estimator = AdaptiveMean(bound=20.0, std=1.0, random_state=np.random.default_rng(5))
    errors = []
    for _ in range(60):
        mean = RNG.uniform(-20, 20, 40)
        errors.append(np.sum((estimator.fit(RNG.normal(mean, 1.0, size=(1500, 40))).mean_ - mean) ** 2))
    expected = estimator.plan(1500, 40).expected_error()
    # Five standard errors; the plan is an upper bound by a few percent.
    error = np.std(errors) / np.sqrt(len(errors))
    assert 0.85 * expected - 5 * error < np.mean(errors) < expected + 5 * error
    assert 5 * error < 0.25 * expected
    assert estimator.plan(1500, 40).expected_error(std=0.0) < expected


# --- Intervals -----------------------------------------------------------------------------------


def test_interval_widths() -> None:
    fitted = AdaptiveMean(bound=100.0, std=[1.0, 2.0, 3.0], random_state=0).fit(X)
    plan = fitted.plan_
    low, high = fitted.confidence_interval(0.9, estimand="tails")
    each = math.hypot(math.sqrt(plan.sampling_variance), math.sqrt(plan.noise_variance))
    assert plan.bias > 1e-3 * each
    half = np.array([1.0, 2.0, 3.0]) * each * biased_normal_quantile(0.05, plan.bias / each)
    np.testing.assert_allclose((high - low) / 2, half, rtol=1e-9)
    assert 1 <= 400 * plan.sampling_variance < 1.3  # the bound on the spread of a clipped row
    together = fitted.confidence_interval(0.9, simultaneous=True, estimand="tails")
    half = np.array([1.0, 2.0, 3.0]) * each * biased_normal_quantile(0.1 / 3 / 2, plan.bias / each)
    np.testing.assert_allclose((together.high - together.low) / 2, half, rtol=1e-9)
    variances = np.diag(fitted.cov_params_)
    np.testing.assert_allclose(variances, np.array([1.0, 4.0, 9.0]) * each**2)


def test_intervals_hold_the_estimate_and_are_cut_to_the_box_or_open() -> None:
    for seed in range(20):
        fitted = AdaptiveMean(epsilon=0.02, bound=1.0, std=1.0, random_state=seed).fit(X / 4)
        low, high = fitted.confidence_interval()
        assert np.all(((low >= -1) | np.isinf(low)) & ((high <= 1) | np.isinf(high)))
        assert np.all((low <= fitted.mean_) & (fitted.mean_ <= high) & (low < high))
        assert np.all(np.abs(fitted.mean_) <= 1)


def coverage(estimator: AdaptiveMean, law: str, n: int, d: int, repeats: int, level: float = 0.95) -> float:
    """Return the share of columns covered, over datasets with a mean uniform in the box, by the shortest intervals."""
    rng = np.random.default_rng(17)
    factor = np.eye(d) if estimator.cov is None else np.linalg.cholesky(estimator.cov)
    inside = []
    for _ in range(repeats):
        mean = rng.uniform(-1, 1, d) * estimator.bound
        rows = rng.standard_exponential((n, d)) - 1 if law == "skewed" else rng.standard_normal((n, d))
        fitted = clone(estimator).set_params(random_state=rng).fit(mean + rows @ factor.T)
        low, high = fitted.confidence_interval(level, estimand=list(fitted._answers().estimands)[-1])
        inside.append(np.mean((low <= mean) & (mean <= high)))
    return float(np.mean(inside))


@pytest.mark.parametrize(
    ("options", "law", "exact"),
    [
        ({"std": 1.0}, "normal", True),
        ({"std": 1.0, "delta": 0.0}, "normal", True),
        ({"cov": COV}, "normal", True),
        ({"cov": COV, "delta": 0.0}, "normal", True),
        ({"std": 1.0, "tails": "symmetric"}, "normal", False),
        ({"std": 1.0, "tails": "variance"}, "skewed", False),
    ],
    ids=["std", "std, pure", "cov", "cov, pure", "symmetric", "variance, skewed rows"],
)
def test_intervals_cover(options: dict, law: str, exact: bool) -> None:
    repeats = 150
    covered = coverage(AdaptiveMean(bound=10.0, **options), law, 2000, 3, repeats)
    # At least 400 independent intervals: four standard errors, a false alarm below 1e-4 each.
    error = 4 * math.sqrt(0.95 * 0.05 / (3 * repeats))
    assert covered > 0.95 - error
    assert not exact or covered < 0.95 + error


@pytest.mark.parametrize("tails", ["subgaussian", "symmetric", "variance"])
def test_a_very_wide_box_has_no_failures(tails: str) -> None:
    # Little noise and a box of a thousand standard deviations: a plan that shrinks its balls too fast
    # loses the mean now and then, by many times the usual error.
    rng = np.random.default_rng(3)
    estimator = AdaptiveMean(epsilon=2.0, bound=1000.0, std=1.0, tails=tails, random_state=rng)
    ratios = []
    for _ in range(150):
        mean = rng.uniform(-1000, 1000, 3)
        fitted = estimator.fit(mean + rng.standard_normal((400, 3)))
        ratios.append(np.abs(fitted.mean_ - mean).max() / np.sqrt(fitted.cov_params_[0, 0]))
    # 450 normal errors exceed 5.5 with probability 2e-5; clipping bias adds up to half of one.
    assert max(ratios) < 6


class BiasedStages(AdaptiveMean):
    """Planted bug: radii that cut off a tail of the rows, averaged in under "subgaussian" at no bias."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        trimmed = AdaptiveMean(**(self.get_params() | {"tails": "symmetric"})).plan(n_samples, n_features)
        staging = replace(trimmed.staging, biases=(0.0,) * len(trimmed.stages), slopes=(1.0,) * len(trimmed.stages))
        return replace(trimmed, tails="subgaussian", staging=staging)


def test_coverage_check_notices_biased_stages() -> None:
    # The same check, on lopsided rows, at a size where bias is what is left.
    right = coverage(AdaptiveMean(std=1.0, bound=10.0), "skewed", 20_000, 3, 60)
    wrong = coverage(BiasedStages(std=1.0, bound=10.0), "skewed", 20_000, 3, 60)
    error = 4 * math.sqrt(0.95 * 0.05 / 180)
    assert right > 0.95 - error
    assert wrong < 0.95 - error


def test_bounds_have_any_center() -> None:
    rows = X + np.array([100.0, 200.0, -50.0])
    about_zero = AdaptiveMean(bound=10.0, std=1.0, random_state=3).fit(X)
    ends = [(90, 110), (190, 210), (-60, -40)]
    shifted = AdaptiveMean(bounds=ends, std=1.0, random_state=3).fit(rows)
    np.testing.assert_allclose(shifted.mean_ - [100, 200, -50], about_zero.mean_, atol=1e-6)
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    named = AdaptiveMean(bounds={"c": (-60, -40), "a": (90, 110), "b": (190, 210)}, std=1.0, random_state=3).fit(frame)
    np.testing.assert_array_equal(named.mean_, shifted.mean_)


def test_at_the_edge_of_the_box_the_interval_is_open() -> None:
    rows = RNG.normal([92.0, 3.0], 1.0, size=(2000, 2))
    fitted = AdaptiveMean(bound=50.0, std=1.0, random_state=0).fit(rows)
    low, high = fitted.confidence_interval()
    assert high[0] == np.inf and 49 < low[0] <= 50 and np.isfinite([low[1], high[1]]).all()
    assert "At the edge of the box: x0." in " ".join(fitted.summary().notes)
    # Very far out the last stage clips every row, which refutes the tails too: still not the box.
    far = AdaptiveMean(bound=50.0, std=1.0, random_state=0).fit(rows + np.array([1e5, 0.0]))
    assert far.assumption_refuted_ and far.confidence_interval().high[0] == np.inf
    # By nature between the bounds: nothing is open.
    hard = AdaptiveMean(bounds=(-50, 50), bounds_are="hard", std=1.0, random_state=0)
    low, high = hard.fit(np.clip(rows, -50, 50)).confidence_interval()
    assert np.all((low >= -50) & (high <= 50) & (low < high))


def test_where_noise_dominates_the_middle_is_reported_and_said() -> None:
    estimator = AdaptiveMean(bound=10.0, std=1.0, epsilon=0.1)
    plan = estimator.plan(100, 50)
    assert any("exceeds bound/sqrt(3)" in note for note in plan.notes())
    assert not any("exceeds" in note for note in estimator.plan(100_000, 2).notes())
    rng = np.random.default_rng(6)
    shrunk, cut = [], []
    for _ in range(40):
        mean = rng.uniform(-10, 10, 50)
        fitted = clone(estimator).set_params(random_state=rng).fit(mean + rng.standard_normal((100, 50)))
        shrunk.append(np.linalg.norm(fitted.mean_ - mean))
        cut.append(np.linalg.norm(np.clip(plan.weights @ fitted.stage_means_, -10, 10) - mean))
    middle = 10 * math.sqrt(50 / 3)
    assert np.mean(shrunk) < 1.03 * middle < 0.7 * np.mean(cut)
    notes = " ".join(fitted.summary().notes)
    assert "shrunk toward the middle" in notes and "Exceeds" not in notes and "exceeds bound/sqrt(3)" in notes


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_a_test_rejects_what_the_interval_excludes(delta: float) -> None:
    fitted = AdaptiveMean(delta=delta, random_state=0, **OPTIONS).fit(X)
    for level in (0.5, 0.95):
        low, high = fitted.confidence_interval(level)
        for end in (low, high):
            np.testing.assert_allclose(fitted.test(end).pvalue, 1 - level, rtol=1e-6)
            # A one-sided limit has the whole bias on its side.
            one = fitted.test(end, "greater" if end is low else "less").pvalue
            assert np.all(one >= (1 - level) / 2 * (1 - 1e-9))
    assert np.all(fitted.test(np.clip(fitted.mean_, -10, 10)).pvalue > 0.99)


# --- Conventions ---------------------------------------------------------------------------------


def test_data_frames_names_and_types() -> None:
    frame = pd.DataFrame(X, columns=["age", "income", "visits"])
    fitted = AdaptiveMean(random_state=0, **OPTIONS).fit(frame)
    assert list(fitted.feature_names_in_) == ["age", "income", "visits"]
    same = AdaptiveMean(random_state=0, **OPTIONS).fit(pl.DataFrame(X, schema=["age", "income", "visits"]))
    np.testing.assert_array_equal(fitted.mean_, same.mean_)
    whole = np.rint(X)
    reference = AdaptiveMean(random_state=0, **OPTIONS).fit(whole).mean_
    for other in (whole.astype(np.int8), whole.astype(np.float32), whole.tolist(), np.asfortranarray(whole)):
        np.testing.assert_array_equal(AdaptiveMean(random_state=0, **OPTIONS).fit(other).mean_, reference)
    np.testing.assert_array_equal(fitted.predict(frame[:5]), np.tile(fitted.mean_, (5, 1)))
    with pytest.raises(NotFittedError):
        AdaptiveMean(**OPTIONS).predict(X)


@shapes
def test_clone_and_pickle(options: dict) -> None:
    fitted = AdaptiveMean(random_state=0, **options).fit(X)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.mean_, fitted.mean_)
    assert str(again.summary()) == str(fitted.summary())
    assert "simulated noise" in repr(clone(fitted))


def test_exact_noise_is_a_release() -> None:
    exact = AdaptiveMean(**OPTIONS).fit(X)
    assert not exact.privacy_.simulated and "imulated" not in str(exact.summary())
    np.testing.assert_allclose(exact.mean_, [3.0, -4.0, 0.5], atol=8 * exact.noise_std_.max() + 0.5)
    # Two exact fits agree with probability below 1e-8 a column.
    assert not np.array_equal(exact.mean_, AdaptiveMean(**OPTIONS).fit(X).mean_)
    same = AdaptiveMean(random_state=7, **OPTIONS)
    np.testing.assert_array_equal(same.fit(X).mean_, same.fit(X).mean_)


@pytest.mark.parametrize("tails", ["subgaussian", "symmetric", "variance"])
def test_summary_states_the_assumption(tails: str) -> None:
    fitted = AdaptiveMean(tails=tails, random_state=0, **OPTIONS).fit(X)
    estimand = "tails" if tails == "subgaussian" else "population"
    text = " ".join(str(fitted.summary(estimand=estimand)).split())
    assert fitted.plan_.assumption in text
    for part in ("epsilon = 1, delta = 1e-06", "400, 3 (public)", "bias <="):
        assert part in text
    assert "imulated noise, not a private release" in text
    assert "population mean, if" in fitted.confidence_interval().estimand


def test_missing_entries_count_as_the_center() -> None:
    holes = X.copy()
    holes[::20, 1] = np.nan
    holes[3, 0] = np.inf
    fitted = AdaptiveMean(missing="center", random_state=0, epsilon=100.0, **OPTIONS).fit(holes)
    # Five percent of a column stay at the center, which is near the mean by the last stage.
    np.testing.assert_allclose(fitted.mean_, X.mean(axis=0), atol=0.25)


def test_one_charge_for_all_stages_before_any_noise() -> None:
    budget = PrivacyBudget(1.5, 1e-5)
    fitted = AdaptiveMean(epsilon=1.0, budget=budget, **OPTIONS).fit(X)
    (entry,) = budget.history()
    assert len(fitted.plan_.stages) > 1
    assert entry.label == "AdaptiveMean" and entry.guarantee.epsilon == 1.0
    with pytest.raises(BudgetExceeded):
        AdaptiveMean(epsilon=1.0, budget=budget, **OPTIONS).fit(X)
    assert len(budget.history()) == 1


# --- Bad input: one clear error each, nothing charged --------------------------------------------

BAD_PARAMETERS = [
    ({"epsilon": 0}, "epsilon must be a finite number greater than 0, got 0"),
    ({"delta": 1}, "delta must be a finite number at least 0 and less than 1, got 1"),
    ({"bound": 0}, "bound must be a finite number greater than 0, got 0"),
    ({"bound": None}, "bounds must"),
    ({"bounds": (0, 1)}, "bound must be None"),
    ({"bounds": (1, 0), "bound": None}, "bounds must have low < high"),
    ({"bounds": (0, 1), "bound": None}, "half the distance of bounds must be at least .* got .* at position 0"),
    ({"bounds_are": "soft"}, "bounds_are must be one of 'clip', 'hard', got 'soft'"),
    ({"bound": 0.5}, "bound must be at least the standard deviation of its column, got 0.5 at position 0"),
    ({"bound": [2.0, 3.0, 0.9]}, "bound must be at least .* at position 2"),
    ({"bound": [1.0, 2.0]}, r"bound must be .* \(n_features=3\), got 2 numbers"),
    ({"bound": 1e200}, "bound must be between 1e-100 and 1e.100 for exact arithmetic"),
    ({"std": 0.0}, "std must be a finite number greater than 0, got 0"),
    ({"std": -1.0}, "std must be a finite number greater than 0, got -1"),
    ({"std": None}, "std must be given"),
    ({"std": "private"}, "std_bound must be given"),
    ({"std": "public"}, "std must be one of 'private', got 'public'"),
    ({"std_bound": 2.0}, "std_bound must be None"),
    ({"std": "private", "std_bound": -1.0}, "std_bound must be a finite number greater than 0, got -1"),
    ({"std": [1.0, 1.0, 0.0]}, "std must be .* got another at position 2"),
    ({"tails": "normal"}, "tails must be one of 'subgaussian', 'symmetric', 'variance', got 'normal'"),
    ({"missing": "leave"}, "missing must be one of"),
    ({"cov": np.eye(2)}, r"cov must be .* \(3, 3\), got shape \(2, 2\)"),
    ({"cov": 10**400}, "cov must be .* got int instead of a matrix of numbers"),
    ({"cov": "wide"}, "cov must be .* got str instead of a matrix of numbers"),
    (
        {"cov": np.diag([1.0, 1.0, 0.0])},
        "cov must be .* symmetric positive definite matrix .* got one that is not positive definite",
    ),
    ({"cov": np.diag([1.0, 1.0, -2.0])}, "cov must be .* got one that is not positive definite"),
    ({"cov": np.eye(3) + np.eye(3, k=1)}, "cov must be .* not symmetric"),
    ({"cov": np.diag([1.0, np.nan, 1.0])}, "cov must be .* not finite"),
    ({"cov": COV, "std": [1.0, 1.0, 1.0]}, "std must be None or a single number"),
    ({"cov": 400 * np.eye(3)}, "bound must be at least the standard deviation .* at position 0"),
]


@pytest.mark.parametrize(("options", "message"), BAD_PARAMETERS, ids=[message for _, message in BAD_PARAMETERS])
def test_bad_parameters(options: dict, message: str) -> None:
    budget = PrivacyBudget(10.0, 1e-3)
    with pytest.raises(InvalidParameter, match=message):
        AdaptiveMean(**(OPTIONS | {"budget": budget} | options)).fit(X)
    assert budget.history() == ()


SECRET = 123456.75


@shapes
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_data_is_refused_before_the_charge(options: dict, bad: float) -> None:
    rows = np.full((30, 3), SECRET)
    rows[7, 1] = bad
    budget = PrivacyBudget(10.0, 1e-3)
    with pytest.raises(InvalidData) as caught:
        AdaptiveMean(budget=budget, **options).fit(rows)
    assert budget.history() == () and "123456" not in str(caught.value)
    with pytest.raises(InvalidData, match="at least 2 rows"):
        AdaptiveMean(budget=budget, **options).fit(X[:1])


def test_huge_entries_are_clipped_like_others() -> None:
    for options in SHAPES.values():
        rows = X.copy()
        rows[0] = [1e308, -1e308, 1e308]
        fitted = AdaptiveMean(epsilon=5.0, random_state=0, **options).fit(rows)
        np.testing.assert_allclose(fitted.mean_, [3.0, -4.0, 0.5], atol=0.5)
        # Where a row far out is clipped depends on its direction alone; it counts, and on its own side.
        means = []
        for size in (1e250, 1e200, -1e308):
            rows[0] = [size, -size, size]
            means.append(AdaptiveMean(epsilon=5.0, random_state=0, **options).fit(rows).mean_)
        np.testing.assert_array_equal(means[0], means[1])
        moved = fitted.mean_ - means[2]
        assert np.all(moved * [1, -1, 1] > 0)


def rare(n: int, rng: np.random.Generator) -> np.ndarray:
    return (rng.random((n, 1)) < 0.01) * 1.0


def test_rare_rows_are_covered_unless_an_interval_assumes_tails() -> None:
    # Some nine rows are far out, fewer than the noise of their count.
    rng, covered = np.random.default_rng(8), {"population": [], "tails": []}
    options: dict[str, Any] = {"epsilon": 2.0, "bound": 1.0, "std": math.sqrt(0.01 * 0.99)}
    for _ in range(60):
        fitted = AdaptiveMean(random_state=rng, **options).fit(rare(900, rng))
        for name, found in covered.items():
            if name == "population" or not fitted.assumption_refuted_:
                low, high = fitted.confidence_interval(estimand=name)
                found.append(bool((low <= 0.01) & (high >= 0.01)))
    assert np.mean(covered["population"]) > 0.98
    assert np.mean(covered["tails"]) < 0.8


def test_what_intervals_assume_is_in_their_estimand() -> None:
    fitted = AdaptiveMean(random_state=0, **OPTIONS).fit(X)
    safe = fitted.confidence_interval()
    assert safe.estimand == fitted.estimand_
    assert "standard deviation is an upper bound, without other assumptions" in safe.estimand
    tails = fitted.confidence_interval(estimand="tails")
    rows, shift = fitted.plan_.screen.unnoticed
    assert "at most as heavy as normal ones of the stated standard deviation" in tails.estimand
    assert f"fewer than {rows:,} clipped rows" in tails.estimand and f"up to {shift:.2g} stated sd" in tails.estimand
    assert np.all(np.ptp(np.array(tails), axis=0) < 0.6 * np.ptp(np.array(safe), axis=0))
    # Tests are about the same estimands.
    assert fitted.test(3.0).estimand == safe.estimand
    assert fitted.test(3.0, estimand="tails").estimand == tails.estimand
    assert np.all(fitted.test(0.2).pvalue >= fitted.test(0.2, estimand="tails").pvalue)
    text = " ".join(fitted.summary().notes)
    assert 'estimand="tails" gives intervals of' in text


def test_tails_that_are_refuted_have_no_interval() -> None:
    far = np.where(RNG.random((5000, 1)) < 0.02, 50.0, 0.0)
    fitted = AdaptiveMean(bound=10.0, std=7.0, random_state=0).fit(far)
    assert fitted.assumption_refuted_
    with pytest.raises(InvalidParameter, match="estimand must"):
        fitted.confidence_interval(estimand="tails")
    other = AdaptiveMean(tails="variance", random_state=0, **OPTIONS).fit(X)
    with pytest.raises(InvalidParameter, match="estimand must"):
        other.test(0.0, estimand="tails")


def test_intervals_without_an_assumption_on_tails_are_no_longer_than_those_of_variance() -> None:
    rng = np.random.default_rng(9)
    for n, d in ((2000, 20), (20_000, 20), (3000, 40)):
        rows, options = rng.standard_normal((n, d)), {"bound": 10.0, "std": 1.0, "random_state": 1}
        one, other = (AdaptiveMean(tails=tails, **options).fit(rows) for tails in ("subgaussian", "variance"))
        widths = [np.median(np.ptp(np.array(fit.confidence_interval()), axis=0)) for fit in (one, other)]
        assert widths[0] < 0.95 * widths[1]
        assert one.plan_.expected_error() < other.plan_.expected_error()


def test_rows_between_hard_bounds_can_be_moved_by_the_box_only() -> None:
    rows = np.random.default_rng(10).uniform(0, 1, (3000, 1))
    options: dict[str, Any] = {"bounds": (0, 1), "std": "private", "std_bound": 0.5, "random_state": 0}
    hard, soft = (AdaptiveMean(bounds_are=kind, **options).fit(rows) for kind in ("hard", "clip"))
    width, wide = (np.ptp(np.array(fit.confidence_interval())) for fit in (hard, soft))
    assert width < 0.9 * wide


def test_a_loose_spread_is_named() -> None:
    loose = AdaptiveMean(bound=10.0, std=2.0, random_state=0).fit(np.tile(X, (20, 1)))
    assert 'std="private"' in " ".join(loose.summary().notes)
    right = AdaptiveMean(bound=10.0, std=1.0, random_state=0).fit(np.tile(X, (20, 1)))
    assert 'std="private"' not in " ".join(right.summary().notes)


class _Answers:
    """A session that keeps what it is asked to release, and returns fixed numbers."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def add(self, name: str, steps: Any) -> Any:
        self.asked.append({key: np.asarray(value) for key, value in named(steps).items()})
        released = {key: np.full(value.shape[-1:], 0.01) for key, value in self.asked[-1].items()}
        return released if isinstance(steps, dict) else released["sums"]


def test_a_radius_that_follows_the_spread_is_the_same_for_all_rows() -> None:
    # What each row adds is a function of it and of releases: with these fixed, sums over rows add up exactly.
    estimator = AdaptiveMean(bound=50.0, std_bound=20.0, std="private", epsilon=5.0)
    X = np.random.default_rng(0).normal(3.0, 2.0, (400, 2))
    plan = estimator.plan(400, 2)
    if not plan.follows:
        pytest.skip("this plan has no radius that follows")
    asked = []
    for rows in (X, X[:150], X[150:]):
        session: Any = _Answers()
        estimator._release(estimator._read(Table(rows), plan), plan, session)
        asked.append(session.asked)
    for whole, first, rest in zip(*asked, strict=True):
        for name, value in whole.items():
            assert np.array_equal(value, first[name] + rest[name]), name


def test_an_estimand_that_is_no_word_is_refused_by_name() -> None:
    made = AdaptiveMean(bound=10.0, std=1.0, random_state=0).fit(np.random.default_rng(0).normal(size=(500, 2)))
    for wrong in (np.array(["tails"]), ["population"], 3):
        with pytest.raises(InvalidParameter, match="estimand must be"):
            made.estimates(estimand=wrong)
