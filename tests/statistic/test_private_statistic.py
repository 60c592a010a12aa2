"""Private statistics from fit to report: coverage, units, outputs, bad functions, and what is kept."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone

from dpstats.auditing import check_sensitivity
from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.statistic import PrivateStatistic

RNG = np.random.default_rng(0)
X = RNG.normal([0.0, 1.0], 1.0, size=(4000, 2))


def mean_of_first(block: Any) -> float:
    return float(np.asarray(block)[:, 0].mean())


def test_a_mean_is_covered_and_its_interval_is_as_wide_as_planned() -> None:
    # 60 fits; at a coverage of 0.95 fewer than 50 have a probability below 1e-4.
    rng = np.random.default_rng(1)
    widths, covered = [], 0
    for seed in range(60):
        rows = rng.exponential(size=(3000, 1))
        fit = PrivateStatistic(mean_of_first, bias=None, random_state=seed).fit(rows)
        low, high = fit.confidence_interval()
        covered += low <= 1 <= high
        widths.append((high - low) / 2)
    assert covered >= 50
    planned = fit.plan_.planned_width * 1.96 / np.sqrt(3000)
    assert np.median(widths) == pytest.approx(planned, rel=0.2)


def test_without_noise_it_is_the_mean_of_the_blocks() -> None:
    fit = PrivateStatistic(mean_of_first, bias=None, blocks=160, epsilon=1e4, random_state=0, skewness=0.0).fit(X)
    assert fit.estimate_ == pytest.approx(X[:, 0].mean(), abs=0.006)
    low, high = fit.confidence_interval()
    assert high - low == pytest.approx(2 * 1.96 / np.sqrt(len(X)), rel=0.15)


def test_intervals_and_tests_agree() -> None:
    fit = PrivateStatistic(mean_of_first, random_state=0).fit(X)
    for end in fit.confidence_interval(0.95):
        assert fit.test(end).pvalue == pytest.approx(0.05, rel=1e-6)
    assert fit.test(-1.0, "greater").pvalue < 1e-3 < 0.9 < fit.test(-1.0, "less").pvalue
    frame = fit.to_frame()
    assert list(frame.index) == ["mean_of_first"] and list(frame.columns) == ["estimate", "std_error", "low", "high"]


def test_a_link_maps_estimates_and_limits_back() -> None:
    def correlation(block: Any) -> float:
        return float(np.corrcoef(block.T)[0, 1])

    fit = PrivateStatistic(correlation, link="fisher", bounds=(-3, 3), random_state=0).fit(X)
    low, high = fit.confidence_interval()
    assert -1 < low < fit.estimate_ < high < 1
    assert fit.confidence_interval(alternative="less").low == pytest.approx(np.tanh(-3))


def test_bounds_of_the_logarithm_give_finite_statistics() -> None:
    # Without located values the interval is the bounds.
    failing = PrivateStatistic(lambda block: np.nan, link="log", bounds=(-1000, 700), random_state=0).fit(X)
    assert failing.confidence_interval().high == pytest.approx(np.exp(700))
    assert failing.test(1.0).pvalue == 1.0
    with pytest.raises(InvalidParameter, match="bounds must"):
        PrivateStatistic(mean_of_first, link="log", bounds=(0, 1000)).plan(4000)


def test_several_outputs_have_names_and_shapes() -> None:
    def both(block: Any) -> Any:
        return block.mean(axis=0)

    fit = PrivateStatistic(both, n_outputs=2, bounds=[(-5, 5), (-10, 10)], delta=1e-6, random_state=1).fit(X)
    low, high = fit.confidence_interval(simultaneous=True)
    assert low.shape == high.shape == fit.estimate_.shape == (2,)
    assert (low < X.mean(axis=0)).all() and (X.mean(axis=0) < high).all()
    assert list(fit.to_frame().index) == ["both[0]", "both[1]"]


def test_a_function_of_two_arguments_gets_outcomes() -> None:
    y = 2 * X[:, 0] + RNG.normal(size=len(X))

    def slope(block: pd.DataFrame, outcome: Any) -> float:
        return float(stats.linregress(block["a"], outcome).slope)

    frame = pd.DataFrame(X, columns=["a", "b"])
    fit = PrivateStatistic(slope, parameters=2, random_state=0).fit(frame, y)
    assert fit.estimate_ == pytest.approx(2, abs=0.3)
    with pytest.raises(InvalidData, match="y must be"):
        PrivateStatistic(slope, random_state=0).fit(frame)


def test_units_are_blocked_with_all_their_rows() -> None:
    people = np.repeat(np.arange(2000), 2)
    frame = pd.DataFrame({"x": X[:, 0], "who": [f"p{i}" for i in people]})
    seen = []

    def watched(block: pd.DataFrame) -> float:
        seen.append(len(block))
        return float(block["x"].mean())

    watched.__globals__["_SEEN"] = seen
    fit = PrivateStatistic(watched, unit="who", bias=None, random_state=0).fit(frame)
    assert fit.plan_.n_samples == 2000 and fit.privacy_.unit == "who"
    assert fit.n_blocks_ == 96 and fit.block_size_ == 20


def test_replacing_a_unit_moves_one_block() -> None:
    # One of the two rows of a unit differs.
    people = np.repeat(np.arange(1500), 2)
    frame = pd.DataFrame({"x": RNG.normal(size=3000), "who": people})
    other = frame.copy()
    other.loc[14, "x"] = 90.0

    def mean(block: pd.DataFrame) -> float:
        return float(block["x"].mean())

    found = check_sensitivity(PrivateStatistic(mean, unit="who", bias=None), frame, other)
    assert not found.violated


def test_failed_blocks_are_counted() -> None:
    def picky(block: Any) -> float:
        if block[:, 0].max() > 2.5:
            raise ValueError("too large")
        return float(block[:, 0].mean())

    fit = PrivateStatistic(picky, bias=None, blocks=160, random_state=0, epsilon=10.0).fit(X)
    share = 1 - stats.norm.cdf(2.5) ** fit.block_size_
    assert fit.failed_share_ == pytest.approx(share, abs=0.06)
    assert any(note.startswith("Warning") for note in fit.summary().notes)


@pytest.mark.parametrize(("epsilon", "noted"), [(1.0, False), (50.0, True)])
def test_failures_are_noted_where_they_may_shift_the_mean_and_noise_does_not_hide_them(
    epsilon: float, noted: bool
) -> None:
    # 7 of 160 blocks fail, and the square root of 160 is 12.6.
    data = np.zeros((3200, 1))
    rare = np.random.default_rng(1).permutation(3200)[:7]
    data[rare] = 1.0

    def picky(block: Any) -> float:
        return float("nan") if block.max() == 1.0 else float(block.mean())

    fit = PrivateStatistic(picky, bias=None, blocks=160, random_state=0, epsilon=epsilon).fit(data)
    assert any(note.startswith("Warning") for note in fit.summary().notes) == noted


def test_a_function_that_always_fails_has_the_bounds_as_its_interval() -> None:
    fit = PrivateStatistic(lambda block: "31", bounds=(-2, 5), random_state=0).fit(X)
    assert np.isnan(fit.estimate_) and not fit.located_
    assert tuple(fit.confidence_interval()) == (-2.0, 5.0)
    assert "were not located" in str(fit.summary())
    assert fit.test(0.0).pvalue == 1.0


def test_missing_entries_are_refused_or_leave_their_block() -> None:
    missing = X.copy()
    missing[::50, 0] = np.nan
    with pytest.raises(InvalidData, match="missing='drop'"):
        PrivateStatistic(mean_of_first).fit(missing)
    fit = PrivateStatistic(mean_of_first, missing="drop", random_state=0).fit(missing)
    assert fit.estimate_ == pytest.approx(np.nanmean(missing[:, 0]), abs=0.1)
    assert "left out" in fit.estimand_


def test_values_of_a_lattice_are_dithered() -> None:
    def share(block: Any) -> float:
        return float(np.mean(block > 0))

    fit = PrivateStatistic(share, resolution=1 / 25, bias=None, blocks=160, random_state=0).fit(X[:, :1])
    assert fit.estimate_ == pytest.approx(0.5, abs=0.05)
    assert any(stage.name == "dither" for stage in fit.plan_.stages)


def test_tied_blocks_and_clipped_values_are_noted() -> None:
    # Shares of 99% in blocks of 30 rows: three blocks of four have the value 1, all others are below.
    rng = np.random.default_rng(3)
    share = PrivateStatistic(mean_of_first, bounds=(0, 1), random_state=1)
    tied = share.fit(1.0 * (rng.random((5000, 1)) < 0.99))
    assert "look tied or one-sided" in str(tied.summary()) and "PrivateProportion" in str(tied.summary())
    normal = PrivateStatistic(mean_of_first, random_state=0).fit(X)
    assert "tied" not in str(normal.summary())
    # Of normal values 1.2% are beyond 2.5 scales; the released scale is within a factor of 2 or so.
    assert 0 <= normal.clipped_share_ < 0.1
    # Planted: a clip that cuts off a third of the values.
    narrow = clone(normal).fit(X)
    narrow.clipped_share_ = 0.3
    assert "30% of the values of blocks were clipped" in " ".join(narrow._notes())
    lost = PrivateStatistic(lambda block: np.nan, bounds=(-2, 5), random_state=0).fit(X)
    assert np.isnan(lost.clipped_share_)


@pytest.mark.parametrize(
    "options", [{"n_outputs": 2}, {"n_outputs": 2, "delta": 1e-6, "epsilon": 2.0}, {"n_jobs": 2, "n_outputs": 2}]
)
def test_allowances_widen_intervals_of_several_outputs(options: dict[str, Any]) -> None:
    def both(block: Any) -> Any:
        return np.asarray(block)[:, :2].mean(axis=0)

    widths = []
    for allowances in ({"skewness": 0.0, "remainder": 0.0}, {}):
        fit = PrivateStatistic(both, blocks=120, random_state=1, **allowances, **options).fit(X)
        low, high = fit.confidence_interval()
        widths.append(high - low)
        own = fit.difference(fit.fit(X)).confidence_interval()
        assert (own.low < 0).all() and (own.high > 0).all()
    assert (widths[1] > widths[0]).all()


def test_the_difference_of_independent_statistics() -> None:
    first = PrivateStatistic(mean_of_first, random_state=0).fit(X)
    second = PrivateStatistic(mean_of_first, random_state=1).fit(X[:, ::-1])
    found = first.difference(second)
    low, high = found.confidence_interval()
    assert low < -1 < high and high - low < 0.5
    assert found.test(0.0).pvalue < 1e-3


def test_a_budget_is_checked_before_the_function_is_called() -> None:
    budget = PrivacyBudget(epsilon=0.5)

    def never(block: Any) -> float:
        raise AssertionError

    with pytest.raises(BudgetExceeded):
        PrivateStatistic(never, budget=budget).fit(X)
    assert budget.spent.epsilon == 0


def test_a_fitted_lambda_can_be_pickled_and_not_fitted_again() -> None:
    fit = PrivateStatistic(lambda block: block.mean(), random_state=0).fit(X)
    again = pickle.loads(pickle.dumps(fit))
    assert again.confidence_interval() is not None
    assert again.confidence_interval().low == fit.confidence_interval().low
    with pytest.raises(InvalidParameter, match="function must"):
        again.fit(X)
    named = pickle.loads(pickle.dumps(PrivateStatistic(mean_of_first, random_state=0).fit(X)))
    assert named.fit(X).located_


def test_processes_give_the_same_values() -> None:
    one, two = (PrivateStatistic(mean_of_first, random_state=0, n_jobs=jobs).fit(X).estimate_ for jobs in (1, 2))
    assert one == two


@pytest.mark.parametrize("epsilon", [1.0, 1e5])
def test_extreme_epsilons_and_boxes(epsilon: float) -> None:
    fit = PrivateStatistic(mean_of_first, bounds=(-1e6, 1e6), epsilon=epsilon, random_state=0).fit(X)
    assert abs(fit.estimate_) < 0.5


@pytest.mark.parametrize(("resolution", "widest"), [(None, 10.1), (0.01, 0.05)])
def test_constant_values_are_covered_and_need_a_resolution_to_be_located_well(
    resolution: float | None, widest: float
) -> None:
    fit = PrivateStatistic(lambda block: 3.0, bounds=(0, 10), resolution=resolution, random_state=0).fit(X)
    low, high = fit.confidence_interval()
    assert low <= 3 <= high and high - low < widest


def fails_for_some(block: Any) -> float:
    """Return a mean, or fail where a row is large."""
    if float(np.asarray(block)[:, 0].max()) > 3.0:
        raise ValueError("31.4159")
    return mean_of_first(block)


@pytest.mark.parametrize("options", [{}, {"delta": 1e-6}, {"resolution": 0.1}, {"missing": "drop"}])
@pytest.mark.parametrize("row", [90.0, -90.0, 3.5, 0.0])
def test_a_row_moves_no_release_further_than_its_plan_declares(options: dict[str, Any], row: float) -> None:
    other = X.copy()
    other[17, 0] = row
    estimator = PrivateStatistic(fails_for_some, bias=None, blocks=100, bounds=(-5, 5), **options)
    found = check_sensitivity(estimator, X, other)
    assert not found.violated, str(found.summary())


def whole_mean(block: Any) -> float:
    """Return the mean of all rows, whatever the block: what a function must not do."""
    return float(np.mean(np.everything))  # type: ignore[attr-defined]


def test_a_function_that_sees_other_blocks_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    # Planted: through a variable of an installed package, rows outside of the block decide its value.
    class Leaks(PrivateStatistic):
        def _values(self, private: Any, order: Any, plan: Any) -> Any:
            monkeypatch.setattr(np, "everything", private.table.X[:, 0].tolist(), raising=False)
            return super()._values(private, order, plan)

    other = X.copy()
    other[17, 0] = 90.0
    assert check_sensitivity(Leaks(whole_mean, bias=None, blocks=100), X, other).violated


def test_a_fitted_object_holds_no_rows() -> None:
    marked = X.copy()
    marked[:, 0] = np.round(marked[:, 0]) + 0.123456789
    fit = PrivateStatistic(mean_of_first, random_state=0).fit(marked)
    held = pickle.dumps(fit.__dict__)
    assert not any(np.float64(value).tobytes() in held for value in np.unique(marked[:, 0])[:50])


def test_refusals_show_no_entry() -> None:
    bad = X.astype(object)
    bad[3, 1] = "31.4159 Baker Street"
    with pytest.raises(InvalidData) as refusal:
        PrivateStatistic(mean_of_first).fit(bad)
    assert "31.4159" not in str(refusal.value)


def test_rows_drawn_from_the_seed_of_the_noise_are_not_sorted() -> None:
    rng = np.random.default_rng(0)
    first = rng.random(6000) < 0.5
    rows = np.column_stack([first, np.where(rng.random(6000) < 0.78, first, ~first)])

    def kappa(rows: Any) -> float:
        one, other = rows.mean(axis=0)
        chance = one * other + (1 - one) * (1 - other)
        return float(((rows[:, 0] == rows[:, 1]).mean() - chance) / (1 - chance)) if chance < 1 else 0.0

    fit = PrivateStatistic(kappa, bounds=(-1, 1), epsilon=2.0, random_state=0).fit(rows.astype(float))
    assert fit.estimate_ == pytest.approx(0.56, abs=0.04)
