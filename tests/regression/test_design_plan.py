"""What the plans of all regressions share."""

from __future__ import annotations

import pytest

from dpstats.regression import PrivateLinearRegression, SufficientStatisticsRegression

BOUNDS = {"x_bounds": (-1, 1), "y_bounds": (-1, 1)}


@pytest.mark.parametrize("kind", [PrivateLinearRegression, SufficientStatisticsRegression])
def test_plans_say_what_is_public_before_any_row(kind: type) -> None:
    good, bad = kind(**BOUNDS).plan(50_000, 3), kind(**BOUNDS, epsilon=0.01).plan(100, 20)
    assert good.size == 4
    assert kind(**BOUNDS, fit_intercept=False).plan(100, 3).size == 3
    assert good.facts()["noise_ratio"] == good.noise_ratio < bad.noise_ratio
    assert (good.noise_only, bad.noise_only) == (False, True)
    assert "warning: noise only" in str(bad) and "warning" not in str(good)
    assert f"{good.noise_ratio:.2g} times its sampling error" in str(good)
    for stage in good.stages:
        for block in getattr(stage, "blocks", ()):
            assert good.noise_of[stage.name, block.name] == stage.noise_std(block)
