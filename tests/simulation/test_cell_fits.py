"""Fits to cells: levels at three replications, power, the misfit as error, rivals with equal terms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.means import ClippedMean
from dpstats.simulation import (
    Adapter,
    Rademacher,
    Study,
    StudyResults,
    compare_formulas,
    fit_formula,
    fit_rate,
    fit_rates,
)
from dpstats.simulation.table import CellResult
from tests.simulation.synthetic import CELLS, CONSTANTS, TERMS, power_law, synthetic, two_terms

N = np.geomspace(100, 3000, 5)


def study(law, rng, replications: int, exponent: float = -2.0, cells: int = 5) -> StudyResults:
    made = tuple(
        CellResult({"n": n}, {"loss": n**exponent * law(rng, replications)}, {})
        for n in np.geomspace(100, 3000, cells).tolist()
    )
    return StudyResults("laws", made, ("loss",), {})


LAWS = {
    "normal": lambda rng, size: 1 + 0.1 * rng.standard_normal(size),
    "lognormal": lambda rng, size: np.exp(1.2 * rng.standard_normal(size) - 0.72),
    "heavy": lambda rng, size: (rng.pareto(2.5, size) + 1) * 0.6,
}


@pytest.mark.parametrize("law", LAWS)
def test_a_true_line_is_rejected_as_often_as_said(law: str) -> None:
    rng = np.random.default_rng(3)
    fits = [fit_rate(study(LAWS[law], rng, 3), "n", theory=-2) for _ in range(250)]
    # 5% of 250; above 24 with probability 1e-3. Known standard errors rejected 0.2 to 0.5 of them.
    assert sum(not fit.fits for fit in fits) <= 24
    assert sum(fit.differs for fit in fits) <= 24


def test_the_detectable_deviation_is_found_with_the_stated_probability() -> None:
    rng = np.random.default_rng(4)
    first = fit_rate(study(LAWS["normal"], rng, 30), "n")
    off = first.detectable
    found = [fit_rate(study(LAWS["normal"], rng, 30, -2 + off), "n", theory=-2).differs for _ in range(150)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.13)


def test_low_power_is_undecided_and_says_what_it_would_take() -> None:
    fit = fit_rate(study(LAWS["lognormal"], np.random.default_rng(0), 5), "n", theory=-2)
    assert fit.verdict == "undecided" and fit.detectable > 0.3
    words = " ".join(str(fit).split())
    assert "finds a deviation of" in words and "replications in each cell" in words
    # A formula, too: a misfit of a tenth would go unseen.
    formula = fit_formula(
        study(LAWS["lognormal"], np.random.default_rng(0), 5), {"all": lambda cell: cell["n"] ** -2.0}
    )
    assert formula.verdict == "undecided" and formula.detectable > formula.tolerance


def test_within_the_tolerance_but_different_is_said() -> None:
    fit = fit_rate(study(LAWS["normal"], np.random.default_rng(1), 200, -2.05), "n", theory=-2)
    assert fit.verdict == "reproduced" and fit.differs and "different from it" in " ".join(str(fit).split())


def test_a_modelled_spread_needs_replications() -> None:
    rng = np.random.default_rng(2)
    few = fit_rate(synthetic(power_law(-1), rng, replications=3).without("d"), "n", spread=["n"], theory=-1)
    assert few.verdict == "undecided" and "Too few replications to model" in " ".join(str(few).split())
    many = fit_rate(synthetic(power_law(-1), rng, replications=500), "n", spread=["n"], theory=-1)
    assert many.spread == ("n",) and many.verdict == "reproduced"
    # Squared errors of d columns vary less with d.
    cells = [{"n": n, "d": d} for d in (1, 50) for n in (100, 200, 400)]
    assert fit_rate(synthetic(power_law(-1), rng, cells), "n").spread == ("d",)


def test_a_free_exponent_has_an_interval_and_rivals_get_the_same_terms() -> None:
    results = synthetic(two_terms, np.random.default_rng(5), CELLS, replications=2000)
    free = {"sampling": TERMS["sampling"], "privacy": lambda cell: (30 * cell["d"]) ** 2}
    fit = fit_formula(results, free, free={"privacy": "n"}, exponents={"privacy": -2.0})
    (exponent,) = fit.exponents
    assert exponent.verdict == "reproduced" and exponent.interval.low < -2 < exponent.interval.high
    rival = {"privacy": lambda cell: (30 * cell["d"]) ** 2 / cell["n"] ** 1.5}
    claimed = {"privacy": TERMS["privacy"]}
    shared = {"sampling": TERMS["sampling"]}
    found = compare_formulas(results, {"claimed": claimed, "rival": rival}, nuisance=shared)
    assert found.verdict == "reproduced" and all(fit.terms == ("privacy", "sampling") for fit in found.fits.values())
    assert compare_formulas(results, {"rival": rival, "claimed": claimed}, nuisance=shared).verdict == "not reproduced"
    few = synthetic(two_terms, np.random.default_rng(5), CELLS, replications=3)
    unclear = compare_formulas(few, {"claimed": claimed, "rival": rival}, nuisance=shared)
    assert unclear.verdict == "undecided" and "several fit" in str(unclear)
    with pytest.raises(InvalidParameter, match="equally many terms"):
        compare_formulas(results, {"claimed": TERMS, "rival": {"sampling": TERMS["sampling"]}})


def test_several_estimators_have_their_own_exponents() -> None:
    def noisy(X, rng):
        n, d = X.shape
        return X.mean(axis=0) + rng.normal(0, 40 / n, d)

    several = {"plain": Adapter(lambda X, rng: X.mean(axis=0)), "noisy": Adapter(noisy)}
    results = Study(Rademacher(), several, {"n": [50, 100, 200], "d": [16]}, 200).run()
    with pytest.raises(InvalidParameter, match="results must be of one estimator"):
        fit_rate(results, "n")
    with pytest.raises(InvalidParameter, match="results must be of one estimator"):
        fit_formula(results, TERMS)
    table = fit_rates(results, {"n": -1})
    assert [(rate.estimator, rate.verdict) for rate in table.rates] == [
        ("plain", "reproduced"),
        ("noisy", "not reproduced"),
    ]
    assert list(table.to_frame().index) == ["plain n", "noisy n"] and "noisy" in str(table)
    assert len(table.plot().get_yticks()) == 2


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        (3, "a mapping"),
        ({}, "a mapping"),
        ({"privacy": 2.0}, "a function of a cell's parameters as the term 'privacy'"),
        ({"privacy": lambda cell: cell["eps"]}, "the parameter 'eps' in the term 'privacy'"),
        ({"privacy": lambda cell: "much"}, "ValueError from the term 'privacy'"),
        ({"privacy": lambda cell: -1.0}, "-1 from the term 'privacy' in cell 1"),
    ],
)
def test_wrong_terms_are_named(terms: object, words: str) -> None:
    results = synthetic(two_terms, np.random.default_rng(5), CELLS, replications=5)
    for fit in (lambda: fit_formula(results, terms), lambda: fit_rate(results, "n", terms=terms)):
        with pytest.raises(InvalidParameter) as caught:
            fit()
        assert words in str(caught.value) and caught.value.parameter == "terms"


def test_the_cost_of_a_study_is_estimated_before_it_runs() -> None:
    study = Study(Rademacher(), ClippedMean(clip=1.0), {"n": [10, 100, 1000], "d": [1, 4]}, 20)
    cost = study.cost(n_jobs=2)
    assert cost.cells == 6 and cost.replications == 20 and cost.n_jobs == 2 and 0 < cost.seconds < 60
    assert str(cost).endswith("with 2 processes: 6 cells x 20 replications")


def test_constants_that_no_cell_shows_begin_at_zero() -> None:
    cells = [{"n": n, "d": 1} for n in (10**6, 10**7, 10**8)]
    fit = fit_formula(synthetic(TERMS["sampling"], np.random.default_rng(0), cells), TERMS, constants=CONSTANTS)
    assert fit.intervals[1].low == 0 and math.isfinite(fit.intervals[0].high)
