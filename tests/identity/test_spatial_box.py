"""The box of two-valued rows: its diagonal by brute force, and the exact law of the sums."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from dpstats.identity import SpatialSignTest
from dpstats.identity.by_spatial_sign import SignBox, integer_norm
from dpstats.identity.whitening import Reference


@pytest.mark.parametrize("mean", [[0.0, 0.0], [0.5, 0.5], [0.9, -0.3], [0.99, 0.0], [-0.7, 0.7]])
def test_the_diagonal_is_attained_and_never_exceeded(mean: list[float]) -> None:
    reference = Reference.build(mean, None, "product", 2)
    box = SignBox.build(reference)
    rows = np.array([*itertools.product((-1.0, 1.0), repeat=2), (np.nan, 1.0)])
    worst = 0
    for rest in itertools.combinations_with_replacement(rows, 4):
        norms = [integer_norm(box.sums(reference.whiten(np.array([row, *rest]), "center"), reference)) for row in rows]
        worst = max(worst, max(norms) - min(norms))
    assert worst <= box.diagonal
    # The norm falls by the diagonal where the sum points along it: where both columns are alike.
    if abs(mean[0]) == abs(mean[1]):
        assert worst >= box.diagonal - 2
    widths = 2 / np.sqrt(1 - np.array(mean) ** 2)
    assert box.diagonal * box.spacing == pytest.approx(np.linalg.norm(widths), abs=2e-6)


def test_rows_are_corners_or_the_center_whatever_they_hold() -> None:
    reference = Reference.build([0.5, -0.2], None, "product", 2)
    high, low = reference.sign_steps(2.0**20, 2**30)
    odd = np.array([[np.nan, np.inf], [-np.inf, 1e300], [0.0, -0.0], [1e-300, -5.0]])
    found = reference.sign_rows(odd, 2.0**20, 2**30)
    assert found.tolist() == [[0, high[1]], [low[0], high[1]], [0, 0], [high[0], low[1]]]


def test_sums_have_their_exact_law() -> None:
    """Binomial sums against rows that go through the row map; false alarm 1e-5 each."""
    rng = np.random.default_rng(4)
    for mean, shift in ((0.5, 0.0), ([0.9, -0.3], [-0.2, 0.1])):
        test = SpatialSignTest(null="product", mean=mean)
        plan = test.plan(30, 2)
        drawn = test._draw(plan, 4000, rng, np.broadcast_to(shift, 2))[:, 0]
        up = plan.reference.up(shift)
        direct = [
            test._exact(np.where(rng.random((30, 2)) < up, 1.0, 0.0), plan)[plan.stages[0].name][0] for _ in range(1500)
        ]
        assert stats.ks_2samp(drawn.astype(float), np.array(direct, dtype=float)).pvalue > 1e-5
        assert stats.ks_2samp(1.2 * drawn, np.array(direct, dtype=float)).pvalue < 1e-5


def test_the_noise_is_less_than_that_of_the_longest_row() -> None:
    for mean, share in ((0.5, 0.667), (0.9, 0.527)):
        scale = SpatialSignTest(null="product", mean=mean).plan(500, 20).stages[0].noise_scale
        assert scale / (2 * np.sqrt(20) * (1 + mean) / np.sqrt(1 - mean**2)) == pytest.approx(share, abs=1e-3)
    # In one pass at any number of rows, for the sums have a law of their own.
    assert SpatialSignTest(null="product", mean=0.3, n_calibration=99).power(0.01, 10**7, 3, n_simulations=50) > 0.9
