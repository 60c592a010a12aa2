"""Four times the epsilon, or four times the rows, changes noise and errors by the theoretical factor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.nets.cases import CASES, fit

# Factors by which four times the rows change the noise of a mean, of a count, and of a sum of ranks.
OF_MEANS, OF_COUNTS, OF_RANKS = 1 / 4, 1.0, 4.0
LAWS = {
    "counts_noise_std_": OF_COUNTS,
    "rows_noise_std_": OF_COUNTS,
    "at_risk_noise_std_": OF_COUNTS,
    "result_.noise_std": OF_RANKS,
}
TABLES = {"table": OF_COUNTS, "correlation": OF_COUNTS}
"""Noise of counts; and of correlations of the same number of rows every time."""
NO_LAW = {"median", "correlation", "statistic", "FilteringTest", "variance", "variance about a point"}
"""Too private for a lattice or a proof; the same rows every time; and intervals that are wider where rows are few."""
ROUGHLY = {"adaptive, private spread": 0.05, "counts": 0.03, "gamma": 0.03}
OF_SAMPLES = {("Hotelling, two groups", "rows_noise_std_"): 2.0}
"""Noise of a count that precedes a sample: a fraction of epsilon pays for it, in proportion to 1 / sqrt(n)."""
IN_PARTS = {"adaptive, variance": 1 / 2}
"""Blocks grow with the rows, so that there are few."""

EPSILON = {"mean, ball, private": 0.25, "adaptive, variance": 3.0}
"""Where at 1 the noise is too small to show beside a private spread, or is Gaussian, and Laplace noise at 4."""

OWN_BALL = {"correlation, Pearson", "Hotelling", "Hotelling, two groups"}
"""Less noise has a larger last ball, whose rows have larger errors and another mean."""


def of_variances(found: dict[str, Any]) -> dict[str, Any]:
    """Return numbers with the noise of the square of a private spread, halved: that of its root depends on it."""
    spread = "std_noise_std_"
    return {**found, spread: found[spread] * found["std_"]} if spread in found else found


@pytest.mark.parametrize("name", CASES)
def test_noise_and_errors_shrink_as_they_should(name: str) -> None:
    epsilon = EPSILON.get(name, 1.0)
    one, private, more = (
        of_variances(found)
        for found in (fit(name, epsilon=epsilon), fit(name, epsilon=4 * epsilon), fit(name, epsilon=epsilon, times=4))
    )
    for place, numbers in one.items():
        if place.endswith(("noise_std_", "noise_scale_", "noise_std")):
            # Gaussian noise shrinks by less than epsilon grows.
            noisy = numbers > 0
            assert np.all(private[place][noisy] < 0.52 * numbers[noisy]), place
            of_place = LAWS.get(place, TABLES.get(name, IN_PARTS.get(name, OF_MEANS)))
            wanted = OF_SAMPLES.get((name, place), of_place)
            ratio = more[place][noisy] / numbers[noisy]
            assert ratio == pytest.approx(np.full(ratio.shape, wanted), rel=0.4 if name in OWN_BALL else 0.2), place
    if "estimates.error" in one and name not in OWN_BALL:
        error = one["estimates.error"]
        known = ~np.isnan(error)
        assert np.all(private["estimates.error"][known] < error[known])


@pytest.mark.parametrize("name", [name for name in CASES if name not in NO_LAW])
def test_without_noise_errors_are_of_the_square_root_of_the_rows(name: str) -> None:
    one, more = fit(name, epsilon=1e6), fit(name, epsilon=1e6, times=4)
    if "estimates.error" in one:
        ratio = one["estimates.error"] / more["estimates.error"]
        ratio = ratio[~np.isnan(ratio)]
        assert ratio == pytest.approx(np.full(ratio.shape, 2.0), rel=ROUGHLY.get(name, 0.02)), ratio
