"""Log odds that are normal."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.regression.two_valued import derivative, normal_log_odds


@pytest.mark.parametrize(("center", "spread"), [(0.0, 0.5), (0.0, 2.0), (-3.0, 1.0), (1.0, 3.0)])
def test_the_first_step_is_taken_as_far_as_normal_log_odds_go(center: float, spread: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=2_000_000)
    p = 1 / (1 + np.exp(-(center + spread * x)))
    start = float(np.log(p.mean() / (1 - p.mean())))
    step = float((x * p).mean()) / float(derivative(start))
    farther, shift = normal_log_odds(start, step)
    assert farther * step == pytest.approx(spread, rel=0.01)
    assert start + shift == pytest.approx(center, abs=0.02)


def test_small_steps_stay_and_large_ones_end() -> None:
    assert normal_log_odds(-1.0, 0.0) == (1.0, 0.0)
    farther, shift = normal_log_odds(-1.0, 1e-3)
    assert farther == pytest.approx(1, abs=1e-5)
    assert shift == pytest.approx(0, abs=1e-5)
    # No normal log odds pull so much: the end of what is looked at.
    assert normal_log_odds(0.0, 2.5)[0] * 2.5 == pytest.approx(4.0)
    assert np.isfinite(normal_log_odds(-8.0, 40.0)).all()
