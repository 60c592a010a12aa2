"""The files of the commands: what cannot be read or written is one line, before anything is charged."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpstats.cli import main
from dpstats.cli.files import as_json, keep_apart, opened, read_table, reading
from dpstats.errors import DPStatsError, InvalidParameter
from tests.cli.commands import AGE, json_of, refused


def test_unreadable_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mean", str(tmp_path / "none.csv"), *AGE]) == 2
    assert "none.csv" in capsys.readouterr().err
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    assert main(["mean", str(empty), *AGE]) == 2
    assert "empty.csv is not a readable CSV or Parquet file" in capsys.readouterr().err


def test_parquet_files_are_read_as_such(
    table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pd, "read_parquet", pd.read_csv)
    path = table.rename(table.with_suffix(".parquet"))
    assert json_of(["mean", str(path), *AGE], capsys)["n_samples"] == 500


GRID = ["--grid", '{"n": [50], "d": [1]}', "--reps", "2"]
TABLES = {
    "empty": (b"", "x.csv is not a readable CSV or Parquet file with a header\n"),
    "no rows": (b"age,name\n", "x.csv: Found array with 0 sample(s)"),
    "one row": (b"age,name\n1,secret\n", "x.csv: X must have at least 2 rows, got n_samples = 1"),
    "missing entry": (b"age,name\n1,secret\n,secret\n", "x.csv: Input X contains NaN or infinity"),
    "missing option": (b"age\n1\ninf\n", "declare --missing center"),
    "text": (b"age\n1\nsecret\n", "x.csv: X must be a 2-d table of numbers: at least one column holds text"),
    "bytes": (bytes(range(256)) * 9, "x.csv is not a readable CSV or Parquet file"),
    "a long line": (b"age\n1\n2,secret\n", "x.csv is not a readable CSV or Parquet file"),
    "names of rows": (b"age,name\n1,2,3\n4,5,6\n7,8,9\n", "a name in its header for every value of a line"),
    "words for rows": (b"age\nsecret,3\nb,5\n", "a name in its header for every value of a line"),
    "semicolons": (b"age;b\n1;2\n3;4\n", "--column must name columns of x.csv ('age;b'), got 'age'"),
    "spaces": (b"a, age\n1,2\n3,4\n", "x.csv ('a', ' age'), got 'age'"),
    "a name of two lines": (b'"a\nge",b\n1,2\n3,4\n', r"('a\nge', 'b'), got 'age'"),
    "many names": (b",".join(b"c%d" % j for j in range(99)), "'c19', ... 79 more), got 'age'"),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_that_cannot_be_used(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, message = TABLES[name]
    (folder / "x.csv").write_bytes(content)
    assert message in refused(["mean", "x.csv", *AGE, "--budget", "b.db"], capsys)


def test_files_of_other_commands_are_kept_apart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "cov.csv").write_text("1\n")
    test = ["--mean", "0", "--cov", "cov.csv", "--json", "cov.csv"]
    for arguments, message in (
        (["identity-test", "people.csv", "--column", "age", *test], "--cov and --json must be different"),
        (
            ["plan", "identity-test", "--rows", "9", "--columns", "1", *test],
            "--cov and --json must be different",
        ),
        (["simulate", "mean-rate", *GRID, "--out", "r", "--json", "r"], "--out and --json must be different"),
        (["simulate", "mean-rate", *GRID, "--out", "r", "--report", "./r"], "--out and --report must be"),
        (["simulate", "mean-rate", *GRID, "--report", "r", "--json", "r"], "--report and --json must be"),
        (
            ["audit", "people.csv", "--epsilon", "1", "--json", "people.csv"],
            "file and --json must be different",
        ),
        (["simulate", "mean-rate", *GRID, "--out", "b.db"], "--out b.db is not the file of a study"),
        (
            ["simulate", "mean-rate", *GRID, "--report", "no/r"],
            "--report must name a file that can be written",
        ),
        (
            ["demo", "--out", "cov.csv"],
            "--out must name a folder, there or to be made, got 'cov.csv' (File exists",
        ),
    ):
        assert message in refused(arguments, capsys)
    assert (folder / "cov.csv").read_text() == "1\n"


def test_a_device_may_serve_twice(folder: Path) -> None:
    from argparse import Namespace

    keep_apart(Namespace(report=os.devnull, json=os.devnull), "report", "json")
    keep_apart(Namespace(report=None, json="-"), "report", "json", "plot")
    with opened("--json", os.devnull) as write:
        assert write is not None
        write("text")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full disk")
def test_a_full_disk_takes_no_answer_away(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mean", "people.csv", *AGE, "--json", "/dev/full"]) == 2
    captured = capsys.readouterr()
    assert "Private clipped mean" in captured.out
    assert captured.err == "dpstats mean: --json '/dev/full' cannot be written (No space left on device)\n"


def test_a_parser_that_quotes_the_file_is_not_repeated(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # gzip shows the first two bytes of what it does not know, in an OSError.
    (folder / "people.csv").rename("people.csv.gz")
    message = "people.csv.gz is not a readable CSV or Parquet file with a header\n"
    assert refused(["mean", "people.csv.gz", *AGE], capsys).endswith(message)


def test_columns_of_mixed_types_give_no_warning(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # pandas reads in chunks of 256 kB or more, and warns where they differ.
    (folder / "x.csv").write_text("age,other\n" + "1,2\n" * 300_000 + "secret,secret\n")
    assert "at least one column holds text" in refused(["mean", "x.csv", *AGE], capsys)


def test_a_separator_that_ends_the_lines_names_no_column(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "x.csv").write_text("age,b\n" + "10,20,\n" * 2000)
    assert list(read_table(Path("x.csv"), ["age"])["age"].unique()) == [10]


def test_without_a_parquet_engine(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(path: object, **options: object) -> None:
        raise ImportError("Unable to find a usable engine")

    monkeypatch.setattr(pd, "read_parquet", missing)
    (folder / "x.parquet").write_bytes(b"PAR1")
    message = "reading x.parquet needs a Parquet reader: pip install pyarrow"
    assert message in refused(["mean", "x.parquet", *AGE, "--budget", "b.db"], capsys)
    # The other suffixes have readers too, of other names.
    monkeypatch.setattr(pd, "read_csv", missing)
    assert "needs another package (Unable to find" in refused(["mean", "people.csv", *AGE], capsys)


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
    for name, message in (
        ("cut.parquet", "cut.parquet is not a readable CSV or Parquet file with a header\n"),
        ("fake.parquet", "fake.parquet is not a readable CSV or Parquet file with a header\n"),
        ("nothing.parquet", "nothing.parquet: "),
    ):
        assert message in refused(["mean", name, *AGE, "--budget", "b.db"], capsys)
    assert "('age', 'name'), got 'height'" in refused(
        ["mean", "people.parquet", "--column", "height"], capsys
    )


def test_json_has_no_infinite_numbers() -> None:
    facts = {
        "statistic": np.inf,
        "range": (-np.inf, np.nan, 1.5),
        "rows": [{"n": 3, "label": "inf", "reject": True}],
    }
    read = json.loads(as_json(facts), parse_constant=pytest.fail)
    assert read == {
        "statistic": "Infinity",
        "range": ["-Infinity", "NaN", 1.5],
        "rows": [{"n": 3, "label": "inf", "reject": True}],
    }
    assert float(read["statistic"]) == np.inf


def test_two_columns_of_a_name_in_a_csv_are_refused(folder: Path) -> None:
    twice = folder / "twice.csv"
    twice.write_text("age,age,,b\n1,2,3,4\n3,4,5,6\n")
    with pytest.raises(
        InvalidParameter, match=r"twice\.csv has more than one column of a name given as --column"
    ):
        read_table(twice, ["age"])
    assert read_table(twice, ["b"])["b"].tolist() == [4, 6]
    # Where all columns are meant there is nothing to confuse, and each keeps a name of its own.
    assert read_table(twice, None).columns.is_unique and read_table(twice, None).shape == (2, 4)
    twice.write_text("age,age.1\n1,2\n")
    assert read_table(twice, ["age"])["age"].tolist() == [1]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_a_table_from_a_pipe(folder: Path) -> None:
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    for text, columns, error in (("age,b\n1,2\n", ["b"], None), ("age,age\n1,2\n", ["age"], "more than one")):
        writer = threading.Thread(target=pipe.write_text, args=(text,))
        writer.start()
        if error is None:
            assert read_table(pipe, columns, text=["b"])["b"].tolist() == ["2"]
        else:
            with pytest.raises(InvalidParameter, match=error):
                read_table(pipe, columns)
        writer.join()


def test_text_is_what_stands_in_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # pandas would make numbers of these, and of the words for "missing" entries without a value.
    words, numbers = ["01", "NA", "", "1.0"], [1.0, np.nan, 3.0, 4.0]
    pd.DataFrame({"code": words, "age": numbers}).to_csv("codes.csv", index=False)
    frame = read_table(Path("codes.csv"), ["age", "code"], text=["code"])
    assert list(frame.columns) == ["age", "code"] and frame["code"].tolist() == words
    assert np.array_equal(frame["age"], numbers, equal_nan=True)
    assert read_table(Path("codes.csv"), ["code"])["code"].isna().sum() == 2
    # A row is what it is, whatever the others are.
    for rest in ("7", "x"):
        (folder / "codes.csv").write_text(f"code,age\n01,2\n{rest},3\n")
        assert read_table(Path("codes.csv"), ["code"], text=["code"])["code"].tolist() == ["01", rest]
    entries = ["01", None, 2, 2.0, True]
    table = pd.DataFrame({"code": pd.Series(entries, dtype=object)})
    monkeypatch.setattr(pd, "read_parquet", lambda path: table)
    (folder / "codes.parquet").touch()
    read = read_table(Path("codes.parquet"), ["code"], text=["code"])["code"].tolist()
    assert read == ["01", "", "2", "2.0", "True"]


def test_two_columns_of_a_name_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pd, "read_parquet", lambda path: pd.DataFrame([[1, 2]], columns=["age", "age"]))
    (folder / "x.parquet").touch()
    with pytest.raises(InvalidParameter, match=r"x\.parquet has more than one column of a name"):
        read_table(Path("x.parquet"), ["age"])


def fresh_process(arguments: list[str], stdout: object) -> subprocess.CompletedProcess[str]:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "dpstats", *arguments]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=buffered)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["mean", "people.csv", *AGE], 2, "dpstats mean: the result cannot be printed (Broken pipe)\n"),
        (["budget", "show", "b.db"], 2, "dpstats budget: the result cannot be printed (Broken pipe)\n"),
        (["mean", "--help"], 0, ""),
    ],
)
def test_a_pipe_that_nobody_reads(arguments: list[str], status: int, message: str, folder: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        result = fresh_process(arguments, write)
    finally:
        os.close(write)
    assert (result.returncode, result.stderr) == (status, message)


def test_an_answer_is_shown_whatever_the_terminal_can_show(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "x.csv").write_text("größe\n1\n2\n", encoding="utf-8")
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["mean", "x.csv", "--column", "größe", "--bounds", "0", "1", "--seed", "1"]) == 0
    terminal.seek(0)
    assert r"gr\xf6\xdfe" in terminal.read()


def test_reading_lets_its_own_refusals_pass(folder: Path) -> None:
    with pytest.raises(InvalidParameter, match="mine"), reading(Path("people.csv"), "other"):
        raise InvalidParameter("mine")
    with pytest.raises(InvalidParameter, match=r"^other$"), reading(Path("people.csv"), "other"):
        raise DPStatsError("secret")
