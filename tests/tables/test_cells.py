"""Released cells: margins, projections, and intervals of proportions that cover."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from dpstats.errors import InvalidParameter
from dpstats.inference.noisy_counts import CountNoise
from dpstats.tables.null_tests import Cells, projection

NOISE = CountNoise("laplace", 2.0)


def cells_of(counts: np.ndarray, total: float = 100.0, total_noise: CountNoise | None = None) -> Cells:
    names = ("sex", "age", "group")[: counts.ndim]
    levels = tuple(tuple("abcd"[:size]) for size in counts.shape)
    return Cells(counts, total, NOISE, total_noise, names, levels)


@pytest.mark.parametrize("least", [0.0, 0.5])
def test_projections_are_the_nearest_points(least: float) -> None:
    points = np.random.default_rng(0).normal(0, 5, (6, 4))
    found = projection(points, np.full(6, 3.0), least)
    assert np.allclose(found.sum(axis=1), 3) and found.min() >= least - 1e-12
    for point, near in zip(points, found, strict=True):
        sums = {"type": "eq", "fun": lambda x: x.sum() - 3}
        best = minimize(
            lambda x, p=point: ((x - p) ** 2).sum(), np.full(4, 0.75), bounds=[(least, None)] * 4, constraints=sums
        )
        assert np.allclose(near, best.x, atol=1e-3)


def test_a_total_that_is_too_small_lowers_what_is_least() -> None:
    assert projection(np.array([[5.0, 1.0]]), np.array([0.4]), 0.5).tolist() == [[0.2, 0.2]]
    assert projection(np.array([[5.0, 1.0]]), np.array([0.0])).tolist() == [[0.0, 0.0]]


def test_margins_add_up_and_their_noise_too() -> None:
    counts = np.arange(24.0).reshape(2, 3, 4)
    cells = cells_of(counts)
    two = cells.over([2, 0])
    assert np.array_equal(two.counts, counts.sum(axis=1).T) and two.noise.times == 3
    assert two.names == ("group", "sex") and two.levels == (("a", "b", "c", "d"), ("a", "b"))
    assert cells.over([1]).noise.times == 8 and cells.over([0, 1, 2]).noise == NOISE
    assert cells.positions("axis", "age") == (1,) and cells.positions("axis", ["age", 2]) == (1, 2)
    for wrong in ("height", 3, True, ["sex", 0], [], -1):
        with pytest.raises(InvalidParameter):
            cells.positions("axis", wrong)
    assert cells.code(0, "b", "groups") == 1
    with pytest.raises(InvalidParameter, match="'a', 'b'"):
        cells.code(0, "c", "groups")


@pytest.mark.parametrize("total_noise", [None, NOISE])
def test_intervals_of_proportions_cover(total_noise: CountNoise | None) -> None:
    # 40 tables of six cells; five standard errors: a false alarm below 1e-6 each.
    rng, n = np.random.default_rng(1), 60
    shares = np.array([[0.4, 0.05, 0.05], [0.01, 0.09, 0.4]])
    within = shares / shares.sum(axis=1, keepdims=True)
    hits = np.zeros((3, 40))
    for i in range(40):
        counts = rng.multinomial(n, shares.ravel()) + NOISE.draw(rng, (6,))
        total = n + (0 if total_noise is None else float(total_noise.draw(rng, (1,))[0]))
        cells = cells_of(counts.reshape(2, 3).astype(float), total if total_noise else n, total_noise)
        for row, (over, truth, together) in enumerate(
            ((None, shares, False), ((1,), within, False), (None, shares, True))
        ):
            low, high = cells.estimates(over).confidence_interval(0.9, simultaneous=together)
            inside = (low <= truth) & (truth <= high)
            hits[row, i] = inside.all() if together else inside.mean()
    assert np.all(hits.mean(axis=1) > 0.9 - 5 * np.sqrt(0.09 / 40))
    assert "add up to 1 over age" in cells.estimates((1,)).estimand


def test_attributes_are_lists_and_arrays_of_names_and_positions() -> None:
    cells = cells_of(np.ones((2, 3, 4)))
    for several in (["age", "sex"], ("age", 0), pd.Index(["age", "sex"]), np.array(["age", "sex"]), np.array([1, 0])):
        assert cells.positions("axis", several) == (1, 0)
    for wrong in (np.zeros((2, 2)), pd.DataFrame({"a": [1]}), [np.zeros(2)], pd.NA, 0.5, np.array(3)):
        with pytest.raises(InvalidParameter, match="an attribute must"):
            cells.positions("axis", wrong)
