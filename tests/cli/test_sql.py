"""dpstats sql: answers over files and databases, what they cost, and what is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from dpstats.cli import main
from dpstats.sql import PrivateSQL
from tests.cli.commands import failed, json_of, refused

JOIN = "SELECT COUNT(*) FROM visit JOIN clinic ON visit.clinic = clinic.id"


@pytest.fixture
def files(folder: Path) -> list[str]:
    visits = pd.DataFrame({"person": [i % 40 for i in range(400)], "clinic": [i % 7 for i in range(400)]})
    visits.assign(kind=["new" if i % 3 else "old" for i in range(400)], cost=7.5).to_csv("visit.csv", index=False)
    pd.DataFrame({"id": range(7)}).to_csv("clinic.csv", index=False)
    return ["--table", "visit=visit.csv", "--table", "clinic=clinic.csv"]


def test_it_is_what_private_sql_answers(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(["sql", JOIN, *files, "--public", "clinic", "--seed", "3"], capsys)
    tables = {"visit": "visit.csv", "clinic": "clinic.csv"}
    made = PrivateSQL(tables, epsilon=1.0, public_tables=["clinic"], random_state=3).count(JOIN)
    assert found["cells"] == made.records() and found["method"] == "public"
    assert (
        found["privacy"].items()
        >= {"epsilon": 1.0, "delta": 0.0, "neighbors": "REPLACE_ONE", "simulated": True}.items()
    )


def test_sizes_of_tables_may_be_private(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    text = ["sql", "SELECT kind, COUNT(*) FROM visit GROUP BY kind", *files, "--levels", "visit.kind=new,old"]
    found = json_of([*text, "--neighbors", "add_or_remove", "--seed", "1"], capsys)
    assert found["privacy"]["neighbors"] == "ADD_OR_REMOVE_ONE"
    assert found["plan"]["stages"][0]["noise_scale"] == 1.0
    replaced = json_of([*text, "--seed", "1"], capsys)
    assert replaced["plan"]["stages"][0]["noise_scale"] == 2.0


def test_options_arrive(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    groups = ["SELECT kind, AVG(cost) FROM visit GROUP BY kind", *files, "--seed", "1", "--epsilon", "3"]
    declared = ["--levels", "visit.kind=new,old,none", "--bounds", "visit.cost=0,10", "--confidence", "0.9"]
    declared += ["--type", "visit.cost=DOUBLE"]
    found = json_of(["sql", *groups, *declared], capsys)
    assert [cell["kind"] for cell in found["cells"]] == ["new", "old", "none"] and found["confidence_level"] == 0.9
    assert abs(found["cells"][0]["mean_cost"] - 7.5) < 0.5
    ages = ["SELECT clinic, COUNT(*) FROM visit GROUP BY clinic", *files, "--seed", "1"]
    ages += ["--type", "visit.clinic=BIGINT", "--bins"]
    found = json_of(["sql", *ages, "visit.clinic=0,3,7"], capsys)
    assert [cell["clinic"] for cell in found["cells"]] == ["[0, 3)", "[3, 7]"]
    assert "--type must be NAME.COLUMN=TYPE" in refused(["sql", *ages, "visit.clinic=0,3", "--type", "x"], capsys)
    assert "--bins must have numbers or dates" in refused(["sql", *ages, "visit.clinic=0,x"], capsys)
    Path("day.csv").write_text("day\n2023-01-05\n2023-02-05\n2024-02-05\n")
    days = ["SELECT COUNT(*) FROM v GROUP BY DATE_TRUNC('month', day)", "--table", "v=day.csv"]
    days += ["--type", "v.day=DATE", "--seed", "1"]
    found = json_of(["sql", *days, "--bins", "v.day=2023-01-01,2023-03-01"], capsys)
    assert [cell["day_by_month"] for cell in found["cells"]] == ["2023-01-01", "2023-02-01"]
    days[0] = "SELECT COUNT(*) FROM v GROUP BY day"
    found = json_of(["sql", *days, "--levels", "v.day=2023-02-05,2023-01-05"], capsys)
    assert [cell["day"] for cell in found["cells"]] == ["2023-02-05", "2023-01-05"]
    persons = ["--public", "clinic", "--unit", "person", "--unit-limit", "16", "--seed", "2", "--epsilon", "5"]
    found = json_of(["sql", JOIN, *files, *persons], capsys)
    assert found["privacy"]["unit"] == "person" and found["thresholds"][0] <= 16
    found = json_of(["sql", JOIN, *files, *persons, "--truncation", "race"], capsys)
    assert found["method"] == "race" and found["thresholds"] == []
    each = ["--unit", "visit.person", "--public", "clinic", "--seed", "2"]
    assert json_of(["sql", JOIN, *files, *each], capsys)["privacy"]["unit"] == "unit"
    private = json_of(["sql", JOIN, *files, "--delta", "1e-6", "--no-intervals", "--seed", "2"], capsys)
    assert private["privacy"]["delta"] == 1e-6 and "low" not in private["cells"][0]


def test_several_aggregates_are_a_table_and_json(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT kind, COUNT(*), SUM(cost) AS total, AVG(cost) FROM visit GROUP BY kind"
    command = ["sql", query, *files, "--seed", "1", "--levels", "visit.kind=new,old", "--type", "visit.cost=DOUBLE"]
    command += ["--bounds", "visit.cost=0,10", "--epsilon", "3"]
    found = json_of(command, capsys)
    assert [cell["kind"] for cell in found["cells"]] == ["new", "old"] and len(found["plan"]["stages"]) == 1
    for cell, rows in zip(found["cells"], (266, 134), strict=True):
        for name, truth in (("count", rows), ("total", 7.5 * rows), ("mean_cost", 7.5)):
            assert cell[f"{name}_low"] <= cell[name] <= cell[f"{name}_high"]
            assert cell[name] == pytest.approx(truth, rel=0.1)
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "mean_cost: new" in out and "each aggregate in these data" in out


def test_a_database_is_read_and_a_ledger_charged(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with duckdb.connect("all.duckdb") as connection:
        connection.execute("CREATE TABLE visit AS SELECT * FROM read_csv('visit.csv')")
        connection.execute("CREATE TABLE clinic AS SELECT * FROM read_csv('clinic.csv')")
    query = ["sql", JOIN, "--database", "all.duckdb", "--budget", "b.db", "--epsilon", "0.4"]
    found = json_of(query, capsys)
    assert found["privacy"]["simulated"] is False
    assert main(query) == 0
    assert "COUNT(*)" in capsys.readouterr().out
    assert "epsilon" in failed(query, capsys, 4)


def test_a_database_of_postgres_is_read_by_its_address(
    files: list[str], address: str, postgres: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    postgres.execute(
        "CREATE TABLE visit (clinic integer); INSERT INTO visit SELECT i % 2 FROM generate_series(1, 90) i"
    )
    address = address.replace("postgres:@", "postgres:secret@")
    query = ["sql", "SELECT COUNT(*) FROM visit", "--database", address, "--epsilon", "0.5"]
    found = json_of([*query, "--budget", "b.db"], capsys)
    assert abs(found["cells"][0]["count"] - 90) <= 50
    assert main(["budget", "history", "b.db"]) == 0
    shown = capsys.readouterr().out
    assert "postgresql:///postgres: SELECT COUNT(*)" in " ".join(shown.split()) and "secret" not in shown


def test_what_it_would_release_is_explained_at_no_cost(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", JOIN, *files, "--explain", "--budget", "b.db"]) == 0
    out = capsys.readouterr().out
    assert "max(mf(visit.clinic, k), mf(clinic.id, k))" in out and "smooth sensitivity" in out
    assert "must not have the column" in refused(["sql", "SELECT kind FROM visit", *files, "--budget", "b.db"], capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([JOIN], "--table or --database must be given"),
        ([JOIN, "--table", "a=x.csv", "--table", "a=y.csv"], "each name once"),
        ([JOIN, "--database", "nowhere.duckdb"], "--database must be a file"),
        ([JOIN, "--database", "people.csv"], "--database must be a DuckDB database"),
        ([JOIN + " LIMIT 0", "--table", "visit=visit.csv", "--table", "clinic=clinic.csv"], "must not have LIMIT"),
        ([JOIN, "--table", "visit=visit.csv", "--bounds", "0,1"], "--bounds must be"),
        ([JOIN, "--table", "visit=visit.csv", "--unit", "a", "--unit", "b.c"], "--unit must be one column"),
        ([JOIN, "--table", "visit=visit.csv", "--type", "visit.cost=NUMBER"], "--type visit.cost must be one of"),
        (
            ["SELECT COUNT(*) FROM visit", "--table", "visit=visit.csv", "--unit", "nothing"],
            "(--unit 'items.order->orders.id')",
        ),
        ([JOIN, "--table", "visit=visit.csv", "--key", "id"], "--key must be NAME.COLUMN, each table once"),
        ([JOIN, "--table", "visit=visit.csv", "--key", "visit.clinic"], "--key visit must be a column without"),
        ([JOIN, "--table", "visit=visit.csv", "--seed", "1", "--budget", "b.db"], "must not be given with"),
    ],
)
def test_bad_calls_are_one_line(
    files: list[str], arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(["sql", *arguments], capsys)


def test_a_file_that_is_not_there_has_the_status_of_data(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere.csv cannot be read" in refused(["sql", JOIN, "--table", "a=nowhere.csv"], capsys, 3)


@pytest.mark.parametrize("word", ["visit", "=visit.csv", "visit="])
def test_a_table_has_a_name_and_a_file(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["sql", JOIN, "--table", word])
    assert f"argument --table: must be NAME=FILE, got {word!r}" in capsys.readouterr().err


def test_a_plan_of_a_query(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    plan = ["plan", "sql", JOIN, *files, "--public", "clinic", "--epsilon"]
    capsys.readouterr()
    assert main(["sql", *plan[2:], "0.5", "--explain"]) == 0
    explained = capsys.readouterr().out
    assert main([*plan, "0.5"]) == 0 and capsys.readouterr().out == explained
    found = json_of([*plan, "0.5", "--budget", "b.db"], capsys)
    assert found["budget"]["remaining_after"]["epsilon"] == 0.5 and found["stages"]
    assert main([*plan, "3", "--budget", "b.db"]) == 4
    assert "it cannot pay" in capsys.readouterr().out


def test_values_that_are_not_declared_are_discovered(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("visit.csv").write_text("kind,day\n" + "new,2023-01-05\nold,2024-02-05\n,2024-02-05\n" * 90 + "rare,\n")
    query = "SELECT kind, COUNT(*) FROM visit GROUP BY kind"
    command = ["sql", query, *files, "--levels", "visit.kind=discover", "--delta", "1e-6", "--seed", "3"]
    found = json_of(command, capsys)
    made = PrivateSQL(
        {"visit": "visit.csv"}, epsilon=1.0, delta=1e-6, categories={"visit.kind": "discover"}, random_state=3
    )
    assert found["cells"] == made.query(query).records() and found["method"] == "discovery"
    assert [cell["kind"] for cell in found["cells"]] == ["new", "old"]
    assert found["plan"]["stages"][0]["threshold"] == made.plan_for(query).discovery.threshold
    assert any("given that a group was found" in note for note in found["notes"])
    days = ["sql", "SELECT day, COUNT(*) FROM visit GROUP BY day", *files, "--type", "visit.day=DATE"]
    days += ["--levels", "visit.day=discover", "--delta", "1e-6", "--seed", "3"]
    assert [cell["day"] for cell in json_of(days, capsys)["cells"]] == ["2023-01-05", "2024-02-05"]
    assert main([*command[:-2], "--explain"]) == 0
    assert "is found with probability 0.50" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--delta", "0"], "--delta must be positive with --levels visit.kind=discover, got 0"),
        (["--levels", "visit.kind=new,old"], "--levels must name each column once, got 'visit.kind' twice"),
        (["--levels", "visit.kind=discover"], "--levels must name each column once, got 'visit.kind' twice"),
        (["--unit", "person"], "a unit may have several of them"),
    ],
)
def test_a_discovery_that_is_refused_costs_nothing(
    files: list[str], arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT kind, COUNT(*) FROM visit GROUP BY kind"
    command = ["sql", query, *files, "--levels", "visit.kind=discover", "--delta", "1e-6", "--budget", "b.db"]
    assert message in refused([*command, *arguments], capsys)


def test_a_unit_by_a_path(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("orders.csv").write_text("id,customer\n" + "".join(f"o{i},c{i % 9}\n" for i in range(90)))
    Path("items.csv").write_text("order_id\n" + "".join(f"o{i % 90}\n" for i in range(900)))
    given = ["sql", "SELECT COUNT(*) FROM items", "--table", "orders=orders.csv", "--table", "items=items.csv"]
    paths = ["--unit", "orders.customer", "--unit", "items.order_id->orders.id", "--seed", "1", "--epsilon", "50"]
    found = json_of([*given, *paths], capsys)
    assert abs(found["cells"][0]["count"] - 900) < 30 and found["privacy"]["unit"] == "unit"
