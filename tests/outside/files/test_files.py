"""A share of the net of files, and planted faults that it notices."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpstats.data import text
from dpstats.data.duckdb_rows import Scan
from tests.outside.files.net import Net
from tests.outside.files.writers import WRITERS
from tests.outside.seeds import daily_seed, replay


@pytest.mark.parametrize("share", range(3))
def test_every_reader_reads_what_was_written(share: int, tmp_path: Path) -> None:
    net = Net(daily_seed() + 10_000 * share, tmp_path).run(60, cases=4)
    assert not net.faults, (replay(net.seed), net.faults)
    assert net.counts["read"] >= 20


def end_rows_at_any_break(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = text._Records._read_lines

    def split(self: Any, rest: str) -> Any:
        for line in lines(self, rest):
            yield from line.split("\r")

    monkeypatch.setattr(text._Records, "_read_lines", split)
    monkeypatch.setattr(text, "scan", lambda *given: Scan(False))


def leave_all_to_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "_count_records", lambda content, *given: (content.count(b"\n"), len(content)))


def skip_blank_records(monkeypatch: pytest.MonkeyPatch) -> None:
    records = text._Records._read_records
    monkeypatch.setattr(
        text._Records, "_read_records", lambda self, start: (each for each in records(self, start) if any(each))
    )
    monkeypatch.setattr(text, "scan", lambda *given: Scan(False))


def keep_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = text._Refused

    def split(self: Any, start: str) -> Any:
        import csv

        return csv.reader(io.StringIO(start, newline=""), delimiter=self._sep)

    assert refused
    monkeypatch.setattr(text._Records, "_read_records", split)
    monkeypatch.setattr(text, "scan", lambda *given: Scan(False))


def round_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = text.numbers

    def rounded(words: Any, missing: Any) -> Any:
        found, wrong = numbers(words, missing)
        return found.astype(np.float32).astype(np.float64), wrong

    monkeypatch.setattr(text, "numbers", rounded)
    monkeypatch.setattr(text, "scan", lambda *given: Scan(False))


PLANTED = [end_rows_at_any_break, leave_all_to_duckdb, skip_blank_records, keep_escapes, round_numbers]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("plant", PLANTED)
def test_the_net_notices_planted_faults(plant: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    names = ["csv, line feeds", "pandas", "csv, carriage returns and line feeds", "DuckDB", "csv, escapes"]
    monkeypatch.setattr("tests.outside.files.net.WRITERS", {name: WRITERS[name] for name in names})
    monkeypatch.setattr("tests.outside.files.net.CONTAINERS", {"polars": None})
    net = Net(20260101, tmp_path)
    for case in range(60):
        net.try_table(case)
        if net.faults:
            return
    raise AssertionError(f"nobody noticed {plant.__name__}: {net.counts}")
