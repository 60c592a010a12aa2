"""Second moments of (1, x, y): what a row moves them by, and what the plan knows."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpstats.privacy import JointStage, compose
from dpstats.regression.blocks import X_BITS, Blocks, Design
from dpstats.regression.linear_path import STAGE, MomentsPlan, moments_integers, moments_plan, weights
from dpstats.regression.rows import MOMENTS


def plan(norm: str = "l2", n: int = 5000, d: int = 3, epsilon: float = 1.0, intercept: bool = True) -> MomentsPlan:
    design = Design.check((-2, 6), (-1, 3), d, intercept)
    return moments_plan(design, n, epsilon, 1e-6 if norm == "l2" else 0.0, "error")


def entries(norm: str, u: tuple[int, ...], w: tuple[int, ...]) -> Fraction:
    """Return what a row moves the matrix by: squared in Frobenius' norm, or the sum of the sizes of its entries."""
    pairs = itertools.product(range(len(u)), repeat=2)
    moved = [abs(u[i] * u[j] - w[i] * w[j]) for i, j in pairs]
    return Fraction(sum(one * one for one in moved) if norm == "l2" else sum(moved))


@pytest.mark.parametrize(("norm", "p", "K"), [("l2", 2, 5), ("l2", 3, 3), ("l1", 2, 6), ("l1", 3, 4)])
def test_a_ball_on_a_small_lattice(norm: str, p: int, K: int) -> None:
    power = 2 if norm == "l2" else 1
    rows = [
        row for row in itertools.product(range(-K, K + 1), repeat=p) if sum(abs(k) ** power for k in row) <= K**power
    ]
    most = max(entries(norm, u, w) for u, w in itertools.combinations(rows, 2))
    # 2 in units of the ball, attained by two axes.
    assert most == 2 * K ** (4 if norm == "l2" else 2)
    stage = moments_integers(p, 10, 4, norm)
    stated = stage.l2**2 if norm == "l2" else stage.l1
    assert 2 < stated < 2.05


@pytest.mark.parametrize(("m", "K"), [(2, 4), (3, 2), (4, 1)])
def test_a_box_moves_half_of_what_its_corners_norm_says(m: int, K: int) -> None:
    rows = list(itertools.product(range(-K, K + 1), repeat=m))
    most = max(entries("l1", u, w) for u, w in itertools.combinations(rows, 2))
    assert most == m**2 * K**2
    rng = np.random.default_rng(m)
    u, w = rng.uniform(-1, 1, (2, 20_000, m))
    u[::2], w[1::3] = np.sign(u[::2]), np.sign(w[1::3])
    moved = np.abs(u[:, :, None] * u[:, None, :] - w[:, :, None] * w[:, None, :]).sum(axis=(1, 2))
    assert moved.max() <= m**2


def test_entries_above_the_diagonal_get_less_noise_as_they_count_twice() -> None:
    for norm, factor in (("l2", math.sqrt(2)), ("l1", 2.0)):
        noise = plan(norm).matrix_noise
        assert noise.diagonal == pytest.approx(factor * noise.above, rel=1e-9)


def test_noise_is_what_the_guarantee_needs() -> None:
    stage = plan("l1", n=1000, epsilon=0.5).stage(STAGE)
    assert isinstance(stage, JointStage)
    (diagonal,) = (block for block in stage.blocks if block.name == f"{MOMENTS}, diagonal")
    assert stage.noise_scale(diagonal) == pytest.approx(2.04 / 0.5 / 1000, rel=1e-6)
    assert stage.event.pure_cost() == pytest.approx(0.5)
    made = plan("l2")
    assert compose(made.events, 1e-6).epsilon == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("d", [1, 4, 60])
def test_weights_are_near_the_best(norm: str, d: int) -> None:
    constant, outcome, radius = weights(norm, d, True)
    assert constant == outcome
    room = 0.25 * d if norm == "l2" else d / 3

    def variance(v: float, slopes: float) -> float:
        length = room + 2 * v**2 if norm == "l2" else (room + 2 * v) ** 2
        return length**2 * (1 / v**2 + slopes)

    assert radius == pytest.approx(math.sqrt(room + 2 * outcome**2) if norm == "l2" else room + 2 * outcome)
    for slopes in (0.0, 0.5, 1.0):
        best = min(variance(v, slopes) for v in np.geomspace(0.01, 100, 4000))
        assert variance(outcome, slopes) < (1.8 if d < 60 else 3.0) * best
    assert weights(norm, d, False)[2] < radius


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_rows_keep_their_length_inside_and_outcomes_do_not_matter_outside(norm: str) -> None:
    made = plan(norm, d=2)
    asked, design = made.question, made.design

    def matrix(x: list[float], y: float) -> np.ndarray:
        found = Blocks(np.array([x]), np.array([y]), design).answer(asked)
        M = np.zeros((4, 4))
        M[np.triu_indices(4, 1)] = found[f"{MOMENTS}, above the diagonal"]
        return (M + M.T + np.diag(found[f"{MOMENTS}, diagonal"])) / 4.0**made.bits

    # The middle of x is 2, of y 1; half-widths are 4 and 2.
    inside = matrix([2 + 1.2, 2 - 0.8], 3.0)
    row = np.array([asked.constant, 0.3 * 2**X_BITS, -0.2 * 2**X_BITS, asked.outcome]) / asked.bound
    assert np.allclose(inside, np.outer(row, row), atol=1e-5)
    # Far out the factor is one of x alone.
    up, down, middle = (matrix([40.0, 2.0], y) for y in (3.0, -1.0, 1.0))
    assert np.allclose(up[:3, :3], down[:3, :3])
    assert np.allclose(up[:3, :3], middle[:3, :3])
    assert np.allclose(up[3, :3], -down[3, :3])
    assert up[0, 0] < 0.1 * inside[0, 0]
    length = np.sqrt(np.trace(up)) if norm == "l2" else np.abs(up).sum() ** 0.5
    assert length == pytest.approx(1, abs=1e-4)


def test_the_note_is_what_errors_are() -> None:
    made = plan(n=100_000, d=3)
    _, outcome, radius = weights("l2", 3, True)
    # Columns and outcome spread by a quarter, slopes explain half: the error of a slope by hand.
    noise = made.matrix_noise.above * math.sqrt(1 + outcome**2 / 2) / (0.25 / radius) ** 2
    sampling = math.sqrt(0.5) * 0.25 / 0.25 / math.sqrt(100_000) * outcome
    assert made.noise_ratio == pytest.approx(noise / sampling, rel=1e-3)
    assert plan(n=200, d=20).noise_only
    assert not made.noise_only


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("n", [2, 10**6, 2**40])
def test_any_size_has_a_plan(norm: str, n: int) -> None:
    made = plan(norm, n=n)
    assert made.n_samples * 4**made.bits <= 2**62
    assert made.guarantee.epsilon == 1.0
