"""Theorem 9.3.3: the filtering test, whose printed noise decides how near an alternative it can tell.

The source's rates belong to other algorithms (docs/errata.md): the printed filter attains about
d^(1/2) n^(-1) epsilon^(-1) beyond the sampling term. Its constants hold logarithms and many powers of n, so that no
exponent of the limit is reached at sizes that can be computed. What they predict there is stated without a
simulation: no row is filtered, line 3 rejects if the largest coordinate of the sum is far out, and line 13 if T is,
with the printed noise.

    python validation/studies/rates/filtering_test.py [--scale full|reduced|fast]
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from critical_distances import CACHE, LEVEL_OF_TESTS, TARGET, configured, found, nothing, search_distance
from outcomes import Options, Outcome, main
from scipy.optimize import brentq
from scipy.special import erf, ndtr

from dpstats.identity.by_filtering import filtering_constants
from dpstats.simulation import Adapter, Study
from dpstats.simulation.study_report import plot_risk

THEOREM = "9.3.3 (filtering test)"
DELTA = 1e-6  # of FilteringTest's default
ACCURACY = 0.03
"""Relative error of distances by the normal law of T, and of a calibration by 1999 simulated datasets."""
THEORY = {"n": -1.0, "d": 0.5, "epsilon": -1.0}


def laplace_tail(t: Any) -> Any:
    """Return P(L > t) of a Laplace variable of scale one."""
    tail = 0.5 * np.exp(-np.abs(t))
    return np.where(t > 0, tail, 1 - tail)


def stated_power(n: int, d: int, epsilon: float, distance: float) -> float:
    """Return the power at a distance in the dense direction, by the printed constants."""
    c = filtering_constants(n, d, epsilon, DELTA)
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    weights = weights / weights.sum()

    def last(distance: float, threshold: float) -> float:
        p = erf(distance / math.sqrt(2 * d))
        v = n * (1 - p * p)
        mean, sd = d * (n * n * p * p + v - n), math.sqrt(d * (2 * v * v + 4 * v * n * n * p * p))
        return float(weights @ laplace_tail((threshold - mean - sd * nodes) / c.statistic_scale))

    p = erf(distance / math.sqrt(2 * d))
    sd = max(math.sqrt(n * (1 - p * p)), 1e-9)
    probabilities = (np.arange(2000) + 0.5) / 2000
    noise = np.where(probabilities < 0.5, np.log(2 * probabilities), -np.log(2 * (1 - probabilities)))
    room = c.largest_threshold - c.largest_scale * noise
    inside = np.maximum(ndtr((room - n * p) / sd) - ndtr((-room - n * p) / sd), 0)
    first = float(np.mean(1 - inside**d))
    reach = 60 * c.statistic_scale + 60 * n * math.sqrt(d)
    threshold = brentq(lambda t: last(0.0, t) - LEVEL_OF_TESTS, -reach, reach)
    return 1 - (1 - first) * (1 - last(distance, threshold))


def stated_distance(cell: Any) -> float:
    """Return the distance at which the printed constants give power 2/3."""
    return float(brentq(lambda a: stated_power(cell["n"], cell["d"], cell["epsilon"], a) - TARGET, 1e-6, 100))


def critical_distance(X: np.ndarray, rng: np.random.Generator, epsilon: float, tests: int, n_calibration: int) -> float:
    """Return one estimate of the distance at which the test has power 2/3."""
    n, d = X.shape
    guess = stated_distance({"n": n, "d": d, "epsilon": epsilon})
    return search_distance(configured(epsilon, n_calibration, rng), n, d, guess, tests, rng)


def run(options: Options) -> Outcome:
    """Return what was found."""
    outcome = Outcome("Theorem 9.3.3: filtering test")
    CACHE.mkdir(parents=True, exist_ok=True)
    grid = [
        {"n": n, "d": d, "epsilon": epsilon}
        for d in options.pick((4, 16, 64), (4, 16), (4,))
        for epsilon in options.pick((0.5, 2.0), (0.5, 2.0), (2.0,))
        for n in options.pick((500, 2000, 8000), (500, 2000, 8000), (500, 1000, 2000))
    ]
    adapter = Adapter(critical_distance, "estimate_", epsilon=1.0, tests=40, n_calibration=options.pick(1999, 999, 199))
    results = options.run(Study(nothing, adapter, grid, 3, loss={"distance": found}, seed=933, name="filtering-test"))
    outcome.studies = [results]
    for parameter, theory in THEORY.items():
        if len(set(results.parameter(parameter).tolist())) > 1:
            outcome.rate(
                THEOREM,
                results,
                parameter,
                regime="local slope of a_c",
                theory=theory,
                prediction=stated_distance,
                accuracy=ACCURACY,
                tolerance=options.pick(0.1, 0.25, 0.5),
            )
    outcome.pictures["Critical distance against n, filtering"] = lambda: plot_risk(
        results, "n", terms={"printed constants": stated_distance}
    )
    return outcome


if __name__ == "__main__":
    main(run, __doc__)
