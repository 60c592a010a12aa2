"""Where to clip."""

from __future__ import annotations

import math

import pytest

from dpstats.means import clipping_radius


def test_clipping_radius() -> None:
    assert clipping_radius(1000, 1.0, 3.0) == pytest.approx(3 + 2 * math.sqrt(math.log(1000)))
    assert clipping_radius(1000, sigma=2.0, bound=0.0, constant=3.0) == pytest.approx(6 * math.sqrt(math.log(1000)))
