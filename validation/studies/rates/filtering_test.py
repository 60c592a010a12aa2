"""Theorem 9.3.3: the filtering test, whose printed noise decides how near an alternative it can tell.

The source's rates belong to other algorithms (docs/errata.md): the printed filter attains about
d^(1/2) n^(-1) epsilon^(-1) beyond the sampling term. Its constants hold logarithms and many powers of n, so that these
exponents are reached where no rows can be drawn: at a billion rows. There the sums of the coordinates are drawn, which
the test depends on as long as it filters no row.

At sizes that can be computed, distances are compared with what the printed constants say without a simulation: line 3
rejects if the largest coordinate of the sum is far out, and line 13 if T is. The test itself has the power there that
these distances say.

    python validation/studies/rates/filtering_test.py [--scale full|reduced|fast]
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from identity_cells import distance, sizes_only, squared
from outcomes import LEVEL, Options, Outcome, main
from reduced_distances import LEVEL as LEVEL_OF_TESTS
from reduced_distances import TARGET, filtering, laplace_tail
from scipy.optimize import brentq
from scipy.special import erf, ndtr

from dpstats.identity import FilteringTest
from dpstats.identity.by_filtering import filtering_constants
from dpstats.simulation import Adapter, Study, StudyResults, fit_formula
from dpstats.simulation.study_report import plot_risk

THEOREM = "9.3.3 (filtering test)"
DELTA = 1e-6  # of FilteringTest's default
ACCURACY = 0.03
"""Relative error of squared distances by the normal law of T, as far as it is known."""
LIMIT: dict[str, tuple[float, list[Any]]] = {
    "n": (-2.0, [10**9 // 16, 10**9 // 4, 10**9, 4 * 10**9, 16 * 10**9]),
    "d": (1.0, [10**8 // 16, 10**8 // 4, 10**8, 4 * 10**8, 16 * 10**8]),
    "epsilon": (-2.0, [0.005, 0.01, 0.02, 0.04]),
}
"""Of a_c^2, and the cells of each parameter; the others are as in ``CENTER``."""
CENTER = {"n": 10**9, "d": 10**8, "epsilon": 0.01}
TESTED = ((500, 4, 0.5), (2000, 16, 2.0), (2000, 64, 0.5), (10_000, 4, 2.0))


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


def stated_square(cell: Any) -> float:
    """Return the squared distance at which the printed constants give power 2/3."""
    return float(brentq(lambda a: stated_power(cell["n"], cell["d"], cell["epsilon"], a) - TARGET, 1e-6, 100)) ** 2


def checked_powers(n_simulations: int, n_calibration: int) -> str:
    """Return the powers that the test has at reduced distances, by its own simulation, rows and all."""
    found = []
    for n, d, epsilon in TESTED:
        a = filtering(n, d, epsilon, np.random.default_rng(0), 2000)
        test = FilteringTest(epsilon=epsilon, n_calibration=n_calibration, random_state=0)
        found.append(f"({n:,}, {d}, {epsilon:g}) {test.power(a, n, d, n_simulations=n_simulations):.3f}")
    drawn = math.sqrt(TARGET * (1 - TARGET) / n_simulations)
    # Beyond a threshold of Laplace noise, the power misses 1 by an exponential of it, as the level is one.
    calibrated = (1 - TARGET) * math.sqrt((1 - LEVEL_OF_TESTS) / LEVEL_OF_TESTS / n_calibration)
    return (
        f"Power of the test at the reduced distances by its own simulation, for {TARGET:.3f}, at (n, d, epsilon): "
        f"{'; '.join(found)}. The standard error is {math.hypot(drawn, calibrated):.2g}, of {n_simulations:,} datasets "
        f"and a calibration by {n_calibration:,}; 3% of a squared distance is about 0.05 of power."
    )


def run(options: Options) -> Outcome:
    """Return what was found."""
    outcome = Outcome("Theorem 9.3.3: filtering test")
    tolerance = options.pick(0.1, 0.1, 0.2)
    adapter = Adapter(distance, "estimate_", test="filtering", epsilon=1.0, size=options.pick(400, 200, 60))

    def measured(name: str, cells: list[dict[str, Any]]) -> StudyResults:
        results = options.run(
            Study(
                sizes_only,
                adapter,
                cells,
                options.pick(8, 6, 4),
                loss={"squared": squared},
                seed=933,
                name=f"filtering-{name}",
            )
        )
        outcome.studies.append(results)
        return results

    for parameter, (theory, values) in LIMIT.items():
        outcome.rate(
            THEOREM,
            measured(f"limit-{parameter}", [{**CENTER, parameter: value} for value in values]),
            parameter,
            regime="a_c^2 near the limit, {n:.0e} rows, {d:.0e} columns, epsilon = {epsilon:g}".format(**CENTER),
            theory=theory,
            prediction=stated_square,
            tolerance=tolerance,
        )
    grid = [
        {"n": n, "d": d, "epsilon": epsilon}
        for d in options.pick((4, 16, 64, 256), (4, 16, 64), (4, 16))
        for epsilon in options.pick((0.5, 1.0, 2.0), (0.5, 2.0), (0.5, 2.0))
        for n in options.pick((500, 2000, 8000, 32_000), (500, 2000, 8000), (500, 8000))
    ]
    small = measured("computable", grid)
    constant = {"printed constants": stated_square}
    fit = fit_formula(small, constant, constants={"printed constants": 1.0}, accuracy=ACCURACY, confidence_level=LEVEL)
    outcome.formula(THEOREM, fit, "a_c^2 at sizes of rows that can be drawn")
    for parameter, (theory, _) in LIMIT.items():
        outcome.beyond(
            THEOREM,
            small,
            parameter,
            constant,
            regime="a_c^2 at sizes of rows that can be drawn",
            theory=theory,
            accuracy=ACCURACY,
            tolerance=tolerance,
        )
    outcome.notes.append(checked_powers(*options.pick((2000, 9999), (1000, 1999), (100, 199))))
    outcome.pictures["Squared critical distance against n, filtering"] = lambda: plot_risk(small, "n", terms=constant)
    return outcome


if __name__ == "__main__":
    main(run, __doc__)
