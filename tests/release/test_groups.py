"""Exact choice among groups: laws against enumeration, bounds against rationals, and every level of refinement."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpstats.errors import ScaleOutOfRange
from dpstats.release import groups
from dpstats.release.groups import (
    Bounds,
    Cells,
    Exponentials,
    Nested,
    Windows,
    choose,
    first_reach,
    located,
    nested_reach,
)
from dpstats.release.noise import ExactNoise, SimulatedNoise

LAST = 6


def windows(ranks: tuple[int, ...]) -> Windows:
    """Return windows about rows 1, 1, 4 among 0, ..., 6."""
    z = np.array([0, 1, 1, 4, LAST])
    wanted = np.array(ranks)[:, None]

    def ends(a: Any, b: Any) -> Any:
        return z[np.clip(wanted - a, 0, 4)], z[np.clip(wanted + b + 1, 0, 4)]

    return Windows(ends, len(ranks), candidates=LAST + 1)


def utility(tuple_: tuple[int, ...], ranks: tuple[int, ...]) -> int:
    """Return minus the range of 0 and of how far points are beyond their ranks, as it is written."""
    rows = np.array([1, 1, 4])
    below, up_to = (
        [int(count) for count in (side(rows, np.array(tuple_)[:, None])).sum(axis=1)]
        for side in (np.less, np.less_equal)
    )
    s = [max(c - r, 0) + min(d - r, 0) for c, d, r in zip(below, up_to, ranks, strict=True)]
    return -(max(0, *s) - min(0, *s))


def law(ranks: tuple[int, ...], scale: float) -> np.ndarray:
    weights = [math.exp(utility(g, ranks) / scale) for g in itertools.product(range(LAST + 1), repeat=len(ranks))]
    return np.array(weights) / sum(weights)


def pvalue(draws: np.ndarray, probabilities: np.ndarray) -> float:
    codes = np.ravel_multi_index(draws.T, (LAST + 1,) * draws.shape[1])
    expected = probabilities * len(draws)
    # Few are expected of most tuples: the rare ones together.
    often = expected >= 5
    counts = np.bincount(codes, minlength=expected.size)
    both = [np.append(x[often], x[~often].sum() + 1e-9) for x in (counts, expected)]
    return float(stats.chisquare(both[0], both[1] * both[0].sum() / both[1].sum()).pvalue)


@pytest.mark.parametrize("ranks", [(2,), (1, 2), (0, 2, 3)])
def test_simulated_tuples_have_the_law_of_the_exponential_mechanism(ranks: tuple[int, ...]) -> None:
    # Seeds are fixed; of others a false alarm has probability 1e-4. A scale off by a tenth is seen.
    draws = SimulatedNoise(np.random.default_rng(1)).candidate(windows(ranks), 2.0, 60_000)
    assert pvalue(draws, law(ranks, 2.0)) > 1e-4
    assert pvalue(draws, law(ranks, 2.2)) < 1e-4


@pytest.mark.parametrize("ranks", [(2,), (1, 2)])
def test_exact_tuples_have_it_too(ranks: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    # False alarm 1e-6. With few windows looked at first, so that many draws need more.
    draws = ExactNoise().candidate(windows(ranks), 1.0, 4000)
    assert pvalue(draws, law(ranks, 1.0)) > 1e-6
    assert pvalue(draws, law(ranks, 2.0)) < 1e-6


def test_draws_that_floats_cannot_tell_are_told_by_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    # One window on a side, and a rest that may be anything: most draws have to look closer.
    monkeypatch.setattr(groups, "first_reach", lambda scale, size: 2)
    monkeypatch.setattr(groups, "_DOUBLINGS", 1)
    draws = ExactNoise().candidate(windows((2,)), 1.0, 900)
    assert pvalue(draws, law((2,), 1.0)) > 1e-6
    assert pvalue(draws, law((2,), 8.0)) < 1e-6


@pytest.mark.parametrize("ranks", [(2,), (1, 2), (0, 2, 3)])
@pytest.mark.parametrize("level", [0, 1])
def test_bounds_enclose_the_true_weights(ranks: tuple[int, ...], level: int) -> None:
    made, scale = windows(ranks), 1.5
    mpmath.mp.dps = 60
    p = mpmath.exp(-1 / mpmath.mpf(scale))

    def weight(a: int, b: int) -> Any:
        low, high = made.box(a, b)
        return mpmath.mpf(math.prod((high - low + 1).tolist())) * p ** (a + b)

    def row(a: int) -> Any:
        return mpmath.fsum(weight(a, b) for b in range(120))

    rows = [row(a) for a in range(120)]
    for bounds, true, total in (
        (made.rows(scale, level), rows[:6], mpmath.fsum(rows)),
        (made.columns(scale, level, 1), [weight(1, b) for b in range(6)], rows[1]),
    ):
        running = mpmath.mpf(0)
        # Bounds are of one unknown unit: compared as shares of the total.
        least, most = (mpmath.mpf(side[-1]) for side in bounds)
        for low, high, one in zip(*bounds, true, strict=False):
            running += one
            assert mpmath.mpf(low) / most <= running / total * (1 + mpmath.mpf(10) ** -30)
            assert mpmath.mpf(high) / least >= running / total * (1 - mpmath.mpf(10) ** -30)
        # And they are close.
        assert (most - least) / least < (1e-9 if level == 0 else 1e-12)


def test_powers_are_enclosed() -> None:
    mpmath.mp.dps = 120
    for rate in (Fraction(1, 3), Fraction(1, 20_000), Fraction(7), Fraction(0.1)):
        fall = Exponentials(rate, 256)
        low, high = fall.integers(50, 256)
        split = fall.split(50)
        for k in range(51):
            true = mpmath.exp(-k * mpmath.mpf(rate.numerator) / rate.denominator)
            assert low[k] <= true * mpmath.mpf(2) ** 256 <= high[k]
            assert 0.5 <= split.mantissas[k] <= 1
            assert abs(split.mantissas[k] * mpmath.mpf(2) ** int(split.exponents[k]) - true) <= 2.0**-52 * true
            above = fall.above(k)
            assert mpmath.mpf(above.numerator) / above.denominator >= true
    # As far out as any: e^-5000 is no float.
    far, true = Exponentials(Fraction(5), 256).split(1000), mpmath.exp(-5000)
    assert abs(far.mantissas[1000] * mpmath.mpf(2) ** int(far.exponents[1000]) - true) <= 2.0**-52 * true
    # Far out a power of two is enough.
    assert Exponentials(Fraction(1), 64).above(1000) >= Fraction(1, 2**1443)
    assert Exponentials(Fraction(1), 64).above(10**9) == Fraction(1, 2 ** (1 << 14))


def many(rows: np.ndarray, ranks: tuple[int, ...], steps: int) -> Windows:
    """Return windows about ranks of sorted rows among 0, ..., steps."""
    wanted = np.array(ranks)[:, None]

    def place(row: Any) -> Any:
        inside = rows[np.clip(row - 1, 0, rows.size - 1)]
        return np.where(row < 1, 0, np.where(row > rows.size, steps, inside))

    return Windows(lambda a, b: (place(wanted - a), place(wanted + b + 1)), len(ranks), candidates=steps + 1)


@pytest.mark.parametrize("points", [5, 40])
def test_many_points_among_ties_are_drawn_as_others_are(points: int) -> None:
    # Windows are of one place up to the end of the ties, and then of nearly all: their lengths multiply to more than
    # any float, and over the largest window's to less. Once that overflowed, which raised on such rows alone.
    ranks = tuple(range(20, 20 + 10 * points, 10))
    for rows in (np.full(700, 500_000), np.sort(np.arange(700) % 2 * 10**6), np.arange(700) * 1400):
        made = many(rows, ranks, 10**6)
        bounds = made.rows(2.0, 0)
        assert bounds.low[-1] > 0 and np.isfinite(bounds.high).all()
        assert (bounds.high[-1] - bounds.low[-1]) / bounds.low[-1] < 1e-9
        # Among a few draws; each of them in the box.
        drawn = ExactNoise().candidate(made, 2.0, 3)
        assert drawn.shape == (3, points) and drawn.min() >= 0 and drawn.max() <= 10**6


@pytest.mark.parametrize("points", [1, 2, 5])
def test_expanded_sums_are_those_of_all_products(points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Equal as integers; as floats, within their bounds. Places of up to 62 bits, and windows that jump.
    ranks = tuple(range(20, 20 + 10 * points, 10))
    for rows in (np.full(700, 2**61), np.sort(np.arange(700) % 2 * 2**62), np.arange(700) * 3):
        made = many(rows, ranks, 2**62)
        with monkeypatch.context() as patched:
            patched.setattr(groups, "_EXPANDED", 0)
            direct = [made.rows(1.0, level) for level in (0, 1)]
        expanded = [made.rows(1.0, level) for level in (0, 1)]
        assert expanded[1] == direct[1] and len(expanded[1].low) >> points > 1
        for one, other in ((expanded[0], direct[0]), (direct[0], expanded[0])):
            # In one unit: shares of the total.
            assert np.all(one.low / one.high[-1] <= other.high / other.low[-1])
            assert one.high[-1] / one.low[-1] < 1 + 1e-9


def test_the_weights_of_many_points_are_right() -> None:
    # Against rationals, where neither lengths nor exponentials are floats.
    made, scale = many(np.full(120, 3), tuple(range(1, 120)), 10**9), 1.5
    mpmath.mp.dps = 60
    p = mpmath.exp(-1 / mpmath.mpf(scale))
    reach = made._extent(scale, 0)[0]
    lower, upper = made.ends(np.arange(reach + 1), np.arange(reach + 1))

    def row(a: int) -> Any:
        return mpmath.fsum(
            mpmath.mpf(math.prod((upper[:, b] - lower[:, a] + 1).tolist())) * p ** (a + b) for b in range(reach + 1)
        )

    bounds = made.rows(scale, 0)
    shares = np.diff(bounds.low, prepend=0.0)
    heavy = int(shares.argmax())
    for a in {0, max(heavy - 7, 0), heavy, heavy + 5}:
        true = row(a) / row(heavy)
        assert abs(shares[a] / shares[heavy] - true) <= 1e-9 * max(true, 1e-6)


def test_bounds_that_are_no_floats_cannot_tell() -> None:
    assert located(Bounds(np.array([1.0, 2.0]), np.array([1.0, math.inf])), 0, 2) is None


def test_a_place_is_told_only_where_all_bounds_agree() -> None:
    exact = Bounds([1, 3, 4], [1, 3, 4])
    assert [located(exact, k, 2) for k in range(4)] == [0, 1, 1, 2]
    # A number at a boundary, and bounds that leave it open.
    assert located(exact, 0, 1) is None
    assert located(Bounds([1, 3, 4], [2, 4, 5]), 1, 2) is None
    floats = Bounds(np.array([1.0, 3.0, 4.0]), np.array([1.0, 3.0, 4.0]))
    assert [located(floats, k, 2) for k in range(4)] == [0, 1, 1, 2]
    # Of every length of the drawn number.
    for bounds in (exact, floats):
        for count in (3, 5, 10):
            parts = [located(bounds, k, count) for k in range(1 << count)]
            assert parts == [0] * (1 << count - 2) + [1] * (1 << count - 1) + [2] * (1 << count - 2)


def test_more_bits_are_drawn_until_it_is_told() -> None:
    # The first word lies at a boundary of [0, 1/2), [1/2, 1) by bounds of level 0.
    words = iter([(1 << 63) - 1, 0, 0])
    asked: list[int] = []

    def bounds(level: int) -> Bounds:
        asked.append(level)
        slack = 0 if level else 1
        return Bounds([(1 << 63) - slack, 1 << 64], [(1 << 63) + slack, 1 << 64])

    assert choose(lambda count: next(words), bounds) == 0
    assert asked == [0, 1]


def test_cells_have_their_law() -> None:
    # Lengths 3, 0, 2, 4 at distances 5, 2, 0, 1.
    made = Cells(np.array([0, 3, 3, 5]), np.array([2, 2, 4, 8]), 2, 2, 1, 3, unit=2)
    weights = np.array([3 * math.exp(-5 / 3), 0.0, 2.0, 4 * math.exp(-1 / 3)])
    expected = np.repeat(weights / weights.sum() / np.array([3, 1, 2, 4]), [3, 0, 2, 4])  # of 0, ..., 8
    for source, count in ((SimulatedNoise(np.random.default_rng(2)), 50_000), (ExactNoise(), 3000)):
        counts = np.bincount(source.candidate(made, 1.5, count)[:, 0], minlength=9)
        # False alarm 1e-6.
        assert stats.chisquare(counts, expected * count).pvalue > 1e-6
    low, high = made.columns(1.5, 0, 0)
    shares = np.array([(b - a) / low[-1] for a, b in pairwise([0, *low])])
    np.testing.assert_allclose(shares, weights / weights.sum(), rtol=1e-12)
    assert all(a <= b for a, b in zip(low, high, strict=True))


def nested(last: int = 8) -> Nested:
    """Return windows around 3 and 5 that grow by one place to each side."""
    middle = np.array([[3], [5]])
    return Nested(lambda a: (np.maximum(middle - a, 0), np.minimum(middle + a, last)), 2, last + 1)


def test_nested_windows_have_their_law() -> None:
    made = nested()
    at = np.arange(9)
    far = np.maximum.outer(np.abs(at - 3), np.abs(at - 5))
    expected = np.exp(-far / 1.5)
    expected /= expected.sum()
    for source, count in ((SimulatedNoise(np.random.default_rng(3)), 50_000), (ExactNoise(), 3000)):
        drawn = source.candidate(made, 1.5, count)
        counts = np.bincount(9 * drawn[:, 0] + drawn[:, 1], minlength=81).astype(float)
        often = expected.ravel() > 0.01
        both = [np.append(x[often], x[~often].sum()) for x in (counts, expected.ravel() * count)]
        # False alarm 1e-6.
        assert stats.chisquare(*both).pvalue > 1e-6


def test_weights_of_nested_windows_are_enclosed() -> None:
    made = nested()
    # Beyond eight windows all have 81 tuples.
    decay = math.exp(-1 / 1.5)
    lengths = [np.prod([b - a + 1 for a, b in zip(*made.box(0, k), strict=True)]) for k in range(60)]
    total = sum(length * decay**k for k, length in enumerate(lengths)) + 81 * decay**60 / (1 - decay)
    for level in (0, 1):
        low, high = made.columns(1.5, level, 0)
        # What is left out is at most 81 e^-50 or so.
        assert low[-1] <= total * 2.0 ** (256 << level) * (1 + 1e-12) and low[-1] < high[-1] < low[-1] * (1 + 1e-15)
        assert low[3] / low[-1] == pytest.approx(sum(n * decay**k for k, n in enumerate(lengths[:4])) / total)


def test_a_scale_of_too_many_windows_is_refused() -> None:
    assert first_reach(2.0, 2) < 200 and nested_reach(4.0, 2, 1 << 20) < 400
    with pytest.raises(ScaleOutOfRange, match="epsilon is too small"):
        nested_reach(4 / 1e-3, 3, 1 << 20)
    with pytest.raises(ScaleOutOfRange, match="epsilon is too small"):
        first_reach(2 / 1e-4, 2)
    # An epsilon below 1e-308 has an infinite scale.
    for reach in (lambda: first_reach(math.inf, 1), lambda: nested_reach(math.inf, 1, 1 << 20)):
        with pytest.raises(ScaleOutOfRange, match="epsilon is too small"):
            reach()


def test_bounds_count_what_was_not_looked_at() -> None:
    bounds = groups._with_rest(([1, 2, 4], [2, 3, 4]), 5)
    assert list(bounds.low) == [1, 3, 7] and list(bounds.high) == [7, 10, 14]
    cumulative = np.array([1.0, 3.0, 7.0])
    floats = groups._widened(cumulative, 0.5, 10, 2)
    assert np.all(floats.low <= cumulative) and np.all(floats.high >= cumulative + 0.5)
    assert np.all(floats.high < cumulative + 0.5 + 1e-9)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("growth", [1, 7])
def test_the_rest_is_no_less_than_all_windows_beyond_the_reach(size: int, growth: int) -> None:
    def ends(a: Any, b: Any) -> Any:
        return np.tile(0 * a, (size, 1)), np.tile(growth * b, (size, 1))

    fall = Exponentials(Fraction(1, 4), 256)
    outside = [[(growth * b + 1) ** size for b in range(300)] for a in range(300)]
    weights = np.array(outside, dtype=float) * np.exp(-np.add.outer(np.arange(300), np.arange(300)) / 4)
    for reach in (1, 3, 8):
        exact = weights.sum() - weights[: reach + 1, : reach + 1].sum()
        assert exact <= Windows(ends, size)._rest(reach, fall, 256) / 2**512


@pytest.mark.parametrize("ranks", [(2,), (1, 2), (0, 2, 3)])
def test_logarithms_of_the_rest_are_above_it_and_near(ranks: tuple[int, ...]) -> None:
    made = windows(ranks)
    reach, fall = 12, Exponentials(Fraction(2, 5), 512)
    for far in (reach, reach + 5):
        exact = math.log(made._rest(far, fall, 512)) - 1024 * math.log(2)
        assert exact - 1e-9 <= made._rest_log(far, fall) <= exact + 1e-6 * abs(exact)


@pytest.mark.parametrize("made", [windows((1, 2)), nested()], ids=["windows", "nested"])
def test_every_level_has_twice_the_bits_of_the_one_before(made: Windows | Nested) -> None:
    def log_width(level: int) -> float:
        low, high = (groups._exact(side[-1]) for side in made.columns(1.5, level, 0))
        return math.log2((high - low) / low)

    found = [log_width(level) for level in range(1, 4)]
    assert found[0] < -128
    assert all(later < 1.9 * before for before, later in pairwise(found))


@pytest.mark.parametrize("top", [-60, 0, 75])
def test_the_rest_over_a_power_of_two_is_the_rest(top: int) -> None:
    made, fall = windows((1, 2)), Exponentials(Fraction(1, 4), 256)
    for reach in (3, 20, 90):
        over = made._rest_over(top, reach, fall)
        assert math.log(over) + top * math.log(2) == pytest.approx(made._rest_log(reach, fall), abs=1e-7)
        assert math.log(over) + top * math.log(2) >= made._rest_log(reach, fall)


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 11])
def test_weights_do_not_depend_on_how_many_are_computed_at_a_time(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Windows, "_expands", lambda self, reach: False)
    expected = windows((1, 2)).rows(1.5, 0)
    monkeypatch.setattr(groups, "_CHUNK", step * len(expected.low))
    # What is never written must not be what an earlier call has left there.
    monkeypatch.setattr(np, "empty", lambda shape, dtype=float: np.full(shape, 7, dtype=dtype))
    found = windows((1, 2)).rows(1.5, 0)
    for side in range(2):
        np.testing.assert_allclose(found[side], expected[side], rtol=1e-12)
    # The same chances as by expanded products, in another unit.
    monkeypatch.undo()
    other = windows((1, 2)).rows(1.5, 0)
    np.testing.assert_allclose(np.array(found.low) / found.low[-1], np.array(other.low) / other.low[-1], rtol=1e-9)


def test_bounds_of_cells_hold_their_weights() -> None:
    made = Cells(np.array([0, 5, 7, 12]), np.array([4, 6, 11, 30]), 1, 1, 2, 3)
    exact = [5, 2, 5, 19]
    falls = [-1 / 1.5, 0.0, -2 / 1.5, -5 / 1.5]
    for level in (0, 2):
        bounds = made.columns(1.5, level, 0)
        sides = [[b - a for a, b in pairwise([0, *map(int, side)])] for side in bounds]
        unit = Fraction(int(sides[0][1]), 2)  # the weight of a place of the best cell
        for low, high, length, fall in zip(*sides, exact, falls, strict=True):
            weight = float(length) * math.exp(fall)
            assert float(low / unit) <= weight * (1 + 1e-12) and float(high / unit) >= weight * (1 - 1e-12)
            assert low < high or fall == 0
