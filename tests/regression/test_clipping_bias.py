"""The bias by clipped outcomes: when it is named, in regressions of each kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.regression import PrivateCountRegression, PrivateGammaRegression, PrivateLinearRegression
from dpstats.regression.coefficient_errors import ClippingBias


@pytest.mark.parametrize(
    ("share", "noise", "effect", "noted", "assumed"),
    [
        (0.01, 0.001, 60.0, True, False),
        (0.01, 0.001, 40.0, False, False),  # a bias of less than half a standard error
        (0.01, 0.006, 60.0, False, True),  # as much may be noise
        (-0.01, 0.006, 60.0, False, True),
        (-0.01, 0.006, 40.0, False, False),
        (0.0, 0.0, np.inf, False, False),
        (0.1, 0.0, np.nan, False, False),
        (0.9, 0.1, 0.0, True, False),  # equal outcomes beyond the bounds have no residuals
    ],
)
def test_a_bias_is_noted_or_assumed_away(share, noise, effect, noted, assumed) -> None:
    found = ClippingBias(share, noise, effect)
    assert [bool(found.notes), "Coefficients assume" in dict(found.facts)] == [noted, assumed]


def amounts(long: bool, kind: Any, high: float, seed: int) -> Any:
    """Return a fit to amounts with gamma or, if ``long``, with lognormal factors."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(20_000, 1))
    factors = np.exp(0.7 * rng.normal(size=20_000) - 0.245) if long else rng.gamma(2, 0.5, 20_000)
    y = np.exp(1 + 0.3 * x[:, 0]) * factors
    if kind is PrivateCountRegression:
        y = rng.poisson(y)
    return kind(x_bounds=(-4, 4), y_bounds=(0, high), epsilon=20.0, random_state=seed).fit(x, y)


@pytest.mark.parametrize("kind", [PrivateCountRegression, PrivateGammaRegression])
def test_log_linear_fits_state_the_bias_of_clipped_outcomes(kind: Any) -> None:
    # Bounds clip 4% of the outcomes. The fit allows for those of its working distribution, not for longer tails.
    biases, stated = [], []
    for seed in range(4):
        made = amounts(True, kind, 9.0, seed)
        (note,) = (note for note in made.summary().notes if note.startswith("Clipped outcomes may bias"))
        stated.append(float(note.split("coefficients by ")[1].split()[0]))
        biases.append((1 - made.intercept_) / made.intercept_standard_error_)
    assert np.mean(biases) > 1 and 0.5 * np.mean(biases) < np.mean(stated) < 2 * np.mean(biases)
    assert not any("Clipped" in note for note in amounts(False, kind, 40.0, 0).summary().notes)


def test_the_excess_of_an_outcome_is_in_units_of_the_intercept() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5000, 1))
    y = rng.normal(size=5000)
    for scale in (1.0, 1000.0):
        made = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-5 * scale, 5 * scale), random_state=0)
        made.fit(x, y * scale)
        assert made._clipping.effect == pytest.approx(made.scale_ / made.intercept_standard_error_, rel=0.2)
