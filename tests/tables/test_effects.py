"""Differences and ratios of two groups: coverage, p-values that agree with intervals, and noise alone."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.inference.noisy_counts import CountNoise, NoisyShare
from dpstats.tables.equations import COHENS_H, DIFFERENCE, ODDS_RATIO, RISK_RATIO, effect

MEASURES = (DIFFERENCE, RISK_RATIO, ODDS_RATIO, COHENS_H)


def pair(counts: np.ndarray, scale: float) -> list[NoisyShare]:
    noise = CountNoise("laplace", scale)
    return [NoisyShare(float(a), float(b), noise, noise) for a, b in counts]


@pytest.mark.parametrize(
    ("n", "epsilon", "first", "shares"),
    [
        (40, 1.0, 0.1, (0.02, 0.02)),
        (200, 0.5, 0.5, (0.3, 0.05)),
        (200, 5.0, 0.1, (0.1, 0.1)),
        (2000, 0.1, 0.5, (0.5, 0.5)),
    ],
)
def test_intervals_cover(n: int, epsilon: float, first: float, shares: tuple[float, float]) -> None:
    # 30 tables of four effects; five standard errors: a false alarm below 1e-6 each.
    rng, (a, b) = np.random.default_rng(3), shares
    table = np.array([first * a, first * (1 - a), (1 - first) * b, (1 - first) * (1 - b)])
    truths = (a - b, a / b, a * (1 - b) / (b * (1 - a)), COHENS_H.of(a, b))
    hits = np.zeros(4)
    for _ in range(30):
        counts = rng.multinomial(n, table) + CountNoise("laplace", 2 / epsilon).draw(rng, (4,))
        for j, measure in enumerate(MEASURES):
            low, high = effect(*pair(counts.reshape(2, 2), 2 / epsilon), measure, "").confidence_interval()
            hits[j] += low <= truths[j] <= high
    assert np.all(hits / 30 > 0.95 - 5 * np.sqrt(0.05 * 0.95 / 30))


def test_much_data_and_little_noise_are_the_plain_estimates() -> None:
    counts = np.array([[3000.0, 7000.0], [2000.0, 8000.0]])
    found = [effect(*pair(counts, 0.05), measure, "") for measure in MEASURES]
    assert [round(one.estimate, 6) for one in found] == [
        0.1,
        1.5,
        round(12 / 7, 6),
        round(float(COHENS_H.of(0.3, 0.2)), 6),
    ]
    low, high = found[0].confidence_interval()
    half = 1.959964 * np.sqrt(0.21 / 10_000 + 0.16 / 10_000)
    # A grid of 150 points is rounded outward.
    assert half < 0.1 - low < 1.03 * half + 2e-4 and half < high - 0.1 < 1.03 * half + 2e-4
    low, high = found[2].confidence_interval()
    half = 1.959964 * np.sqrt(sum(1 / counts.ravel()))
    assert np.log(12 / 7 / low) == pytest.approx(half, rel=0.05) == np.log(high / (12 / 7))


def test_pvalues_agree_with_intervals() -> None:
    rng = np.random.default_rng(0)
    for _ in range(6):
        counts = rng.multinomial(300, [0.2, 0.3, 0.2, 0.3]) + CountNoise("laplace", 5.0).draw(rng, (4,))
        for measure in MEASURES:
            one = effect(*pair(counts.reshape(2, 2), 5.0), measure, "")
            inside = one.confidence_interval(1 - 0.9 * one.pvalue)
            assert inside.low <= measure.none <= inside.high
            if one.pvalue < 0.5:
                outside = one.confidence_interval(1 - 1.3 * one.pvalue)
                assert not outside.low < measure.none < outside.high


def test_what_noise_leaves_nothing_of() -> None:
    empty = np.array([[-3.0, 2.0], [40.0, 60.0]])
    found = [effect(*pair(empty, 20.0), measure, "") for measure in MEASURES]
    assert found[0].pvalue > 0.5
    low, high = found[0].confidence_interval()
    assert low < -0.4 and high > 0.6 and low >= -1 and high <= 1
    low, high = found[1].confidence_interval()
    assert low == 0 and high > 1.5
    assert found[2].confidence_interval().high == np.inf
    text = str(effect(*pair(np.array([[-3.0, -2.0], [4.0, 6.0]]), 20.0), RISK_RATIO, "words").summary())
    assert "–" in text and "Not estimated: noise hides whether a group" in text and "inf" in text and "words" in text


def test_cohens_h_is_exchanged_and_inverted() -> None:
    for a, b in ((0.1, 0.3), (0.9, 0.2), (0.0, 1.0), (0.5, 0.5)):
        h = COHENS_H.of(a, b)
        assert h == pytest.approx(2 * np.arcsin(np.sqrt(a)) - 2 * np.arcsin(np.sqrt(b)))
        assert COHENS_H.of(b, a) == pytest.approx(COHENS_H.exchanged(h))
        assert float(COHENS_H.second(a, h)) == pytest.approx(b, abs=1e-9)
    # No second proportion is further away than 1.
    assert float(COHENS_H.second(0.9, -3.0)) == -1.0
