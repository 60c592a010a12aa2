"""Counts of keys under thinned Laplace noise: the cost by brute force over all outputs, and what sessions draw."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from dpstats.errors import InvalidParameter, ScaleOutOfRange
from dpstats.privacy import Block, JointStage, KeyCounts, Neighbors, Plan, PrivacyGuarantee
from dpstats.release.additive import JointIntegers, count_discovery
from dpstats.release.noise import ExactNoise
from dpstats.release.session import Session

REPLACED, ADDED = Neighbors.REPLACE_ONE, Neighbors.ADD_OR_REMOVE_ONE


def stage_for(scale, gap, row_steps, threshold, neighbors=REPLACED):
    keys = 2 if neighbors is REPLACED else 1
    blocks = (Block("rows", keys, 1 / row_steps, 1.0),)
    touched = JointStage("keys", "laplace", blocks, float(keys * row_steps), scale, neighbors=neighbors)
    return KeyCounts(touched, row_steps, threshold, gap)


def test_other_numbers_get_the_rest_of_epsilon_and_no_other_threshold():
    guarantee = PrivacyGuarantee(2.0, 1e-6)
    others = JointIntegers("keys", (Block("shares", 6, 2.0**-20, 1.0),), 2.0**21, math.inf)
    stage = count_discovery("keys", "rows", guarantee, 20, others, 0.25)
    alone = count_discovery("keys", "rows", PrivacyGuarantee(0.5, 1e-6), 20)
    assert stage.threshold_steps == alone.threshold_steps and stage.rates == alone.rates
    assert 2.0 * (1 - 1e-9) < stage.epsilon <= 2.0 and alone.epsilon <= 0.5
    # The other numbers have Laplace noise of scale l1/(0.75 epsilon).
    assert stage.touched.scale_steps(stage.blocks[1]) == pytest.approx(2.0**21 / 1.5, rel=1e-9)
    with pytest.raises(InvalidParameter, match="other numbers, for each key"):
        replace(stage, touched=replace(stage.touched, blocks=(stage.counts, Block("odd", 3, 1.0, 1.0))))


CASES = [
    stage_for(10.0, 8.0, 3, 30),
    stage_for(4.0, 3.0, 1, 9),
    stage_for(6.0, math.inf, 2, 21),
    stage_for(6.0, math.inf, 2, 21, ADDED),
    stage_for(2.5, math.inf, 1, 8, ADDED),
]


def law_of_noise(stage):
    """Return the steps of conditioned noise and their probabilities."""
    above, below = map(float, stage.rates)
    steps = np.arange(-math.ceil(45 / below), stage.threshold_steps)
    weights = np.exp(-np.where(steps > 0, above, below) * np.abs(steps))
    return steps, weights / weights.sum()


def law_of_key(stage, count, length):
    """Return the probabilities of all outputs of a key: not found first, and then each noisy count."""
    steps, weights = law_of_noise(stage)
    found = np.zeros(length)
    noisy = count * stage.row_steps + steps
    kept = (noisy >= stage.threshold_steps) & (count > 0)
    found[1 + noisy[kept] - stage.threshold_steps] = weights[kept]
    found[0] = 1 - found[1:].sum()
    return found


def worst_excess(stage, epsilon):
    """Return the largest sum of max(0, P - e^epsilon Q) over keys that a row leaves and enters."""
    far = math.ceil(stage.threshold_steps / stage.row_steps)
    counts, length = (
        sorted({1, 2, far - 1, far, far + 1, far + 6}),
        (far + 8) * stage.row_steps + stage.threshold_steps,
    )
    law = {
        count: law_of_key(stage, count, length)
        for count in {*counts, *(count - 1 for count in counts), *(count + 1 for count in counts)}
    }
    worst = 0.0
    for a, b in itertools.product(counts, [0, *counts] if stage.keys > 1 else [None]):
        for sides in ((a, a - 1, b, b if b is None else b + 1), (a - 1, a, b if b is None else b + 1, b)):
            P, Q, R, S = (np.ones(1) if count is None else law[count] for count in sides)
            gain = np.multiply.outer(P, R) - math.exp(epsilon) * np.multiply.outer(Q, S)
            worst = max(worst, float(gain[gain > 0].sum()))
    return worst


@pytest.mark.parametrize("stage", CASES)
def test_no_pair_of_neighbors_is_further_apart_than_the_event_allows(stage):
    (event,) = stage.events
    rates = 1 / stage.touched.scale + 1 / stage.gap, 1 / stage.touched.scale
    assert event.epsilon == pytest.approx(stage.row_steps * sum(rates[: stage.keys]), rel=1e-12)
    for epsilon in (0.0, 0.3, 0.5 * event.epsilon, event.epsilon, event.epsilon + 0.5):
        allowed = float(event.curve(np.array([epsilon]))[0])
        assert worst_excess(stage, epsilon) <= allowed * (1 + 1e-9) + 1e-13
    # Both numbers are reached.
    assert worst_excess(stage, event.epsilon) >= 0.999 * event.delta
    assert worst_excess(stage, 0.97 * event.epsilon) > 1.01 * event.delta


def test_a_lighter_lower_tail_would_cost_more():
    """Planted: both tails at the upper rate, for the price of one of each."""
    stage = CASES[0]
    above = float(stage.rates[0])
    heavier = stage_for(1 / above, math.inf, stage.row_steps, stage.threshold_steps)
    assert worst_excess(heavier, stage.epsilon) > 2 * stage.threshold_delta


@pytest.mark.parametrize("neighbors", [REPLACED, ADDED])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-9), (1.0, 1e-6), (1.0, 0.01), (1e5, 1e-12)])
def test_the_threshold_is_the_lowest_that_the_guarantee_allows(neighbors, epsilon, delta):
    guarantee = PrivacyGuarantee(epsilon, delta, neighbors)
    stage = count_discovery("counts", "rows", guarantee)
    plan = Plan((stage,), guarantee)
    assert plan.guarantee == guarantee
    lower = replace(stage, threshold_steps=stage.threshold_steps - 10**6)
    assert lower.threshold_delta > delta >= stage.threshold_delta > 0.99 * delta


def test_a_key_is_found_where_the_optimum_finds_it():
    # Desfontaines et al. (2022), Theorem 1: nothing finds an added key of fewer rows with probability 1/2.
    best, rows = 0.0, 0
    while best < 0.5:
        best, rows = min(math.e * best + 1e-6, 1 - math.exp(-1) * (1 - best - 1e-6)), rows + 1
    sizes = np.arange(1, 60)
    found = {
        neighbors: count_discovery("counts", "rows", PrivacyGuarantee(1.0, 1e-6, neighbors)).compute_power(sizes)
        for neighbors in Neighbors
    }
    assert [int(np.argmax(power >= 0.5)) + 1 for power in found.values()] == [20, rows] and rows == 14
    assert [int(np.argmax(power >= 0.95)) + 1 for power in found.values()] == [27, 16]


@pytest.mark.parametrize("stage", CASES[:3])
@pytest.mark.parametrize("exact", [True, False])
def test_a_session_draws_the_stated_noise(stage, exact):
    # A count of many rows: each number within five standard deviations of its frequency.
    size, many = 20_000, 1000
    plan = Plan((stage,), PrivacyGuarantee(50.0, 0.9))
    steps = np.full((size, 1), many * stage.row_steps)
    if exact:
        with Session(plan, ExactNoise()) as session:
            released = session.discover("keys", range(size), {"rows": steps})["rows"][:, 0]
    else:
        with Session.simulated(plan, np.random.default_rng(0), size) as session:
            released = session.discover("keys", ["a"], {"rows": steps[:1]})["rows"][:, 0, 0]
    noise = np.rint((released - many) * stage.row_steps).astype(int)
    values, weights = law_of_noise(stage)
    assert noise.max() < stage.threshold_steps
    drawn = np.bincount(noise - values[0], minlength=values.size)
    likely = weights * size > 30
    scores = (drawn - size * weights)[likely] / np.sqrt(size * weights * (1 - weights))[likely]
    assert np.abs(scores).max() < 5 and scores.std() < 1.5


def test_what_cannot_be_accounted_for_is_refused():
    stage = CASES[0]
    for touched in (
        replace(stage.touched, noise="gaussian"),
        replace(stage.touched, neighbors=ADDED),
        replace(stage.touched, blocks=(*stage.touched.blocks, Block("sums", 3, 1.0, 1.0))),
    ):
        with pytest.raises(InvalidParameter, match="touched must"):
            replace(stage, touched=touched)
    for name, value in (("row_steps", 30), ("gap", 0.0)):
        with pytest.raises(InvalidParameter, match=f"{name} must"):
            replace(stage, **{name: value})
    with pytest.raises(ScaleOutOfRange, match="delta must"):
        count_discovery("counts", "rows", PrivacyGuarantee(1.0, 1e-302))


def test_a_plan_states_both_tails():
    stage = count_discovery("counts", "rows", PrivacyGuarantee(1.0, 1e-6))
    assert "Laplace of scale 3.333, thinned to 1.429 above 0" in stage.describe()
    facts = stage.facts()
    assert (facts["scale_above"], facts["scale_below"]) == pytest.approx((1 / 0.7, 1 / 0.3))
    assert stage.count_std == pytest.approx(3.63, abs=0.01)
