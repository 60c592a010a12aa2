"""Tables of several files in queries: the types of their columns, the files that may be read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpstats.data import files
from dpstats.data.duckdb_rows import connect
from dpstats.errors import DPStatsError, InvalidData
from dpstats.sql import PrivateSQL
from dpstats.sql.catalogue import found_files, parquet_source

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")


def made(table: object, **options: object) -> PrivateSQL:
    return PrivateSQL({"v": table}, epsilon=50.0, random_state=0, **options)  # type: ignore[arg-type]


def write(folder: Path, *columns: object) -> Path:
    folder.mkdir()
    for i, column in enumerate(columns):
        pd.DataFrame({"x": column}).to_parquet(folder / f"{i}.parquet")
    return folder


@pytest.mark.parametrize(
    ("kinds", "wanted"),
    [
        (["int8", "int64", "int16"], "BIGINT"),
        (["int64", "uint64"], "HUGEINT"),
        (["float32", "int64"], "DOUBLE"),
        (["float32", "float32"], "FLOAT"),
        (["int32", None], "INTEGER"),
    ],
)
def test_a_column_has_one_type_with_the_numbers_of_all(kinds: list[str | None], wanted: str, tmp_path: Path) -> None:
    columns = [[None] * 3 if kind is None else np.array([1, 2, 3], dtype=kind) for kind in kinds]
    query = made(write(tmp_path / "rows", *columns), bounds={"v.x": (0, 4)})
    assert f"{wanted}" in str(parquet_source(connect([]), found_files(tmp_path / "rows"))[0])
    (answer,) = query.query("SELECT SUM(x) FROM v").records()
    assert abs(answer["sum"] - 6 * sum(kind is not None for kind in kinds)) < 2


def test_types_without_a_common_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"BIGINT and VARCHAR for 'x'"):
        made(write(tmp_path / "rows", [1, 2], ["a", "b"]))


def test_columns_of_folders_are_text_with_a_declared_type(tmp_path: Path) -> None:
    for year in ("2025", "2026", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / f"year={year}").mkdir()
        pd.DataFrame({"x": [1.0] * 40}).to_parquet(tmp_path / f"year={year}" / "0.parquet")
    query = "SELECT year, COUNT(*) FROM v GROUP BY year"
    found = made(tmp_path, categories={"v.year": ["2025", "2026"]}).query(query).records()
    assert [round(cell["count"]) for cell in found] == [40, 40]
    declared = {"types": {"v.year": "BIGINT"}, "bounds": {"v.year": (2000, 2030)}}
    (answer,) = made(tmp_path, **declared).query("SELECT AVG(year) FROM v").records()
    assert abs(answer["mean_year"] - 2025.5) < 0.5


def test_only_the_files_of_the_table_are_read_again(tmp_path: Path) -> None:
    folder = write(tmp_path / "rows", [1.0], [2.0])
    query = made(files(folder / "[01].parquet", pattern=True))
    pd.DataFrame({"x": [3.0]}).to_parquet(folder / "2.parquet")
    query.query("SELECT COUNT(*) FROM v")
    whole = made(folder)
    pd.DataFrame({"x": [3.0]}).to_parquet(folder / "3.parquet")
    whole.query("SELECT COUNT(*) FROM v")
    with pytest.raises(InvalidData, match="have the files that it had"):
        whole.refresh()
    pd.DataFrame({"x": [3.0, 4.0]}).to_parquet(folder / "0.parquet")
    with pytest.raises(DPStatsError, match=r"refresh\(\)"):
        query.query("SELECT COUNT(*) FROM v")


def test_addresses_are_copied_before_the_connection_is_closed(tmp_path: Path) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    folder = write(tmp_path / "rows", [1.0] * 30, [2.0] * 30)
    for path in folder.iterdir():
        memory.pipe(f"/tables/{path.name}", path.read_bytes())
    memory.pipe("/texts/a.csv", b"x\n1\n2\n")
    (answer,) = made("memory://tables").query("SELECT COUNT(*) FROM v").records()
    assert round(answer["count"]) == 60
    (answer,) = made("memory://texts/a.csv").query("SELECT COUNT(*) FROM v").records()
    assert round(answer["count"]) == 2
