"""Bounds that a release chooses: found at any unit, refused before a charge, and one charge for a whole fit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpstats.errors import ChargedError, DPStatsError, InvalidData, InvalidParameter
from dpstats.groups import GroupMeans, GroupQuantiles
from dpstats.means import ClippedMean, PrivateBounds, PrivateVariance, UnknownBounds, private_bounds
from dpstats.mechanisms.windows import BINS, EDGES, choose_clip, count_tails
from dpstats.privacy import Neighbors, PrivacyBudget
from dpstats.quantiles import PrivateDistribution, PrivateMedian, PrivateQuantile
from dpstats.release.session import Session

ROWS = np.random.default_rng(0).lognormal(3, 0.5, 4000)[:, None]
FIRST = {"epsilon": 1.0, "random_state": 0}


@pytest.mark.parametrize("unit", [1e-200, 1.0, -1e12])
def test_bounds_are_found_at_any_unit(unit):
    bounds = private_bounds(unit * ROWS[:, 0], epsilon=0.5, random_state=1)
    middle = float(np.median(unit * ROWS))
    assert bounds.found and bounds.low < middle < bounds.high
    assert bounds.high - bounds.low < 60 * abs(middle) and bounds.privacy.epsilon == 0.5


def test_a_fit_has_one_charge_of_its_epsilon():
    budget = PrivacyBudget(epsilon=1.0)
    mean = ClippedMean(bounds="private", epsilon=1.0, budget=budget).fit(ROWS)
    assert budget.spent.epsilon == 1.0 and len(budget.history()) == 1 and mean.privacy_.epsilon == 1.0
    low, high = mean.bounds_[0]
    assert low < mean.mean_[0] < high
    assert mean.plan_.located.plan.target.epsilon == 0.2
    names = [stage["name"] for stage in mean.plan_.to_dict()["stages"]]
    assert names[:2] == ["windows", "rows by distance from the windows"]
    # The noise of the rest is that of a fit with these bounds, at the rest of epsilon.
    same = ClippedMean(bounds=(low, high), epsilon=0.8 * (1 - 2.0**-50)).plan(4000, 1)
    assert mean.noise_std_ == pytest.approx(np.ravel(same.mean_noise))


@pytest.mark.parametrize(
    "estimator", [PrivateVariance, PrivateQuantile, PrivateMedian, PrivateDistribution], ids=lambda kind: kind.__name__
)
def test_other_estimators_choose_bounds_too(estimator):
    fit = estimator(bounds="private", **FIRST).fit(ROWS)
    assert fit.plan_.target.epsilon == 1.0 and fit.bounds_[0, 0] < 20 < fit.bounds_[0, 1]
    assert "chosen for 0.2 of epsilon" in str(fit.summary())


@pytest.mark.parametrize("estimator", [ClippedMean, PrivateVariance, GroupMeans], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("bounds", ["private", UnknownBounds(within=(0, np.inf)), UnknownBounds(step=0.01)])
def test_the_number_of_rows_may_be_private(estimator, bounds):
    budget = PrivacyBudget(2.0, 1e-5, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    groups = {"groups": [0, 1]} if estimator is GroupMeans else {}
    given = {"bounds": bounds, "neighbors": "add_or_remove", "epsilon": 1.0, **groups}
    labels = [np.arange(4000) % 2] if groups else []
    made = estimator(**given, budget=budget).fit(ROWS, *labels)
    assert budget.spent.epsilon == 1.0 and made.bounds_[0, 0] < 20 < made.bounds_[0, 1]
    assert made.n_ == pytest.approx(4000, abs=200) and abs(made.beyond_bounds_[0, 1]) < 0.1
    # Neither the plan nor its cost depends on the number of rows.
    assert made.plan_.located.plan.stages == estimator(**given).plan(None, 1).located.plan.stages
    # Of three rows, noise alone finds bounds in about one fit of fifty.
    few = [part[:3] for part in (ROWS, *labels)]
    outcomes = [fit_outcome(estimator(**given, random_state=seed), few) for seed in range(4)]
    assert sum("no bounds" in outcome for outcome in outcomes) >= 2
    assert budget.spent.epsilon == 1.0


def fit_outcome(made, data):
    """Return the words of a failed fit, or nothing."""
    try:
        made.fit(*data)
    except DPStatsError as error:
        return str(error)
    return ""


def test_bounds_of_a_private_number_of_rows():
    made = PrivateBounds(neighbors="add_or_remove", epsilon=0.5, random_state=0).fit(ROWS)
    assert made.found_[0] and made.low_[0] < 20 < made.high_[0] < 400
    assert "private, not released" in str(made.summary())
    empty = PrivateBounds(neighbors="add_or_remove", epsilon=0.5, random_state=0).fit(ROWS[:0])
    assert not empty.found_[0] and np.isnan(empty.clipped_low_[0])


def test_all_rows_are_in_one_of_all_bins():
    x = np.array([0.0, 0.0, 4.01, 3.99, 7.0, -1e300, np.inf])
    counts = count_tails(x, 4.0, 4.0, whole=True)
    assert counts.sum() == x.size and counts[-1] == 2 and counts.size == BINS + 1
    np.testing.assert_array_equal(counts[:BINS], count_tails(x, 4.0, 4.0))


@pytest.mark.parametrize("estimator", [GroupMeans, GroupQuantiles], ids=lambda kind: kind.__name__)
def test_groups_share_bounds(estimator):
    labels = np.arange(4000) % 2
    fit = estimator(groups=[0, 1], bounds="private", **FIRST).fit(ROWS, labels)
    assert fit.bounds_.shape == (1, 2) and "chosen for 0.2 of epsilon" in str(fit.summary())


def test_public_limits_hold():
    counts = np.random.default_rng(1).poisson(3, (3000, 1)).astype(float)
    mean = ClippedMean(bounds=UnknownBounds(step=1, within=(0, math.inf)), **FIRST).fit(counts)
    assert mean.bounds_[0, 0] >= 0 and np.isnan(mean.beyond_bounds_[0, 0])
    assert mean.mean_[0] == pytest.approx(counts.mean(), abs=0.2)


def test_no_bounds_are_an_outcome():
    nothing = private_bounds(np.zeros(2000), epsilon=0.5, random_state=0)
    assert not nothing.found and math.isnan(nothing.low) and math.isnan(nothing.clipped_high)
    with pytest.raises(DPStatsError, match="no bounds were found"):
        ClippedMean(bounds="private", **FIRST).fit(np.zeros((2000, 1)))
    budget = PrivacyBudget(epsilon=2.0)
    with pytest.raises(ChargedError) as error:
        ClippedMean(bounds="private", epsilon=1.0, budget=budget).fit(np.zeros((2000, 1)))
    assert set(error.value.released) == {"windows", "rows by distance from the windows"}
    assert budget.spent.epsilon == 1.0


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_bounds_that_no_lattice_holds_are_not_found(unit):
    budget = PrivacyBudget(epsilon=2.0)
    for estimator in (ClippedMean, PrivateMedian):
        with pytest.raises(ChargedError, match="no bounds were found"):
            estimator(bounds="private", delta=0.0, epsilon=1.0, budget=budget).fit(unit * ROWS)


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"bounds_are": "hard"}, "bounds_are"),
        ({"clip": 1.0}, "clip"),
        ({"epsilon": 0.01}, "bounds"),
        ({"noise": "isotropic"}, "noise"),
        ({"bounds": UnknownBounds(share=1.5)}, "share"),
        ({"bounds": UnknownBounds(step=-1)}, "step"),
        ({"bounds": UnknownBounds(within=(1, 0))}, "within"),
        ({"bounds": UnknownBounds(within=(0, 1e-300))}, "within"),
    ],
)
def test_public_facts_are_refused_before_the_charge(options, parameter):
    budget = PrivacyBudget(epsilon=2.0)
    with pytest.raises(InvalidParameter) as error:
        ClippedMean(**{"bounds": "private", "epsilon": 1.0, "budget": budget, **options}).fit(ROWS)
    assert error.value.parameter == parameter and budget.spent.epsilon == 0


def test_missing_rows():
    holes = np.where(np.arange(4000)[:, None] % 10 == 0, np.nan, ROWS)
    budget = PrivacyBudget(epsilon=2.0)
    with pytest.raises(InvalidData):
        ClippedMean(bounds="private", budget=budget).fit(holes)
    assert budget.spent.epsilon == 0
    mean = ClippedMean(bounds="private", missing="drop", **FIRST).fit(holes)
    assert mean.mean_[0] == pytest.approx(np.nanmean(holes), rel=0.05)
    assert PrivateBounds(missing="drop", **FIRST).fit(holes).found_.all()


def test_a_row_is_in_one_bin_or_none():
    for value in (0.0, 4.0, 4.2, 5.0, -1e300, 1e308, 1e-320):
        assert count_tails(np.array([value]), 4.0, 4.0).sum() in (0, 1)
    found = count_tails(np.array([0.0, 4.0 + 4 * EDGES[3], -1e9]), 4.0, 4.0)
    assert found[-1] == 1 and found[3] == 1 and found[BINS - 2] == 1


def test_a_second_cluster_is_not_clipped():
    x = np.concatenate([np.zeros(70_000), np.full(30_000, 20.0)]) + np.random.default_rng(0).normal(size=100_000)
    clip = choose_clip(count_tails(x, 0.0, 8.0).astype(float), 0.0, 8.0, x.size, 20.0, 1e-4)
    assert clip.high > 22
    # The same counts give the same clip.
    assert clip == choose_clip(count_tails(x, 0.0, 8.0).astype(float), 0.0, 8.0, x.size, 20.0, 1e-4)


def test_units_of_a_stage_may_follow_from_a_release_and_nothing_else():
    plan = ClippedMean(bounds=(-1, 1)).plan(100, 1)
    other = ClippedMean(bounds=(0, 50)).plan(100, 1)
    with Session.simulated(plan, np.random.default_rng(0)) as session:
        session.take_units(other.stages)
        with pytest.raises(DPStatsError, match="but for its units"):
            session.take_units(ClippedMean(bounds=(0, 50), epsilon=2.0).plan(100, 1).stages)
        (stage,) = other.stages
        released = session.add(stage.name, {block.name: np.zeros(1, dtype=np.int64) for block in stage.blocks})
    assert released["clipped mean"][0] % stage.blocks[0].spacing == 0
