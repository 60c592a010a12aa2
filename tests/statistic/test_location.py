"""The location: utilities by counting, how far one value moves them, and the law of what is chosen."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpstats.release.noise import ExactNoise, SimulatedNoise
from dpstats.statistic import clipped_sums as location
from dpstats.statistic.clipped_sums import Box, locations, n_candidates, spacing_of

VALUES = (-3.0, -1.0, -0.3, 0.0, 0.25, 0.3, 1.0, 2.0, 4.0)
BOX = Box(-4.0, 4.0)


def utility(steps: Any, line: int, place: int) -> int:
    """Return the utility of a candidate from its definition."""
    spacing = int(spacing_of(np.array([line]))[0])
    k, center = steps.size, place * spacing
    distance = np.abs(steps - center)
    many = (distance <= 4 * spacing).sum()
    # Of equal values at most 15% of all count.
    few = max(1, round(0.15 * k))
    kept = [value for value, n in zip(*np.unique(steps, return_counts=True), strict=True) for _ in range(min(n, few))]
    fullest = max(sum(start <= value <= start + int(1.2 * spacing) for value in kept) for start in set(kept))
    spread = k - fullest + round(0.190 * k + 0.8 * math.sqrt(k))
    larger = max((steps < center).sum(), (steps > center).sum())
    balance = round(0.9545 * k + 0.4 * math.sqrt(k)) - max(0, larger - (k + 1) // 2)
    return int(min(many, spread, balance))


@pytest.mark.parametrize("box", [Box(-10, 10), Box(0, 300), Box(-2.5, 0.25), Box(0.3, 2.0)])
@pytest.mark.parametrize("k", [1, 2, 5, 60, 61])
@pytest.mark.parametrize("tied", [0.0, 0.1, 0.6])
def test_utilities_are_those_of_their_definition(k: int, box: Box, tied: float) -> None:
    rng = np.random.default_rng(k)
    steps = box.in_steps(rng.normal(0.5, 0.3, size=k))
    if tied:
        steps = np.where(rng.random(k) < tied, steps[0], steps)
    runs = locations(steps, box.ends)
    for run in rng.integers(runs.line.size, size=200).tolist():
        line = int(runs.line[run])
        for place in {int(runs.low[run]), int(runs.high[run])}:
            assert runs.utility[run] == utility(steps, line, place)


@pytest.mark.parametrize("box", [BOX, Box(0, 1e6), Box(-1, 1e6), Box(-3, 0), Box(5, 7), Box(-7, -5)])
def test_runs_hold_every_candidate_once(box: Box) -> None:
    runs = locations(box.in_steps(np.random.default_rng(0).normal(size=20)), box.ends)
    for line in range(location.SCALES):
        own = runs.line == line
        assert (runs.low[own][1:] == runs.high[own][:-1] + 1).all()
        first, last = (
            int(end) * int(spacing_of(np.array([line]))[0]) for end in (runs.low[own][0], runs.high[own][-1])
        )
        spacing = int(spacing_of(np.array([line]))[0])
        assert box.ends[0] <= first < box.ends[0] + spacing and box.ends[1] - spacing < last <= box.ends[1]
    assert int((runs.high - runs.low + 1).sum()) == n_candidates(box.ends)
    assert (runs.weight > 0).all()
    assert (1 << 45) * 0.999 < int(((runs.high - runs.low + 1) * runs.weight).sum()) < 1 << 46


@pytest.mark.parametrize(("low", "high", "origin"), [(-4, 4, 0), (0, 1e6, 0), (-9, 0, 0), (5, 7, 5), (-7, -5, -5)])
def test_the_origin_is_nearest_to_zero_and_weighs_most(low: float, high: float, origin: float) -> None:
    box = Box(low, high)
    assert box.origin == origin
    np.testing.assert_allclose(origin + np.array(box.ends) * box.step, (low, high), rtol=1e-11, atol=1e-11)
    for line in (0, 7, 30, 49):
        limits, weights = location._prior(line, box.ends)
        heaviest = limits[np.argmax(weights)]
        assert line == 0 or (heaviest == 0 and weights.max() > 3 * weights.min())


@pytest.mark.parametrize("high", [1e2, 1e4, 1e6])
def test_wide_bounds_cost_little(high: float) -> None:
    # 155 values have mean 55.5 and standard deviation 5, and the location costs 0.27. Candidates that are far off, or
    # of another scale, have a probability of 1% at most, also if bounds end at 0.
    rng = np.random.default_rng(1)
    for low in (0.0, -high):
        missed = []
        for values in rng.normal(55.5, 5, size=(10, 155)):
            box = Box(low, high)
            runs = locations(box.in_steps(values), box.ends)
            log = np.log((runs.high - runs.low + 1.0) * runs.weight) + runs.utility * 42 / 155 / 2
            mass = np.exp(log - log.max())
            scale = 2.0 * spacing_of(runs.line) * box.step
            center = box.origin + (runs.low + runs.high) / 4 * scale
            right = (scale > 2) & (scale < 17.5) & (np.abs(center - np.median(values)) < 10)
            missed.append(mass[~right].sum() / mass.sum())
        assert np.mean(missed) < 0.01


def moves(first: Any, second: Any) -> np.ndarray:
    """Return what the utilities of all candidates move by."""
    found = []
    for line in range(location.SCALES):
        sides = [(runs.low[runs.line == line], runs.utility[runs.line == line]) for runs in (first, second)]
        starts = np.union1d(sides[0][0], sides[1][0])
        a, b = (values[np.searchsorted(low, starts, side="right") - 1] for low, values in sides)
        found.append(b - a)
    return np.concatenate(found)


def worst(k: int) -> tuple[int, int]:
    """Return the largest change of a utility, and the largest range of changes, over all pairs of k values."""
    change = spread = 0
    for rest in itertools.combinations_with_replacement(VALUES, k - 1):
        all_runs = [locations(BOX.in_steps(np.array([*rest, value])), BOX.ends) for value in VALUES[::2]]
        for first, second in itertools.combinations(all_runs, 2):
            moved = moves(first, second)
            change = max(change, int(np.abs(moved).max()))
            spread = max(spread, int(moved.max() - moved.min()))
    return change, spread


def test_a_value_moves_every_utility_by_at_most_one() -> None:
    assert worst(2) == worst(3) == (1, 2)


def largest_move_of_tied_values(seed: int) -> int:
    """Return the largest change of a utility over random neighbors with many equal values."""
    rng = np.random.default_rng(seed)
    largest = 0
    for _ in range(40):
        k = int(rng.integers(8, 60))
        few = max(1, round(0.15 * k))
        groups = np.append(np.repeat(np.arange(6) / 100, few), rng.normal(size=k))[:k]
        kinds = rng.choice([0.0, 0.25], size=k), rng.poisson(0.6, k) / 4, rng.normal(size=k).round(1), groups
        values = kinds[int(rng.integers(4))]
        other = values.copy()
        other[-1] = rng.choice([0.0, 0.25, values[0], rng.normal()])
        first, second = (locations(BOX.in_steps(each), BOX.ends) for each in (values, other))
        largest = max(largest, int(np.abs(moves(first, second)).max()))
    return largest


def test_a_value_moves_no_utility_by_more_than_one_among_equal_values() -> None:
    assert largest_move_of_tied_values(0) == 1


def test_brute_force_sees_equal_values_that_all_leave_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # Planted: too many equal values count once, so that one value more or less moves the window by all the others.
    honest = location._count_ties

    def leave_together(values: Any) -> Any:
        _, place, count = np.unique(values, return_inverse=True, return_counts=True)
        return np.where(count[place] > max(1, round(0.15 * values.size)), 100, 1) * honest(values)

    monkeypatch.setattr(location, "_count_ties", leave_together)
    assert largest_move_of_tied_values(0) > 1


@pytest.mark.parametrize("share", [0.01, 0.02275])
def test_equal_values_do_not_make_the_scale_collapse(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    # Shares of 28 rows in 175 blocks. Where equal values all count, scales below 0.3 deviations have most of the mass.
    def mass_of_tiny_scales(kept: float) -> float:
        monkeypatch.setattr(location, "_TIED", kept)
        rng, box, found = np.random.default_rng(2), Box(0, 1), []
        for _ in range(10):
            values = rng.binomial(28, share, size=175) / 28
            runs = locations(box.in_steps(values), box.ends)
            log = np.log((runs.high - runs.low + 1.0) * runs.weight) + runs.utility * 42 / 175 / 2
            mass = np.exp(log - log.max())
            tiny = 2.0 * spacing_of(runs.line) * box.step < 0.3 * math.sqrt(share * (1 - share) / 28)
            found.append(mass[tiny].sum() / mass.sum())
        return float(np.mean(found))

    assert mass_of_tiny_scales(location._TIED) < (0.05 if share == 0.01 else 0.005)
    assert mass_of_tiny_scales(1.0) > (0.7 if share == 0.01 else 0.1)


def test_brute_force_sees_a_balance_that_is_not_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    # Planted: the difference of the two sides, which one value changes by 2.
    honest = np.maximum

    def twice(a: Any, b: Any, *args: Any) -> Any:
        return 2 * honest(a, b, *args) if np.isscalar(b) and b == 0 else honest(a, b, *args)

    monkeypatch.setattr(location.np, "maximum", twice)
    assert worst(4)[0] == 2


@pytest.mark.parametrize("exact", [False, True])
def test_candidates_are_drawn_by_their_weights(exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Chi-square over about 60 cells; false alarms: 1e-4.
    monkeypatch.setattr(location, "SCALES", 4)
    location._prior.cache_clear()
    location._spacings.cache_clear()
    box = Box(-2, 2)
    runs = locations(box.in_steps(np.array([-0.4, -0.1, 0.05, 0.1, 0.2, 0.35, 0.9])), box.ends)
    scale, draws = 2 / 1.3, 2_000 if exact else 60_000
    source = ExactNoise() if exact else SimulatedNoise(np.random.default_rng(0))
    drawn = source.candidate(runs, scale, draws)
    weights = {
        (line, place): weight * math.exp(value / scale)
        for line, low, high, value, weight in zip(
            runs.line.tolist(),
            runs.low.tolist(),
            runs.high.tolist(),
            runs.utility.tolist(),
            runs.weight.tolist(),
            strict=True,
        )
        for place in range(low, high + 1)
    }
    counts = dict.fromkeys(weights, 0)
    for line, place in drawn.tolist():
        counts[line, place] += 1
    share = np.array(list(weights.values())) / sum(weights.values()) * draws
    large = share > 5
    observed = np.append(np.array(list(counts.values()))[large], 0)
    expected = np.append(share[large], share[~large].sum())
    observed[-1] = draws - observed.sum()
    keep = expected > 0
    assert stats.chisquare(observed[keep], expected[keep]).pvalue > 1e-4
    location._prior.cache_clear()
    location._spacings.cache_clear()


def test_values_beyond_the_box_are_its_ends() -> None:
    steps = Box(-5, 5).in_steps(np.array([-1e308, -5.0, 0.0, 5.0, 1e308, np.nan]))
    assert steps.tolist() == [-(2**40), -(2**40), 0, 2**40, 2**40, 0]


def test_a_wide_box_holds_small_values() -> None:
    steps = Box(-1e308, 1e308).in_steps(np.array([-1e307, 1e307]))
    assert steps[0] == -steps[1] != 0
