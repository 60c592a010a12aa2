"""Noise of a released number of rows: its quantiles, sums and multiples."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.inference.noisy_counts import CountNoise
from dpstats.means.ratio import RowsNoise

SIZE = 400_000


@pytest.mark.parametrize("tail", [0.25, 0.025])
@pytest.mark.parametrize("count", [1, 3, 12])
def test_quantiles_of_sums_of_laplace_variables(count: int, tail: float) -> None:
    scales = (2.0,) * count
    noise = RowsNoise(2.0 * np.sqrt(2 * count), scales)
    drawn = np.random.default_rng(count).laplace(scale=2.0, size=(SIZE, count)).sum(axis=1)
    # A false alarm has probability 6e-7 in each case (five standard errors).
    assert abs((drawn > noise.quantile(tail)).mean() - tail) < 5 * np.sqrt(tail / SIZE)
    assert drawn.std() == pytest.approx(noise.std, rel=0.02)


def test_sums_and_multiples() -> None:
    assert RowsNoise(3.0).quantile(0.025) == pytest.approx(3 * 1.959964, rel=1e-6)
    assert RowsNoise(3.0).scale(2).sum(4) == RowsNoise(12.0)
    assert RowsNoise(3.0, (1.0, 2.0)).scale(2).sum(2).scales == (2.0, 4.0, 2.0, 4.0)


@pytest.mark.parametrize(
    "noise", [CountNoise("laplace", 2.0), CountNoise("laplace", 0.1, 5), CountNoise("laplace", 9.0, 7)]
)
def test_quantiles_of_whole_numbers_are_the_smallest(noise: CountNoise) -> None:
    for tail in (0.3, 0.025, 1e-4):
        k = noise.quantile(tail)
        # P(noise > k), and P(noise > k - 1).
        assert noise.beyond(k + 0.5) <= tail < noise.beyond(k - 0.5) or k == 0
    assert CountNoise("gaussian", 2.0, 4).quantile(0.025) == pytest.approx(4 * 1.959964, rel=1e-6)
