"""How many signals a noisy selection finds, against selections."""

import math
from functools import partial

import numpy as np
import pytest

from dpstats.means.sparse_design import (
    SURE,
    additive_tail,
    gumbel_tail,
    mean_score,
    normal_score,
    selected_share,
    share_found,
    weakest_found,
    weakest_selected,
    worst_score,
)

N, D, S = 2000, 1000, 10


def simulated(signal, clip, scale, replications=200):
    """Return the share that is found, from scores that are drawn; normal columns."""
    rng = np.random.default_rng(1)
    null, given = normal_score(np.zeros(1), clip), normal_score(np.array([signal]), clip)
    found = 0
    for _ in range(replications):
        centers = np.where(np.arange(D) < S, given.center, null.center)
        spread = np.where(np.arange(D) < S, given.std, null.std) / math.sqrt(N)
        scores = np.abs(centers + spread * rng.standard_normal(D)) + scale * rng.gumbel(size=D)
        found += np.count_nonzero(np.argpartition(-scores, S)[:S] < S)
    return found / (S * replications)


@pytest.mark.parametrize(("signal", "scale"), [(0.2, 0.02), (0.3, 0.02), (0.1, 0.002)])
def test_the_share_is_that_of_selections(signal, scale):
    share = selected_share("normal", np.array([signal]), 1.0, scale, N, D, S)[0]
    # 2000 signals, and the s-th of d columns for its level: four standard errors and a little.
    assert simulated(signal, 1.0, scale) == pytest.approx(share, abs=0.06)
    assert simulated(signal, 1.0, 8 * scale) < share - 0.06


def test_normal_scores():
    # E clip(z, -1, 1)^2 = Phi(1) - Phi(-1) - 2 phi(1) + 2 Phi(-1) = .51606.
    score = normal_score(np.array([0.0, 1e3]), 1.0)
    np.testing.assert_allclose(score.center, [0.0, 1.0], atol=1e-9)
    np.testing.assert_allclose(score.std, [math.sqrt(0.51606), 0.0], atol=2e-3)


def test_no_column_is_below_the_worst_score():
    rng = np.random.default_rng(0)
    clip = 1.5
    for _ in range(300):
        # Two values at every chance, of mean m and variance 1.
        p, m = rng.uniform(0.001, 0.999), rng.uniform(0, 2)
        values = m + np.array([math.sqrt((1 - p) / p), -math.sqrt(p / (1 - p))])
        for signal, flip in ((m, 1), (m, -1)):
            column = flip * (values - m) + signal
            clipped = np.array([p, 1 - p]) @ np.clip(column, -clip, clip)
            assert abs(clipped) >= worst_score(np.array([signal]), clip).center[0] - 1e-12
            centered = abs(np.array([p, 1 - p]) @ np.clip(column - signal, -clip, clip))
            assert centered <= worst_score(np.zeros(1), clip).center[0] + 1e-12
    # Attained: half the mass at clip + sqrt(1 + clip^2), seen from the other side.
    reach = math.hypot(1, clip)
    x = np.array([clip + reach, clip - reach])
    p = np.array([-x[1], x[0]]) / (x[0] - x[1])
    assert abs(p @ np.clip(x, -clip, clip)) == pytest.approx(worst_score(np.zeros(1), clip).center[0])


def test_means_with_noise_of_both_signs():
    null, given = mean_score(np.zeros(1), 0.0), mean_score(np.array([0.5]), 0.0)
    for noise, std in (("gaussian", 1.0), ("laplace", math.sqrt(2))):
        rng = np.random.default_rng(2)
        draw = rng.standard_normal if noise == "gaussian" else partial(rng.laplace, 0.0, 1.0)
        scale, hits = 0.1, 0
        for _ in range(200):
            means = np.where(np.arange(100) < 5, 0.5, 0.0) + rng.standard_normal(100) / 20 + scale * draw(100)
            hits += np.count_nonzero(np.argsort(-np.abs(means))[:5] < 5)
        share = share_found(null, given, additive_tail(noise, scale), 400, 100, 5)[0]
        assert hits / 1000 == pytest.approx(share, abs=0.05), std
    biased = mean_score(np.array([0.0, 1.0]), 0.2)
    np.testing.assert_allclose(biased.center, [0.2, 1 - 0.2 * math.sqrt(2)])


def test_the_weakest_signal_is_found_and_no_weaker_one():
    for law in ("normal", "any"):
        weakest = weakest_selected(law, 2.0, 0.01, N, D, S)
        shares = selected_share(law, weakest * np.array([0.98, 1.0, 1.02]), 2.0, 0.01, N, D, S)
        assert shares[0] < SURE <= shares[2]
        assert shares[1] == pytest.approx(SURE, abs=0.01)
    assert weakest_selected("any", 2.0, 0.01, N, D, S) > 2 * weakest_selected("normal", 2.0, 0.01, N, D, S)
    # A score cannot exceed its clip: where noise does, nothing is found, however strong.
    assert weakest_selected("normal", 1.0, 0.5, N, D, S) == math.inf
    assert weakest_selected("normal", 1.0, 0.5, N, D, D) == 0.0
    assert weakest_found(lambda m: np.ones(len(m))) == 0.0


def test_tails():
    x = np.array([[-1.0, 0.0, 2.0]])
    np.testing.assert_allclose(gumbel_tail(2.0)(x, 0.5), 1 - np.exp(-np.exp(-(x - 0.5) / 2)))
    np.testing.assert_allclose(additive_tail("laplace", 1.0)(np.array([1.0]), np.array([0.0])), math.exp(-1))
