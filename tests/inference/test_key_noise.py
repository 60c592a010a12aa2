"""Noise of counts of keys: masses against numerical integrals, in both tails."""

import math

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

from dpstats.inference.noisy_counts import NormalNoise, TwoSidedNoise

INTERVALS = [(-1.0, 2.0), (0.5, 3.0), (-7.0, -2.0), (-math.inf, 1.0), (2.0, math.inf), (30.0, 31.0), (-90.0, -89.0)]
TWO_SIDED = TwoSidedNoise(1.5, 4.0)


def density(x):
    return math.exp(-x / 1.5 if x > 0 else x / 4.0) / 5.5


@pytest.mark.parametrize(("low", "high"), INTERVALS)
def test_masses_are_integrals(low, high):
    parts = [(low, min(high, 0.0)), (max(low, 0.0), high)]
    expected = sum(integrate.quad(density, a, b, epsabs=0)[0] for a, b in parts if a < b)
    assert TWO_SIDED.mass(low, high) == pytest.approx(expected, rel=1e-8)
    assert NormalNoise(2.0).mass(np.array([low]), high)[0] == pytest.approx(
        norm.cdf(high / 2) - norm.cdf(low / 2) if low < 0 else norm.sf(low / 2) - norm.sf(high / 2), rel=1e-9
    )


def test_moments_and_reach():
    second = integrate.quad(lambda x: x * x * density(x), -400, 100, points=[0])[0]
    first = integrate.quad(lambda x: x * density(x), -400, 100, points=[0])[0]
    assert TWO_SIDED.std == pytest.approx(math.sqrt(second - first**2), rel=1e-6)
    assert TwoSidedNoise(2.0, 2.0).std == pytest.approx(math.sqrt(8)) and NormalNoise(3.0).std == 3.0
    for noise in (TWO_SIDED, NormalNoise(2.0)):
        assert float(noise.mass(noise.reach, math.inf) + noise.mass(-math.inf, -noise.reach)) < 1e-30


def test_words():
    assert NormalNoise(2.0).words == "Gaussian of standard deviation 2"
    assert TWO_SIDED.words == "Laplace of scale 4, thinned to 1.5 above 0"
    assert TwoSidedNoise(2.0, 2.0).words == "Laplace of scale 2"
