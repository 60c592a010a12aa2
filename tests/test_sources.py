"""docs/sources.md leads from the source texts to the code: its numbers follow, and its links lead somewhere.

A row's numbers are computed twice: from the text's formula in plain arithmetic, and by the public package. "=" says
that the two agree. An inequality says that the package proves more than the text ("<=" noise or error), or that the
text is wrong ("!=", and ">=" noise or error), which the row's last column explains.
"""

from __future__ import annotations

import ast
import importlib
import math
import re
from collections.abc import Callable
from functools import cache
from itertools import permutations, product
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np
import pytest
from scipy.special import erf, erfinv, ndtri
from scipy.stats import binom, norm

import dpstats
from dpstats.auditing import exact_delta, exact_epsilon, kl_divergence
from dpstats.identity import FilteringTest, inner_product_constant, l1_extension, sign_reduction
from dpstats.means import ClippedMean, SparseMean, clipping_radius
from dpstats.mechanisms import (
    AboveThreshold,
    ExponentialMechanism,
    GaussianMechanism,
    Histogram,
    LaplaceMechanism,
    NumericSparseVector,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
    SparseVector,
)
from dpstats.privacy import (
    Neighbors,
    PrivacyGuarantee,
    advanced_composition,
    advanced_composition_share,
    basic_composition,
    compose,
    gaussian_delta,
    group_privacy,
    heterogeneous_composition,
    optimal_composition_delta,
    optimal_composition_epsilon,
)
from dpstats.queries import LinearQueries, RangeQueries
from dpstats.sensitivity import (
    ElasticSensitivity,
    global_sensitivity,
    local_sensitivity,
    median_smooth_sensitivity,
    smooth_noise,
    smooth_sensitivity,
)
from dpstats.sensitivity.elastic import Column, Count, Join, Project, Select, Table
from dpstats.textbook import (
    IterativeConstruction,
    NetMechanism,
    OnlineMultiplicativeWeights,
    SmallDB,
    StagedInnerProductTest,
    build_net,
    construction_bound,
    identity_lower_bound,
    identity_upper_bound,
    mean_lower_bound,
    median_bound,
    median_updates,
    multiplicative_weights_updates,
    net_bound,
    online_bound,
    perceptron_bound,
    perceptron_updates,
    small_db_bound,
    sparse_mean_lower_bound,
)
from tests.test_docs import anchors

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "sources.md"
log, root = math.log, math.sqrt
ADD = Neighbors.ADD_OR_REMOVE_ONE

Numbers = list[tuple[float, float]]
"""What the text says and what the package says, in the order of the row."""

CHECKS: dict[str, Callable[[], Numbers]] = {}
"""The numbers of a row, by what the text calls it."""


def row(name: str) -> Callable[[Callable[[], Numbers]], Callable[[], Numbers]]:
    """Register the numbers of a row."""

    def register(check: Callable[[], Numbers]) -> Callable[[], Numbers]:
        assert name not in CHECKS
        CHECKS[name] = check
        return check

    return register


COINS = [0.75, 0.25]
"""The two coins: answers of somebody who has the property, yes and no."""


def epsilon_on(build: Callable[[Any], Any], pairs: list[tuple[Any, Any]]) -> float:
    """Return the largest exact epsilon of outcome probabilities on pairs of neighbors."""
    return max(exact_epsilon(build(x), build(y)) for x, y in pairs)


# --- Chapter 2 -----------------------------------------------------------------------------------------------------


@row("two coins")
def _() -> Numbers:
    survey = RandomizedResponse.from_coins()
    yes = 0.3 * survey.probabilities(1)[1] + 0.7 * survey.probabilities(0)[1]
    estimate = survey.estimate([1] * 400 + [0] * 600).proportions[1]
    return [(1 / 4 + 0.3 / 2, yes), (2 * 0.4 - 1 / 2, estimate)]


@row("definition 2.3")
def _() -> Numbers:
    # A replaced row is a distance of 2: one removed, and one added.
    return [(2.0, PrivacyGuarantee(1.0, neighbors=ADD).as_replace_one().epsilon)]


@row("definition 2.4")
def _() -> Numbers:
    return [(0.75 - 2 * 0.25, exact_delta(COINS, COINS[::-1], log(2)))]


@row("just a few")
def _() -> Numbers:
    # One of four rows is published: the row that differs, with probability 1/4.
    return [(1 / 4, exact_delta({"a": 1.0}, {"a": 0.75, "b": 0.25}, 0.0))]


@row("proposition 2.1")
def _() -> Numbers:
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.25, 0.35, 0.4])
    channel = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    return [(log(2), exact_epsilon(p, q)), (exact_epsilon(p, q), exact_epsilon(p @ channel, q @ channel))]


@row("theorem 2.2")
def _() -> Numbers:
    return [(4 * 0.5, group_privacy(PrivacyGuarantee(0.5), 4).epsilon)]


@row("expected utility")
def _() -> Numbers:
    survey = RandomizedResponse(0.1)
    return [(math.exp(0.1), survey.probabilities(1)[1] / survey.probabilities(0)[1])]


# --- Chapter 3 -----------------------------------------------------------------------------------------------------


@row("claim 3.5")
def _() -> Numbers:
    return [(log(3), RandomizedResponse.from_coins().epsilon), (log(3), exact_epsilon(COINS, COINS[::-1]))]


@row("definition 3.1")
def _() -> Numbers:
    return [(6.0, global_sensitivity(sum, range(7), 3))]


@row("definition 3.2")
def _() -> Numbers:
    return [(2 * 2.0**2, LaplaceMechanism(1, 0.5).plan.stages[0].noise_std ** 2)]


@row("definition 3.3")
def _() -> Numbers:
    return [(3 / 0.5, LaplaceMechanism(3, 0.5).scale)]


@row("theorem 3.6")
def _() -> Numbers:
    return [(0.5, compose([LaplaceMechanism(3, 0.5).event], 0.0).epsilon)]


@row("example 3.1")
def _() -> Numbers:
    return [(1 / 0.1, LaplaceMechanism(1, 0.1).scale), (20 / 0.1, LaplaceMechanism(20, 0.1).scale)]


@row("example 3.2")
def _() -> Numbers:
    return [(1 / 0.5, Histogram(["a", "b", "c"], 0.5, neighbors=ADD).scale)]


@row("fact 3.7")
def _() -> Numbers:
    laplace = LaplaceMechanism(1, 0.5)
    return [(3.0, laplace.error_bound(math.exp(-3)) / laplace.scale)]


@row("theorem 3.8")
def _() -> Numbers:
    return [(log(50 / 0.05) * 3 / 0.5, LaplaceMechanism(3, 0.5).error_bound(0.05, 50))]


@row("example 3.3")
def _() -> Numbers:
    return [(log(10_000 / 0.05), LaplaceMechanism(1, 1.0).error_bound(0.05, 10_000))]


def counts_epsilon(monotone: bool) -> float:
    """Return the exact epsilon of noisy max at scale 1, over pairs of three counts; monotone or either way."""
    made = ReportNoisyMax(1.0, 1.0 if monotone else 2.0, monotone=monotone, neighbors=ADD)
    assert abs(made.scale - 1) < 1e-9
    starts = product((0, 1, 8), repeat=3)
    moves = list(product((0, 1), repeat=3) if monotone else product((-1, 0, 1), repeat=3))
    return epsilon_on(made.probabilities, [(u, np.add(u, move)) for u in starts for move in moves])


@row("example 3.4")
def _() -> Numbers:
    return [(1 / 0.1, ReportNoisyMax(1.0, 0.1, monotone=True, neighbors=ADD).scale)]


@row("claim 3.9")
def _() -> Numbers:
    return [(1.0, counts_epsilon(monotone=True)), (1.0, counts_epsilon(monotone=False))]


PRICES, BIDS = [3.02, 3.01, 3.00, 1.00], [1.00, 1.00, 1.00, 3.01]
REVENUES = [price * sum(bid >= price for bid in BIDS) for price in PRICES]


@row("example 3.5")
def _() -> Numbers:
    # The most probable price, and the factor by which a cent too much lowers the probability.
    chosen = ExponentialMechanism(1.0, 1.0).probabilities(REVENUES)
    return [(3.01, PRICES[int(chosen.argmax())]), (math.exp(3.01 / 2), chosen[1] / chosen[0])]


@row("definition 3.4")
def _() -> Numbers:
    weights = [math.exp(0.5 * u) for u in (0, 1, 3)]
    found = ExponentialMechanism(1.0, 1.0).probabilities([0, 1, 3])
    return [(weights[i] / sum(weights), found[i]) for i in (0, 2)]


@row("theorem 3.10")
def _() -> Numbers:
    mechanism, pairs = ExponentialMechanism(1.0, 1.0), product((-1, 0, 1), repeat=3)
    return [(1.0, epsilon_on(mechanism.probabilities, [([9, 0, 0], np.add([9, 0, 0], p)) for p in pairs]))]


@row("theorem 3.11")
def _() -> Numbers:
    return [(2 / 0.5 * (log(100 / 4) + 2), ExponentialMechanism(1.0, 0.5).utility_bound(math.exp(-2), 100, 4))]


@row("corollary 3.12")
def _() -> Numbers:
    return [(2 / 0.5 * (log(100) + 2), ExponentialMechanism(1.0, 0.5).utility_bound(math.exp(-2), 100))]


@row("example 3.6")
def _() -> Numbers:
    flip = PermuteAndFlip(1.0, 1.0, monotone=True, neighbors=ADD)
    return [
        (2 * math.exp(-10 / 2), ExponentialMechanism(1.0, 1.0).probabilities([0, 10])[0]),
        (math.exp(-10), flip.probabilities([0, 10])[0]),
    ]


@row("theorem 3.13")
def _() -> Numbers:
    half = PermuteAndFlip(1.0, 0.5, monotone=True, neighbors=ADD)
    return [(2 / 0.5, ReportNoisyMax(1.0, 0.5, noise="exponential").scale), (1 / 0.5, half.scale)]


@row("remark 3.1")
def _() -> Numbers:
    found = ReportNoisyMax(1.0, 1.0, noise="gumbel").probabilities([0, 1, 3])
    weights = [math.exp(u / 2) for u in (0, 1, 3)]
    return [(weights[2] / sum(weights), found[2])]


@row("theorem 3.14")
def _() -> Numbers:
    return [(0.3 + 0.5, basic_composition([PrivacyGuarantee(0.3), PrivacyGuarantee(0.5)]).epsilon)]


@row("corollary 3.15")
def _() -> Numbers:
    return [(10 * 0.1, basic_composition([PrivacyGuarantee(0.1)] * 10).epsilon)]


@row("theorem 3.16")
def _() -> Numbers:
    total = basic_composition([PrivacyGuarantee(0.5, 1e-6), PrivacyGuarantee(0.25, 2e-6)])
    return [(0.75, total.epsilon), (3e-6, total.delta)]


@row("definition 3.5")
def _() -> Numbers:
    return [(0.75 * log(3) - 0.25 * log(3), kl_divergence(COINS, COINS[::-1]))]


@row("definition 3.6")
def _() -> Numbers:
    return [
        (log(3), exact_epsilon(COINS, COINS[::-1])),
        (log((0.75 - 0.25) / 0.25), exact_epsilon(COINS, COINS[::-1], 0.25)),
    ]


@row("statistical distance")
def _() -> Numbers:
    return [(0.75 - 0.25, exact_delta(COINS, COINS[::-1], 0.0))]


@row("remark 3.2")
def _() -> Numbers:
    epsilon = exact_epsilon(COINS, COINS[::-1], 0.25)
    return [(0.25, exact_delta(COINS, COINS[::-1], epsilon))]


@row("lemma 3.17")
def _() -> Numbers:
    # Part 2 at epsilon = log 2: both coins move by delta/(e^epsilon + 1), and then have a ratio of 2.
    moved = 0.25 / 3
    near = [0.75 - moved, 0.25 + moved]
    return [(moved, exact_delta(COINS, near, 0.0)), (log(2), exact_epsilon(near, near[::-1]))]


@row("lemma 3.18")
def _() -> Numbers:
    p = RandomizedResponse(1.0).probabilities(0)
    return [(1.0 * (math.e + 1), kl_divergence(p, p[::-1])), (1.0 * (math.e - 1), kl_divergence(p, p[::-1]))]


def drift(epsilon: float, k: int, delta: float) -> float:
    """Return k beta + z sqrt(k) alpha with alpha = epsilon, beta = epsilon (e^epsilon - 1)."""
    return k * epsilon * math.expm1(epsilon) + root(-2 * k * log(delta)) * epsilon


@row("lemma 3.19")
def _() -> Numbers:
    return [(1e-6, optimal_composition_delta(0.1, 100, drift(0.1, 100, 1e-6)))]


@row("theorem 3.20")
def _() -> Numbers:
    printed = -log(1e-6) * 0.1 / 100 + 100 * 0.1 * (0.1 + 1)
    found = advanced_composition(0.1, 100, 1e-6).epsilon
    return [(printed, found), (drift(0.1, 100, 1e-6), found)]


@row("corollary 3.21")
def _() -> Numbers:
    found = advanced_composition_share(0.9, 100, 1e-6)
    return [(0.9 / (-2 * 100 * log(1e-6)), found), (0.9 / (2 * root(-2 * 100 * log(1e-6))), found)]


@row("example 3.7")
def _() -> Numbers:
    delta = math.exp(-32)
    largest = next(m for m in range(801, 900) if advanced_composition(1 / m, 10_000, delta).epsilon <= 1)
    return [
        (1.0, advanced_composition(1 / 801, 10_000, delta).epsilon),
        (801, largest),
        (1.0, optimal_composition_epsilon(1 / 801, 10_000, delta)),
    ]


@row("definition 3.8")
def _() -> Numbers:
    def histogram(rows: Any) -> list[int]:
        return [rows.count(0), rows.count(1)]

    return [(root(2), global_sensitivity(histogram, range(2), 3, norm="l2"))]


@row("theorem 3.22")
def _() -> Numbers:
    sigma = root(2 * log(1.25 / 1e-5))
    return [(sigma / 0.5, GaussianMechanism(1.0, 0.5, 1e-5).sigma), (1e-5, gaussian_delta(9.0, sigma / 9.0, 1.0))]


@row("algorithm 1")
def _() -> Numbers:
    stream = AboveThreshold(0.0, 0.5)
    return [(2 / 0.5, stream.threshold_scale), (4 / 0.5, stream.query_scale)]


@row("theorem 3.23")
def _() -> Numbers:
    stream = AboveThreshold(0.0, 1.0)
    pairs = [([*[0] * k, 1], [*[1] * k, 0]) for k in range(6)]
    return [(1.0, epsilon_on(stream.probabilities, pairs))]


@row("theorem 3.24")
def _() -> Numbers:
    return [(8 * (log(100) + log(2 / 0.05)) / 0.5, AboveThreshold(0.0, 0.5).error_bound(0.05, 100))]


@row("algorithm 2")
def _() -> Numbers:
    pure = SparseVector(0.0, 0.5, max_above=4)
    printed = SparseVector(0.0, 0.5, max_above=4, delta=1e-6, calibration="textbook")
    return [(2 * 4 / 0.5, pure.threshold_scale), (root(-32 * 4 * log(1e-6)) / 0.5, printed.threshold_scale)]


@row("theorem 3.25")
def _() -> Numbers:
    pure = SparseVector(0.0, 0.5, max_above=4)
    printed = SparseVector(0.0, 0.5, max_above=4, delta=1e-6, calibration="textbook")
    return [(0.5, compose(pure.events, 0.0).epsilon), (0.5, compose(printed.events, 1e-6).epsilon)]


@row("theorem 3.26")
def _() -> Numbers:
    logs = log(100) + log(2 * 4 / 0.05)
    pure = SparseVector(0.0, 0.5, max_above=4)
    printed = SparseVector(0.0, 0.5, max_above=4, delta=1e-6, calibration="textbook")
    return [
        (8 * 4 * logs / 0.5, pure.error_bound(0.05, 100)),
        (logs * root(-512 * 4 * log(1e-6)) / 0.5, printed.error_bound(0.05, 100)),
    ]


def numeric(delta: float = 0.0) -> NumericSparseVector:
    return NumericSparseVector(0.0, 0.5, max_above=4, delta=delta, calibration="textbook")


@row("algorithm 3")
def _() -> Numbers:
    first, second = 8 / 9 * 0.5, 2 / 9 * 0.5
    return [(2 * 4 / first, numeric().threshold_scale), (2 * 4 / second, numeric().answer_scale)]


@row("theorem 3.27")
def _() -> Numbers:
    return [(0.5, compose(numeric().events, 0.0).epsilon), (0.5, compose(numeric(1e-6).events, 1e-6).epsilon)]


@row("theorem 3.28")
def _() -> Numbers:
    pure = 9 * 4 * (log(100) + log(4 * 4 / 0.05)) / 0.5
    one = NumericSparseVector(0.0, 0.5, max_above=1, delta=1e-6, calibration="textbook")
    printed = (log(1) + log(4 / 0.1)) * root(log(2 / 1e-6)) * (root(512) + 1) / 0.5
    return [(pure, numeric().error_bound(0.05, 100)), (printed, one.error_bound(0.1, 1))]


# --- Chapter 4 -----------------------------------------------------------------------------------------------------

SIZES = {"size": 16, "n_queries": 20, "epsilon": 1.0}
N, SIZE, K = 10_000, 16, 20


@row("linear queries")
def _() -> Numbers:
    answers = LinearQueries.from_matrix([[1.0, 0.5, 0.0]]).answers([10, 20, 70])
    return [(1.0 * 10 + 0.5 * 20, float(answers[0]))]


@row("example 4.1")
def _() -> Numbers:
    # Sets of exactly two of ten attributes are the parities of at most two bits, less those of none and of one.
    both = LinearQueries.parities(10, 2).n_queries
    fewer = LinearQueries.parities(10, 1).n_queries
    return [(math.comb(10, 2), both - fewer)]


@row("algorithm 4")
def _() -> Numbers:
    small = SmallDB(queries=RangeQueries(4), n_rows=5)
    return [(math.comb(4 + 5 - 1, 5), len(small.plan(1000).databases))]


@row("theorem 4.2")
def _() -> Numbers:
    def rows(calibration: str) -> int:
        small = SmallDB(queries=np.eye(3), accuracy=0.3, calibration=calibration)
        return next(m for m in range(1, 99) if math.comb(m + 2, m) == len(small.plan(1000).databases))

    return [(math.ceil(log(3) / 0.3**2), rows("textbook")), (math.ceil(log(3) / 0.3**2), rows("exact"))]


@row("proposition 4.4")
def _() -> Numbers:
    text = 0.1 + 2 * (log(SIZE) * log(K) / 0.1**2 + log(1 / 0.05)) / N
    return [
        (text, float(small_db_bound(N, **SIZES, accuracy=0.1, printed=True))),
        (text, float(small_db_bound(N, **SIZES, accuracy=0.1))),
    ]


@row("theorem 4.5")
def _() -> Numbers:
    text = ((16 * log(SIZE) * log(K) + 4 * log(1 / 0.05)) / N) ** (1 / 3)
    return [
        (text, float(small_db_bound(N, **SIZES, printed=True))),
        (text, float(small_db_bound(N, **SIZES))),
        (
            ((16 * log(4) * log(10) + 4 * log(1 / 0.05)) / N) ** (1 / 3),
            SmallDB(queries=RangeQueries(4)).plan(N).error_bound().error,
        ),
    ]


@row("theorem 4.6")
def _() -> Numbers:
    text = N ** (2 / 3) * (16 * log(SIZE) * log(K) + 4 * log(1 / 0.05)) ** (1 / 3)
    return [(text, N * float(small_db_bound(N, **SIZES, printed=True)))]


@row("definition 4.2")
def _() -> Numbers:
    return [(2, RangeQueries(8).vc_dimension or 0)]


@row("lemma 4.7")
def _() -> Numbers:
    return [(math.log2(RangeQueries(8).n_queries), RangeQueries(8).vc_dimension or 0)]


@row("theorem 4.10")
def _() -> Numbers:
    text = math.floor(4 * log(SIZE) / 0.1**2)
    return [
        (text, multiplicative_weights_updates(SIZE, 0.1, printed=True)),
        (text, multiplicative_weights_updates(SIZE, 0.1)),
    ]


@row("proposition 4.11")
def _() -> Numbers:
    return [(log(SIZE), kl_divergence(np.eye(SIZE)[3], np.full(SIZE, 1 / SIZE)))]


@row("lemma 4.12")
def _() -> Numbers:
    eta, data, guess = 0.1, np.array([0.0, 0.5, 0.5, 0.0]), np.full(4, 0.25)
    r = np.array([1.0, 0.0, 0.0, 1.0])
    after = guess * np.exp(-eta * r)
    fall = kl_divergence(data, guess) - kl_divergence(data, after / after.sum())
    return [(eta * r @ guess - eta * r @ data - eta**2, fall)]


def online(delta: float) -> float:
    """Return alpha of theorems 4.14 and 4.15: the fixed point of the error of the sparse vector."""
    alpha = 0.5
    for _ in range(500):
        logs = log(K) + log(32 * log(SIZE) / (alpha**2 * 0.05))
        if delta:
            factor = (2 + 32 * root(2)) * root(4 * log(SIZE) * log(2 / delta)) / alpha
        else:
            factor = 36 * log(SIZE) / alpha**2
        alpha = root(alpha * factor * logs / N)
    return alpha


@row("algorithm 6")
def _() -> Numbers:
    plan = OnlineMultiplicativeWeights(n_queries=K, calibration="textbook").plan(N, SIZE)
    return [(2 * online(0.0), plan.threshold), (math.ceil(4 * log(SIZE) / online(0.0) ** 2), plan.max_updates)]


@row("theorem 4.13")
def _() -> Numbers:
    plan = OnlineMultiplicativeWeights(n_queries=K, calibration="textbook").plan(N, SIZE)
    return [(1.0, compose(plan.events, 0.0).epsilon)]


@row("theorem 4.14")
def _() -> Numbers:
    exact = OnlineMultiplicativeWeights(n_queries=K).plan(N, SIZE)
    return [(3 * online(0.0), float(online_bound(N, **SIZES))), (3 * online(0.0), exact.error_bound)]


@row("theorem 4.15")
def _() -> Numbers:
    exact = OnlineMultiplicativeWeights(n_queries=K, delta=1e-6).plan(N, SIZE)
    text = 3 * online(1e-6)
    return [(text, float(online_bound(N, **SIZES, delta=1e-6))), (text, exact.error_bound)]


# --- Chapter 5 -----------------------------------------------------------------------------------------------------


@row("definition 5.2")
def _() -> Numbers:
    queries = RangeQueries(3)
    net = np.array([queries.answers(y) for y in build_net(queries, 0.25)])
    corners = [queries.answers(np.array(x) / 20) for x in product(range(21), repeat=3) if sum(x) == 20]
    return [(0.25, max(float(np.abs(net - answers).max(axis=1).min()) for answers in corners))]


@row("proposition 5.1")
def _() -> Numbers:
    made = NetMechanism(queries=np.eye(3), net=np.eye(3), epsilon=0.5)
    return [(0.5, compose(made.plan(100).events, 0.0).epsilon)]


@row("proposition 5.2")
def _() -> Numbers:
    text = 0.1 + 2 * (log(500) + log(1 / 0.05)) / (0.5 * N)
    return [(text, float(net_bound(N, n_databases=500, net_error=0.1, epsilon=0.5)))]


@row("definition 5.5")
def _() -> Numbers:
    # F(epsilon) with probability 1 - gamma, for queries of sensitivity 1/n.
    found = ExponentialMechanism(1 / N, 0.5).utility_bound(0.05, K)
    return [(2 / (0.5 * N) * log(K / 0.05), found)]


@row("halving algorithm")
def _() -> Numbers:
    return [(math.log2(1024), median_updates(1024))]


@row("theorem 5.7")
def _() -> Numbers:
    # alpha for T rounds, each choice and each check at epsilon_0 = epsilon/(4 sqrt(T log(1/delta))).
    each = 1.0 / (4 * root(-100 * log(1e-6)))
    text = 16 * log(2 * K * 100 / 0.05) / (N * each)
    found = construction_bound(N, updates=lambda _: 100, n_queries=K, epsilon=1.0, delta=1e-6)
    return [(text, float(found))]


@row("definition 5.6")
def _() -> Numbers:
    net = np.array([[1.0, 0.0], [0.7, 0.3], [0.0, 1.0]])
    made = IterativeConstruction(queries=[[1, 0]], update="median", net=net, max_updates=0, epsilon=1.0, random_state=0)
    return [(0.7, float(made.fit([60, 40]).predict()[0]))]


@row("theorem 5.8")
def _() -> Numbers:
    return [(log(1024), median_updates(1024))]


@row("theorem 5.9")
def _() -> Numbers:
    return [(4.0**5, len(SmallDB(queries=np.eye(4), n_rows=5).plan(100).databases))]


@row("theorem 5.10")
def _() -> Numbers:
    text = 16 * root(-log(SIZE) * log(1e-6)) / (root(N) * 1.0) * log(2 * K * N * log(SIZE) / 0.05)
    return [
        (text, float(median_bound(N, **SIZES, delta=1e-6, printed=True))),
        (text, float(median_bound(N, **SIZES, delta=1e-6))),
    ]


@row("theorem 5.11")
def _() -> Numbers:
    text = round(0.25 * SIZE / 0.1**2)
    return [
        (text, perceptron_updates(SIZE, 0.1, norm=0.25, printed=True)),
        (text, perceptron_updates(SIZE, 0.1, norm=0.25)),
    ]


@row("theorem 5.12")
def _() -> Numbers:
    n, length = 10**6, 0.5 * 10**6
    text = (
        4**0.25 * root(length) * (-4 * SIZE * log(1e-6)) ** 0.25 * root(log(2 * K * SIZE * length**2 / 0.05) / 1.0) / n
    )
    corrected = float(perceptron_bound(n, **SIZES, delta=1e-6, norm=0.25))
    return [(text, float(perceptron_bound(n, **SIZES, delta=1e-6, norm=0.25, printed=True))), (text, corrected)]


@row("dense graphs")
def _() -> Numbers:
    # Of n edges, ||x||_2 = sqrt(n): the bound without the factors that do not depend on x, but for the logarithm.
    n = 10_000
    found = float(perceptron_bound(n, size=n, n_queries=1, epsilon=1.0, delta=1e-6, norm=1 / n, printed=True))
    other = 4**0.25 * (-4 * n * log(1e-6)) ** 0.25 * root(log(2 * n * n / 0.05))
    return [((1 / n) ** 3, found / other), ((1 / n) ** 0.75, found / other)]


# --- Chapter 9 -----------------------------------------------------------------------------------------------------


@row("definition 9.1.1")
def _() -> Numbers:
    # Of (log 2, 1/4)-private coins, an outcome has a loss above epsilon with probability 3/4, and not delta.
    return [(exact_delta(COINS, COINS[::-1], log(2)), 0.75)]


@row("definition 9.1.2")
def _() -> Numbers:
    def mean(rows: Any) -> float:
        return sum(rows) / len(rows)

    return [(2 / 4, global_sensitivity(mean, (-1, 1), 4))]


@row("definition 9.1.3")
def _() -> Numbers:
    return [(3 / 0.5, LaplaceMechanism(3, 0.5).scale)]


@row("definition 9.1.4")
def _() -> Numbers:
    return [(2 * log(1.25 / 1e-5) / 0.5**2, GaussianMechanism(1.0, 0.5, 1e-5).sigma ** 2)]


@row("definition 9.1.5")
def _() -> Numbers:
    found = ExponentialMechanism(2.0, 1.0).probabilities([0, 4])
    return [(math.exp(4 / (2 * 2)) / (1 + math.exp(4 / (2 * 2))), found[1])]


@row("theorem 9.1.1")
def _() -> Numbers:
    # Post-processing by one coin more: flip the answer with probability 1/4.
    p = np.array(COINS)
    flipped = 0.75 * p + 0.25 * p[::-1]
    return [(log(3), exact_epsilon(flipped, flipped[::-1]))]


@row("theorem 9.1.2")
def _() -> Numbers:
    total = basic_composition([PrivacyGuarantee(0.5, 1e-6), PrivacyGuarantee(0.25, 2e-6)])
    return [(0.75, total.epsilon), (3e-6, total.delta)]


@row("theorem 9.1.3")
def _() -> Numbers:
    return [(drift(0.1, 100, 1e-6), advanced_composition(0.1, 100, 1e-6).epsilon)]


@row("lemma A.1")
def _() -> Numbers:
    p = RandomizedResponse(1.0).probabilities(0)
    return [(1.0 * (math.e - 1), kl_divergence(p, p[::-1]))]


@row("lemma A.2")
def _() -> Numbers:
    return [(1e-6, optimal_composition_delta(0.1, 100, drift(0.1, 100, 1e-6)))]


@row("theorem 9.2.1")
def _() -> Numbers:
    text = 10 / N - 10**2 * log(1e-6) / (N * 0.5) ** 2
    return [(text, float(mean_lower_bound(N, 10, epsilon=0.5, delta=1e-6)))]


def clipped(n: int, d: int) -> float:
    """Return the noise of the clipped mean with R = 2, at (1, 1e-6)."""
    return ClippedMean(clip=2.0, std=1.0, epsilon=1.0, delta=1e-6).plan(n, d).stages[0].noise_scale


@row("algorithm 9.2.1")
def _() -> Numbers:
    printed = root(-log(1e-6))
    return [(2 * 2 * root(10) / 1000 * printed, clipped(1000, 10)), (1.0, gaussian_delta(1.0, printed, 1.0) / 1e-6)]


@row("theorem 9.2.2")
def _() -> Numbers:
    return [(2 * root(log(1000)), clipping_radius(1000, sigma=1.0, bound=3.0))]


@row("theorem 9.2.3")
def _() -> Numbers:
    text = 10 * log(1000) / N + (10 * log(1000)) ** 2 / (N * 0.5) ** 2
    return [(text, float(sparse_mean_lower_bound(N, 1000, n_nonzero=10, epsilon=0.5)))]


@row("algorithm 9.2.2")
def _() -> Numbers:
    def plan(calibration: str) -> float:
        made = SparseMean(
            n_nonzero=10, clip=2.0, std=1.0, selection="peeling", epsilon=1.0, delta=1e-5, calibration=calibration
        )
        return float(made.plan(1000, 50).noise_scale) / (2 * 2 / 1000)

    text = 2 * root(-3 * 10 * log(1e-5))
    return [(text, plan("textbook")), (text, plan("exact"))]


@row("lemma A.7")
def _() -> Numbers:
    # C = 2, k = 100, scale 1: the largest of k, and the bound of every entry that the norm's follows from.
    unit = LaplaceMechanism(1, 1.0)
    return [
        (2 * log(100), unit.error_bound(math.exp(-(2 - 1) * log(100)), 100)),
        (6.0, unit.error_bound(100 * math.exp(-6), 100)),
    ]


@row("definition 9.3.3")
def _() -> Numbers:
    # On ||S||_1 <= A the extension is T; a row changes it by at most 4A everywhere.
    sums = [np.array(s) for s in product((-3, -1, 1, 3), repeat=2)]
    pairs = [(s, t) for s, t in permutations(sums, 2) if np.abs(s - t).max() <= 2]
    moved = max(abs(l1_extension(s, 3, 2) - l1_extension(t, 3, 2)) for s, t in pairs)
    return [(1 + 1 - 3 * 2, l1_extension([1, -1], 3, 2)), (4 * 2, moved)]


@row("theorem 9.3.1")
def _() -> Numbers:
    grid = ndtri((np.arange(200_000) + 0.5) / 200_000)[:, None] + 0.5
    found = float(sign_reduction(grid).mean())
    return [(-erf(0.5 / root(2)), found), (erf(0.5 / root(2)), found)]


@row("statistic T")
def _() -> Numbers:
    return [(3**2 + 1**2 + 5**2 - 3 * 7, l1_extension([3, -1, 5], 7, 9))]


@row("algorithm 9.3.1")
def _() -> Numbers:
    return [(4 * 4, inner_product_constant(12, 3, 4))]


@row("algorithm 9.3.2")
def _() -> Numbers:
    stages = math.ceil(log(100))
    steps = [PrivacyGuarantee(1 / stages)] * (stages - 1) + [PrivacyGuarantee(1.0)]
    plan = StagedInnerProductTest(epsilon=1.0).plan(100, 3)
    return [(1.0, basic_composition(steps).epsilon), (1.0, compose(plan.events, 0.0).epsilon)]


@row("theorem 9.3.3")
def _() -> Numbers:
    d, a, e = 100, 0.5, 0.1
    text = root(d) / a**2 + d ** (1 / 3) / (a ** (4 / 3) * e ** (2 / 3)) + 1 / (a * e)
    rate = identity_lower_bound(d, distance=a, epsilon=e)
    # The middle term is the weighted geometric mean of d/a^2 and 1/(a e), as the proof has it.
    return [(text, float(rate)), ((d / a**2) ** (1 / 3) * (1 / (a * e)) ** (2 / 3), rate.terms["mixed"])]


@row("algorithm 9.3.3")
def _() -> Numbers:
    n, d, e, f = 10_000, 5, 1.0 / 4, 1e-5 / 14
    scales = [
        stage.noise_scale
        for stage in FilteringTest(epsilon=1.0, delta=1e-5).plan(n, d).stages
        if hasattr(stage, "noise_scale")
    ]
    margin = d / e * root(log(1.25 / f) * log(n / f))
    bound = 16 * (
        d * log(d / f)
        + d / (n * e**2) * log(f) ** 2
        + root(n * d) * root(log(d / f) * log(n / f))
        - root(d) / e * log(f) * root(log(n / f))
    )
    return [
        (2 / e, scales[0]),
        (root(8 * d * log(1.25 / f)) / e, scales[1]),
        (1 / e, scales[2]),
        ((4 * bound + 48 * margin) / e, scales[3]),
    ]


@row("theorem 9.3.4")
def _() -> Numbers:
    d, a, e = 100, 0.5, 0.1
    rate = identity_upper_bound(d, distance=a, epsilon=e)
    mixed = identity_lower_bound(d, distance=a, epsilon=e).terms["mixed"]
    between = rate.terms["sampling"] ** (1 / 3) * rate.terms["privacy"] ** (2 / 3)
    return [(root(d) / a**2 + d**0.25 / (a * e), float(rate)), (between, mixed)]


# --- The SQL note --------------------------------------------------------------------------------------------------


@row("Laplace accuracy")
def _() -> Numbers:
    laplace = LaplaceMechanism(1, 0.5)
    return [(2 / 0.5**2, laplace.plan.stages[0].noise_std ** 2), (log(1 / 0.05) / 0.5, laplace.error_bound(0.05))]


@row("Gauss accuracy")
def _() -> Numbers:
    gaussian = GaussianMechanism(1.0, 0.5, 1e-5)
    exact = 2 / 0.5 * root(log(1.25 / 1e-5)) * erfinv(1 - 0.05)
    return [
        (exact, gaussian.error_bound(0.05)),
        (2 / 0.5 * root(log(1 / 0.05) * log(1.25 / 1e-5)), gaussian.error_bound(0.05)),
    ]


@row("basic composition")
def _() -> Numbers:
    total = basic_composition([PrivacyGuarantee(0.5, 1e-6), PrivacyGuarantee(0.25, 2e-6)])
    return [(0.75, total.epsilon), (3e-6, total.delta)]


@row("advanced composition 1")
def _() -> Numbers:
    return [
        (drift(0.1, 100, 1e-6), advanced_composition(0.1, 100, 1e-6).epsilon),
        (1e-5 * root(-2 * 100 * log(1e-6)), advanced_composition(1e-5, 100, 1e-6).epsilon),
    ]


@row("advanced composition 2")
def _() -> Numbers:
    e, k, i = 0.1, 30, 10
    terms = (
        math.comb(k, m) * (math.exp((k - m) * e) - math.exp((k - 2 * i + m) * e)) / (1 + math.exp(e)) ** k
        for m in range(i)
    )
    return [(math.fsum(terms), optimal_composition_delta(e, k, (k - 2 * i) * e))]


def three_bounds(each: list[float], slack: float) -> float:
    """Return the smallest of the note's three totals."""
    mean = sum(e * math.expm1(e) / (math.exp(e) + 1) for e in each)
    squares = sum(e * e for e in each)
    return min(
        sum(each),
        mean + root(-2 * squares * log(slack)),
        mean + root(2 * squares * log(math.e + root(squares) / slack)),
    )


@row("adaptive choice")
def _() -> Numbers:
    return [(three_bounds([0.1] * 100, 1e-6), heterogeneous_composition([PrivacyGuarantee(0.1)] * 100, 1e-6).epsilon)]


@row("different releases")
def _() -> Numbers:
    each = [0.05, 0.1, 0.2] * 20
    return [(three_bounds(each, 1e-6), heterogeneous_composition([*map(PrivacyGuarantee, each)], 1e-6).epsilon)]


@row("global sensitivity")
def _() -> Numbers:
    return [(6.0, global_sensitivity(median_low, range(7), 3))]


@row("local sensitivity")
def _() -> Numbers:
    largest = max(local_sensitivity(median_low, rows, range(4)) for rows in product(range(4), repeat=3))
    return [
        (2.0, local_sensitivity(median_low, (1, 2, 4), range(7))),
        (global_sensitivity(median_low, range(4), 3), largest),
    ]


def at_distance(k: int) -> float:
    return local_sensitivity(median_low, (1, 2, 4), range(7), distance=k)


@row("smooth upper bound")
def _() -> Numbers:
    # A neighbor's smooth sensitivity is at most e^beta times this one.
    here = median_smooth_sensitivity([1, 2, 4], lower=0, upper=6, beta=0.3)
    there = max(median_smooth_sensitivity([1, 2, x], lower=0, upper=6, beta=0.3) for x in range(7))
    return [(math.exp(0.3) * here, there)]


@row("smooth sensitivity")
def _() -> Numbers:
    text = max(math.exp(-0.3 * k) * at_distance(k) for k in range(4))
    return [(text, median_smooth_sensitivity([1, 2, 4], lower=0, upper=6, beta=0.3))]


@row("sensitivity at distance k")
def _() -> Numbers:
    return [
        (4.0, at_distance(1)),
        (
            max(math.exp(-0.3 * k) * a for k, a in enumerate([2, 4, 5, 6])),
            smooth_sensitivity(at_distance, beta=0.3, furthest=3),
        ),
    ]


TRIPS, DRIVERS, CITIES = Table("trips"), Table("drivers"), Table("cities")
JOINED = Join(TRIPS, DRIVERS, (("trips.driver", "drivers.id"),))
FREQUENCIES = {"trips.driver": 3, "drivers.id": 2, "drivers.city": 5, "trips.city": 7, "cities.id": 1}


def elastic(relation: Any, k: int = 0, kind: str = "count") -> int:
    """Return the elastic sensitivity of a count at distance k."""
    return ElasticSensitivity(Count(relation, kind), FREQUENCIES).at_distance(k)


@row("frequency 1, a table")
def _() -> Numbers:
    # A driver has as many joined rows as trips: mf(driver, trips) + k, more than the other side's 2 + k.
    return [(3 + 4, elastic(JOINED, 4))]


@row("frequency 2, a join")
def _() -> Numbers:
    # drivers.city in trips joined with drivers: mf(city, drivers) mf(driver, trips) = 15, and a city counts as often.
    made = Join(JOINED, Table("cities"), (("drivers.city", "cities.id"),))
    return [(max(5 * 3 * 1, 1 * elastic(JOINED)), elastic(made))]


@row("frequency 3, a projection")
def _() -> Numbers:
    some = Project(TRIPS, (Column("trips", "driver"),))
    return [(3 + 4, elastic(Join(some, DRIVERS, (("trips.driver", "drivers.id"),)), 4))]


@row("frequency 4, a selection")
def _() -> Numbers:
    return [(3 + 4, elastic(Join(Select(TRIPS), DRIVERS, (("trips.driver", "drivers.id"),)), 4))]


@row("stability 1, a table")
def _() -> Numbers:
    return [(1, elastic(TRIPS, 4))]


@row("stability 2, a join")
def _() -> Numbers:
    other = Join(TRIPS, Table("trips", "again"), (("trips.driver", "again.driver"),))
    return [(max(3 + 1, 2 + 1), elastic(JOINED, 1)), (3 + 3 + 1, elastic(other))]


@row("stability 3, a projection")
def _() -> Numbers:
    return [(elastic(JOINED), elastic(Project(JOINED, (Column("trips", "city"),))))]


@row("stability 4, a selection")
def _() -> Numbers:
    return [(elastic(JOINED), elastic(Select(JOINED)))]


@row("sensitivity 1, a count")
def _() -> Numbers:
    return [(3, elastic(JOINED))]


@row("sensitivity 2, a histogram")
def _() -> Numbers:
    return [(2 * 3, elastic(JOINED, kind="histogram"))]


@row("smooth elastic sensitivity")
def _() -> Numbers:
    beta = 0.7 / (2 * log(2 / 1e-8))
    text = max(math.exp(-beta * k) * max(3 + k, 2 + k) for k in range(1000))
    return [(text, ElasticSensitivity(Count(JOINED), FREQUENCIES).smooth(0.7, 1e-8))]


@row("Laplace noise of scale 2S/ε")
def _() -> Numbers:
    # For one count, and for a histogram of 200: the note has one beta, whatever the number of counts.
    beta = 1.0 / (2 * log(2 / 1e-6))
    one, many = (smooth_noise(1.0, 1e-6, noise="laplace", size=size) for size in (1, 200))
    return [(2.0, one.scale), (beta, one.beta), (beta, many.beta)]


# --- Statements without numbers of their own -----------------------------------------------------------------------


def test_inequalities_of_section_3_1() -> None:
    # Theorems 3.1 and 3.2 with the number of variables m in the exponent: without it, they are weak but true.
    m, p = 50, 0.3
    for k in range(m + 1):
        above, below = binom.sf(k - 1, m, p), binom.cdf(k, m, p)
        gap, share = k / m - p, abs(k / m / p - 1)
        additive = math.exp(-2 * m * gap**2)
        if gap >= 0:
            assert above <= additive
            assert share > 1 or above <= math.exp(-m * p * share**2 / 3)
        else:
            assert below <= additive and below <= math.exp(-m * p * share**2 / 2)
    # Theorem 3.3: a walk of m steps of size 1.
    assert all(binom.sf((m + t) / 2 - 1, m, 0.5) <= math.exp(-(t**2) / (2 * m)) for t in range(0, m + 1, 2))
    # Theorem 3.4.
    for n in (1, 5, 50):
        stirling = root(2 * math.pi * n) * (n / math.e) ** n
        assert math.exp(1 / (12 * n + 1)) <= math.factorial(n) / stirling <= math.exp(1 / (12 * n))


def test_the_largest_with_gaussian_noise_is_not_private_without_delta() -> None:
    # Two candidates, their utilities 2 nearer to each other in a neighbor: odds of the worse one are unbounded.
    losses = [float(norm.logcdf((2 - gap) / root(2)) - norm.logcdf(-gap / root(2))) for gap in (5, 50, 500)]
    assert losses[0] > 4 and losses[1] > 40 and losses[2] > 400


def _tracing(epsilon: float, repetitions: int = 60) -> tuple[float, float, float, float]:
    """Return the sum of A_i, the mean of A'_i and of its absolute value, and the squared error of a mean."""
    n, d, rng = 100, 40, np.random.default_rng(0)
    found = []
    for _ in range(repetitions):
        X, fresh = rng.normal(size=(n, d)), rng.normal(size=(n, d))
        estimate = ClippedMean(clip=6.0, epsilon=epsilon, delta=1e-6, random_state=rng).fit(X).released_mean_
        traced, others = X @ estimate, fresh @ estimate
        found.append([traced.sum(), others.mean(), np.abs(others).mean(), estimate @ estimate])
    return tuple(np.mean(found, axis=0).tolist())


def test_the_tracing_attack_and_how_privacy_limits_it() -> None:
    # Lemma A.4 at mean 0: the sum is d for the mean of n normal rows, and 0 for rows that it has not seen.
    traced, others, size, error = _tracing(1e4)
    assert traced == pytest.approx(40, abs=6) and abs(others) < 0.02
    assert size <= root(error)
    # Lemma A.5, with its part for delta left out: A_i of a private mean is near that of a fresh row.
    epsilon = 0.5
    traced, others, size, error = _tracing(epsilon)
    assert traced / 100 <= others + 2 * epsilon * size + 3 * root(error / 100 / 60) and size <= root(error)


def test_what_peeling_misses_is_bounded_by_its_noise() -> None:
    # Lemma A.6: columns that were not selected have at most the norm of as many that were, and noise.
    rng = np.random.default_rng(1)
    s, d, c = 4, 30, 0.5
    for _ in range(200):
        v, left, noise = rng.normal(size=d), set(range(d)), 0.0
        selected = []
        for _ in range(s):
            w = rng.laplace(scale=0.3, size=d)
            best = max(left, key=lambda j: abs(v[j]) + w[j])
            selected.append(best)
            left.remove(best)
            noise += float(np.abs(w).max() ** 2)
        missed = np.sort(v[sorted(left)] ** 2)[::-1][:s].sum()
        assert missed <= (1 + c) * (v[selected] ** 2).sum() + 4 * (1 + 1 / c) * noise


# --- The page ------------------------------------------------------------------------------------------------------

RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "=": lambda text, ours: math.isclose(text, ours, rel_tol=2e-5),
    "≥": lambda text, ours: ours <= text * (1 + 1e-6) + 1e-12,
    "≤": lambda text, ours: text <= ours * (1 + 1e-6) + 1e-12,
    "≠": lambda text, ours: not math.isclose(text, ours, rel_tol=1e-2),
}
"""Between the text's number, on the left, and the package's, on the right."""


@cache
def rows() -> list[list[str]]:
    """Return the cells of all rows of the page that belong to a text."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [row for row in cells if len(row) == 5 and row[0] != "number" and not set(row[0]) <= set("-: ")]


def shown(cell: str) -> list[tuple[str, str, str]]:
    """Return the comparisons of a cell: text, relation, package."""
    return [] if cell.startswith("`tests/") else [tuple(part.split(" ")) for part in cell.split("; ")]


def name_of(cells: list[str]) -> str:
    return cells[0].split(", ", 1)[1]


def agrees(number: str, value: float) -> bool:
    """Return whether a printed number is the value, to the digits that it shows."""
    plain = number.replace(",", "").replace("−", "-")
    mantissa, _, exponent = plain.partition("e")
    digits = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - digits)
    return abs(float(plain) - value) <= 0.5000001 * unit


@pytest.mark.parametrize("cells", rows(), ids=name_of)
def test_numbers_of_the_page_follow_from_the_text_and_from_the_package(cells: list[str]) -> None:
    printed, check = shown(cells[3]), CHECKS.get(name_of(cells))
    found = check() if check else []
    assert len(printed) == len(found)
    for (left, relation, right), (text, ours) in zip(printed, found, strict=True):
        assert RELATIONS[relation](text, ours), (text, relation, ours)
        assert agrees(left, text) and agrees(right, ours), (left, text, right, ours)
    assert cells[4] or all(relation != "≠" for _, relation, _ in printed)


def test_every_check_has_a_row_and_no_row_comes_twice() -> None:
    names = [name_of(cells) for cells in rows()]
    assert len(names) == len(set(names)) > 130 and CHECKS.keys() <= set(names)
    assert sum(len(check()) for name, check in CHECKS.items() if name.startswith("algorithm")) > 10


@pytest.mark.parametrize("cells", rows(), ids=name_of)
def test_a_row_leads_to_code_or_to_a_page(cells: list[str]) -> None:
    links = re.findall(r"\]\(([^)]+)\)", cells[2])
    assert links, "no link"
    for link in links + re.findall(r"\]\(([^)]+)\)", cells[4]):
        target, _, anchor = link.partition("#")
        page = (PAGE.parent / target).resolve() if target else PAGE
        assert page.exists() and (not anchor or anchor in anchors(page)), link
    for name in re.findall(r"`([A-Za-z_]\w*)`", cells[2]):
        assert name in public_names(), name


@pytest.mark.parametrize("cells", rows(), ids=name_of)
def test_a_row_has_a_running_test(cells: list[str]) -> None:
    """Numbers are compared in this file; other rows name a test."""
    named = re.findall(r"`tests/([\w/]+\.py)::(test_\w+)`", cells[3])
    assert bool(named) != bool(name_of(cells) in CHECKS), cells[3]
    for file, test in named:
        assert test in find_tests(file), f"{file} has no {test}"


@cache
def find_tests(file: str) -> set[str]:
    """Return the names of the tests of a file that are not skipped, without running it."""
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    marks = {
        node.name: " ".join(ast.unparse(mark) for mark in node.decorator_list)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    return {name for name, marked in marks.items() if "mark.skip" not in marked and "xfail" not in marked}


@cache
def public_names() -> set[str]:
    """Return all names that a package makes public."""
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    packages = re.findall(r"^   (dpstats\.[\w.]+)$", reference, re.MULTILINE)
    assert "dpstats.textbook" in packages and dpstats.__name__ == "dpstats"
    return {name for package in packages for name in importlib.import_module(package).__all__}


def test_wrong_numbers_and_relations_are_found() -> None:
    assert agrees("12.21", 12.206) and not agrees("12.21", 12.2) and agrees("1.30e-6", 1.3012e-6)
    assert not RELATIONS["="](1.0, 1.01) and not RELATIONS["≥"](1.0, 1.01) and not RELATIONS["≠"](1.0, 1.001)


@pytest.mark.parametrize("name", [name for name in dpstats.textbook.__all__ if name[0].isupper()])
def test_a_class_of_the_textbook_cites_its_row(name: str) -> None:
    documentation = getattr(dpstats.textbook, name).__doc__
    cited = re.findall(r"(?:algorithm|theorem|proposition|claim|[Ee]xercise)s? [\d.]*\d", documentation)
    known = {name_of(cells) for cells in rows()}
    if name not in ("AccuracyBound", "Rate"):
        assert cited and {one.replace("s ", " ").lower() for one in cited} <= known
    assert "docs/sources.md" in documentation
