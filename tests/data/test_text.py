"""Rows of delimited text: what an entry is depends on it alone, and blocks add up to the rows in memory."""

from __future__ import annotations

import bz2
import csv
import gc
import gzip
import io
import lzma
import random
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import pytest

from dpstats.cli import main
from dpstats.data.batches import Part
from dpstats.data.duckdb_rows import supports_duckdb
from dpstats.data.rows import check_codes
from dpstats.data.text import Scan, TextFormat, TextRows, of_text_file, read_delimited, scan, some
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.groups import GroupMeans
from dpstats.means import ClippedMean, SparseMean
from dpstats.mechanisms import Histogram
from dpstats.regression import PrivateLinearRegression
from dpstats.tables import ContingencyTable
from tests.cli.commands import json_of


def read(content: str, columns: list[str] | None = None, **options: object) -> TextRows:
    return read_delimited(io.BytesIO(content.encode()), "x.csv", columns, **options)  # type: ignore[arg-type]


def numbers(content: str, column: str = "a", **options: object) -> list[float]:
    return read(content, [column], **options).frame()[column].tolist()


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few rows, and a temporary file for more than one of them."""
    monkeypatch.setattr("dpstats.data.text._TEXT_ENTRIES", 12)
    monkeypatch.setattr("dpstats.data.text._ENTRIES", 30)
    monkeypatch.setattr("dpstats.data.text._IN_MEMORY", 100)


def table(n: int) -> tuple[str, np.ndarray, list[str]]:
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(n, 2)), [["u", "v,w", 'x"y', ""][i] for i in rng.integers(4, size=n)]
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(["a", "other", "b", "label"])
    writer.writerows([[repr(x), "secret", repr(y), label] for (x, y), label in zip(X.tolist(), labels, strict=True)])
    return lines.getvalue(), X, labels


@pytest.mark.usefixtures("small_blocks")
def test_releases_are_those_of_the_rows_in_memory() -> None:
    text, X, labels = table(101)
    rows = read(text, ["a", "b", "label"], text=["label"])
    assert rows.shape == (101, 3) and rows.frame()["label"].tolist() == labels
    assert np.array_equal(rows.frame()[["a", "b"]], X)
    two = rows.having(["a", "b"])
    clipped = ClippedMean(bounds=(-1, 2), random_state=1)
    assert clipped.fit(two).mean_.tolist() == clipped.fit(X).mean_.tolist()
    groups = GroupMeans(groups=["u", "v,w", 'x"y', ""], bounds=(-1, 2), random_state=1)
    found = groups.fit(rows.having(["a", "b"], "label")).means_
    # A mean that noise hides is NaN in both.
    np.testing.assert_array_equal(found, groups.fit(X, labels).means_, strict=True)
    assert np.isfinite(found[:2]).all()
    line = PrivateLinearRegression(x_bounds=(-1, 2), y_bounds=(-3, 3), random_state=1)
    found = line.fit(rows.having(["a"], "b")).params_
    assert found.tolist() == line.fit(X[:, :1], X[:, 1]).params_.tolist()


@pytest.mark.usefixtures("small_blocks")
def test_counts_are_those_of_the_rows_in_memory() -> None:
    text, _, labels = table(101)
    half = ["1" if i % 3 else "" for i in range(101)]
    lines = [f"{line},{word}" for line, word in zip(text.splitlines(), ["half", *half], strict=True)]
    rows = read("\n".join(lines), ["label", "half"], text=["label", "half"])
    levels = {"half": ["", "1"], "label": ["u", "v,w", 'x"y', ""]}
    model = ContingencyTable(levels=levels, random_state=1)
    found = model.fit(rows).counts_
    frame = pd.DataFrame({"label": labels, "half": half})
    assert found.tolist() == model.fit(frame).counts_.tolist()
    one = Histogram(levels["label"], 1.0, random_state=1).release(read("\n".join(lines), ["label"], text=["label"]))
    assert one.counts.tolist() == Histogram(levels["label"], 1.0, random_state=1).release(labels).counts.tolist()


@pytest.mark.usefixtures("small_blocks")
def test_text_is_no_number_and_rows_have_no_order() -> None:
    rows = read(table(20)[0], ["a", "label"], text=["label"])
    with pytest.raises(InvalidData, match="got the column 'label' of text"):
        ClippedMean(bounds=(0, 1), random_state=1).fit(rows)
    with pytest.raises(InvalidData, match="order of the rows"):
        SparseMean(n_nonzero=1, clip=1.0, std=1.0, split=True).fit(rows.having(["a"]))
    with pytest.raises(InvalidData, match="got one without"):
        rows.having(["c"])


@pytest.mark.parametrize("other", ["1", "secret-free", "", "NA", "1e400", "0x1f", "True", "1_0", "١"])
def test_an_entry_is_what_it_is_whatever_the_others_are(other: str) -> None:
    words = ["1", "01", " 2 ", "-3e2", "", "NA", "nan", "<NA>", "inf", "true", "FALSE", "9007199254740993"]
    expected = [1, 1, 2, -300, np.nan, np.nan, np.nan, np.nan, np.inf, 1, 0, 2.0**53]
    alone = [numbers(f"a,b\n{word},1\n")[0] for word in words]
    assert np.array_equal(alone, expected, equal_nan=True)
    try:
        together = numbers("a,b\n" + "".join(f"{word},1\n" for word in [*words, other]))
    except InvalidData:
        assert other in ("secret-free", "0x1f", "1_0", "١")
    else:
        assert np.array_equal(together[:-1], expected, equal_nan=True)


def test_words_that_mean_missing() -> None:
    form = TextFormat(missing=check_codes(["-9", "k. A."]))
    assert np.isnan(numbers("a\n-9\n-9.0\nk. A.\n", form=form)).all()
    assert np.array_equal(numbers("a\n-9\n1\n", form=form), [np.nan, 1], equal_nan=True)
    rows = read("a\nNA\nk. A.\n", ["a"], text=["a"], form=form).frame()
    assert rows["a"].tolist() == ["NA", ""]


@pytest.mark.parametrize("record", ["3", "", "3,4,5", "3,4,"])
def test_a_record_has_an_entry_for_every_name(record: str) -> None:
    rows = read(f"a,b\n1,2\n{record}\n", ["a", "b"])
    assert rows.shape == (2, 2)  # a budget is asked about this number before the entries are used
    with pytest.raises(InvalidData, match=r"as many entries as the first line has names \(2\)$"):
        rows.frame()


def test_tables_without_rows() -> None:
    assert read("a,b\n", ["b"]).shape == (0, 1)
    assert ClippedMean(bounds=(0, 1), random_state=0).fit(read("a\n0\n1\n", ["a"])).plan_.n_samples == 2


REFUSALS = {
    "a word": ("a,b\n1,2\nsecret,t\n3,u\n", r"^x\.csv, column 'a': an entry must be a number"),
    "an open quote": ('a\n"b\n', "a quote is not closed"),
    "text after a quote": ('a\n"b"c\n', "an entry with a quote must be quoted"),
    "a quote within": ('a\nb"c"d\n', "an entry with a quote must be quoted"),
    "a long record": ("a\n" + "1" * (1 << 20) + "1\n", "at most 1,048,576 characters"),
    "a long quoted record": ('a\n"' + "1\n" * (1 << 20) + '"\n', "at most 1,048,576 characters"),
    "a backslash": ("a,b\n1,x\\\n", "a backslash before a quote or as its last character"),
    "a backslash before a separator": ("a,b\nx\\,1\n", "a backslash before a quote or as its last character"),
    "a backslash before a quote": ('a,b\n"x\\",1\n', "a backslash before a quote or as its last character"),
    "a backslash before a quote within": ('a,b\n"x\\""",1\n', "a backslash before a quote or as its last character"),
    "the ends of an old Macintosh": ("a\r1\r2\r", "its first line must end in a line feed"),
    "a first record that begins with a line feed": ("a\r\n1\r2\r", "must be within quotes"),
    "a return within a quoted record": ('a,b\r\n1\r,"2"\r\n', "must be within quotes"),
    "a name twice": ("a,a\n1,2\n", "different names of columns, got 'a' twice"),
}


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_show_no_entry_and_no_place(name: str) -> None:
    text, words = REFUSALS[name]
    with pytest.raises(InvalidData, match=words) as caught:
        read(text, ["a"]).frame()
    assert "secret" not in str(caught.value) and caught.value.__context__ is None
    assert "line 2" not in str(caught.value) and "line 3" not in str(caught.value)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_bytes_that_are_no_text_are_refused(encoding: str, end: str) -> None:
    bad = {"utf-8": b"\xe9", "cp1252": b"\x81", "utf-16": b"\x00\xdc"}[encoding]
    for place in (1, 2, 9, 1500, 4000):
        lines = ["name,x" + end, *[f"\u00e9{i}\u20ac,1{end}" for i in range(5000)]]
        parts = "".join(lines[:place]).encode(encoding), "".join(lines[place:]).encode(encoding)
        text = parts[0] + bad + (parts[1][2:] if encoding == "utf-16" else parts[1])
        with pytest.raises(InvalidData, match=rf"^x\.csv: it cannot be read as {encoding};") as caught:
            read_delimited(io.BytesIO(text), "x.csv", ["x"], form=TextFormat(encoding=encoding))
        assert caught.value.__context__ is None


ANY_TEXT = ["\r", "\n", "\r\n", "\r1,north\r", "\n1,north\n", "\r\n1,north\r\n", "\0", "\x0b", "\x85", "\u2028", ","]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("text", ANY_TEXT)
def test_a_record_is_one_row_whatever_its_entries_are(text: str, end: str, tmp_path: Path) -> None:
    # csv.writer quotes only the characters of the line ending that it was given.
    path = tmp_path / "x.csv"
    rows = [["1", "a"], ["2", "b" + text * 1000], ["3", text], ["4", "c"]]
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator=end).writerows([["a", "g"], *rows])
    assert entries(of_text_file(path).having(["a"], "g"))[1] == [row[1] for row in rows]
    assert ClippedMean(bounds=(0, 4), random_state=0).fit(of_text_file(path).having(["a"])).plan_.n_samples == 4


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("pack", ["none", "gzip", "bz2", "xz", "zip"])
def test_encodings_and_compression_are_recognized(encoding: str, pack: str, tmp_path: Path) -> None:
    content = "größe,g\n1,x\n2,é\n".encode(encoding)
    path = tmp_path / "x.csv"
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("x.csv", content)
        archive.writestr("__MACOSX/._x.csv", b"secret")
    packed = {"none": bytes, "gzip": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
    path.write_bytes(packed[pack](content) if pack != "zip" else (tmp_path / "x.zip").read_bytes())
    assert entries(of_text_file(path).having(["größe"], "g")) == ([["1.0"], ["2.0"]], ["x", "é"])


def test_a_zip_file_of_two_tables_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.csv", "w") as archive:
        archive.writestr("a.csv", "a\n1\n")
        archive.writestr("b.csv", "a\n1\n")
    with pytest.raises(InvalidData, match="must contain one table"):
        of_text_file(tmp_path / "x.csv")


def test_columns() -> None:
    # All: whether a column is of numbers is not read off its rows.
    assert read("a,c,d\n1,,true\n2,4,false\n").columns == ["a", "c", "d"]
    assert read("a,,\n1,2,3\n").columns == ["a", "column 2", "column 3"]
    with pytest.raises(InvalidParameter, match="columns must"):
        read("a, b\n1,2\n", ["b"])
    with pytest.raises(InvalidParameter, match="columns must"):
        read("a,b\n1,2\n", ["a", "a"])
    with pytest.raises(InvalidData, match="first line must have the names"):
        read("\n1\n", ["a"])
    assert some([f"c{j}" for j in range(22)]).endswith("'c19', ... 2 more")


@pytest.mark.usefixtures("small_blocks")
def test_the_temporary_file_ends_with_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    files: list[IO[bytes]] = []
    make = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: files.append(make()) or files[-1])
    rows = read(table(50)[0], ["a", "b"])
    (file,) = files
    assert rows.shape == (50, 2) and not file.closed
    del rows
    gc.collect()
    assert file.closed


def test_a_blank_line_of_a_single_column_is_a_row_whose_entry_is_missing() -> None:
    rows = read_delimited(io.BytesIO(b"v\n1\n\n3\n"), "it", ["v"], form=TextFormat())
    assert rows.shape == (3, 1) and np.isnan(rows.frame()["v"].to_numpy()).tolist() == [False, True, False]


@pytest.mark.parametrize("kind", [lzma.LZMAError, zlib.error, RuntimeError])
def test_whatever_a_packed_file_says_is_not_repeated(kind: type[Exception]) -> None:
    class Damaged(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            raise kind("secret")

        read = read1

    with pytest.raises(InvalidData, match=r"^it: it cannot be read completely$"):
        read_delimited(Damaged(b"v\n1\n"), "it", ["v"], form=TextFormat())


def test_without_names_all_columns_are_read_and_a_word_is_refused() -> None:
    with pytest.raises(InvalidData, match=r"x\.csv, column 'b': an entry must be a number"):
        read("a,b\n1,2\n1,x\n").frame()


PIECES = ["1", "-2.5", " 3 ", "", "NA", '"4"', '"5,6"', '"a""b"', '"x\ny"', "é", "true", "x y", '"', "1_0", ","]
ENDS = ["\n", "\n", "\n", "\r\n", "\r", "\n\n", ""]
TEXTS = {
    "plain": b"a,g\n1,x\n2,y\n",
    "CRLF": b"a,g\r\n1,x\r\n2,y\r\n",
    "a mark of UTF-8": b"\xef\xbb\xbfa,g\n1,x\n2,y\n",
    "no last line end": b"a,g\n1,x\n2,y",
    "quoted": b'"a","g"\n"1","x"\n"2","y"\n',
    "quotes in quotes": b'"a","g"\n"1","x"\n2,"y"',
}


def entries(rows: Any) -> tuple[list[list[str]], list[str]]:
    """Return the numbers, spelled out, and the words."""
    found: tuple[list[list[str]], list[str]] = ([], [])

    def work(part: Part) -> dict[str, np.ndarray]:
        found[0].extend([list(map(repr, row)) for row in part.X.tolist()])
        found[1].extend([entry for column in part.beside for entry in column])
        return {"rows": np.array([len(part.X)])}

    rows.total(work)
    return found


def outcome(rows: Any) -> Any:
    try:
        return entries(rows)
    except InvalidData:
        return "refused"


def compare(path: Path, beside: str | None = "g") -> bool:
    """Return whether DuckDB read the file; its rows are those of the definition."""
    try:
        rows = of_text_file(path).having(["a"], beside)
    except InvalidData:
        return False
    quick = rows._quick_rows()
    if quick is not None:
        assert outcome(quick) == outcome(rows._defined_rows())
    return quick is not None


@pytest.mark.parametrize("name", TEXTS)
def test_a_file_has_one_answer(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(TEXTS[name])
    assert entries(of_text_file(path).having(["a"], "g")) == ([["1.0"], ["2.0"]], ["x", "y"])
    compare(path)
    packed = tmp_path / "x.csv.gz"
    packed.write_bytes(gzip.compress(TEXTS[name]))
    assert entries(of_text_file(packed).having(["a"], "g")) == ([["1.0"], ["2.0"]], ["x", "y"])
    found = json_of(["mean", str(path), "--column", "a", "--bounds", "0", "4", "--seed", "1"], capsys)
    expected = ClippedMean(bounds=(0, 4), epsilon=1.0, delta=0.0, random_state=1).fit([[1.0], [2.0]])
    assert found["columns"][0]["mean"] == expected.mean_[0]


REFUSED = {
    "a word": b"a,g\n1,x\n%snone,y\n",
    "a bad byte": b"a,g\n1,x\n%s2,\xff\n",
    "a quote that is not closed": b'a,g\n1,x\n%s2,"y\n',
    "a long line": b"a,g\n1,x\n%s2,y,z\n",
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("rows", [0, 100_000])
def test_what_cannot_be_read_is_refused_wherever_it_stands(name: str, rows: int, tmp_path: Path) -> None:
    # More bytes than DuckDB or Python read at once.
    path = tmp_path / "x.csv"
    path.write_bytes(REFUSED[name] % (b"1,x\n" * rows))
    for missing in ("error", "center"):
        with pytest.raises(InvalidData) as caught:
            ClippedMean(bounds=(0, 4), missing=missing, random_state=1).fit(of_text_file(path).having(["a"]))
        assert "line" not in str(caught.value).replace("the first line has names", "")
        assert caught.value.__context__ is None and "none" not in str(caught.value)


def test_every_container_has_one_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, text = tmp_path / "x.csv", "a\ntrue\ntrue\ntrue\nfalse\n"
    path.write_text(text)
    clipped = ClippedMean(bounds=(0, 1), epsilon=100, random_state=1)
    command = ["mean", str(path), "--column", "a", "--bounds", "0", "1", "--epsilon", "100", "--seed", "1"]
    found = [
        clipped.fit(path).mean_[0],
        clipped.fit(pd.read_csv(path)).mean_[0],
        json_of(command, capsys)["columns"][0]["mean"],
    ]
    assert found[0] == found[1] == found[2] == pytest.approx(0.75, abs=0.05)
    levels = {"a": [True, False]}
    table = ContingencyTable(levels=levels, epsilon=100, random_state=1)
    assert table.fit(path).counts_.round().tolist() == [3, 1]
    path.write_text("a,k\n1,1\n2,01\n3,2\n")
    groups = GroupMeans(by="k", groups=[1, 2], bounds=(0, 4), epsilon=100, random_state=1)
    assert groups.fit(path).counts_.tolist() == groups.fit(pd.read_csv(path)).counts_.tolist()


def test_text_among_numbers_is_refused_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a\n1\ntext\n")
    for given in (path, pd.read_csv(path)):
        for missing in ("error", "center"):
            with pytest.raises(InvalidData):
                ClippedMean(bounds=(0, 1), missing=missing, random_state=1).fit(given)
    for name in (str(path), "-"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
        command = ["mean", name, "--column", "a", "--bounds", "0", "1", "--missing", "center", "--seed", "1"]
        assert main(command) == 3
        assert "an entry must be a number, true, false or missing" in capsys.readouterr().err


def random_text(draw: random.Random) -> str:
    end = draw.choice(ENDS[:4])
    lines = ["a,b,g"]
    for _ in range(draw.randint(0, 6)):
        width = draw.choice([3] * 12 + [2, 4, 1])
        lines.append(",".join(draw.choice(PIECES) for _ in range(width)))
    text = "".join(line + (end if draw.random() < 0.95 else draw.choice(ENDS)) for line in lines)
    for _ in range(draw.choice([0, 0, 0, 1, 2])):
        place = draw.randint(5, len(text))
        text = text[:place] + draw.choice(['"', " ", "\r", "\n", ",", '""', "\t", "x", "\0", "\ufeff"]) + text[place:]
    return text


def test_duckdb_reads_what_is_defined(tmp_path: Path) -> None:
    # Part of a comparison of 2,300 texts, which found that pandas has NaN for an empty word.
    pytest.importorskip("duckdb")
    draw, read = random.Random(1), 0
    for _ in range(100):
        path = tmp_path / "x.csv"
        path.write_bytes(random_text(draw).encode())
        read += compare(path)
    assert read >= 10


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"a_b\n1\n", Scan(True, 1)),
        (b"a\n1_0\n", Scan(True, 1, foreign=True)),
        (b"a\nx,\xff\n", Scan(False)),
        (b"a\n\xc3", Scan(False)),
        (b"a\r\n1\r\n", Scan(True, 1)),
        (b"a\r\n1\n", Scan(False)),
        (b"a\n1\r\n", Scan(False)),
        (b"a\r1\r", Scan(False)),
        (b"a\n1\n\n2\n", Scan(False)),
        (b'a\n"1\n"\n2', Scan(True, 2, quoted=True)),
        (b'a\n"1""2"\n', Scan(True, 1, quoted=True)),
        (b'a\n1"2"\n', Scan(False)),
        (b'a\n"1\n', Scan(False)),
        (b"a\n1\\\n", Scan(False)),
        (b"a\n1\\2\n", Scan(True, 1)),
        (b"a\n1,2\n", Scan(False)),
        (b'a\n "1"\n', Scan(False)),
        (b'a\n"1" \n', Scan(False)),
        (b"a\n\x00\n", Scan(False)),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_bytes_that_two_readers_see_in_different_ways(
    text: bytes, found: Scan, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpstats.data.text._BYTES", size)
    assert scan(io.BytesIO(text), 1) == found


def test_without_duckdb_the_rows_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,g\n1,x\n2,y\n")
    with monkeypatch.context() as patch:
        patch.setattr("dpstats.data.text.find_spec", lambda name: None)
        rows = of_text_file(path)
        assert rows.expression(0) is None
        assert entries(rows.having(["a"], "g")) == ([["1.0"], ["2.0"]], ["x", "y"])


def test_a_damaged_packed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    whole = gzip.compress(b"a\n" + b"1\n" * 9999)
    for content in (whole[:-9], whole[:20] + b"\0\0\0" + whole[23:]):
        path.write_bytes(content)
        with pytest.raises(InvalidData):
            entries(of_text_file(path))


def test_text_is_read_without_a_version_of_duckdb_that_is_not_supported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a\n1\n2\n")

    def refuse() -> None:
        raise InvalidData("duckdb must be newer")

    assert supports_duckdb()
    monkeypatch.setattr("dpstats.data.duckdb_rows.check_duckdb", refuse)
    assert not supports_duckdb()
