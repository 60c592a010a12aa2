"""Errors of a mean in a box, with a bound on its bias."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from dpstats.means.boxed_errors import DeclaredBox
from dpstats.means.whitened import WhitenedErrors


class Box(DeclaredBox):
    def __init__(self, hard: bool = False) -> None:
        self.n_features, self.middle, self.bound, self.hard, self.std = 2, 0.0, (4.0, 10.0), hard, 1.0


def errors(bias: float, estimate: tuple[float, float] = (1.0, -2.0), hard: bool = False) -> WhitenedErrors:
    value = np.array(estimate)
    plan: SimpleNamespace = Box(hard)  # type: ignore[assignment]
    return WhitenedErrors(plan, value, np.array([0.1, 0.2]), np.full(2, bias), np.clip(value, -4.0, 4.0))


def test_a_bias_widens_limits_by_itself_and_intervals_by_less() -> None:
    plain, moved = errors(0.0), errors(0.3)
    np.testing.assert_allclose(plain.interval(0.025), plain.limits(0.025))
    low, high = plain.limits(0.025)
    np.testing.assert_allclose(high - low, 2 * 1.959964 * np.array([0.1, 0.2]), rtol=1e-6)
    np.testing.assert_allclose(moved.limits(0.025)[1] - high, 0.3)
    assert np.all(moved.interval(0.025)[1] < moved.limits(0.025)[1])
    np.testing.assert_allclose(moved.half_widths(0.025)[0], 0.1 * (3 + 1.644854), rtol=1e-3)


def test_tests_invert_the_intervals() -> None:
    found = errors(0.3)
    low, high = found.interval(0.025)
    np.testing.assert_allclose(found.two_sided(low), 0.05, rtol=1e-6)
    np.testing.assert_allclose(found.two_sided(high), 0.05, rtol=1e-6)


def test_intervals_are_cut_to_the_box_and_open_beyond_it() -> None:
    low, high = errors(0.0, (3.95, 0.0)).interval(0.025)
    assert high[0] == 4.0
    low, high = errors(0.0, (6.0, 0.0)).interval(0.025)
    assert high[0] == np.inf and low[0] <= 4.0
    assert errors(0.0, (6.0, 0.0), hard=True).interval(0.025)[1][0] == 4.0
