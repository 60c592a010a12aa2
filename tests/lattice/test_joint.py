"""What one row moves weighted powers by, together: over all pairs of rows of small lattices."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpstats.errors import DPStatsError
from dpstats.lattice import BallLattice, BoxLattice, CrossLattice
from dpstats.lattice.base import (
    FREE_SQUARES,
    FREE_SQUARES_BALL,
    FREE_SQUARES_L1,
    ball_movement,
    box_movement,
    dropped_movement,
    free_weight,
)


def powers_of(steps, largest):
    """The integers that are added up, as dpstats.lattice.sums forms them."""
    second = steps * steps // largest
    return steps, second, steps * second // largest, second * second // largest


def largest_movement(weights, largest, norm):
    """By brute force over every pair of lattice points."""
    parts = [
        w * np.subtract.outer(power, power)
        for w, power in zip(weights, powers_of(np.arange(-largest, largest + 1), largest), strict=False)
    ]
    return float(np.max(sum(np.abs(part) if norm == "l1" else part.astype(float) ** 2 for part in parts)))


WEIGHTS = {
    "squares": (1.0, 1.6),
    "few squares": (1.0, 0.3),
    "many squares": (1.0, 2.5),
    "four powers": (1.0, 2.5, 1.5, 1.5),
    "even powers": (0.0, 1.0, 0.0, 1.2),
    "squares alone": (0.0, 1.0),
    "cubes": (1.0, 0.0, 2.0),
}


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("largest", [4, 37, 256, 2048])
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
def test_no_pair_of_entries_is_further_apart(weights, largest, norm):
    found, stated = largest_movement(weights, largest, norm), box_movement(weights, largest, norm)
    assert found <= stated
    # Attained but for the room that rounding is given, which a finer lattice needs less of.
    room = 60 / largest if norm == "l2" else 20 / largest
    assert found >= stated * (1 - room)


def test_squares_are_free_at_the_stated_weights_and_at_no_larger_ones():
    assert pytest.approx(1.66509, abs=1e-5) == FREE_SQUARES
    assert (pytest.approx(0.70711, abs=1e-5), 0.5) == (FREE_SQUARES_BALL, FREE_SQUARES_L1)
    t = math.sqrt(5) - 1  # the worst pair: z = 1 and z' = 1 - t
    assert t**2 * (1 + FREE_SQUARES**2 * (2 - t) ** 2) == pytest.approx(4, rel=1e-14)
    for w, largest in ((free_weight(FREE_SQUARES, 30), 2**30), (free_weight(FREE_SQUARES, 8), 2**8)):
        assert box_movement((1.0, w), largest, "l2") <= 4 * largest**2 * (1 + 1e-3)
    assert box_movement((1.0, free_weight(FREE_SQUARES, 30)), 2**30, "l2") <= 4 * 2.0**60 * (1 + 1e-11)
    assert box_movement((1.0, 1.7), 2**30, "l2") > 4 * 2.0**60 * (1 + 1e-3)
    assert box_movement((1.0, FREE_SQUARES_L1), 2**30, "l1") <= 2 * 2.0**30 * (1 + 1e-9)
    assert box_movement((1.0, 0.6), 2**30, "l1") > 2 * 2.0**30 * (1 + 1e-3)


def test_the_constant_without_rounding_fails_on_a_coarse_lattice():
    # Planted bug: the free weight, and the sensitivity of the sums alone, at 8 bits.
    found = largest_movement((1.0, FREE_SQUARES), 2**8, "l2")
    assert found > 4 * 4.0**8
    assert found <= box_movement((1.0, FREE_SQUARES * (1 - 1e-9)), 2**8, "l2")


def ball_points(radius, d):
    grid = np.array(list(itertools.product(range(-radius, radius + 1), repeat=d)))
    return grid[(grid**2).sum(axis=1) <= radius**2]


def ball_largest(weight, radius, d):
    points = ball_points(radius, d).astype(float)
    both = np.hstack([points, weight * (points**2 // radius)])
    norms = (both**2).sum(axis=1)
    return float(np.max(norms[:, None] + norms - 2 * both @ both.T))


@pytest.mark.parametrize(("radius", "d"), [(16, 2), (25, 2), (8, 3), (4, 4)])
@pytest.mark.parametrize("weight", [0.6, 0.68, 0.7])
def test_no_pair_of_rows_of_a_ball_is_further_apart(radius, d, weight):
    found, stated = ball_largest(weight, radius, d), ball_movement(weight, radius, d)
    assert found <= stated
    assert found >= 4.0 * radius**2


@pytest.mark.parametrize("weight", [0.5, 0.68, 0.7])
def test_the_room_for_rounding_in_a_ball_is_what_errors_of_a_step_can_add(weight):
    # Rows t = (a, a), s = (c, -c) of the circle, 2c^2 = x^2; every square off by a step to the worse side.
    radius = 4096
    x = np.linspace(0, 200, 100_001) / radius
    moved = x * np.sqrt(4 - x**2) / 2 * radius + 1
    found = float(np.max((4 - x**2) * radius**2 + 2 * weight**2 * moved**2)) - 4 * radius**2
    room = ball_movement(weight, radius, 2) - 4 * radius**2
    assert 0.99 * room <= found <= room


def in_region(rows, largest, ball):
    """Lattice points near rows of floats, in a ball or a box."""
    if not ball:
        return np.clip(np.rint(rows), -largest, largest).astype(np.int64)
    rows = rows * np.minimum(1, largest / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300))
    near = np.rint(rows)
    return np.where((near**2).sum(axis=1, keepdims=True) <= largest**2, near, np.trunc(rows)).astype(np.int64)


def movements(first, second, largest, weights, norm):
    """How far weighted powers of rows are apart: squared for "l2"."""
    parts = zip(weights, powers_of(first, largest), powers_of(second, largest), strict=False)
    moved = [w * (a - b).astype(float) for w, a, b in parts]
    return sum((np.abs(part) if norm == "l1" else part**2).sum(axis=1) for part in moved)


def furthest_found(d, largest, weights, norm, ball, starts=300, steps=120):
    """By search from random pairs of rows, each step smaller than the one before it."""
    rng = np.random.default_rng(d)
    pairs = [in_region(rng.normal(size=(starts, d)) * largest, largest, ball) for _ in range(2)]
    best = movements(*pairs, largest, weights, norm)
    for size in np.geomspace(0.5 * largest, 1, steps):
        moves = [size * rng.normal(size=(starts, d)) * (rng.random((starts, d)) < 0.7) for _ in range(2)]
        tried = [in_region(rows + move, largest, ball) for rows, move in zip(pairs, moves, strict=True)]
        found = movements(*tried, largest, weights, norm)
        better = found > best
        pairs = [np.where(better[:, None], new, old) for new, old in zip(tried, pairs, strict=True)]
        best = np.where(better, found, best)
    return float(best.max())


@pytest.mark.parametrize("d", [2, 3, 6])
@pytest.mark.parametrize("largest", [8, 256, 2**22])
def test_a_search_finds_no_rows_that_are_further_apart(d, largest):
    bits = largest.bit_length() - 1
    weight = free_weight(FREE_SQUARES_BALL, bits)
    found = furthest_found(d, largest, (1.0, weight), "l2", ball=True)
    assert (1 - 0.1 / d) * 4 * largest**2 <= found <= ball_movement(weight, largest, d)
    for norm, free in (("l1", FREE_SQUARES_L1), ("l2", FREE_SQUARES)):
        for weights in ((1.0, free_weight(free, bits)), (1.0, 2.5, 0.7, 0.7)):
            found = furthest_found(d, largest, weights, norm, ball=False)
            assert found <= d * box_movement(weights, largest, norm)
    # The search would find what is not free; the coarsest lattice has no rows near the worst.
    assert largest == 8 or furthest_found(d, largest, (1.0, 1.0), "l2", ball=True) > 4 * largest**2 * 1.05


def test_squares_of_weight_one_are_not_free_in_a_ball():
    # Planted bug; and the box's weight in a ball of two columns.
    for weight, excess in ((1.0, 0.1), (FREE_SQUARES, 0.8)):
        assert ball_largest(weight, 25, 2) > 4 * 25**2 * (1 + excess)
    with pytest.raises(ValueError, match="must have a smaller weight"):
        ball_movement(FREE_SQUARES_BALL * 1.01, 25, 2)
    # With pure privacy no weight is free there: the l1 norms of the sums alone are 2 sqrt(d) radii apart.
    points = ball_points(25, 2)
    both = np.hstack([points, 0.5 * (points**2 // 25)])
    apart = np.abs(both[:, None, :] - both[None]).sum(axis=2)
    assert apart.max() > np.abs(points[:, None, :] - points[None]).sum(axis=2).max() + 1


@pytest.mark.parametrize("bits", [3, 4])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_joint_sensitivity_of_whole_rows(bits, norm):
    # Two columns with bounds of their own on one spacing, and a count of what is outside each.
    lattice = BoxLattice.build(np.array([1.0, 0.6]), 0.0, 2, common=True, bits=bits)
    weights, v = (1.0, 1.2), 0.4
    sizes = math.sqrt(np.mean(np.square(lattice.bound)))
    rows = []
    for row in itertools.product(*(range(-K, K + 1) for K in lattice.bound)):
        # An entry at an end may be outside.
        may = [(0, 1) if abs(k) == K else (0,) for k, K in zip(row, lattice.bound, strict=True)]
        for beyond in itertools.product(*may):
            squares = [k * k // K for k, K in zip(row, lattice.bound.tolist(), strict=True)]
            rows.append([*row, *(weights[1] * y for y in squares), *(v * sizes * b for b in beyond)])
    rows = np.array(rows)
    moved = rows[:, None, :] - rows[None]
    found = np.abs(moved).sum(axis=2).max() if norm == "l1" else math.sqrt((moved**2).sum(axis=2).max())
    stated = lattice.joint_sensitivity(norm, weights, v)
    assert 0.8 * stated <= found <= stated


def test_lattices_say_what_is_free():
    box, ball, line = (
        BoxLattice.build(1.0, 0.0, 2, common=False),
        BallLattice.build(1.0, 0.0, 2),
        BallLattice.build(1.0, 0.0, 1),
    )
    assert box.free_squares("l2") == line.free_squares("l2") == free_weight(FREE_SQUARES, 30)
    assert ball.free_squares("l2") == free_weight(FREE_SQUARES_BALL, 30)
    assert (box.free_squares("l1"), ball.free_squares("l1")) == (0.5, None)
    # A count beside the sums of a ball: nothing is free there in l1, and each has its own worst pair.
    assert ball.joint_sensitivity("l1", (1.0,), 0.5) == pytest.approx(ball.sensitivity("l1") + 2**29, rel=1e-11)
    cross = CrossLattice.build(1.0, 0.0, 2)
    assert cross.free_squares("l2") is None
    for lattice, norm in ((ball, "l1"), (cross, "l2")):
        with pytest.raises(DPStatsError, match="does not define a bound for several powers together"):
            lattice.joint_sensitivity(norm, (1.0, 0.5))
    # The price of counting what is outside: 1.24% at v^2 = .1.
    free = box.joint_sensitivity("l2", (1.0, box.free_squares("l2")))
    counted = box.joint_sensitivity("l2", (1.0, box.free_squares("l2")), math.sqrt(0.1))
    assert counted / free == pytest.approx(math.sqrt(4.1 / 4), rel=1e-9)


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 0.3), (1.0, 0.6)])
@pytest.mark.parametrize("d", [1, 3])
def test_a_free_count_is_the_largest_that_costs_nothing(d: int, weights: tuple[float, ...]) -> None:
    widths = np.linspace(1.0, 3.0, d)
    cases = [
        (BoxLattice.build(1.0, 0.0, d, common=False), "l1"),
        (BoxLattice.build(1.0, 0.0, d, common=False), "l2"),
        (BoxLattice.build(widths, np.zeros(d), d, common=False), "l2"),
        (BoxLattice.build(widths, np.zeros(d), d, common=True), "l1"),
        (BallLattice.build(1.0, 0.0, d), "l2"),
    ]
    for lattice, norm in cases:
        alone, free = lattice.joint_sensitivity(norm, weights), lattice.free_count(norm, weights)
        assert free > 0
        assert lattice.joint_sensitivity(norm, weights, count=free) == alone
        assert lattice.joint_sensitivity(norm, weights, count=free * (1 + 4e-9)) > alone


def test_bounds_that_are_not_proved_are_refused() -> None:
    ball = BallLattice.build(1.0, 0.0, 3)
    for norm, weights in (("l1", (1.0, 0.5)), ("l2", (2.0,)), ("l2", (1.0, 0.5, 0.5))):
        for method, name in (
            (ball.joint_sensitivity, "several powers together"),
            (ball.free_count, "rows that are not observed"),
        ):
            with pytest.raises(DPStatsError, match=f"does not define a bound for {name}"):
                method(norm, weights)


@pytest.mark.parametrize("largest", [1, 7, 3**19, 2**30])
@pytest.mark.parametrize("weights", [(1.0,), (1.0, 0.3), (1.0, 0.7), (0.9, 1.1, 0.2), (1.0, 0.1, 1 / 3, 0.7)])
def test_movements_are_their_formulas_rounded_up(weights: tuple[float, ...], largest: int) -> None:
    def above(exact: Fraction, stated: float) -> None:
        assert exact <= Fraction(stated) <= exact * (1 + Fraction(2, 10**12))

    w = [*map(Fraction, weights), Fraction(0)]
    sizes = (largest, largest - largest // 2) * 2
    parts = [weight * size for weight, size in zip(w, sizes, strict=False)]
    above(sum(parts, Fraction(0)), dropped_movement(weights, largest, "l1"))
    above(sum((part**2 for part in parts), Fraction(0)), dropped_movement(weights, largest, "l2"))
    if len(weights) > 2:
        return
    if w[1] <= Fraction(1, 2):
        above(2 * largest + w[1], box_movement(weights, largest, "l1"))
    free = Fraction(FREE_SQUARES) ** 2
    above(4 * largest**2 + w[1] ** 2 * free / (free - w[1] ** 2), box_movement(weights, largest, "l2"))
    for d in (2, 5):
        if 0 < 2 * w[1] ** 2 < 1:
            left = 1 - 2 * w[1] ** 2
            above(4 * largest**2 + d * (1 - left) / (2 * left), ball_movement(weights[1], largest, d))
