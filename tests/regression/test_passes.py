"""Passes by loops have the results of numpy, bit for bit. Python runs the same loops, and numba if it is installed."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpstats.data import Table
from dpstats.lattice import products
from dpstats.lattice.products import ROWS, from_panels, inside_ball, make_panels, powered_norms, to_panels
from dpstats.lattice.rounding import squared_norms
from dpstats.regression import PrivateCountRegression, PrivateLinearRegression, PrivateLogisticRegression, passes
from dpstats.regression.blocks import Ball, Blocks, Coordinates, DesignRows
from dpstats.regression.passes import UNCOMPILED, Bins, CompiledPasses, Passes, choose_passes
from dpstats.regression.rows import coordinates
from tests.regression.test_rows import DESIGN, data, questions

has_numba = importlib.util.find_spec("numba") is not None
PLAIN = Passes()


@pytest.fixture(params=["python", pytest.param("numba", marks=pytest.mark.skipif(not has_numba, reason="no numba"))])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return loops, compiled or not."""
    if request.param == "python":
        monkeypatch.setattr(products, "_loop", lambda: products.add_rows)
        monkeypatch.setattr(products, "_LINE", 8)
    found = UNCOMPILED if request.param == "python" else passes._compile()
    assert found is not None
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("d", [1, 5, 21, 300])
def test_loops_have_the_results_of_numpy(loops: Any, d: int) -> None:
    rng, n = np.random.default_rng(d), 200
    X, center, scale = rng.normal(size=(n, d)), rng.normal(size=d), 2.0 ** rng.integers(9, 12, d)
    points, panels = np.empty((n, d + 1), dtype=np.float32), make_panels(n, d + 1)
    one, other = PLAIN, CompiledPasses(loops)
    assert one.convert(X, center, scale, 2.0**20, points) and other.convert(X, center, scale, 2.0**20, panels)
    assert np.array_equal(panels, to_panels(points)) and (points[:, -1] == 1).all()
    assert np.array_equal(from_panels(panels, n), points)
    shift, factors = np.rint(rng.normal(size=d) * 100), np.rint(rng.normal(size=d + 1) * 1000)
    weights = rng.random(n)
    y, fitted, squares = rng.normal(size=n), rng.normal(size=n), rng.exponential(size=n)
    curves, known = rng.random((9, 4)), rng.random((3, n))
    bins = Bins(4.0 ** np.arange(-3, 4) * 1.1)
    results: Any = [
        (
            each.clip_and_sum(store, 700.0),
            each.square(store, shift, n),
            each.combine(store, factors, n),
            each.residuals(y, fitted, 0.7),
            each.excess(y, fitted, 0.3, 0.9),
            *each.logistic(y, weights),
            each.interpolate(y, -1.0, 0.25, curves),
            each.interpolate(np.append(y[1:], np.nan), -1.0, 0.25, curves)[:, :-1],
            each.pull(y, 2.0, known[:3], 1.3),
            each.sizes(y, 2.0, known[:2], 4.0),
            each.sum_sides(weights, y, 0.2, 2.0**30),
            *each.count(squares, bins),
            *each.count(squares, bins, np.rint(weights * 1000), 0.1),
            *each.count(squares, Bins(np.arange(1.0, 4.0)), None, 0.1),
        )
        for each, store in ((one, points), (other, panels), (other, points))
    ]
    for first, *others in zip(*results, strict=True):
        assert all(first.dtype == second.dtype and np.array_equal(first, second) for second in others)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf, 1e308, 4.01, -4.01])
def test_an_entry_that_is_not_near_is_seen(loops: Any, entry: float) -> None:
    for each in (PLAIN, CompiledPasses(loops)):
        for value, near in ((4.0, True), (entry, False)):
            X, store = np.zeros((5, 3)), make_panels(5, 4) if each.compiled else np.empty((5, 4), dtype=np.float32)
            X[4, 2] = value
            assert each.convert(X, np.zeros(3), np.full(3, 2.0**18), 2.0**20, store) == near


@pytest.mark.filterwarnings("ignore")
def test_rows_are_scaled_as_those_of_unknown_norms_are() -> None:
    rng = np.random.default_rng(0)
    block = Blocks(rng.normal(size=(1000, 3)), np.zeros(1000), DESIGN).block(slice(None))
    rows = rng.normal(size=(1000, 6)) * 10.0 ** rng.uniform(-9, 9, (1000, 1))
    rows[7], rows[8, 2] = np.nan, np.inf
    ball = Ball(Coordinates(np.zeros(6), False, None), 1.0, 20)
    block.whiten = lambda at: rows.copy()  # type: ignore[method-assign]
    found, factors = block.bound(ball)
    longest = np.maximum(np.sqrt(powered_norms(rows, "l2")), 1.0)
    expected = inside_ball(rows, longest, 2**20)
    assert np.array_equal(found, expected) and not found[[7, 8]].any()
    assert np.array_equal(factors, 1.0 / longest, equal_nan=True)


def test_a_row_outside_its_length_becomes_zero() -> None:
    block = Blocks(np.full((3, 3), 0.5), np.zeros(3), DESIGN).block(slice(None))
    rows = np.eye(3) * [[1.0], [3.0], [0.5]]
    block.whiten = lambda at: rows.copy()  # type: ignore[method-assign]
    block.kept = {}
    at = Coordinates(np.zeros(3), False, None)
    block.remember("norms", at.key, lambda: np.array([1.0, 8.9, 0.25]))  # the second is too small
    found, _ = block.bound(Ball(at, 1.0, 20))
    assert np.flatnonzero(found.any(axis=1)).tolist() == [0, 1, 2]
    block.kept, block.weight = {}, np.array([1.0, 1.002, 1.0])
    block.remember("norms", at.key, lambda: np.array([1.0, 9.0, 0.25]))
    found, _ = block.bound(Ball(at, 1.0, 20))
    assert np.flatnonzero(found.any(axis=1)).tolist() == [0, 2]


def test_counts_of_norms_are_those_of_exact_norms(loops: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows whose norm is an end of a bin, or next to it, are counted by numpy."""
    rng, n = np.random.default_rng(3), 300
    X = np.rint(rng.uniform(-1, 1, (n, 3)) * 64) / 64
    X[:40] = [[0.6, 0.8, 0.0]]
    X[40:50, 0] = 30.0  # far
    white = coordinates(np.array([[1.0, 0.0, 0.0], [0.3, 1.0, 0.0], [0.1, 0.2, 1.0]]), 3)
    at, stretch = Coordinates(np.rint(np.full(3, 0.1) * 2.0**18), False, white), rng.random(n)
    for weight in (None, rng.random(n)):
        for factors in (None, stretch):
            counts = []
            for found in (PLAIN, CompiledPasses(loops)):
                monkeypatch.setattr("dpstats.regression.blocks.choose_passes", lambda entries, found=found: found)
                design = DESIGN if weight is None else replace(DESIGN, weight=(0.0, 1.0))
                block = Blocks(X, np.zeros(n), design, weight=weight).block(slice(None))
                assert block.any_far
                squares = squared_norms(block.whiten(at) * (1.0 if factors is None else factors[:, None]))
                for off in (-1, 0, 1):
                    own = float(squares[0]) * (1 + off * 2.0**-52)
                    counts.append(block.count_norms(at, Bins(own * 4.0 ** np.arange(-3, 3)), factors))
            assert all(np.array_equal(counts[i], counts[i + 3]) for i in range(3))
            assert not np.array_equal(counts[0], counts[2])


def test_every_question_has_the_same_answer(loops: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(300 if loops is UNCOMPILED else 2 * ROWS + 7)
    X, answers = X.clip(-1e300, 1e300), []
    for found in (PLAIN, CompiledPasses(loops)):
        monkeypatch.setattr("dpstats.regression.blocks.choose_passes", lambda entries, found=found: found)
        sources = DesignRows(Table(X, y), DESIGN).keep(), Blocks(X, y, DESIGN)
        answers.append([source.answer(each) for each in questions() for source in sources])
    for first, second in zip(*answers, strict=True):
        assert all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.skipif(not has_numba, reason="no numba")
@pytest.mark.parametrize("model", [PrivateLinearRegression, PrivateLogisticRegression, PrivateCountRegression])
def test_a_fit_is_the_same_with_numba(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(9000, 4)) * [1, 1, 1, 3], rng.integers(0, 2, 9000).astype(float)
    bounds = {} if model is PrivateLogisticRegression else {"y_bounds": (0, 2)}
    for weights in (None, rng.random(9000)):
        more = {} if weights is None else {"weight_bounds": (0, 1)}
        made = model(x_bounds=(-3, 3), random_state=0, **bounds, **more)
        monkeypatch.setattr(passes, "FEWEST", 1 << 21)
        plain = made.fit(X, y, weights=weights).params_.tobytes()
        monkeypatch.setattr(passes, "FEWEST", 1)
        assert made.fit(X, y, weights=weights).params_.tobytes() == plain


def test_small_tables_do_not_import_numba() -> None:
    assert isinstance(choose_passes(1000), Passes) and not isinstance(choose_passes(1000), CompiledPasses)


def test_without_numba_passes_are_those_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_compile", lambda: None)
    assert not isinstance(choose_passes(1 << 30), CompiledPasses)
