"""The probability of superiority: the share of pairs without noise, and intervals that hold for any two laws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from dpstats.errors import InvalidParameter
from dpstats.ranks import MannWhitneyTest
from dpstats.ranks.statistics import SuperiorityErrors, superiority

Draw = Callable[[np.random.Generator, int], np.ndarray]


def fitted(x: np.ndarray, y: np.ndarray, epsilon: float, public: bool = True) -> MannWhitneyTest:
    made = MannWhitneyTest(
        groups=["x", "y"], sizes=(len(x), len(y)) if public else None, epsilon=epsilon, n_simulations=99, random_state=0
    )
    return made.fit(np.concatenate([x, y]), np.repeat(["x", "y"], [len(x), len(y)]))


def test_without_noise_it_is_the_share_of_pairs() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.poisson(3.0, 40), rng.poisson(2.0, 70)
    found = fitted(x, y, 1e5).superiority()
    assert found.estimate == pytest.approx(mannwhitneyu(x, y).statistic / 2800, abs=1e-3)
    assert found.names == ("P(x > y)",) and found.confidence_interval().low > 0.5
    assert found.test(0.5, alternative="greater").pvalue < 0.02


LAWS: dict[str, tuple[Draw, Draw, float]] = {
    "alike": (lambda r, n: r.normal(size=n), lambda r, n: r.normal(size=n), 0.5),
    "one between": (lambda r, n: r.choice([-1.0, 1.0], n), lambda r, n: r.uniform(-0.5, 0.5, n), 0.5),
    "rare": (lambda r, n: (r.random(n) < 0.1) * 2.0, lambda r, n: np.ones(n), 0.1),
    "ties": (lambda r, n: r.binomial(1, 0.6, n), lambda r, n: r.binomial(1, 0.3, n), 0.65),
}


@pytest.mark.parametrize("sizes", [(60, 60), (150, 20), (20, 150)])
@pytest.mark.parametrize("std", [0.0, 0.08])
@pytest.mark.parametrize("name", LAWS)
def test_intervals_hold_for_any_two_laws(name: str, std: float, sizes: tuple[int, int]) -> None:
    first, second, truth = LAWS[name]
    rng, runs, missed = np.random.default_rng(1), 400, 0
    for _ in range(runs):
        x, y = first(rng, sizes[0]), second(rng, sizes[1])
        share = np.mean(np.sign(x[:, None] - y[None]) + 1) / 2
        scale = std / np.sqrt(2)
        released = share + (rng.laplace(scale=scale) if std else 0.0)
        tails = SuperiorityErrors(released, min(sizes), scale).tails(np.asarray(truth))
        missed += min(float(tail) for tail in tails) < 0.025
    # False alarms have probability 1e-4 for each cell.
    assert missed / runs <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / runs)


@pytest.mark.parametrize("statistic", [-4000.0, -1250.0, 0.0, 1250.0, 4000.0])
@pytest.mark.parametrize("noise", [0.0, 1e-3, 300.0])
def test_limits_are_probabilities(statistic: float, noise: float) -> None:
    found = superiority(statistic, (50, 50), noise, ("a", "b"), True)
    low, high = found.confidence_interval()
    assert 0 <= low <= found.estimate <= high <= 1
    assert "simulated" in str(found.summary()).lower()


def test_private_sizes_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidParameter, match="sizes must"):
        fitted(rng.normal(size=30), rng.normal(size=30), 1.0, public=False).superiority()
