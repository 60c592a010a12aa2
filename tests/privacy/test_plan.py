"""Plans: stages in units, and a guarantee that is never below what the events cost."""

import dataclasses
import math
import pickle

import numpy as np
import pytest

from dpstats.errors import DPStatsError, InvalidParameter
from dpstats.means import ClippedMean
from dpstats.privacy import (
    Neighbors,
    Plan,
    PrivacyBudget,
    PrivacyGuarantee,
    ReleaseCost,
    ReleasePlan,
    Selection,
    Stage,
    compose,
    gaussian_sigma,
)
from dpstats.privacy.events import BoundedRange, DiscreteLaplace, Gaussian, Pure


def laplace(sensitivity=6, scale=12.0, spacing=0.5, **options):
    return Stage("sum", "laplace", 2, spacing, sensitivity, scale, **options)


def gaussian(mu, spacing=1.0):
    return Stage("mean", "gaussian", 1, spacing, 2**30, 2**30 / mu)


def plan(*stages, epsilon=1.0, delta=0.0, **target):
    return ReleasePlan(stages, PrivacyGuarantee(epsilon, delta, **target), 10, 2)


def test_a_stage_in_its_units():
    stage = laplace()
    assert stage.norm == "l1"
    assert stage.sensitivity == 3.0  # 6 steps of 0.5
    assert stage.noise_scale == 6.0  # 12 steps of 0.5
    assert stage.noise_std == pytest.approx(6.0 * math.sqrt(2), rel=1e-15)  # Laplace: sd = sqrt(2) b


def test_a_stage_with_one_spacing_per_column():
    stage = dataclasses.replace(gaussian(1.0), size=2, spacing=(1.0, 10.0), scale_steps=4.0, sensitivity_steps=3)
    assert stage.norm == "l2"
    np.testing.assert_array_equal(stage.noise_scale, [4.0, 40.0])
    np.testing.assert_array_equal(stage.noise_std, [4.0, 40.0])
    np.testing.assert_array_equal(stage.sensitivity, [3.0, 30.0])


def test_the_guarantee_is_what_was_asked_for_where_the_events_meet_it():
    # two stages of 6/12 = 0.5 each
    assert plan(laplace(), laplace()).guarantee == PrivacyGuarantee(1.0)
    sigma = gaussian_sigma(1.0, 1e-6)
    exact = plan(gaussian((1 - 1e-12) / sigma), delta=1e-6)  # a little is left for noise that is discrete
    assert exact.guarantee == PrivacyGuarantee(1.0, 1e-6)
    (event,) = exact.events
    assert event.mu == pytest.approx(1 / sigma, rel=2e-12)


def test_a_cheaper_plan_reports_the_smaller_total():
    assert plan(laplace()).guarantee == PrivacyGuarantee(0.5)
    # A pure plan spends no delta, even if one was allowed.
    assert plan(laplace(), epsilon=3.0, delta=1e-6).guarantee == PrivacyGuarantee(0.5)
    cheap = plan(gaussian(0.1), delta=1e-6).guarantee
    assert cheap.epsilon == pytest.approx(compose([Gaussian(0.1)], 1e-6).epsilon, rel=1e-12) and cheap.epsilon < 1.0


@pytest.mark.parametrize(
    "stages",
    [
        (laplace(), laplace(), laplace()),  # 1.5
        (laplace(6, 11.9999),) * 2,  # 1.0000083, of which delta forgives 2.6e-6
        (gaussian(1.001 / gaussian_sigma(1.0, 1e-6)),),
        # rho = .0244, and the largest is .024356
        (dataclasses.replace(gaussian(math.sqrt(2 * 0.0244)), concentrated=True),),
    ],
)
def test_a_plan_that_costs_more_than_its_target_is_a_defect(stages):
    with pytest.raises(DPStatsError, match="more than the requested"):
        _ = plan(*stages, delta=1e-6).guarantee


def test_relations_of_stages_never_mix():
    mixed = plan(laplace(), laplace(neighbors=Neighbors.ADD_OR_REMOVE_ONE))
    with pytest.raises(InvalidParameter, match="same neighbors"):
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
    with pytest.raises(DPStatsError, match="does not define an expected error"):
        one.expected_error()


def test_a_plan_reads_well():
    text = str(plan(laplace(), dataclasses.replace(laplace(), name="squares", spacing=(0.5, 2.0))))
    assert text.splitlines() == [
        "Release plan for n = 10, d = 2: (epsilon = 1, delta = 0), one row replaced",
        "  sum: 2 numbers, Laplace noise of scale 6",
        "  squares: 2 numbers, Laplace noise of scale 6 to 24",
    ]


# Selections, several releases alike, disjoint rows


def test_selections_and_releases_alike_count_each():
    stage = dataclasses.replace(laplace(1, 10.0), size=3, times=3)
    selection = Selection("best", "gumbel", 4, 0.5, 1, 20.0)
    both = ReleasePlan((selection, stage), PrivacyGuarantee(1.0), 10, 5)
    assert both.events == (BoundedRange(0.1),) * 4 + (DiscreteLaplace(1, 10.0),) * 3
    assert both.guarantee.epsilon == pytest.approx(0.7, rel=1e-15)
    assert selection.noise_scale == 10.0
    assert "best: 4 of 5, Gumbel noise of scale 10" in str(both)
    assert (both.selections, both.additive) == ((selection,), (stage,))


def halves(stage, selection, target=1.0):
    first, second = dataclasses.replace(selection, part="a"), dataclasses.replace(stage, part="b")
    return ReleasePlan((first, second), PrivacyGuarantee(target), 10, 5)


def test_disjoint_parts_cost_the_guarantee_of_each_once():
    selection = Selection("best", "gumbel", 4, 1.0, 1, 8.0)
    split = halves(laplace(6, 6.0), selection)
    assert split.disjoint and split.events == (Pure(1.0),)
    assert split.guarantee == PrivacyGuarantee(1.0)
    together = ReleasePlan((selection, laplace(6, 6.0)), PrivacyGuarantee(2.0), 10, 5)
    assert not together.disjoint and together.guarantee.epsilon == 2.0


def test_a_disjoint_part_that_costs_more_is_a_defect():
    selection = Selection("best", "gumbel", 4, 1.0, 1, 8.0)
    for stage, target in ((laplace(7, 6.0), 1.0), (laplace(1, 6.0), 0.9)):
        with pytest.raises(DPStatsError, match="defect"):
            _ = halves(stage, selection, target).events


def test_what_is_about_all_rows_counts_beside_every_part():
    everywhere = dataclasses.replace(laplace(1, 10.0), name="all rows")
    parts = halves(laplace(6, 6.0), Selection("best", "gumbel", 4, 1.0, 1, 8.0))
    for target, right in ((1.1, True), (1.0, False)):
        plan = ReleasePlan((everywhere, *parts.stages), PrivacyGuarantee(target), 10, 5)
        if right:
            assert plan.guarantee == PrivacyGuarantee(target)
        else:
            with pytest.raises(DPStatsError, match="defect"):
                _ = plan.events


# What is computed once


def test_cost_is_computed_once_and_not_copied(monkeypatch):
    calls = []
    monkeypatch.setattr("dpstats.privacy.plan.compose", lambda *a: calls.append(a) or compose(*a))
    one = plan(laplace(), laplace())
    assert one.guarantee is one.guarantee and one.events is one.events and len(calls) == 1
    # A changed plan is another: its cost is its own. This is the bug that stored events had.
    with pytest.raises(DPStatsError, match="defect"):
        _ = dataclasses.replace(one, stages=(laplace(6, 6.0), laplace())).guarantee
    # Nothing that was computed travels with a pickle.
    again = pickle.loads(pickle.dumps(one))
    assert again == one and "guarantee" not in vars(again) and again.guarantee == one.guarantee


def test_having_keeps_what_is_known_and_changes_free_fields_only():
    @dataclasses.dataclass(frozen=True)
    class Prepared(ReleasePlan):
        extra: int = 0
        _free = frozenset({"extra"})

    one = Prepared((laplace(),), PrivacyGuarantee(1.0), 10, 2)
    known = one.guarantee
    other = one.having(extra=3)
    assert other.extra == 3 and one.extra == 0 and vars(other)["guarantee"] is known
    with pytest.raises(TypeError, match="cannot change stages"):
        one.having(stages=())


def test_a_plan_of_a_mechanism_claims_what_was_asked_or_is_a_defect():
    assert Plan((laplace(),), PrivacyGuarantee(1.0)).guarantee == PrivacyGuarantee(1.0)
    with pytest.raises(DPStatsError, match="defect"):
        _ = Plan((laplace(),), PrivacyGuarantee(0.4)).guarantee
    assert Plan((laplace(),), PrivacyGuarantee(1.0)).stage("sum") == laplace()
    with pytest.raises(KeyError):
        Plan((laplace(),), PrivacyGuarantee(1.0)).stage("other")


def test_stages_and_events_that_are_changed_later_do_not_change_what_was_certified():
    stages = [laplace()]
    made = Plan(stages, PrivacyGuarantee(1.0))
    assert made.guarantee == PrivacyGuarantee(1.0)
    stages[0] = laplace(6, 0.01)
    assert made.stages == (laplace(),)

    events = [Gaussian(0.01)]
    budget = PrivacyBudget(0.1, 1e-6, method="pld", planned=[ReleaseCost(events, PrivacyGuarantee(0.1, 1e-6))])
    events[0] = Gaussian(10.0)
    with pytest.raises(InvalidParameter, match="planned releases"):
        budget.charge(ReleaseCost([Gaussian(10.0)], PrivacyGuarantee(200.0, 1e-6)))


def test_sums_are_divided_by_the_public_number_of_rows_only() -> None:
    for neighbors, divisor in (("replace_one", 1000), ("add_or_remove", 1)):
        plan = ClippedMean(clip=1.0, epsilon=1.0, delta=1e-6, neighbors=neighbors).plan(1000, 2)
        assert plan.has_private_size == (divisor == 1) and plan.divisor == divisor


def test_a_delta_of_a_whole_row_is_cautioned_against_in_plan_and_summary() -> None:
    from dpstats.groups import GroupMeans

    X, labels = np.random.default_rng(0).normal(size=(400, 60)), np.repeat(["a", "b"], 200)
    # Of 60 columns, whose noise is Gaussian: with Laplace noise the guarantee has delta = 0.
    for large in (1 / 400, 0.05):
        made = GroupMeans(groups=["a", "b"], bounds=(-4, 4), delta=large, random_state=0)
        plan, fit = made.plan(400, 60), made.fit(X, labels)
        assert plan.guarantee.delta == large
        for words in (str(plan), str(plan.summary()), str(fit.summary())):
            assert "is not below 1/n" in " ".join(words.split())
    below = ClippedMean(bounds=(-4, 4), delta=1e-3, random_state=0).fit(X)
    assert below.privacy_.delta == 1e-3 and "1/n" not in str(below.summary())
