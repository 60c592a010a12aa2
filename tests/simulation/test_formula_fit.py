"""Formulas: constants of synthetic risks, how often verdicts are false, and that they can fail."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.simulation import fit_formula
from tests.simulation.synthetic import CELLS, CONSTANTS, TERMS, synthetic, two_terms


def test_constants_cover_and_false_verdicts_are_as_rare_as_stated() -> None:
    rng = np.random.default_rng(5)
    fits = [fit_formula(synthetic(two_terms, rng, CELLS), TERMS, constants=CONSTANTS) for _ in range(300)]
    constants = np.array([fit.constants for fit in fits])
    assert np.abs(constants.mean(axis=0) - 1).max() < 0.02
    # 5% of 300; at most 33 but for probability 1e-4.
    assert sum(fit.verdict == "not reproduced" for fit in fits) <= 33
    # p-values are uniform: their mean is within 4 standard errors of a half.
    assert np.mean([fit.pvalue for fit in fits]) == pytest.approx(0.5, abs=4 * 0.2887 / 300**0.5)


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
    assert fit_formula(results, TERMS, accuracy=0.3, tolerance=0.5).verdict == "reproduced"
    assert fit_formula(results, TERMS).deviation > 0.1


def test_a_term_that_no_cell_shows_has_an_interval_from_zero() -> None:
    cells = [{"n": n, "d": 1} for n in (10**6, 10**7, 10**8)]
    for seed in range(5):
        results = synthetic(TERMS["sampling"], np.random.default_rng(seed), cells)
        sampling, privacy = fit_formula(results, TERMS, constants=CONSTANTS, confidence_level=0.999).intervals
        assert privacy.low == 0 and privacy.high > 50 and 0.7 < sampling.low < 1 < sampling.high


def test_a_term_that_no_cell_shows_is_undecided() -> None:
    rng = np.random.default_rng(11)
    cells = [{"n": n, "d": 1} for n in (100, 1000, 10_000)]
    results = synthetic(TERMS["sampling"], rng, cells)
    unseen = {"sampling": TERMS["sampling"], "vanishing": lambda cell: cell["n"] ** -4.0}
    assert fit_formula(results, unseen).verdict == "undecided"
    # Where the theory states the constant, its interval says all there is to say.
    assert fit_formula(results, unseen, constants={"sampling": 1.0, "vanishing": 1.0}).verdict == "reproduced"
    assert fit_formula(results, {"sampling": TERMS["sampling"]}).verdict == "reproduced"
