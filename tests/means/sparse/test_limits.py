"""What is said of the selected means."""

import numpy as np
import pytest

from dpstats.means import SparseMean
from dpstats.means.sparse_selection import SelectedErrors, last_stage, private_stds
from tests.means.sparse.test_estimator import OPTIONS, rows


def fitted(**options):
    made = SparseMean(**{**OPTIONS, "split": True, "random_state": 0, **options}).fit(rows(20_000))
    return made.plan_, made._found


@pytest.mark.parametrize("options", [{}, {"std": np.full(30, 2.0)}, {"std": 2.0}], ids=str)
def test_the_last_stage_is_in_standard_deviations(options):
    plan, found = fitted(**options)
    std = 1.0 if not options else 2.0
    last = last_stage(plan, found)
    center = found.last / std - last.shift
    np.testing.assert_allclose(center, [0.9 / std, -0.9 / std], atol=0.1)
    assert last.noise == pytest.approx(2 * last.radius / (last.n * plan_mu(plan)), rel=1e-6)


def plan_mu(plan):
    stage = plan.stages[-1]
    return stage.sensitivity_steps / stage.scale_steps


def test_limits_are_one_sided_and_of_any_level():
    plan, found = fitted()
    for population in (True, False):
        low, high = SelectedErrors(plan, found, population).limits(np.array([0.025, 0.4]))
        each = [SelectedErrors(plan, found, population).limits(tail) for tail in (0.025, 0.4)]
        assert (low[0], high[1]) == (each[0][0][0], each[1][1][1])
        assert each[0][1][0] > each[1][1][0] > found.last[0] > each[1][0][0] > each[0][0][0]


def test_limits_scale_with_the_units():
    one = fitted()
    thousand = SparseMean(**{**OPTIONS, "std": 1000.0, "clip": 4000.0, "split": True, "random_state": 0}).fit(
        1000 * rows(20_000)
    )
    low, high = SelectedErrors(*one, True).limits(0.025)
    found = thousand.confidence_interval()
    np.testing.assert_allclose(found.low, 1000 * low, rtol=1e-5)
    np.testing.assert_allclose(found.high, 1000 * high, rtol=1e-5)


def test_released_spreads():
    plan, found = fitted(std="private", std_bound=2.0)
    np.testing.assert_allclose(private_stds(plan, found), 1.0, atol=0.35)
    # Where noise makes a variance negative the spread is 0, and not NaN.
    none = found._replace(squares=found.squares - 1e3)
    assert private_stds(plan, none).tolist() == [0.0, 0.0]
