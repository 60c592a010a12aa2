"""What the rows of a log-linear regression answer: sums of integers, each a function of one row by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpstats.regression.blocks import X_BITS, Blocks, Design, Question
from dpstats.regression.log_linear_plan import EXCESS, TILT, Curves, Excess, LogLinearStep, Rates, Spread, WeightedNorms
from dpstats.regression.rows import CURVATURE, GRADIENT, MEAT, OUTSIDE, SIZE, Center, coordinates

BITS, D, HIGH = 20, 3, 30.0
DESIGN = replace(Design.check([(-2, 4), (0, 10), (-1, 1)], (0, HIGH), D, True), exposure=(0.5, 8.0))
MODEL = (np.rint(np.array([0.1, -0.2, 0.3]) * 2**X_BITS), True, coordinates(np.array([0.3, 0.5, -0.4, 0.2]), D + 1))
WHITE = coordinates(np.random.default_rng(0).normal(size=(D + 1, D + 1)), D + 1)
POINTS = np.linspace(-5.0, 5.0, 41)
CURVES = Curves(
    -5.0,
    0.25,
    np.exp(POINTS),
    np.exp(POINTS / 2),
    1 + np.exp(POINTS / 2),
    0.1 * np.sin(POINTS),
    1 / (1 + np.exp(POINTS)),
    0.5 + 0.5 * np.cos(POINTS),
)


def questions() -> list[Question]:
    return [
        Center("center", False, DESIGN.offsets),
        Rates("rates", 2.0 ** np.arange(-8.0, 1.0)),
        Spread(*MODEL, CURVES, HIGH / 2, "size", 0.4, True),
        Spread(*MODEL, CURVES, HIGH / 2, "size", 0.4, False),
        WeightedNorms(*MODEL, CURVES, HIGH / 2, "norms", WHITE, np.array([0.5, 1.0, 2.0])),
        LogLinearStep(*MODEL, WHITE, 1.5, BITS, CURVES, HIGH / 2, 0.1, False),
        LogLinearStep(*MODEL, WHITE, 1.5, BITS, CURVES, HIGH / 2, 0.1, True),
        Excess(*MODEL, CURVES, HIGH / 2, 2.0, 0.4, 1.0),
    ]


def data(n: int, seed: int = 1) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * [2, 5, 0.5] + [1, 5, 0]
    X[rng.random(n) < 0.02] *= 1e6
    X[rng.random(n) < 0.01] = 1e308
    return X, rng.negative_binomial(1, 0.1, n).astype(float) - 2, rng.uniform(0.1, 20, n)


def answer(question: Question, X: np.ndarray, y: np.ndarray, exposure: np.ndarray | None) -> dict[str, Any]:
    return Blocks(X, y, DESIGN, exposure).answer(question)


@pytest.mark.parametrize("question", questions(), ids=lambda question: type(question).__name__)
def test_sums_are_those_of_the_rows_alone(question: Question) -> None:
    # Bit for bit: alone, in another order, in another block, and beside rows of any kind.
    rows = data(40)
    total = answer(question, *rows)
    alone = [answer(question, *(part[i : i + 1] for part in rows)) for i in range(40)]
    order = np.random.default_rng(2).permutation(40)
    for name, value in total.items():
        assert value.dtype == np.int64
        assert np.array_equal(value, sum(part[name] for part in alone))
        assert np.array_equal(value, answer(question, *(part[order] for part in rows))[name])
    more = data(9000, 3)
    beside = answer(question, *(np.concatenate(pair) for pair in zip(more, rows, strict=True)))
    without = answer(question, *more)
    for name, value in total.items():
        assert np.array_equal(beside[name] - without[name], value)


def test_a_step_is_what_its_formula_says() -> None:
    X, y, exposure = data(200)
    X = X.clip([-5, -5, -3], [7, 15, 3])  # within reach
    found = answer(questions()[6], X, y, exposure)
    z = np.rint((X - DESIGN.center) / DESIGN.half * 2**X_BITS) - MODEL[0]
    rows = np.column_stack([np.full(200, 2.0**X_BITS), z])
    linear = rows @ MODEL[2] + np.log(exposure.clip(0.5, 8.0))
    curves = {
        name: np.interp(linear, POINTS, getattr(CURVES, name)) for name in ("mean", "clip", "pull", "weight", "curved")
    }
    xt = rows @ WHITE.T * curves["weight"][:, None]
    factor = np.minimum(1, 1.5 / np.linalg.norm(xt, axis=1))
    u = xt * factor[:, None] / 1.5
    r = np.clip((y.clip(0, HIGH) - curves["mean"]) / curves["clip"], -1, 1)
    v = (r - curves["pull"]) / 1.1 * factor
    unit = 2.0 ** (2 * BITS)
    assert np.allclose(found[GRADIENT] / unit, (v[:, None] * u).sum(0), atol=1e-3)
    gram = (curves["curved"][:, None, None] * u[:, :, None] * u[:, None, :]).sum(0)
    assert np.allclose(found[f"{CURVATURE}, diagonal"] / unit, np.diag(gram), atol=2e-3)
    pulls = v[:, None] * u
    meat = (pulls[:, :, None] * pulls[:, None, :]).sum(0)
    assert np.allclose(found[f"{MEAT}, above the diagonal"] / unit, meat[np.triu_indices(4, 1)], atol=2e-3)
    early = answer(questions()[5], X, y, exposure)
    assert {name: value.tolist() for name, value in early.items()} == {
        name: value.tolist() for name, value in found.items() if MEAT not in name
    }


def test_sizes_rates_and_excesses_are_what_their_formulas_say() -> None:
    X, y, exposure = data(300)
    X = X.clip([-5, -5, -3], [7, 15, 3])
    asked = questions()
    z = np.rint((X - DESIGN.center) / DESIGN.half * 2**X_BITS) - MODEL[0]
    inside = exposure.clip(0.5, 8.0)
    linear = z @ MODEL[2][1:] + MODEL[2][0] * 2**X_BITS + np.log(inside)
    mean, std, clip = (np.interp(linear, POINTS, getattr(CURVES, name)) for name in ("mean", "std", "clip"))
    cut = y.clip(0, HIGH)
    sizes = np.minimum(np.abs(cut - mean) / (4 * std), 1)
    found = answer(asked[2], X, y, exposure)
    halves = [sizes[linear <= 0.4].sum(), sizes[linear > 0.4].sum()]
    assert np.allclose(found[SIZE] * 2.0**-30, halves, atol=1e-6)
    assert found[OUTSIDE].tolist() == [((y < 0) | (y > HIGH)).sum() << 30]
    assert answer(asked[3], X, y, exposure)["size"].tolist() == found[SIZE].tolist()
    counts = np.bincount(np.searchsorted(2.0 ** np.arange(-8.0, 1.0), cut / HIGH / inside), minlength=10)
    assert (answer(asked[1], X, y, exposure)["rates"] >> 20).tolist() == counts.tolist()
    excess = np.maximum((cut - mean) / clip - 1, 0)
    tilt = np.clip(linear - 0.4, -1, 1)
    both = answer(asked[7], X, y, exposure)
    assert both[EXCESS][0] * 2.0**-30 == pytest.approx(np.minimum(excess / 2, 1).sum())
    assert both[TILT][0] * 2.0**-30 == pytest.approx((np.minimum(excess, 1) * tilt).sum())
    center = answer(asked[0], X, y, exposure)["center"]
    middle, half = (np.log(8) + np.log(0.5)) / 2, (np.log(8) - np.log(0.5)) / 2
    assert center[-1] * 2.0**-X_BITS == pytest.approx(((np.log(inside) - middle) / half).sum(), abs=1e-3)


def test_tables_are_linear_between_points_and_constant_beyond() -> None:
    at = np.array([-np.inf, -9.0, -5.0, -4.9, 0.0, 0.125, 4.99, 5.0, 40.0, np.inf])
    for name in ("mean", "curved"):
        found = CURVES.evaluate(at, name)[0]
        assert np.allclose(found, np.interp(at, POINTS, getattr(CURVES, name)), rtol=1e-12)
    assert np.allclose(CURVES.points(), POINTS)


def test_rows_far_away_have_no_weight() -> None:
    X, y, exposure = data(50)
    near = X.clip([-5, -5, -3], [7, 15, 3])
    far = near.copy()
    far[7] = 1e200
    for question in questions()[2:]:
        if isinstance(question, WeightedNorms):
            continue
        kept = np.arange(50) != 7
        one, other = answer(question, far, y, exposure), answer(question, near[kept], y[kept], exposure[kept])
        for name in one.keys() - {OUTSIDE}:
            assert np.array_equal(one[name], other[name]), name
