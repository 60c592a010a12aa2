"""The cost of a replaced row against vectors, and precisions that nothing beats."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dpstats.queries import residual_release as allocation
from dpstats.queries.domain import cell_variance, closure, residual
from dpstats.queries.residual_release import allocate, movement

SHAPES = [(2, 3), (2, 2, 2), (3, 2, 4), (2, 3, 2, 2)]
Weights = dict[tuple[int, ...], float]


def brute_force(weights: Weights, shape: tuple[int, ...]) -> dict[frozenset[int], float]:
    """Return mu^2 of all pairs of cells, by the attributes in which they differ: the largest and the least are one."""
    found: dict[frozenset[int], float] = {}
    for a, b in itertools.combinations(np.ndindex(shape), 2):
        total = 0.0
        for table, weight in weights.items():
            moved = np.zeros([shape[j] for j in table])
            moved[tuple(a[j] for j in table)] += 1
            moved[tuple(b[j] for j in table)] -= 1
            total += weight * float((residual(moved) ** 2).sum())
        differ = frozenset(j for j in range(len(shape)) if a[j] != b[j])
        assert found.setdefault(differ, total) == pytest.approx(total, rel=1e-10)
    return found


def some_weights(shape: tuple[int, ...], k: int) -> Weights:
    rng = np.random.default_rng(len(shape))
    parts = closure(list(itertools.combinations(range(len(shape)), k)))
    return {part: float(rng.uniform(0.1, 3)) for part in parts}


def twice_added(weights: Weights, shape: tuple[int, ...]) -> float:
    """Return twice what a row that is added costs: the planted bug, which is too little."""
    return 2 * sum(w * np.prod([1 - 1 / shape[j] for j in table]) for table, w in weights.items())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("k", [1, 2])
def test_the_cost_is_that_of_the_worst_pair(shape: tuple[int, ...], k: int) -> None:
    weights = some_weights(shape, k)
    found = brute_force(weights, shape)
    most = max(found.values())
    assert most <= movement(weights, shape) <= most * (1 + 1e-11)


def test_what_others_state_is_too_little() -> None:
    ones: Weights = {(0,): 1.0, (1,): 1.0, (2,): 1.0}
    found = brute_force(ones, (2, 2, 2))
    assert max(found.values()) == pytest.approx(2 * twice_added(ones, (2, 2, 2)))
    alone = max(cost for differ, cost in found.items() if len(differ) == 1)
    assert alone == pytest.approx(max(found.values()) / 3)


@pytest.mark.parametrize("shape", SHAPES)
def test_many_attributes_have_a_bound(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    weights = some_weights(shape, 2)
    exact = movement(weights, shape)
    monkeypatch.setattr(allocation, "MOST_ATTRIBUTES", 0)
    assert exact <= movement(weights, shape) * (1 + 1e-12)
    # Each residual's own worst pair is attained.
    for table in weights:
        alone = {table: 1.0}
        assert movement(alone, shape) == pytest.approx(max(brute_force(alone, shape).values()), rel=1e-10)


def total(weights: Weights, tables: Any, shape: tuple[int, ...]) -> float:
    return sum(cell_variance(weights, table, shape) for table in tables)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_other_precisions_are_better(shape: tuple[int, ...]) -> None:
    tables = list(itertools.combinations(range(len(shape)), 2))
    best = allocate(tables, shape)
    assert movement(best, shape) == pytest.approx(1.0, rel=1e-9)
    least = total(best, tables, shape)
    rng = np.random.default_rng(0)
    for size in (0.05, 0.3):
        for _ in range(50):
            other = {part: w * float(np.exp(size * rng.normal())) for part, w in best.items()}
            assert total(other, tables, shape) * movement(other, shape) >= least * (1 - 5e-4)
    equal = dict.fromkeys(best, 1.0)
    assert total(equal, tables, shape) * movement(equal, shape) > least


def test_the_published_comparison() -> None:
    # RAND: 84 tables of 2 and 3 of 8 attributes. The sum of what each residual moves by at most costs 5676 instead.
    shape = (6, 5, 2, 4, 4, 2, 4, 4)
    tables = [table for k in (2, 3) for table in itertools.combinations(range(8), k)]
    assert total(allocate(tables, shape), tables, shape) == pytest.approx(3664, rel=1e-3)


def test_more_than_twenty_attributes_are_allocated() -> None:
    shape = (2, 3) * 11
    weights = allocate([(j, j + 1) for j in range(21)], shape)
    assert movement(weights, shape) == pytest.approx(1.0, rel=1e-9)
    assert len(weights) == 43 and min(weights.values()) > 0
