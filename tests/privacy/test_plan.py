"""Plans: stages in units, and a guarantee that is never below what the events cost."""

import dataclasses
import math

import numpy as np
import pytest

from dpstats.errors import DPStatsError, InvalidParameter
from dpstats.privacy import (
    Neighbors,
    PrivacyGuarantee,
    ReleasePlan,
    Selection,
    Stage,
    compose,
    gaussian_sigma,
)
from dpstats.privacy.events import ZCDP, BoundedRange, DiscreteLaplace, Gaussian, Pure


def laplace(sensitivity=6, scale=12.0, spacing=0.5, **event):
    return Stage(
        "sum", "laplace", 2, spacing, sensitivity, scale, DiscreteLaplace(sensitivity, scale, **event)
    )


def gaussian(mu, spacing=1.0):
    scale = 2**30 / mu
    return Stage("mean", "gaussian", 1, spacing, 2**30, scale, Gaussian(mu))


def plan(*stages, epsilon=1.0, delta=0.0, **target):
    return ReleasePlan(stages, PrivacyGuarantee(epsilon, delta, **target), 10, 2)


def test_a_stage_in_its_units():
    stage = laplace()
    assert stage.norm == "l1"
    assert stage.sensitivity == 3.0  # 6 steps of 0.5
    assert stage.noise_scale == 6.0  # 12 steps of 0.5
    assert stage.noise_std == pytest.approx(6.0 * math.sqrt(2), rel=1e-15)  # Laplace: sd = sqrt(2) b


def test_a_stage_with_one_spacing_per_column():
    stage = dataclasses.replace(
        gaussian(1.0), size=2, spacing=(1.0, 10.0), scale_steps=4.0, sensitivity_steps=3
    )
    assert stage.norm == "l2"
    np.testing.assert_array_equal(stage.noise_scale, [4.0, 40.0])
    np.testing.assert_array_equal(stage.noise_std, [4.0, 40.0])
    np.testing.assert_array_equal(stage.sensitivity, [3.0, 30.0])


def test_the_guarantee_is_what_was_asked_for_where_the_events_meet_it():
    # two stages of 6/12 = 0.5 each
    assert plan(laplace(), laplace()).guarantee == PrivacyGuarantee(1.0)
    sigma = gaussian_sigma(1.0, 1e-6)
    exact = plan(gaussian(1 / sigma), delta=1e-6)
    assert exact.guarantee == PrivacyGuarantee(1.0, 1e-6)
    assert exact.events == (Gaussian(1 / sigma),)


def test_a_cheaper_plan_reports_the_smaller_total():
    assert plan(laplace()).guarantee == PrivacyGuarantee(0.5)
    # A pure plan spends no delta, even if one was allowed.
    assert plan(laplace(), epsilon=3.0, delta=1e-6).guarantee == PrivacyGuarantee(0.5)
    cheap = plan(gaussian(0.1), delta=1e-6).guarantee
    assert cheap == compose([Gaussian(0.1)], 1e-6) and cheap.epsilon < 1.0


@pytest.mark.parametrize(
    "stages",
    [
        (laplace(), laplace(), laplace()),  # 1.5
        (laplace(6, 11.9999),) * 2,  # 1.0000083, of which delta forgives 2.6e-6
        (gaussian(1.001 / gaussian_sigma(1.0, 1e-6)),),
        (dataclasses.replace(gaussian(1.0), event=ZCDP(0.0244)),),  # the largest rho is .024356
    ],
)
def test_a_plan_that_costs_more_than_its_target_is_a_defect(stages):
    with pytest.raises(DPStatsError, match=r"more than the .* asked for"):
        _ = plan(*stages, delta=1e-6).guarantee


def test_relations_of_stages_never_mix():
    mixed = plan(laplace(), laplace(neighbors=Neighbors.ADD_OR_REMOVE_ONE))
    with pytest.raises(InvalidParameter, match="same neighbouring relation"):
        _ = mixed.guarantee


def test_the_relation_of_the_target_is_that_of_the_events():
    # An ADD_OR_REMOVE guarantee of 1 is 2 under REPLACE_ONE: claiming 1 is wrong.
    stages = [laplace(neighbors=Neighbors.ADD_OR_REMOVE_ONE)] * 2
    with pytest.raises(DPStatsError):
        _ = plan(*stages).guarantee


def test_a_plan_is_frozen_and_has_no_closed_form_of_its_own():
    one = plan(laplace())
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.stages = ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.stages[0].scale_steps = 1.0
    with pytest.raises(DPStatsError, match="ReleasePlan has no closed form"):
        one.expected_error()


def test_a_plan_reads_well():
    text = str(plan(laplace(), dataclasses.replace(laplace(), name="squares", spacing=(0.5, 2.0))))
    assert text.splitlines() == [
        "Release plan for n = 10, d = 2: (epsilon = 1, delta = 0), one row replaced",
        "  sum: 2 numbers, laplace noise of scale 6",
        "  squares: 2 numbers, laplace noise of scale 6 to 24",
    ]


# Selections, numbers released one by one, disjoint rows


def test_selections_and_numbers_one_by_one_count_each():
    stage = dataclasses.replace(laplace(1, 10.0), size=3, one_by_one=True)
    selection = Selection("best", "gumbel", 4, 0.5, 1, 20.0, BoundedRange(0.1))
    both = ReleasePlan((stage,), PrivacyGuarantee(1.0), 10, 5, selections=(selection,))
    assert both.events == (BoundedRange(0.1),) * 4 + (stage.event,) * 3
    assert both.guarantee.epsilon == pytest.approx(0.7, rel=1e-15)
    assert selection.noise_scale == 10.0
    assert "best: 4 of 5, gumbel noise of scale 10" in str(both)


def test_disjoint_parts_cost_the_guarantee_of_each_once():
    parts = {"selections": (Selection("best", "gumbel", 4, 1.0, 1, 20.0, BoundedRange(0.25)),)}
    split = ReleasePlan((laplace(6, 6.0),), PrivacyGuarantee(1.0), 10, 5, disjoint=True, **parts)
    assert split.events == (Pure(1.0),)
    assert split.guarantee == PrivacyGuarantee(1.0)
    assert dataclasses.replace(split, target=PrivacyGuarantee(2.0), disjoint=False).guarantee.epsilon == 2.0


def test_a_disjoint_part_that_costs_more_is_a_defect():
    selection = Selection("best", "gumbel", 4, 1.0, 1, 20.0, BoundedRange(0.25))
    for stage, target in ((laplace(7, 6.0), 1.0), (laplace(1, 6.0), 0.9)):
        split = ReleasePlan((stage,), PrivacyGuarantee(target), 10, 5, disjoint=True, selections=(selection,))
        with pytest.raises(DPStatsError, match="defect"):
            _ = split.events
