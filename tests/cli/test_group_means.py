"""dpstats group-means: the table and the JSON are what was fitted; bad input is one line and costs nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpstats.cli import main
from dpstats.groups import GroupMeans, one_row_per_unit
from dpstats.privacy import PrivacyBudget
from tests.cli.commands import failed, json_of

LABELS = ["--by", "plan", "--groups", "free,half,NA"]
VISITS = [*LABELS, "--column", "visits", "--bounds", "0", "20"]
DISCOVERED = ["--by", "plan", "--groups", "discover", "--column", "visits", "--bounds", "0", "20"]


def people(n: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    plan = rng.choice(["free", "half", "NA"], n, p=[0.5, 0.3, 0.2])
    visits = rng.poisson(np.where(plan == "free", 5.0, 3.0))
    return pd.DataFrame(
        {"plan": plan, "visits": visits, "age": rng.uniform(20, 60, n), "person": np.arange(n) // 2, "name": "secret"}
    )


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    people().to_csv("rows.csv", index=False)
    return tmp_path / "rows.csv"


def test_it_prints_tables_and_draws(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--anova", "--pairwise", "holm", "--plot", "means.png", "--confidence", "0.9"]
    assert main(["group-means", str(file), *VISITS, *more]) == 0
    out = capsys.readouterr().out
    for words in ("Private means of groups", "[90% low", "analysis of variance", "Holm", "free - half"):
        assert words in out
    assert "imulated noise" not in out and (file.parent / "means.png").read_bytes().startswith(b"\x89PNG")
    assert main(["group-means", str(file), *VISITS, "--pairwise"]) == 0
    assert "Tukey's range" in capsys.readouterr().out


def test_two_groups_are_one_pair(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two = ["--by", "plan", "--groups", "free,half", "--column", "visits", "--bounds", "0", "20"]
    result = json_of(["group-means", str(file), *two, "--seed", "3", "--pairwise"], capsys)
    assert [(pair["first"], pair["second"]) for pair in result["pairwise"]] == [("free", "half")]


def test_the_json_is_what_was_fitted(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--column", "age", "--bounds", "age=0,80", "--seed", "3", "--anova", "--pairwise"]
    result = json_of(["group-means", str(file), *VISITS, *more], capsys)
    rows = people()
    model = GroupMeans(groups=["free", "half", "NA"], bounds=[(0, 20), (0, 80)], random_state=3)
    model.fit(rows[["visits", "age"]], rows["plan"])
    low, high = model.confidence_interval()
    assert (result["n_samples"], result["n_features"], result["groups"]) == (4000, 2, ["free", "half", "NA"])
    assert (
        result["privacy"].items()
        >= {"epsilon": 1.0, "delta": 0.0, "neighbors": "REPLACE_ONE", "simulated": True}.items()
    )
    # At the delta of the default, Laplace noise is smaller.
    assert model.plan_.delta_asked == 1e-6 and model.privacy_.delta == 0.0
    assert len(result["group_means"]) == 6 and len(result["pairwise"]) == 6 and len(result["anova"]) == 2
    assert result["group_means"][1] == {
        "group": "free",
        "rows": model.counts_[0],
        "column": "age",
        "mean": model.means_[0, 1],
        "low": low[0, 1],
        "high": high[0, 1],
        "std": model.std_[0, 1],
    }
    pairs = model.pairwise()
    assert result["pairwise"][0]["difference"] == pairs.estimate[0, 0]
    assert result["pairwise"][0]["low"] == pairs.confidence_interval().low[0, 0]
    assert result["anova"][0]["pvalue"] == model.anova().pvalue[0]


def test_units(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = json_of(["group-means", str(file), *VISITS, "--unit", "person", "--seed", "1"], capsys)
    assert result["n_samples"] == 2000 and result["privacy"]["unit"] == "person"
    rows = people().astype({"person": str})
    one = one_row_per_unit(rows, "person", {"visits": "mean", "plan": "first"})
    model = GroupMeans(groups=["free", "half", "NA"], bounds=(0, 20), random_state=1).fit(one[["visits"]], one["plan"])
    assert [record["mean"] for record in result["group_means"]] == model.means_.ravel().tolist()
    assert main(["group-means", str(file), *VISITS, "--unit", "person"]) == 0
    assert "one person replaced" in capsys.readouterr().out


def test_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    plan = ["plan", "group-means", "--rows", "2000", "--columns", "2", *LABELS]
    result = json_of([*plan, "--bounds", "0", "20"], capsys)
    assert result["groups"] == ["free", "half", "NA"] and result["n_features"] == 2
    assert main([*plan, "--bounds", "a=0,1", "b=0,9"]) == 0
    assert "a group of n/3" in capsys.readouterr().out
    assert "--bounds must name each of the --columns (2)" in failed([*plan, "--bounds", "a=0,1"], capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [*LABELS[:3], "a,a", "--column", "visits", "--bounds", "0", "1"],
            "groups must be distinct, got a list of 2 with one twice",
        ),
        ([*LABELS[:3], "a", "--column", "visits", "--bounds", "0", "1", "--anova"], "--groups must have two or more"),
        ([*LABELS, "--column", "visits", "--bounds", "9", "1"], "--bounds must be two numbers LO < HI"),
        ([*LABELS, "--column", "plan", "--bounds", "0", "1"], "and not the column of --by"),
        ([*LABELS, "--column", "visits", "--column", "visits", "--bounds", "0", "1"], "must name each column once"),
        ([*LABELS, "--column", "nix", "--bounds", "0", "1"], "must name columns of rows.csv"),
        (
            [*LABELS, "--column", "visits", "--bounds", "nix=0,1"],
            "--bounds must name a column of --column, or of --adjust, got 'nix'",
        ),
        ([*VISITS, "--unit", "visits"], "--unit must be a column that is not in"),
        ([*DISCOVERED, "--delta", "0"], "--delta must be positive with --groups discover, got 0"),
        ([*DISCOVERED, "--anova"], "--anova must not be given with --groups discover"),
        ([*VISITS, "--plot", "means.txt"], "--plot must name a png, pdf or svg file"),
        (
            [*LABELS, "--column", "name", "--bounds", "0", "1"],
            "rows.csv, column 'name': an entry must be a number, true, false or missing",
        ),
    ],
)
def test_bad_input_is_one_line_and_costs_nothing(
    arguments: list[str], message: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    budget = PrivacyBudget(1.0, 1e-6, ledger="b.db")
    assert message in failed(["group-means", str(file), *arguments, "--budget", "b.db"], capsys)
    assert budget.history() == ()


def test_missing_units_and_missing_columns(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = people(200).astype({"person": object})
    rows.loc[3, "person"] = None
    rows.to_csv(file, index=False)
    message = failed(["group-means", str(file), *VISITS, "--unit", "person"], capsys)
    assert "rows.csv: --unit must be text" in message and "missing" in message
    assert "--column must be given" in failed(["group-means", str(file), *VISITS[:4], *VISITS[6:]], capsys)


def test_words_that_are_one_number_are_different_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["7", "07", "007", "7.0", "+7", "7e0"]
    rows = [f"{word},1" for count, word in enumerate(words, 1) for _ in range(count)]
    (tmp_path / "rows.csv").write_text("\n".join(["g,x", *rows]), encoding="utf-8")
    options = ["--by", "g", "--groups", ",".join(words), "--column", "x", "--bounds", "0", "1", "--epsilon", "1e5"]
    found = json_of(["group-means", str(tmp_path / "rows.csv"), *options, "--seed", "0"], capsys)
    assert [round(row["rows"]) for row in found["group_means"]] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("unit", [None, "person"])
def test_labels_that_are_not_declared_are_discovered(
    unit: str | None, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = people()
    rows.loc[rows.index % 10 < 4, "plan"] = None
    rows.loc[:1, "plan"] = "rare"
    rows.to_csv(file, index=False)
    more = ["--column", "age", "--bounds", "age=0,80", "--pairwise", "holm", "--confidence", "0.9"]
    command = ["group-means", str(file), *DISCOVERED, *more, "--seed", "3", *(["--unit", unit] if unit else [])]
    result = json_of(command, capsys)
    if unit is not None:
        rows = one_row_per_unit(
            rows.astype({unit: str}).fillna({"plan": ""}), unit, {"visits": "mean", "age": "mean", "plan": "first"}
        )
    model = GroupMeans(groups="discover", bounds=[(0, 20), (0, 80)], random_state=3)
    model.fit(rows[["visits", "age"]], rows["plan"].replace("", None))
    size, mean = model.count_interval(0.9), model.confidence_interval(0.9)
    # Rows without a label are no group, and neither are labels of few rows.
    assert model.groups_ == ("NA", "free", "half")
    assert result["groups"] == "discover" and result["threshold"] == model.plan_.threshold
    assert result["plan"]["stages"][0]["threshold"] == model.plan_.threshold
    assert len(result["group_means"]) == 6 and len(result["pairwise"]) == 6
    assert result["group_means"][3] == {
        "group": "free",
        "rows": model.counts_[1],
        "rows_low": size.low[1],
        "rows_high": size.high[1],
        "column": "age",
        "mean": model.means_[1, 1],
        "low": mean.low[1, 1],
        "high": mean.high[1, 1],
        # JSON has no number for what noise hides: here the standard deviation of the fewer persons.
        "std": model.std_[1, 1] if unit is None else "NaN",
    }
    assert np.isnan(model.std_[1, 1]) == (unit is not None)
    assert any("given that it was found" in note for note in result["notes"])


def test_a_word_in_quotes_is_a_label(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    people().replace({"plan": {"free": "discover"}}).to_csv(file, index=False)
    quoted = [*DISCOVERED[:3], '"discover"', *DISCOVERED[4:]]
    result = json_of(["group-means", str(file), *quoted, "--seed", "1"], capsys)
    assert result["groups"] == ["discover"] and len(result["group_means"]) == 1


def test_a_paid_release_that_finds_no_groups_is_a_result(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    budget = PrivacyBudget(1.0, 1e-6, ledger="b.db")
    more = ["--epsilon", "0.01", "--pairwise", "--budget", "b.db", "--plot", "means.png"]
    people(300).to_csv(file, index=False)
    result = json_of(["group-means", str(file), *DISCOVERED, *more], capsys)
    assert result["group_means"] == result["pairwise"] == []
    assert any("fewer than two groups were found" in note for note in result["notes"])
    assert len(budget.history()) == 1 and Path("means.png").stat().st_size > 5000


def test_a_plan_of_a_discovery_has_its_threshold(capsys: pytest.CaptureFixture[str]) -> None:
    plan = ["plan", "group-means", "--rows", "2000", "--columns", "1", *DISCOVERED[:4], "--bounds", "0", "20"]
    assert main(plan) == 0
    assert "a group of 44 rows is found with probability 0.50" in capsys.readouterr().out
    assert "--delta must be positive" in failed([*plan, "--delta", "0"], capsys)
