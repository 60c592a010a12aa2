"""Exponents: on synthetic risks with known ones, how often verdicts are false, and that they can fail."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.simulation import compare, fit_formula, fit_rate
from dpstats.simulation.verdicts import reproduced
from tests.simulation.synthetic import CONSTANTS, TERMS, N, power_law, synthetic, two_terms


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
    fit = fit_rate(
        synthetic(power_law(-1), np.random.default_rng(4), replications=20), "n", theory=-1, tolerance=0.02
    )
    assert fit.verdict == "undecided" and fit.half_width > 0.02 and not reproduced(fit.verdict)
    assert fit_rate(synthetic(power_law(-1), np.random.default_rng(4)), "n").verdict == "undecided"


def test_bad_input_is_one_clear_error() -> None:
    results = synthetic(power_law(-1), np.random.default_rng(12))
    few = results.where(lambda cell: cell["n"] < 300)
    for call, message in (
        (lambda: fit_rate(few, "n"), "needs at least 3 cells with different n in the regime"),
        (lambda: fit_rate(results, "m"), "parameter must be one of n, d, got 'm'"),
        (lambda: fit_rate(results, "n", term="privacy"), "term must be one of terms"),
        (lambda: fit_rate(results, "n", loss="risk"), "loss must be one of squared_error"),
        (lambda: fit_rate(results, "n", share=1.5), "share must be"),
        (lambda: fit_formula(results, TERMS, constants={"bias": 1.0}), "constants must be of terms"),
        (lambda: fit_formula(results, {"zero": lambda cell: 0.0}), "every term must be a positive number"),
        (lambda: fit_formula(few.where(lambda cell: cell["n"] == 100), TERMS), "needs at least 2 cells"),
        (lambda: compare(results, 0.0, relation="below"), "relation must be one of"),
        (lambda: fit_rate(results.derive("x", lambda cell: -1.0), "x"), "must be positive in every cell"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            call()


def test_a_prediction_alone_is_compared_at_finite_size() -> None:
    results = synthetic(power_law(-1.5), np.random.default_rng(12), replications=2000)
    assert fit_rate(results, "n", prediction=power_law(-1.5)).verdict == "reproduced at finite size"
    assert fit_rate(results, "n", prediction=power_law(-1.2)).verdict == "not reproduced"
