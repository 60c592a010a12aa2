"""What a row moves gradient, Gram matrix and meat by, together: the lemmas, by brute force and on polynomials."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpstats.regression.rows import (
    ANY_MOVEMENT,
    LAST_MOVEMENT,
    LAST_WEIGHT,
    LOGISTIC_WEIGHT,
    STEP_WEIGHT,
    gradient_integers,
    gram_integers,
    last_integers,
    logistic_integers,
    step_integers,
    weighted_integers,
)
from dpstats.release.additive import JointIntegers


def gram_distance(u: np.ndarray, h: np.ndarray, w: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Return ||h uu' - g ww'||^2 for rows u, w and factors h, g, in Frobenius' norm."""
    inner = (u * w).sum(-1)
    return h**2 * (u * u).sum(-1) ** 2 + g**2 * (w * w).sum(-1) ** 2 - 2 * h * g * inner**2


def random_rows(d: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows in the unit ball, most of them near its surface."""
    rows = rng.normal(size=(n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) * rng.beta(5, 0.5, (n, 1))


def linear(v: np.ndarray, u: np.ndarray, z: np.ndarray, w: np.ndarray, weight: float) -> np.ndarray:
    gradient = ((v[:, None] * u - z[:, None] * w) ** 2).sum(-1)
    return gradient + weight * gram_distance(u, np.ones(len(u)), w, np.ones(len(w)))


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_a_step_moves_by_no_more_than_its_gradient_alone(d: int) -> None:
    rng = np.random.default_rng(d)
    u, w = random_rows(d, 200_000, rng), random_rows(d, 200_000, rng)
    w[::2] = u[::2] * rng.uniform(-1, 1, (100_000, 1))  # parallel rows are the worst
    v, z = (np.clip(rng.normal(scale=2, size=len(u)), -1, 1) for _ in range(2))
    assert linear(v, u, z, w, STEP_WEIGHT).max() <= 4
    if d > 1:
        # A little more weight is more than free: rows of norm 1 at an angle, that pull apart.
        angle = np.linspace(0, 1, 1001)
        first, second = np.zeros((1001, d)), np.zeros((1001, d))
        first[:, 0], second[:, 0], second[:, 1] = 1.0, np.cos(angle), np.sin(angle)
        assert linear(np.ones(1001), first, -np.ones(1001), second, 0.6).max() > 4


def test_a_step_exhaustively_on_a_small_lattice() -> None:
    K = 4
    points = [(x, y) for x, y in itertools.product(range(-K, K + 1), repeat=2) if x * x + y * y <= K * K]
    rows = [(u, v) for u in points for v in range(-K, K + 1)]
    most = Fraction(0)
    for (u, v), (w, z) in itertools.product(rows[::3], rows):
        gradient = sum((v * a - z * b) ** 2 for a, b in zip(u, w, strict=True))
        inner = u[0] * w[0] + u[1] * w[1]
        gram = (u[0] ** 2 + u[1] ** 2) ** 2 + (w[0] ** 2 + w[1] ** 2) ** 2 - 2 * inner**2
        most = max(most, Fraction(gradient + 0, K**4) + Fraction(gram, 2 * K**4))
    assert most == 4


@pytest.mark.parametrize("d", [1, 2, 4])
def test_the_last_step(d: int) -> None:
    rng = np.random.default_rng(10 + d)
    n = 200_000
    u, w = random_rows(d, n, rng), random_rows(d, n, rng)
    w[::2] = u[::2] * rng.uniform(0.8, 1, (n // 2, 1))
    v, z = (np.clip(rng.normal(scale=2, size=n), -1, 1) for _ in range(2))
    kept, other = rng.integers(0, 2, n).astype(float), rng.integers(0, 2, n).astype(float)
    gradient = ((v[:, None] * u - z[:, None] * w) ** 2).sum(-1)
    total = gradient + LAST_WEIGHT * (gram_distance(u, kept, w, other) + gram_distance(u, v**2, w, z**2))
    assert total.max() <= LAST_MOVEMENT
    assert total.max() > 4  # what leaving rows out costs
    same = np.minimum(kept, other)
    both = gradient + LAST_WEIGHT * (gram_distance(u, same, w, same) + gram_distance(u, v**2, w, z**2))
    assert both.max() <= 4


@pytest.mark.parametrize("d", [1, 2, 4])
def test_a_logistic_step(d: int) -> None:
    rng = np.random.default_rng(20 + d)
    n = 300_000
    u, w = random_rows(d, n, rng), random_rows(d, n, rng)
    w[::2] = u[::2] * rng.uniform(0.8, 1, (n // 2, 1))
    a, b = rng.beta(0.7, 0.5, n), rng.beta(0.7, 0.5, n)
    v, z = a * rng.choice([-1.0, 1.0], n), b * rng.choice([-1.0, 1.0], n) * rng.uniform(size=n) ** 0.2
    h, g = 4 * a * (1 - a), 4 * b * (1 - b)
    gradient = ((v[:, None] * u - z[:, None] * w) ** 2).sum(-1)
    assert (gradient + LOGISTIC_WEIGHT * gram_distance(u, h, w, g)).max() <= 4


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("last", [False, True])
def test_a_step_whose_rows_have_any_curvature(d: int, last: bool) -> None:
    rng = np.random.default_rng(30 + d)
    n = 200_000
    u, w = random_rows(d, n, rng), random_rows(d, n, rng)
    w[::2] = u[::2]
    v, z = (np.clip(rng.normal(scale=2, size=n), -1, 1) for _ in range(2))
    q, p = (np.clip(rng.normal(0.5, 1, n), 0, 1) for _ in range(2))
    total = ((v[:, None] * u - z[:, None] * w) ** 2).sum(-1)
    total += (LAST_WEIGHT if last else STEP_WEIGHT) * gram_distance(u, q, w, p)
    if last:
        total += LAST_WEIGHT * gram_distance(u, v**2, w, z**2)
    stated = LAST_MOVEMENT if last else ANY_MOVEMENT
    assert total.max() <= stated
    # What curvatures that differ cost: it is not free, as one curvature for all rows is.
    assert total.max() > 4 + (stated - 4) / 2


def upper_bound(values: np.ndarray, step: float, slope: float) -> float:
    """Return an upper bound of a function on an interval, from its values on a grid and its largest slope."""
    return float(values.max() + slope * step / 2)


def test_polynomials_of_the_proof() -> None:
    e = np.linspace(0, 1, 200_001)
    # |1 + 24 (1-e)(1-3e)| <= 49 on [0, 1].
    assert upper_bound(e + 24 * e * (1 - e) ** 2, e[1], 49) < 3.91
    f = e**2 + 24 * e**2 * (1 - e) ** 2
    assert upper_bound(f, e[1], 60) < 1.78
    assert upper_bound(f[150_000:], e[1], 60) < 1.41
    assert upper_bound((f + e)[100_000:], e[1], 61) < 2.36
    # The weight is about as large as it can be: at 1.6 short rows of middling odds move more than 4.
    assert ((2 - e) ** 2 + 1.6 * 16 * e**2 * (1 - e) ** 2).max() > 4


def later_step(name: str, p: int, n: int, bits: int, share: float) -> JointIntegers:
    return step_integers(name, p, n, bits, share, unclipped=True)


@pytest.mark.parametrize("made", [step_integers, later_step, last_integers, logistic_integers])
def test_stated_sensitivities_are_the_lemmas_with_room_for_rounding(made: object) -> None:
    item = made("step", 5, 1000, 20, 1.0)  # type: ignore[operator]
    exact = {last_integers: math.sqrt(LAST_MOVEMENT), later_step: math.sqrt(ANY_MOVEMENT)}.get(made, 2.0)
    assert exact < item.l2 < exact * (1 + 1e-4)
    coarse = made("step", 5, 1000, 10, 1.0)  # type: ignore[operator]
    assert coarse.l2 >= item.l2


@pytest.mark.parametrize(("last", "square"), [(False, ANY_MOVEMENT), (True, LAST_MOVEMENT)])
def test_the_stated_sensitivity_of_any_curvature_has_room_for_rounding(last: bool, square: float) -> None:
    fine, coarse = (weighted_integers("step", 5, 1000, bits, 1.0, last).l2 for bits in (20, 10))
    assert math.sqrt(square) < fine < math.sqrt(square) * (1 + 1e-4) < coarse


def test_a_gradient_alone_moves_by_twice_the_radius() -> None:
    item = gradient_integers("tail", 3, 100, 10, 0.5)
    assert (item.l2, item.size) == (2 * 4**10, 3)
    assert item.spacing * 100 * 4**10 == 1
    assert item.l1 >= math.sqrt(3) * item.l2


def test_units_are_what_the_weights_say() -> None:
    item = step_integers("step", 3, 100, 4, 1.0)
    gradient, diagonal, above = item.blocks
    assert gradient.unit_steps == 16**2
    assert diagonal.unit_steps == pytest.approx(16**2 / math.sqrt(STEP_WEIGHT))
    # An entry beside the diagonal counts twice in the norm.
    assert above.unit_steps == pytest.approx(diagonal.unit_steps / math.sqrt(2))
    assert (gradient.size, diagonal.size, above.size) == (3, 3, 3)
    assert len(gram_integers("directions", 1, 100, 16, 1.0).blocks) == 1
