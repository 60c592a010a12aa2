"""The report of a study, its pictures, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dpstats.cli import main
from dpstats.errors import InvalidParameter
from dpstats.means import ClippedMean
from dpstats.simulation import Adapter, Gaussian, Rademacher, Study, crossing_point, fit_rate, study_report
from dpstats.simulation.catalogue import CATALOGUE, named_study
from dpstats.simulation.pictures import crossover, plot_crossing, plot_power, plot_risk


def sometimes(X: np.ndarray, rng: np.random.Generator, depth: int) -> np.ndarray:
    if depth == 2:
        raise ValueError("too <deep>")
    return X.mean(axis=0)


@pytest.fixture(scope="module")
def results():
    grid = {"n": [50, 100, 200], "d": [4], "epsilon": [0.1]}
    return Study(Rademacher(), ClippedMean(clip=1.0, delta=1e-6), grid, 30, seed=77, name="rate of n").run()


def test_a_report_holds_all_that_a_reader_needs(results) -> None:
    pictures = {"Risk against n": plot_risk(results, "n")}
    fit = fit_rate(results, "n", theory=-2)
    page = study_report(
        results, title="Rates", findings=[fit], pictures=pictures, command="python x.py --reps 30"
    )
    text = page.as_html()
    for part in (
        "python x.py --reps 30",
        "77",
        "numpy",
        "dpstats",
        "seconds of processes",
        "No replication failed",
        "data:image/png;base64",
        "rate of n",
        "reproduced",
        "squared_error",
        "ClippedMean(",
    ):
        assert part in text
    # Self-contained: nothing is fetched from elsewhere.
    assert "http" not in text and 'src="data:' in text and "<script" not in text


def test_a_report_says_what_failed() -> None:
    failing = Study(Gaussian(), Adapter(sometimes, depth=0), {"n": [5], "d": [1], "depth": [0, 2]}, 7).run()
    text = study_report(failing).as_html()
    assert (
        "Failed cells" in text
        and "Cell 2 failed in 7 of 7 replications: ValueError: too &lt;deep&gt;" in text
    )
    assert plot_risk(failing, "n").axes


def test_pictures(results) -> None:
    terms = {
        "sampling": lambda cell: cell["d"] / cell["n"],
        "privacy": lambda cell: (99 * cell["d"] / cell["n"]) ** 2,
    }
    figure = plot_risk(results, "n", terms=terms, title="x")
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert "sampling" in labels and "privacy" in labels and figure.axes[0].get_xscale() == "log"
    with pytest.raises(InvalidParameter, match="parameter must be one of"):
        plot_risk(results, "m")
    assert crossover([1.0, 2.0], [1.0, 1.0], [3.0, 2.0]) is None
    found = crossing_point(lambda x, rng: rng.random(20) < x / 10, 1, 9, replications=40)
    assert "target power" in plot_crossing(found).axes[0].get_legend().get_texts()[0].get_text()


@pytest.mark.parametrize("name", CATALOGUE)
def test_named_studies_run_and_conclude(name: str) -> None:
    entry = named_study(name)
    small = {"n": entry.grid["n"][:3] if name != "power" else [60]}
    results = entry.study(name, small, replications=20, seed=1).run()
    assert not results.failed_cells
    findings, note = entry.conclusions(results)
    assert findings and not note and all(finding.verdict for finding in findings)
    assert entry.picture(results).axes
    one = entry.study(name, {"n": [60], "d": [5]}, replications=3).run()
    assert entry.conclusions(one) is not None


def test_power_curves_have_their_lines() -> None:
    results = named_study("power").study("power", {"n": [60, 120]}, replications=20).run()
    labels = {
        text.get_text()
        for text in plot_power(results, "n", level=0.05, target=0.8).axes[0].get_legend().texts
    }
    assert {"level 0.05", "target power 0.8"} <= labels


GRID = '{"n": [50, 100, 200], "d": [2]}'


def test_simulate_prints_writes_and_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, target, page = tmp_path / "rows.db", tmp_path / "out.json", tmp_path / "page.html"
    arguments = ["simulate", "mean-rate", "--grid", GRID, "--reps", "20", "--seed", "5", "--out", str(rows)]
    assert main([*arguments, "--json", str(target), "--report", str(page)]) == 0
    captured = capsys.readouterr()
    assert "squared_error" in captured.out and "Constants of the formula" in captured.out
    assert "mean-rate" in captured.err  # progress
    written = json.loads(target.read_text())
    assert written["simulated"] and written["seed"] == "5" and len(written["cells"]) == 3
    assert {finding["finding"] for finding in written["findings"]} == {"Constants of the formula", "Rate"}
    assert "Risk of the clipped mean" in page.read_text()
    # A second time nothing is run, and two processes print what one does.
    assert main([*arguments, "--json", "-"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == written and captured.err == ""
    assert main([*arguments[:-2], "--jobs", "2", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == written


def test_simulate_tells_a_failed_cell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "mean-rate", "--grid", '{"n": [1, 100], "d": [1]}', "--reps", "5"]) == 0
    out = capsys.readouterr().out
    assert "Cell 1 failed in 5 of 5 replications" in out


BAD = {
    "name": (["median"], "NAME must be one of mean-rate, sparse-rate, coverage, power, got 'median'"),
    "grid": (["mean-rate", "--grid", "{n: 1}"], "--grid must be JSON"),
    "names": (["mean-rate", "--grid", '{"epsilom": [1]}'], "unknown parameters epsilom"),
    "list": (["mean-rate", "--grid", '{"n": 5}'], "grid must hold a list of values of n"),
    "number": (["mean-rate", "--grid", "5"], "grid must be a mapping of lists"),
    "reps": (["mean-rate", "--reps", "0"], "replications must be an integer at least 1, got 0"),
    "jobs": (["mean-rate", "--jobs", "0"], "n_jobs must be a positive integer"),
    "seed": (["mean-rate", "--seed", "-1"], "seed must be an integer at least 0, got -1"),
    "out": (["mean-rate", "--out", "no/such/folder.db"], "cannot be opened"),
    "json": (["mean-rate", "--json", "no/such/folder.json"], "folder.json"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_exit_2(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, message = BAD[name]
    assert main(["simulate", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and message in captured.err and captured.err.count("\n") == 1
