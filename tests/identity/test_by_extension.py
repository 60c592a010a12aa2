"""The class of both constraints: its strategies, its parameters, and its calibrations."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from dpstats.errors import InvalidParameter
from dpstats.identity import LipschitzExtensionTest

ROWS = np.random.default_rng(0).standard_normal((60, 3)) + 0.3
FAST = {"n_calibration": 99, "random_state": 4}


@pytest.mark.parametrize(
    ("options", "statistic", "threshold"),
    [
        ({}, 300.3019502689922, 106.33308527673123),
        ({"clip": 2.0, "radius": 0.4}, 254.2257219261213, 42.63003155651529),
        ({"rows": "sign", "level": 0.1}, 527.137451171875, 155.71784114837646),
        ({"constraint": "inner_product"}, 527.137451171875, 208.69503688812256),
        ({"constraint": "inner_product", "solver": "surrogate", "epsilon": 3.0}, 410.379150390625, 157.2058401107788),
    ],
)
def test_each_constraint_has_the_numbers_of_its_own_former_class(options, statistic, threshold) -> None:
    test = LipschitzExtensionTest(**options, **FAST).fit(ROWS)
    assert test.statistic_ == pytest.approx(statistic, rel=1e-9)
    assert test.threshold_ == pytest.approx(threshold, rel=1e-6)


def test_a_subclass_has_calibrations_of_its_own() -> None:
    """A distribution that a subclass changes must not be served to the test it comes from, or from it."""

    class Loud(LipschitzExtensionTest):
        def _draw(self, plan, size, generator, shift):
            return super()._draw(plan, size, generator, shift) + plan.stages[0].sensitivity_steps * 1000

    quiet = LipschitzExtensionTest(epsilon=0.83, **FAST).fit(ROWS)
    assert Loud(epsilon=0.83, **FAST).fit(ROWS).threshold_ > quiet.threshold_
    assert clone(quiet).fit(ROWS).threshold_ == quiet.threshold_


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"constraint": "l2"}, "constraint"),
        ({"constraint": "inner_product", "rows": "ranks"}, "rows"),
        ({"solver": "quick"}, "solver"),
    ],
)
def test_parameters_are_checked_with_either_constraint(options, named) -> None:
    with pytest.raises(InvalidParameter) as error:
        LipschitzExtensionTest(**options).fit(ROWS)
    assert error.value.parameter == named
