"""Rows of Spark: the same integers as in memory, of a stand-in always, and of Spark itself where it is installed."""

from __future__ import annotations

import os
import signal
import sys
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpstats.data import spark_rows
from dpstats.data.batches import Part
from dpstats.data.spark_rows import open_spark_frame, probe_workers
from dpstats.errors import InvalidData
from dpstats.groups import GroupMeans
from dpstats.means import ClippedMean
from dpstats.privacy import PrivacyBudget
from dpstats.regression import PrivateLinearRegression
from dpstats.tables import ContingencyTable
from tests.data.spark import IS_HERE, QUIET, Frame, cut, spark_session

N = 120
RNG = np.random.default_rng(5)
ROWS = pd.DataFrame(
    {
        "a": RNG.normal(size=N),
        "x.`y`": RNG.normal(size=N),
        "n": RNG.integers(-(2**60), 2**60, N),
        "half width": RNG.normal(size=N).astype("float32"),
        "yes": RNG.random(N) < 0.4,
        "g": RNG.choice(["u", "v", "w"], N, p=[0.5, 0.3, 0.2]),
        "k": RNG.integers(0, 3, N),
    }
)
SEED = {"random_state": 0}
NUMBERS = ["a", "half width"]


def stand_in(rows: pd.DataFrame) -> Frame:
    return cut(pa.Table.from_pandas(rows, preserve_index=False), 25)


pytestmark = pytest.mark.filterwarnings(*QUIET)


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    if not IS_HERE:
        pytest.skip("pyspark is not installed, or there is no Java: make test-spark")
    with spark_session() as made:
        yield made


@pytest.fixture(params=["stand-in", "Spark"] if IS_HERE else ["stand-in"])
def frames(request: pytest.FixtureRequest) -> Callable[[pd.DataFrame], Any]:
    """A function that makes a frame of several partitions."""
    if request.param == "stand-in":
        return stand_in
    spark = request.getfixturevalue("session")
    return lambda rows: spark.createDataFrame(rows).repartition(5)


FITS: dict[str, Callable[[Any], Any]] = {
    "box": lambda X: (
        ClippedMean(bounds={"a": (-2, 2), "n": (-(2.0**59), 2.0**59), "x.`y`": (-1, 1), "yes": (0, 1)}, **SEED)
        .fit(X)
        .mean_
    ),
    "ball": lambda X: ClippedMean(clip=1.5, clip_norm="l2", **SEED).fit(X[NUMBERS]).mean_,
    "groups": lambda X: GroupMeans(groups=["u", "v"], by="g", bounds={"a": (-2, 2)}, **SEED).fit(X).means_,
    "groups of numbers": lambda X: GroupMeans(groups=[0, 1], by="k", bounds={"a": (-2, 2)}, **SEED).fit(X).means_,
    "undeclared groups": lambda X: (
        GroupMeans(groups="discover", by="g", bounds={"a": (-2, 2)}, epsilon=9.0, **SEED).fit(X).groups_
    ),
    "table": lambda X: ContingencyTable(levels={"g": ["u", "v", "w"], "k": [0, 1, 2]}, **SEED).fit(X).counts_,
    "linear": lambda X: (
        PrivateLinearRegression(x_bounds=(-3, 3), y_bounds=(-4, 4), **SEED).fit(X[NUMBERS], "a").params_
    ),
}


@pytest.mark.parametrize("fit", FITS)
def test_fits_are_those_in_memory(frames: Callable[[pd.DataFrame], Any], fit: str) -> None:
    np.testing.assert_array_equal(FITS[fit](frames(ROWS)), FITS[fit](ROWS))


def test_names_may_differ_in_their_case_only(frames: Callable[[pd.DataFrame], Any]) -> None:
    made = ClippedMean(bounds={"a": (-2, 2), "A": (0, 2)}, **SEED)
    np.testing.assert_array_equal(
        made.fit(frames(ROWS[["a", "k"]]).toDF("a", "A")).mean_,
        made.fit(ROWS[["a", "k"]].set_axis(["a", "A"], axis=1)).mean_,
    )


def test_missing_numbers_are_missing(frames: Callable[[pd.DataFrame], Any]) -> None:
    rows = pd.DataFrame({"a": ROWS["a"].where(ROWS["a"] < 1), "n": pd.array([None, *range(1, N)], dtype="Int64")})
    for missing in ("drop", "center"):
        made = ClippedMean(bounds=[(-2, 2), (0, 100)], missing=missing, **SEED)
        np.testing.assert_array_equal(made.fit(frames(rows)).mean_, made.fit(rows).mean_)
    with pytest.raises(InvalidData, match="contains NaN or infinity"):
        ClippedMean(bounds=(-2, 2)).fit(frames(rows[["a"]]))


def test_many_partitions_are_added_up_by_tasks(
    frames: Callable[[pd.DataFrame], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_rows, "_DRIVER_ROWS", 3)
    sums: list[int] = []
    opened = spark_rows._read_result

    def counted(cell: bytes) -> Any:
        found = opened(cell)
        sums.append(int(found[spark_rows.N_ROWS]))
        return found

    monkeypatch.setattr(spark_rows, "_read_result", counted)
    rows = open_spark_frame(frames(ROWS[["a"]]))
    assert rows.shape == (N, 1) and len(sums) > 3
    sums.clear()
    rows.total(lambda part: {"sum": np.array([len(part.X)])})
    assert sum(sums[-3:]) == N
    made = ClippedMean(bounds=(-2, 2), **SEED)
    np.testing.assert_array_equal(made.fit(frames(ROWS[["a"]])).mean_, made.fit(ROWS[["a"]]).mean_)


def test_a_frame_without_rows_is_refused_as_in_memory(frames: Callable[[pd.DataFrame], Any]) -> None:
    if frames is not stand_in:
        pytest.skip("Spark return_rows cannot make a frame of no rows from pandas")
    with pytest.raises(InvalidData, match="at least 2 rows"):
        ClippedMean(bounds=(-2, 2)).fit(frames(ROWS[["a"]].iloc[:0]))


def test_what_cannot_be_read_is_refused_before_a_charge(frames: Callable[[pd.DataFrame], Any]) -> None:
    budget = PrivacyBudget(epsilon=1.0, delta=1e-6)
    mean = ClippedMean(bounds=(-2, 2), budget=budget)
    with pytest.raises(InvalidData, match="2-d table of numbers"):
        mean.fit(frames(ROWS[["a", "g"]]))
    with pytest.raises(InvalidData, match="different name for every column"):
        mean.fit(frames(ROWS[["a", "k"]]).toDF("a", "a"))
    with pytest.raises(InvalidData, match="name of a column of X"):
        PrivateLinearRegression(x_bounds=(-3, 3), y_bounds=(-4, 4), budget=budget).fit(frames(ROWS[["a"]]), ROWS["a"])
    assert not budget.history()


def test_a_stream_has_no_end() -> None:
    frame = stand_in(ROWS[["a"]])
    frame.isStreaming = True
    with pytest.raises(InvalidData, match="got a stream"):
        ClippedMean(bounds=(-2, 2)).fit(frame)


def test_frames_of_pandas_on_spark_are_read() -> None:
    class Pandas:
        def to_spark(self) -> Frame:
            return stand_in(ROWS[["a"]])

    Pandas.__module__ = "pyspark.pandas.frame"
    made = ClippedMean(bounds=(-2, 2), **SEED)
    np.testing.assert_array_equal(made.fit(Pandas()).mean_, made.fit(ROWS[["a"]]).mean_)


def test_another_version_of_the_package_on_a_worker_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = spark_rows._answer

    def other(result: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(spark_rows, "__version__", "0.0.9")
            return iter(list(answer(result)))

    monkeypatch.setattr(spark_rows, "_answer", other)
    with pytest.raises(InvalidData, match=r"got 0\.0\.9\. Install the same version"):
        ClippedMean(bounds=(-2, 2)).fit(stand_in(ROWS[["a"]]))


def test_no_error_of_a_task_reaches_spark_and_its_words_are_ours() -> None:
    def broken(part: Part) -> Any:
        raise ValueError(f"secret {part.X[0, 0]}")

    def refusing(part: Part) -> Any:
        raise InvalidData("y must be finite")

    for work, words in ((broken, "can be read"), (refusing, "y must be finite")):
        rows = open_spark_frame(stand_in(ROWS[["a"]]))
        task = spark_rows._Task(work, 1)
        answers = stand_in(ROWS[["a"]]).mapInArrow(task, "result binary").collect()
        assert b"secret" not in b"".join(cell for (cell,) in answers)
        with pytest.raises(InvalidData, match=words) as caught:
            rows.total(work)
        assert caught.value.__context__ is None


def test_rows_that_are_other_than_were_counted_are_refused() -> None:
    frame = stand_in(ROWS[["a"]])
    rows = open_spark_frame(frame)
    assert rows.shape == (N, 1)
    frame.parts.pop(0)
    budget = PrivacyBudget(epsilon=1.0)
    with pytest.raises(InvalidData, match="it changed meanwhile"):
        rows.total(lambda part: {"sum": np.array([len(part.X)])})
    assert not budget.history()


@dataclass(frozen=True)
class KilledOnce:
    """Work whose process is killed when it is done for the first time."""

    mark: Path

    def __call__(self, part: Part) -> dict[str, Any]:
        if 7.0 in part.X and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"sum": np.array([int(part.X.sum())])}


def test_a_killed_worker_counts_once(session: Any, tmp_path: Path) -> None:
    numbers = pd.DataFrame({"a": np.arange(20.0)})
    rows = open_spark_frame(session.createDataFrame(numbers).repartition(4))
    work = KilledOnce(tmp_path / "killed")
    assert rows.total(work)["sum"].tolist() == [190] and work.mark.exists()


# Workers that cannot run the package


class Session:
    """A session whose workers fail, as Spark tells it."""

    def __init__(self, told: str) -> None:
        self.told = told

    def range(self, rows: int) -> Any:
        assert rows == 1
        return self

    def mapInArrow(self, task: Any, schema: str) -> Any:  # noqa: N802
        return self

    def collect(self) -> Any:
        raise RuntimeError(self.told)


def test_the_error_of_a_worker_without_the_package_is_shown_whole() -> None:
    told = "PythonException: Traceback:\n  File worker.py\nModuleNotFoundError: No module named 'dpstats'"
    frame = stand_in(ROWS[["a"]])

    def broken(*names: str) -> Any:
        raise RuntimeError("secret 4.2")

    frame.toDF = broken  # type: ignore[method-assign]
    budget = PrivacyBudget(epsilon=1.0)
    mean = ClippedMean(bounds=(-2, 2), budget=budget)
    frame.sparkSession = Session(told)  # type: ignore[attr-defined]
    with pytest.raises(InvalidData, match="fail on a constant row") as caught:
        mean.fit(frame)
    assert told in str(caught.value) and "secret" not in str(caught.value)
    # Workers that run the package failed because of the rows, whose error is not shown.
    frame.sparkSession = Working()  # type: ignore[attr-defined]
    with pytest.raises(InvalidData, match="rows that can be read") as caught:
        mean.fit(frame)
    assert "secret" not in str(caught.value) and not budget.history()


class Working(Session):
    """A session whose workers run tasks."""

    def __init__(self) -> None:
        super().__init__("")

    def mapInArrow(self, task: Any, schema: str) -> Any:  # noqa: N802
        return Frame([pa.table({"id": [0]})], (task,))


def test_real_workers_without_pyarrow_say_so(session: Any, tmp_path: Path) -> None:
    probe_workers(session)
    venv.create(tmp_path / "bare", symlinks=True)
    kept = session.sparkContext.pythonExec
    session.sparkContext.pythonExec = str(tmp_path / "bare" / "bin" / "python")
    try:
        with pytest.raises(InvalidData, match=r"(?s)on a constant row.*No module named '\w+'"):
            ClippedMean(bounds=(-2, 2)).fit(session.createDataFrame(ROWS[["a"]]))
    finally:
        session.sparkContext.pythonExec = kept
    assert sys.executable == kept
