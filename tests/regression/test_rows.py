"""What the rows answer: sums of integers, each a function of one row by itself."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpstats.regression.blocks import COUNTED, REACH, X_BITS, Blocks, Design, Question
from dpstats.regression.rows import (
    CURVATURE,
    GRADIENT,
    MEAT,
    MOMENTS,
    OUTSIDE,
    Center,
    Directions,
    LinearStep,
    LogisticStep,
    Moments,
    Norms,
    Outcome,
    SecondMoments,
    Size,
    Tail,
    coordinates,
)

BITS = 20
D = 3
DESIGN = Design.check([(-2, 4), (0, 10), (-1, 1)], (-3, 5), D, True)


def model() -> tuple[np.ndarray, bool, np.ndarray]:
    shift = np.rint(np.array([0.1, -0.2, 0.3]) * 2**X_BITS)
    return shift, True, coordinates(np.array([0.1, 0.5, -0.4, 0.2]), D + 1)


def questions() -> list[Question]:
    rng = np.random.default_rng(0)
    shift = model()[0]
    white = coordinates(rng.normal(size=(D + 1, D + 1)), D + 1)
    slopes = coordinates(rng.normal(size=(D, D)), D)
    return [
        Center("center", False),
        Center("center", True),
        Directions(shift, 2.0 ** (X_BITS - 2), BITS),
        Norms("norms", shift, False, slopes, np.array([0.5, 1.0, 2.0])),
        Outcome("rate"),
        Size(*model(), "size", 1.0, True),
        Tail(*model(), white, 1.5, BITS, "tail", 0.2, 0.5),
        Moments(*model(), "mean", "square", 0.7),
        LinearStep(*model(), white, 1.5, BITS, 0.3, False, False),
        LinearStep(*model(), white, 1.5, BITS, 0.3, True, True),
        LinearStep(*model(), white, 1.5, BITS, 0.3, True, False),
        LogisticStep(*model(), white, 1.5, BITS),
        SecondMoments(*(float(round(w * 2**X_BITS)) for w in (0.4, 0.5, 1.2)), "l2", BITS),
        SecondMoments(*(float(round(w * 2**X_BITS)) for w in (0.4, 0.5, 2.0)), "l1", BITS),
    ]


def data(n: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * [2, 5, 0.5] + [1, 5, 0]
    X[rng.random(n) < 0.02] *= 1e6
    X[rng.random(n) < 0.01] = 1e308
    return X, rng.normal(scale=3, size=n)


def answer(question: Question, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    return Blocks(X, y, DESIGN).answer(question)


@pytest.mark.parametrize("question", questions(), ids=lambda question: type(question).__name__)
def test_sums_are_those_of_the_rows_alone(question: Question) -> None:
    # Bit for bit: alone, in another order, in another block, and beside rows of any kind.
    X, y = data(40)
    total = answer(question, X, y)
    alone = [answer(question, X[i : i + 1], y[i : i + 1]) for i in range(40)]
    order = np.random.default_rng(2).permutation(40)
    for name, value in total.items():
        assert value.dtype == np.int64
        assert np.array_equal(value, sum(part[name] for part in alone))
        assert np.array_equal(value, answer(question, X[order], y[order])[name])
    more_X, more_y = data(9000, 3)
    beside = answer(question, np.vstack([more_X, X]), np.append(more_y, y))
    without = answer(question, more_X, more_y)
    for name, value in total.items():
        assert np.array_equal(beside[name] - without[name], value)


@pytest.mark.parametrize("kind", ["f4", "i8", "F", "strided"])
def test_the_kind_of_array_does_not_matter(kind: str) -> None:
    X, y = np.rint(data(60)[0].clip(-100, 100)), np.rint(data(60)[1])
    made: Any = X.astype(kind) if kind in ("f4", "i8") else np.asfortranarray(X)
    if kind == "strided":
        made = np.repeat(X, 2, axis=0)[::2]
    for question in questions():
        for name, value in answer(question, X, y).items():
            assert np.array_equal(answer(question, made, y)[name], value)


def test_a_step_is_what_its_formula_says() -> None:
    X, y = data(200)
    X = X.clip([-5, -5, -3], [7, 15, 3])  # within reach
    white, (shift, _, theta) = questions()[9].whitening, model()  # type: ignore[attr-defined]
    found = answer(questions()[9], X, y)
    z = np.rint((X - DESIGN.center) / DESIGN.half * 2**X_BITS) - shift
    rows = np.column_stack([np.full(200, 2.0**X_BITS), z])
    xt = rows @ white.T
    factor = np.minimum(1, 1.5 / np.linalg.norm(xt, axis=1))
    u = xt * factor[:, None] / 1.5
    r = np.clip((y - 1) / 4, -1, 1) - rows @ theta
    v = np.clip(r / 0.3, -1, 1) * factor
    unit = 2.0 ** (2 * BITS)
    assert np.allclose(found[GRADIENT] / unit, (v[:, None] * u).sum(0), atol=1e-3)
    kept = np.abs(r) < 0.3
    gram = (u[kept, :, None] * u[kept, None, :]).sum(0)
    assert np.allclose(found[f"{CURVATURE}, diagonal"] / unit, np.diag(gram), atol=2e-3)
    # Without the meat, and with the curvature of all rows
    earlier = answer(questions()[10], X, y)
    assert all(np.array_equal(value, found[name]) for name, value in earlier.items())
    assert set(found) - set(earlier) == {f"{MEAT}, diagonal", f"{MEAT}, above the diagonal"}
    whole = (u[:, :, None] * u[:, None, :]).sum(0)
    first = answer(questions()[8], X, y)
    assert np.allclose(first[f"{CURVATURE}, diagonal"] / unit, np.diag(whole), atol=2e-3)
    assert np.trace(whole) > 1.2 * np.trace(gram)
    meat = ((v[:, None] * u)[:, :, None] * (v[:, None] * u)[:, None, :]).sum(0)
    assert np.allclose(found[f"{MEAT}, above the diagonal"] / unit, meat[np.triu_indices(4, 1)], atol=2e-3)


def test_every_row_is_inside_its_bounds() -> None:
    X, y = data(3000)
    for i in range(0, 3000, 300):
        for question in questions():
            found = answer(question, X[i : i + 1], y[i : i + 1])
            if isinstance(question, Center):
                assert np.abs(found["center"]).max() <= 2**X_BITS
            elif isinstance(question, Norms):
                assert sorted(found["norms"].tolist()) == [0, 0, 0, 2**20]
            elif isinstance(question, LinearStep | LogisticStep):
                g = [int(k) for k in found[GRADIENT]]
                assert sum(k * k for k in g) <= 2 ** (4 * BITS)
                trace = int(found[f"{CURVATURE}, diagonal"].sum())
                assert 0 <= trace <= 4**BITS * (1 + Fraction(1, 2**15))
            elif isinstance(question, SecondMoments):
                own = int(found[f"{MOMENTS}, diagonal"].sum())
                beside = int(np.abs(found[f"{MOMENTS}, above the diagonal"]).sum())
                assert 0 < (own if question.norm == "l2" else own + 2 * beside) <= 4**BITS
                assert found[OUTSIDE].tolist() == [(not -3 <= y[i] <= 5) << 20]


def test_products_with_the_furthest_row_are_exact() -> None:
    # The widest row that a lattice holds, against coordinates with all their bits: as Python's integers have it.
    reach = 2.0 ** (X_BITS + REACH)
    X = DESIGN.center + DESIGN.half * 2.0**REACH * np.array([[1.0, -1.0, 1.0]])
    shift, _, theta = model()
    block = Blocks(X, np.zeros(1), DESIGN).block(slice(None))
    assert np.abs(block.z).max() == reach
    rows = block.rows(shift, True)
    exact = sum(Fraction(a) * Fraction(b) for a, b in zip(rows[0], theta, strict=True))
    assert Fraction(float((rows @ theta)[0])) == exact


def test_rows_beyond_reach_add_nothing() -> None:
    far = DESIGN.center + DESIGN.half * np.array([[0.0, 0.0, 2.0**COUNTED * 1.01]])
    for question in questions():
        if isinstance(question, Directions | LinearStep | LogisticStep | Tail | Moments):
            assert not any(value.any() for value in answer(question, far, np.ones(1)).values())
    near = DESIGN.center + DESIGN.half * np.array([[0.0, 0.0, 2.0**COUNTED * 0.99]])
    assert answer(questions()[8], near, np.ones(1))[GRADIENT].any()


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_row_at_the_reach_counts_as_it_does_among_others(side: float) -> None:
    # Half-widths of 1 about 0: this row is beyond the reach by less than half a step.
    design = Design.check([(-1.0, 1.0)] * 2, (-1.0, 1.0), 2, True)
    at_reach, beyond = [side * np.nextafter(2.0**COUNTED, np.inf), 0.5], [0.5, 2.0 * 2.0**COUNTED]
    alone = Blocks(np.array([at_reach]), np.ones(1), design).block(slice(None))
    among = Blocks(np.array([at_reach, beyond]), np.ones(2), design).block(slice(None))
    assert alone.far.tolist() == [True] and among.far.tolist() == [True, True]


def test_outcomes_beyond_their_bounds_are_counted_and_moved() -> None:
    block = Blocks(np.zeros((3, D)), np.array([-4.0, 5.0, 6.0]), DESIGN).block(slice(None))
    assert block.y.tolist() == [-1, 1, 1]
    assert block.outside.tolist() == [True, False, True]
