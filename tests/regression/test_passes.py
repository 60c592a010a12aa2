"""Passes by loops have the results of numpy, bit for bit. Python runs the same loops, and numba if it is installed."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

from dpstats.data import Table
from dpstats.lattice import products
from dpstats.lattice.products import ROWS, compute_room, inside_ball, powered_norms
from dpstats.regression import PrivateCountRegression, PrivateLinearRegression, PrivateLogisticRegression, passes
from dpstats.regression.blocks import Blocks, DesignRows
from dpstats.regression.passes import UNCOMPILED, Bins, CompiledPasses, Passes, choose_passes
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
    points, others = (np.empty((n, d + 1), dtype=np.float32) for _ in range(2))
    one, other = PLAIN, CompiledPasses(loops)
    assert one.convert(X, center, scale, 2.0**20, points) and other.convert(X, center, scale, 2.0**20, others)
    assert np.array_equal(points, others) and (points[:, -1] == 1).all()
    shift, factors = np.rint(rng.normal(size=d) * 100), np.rint(rng.normal(size=d + 1) * 1000)
    rows, weights = points[:, :-1].astype(np.float64) * 3, rng.random(n)
    y, fitted, squares = rng.normal(size=n), rng.normal(size=n), rng.exponential(size=n)
    curves, known = rng.random((9, 4)), rng.random((3, n))
    bins = Bins(4.0 ** np.arange(-3, 4) * 1.1)
    results: Any = [
        (
            each.clip_and_sum(points, 700.0),
            each.subtract(points, shift),
            each.squared_norms(points, shift),
            each.combine(points, factors),
            each.scale_narrow(points, weights),
            each.weigh(np.rint(weights * 1000), points),
            each.residuals(y, fitted, 0.7),
            each.excess(y, fitted, 0.3, 0.9),
            each.round(y, weights, 2.0**20),
            *each.logistic(y, weights),
            each.interpolate(y, -1.0, 0.25, curves),
            each.interpolate(np.append(y[1:], np.nan), -1.0, 0.25, curves)[:, :-1],
            each.pull(y, 2.0, known[:3], 1.3),
            each.sizes(y, 2.0, known[:2], 4.0),
            each.sum_sides(weights, y, 0.2, 2.0**30),
            each.count(squares, bins),
            *each.reach(squares, 0.8, 2.0**20)[:2],
        )
        for each in (one, other)
    ]
    for first, second in zip(*results, strict=True):
        assert first.dtype == second.dtype and np.array_equal(first, second)
    multiplied, also = rows.copy(), rows.copy()
    one.multiply(multiplied, weights)
    other.multiply(also, weights)
    assert np.array_equal(multiplied, also) and np.array_equal(also, rows * weights[:, None])
    for copies in (False, True):
        scaled, again = rows.copy(), rows.copy()
        kept = (np.empty(rows.shape, np.float32), np.empty(rows.shape, np.float32)) if copies else (None, None)
        one.scale(scaled, weights, kept[0])
        other.scale(again, weights, kept[1])
        assert np.array_equal(scaled, again) and np.array_equal(scaled, np.rint(rows * weights[:, None]))
        if kept[0] is not None and kept[1] is not None:
            assert np.array_equal(kept[0], scaled) and np.array_equal(kept[1], again)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf, 1e308, 4.01, -4.01])
def test_an_entry_that_is_not_near_is_seen(loops: Any, entry: float) -> None:
    for each in (PLAIN, CompiledPasses(loops)):
        for value, near in ((4.0, True), (entry, False)):
            X, points = np.zeros((5, 3)), np.empty((5, 4), dtype=np.float32)
            X[4, 2] = value
            assert each.convert(X, np.zeros(3), np.full(3, 2.0**18), 2.0**20, points) == near


@pytest.mark.filterwarnings("ignore")
def test_rows_are_scaled_as_those_of_unknown_norms_are(loops: Any) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1000, 6)) * 10.0 ** rng.uniform(-9, 9, (1000, 1))
    squares, most = powered_norms(rows, "l2"), 2**20 - compute_room(6, "l2")
    for each in (PLAIN, CompiledPasses(loops)):
        longest, factors, beyond = each.reach(squares, 1.0, most)
        assert beyond is None or not beyond.any()
        scaled = rows.copy()
        each.scale(scaled, factors)
        assert np.array_equal(scaled, inside_ball(rows, longest, 2**20))
    for wrong in (np.nan, np.inf):
        for each in (PLAIN, CompiledPasses(loops)):
            squares[7] = wrong
            assert np.flatnonzero(each.reach(squares, 1.0, most)[2]).tolist() == [7]


def test_a_row_outside_its_length_becomes_zero(loops: Any) -> None:
    class Wrong(CompiledPasses):
        def reach(self, squares: Any, least: float, most: float, root: Any = None) -> Any:
            return super().reach(squares, least, most, np.full(len(squares), 0.999**-1.0))

    block = Blocks(np.full((3, 3), 0.5), np.zeros(3), DESIGN).block(slice(None))
    block.passes = Wrong(loops)
    rows = np.eye(3) * [[1.0], [3.0], [0.5]]
    copy = np.ones((3, 3), dtype=np.float32)
    block.shorten(rows, np.array([1.0, 9.0, 0.25]), 1.0, 20, copy)
    assert np.flatnonzero(rows.any(axis=1)).tolist() == [2] and np.array_equal(rows, copy)


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
