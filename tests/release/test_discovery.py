"""The cost of discovering keys, by brute force over all outputs; and sessions that discover."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from dpstats.auditing.movement import _discovery
from dpstats.errors import DPStatsError, InvalidParameter, ScaleOutOfRange
from dpstats.privacy import Block, Discovery, JointStage, Plan, PrivacyGuarantee
from dpstats.privacy.events import Approximate, Gaussian
from dpstats.privacy.gaussian import gaussian_profile
from dpstats.privacy.guarantee import Neighbors
from dpstats.release.additive import JointIntegers, discovery_stage
from dpstats.release.noise import ExactNoise
from dpstats.release.session import Session

EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0)


def stage_for(count_scale, sum_scale, row_steps, threshold):
    """Return a stage of counts and sums of steps from -row_steps to row_steps, with the noise given in steps."""
    staying = (2 * row_steps / sum_scale) ** 2
    leaving = 2 * ((row_steps / count_scale) ** 2 + (row_steps / sum_scale) ** 2)
    sensitivity = math.sqrt(max(staying, leaving)) * (1 + 1e-12)
    blocks = (Block("counts", 2, 1.0, count_scale), Block("sums", 2, 1.0, sum_scale))
    return Discovery(JointStage("keys", "gaussian", blocks, sensitivity, 1.0), row_steps, threshold)


def law_of_noise(scale, below=None):
    reach = int(9 * scale)
    steps = np.arange(-reach, reach + 1 if below is None else min(below, reach + 1))
    weights = np.exp(-(steps**2) / (2 * scale**2))
    return steps, weights / weights.sum()


def law_of_key(count, total, stage, laws, grid):
    """Return the probabilities of all outputs of a key: not found first, and then every pair of count and sum."""
    (n, p), (m, q) = laws
    found = np.zeros((grid[0], 2 * grid[1] + 1))
    if count == 0:
        return np.concatenate([[1.0], found.ravel()])
    kept = count + n >= stage.threshold_steps
    inside = np.abs(total + m) <= grid[1]
    at = np.ix_(count + n[kept] - stage.threshold_steps, total + m[inside] + grid[1])
    found[at] = p[kept][:, None] * q[inside][None, :]
    return np.concatenate([[p[~kept].sum()], found.ravel()])


def excess(a, a2, b, b2, epsilon):
    """Return sum max(0, P - e^epsilon Q) over pairs of independent outputs: P = a b, Q = a2 b2."""
    b, b2 = b[b > 0], b2[b > 0]
    ratio = np.divide(b, b2, out=np.full(b.shape, np.inf), where=b2 > 0)
    order = np.argsort(-ratio)
    ratio = ratio[order]
    mass, other = (np.concatenate([[0.0], np.cumsum(x[order])]) for x in (b, b2))
    a, a2 = a[a > 0], a2[a > 0]
    least = math.exp(epsilon) * a2 / a
    place = np.searchsorted(-ratio, -least, side="left")
    return float((a * (mass[place] - least * other[place])).sum())


def worst_over_bound(stage, below, extra):
    """Return the largest hockey stick over what the events allow, for pairs of keys and rows of every kind."""
    K, T = stage.row_steps, stage.threshold_steps
    scales = [stage.touched.scale_steps(block) for block in stage.blocks]
    laws = law_of_noise(scales[0], below), law_of_noise(scales[1])
    high = -(-T // K) + max(2, int(2 * scales[0] / K))
    grid = (high + 1) * K + max(T, int(9 * scales[0])) + 2, (high + 1) * K + int(9 * scales[1]) + 1
    known = {}

    def law(count, total):
        key = count, total
        if key not in known:
            known[key] = law_of_key(count * K, total, stage, laws, grid)
        return known[key]

    one = np.ones(1)
    pairs = [(law(c, -K), law(c, K), one, one) for c in (1, high)]
    for a, b, x, y in itertools.product((1, -(-T // K), high), (0, -(-T // K) - 1, high - 1), (-K, K), (-K, K)):
        pairs.append((law(a, 0), law(a - 1, -x), law(b, 0), law(b + 1, y)))
        pairs.append((law(a - 1, -x), law(a, 0), law(b + 1, y), law(b, 0)))
    event = stage.event
    return max(
        excess(*pair, epsilon) / (extra + (1 - extra) * gaussian_profile(epsilon, event.mu))
        for epsilon in EPSILONS
        for pair in pairs
    )


# Scales of at least ten steps, below which no lattice has an exact curve.
CASES = [(11.0, 10.0, 3, 33), (12.0, 11.0, 4, 40), (11.0, 30.0, 5, 31)]


@pytest.mark.parametrize("case", CASES)
def test_no_pair_of_neighbors_is_further_apart_than_the_events_allow(case):
    stage = stage_for(*case)
    noise, threshold = stage.events
    assert isinstance(noise, Gaussian) and noise.mu == pytest.approx(stage.touched.sensitivity)
    assert threshold == Approximate(0.0, stage.threshold_delta)
    ratio = worst_over_bound(stage, stage.threshold_steps, stage.threshold_delta)
    assert 0.5 < ratio <= 1


@pytest.mark.parametrize("case", CASES)
def test_brute_force_sees_a_threshold_that_is_charged_for_in_part(case):
    stage = stage_for(*case)
    assert worst_over_bound(stage, stage.threshold_steps, stage.threshold_delta / 4) > 1


@pytest.mark.parametrize(("below", "shows"), [(105, False), (None, True)])
def test_noise_that_is_not_conditioned_shows_a_key_of_one_row_too_often(below, shows):
    stage = stage_for(30.0, 29.0, 3, 105)
    steps, weights = law_of_noise(30.0, below)
    assert (weights[steps + 3 >= 105].sum() > 1.5 * stage.threshold_delta) == shows
    assert shows or weights[steps + 3 >= 105].sum() > 0.5 * stage.threshold_delta


def test_the_cost_of_a_threshold_is_that_of_its_exact_sum():
    stage = stage_for(200.0, 190.0, 100, 1000)
    steps, weights = law_of_noise(200.0, 1000)
    shown = weights[steps >= 900].sum()
    tail = float(norm.sf(1000 / 200))
    apart = 2 * norm.cdf(stage.event.mu / 2) - 1
    exact = (shown + apart * ((1 - tail) ** -2 - 1)) / (1 - apart)
    assert exact <= stage.threshold_delta <= 1.03 * exact
    lower = replace(stage, threshold_steps=900)
    assert lower.threshold_delta > 5 * stage.threshold_delta


def test_noise_that_hides_nothing_costs_all_of_delta():
    # The distance in total variation is 1 as a float, and the formula would divide by 0.
    blocks = (Block("counts", 2, 1.0, 2.0**40),)
    for mu, costs_all in ((40.0, True), (1.0, False)):
        stage = Discovery(JointStage("keys", "gaussian", blocks, mu, 1.0), 2**39, 2**45)
        assert math.erf(mu / math.sqrt(8)) + 2 * stage.event.total_variation == 1.0 or not costs_all
        assert (stage.threshold_delta == 1.0) == costs_all


def test_a_stage_that_cannot_be_accounted_for_is_refused():
    stage = stage_for(11.0, 10.0, 3, 33)
    for touched in (
        replace(stage.touched, noise="laplace"),
        replace(stage.touched, concentrated=True),
        replace(stage.touched, neighbors=Neighbors.ADD_OR_REMOVE_ONE),
        replace(stage.touched, blocks=(Block("counts", 1, 1.0, 10.0),)),
    ):
        with pytest.raises(InvalidParameter, match="touched must"):
            replace(stage, touched=touched)
    for row_steps, threshold in ((0, 30), (30, 30)):
        with pytest.raises(InvalidParameter, match=r"(row|threshold)_steps must"):
            Discovery(stage.touched, row_steps, threshold)


def integers(bits):
    """Return what a stage of counts alone is about: a row leaves one key and enters another."""
    return JointIntegers("keys", (Block("counts", 2, 2.0**-bits, 1.0),), math.inf, math.sqrt(2) * 2**bits)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0, 1e5])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
def test_the_threshold_is_the_lowest_that_the_guarantee_allows(epsilon, delta):
    stage = discovery_stage(integers(30), 1 << 30, epsilon, delta)
    plan = Plan((stage,), PrivacyGuarantee(epsilon, delta))
    assert plan.guarantee == PrivacyGuarantee(epsilon, delta)
    lower = Plan((replace(stage, threshold_steps=stage.threshold_steps - 1000),), PrivacyGuarantee(epsilon, delta))
    assert lower.stages[0].threshold_delta > stage.threshold_delta
    if epsilon <= 8:
        with pytest.raises(DPStatsError, match=r"more than the|delta must be larger"):
            _ = Plan((replace(stage, threshold_steps=stage.threshold_steps * 95 // 100),), plan.target).guarantee


def test_a_delta_that_no_lattice_has_is_refused():
    with pytest.raises(ScaleOutOfRange, match="delta must"):
        discovery_stage(integers(30), 1 << 30, 1.0, 1e-200)


# Sessions

STAGE = stage_for(11.0, 10.0, 3, 33)
PLAN = Plan((STAGE,), PrivacyGuarantee(50.0, 0.9))
KEYS = {"counts": np.array([[3], [300]]), "sums": np.array([[2], [100]])}


@pytest.mark.parametrize("seed", [None, 0])
def test_a_session_releases_the_keys_whose_noisy_count_reaches_the_threshold(seed):
    noise = ExactNoise() if seed is None else None
    for _ in range(20):
        session = Session(PLAN, noise) if noise else Session.simulated(PLAN, np.random.default_rng(seed))
        with session:
            released = session.discover("keys", ["few", "many"], KEYS)
        assert released["labels"] in (("many",), ("few", "many"))
        assert released["counts"].shape == released["sums"].shape == (len(released["labels"]), 1)
        assert (released["counts"] >= 33).all() and abs(released["counts"][-1, 0] - 300) < 100


def test_noise_of_counts_is_conditioned_and_that_of_sums_is_not():
    # 40,000 draws: the frequency of a key of one row is within six standard deviations of its probability.
    size = 40_000
    stage = replace(STAGE, threshold_steps=10)
    plan = Plan((stage,), PrivacyGuarantee(50.0, 0.99))
    with Session.simulated(plan, np.random.default_rng(0), size) as session:
        released = session.discover("keys", ["few", "many"], KEYS)
    assert released["labels"] == ("few", "many") and released["counts"].shape == (size, 2, 1)
    steps, weights = law_of_noise(11.0, 10)
    expected = weights[steps + 3 >= 10].sum()
    found = np.isfinite(released["counts"][:, 0, 0])
    assert abs(found.mean() - expected) < 6 * math.sqrt(expected / size)
    assert np.nanmax(released["counts"][:, 0]) < 3 + 10 and np.nanmax(released["counts"][:, 1]) < 300 + 10
    assert np.nanmax(released["sums"][:, 1]) > 100 + 10


def test_a_session_refuses_keys_without_rows_and_keys_that_are_given_twice():
    none = {"counts": np.array([[0]]), "sums": np.array([[0]])}
    cases = [
        (["a"], none, "keys that have rows"),
        (["a", "a"], KEYS, "each once"),
        (["a"], KEYS, "integers of each key"),
        (["a", "b"], {"counts": KEYS["counts"]}, "together"),
    ]
    for labels, exact, words in cases:
        with pytest.raises(DPStatsError, match=words), Session.simulated(PLAN, np.random.default_rng(0)) as session:
            session.discover("keys", labels, exact)
    session = Session.simulated(PLAN, np.random.default_rng(0))
    with pytest.raises(DPStatsError, match="not open"):
        session.discover("keys", ["a", "b"], KEYS)


def test_no_keys_release_nothing():
    empty = {name: np.zeros((0, 1), dtype=np.int64) for name in KEYS}
    for session in (Session(PLAN, ExactNoise()), Session.simulated(PLAN, np.random.default_rng(0))):
        with session:
            assert session.discover("keys", [], empty)["labels"] == ()


@pytest.mark.parametrize("fall", [False, True])
def test_a_check_sees_a_count_that_rises_or_falls_by_more_than_a_row(fall: bool) -> None:
    stage = stage_for(5.0, 5.0, 1, 20)
    few, many = (
        (["key"], {"counts": np.array([[count, 0]]), "sums": np.zeros((1, 2), dtype=np.int64)}) for count in (30, 32)
    )
    first, second = (many, few) if fall else (few, many)
    found = _discovery(stage, first, second)
    assert not found.ok and "more than a row" in found.problem
