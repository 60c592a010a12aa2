"""Rows of several files: the release of the same rows in one table, whatever the files are cut and typed like."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.data import Column, Schema, files, open_source
from dpstats.data.file_rows import FileRows
from dpstats.data.values import NO_NUMBER
from dpstats.errors import InvalidData
from dpstats.groups import GroupMeans
from dpstats.means import ClippedMean
from dpstats.privacy import PrivacyBudget
from dpstats.quantiles import PrivateQuantile
from dpstats.regression import PrivateLinearRegression
from dpstats.tables import ContingencyTable

pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N, FILES = 2000, 200
RNG = np.random.default_rng(3)
ROWS = pd.DataFrame(
    {"a": RNG.normal(size=N), "k": RNG.integers(0, 3, N), "g": RNG.choice(["u", "v", "w"], N, p=[0.5, 0.3, 0.2])}
)
SEED = {"random_state": 0}
FITS: dict[str, Callable[[Any], Any]] = {
    "mean": lambda X: ClippedMean(bounds={"a": (-2, 2), "k": (0, 2)}, **SEED).fit(X).mean_,
    "median": lambda X: PrivateQuantile(0.5, bounds=(-2, 2), **SEED).fit(_columns(X, ["a"])).quantile_,
    "groups": lambda X: GroupMeans(groups=["u", "v"], by="g", bounds={"a": (-2, 2)}, **SEED).fit(X).means_,
    "numbered groups": lambda X: GroupMeans(groups=[0, 1], by="k", bounds={"a": (-2, 2)}, **SEED).fit(X).means_,
    "found groups": lambda X: (
        GroupMeans(groups="discover", by="g", bounds={"a": (-2, 2)}, epsilon=9.0, **SEED).fit(X).means_
    ),
    "table": lambda X: ContingencyTable(levels={"g": ["u", "v", "w"], "k": [0, 1, 2]}, **SEED).fit(X).counts_,
    "regression": lambda X: (
        PrivateLinearRegression(x_bounds=(0, 2), y_bounds=(-2, 2), **SEED).fit(_columns(X, ["k", "a"]), "a").params_
    ),
}


def _columns(X: Any, names: list[str]) -> Any:
    return X[names] if isinstance(X, pd.DataFrame) else open_source(X).having(names)  # type: ignore[attr-defined]


def write(folder: Path, rows: pd.DataFrame, count: int, kind: str = "parquet") -> Path:
    """Write rows as files of unequal sizes, some without a row, whose types and row groups differ."""
    folder.mkdir(parents=True)
    cuts = np.sort(np.random.default_rng(count).integers(0, len(rows) + 1, count - 1))
    for i, part in enumerate(np.split(np.arange(len(rows)), cuts)):
        some = rows.iloc[part]
        if i % 3 and some["k"].isin(range(100)).all():
            some = some.astype({"k": ["int64", "int16", "float64"][i % 3]})
        if kind == "parquet":
            some.to_parquet(folder / f"part-{i:03}.parquet", index=False, row_group_size=1 + i % 5)
        else:
            some.to_csv(folder / f"part-{i:03}.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("many") / "rows", ROWS, FILES)


@pytest.mark.parametrize("fit", FITS)
def test_two_hundred_files_are_one_table(fit: str, folder: Path) -> None:
    assert len(list(folder.iterdir())) == FILES
    np.testing.assert_array_equal(FITS[fit](folder), FITS[fit](ROWS))


@pytest.mark.parametrize("fit", FITS)
def test_text_in_several_files_is_one_table(fit: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "rows", ROWS, 5, "csv")
    # One that DuckDB does not read: numbers of the other kind, and an encoding of lines.
    path = folder / "part-003.csv"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    np.testing.assert_array_equal(FITS[fit](folder), FITS[fit](ROWS))


def test_a_list_and_a_pattern_are_the_same_table(folder: Path) -> None:
    named = sorted(folder.iterdir(), reverse=True)
    for X in (files(named), files(str(folder / "part-*.parquet"), pattern=True), files([folder])):
        np.testing.assert_array_equal(FITS["mean"](X), FITS["mean"](ROWS))
    assert files(str(folder / "part-00?.parquet"), pattern=True).shape[0] < N


def test_a_pattern_is_one_only_if_asked_for(tmp_path: Path) -> None:
    for name, value in (("x[1].parquet", 1.0), ("x1.parquet", 2.0), ("x*.parquet", 3.0)):
        pd.DataFrame({"a": [value] * 5}).to_parquet(tmp_path / name)
    for name in ("x[1].parquet", "x1.parquet", "x*.parquet"):
        found = np.concatenate([part.X.ravel() for part in files(tmp_path / name).collect()])
        assert found.tolist() == [{"x[1]": 1.0, "x1": 2.0, "x*": 3.0}[name[:-8]]] * 5
        assert open_source(tmp_path / name).shape == (5, 1)  # type: ignore[attr-defined]
    assert files(tmp_path / "x[1].parquet", pattern=True).shape == (5, 1)
    assert files(tmp_path / "x*.parquet", pattern=True).shape == (15, 1)
    with pytest.raises(InvalidData, match="a table of numbers, the path of a folder"):
        open_source(str(tmp_path / "x[12]"))


# Folders that name columns


def partition(folder: Path, rows: pd.DataFrame, by: list[str], kind: str = "parquet") -> Path:
    for words, part in rows.groupby(by, dropna=False):
        names = ["__HIVE_DEFAULT_PARTITION__" if pd.isna(word) else str(word) for word in words]
        place = folder.joinpath(*(f"{name}={word}" for name, word in zip(by, names, strict=True)))
        place.mkdir(parents=True)
        rest = part.drop(columns=by)
        if kind == "parquet":
            rest.to_parquet(place / "0.parquet", index=False)
        else:
            rest.to_csv(place / "0.csv", index=False)
    return folder


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_folders_name_columns(kind: str, tmp_path: Path) -> None:
    folder = partition(tmp_path / "of=nothing" / "rows", ROWS, ["k", "g"], kind)
    assert open_source(folder).names == ["a", "k", "g"]
    for fit in FITS.values():
        np.testing.assert_array_equal(fit(folder), fit(ROWS))
    pattern = files(str(folder / "k=*" / "g=u" / "*"), pattern=True)
    assert pattern.names == ["a", "k", "g"] and pattern.shape[0] == (ROWS["g"] == "u").sum()
    # Files that are listed are only files.
    assert files([folder / "k=0" / "g=u" / f"0.{kind}"]).names == ["a"]


def test_a_folder_may_be_of_missing_entries_and_its_words_are_those_of_text(tmp_path: Path) -> None:
    rows = ROWS.assign(k=ROWS["k"].map({0: "7", 1: "7.0", 2: None}))
    folder = partition(tmp_path / "rows", rows, ["k"])
    plain = rows.assign(k=pd.to_numeric(rows["k"]))
    for missing in ("drop", "center"):
        mean = ClippedMean(bounds={"a": (-2, 2), "k": (0, 9)}, missing=missing, **SEED)
        np.testing.assert_array_equal(mean.fit(folder).mean_, mean.fit(plain).mean_)
    os.makedirs(folder / "k=north")
    rows[["a", "g"]].to_parquet(folder / "k=north" / "0.parquet", index=False)
    with pytest.raises(InvalidData, match=NO_NUMBER):
        ClippedMean(bounds={"k": (0, 9)}, missing="drop", **SEED).fit(folder)
    counted = GroupMeans(groups=["7", "north"], by="k", bounds={"a": (-2, 2)}, **SEED).fit(folder)
    assert counted.counts_[1] > N * 0.9


def test_codes_of_missing_entries_are_those_of_every_file(tmp_path: Path) -> None:
    folder = partition(tmp_path / "rows", ROWS, ["k"])
    mean = ClippedMean(bounds={"a": (-2, 2), "k": (0, 9)}, missing="drop", missing_codes=[2], **SEED)
    np.testing.assert_array_equal(mean.fit(folder).mean_, mean.fit(ROWS).mean_)


# One row, and the others


def contents(X: Any) -> list[tuple[Any, ...]]:
    """Return all rows as the door reads them, in an order of their own."""
    rows = open_source(X).read(Schema(numbers=("a", "k"), beside=(Column("labels", "g"),), missing="drop")).whole()
    return sorted((*map(repr, x.tolist()), repr(label)) for x, label in zip(rows.X, rows.labels, strict=True))


@pytest.mark.parametrize("cut", [1, 2, 7])
@pytest.mark.parametrize(
    "other", [(np.nan, 1, "u"), (np.inf, 2, None), (1e300, 0.5, "new"), (-0.0, np.nan, "w"), (2.0**53, 2**53, "é")]
)
def test_a_row_moves_no_other_row(cut: int, other: tuple[Any, ...], tmp_path: Path) -> None:
    """The other rows stay, also if the row changes the types, the statistics and the file that it is in."""
    rows = ROWS.head(40)
    neighbor = rows.astype({"k": object}).copy()
    neighbor.loc[11] = other
    one = [*neighbor.index].index(11)
    first = contents(write(tmp_path / "first", rows, cut))
    moved = pd.concat([neighbor.drop(index=11), neighbor.loc[[11]]])
    for name, frame in (("second", neighbor), ("third", moved)):
        frame = frame.astype({"k": float}) if isinstance(other[1], float) else frame.astype({"k": int})
        second = contents(write(tmp_path / name, frame, cut))
        left = contents_of_memory(rows.drop(index=rows.index[one]))
        for found in (first, second):
            rest = list(found)
            for row in left:
                rest.remove(row)
            assert len(rest) == 1


def contents_of_memory(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return sorted((repr(float(a)), repr(float(k)), repr(g)) for a, k, g in frame.itertuples(index=False))


def test_a_row_that_moves_to_another_folder_moves_no_other_row(tmp_path: Path) -> None:
    rows = ROWS.head(40)
    neighbor = rows.copy()
    neighbor.loc[5, "k"] = 77  # a folder of its own
    found = contents(partition(tmp_path / "first", rows, ["k"]))
    other = contents(partition(tmp_path / "second", neighbor, ["k"]))
    assert len(set(found) - set(other)) == len(set(other) - set(found)) == 1


def test_numbers_of_another_type_are_the_same_numbers(tmp_path: Path) -> None:
    """DuckDB's own type of several files would be FLOAT here, which has no 16777217."""
    values = [16777217, 2**53 + 1, 3]
    for i, kind in enumerate(["int64", "float32", "uint8", "float64", "int32"]):
        kept = [value for value in values if kind == "int64" or value == 3]
        pd.DataFrame({"a": np.array(kept).astype(kind)}).to_parquet(tmp_path / f"{i}.parquet")
    found = np.sort(np.concatenate([part.X.ravel() for part in files(tmp_path).collect()]))
    assert found.tolist() == [3.0] * 5 + [16777217.0, 2.0**53]


# Refusals


def test_a_file_without_a_line_of_names_shows_no_entry(tmp_path: Path) -> None:
    # A part of a larger file, such as split makes: its first line is a row.
    (tmp_path / "0.csv").write_text("income,age\n1,2\n3,4\n")
    (tmp_path / "1.csv").write_text("67890,12345\n5,6\n")
    with pytest.raises(InvalidData) as error:
        ClippedMean(bounds={"income": (0, 1)}).fit(tmp_path)
    assert not any(entry in str(error.value) for entry in ("67890", "12345"))


def test_what_files_must_have_in_common_is_refused_before_a_charge(tmp_path: Path) -> None:
    budget = PrivacyBudget(1.0)
    mean = ClippedMean(bounds=(0, 1), budget=budget)

    def refused(name: str, first: Any, second: Any, *words: str) -> None:
        place = tmp_path / name
        place.mkdir()
        first.to_parquet(place / "0.parquet")
        second.to_parquet(place / "1.parquet")
        for word in words:
            with pytest.raises(InvalidData, match=word):
                mean.fit(place)

    frame = pd.DataFrame({"a": [1.0], "b": [1.0]})
    refused("names", frame, frame[["a"]], "same columns", "'b' in '0.parquet' and not in '1.parquet'")
    refused("more", frame[["a"]], frame, "further columns in '1.parquet' than in '0.parquet'")
    refused("order", frame, frame[["b", "a"]], "another order in '1.parquet'")
    refused("types", frame, frame.astype({"a": str}), "number in '0.parquet' and text in '1.parquet' for 'a'")
    assert not budget.history()
    # A column without a type has no entry, and fits.
    empty = pd.DataFrame({"a": [None] * 3, "b": [0.0] * 3})
    os.makedirs(tmp_path / "empty")
    frame.to_parquet(tmp_path / "empty" / "0.parquet")
    empty.to_parquet(tmp_path / "empty" / "1.parquet")
    assert ClippedMean(bounds=(0, 1), missing="drop", **SEED).fit(tmp_path / "empty").plan_.n_samples == 4


def test_no_row_counts_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    ROWS.to_parquet(path)
    (tmp_path / "b.parquet").symlink_to(path)
    for given in (tmp_path, [path, path], [path, str(tmp_path) + "/./a.parquet"]):
        with pytest.raises(InvalidData, match="twice"):
            files(given)


@pytest.mark.parametrize("name", ["_delta_log/0.json", ".hoodie/x", "metadata/v1.metadata.json"])
def test_rows_that_were_deleted_are_not_read(name: str, tmp_path: Path) -> None:
    ROWS.to_parquet(tmp_path / "a.parquet")
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text("")
    with pytest.raises(InvalidData, match=r"(Delta|Hudi|Iceberg) table"):
        open_source(tmp_path)
    if name.startswith("_delta"):
        with pytest.raises(InvalidData, match="Delta table"):
            files(tmp_path / "*.parquet", pattern=True)


def test_what_is_no_folder_of_tables(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="at least one file"):
        open_source(tmp_path)
    with pytest.raises(InvalidData, match="an existing file or folder"):
        files(tmp_path / "none.csv")
    ROWS.to_parquet(tmp_path / "a.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".a.crc").write_text("")
    assert isinstance(open_source(tmp_path), FileRows)
    ROWS.to_csv(tmp_path / "b.csv")
    with pytest.raises(InvalidData, match="files of one format"):
        open_source(tmp_path)
    (tmp_path / "b.csv").rename(tmp_path / "b.json")
    with pytest.raises(InvalidData, match=r"ends in .\.json."):
        open_source(str(tmp_path))
    (tmp_path / "b.json").rename(tmp_path / "b.parquet")
    with pytest.raises(InvalidData, match=r"Parquet files that can be read, got .b\.parquet."):
        open_source(tmp_path)
    with pytest.raises(InvalidData, match="a path, or a list of paths"):
        files([1.0])


def test_columns_of_folders_are_not_in_files_too(tmp_path: Path) -> None:
    (tmp_path / "k=1").mkdir()
    ROWS.to_parquet(tmp_path / "k=1" / "0.parquet")
    with pytest.raises(InvalidData, match="'k' in both"):
        open_source(tmp_path)


def test_a_file_that_changed_is_refused(tmp_path: Path) -> None:
    rows = files(write(tmp_path / "rows", ROWS, 4))
    assert rows.shape[0] == N
    ROWS.head(1).astype({"k": "int16"}).to_parquet(tmp_path / "rows" / "part-001.parquet", index=False)
    with pytest.raises(InvalidData):
        rows.total(lambda part: {"n": np.array([len(part.X)])})


# Addresses


def test_addresses_are_read_by_fsspec(folder: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for path in sorted(folder.iterdir())[:20]:
        memory.pipe(f"/bucket/year=2026/{path.name}", path.read_bytes())
    memory.pipe("/bucket/year=2025/x[1].parquet", (folder / "part-030.parquet").read_bytes())
    memory.pipe("/bucket/_SUCCESS", b"")
    memory.pipe("/texts/x.csv", b"a\n1\n2\n")
    local = files([*sorted(folder.iterdir())[:20], folder / "part-030.parquet"])
    rows = open_source("memory://bucket")
    assert rows.names == [*ROWS, "year"]
    np.testing.assert_array_equal(FITS["mean"](rows), FITS["mean"](local))
    one = open_source("memory://bucket/year=2025/x[1].parquet")
    assert one.shape[0] == open_source(folder / "part-030.parquet").shape[0]  # type: ignore[attr-defined]
    found = files("memory://bucket/year=*/*.parquet", pattern=True)
    assert found.names == [*ROWS, "year"] and len(found.found) == 21
    assert open_source("memory://texts/x.csv").shape == (2, 1)  # type: ignore[attr-defined]
    memory.pipe("/bucket/_delta_log/0.json", b"")
    with pytest.raises(InvalidData, match="Delta table"):
        open_source("memory://bucket")
    memory.rm("/bucket", recursive=True)


def test_an_address_that_nothing_reads_says_what_would() -> None:
    with pytest.raises(InvalidData, match=r"s3fs.*duckdb\.sql\(\"FROM 'nothing://\.\.\.'\"\)") as error:
        open_source("nothing://key:secret@bucket/rows.parquet?signature=secret")
    assert "secret" not in str(error.value)
