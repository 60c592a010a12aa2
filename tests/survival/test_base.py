"""How a fit takes its columns: by name or beside, from every container, one row for a subject."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.survival import LogRankTest, PrivateSurvival
from dpstats.survival.cells import Cells, assumptions, crowding_notes, shape_notes

RNG = np.random.default_rng(0)
N = 300
FRAME = pd.DataFrame(
    {
        "person": np.arange(N),
        "week": RNG.integers(0, 60, N),
        "arrest": RNG.integers(2, size=N),
        "arm": RNG.choice(["old", "new"], N),
    }
)
GIVEN: dict[str, Any] = {"horizon": 52, "bins": 13, "random_state": 0}
NAMED = {**GIVEN, "time": "week", "event": "arrest"}
BY = {**NAMED, "by": "arm", "groups": ["old", "new"]}


def written(path: Path) -> Path:
    FRAME.to_csv(path, index=False)
    return path


CONTAINERS = {
    "pandas": lambda tmp: FRAME,
    "polars": lambda tmp: pl.DataFrame(FRAME),
    "lazy": lambda tmp: pl.DataFrame(FRAME).lazy(),
    "duckdb": lambda tmp: duckdb.connect().from_df(FRAME),
    "parquet": lambda tmp: (pl.DataFrame(FRAME).write_parquet(tmp / "rows.parquet"), tmp / "rows.parquet")[1],
    "csv": lambda tmp: written(tmp / "rows.csv"),
    "dask": lambda tmp: dd.from_pandas(FRAME, npartitions=4),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_same_release(container: str, tmp_path: Path) -> None:
    expected = PrivateSurvival(**BY).fit(FRAME)
    rows = CONTAINERS[container](tmp_path)
    assert np.array_equal(PrivateSurvival(**BY).fit(rows).at_risk_, expected.at_risk_)
    with_units = PrivateSurvival(**BY, unit="person").fit(rows)
    assert np.array_equal(with_units.at_risk_, expected.at_risk_)
    assert "one person replaced" in str(with_units.privacy_)


def test_columns_are_given_by_name_or_beside() -> None:
    times, events, labels = FRAME["week"], FRAME["arrest"], FRAME["arm"]
    expected = PrivateSurvival(**BY).fit(FRAME).at_risk_
    beside = PrivateSurvival(**GIVEN, groups=["old", "new"])
    for found in (
        beside.fit(times, events, labels),
        beside.fit(times.tolist(), events.astype(bool).tolist(), y=labels.tolist()),
        beside.fit(times.to_numpy()[:, None], pd.DataFrame({"e": events, "g": labels})),
        PrivateSurvival(**NAMED, groups=["old", "new"]).fit(FRAME.drop(columns="arm"), y=labels),
        PrivateSurvival(**GIVEN, groups=["old", "new"], by="arm").fit(FRAME[["week", "arm"]], events),
        PrivateSurvival(**GIVEN, time="week", groups=["old", "new"]).fit(FRAME, "arrest", "arm"),
    ):
        assert np.array_equal(found.at_risk_, expected)
    alone = PrivateSurvival(**NAMED).fit(FRAME).at_risk_
    assert np.array_equal(PrivateSurvival(**GIVEN).fit(times, events).at_risk_, alone)
    assert PrivateSurvival(**NAMED).fit(FRAME).feature_names_in_.tolist() == ["week"]


def test_events_may_be_words() -> None:
    words = np.where(FRAME["arrest"] == 1, "relapse", "alive")
    expected = PrivateSurvival(**GIVEN).fit(FRAME["week"], FRAME["arrest"]).at_risk_
    found = PrivateSurvival(**GIVEN, causes=["relapse", "death"], censored="alive").fit(FRAME["week"], words)
    assert found.plan_.causes == ("relapse", "death")
    assert PrivateSurvival(**GIVEN, causes=["relapse"], censored="alive").fit(
        FRAME["week"], words
    ).at_risk_ == pytest.approx(expected)


def refused(options: dict[str, Any], *data: Any, words: str, kind: type = InvalidData) -> None:
    budget = PrivacyBudget(10.0)
    params = {**GIVEN, **options, "random_state": None, "budget": budget}
    with pytest.raises(kind, match=words):
        PrivateSurvival(**params).fit(*data)
    assert budget.history() == ()


@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf])
def test_bad_times_are_refused_before_the_charge(wrong: float) -> None:
    times = FRAME["week"].to_numpy(dtype=float).copy()
    times[3] = wrong
    refused({}, times, FRAME["arrest"], words="times must")


def test_times_beyond_the_horizon_count_as_censored_there() -> None:
    times, events = FRAME["week"].to_numpy(float), FRAME["arrest"].to_numpy()
    expected = PrivateSurvival(**GIVEN).fit(np.minimum(times, 52), np.where(times > 52, 0, events)).at_risk_
    assert np.array_equal(PrivateSurvival(**GIVEN).fit(times, events).at_risk_, expected)


@pytest.mark.parametrize("wrong", [2, 0.5, np.nan])
def test_unknown_events_are_refused_before_the_charge(wrong: float) -> None:
    events = FRAME["arrest"].to_numpy(dtype=float).copy()
    events[3] = wrong
    refused({}, FRAME["week"], events, words="event must")


def test_unknown_groups_and_repeated_subjects_are_refused_before_the_charge() -> None:
    refused({"groups": ["old"], "unknown": "error"}, FRAME["week"], FRAME["arrest"], FRAME["arm"], words="labels must")
    options = {"time": "week", "event": "arrest", "unit": "person"}
    for twice in (FRAME["person"] // 2, FRAME["person"] % (len(FRAME) // 2)):
        refused(options, FRAME.assign(person=twice), words="unit must")
    refused(options, FRAME.assign(person=None), words="units must")


def test_what_does_not_go_together_is_refused() -> None:
    times, events, labels = FRAME["week"], FRAME["arrest"], FRAME["arm"]
    refused({}, times, events, labels, words="y must", kind=InvalidParameter)
    refused({"by": "arm"}, FRAME, words="groups must", kind=InvalidParameter)
    refused({"event": "arrest"}, FRAME, events, words="event must", kind=InvalidParameter)
    refused({}, times, words="event indicator")
    refused({"groups": ["old", "new"]}, times, events, words="2 columns")
    refused({}, FRAME[["week", "person"]], events, words="^n_features ", kind=InvalidParameter)
    refused({"time": "month", "event": "arrest"}, FRAME, words="time must", kind=InvalidParameter)
    refused({"time": "week", "event": "arrest"}, times.to_numpy(), words="data frame with the column that event names")


@pytest.mark.parametrize("kind", [PrivateSurvival, LogRankTest])
def test_late_entry_is_refused_by_name(kind: type) -> None:
    budget = PrivacyBudget(10.0)
    given = {**BY, "random_state": None, "budget": budget}
    with pytest.raises(InvalidParameter, match=r"entry must"):
        kind(**given, entry="enrolled").fit(FRAME.assign(enrolled=1))
    with pytest.raises(InvalidParameter, match="left truncation"):
        kind(**given, entry="enrolled").plan(300)
    assert budget.history() == ()


def test_a_budget_that_cannot_pay_is_asked_first() -> None:
    bad = FRAME.assign(week=-1.0)
    with pytest.raises(BudgetExceeded):
        PrivateSurvival(**{**NAMED, "random_state": None, "budget": PrivacyBudget(0.5)}).fit(bad)


def test_bins_of_one_unit_name_whole_times() -> None:
    weeks, halves = (Cells(edges, 1, 1, 4) for edges in ((0.0, 1.0, 2.0), (0.0, 0.5, 1.0)))
    assert "whole numbers" in assumptions(weeks)[1] and "whole numbers" not in assumptions(halves)[1]
    assert len(assumptions(Cells((0.0, 1.0, 2.0), 1, 1, 4, discrete=True))) == 1


def test_bins_whose_shape_decides_are_named() -> None:
    (one,), (many,) = shape_notes(np.array([5.0]), " of a"), shape_notes(np.arange(1.0, 8.0))
    assert "many rows of a have events in the bin that ends at 5, and others" in one and "inside it," in one
    assert "in the bins that end at 1, 2, 3, 4, ..., and others" in many and not shape_notes([])


def test_crowded_bins_are_named() -> None:
    (one,) = crowding_notes(np.array([5.0]), " of a")
    assert "most events of a in the bin that ends at 5 are near one end of it" in one
    (many,) = crowding_notes(np.arange(1.0, 8.0))
    assert "in the bins that end at 1, 2, 3, 4, ... are near one end of them" in many and not crowding_notes([])
