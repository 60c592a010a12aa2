"""dpstats histogram: counts of categories, densities of bins, and what is refused in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpstats.cli import main
from dpstats.cli.groups import ColumnHistogram
from dpstats.mechanisms import Histogram
from tests.cli.commands import json_of, refused

BINS = ["--column", "age", "--bins", "0", "30", "40", "100"]


def test_it_is_the_mechanisms(folder: Path, frame: object, capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(["histogram", "people.csv", *BINS, "--seed", "1"], capsys)
    result = Histogram(bins=[0, 30, 40, 100], epsilon=1.0, random_state=1).release(frame["age"])  # type: ignore[index]
    assert [record["count"] for record in found["bins"]] == result.counts.tolist()
    assert [record["density"] for record in found["bins"]] == result.densities.tolist()
    band = result.density_interval()
    assert [record["density_high"] for record in found["bins"]] == np.asarray(band.high).tolist()
    assert found["bins"][2]["name"] == "[40, 100]"


def test_categories_are_words(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.csv").write_text('a\nx\n1\n"u,v"\n1\n\n')
    given = ["histogram", "c.csv", "--column", "a", "--categories", '1,x,"u,v"', "--epsilon", "60"]
    found = json_of(given, capsys)
    assert {record["name"]: record["count"] for record in found["categories"]} == {"1": 2, "x": 1, "u,v": 1}
    assert main(given) == 0 and "Private counts" in capsys.readouterr().out


def test_bad_input_charges_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for given, words in (
        (["--column", "age", "--bins", "0", "1", "--unknown", "error"], "declared bins only"),
        (["--column", "age", "--bins", "1", "0"], "increasing"),
        (["--column", "name", "--bins", "0", "1"], "an entry must be a number"),
        (["--column", "name", "--categories", "x,y", "--unknown", "error"], "declared categories only"),
        (["--column", "name", "--categories", "x,x"], "distinct"),
        (["--bins", "0", "1"], "--column must be given once"),
    ):
        assert words in refused(["histogram", "people.csv", *given, "--budget", "b.db"], capsys)


def test_parameters_are_the_histograms() -> None:
    made = ColumnHistogram(bins=[0, 1], epsilon=1.0).set_params(epsilon=0.5)
    assert made.get_params() == {"bins": [0, 1], "epsilon": 0.5}
    assert made.plan(10).additive[0].scale_steps == 2.0 and made.plan(10).n_samples == 10


def test_categories_are_discovered(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.csv").write_text("a\n" + "x\n" * 200 + "y\n" * 3 + "\n" * 50)
    given = ["histogram", "c.csv", "--column", "a", "--categories", "discover", "--seed", "0"]
    found = json_of([*given, "--delta", "1e-6"], capsys)
    result = Histogram("discover", 1.0, 1e-6, random_state=0).release(["x"] * 200 + ["y"] * 3)
    assert [record["name"] for record in found["categories"]] == ["x"]
    assert found["categories"][0]["count"] == result.counts[0]
    assert "--delta must be positive with --categories discover" in refused(given, capsys)
    private = json_of([*given, "--delta", "1e-6", "--neighbors", "add_or_remove"], capsys)
    assert [record["name"] for record in private["categories"]] == ["x"] and "n" not in private
