"""The table of results: rows, selections, derived parameters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.means import ClippedMean
from dpstats.simulation import Adapter, Gaussian, Rademacher, Study, StudyFileError, study_report
from tests.simulation.rows import ESTIMATOR, GRID


def test_tables() -> None:
    pandas = pytest.importorskip("pandas")
    results = Study(Rademacher(), ESTIMATOR, GRID, 20, name="a <study>").run()
    frame = results.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and frame["n"].tolist() == [20, 20, 200, 200]
    assert results.as_records()[0]["n"] == 20 and "a &lt;study&gt;" in results._repr_html_()
    derived = results.derive("x", lambda cell: cell["n"] * 2, instead_of="n")
    assert derived.parameter("x").tolist() == [40, 40, 400, 400] and "n" not in derived.cells[0].parameters
    assert len(results.where(lambda cell: cell["d"] == 3).cells) == 2
    with pytest.raises(InvalidParameter, match="parameter must"):
        results.parameter("m")
    with pytest.raises(InvalidParameter, match="loss must"):
        results.mean("risk")


def average(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X.mean(axis=0)


def halves(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X[: len(X) // 2].mean(axis=0)


NAMED = {"all rows": Adapter(average), "half": Adapter(halves)}
SIZES = {"n": [20, 40, 80], "d": [2]}


def test_each_estimator_has_the_numbers_that_it_has_alone() -> None:
    together = Study(Gaussian(), NAMED, SIZES, 30, seed=4).run()
    assert [cell.parameters["estimator"] for cell in together.cells] == ["all rows"] * 3 + ["half"] * 3
    for name, part in together.by_estimator().items():
        alone = Study(Gaussian(), NAMED[name], SIZES, 30, seed=4).run()
        assert part.table().tobytes() == alone.table().tobytes()


def test_ratios_count_that_the_rows_are_the_same() -> None:
    # The mean of one half of the rows has twice the squared error. Five standard errors: a false alarm below 1e-5.
    study = Study(Gaussian(), NAMED, {"n": [20], "d": [1]}, 2000, seed=1)
    summary = study.run().side_by_side()
    assert list(summary.columns) == ["n", "d", "all rows", "half", "half / all rows"]
    ratio, error = summary.rows[0][-1].rstrip(")").split(" (")
    assert abs(float(ratio) - 2) < 5 * float(error)
    first, second = (cell.losses["squared_error"] for cell in study.run().cells)
    shuffled = np.random.default_rng(0).permutation(len(second))
    apart = np.std(second[shuffled] - 2 * first) / first.mean() / np.sqrt(2000)
    assert float(error) < 0.9 * apart
    same = Study(Gaussian(), {"a": Adapter(average), "b": Adapter(average)}, SIZES, 10).run()
    assert [row[-1] for row in same.side_by_side().rows] == ["1 (0)"] * 3


def test_files_processes_and_reports(tmp_path: Path) -> None:
    study = Study(Gaussian(), NAMED, SIZES, 20, seed=2)
    first = study.run(tmp_path / "s.db")
    assert study.run(tmp_path / "s.db").table().tobytes() == first.table().tobytes()
    assert study.run(n_jobs=2).table().tobytes() == first.table().tobytes()
    with pytest.raises(StudyFileError):
        Study(Gaussian(), {"other": Adapter(average)}, SIZES, 20, seed=2).run(tmp_path / "s.db")
    page = study_report(first, pictures={}).as_html()
    assert "Rate in n: study, all rows" in page and "Rate in n: study, half" in page
    assert "half / all rows" in page
    assert {"Estimator all rows", "Estimator half"} <= set(first.facts)


def test_an_estimator_that_fails_is_told_by_name_and_has_no_error_of_its_ratio() -> None:
    def rarely(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if rng.random() < 0.2:
            raise ValueError("no")
        return X.mean(axis=0)

    results = Study(Gaussian(), {"all rows": Adapter(average), "rarely": Adapter(rarely)}, SIZES, 20).run()
    assert all("(" not in row[-1] for row in results.side_by_side().rows)
    assert "Cell 4 failed" in str(results.side_by_side())

    def never(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        raise ValueError("no")

    with pytest.raises(InvalidParameter, match="'never'"):
        Study(Gaussian(), {"all rows": Adapter(average), "never": Adapter(never)}, SIZES, 20).run()


def test_bad_names_are_one_clear_error() -> None:
    mean = ClippedMean(clip=1.0)
    with pytest.raises(InvalidParameter, match="a name for each"):
        Study(Gaussian(), {}, SIZES, 2)
    with pytest.raises(InvalidParameter, match="estimator must"):
        Study(Gaussian(), {"a": mean, "b": 3}, SIZES, 2)
    with pytest.raises(InvalidParameter, match="must not name 'estimator'"):
        Study(Gaussian(), {"a": mean}, {**SIZES, "estimator": [1]}, 2)
    with pytest.raises(InvalidParameter, match="unknown parameters clip"):
        Study(Gaussian(), {"a": mean, "b": Adapter(average)}, {**SIZES, "clip": [1.0]}, 2)
    with pytest.raises(InvalidParameter, match="two or more estimators"):
        Study(Gaussian(), Adapter(average), SIZES, 2).run().side_by_side()


def test_standard_errors_are_those_of_independent_replications() -> None:
    cell = Study(Rademacher(), ESTIMATOR, {"n": [20], "d": [1], "epsilon": [1.0]}, 3).run().cells[0]
    values = cell.losses["squared_error"]
    wanted = np.sqrt(((values - values.mean()) ** 2).sum() / 2 / 3)
    assert cell.standard_error("squared_error") == pytest.approx(wanted)
