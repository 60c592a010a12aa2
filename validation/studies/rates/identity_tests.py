"""Theorems 9.3.2 and 9.3.4, and the row-distance rate: how near an alternative a private test can tell.

No term of the critical distance a_c is ever alone at sizes that can be computed. So a formula is fitted to all cells,
with its constants, and local slopes are compared with what it predicts. For the row-distance test, as for the
printed rates of 9.3.2 and 9.3.4, a_c is of the order of d^(1/4) n^(-1/2), d^(1/4) n^(-3/4) epsilon^(-1/2) and
d^(1/4) n^(-1) epsilon^(-1): the squares of these add up, with that of n^(-1) epsilon^(-1), of lower order in d. Of the
other tests the privacy terms are
d^(1/2) n^(-3/4) epsilon^(-1/2) and d^(1/2) n^(-1) epsilon^(-1). The sampling term is that of the non-private chi-square
test, in full: its constant says what is lost to it without privacy.

Sample complexities are the same formula read the other way, found by searches of their own.

    python validation/studies/rates/identity_tests.py [--scale full|reduced|fast]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from critical_distances import (
    CACHE,
    FORMULAS,
    ROUGH,
    configured,
    distance_by,
    found,
    nothing,
    rejects,
    search_distance,
    search_size,
    size_by,
    squared,
)
from outcomes import LEVEL, Options, Outcome, main

from dpstats.simulation import Adapter, Study, StudyResults, compare, fit_formula
from dpstats.simulation.study_report import plot_risk

TITLES = {
    "row distance": "row-distance rate (9.3.2, 9.3.4 as printed)",
    "spatial sign": "spatial sign",
    "l1 extension": "9.3.2 (l1 extension)",
}


def own_rows(cell: Any) -> float:
    """Return the term of lower order in d of the row distance, squared."""
    return (cell["n"] * cell["epsilon"]) ** -2.0


TERMS = {**FORMULAS, "row distance": {**FORMULAS["row distance"], "own rows": own_rows}}
"""What is fitted. The row distance has a term of lower order in d, a of the order of 1/(n epsilon) as its docstring
states: rows that are left out take their own part of the signal with them. It shows at these d."""

ACCURACY = 0.03
"""Relative error of distances by a formula of leading terms, like a standard deviation: no news."""


def grid_of(test: str, options: Options) -> list[dict[str, Any]]:
    """Return the cells of one test: its cost per test decides how large n can be."""
    least = {"row distance": 50, "spatial sign": 25, "l1 extension": 400 if options.scale != "fast" else 0}[
        test
    ]
    sizes, epsilons, columns = {
        # Below n epsilon = 50 the distance in rows is near its cap, and no leading term describes it. The mixed term is
        # at most a sixth of the formula, about sqrt(n) epsilon = 7: many cells, so that its constant shows.
        "row distance": (
            options.pick([125, 180, 250, 350, 500, 700], [125, 250, 500], [125, 250]),
            options.pick((0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 2.0, 8.0), (0.5, 1.0, 4.0), (1.0, 4.0)),
            options.pick((16, 32, 64), (16, 64), (16, 64)),
        ),
        "spatial sign": (
            options.pick([250, 1000, 4000], [200, 400, 1600], [100, 400, 1600]),
            options.pick((0.1, 0.2, 0.5, 1.0, 2.0, 8.0), (0.2, 1.0, 4.0), (0.5, 4.0)),
            (16, 64),
        ),
        # The l1 norm of the sum must not grow by the shift: a sqrt(n/d) small, so n epsilon above 400.
        "l1 extension": (
            options.pick([4000, 16_000, 64_000], [4000, 16_000], [1000, 4000]),
            options.pick((0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 3.0), (0.1, 0.3, 3.0), (0.3, 3.0)),
            (4, 16, 64),
        ),
    }[test]
    return [
        {"n": n, "d": d, "epsilon": epsilon}
        for d in (columns if options.scale != "fast" else columns[:1])
        for epsilon in epsilons
        for n in sizes
        if n * epsilon >= least and n * d <= 2_000_000
    ]


def measured(test: str, options: Options) -> StudyResults:
    """Run the searches of one test."""
    adapter = Adapter(
        critical_distance,
        "estimate_",
        test=test,
        epsilon=1.0,
        tests=options.pick(100, 60, 40),
        n_calibration=options.pick(4999, 999, 199),
    )
    name = f"identity-{test.replace(' ', '-')}"
    losses = {"distance": found, "squared": squared}
    return options.run(
        Study(
            nothing, adapter, grid_of(test, options), options.pick(4, 2, 2), loss=losses, seed=932, name=name
        )
    )


def sizes(test: str, options: Options, constants: Mapping[str, float]) -> StudyResults:
    """Search the number of rows at which distances are found."""
    grid = [
        {"n": 1, "d": 16, "epsilon": epsilon, "distance": a}
        for epsilon in options.pick((0.5, 2.0, 8.0), (0.5, 2.0), (2.0,))
        for a in (0.18, 0.25, 0.35, 0.5)
    ]
    # Every size tried has a calibration of its own, so a small one does: the errors average out.
    adapter = Adapter(
        critical_size,
        "estimate_",
        test=test,
        epsilon=1.0,
        distance=1.0,
        tests=options.pick(100, 40, 40),
        n_calibration=199,
    )
    name = f"identity-sizes-{test.replace(' ', '-')}"
    return options.run(
        Study(nothing, adapter, grid, options.pick(4, 2, 2), loss={"rows": found}, seed=934, name=name)
    )


def critical_distance(
    X: np.ndarray, rng: np.random.Generator, test: str, epsilon: float, tests: int, n_calibration: int
) -> float:
    """Return one estimate of the distance at which the test has power 2/3."""
    n, d = X.shape
    guess = distance_by(test, ROUGH[test], {"n": n, "d": d, "epsilon": epsilon})
    return search_distance(configured(test, epsilon, n_calibration, rng), n, d, guess, tests, rng)


def critical_size(
    X: np.ndarray,
    rng: np.random.Generator,
    test: str,
    epsilon: float,
    distance: float,
    tests: int,
    n_calibration: int,
) -> float:
    """Return one estimate of the number of rows at which the test has power 2/3."""
    d = X.shape[1]
    guess = size_by(test, ROUGH[test], d, epsilon, distance)
    return search_size(configured(test, epsilon, n_calibration, rng), d, distance, guess, tests, rng)


def one_test(
    X: np.ndarray, rng: np.random.Generator, test: str, epsilon: float, distance: float, n_calibration: int
) -> bool:
    """Return whether a test rejects rows at a distance."""
    return rejects(configured(test, epsilon, n_calibration, rng), *X.shape, distance, rng)


def outcomes_of_tests(options: Options, alternative: bool) -> StudyResults:
    """Run every test under the null, or at a distance at which its power is middling."""
    grid = []
    for test in FORMULAS:
        for n, d in ((200, 5), (200, 50)):
            cell = {"n": n, "d": d, "epsilon": 0.5}
            distance = round(distance_by(test, ROUGH[test], cell), 3) if alternative else 0.0
            grid.append({**cell, "test": test, "distance": distance})
    adapter = Adapter(
        one_test,
        "reject_",
        test="row distance",
        epsilon=1.0,
        distance=0.0,
        n_calibration=options.pick(9999, 1999, 999),
    )
    name = "identity-power" if alternative else "identity-level"
    seed = 936 if alternative else 935
    return options.run(
        Study(nothing, adapter, grid, options.pick(4000, 600, 200), loss="rejection", seed=seed, name=name)
    )


def wrong_formulas(test: str) -> dict[str, Any]:
    """Return formulas that the cells must be able to refuse: no privacy term, and the other power of d."""
    other = "spatial sign" if test == "row distance" else "row distance"
    return {
        "without privacy terms": {"sampling": FORMULAS[test]["sampling"]},
        f"with the powers of d of the {other} test": FORMULAS[other],
    }


def run(options: Options) -> Outcome:
    """Return what was found."""
    outcome = Outcome("Theorems 9.3.2 and 9.3.4: identity tests")
    CACHE.mkdir(parents=True, exist_ok=True)
    tolerance = options.pick(0.1, 0.25, 0.5)
    for test in FORMULAS if options.scale != "fast" else ["spatial sign"]:
        results = measured(test, options)
        outcome.studies.append(results)
        fit = fit_formula(results, TERMS[test], loss="squared", accuracy=2 * ACCURACY, confidence_level=LEVEL)
        outcome.formula(TITLES[test], fit, "squared distance, all cells")
        for words, terms in wrong_formulas(test).items():
            wrong = fit_formula(results, terms, loss="squared", accuracy=2 * ACCURACY, confidence_level=LEVEL)
            outcome.control(TITLES[test], words, wrong)
        constants = dict(zip(fit.terms, fit.constants, strict=True))

        def stated(cell: Any, test: str = test, constants: dict[str, float] = constants) -> float:
            return distance_by(test, constants, cell, TERMS)

        for parameter in ("n", "d", "epsilon"):
            if len(set(results.parameter(parameter).tolist())) < 2:
                continue
            outcome.rate(
                TITLES[test],
                results,
                parameter,
                regime=f"local slope of a_c, {test}",
                loss="distance",
                prediction=stated,
                accuracy=ACCURACY,
                tolerance=tolerance,
            )
        outcome.pictures[f"Critical distance against n, {test}"] = lambda r=results, s=stated: plot_risk(
            r, "n", terms={"formula": s}
        )
        if test == "l1 extension":
            continue  # its sizes are too large to search
        found_sizes = sizes(test, options, constants)
        outcome.studies.append(found_sizes)

        def inverse(cell: Any, test: str = test, constants: dict[str, float] = constants) -> float:
            return size_by(test, constants, cell["d"], cell["epsilon"], cell["distance"], TERMS)

        for parameter in ("distance", "epsilon"):
            if len(set(found_sizes.parameter(parameter).tolist())) < 2:
                continue
            outcome.rate(
                TITLES[test],
                found_sizes,
                parameter,
                regime="sample complexity n*",
                prediction=inverse,
                accuracy=2 * ACCURACY,
                tolerance=2 * tolerance,
            )
    level, power = outcomes_of_tests(options, False), outcomes_of_tests(options, True)
    outcome.studies += [level, power]
    outcome.check(
        "level of all tests", "level", compare(level, 0.05, relation="at_most", confidence_level=LEVEL)
    )

    def promised(cell: Any) -> float:
        fresh = configured(
            cell["test"], cell["epsilon"], options.pick(9999, 1999, 999), np.random.default_rng()
        )
        return float(
            fresh.power(
                cell["distance"], cell["n"], cell["d"], n_simulations=options.pick(40_000, 4000, 2000)
            )
        )

    outcome.check("power of all tests", "power", compare(power, promised, confidence_level=LEVEL))
    return outcome


if __name__ == "__main__":
    main(run, __doc__)
