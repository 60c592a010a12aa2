"""Theorem 9.2.1: the clipped mean of bounded rows.

Rademacher rows and a clip of 1: no row is clipped, and the risk is d/n + 4 d^2 sigma_A^2/n^2 exactly, sigma_A the
noise of a statistic of sensitivity one. That is Gaussian noise, as in algorithm 9.2.1. In a few columns a plan has
Laplace noise, which is smaller there, so that the exponent of d is measured from eight columns on. Each term is
measured where it is at least 98% of the risk, so that its exponent is not blurred by the other one; the constants are
fitted to all cells at once.

    python validation/studies/rates/mean_bounded.py [--scale full|reduced|fast]
"""

from __future__ import annotations

from typing import Any

from outcomes import LEVEL, Options, Outcome, main

from dpstats.means import ClippedMean
from dpstats.privacy import gaussian_sigma
from dpstats.simulation import Rademacher, Study, StudyResults, fit_formula
from dpstats.simulation.study_report import plot_risk

DELTA = 1e-5
CLIP = 1.0
TOLERANCE = 0.05
SHARE = 0.94
"""Of the term that is measured; above .98 on average over the cells."""


def sigma_a(cell: Any) -> float:
    """Return the noise of a statistic of sensitivity one."""
    return gaussian_sigma(cell["epsilon"], DELTA)


def privacy(cell: Any) -> float:
    """Return the squared error by the noise: the smaller of Gaussian and Laplace noise, as the plan has."""
    gaussian = (2 * CLIP * cell["d"] * sigma_a(cell) / cell["n"]) ** 2
    laplace = 8 * CLIP**2 * cell["d"] ** 3 / (cell["n"] * cell["epsilon"]) ** 2
    return float(min(gaussian, laplace))


TERMS = {"sampling": lambda cell: cell["d"] / cell["n"], "privacy": privacy}
CONSTANTS = {"sampling": 1.0, "privacy": 1.0}

GRIDS: dict[str, dict[str, list[Any]]] = {
    "privacy-n": {"n": [50, 100, 200, 400, 800, 1600, 3200], "d": [16], "epsilon": [0.05]},
    "privacy-d": {"n": [200], "d": [8, 16, 32, 64, 128, 256], "epsilon": [0.05]},
    "privacy-epsilon": {"n": [16], "d": [32], "epsilon": [0.05, 0.1, 0.2, 0.4, 0.8, 1.6]},
    "sampling-n": {"n": [400, 800, 1600, 3200, 6400, 12800], "d": [4], "epsilon": [20.0]},
    "sampling-d": {"n": [4000], "d": [1, 2, 4, 8, 16, 32, 64], "epsilon": [20.0]},
    "crossover": {"n": [50, 100, 200, 400, 800, 1600, 3200, 6400, 12800], "d": [16], "epsilon": [1.0]},
}


def studies(options: Options, estimator: Any = None) -> dict[str, StudyResults]:
    """Run every grid; another estimator in place of ours is for tests of this script."""
    chosen = ClippedMean(clip=CLIP, delta=DELTA) if estimator is None else estimator
    replications = options.pick(600, 300, 150)
    return {
        name: options.run(
            Study(
                Rademacher(),
                chosen,
                grid,
                replications,
                loss="released_squared_error",
                seed=921 + i,
                name=f"mean-bounded-{name}",
            )
        )
        for i, (name, grid) in enumerate(GRIDS.items())
    }


def run(options: Options, estimator: Any = None) -> Outcome:
    """Return what was found."""
    results = studies(options, estimator)
    outcome = Outcome("Theorem 9.2.1: clipped mean of bounded rows", list(results.values()))
    common: dict[str, Any] = {
        "terms": TERMS,
        "constants": CONSTANTS,
        "share": SHARE,
        "tolerance": options.pick(TOLERANCE, 2 * TOLERANCE, 4 * TOLERANCE),
    }
    name = "9.2.1 (mean, bounded)"
    outcome.rate(name, results["sampling-n"], "n", theory=-1, term="sampling", **common)
    outcome.rate(name, results["privacy-n"], "n", theory=-2, term="privacy", **common)
    outcome.rate(name, results["sampling-d"], "d", theory=1, term="sampling", **common)
    outcome.rate(name, results["privacy-d"], "d", theory=2, term="privacy", **common)
    in_sigma = results["privacy-epsilon"].derive("sigma_A", sigma_a)
    # The terms need epsilon; the regression must not hold it fixed: sigma_A says the same.
    outcome.rate(
        name,
        in_sigma.without("epsilon"),
        "sigma_A",
        theory=2,
        prediction=lambda cell: cell["d"] / cell["n"] + (2 * cell["d"] * cell["sigma_A"] / cell["n"]) ** 2,
        tolerance=common["tolerance"],
    )
    outcome.rate(name, results["privacy-epsilon"], "epsilon", theory=-2, term="privacy", **common)
    whole = StudyResults(
        name="mean-bounded",
        cells=sum((part.cells for part in results.values()), ()),
        losses=("released_squared_error",),
        facts={},
    )
    outcome.formula(name, fit_formula(whole, TERMS, constants=CONSTANTS, confidence_level=LEVEL), "all cells")
    crossing = fit_formula(results["crossover"], TERMS, constants=CONSTANTS, confidence_level=LEVEL)
    ratio = crossing.constants[1] / crossing.constants[0]
    stated = 4 * CLIP**2 * 16 * sigma_a({"epsilon": 1.0}) ** 2
    outcome.notes.append(
        f"Crossover at d = 16, epsilon = 1: n* = {stated:.0f} by theory, {ratio * stated:.0f} by the fitted constants."
    )
    outcome.check(name, "risk", whole, lambda cell: sum(term(cell) for term in TERMS.values()))
    outcome.pictures["Risk against n, d = 16, epsilon = 1: the crossover"] = lambda: plot_risk(
        results["crossover"].without("d", "epsilon").derive("n", lambda cell: cell["n"]),
        "n",
        terms={key: (lambda cell, term=term: term({"d": 16, "epsilon": 1.0, **cell})) for key, term in TERMS.items()},
    )
    outcome.pictures["Risk against d"] = lambda: plot_risk(results["privacy-d"], "d", terms=TERMS)
    outcome.pictures["Risk against epsilon"] = lambda: plot_risk(results["privacy-epsilon"], "epsilon", terms=TERMS)
    return outcome


if __name__ == "__main__":
    main(run, __doc__)
