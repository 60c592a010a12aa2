"""Intervals of the clipped mean: 95% of them cover the mean of the population.

Intervals and estimates end at the bounds. Where the noise is as wide as the bounds, simultaneous intervals reach from
one end past the mean, and all cover.

python validation/studies/rates/covered.py [--scale full|reduced|fast]
"""

from __future__ import annotations

from typing import Any

from outcomes import Options, Outcome, main

from dpstats.means import ClippedMean
from dpstats.simulation import Gaussian, Study

GRID = {"n": [200, 5000], "d": [5], "delta": [0.0, 1e-6], "epsilon": [0.2, 2.0]}


def is_drowned(cell: Any) -> bool:
    """Return whether the noise is about as wide as the bounds."""
    return bool(cell["n"] * cell["epsilon"] < 100)


def run(options: Options) -> Outcome:
    """Return what was found."""
    outcome = Outcome("Coverage of the clipped mean's intervals")
    for spread, std, relation in (("public", 1.0, "equal"), ("private", "private", "at_least")):
        study = Study(
            Gaussian(mean=0.5),
            ClippedMean(clip=6.0, std=std),
            GRID,
            options.pick(2000, 1000, 100),
            loss=["coverage", "simultaneous_coverage"],
            seed=950,
            name=f"coverage-{spread}",
        )
        results = options.run(study)
        outcome.studies.append(results)
        clear, drowned = results.where(lambda cell: not is_drowned(cell)), results.where(is_drowned)
        for loss in results.losses:
            words = loss.replace("_", " ")
            # Sidak's level is exact for Gaussian errors; a quantile of an estimated spread is made to be safe.
            outcome.check(f"coverage, {spread} spread", words, clear, 0.95, relation, loss)
            noise = "coverage, noise as wide as the bounds"
            outcome.check(f"{noise}, {spread} spread", words, drowned, 0.95, "at_least", loss)
    return outcome


if __name__ == "__main__":
    main(run, __doc__)
