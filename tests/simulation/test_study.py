"""Studies: the same rows for any number of workers and any number of kills, and what is run again."""

from __future__ import annotations

import itertools
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
from pathlib import Path

import joblib
import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.means import ClippedMean
from dpstats.simulation import Adapter, Gaussian, Rademacher, Study
from dpstats.simulation.study import _stated
from tests.simulation import interrupted_study
from tests.simulation.rows import ESTIMATOR, GRID, ONE_CELL, Flaky, count, mean_of, rows_of


def test_failed_replications_are_run_again_where_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.db"
    flaky = Study(Flaky(), Adapter(mean_of), ONE_CELL, 40)
    monkeypatch.setenv("DISK_OF_A_TEST", "full")
    before = flaky.run(path).cells[0]
    assert 5 < before.failed < 35  # 4.7 standard deviations of 20
    monkeypatch.setenv("DISK_OF_A_TEST", "empty")
    assert flaky.run(path).cells[0].failed == before.failed
    fixed = flaky.run(path, retry_failed=True)
    assert not fixed.failed_cells
    assert fixed.table().tobytes() == flaky.run().table().tobytes()
    # What did not fail is not run again.
    with sqlite3.connect(path) as connection:
        ran = connection.execute("SELECT sum(replications) FROM work").fetchone()[0]
    connection.close()
    assert ran == 40 + before.failed
    monkeypatch.setenv("DISK_OF_A_TEST", "full")
    assert not flaky.run(path, retry_failed=True).failed_cells


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
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster), joblib.parallel_config("dask"):
        Study(Rademacher(), ESTIMATOR, GRID, 30, seed=1).run(tmp_path / "d.db")
    assert rows_of(tmp_path / "d.db") == alone


def test_another_seed_gives_other_rows_and_more_replications_keep_the_first(alone: list[tuple]) -> None:
    study = Study(Rademacher(), ESTIMATOR, GRID, 30, seed=2)
    assert not np.isin([row[2] for row in alone], study.run().cells[0].losses["squared_error"]).any()
    more = Study(Rademacher(), ESTIMATOR, GRID, 40, seed=1).run()
    first = np.concatenate([cell.losses["squared_error"][:30] for cell in more.cells])
    assert first.tolist() == [row[2] for row in alone]


def test_killed_five_times_and_resumed_is_as_never_killed(tmp_path: Path) -> None:
    path, whole = tmp_path / "killed.db", tmp_path / "whole.db"
    # As a module, so that its functions have the same names there and here: the file is of one study.
    script, root = ["-m", interrupted_study.__name__], Path(__file__).parents[2]
    chance = random.Random(0)
    killed = 0
    counts = [0]
    start = time.perf_counter()
    for _ in range(5):
        process = subprocess.Popen([sys.executable, *script, str(path)], stderr=subprocess.DEVNULL, cwd=root)
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


BAD = {
    "unknown names": (
        lambda: Study(Gaussian(), ESTIMATOR, {"n": [5], "d": [1], "epsilom": [1.0], "signal": [1]}, 5),
        "unknown parameters epsilom, signal: the sampler has mean, std; the estimator has bounds, bounds_are,",
    ),
    "no n": (lambda: Study(Gaussian(), ESTIMATOR, {"d": [1]}, 5), "grid must"),
    "n of 0": (lambda: Study(Gaussian(), ESTIMATOR, {"n": [0], "d": [1]}, 5), "n must be an integer at least 1"),
    "no list": (
        lambda: Study(Gaussian(), ESTIMATOR, {"n": 5, "d": [1]}, 5),
        "a list of values of every parameter, got a dict",
    ),
    "no cells": (lambda: Study(Gaussian(), ESTIMATOR, [], 5), "at least one cell"),
    "grid of numbers": (lambda: Study(Gaussian(), ESTIMATOR, 5, 5), "grid must"),
    "loss": (lambda: Study(Gaussian(), ESTIMATOR, GRID, 5, loss="squared"), "loss must be one of squared_error"),
    "loss twice": (lambda: Study(Gaussian(), ESTIMATOR, GRID, 5, loss=["coverage", "coverage"]), "the same loss twice"),
    "no truth": (lambda: Study(draw, ESTIMATOR, GRID, 5), "give the sampler a method true_mean"),
    "sampler": (lambda: Study(3, ESTIMATOR, GRID, 5), "sampler must"),
    "estimator": (lambda: Study(Gaussian(), np.mean, GRID, 5), "Adapter makes an estimator of any function"),
    "replications": (lambda: Study(Gaussian(), ESTIMATOR, GRID, 0), "replications must be an integer at least 1"),
    "seed": (lambda: Study(Gaussian(), ESTIMATOR, GRID, 1, seed=-1), "seed must"),
    "jobs": (lambda: Study(Gaussian(), ESTIMATOR, GRID, 1).run(n_jobs=0), "n_jobs must be a positive integer"),
    "name": (lambda: Study(Gaussian(), ESTIMATOR, GRID, 1, name=3), "name must"),
    "path": (lambda: Study(Gaussian(), ESTIMATOR, GRID, 1).run(3), "path must"),
    "function": (lambda: Adapter("mean"), "function must"),
    "load": (lambda: Study(Gaussian(), ESTIMATOR, GRID, 1).load("none.db"), "no file at 'none.db'"),
}


def draw(n: int, d: int, rng: np.random.Generator, location: float = 0.0) -> np.ndarray:
    return rng.normal(location, 1.0, (n, d))


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_error(name: str) -> None:
    build, message = BAD[name]
    with pytest.raises(InvalidParameter) as caught:
        build()
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_load_and_resume_do_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = Study(Rademacher(), ESTIMATOR, GRID, 3)
    first = study.run(tmp_path / "s.db", progress=True)
    assert "study" in capsys.readouterr().err
    assert study.load(tmp_path / "s.db").table().tobytes() == first.table().tobytes()
    again = study.run(tmp_path / "s.db", progress=True)
    assert capsys.readouterr().err == "" and again.seconds == first.seconds > 0


def missing(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    raise NameError("name 'medain' is not defined")


def test_a_study_that_cannot_work_fails_before_it_runs(tmp_path: Path) -> None:
    for estimator, words in (
        (Adapter(missing), "all 20 trial replications failed. The first error was NameError"),
        (ClippedMean(clip=1.0, clip_norm="l7"), "The first error was InvalidParameter: clip_norm must be"),
    ):
        with pytest.raises(InvalidParameter, match=words):
            Study(Gaussian(), estimator, {"n": [50, 5], "d": [1]}, 1000).run(tmp_path / "s.db")
        # Mended, it may have the file.
        assert not (tmp_path / "s.db").exists()
    with pytest.raises(InvalidParameter, match=r"all 2 trial replications"):
        Study(Gaussian(), Adapter(missing), {"n": [5], "d": [1]}, 2).run()


def test_facts_show_what_the_cells_give() -> None:
    grid = {"n": [20], "d": [1], "epsilon": [0.5, 1.0], "delta": [1e-6], "sampler__mean": [0.0, 1.0]}
    facts = Study(Gaussian(), ClippedMean(clip=3.0, epsilon=7.0), grid, 2).run().facts
    assert facts["Estimator"] == "ClippedMean(clip=3.0, delta=1e-06, epsilon=<by cell>)"
    assert "mean=<by cell>" in facts["Sampler"]


def test_values_that_differ_are_stated_otherwise() -> None:
    values = [None, True, 2, 2.5, "2", [2], (2, [3.0]), np.median, statistics.median, Gaussian(), Gaussian(mean=1.0)]
    stated = [_stated(value) for value in values]
    assert all(a != b for a, b in itertools.combinations(stated, 2)), stated
    assert _stated(np.array([2])) == _stated([2]) == _stated((2,))


def test_the_last_block_is_written_however_quick_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpstats.simulation.study.BLOCK_SECONDS", 1e9)
    study = Study(Rademacher(), ESTIMATOR, {"n": [20], "d": [1], "epsilon": [1.0]}, 4)
    path = tmp_path / "quick.db"
    study.run(path)
    assert study.load(path).cells[0].losses["squared_error"].size == 4
    # A study of fewer replications reads the first of them only.
    fewer = Study(Rademacher(), ESTIMATOR, {"n": [20], "d": [1], "epsilon": [1.0]}, 3)
    assert fewer.load(path).cells[0].losses["squared_error"].size == 3
