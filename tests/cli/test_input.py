"""The tables that commands read: what cannot be used is refused by its line and column, before anything is charged."""

from __future__ import annotations

import argparse
import gzip
import io
import json
import math
import os
import re
import sys
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.cli import main
from dpstats.cli.options import join_lists
from dpstats.cli.tables import InputTable, add_table, reading, text_format
from dpstats.errors import DPStatsError, InvalidData, InvalidParameter
from dpstats.means import ClippedMean
from dpstats.privacy import PrivacyBudget, PrivacyGuarantee
from tests.cli.commands import AGE, json_of, refused


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_table(parser)
    return parser.parse_args(arguments)


def read(path: Path, columns: list[str] | None, *more: str, text: list[str] | None = None) -> Any:
    return InputTable(options(str(path), *more)).frame(columns, text=text or [])


TABLES = {
    "empty": (b"", "x.csv is not a readable table: its first line must have the names of its columns\n"),
    "no rows": (b"age,name\n", "x.csv: X must have at least 2 rows, got n_samples = 0"),
    "one row": (b"age,name\n1,secret\n", "x.csv: X must have at least 2 rows, got n_samples = 1"),
    "missing entry": (b"age,name\n1,secret\n,secret\n", "x.csv: Input X contains NaN or infinity"),
    "a blank record": (b"age,b\n1,1\n\n2,1\n", "as many entries as the first line has names (2)\n"),
    "missing option": (b"age\n1\ninf\n", "set --missing drop"),
    "text": (
        b"age\n1\nsecret\n",
        "x.csv, column 'age': an entry must be a number, true, false or missing. Remove units",
    ),
    "below lines": (b'name,age\n"se\ncret",1\nb,secret\n', "x.csv, column 'age': an entry must be"),
    "bytes": (b"age\n1\n\xe9\n", "it cannot be read as utf-8; declare its encoding, for example latin-1\n"),
    "a quote": (b'age,b\n1,2\n3,"secret\n4,5\n', "x.csv: a quote is not closed"),
    "a long line": (b"age\n1\n2,secret\n", "as many entries as the first line has names (1)\n"),
    "names of rows": (b"age,name\n1,2,3\n4,5,6\n7,8,9\n", "as many entries as the first line has names (2)\n"),
    "semicolons": (
        b"age;b\n1;2\n3;4\n",
        "--column must name columns of x.csv ('age;b'), got 'age'. If entries are separated by ';', set --sep ';'",
    ),
    "spaces": (b"a, age\n1,2\n3,4\n", "x.csv ('a', ' age'), got 'age'"),
    "a name of two lines": (b'"a\nge",b\n1,2\n3,4\n', r"('a\nge', 'b'), got 'age'"),
    "many names": (b",".join(b"c%d" % j for j in range(99)), "'c19', ... 79 more), got 'age'"),
    "a name twice": (b"age,age\n1,2\n", "x.csv must have different names of columns, got 'age' twice."),
}
USAGE = ("semicolons", "spaces", "a name of two lines", "many names")


@pytest.mark.parametrize("name", TABLES)
def test_tables_that_cannot_be_used(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, message = TABLES[name]
    (folder / "x.csv").write_bytes(content)
    status = 2 if name in USAGE else 3
    assert message in refused(["mean", "x.csv", *AGE], capsys, status)
    charged = refused(["mean", "x.csv", *AGE, "--budget", "b.db"], capsys, status)
    assert not re.search(r"line \d", charged)


def test_unreadable_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refusal = "is not a readable CSV or Parquet file with a header"
    assert f"none.csv {refusal} (No such file" in refused(["mean", "none.csv", *AGE], capsys, 3)
    assert f"none.parquet {refusal}" in refused(["mean", "none.parquet", *AGE], capsys, 3)
    # A folder is one of tables, without anything else.
    assert "dpstats mean: .: X must be files of tables, got one that ends in '.db'" in refused(
        ["mean", ".", *AGE], capsys, 3
    )


def test_packed_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = json_of(["mean", "people.csv", *AGE, "--seed", "1"], capsys)
    (folder / "x.csv.gz").write_bytes(gzip.compress((folder / "people.csv").read_bytes()))
    assert json_of(["mean", "x.csv.gz", *AGE, "--seed", "1"], capsys) == plain
    # The first bytes say whether a file is compressed.
    (folder / "people.csv").rename("people.csv.gz")
    assert json_of(["mean", "people.csv.gz", *AGE, "--seed", "1"], capsys) == plain


def test_tables_of_other_kinds_of_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "größe;kind\n1.5;a\n-9;b\n3;k. A.\n"
    (folder / "x.csv").write_bytes(text.encode("cp1252"))
    written = ["--sep", ";", "--encoding", "cp1252", "--na-values", "-9,k. A."]
    frame = read(folder / "x.csv", ["größe", "kind"], *written, text=["kind"])
    assert frame["kind"].tolist() == ["a", "b", ""]
    assert np.array_equal(frame["größe"], [1.5, np.nan, 3.0], equal_nan=True)
    (folder / "x.csv").write_bytes(b"\xef\xbb\xbfage\tb\n1\t2\n")
    assert read(folder / "x.csv", ["age"], "--sep", "tab")["age"].tolist() == [1.0]
    for name in ("x.tsv", "x.TSV.gz"):
        (folder / "x.csv").rename(folder / name)
        pack = gzip.compress if name.endswith("gz") else bytes
        (folder / name).write_bytes(pack(b"age\tb\n1\t2\n"))
        assert read(folder / name, ["age"])["age"].tolist() == [1.0]
        (folder / name).rename(folder / "x.csv")
    for wrong, message in (
        (["--sep", "::"], "--sep must be one character, or 'tab', got '::'"),
        (["--sep", '"'], "--sep must be one character"),
        (["--encoding", "base64"], "--encoding must be one that Python knows (utf-8, latin-1, cp1252), got 'base64'"),
    ):
        assert message in refused(["mean", "people.csv", *AGE, *wrong], capsys)
    assert text_format(options("x.csv", "--sep", "\\t")).sep == "\t"


def without_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpstats.cli.tables.find_spec", lambda name: None)


def piped(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_a_table_from_standard_input(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (folder / "people.csv").read_text()
    plain = json_of(["mean", "people.csv", *AGE, "--seed", "1"], capsys)
    piped(text, monkeypatch)
    assert json_of(["mean", "-", *AGE, "--seed", "1"], capsys) == plain
    assert not sys.stdin.closed
    piped("age\n1\nsecret\n", monkeypatch)
    assert "standard input, column 'age'" in refused(["mean", "-", *AGE], capsys, 3)
    piped(text, monkeypatch)
    assert main(["quantile", "-", *AGE, "--budget", "b.db"]) == 0
    capsys.readouterr()
    assert main(["budget", "history", "b.db"]) == 0
    assert capsys.readouterr().out.endswith("  standard input (age): PrivateQuantile\n")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InvalidData, match="standard input is closed"):
        read(Path("-"), ["age"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_a_table_from_a_pipe(folder: Path) -> None:
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("age,b\n1,2\n",))
    writer.start()
    assert read(pipe, ["b"], text=["b"])["b"].tolist() == ["2"]
    writer.join()


def test_where_all_columns_are_meant_each_has_a_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twice = folder / "twice.csv"
    twice.write_text("age,,,b\n1,2,3,4\n3,4,5,6\n")
    assert list(read(twice, None).columns) == ["age", "column 2", "column 3", "b"]
    assert read(twice, ["b"])["b"].tolist() == [4, 6]
    twice.write_text("name\nsecret\nsecret\n")
    sparse = ["--nonzero", "1", "--clip", "1", "--std", "1"]
    wrong = "twice.csv, column 'name': an entry must be a number"
    assert wrong in refused(["sparse-mean", "twice.csv", *sparse], capsys, 3)


def test_text_is_what_stands_in_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, numbers = ["01", "NA", "", "1.0"], [1.0, np.nan, 3.0, 4.0]
    pd.DataFrame({"code": words, "age": numbers}).to_csv("codes.csv", index=False)
    frame = read(Path("codes.csv"), ["age", "code"], text=["code"])
    assert list(frame.columns) == ["age", "code"] and frame["code"].tolist() == words
    assert np.array_equal(frame["age"], numbers, equal_nan=True)
    assert read(Path("codes.csv"), ["code"])["code"].isna().sum() == 2
    entries = ["01", None, 2, 2.0, True]
    table = pd.DataFrame({"code": pd.Series(entries, dtype=object)})
    without_duckdb(monkeypatch)
    monkeypatch.setattr(pd, "read_parquet", lambda path, dtype_backend: table)
    (folder / "codes.parquet").touch()
    assert read(Path("codes.parquet"), ["code"], text=["code"])["code"].tolist() == ["01", "", "2", "2", "True"]


def test_without_a_parquet_engine(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(path: object, **options: object) -> None:
        raise ImportError("Unable to find a usable engine")

    without_duckdb(monkeypatch)
    monkeypatch.setattr(pd, "read_parquet", missing)
    (folder / "x.parquet").write_bytes(b"PAR1")
    message = "this needs the package pyarrow: pip install 'dpstats[parquet]'"
    assert message in refused(["quantile", "x.parquet", *AGE, "--budget", "b.db"], capsys, 6)


def test_parquet_files(folder: Path, frame: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    frame.to_parquet("people.parquet")
    frame.set_index("age").to_parquet("indexed.PQ")
    results = []
    for name in ("people.csv", "people.parquet", "indexed.PQ"):
        capsys.readouterr()
        assert main(["mean", name, *AGE, "--seed", "1", "--json", "-"]) == 0
        results.append(json.loads(capsys.readouterr().out))
    assert results[0] == results[1] == results[2]
    # Numbers for names are given as words, and exact decimals are numbers.
    pd.DataFrame({0: [Decimal("1.5"), Decimal("2.5")]}).to_parquet("decimals.parquet")
    assert main(["mean", "decimals.parquet", "--column", "0", "--bounds", "0", "9", "--seed", "1"]) == 0
    whole = (folder / "people.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(whole[:-30])
    (folder / "fake.parquet").write_bytes(b"PAR1secretPAR1")
    frame.assign(age=None).to_parquet("nothing.parquet")
    for name in ("cut.parquet", "fake.parquet", "nothing.parquet"):
        assert f"{name}" in refused(["mean", name, *AGE, "--budget", "b.db"], capsys, 3)
    for name in ("cut.parquet", "fake.parquet"):
        message = f"{name} is not a readable CSV or Parquet file with a header\n"
        assert message in refused(["quantile", name, *AGE, "--budget", "b.db"], capsys, 3)
    assert "('age', 'name'), got 'height'" in refused(["mean", "people.parquet", "--column", "height"], capsys)


def test_two_columns_of_a_name_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_duckdb(monkeypatch)
    monkeypatch.setattr(pd, "read_parquet", lambda path, **_: pd.DataFrame([[1, 2]], columns=["age", "age"]))
    (folder / "x.parquet").touch()
    with pytest.raises(InvalidData, match=r"x\.parquet must have different names"):
        read(Path("x.parquet"), ["age"])


def test_reading_lets_its_own_refusals_pass(folder: Path) -> None:
    with pytest.raises(InvalidParameter, match="mine"), reading(Path("people.csv"), "other"):
        raise InvalidParameter("mine")
    with pytest.raises(InvalidData, match=r"^other$"), reading(Path("people.csv"), "other"):
        raise DPStatsError("secret")


def test_what_was_read_is_said_in_short(folder: Path) -> None:
    table = InputTable(options("people.csv"))
    table.frame(["name", "age"], text=["name"])
    assert table.read == "people.csv (name, age)"
    (folder / "wide.csv").write_text(",".join(f"c{j}" for j in range(99)) + "\n" + ",".join("1" * 99) + "\n")
    wide = InputTable(options("wide.csv"))
    wide.frame(None)
    assert wide.read.endswith("c19, ... 79 more)")


def test_a_missing_entry_of_parquet_changes_no_other(folder: Path) -> None:
    pytest.importorskip("pyarrow")  # which reads it
    whole = pd.DataFrame({"g": [1, 2] * 3, "b": [True, False] * 3, "age": [1, 2**53 + 1] * 3})
    lacking = whole.astype({"g": "Int64", "b": "boolean", "age": "Int64"})
    lacking.loc[5] = None
    for name, frame in (("a.parquet", whole), ("b.parquet", lacking)):
        frame.to_parquet(folder / name)
    first, second = (read(folder / name, ["g", "b"], text=["g", "b"]) for name in ("a.parquet", "b.parquet"))
    assert first["g"].tolist() == ["1", "2"] * 3 and second["g"].tolist() == [*["1", "2"] * 2, "1", ""]
    assert second["b"].tolist()[:5] == first["b"].tolist()[:5] == ["True", "False"] * 2 + ["True"]
    both = [read(folder / name, ["age"])["age"].tolist()[:5] for name in ("a.parquet", "b.parquet")]
    assert both[0] == both[1]


def parquet(path: str, frame: pd.DataFrame) -> None:
    """Write a file with what there is."""
    duckdb = pytest.importorskip("duckdb")
    duckdb.connect().from_df(frame).write_parquet(path)


def test_every_command_reads_parquet_with_duckdb_alone(
    folder: Path, frame: pd.DataFrame, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"age": rng.normal(40, 9, 200), "b": rng.random(200), "g": ["x", "y"] * 100, "k": [0, 1] * 100}
    )
    frame.to_csv("all.csv", index=False)
    parquet("all.parquet", frame)

    def refuses(path: object, **options: object) -> None:
        raise AssertionError("pandas was asked")

    monkeypatch.setattr(pd, "read_parquet", refuses)
    for command in (
        ["mean", "--column", "age", "--bounds", "0", "99"],
        ["quantile", "--column", "age", "--bounds", "0", "99"],
        ["group-means", "--column", "age", "--by", "g", "--groups", "x,y", "--bounds", "0", "99"],
        ["group-means", "--column", "age", "--by", "k", "--groups", "0,1", "--bounds", "0", "99"],
        ["histogram", "--column", "g", "--categories", "x,y"],
        ["table", "--levels", "g=x,y", "--levels", "k=0,1"],
        ["proportion", "--column", "k"],
        ["regress", "--column", "age", "--outcome", "b", "--bounds", "age=0,99", "--bounds", "b=0,1"],
    ):
        found = [
            json_of([command[0], name, *command[1:], "--seed", "1"], capsys) for name in ("all.csv", "all.parquet")
        ]
        assert found[0] == found[1], command


@pytest.mark.parametrize("engine", ["duckdb", "pandas"])
def test_parquet_entries_compare_as_those_of_csv(
    engine: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    duckdb = pytest.importorskip("duckdb")
    duckdb.sql(
        "SELECT DATE '2023-01-01' + (i % 3)::INT AS day, (DATE '2023-01-01' + (i % 3)::INT)::TIMESTAMP AS date, "
        "TIMESTAMP '2023-01-01' + INTERVAL (i % 3) HOUR AS hour, (i % 3)::DOUBLE AS f, "
        "CASE WHEN i % 2 = 0 THEN -0.0 ELSE 2.5 END::DOUBLE AS g, (i % 3 / 2)::DECIMAL(5, 2) AS d, i * 1.0 AS age "
        "FROM range(300) t(i)"
    ).write_parquet("typed.parquet")
    if engine == "pandas":
        pytest.importorskip("pyarrow")
        without_duckdb(monkeypatch)
    names = ["day", "date", "hour", "f", "g", "d"]
    found = read(Path("typed.parquet"), names, text=names)
    assert [found[name].tolist()[:3] for name in names] == [
        ["2023-01-01", "2023-01-02", "2023-01-03"],
        ["2023-01-01", "2023-01-02", "2023-01-03"],
        ["2023-01-01", "2023-01-01 01:00:00", "2023-01-01 02:00:00"],
        ["0", "1", "2"],
        ["0", "2.5", "0"],
        ["0", "0.5", "1"],
    ]
    for word in ("date=2023-01-02", "f=1", "d=0.5"):
        share = json_of(["proportion", "typed.parquet", "--column", word, "--seed", "1", "--epsilon", "9"], capsys)
        assert share["proportion"] == pytest.approx(1 / 3, abs=0.05), word
    by_day = ["--by", "date", "--groups", "2023-01-01,2023-01-02", "--column", "age", "--bounds", "0", "300"]
    means = json_of(["group-means", "typed.parquet", *by_day, "--seed", "1", "--epsilon", "9"], capsys)
    assert [row["rows"] for row in means["group_means"]] == pytest.approx([100, 100], abs=9)


OTHERS = {
    "mean": ["--column", "age", "--bounds", "0", "99"],
    "quantile": ["--column", "age", "--bounds", "0", "99"],
    "sparse-mean": ["--column", "age", "--column", "b", "--nonzero", "1", "--clip", "1", "--std", "1"],
    "group-means": ["--column", "age", "--by", "g", "--groups", "x,y", "--bounds", "0", "99"],
    "histogram": ["--column", "g", "--categories", "x,y"],
    "table": ["--levels", "g=x,y"],
    "proportion": ["--column", "k"],
    "regress": ["--column", "age", "--outcome", "b", "--bounds", "age=0,99", "--bounds", "b=0,1"],
}


@pytest.mark.parametrize("command", OTHERS)
@pytest.mark.parametrize("left", [0.0, 0.01])
def test_a_ledger_that_cannot_pay_refuses_before_an_entry_is_looked_at(
    command: str, left: float, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    budget = PrivacyBudget(1.0, 1e-5, ledger="small.db")
    budget.charge(PrivacyGuarantee(1.0 - left, 1e-5 if left == 0 else 0.0))
    rows = ["50,0.5,x,1"] * 9
    statuses = set()
    for last in ("50,0.5,x,1", "text,text,z,z", ",,,", "1e999,inf,,2"):
        (folder / "x.csv").write_text("\n".join(["age,b,g,k", *rows, last]) + "\n")
        statuses.add(main([command, "x.csv", *OTHERS[command], "--budget", "small.db"]))
        assert "line" not in capsys.readouterr().err
    assert statuses == {4}
    if left == 0:
        # Not even whether it is a table.
        (folder / "x.csv").write_bytes(b"age,b,g,k\n\xff\n")
        assert main([command, "x.csv", *OTHERS[command], "--budget", "small.db"]) == 4


def test_a_word_that_is_called_missing_is_not_looked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("age\n31\n30\n", "age\n32\n30\n"):
        (folder / "x.csv").write_text(text)
        said = refused(["mean", "x.csv", *AGE, "--na-values", "31"], capsys)
        assert "--na-values must not be given with --missing error, got '31'" in said
        assert main(["mean", "x.csv", *AGE, "--na-values", "31", "--missing", "center", "--seed", "1"]) == 0
        capsys.readouterr()
        said = refused(["quantile", "x.csv", *AGE, "--na-values", "31"], capsys)
        assert "--na-values must not be given with --missing error, got '31'" in said


def test_codes_of_missing_entries_are_those_of_the_estimator(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    age = [float(20 + place % 40) for place in range(300)]
    coded = [["-999", "unk", "-999.0"][place % 3] if place % 5 == 0 else str(age[place]) for place in range(300)]
    kind = [["a", "b", " unk ", "-999.00"][place % 4] for place in range(300)]
    pd.DataFrame({"age": coded, "g": kind}).to_csv(folder / "x.csv", index=False)
    missing = [math.nan if place % 5 == 0 else value for place, value in enumerate(age)]
    known = pd.DataFrame({"age": missing, "g": [word if word in ("a", "b") else None for word in kind]})
    known.to_csv(folder / "known.csv", index=False)
    numbers = known.assign(age=known["age"].fillna(-999))
    numbers.to_parquet(folder / "x.parquet")
    drop = ["--missing", "drop", "--seed", "1"]
    for command in (
        ["mean", *AGE],
        ["quantile", *AGE],
        ["group-means", *AGE, "--by", "g", "--groups", "a,b"],
        ["histogram", "--column", "age", "--bins", "0", "40", "80"],
        ["histogram", "--column", "g", "--categories", "a,b"],
        ["table", "--levels", "g=a,b"],
    ):
        how = ["--seed", "1", "--unknown", "drop"] if command[0] in ("histogram", "table") else drop
        expected = json_of([command[0], "known.csv", *command[1:], *how], capsys)
        for file in ("x.csv", "x.parquet"):
            found = json_of([command[0], file, *command[1:], *how, "--na-values", "-999,unk"], capsys)
            assert found == expected, (command, file)
    made = ClippedMean(bounds={"age": (0, 100)}, missing="drop", missing_codes=[-999, "unk"], random_state=1)
    released = json_of(["mean", "x.csv", *AGE, *drop, "--na-values", "-999,unk"], capsys)
    assert released["columns"][0]["mean"] == made.fit(folder / "x.csv").mean_[0]


def test_lists_that_begin_with_a_minus(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pd.DataFrame({"age": [-3.0, 2.0] * 99, "g": [-1.0, 0.0, 1.0] * 66}).to_csv(folder / "x.csv", index=False)
    groups = ["group-means", "x.csv", "--column", "age", "--by", "g", "--seed", "1", "--bounds", "-5", "5"]
    found = json_of([*groups, "--groups", "-1,0,1"], capsys)
    assert [row["group"] for row in found["group_means"]] == ["-1", "0", "1"]
    assert all(50 < row["rows"] < 80 for row in found["group_means"])
    assert found == json_of([*groups, "--groups=-1,0,1"], capsys)
    assert join_lists(["--a", "-1,b", "-x,1", "--", "-1,2", "--c=1", "-.5,2"]) == [
        *("--a=-1,b", "-x,1", "--", "-1,2", "--c=1", "-.5,2")
    ]


@pytest.mark.parametrize(
    ("written", "groups"),
    [
        (["0.0", "1.0", "2.0"], "0,1,2"),
        (["0", "1", "2"], "0.0,1.0,2.0"),
        (["TRUE", "FALSE", "TRUE"], "True,False"),
        (["1", "0", "1"], "True,False"),
        (["0.50", "1e1", "-2.0"], "0.5,10,-2"),
        ([str(2**53), str(2**53 + 1), str(2**53)], f"{2**53},{2**53 + 1}"),
    ],
)
def test_labels_that_read_as_numbers_are_compared_by_value(
    written: list[str], groups: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "x.csv").write_text("age,g\n" + "".join(f"{20 + k},{written[k % 3]}\n" for k in range(60)))
    command = ["--column", "age", "--by", "g", "--bounds", "0", "100", "--seed", "1", "--epsilon", "1e3"]
    found = json_of(["group-means", "x.csv", *command, "--groups", groups], capsys)
    table = json_of(["table", "x.csv", "--levels", f"g={groups}", "--seed", "1", "--epsilon", "1e3"], capsys)
    bars = ["--column", "g", "--categories", groups, "--seed", "1", "--epsilon", "1e3"]
    counts = json_of(["histogram", "x.csv", *bars], capsys)
    sizes = [round(row["rows"]) for row in found["group_means"]]
    assert sizes == [round(cell["count"]) for cell in table["cells"]]
    assert sizes == [round(row["count"]) for row in counts["categories"]]
    assert sum(sizes) == 60 and 0 not in sizes
