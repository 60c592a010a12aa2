"""Fits of rates: on synthetic risks with known exponents, how often verdicts are false, and that they can fail."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.simulation import StudyResults, compare, fit_formula, fit_rate
from dpstats.simulation.rates import reproduced, slopes_between
from dpstats.simulation.table import CellResult

N = [100, 200, 400, 800, 1600]
TERMS = {
    "sampling": lambda cell: cell["d"] / cell["n"],
    "privacy": lambda cell: (30 * cell["d"] / cell["n"]) ** 2,
}
CONSTANTS = {"sampling": 1.0, "privacy": 1.0}


def synthetic(
    risk, rng: np.random.Generator, cells=None, replications: int = 200, df: int = 4
) -> StudyResults:
    """Return chi-square losses, as squared errors are, with a known mean in every cell."""
    cells = [{"n": n, "d": 1} for n in N] if cells is None else cells
    made = tuple(
        CellResult(cell, {"squared_error": risk(cell) * rng.chisquare(df, replications) / df}, {})
        for cell in cells
    )
    return StudyResults("synthetic", made, ("squared_error",), {"Seed": "0"})


def power_law(exponent: float):
    return lambda cell: 3.0 * cell["n"] ** exponent


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


def two_terms(cell) -> float:
    return TERMS["sampling"](cell) + TERMS["privacy"](cell)


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


CELLS = [{"n": n, "d": d} for n in (50, 200, 800, 3200, 12_800) for d in (1, 4)]


def test_constants_cover_and_false_verdicts_are_as_rare_as_stated() -> None:
    rng = np.random.default_rng(5)
    fits = [fit_formula(synthetic(two_terms, rng, CELLS), TERMS, constants=CONSTANTS) for _ in range(300)]
    constants = np.array([fit.constants for fit in fits])
    assert np.abs(constants.mean(axis=0) - 1).max() < 0.02
    # 5% of 300; at most 33 but for probability 1e-4.
    assert sum(fit.verdict == "not reproduced" for fit in fits) <= 33


@pytest.mark.parametrize("wrong", [0.25, 0.8, 1.25])
def test_a_wrong_constant_is_told(wrong: float) -> None:
    def risk(cell) -> float:
        return TERMS["sampling"](cell) + wrong * TERMS["privacy"](cell)

    rng = np.random.default_rng(6)
    found = [fit_formula(synthetic(risk, rng, CELLS), TERMS, constants=CONSTANTS) for _ in range(20)]
    assert all(fit.verdict == "not reproduced" for fit in found)
    assert np.mean([fit.constants[1] for fit in found]) == pytest.approx(wrong, rel=0.03)


def test_a_wrong_formula_is_told_and_accuracy_forgives_it() -> None:
    def risk(cell) -> float:
        return two_terms(cell) * np.log(cell["n"])

    results = synthetic(risk, np.random.default_rng(7), CELLS, replications=2000)
    assert fit_formula(results, TERMS).verdict == "not reproduced"
    assert fit_formula(results, TERMS, accuracy=0.3).verdict == "reproduced"
    assert fit_formula(results, TERMS).deviation > 0.1


def test_a_term_that_no_cell_shows_has_an_interval_from_zero() -> None:
    cells = [{"n": n, "d": 1} for n in (10**6, 10**7, 10**8)]
    for seed in range(5):
        results = synthetic(TERMS["sampling"], np.random.default_rng(seed), cells)
        sampling, privacy = fit_formula(results, TERMS, constants=CONSTANTS, confidence_level=0.999).intervals
        assert privacy.low == 0 and privacy.high > 50 and 0.7 < sampling.low < 1 < sampling.high


def outcomes(rates: list[float], rng: np.random.Generator, replications: int = 400) -> StudyResults:
    cells = tuple(
        CellResult({"n": i + 1}, {"rejection": (rng.random(replications) < rate).astype(float)}, {})
        for i, rate in enumerate(rates)
    )
    return StudyResults("outcomes", cells, ("rejection",), {})


def test_comparisons() -> None:
    rng = np.random.default_rng(9)
    assert compare(outcomes([0.05, 0.05, 0.0], rng), 0.05, relation="at_most").verdict == "reproduced"
    assert compare(outcomes([0.05, 0.15], rng), 0.05, relation="at_most").verdict == "not reproduced"
    assert compare(outcomes([0.95, 1.0], rng), 0.95, relation="at_least").verdict == "reproduced"
    assert compare(outcomes([0.95, 1.0], rng), 0.95).verdict == "not reproduced"
    check = compare(outcomes([0.5, 0.9], rng), lambda cell: 0.5 if cell["n"] == 1 else 0.9)
    assert check.verdict == "reproduced" and "n=2" in str(check)
    # Clopper and Pearson: no rejection in 400, with 2.5% in one tail.
    interval = compare(outcomes([0.0], rng), 0.0).lines[0][2]
    assert interval.low == 0 and interval.high == pytest.approx(1 - 0.025 ** (1 / 400), rel=1e-9)


def test_false_verdicts_of_comparisons() -> None:
    rng = np.random.default_rng(10)
    false = sum(compare(outcomes([0.3, 0.3, 0.3], rng, 200), 0.3).verdict != "reproduced" for _ in range(400))
    assert false <= 37


def test_failed_cells_are_left_out() -> None:
    results = synthetic(power_law(-1), np.random.default_rng(11))
    broken = CellResult({"n": 5, "d": 1}, {"squared_error": np.array([9.0, 9.0])}, {"ValueError: no": 3})
    mixed = StudyResults("mixed", (*results.cells, broken), results.losses, {})
    assert fit_rate(mixed, "n").slope == fit_rate(results, "n").slope
    with pytest.raises(InvalidParameter, match="must have a cell without failures"):
        fit_rate(StudyResults("none", (broken,), results.losses, {}), "n")


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


def test_local_slopes() -> None:
    assert slopes_between([1, 2, 4], [3, 12, 96]) == pytest.approx([2.0, 3.0])


def test_a_term_that_no_cell_shows_is_undecided() -> None:
    rng = np.random.default_rng(11)
    cells = [{"n": n, "d": 1} for n in (100, 1000, 10_000)]
    results = synthetic(TERMS["sampling"], rng, cells)
    unseen = {"sampling": TERMS["sampling"], "vanishing": lambda cell: cell["n"] ** -4.0}
    assert fit_formula(results, unseen).verdict == "undecided"
    # Where the theory states the constant, its interval says all there is to say.
    assert fit_formula(results, unseen, constants={"sampling": 1.0, "vanishing": 1.0}).verdict == "reproduced"
    assert fit_formula(results, {"sampling": TERMS["sampling"]}).verdict == "reproduced"


def test_a_prediction_alone_is_compared_at_finite_size() -> None:
    results = synthetic(power_law(-1.5), np.random.default_rng(12), replications=2000)
    assert fit_rate(results, "n", prediction=power_law(-1.5)).verdict == "reproduced at finite size"
    assert fit_rate(results, "n", prediction=power_law(-1.2)).verdict == "not reproduced"
