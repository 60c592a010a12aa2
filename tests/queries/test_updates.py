"""Update rules: each step by hand, and never more updates than stated, whatever the queries."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from dpstats.queries import LinearQueries
from dpstats.textbook import build_net
from dpstats.textbook.error_bounds import median_updates, multiplicative_weights_updates, perceptron_updates, whole
from dpstats.textbook.histogram_release import (
    Median,
    MultiplicativeWeights,
    Perceptron,
    UpdateRule,
    nearer,
    on_simplex,
    reweighted,
)

F = np.array([1.0, 1.0, 0.0, 0.0])


def test_multiplicative_weights_step_by_hand() -> None:
    rule = MultiplicativeWeights(4)
    x = rule.start()
    assert x.tolist() == [0.25] * 4
    # Answered 0.5 for 0.85, right within 0.05: points inside get 0.8 of the weight, at odds 4.
    assert rule.updated(x, F, 0.5, 0.85, 0.05) == pytest.approx([0.4, 0.4, 0.1, 0.1], rel=1e-14)
    # Downwards, to 0.2; and a value in between is reweighted linearly: 1 + (odds - 1)/2.
    x = rule.updated(rule.start(), F, 0.5, 0.15, 0.05)
    assert x == pytest.approx([0.1, 0.1, 0.4, 0.4], rel=1e-14)
    weights = reweighted(np.full(2, 0.5), np.array([1.0, 0.5]), 0.75, 3.0)
    assert weights == pytest.approx([3 / 5, 2 / 5], rel=1e-14)
    # Noise that hides the difference moves nothing.
    assert rule.updated(rule.start(), F, 0.5, 0.52, 0.05).tolist() == [0.25] * 4


def test_printed_multiplicative_weights_step_by_hand() -> None:
    # Algorithm 5 at eta = 0.2: r = f where the hypothesis is too high, and 1 - f where it is too low.
    rule = MultiplicativeWeights(4, rate=0.2)
    for answer, r in ((0.1, F), (0.9, 1 - F)):
        weights = 0.25 * np.exp(-0.2 * r)
        assert rule.updated(rule.start(), F, 0.5, answer, 0.05) == pytest.approx(weights / weights.sum(), rel=1e-14)
    # At eta = alpha/2 the potential falls by alpha^2/4: theorem 4.10's 4 log|X|/alpha^2.
    assert MultiplicativeWeights(4, 0.05).most_updates(0.1) == pytest.approx(400 * math.log(4), rel=1e-12)


def test_perceptron_step_by_hand() -> None:
    rule = Perceptron(4)
    # f less its mean is (.5, .5, -.5, -.5), of squared length 1: 0.3 of it makes the answer 0.8.
    assert rule.updated(rule.start(), F, 0.5, 0.85, 0.05) == pytest.approx([0.4, 0.4, 0.1, 0.1], rel=1e-14)
    # A step that leaves the distributions comes back to the nearest one.
    # (.5, -.35, .45, .4), less a level of .35/3 where that leaves anything.
    x = np.array([0.9, 0.05, 0.05, 0.0])
    assert rule.updated(x, F, 0.95, 0.15, 0.0) == pytest.approx([23 / 60, 0.0, 20 / 60, 17 / 60], rel=1e-12)
    assert rule.updated(x, np.ones(4), 1.0, 0.0, 0.0) is x  # nothing to learn
    # Printed: from 0, alpha/|X| times the query.
    printed = Perceptron(4, step=0.1 / 4)
    assert printed.start().tolist() == [0.0] * 4
    assert printed.updated(printed.start(), F, 0.0, 0.5, 0.0) == pytest.approx([0.025, 0.025, 0, 0])
    assert printed.most_updates(0.1) == pytest.approx(4 / 0.1**2, rel=1e-12)  # theorem 5.11 at norm 1


def test_median_step_by_hand() -> None:
    net = np.array([[1.0, 0.0], [0.75, 0.25], [0.5, 0.5], [0.25, 0.75], [0.0, 1.0]])
    f, queries = np.array([1.0, 0.0]), LinearQueries.from_matrix([[1.0, 0.0]])
    rule = Median(net, 0.1)
    assert rule.answers(queries, rule.start()).tolist() == [0.5] == [rule.answer(f, rule.start())]
    # Within 0.1 + 0.1 of 0.9 are 1 and 0.75.
    left = rule.updated(rule.start(), f, 0.5, 0.9, 0.1)
    assert left.tolist() == [True, True, False, False, False]
    assert rule.distribution(left).tolist() == [0.875, 0.125]
    # Printed: all above the median.
    halved = Median(net, 0.1, halving=True)
    assert halved.updated(halved.start(), f, 0.5, 0.9, 0.1).tolist() == [True, True, False, False, False]
    assert halved.updated(halved.start(), f, 0.5, 0.1, 0.1).tolist() == [False, False, False, True, True]
    assert rule.most_updates(0.1) == math.inf and rule.most_updates(0.11) == math.log2(5)


def test_answers_that_noise_leaves() -> None:
    assert nearer(0.5, 0.9, 0.1) == 0.8 and nearer(0.5, 0.1, 0.1) == pytest.approx(0.2)
    assert nearer(0.5, 0.55, 0.1) == 0.5


def test_projection_is_the_nearest_distribution() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        x = rng.normal(size=5)
        found = on_simplex(x)
        assert found.min() >= 0 and found.sum() == pytest.approx(1, rel=1e-12)
        others = rng.dirichlet(np.ones(5), size=200)
        # No distribution is nearer: the angle at the projection is not acute.
        assert ((others - found) @ (x - found)).max() <= 1e-12


def divergence(x: np.ndarray, y: np.ndarray) -> float:
    inside = x > 0
    return float((x[inside] * np.log(x[inside] / y[inside])).sum())


def test_each_update_brings_the_hypothesis_nearer_by_what_is_stated() -> None:
    rng = np.random.default_rng(1)
    for _ in range(400):
        size = int(rng.integers(2, 9))
        x = rng.dirichlet(np.full(size, 0.3))
        y = rng.dirichlet(np.full(size, rng.choice([0.2, 3.0])))
        y = (y + 1e-6) / (y + 1e-6).sum()
        f = rng.random(size) if rng.random() < 0.5 else rng.integers(2, size=size).astype(float)
        true, predicted = float(f @ x), float(f @ y)
        gap = abs(true - predicted)
        # The answer may be anywhere within its error, which leaves at least `known` of the gap.
        error = rng.uniform(0, 0.5) * gap
        answer = true + rng.uniform(-error, error)
        known = abs(answer - predicted) - error
        moved = MultiplicativeWeights(size).updated(y.copy(), f, predicted, answer, error)
        assert divergence(x, y) - divergence(x, moved) >= 2 * known**2 - 1e-12
        moved = Perceptron(size).updated(y.copy(), f, predicted, answer, error)
        assert ((x - y) ** 2).sum() - ((x - moved) ** 2).sum() >= 4 * known**2 / size - 1e-12


def adversarial_updates(
    rule: UpdateRule, x: np.ndarray, queries: LinearQueries, gap: float, error: float, pick: Callable[..., int]
) -> int:
    """Return how often a hypothesis can be told from x by ``gap``, with the answers that teach it least."""
    hypothesis, updates, true = rule.start(), 0, queries.answers(x)
    while True:
        errors = rule.answers(queries, hypothesis) - true
        distinguishing = np.flatnonzero(np.abs(errors) > gap)
        if distinguishing.size == 0:
            return updates
        j = int(distinguishing[pick(np.abs(errors[distinguishing]))])
        predicted = rule.answer(queries.query(j), hypothesis)
        answer = float(true[j]) + error * np.sign(predicted - true[j])
        hypothesis = rule.updated(hypothesis, queries.query(j), predicted, answer, error)
        updates += 1
        assert updates <= 5000


@pytest.mark.parametrize("pick", [np.argmin, np.argmax], ids=["nearest", "worst"])
def test_there_are_never_more_updates_than_stated(pick: Callable[..., int]) -> None:
    rng = np.random.default_rng(2)
    gap, error, most = 0.15, 0.02, {"mw": 0, "perceptron": 0, "median": 0}
    queries = LinearQueries.from_matrix((np.arange(1, 15)[:, None] >> np.arange(4)) & 1)
    net = build_net(queries, 0.1)
    for x in (*np.eye(4), *rng.dirichlet(np.full(4, 0.2), size=4), *rng.dirichlet(np.ones(4), size=2)):
        rule: UpdateRule
        norm = float((x**2).sum())
        for name, rule, stated in (
            ("mw", MultiplicativeWeights(4), multiplicative_weights_updates(4, gap)),
            ("mw", MultiplicativeWeights(4, gap / 2), multiplicative_weights_updates(4, gap, printed=True)),
            ("perceptron", Perceptron(4, norm), perceptron_updates(4, gap, norm)),
            ("perceptron", Perceptron(4, norm, gap / 4), perceptron_updates(4, gap, norm, printed=True)),
            ("median", Median(net, 0.1), median_updates(len(net))),
            ("median", Median(net, 0.1, halving=True), median_updates(len(net))),
        ):
            found = adversarial_updates(rule, x, queries, gap, error, pick)
            assert found <= stated, name
            assert whole(rule.most_updates(gap)) == stated
            most[name] = max(most[name], found)
    # The sequences are hard enough to need several.
    assert min(most.values()) >= 2


def test_a_step_that_is_too_long_would_be_noticed() -> None:
    # Printed rule at a rate for a gap four times as large: it goes to and fro for ever.
    x, queries = np.array([0.5, 0.5, 0.0, 0.0]), LinearQueries.from_matrix([[1, 0, 1, 0], [1, 0, 0, 0]])
    with pytest.raises(AssertionError):
        adversarial_updates(MultiplicativeWeights(4, 2.0), x, queries, 0.02, 0.0, np.argmax)


@pytest.mark.parametrize("left", [0.0, 1e-15, 1e-13, 1e-9, 1e-4])
def test_what_was_almost_certain_still_adds_up_to_one(left: float) -> None:
    # Factors of 10^12 that nearly cancel: the sum used to be off by up to 10^-4.
    for target in (0.6, 0.01, 0.0):
        f, hypothesis = np.array([1.0, 1.0, 1.0, 0.0]), np.array([0.5, 0.3, 0.2 - left, left])
        predicted = float(f @ hypothesis)
        found = MultiplicativeWeights(4).updated(hypothesis, f, predicted, target, 0.0)
        assert found.sum() == pytest.approx(1, abs=1e-12) and found.min() >= 0
