"""Heavy tails on the integers: their law by chi-square, exact and simulated alike, and integers of any size."""

from __future__ import annotations

import random
import secrets
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpstats.release.noise import ExactNoise, SimulatedNoise, exact_heavy, simulated_heavy
from tests.sensitivity.test_levels import law

N = 3000


def pvalue(found: Any, noise: str, scale: float) -> float:
    """Return a p-value of a chi-square over thirty cells about 0 and the two tails."""
    k = np.arange(-int(60 * scale), int(60 * scale) + 1)
    masses = law(noise, scale, k)
    edges = np.unique(np.rint(scale * stats.t(1).isf(np.linspace(0.97, 0.03, 31))))
    inside = [masses[(k >= low) & (k < high)].sum() for low, high in pairwise(edges)]
    counts = np.histogram([int(np.clip(x, -1e15, 1e15)) for x in found], [-1e16, *edges, 1e16])[0]
    below = masses[k < edges[0]].sum() + (1 - masses.sum()) / 2
    expected = len(found) * np.array([below, *inside, 1 - below - sum(inside)])
    return float(stats.chisquare(counts, expected).pvalue)


@pytest.mark.parametrize(("noise", "power"), [("cauchy", 1), ("student", 2)])
def test_laws_are_the_stated_ones(noise: str, power: int) -> None:
    # False alarm 1e-6 each; a scale off by two fifths is seen.
    for scale in (8.0, 37.5):
        for found in (
            [exact_heavy(scale, power, secrets.randbelow) for _ in range(N)],
            simulated_heavy(scale, power, np.random.default_rng(5), N).tolist(),
        ):
            assert pvalue(found, noise, scale) > 1e-6
            assert pvalue(found, noise, 1.4 * scale) < 1e-6


def test_sources_draw_them() -> None:
    exact, simulated = ExactNoise(), SimulatedNoise(np.random.default_rng(0))
    assert exact.cauchy(1e12, (2, 3)).shape == (2, 3) and exact.student(10.0, 4).dtype == object
    assert simulated.student(1e15, 1000).dtype == np.int64
    # Cauchy's law has no largest integer, and noise is not cut, which would show what it is added to.
    far = simulated.cauchy(1e15, 100_000)
    assert np.abs(far).max() < 2**62


@pytest.mark.parametrize(("noise", "power"), [("cauchy", 1), ("student", 2)])
def test_a_source_draws_each_law_by_its_power(noise: str, power: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scale = 7.5
    monkeypatch.setattr("secrets.randbelow", random.Random(1).randrange)
    below = random.Random(1).randrange
    assert list(getattr(ExactNoise(), noise)(scale, 40)) == [exact_heavy(scale, power, below) for _ in range(40)]
    simulated = getattr(SimulatedNoise(np.random.default_rng(2)), noise)(scale, 40)
    assert simulated.tolist() == simulated_heavy(scale, power, np.random.default_rng(2), 40).tolist()


def test_a_draw_is_cut_nowhere() -> None:
    # Bits that are 0 for seventy boxes, and then small.
    answers = iter([0] * 70 + [1, 5, 0])
    found = exact_heavy(8.0, 1, lambda bound: next(answers) if bound < 2**60 else 2**64)
    assert found == 2**64 - 8 * 2**70 and abs(found) > 2**72
