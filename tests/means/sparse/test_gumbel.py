"""One-shot Gumbel selection, and the balls of its release."""

import math

import pytest

from dpstats.means import SparseMean
from dpstats.means.sparse.gumbel import release_balls
from dpstats.privacy import (
    PrivacyGuarantee,
    zcdp_rho,
)


def test_a_gumbel_plan_adds_up_in_rho():
    plan = SparseMean(n_nonzero=10, clip=6.0, std=1.0).plan(2000, 2000)
    rho = sum(event.zcdp_cost() for event in plan.events)
    assert rho == pytest.approx(zcdp_rho(1.0, 1e-6), rel=1e-9)
    assert sum(e.zcdp_cost() for e in plan.selections[0].events) == pytest.approx(rho / 2, rel=1e-9)
    assert plan.guarantee == PrivacyGuarantee(1.0, 1e-6)
    # 2 Delta/epsilon_0, Delta = 2/n, epsilon_0 = sqrt(8 f rho/s).
    scale = 2 * (2 / 2000) / math.sqrt(8 * 0.5 * rho / 10)
    assert plan.selections[0].noise_scale == pytest.approx(scale, rel=1e-9)


def test_stages_never_plan_more_noise_than_one():
    for signal in (0.0, 1.0, 10.0):
        mu, n, s = 0.2, 2000, 10
        balls = release_balls(n, 2000, s, signal, mu)
        planned = sum(
            share * (n * mu / (2 * r)) ** 2 for r, share in zip(balls.radii, balls.shares, strict=True)
        )
        one = (n * mu / (2 * (math.sqrt(s + s * signal**2) + 2))) ** 2
        assert planned >= one * (1 - 1e-9)
        assert sum(balls.shares) <= 1
