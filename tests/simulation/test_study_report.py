"""The report of a study: all that a reader needs, and what failed."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.means import ClippedMean
from dpstats.simulation import Adapter, Gaussian, Rademacher, Study, fit_rate, study_report
from dpstats.simulation.pictures import plot_risk


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
