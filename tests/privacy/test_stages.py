"""Kinds of stages: their events follow from their noise, whatever is changed."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

from dpstats.errors import DPStatsError, InvalidParameter
from dpstats.privacy import (
    Block,
    Choice,
    Coins,
    Comparisons,
    JointStage,
    Neighbors,
    OneOf,
    Responses,
    Selection,
    Smooth,
    Stage,
)
from dpstats.privacy.events import ZCDP, BoundedRange, DiscreteLaplace, Gaussian, Pure

ADD = Neighbors.ADD_OR_REMOVE_ONE


def test_a_halved_scale_claims_twice_the_cost():
    # Planted bug of before: an event that was stored kept claiming epsilon = 1 where the truth was 2.
    laplace = Stage("sum", "laplace", 2, 1.0, 30, 30.0)
    assert laplace.event == DiscreteLaplace(30, 30.0)
    assert dataclasses.replace(laplace, scale_steps=15.0).event.pure_cost() == 2.0
    gaussian = Stage("sum", "gaussian", 3, 1.0, 30, 60.0, neighbors=ADD)
    # 0.021 d/s^2 in total variation: docs/proofs/gaussian.md
    assert isinstance(gaussian.event, Gaussian) and gaussian.event.neighbors is ADD and gaussian.event.mu == 0.5
    assert gaussian.event.total_variation == pytest.approx(3 * 0.021 / 3600, rel=1e-14)
    assert dataclasses.replace(gaussian, scale_steps=30.0).event.mu == 1.0
    assert dataclasses.replace(gaussian, concentrated=True).event == ZCDP(0.125, neighbors=ADD)
    selection = Selection("best", "gumbel", 2, 1.0, 5, 100.0)
    assert selection.events == (BoundedRange(0.1),) * 2
    assert dataclasses.replace(selection, scale_steps=50.0).events == (BoundedRange(0.2),) * 2


def test_gaussian_noise_on_too_coarse_a_lattice_has_no_exact_curve():
    coarse = Stage("sum", "gaussian", 1, 1.0, 9, 9.0)
    with pytest.raises(DPStatsError, match="concentrated"):
        _ = coarse.event
    assert dataclasses.replace(coarse, concentrated=True).event == ZCDP(0.5)


def test_releases_alike():
    # Three numbers, each of sensitivity 4, are three events; the total variation is that of a number.
    each = Stage("sums", "gaussian", 3, 1.0, 4, 40.0, times=3)
    assert each.events == (Stage("sum", "gaussian", 1, 1.0, 4, 40.0).event,) * 3


def test_selections_by_their_noise():
    for noise, kind in (("laplace", Pure), ("exponential", Pure), ("gumbel", BoundedRange)):
        one = Selection("best", noise, 1, 1.0, 5, 100.0, neighbors=ADD)
        assert one.events == (kind(0.1, neighbors=ADD),)
        assert dataclasses.replace(one, monotone=True).events == (kind(0.05, neighbors=ADD),)
    # One draw of Laplace noise does not serve several selections: peeling draws anew.
    with pytest.raises(InvalidParameter, match="times"):
        Selection("best", "laplace", 3, 1.0, 5, 100.0)
    assert len(Selection("best", "laplace", 3, 1.0, 5, 100.0, times=3).events) == 3


@pytest.mark.parametrize("categories", [2, 5, 1000])
@pytest.mark.parametrize("grains", [2**62 * 3 // 4, 2**62 - 1, 2**62 - 2**40])
def test_responses_cost_the_logarithm_of_their_odds(categories, grains):
    mpmath = pytest.importorskip("mpmath")
    cost = Responses("answers", categories, grains).event.pure_cost()
    with mpmath.workdps(60):
        exact = mpmath.log(mpmath.mpf(grains) * (categories - 1) / (2**62 - grains))
        # Never below, and by an ulp at most.
        assert exact <= cost <= exact * (1 + mpmath.mpf(2) ** -52)


def test_responses_near_a_fair_coin_keep_their_digits():
    mpmath = pytest.importorskip("mpmath")
    grains = 2**61 + 2**12
    with mpmath.workdps(60):
        exact = mpmath.log(mpmath.mpf(grains) / (2**62 - grains))
        cost = Responses("answers", 2, grains).event.pure_cost()
        assert exact <= cost <= exact * (1 + mpmath.mpf(2) ** -52)


def test_comparisons_cost_a_threshold_and_twice_a_question():
    # Theorem 3.23: scales 2/epsilon and 4/epsilon.
    stream = Comparisons("stream", 1.0, 1000, 0, 2000.0, 4000.0, 3)
    assert stream.events == (Pure(1.0),) * 3
    assert dataclasses.replace(stream, question_scale_steps=2000.0).event == Pure(1.5)
    values = dataclasses.replace(stream, answer_scale_steps=500.0, neighbors=ADD)
    assert values.events == (Pure(1.0, neighbors=ADD),) * 3 + (DiscreteLaplace(1000, 500.0, neighbors=ADD),) * 3


def test_coins_cost_nothing():
    assert Coins("signs", (4, 2)).events == ()


JOINT = JointStage(
    "moments", "gaussian", (Block("sums", 3, 0.5, 100.0), Block("squares", 3, (1.0, 2.0, 3.0), 50.0)), 2.0, 4.0
)


def test_a_joint_stage_is_one_event_for_all_blocks():
    sums, squares = JOINT.blocks
    assert (JOINT.scale_steps(sums), JOINT.scale_steps(squares), JOINT.size) == (400.0, 200.0, 6)
    variation = 0.021 * 3 / 400**2 + 0.021 * 3 / 200**2
    (event,) = JOINT.events
    assert isinstance(event, Gaussian) and event.mu == 0.5
    assert event.total_variation == pytest.approx(variation, rel=1e-14)
    assert dataclasses.replace(JOINT, scale=2.0).event.mu == 1.0
    assert dataclasses.replace(JOINT, concentrated=True).event == ZCDP(0.125)
    assert dataclasses.replace(JOINT, noise="laplace").event == Pure(0.5)
    assert JOINT.noise_scale(sums) == 200.0
    np.testing.assert_array_equal(JOINT.noise_scale(squares), [200.0, 400.0, 600.0])
    laplace = dataclasses.replace(JOINT, noise="laplace")
    assert laplace.noise_std(sums) == pytest.approx(200.0 * math.sqrt(2), rel=1e-15)
    lines = JOINT.describe().splitlines()
    assert lines[0] == "moments, together:" and "squares: 3 numbers, Gaussian noise of scale 200 to 600" in lines[2]
    assert Stage("sum", "laplace", 1, 1.0, 1, 2.0).describe() == "sum: 1 number, Laplace noise of scale 2"


def test_the_noise_of_a_block_is_never_below_its_share():
    rng = np.random.default_rng(1)
    for unit, scale in rng.standard_exponential((500, 2)) * 1000:
        block = Block("b", 1, 1.0, float(unit))
        stage = JointStage("j", "laplace", (block,), 1.0, float(scale))
        assert Fraction(stage.scale_steps(block)) >= Fraction(float(unit)) * Fraction(float(scale))


def test_counts_below_one_would_cost_nothing_and_are_refused():
    for name, made in (
        ("times", lambda: Stage("sum", "laplace", 3, 1.0, 1, 1.0, times=0)),
        ("size", lambda: Stage("sum", "laplace", 0, 1.0, 1, 1.0)),
        ("size", lambda: Selection("best", "gumbel", -1, 1.0, 1, 1.0)),
        ("max_above", lambda: Comparisons("stream", 1.0, 1, 0, 1.0, 1.0, -1)),
        ("max_above", lambda: Comparisons("stream", 1.0, 1, 0, 1.0, 1.0, 0)),
        ("blocks", lambda: JointStage("joint", "laplace", (), 1.0, 1.0)),
        ("size", lambda: JointStage("joint", "laplace", (Block("a", 0, 1.0, 1.0),), 1.0, 1.0)),
    ):
        with pytest.raises(InvalidParameter, match=f"{name} must be an integer at least 1"):
            made()
    with pytest.raises(InvalidParameter, match="size must"):
        Stage("sum", "gaussian", 3, 1.0, 1, 100.0, times=2)


def test_blocks_that_are_changed_later_do_not_change_the_stage():
    blocks = [Block("a", 1, 1.0, 100.0)]
    joint = JointStage("joint", "laplace", blocks, 0.5, 5.0)
    blocks[0] = Block("a", 1, 1.0, 1.0)
    assert joint.blocks == (Block("a", 1, 1.0, 100.0),)


def test_a_choice_costs_the_range_that_a_row_moves_over_its_scale() -> None:
    stage = Choice("points", 3, 2, 4.0, 1000)
    assert stage.event == BoundedRange(0.5) and stage.events == (stage.event,)
    assert dataclasses.replace(stage, scale_steps=2.0).event.pure_cost() == 1.0
    assert stage.facts()["candidates"] == 1000 and "3 of 1,000 points" in stage.describe()
    with pytest.raises(InvalidParameter, match="range_steps"):
        Choice("points", 1, 0, 4.0, 10)


def test_joint_noise_costs_its_range_over_its_scale() -> None:
    stage = Stage("counts", "joint", 2, 1.0, 1, 4.0)
    assert stage.event == Pure(0.25) and stage.norm == "range"
    # Of two continuous numbers: (m + 2)(m + 3)/6 times the square of the scale.
    assert stage.noise_std == pytest.approx(4 * math.sqrt(20 / 6))


def test_a_private_scale_costs_what_its_levels_are_apart() -> None:
    stage = Smooth("median", 1.0, (1.0, 1.5, 2.0), 0.5, 0.5)
    assert stage.ratio == Fraction(3, 2)
    assert stage.event.epsilon == 1.0 and stage.event.delta == pytest.approx(2 * math.exp(-1.0), rel=1e-14)
    # Further apart it is dearer; with one level it is Laplace noise.
    assert dataclasses.replace(stage, levels=(1.0, 1.6)).event.delta > stage.event.delta
    assert dataclasses.replace(stage, levels=(1.0,)).event == Pure(0.5)
    with pytest.raises(DPStatsError, match="distance between levels"):
        _ = dataclasses.replace(stage, levels=(1.0, 2.0)).event
    for levels in ((1.0, 1.0), (2.0, 1.0), (0.0, 1.0)):
        with pytest.raises(InvalidParameter, match="levels"):
            dataclasses.replace(stage, levels=levels)


def test_heavy_tails_cost_less_than_their_parts() -> None:
    stage = Smooth("count", 1.0, (8.0, 10.0), 0.3, 0.0, noise="cauchy")
    beta = math.log(1.25)
    assert stage.event.pure_cost() == pytest.approx(math.hypot(0.3, beta), rel=1e-12)
    student = dataclasses.replace(stage, noise="student")
    assert student.event.pure_cost() == pytest.approx(2 * math.hypot(0.3, beta) + beta, rel=1e-12)
    # Every further number has a scale that changes with it.
    three = dataclasses.replace(student, size=3)
    assert three.event.pure_cost() == pytest.approx(2 * math.hypot(0.3, beta) + (3 + 4) * beta, rel=1e-12)
    assert stage.limits.tolist() == [2, 2]  # 0.3 is a float below it
    with pytest.raises(InvalidParameter, match="noise must"):
        dataclasses.replace(stage, noise="gaussian")


def test_several_numbers_of_a_private_scale_have_a_larger_delta() -> None:
    stage = Smooth("counts", 1.0, (1.0, 1.01), 0.5, 0.5, size=4)
    # Chernoff's bound for the l1 norm of four Laplace numbers beyond 50 scales.
    assert stage.event.delta == pytest.approx((50 / 4) ** 4 * math.exp(4 - 50), rel=1e-9)
    assert dataclasses.replace(stage, size=1).event.delta == pytest.approx(2 * math.exp(-50), rel=1e-9)
    assert dataclasses.replace(stage, levels=(1.0, 1.1), size=5).event.delta == 1.0


def test_one_of_several_costs_the_dearest() -> None:
    options = tuple(Stage("sum", "laplace", 2, 1.0, 2**j, 2.0**j / 0.7) for j in range(3))
    stage = OneOf("sum", options)
    assert stage.event == Pure(options[0].event.pure_cost()) and stage.size == 2
    quiet = (*options, Stage("sum", "laplace", 2, 1.0, 9, 9.0))
    assert OneOf("sum", quiet).event.pure_cost() == 1.0
    assert stage.facts()["noise_scale"] == [option.scale_steps for option in options]
    assert "one of 3 scales" in stage.describe()
    for wrong in (
        (),
        (Stage("sum", "gaussian", 2, 1.0, 1, 20.0),),
        (*options, Stage("sum", "laplace", 1, 1.0, 1, 1.0)),
    ):
        with pytest.raises(InvalidParameter, match="options"):
            OneOf("sum", wrong)


@pytest.mark.parametrize("noise", ["gumbel", "laplace", "exponential"])
@pytest.mark.parametrize("monotone", [False, True])
def test_each_of_several_that_are_selected_costs_as_much_as_one_alone(noise: str, monotone: bool) -> None:
    one = Selection("best", noise, 1, 1.0, 3, 7.0, monotone=monotone)
    for times in (3, 1) if noise == "gumbel" else (3,):
        several = Selection("best", noise, 3, 1.0, 3, 7.0, monotone=monotone, times=times)
        assert several.events == one.events * 3
