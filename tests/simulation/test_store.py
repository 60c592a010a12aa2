"""The file of a study: what it refuses, and what it keeps when the disk is full."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpstats.means import ClippedMean
from dpstats.simulation import Adapter, Rademacher, Study, StudyFileError, store
from dpstats.simulation import study as replications
from dpstats.simulation.samplers import SubGaussian
from tests.simulation.rows import ESTIMATOR, GRID, ONE_CELL, Flaky, mean_of, rows_of


def rows(n: int, d: int, rng: np.random.Generator, shift: float = 0.0) -> np.ndarray:
    return rng.normal(shift, 1.0, (n, d))


def shifted(shift: float) -> Any:
    return lambda n, d, rng: rows(n, d, rng, shift)


def one(fitted: Any, X: Any, truth: Any) -> float:
    return 1.0


def study(sampler: Any = rows, estimator: Any = ESTIMATOR, loss: Any = one, **options: Any) -> Study:
    return Study(sampler, estimator, ONE_CELL, 4, loss=loss, **options)


ODD_NAMES = (
    'a "quoted" loss',
    'one " alone',
    "it's",
    "x; DROP TABLE results",
    "comma, and -- dashes",
    "größe",
    "[1]",
    "?",
)


def test_losses_may_have_any_names(tmp_path: Path) -> None:
    losses = {name: lambda fitted, X, truth, value=value: value for value, name in enumerate(ODD_NAMES)}
    named = study(loss=losses)
    results = named.run(tmp_path / "odd.db")
    assert tuple(results.losses) == ODD_NAMES
    for kept in (results, named.load(tmp_path / "odd.db")):
        assert [kept.cells[0].losses[name].tolist() for name in ODD_NAMES] == [
            [value] * 4 for value in range(len(ODD_NAMES))
        ]


def test_a_retry_that_cannot_be_written_leaves_the_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.db"
    flaky = Study(Flaky(), Adapter(mean_of), ONE_CELL, 10)
    monkeypatch.setenv("DISK_OF_A_TEST", "full")
    failed = flaky.run(path).cells[0].failed
    monkeypatch.setenv("DISK_OF_A_TEST", "empty")
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON work BEGIN SELECT raise(ABORT, 'database or disk is full'); END"
        )
    connection.close()
    with pytest.raises(StudyFileError, match="run again to resume"):
        flaky.run(path, retry_failed=True)
    assert flaky.load(path).cells[0].failed == failed > 0


def test_a_file_of_before_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE study (description TEXT)")
        connection.execute("INSERT INTO study VALUES ('{\"seed\": 0}')")
        connection.execute("CREATE TABLE results (cell INTEGER, replication INTEGER, one REAL, error TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(
        StudyFileError, match=r"is a file of another version of dpstats \(format 1, this one writes 2\)"
    ):
        study().run(path)
    assert path.read_bytes() == before


def test_another_python_is_named_where_code_cannot_be_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(replications, "versions", lambda: {"Python": "3.9.1"})
        study(rows).run(tmp_path / "s.db")
    with pytest.raises(StudyFileError, match=r"differs in sampler \(begun with Python 3.9, this is .*code can be"):
        study(shifted(1)).run(tmp_path / "s.db")


class FullDisk:
    """A connection that has no space for results after a number of blocks."""

    def __init__(self, connection: sqlite3.Connection, blocks: int) -> None:
        self._connection, self._left = connection, blocks

    def executemany(self, statement: str, rows: list) -> object:
        if statement.startswith("INSERT OR IGNORE INTO results"):
            self._left -= 1
            if self._left < 0:
                self._connection.executemany(statement, rows[:1])  # half of a block is written
                raise sqlite3.OperationalError("database or disk is full")
        return self._connection.executemany(statement, rows)

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def __enter__(self) -> object:
        return self._connection.__enter__()

    def __exit__(self, *error: object) -> object:
        return self._connection.__exit__(*error)


@pytest.mark.parametrize("jobs", [1, 2])
def test_no_space_left_loses_nothing_that_is_finished(
    jobs: int, alone: list[tuple], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "full.db"
    study = Study(Rademacher(), ESTIMATOR, GRID, 30, seed=1)
    connect = sqlite3.connect
    with monkeypatch.context() as patched:
        # Blocks of one replication, each written at once.
        patched.setattr("dpstats.simulation.study.BLOCK_SECONDS", 0.0)
        patched.setattr(store.sqlite3, "connect", lambda *a, **k: FullDisk(connect(*a, **k), 5))
        with pytest.raises(StudyFileError, match=r"disk is full.*finished replications are in the file"):
            study.run(path, n_jobs=jobs)
    kept = rows_of(path)
    assert 4 < len(kept) < 120 and set(kept) < set(alone)
    study.run(path)
    assert rows_of(path) == alone


def test_another_studys_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    Study(Rademacher(), ESTIMATOR, GRID, 3).run(path)
    for other, word in (
        (Study(Rademacher(), ESTIMATOR, GRID, 3, seed=9), "seed"),
        (Study(Rademacher(), ClippedMean(clip=2.0, delta=1e-6), GRID, 3), "estimator's parameters"),
        (Study(SubGaussian(), ESTIMATOR, GRID, 3), "sampler"),
        (Study(Rademacher(), ESTIMATOR, {**GRID, "n": [20]}, 3), "grid"),
    ):
        with pytest.raises(StudyFileError, match=f"holds another study: it differs in .*{word}"):
            other.run(path)
    names = [Study(Rademacher(), {name: ESTIMATOR}, GRID, 3) for name in ("one", "other")]
    names[0].run(tmp_path / "named.db")
    with pytest.raises(StudyFileError, match=r"holds another study: it differs in .*grid"):
        names[1].run(tmp_path / "named.db")
    (tmp_path / "text.db").write_text("not a database, but long enough to be looked at " * 20)
    with pytest.raises(StudyFileError, match="cannot be opened"):
        Study(Rademacher(), ESTIMATOR, GRID, 3).run(tmp_path / "text.db")
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE something (x)")
    connection.close()
    with pytest.raises(StudyFileError, match="must be the file of a study"):
        Study(Rademacher(), ESTIMATOR, GRID, 3).run(tmp_path / "other.db")
    with pytest.raises(StudyFileError, match="cannot be opened") as caught:
        Study(Rademacher(), ESTIMATOR, GRID, 3).run(tmp_path / "no" / "folder.db")
    # Nothing was finished, and running again helps nobody.
    assert "resume" not in str(caught.value)


def test_losses_have_any_name(tmp_path: Path) -> None:
    name = 'off by "half" a step'
    run = study(loss={name: one}).run(tmp_path / "s.db")
    assert name in str(run.as_records())
