"""Private selection: exact probabilities, both samplers, lattice, accuracy, price.

A fit is rejected where its p-value is below 1e-7; every test makes at most ten such decisions, so its
false-alarm probability is at most 1e-6. Wrong epsilons (x 0.9, x 1.1) are rejected at the same level, with
four standard deviations to spare.
"""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import softmax

from dpstats.errors import BudgetExceeded, ChargedError, InvalidData, InvalidParameter
from dpstats.mechanisms import ExponentialMechanism, NoisyTopK, PermuteAndFlip, ReportNoisyMax
from dpstats.privacy import Neighbors, PrivacyBudget, PrivacyGuarantee, compose, zcdp_rho
from dpstats.privacy.events import BoundedRange, Pure

ADD = Neighbors.ADD_OR_REMOVE_ONE
REJECT = 1e-7
NOISES = ("laplace", "exponential", "gumbel")
KINDS = {
    "exponential mechanism": ExponentialMechanism,
    "monotone": lambda s, e, **more: ExponentialMechanism(s, e, monotone=True, neighbors=ADD, **more),
    "laplace": lambda s, e, **more: ReportNoisyMax(s, e, **more),
    "one-sided": lambda s, e, **more: ReportNoisyMax(s, e, noise="exponential", **more),
    "gumbel": lambda s, e, **more: ReportNoisyMax(s, e, noise="gumbel", **more),
    "permute and flip": PermuteAndFlip,
}
kinds = pytest.mark.parametrize("build", KINDS.values(), ids=KINDS)

UTILITIES = {
    "three": [0.0, 1.0, 3.0],
    "ties": [2.0, 2.0, 0.0, 0.0, 1.0],
    "all equal": [5.0] * 6,
    "one": [4.0],
    "far apart": [0.0, 1e6, 1e6 - 1, -1e6],
    "six": [0.3, -1.7, 2.2, 2.2, 9.1, 8.6],
    "fifty": [*np.random.default_rng(3).normal(scale=4.0, size=47), 6.0, 6.0, 6.0],
}
utilities = pytest.mark.parametrize("values", UTILITIES.values(), ids=UTILITIES)


# --- Exact probabilities ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        (ExponentialMechanism(1, 1), (0.14024438, 0.23122390, 0.62853172)),
        (ReportNoisyMax(1, 1, noise="gumbel"), (0.14024438, 0.23122390, 0.62853172)),
        (ReportNoisyMax(1, 1), (0.13159862, 0.22918622, 0.63921516)),
        (ReportNoisyMax(1, 1, noise="exponential"), (0.09788425, 0.17025889, 0.73185687)),
        (PermuteAndFlip(1, 1), (0.09788425, 0.17025889, 0.73185687)),
    ],
)
def test_known_probabilities(mechanism, expected):
    np.testing.assert_allclose(mechanism.probabilities([0, 1, 3]), expected, atol=5e-9)
    assert mechanism.scale == pytest.approx(2.0, rel=1e-11)


def by_permutations(values, scale):
    """Permute and flip as it is described: every order, one coin a candidate."""
    gaps = np.asarray(values) - max(values)
    coin = np.exp(gaps / scale)
    result = np.zeros(len(values))
    for order in itertools.permutations(range(len(values))):
        left = 1.0
        for candidate in order:
            result[candidate] += left * coin[candidate]
            left *= 1 - coin[candidate]
    return result / math.factorial(len(values))


def by_arrival_times(values, scale):
    """Permute and flip, with orders as those of uniform arrival times: q_i int prod_{j != i} (1 - t q_j) dt."""
    with mpmath.workdps(60):
        coins = [mpmath.exp((mpmath.mpf(v) - max(values)) / scale) for v in values]
        result = []
        for i, own in enumerate(coins):
            powers = [mpmath.mpf(1)]
            for coin in coins[:i] + coins[i + 1 :]:
                shifted = [mpmath.mpf(0), *(-coin * c for c in powers)]
                powers = [a + b for a, b in zip([*powers, mpmath.mpf(0)], shifted, strict=True)]
            result.append(float(own * sum(c / (t + 1) for t, c in enumerate(powers))))
        return np.array(result)


def laplace_cdf(x, exp):
    return exp(x) / 2 if x < 0 else 1 - exp(-x) / 2


def by_quadrature(values, scale):
    """Laplace noisy max: mpmath quadrature, between the kinks."""
    with mpmath.workdps(25):
        w = [(mpmath.mpf(v) - max(values)) / scale for v in values]
        points = sorted({mpmath.mpf(-60), mpmath.mpf(3), mpmath.mpf(12), mpmath.mpf(60), *(x for x in w if x > -60)})
        return np.array(
            [
                float(
                    mpmath.quad(
                        lambda x, i=i: (
                            mpmath.exp(-abs(x - w[i]))
                            / 2
                            * mpmath.fprod(laplace_cdf(x - v, mpmath.exp) for j, v in enumerate(w) if j != i)
                        ),
                        points,
                    )
                )
                for i in range(len(w))
            ]
        )


@utilities
def test_exponential_mechanism_is_a_softmax(values):
    for epsilon, sensitivity in ((1.0, 1.0), (0.3, 2.5)):
        expected = softmax(epsilon * np.asarray(values) / (2 * sensitivity))
        for build in (KINDS["exponential mechanism"], KINDS["gumbel"]):
            np.testing.assert_allclose(build(sensitivity, epsilon).probabilities(values), expected, rtol=1e-9)
        twice = softmax(epsilon * np.asarray(values) / sensitivity)
        np.testing.assert_allclose(KINDS["monotone"](sensitivity, epsilon).probabilities(values), twice, rtol=1e-9)


@utilities
def test_permute_and_flip_is_what_it_says(values):
    expected = by_arrival_times(values, 2.0)
    if len(values) <= 6:
        np.testing.assert_allclose(by_permutations(values, 2.0), expected, rtol=1e-12, atol=1e-14)
    for build in (KINDS["one-sided"], KINDS["permute and flip"]):
        found = build(1.0, 1.0).probabilities(values)
        np.testing.assert_allclose(found, expected, atol=1e-11)
        assert found.sum() == pytest.approx(1, abs=1e-12)


# --- Both samplers ---------------------------------------------------------------------------------------

# One candidate is best and many are far below: every class is selected often, and epsilon shows.
CROWD = np.array([8.0, *[2.0] * 9, *[0.0] * 10])
CLASSES = np.array([0, *[1] * 9, *[2] * 10])


def fit(chosen, probabilities, classes):
    """p-value of a chi-square test that the classes were selected with these probabilities."""
    expected = np.bincount(classes, probabilities) * chosen.size
    return stats.chisquare(np.bincount(classes[chosen], minlength=expected.size), expected).pvalue


@pytest.mark.parametrize(
    ("kind", "seed"),
    # Exactly, the other kinds are drawn by the same calls.
    [*((kind, 5) for kind in KINDS), *((kind, None) for kind in ("monotone", "gumbel", "laplace", "permute and flip"))],
)
def test_both_samplers_have_the_probabilities(kind, seed):
    build = KINDS[kind]
    # Every candidate on its own at (0, 1, 3), with ties, and at six candidates.
    for name in ("three", "ties", "six"):
        mechanism = build(1.0, 1.0, random_state=seed)
        p = mechanism.probabilities(UTILITIES[name])
        chosen = mechanism._select(UTILITIES[name], 2000)[:, 0]
        common = np.where(p * 2000 > 5, np.arange(p.size), int(p.argmax()))
        cells = np.unique(common, return_inverse=True)[1]
        assert p.size == 1 or fit(chosen, p, cells) > REJECT
    # Power: at the same exponent for all.
    mechanism = build(1.0, 0.5 if kind == "monotone" else 1.0, random_state=seed)
    chosen = mechanism._select(CROWD, 5000)[:, 0]
    assert fit(chosen, mechanism.probabilities(CROWD), CLASSES) > REJECT
    for factor in (0.9, 1.1):
        wrong = build(1.0, factor * mechanism.epsilon).probabilities(CROWD)
        assert fit(chosen, wrong, CLASSES) < REJECT


@pytest.mark.parametrize(("seed", "draws"), [(None, 6000), (5, 20_000)], ids=["exact", "simulated"])
def test_top_k_is_a_sequence_of_exponential_mechanisms(seed, draws):
    values = np.array([0.0, 1.0, 2.0, 2.5])

    def peeled(epsilon):
        """The first by the exponential mechanism of epsilon/2, the second from the rest."""
        weights = np.exp(epsilon / 2 * values / 2)
        pairs = itertools.permutations(range(4), 2)
        return np.array([weights[a] / weights.sum() * weights[b] / (weights.sum() - weights[a]) for a, b in pairs])

    codes = {pair: code for code, pair in enumerate(itertools.permutations(range(4), 2))}
    made = NoisyTopK(2, 1.0, 6.0, random_state=seed)
    chosen = made._select(values, draws)
    counts = np.bincount([codes[tuple(pair)] for pair in chosen.tolist()], minlength=12)
    assert peeled(6.0).sum() == pytest.approx(1)
    assert stats.chisquare(counts, peeled(6.0) * draws).pvalue > REJECT
    for factor in (0.85, 1.15):
        assert stats.chisquare(counts, peeled(6.0 * factor) * draws).pvalue < REJECT
    # Best first: in the other order the law is a different one.
    backwards = np.bincount([codes[tuple(pair[::-1])] for pair in chosen.tolist()], minlength=12)
    assert stats.chisquare(backwards, peeled(6.0) * draws).pvalue < REJECT


def test_seeds_reproduce():
    for build in KINDS.values():
        first, second = (build(1, 0.1, random_state=9) for _ in range(2))
        assert [first.select(CROWD) for _ in range(20)] == [second.select(CROWD) for _ in range(20)]
        assert first.guarantee.simulated and not build(1, 0.1).guarantee.simulated


@kinds
def test_a_million_candidates(build):
    # Exactly, in one call: 2 s for one-sided noise. Gumbel noise takes 10 s and Laplace noise 7 s, hence fewer here.
    values = np.zeros(1_000_000)
    values[777] = 100.0
    exact = build(1.0, 1.0)
    fewer = values if isinstance(exact, PermuteAndFlip) else values[:50_000]
    assert exact.select(fewer) == 777
    assert build(1.0, 1.0, random_state=0).select(values) == 777


# --- What is selected, and what is refused -----------------------------------------------------------------


@kinds
@pytest.mark.parametrize("seed", [None, 0])
def test_minus_infinity_is_never_selected(build, seed):
    values = [-np.inf, 0.0, -np.inf, 0.0, -np.inf]
    mechanism = build(1.0, 1e-6, random_state=seed)
    assert mechanism.probabilities(values) == pytest.approx([0, 0.5, 0, 0.5, 0], abs=1e-9)
    assert set(mechanism._select(values, 200)[:, 0].tolist()) == {1, 3}
    assert mechanism.select([-np.inf, 3.0]) == 1
    # Exactly, on any processor: probabilities are divided by their sum.
    assert mechanism.select([-1e300]) == 0 and mechanism.probabilities([7]).tolist() == [1.0]


@pytest.mark.parametrize(
    "values",
    [
        [],
        [-np.inf, -np.inf],
        [0.0, np.nan],
        [0.0, np.inf],
        [[0.0, 1.0]],
        3.0,
        "ab",
        ["1", "2"],
        None,
        [None, 1.0],
        [1j, 2.0],
        [[1.0], [1.0, 2.0]],
        {0: 1.0},
        np.ma.masked_array([1.0, 2.0], mask=[0, 1]),
        np.array([1, np.nan], dtype=object),
        np.zeros(2, dtype=np.longdouble) if np.dtype(np.longdouble).itemsize > 8 else [],
    ],
)
def test_bad_utilities_are_refused_and_cost_nothing(values):
    budget = PrivacyBudget(1.0)
    for mechanism in (
        *(build(1.0, 1.0, budget=budget) for name, build in KINDS.items() if name != "monotone"),
        NoisyTopK(1, 1.0, 1.0, budget=budget),
    ):
        with pytest.raises(InvalidData, match="utilities must"):
            mechanism.select(values)
    assert budget.history() == ()


def test_every_kind_of_utilities():
    for values in (
        [0, 500, 3],
        (0, 500, 3),
        np.array([0, 500, 3], dtype=np.uint16),
        np.array([0, 500, 3], dtype=np.float32),
        np.array([Fraction(1, 3), 500, np.float64(0.5)], dtype=object),
        pd.Series([0.0, 500.0, 3.0], index=[5, 6, 7]),
        [False, 500, True],
        [0, 10**400, -(10**400)],
        [-np.inf, 2**70, 0.5],
        np.array([-1e300, 1e300, 0]),
    ):
        assert ExponentialMechanism(1.0, 1.0).select(values) == 1
        assert NoisyTopK(1, 1.0, 1.0).select(values).tolist() == [1]


def test_large_integers_keep_their_digits():
    # As floats, 2^60 + 1 and 2^60 are the same, and 2^60 + 129 is 256 more: not within a sensitivity of 1.
    for values in ([2**60 + 1, 2**60], [10**300 + 1, 10**300]):
        p = ExponentialMechanism(1.0, 1.0).probabilities(values)
        np.testing.assert_allclose(p, softmax([0.5, 0.0]), rtol=1e-9)
    array = np.array([2**60 + 128, 2**60])
    p, q = (ExponentialMechanism(1.0, 1.0).probabilities(array + np.array([one, 0])) for one in (0, 1))
    assert abs(np.log(p[0] / q[0])) <= 1
    beside = ExponentialMechanism(1.0, 1.0).probabilities([2**60 + 1, 2**60, -np.inf])
    np.testing.assert_allclose(beside, softmax([0.5, 0.0, -np.inf]), rtol=1e-9)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ExponentialMechanism(0, 1), "sensitivity must"),
        (lambda: ExponentialMechanism(np.inf, 1), "sensitivity must"),
        (lambda: ExponentialMechanism(1, 0), "epsilon must"),
        (lambda: ExponentialMechanism(1, 1, monotone=True), "monotone must"),
        (lambda: ReportNoisyMax(1, 1, monotone=True), "monotone must"),
        (lambda: PermuteAndFlip(1, 1, monotone=True), "monotone must"),
        (lambda: NoisyTopK(2, 1, 1, monotone=True), "monotone must"),
        (lambda: ExponentialMechanism(1, 1, neighbors="add"), "neighbors must"),
        (lambda: ReportNoisyMax(1, 1, noise="gaussian"), "noise must"),
        (lambda: ReportNoisyMax(1, 1e-17), "epsilon must"),
        (lambda: ExponentialMechanism(1, 1e300), "epsilon must"),
        (lambda: NoisyTopK(10**6, 1, 1e-320), "epsilon must"),
        (lambda: NoisyTopK(0, 1, 1), "k must"),
        (lambda: NoisyTopK(2, 1, 1, 1.0), "delta must"),
        (lambda: PermuteAndFlip(1, 1, random_state=0, budget=PrivacyBudget(1)), "random_state and budget"),
        (lambda: NoisyTopK(2, 1, 1, random_state=0, budget=PrivacyBudget(1)), "random_state and budget"),
        (lambda: ExponentialMechanism(1, 1).utility_bound(0, 5), "beta must"),
        (lambda: ExponentialMechanism(1, 1).utility_bound(0.1, 5, 6), "n_best must"),
    ],
)
def test_bad_parameters(build, message):
    with pytest.raises(InvalidParameter, match=message):
        build()


def test_top_k_needs_k_candidates():
    with pytest.raises(InvalidData, match="at least k = 3 candidates"):
        NoisyTopK(3, 1.0, 1.0).select([1.0, 2.0, -np.inf])
    chosen = NoisyTopK(3, 1.0, 1.0).select([1.0, -np.inf, 2.0, 3.0])
    assert sorted(chosen.tolist()) == [0, 2, 3]
    assert NoisyTopK(2, 1.0, 4.0).select([0.0, 1e6, 1e5]).tolist() == [1, 2]


# --- Privacy ---------------------------------------------------------------------------------------------


def lattice_sensitivity(mechanism):
    """How far the noise lets a utility move, in steps: scale = width * steps/epsilon, rounded up."""
    width = 1 if mechanism.scale * mechanism.epsilon < 1.5 * mechanism.sensitivity else 2
    return math.floor(Fraction(mechanism.plan.selections[0].scale_steps) * Fraction(mechanism.epsilon) / width)


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1.0, 30.0, 2e4])
@pytest.mark.parametrize("sensitivity", [1.0, 0.3, 1e-150, 7e150])
def test_rounding_is_within_the_sensitivity(sensitivity, epsilon):
    mechanism = ExponentialMechanism(sensitivity, epsilon)
    allowed = lattice_sensitivity(mechanism)
    exact = Fraction(2 * allowed) / Fraction(epsilon)
    assert exact <= Fraction(mechanism.plan.selections[0].scale_steps) <= exact * (1 + Fraction(1, 2**50)) + 2**-10
    assert Fraction(sensitivity) / Fraction(mechanism.plan.selections[0].spacing) <= allowed - 1
    rng = np.random.default_rng(0)
    widest = 0
    for _ in range(300):
        u = rng.normal(size=4) * sensitivity * 10.0 ** rng.integers(-14, 14)
        v = u + sensitivity * rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], size=4)
        for i in range(4):
            # A sum of floats may be further away than the sensitivity: step back.
            while abs(Fraction(v[i]) - Fraction(u[i])) > Fraction(sensitivity):
                v[i] = np.nextafter(v[i], u[i])
        (a, _), (b, _) = mechanism._steps(u), mechanism._steps(v)
        moved = [int(x) - int(y) for x, y in zip(a, b, strict=True)]
        # Gaps are what the law depends on: their range is at most twice the sensitivity.
        widest = max(widest, max(moved) - min(moved))
        assert widest <= 2 * allowed
    # Attained, up to the digits of the floats themselves.
    assert widest >= 2 * (allowed - 2) - allowed // 2**45


def test_integers_move_by_at_most_the_sensitivity():
    mechanism = ExponentialMechanism(1.0, 1.0)
    allowed = lattice_sensitivity(mechanism)
    rng = np.random.default_rng(1)
    for _ in range(200):
        u = 2**61 + rng.integers(-(2**12), 2**12, size=5)
        v = u + rng.integers(-1, 2, size=5)
        (a, _), (b, _) = mechanism._steps(u), mechanism._steps(v)
        moved = a - b
        assert moved.max() - moved.min() <= 2 * allowed


def neighbors(rng, monotone):
    """Yield utilities that differ by at most one, near and far apart, few and many candidates."""
    for size in (2, 3, 10):
        for lead in (-3.0, -1.0, 0.0, 0.5, 2.0):
            u = np.zeros(size)
            u[0] = lead
            yield u, u + np.eye(size)[0]
            if not monotone:
                yield u + np.eye(size)[0], u + 1 - np.eye(size)[0]
            v = rng.normal(size=size)
            yield v, v + (rng.uniform(0, 1, size) if monotone else rng.uniform(-1, 1, size))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@kinds
def test_exact_privacy_loss(build, epsilon):
    mechanism = build(1.0, epsilon)
    largest, ranges = 0.0, 0.0
    for u, v in neighbors(np.random.default_rng(2), build is KINDS["monotone"]):
        losses = np.log(mechanism.probabilities(u) / mechanism.probabilities(v))
        largest, ranges = max(largest, np.abs(losses).max()), max(ranges, np.ptp(losses))
    assert largest <= epsilon * (1 + 1e-9)
    assert largest >= 0.8 * epsilon
    (event,) = mechanism.events
    if isinstance(event, BoundedRange):
        assert 0.99 * epsilon <= ranges <= epsilon * (1 + 1e-9)
    else:
        assert isinstance(event, Pure)
        # Not of bounded range; with Laplace noise it shows least.
        assert ranges > 1.01 * epsilon


def profile(p, q, x):
    return float(np.maximum(p - math.exp(x) * q, 0).sum())


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_laplace_and_one_sided_selections_are_not_of_bounded_range(epsilon):
    # Exact profiles of one selection. Those of the exponential mechanism stay below the bounded-range curve, and touch
    # it; the others exceed it, so that charging them as bounded range (rho = epsilon^2/8) is wrong. For permute and
    # flip an audit shows it as well (tests/conformance); for Laplace noise this is the check.
    bounded, pure = BoundedRange(epsilon), Pure(epsilon)
    grid = np.linspace(0, 0.98, 50) * epsilon
    excess = {}
    for noise in NOISES:
        mechanism = ReportNoisyMax(1.0, epsilon, noise=noise)
        ratios = [0.0]
        for u, v in neighbors(np.random.default_rng(2), False):
            p, q = mechanism.probabilities(u), mechanism.probabilities(v)
            for a, b in ((p, q), (q, p)):
                ratios += [profile(a, b, x) / bounded.profile(x) for x in grid]
                assert all(profile(a, b, x) <= pure.profile(x) * (1 + 1e-9) + 1e-12 for x in grid)
        excess[noise] = max(ratios)
    assert 0.99 <= excess["gumbel"] <= 1 + 1e-9
    assert excess["laplace"] > 1.5
    assert excess["exponential"] > 5


def test_zero_concentrated_price():
    # Renyi divergences of the exponential mechanism: at most alpha epsilon^2/8, and close to it.
    closest = 0.0
    for epsilon in (0.2, 1.0):
        mechanism = ExponentialMechanism(1.0, epsilon)
        assert mechanism.events[0].zcdp_cost() == pytest.approx(epsilon**2 / 8)
        assert PermuteAndFlip(1.0, epsilon).events[0].zcdp_cost() == pytest.approx(epsilon**2 / 2)
        assert ReportNoisyMax(1.0, epsilon).events[0].zcdp_cost() == pytest.approx(epsilon**2 / 2)
        for u, v in neighbors(np.random.default_rng(4), False):
            p, q = mechanism.probabilities(u), mechanism.probabilities(v)
            for order in (1.01, 2.0, 8.0, 64.0):
                divergence = math.log(np.sum(p**order * q ** (1 - order))) / (order - 1)
                assert divergence <= order * epsilon**2 / 8 * (1 + 1e-9)
                closest = max(closest, divergence / (order * epsilon**2 / 8))
    assert closest > 0.95
    # Permute and flip does not have this rho.
    p, q = (PermuteAndFlip(1.0, 1.0).probabilities(u) for u in ([0.0, 0.0], [0.0, 2.0]))
    assert np.sum(p * np.log(p / q)) > 2 * 1.0**2 / 8


def test_monotone_doubles_the_exponent():
    twice = ExponentialMechanism(1.0, 1.0, monotone=True, neighbors=ADD)
    np.testing.assert_allclose(twice.probabilities([0, 1, 3]), softmax([0, 1, 3]), rtol=1e-9)
    assert twice.guarantee == PrivacyGuarantee(1.0, neighbors=ADD)
    assert twice.events == (BoundedRange(1.0, neighbors=ADD),)
    # Replacing a row is another matter: (1, 3) to (0, 4) costs 1.9 epsilons.
    p, q = twice.probabilities([1, 3]), twice.probabilities([0, 4])
    assert np.log(p / q).max() > 1.8


MONOTONE = {
    **{
        noise: lambda e, noise=noise: ReportNoisyMax(1.0, e, noise=noise, monotone=True, neighbors=ADD)
        for noise in NOISES
    },
    "permute and flip": lambda e: PermuteAndFlip(1.0, e, monotone=True, neighbors=ADD),
}


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("build", MONOTONE.values(), ids=MONOTONE)
def test_monotone_counts_need_half_of_the_noise(build, epsilon):
    # Claim 3.9 and the monotone half of theorem 3.13, by brute force: small counts and large ones, and a row that adds
    # to any of them.
    mechanism, half = build(epsilon), ReportNoisyMax(1.0, epsilon).scale / 2
    assert mechanism.scale == pytest.approx(half, rel=1e-11)
    rows = list(itertools.product(range(2), repeat=3))
    counts = list(itertools.product((0, 1, 2, math.ceil(8 / epsilon)), repeat=3))
    known = {u: np.log(mechanism.probabilities(u)) for u in {tuple(np.add(u, row)) for u in counts for row in rows}}
    moved = [[known[tuple(np.add(u, row))] for row in rows] for u in counts]
    added = max(np.abs(after - group[0]).max() for group in moved for after in group)
    assert 0.95 * epsilon <= added <= epsilon * (1 + 1e-9)
    # A replaced row, which adds to one count and takes from another, costs more.
    replaced = max(np.abs(one - other).max() for group in moved for one in group for other in group)
    assert replaced > 1.8 * epsilon
    assert mechanism.guarantee == PrivacyGuarantee(epsilon, neighbors=ADD)
    (event,) = mechanism.events
    assert event.neighbors is ADD and compose([event], 0.0).epsilon <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_monotone_top_k_has_half_of_the_noise_at_the_same_cost(delta):
    half, whole = (NoisyTopK(5, 1.0, 1.0, delta, monotone=monotone, neighbors=ADD) for monotone in (True, False))
    assert half.scale == pytest.approx(whole.scale / 2, rel=1e-11)
    assert compose(half.events, delta).epsilon == pytest.approx(compose(whole.events, delta).epsilon, rel=1e-9)


@pytest.mark.parametrize("k", [1, 2, 5, 30, 200])
def test_top_k_calibration(k):
    epsilon, delta = 1.0, 1e-6
    pure, other = NoisyTopK(k, 2.0, epsilon), NoisyTopK(k, 2.0, epsilon, delta)
    assert len(pure.events) == len(other.events) == k == other.k
    assert pure.scale == pytest.approx(2 * k * 2.0 / epsilon, rel=1e-9)
    assert compose(pure.events, 0.0).epsilon == pytest.approx(epsilon, rel=1e-12)
    assert compose(pure.events, 0.0).epsilon <= epsilon
    total = compose(other.events, delta)
    assert total.epsilon <= epsilon and total.delta <= delta
    rho = math.fsum(event.zcdp_cost() for event in other.events)
    limit = zcdp_rho(epsilon, delta)
    # The larger of the even split of epsilon, and that of rho.
    assert other.scale <= pure.scale
    if k * epsilon**2 / (8 * k**2) < limit:
        assert rho == pytest.approx(limit, rel=1e-9) and rho <= limit
        assert other.scale == pytest.approx(2 * 2.0 / math.sqrt(8 * limit / k), rel=1e-9)
    else:
        assert other.scale == pure.scale
    if k == 200:
        assert other.scale < pure.scale / 5
    assert other.guarantee == PrivacyGuarantee(epsilon, delta)


# --- Accuracy --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_best", [1, 4])
@kinds
def test_utility_bound_holds(build, n_best):
    # Theorem 3.11 and corollary 3.12, by the exact probabilities; the worst case is a crowd just below the bound.
    n = 40
    for epsilon, beta in itertools.product((0.2, 1.0, 3.0), (0.5, 0.05, 1e-3)):
        mechanism = build(1.5, epsilon)
        bound = mechanism.utility_bound(beta, n, n_best)
        for gap in (bound * (1 + 1e-9), 1.5 * bound, 3 * bound):
            values = np.full(n, -gap)
            values[:n_best] = 0.0
            assert mechanism.probabilities(values)[n_best:].sum() <= beta
        if isinstance(mechanism, ExponentialMechanism):
            values[n_best:] = -bound * (1 + 1e-9)
            # Tight but for the normalisation.
            assert mechanism.probabilities(values)[n_best:].sum() > beta * (1 - n_best / n) / (1 + beta) * 0.99
            assert bound == pytest.approx(mechanism.scale * math.log(n / (n_best * beta)), rel=1e-9)


def test_utility_bound_on_random_utilities():
    rng = np.random.default_rng(6)
    for _ in range(30):
        values = rng.exponential(scale=5.0, size=30)
        flips, exponential = (
            PermuteAndFlip(1, 1).probabilities(values),
            ExponentialMechanism(1, 1).probabilities(values),
        )
        for beta in (0.3, 0.01):
            for build in KINDS.values():
                mechanism = build(1, 1)
                missed = values < values.max() - mechanism.utility_bound(beta, 30)
                assert mechanism.probabilities(values)[missed].sum() <= beta
        # McKenna and Sheldon: permute and flip is never worse, at any distance from the best.
        for t in np.unique(values):
            assert flips[values <= t].sum() <= exponential[values <= t].sum() + 1e-12


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_two_conditions(epsilon):
    # Example 3.6: counts 0 and c; the wrong one with probability at most 2 e^(-c epsilon/2).
    for c in (1, 5, 20, 60):
        p = ExponentialMechanism(1, epsilon).probabilities([0, c])
        assert p[0] <= 2 * math.exp(-c * epsilon / 2)
        assert p[0] == pytest.approx(1 / (1 + math.exp(c * epsilon / 2)), rel=1e-9)
        # One-sided noise for monotone counts, as the text goes on: half of e^(-c epsilon/2) at scale 2/epsilon.
        flip = PermuteAndFlip(1, epsilon).probabilities([0, c])
        assert flip[0] == pytest.approx(math.exp(-c * epsilon / 2) / 2, rel=1e-9)
        assert flip[0] <= p[0]


def test_pumpkins():
    # Example 3.5: bids of 1.00, 1.00, 1.00 and 3.01. One cent too much and all revenue is gone, which noise on the
    # price would not see. Prices are public. (At 1.00 all four buy; the text's 1.00 "at 3.00" is 3.00.)
    bids = np.array([1.00, 1.00, 1.00, 3.01])
    prices = np.array([3.02, 3.01, 3.00, 1.01, 1.00])
    revenue = prices * (bids[:, None] >= prices).sum(axis=0)
    np.testing.assert_allclose(revenue, [0.0, 3.01, 3.00, 1.01, 4.00])
    # One bid moves the revenue at a price by at most the price.
    mechanism = ExponentialMechanism(prices.max(), 10.0)
    p = mechanism.probabilities(revenue)
    assert p.argmax() == 4 and p.argmin() == 0
    assert p[1] / p[0] == pytest.approx(math.exp(10 * 3.01 / (2 * 3.02)), rel=1e-9)
    assert p[1] / p[2] == pytest.approx(math.exp(10 * 0.01 / (2 * 3.02)), rel=1e-9)


# --- Budget ----------------------------------------------------------------------------------------------


@kinds
def test_budget_is_charged_once_before_drawing(build, monkeypatch):
    budget = PrivacyBudget(2.0, neighbors=ADD if build is KINDS["monotone"] else Neighbors.REPLACE_ONE)
    mechanism = build(1.0, 1.0, budget=budget)
    mechanism.select([0, 1])
    assert [entry.label for entry in budget.history()] == [type(mechanism).__name__]
    assert budget.spent.epsilon == 1.0
    mechanism.probabilities([0, 1])
    assert budget.spent.epsilon == 1.0

    def broken(*args):
        assert budget.spent.epsilon == 2.0
        raise OSError("no entropy")

    monkeypatch.setattr(mechanism._source, "top", broken)
    with pytest.raises(ChargedError, match="OSError"):
        mechanism.select([0, 1])
    # Told before the utilities are looked at.
    with pytest.raises(BudgetExceeded):
        mechanism.select([np.nan])
    assert len(budget.history()) == 2


def selections(mechanism_of, budget):
    mechanism = mechanism_of(budget)
    count = 0
    try:
        while count < 100:
            mechanism.select([0, 1])
            count += 1
    except BudgetExceeded:
        pass
    return count


def test_budget_methods():
    def budget(method):
        return PrivacyBudget(1.0, 1e-6, method=method)

    builds = {kind: lambda kept, k=kind: KINDS[k](1.0, 0.1, budget=kept) for kind in ("gumbel", "laplace")}
    assert {k: selections(build, budget("basic")) for k, build in builds.items()} == {"gumbel": 10, "laplace": 10}
    # rho: epsilon^2/8 where the range is bounded, epsilon^2/2 elsewhere: 19.3 and 4.8 of them fit.
    rho = zcdp_rho(1.0, 9e-7)
    found = {k: selections(build, budget("zcdp")) for k, build in builds.items()}
    assert found == {"gumbel": math.floor(rho / (0.01 / 8)), "laplace": math.floor(rho / (0.01 / 2))}
    assert found["gumbel"] >= 4 * found["laplace"]
    # As pure releases.
    found = {k: selections(build, budget("gdp")) for k, build in builds.items()}
    assert found["gumbel"] == found["laplace"] > 0
    kept = budget("zcdp")
    NoisyTopK(10, 1.0, 0.9, 1e-7, budget=kept).select(range(20))
    assert len(kept.history()) == 1
    with pytest.raises(BudgetExceeded):
        NoisyTopK(10, 1.0, 0.9, 1e-7, budget=kept).select(range(20))
    with pytest.raises(InvalidParameter, match="neighbors of the budget, REPLACE_ONE"):
        ExponentialMechanism(1, 0.1, neighbors=ADD, budget=budget("basic")).select([0, 1])
