"""The strongest slopes are reproduced, and broken estimators are not: the harness can fail."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "studies" / "rates"))
import accuracy_bounds
import filtering_test
import identity_cells
import identity_tests
import linear_regression
import mean_bounded
import mean_gaussian
import reduced_distances
import run_all
import sparse_mean
from outcomes import LEVEL, Options, Outcome
from sklearn.base import clone

from dpstats.identity import FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest
from dpstats.means import ClippedMean
from dpstats.means.moments import MEAN, TOGETHER
from dpstats.regression import PrivateLinearRegression
from dpstats.simulation import Gaussian, Study, StudyResults, compare, compare_formulas, fit_formula
from dpstats.simulation.table import CellResult, reproduced

FAST = Options("fast")
# Every interval is at 1 - .05/100, so all verdicts of this file together fail falsely with probability 5% at most
# over seeds; the seeds are fixed.


def verdicts(outcome: Any) -> dict[str, str]:
    return {f"{line.quantity} {line.theory} {line.regime}": line.verdict for line in outcome.lines}


def test_bounded_mean() -> None:
    outcome = mean_bounded.run(FAST)
    assert len(outcome.lines) == 9 and all(map(reproduced, verdicts(outcome).values())), verdicts(outcome)
    # In log epsilon the slope at these sizes is not the one of the limit.
    by_epsilon = next(line for line in outcome.lines if line.quantity == "exponent of epsilon")
    assert by_epsilon.verdict == "reproduced at finite size"


def test_gaussian_mean_shows_the_logarithm() -> None:
    outcome = mean_gaussian.run(FAST)
    found = verdicts(outcome)
    assert all(map(reproduced, found.values())), found
    assert outcome.lines[0].verdict == "reproduced at finite size"


def test_accuracy_bounds() -> None:
    outcome = accuracy_bounds.run(FAST)
    assert all(map(reproduced, verdicts(outcome).values())), verdicts(outcome)


def test_linear_regression() -> None:
    outcome = linear_regression.run(FAST)
    found = {line.quantity: line.verdict for line in outcome.lines if "local slope" not in line.regime}
    # So few cells tell n^-1 from n^-2, but not d from d^2, and leave the free exponents open.
    assert found["rival: n^-1 in the privacy term"] == "reproduced"
    assert len(outcome.lines) == 11 and "not reproduced" not in found.values(), found
    slopes = {line.quantity: line.verdict for line in outcome.lines if "local slope" in line.regime}
    assert len(slopes) == 3 and all(map(reproduced, slopes.values())), slopes


class SpendsLess(PrivateLinearRegression):
    """Noise of the mean that shrinks with n^-1/2 only: rows are added, and epsilon is taken away."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        less = self.epsilon * math.sqrt(3000 / n_samples)
        return PrivateLinearRegression.plan(clone(self).set_params(epsilon=less), n_samples, n_features)


def test_a_regression_of_another_rate_is_not_reproduced() -> None:
    # Cells with the same stages: the constant of privacy is another one where lengths are not released.
    grid = {"n": [12_000, 48_000], "d": [8], "epsilon": [0.4, 0.8]}
    fits = []
    for kind in (SpendsLess, PrivateLinearRegression):
        estimator = kind(**linear_regression.ESTIMATOR.get_params())
        results = Study(linear_regression.LinearModel(), estimator, grid, 60, loss="squared_error").run()
        fits.append(
            fit_formula(
                results, linear_regression.TERMS, accuracy=2 * linear_regression.ACCURACY, confidence_level=LEVEL
            ).verdict
        )
    assert fits[0] == "not reproduced" != fits[1]


class HalfTheNoise(ClippedMean):
    def _report(self, released: Any, plan: Any) -> None:
        super()._report(released, plan)
        clean = self._clean * plan.lattice.spacing / plan.n_samples
        self.released_mean_ = (self.released_mean_ + clean) / 2  # half the noise

    def _read(self, table: Any, plan: Any) -> Any:
        read = super()._read(table, plan)
        self._clean = read[TOGETHER][MEAN]
        return read


class WrongRadius(ClippedMean):
    """Clips at half the radius that it is told."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        narrow = ClippedMean(clip=self.clip / 2, epsilon=self.epsilon, delta=self.delta)
        return narrow.plan(n_samples, n_features)


@pytest.mark.parametrize("broken", [HalfTheNoise, WrongRadius])
def test_a_broken_mean_is_not_reproduced(broken: type[ClippedMean]) -> None:
    kept = {name: mean_bounded.GRIDS[name] for name in ("privacy-d", "crossover")}
    grid = {name: {**cells, "n": cells["n"][:4]} for name, cells in kept.items()}
    results = []
    for estimator in (broken(clip=1.0, delta=mean_bounded.DELTA), ClippedMean(clip=1.0, delta=mean_bounded.DELTA)):
        parts = [
            Study(mean_bounded.Rademacher(), estimator, cells, 60, loss="released_squared_error", seed=5).run()
            for cells in grid.values()
        ]
        whole = StudyResults("all", sum((part.cells for part in parts), ()), ("released_squared_error",), {})
        fit = mean_bounded.fit_formula(
            whole, mean_bounded.TERMS, constants=mean_bounded.CONSTANTS, confidence_level=LEVEL
        )
        results.append(fit)
    assert results[0].verdict == "not reproduced" and results[1].verdict == "reproduced"
    # Half the noise and half the radius: a quarter of the privacy term.
    assert results[0].constants[1] == pytest.approx(0.25, rel=0.1)


class WrongScale(SpatialSignTest):
    """Its statistic is a fifth larger than the one it was calibrated for."""

    def _exact(self, X: Any, plan: Any) -> Any:
        return {name: value * 6 // 5 for name, value in super()._exact(X, plan).items()}


@pytest.mark.parametrize(("test", "verdict"), [(SpatialSignTest, "reproduced"), (WrongScale, "not reproduced")])
def test_a_test_with_a_wrong_scale_is_not_reproduced(test: type[SpatialSignTest], verdict: str) -> None:
    sound = test(epsilon=2.0, n_calibration=999)
    results = Study(Gaussian(), sound, {"n": [200], "d": [20]}, 200, loss="rejection", seed=4).run()
    assert not results.failed_cells
    assert compare(results, 0.05, relation="at_most", confidence_level=LEVEL).verdict == verdict


def test_the_other_scripts_run(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "sampling-s"
    estimator, grid, replications = sparse_mean.STUDIES[name]
    small = {**grid, "n": [400], "d": [64], "n_nonzero": [2, 8, 32]}
    monkeypatch.setattr(sparse_mean, "STUDIES", {name: (estimator, small, replications), "privacy-n": ()})
    monkeypatch.setitem(sparse_mean.STUDIES, "privacy-n", (estimator, {**small, "n": [200, 400, 800]}, 1))
    outcome = sparse_mean.run(FAST)
    assert outcome.lines[0].verdict == "reproduced" and "98%" in outcome.lines[0].regime
    # The logarithm of the sparse mean: the exponent of the limit beside the signals' own term, and no other law.
    line = next(line for line in outcome.lines if line.quantity == "exponent of log d in log d")
    assert line.verdict == "reproduced"
    assert {line.verdict for line in outcome.lines if line.quantity.startswith("rival")} == {"reproduced"}


def test_the_selection_that_is_studied_is_the_same_at_all_sizes() -> None:
    sizes = [d for columns in sparse_mean.COLUMNS.values() for d in (min(columns), max(columns))]
    chosen = {sparse_mean.Selection.planned(d, 0.05) for d in sizes}
    assert len(chosen) == 1
    # The plan's noise is that of scores clipped at 1, whose moments the formula has.
    plan = sparse_mean.selecting(0.05).plan(10_000, 64)
    assert plan.lattice.spacing * plan.lattice.bound == pytest.approx(sparse_mean.CLIP)


def test_the_filtering_test_by_its_constants() -> None:
    outcome = filtering_test.run(FAST)
    found = verdicts(outcome)
    assert len(outcome.lines) == 7 and "not reproduced" not in found.values(), found
    assert [line.verdict for line in outcome.lines[:3]] == ["reproduced at finite size"] * 3
    # Distances of drawn sums are those of the printed constants.
    rng = np.random.default_rng(0)
    for n, d, epsilon in ((2000, 16, 0.5), (10**9, 10**8, 0.01)):
        square = reduced_distances.filtering(n, d, epsilon, rng, 400) ** 2
        stated = filtering_test.stated_square({"n": n, "d": d, "epsilon": epsilon})
        assert square == pytest.approx(stated, rel=0.03)


@pytest.mark.parametrize(
    ("measured", "verdict"), [(1.0, "reproduced at finite size"), (1.5, "not reproduced"), (0.0, "undecided")]
)
def test_exponents_of_risks_that_bend(measured: float, verdict: str) -> None:
    # 1/n + 100/n^2 times the square root of n, or of another law: where the formula does not fit, nothing is decided.
    def bent(n: float) -> float:
        return n**-1.0 + 100 * n**-2.0

    rng, cells = np.random.default_rng(3), []
    for n in (10, 30, 100, 300, 1000, 3000):
        mean = bent(n) * n ** (measured - 1) if measured else n**-1.5
        cells.append(CellResult({"n": n}, {"risk": mean * np.exp(0.05 * rng.standard_normal(60))}, {}))
    outcome = Outcome("synthetic")
    results = StudyResults("synthetic", tuple(cells), ("risk",), {})
    terms = {"the formula": lambda cell: bent(cell["n"])}
    outcome.beyond("0", results, "n", terms, theory=-2.0, regime="all", tolerance=0.1)
    (line,) = outcome.lines
    assert line.verdict == verdict


def test_reduced_distances_are_those_of_the_tests() -> None:
    rng = np.random.default_rng(0)
    for test, distance, (n, d, epsilon), batch in (
        (RowDistanceTest(clip=1), reduced_distances.row_distance, (60, 80, 1.0), (rng, 100)),
        (SpatialSignTest(), reduced_distances.spatial_sign, (10_000, 16, 0.05), ()),
        (LipschitzExtensionTest(), reduced_distances.l1_extension, (4000, 16, 0.1), (rng, 100)),
        (FilteringTest(), reduced_distances.filtering, (500, 16, 0.5), (rng, 400)),
    ):
        a = distance(n, d, epsilon, *batch)
        fresh = test.set_params(epsilon=epsilon, n_calibration=999, random_state=0)
        # Errors of 600 datasets, of the calibration and of the batch: .02, .03 and .02.
        assert fresh.power(a, n, d, n_simulations=600) == pytest.approx(2 / 3, abs=0.14)
    # Many columns: the limit of a_c^2/sqrt(d).
    whole = reduced_distances.row_distance(100, 2**20, 0.5, rng, 60) ** 2 / 2**10
    assert reduced_distances.row_distance_limit(100, 0.5, rng, 60) ** 2 == pytest.approx(whole, rel=0.1)


@pytest.mark.parametrize("zone", list(identity_tests.ZONES))
def test_the_cells_of_the_identity_tests_tell_rates_apart(zone: str) -> None:
    # Squared distances by the formula, with the rows' own term, and errors of batches.
    rng = np.random.default_rng(7)
    cells = []
    for cell in identity_cells.grids(Options("full"))[zone]:
        square = 0.3 * cell["d"] ** 0.5 + 1.0
        size = 0.1 if zone == "row-sampling" else 0.01
        kept = {"n": cell["n"], "d": cell["d"], "epsilon": cell["epsilon"]}
        cells.append(CellResult(kept, {"squared": square * np.exp(size * rng.standard_normal(8))}, {}))
    results = StudyResults("synthetic", tuple(cells), ("squared",), {})
    free = {"all": lambda cell: 1.0, **identity_tests.OWN_ROWS}
    fit = fit_formula(results, free, free={"all": "d"}, exponents={"all": 0.5}, tolerance=0.1, confidence_level=LEVEL)
    assert fit.exponents[0].verdict != "not reproduced" and fit.exponents[0].detectable < 0.15
    found = compare_formulas(
        results, identity_tests.IN_D, nuisance=identity_tests.OWN_ROWS, accuracy=identity_tests.ACCURACY
    )
    assert found.verdict == "reproduced"


def test_no_extension_of_the_statistic_has_the_printed_constant() -> None:
    inside, over_printed, over_root = identity_tests.replaced_rows(1024, 4096, np.random.default_rng(0))
    # sqrt(2/pi) = .80 in the limit; the printed 4 Delta is passed.
    assert inside and over_printed > 1 and 0.6 < over_root < 0.9


def test_the_table_and_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Another section stays as it is, and counts in the head.
    other = """## Coverage of old

2026-11-29, `python validation/studies/rates/run_all.py --only covered`: 3.5 minutes of one processor.

| theorem | quantity | theory | predicted here | estimate | interval | verdict | finds | regime |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| coverage | coverage | 0.95 |  | 0.9 | [0.8, 0.91] | not reproduced | 0.01 | 8 cells |
"""
    (tmp_path / "rates.md").write_text("# Before\n\nold words\n\n" + other, encoding="utf-8")
    arguments = ["--scale", "fast", "--only", "accuracy_bounds", "--jobs", "1"]
    arguments += ["--folder", str(tmp_path / "runs"), "--out", str(tmp_path)]
    assert run_all.main(arguments) == 0
    again = capsys.readouterr().out
    text = (tmp_path / "rates.md").read_text(encoding="utf-8")
    assert text == again.rstrip("\n") + "\n" and "| 3.8 (Laplace) |" in text and "Failed cells: none." in text
    assert (
        other in text
        and "old words" not in text
        and list(run_all.read_sections(tmp_path / "rates.md")) == ["accuracy_bounds", "covered"]
    )
    assert re.search(r"^\| all \| 5 \| 0 \| 0 \| 1 \| 3\.\d \|$", text, re.MULTILINE)
    page = (tmp_path / "runs" / "rates.html").read_text(encoding="utf-8")
    assert "3.28 (numeric)" in page and "--only accuracy_bounds" in page and "Seed" in page
    assert len(list((tmp_path / "runs").glob("*.sqlite"))) == 3


def test_the_published_page_has_every_section() -> None:
    page = run_all.RESULTS / "rates.md"
    sections = run_all.read_sections(page)
    assert sections.keys() == set(run_all.SCRIPTS)
    assert run_all.as_markdown(sections) == page.read_text(encoding="utf-8")
    assert sum(run_all.count_verdicts(text)["not reproduced"] for text in sections.values()) == 0
    minutes = [run_all.count_minutes(text) for text in sections.values()]
    assert sum(minutes) <= 180  # 90 minutes on two cores; every section says how long it took
