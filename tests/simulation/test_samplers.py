"""Samplers: their means, their deviations, fields replaced in a call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.simulation import Gaussian, Rademacher, SparseMeans
from dpstats.simulation.samplers import Contaminated, ProductBernoulli, Sampler, StudentT, SubGaussian

SAMPLERS = {
    Gaussian(mean=(1.0, -2.0), std=2.0): 2.0,
    SubGaussian(mean=1.0, std=2.0): 2.0,
    StudentT(mean=1.0, degrees_of_freedom=8.0): 1.0,
    Rademacher(): 1.0,
    Rademacher(mean=0.6): 0.8,
    ProductBernoulli(probability=0.2): 0.4,
    SparseMeans(n_nonzero=1, signal=2.0, std=0.5): 0.5,
    Contaminated(mean=1.0, share=0.0): 1.0,
}


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_samplers_know_their_mean(sampler: Gaussian) -> None:
    n = 20_000
    X = sampler(n, 2, np.random.default_rng(0))
    assert X.shape == (n, 2) and X.dtype == np.float64
    # Five standard errors of the mean, and 10% of the deviation: false alarms below 1e-4.
    assert np.abs(X.mean(axis=0) - sampler.true_mean(2)).max() < 5 * SAMPLERS[sampler] / np.sqrt(n)
    assert X.std(axis=0) == pytest.approx(SAMPLERS[sampler], rel=0.1)


def test_samplers_replace_their_fields_in_a_call() -> None:
    rng = np.random.default_rng(0)
    assert SparseMeans().true_mean(4, n_nonzero=3, signal=2.0).tolist() == [2.0, -2.0, 2.0, 0.0]
    moved = Contaminated(share=0.5, shift=100.0)(1000, 2, rng)
    assert 0.4 < np.mean(moved[:, 0] > 50) < 0.6 and np.all((moved[:, 0] > 50) == (moved[:, 1] > 50))
    assert Contaminated(share=0.5).true_mean(1).tolist() == [0.0]
    with pytest.raises(InvalidParameter, match="greater than 2"):
        StudentT(degrees_of_freedom=2.0)(5, 1, rng)
    with pytest.raises(InvalidParameter, match="n_nonzero must"):
        SparseMeans(n_nonzero=5)(5, 2, rng)


@pytest.mark.parametrize(
    ("kind", "given", "name"),
    [
        (Rademacher, {"mean": 3.0}, "mean"),
        (ProductBernoulli, {"probability": 2.0}, "probability"),
        (ProductBernoulli, {"probability": (0.5, -0.1)}, "probability"),
        (Contaminated, {"share": 2.0}, "share"),
        (Contaminated, {"std": 0.0}, "std"),
        (Gaussian, {"std": -1.0}, "std"),
        (SubGaussian, {"std": float("nan")}, "std"),
        (StudentT, {"degrees_of_freedom": 2.0}, "degrees_of_freedom"),
        (SparseMeans, {"n_nonzero": -1}, "n_nonzero"),
    ],
)
def test_parameters_that_no_distribution_has_are_refused(kind: type[Sampler], given: dict[str, Any], name: str) -> None:
    # In the sampler, and in the grid of a study
    with pytest.raises(InvalidParameter, match=f"^{name} must be"):
        kind(**given)
    with pytest.raises(InvalidParameter, match=f"^{name} must be"):
        kind()(10, 2, np.random.default_rng(0), **given)
    with pytest.raises(InvalidParameter, match=f"^{name} must be"):
        kind().true_mean(2, **given)
