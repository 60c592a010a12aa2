"""Theorem 9.2.2: the clipped mean of Gaussian rows, clipped at R = K sigma sqrt(log n).

The risk is d/n + 4 R(n)^2 d^2 sigma_A^2/n^2. R grows with n, so the exponent of n in the privacy term is not
-2 at any feasible size but -2 + 1/log n: the finite-size prediction. The whole formula holds with constants
of one, and without the logarithm it does not hold: the factor is visible.

    python validation/studies/rates/mean_gaussian.py [--scale full|reduced|fast]
"""

from __future__ import annotations

import math

from outcomes import LEVEL, Options, Outcome, main

from dpstats.means import ClippedMean, clipping_radius
from dpstats.privacy import gaussian_sigma
from dpstats.simulation import Gaussian, Study, compare_formulas, fit_formula
from dpstats.simulation.study_report import plot_risk

DELTA = 1e-5
D = 16
SIGMA = 1 / math.sqrt(2)
"""Sub-Gaussian parameter of a normal column of deviation 1, by section 9.2 (docs/sources.md)."""


def radius(n: int) -> float:
    """Return theorem 9.2.2's clip for means that are known to be 0."""
    return clipping_radius(n, SIGMA, 0.0)


TERMS = {
    "sampling": lambda cell: D / cell["n"],
    "privacy": lambda cell: (2 * D * radius(cell["n"]) * gaussian_sigma(cell["epsilon"], DELTA) / cell["n"]) ** 2,
}
WITHOUT_LOG = {
    "sampling": TERMS["sampling"],
    "privacy": lambda cell: (2 * D * gaussian_sigma(cell["epsilon"], DELTA) / cell["n"]) ** 2,
}
CONSTANTS = {"sampling": 1.0, "privacy": 1.0}
SIZES = [64, 128, 256, 512, 1024, 2048, 4096, 8192]


def run(options: Options) -> Outcome:
    """Return what was found."""
    grid = [
        {"n": n, "d": D, "epsilon": epsilon, "clip": radius(n)}
        for epsilon in (0.05, 1.0)
        for n in options.pick(SIZES, SIZES[::2], SIZES[::2])
    ]
    study = Study(
        Gaussian(),
        ClippedMean(clip=1.0, delta=DELTA),
        grid,
        options.pick(600, 300, 150),
        loss="released_squared_error",
        seed=922,
        name="mean-gaussian",
    )
    results = options.run(study).without("clip", "d")
    outcome = Outcome("Theorem 9.2.2: clipped mean of Gaussian rows", [results])
    name = "9.2.2 (mean, Gaussian)"
    tolerance = options.pick(0.05, 0.1, 0.2)
    private = results.where(lambda cell: cell["epsilon"] == 0.05)
    outcome.rate(
        name, private, "n", theory=-2, terms=TERMS, constants=CONSTANTS, term="privacy", share=0.94, tolerance=tolerance
    )
    # The same measurements, R divided out: the exponent itself.
    scaled = private.derive("n/R(n)", lambda cell: cell["n"] / radius(cell["n"]), instead_of="n")
    outcome.rate(name, scaled, "n/R(n)", theory=-2, tolerance=tolerance)
    fit = fit_formula(results, TERMS, constants=CONSTANTS, confidence_level=LEVEL)
    outcome.formula(name, fit, "all cells")
    formulas = {"theorem": TERMS, "without the factor log n": WITHOUT_LOG}
    outcome.rivals(name, compare_formulas(results, formulas, confidence_level=LEVEL))
    outcome.pictures["Risk against n; R grows with sqrt(log n)"] = lambda: plot_risk(results, "n", terms=TERMS)
    return outcome


if __name__ == "__main__":
    main(run, __doc__)
