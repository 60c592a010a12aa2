"""Several files as the table of a command: the answer of the same rows in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.cli import main
from dpstats.cli.output import TableFile
from dpstats.privacy import PrivacyBudget
from tests.cli.commands import failed, json_of

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

N = 600
RNG = np.random.default_rng(1)
ROWS = pd.DataFrame({"age": RNG.integers(0, 100, N), "cost": RNG.normal(50, 9, N), "ward": RNG.choice(["A", "B"], N)})
COMMANDS: dict[str, list[str]] = {
    "mean": ["mean", "--column", "age", "--bounds", "0", "100"],
    "all columns": ["mean", "--column", "age", "--column", "cost", "--bounds", "0", "100"],
    "quantile": ["quantile", "--column", "cost", "--bounds", "0", "100"],
    "group-means": ["group-means", "--column", "cost", "--bounds", "0", "100", "--by", "ward", "--groups", "A,B"],
    "table": ["table", "--levels", "ward=A,B"],
    "regress": ["regress", "--outcome", "cost", "--column", "age", "--bounds", "age=0,100", "cost=0,100"],
    "persons": ["mean", "--column", "age", "--bounds", "0", "100", "--unit", "ward"],
}
SQL = "SELECT ward, AVG(cost) FROM v GROUP BY ward"
DECLARED = ["--levels", "v.ward=A,B", "--bounds", "v.cost=0,100", "--epsilon", "5"]


@pytest.fixture(params=["parquet", "csv"])
def kind(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The rows as one file, as a folder of files whose types differ, and in folders that name a column."""
    monkeypatch.chdir(tmp_path)
    found = str(request.param)

    def write(frame: pd.DataFrame, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.to_parquet(path, index=False) if found == "parquet" else frame.to_csv(path, index=False)

    write(ROWS, Path(f"whole.{found}"))
    for i, part in enumerate(np.array_split(np.arange(N), 7)):
        some = ROWS.iloc[part]
        write(some.astype({"age": ["int64", "int8"][i % 2]}), Path(f"parts/part [{i}].{found}"))
    for ward, some in ROWS.groupby("ward"):
        write(some.drop(columns="ward"), Path(f"wards/ward={ward}/0.{found}"))
    return found


def answers(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found = json_of([*arguments, "--seed", "1"], capsys)
    return {key: value for key, value in found.items() if key != "label"}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_read_folders_patterns_and_lists(command: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    name, *options = COMMANDS[command]
    wanted = answers([name, f"whole.{kind}", *options], capsys)
    listed = sorted(map(str, Path("parts").iterdir()))
    for given in (
        ["parts"],
        listed,
        ["--pattern", f"parts/*.{kind}"],
        ["wards"],
        ["--pattern", f"wards/ward=*/*.{kind}"],
    ):
        assert answers([name, *given, *options], capsys) == wanted


def test_queries_read_folders_and_patterns(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    declared = [*DECLARED, *(["--type", "v.cost=DOUBLE"] if kind == "csv" else [])]
    found = [
        answers(["sql", SQL, "--table", f"v={given}", *declared, *more], capsys)["cells"]
        for given, more in (
            (f"whole.{kind}", []),
            ("parts", []),
            ("wards", []),
            (f"parts/*.{kind}", ["--pattern"]),
            (f"parts/part [[]*.{kind}", ["--pattern"]),
        )
    ]
    assert all(cells == found[0] for cells in found)
    one = answers(["sql", "SELECT COUNT(*) FROM v", "--table", f"v=parts/part [3].{kind}", "--epsilon", "9"], capsys)
    assert abs(one["cells"][0]["count"] - N / 7) < 9


def test_what_is_no_table_is_one_line(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    mean = COMMANDS["mean"]
    other = "csv" if kind == "parquet" else "parquet"
    Path(f"parts/b.{other}").write_text("")
    assert "--pattern 'folder/*.csv'" in failed([*mean, "parts"], capsys, 3)
    assert "files of one format" in failed([*mean, "parts"], capsys, 3)
    assert "at least one file" in failed([*mean, "--pattern", "parts/*.tsv"], capsys, 3)
    assert "'-' alone" in failed([*mean, "-", f"whole.{kind}"], capsys, 2)
    assert "different files" in failed([*mean, f"whole.{kind}", f"./whole.{kind}"], capsys, 2)
    assert "s3fs" in failed([*mean, "nothing://me:secret@bucket/rows.parquet?secret"], capsys, 3)
    assert "must name columns of" in failed(["mean", "wards", "--column", "none", *mean[3:]], capsys)


def test_labels_name_what_was_given_and_no_password(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    PrivacyBudget(9.0, ledger="b.db")
    for given in (["parts"], ["--pattern", f"parts/*.{kind}"]):
        assert main([*COMMANDS["mean"], *given, "--budget", "b.db"]) == 0
    labels = [entry.label for entry in PrivacyBudget.open("b.db").history()]
    assert labels == ["parts (age): ClippedMean", f"*.{kind} (age): ClippedMean"]
    assert str(TableFile("v", "s3://me:secret@bucket/x.parquet?secret")) == "v=s3://bucket/x.parquet"
