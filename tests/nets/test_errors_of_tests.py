"""Rank tests and identity tests: p-values are those of their laws, and decisions and intervals follow from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpstats.identity import FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest
from dpstats.identity.whitening import unit_vector
from dpstats.ranks import KruskalWallisTest, MannWhitneyTest, SignedRankTest
from tests.nets.statements import FAR, Cell, Numbers, check, fits, scores, wrong

# No two groups of one size.
SIZES = {1: (50,), 2: (35, 15), 3: (25, 15, 10)}
RANKS: dict[str, tuple[int, Callable[..., Any]]] = {
    "signed ranks": (1, lambda **more: SignedRankTest(**more)),
    "two groups": (2, lambda **more: MannWhitneyTest(groups=["a", "b"], sizes=SIZES[2], **more)),
    "three groups": (3, lambda **more: KruskalWallisTest(groups=["a", "b", "c"], sizes=SIZES[3], **more)),
}
PLACES = (("sampling", 50.0), ("both", 0.5), ("noise", 0.05))


def grouped(count: int, shift: float = 0.0) -> Callable[[np.random.Generator], tuple[Any, ...]]:
    """Return what draws values of one law, with labels where there are groups; the first one's moved."""
    labels = np.repeat(np.array(["a", "b", "c"])[:count], SIZES[count])

    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        values = rng.normal(size=50) + shift * (labels == "a")
        return (values,) if count == 1 else (values, labels)

    return draw


def score(fitted: Any) -> Numbers:
    """Return the score of a p-value."""
    return scores([fitted.pvalue_])


def cell(name: str, made: Callable[[], Any], draw: Any, count: int = 1500) -> Cell:
    """Return a cell of p-values, whose check notices scores that are a sixth too large with 1,500 fits."""
    # A mean square of scores has errors of its own on both sides: 4.5 standard deviations where claims are right, and
    # as many where they are wrong. Simulated null distributions have errors too.
    return Cell(name, made, draw, score, count, off=0.05, power=1 - 2 * FAR / np.sqrt(2 * count))


RANK_CELLS = [
    cell(
        f"{name}, {place}",
        lambda made=made, count=count, epsilon=epsilon: made(
            epsilon=epsilon, **({} if count == 3 else {"alternative": "less"})
        ),
        grouped(count),
    )
    for name, (count, made) in RANKS.items()
    for place, epsilon in PLACES
    if count == 2 or place != "both"
]


# Columns of different spreads that are correlated, and means that are not 0.
ROOT = np.array([[2.0, 0.0, 0.0], [0.5, 1.0, 0.0], [-0.3, 0.2, 0.25]])
NORMAL: dict[str, Any] = {"mean": [1.0, -2.0, 0.5], "cov": ROOT @ ROOT.T}
SIGNS: dict[str, Any] = {"mean": [0.0, 0.3, -0.5], "null": "product"}
IDENTITY: dict[str, Callable[..., Any]] = {
    "row distance": lambda **more: RowDistanceTest(**NORMAL, **more),
    "row distance, signs": lambda **more: RowDistanceTest(**SIGNS, **more),
    "spatial sign": lambda **more: SpatialSignTest(**NORMAL, **more),
    "Lipschitz extension": lambda **more: LipschitzExtensionTest(**NORMAL, **more),
    "inner products": lambda **more: LipschitzExtensionTest(constraint="inner_product", **NORMAL, **more),
    "filtering": lambda **more: FilteringTest(**NORMAL, **more),
}
N, D = 40, 3


def rows(made: Any, distance: float = 0.0) -> Callable[[np.random.Generator], tuple[Any, ...]]:
    """Return what draws rows of the null hypothesis, or moved by so much in all directions alike."""

    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        if made.null == "product":
            return (np.where(rng.random((N, D)) < (1 + np.asarray(made.mean)) / 2, 1.0, -1.0),)
        return (np.asarray(made.mean) + (rng.normal(size=(N, D)) + distance / np.sqrt(D)) @ ROOT.T,)

    return draw


IDENTITY_CELLS = [
    cell(
        name,
        lambda made=made: made(epsilon=1.0, n_calibration=1999, cache_dir=None),
        rows(made()),
        400 if name == "filtering" else 1000,
    )
    for name, made in IDENTITY.items()
]


@pytest.mark.parametrize("cell", RANK_CELLS + IDENTITY_CELLS, ids=lambda cell: cell.name)
def test_pvalues_are_those_of_their_laws(cell: Cell) -> None:
    check(cell)


@pytest.mark.parametrize("name", ["row distance", "spatial sign"])
def test_intervals_of_distances_invert_the_law_of_the_statistic(name: str) -> None:
    made, distance = IDENTITY[name](epsilon=1.0, n_calibration=199, cache_dir=None), 0.8
    statistics = [fitted.statistic_ for fitted in fits(made, rows(made, distance), 500)]
    unit = unit_vector("dense", D)

    def scored(claimed: float) -> Numbers:
        # What an interval looks at: it misses where too few of these, or too many, are above the statistic.
        drawn = np.sort(made._alternative(made.plan_, claimed * unit, 1500))
        above = [np.searchsorted(-drawn[::-1], -np.asarray(statistics), side) for side in ("left", "right")]
        return scores(np.mean(above, axis=0) / drawn.size)

    assert wrong(scored(distance), off=0.1) == []
    assert wrong(scored(0.8 * distance), off=0.1)


@pytest.mark.parametrize("name", [name for name in IDENTITY if name != "filtering"])
def test_a_test_rejects_where_its_pvalue_is_at_most_its_level(name: str) -> None:
    for level in (0.25, 0.1):
        made = IDENTITY[name](level=level, n_calibration=199, cache_dir=None, random_state=0)
        made.fit(*rows(made)(np.random.default_rng(0)))
        # At every value that the calibration has seen, and beside it: one of them is the critical value.
        null = np.asarray(made.plan_.null)
        asked = np.concatenate([null, np.nextafter(null, np.inf), np.nextafter(null, -np.inf)])
        assert made.threshold_ in asked
        decided = []
        for value in asked.tolist():
            made._combine = lambda released, plan, value=value: value
            made._report({}, made.plan_)
            decided.append(made.reject_)
            assert made.reject_ == (made.pvalue_ <= level), value
        assert 0 < np.mean(decided) < 1
