"""Choose a window that holds most rows of a column, anywhere among the floats: one exact selection.

Proof: docs/proofs/private-bounds.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.values import as_int64
from dpstats.release.groups import Runs

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

FINEST = 1 << 20
"""No window is finer than a 2^-20th of its distance from 0."""
SMALLEST, LARGEST = -900, 900
"""Widths are powers of 2 with these exponents: their centers, and clips around them, are floats."""
UTILITY_RANGE = 2
"""A replaced row raises the utility of one candidate by at most 1, and lowers another's by at most 1."""
NOT_FOUND = -1
"""The line of the candidate "not found"."""

_MOST = (11, 20)  # of the rows: a good window holds more, and no window an eighth as wide does
_EIGHTH = 3  # halvings from a window to an inner window
_LEAST = 32  # windows with fewer than this part of the rows count as having it
_ADVANTAGE = 8  # over epsilon: rows by which "not found" exceeds an empty window
_ATOMS = 3  # widths at which zeros count too, with a declared step
_PRIOR = 1 << 61
_NOT_FOUND_WEIGHT = 1 << 60


@dataclass(frozen=True)
class Candidates:
    """The public candidates: windows of width 2^k around j 2^(k-1), by k and j, and "not found".

    A line has the windows of one width. The last `_ATOMS` lines, with a step, count zeros too.

    Attributes
    ----------
    step : float, optional
        Spacing of the data. No window is narrower.
    low, high : float
        Rows are moved to this interval, and windows outside it are left out.
    """

    step: float | None = None
    low: float = -math.inf
    high: float = math.inf

    @property
    def finest(self) -> int:
        """Exponent of the narrowest windows."""
        return SMALLEST if self.step is None else round(math.log2(self.step))

    @cached_property
    def exponents(self) -> Integers:
        """Exponents of the widths of all lines."""
        widest = LARGEST
        if math.isfinite(self.high - self.low):
            # Wider windows hold the same rows.
            widest = min(math.ceil(math.log2(self.high - self.low)) + 2, LARGEST)
        lines = np.arange(self.finest, max(widest, self.finest + _EIGHTH) + 1)
        return as_int64(lines if self.step is None else np.append(lines, self.finest + np.arange(_ATOMS)))

    @property
    def atoms(self) -> int:
        """The first of the lines that count zeros too."""
        return self.exponents.size - (0 if self.step is None else _ATOMS)

    @cached_property
    def runs(self) -> tuple[Integers, Integers, Integers, Integers]:
        """Runs of windows with one prior weight: line, first and last place, and weight of each window."""
        return _public_runs(self)

    @property
    def count(self) -> int:
        """Number of candidates."""
        _, low, high, _ = self.runs
        return int((high - low + 1).sum()) + 1

    def window(self, line: int, place: int) -> tuple[float, float]:
        """Return the center and the width of a window."""
        k = int(self.exponents[line])
        return math.ldexp(place, k - 1), math.ldexp(1.0, k)

    def move(self, x: Floats) -> Floats:
        """Return rows moved to the public interval."""
        return np.asarray(np.clip(x, self.low, self.high))


def _public_runs(candidates: Candidates) -> tuple[Integers, Integers, Integers, Integers]:
    # Weights are constant between powers of 2, so that a line has few runs.
    edges: Integers = as_int64(1 << np.arange(FINEST.bit_length()))
    starts: Integers = np.concatenate([[-FINEST], -np.flip(2 * edges[:-1]) + 1, [-1], [0], edges])
    ends: Integers = np.append(starts[1:] - 1, FINEST)
    size = np.maximum(np.abs(starts), np.abs(ends)).tolist()
    place = np.array([_prior_place(one) for one in size])
    parts = []
    for number, k in enumerate(candidates.exponents.tolist()):
        weight = as_int64(np.maximum(np.floor(_PRIOR * _prior_scale(k, candidates) * place), 1))
        low, high = starts, ends
        if candidates.low > -math.inf:
            low = np.maximum(low, _bin(candidates.low, k - 1))
        if candidates.high < math.inf:
            high = np.minimum(high, _bin(candidates.high, k - 1) + 1)
        some = low <= high
        parts.append((np.full(int(some.sum()), number), low[some], high[some], weight[some]))
    line, low, high, weight = (as_int64(np.concatenate(column)) for column in zip(*parts, strict=True))
    return line, low, high, weight


def _prior_scale(k: int, candidates: Candidates) -> float:
    """Return the prior weight of a width: widths near 1, or near the step, are expected a little more."""
    if candidates.step is None:
        return 1 / (17 * (1 + abs(k) / 8) ** 2)
    return 1 / (3.5 * (1 + (k - candidates.finest) / 2) ** 2)


def _prior_place(size: int) -> float:
    """Return the prior weight of a place: windows near 0 are expected a little more."""
    if size == 0:
        return 1 / 6
    block = size.bit_length() - 1
    depth = block + 1.6
    return 1 / (9 * 2.0**block * depth * math.sqrt(depth))


def _bin(value: float, k: int) -> int:
    """Return the place of a number among bins of width 2^k, within the places of windows."""
    return int(_bins(np.array([value]), k)[0])


def _bins(x: Floats, k: int) -> Integers:
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.floor(np.ldexp(x, -k))
    # A negative number that underflows is still below 0.
    scaled = np.where(x < 0, np.minimum(scaled, -1.0), scaled)
    # Bins further away are in no window.
    return as_int64(np.clip(scaled, -2.0 * FINEST, 2.0 * FINEST))


class _Line(NamedTuple):
    """The windows of a line with more than the least number of rows, in order."""

    places: Integers
    counts: Integers


_EMPTY = _Line(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def window_utilities(x: Floats, candidates: Candidates, epsilon: float) -> Runs:
    """Return all candidates with their utility for the rows of a column: private.

    A good window holds more than 11/20 of the rows that are not 0, and no window an eighth as wide does. A
    replaced row changes either number of rows by at most 1.

    Parameters
    ----------
    x : array of shape (n,)
        Finite rows.
    candidates : Candidates
    epsilon : float
        Privacy parameter of the choice, which sets the utility of "not found".
    """
    x = candidates.move(np.asarray(x, dtype=np.float64))
    every = np.sort(x)
    other = every[every != 0]
    line, low, high, weight = candidates.runs
    most, least = _parts(other.size)
    heavy = _heavy_windows(other, candidates.exponents[: candidates.atoms], least)
    # Utilities of windows without many rows: by line.
    base = np.empty(candidates.exponents.size, dtype=np.int64)
    found: dict[int, _Line] = {}
    for place in range(candidates.atoms):
        windows = heavy.get(place, _EMPTY)
        inner = heavy.get(place - _EIGHTH, _EMPTY).counts
        # Without windows an eighth as wide, there is none that holds many rows.
        fullest = int(inner.max(initial=least)) if place >= _EIGHTH else 0
        base[place] = min(least - most, most - fullest)
        if windows.places.size:
            found[place] = _Line(windows.places, np.minimum(windows.counts - most, most - fullest))
    if candidates.step is not None:
        most_all, least_all = _parts(every.size)
        ties = _heavy_windows(every, candidates.exponents[candidates.atoms :], least_all)
        for place in range(_ATOMS):
            base[candidates.atoms + place] = least_all - most_all
            windows = ties.get(place, _EMPTY)
            found[candidates.atoms + place] = _Line(windows.places, np.minimum(windows.counts - most_all, most_all))
    utility = base[line]
    parts = [_split_runs(line, low, high, weight, utility, place, own) for place, own in sorted(found.items())]
    untouched = ~np.isin(line, list(found))
    parts.append(tuple(column[untouched] for column in (line, low, high, weight, utility)))
    nowhere = least - most + math.ceil(_ADVANTAGE / epsilon)
    parts.append(tuple(np.array([one]) for one in (NOT_FOUND, 0, 0, _NOT_FOUND_WEIGHT, nowhere)))
    line, low, high, weight, utility = (as_int64(np.concatenate(column)) for column in zip(*parts, strict=True))
    return Runs(line, low, high, utility, weight)


def _parts(rows: int) -> tuple[int, int]:
    """Return the number of rows that most rows are, and the least number that a window counts as having."""
    return _MOST[0] * rows // _MOST[1], rows // _LEAST


def _heavy_windows(x: Floats, exponents: Integers, least: int) -> dict[int, _Line]:
    """Return the windows with more than the least number of sorted rows, by line."""
    found: dict[int, _Line] = {}
    if not x.size:
        return found
    size = np.sort(np.abs(x))
    # Bins of narrower windows are too far out for most rows, and wider bins are on either side of 0.
    enough = float(size[min(least, size.size - 1)])
    smallest = math.frexp(enough)[1] - FINEST.bit_length() - 1 if enough else -math.inf
    largest = math.frexp(size[-1])[1] + 1
    both: _Line | None = None
    for place, k in enumerate(exponents.tolist()):
        if k < smallest:
            continue
        if both is None:
            line = _count_windows(_bins(x, k - 1), least)
            both = line if k - 1 > largest else None
        else:
            line = both
        if line.places.size:
            found[place] = line
    return found


def _count_windows(bins: Integers, least: int) -> _Line:
    """Return the windows of two neighboring bins, of sorted rows, that hold more than the least number."""
    first = np.flatnonzero(np.diff(bins, prepend=bins[0] - 1))
    value, count = bins[first], np.diff(np.append(first, bins.size))
    places, inverse = np.unique(np.concatenate([value, value + 1]), return_inverse=True)
    counts = as_int64(np.bincount(inverse, np.concatenate([count, count]), places.size))
    some = (counts > least) & (np.abs(places) <= FINEST)
    return _Line(places[some], counts[some])


def _split_runs(
    line: Integers, low: Integers, high: Integers, weight: Integers, utility: Integers, number: int, own: _Line
) -> tuple[Integers, ...]:
    """Return the runs of a line, split at the windows with many rows."""
    some = slice(*np.searchsorted(line, [number, number + 1]))
    starts, ends = low[some], high[some]
    if not starts.size:
        return tuple(column[some] for column in (line, low, high, weight, utility))
    inside = (own.places >= starts[0]) & (own.places <= ends[-1])
    places, values = own.places[inside], own.counts[inside]
    cuts = np.unique(np.concatenate([starts, places, places + 1]))
    cuts = cuts[cuts <= ends[-1]]
    utilities = np.full(cuts.size, utility[some][0])
    utilities[np.searchsorted(cuts, places)] = values
    weights = weight[some][np.searchsorted(starts, cuts, side="right") - 1]
    return np.full(cuts.size, number), cuts, np.append(cuts[1:] - 1, ends[-1]), weights, utilities


@lru_cache(maxsize=32)
def find_candidates(step: float | None, within: tuple[float, float] | None) -> Candidates:
    """Return the candidates of a step and a public interval, which are computed once."""
    low, high = (-math.inf, math.inf) if within is None else within
    return Candidates(step, low, high)
