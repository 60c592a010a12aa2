"""Studies: the same rows for any number of workers and any number of kills, and failures that are told."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import interrupted_study
import joblib
import numpy as np
import pytest
from sklearn.covariance import EmpiricalCovariance
from sklearn.linear_model import LinearRegression

from dpstats.errors import InvalidParameter
from dpstats.means import ClippedMean
from dpstats.simulation import Adapter, Gaussian, Rademacher, SparseMeans, Study, StudyFileError, store
from dpstats.simulation.samplers import Contaminated, ProductBernoulli, StudentT, SubGaussian

ESTIMATOR = ClippedMean(clip=1.0, delta=1e-6)
GRID = {"n": [20, 200], "d": [1, 3], "epsilon": [0.5]}


def rows_of(path: Path) -> list[tuple]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT * FROM results").fetchall()
    connection.close()
    return rows


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[tuple]:
    path = tmp_path_factory.mktemp("alone") / "one.db"
    Study(Rademacher(), ESTIMATOR, GRID, 30, seed=1).run(path, n_jobs=1)
    return rows_of(path)


@pytest.mark.parametrize("jobs", [2, 4])
def test_any_number_of_workers_writes_the_same_rows(jobs: int, alone: list[tuple], tmp_path: Path) -> None:
    Study(Rademacher(), ESTIMATOR, GRID, 30, seed=1).run(tmp_path / "w.db", n_jobs=jobs)
    assert rows_of(tmp_path / "w.db") == alone
    assert len(alone) == 4 * 30


def test_joblibs_own_switch_sets_the_workers(alone: list[tuple], tmp_path: Path) -> None:
    with joblib.parallel_config("threading", n_jobs=2):
        Study(Rademacher(), ESTIMATOR, GRID, 30, seed=1).run(tmp_path / "t.db")
    assert rows_of(tmp_path / "t.db") == alone


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_dask_cluster_writes_the_same_rows(alone: list[tuple], tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask"),
    ):
        Study(Rademacher(), ESTIMATOR, GRID, 30, seed=1).run(tmp_path / "d.db")
    assert rows_of(tmp_path / "d.db") == alone


def test_another_seed_gives_other_rows_and_more_replications_keep_the_first(alone: list[tuple]) -> None:
    study = Study(Rademacher(), ESTIMATOR, GRID, 30, seed=2)
    assert not np.isin([row[2] for row in alone], study.run().cells[0].losses["squared_error"]).any()
    more = Study(Rademacher(), ESTIMATOR, GRID, 40, seed=1).run()
    first = np.concatenate([cell.losses["squared_error"][:30] for cell in more.cells])
    assert first.tolist() == [row[2] for row in alone]


def test_seeds_are_those_of_spawn() -> None:
    sampler = Gaussian()
    study = Study(sampler, EmpiricalCovariance(), {"n": [7, 9], "d": [2]}, 3, seed=5)
    child = np.random.SeedSequence(5).spawn(2)[1].spawn(3)[2]
    X = sampler(9, 2, np.random.default_rng(child))
    expected = float(np.sum(X.mean(axis=0) ** 2))
    assert study.run().cells[1].losses["squared_error"][2] == pytest.approx(expected, rel=1e-12)


def test_killed_five_times_and_resumed_is_as_never_killed(tmp_path: Path) -> None:
    path, whole = tmp_path / "killed.db", tmp_path / "whole.db"
    script = str(Path(interrupted_study.__file__))
    chance = random.Random(0)
    killed = 0
    counts = [0]
    start = time.perf_counter()
    for _ in range(5):
        process = subprocess.Popen([sys.executable, script, str(path)], stderr=subprocess.DEVNULL)
        # Killed at a random time after the first new row.
        while time.perf_counter() - start < 60 and process.poll() is None:
            time.sleep(0.005)
            if path.exists() and count(path) > counts[-1]:
                break
        time.sleep(chance.random() * 0.08)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        counts.append(count(path))
    assert killed == 5 and counts[-1] < 360, "the study must not end before the last kill"
    assert sorted(counts) == counts and counts[1] > 0
    resumed = interrupted_study.build().run(path)
    straight = interrupted_study.build().run(whole)
    assert rows_of(path) == rows_of(whole) and len(rows_of(path)) == 360
    assert resumed.table().tobytes() == straight.table().tobytes()


def count(path: Path) -> int:
    try:
        with sqlite3.connect(path) as connection:
            number = connection.execute("SELECT count(*) FROM results").fetchone()[0]
        connection.close()
        return number
    except sqlite3.OperationalError:  # not made yet, or being written
        return 0


def fragile(X: np.ndarray, rng: np.random.Generator, depth: int) -> np.ndarray:
    if depth == 2 or (depth == 1 and rng.random() < 0.5):
        raise ValueError(f"too deep: {depth}")
    return X.mean(axis=0)


def test_cells_that_raise_are_recorded_and_the_study_goes_on() -> None:
    study = Study(Gaussian(), Adapter(fragile, depth=0), {"n": [10], "d": [1], "depth": [0, 1, 2]}, 40)
    results = study.run()
    assert [cell.failed for cell in results.cells][0::2] == [0, 40]
    assert 8 < results.cells[1].failed < 32  # 4 standard deviations of 20
    assert results.cells[1].losses["squared_error"].size == 40 - results.cells[1].failed
    assert results.cells[2].failures == {"ValueError: too deep: 2": 40}
    assert np.isnan(results.mean()[2]) and np.isfinite(results.mean()[:2]).all()
    assert "Cell 3 failed in 40 of 40 replications: ValueError: too deep: 2" in str(results)
    assert len(results.failed_cells) == 2


def test_a_cell_whose_parameters_are_refused_fails_alone() -> None:
    results = Study(Rademacher(), ESTIMATOR, {"n": [20], "d": [1], "epsilon": [1.0, -1.0]}, 5).run(n_jobs=2)
    assert [cell.failed for cell in results.cells] == [0, 5]
    assert "epsilon must be" in next(iter(results.cells[1].failures))
    nan = Study(Rademacher(), Adapter(nothing), {"n": [5], "d": [1]}, 2).run()
    assert nan.cells[0].failures == {"DPStatsError: squared_error is nan": 2}


def nothing(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.array([np.nan])


BAD = {
    "unknown names": (
        lambda: Study(Gaussian(), ESTIMATOR, {"n": [5], "d": [1], "epsilom": [1.0], "signal": [1]}, 5),
        "unknown parameters epsilom, signal: the sampler has mean, std; the estimator has calibration, center, clip,",
    ),
    "no n": (lambda: Study(Gaussian(), ESTIMATOR, {"d": [1]}, 5), "grid must name n and d, got d"),
    "n of 0": (
        lambda: Study(Gaussian(), ESTIMATOR, {"n": [0], "d": [1]}, 5),
        "n must be an integer at least 1",
    ),
    "no list": (lambda: Study(Gaussian(), ESTIMATOR, {"n": 5, "d": [1]}, 5), "a list of values of n, got 5"),
    "no cells": (lambda: Study(Gaussian(), ESTIMATOR, [], 5), "at least one cell"),
    "grid of numbers": (lambda: Study(Gaussian(), ESTIMATOR, 5, 5), "grid must be a mapping of lists"),
    "loss": (
        lambda: Study(Gaussian(), ESTIMATOR, GRID, 5, loss="squared"),
        "loss must be one of squared_error",
    ),
    "loss twice": (
        lambda: Study(Gaussian(), ESTIMATOR, GRID, 5, loss=["coverage", "coverage"]),
        "the same loss twice",
    ),
    "no truth": (lambda: Study(draw, ESTIMATOR, GRID, 5), "give the sampler a method true_mean"),
    "sampler": (lambda: Study(3, ESTIMATOR, GRID, 5), "sampler must be callable"),
    "estimator": (lambda: Study(Gaussian(), np.mean, GRID, 5), "Adapter makes an estimator of any function"),
    "replications": (
        lambda: Study(Gaussian(), ESTIMATOR, GRID, 0),
        "replications must be an integer at least 1",
    ),
    "seed": (lambda: Study(Gaussian(), ESTIMATOR, GRID, 1, seed=-1), "seed must be an integer at least 0"),
    "jobs": (
        lambda: Study(Gaussian(), ESTIMATOR, GRID, 1).run(n_jobs=0),
        "n_jobs must be a positive integer",
    ),
    "function": (lambda: Adapter("mean"), "function must be callable"),
    "load": (lambda: Study(Gaussian(), ESTIMATOR, GRID, 1).load("none.db"), "there is no none.db"),
}


def draw(n: int, d: int, rng: np.random.Generator, location: float = 0.0) -> np.ndarray:
    return rng.normal(location, 1.0, (n, d))


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_error(name: str) -> None:
    build, message = BAD[name]
    with pytest.raises(InvalidParameter) as caught:
        build()
    assert message in str(caught.value) and "\n" not in str(caught.value)


def positive(fitted: ClippedMean, X: np.ndarray, truth: None) -> float:
    return float(fitted.mean_[0] > 0)


def test_names_go_to_whom_they_belong() -> None:
    # The callable's own location; the estimator's clip and epsilon: noise of about 20.
    grid = {"n": [9], "d": [1], "location": [900.0, -900.0], "clip": [1e3], "epsilon": [100.0]}
    assert Study(draw, ClippedMean(clip=1.0, delta=1e-6), grid, 3, loss=positive).run().mean().tolist() == [
        1,
        0,
    ]
    # The sampler's std and the estimator's: risk and interval both grow. Noise of deviation 0.06.
    estimator = ClippedMean(clip=50.0, epsilon=50.0, std=1.0)
    losses = ["coverage", "squared_error"]
    both = Study(Gaussian(), estimator, {"n": [50], "d": [1], "std": [1.0, 9.0]}, 200, loss=losses).run()
    assert both.losses == ("coverage", "squared_error") and (both.mean("coverage") > 0.85).all()
    assert both.mean("squared_error")[1] > 20 * both.mean("squared_error")[0]
    # The sampler's alone: an interval a third as wide as it should be covers half of the time.
    one = [{"n": 50, "d": 1, "sampler__std": 3.0, "estimator__std": 1.0}]
    assert 0.35 < Study(Gaussian(), estimator, one, 200, loss="coverage").run().mean()[0] < 0.7


def test_scikit_learns_estimators_and_pairs_of_x_and_y() -> None:
    results = Study(Gaussian(mean=2.0), EmpiricalCovariance(), {"n": [100], "d": [4]}, 300).run()
    assert results.mean()[0] == pytest.approx(4 / 100, rel=0.25)  # 5 standard errors
    results = Study(Line(), LinearRegression(), {"n": [100], "d": [2]}, 200).run()
    assert results.mean()[0] == pytest.approx(2 / 100, rel=0.4)


class Line:
    def __call__(self, n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n, d))
        return X, X @ self.true_mean(d) + rng.normal(size=n)

    def true_mean(self, d: int) -> np.ndarray:
        return np.arange(1.0, d + 1)


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
        patched.setattr("dpstats.simulation.study._BLOCK_SECONDS", 0.0)
        patched.setattr(store.sqlite3, "connect", lambda *a, **k: FullDisk(connect(*a, **k), 5))
        with pytest.raises(StudyFileError, match=r"disk is full.*what was finished before is in the file"):
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
    (tmp_path / "text.db").write_text("not a database, but long enough to be looked at " * 20)
    with pytest.raises(StudyFileError, match="cannot be opened"):
        Study(Rademacher(), ESTIMATOR, GRID, 3).run(tmp_path / "text.db")
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE something (x)")
    connection.close()
    with pytest.raises(StudyFileError, match="is not the file of a study"):
        Study(Rademacher(), ESTIMATOR, GRID, 3).run(tmp_path / "other.db")
    with pytest.raises(StudyFileError, match="cannot be opened") as caught:
        Study(Rademacher(), ESTIMATOR, GRID, 3).run(tmp_path / "no" / "folder.db")
    # Nothing was finished, and running again helps nobody.
    assert "resume" not in str(caught.value)


def test_load_and_resume_do_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = Study(Rademacher(), ESTIMATOR, GRID, 3)
    first = study.run(tmp_path / "s.db", progress=True)
    assert "study" in capsys.readouterr().err
    assert study.load(tmp_path / "s.db").table().tobytes() == first.table().tobytes()
    again = study.run(tmp_path / "s.db", progress=True)
    assert capsys.readouterr().err == "" and again.seconds == first.seconds > 0


def test_tables() -> None:
    pandas = pytest.importorskip("pandas")
    results = Study(Rademacher(), ESTIMATOR, GRID, 20, name="a <study>").run()
    frame = results.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and frame["n"].tolist() == [20, 20, 200, 200]
    assert results.as_records()[0]["n"] == 20 and "a &lt;study&gt;" in results._repr_html_()
    derived = results.derive("x", lambda cell: cell["n"] * 2, instead_of="n")
    assert derived.parameter("x").tolist() == [40, 40, 400, 400] and "n" not in derived.cells[0].parameters
    assert len(results.where(lambda cell: cell["d"] == 3).cells) == 2
    with pytest.raises(InvalidParameter, match="parameter must be one of n, d, epsilon, got 'm'"):
        results.parameter("m")
    with pytest.raises(InvalidParameter, match="loss must be one of squared_error, got 'risk'"):
        results.mean("risk")


SAMPLERS = {
    Gaussian(mean=(1.0, -2.0), std=2.0): 2.0,
    SubGaussian(mean=1.0, std=2.0): 2.0,
    StudentT(mean=1.0, degrees_of_freedom=8.0): 1.0,
    Rademacher(): 1.0,
    Rademacher(mean=0.6): 0.8,
    ProductBernoulli(probability=0.2): 0.4,
    SparseMeans(n_nonzero=1, signal=2.0, std=0.5): 0.5,
    Contaminated(mean=1.0, share=0.0): 1.0,
}


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_samplers_know_their_mean(sampler: Gaussian) -> None:
    n = 20_000
    X = sampler(n, 2, np.random.default_rng(0))
    assert X.shape == (n, 2) and X.dtype == np.float64
    # Five standard errors of the mean, and 10% of the deviation: false alarms below 1e-4.
    assert np.abs(X.mean(axis=0) - sampler.true_mean(2)).max() < 5 * SAMPLERS[sampler] / np.sqrt(n)
    assert X.std(axis=0) == pytest.approx(SAMPLERS[sampler], rel=0.1)


def test_samplers_replace_their_fields_in_a_call() -> None:
    rng = np.random.default_rng(0)
    assert SparseMeans().true_mean(4, n_nonzero=3, signal=2.0).tolist() == [2.0, -2.0, 2.0, 0.0]
    moved = Contaminated(share=0.5, shift=100.0)(1000, 2, rng)
    assert 0.4 < np.mean(moved[:, 0] > 50) < 0.6 and np.all((moved[:, 0] > 50) == (moved[:, 1] > 50))
    assert Contaminated(share=0.5).true_mean(1).tolist() == [0.0]
    with pytest.raises(InvalidParameter, match="greater than 2"):
        StudentT(degrees_of_freedom=2.0)(5, 1, rng)
    with pytest.raises(InvalidParameter, match="n_nonzero must be between 0 and d = 2"):
        SparseMeans(n_nonzero=5)(5, 2, rng)
