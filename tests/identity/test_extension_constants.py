"""Lipschitz constants of extensions of T from C(Delta), by brute force, beside docs/proofs/lipschitz-extension.md."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from dpstats.identity import inner_product_constant


def count_vectors(n: int, patterns: int) -> Iterator[tuple[int, ...]]:
    if patterns == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in count_vectors(n - first, patterns - 1):
            yield (first, *rest)


def smallest_constant(n: int, d: int, Delta: int) -> float:
    """Return the largest change of T per replaced row within C(Delta): any extension needs it, and it is enough."""
    signs = np.array(list(product([-1, 1], repeat=d)))
    counts = np.array(list(count_vectors(n, 2**d)))
    sums = counts @ signs
    inside = ((np.abs(sums @ signs.T) <= Delta) | (counts == 0)).all(axis=1)
    counts, statistics = counts[inside], (sums[inside] ** 2).sum(axis=1) - n * d
    found = 0.0
    for one, value in zip(counts, statistics, strict=True):
        replaced = np.abs(counts - one).sum(axis=1) // 2
        found = max(found, float(np.max(np.abs(statistics - value) / np.maximum(replaced, 1))))
    return found


@pytest.mark.parametrize(("n", "d"), [(8, 1), (33, 1), (100, 1), (6, 2), (9, 2), (16, 2), (4, 3), (5, 3)])
def test_the_smallest_constant_lies_between_the_theorems(n: int, d: int) -> None:
    null = math.sqrt(3 * math.log(n) * n * d)
    for Delta in {d, math.ceil(d + null / 3), math.ceil(d + null)}:
        assert smallest_constant(n, d, Delta) <= inner_product_constant(n, d, Delta)
    # Theorem 2b is about large n and d. It holds here, too.
    assert smallest_constant(n, d, math.ceil(d + null)) >= math.sqrt(2 / math.pi) * math.sqrt(n) * d


@pytest.mark.parametrize(("n", "d"), [(256, 256), (1024, 1024), (256, 8192)])
def test_steps_of_the_lower_bound(n: int, d: int) -> None:
    rng = np.random.default_rng(n + d)
    Delta = d + math.sqrt(3 * math.log(n) * n * d)
    k = round(math.sqrt(2 * n / math.pi) - 2 / math.pi)
    X = rng.choice(np.array([-1, 1], np.float32), (n, d))
    S = X.sum(axis=0)
    v = np.where(S >= 0, -1, 1).astype(np.float32)
    Y = X.copy()
    Y[:k] = v
    after = Y.sum(axis=0)
    assert abs(v @ after) < d / 2 + 3 * math.sqrt(n * d)  # step 1
    assert np.abs(X @ S).max() <= Delta and np.abs(Y @ after).max() <= Delta  # steps 2 and 3
    assert (Y[k:] @ after).mean() / d == pytest.approx(1 - 2 / math.pi, abs=0.07)
    assert after @ after / (n * d) == pytest.approx(1 - 2 / math.pi, abs=0.03)
    assert (S @ S - after @ after) / (n * d) == pytest.approx(2 / math.pi, abs=0.05)  # step 4
