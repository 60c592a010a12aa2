"""Intervals of the clipped mean: 95% of them cover the mean of the population.

python validation/studies/rates/covered.py [--scale full|reduced|fast]
"""

from __future__ import annotations

from outcomes import Options, Outcome, main

from dpstats.means import ClippedMean
from dpstats.simulation import Gaussian, Study

GRID = {"n": [200, 5000], "d": [5], "delta": [0.0, 1e-6], "epsilon": [0.2, 2.0]}


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
        for loss in results.losses:
            # Sidak's level is exact for Gaussian errors; a quantile of an estimated spread is made to be safe.
            outcome.check(f"coverage, {spread} spread", loss.replace("_", " "), results, 0.95, relation, loss)
    return outcome


if __name__ == "__main__":
    main(run, __doc__)
