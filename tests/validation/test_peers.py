"""What the pages say of other libraries, computed from what those document."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import laplace

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("n", "epsilon"), [(2, 0.1), (2, 1.0), (10, 0.5), (1000, 0.01)])
def test_a_mean_whose_noise_follows_the_number_of_rows_loses_more(n: int, epsilon: float) -> None:
    # Noise of scale (upper - lower) / (n epsilon) on the mean of n rows in [0, 1]; one row, which is 1, is removed.
    z = np.linspace(0.0, 1.0, 20 * n + 1)
    before = laplace.logpdf(z, 1 / n, 1 / (n * epsilon))
    after = laplace.logpdf(z, 0.0, 1 / ((n - 1) * epsilon))
    stated = math.log(n / (n - 1)) + epsilon * (1 - 1 / n)
    assert np.max(before - after) == pytest.approx(stated, rel=1e-9) and stated > epsilon


def test_the_pages_print_these_losses() -> None:
    pages = [
        (ROOT / path).read_text(encoding="utf-8")
        for path in ("validation/results/audit_peers.md", "docs/faults-elsewhere.md")
    ]
    for epsilon in (1.0, 0.1):
        loss = math.log(2) + epsilon / 2
        assert all(f"{loss:.3g}".lstrip("0") in page for page in pages)


def pair_up(rows: list[int], order: np.ndarray) -> set[frozenset[int]]:
    """Return the pairs of shuffled rows; the last row is left out where their number is odd."""
    kept = rows[: len(rows) // 2 * 2]
    shuffled = [kept[place] for place in order if place < len(kept)]
    half = len(shuffled) // 2
    return {frozenset(pair) for pair in zip(shuffled[:half], shuffled[half:], strict=True)}


def test_one_row_more_changes_three_pairs_of_theil_sens_regression() -> None:
    # Whatever the shuffles: unless the two rows that enter are a pair, one pair goes and two come.
    rng, rows = np.random.default_rng(0), list(range(7))
    new = [pair_up([*rows, 7], rng.permutation(8)) for _ in range(200)]
    old = {frozenset(map(frozenset, pairs)) for pairs in (pair_up(rows, rng.permutation(6)) for _ in range(500))}
    least = [min(len(one ^ two) for two in old) for one in new]
    assert set(least) == {1, 3} and np.mean(np.array(least) == 3) > 0.7
