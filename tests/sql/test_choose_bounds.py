"""Bounds that nobody knows, for queries: those of `PrivateBounds`, which later queries use."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.errors import ChargedError, InvalidData, InvalidParameter
from dpstats.means import PrivateBounds
from dpstats.privacy import Neighbors, PrivacyBudget
from dpstats.sql import PrivateSQL

pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

COST = np.random.default_rng(0).lognormal(6, 1, 3000)
TABLES = {
    "visits": pd.DataFrame({"cost": COST, "ward": ["a", "b"] * 1500, "zero": 0}),
    "wards": pd.DataFrame({"id": ["a", "b"], "beds": [10, 20]}),
}


def database(**options: Any) -> PrivateSQL:
    return PrivateSQL(TABLES, **{"epsilon": 0.8, "public_tables": ["wards"], "random_state": 3} | options)


@pytest.mark.parametrize("options", [{}, {"within": (0, np.inf)}, {"step": 1.0}])
def test_they_are_those_of_the_estimator(options: Any) -> None:
    made = database()
    found = made.choose_bounds("visits.cost", epsilon=0.3, **options)
    other = PrivateBounds(epsilon=0.3, for_epsilon=0.8, random_state=3, **options).fit(COST[:, None])
    assert (found.low, found.high) == (other.low_[0], other.high_[0]) and found.found
    assert found.privacy.epsilon == 0.3 and found.privacy.simulated
    np.testing.assert_array_equal(
        [found.clipped_low, found.clipped_high], [other.clipped_low_[0], other.clipped_high_[0]]
    )
    mean = made.query("SELECT AVG(v.cost) AS m FROM visits v").to_frame()["estimate"].iloc[0]
    assert mean == pytest.approx(np.clip(COST, found.low, found.high).mean(), rel=0.1)
    made.refresh()
    assert made.query("SELECT SUM(cost) FROM visits WHERE ward = 'a'").values > 0


def test_both_are_charged() -> None:
    budget = PrivacyBudget(2.0)
    made = database(random_state=None, budget=budget)
    made.choose_bounds("visits.cost", epsilon=0.5)
    assert budget.spent.epsilon == 0.5
    made.query("SELECT SUM(cost) FROM visits")
    assert budget.spent.epsilon == pytest.approx(1.3)


def test_the_number_of_rows_may_be_private() -> None:
    budget = PrivacyBudget(2.0, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    made = database(random_state=None, budget=budget, neighbors="add_or_remove")
    found = made.choose_bounds("visits.cost", epsilon=0.5)
    assert found.low < 400 < found.high and budget.spent.epsilon == 0.5
    assert made.query("SELECT SUM(cost) FROM visits").values > 0


@pytest.mark.parametrize(
    ("column", "options"),
    [
        ("visits.ward", {}),
        ("wards.beds", {}),
        ("visits.other", {}),
        ("cost", {}),
        ("visits.cost", {"bounds": {"visits.cost": (0, 1)}}),
        ("visits.cost", {"unit": {"visits": "ward"}}),
    ],
)
def test_what_is_refused_is_refused_before_the_charge(column: str, options: Any) -> None:
    budget = PrivacyBudget(2.0, unit="ward" if "unit" in options else "row")
    made = database(random_state=None, budget=budget, **options)
    with pytest.raises(InvalidParameter):
        made.choose_bounds(column, epsilon=0.5)
    with pytest.raises(InvalidParameter):
        made.choose_bounds("visits.cost", epsilon=0.001)
    assert budget.history() == ()


@pytest.mark.parametrize("within", [(1e16, 1e17), (1e15, 1e18), (-1e18, -1e15)])
def test_limits_beyond_all_bounds_are_refused_before_the_charge(within: Any) -> None:
    budget = PrivacyBudget(2.0)
    with pytest.raises(InvalidParameter, match="within must have numbers within 1e\\+15 of 0"):
        database(random_state=None, budget=budget).choose_bounds("visits.cost", epsilon=0.5, within=within)
    assert budget.history() == ()


def test_no_entry_makes_a_warning() -> None:
    tables = {"visits": pd.DataFrame({"cost": np.append(COST, [1e308, -1e308, 5e-324])})}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = PrivateSQL(tables, epsilon=0.8, random_state=3)
        made.choose_bounds("visits.cost", epsilon=0.5)
        made.query("SELECT AVG(cost) FROM visits")


def test_a_second_choice_is_refused() -> None:
    made = database()
    made.choose_bounds("visits.cost", epsilon=0.5)
    with pytest.raises(InvalidParameter, match="has bounds"):
        made.choose_bounds("visits.cost", epsilon=0.5)


def test_without_bounds_the_error_says_what_was_spent() -> None:
    budget = PrivacyBudget(2.0)
    made = database(random_state=None, budget=budget)
    with pytest.raises(ChargedError, match=r"no bounds of visits\.zero"):
        made.choose_bounds("visits.zero", epsilon=0.5)
    assert budget.spent.epsilon == 0.5
    with pytest.raises(InvalidParameter, match="bounds"):
        made.query("SELECT SUM(zero) FROM visits")


def test_numbers_of_text_and_missing_ones(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    pd.DataFrame({"cost": np.where(np.arange(3000) % 9 == 0, np.nan, COST)}).to_csv(path, index=False)
    typed = PrivateSQL({"visits": path}, epsilon=0.8, types={"visits.cost": "DOUBLE"}, random_state=3)
    found = typed.choose_bounds("visits.cost", epsilon=0.5)
    assert found.low < 100 and 2000 < found.high < 50_000
    path.write_text(path.read_text() + "many\n")
    wrong = PrivateSQL({"visits": path}, epsilon=0.8, types={"visits.cost": "DOUBLE"}, random_state=3)
    with pytest.raises(InvalidData):
        wrong.choose_bounds("visits.cost", epsilon=0.5)
