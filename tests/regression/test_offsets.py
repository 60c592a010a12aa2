"""The working distribution of offsets: its moments, and fits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpstats.errors import InvalidParameter
from dpstats.regression import PrivateCountRegression
from dpstats.regression.blocks import Blocks, Design
from dpstats.regression.log_linear_path import LogLinearPath
from dpstats.regression.log_linear_plan import log_linear_plan
from dpstats.regression.log_linear_tables import Offsets
from tests.regression.exact_paths import first_path, walked


@pytest.mark.parametrize("concentration", [2.0**-6, 1.0, 30.0, 181.0])
@pytest.mark.parametrize("mean", [-0.6, 0.0, 0.999])
def test_nodes_have_the_moments_of_a_beta_distribution(mean: float, concentration: float) -> None:
    at, weights = Offsets(1.5, mean, 0.0, concentration).nodes
    law = stats.beta(*(concentration * (1 + side * mean) / (1 - abs(mean)) for side in (1, -1)))
    assert weights.sum() == pytest.approx(1.0) and weights @ at == pytest.approx(0.0, abs=1e-12)
    assert weights @ at**2 == pytest.approx(9 * law.var(), rel=1e-9)
    if mean < 0.9:
        third = 27 * law.stats("s") * law.std() ** 3
        assert weights @ at**3 == pytest.approx(third, rel=1e-6, abs=1e-9)


def test_the_largest_ranges_are_finite() -> None:
    for mean in (-1.0, 0.0, 1.0):
        for noise in (0.0, 0.1, 1e6):
            offsets = Offsets(700.0, mean, noise)
            assert np.isfinite(offsets.nodes).all() and 0 <= offsets.error < 400


def test_the_mean_exposure_is_found() -> None:
    rng = np.random.default_rng(0)
    n = 20_000
    X, some = rng.uniform(-1, 1, (n, 1)), rng.random(n)
    for exposure in (
        np.ones(n),
        np.full(n, 0.25),
        rng.uniform(0.05, 1, n),
        np.where(some < 0.5, 1.0, rng.uniform(0.05, 1, n)),
        np.where(some < 0.9, 1.0, rng.uniform(0.05, 0.1, n)),
    ):
        y = rng.poisson(0.15 * exposure * np.exp(0.25 * X[:, 0])).astype(float)
        design = replace(Design.check((-1, 1), (0, 10), 1, True), exposure=(0.05, 1.0))
        path = walked(
            first_path(log_linear_plan("counts", 1.0, design, 10**7, 1.0, 1e-6)), Blocks(X, y, design, exposure), n
        )
        assert isinstance(path, LogLinearPath)
        at, weights = path.offsets.nodes
        assert np.log(weights @ np.exp(at)) + path.offset == pytest.approx(np.log(exposure.mean()), abs=0.05)


def test_unequal_exposures_are_no_overdispersion() -> None:
    # With normal offsets the variance was found to be 8 to 19 times too large, and the intercept too high.
    hits, quadratic, linear = 0, [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n = 12_000
        x, z = np.where(rng.random(n) < 0.9, 1.0, rng.uniform(0.05, 0.1, n)), rng.uniform(0, 1, n)
        frame = pd.DataFrame({"x": x, "z": z, "y": rng.poisson(0.15 * x * np.exp(0.5 * z)).astype(float)})
        made = PrivateCountRegression.from_formula(
            "y ~ z",
            frame,
            bounds={"y": (0, 10), "z": (0, 1)},
            exposure="x",
            exposure_bounds=(0.05, 1),
            epsilon=4.0,
            random_state=seed,
        )
        low, high = made.intercept_confidence_interval()
        hits += low <= np.log(0.15) <= high
        phi, alpha = made.dispersion_
        linear.append(phi)
        quadratic.append(alpha)
        assert made.intercept_standard_error_ < 0.08
    assert hits >= 5 and np.median(linear) < 2.5 and np.median(quadratic) < 1.0


def test_bounds_of_an_exposure_have_a_finite_ratio() -> None:
    for exposure_bounds in ((1e-300, 1e300), (1e-200, 1.0)):
        model = PrivateCountRegression(x_bounds=(-1, 1), y_bounds=(0, 9), exposure_bounds=exposure_bounds)
        with pytest.raises(InvalidParameter, match="at most 1e\\+100 times low"):
            model.plan(1000, 1)
