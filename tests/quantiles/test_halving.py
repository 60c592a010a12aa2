"""Halving: its levels, its cells, and what a row costs in all parts together, by enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpstats.quantiles import PrivateQuantile
from dpstats.quantiles import grid as halves
from dpstats.quantiles.grid import cells, levels_of, part
from dpstats.release.groups import Cells

LAST = 4
EACH = 1.0  # the cost of a level


def test_levels_have_every_quantile_once_and_relative_shares() -> None:
    q = (0.1, 0.25, 0.5, 0.75, 0.9)
    levels = levels_of(q)
    assert [[node.index for node in level] for level in levels] == [[2], [0, 3], [1, 4]]
    assert [[node.share for node in level] for level in levels] == [
        [Fraction(1, 2)],
        [Fraction(1, 5), Fraction(1, 2)],
        [Fraction(3, 8), Fraction(3, 5)],
    ]
    assert [(node.lower, node.upper) for level in levels for node in level] == [
        (None, None),
        (None, 2),
        (2, None),
        (0, 2),
        (3, None),
    ]
    for m in (2, 20, 63, 64):
        assert len(levels_of(tuple(np.arange(1, m + 1) / (m + 1)))) == math.ceil(math.log2(m + 1))


def weights(made: Cells, scale: float, last: int = LAST) -> np.ndarray:
    """Return the weight of every point, from the bounds of its cell."""
    found = np.zeros(last + 1)
    running = made.columns(scale, 0, 0).low
    for i, total in enumerate(running):
        length = int(made.high[i] - made.low[i] + 1)
        if length > 0:
            found[made.low[i] : made.high[i] + 1] += (total - (running[i - 1] if i else 0)) / length / 2**256
    return found


@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(1, 5), Fraction(3, 4)])
def test_cells_are_points_by_how_far_their_rank_is_off(share: Fraction) -> None:
    for n in range(4):
        for rows in itertools.combinations_with_replacement(range(LAST + 1), n):
            z, target = np.array(rows, dtype=int), share * n
            expected = []
            for g in range(LAST + 1):
                s = max(int((z < g).sum()) - target, Fraction(0)) + min(int((z <= g).sum()) - target, Fraction(0))
                expected.append(math.exp(-abs(s) / (4 * max(share, 1 - share)) * EACH))
            found = weights(cells(z, share, 0, LAST), 4 / EACH)
            np.testing.assert_allclose(found, expected, rtol=1e-12)


Part = Callable[[Any, Any, int, int], Cells]


def largest_loss(of_part: Part, z: np.ndarray, y: np.ndarray, q: tuple[float, ...]) -> float:
    """Return the largest log-ratio of probabilities of all ways that three points can be chosen: exact."""
    (root,), sides = levels_of(q)

    def law(rows: np.ndarray, node: Any, low: int, high: int) -> np.ndarray:
        found = weights(of_part(rows, node, low, high), 4 / EACH)
        return found / found.sum()

    worst, start = 0.0, [law(rows, root, 0, LAST) for rows in (z, y)]
    for g in range(LAST + 1):
        loss = abs(math.log(start[0][g] / start[1][g]))
        sign = 1 if start[0][g] >= start[1][g] else -1
        of_sides = []
        for node, ends in zip(sides, ((0, g), (g, LAST)), strict=True):
            both = [law(rows, node, *ends) for rows in (z, y)]
            inside = both[0] > 0
            of_sides.append(np.log(both[0][inside] / both[1][inside]))
        ways = [sign * loss + sum(x) for x in itertools.product(*of_sides)]
        worst = max(worst, *map(abs, ways))
    return worst


def by_global_rank(q: tuple[float, ...]) -> Part:
    """Planted bug: the rank in a part is that among all rows, less those before; parts cost as if disjoint."""

    def of_part(places: Any, node: Any, low: int, high: int) -> Cells:
        first = 0 if node.lower is None else int(np.searchsorted(places, low, side="right"))
        last = places.size if node.upper is None else int(np.searchsorted(places, high, side="right"))
        rank = min(max(round(q[node.index] * places.size) - first, 0), last - first)
        share = Fraction(rank, max(last - first, 1))
        # As if a step of the rank were a step of halves.
        return replace_unit(cells(places[first:last], share, low, high), max(share.denominator, 1))

    return of_part


def replace_unit(made: Cells, steps: int) -> Cells:
    # e^(-|k| EACH/2) for k steps of the rank.
    return Cells(made.low, made.high, made.best, 2 * made.left, 2 * made.right, 2 * made.step, unit=steps)


def test_two_levels_cost_two() -> None:
    q = (0.25, 0.5, 0.75)
    worst = 0.0
    for rest in itertools.combinations_with_replacement(range(LAST + 1), 4):
        for first, second in ((0, LAST), (0, 2), (1, 3), (2, LAST)):
            z, y = np.sort([*rest, first]), np.sort([*rest, second])
            worst = max(worst, largest_loss(part, z, y, q))
    assert EACH < worst <= 2 * EACH + 1e-9


def test_ranks_among_all_rows_cost_more_than_parts_that_are_disjoint() -> None:
    # Seven quantiles, each held by four tied rows, one below its rank and three above; a row moves past all of them.
    m, gap = 7, 9
    end, q = (m + 1) * gap, tuple(np.arange(1, m + 1) / (m + 1))
    rows = np.array([0, 0, *np.repeat(np.arange(gap, end, gap), 4), end])
    z, y = (np.sort([*rows, moved]) for moved in (0, end))
    chosen = np.arange(1, m + 1) * gap + gap // 2  # beyond the ties, all of them

    def loss(of_part: Part) -> float:
        total = 0.0
        for node in itertools.chain(*levels_of(q)):
            low = 0 if node.lower is None else int(chosen[node.lower])
            high = end if node.upper is None else int(chosen[node.upper])
            both = [weights(of_part(x, node, low, high), 4 / EACH, end) for x in (y, z)]
            a, b = (x[chosen[node.index]] / x.sum() for x in both)
            total += math.log(a / b)
        return total

    # Three levels.
    assert 0 < loss(part) <= 3 * EACH
    assert loss(by_global_rank(q)) > 3.5 * EACH


def test_many_quantiles_are_near_and_rise() -> None:
    q = np.arange(1, 64) / 64
    x = np.random.default_rng(0).uniform(size=20_000)
    made = PrivateQuantile(q, bounds=(0, 1), confidence_level=None, random_state=1).fit(x)
    assert made.plan_.halving and len(made.plan_.levels) == 6
    assert np.all(np.diff(made.quantile_) >= 0)
    # Levels of epsilon/6 each have errors of about 17 rows, of which few add up: a false alarm is below 1e-6.
    assert np.abs(made.quantile_ - np.sort(x)[(q * 20_000).astype(int)]).max() < 250 / 20_000
    less = PrivateQuantile(q, bounds=(0, 1), confidence_level=None, delta=1e-6).plan(20_000)
    assert less.rank_error < 0.9 * made.plan_.rank_error


def test_what_is_chosen_in_a_batch_has_the_law_of_single_draws() -> None:
    # Each quantile's mean place, within five standard errors: one in a million of other seeds would fail.
    from dpstats.data.rows import Table
    from dpstats.release.session import Session

    made = PrivateQuantile((0.25, 0.5, 0.75), bounds=(0, 9), step=1, epsilon=2, method="halving", confidence_level=None)
    X = np.arange(10.0)[:, None]
    plan = made.plan(10)
    rng = np.random.default_rng(3)
    with Session.simulated(plan, rng, 4000) as session:
        made._release(made._read(Table(X), plan), plan, session)
    batch = np.concatenate([session.released[stage.name] for stage in plan.stages], axis=1)
    single = []
    for _ in range(400):
        with Session.simulated(plan, rng) as session:
            made._release(made._read(Table(X), plan), plan, session)
        single.append(np.concatenate([session.released[stage.name] for stage in plan.stages]))
    error = np.sqrt(batch.var(axis=0) * (1 / 4000 + 1 / 400))
    assert np.all(np.abs(batch.mean(axis=0) - np.mean(single, axis=0)) < 5 * error)
    assert halves.levels_of(plan.q) == plan.levels


def test_a_row_at_a_chosen_point_is_in_one_part() -> None:
    # Five rows, two of them at the point 2 that was chosen first: they belong to the part below it.
    (top,), (below, above) = levels_of((0.25, 0.5, 0.75))
    places = np.array([0, 2, 2, 3, 4])
    for made, rows, node, ends in (
        (part(places, below, 0, 2), places[:3], below, (0, 2)),
        (part(places, above, 2, LAST), places[3:], above, (2, LAST)),
        (part(places, top, 0, LAST), places, top, (0, LAST)),
    ):
        wanted = cells(rows, node.share, *ends)
        assert made.low.tolist() == wanted.low.tolist() and made.high.tolist() == wanted.high.tolist()
