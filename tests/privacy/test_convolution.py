"""Plain convolution of loss distributions: never below the exact answer, and close to it."""

from collections import Counter

import numpy as np
import pytest

from dpstats.privacy import gaussian_epsilon, optimal_composition_delta, optimal_composition_epsilon
from dpstats.privacy.events import Approximate, DiscreteLaplace, Pure
from dpstats.privacy.totals import _gaussian_losses, _Losses, convolved_epsilon


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize(("epsilon", "k"), [(0.1, 10), (0.1, 1000), (0.01, 3000), (1.0, 20)])
def test_copies_against_optimal_composition(epsilon, k, delta):
    # On a grid that holds the loss the discretised pair is randomized response itself; what is added for
    # the rounding of a profile, 1e-15 a release, matters where it is not small against delta.
    exact = optimal_composition_epsilon(epsilon, k, delta)
    answer = convolved_epsilon(Counter({Pure(epsilon): k}), 0.0, epsilon / 3, delta)
    assert exact <= answer
    assert k * 1e-15 > delta / 1000 or answer <= exact * (1 + 1e-3) + 1e-9
    # A coarse grid that does not hold it costs more (its largest loss is 4/3.7 of the true one), and never less.
    assert exact <= convolved_epsilon(Counter({Pure(epsilon): k}), 0.0, epsilon / 3.7, delta)


def test_infinite_losses_add_up():
    exact = optimal_composition_epsilon(0.2, 50, 1e-5, 1e-8)
    answer = convolved_epsilon(Counter({Approximate(0.2, 1e-8): 50}), 0.0, 0.1, 1e-5)
    assert exact <= answer <= 1.001 * exact
    assert optimal_composition_delta(0.2, 50, answer, 1e-8) <= 1e-5


@pytest.mark.parametrize("mu", [0.05, 0.5, 3.0])
def test_gaussian_noise_alone(mu):
    # A pure event of nothing beside it: the answer is the exact curve's, from above.
    exact = gaussian_epsilon(1 / mu, 1e-8)
    answer = convolved_epsilon(Counter({Pure(0.0): 1}), mu, mu / 200, 1e-8)
    assert exact <= answer <= 1.001 * exact


def test_masses_are_at_least_one_and_losses_have_the_right_mean():
    # E e^-loss <= 1 and total mass about 1; the mean loss of N(mu, 1) against N(0, 1) is mu^2/2.
    losses = _gaussian_losses(0.5, 0.005, 1e-12)
    values = (losses.first + np.arange(losses.masses.size)) * 0.005
    total = losses.masses.sum() + losses.infinite
    assert 1 - 1e-9 <= total <= 1 + 1e-9
    assert losses.masses @ values == pytest.approx(0.125, abs=1e-4)


def test_truncation_only_raises():
    # Masses by hand: losses -1, 0, 1 with tails below and above the truncation.
    one = _Losses(-1, np.array([0.25, 0.5, 0.25]), 0.0)
    exact = one.times(6, 0.0)
    cut = one.times(6, 1e-3)
    assert exact.masses.sum() == pytest.approx(1.0) and exact.infinite == 0.0
    assert cut.masses.size < exact.masses.size and cut.infinite > 0
    for delta in (0.3, 0.1, 0.03):
        assert cut.epsilon(0.5, delta) >= exact.epsilon(0.5, delta)
    assert cut.masses.sum() + cut.infinite == pytest.approx(1.0)


def test_laplace_noise_is_dominated_by_its_pure_event():
    laplace = convolved_epsilon(Counter({DiscreteLaplace(2**20, 2**20 / 0.1): 100}), 0.0, 0.1 / 40, 1e-9)
    pure = convolved_epsilon(Counter({Pure(0.1): 100}), 0.0, 0.1 / 40, 1e-9)
    assert laplace < pure
