"""Exponents: on synthetic risks with known ones, how often verdicts are false, and that they can fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.simulation import compare, fit_formula, fit_rate
from dpstats.simulation.table import reproduced
from tests.simulation.synthetic import CELLS, CONSTANTS, TERMS, N, power_law, synthetic, two_terms


def test_exponents_are_found_without_bias_and_intervals_cover() -> None:
    rng = np.random.default_rng(0)
    fits = [fit_rate(synthetic(power_law(-1.5), rng), "n", theory=-1.5) for _ in range(400)]
    slopes = np.array([fit.slope for fit in fits])
    # Relative error sqrt(2/(4 * 200)) = .05 a cell, five cells with a log-spread of .98: .0228.
    assert slopes.std() == pytest.approx(0.05 / np.sqrt(5) / 0.980, rel=0.15)
    assert abs(slopes.mean() + 1.5) < 5 * 0.0228 / 20
    # False verdicts: 5% of 400; at most 37 but for probability 1e-4.
    false = sum(fit.verdict != "reproduced" for fit in fits)
    assert 6 <= false <= 37
    assert np.mean([fit.pvalue < 0.05 for fit in fits]) < 0.12


def test_a_wrong_exponent_is_told() -> None:
    rng = np.random.default_rng(1)
    # An error of .15 in the exponent is 6.6 standard errors.
    found = [fit_rate(synthetic(power_law(-1.65), rng), "n", theory=-1.5).verdict for _ in range(100)]
    assert found.count("not reproduced") >= 99


def test_every_other_parameter_has_an_intercept() -> None:
    rng = np.random.default_rng(2)
    cells = [{"n": n, "d": d} for d in (1, 50) for n in N]
    results = synthetic(lambda cell: cell["d"] ** 3 / cell["n"], rng, cells, replications=2000)
    # A false alarm below .002 together.
    fit = fit_rate(results, "n", theory=-1, confidence_level=0.999)
    assert fit.verdict == "reproduced" and fit.n_cells == 10
    assert fit_rate(results, "d", theory=3, confidence_level=0.999).verdict == "reproduced"
    # A cell that has no companion says nothing about n.
    assert fit_rate(results.where(lambda cell: cell["d"] == 1 or cell["n"] == 100), "n").n_cells == 5


def test_regimes_and_the_finite_size_prediction() -> None:
    rng = np.random.default_rng(3)
    cells = [{"n": n, "d": 1} for n in (3, 6, 12, 25, 50, 100, 9000, 18_000, 36_000, 72_000)]
    results = synthetic(two_terms, rng, cells, replications=2000)
    options = {"terms": TERMS, "constants": CONSTANTS}
    early = fit_rate(results, "n", theory=-2, term="privacy", share=0.95, **options)
    late = fit_rate(results, "n", theory=-1, term="sampling", share=0.95, **options)
    # The crossover is at 900: privacy is above 95% below 47, sampling above 17,100.
    assert early.n_cells == 4 and late.n_cells == 3 and "above 95% of the formula" in early.regime
    assert early.verdict == late.verdict == "reproduced"
    both = fit_rate(results, "n", theory=-2, **options)
    assert both.verdict == "reproduced at finite size" and -1.9 < both.prediction < -1.1
    assert reproduced(both.verdict) and both.formula.verdict == "reproduced"
    # The regime is found by fitted constants, too.
    assert fit_rate(results, "n", terms=TERMS, term="privacy", share=0.95).n_cells == 4


def test_wide_intervals_decide_nothing() -> None:
    fit = fit_rate(synthetic(power_law(-1), np.random.default_rng(4), replications=20), "n", theory=-1, tolerance=0.02)
    assert fit.verdict == "undecided" and fit.half_width > 0.02 and not reproduced(fit.verdict)
    assert fit_rate(synthetic(power_law(-1), np.random.default_rng(4)), "n").verdict == "undecided"


def test_bad_input_is_one_clear_error() -> None:
    results = synthetic(power_law(-1), np.random.default_rng(12))
    few = results.where(lambda cell: cell["n"] < 300)
    for call, message in (
        (lambda: fit_rate(few, "n"), "results must"),
        (lambda: fit_rate(results, "m"), "parameter must"),
        (lambda: fit_rate(results, "n", term="privacy"), "term must"),
        (lambda: fit_rate(results, "n", loss="risk"), "loss must"),
        (lambda: fit_rate(results, "n", share=1.5), "share must"),
        (lambda: fit_rate(results, "n", theory="a"), "theory must"),
        (lambda: compare(results, "x"), "stated must"),
        (lambda: compare(3, 0.95), "results must"),
        (lambda: fit_formula(results, TERMS, constants={"bias": 1.0}), "constants must"),
        (lambda: fit_formula(results, {"zero": lambda cell: 0.0}), "terms must"),
        (lambda: fit_formula(few.where(lambda cell: cell["n"] == 100), TERMS), "results must"),
        (lambda: compare(results, 0.0, relation="below"), "relation must"),
        (lambda: fit_rate(results.derive("x", lambda cell: -1.0), "x"), "parameter must"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            call()


def test_a_prediction_alone_is_compared_at_finite_size() -> None:
    results = synthetic(power_law(-1.5), np.random.default_rng(12), replications=2000)
    assert fit_rate(results, "n", prediction=power_law(-1.5)).verdict == "reproduced at finite size"
    assert fit_rate(results, "n", prediction=power_law(-1.2)).verdict == "not reproduced"


def test_one_line_that_does_not_fit_is_said() -> None:
    cells = [{"n": n, "d": 1} for n in (3, 12, 50, 200, 800, 3200, 12_800)]
    results = synthetic(two_terms, np.random.default_rng(5), cells, replications=20_000)
    fit = fit_rate(results, "n", theory=-1.5)
    assert not fit.fits and fit.pvalue < 1e-20 and fit.two is not None
    # The interval counts what the line misses the points by, and not Monte Carlo error alone.
    assert fit.half_width > 0.1 and fit.deviation > 0.2
    text = str(fit)
    for words in ("one line does not fit: p =", "No single exponent fits", "n below", "n above", "breaks at n ="):
        assert words in text
    # That the theory's exponent is near the slope of a line that does not fit reproduces nothing.
    assert fit_rate(results, "n", theory=fit.slope).verdict == "undecided"
    assert fit_rate(results, "n", theory=fit.slope, tolerance=1.0).verdict == "undecided"
    assert fit_rate(results, "n", theory=-9.0).verdict == "not reproduced"
    # What the formula says of these cells bends as they do. The formula is judged, and no slope.
    whole = fit_rate(results, "n", theory=-2, terms=TERMS, constants=CONSTANTS)
    assert whole.verdict == "undecided" and not whole.fits and whole.formula.verdict == "reproduced"
    assert whole.interval.low < whole.prediction < whole.interval.high
    assert fit_rate(results, "n", terms=TERMS, constants=CONSTANTS, tolerance=1.0).verdict != "not reproduced"
    good = fit_rate(synthetic(power_law(-1), np.random.default_rng(6)), "n")
    assert good.fits and "does not fit" not in str(good) and good.two is None


def test_lines_for_pictures_go_through_their_cells() -> None:
    n = np.array(N, dtype=float)
    fit = fit_rate(synthetic(power_law(-1.5), np.random.default_rng(0), replications=20_000), "n")
    line = fit.line(n, 3.0 * n**-1.5, 0.01 * n**-1.5)
    assert line == pytest.approx(3.0 * n**-1.5, rel=0.05) and fit.words == f"slope {fit.slope:.3g}"
    steep = fit_rate(
        synthetic(
            two_terms, np.random.default_rng(5), [{"n": k, "d": 1} for k in (3, 50, 200, 800, 3200, 12_800)], 20_000
        ),
        "n",
    )
    assert steep.words.startswith("slopes -1.9") and "break at" in steep.words


def test_a_few_failures_do_not_void_a_cell() -> None:
    results = synthetic(power_law(-1), np.random.default_rng(7))
    whole = fit_rate(results, "n")
    some = replace(results.cells[1], failures={"ValueError: no": 3})
    many = replace(results.cells[2], failures={"ValueError: no": 30})
    fit = fit_rate(replace(results, cells=(results.cells[0], some, *results.cells[2:])), "n")
    # 3 of 203: the others count, and it is said.
    assert fit.slope == whole.slope and "3 of their 1,003 replications failed, and are not counted" in str(fit)
    left = fit_rate(replace(results, cells=(results.cells[0], some, many, *results.cells[3:])), "n")
    assert left.n_cells == 4 and "1 left out: more than 5% of the replications failed" in str(left)
    check = compare(replace(results, cells=(some, *results.cells[2:])), 0.0, relation="at_least")
    assert "3 of their" in str(check) and "Check of squared error" in str(check)
    formula = fit_formula(replace(results, cells=(some, *results.cells[2:])), TERMS)
    assert "3 of their" in str(formula)
    assert "failed" not in str(whole)


def test_failures_are_those_of_the_regime_and_cells_without_a_logarithm_are_named() -> None:
    results = synthetic(two_terms, np.random.default_rng(4), CELLS)
    first = results.cells[0]
    none = replace(first, losses={"squared_error": -first.losses["squared_error"]})
    left = fit_rate(replace(results, cells=(none, *results.cells[1:])), "n")
    assert "1 left out: the mean of squared_error is not above 0" in " ".join(str(left).split())
    failed = replace(results, cells=(*results.cells[:-1], replace(results.cells[-1], failures={"E": 3})))
    fit = fit_rate(failed, "n", terms=TERMS, constants=CONSTANTS, term="privacy", share=0.5)
    assert fit.n_cells < len(CELLS) and "failed" not in str(fit)
