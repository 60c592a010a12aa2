"""Laws by quadrature, against mpmath and closed forms."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate

from dpstats.mechanisms import ReportNoisyMax
from dpstats.mechanisms.selection import pieces
from tests.mechanisms.test_selection import UTILITIES, by_quadrature, kinds


@pytest.mark.parametrize("name", ["three", "ties", "all equal", "one", "far apart", "six"])
def test_laplace_noisy_max_by_mpmath(name):
    found = ReportNoisyMax(1.0, 1.0).probabilities(UTILITIES[name])
    np.testing.assert_allclose(found, by_quadrature(UTILITIES[name], 2.0), atol=1e-11)
    assert found.sum() == pytest.approx(1, abs=1e-12)


def test_laplace_noisy_max_of_fifty():
    values = np.array(UTILITIES["fifty"])
    found = ReportNoisyMax(1.0, 1.0).probabilities(values)
    w = (values - values.max()) / 2

    def density(x, i):
        cdf = np.where(x < w, np.exp(-np.abs(x - w)) / 2, 1 - np.exp(-np.abs(x - w)) / 2)
        return math.exp(-abs(x - w[i])) / 2 * np.prod(np.delete(cdf, i))

    for i in (0, 20, 49):
        pieces = itertools.pairwise(sorted({-40.0, *w, 4.0, 40.0}))
        expected = math.fsum(integrate.quad(density, a, b, (i,), epsabs=1e-14)[0] for a, b in pieces)
        assert found[i] == pytest.approx(expected, abs=1e-11)
    assert found.sum() == pytest.approx(1, abs=1e-12)


@kinds
@pytest.mark.parametrize("seed", range(10))
def test_probabilities_are_probabilities_to_the_last_digit(build, seed):
    # None above 1, whatever the kernels round: in particular where one candidate has all but 2^-53 of it.
    rng = np.random.default_rng(seed)
    for values in (
        [float(rng.normal())],
        rng.normal(size=7),
        [0.0, -72.0, -74.0],
        [0.0, *rng.uniform(-90, -60, size=9)],
        np.full(int(rng.integers(1, 60)), 3.0),
    ):
        p = build(1.0, 1.0).probabilities(values)
        assert p.min() >= 0 and p.max() <= 1 and (len(values) > 1 or p[0] == 1)
        # A sum of m quotients, each right to half an ulp, added up in any order.
        assert abs(p.sum() - 1) <= len(values) * 2.0**-52


def test_pieces_integrate_what_is_smooth_between_kinks():
    kinks = np.array([-7.0, -1.0, 0.0, 0.25, 9.5])
    found = list(pieces(kinks))
    assert len(found) == 3 + 1 + 1 + 5  # none is longer than 2
    for f, exact in (
        (np.ones_like, 16.5),
        (lambda x: x**3, (9.5**4 - 7**4) / 4),
        (lambda x: np.exp(-np.abs(x)), 2 - math.exp(-7) - math.exp(-9.5)),
    ):
        assert math.fsum(float(weights @ f(x)) for x, weights in found) == pytest.approx(exact, rel=1e-12)
