"""Rows of delimited text: what an entry is depends on it alone, and blocks add up to the rows in memory."""

from __future__ import annotations

import csv
import gc
import io
import lzma
import tempfile
import zlib
from typing import IO

import numpy as np
import pandas as pd
import pytest

from dpstats.data import delimited
from dpstats.data.delimited import TextFormat, TextRows, read_delimited, some
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.groups import GroupMeans
from dpstats.means import ClippedMean, SparseMean
from dpstats.mechanisms import Histogram
from dpstats.regression import PrivateLinearRegression
from dpstats.tables import ContingencyTable


def read(content: str, columns: list[str] | None = None, **options: object) -> TextRows:
    return read_delimited(io.BytesIO(content.encode()), "x.csv", columns, **options)  # type: ignore[arg-type]


def numbers(content: str, column: str = "a", **options: object) -> list[float]:
    return read(content, [column], **options).frame()[column].tolist()


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few rows, and a temporary file for more than one of them."""
    monkeypatch.setattr(delimited, "_TEXT_ENTRIES", 12)
    monkeypatch.setattr(delimited, "_ENTRIES", 30)
    monkeypatch.setattr(delimited, "_IN_MEMORY", 100)


def table(n: int) -> tuple[str, np.ndarray, list[str]]:
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(n, 2)), [["u", "v,w", 'x"y', ""][i] for i in rng.integers(4, size=n)]
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(["a", "other", "b", "label"])
    writer.writerows(
        [[repr(x), "secret", repr(y), label] for (x, y), label in zip(X.tolist(), labels, strict=True)]
    )
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
    assert found.tolist() == groups.fit(X, labels).means_.tolist()
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
    one = Histogram(levels["label"], 1.0, random_state=1).release(
        read("\n".join(lines), ["label"], text=["label"])
    )
    assert (
        one.counts.tolist() == Histogram(levels["label"], 1.0, random_state=1).release(labels).counts.tolist()
    )


@pytest.mark.usefixtures("small_blocks")
def test_text_is_no_number_and_rows_have_no_order() -> None:
    rows = read(table(20)[0], ["a", "label"], text=["label"])
    with pytest.raises(InvalidData, match="got the column 'label' of text"):
        ClippedMean(bounds=(0, 1), random_state=1).fit(rows)
    with pytest.raises(InvalidData, match="order of the rows"):
        SparseMean(n_nonzero=1, clip=1.0, std=1.0, split=True).fit(rows.having(["a"]))
    with pytest.raises(InvalidData, match="got none of the name 'c'"):
        rows.having(["c"])


@pytest.mark.parametrize("other", ["1", "secret-free", "", "NA", "1e400", "0x1f", "True", "1_0", "١"])
def test_an_entry_is_what_it_is_whatever_the_others_are(other: str) -> None:
    words = [
        "1",
        "01",
        " 2 ",
        "-3e2",
        "",
        "NA",
        "nan",
        "<NA>",
        "inf",
        "true",
        "FALSE",
        "9007199254740993",
    ]
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
    form = TextFormat(missing=frozenset(["-9", "k. A."]))
    assert np.array_equal(numbers("a\n-9\n-9.0\nk. A.\n", form=form), [np.nan, -9, np.nan], equal_nan=True)
    assert np.array_equal(numbers("a\n-9\n1\n", form=form), [np.nan, 1], equal_nan=True)
    rows = read("a\nNA\nk. A.\n", ["a"], text=["a"], form=form).frame()
    assert rows["a"].tolist() == ["NA", ""]


def test_lines_that_are_short_or_blank() -> None:
    # What is not there is missing; a line without anything is no row.
    rows = read("a,b\n1,2\n\n3\n", ["a", "b"]).frame()
    assert np.array_equal(rows, [[1, 2], [3, np.nan]], equal_nan=True)
    assert read("a,b\n", ["b"]).shape == (0, 1)
    assert ClippedMean(bounds=(0, 1), random_state=0).fit(read("a\n0\n1\n", ["a"])).plan_.n_samples == 2


@pytest.mark.usefixtures("small_blocks")
def test_refusals_name_the_line_and_nothing_on_it() -> None:
    lines = ["a,b", '1,"p\r\nq"', "", *["2,s"] * 20, "secret,t", "3,u"]
    text = "\n".join(lines) + "\n"
    with pytest.raises(
        InvalidData, match=r"^x\.csv, line 25, column 'a': an entry must be a number"
    ) as caught:
        read(text, ["a"]).frame()
    assert "secret" not in str(caught.value) and caught.value.__context__ is None
    with pytest.raises(InvalidData, match=r"line 4: a table must have a name .* got 3 values and 2 names"):
        read("a,b\n1,2\n3,4,\n5,6,secret\n", ["a"]).frame()
    assert read("a,b\n1,1\n\n2,1\nNA,1\n", ["a"]).unusable == (5, "a")
    for text in ('a\n"b\n', 'a\n"b"c\n', "a\n" + "1" * 200_000 + "\n"):
        with pytest.raises(
            InvalidData, match=r"x\.csv, line [23]: a quote that is not closed .*131,072"
        ) as caught:
            read(text, ["a"])
        assert caught.value.__context__ is None
    with pytest.raises(
        InvalidData, match=r"x\.csv is no text in utf-8 beyond line \d+: declare its encoding"
    ) as caught:
        read_delimited(io.BytesIO(b"a\n1\n\xff\n"), "x.csv", ["a"])
    assert caught.value.__context__ is None


def test_columns() -> None:
    # All: whether a column is of numbers is not read off its rows.
    assert read("a,c,d\n1,,true\n2,4,false\n").columns == ["a", "c", "d"]
    assert read("a,a,\n1,2,3\n").columns == ["a", "a.1", "column 3"]
    with pytest.raises(InvalidParameter, match=r"columns must name columns of x\.csv \('a', ' b'\), got 'b'"):
        read("a, b\n1,2\n", ["b"])
    with pytest.raises(InvalidParameter, match="columns must name each column once"):
        read("a,b\n1,2\n", ["a", "a"])
    with pytest.raises(InvalidData, match="more than one column of a name"):
        read("a,a\n1,2\n", ["a"])
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
    assert rows.unusable == (3, "v")
    assert read_delimited(io.BytesIO(b"v,w\n1,2\n\n3,4\n"), "it", ["v"], form=TextFormat()).shape == (2, 1)


@pytest.mark.parametrize("kind", [lzma.LZMAError, zlib.error, RuntimeError])
def test_whatever_a_packed_file_says_is_not_repeated(kind: type[Exception]) -> None:
    class Damaged(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            raise kind("secret")

        read = read1

    with pytest.raises(InvalidData, match=r"^it cannot be read beyond line 0$"):
        read_delimited(Damaged(b"v\n1\n"), "it", ["v"], form=TextFormat())


def test_without_names_all_columns_are_read_and_a_word_is_refused() -> None:
    with pytest.raises(InvalidData, match=r"line 3, column 'b': an entry must be a number"):
        read("a,b\n1,2\n1,x\n").frame()
