"""The report of a study: all that a reader needs, and what failed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from dpstats.means import ClippedMean
from dpstats.simulation import Adapter, Gaussian, Rademacher, Study, fit_rate, study_report
from dpstats.simulation.study_report import plot_risk


def sometimes(X: np.ndarray, rng: np.random.Generator, depth: int) -> np.ndarray:
    if depth == 2:
        raise ValueError("too <deep>")
    return X.mean(axis=0)


def test_a_report_holds_all_that_a_reader_needs(results) -> None:
    pictures = {"Risk against n": plot_risk(results, "n")}
    fit = fit_rate(results, "n", theory=-2)
    page = study_report(results, title="Rates", findings=[fit], pictures=pictures, command="python x.py --reps 30")
    text = page.as_html()
    for part in (
        "python x.py --reps 30",
        "77",
        "numpy",
        "dpstats",
        "seconds of processors",
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
    assert "<h2>Failures</h2>" in text and "Cell 2 failed in 7 of 7 replications: ValueError: too &lt;deep&gt;" in text
    assert plot_risk(failing, "n").axes


def test_a_study_of_ones_own_has_its_line_and_slope(tmp_path: Path) -> None:
    grid = {"n": [50, 100, 200, 400], "d": [2], "depth": [0, 1]}
    study = Study(Gaussian(), Adapter(sometimes, depth=0), grid, 40, name="own")
    results = study.run()
    page = study_report(results)
    text = page.as_html()
    assert "Rate in n" in text and text.count("<img") == 1 and "Squared error against n" in text
    # Every title once; the estimator as it was run.
    headings = re.findall(r"<h[1-3]>(.*?)</h[1-3]>", text)
    assert len(headings) == len(set(headings)) and "<h1>Study: own</h1>" in text
    assert "depth=&lt;by cell&gt;" in text and "<h4" not in text
    written = results.to_html(tmp_path / "study.html", title="Mine").read_text()
    assert "<h1>Mine</h1>" in written and "Simulated data and simulated noise; not a release." in written
    # Shares have levels, and no rates.
    tests = Study(Gaussian(), Rejecting(), {"n": [5, 10, 20], "d": [1]}, 5, loss="rejection").run()
    assert "Rate in" not in study_report(tests).as_html() and study_report(tests).as_html().count("<img") == 1


class Rejecting(BaseEstimator):
    """Rejects where the first row is positive."""

    def fit(self, X: np.ndarray, y: object = None) -> Rejecting:
        self.reject_ = bool(X[0, 0] > 0)
        return self


def test_findings_and_pictures_that_are_given_are_those_shown(results) -> None:
    text = study_report(results, findings=[], pictures={}).as_html()
    assert "Findings" not in text and "<img" not in text
    several = study_report([results, results]).as_html()
    assert several.count("<h3>Rate in n</h3>") == 2


@pytest.mark.parametrize(("sizes", "rates"), [((50, 100), False), ((50, 100, 200), True)])
def test_a_rate_needs_three_values(sizes: tuple[int, ...], rates: bool) -> None:
    grid = {"n": list(sizes), "d": [4], "epsilon": [0.1]}
    study = Study(Rademacher(), ClippedMean(clip=1.0, delta=1e-6), grid, 10, seed=77)
    text = study_report(study.run()).as_html()
    assert ("Rate in" in text) is rates and ("<img" in text) is rates
