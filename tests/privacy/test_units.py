"""What a row is goes with every guarantee and every charge, and unlike units do not add up."""

from __future__ import annotations

import contextlib
import pickle
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats import groups, identity, means, quantiles, ranks, regression, tables
from dpstats.errors import InvalidParameter, LedgerError
from dpstats.groups import one_row_per_unit
from dpstats.means import ClippedMean
from dpstats.mechanisms import Histogram, LaplaceMechanism, RandomizedResponse
from dpstats.privacy import PrivacyBudget, PrivacyGuarantee, basic_composition, compose, group_privacy
from dpstats.privacy.events import Pure


def test_charges_for_unlike_units_do_not_add_up() -> None:
    for first, second in (("row", "person"), ("person", "row"), ("person", "household"), ("visit", "person")):
        budget = PrivacyBudget(10.0)
        assert budget.unit is None and budget.total.unit == "row"
        budget.charge(PrivacyGuarantee(1.0, unit=first))
        assert budget.unit == first and {budget.total.unit, budget.spent.unit, budget.remaining.unit} == {first}
        for refuse in (budget.check, budget.charge, budget.remaining_after):
            with pytest.raises(InvalidParameter, match=f"budget is '{first}', the unit of the charge is '{second}'"):
                refuse(PrivacyGuarantee(1.0, unit=second))
        budget.charge(PrivacyGuarantee(0.5, unit=first))
        assert budget.spent.epsilon == 1.5 and [e.guarantee.unit for e in budget.history()] == [first] * 2


def test_a_declared_unit_holds_from_the_first_charge() -> None:
    budget = PrivacyBudget(1.0, unit="person")
    assert budget.unit == "person" and "one person replaced" in str(budget.remaining)
    with pytest.raises(InvalidParameter, match=r"Convert the guarantee with group_privacy"):
        budget.charge(PrivacyGuarantee(0.1))
    budget.charge(group_privacy(PrivacyGuarantee(0.1), 4, unit="person"))
    assert budget.spent.epsilon == 0.4 and budget.history()[0].guarantee.unit == "person"
    with pytest.raises(InvalidParameter, match="unit must"):
        PrivacyBudget(1.0, unit=" ")
    assert "one person replaced" in str(budget.summary())


def test_rows_are_counted_as_the_unit_that_they_are_said_to_be() -> None:
    budget = PrivacyBudget(10.0, unit="person")
    same = budget.labelled("survey").count_rows_as("person")
    ClippedMean(bounds=(0, 1), epsilon=0.5, budget=same).fit(np.linspace(0, 1, 50)[:, None])
    LaplaceMechanism(1.0, 0.25, budget=same).release(3.0)
    assert [e.guarantee.unit for e in budget.history()] == ["person"] * 2
    assert budget.spent.epsilon == 0.75 and budget.history()[0].label == "survey: ClippedMean"
    # What says that its rows are something else is still refused.
    with pytest.raises(InvalidParameter, match="the unit of the charge is 'visit'"):
        same.charge(PrivacyGuarantee(0.1, unit="visit"))
    with pytest.raises(InvalidParameter, match="unit must"):
        budget.count_rows_as("")


@pytest.mark.parametrize("method", ["basic", "gdp", "zcdp", "pld"])
def test_the_unit_of_a_ledger_is_kept(method: str, tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    item = PrivacyGuarantee(0.1, unit="person")
    more = {"planned": [item, item]} if method == "pld" else {}
    budget = PrivacyBudget(1.0, 1e-6, method=method, ledger=path, unit="person", **more)
    budget.charge(item)
    again = pickle.loads(pickle.dumps(budget.count_rows_as("person")))
    again.check(PrivacyGuarantee(0.1))
    opened = PrivacyBudget(1.0, 1e-6, method=method, ledger=path, unit="person", **more)
    for one in (again, opened, *([] if more else [PrivacyBudget.open(path)])):
        assert one.unit == one.total.unit == one.history()[0].guarantee.unit == "person"
        with pytest.raises(InvalidParameter, match="the unit of the charge is 'visit'"):
            one.charge(PrivacyGuarantee(0.1, unit="visit"))
    with pytest.raises(LedgerError, match="is the ledger of another budget"):
        PrivacyBudget(1.0, 1e-6, method=method, ledger=path, unit="visit", **more)


def test_two_processes_cannot_charge_unlike_units(tmp_path: Path) -> None:
    # The first charge is read in the transaction of the second, and not when the budget was opened.
    budget = PrivacyBudget(1.0, ledger=tmp_path / "b.db")
    other = PrivacyBudget.open(tmp_path / "b.db")
    assert budget.unit is None and other.unit is None
    budget.charge(PrivacyGuarantee(0.1, unit="person"))
    with pytest.raises(InvalidParameter, match="the unit of the budget is 'person'"):
        other.charge(PrivacyGuarantee(0.1))


# The two statements of the version before units that made a ledger.
_OLD = (
    "CREATE TABLE budget (identity TEXT NOT NULL, parameters TEXT NOT NULL, first TEXT NOT NULL, second TEXT NOT NULL)",
    "CREATE TABLE charges (id INTEGER PRIMARY KEY AUTOINCREMENT, label TEXT NOT NULL, epsilon TEXT NOT NULL, "
    "delta TEXT NOT NULL, time REAL NOT NULL)",
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A ledger as the version before units wrote it, with one charge."""
    path = tmp_path / "old.db"
    parameters = '{"delta": "0.0", "epsilon": "1.0", "method": "basic", "neighbors": "REPLACE_ONE", "planned": []}'
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {0x64707374}")
        connection.execute("PRAGMA user_version = 1")
        for statement in _OLD:
            connection.execute(statement)
        connection.execute("INSERT INTO budget VALUES (?, ?, '1/4', '0')", (str(tmp_path), parameters))
        connection.execute("INSERT INTO charges (label, epsilon, delta, time) VALUES ('age', '0.25', '0.0', 1.0)")
        connection.commit()
    return path


def version(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_an_old_ledger_still_opens_and_its_charges_are_for_rows(old: Path) -> None:
    before = old.read_bytes()
    budget, other = PrivacyBudget.open(old), PrivacyBudget(1.0, ledger=old)
    assert budget.unit == "row" and budget.history()[0].guarantee.unit == "row"
    with pytest.raises(InvalidParameter, match="budget is 'row', the unit of the charge is 'person'"):
        budget.charge(PrivacyGuarantee(0.1, unit="person"))
    assert old.read_bytes() == before  # looking changes nothing
    budget.charge(PrivacyGuarantee(0.25), label="income")
    assert version(old) == 2 and other.spent.epsilon == 0.5
    other.charge(PrivacyGuarantee(0.25))
    again = PrivacyBudget.open(old)
    assert [e.guarantee.unit for e in again.history()] == ["row"] * 3 and again.remaining.epsilon == 0.25


def test_an_old_ledger_without_charges_takes_any_unit(old: Path) -> None:
    with contextlib.closing(sqlite3.connect(old)) as connection:
        connection.execute("DELETE FROM charges")
        connection.execute("UPDATE budget SET first = '0'")
        connection.commit()
    PrivacyBudget.open(old).charge(PrivacyGuarantee(0.5, unit="person"))
    assert PrivacyBudget.open(old).unit == "person" and version(old) == 2


def test_a_refused_charge_does_not_change_an_old_ledger(old: Path) -> None:
    budget = PrivacyBudget.open(old)
    with pytest.raises(Exception, match="Requested"):
        budget.charge(PrivacyGuarantee(0.8))
    assert version(old) == 1 and budget.spent.epsilon == 0.25


# Composition.


def test_guarantees_for_unlike_units_are_not_composed() -> None:
    person, row = PrivacyGuarantee(0.5, unit="person"), PrivacyGuarantee(0.25)
    for total in (lambda items: basic_composition(items), lambda items: compose(items, 0.0)):
        with pytest.raises(InvalidParameter, match="for the same unit, got person and row"):
            total([person, row])
        assert total([person, person]).unit == "person" and total([row]).unit == "row"
        assert total([person, group_privacy(row, 3, unit="person")]).unit == "person"
    # An event states no unit: it is for rows.
    with pytest.raises(InvalidParameter, match="for the same unit"):
        compose([person, Pure(0.1)], 0.0)
    assert compose([row, Pure(0.1)], 0.0).unit == "row"


# Every way in.

ROWS = pd.DataFrame(
    {
        "id": np.arange(300) // 3,
        "x": np.linspace(0, 1, 300),
        "z": np.linspace(1, 0, 300) ** 2,
        "y": np.linspace(0, 1, 300) ** 0.5,
        "b": np.arange(300) // 3 % 2,
        "g": np.where(np.arange(300) // 3 % 2, "a", "b"),
    }
)
PEOPLE = one_row_per_unit(
    ROWS, "id", {"x": "mean", "z": "mean", "y": "mean", "b": "first", "g": "first"}, called="person"
)
BOUNDS = {"x": (0, 1), "z": (0, 1), "y": (0, 1)}
MODEL = {"x_bounds": (0, 1), "epsilon": 1.0}
WAYS: dict[str, Callable[[PrivacyBudget], Any]] = {
    "columns": lambda b: ClippedMean(bounds=(0, 1), budget=b).fit(PEOPLE[["x", "z"]]),
    "a column": lambda b: ClippedMean(bounds=(0, 1), budget=b).fit(PEOPLE["x"]),
    "coarse": lambda b: means.AdaptiveMean(bound=1, std=1, delta=1e-6, budget=b).fit(PEOPLE[["x"]]),
    "sparse": lambda b: means.SparseMean(n_nonzero=1, clip=1, std=1.0, delta=1e-6, budget=b).fit(PEOPLE[["x", "z"]]),
    "quantile": lambda b: quantiles.PrivateQuantile([0.5], bounds=(0, 1), budget=b).fit(PEOPLE["x"]),
    "groups": lambda b: groups.GroupMeans(groups=["a", "b"], bounds=(0, 1), delta=1e-6, budget=b).fit(
        PEOPLE[["x", "g"]], "g"
    ),
    "medians of groups": lambda b: groups.GroupQuantiles(groups=["a", "b"], bounds=(0, 1), budget=b).fit(
        PEOPLE[["x"]], PEOPLE["g"]
    ),
    "table": lambda b: tables.ContingencyTable(levels={"g": ["a", "b"], "b": [0, 1]}, budget=b).fit(PEOPLE),
    "proportion": lambda b: tables.PrivateProportion(budget=b).fit(PEOPLE["b"]),
    "ranks": lambda b: ranks.SignedRankTest(n_simulations=99, budget=b).fit(PEOPLE["x"]),
    "identity": lambda b: identity.SpatialSignTest(mean=0.5, budget=b).fit(PEOPLE[["x"]]),
    "regression": lambda b: regression.PrivateLinearRegression(y_bounds=(0, 1), delta=1e-6, budget=b, **MODEL).fit(
        PEOPLE[["x", "z"]], PEOPLE["y"]
    ),
    "logistic": lambda b: regression.PrivateLogisticRegression(delta=1e-6, budget=b, **MODEL).fit(
        PEOPLE[["x", "z"]], PEOPLE["b"]
    ),
    "formula": lambda b: regression.PrivateLinearRegression.from_formula(
        "y ~ x + z", PEOPLE, bounds=BOUNDS, delta=1e-6, budget=b
    ),
    "factor": lambda b: regression.SufficientStatisticsRegression.from_formula(
        "y ~ C(g)", PEOPLE, bounds={"y": (0, 1)}, levels={"g": ["a", "b"]}, delta=1e-6, budget=b
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_unit_of_the_rows_is_that_of_the_charge(way: str) -> None:
    budget = PrivacyBudget(100.0, 1e-3, unit="person")
    made = WAYS[way](budget)
    (charge,) = budget.history()
    assert made.privacy_.unit == made.plan_.guarantee.unit == charge.guarantee.unit == "person"
    assert "one person replaced" in str(made.plan_)
    rows = PrivacyBudget(100.0, 1e-3, unit="row")
    with pytest.raises(InvalidParameter, match="budget is 'row', the unit of the charge is 'person'"):
        WAYS[way](rows)
    assert rows.history() == ()


@pytest.mark.parametrize("way", ["regression", "logistic", "formula"])
def test_the_unit_of_a_score_and_of_a_later_fit_is_that_of_their_rows(way: str) -> None:
    budget = PrivacyBudget(100.0, 1e-3)
    made = WAYS[way](budget)
    made.score(PEOPLE if way == "formula" else PEOPLE[["x", "z"]], PEOPLE["b" if way == "logistic" else "y"])
    assert [e.guarantee.unit for e in budget.history()] == ["person", "person"]
    # The rows of a later fit do not say what they are.
    with pytest.raises(InvalidParameter, match="the unit of the charge is 'row'"):
        made.fit(PEOPLE[["x", "z"]].to_numpy(), PEOPLE["b"].to_numpy())


def test_mechanisms_that_take_a_column_go_by_it() -> None:
    budget = PrivacyBudget(10.0, unit="person")
    counts = Histogram(["a", "b"], epsilon=1.0, budget=budget).release(PEOPLE["g"])
    RandomizedResponse(1.0, budget=budget).randomize(PEOPLE["b"])
    assert counts.guarantee.unit == "person"
    assert [e.guarantee.unit for e in budget.history()] == ["person"] * 2
    with pytest.raises(InvalidParameter, match="the unit of the charge is 'row'"):
        Histogram(["a", "b"], epsilon=1.0, budget=budget).release(ROWS["g"])
    assert len(budget.history()) == 2


def test_the_unit_of_sql_is_charged() -> None:
    duckdb = pytest.importorskip("duckdb")
    from dpstats.sql import PrivateSQL

    connection = duckdb.connect()
    connection.execute("CREATE TABLE r AS SELECT range // 3 AS person FROM range(300)")
    budget = PrivacyBudget(10.0, 1e-3, unit="person")
    made = PrivateSQL(connection, epsilon=1.0, unit="person", budget=budget)
    assert made.query("SELECT COUNT(*) FROM r").guarantee.unit == budget.history()[0].guarantee.unit == "person"
    with pytest.raises(InvalidParameter, match="the unit of the charge is 'row'"):
        PrivateSQL(connection, epsilon=1.0, budget=budget).query("SELECT COUNT(*) FROM r")
    assert len(budget.history()) == 1
