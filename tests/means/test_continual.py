"""Means that go on: sensitivity, the errors of ratios, windows and bands, and the state."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.means import ContinualMeans
from dpstats.means.continual import mean_sensitivity_steps
from dpstats.mechanisms.count_path import factor_steps
from dpstats.privacy import Neighbors, PrivacyBudget

ADDED, REPLACED = Neighbors.ADD_OR_REMOVE_ONE, Neighbors.REPLACE_ONE


@pytest.mark.parametrize("horizon", [1, 2, 5])
def test_the_sensitivity_is_the_largest_distance_of_all_pairs_of_rows(horizon):
    factor = factor_steps(horizon, 20).tolist()
    rows = [np.zeros((horizon, 2), dtype=object)]
    for step, value in itertools.product(range(horizon), (-4096, -17, 0, 4095, 4096)):
        moved = np.zeros((horizon, 2), dtype=object)
        for later in range(step, horizon):
            moved[later] = [4096 * factor[later - step], value * factor[later - step]]
        rows.append(moved)
    for neighbors, pairs in ((ADDED, [(rows[0], row) for row in rows]), (REPLACED, itertools.combinations(rows, 2))):
        largest = max(int(((one - other) ** 2).sum()) for one, other in pairs)
        stated = mean_sensitivity_steps(horizon, neighbors)
        assert (stated - 1) ** 2 < largest <= stated**2


def test_a_row_moves_the_stated_integers():
    made = ContinualMeans((0, 8), 3)
    made._given[:2] = [made._sum_values([9.0, -3.0, 4.0]), made._sum_values([])]
    assert made._exact(0, 2).tolist() == [[3 * 2**32, 0], [3 * 2**31, 0]]
    assert made._sum_values([8.0]).tolist() == [1, 4096]


def test_without_much_noise_the_means_are_the_means():
    rng = np.random.default_rng(0)
    steps = [rng.uniform(-3, 5, rng.integers(1, 50)) for _ in range(60)]
    made = ContinualMeans((-3, 5), 60, epsilon=1e9, delta=0.5, random_state=0)
    answers = made.update_many(steps)
    right = np.cumsum([x.sum() for x in steps]) / np.cumsum([x.size for x in steps])
    np.testing.assert_allclose([answer.mean for answer in answers], right, atol=4 / 2**12)
    path = made.path()
    np.testing.assert_allclose(path.estimates(window=1).estimate, [x.mean() for x in steps], atol=4 / 2**11)


@pytest.mark.parametrize(("rows", "share"), [(30, 0.5), (3, 0.0), (200, 0.02)])
def test_intervals_and_bands_cover_the_means_of_these_data(rows, share):
    rng, steps = np.random.default_rng(rows), 20
    one, together, windows = [], [], []
    for seed in range(150):
        data = (rng.random((steps, rows)) < share).astype(float)
        made = ContinualMeans((0, 1), 32, random_state=seed)
        made.update_many(data)
        path = made.path()
        right = data.mean(axis=1).cumsum() / np.arange(1, steps + 1)
        interval = path.confidence_interval()
        one.append((interval.low <= right) & (right <= interval.high))
        band = path.band(0.95)
        together.append(((band.low <= right) & (right <= band.high)).all())
        right = np.array([data[k : k + 5].mean() for k in range(steps - 4)])
        band = path.band(0.95, window=5)
        windows.append(((band.low <= right) & (right <= band.high)).all())
    assert np.mean(one) > 0.94
    assert np.mean(together) > 0.92 and np.mean(windows) > 0.92


def test_the_score_and_the_limits_agree():
    made = ContinualMeans((0, 10), 30, random_state=1)
    made.update_many([[3.0, 5.0]] * 30)
    errors = made.path().estimates().distribution
    low, high = errors.limits(0.025)
    inside = (low > 0) & (high < 10)
    assert inside.any()
    for end in (low, high):
        np.testing.assert_allclose(errors.two_sided(end)[inside], 0.05, atol=1e-6)


def test_what_noise_hides_is_no_number():
    made = ContinualMeans((0, 1), 9, epsilon=0.01, random_state=0)
    answer = made.update([0.5, 0.7])
    assert np.isnan(answer.mean) and np.isnan(made.path().estimates().estimate[0])
    assert "–" in str(made.path().summary())


def test_a_stream_continues_from_its_state(tmp_path):
    budget = PrivacyBudget(1.0, 1e-5, neighbors=ADDED, ledger=tmp_path / "year.budget")
    state = tmp_path / "waiting.means"
    first = ContinualMeans((0, 60), state=state, budget=budget)
    answers = [first.update(np.full(100, 20.0), "a"), first.update([], "b")]
    second = ContinualMeans((0, 60), state=state, budget=budget)
    assert second.update(np.full(9, 50.0), "b") == answers[1] and second.n_steps == 2
    assert first.path().keys == ("a", "b") and len(budget.history()) == 1
    with pytest.raises(InvalidParameter):
        ContinualMeans((0, 61), state=state)


@pytest.mark.parametrize(
    "values", [3.0, "3", ["1", "2"], [None, 1.0], [[1.0, 2.0]], [1j], pd.DataFrame({"a": [1], "b": [2]}), [np.nan]]
)
def test_values_are_numbers(values):
    budget = PrivacyBudget(2.0, 1e-5, neighbors=ADDED)
    with pytest.raises(InvalidData):
        ContinualMeans((0, 1), 5, budget=budget).update(values)
    assert budget.history() == ()


def test_missing_rows_can_be_left_out():
    made = ContinualMeans((0, 1), 5, missing="drop")
    assert made._sum_values([0.5, np.nan, np.inf, 1.0]).tolist() == [2, 4096]
    assert made._sum_values(pd.Series([1, 0])).tolist() == [2, 0]


def test_all_rows_together_have_a_limit():
    made = ContinualMeans((0, 1), 5)
    made._rows = 2**29
    with pytest.raises(InvalidData, match=r"2\^29"):
        made.update([1.0])


def test_no_value_makes_a_warning():
    largest, wide = [1.7e308, -1.7e308, 5e-324], np.array([np.longdouble("1e4000"), 1.0])
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert ContinualMeans((-1e-140, 1e-140), 5)._sum_values(largest).tolist() == [3, 0]
        assert ContinualMeans((0, 1), 5, missing="drop")._sum_values(wide).tolist() == [1, 4096]


@pytest.mark.parametrize("values", [np.ma.array([0.1, 0.9], mask=[0, 1]), [np.ma.masked, 1.0]])
def test_masked_values_are_refused(values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidData, match="masked"):
            ContinualMeans((0, 1), 5, missing="drop").update(values)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"bounds": bounds} for bounds in [(1, 0), None, (-1e-300, 1e-300), (-1e307, 1e307), (1e200, 1.1e200)]),
        {"missing": "center"},
        {"delta": 0.0},
    ],
)
def test_parameters_are_checked(wrong):
    with pytest.raises(InvalidParameter):
        ContinualMeans(**{"bounds": (0, 1)} | wrong)


def test_a_path_is_drawn():
    made = ContinualMeans((0, 1), 30, random_state=0)
    made.update_many([[1.0] * 50] * 20)
    assert made.path().plot(window=7).get_ylabel() == "mean in 7 steps"
    assert len(made.path().summary().rows) == 12
