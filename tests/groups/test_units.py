"""One row for each unit: made of that unit's rows alone, whatever others there are and in whatever order."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.data.parameters import unit_of
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.groups import GroupMeans, one_row_per_unit
from dpstats.groups.mean_per_row import Units
from dpstats.means import ClippedMean
from dpstats.quantiles import PrivateQuantile

HOW = {"x": "mean", "y": "sum", "z": "max", "w": "min", "sex": "first", "v": "count"}


def frame(seed: int = 0, n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    who = rng.integers(0, 40, n)
    numbers = {name: rng.normal(size=n) for name in "xyzwv"}
    return pd.DataFrame({"who": who, **numbers, "sex": np.where(who % 2, "f", "m")})


def test_it_is_what_pandas_makes_of_each() -> None:
    data = frame()
    found = one_row_per_unit(data, "who", HOW).set_index("who")
    by = data.groupby("who")
    assert found.index.tolist() == sorted(data["who"].unique())
    assert np.allclose(found["x"], by["x"].mean()) and np.allclose(found["y"], by["y"].sum())
    assert np.array_equal(found["z"], by["z"].max()) and np.array_equal(found["w"], by["w"].min())
    assert found["sex"].tolist() == by["sex"].first().tolist() and found["v"].tolist() == by["v"].count().tolist()


@pytest.mark.parametrize("max_rows", [None, 1, 3])
def test_other_units_change_nothing(max_rows: int | None) -> None:
    data = frame()
    mine = data["who"] == 7
    alone = one_row_per_unit(data[mine], "who", HOW, max_rows)
    for seed in range(1, 6):
        # Others' rows are others, more of them, and all stand elsewhere; my own keep their order.
        rest = frame(seed, 300)
        rest = rest[rest["who"] != 7] * 1 if seed % 2 else rest[rest["who"] > 30]
        both = pd.concat([rest.iloc[:50], data[mine], rest.iloc[50:]])
        found = one_row_per_unit(both, "who", HOW, max_rows)
        assert found[found["who"] == 7].iloc[0].tolist() == alone.iloc[0].tolist()


@pytest.mark.parametrize("max_rows", [None, 2])
def test_the_order_of_rows_is_nothing(max_rows: int | None) -> None:
    how = {name: kind for name, kind in HOW.items() if kind != "first"}
    data = frame()
    found = one_row_per_unit(data, "who", how, max_rows)
    for seed in range(3):
        again = one_row_per_unit(data.sample(frac=1, random_state=seed), "who", how, max_rows)
        # Sums are rounded once: equal to the last bit.
        pd.testing.assert_frame_equal(found, again, check_exact=True)
    if max_rows:
        assert found["v"].max() == max_rows


def test_a_place_in_the_table_is_that_of_the_name() -> None:
    data = frame()
    before = one_row_per_unit(data, "who", {"x": "mean"})
    moved = pd.concat([data[data["who"] != 7], data[data["who"] == 7].assign(x=9.0).iloc[:1]])
    after = one_row_per_unit(moved, "who", {"x": "mean"})
    assert (before["x"] != after["x"]).sum() == 1 and before["who"].tolist() == after["who"].tolist()


def test_names_of_any_kind() -> None:
    day = datetime.date(2024, 1, 2)
    names = ["b", 2, "a", (1, "x"), 2.0, day, b"q", "a", 1]
    units = Units.of(names)
    assert len(units) == 7 and units.codes[1] == units.codes[4] and units.codes[2] == units.codes[7]
    again = Units.of(names[::-1])
    assert np.array_equal(again.codes[::-1], units.codes)
    numbers = Units.of([3, Decimal("0.5"), Fraction(1, 3), 1e300, Decimal("Infinity"), -2.5, True])
    assert numbers.codes.tolist() == [4, 2, 1, 5, 6, 0, 3]
    # A category that no row has is nobody.
    assert len(Units.of(pd.Categorical(["b", "a", "b"], categories=["a", "b", "c"]))) == 2


def test_missing_entries_are_passed_over() -> None:
    data = pd.DataFrame({"who": [1, 1, 2, 2], "x": [np.nan, 3.0, np.nan, np.nan], "s": [None, "f", None, None]})
    found = one_row_per_unit(data, "who", {"x": "mean", "s": "first"})
    assert found["x"].tolist()[0] == 3.0 and np.isnan(found["x"][1])
    assert found["s"][0] == "f" and pd.isna(found["s"][1])
    counts = one_row_per_unit(data, "who", {"x": "count", "s": "count"})
    assert counts["x"].tolist() == counts["s"].tolist() == [1, 0]
    # Sums beyond the largest float, and of infinities, are missing and no error.
    wild = pd.DataFrame({"who": [1, 1, 2, 2], "x": [1e308, 1e308, np.inf, -np.inf]})
    assert one_row_per_unit(wild, "who", {"x": "sum"})["x"].isna().all()


def test_guarantees_say_what_a_row_is() -> None:
    data = frame(n=4000).rename(columns={"who": "person"})
    people = one_row_per_unit(data, "person", {"x": "mean", "sex": "first"})
    assert unit_of(people) == "person" and unit_of(people[["x"]]) == "person" and unit_of(data) == "row"
    mean = ClippedMean(bounds=(-3, 3), random_state=0).fit(people[["x"]])
    assert "one person replaced" in str(mean.privacy_) and "that a person had" in mean.privacy_.explain()
    groups = GroupMeans(groups=["f", "m"], by="sex", bounds={"x": (-3, 3)}, random_state=0).fit(people)
    assert "one person replaced" in str(groups.summary())
    patients = one_row_per_unit(data, "person", {"x": "mean"}, called="patient")
    assert unit_of(patients) == "patient"


def test_frames_that_lose_what_a_row_is_are_refused() -> None:
    data = frame()
    for other in (pl.DataFrame(data.to_dict("list")), pl.DataFrame(data.to_dict("list")).lazy()):
        with pytest.raises(InvalidData, match=r"of pandas, which keeps what a row is, got \w+ of polars"):
            one_row_per_unit(other, "who", HOW, 3)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("who", {"x": np.mean}), InvalidParameter, "got a function. A function might look"),
        (("who", {"x": "median"}), InvalidParameter, r"how\['x'\] must be one of"),
        (("who", {}), InvalidParameter, "how must"),
        (("who", "mean"), InvalidParameter, "how must"),
        (("nobody", {"x": "mean"}), InvalidParameter, "unit must"),
        (("who", {"q": "mean"}), InvalidParameter, "how must"),
        (("who", {"who": "first"}), InvalidParameter, "how must"),
        (("who", {"x": "mean"}, 0), InvalidParameter, "max_rows must"),
        (("who", {"sex": "mean"}), InvalidData, "must be a 1-d sequence of numbers"),
    ],
)
def test_what_is_refused(arguments: tuple, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        one_row_per_unit(frame(), *arguments)


def test_missing_units_are_refused() -> None:
    for gone in (None, np.nan, pd.NA):
        data = pd.DataFrame({"who": pd.Series(["a", gone, "b"], dtype=object), "x": 1.0})
        with pytest.raises(InvalidData, match=r"unit must"):
            one_row_per_unit(data, "who", {"x": "mean"})
    with pytest.raises(InvalidData, match="frame must"):
        one_row_per_unit([[1, 2]], 0, {1: "mean"})


@pytest.mark.parametrize("max_rows", [1, 2, 3, None])
def test_rows_that_are_kept_stay_in_the_order_of_the_table(max_rows: int | None) -> None:
    rng = np.random.default_rng(3)
    person, value = rng.integers(10, size=80), rng.random(80)
    units = Units.of(person)
    for place, kept in enumerate(units.rows([value], max_rows)):
        own = np.flatnonzero(units.codes == place)
        assert kept.tolist() == sorted({*kept.tolist()} & {*own.tolist()})
        assert len(kept) == min(len(own), max_rows or len(own))


def test_plans_name_the_units() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"patient": range(600), "x": rng.random(600), "arm": rng.choice(["a", "b"], 600)})
    people = one_row_per_unit(frame, "patient", {"x": "mean", "arm": "first"})
    means = GroupMeans(groups=["a", "b"], by="arm", columns=["x"], bounds=(0, 1), random_state=0).fit(people)
    quantile = PrivateQuantile(bounds=(0, 1), random_state=0).fit(people[["x"]])
    for fit in (means, quantile):
        assert fit.privacy_.unit != "row"
        assert fit.privacy_.units in str(fit.plan_.notes()) and " rows" not in fit.plan_.notes()[0]
