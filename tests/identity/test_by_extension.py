"""One name for two tests: the same numbers, and only the parameters that apply."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from dpstats.errors import InvalidParameter
from dpstats.identity import InnerProductTest, L1ExtensionTest, LipschitzExtensionTest

ROWS = np.random.default_rng(0).standard_normal((60, 3)) + 0.3
FAST = {"n_calibration": 99, "random_state": 4}


@pytest.mark.parametrize(
    ("meant", "options", "own"),
    [
        (L1ExtensionTest, {}, {"clip": 2.0, "radius": 0.4}),
        (L1ExtensionTest, {}, {"rows": "sign", "level": 0.1}),
        (L1ExtensionTest, {}, {"calibration": "textbook"}),
        (InnerProductTest, {"constraint": "inner_product"}, {}),
        (InnerProductTest, {"constraint": "inner_product"}, {"solver": "surrogate", "epsilon": 3.0}),
        (InnerProductTest, {"constraint": "inner_product"}, {"staged": True, "constants": (0.05, 0.1, 10.0)}),
    ],
)
def test_it_is_the_test_that_is_meant(meant, options, own) -> None:
    one = LipschitzExtensionTest(**options, **own, **FAST).fit(ROWS)
    other = meant(**own, **FAST).fit(ROWS)
    for name in ("statistic_", "threshold_", "reject_"):
        assert getattr(one, name) == getattr(other, name)
    assert one.pvalue_ == other.pvalue_ or np.isnan(one.pvalue_)
    assert one.plan_.law == other.plan_.law and one.privacy_ == other.privacy_
    assert one.power(0.5, 60, 3, n_simulations=20) == other.power(0.5, 60, 3, n_simulations=20)
    if one.plan_.n_calibration:
        # One calibration for both names.
        assert one.plan_.null is other.plan_.null


def test_each_has_the_parameters_that_apply() -> None:
    shared = set(L1ExtensionTest().get_params()) & set(InnerProductTest().get_params())
    assert set(L1ExtensionTest().get_params()) - shared == {"rows", "clip"}
    assert set(InnerProductTest().get_params()) - shared == {"solver", "staged", "constants", "distance"}
    both = set(L1ExtensionTest().get_params()) | set(InnerProductTest().get_params())
    assert set(LipschitzExtensionTest().get_params()) == both | {"constraint"}
    assert repr(LipschitzExtensionTest(constraint="inner_product", staged=True)) == (
        "LipschitzExtensionTest(constraint='inner_product', staged=True)"
    )
    for made in (L1ExtensionTest(clip=2.0), InnerProductTest(solver="exact")):
        assert clone(made).get_params() == made.get_params()


def test_a_subclass_has_calibrations_of_its_own() -> None:
    """A law that a subclass changes must not be served to the test it comes from, or from it."""

    class Loud(L1ExtensionTest):
        def _draw(self, plan, size, generator, shift):
            return super()._draw(plan, size, generator, shift) + plan.stages[0].sensitivity_steps * 1000

    quiet = L1ExtensionTest(epsilon=0.83, **FAST).fit(ROWS)
    assert Loud(epsilon=0.83, **FAST).fit(ROWS).threshold_ > quiet.threshold_
    assert clone(quiet).fit(ROWS).threshold_ == quiet.threshold_


def test_parameters_of_the_other_test_are_refused_where_they_contradict() -> None:
    for options, named in (
        ({"constraint": "l2"}, "constraint"),
        ({"staged": True}, "staged must be False"),
        ({"constraint": "inner_product", "rows": "ranks"}, "rows"),
        ({"staged": "no"}, "staged"),
    ):
        with pytest.raises(InvalidParameter, match=named):
            LipschitzExtensionTest(**options).fit(ROWS)
