"""Costs of releases from random samples: beside integrals, enumeration and published figures, and never below."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from scipy.stats import norm

from dpstats.errors import InvalidParameter
from dpstats.privacy import Neighbors, PrivacyBudget, compose, poisson_subsampling
from dpstats.privacy.events import (
    ZCDP,
    Approximate,
    BoundedRange,
    DiscreteLaplace,
    Event,
    Gaussian,
    GaussianMixture,
    Pure,
    Sampled,
)
from dpstats.privacy.gaussian import gaussian_curve, gaussian_profile
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.totals import compose as total_of

ADDED = Neighbors.ADD_OR_REMOVE_ONE
EPSILONS = [0.0, 1e-6, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0]
Density = Callable[[np.ndarray], np.ndarray]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(60)


def divergence(epsilon: float, p: Density, q: Density, places: list[float]) -> float:
    """Return the integral of (p - e^epsilon q)_+ to 14 digits; it is smooth between the places, and 0 far out."""
    edges = np.unique(np.concatenate([np.linspace(-40, 60, 201), places]))
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    x = middle[:, None] + half[:, None] * NODES
    return float((np.maximum(p(x) - math.exp(epsilon) * q(x), 0) * WEIGHTS * half[:, None]).sum())


def check(found: float, exact: float, near: float = 1e-6) -> None:
    """Fail unless a value is not below an exact one that is right to 1e-12, and not far above."""
    assert exact - 1e-12 * max(exact, 1e-3) <= found <= exact * (1 + near) + 1e-12


def normal(mean: float) -> Density:
    return lambda x: norm.pdf(x, mean)


def mixture(shifts: list[float], chances: list[float]) -> Density:
    return lambda x: np.sum([c * norm.pdf(x, s) for s, c in zip(shifts, chances, strict=True)], axis=0)


@pytest.mark.parametrize(("mu", "rate"), [(0.5, 0.01), (2.0, 0.2), (1.0, 0.9), (0.1, 1.0)])
def test_curves_of_sampled_gaussian_noise_are_integrals(mu: float, rate: float) -> None:
    event = Sampled(Gaussian(mu, neighbors=ADDED), rate)
    p, q = mixture([0.0, mu], [1 - rate, rate]), normal(0.0)
    for epsilon in EPSILONS:
        loss = math.log((math.exp(epsilon) - 1 + rate) / rate) / mu + mu / 2
        check(float(event.curve(np.array([epsilon]))[0]), divergence(epsilon, p, q, [-3, loss, loss + 5]))
        other = (math.exp(-epsilon) - 1 + rate) / rate
        cuts = [-8.0, -3.0, math.log(other) / mu + mu / 2] if other > 0 else [-8.0, 0.0]
        check(float(event.back_curve(np.array([epsilon]))[0]), divergence(epsilon, q, p, sorted(cuts)))


@pytest.mark.parametrize(
    ("shifts", "chances"), [([0.0, 1.0], [0.8, 0.2]), ([0.0, 0.5, 2.0], [0.6, 0.3, 0.1]), ([1.0], [1.0])]
)
def test_curves_of_mixtures_are_integrals(shifts: list[float], chances: list[float]) -> None:
    event = GaussianMixture(shifts, chances)
    p, q = mixture(shifts, chances), normal(0.0)
    for epsilon in EPSILONS:
        ahead, behind = (float(event._outputs(np.array([loss]))[0]) for loss in (epsilon, -epsilon))
        check(float(event.curve(np.array([epsilon]))[0]), divergence(epsilon, p, q, [-3, ahead, ahead + 5]))
        places = [-8.0, behind] if behind > -8 else [-8.0, 0.0]
        check(float(event.back_curve(np.array([epsilon]))[0]), divergence(epsilon, q, p, places))


def test_a_mixture_of_two_is_a_poisson_sample() -> None:
    grid = np.linspace(0, 3, 50)
    one, other = GaussianMixture([0, 1.5], [0.7, 0.3]), Sampled(Gaussian(1.5, neighbors=ADDED), 0.3)
    np.testing.assert_allclose(one.curve(grid), other.curve(grid), rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(one.back_curve(grid), other.back_curve(grid), rtol=1e-9, atol=1e-12)


def hockey_stick(epsilon: float, p: np.ndarray, q: np.ndarray) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def laplace(scale: float, shift: int) -> np.ndarray:
    """Return the law of discrete Laplace noise beside a number, far enough out."""
    at = np.abs(np.arange(-400, 401) - shift)
    decay = math.exp(-1 / scale)
    return (1 - decay) / (1 + decay) * decay**at


@pytest.mark.parametrize("rate", [0.05, 0.4, 1.0])
def test_curves_of_sampled_laplace_noise_are_sums(rate: float) -> None:
    event = Sampled(DiscreteLaplace(3, 4.0, neighbors=ADDED), rate)
    q, moved = laplace(4.0, 0), laplace(4.0, 3)
    p = (1 - rate) * q + rate * moved
    for epsilon in EPSILONS:
        check(float(event.curve(np.array([epsilon]))[0]), hockey_stick(epsilon, p, q), 1e-9)
        check(float(event.back_curve(np.array([epsilon]))[0]), hockey_stick(epsilon, q, p), 1e-9)
    cost = event.pure_cost()
    assert cost is not None
    check(cost, max(np.log(p[10:-10] / q[10:-10]).max(), np.log(q[10:-10] / p[10:-10]).max()))
    base = poisson_subsampling(PrivacyGuarantee(0.75, neighbors=ADDED), rate)
    assert cost == pytest.approx(base.epsilon, rel=1e-12)


def test_a_sample_of_public_size_is_bounded_by_its_pairs() -> None:
    # The worst pair of a release from one of n rows: two tables of which one row differs.
    rate, event = 0.25, Sampled(Pure(1.0), 0.25)
    yes, no = math.e / (1 + math.e), 1 / (1 + math.e)
    for others in (yes, no, 0.5):  # what the rows that are the same release
        p = np.array([rate * yes + (1 - rate) * others, rate * no + (1 - rate) * (1 - others)])
        q = np.array([rate * no + (1 - rate) * others, rate * yes + (1 - rate) * (1 - others)])
        for epsilon in EPSILONS:
            for one, other in ((p, q), (q, p)):
                assert hockey_stick(epsilon, one, other) <= event.profile(epsilon) * (1 + 1e-12) + 1e-15


@pytest.mark.parametrize("copies", [1, 2, 4, 9])
@pytest.mark.parametrize("rate", [0.1, 0.6])
def test_totals_are_those_of_products(copies: int, rate: float) -> None:
    yes, no = math.exp(0.8) / (1 + math.exp(0.8)), 1 / (1 + math.exp(0.8))
    q = np.array([no, yes])
    p = (1 - rate) * q + rate * np.array([yes, no])
    laws = [np.array([math.prod(c) for c in itertools.product(law, repeat=copies)]) for law in (p, q)]
    for delta in (1e-6, 1e-3, 0.05):
        found = compose([Sampled(Pure(0.8, neighbors=ADDED), rate)] * copies, delta)
        at = found.epsilon
        assert max(hockey_stick(at, *laws), hockey_stick(at, *laws[::-1])) <= delta * (1 + 1e-9)
        if found.delta:
            below = 0.98 * at - 1e-3
            assert below < 0 or max(hockey_stick(below, *laws), hockey_stick(below, *laws[::-1])) > delta


def test_totals_are_those_that_dp_accounting_publishes() -> None:
    noisy = Sampled(Gaussian(2.0, neighbors=ADDED), 0.2)
    assert compose([noisy] * 3, 0.15594).epsilon == pytest.approx(1.0, abs=1e-3)
    # Laplace noise of half the sensitivity: so fine a lattice that it is continuous.
    laplace_noise = Sampled(DiscreteLaplace(2**40, 2.0**39, neighbors=ADDED), 0.2)
    found = compose([laplace_noise] * 3, 1e-14).epsilon
    assert 2.46964 <= found <= 2.46964 + 1e-3
    first = GaussianMixture([0.0, 1.0, 2.0], [0.2, 0.6, 0.2])
    second = GaussianMixture([0.0, 1.0, 1.5], [0.33, 0.34, 0.33])
    found = compose([first] * 3 + [second] * 2, 1e-6).epsilon
    assert 17.193115 <= found <= 17.193115 + 1e-3


@pytest.mark.parametrize(("mu", "rate", "copies"), [(0.5, 0.01, 1000), (1.0, 0.01, 3000)])
def test_long_runs_cost_little_more_than_they_must(mu: float, rate: float, copies: int) -> None:
    # The accountant of dp_accounting does not count the rounding errors of its transforms.
    accountant = PLDAccountant()
    accountant.compose(dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(1 / mu)), copies)
    exact = accountant.get_epsilon(1e-5)
    found = compose([Sampled(Gaussian(mu, neighbors=ADDED), rate)] * copies, 1e-5).epsilon
    assert exact * (1 - 1e-5) <= found <= 1.01 * exact


def test_other_releases_add_up_with_samples() -> None:
    step = Sampled(Gaussian(0.5, neighbors=ADDED), 0.02)
    rest = [Gaussian(0.3, neighbors=ADDED), Pure(0.1, neighbors=ADDED), Approximate(0.1, 1e-7, neighbors=ADDED)]
    alone = compose([step] * 20, 1e-5).epsilon
    together = compose([step] * 20 + rest, 1e-5)
    assert alone < together.epsilon < alone + compose(rest, 1e-5).epsilon
    assert together.neighbors is ADDED


def test_every_row_in_the_sample_is_the_release() -> None:
    for event in (Gaussian(0.7), Pure(0.4), BoundedRange(0.5), DiscreteLaplace(2, 3.0)):
        for delta in (1e-6, 1e-3):
            assert total_of([Sampled(event, 1.0)] * 3, delta).epsilon == pytest.approx(
                total_of([event] * 3, delta).epsilon, rel=2e-3
            )


def test_a_budget_is_charged_the_total() -> None:
    budget = PrivacyBudget(2.0, 1e-4, neighbors=ADDED)
    total = compose([Sampled(Gaussian(0.5, neighbors=ADDED), 0.01)] * 100, 1e-5)
    budget.charge(total, "steps of another library")
    assert budget.spent.epsilon == total.epsilon


def test_gaussian_curves_are_the_profile() -> None:
    for mu in (1e-4, 0.05, 1.0, 10.0, 40.0):
        grid = np.concatenate([np.linspace(0, 6 * mu + mu**2, 40), np.geomspace(1e-9, 1, 10) * mu])
        exact = np.array([gaussian_profile(epsilon, mu) for epsilon in grid])
        found = gaussian_curve(grid, mu)
        assert (found >= exact * (1 - 4e-12)).all() and (found <= exact * (1 + 1e-7) + 1e-20).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Sampled(Gaussian(1.0), 0.0), "rate must"),
        (lambda: Sampled(Gaussian(1.0), 1.5), "rate must"),
        (lambda: Sampled(Gaussian(1.0, 1e-9), 0.5), "total_variation must"),
        (lambda: Sampled(ZCDP(0.1), 0.5), "event must"),
        (lambda: Sampled(Sampled(Pure(1.0), 0.5), 0.5), "event must"),
        (lambda: Sampled(PrivacyGuarantee(1.0), 0.5), "event must"),
        (lambda: GaussianMixture([0, 1], [0.5, 0.6]), "chances must"),
        (lambda: GaussianMixture([0, 1], [1.0]), "chances must"),
        (lambda: GaussianMixture([-1, 1], [0.5, 0.5]), "shifts must"),
        (lambda: GaussianMixture(1.0, [1.0]), "shifts must"),
        (lambda: Sampled(Pure(1.0, neighbors=ADDED), 0.5).as_replace_one(), "compose the releases first"),
    ],
)
def test_what_has_no_cost_is_refused(make: Callable[[], Event], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        make()


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.9])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_curves_are_not_below_sixty_digits_near_their_largest_losses(epsilon: float, rate: float) -> None:
    # There a loss that is rounded to the wrong side shows: the profile falls to 0 within the last digits.
    event = Sampled(Pure(epsilon, neighbors=ADDED), rate)
    with mp.workdps(60):
        yes = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
        release, other = (yes, 1 - yes), (1 - yes, yes)
        mixed = [mp.mpf(rate) * p + (1 - mp.mpf(rate)) * q for p, q in zip(release, other, strict=True)]
        for ahead, curve, above, below in ((True, event.curve, mixed, other), (False, event.back_curve, other, mixed)):
            largest = float(max(mp.log(p / q) for p, q in zip(above, below, strict=True)))
            for power in range(1, 14):
                x = largest * (1 - 10.0**-power)
                exact = sum(max(p - mp.exp(x) * q, 0) for p, q in zip(above, below, strict=True))
                found = float(curve(np.array([x]))[0])
                assert exact <= found <= exact * (1 + mp.mpf("1e-9")) + 1e-12, (ahead, power)


@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
def test_largest_losses_of_samples_are_those_of_their_outputs(rate: float) -> None:
    for epsilon in (1e-9, 0.1, 5.0, 599.0):
        event = Sampled(Pure(epsilon, neighbors=ADDED), rate)
        with mp.workdps(60):
            exact = mp.log(1 + mp.mpf(rate) * mp.expm1(mp.mpf(epsilon)))
            for found in (event.largest_loss(), event.pure_cost()):
                assert exact * (1 - mp.mpf("1e-16") * (rate == 1)) <= found <= exact * (1 + mp.mpf("1e-12"))
    # Where the exponential may be no float, a sample costs what the release does.
    event = Sampled(Pure(700.0, neighbors=ADDED), rate)
    assert event.largest_loss() == event.pure_cost() == 700.0
