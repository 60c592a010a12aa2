"""Rows on the lattice: products are exact, and rows that are kept answer as rows that are read again."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpstats.data import Table
from dpstats.errors import InvalidData
from dpstats.lattice.products import ROWS
from dpstats.regression import PrivateLinearRegression, PrivateLogisticRegression, blocks
from dpstats.regression.blocks import REACH, X_BITS, Blocks, Coordinates, Design, DesignRows
from dpstats.regression.rows import LinearStep, coordinates
from tests.regression.test_rows import DESIGN, data, model, questions


@pytest.mark.parametrize("n", [1, 2, 5000])
def test_kept_rows_answer_as_rows_that_are_read_again(n: int) -> None:
    X, y = data(n)
    X = X.clip(-1e300, 1e300)
    kept = DesignRows(Table(X, y), DESIGN).keep()
    assert kept.blocks is not None
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(len(questions())), 3))
    for place in order:
        # Questions of one fit share coordinates and balls, and each copy has arrays of its own.
        question = questions()[place]
        found, expected = kept.answer(question), Blocks(X, y, DESIGN).answer(question)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert np.array_equal(found[name], value)


def test_a_change_of_one_parameter_is_not_answered_from_what_was_kept() -> None:
    X, y = data(300)
    kept = DesignRows(Table(X.clip(-1e300, 1e300), y), DESIGN).keep()
    step = questions()[8]
    shift, theta, white = step.shift, step.theta, step.whitening  # type: ignore[attr-defined]
    first = kept.answer(step)
    for change in ({"radius": 1.1}, {"bits": 11}, {"shift": shift + 1}, {"theta": theta * 2}, {"whitening": white * 2}):
        other = replace(step, **change)  # type: ignore[type-var]
        found, expected = kept.answer(other), Blocks(X, y, DESIGN).answer(other)
        assert all(np.array_equal(found[name], value) for name, value in expected.items())
        assert any(not np.array_equal(found[name], value) for name, value in first.items())
        kept.answer(step)


@pytest.mark.parametrize("estimator", [PrivateLinearRegression, PrivateLogisticRegression])
@pytest.mark.parametrize("missing", ["error", "drop"])
def test_releases_do_not_depend_on_what_is_kept(estimator: type, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = np.random.default_rng(3).normal(size=(9000, 3)), np.arange(9000) % 2
    if missing == "drop":
        X[::7, 1] = np.nan
    bounds = {"y_bounds": (0, 1)} if estimator is PrivateLinearRegression else {}
    made = estimator(x_bounds=(-3, 3), missing=missing, random_state=0, **bounds)
    kept = made.fit(X, y).params_.tobytes()
    monkeypatch.setattr(blocks, "MOST_KEPT", 100)
    assert made.fit(X, y).params_.tobytes() == kept


def test_rows_of_other_processes_and_large_tables_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere(Table):
        local = False

    X, y = data(10)
    assert DesignRows(Elsewhere(X, y), DESIGN).keep().blocks is None
    monkeypatch.setattr(blocks, "MOST_KEPT", 10 * 8 * 10 - 1)
    assert DesignRows(Table(X, y), DESIGN).keep().blocks is None


def test_a_missing_entry_is_refused_before_any_query() -> None:
    X, y = data(10)
    X[3, 1] = np.nan
    with pytest.raises(InvalidData, match="NaN"):
        DesignRows(Table(X, y), DESIGN).keep()
    assert DesignRows(Table(X, y), DESIGN, drops=True).keep().blocks is not None


@pytest.mark.parametrize("intercept", [True, False])
def test_products_with_the_furthest_row_are_exact(intercept: bool) -> None:
    # The shift is part of the matrix: as Python's integers have it.
    X = DESIGN.center + DESIGN.half * 2.0**REACH * np.array([[1.0, -1.0, 1.0]])
    block = Blocks(X, np.zeros(1), DESIGN).block(slice(None))
    _, _, theta = model()
    theta, shift = theta if intercept else theta[1:], np.array([2.0**X_BITS, -(2.0**X_BITS), 12345.0])
    rows = [2**X_BITS] * intercept + [int(z - s) for z, s in zip(block.z[0], shift, strict=True)]
    exact = sum(Fraction(a) * Fraction(b) for a, b in zip(rows, theta, strict=True))
    assert Fraction(float(block.combine(Coordinates(shift, intercept, theta))[0])) == exact


@pytest.mark.parametrize("d", [1, 3, 40])
def test_short_rows_have_larger_blocks_and_the_same_sums(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert blocks._cut_blocks(10**6, d)[0].stop == {1: 96, 3: 48, 40: 4}[d] * ROWS
    rng = np.random.default_rng(d)
    n, design = 9 * ROWS + 5, Design.check((-1, 1), (-1, 1), d, True)
    X, y = rng.uniform(-3, 3, (n, d)), rng.uniform(-1, 1, n)
    white = coordinates(np.eye(d + 1) + 0.1 * rng.normal(size=(d + 1, d + 1)), d + 1)
    step = LinearStep(np.zeros(d), True, np.full(d + 1, 1e-7), white, 2.0, 20, 0.5, True, True)
    first = Blocks(X, y, design).answer(step)
    monkeypatch.setattr(blocks, "_cut_blocks", lambda n, d: [slice(0, 100), slice(100, n)])
    again = Blocks(X, y, design).answer(step)
    assert all(np.array_equal(first[name], again[name]) for name in first)
