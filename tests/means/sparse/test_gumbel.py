"""One-shot Gumbel selection, and the balls of its release."""

import math

import numpy as np
import pytest
import scipy.sparse

from dpstats.means import SparseMean
from dpstats.privacy import PrivacyGuarantee, gaussian_sigma, zcdp_rho


def test_a_gumbel_plan_adds_up_in_rho():
    plan = SparseMean(n_nonzero=10, clip=6.0, std=1.0).plan(2000, 2000)
    rho = sum(event.zcdp_cost() for event in plan.events)
    assert rho == pytest.approx(zcdp_rho(1.0, 1e-6), rel=1e-9)
    assert sum(e.zcdp_cost() for e in plan.selections[0].events) == pytest.approx(rho / 2, rel=1e-9)
    assert plan.guarantee == PrivacyGuarantee(1.0, 1e-6)
    # 2 Delta/epsilon_0, Delta = 2/n, epsilon_0 = sqrt(8 f rho/s).
    scale = 2 * (2 / 2000) / math.sqrt(8 * 0.5 * rho / 10)
    assert plan.selections[0].noise_scale == pytest.approx(scale, rel=1e-9)


def test_a_release_of_every_column_pays_for_no_selection():
    estimator = SparseMean(n_nonzero=25, clip=6.0, std=1.0, epsilon=0.3)
    plan = estimator.plan(20_000, 50)
    assert plan.everything and not plan.selections and plan.additive[0].size == 50
    assert plan.guarantee == PrivacyGuarantee(0.3, 1e-6)
    # Gaussian noise alone is calibrated on the exact curve.
    mu = math.sqrt(sum((stage.sensitivity_steps / stage.scale_steps) ** 2 for stage in plan.additive))
    assert 1 / mu == pytest.approx(gaussian_sigma(0.3, 1e-6), rel=1e-6)
    # The cell: less than with half of rho for the selection.
    halved = SparseMean(n_nonzero=25, clip=6.0, std=1.0, epsilon=0.3, selection_share=0.5).plan(20_000, 50)
    assert plan.expected_error() < 0.85 * halved.expected_error()


@pytest.mark.parametrize("way", [{}, {"delta": 0.0}, {"std": np.linspace(0.5, 2.0, 8)}, {"n_nonzero": 8}], ids=str)
def test_the_largest_of_all_means_are_kept(way):
    given = {"n_nonzero": 3, "clip": 20.0, "std": 1.0, "epsilon": 3.0, **way}
    X = np.random.default_rng(0).normal(size=(3000, 8)) * given["std"]
    X[:, [1, 4, 6]] += np.array([0.9, -0.9, 0.9]) * np.broadcast_to(given["std"], 8)[[1, 4, 6]]
    made = SparseMean(**given, random_state=1).fit(X)
    assert made.plan_.everything
    assert made.support_.tolist() == ([1, 4, 6] if given["n_nonzero"] == 3 else list(range(8)))
    np.testing.assert_allclose(made.mean_[[1, 4, 6]] / X[:, [1, 4, 6]].mean(axis=0), 1.0, atol=0.15)
    table = scipy.sparse.csr_matrix(X)
    np.testing.assert_array_equal(SparseMean(**given, random_state=1).fit(table).mean_, made.mean_)
