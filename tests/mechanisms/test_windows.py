"""Windows that hold most rows: utilities as counted by hand, their change by one row, and weights."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpstats.mechanisms.windows import (
    FINEST,
    LARGEST,
    NOT_FOUND,
    SMALLEST,
    UTILITY_RANGE,
    find_candidates,
    window_utilities,
)

VALUES = (0.0, 1.0, -1.0, 7.0, -1e6, 1e300, -5e-324, 7.001)


def utility_at(runs, line, place):
    here = (runs.line == line) & (runs.low <= place) & (place <= runs.high)
    assert here.sum() == 1
    return int(runs.utility[here][0])


def range_of(first, second):
    """Return the range of the changes of all utilities."""
    keys = [runs.line * (1 << 24) + runs.low for runs in (first, second)]
    order = [np.argsort(key) for key in keys]
    starts = np.union1d(*keys)
    utilities = [
        runs.utility[own][np.searchsorted(key[own], starts, side="right") - 1]
        for runs, key, own in zip((first, second), keys, order, strict=True)
    ]
    change = utilities[1] - utilities[0]
    return int(change.max() - change.min())


def by_hand(x, candidates, line, place):
    """Return the utility of a window of a line without zeros, from a count of every window."""
    x = candidates.move(np.asarray(x))
    x = x[x != 0]
    most, least = 11 * x.size // 20, x.size // 32

    def counts(k):
        bins = [math.floor(math.ldexp(value, 1 - k)) if abs(value) < 1e200 else None for value in x.tolist()]
        found = {}
        for own in bins:
            for j in () if own is None else (own, own + 1):
                if abs(j) <= FINEST:
                    found[j] = found.get(j, 0) + 1
        return found

    k = int(candidates.exponents[line])
    inside = max(counts(k).get(place, 0), least)
    inner = max(least, *counts(k - 3).values(), 0) if line >= 3 else 0
    return min(inside - most, most - inner)


@pytest.mark.parametrize("step", [None, 1.0])
def test_utilities_are_those_counted_by_hand(step):
    rng = np.random.default_rng(0)
    for x in (rng.normal(1000, 1, 80), rng.lognormal(size=64), np.round(rng.normal(3, 2, 70)), [0.0, -2.5] * 20):
        candidates = find_candidates(step, None)
        runs = window_utilities(np.asarray(x), candidates, 0.1)
        lines = [line for line in range(candidates.atoms) if candidates.exponents[line] in (-9, -1, 0, 1, 2, 3, 12)]
        for line in lines:
            k = int(candidates.exponents[line])
            for place in {0, 1, -1, *(math.floor(math.ldexp(v, 1 - k)) + 1 for v in np.asarray(x)[:4].tolist())}:
                if abs(place) <= FINEST:
                    assert utility_at(runs, line, place) == by_hand(x, candidates, line, place)


@pytest.mark.parametrize(("step", "within"), [(None, None), (1.0, None), (0.01, (0.0, math.inf)), (None, (-2.0, 40.0))])
def test_a_row_moves_utilities_within_the_stated_range(step, within):
    candidates = find_candidates(step, within)
    rng, largest = np.random.default_rng(1), 0
    for n in (33,):
        rest = rng.choice(VALUES, n)
        for a, b in itertools.combinations(VALUES, 2):
            runs = [window_utilities(np.append(rest, one), candidates, 0.5) for one in (a, b)]
            moved = range_of(*runs)
            assert moved <= UTILITY_RANGE
            largest = max(largest, moved)
    assert largest == UTILITY_RANGE


def test_a_missing_row_moves_them_within_the_range_too():
    candidates, rest = find_candidates(1.0, None), np.repeat([0.0, 3.0, 900.0], 21)
    for value in VALUES:
        runs = [window_utilities(x, candidates, 0.5) for x in (rest, np.append(rest, value))]
        assert range_of(*runs) <= UTILITY_RANGE


def test_the_set_of_candidates_is_public():
    for step, within in ((None, None), (1.0, None), (None, (0.0, 120.0))):
        candidates = find_candidates(step, within)
        shapes = set()
        for x in ([], [0.0] * 9, [1e-300, 5.0], np.arange(50.0)):
            runs = window_utilities(np.array(x, dtype=float), candidates, 0.1)
            ends = [(int(runs.low[runs.line == k].min()), int(runs.high[runs.line == k].max())) for k in (-1, 0, 9)]
            size = int((runs.high - runs.low + 1).sum())
            weight = sum(((runs.high - runs.low + 1).astype(object) * runs.weight).tolist())
            shapes.add((size, tuple(ends), weight))
            assert weight < 2**62 and runs.weight.min() >= 1 and size == candidates.count
        assert len(shapes) == 1


def test_widths_are_floats_that_a_lattice_holds():
    candidates = find_candidates(None, None)
    assert candidates.exponents[0] == SMALLEST and candidates.exponents[-1] == LARGEST
    assert candidates.window(0, 3) == (3 * 2.0**-901, 2.0**-900)


def test_not_found_wins_where_there_are_no_rows():
    runs = window_utilities(np.zeros(500), find_candidates(None, None), 0.05)
    weight = (runs.high - runs.low + 1) * runs.weight * np.exp((runs.utility - runs.utility.max()) * 0.05 / 2)
    assert weight[runs.line == NOT_FOUND][0] > 0.97 * weight.sum()
