"""Errors of statistics: limits that nest, the box where nothing was located, and differences."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.statistic.clipped_sums import BlockErrors, DifferenceErrors, Noise, located


def errors(link: str | None = None, first: float = 10.0) -> BlockErrors:
    at = located(np.array([[first, 40.0, 0.0]]), 100, Noise("laplace", 2.0, 2.0, 2.0))
    return BlockErrors(at, np.array([0.5]), 0.2 + 0.5 * at.mean, np.array([[-4.0, 4.0]]), link, 0.5)


@pytest.mark.parametrize("link", [None, "fisher", "logit", "log"])
def test_limits_nest_and_hold_the_estimate(link: str | None) -> None:
    found = errors(link)
    ends = [found.interval(tail) for tail in (1e-6, 0.025, 0.1, 0.4, 0.5)]
    lows, highs = np.array([low for low, _ in ends]), np.array([high for _, high in ends])
    assert (np.diff(lows) >= 0).all() and (np.diff(highs) <= 0).all()
    assert lows[-1] == pytest.approx(float(found.start)) == pytest.approx(highs[-1])
    low, high = found.box
    assert low <= lows[0] and highs[0] <= high


def test_limits_with_one_end_count_the_whole_bias() -> None:
    found = errors()
    for tail in (0.01, 0.2):
        one, both = (np.subtract(*ends(tail)[::-1]) for ends in (found.limits, found.interval))
        assert one > both
    low, high = found.interval(0.025)
    assert found.two_sided(low)[()] == pytest.approx(0.05) == found.two_sided(high)[()]
    assert found.two_sided(found.start)[()] == 1
    assert found.tails(found.limits(0.1)[1])[0] == pytest.approx(0.1, rel=1e-6)


def test_what_was_not_located_has_the_box() -> None:
    low, high = errors(first=99.0).limits(0.4)
    assert (low, high) == (-4.0, 4.0)


def test_a_difference_is_wider_than_either() -> None:
    first, second = errors(), errors(first=-20.0)
    low, high = DifferenceErrors(first, second).limits(0.025)
    own = np.subtract(*first.limits(0.025)[::-1])
    assert high - low > own
    assert low < first.start - second.start < high
